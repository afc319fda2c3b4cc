"""Tables and figures from the rows of the study, and what of the paper's findings holds with a small network."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import layout  # in this folder
import networks  # in this folder
import run  # in this folder
import strangers  # in this folder

from caveat._internal.files import replacing_file
from caveat._internal.result_tables import write_csv
from caveat_lab.papers.agreement import Agreement, Check, Part, compare_findings

UNCERTIFIED = ("Plain", "CEDA", "OE", "ACET", "GOOD_0")
FASHION, LETTERS, PHOTOS, UNIFORM = strangers.FIRST
RISING = ("GOOD_20", "GOOD_40", "GOOD_60", "GOOD_80", "GOOD_90", "GOOD_95", "GOOD_100")
SHOWN = {  # rows of the histograms, seven as in the paper
    "MNIST": ("CCU", "GOOD_20", "GOOD_40", "GOOD_60", "GOOD_80", "GOOD_100", "joint"),
    "CIFAR-10": ("Plain", "CEDA", "OE", "ACET", "GOOD_40", "GOOD_80", "GOOD_100"),
}
LETTER_LINES = ("Plain", "CEDA", "OE", "ACET", "CCU", "GOOD_100", "joint")

CCU_WHY = (
    "bounds over the box, pair by pair of Gaussians: by the published ball the same densities have 19.0 instead of "
    "87.6 (bounds_cifar10.csv); guess for the rest: how the published Mahalanobis metric is regularized, by which the "
    "ball has 100.0 or 0.0"
)
SHORT_WHY = (
    "short training and the start from CEDA, tested together: trained longer, GOOD_80 as a new network, the order is "
    "that of the paper (below)"
)
# Published for CIFAR-10, by q: GAUC on outliers as in training (Table 8), mean confidence on CIFAR-10 (Table 4).
PHOTO_GAUC = {20: 16.3, 40: 36.4, 60: 48.7, 80: 55.9, 90: 60.8, 95: 62.0, 100: 66.3}
PHOTO_CONFIDENCE = {20: 78.9, 40: 77.1, 60: 71.7, 80: 64.1, 90: 55.6, 95: 53.1}


def summary(rows: list[dict[str, Any]], out: Path) -> Agreement:
    order = {(task, method): i for task, what in networks.TASKS.items() for i, method in enumerate(what.methods)}
    tasks = list(networks.TASKS)
    cells = {(name, *cell): i for name, task in networks.TASKS.items() for i, cell in enumerate(task.cells)}

    def place(row: dict[str, Any]) -> tuple[int, int, int]:
        task = row["task"]
        return tasks.index(task), order[task, row["method"]], cells[task, row["set"], row["epsilon"]]

    numbers = [{k: v for k, v in row.items() if k != "kept"} for row in sorted(rows, key=place)]
    write_csv(
        [{k: f"{v:g}" if isinstance(v, float) else v for k, v in row.items()} for row in numbers], out / "results.csv"
    )
    with replacing_file(out / "tables.md") as temporary:
        temporary.write_text(layout.markdown(numbers), encoding="utf-8")
    # The confidences behind the numbers are kept where they were computed; pictures are drawn only there.
    for task, methods in SHOWN.items():
        if found := _found(task, methods):
            layout.save(layout.histograms(task, found), out / f"histograms_{networks.TASKS[task].data}.svg")
    if found := _found("MNIST", LETTER_LINES):
        layout.save(layout.letters(found), out / "letters.svg")
    return agreement(numbers)


def _found(task: str, methods: tuple[str, ...]) -> layout.Found:
    """Confidences at the radius of training; empty where one of them is missing."""
    what = networks.TASKS[task]
    if not all(run.cell_path(task, m, s, what.radius).exists() for m in methods for s in what.first):
        return {}
    return {m: {s: run.read_cell(task, m, s, what.radius)[0] for s in what.first} for m in methods}


def agreement(rows: list[dict[str, Any]]) -> Agreement:
    """Findings, not numbers: another network and other training outliers."""
    longer = _longer(_Numbers(rows, "CIFAR-10 longer"))
    return Agreement((*_digits(_Numbers(rows, "MNIST")), *_photographs(_Numbers(rows, "CIFAR-10")), longer))


class _Numbers:
    """The numbers of one task, in percent."""

    def __init__(self, rows: list[dict[str, Any]], task: str) -> None:
        self.name, self.task = task, networks.TASKS[task]
        self.rows = {(r["method"], r["set"], r["epsilon"]): r for r in rows if r["task"] == task}

    def get(self, method: str, name: str, what: str = "gauc", *, wider: bool = False) -> float:
        epsilon = self.task.wider if wider else self.task.radius
        return 100 * float(self.rows[method, name, epsilon][what])

    def along(self, methods: tuple[str, ...], name: str, what: str = "gauc", *, wider: bool = False) -> list[float]:
        return [self.get(method, name, what, wider=wider) for method in methods]

    def most(self, methods: tuple[str, ...]) -> float:
        return max(self.get(method, name) for method in methods for name in self.task.sets)


def _yes(said: str, published: str, low: float, high: float, why: str = "") -> Check:
    return Check(said, published, f"{low:.1f} and {high:.1f}", low < high, why)


def _monotone(said: str, published: str, values: list[float], *, rises: bool, why: str = "") -> Check:
    agrees = all(a < b if rises else a > b for a, b in pairwise(values))
    return Check(said, published, ", ".join(f"{value:.1f}" for value in values), agrees, why)


def _digits(n: _Numbers) -> list[Part]:
    most, paper = n.most(UNCERTIFIED), [m for m in networks.METHODS if m != "joint"]
    wide = [n.get(method, UNIFORM, wider=True) for method in ("GOOD_80", "GOOD_100")]
    letters = max(n.get(method, LETTERS) for method in paper)
    first = [
        Check(f"{n.name}: GAUC of methods without certificates, at most", "0.0", f"{most:.1f}", most < 0.05),
        *(
            Check(f"GAUC of {method}, uniform noise", "100.0", f"{value:.1f}", value >= 99.95)
            for method, value in ((m, n.get(m, UNIFORM)) for m in ("GOOD_80", "GOOD_100"))
        ),
        _yes("GAUC on Fashion-MNIST: GOOD_80 below GOOD_100", "55.5 and 78.0",
             n.get("GOOD_80", FASHION), n.get("GOOD_100", FASHION)),
        _yes("GAUC on CIFAR-10: GOOD_80 below GOOD_100", "94.7 and 99.4",
             n.get("GOOD_80", PHOTOS), n.get("GOOD_100", PHOTOS)),
        _monotone("GAUC on notMNIST rises with q = 20, 40, 60, 80, 90, 95", "19.3, 44.7, 76.2, 96.7, 99.2, 99.5",
                  n.along(RISING[:-1], "notMNIST"), rises=True),
        _yes("Fashion-MNIST: AAUC of OE below GAUC of GOOD_100", "76.8 and 78.0",
             n.get("OE", FASHION, "aauc"), n.get("GOOD_100", FASHION)),
        _yes("Fashion-MNIST: AAUC of OE below that of ACET", "76.8 and 98.4",
             n.get("OE", FASHION, "aauc"), n.get("ACET", FASHION, "aauc")),
        _yes("accuracy: GOOD_100 below Plain", "98.7 and 99.4",
             n.get("GOOD_100", FASHION, "accuracy"), n.get("Plain", FASHION, "accuracy")),
        Check("MNIST: GAUC of CCU, uniform noise", "0.0", f"{n.get('CCU', UNIFORM):.1f}", n.get("CCU", UNIFORM) < 0.05,
              "bounds over the box, pair by pair of Gaussians; with the published ball around the box the "
              "same densities have 0.0 (bounds.csv)"),
        Check("GAUC on letters, best of the paper's methods", "3.4", f"{letters:.1f}", letters < 5,
              "not the training outliers: with photographs, as in the paper, it is 33.5 (causes.csv); guess: a smaller "
              "network"),
    ]  # fmt: skip
    return [
        compare_findings("Tables 1 and 8, MNIST, radius 0.3", first),
        compare_findings("Table 4, MNIST", [
            _monotone("mean upper bound on Fashion-MNIST falls with q = 20, 40, 60, 80, 90, 95, 100",
                      "93.0, 76.8, 66.0, 55.1, 47.5, 42.6, 40.8",
                      n.along(RISING, FASHION, "mean_upper_bound"), rises=False),
            _monotone("mean confidence on MNIST falls with q = 20, 40, 60, 80, 90, 95, 100",
                      "99.5, 99.3, 99.2, 99.0, 98.8, 98.7, 98.4",
                      n.along(RISING, FASHION, "mean_inlier_confidence"), rises=False,
                      why="guess: chance of one training each: q = 40 and 60 differ by 0.03 points, all others fall"),
        ]),
        compare_findings("Table 9, MNIST, radius 0.4", [
            Check("radius 0.4, GAUC on uniform noise, GOOD_80 and GOOD_100", "100.0 and 100.0",
                  " and ".join(f"{value:.1f}" for value in wide), min(wide) >= 99.95),
            _yes("radius 0.4, GAUC on Fashion-MNIST: GOOD_80 below GOOD_100", "41.9 and 48.8",
                 n.get("GOOD_80", FASHION, wider=True), n.get("GOOD_100", FASHION, wider=True)),
            _yes("GAUC of GOOD_100 on Fashion-MNIST falls with the radius", "48.8 and 78.0",
                 n.get("GOOD_100", FASHION, wider=True), n.get("GOOD_100", FASHION)),
            _monotone("radius 0.4, GAUC on Fashion-MNIST rises with q = 20, 40, 60, 80, 90, 95",
                      "3.6, 18.5, 30.6, 41.9, 45.5, 49.0", n.along(RISING[:-1], FASHION, wider=True), rises=True),
        ]),
    ]  # fmt: skip


def _photographs(n: _Numbers) -> list[Part]:
    """80 Million Tiny Images of the paper, seen in training as a distribution, are TinyImageNet here."""
    most, seen, smooth = n.most(UNCERTIFIED), "TinyImageNet", "Smooth noise"
    why = "guess: the network is too small; the outliers' loss lowers every confidence, of inliers too"
    kept = [n.get("GOOD_80", name, wider=True) / max(n.get("GOOD_80", name), 1e-9) for name in n.task.first]
    ccu, steps = n.get("CCU", UNIFORM), tuple(f"GOOD_{q}" for q in PHOTO_GAUC)
    names = ", ".join(map(str, PHOTO_GAUC))
    return [
        compare_findings("Tables 1 and 8, CIFAR-10, radius 0.01", [
            Check(f"{n.name}: GAUC of methods without certificates, at most", "0.0", f"{most:.1f}", most < 0.05),
            Check("CIFAR-10: GAUC of CCU, uniform noise", "0.0", f"{ccu:.1f}", ccu < 0.05, CCU_WHY),
            _monotone(f"GAUC on the kind of outliers seen in training rises with q = {names}",
                      ", ".join(map(str, PHOTO_GAUC.values())), n.along(steps, seen), rises=True, why=why),
            _monotone("AUC on it falls with q = 40, 80, 100", "94.8, 93.1, 78.7",
                      n.along(("GOOD_40", "GOOD_80", "GOOD_100"), seen, "auc"), rises=False, why=why),
            _yes("the same outliers: AAUC of OE below GAUC of GOOD_80", "20.5 and 55.9",
                 n.get("OE", seen, "aauc"), n.get("GOOD_80", seen), SHORT_WHY),
            _yes("smooth noise: AAUC of OE below GAUC of GOOD_80", "11.3 and 59.4",
                 n.get("OE", smooth, "aauc"), n.get("GOOD_80", smooth), why),
            _yes("outliers as in training: AAUC of OE below that of ACET", "20.5 and 88.8",
                 n.get("OE", seen, "aauc"), n.get("ACET", seen, "aauc")),
        ]),
        compare_findings("Table 4, CIFAR-10", [
            _monotone(f"mean confidence on CIFAR-10 falls from Plain to OE and with q = {names.removesuffix(', 100')}",
                      "95.1, 85.1, " + ", ".join(map(str, PHOTO_CONFIDENCE.values())),
                      n.along(("Plain", "OE", *steps[:-1]), seen, "mean_inlier_confidence"), rises=False, why=why),
            _yes("mean upper bound on uniform noise: GOOD_80 below OE", "12.3 and 100.0",
                 n.get("GOOD_80", UNIFORM, "mean_upper_bound"), n.get("OE", UNIFORM, "mean_upper_bound")),
        ]),
        compare_findings("Table 9, CIFAR-10, radius 0.03", [
            Check("GAUC of GOOD_80 at three times the radius, as a share, on four sets", "0.74 to 1.00",
                  f"{min(kept):.2f} to {max(kept):.2f}", min(kept) > 0.5, why),
            _monotone("GAUC on uniform noise rises from OE to GOOD_40 and GOOD_80", "0.0, 89.8, 95.1",
                      n.along(("OE", "GOOD_40", "GOOD_80"), UNIFORM, wider=True), rises=True, why=why),
        ]),
    ]  # fmt: skip


def _longer(n: _Numbers) -> Part:
    """CIFAR-10 once more, with four methods that are trained longer."""
    seen = "TinyImageNet"
    why = "guess: the network is too small"
    row = n.rows["OE", seen, n.task.radius]
    interval = f"{100 * row['aauc_lower']:.1f} to {100 * row['aauc_upper']:.1f}"
    return compare_findings("Tables 1 and 8, CIFAR-10, trained longer", [
        _yes("trained longer, outliers as in training: AAUC of OE below GAUC of GOOD_80", "20.5 and 55.9",
             n.get("OE", seen, "aauc"), n.get("GOOD_80", seen), f"{why}; the interval of AAUC is {interval}"),
        _yes("trained longer, smooth noise: AAUC of OE below GAUC of GOOD_80", "11.3 and 59.4",
             n.get("OE", "Smooth noise", "aauc"), n.get("GOOD_80", "Smooth noise"), why),
        _yes("trained longer, outliers as in training: AAUC of OE below that of GOOD_80", "20.5 and 62.8",
             n.get("OE", seen, "aauc"), n.get("GOOD_80", seen, "aauc")),
        _yes("trained longer, outliers as in training: AAUC of OE below that of CEDA", "20.5 and 49.6",
             n.get("OE", seen, "aauc"), n.get("CEDA", seen, "aauc")),
    ])  # fmt: skip
