"""Tables and figures from the rows of the study, and what of the paper's findings holds with a small network."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import layout  # in this folder
import networks  # in this folder
import run  # in this folder
import strangers  # in this folder

from caveat._internal.files import replacing_file
from caveat.study.agreement import Agreement, Check, Part, compare_findings
from caveat.study.tables import write_csv

UNCERTIFIED = ("Plain", "CEDA", "OE", "ACET", "GOOD_0")
FASHION, LETTERS, PHOTOS, UNIFORM = strangers.FIRST


def summary(rows: list[dict[str, Any]], out: Path) -> Agreement:
    order = {method: i for i, method in enumerate(networks.METHODS)}
    cells = {cell: i for i, cell in enumerate(run.CELLS)}
    rows = sorted(rows, key=lambda row: (order[row["method"]], cells[row["set"], row["epsilon"]]))
    numbers = [{k: v for k, v in row.items() if k != "kept"} for row in rows]
    write_csv(
        [{k: f"{v:g}" if isinstance(v, float) else v for k, v in row.items()} for row in numbers], out / "results.csv"
    )
    with replacing_file(out / "tables.md") as temporary:
        temporary.write_text(layout.markdown(numbers, radius=run.EPSILON, wider=run.WIDER), encoding="utf-8")
    # The confidences behind the numbers are kept where they were computed; pictures are drawn only there.
    if all(run.cell_path(m, s, run.EPSILON).exists() for m in networks.METHODS for s in strangers.SETS):
        found = {m: {s: run.read_cell(m, s, run.EPSILON)[0] for s in strangers.SETS} for m in networks.METHODS}
        layout.save(layout.histograms(found), out / "histograms.svg")
        layout.save(layout.letters(found), out / "letters.svg")
    return agreement(numbers)


def agreement(rows: list[dict[str, Any]]) -> Agreement:
    """Findings, not numbers: another network and other training outliers."""

    def get(method: str, name: str, what: str = "gauc", epsilon: float = run.EPSILON) -> float:
        (row,) = [r for r in rows if (r["method"], r["set"], r["epsilon"]) == (method, name, epsilon)]
        return 100 * float(row[what])

    def yes(said: str, published: str, low: float, high: float, why: str = "") -> Check:
        return Check(said, published, f"{low:.1f} and {high:.1f}", low < high, why)

    most = max(get(method, name) for method in UNCERTIFIED for name in strangers.SETS)
    wide = [get(method, UNIFORM, epsilon=run.WIDER) for method in ("GOOD_80", "GOOD_100")]
    first = [
        Check("GAUC of methods trained without certificates, at most", "0.0", f"{most:.1f}", most < 0.05),
        *(
            Check(f"GAUC of {method}, uniform noise", "100.0", f"{value:.1f}", value >= 99.95)
            for method, value in ((m, get(m, UNIFORM)) for m in ("GOOD_80", "GOOD_100"))
        ),
        yes("GAUC on Fashion-MNIST: GOOD_80 below GOOD_100", "55.5 and 78.0",
            get("GOOD_80", FASHION), get("GOOD_100", FASHION)),
        yes("GAUC on CIFAR-10: GOOD_80 below GOOD_100", "94.7 and 99.4",
            get("GOOD_80", PHOTOS), get("GOOD_100", PHOTOS)),
        yes("Fashion-MNIST: AAUC of OE below GAUC of GOOD_100", "76.8 and 78.0",
            get("OE", FASHION, "aauc"), get("GOOD_100", FASHION)),
        yes("Fashion-MNIST: AAUC of OE below that of ACET", "76.8 and 98.4",
            get("OE", FASHION, "aauc"), get("ACET", FASHION, "aauc")),
        yes("accuracy: GOOD_100 below Plain", "98.7 and 99.4",
            get("GOOD_100", FASHION, "accuracy"), get("Plain", FASHION, "accuracy")),
        Check("GAUC of CCU, uniform noise", "0.0", f"{get('CCU', UNIFORM):.1f}", get("CCU", UNIFORM) < 0.05,
              "guess: bounds over the box instead of a ball around it; the published ball bound is not valid as "
              "printed"),
        Check("GAUC on letters, best of the paper's methods", "3.4", f"{max(get(m, LETTERS) for m in PAPER):.1f}",
              max(get(m, LETTERS) for m in PAPER) < 5,
              "guess: other training outliers; shuffled digits are closer to letters than photographs are"),
    ]  # fmt: skip
    parts: list[Part] = [
        compare_findings("Tables 1 and 8, radius 0.3", first),
        compare_findings("Table 9, radius 0.4", [
            Check("GAUC on uniform noise, GOOD_80 and GOOD_100", "100.0 and 100.0",
                  " and ".join(f"{value:.1f}" for value in wide), min(wide) >= 99.95),
            yes("GAUC on Fashion-MNIST: GOOD_80 below GOOD_100", "41.9 and 48.8",
                get("GOOD_80", FASHION, epsilon=run.WIDER), get("GOOD_100", FASHION, epsilon=run.WIDER)),
            yes("GAUC of GOOD_100 on Fashion-MNIST falls with the radius", "48.8 and 78.0",
                get("GOOD_100", FASHION, epsilon=run.WIDER), get("GOOD_100", FASHION)),
        ]),
    ]  # fmt: skip
    return Agreement(tuple(parts))


PAPER = tuple(method for method in networks.METHODS if method != "joint")
