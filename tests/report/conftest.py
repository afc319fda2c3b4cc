"""Evaluations and studies to report on: small, seeded."""

from __future__ import annotations

import hashlib
import itertools
import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.special import ndtr, ndtri

from caveat import Head, Outputs, report
from caveat.scores import catalogue
from caveat.study import Evaluation, evaluate
from caveat.study.cells import Cell
from caveat.study.plan import Plan
from caveat.study.schema import make_row
from caveat.study.store import Failure, Store

CLASSES, WIDTH = 4, 6
VOID = {"meta", "br", "wbr", "link", "img", "input", "hr"}


class Page(HTMLParser):
    """A page as flat lists: every tag with its attributes, every table as rows of cells, and all text."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.tables: dict[str, list[list[tuple[dict[str, str | None], str]]]] = {}
        self.stack: list[str] = []
        self.text = ""
        self._rows: list[list[tuple[dict[str, str | None], str]]] | None = None
        self.feed(source)
        assert self.stack == [], "every element is closed"

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        self.tags.append((tag, found))
        if tag not in VOID:
            self.stack.append(tag)
        if tag == "table":
            self._rows = self.tables.setdefault(found.get("id", f"table-{len(self.tables)}"), [])
        elif tag == "tr":
            self._rows.append([])
        elif tag in ("td", "th"):
            self._rows[-1].append((found, ""))

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        if tag not in VOID:
            assert self.stack.pop() == tag

    def handle_data(self, data):
        if {"td", "th"} & set(self.stack):
            attrs, text = self._rows[-1][-1]
            self._rows[-1][-1] = (attrs, text + data)
        if not {"style", "script"} & set(self.stack):
            self.text += data

    def values(self, table: str) -> list[list[float]]:
        return [[float(a["data-value"]) for a, _ in row if "data-value" in a] for row in self.tables[table]]


@pytest.fixture(scope="session")
def parse() -> type[Page]:
    """Reads a page; see ``Page``."""
    return Page


def outputs(seed: int, n: int, *, shift: float = 0.0, labelled: bool = True) -> Outputs:
    """A noisy linear model on clusters; ``shift`` moves the features away from where it was trained."""
    rng = np.random.default_rng(seed)
    centres = 2.2 * np.eye(CLASSES, WIDTH)
    labels = rng.integers(CLASSES, size=n)
    features = centres[labels] + rng.normal(size=(n, WIDTH))
    features[:, -2:] += shift
    head = Head(centres * 1.5 + 0.3 * np.ones((CLASSES, WIDTH)), np.zeros(CLASSES))
    return Outputs(features=features, head=head, labels=labels if labelled else None)


def small(
    outliers: dict[str, float], *, n: int = 400, labelled: bool = True, train: bool = True, **options
) -> Evaluation:
    return evaluate(
        train=outputs(1, 2 * n) if train else None,
        inlier=outputs(2, n, labelled=labelled),
        outliers={
            name: outputs(10 + i, n // 2, shift=shift, labelled=False)
            for i, (name, shift) in enumerate(outliers.items())
        },
        **({"names": ["msp", "energy", "mahalanobis", "knn"]} if train else {}) | options,
    )


def many_scores(evaluation: Evaluation, copies: int) -> Evaluation:
    """The same evaluation with every score under ``copies`` names, ranked in the same order."""

    def names(score: str) -> list[str]:
        return [f"{score}_{i:02d}" for i in range(copies)]

    return replace(
        evaluation,
        detections=tuple(replace(row, score=name) for row in evaluation.detections for name in names(row.score)),
        ranking=tuple(replace(line, score=name) for line in evaluation.ranking for name in names(line.score)),
        misclassifications=tuple(
            replace(row, score=name) for row in evaluation.misclassifications for name in names(row.score)
        ),
        strangeness={name: v for score, v in evaluation.strangeness.items() for name in names(score)},
    )


@pytest.fixture(scope="session")
def run():
    """Evaluates outlier sets given as name -> shift."""
    return small


@pytest.fixture(scope="session")
def evaluation() -> Evaluation:
    return small({"near": 1.0, "far": 2.5}, title="Four clusters")


@pytest.fixture(scope="session")
def unlabelled() -> Evaluation:
    return small({"near": 1.0}, labelled=False, train=False)


@pytest.fixture(scope="session")
def crowd() -> Evaluation:
    """Forty scores, twelve outlier sets."""
    sets = {f"outlier_set_number_{i}": 0.25 * i for i in range(12)}
    return many_scores(small(sets, n=200, title="A crowd"), 10)


@pytest.fixture(scope="session")
def crowd_source(crowd) -> str:
    return report.render_html(crowd)


# -- pages in a browser ------------------------------------------------------------------------------------------------

ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]


@pytest.fixture(scope="module")  # a second one may not start while it runs
def browser() -> Iterator[Any]:
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    path = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if path is None:
        pytest.skip("Chromium is not installed")
    with api.sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
        yield chromium
        chromium.close()


@pytest.fixture
def open_page(browser, pages) -> Iterator[Any]:
    """Opens a page; when the test ends, nothing may have gone wrong in it and nothing may have been fetched."""
    contexts, problems, requests = [], [], []

    def opened(name: str, *, width: int = 1280, scheme: str = "light", scripts: bool = True) -> Any:
        context = browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme=scheme, java_script_enabled=scripts
        )
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: problems.append(message.text))
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("request", lambda request: requests.append(request.url))
        page.goto(pages[name].as_uri())
        return page

    yield opened
    for context in contexts:
        context.close()
    assert problems == []
    assert all(url.startswith("file://") for url in requests)
    assert len(requests) == len(contexts)  # the page itself, once each


# -- stores of studies: invented numbers with the shape of real ones, written through the store itself -----------------

EMPTY = make_row("metric", "")


def quick_row(kind: str, metric: str, value: float, **others) -> dict:
    """As ``make_row``, without its checks: a large store has a million rows."""
    return EMPTY | {"kind": kind, "metric": metric, "value": float(value)} | others


SETS = {"cifar100": "near", "tinyimagenet": "near", "svhn": "mid", "dtd": "mid", "mnist": "far", "noise": "far"}


def score_rows(rng, *, source: str, seed: int, score: str, projection: str, params: str, sets: dict[str, str],
               quality: float, delta: float = 0.05) -> list[dict]:  # fmt: skip
    """Rows of one score cell: Gaussian inliers and outliers, ``quality`` standard deviations apart, more when far."""
    common = {"source": source, "seed": seed, "score": score, "projection": projection, "params": params}
    rows, grid, edges = [], np.linspace(0, 1, 101), np.linspace(-4, 8, 41)
    cdf = ndtr(edges)

    def histogram(metric: str, outlier: str, regime: str, shift: float) -> None:
        shares = [*np.diff(ndtr(edges - shift)), np.nan] if shift else [*np.diff(cdf), np.nan]
        rows.extend(
            quick_row("histogram", metric, share, outlier=outlier, regime=regime, x=x, **common)
            for x, share in zip(edges, shares, strict=True)
        )

    histogram("inlier", "", "", 0.0)
    for i, (outlier, regime) in enumerate(sets.items()):
        shift = max(
            0.05, quality + {"near": 0.0, "mid": 0.6, "far": 1.2, "": 0.5}[regime] + 0.1 * i + rng.normal(0, 0.08)
        )
        where = common | {"outlier": outlier, "regime": regime}
        area = float(ndtr(shift / np.sqrt(2)))
        numbers = {
            "auroc": (area, 0.012, "DeLong"),
            "conformal_auroc": (area, 0.03, "exact band"),
            "fpr95_outlier_positive": (float(ndtr(1.645 - shift)), 0.02, "Clopper-Pearson"),
            "fpr95_inlier_positive": (float(ndtr(1.645 - shift) * 0.9), 0.02, "Clopper-Pearson"),
            "aurc": (0.4 * (1 - area), 0.005, "bootstrap"),
            "augrc": (0.2 * (1 - area) + 0.05, 0.004, "bootstrap"),
        }
        for metric, (value, half, method) in numbers.items():
            rows.append(
                quick_row("metric", metric, value, lower=max(0, value - half), upper=min(1, value + half),
                         level=1 - delta, n=2000, method=method, **where)
            )  # fmt: skip
        tpr = ndtr(shift + ndtri(grid))
        for x, y in zip(grid, tpr, strict=True):
            rows.append(
                quick_row("roc", "tpr", y, x=float(x), lower=max(0.0, y - 0.03), upper=min(1.0, y + 0.03), **where)
            )
            rows.append(quick_row("risk", "selective", 0.5 * x ** (1 + shift), x=x, **where))
        histogram("outlier", outlier, regime, shift)
    for metric in ("aurc", "augrc"):
        value = 0.03 / (0.5 + quality) + abs(rng.normal(0, 0.001))
        rows.append(quick_row("metric", metric, value, lower=value - 0.002, upper=value + 0.002, level=1 - delta,
                             n=2000, method="bootstrap", **common))  # fmt: skip
    rows += [quick_row("risk", "selective", 0.08 * x**quality, x=x, **common) for x in grid]
    return rows


def model_rows(rng, *, source: str, seed: int, sets: dict[str, str], certificates: bool) -> list[dict]:
    """Rows of the cells about the model itself: accuracy, sets, collapse, proximity, and certificates if asked for."""
    common = {"source": source, "seed": seed}
    rows = [quick_row("metric", "accuracy", 0.923, lower=0.91, upper=0.935, level=0.95, n=2000, **common)]
    for method, slope in (("lac", 0.02), ("aps", 0.25)):
        values = {
            "coverage": 0.903,
            "mean_size": 1.2 + slope,
            "t_ss": 0.3 + slope,
            "t_cv": 0.1 - slope / 5,
            "sscv": 0.08,
        }
        rows += [quick_row("sets", name, value, score=method, **common) for name, value in values.items()]
        for x in range(6):
            easy = x / 5
            rows.append(
                quick_row("sets", "size_by_difficulty", 1.1 + slope * 8 * (1 - easy), x=x, score=method, **common)
            )
            rows.append(
                quick_row("sets", "coverage_by_difficulty", 0.82 + 0.12 * easy + slope / 6, x=x, score=method, **common)
            )
        for x, share in enumerate([0.02, 0.75, 0.15, 0.06, 0.02]):
            rows.append(quick_row("sets", "size_hist", share, x=x, score=method, **common))
    for projection in ("none", "global"):
        for name, value in {"equinorm": 0.12, "equiangularity": 0.2, "variability": 1.9, "self_duality": 0.31}.items():
            rows.append(quick_row("collapse", name, value * rng.uniform(0.8, 1.2), projection=projection, **common))
    for outlier, regime in sets.items():
        for name in ("frechet", "mmd", "centroid"):
            rows.append(quick_row("proximity", name, rng.uniform(0.2, 2), outlier=outlier, regime=regime, **common))
    if certificates:
        edges, shares = np.linspace(0, 1, 21), [*(np.ones(20) / 20), np.nan]
        common |= {"params": '{"epsilon": 0.3}'}
        for outlier in ("uniform", "fashion"):
            for name, value in {"auc": 0.99, "aauc": 0.93, "gauc": 0.88, "mean_confidence": 0.4}.items():
                rows.append(quick_row("certificate", name, value, x=0.3, outlier=outlier, **common))
            for x, share in zip(edges, shares, strict=True):
                rows.append(quick_row("histogram", "upper_bound", share, x=x, outlier=outlier, **common))
        for x, share in zip(edges, shares, strict=True):
            rows.append(quick_row("histogram", "inlier", share, x=x, **common))
        for name, value in {"accuracy": 0.98, "mean_confidence": 0.9}.items():
            rows.append(quick_row("certificate", name, value, **common))
    return rows


def make_store(
    folder: Path, *, scores: Mapping[str, float], projections: Sequence[str] = ("none",),
    sets: Mapping[str, str] = SETS, sources: Sequence[str] = ("resnet20",), seeds: Sequence[int] = (0,),
    title: str = "A study", certificates: bool = False,
    failures: Sequence[tuple[str, str]] = (), same_for_all_seeds: bool = False,
) -> Store:  # fmt: skip
    """A store as a run leaves it. ``scores``: name -> quality; ``failures``: (label, message) of cells that failed."""
    store, cells, tables = Store(folder), [], []
    for source, seed in itertools.product(sources, seeds):
        data = {"inlier": hashlib.sha256(source.encode()).hexdigest()}
        for score, projection in itertools.product(scores, projections):
            text = f"{source} {0 if same_for_all_seeds else seed} {score} {projection}"
            rng = np.random.default_rng(list(hashlib.sha256(text.encode()).digest()[:8]))
            label = f"{source}/seed {seed}/{score}/{projection}"
            cells.append(
                Cell("score", {"score": score, "projection": projection, "source": source}, seed, data, label=label)
            )
            quality = scores[score] + 0.05 * list(projections).index(projection)
            tables.append(score_rows(rng, source=source, seed=seed, score=score, projection=projection, params="{}",
                                     sets=dict(sets), quality=quality))  # fmt: skip
        rng = np.random.default_rng(seed)
        cells.append(Cell("sets", {"source": source}, seed, data, label=f"{source}/seed {seed}/model"))
        tables.append(model_rows(rng, source=source, seed=seed, sets=dict(sets), certificates=certificates))
    failed = [Cell("score", {"failed": label}, label=label) for label, _ in failures]
    text = f"title = {json.dumps(title)}\nseeds = {list(seeds)}\n"
    for source in sources:
        text += f"[sources.{json.dumps(source)}]\ninlier = 'test.npz'\n[sources.{json.dumps(source)}.outliers]\n"
        for name, regime in sets.items():
            text += f"{json.dumps(name)} = {{path = 'x.npz'{f', regime = {json.dumps(regime)}' if regime else ''}}}\n"
    plan = Plan.parse(text)
    store.prepare(plan, [*cells, *failed], notes=["msp has no projection 'class'."])
    for cell, rows in zip(cells, tables, strict=True):
        store.write(cell, rows, {"seconds": 1.5, "versions": {"numpy": np.__version__}})
    for cell, (label, message) in zip(failed, failures, strict=True):
        store.write_failure(Failure(cell.key, label, "InputError", message, "Traceback ..."))
    return store


@pytest.fixture(scope="session")
def study_store():
    """Writes a store; see ``make_store``."""
    return make_store


FOUR = {"knn": 1.5, "vim": 1.45, "energy": 1.0, "msp": 0.6}


@pytest.fixture(scope="session")
def small_study(tmp_path_factory) -> Store:
    return make_store(
        tmp_path_factory.mktemp("small") / "run", scores=FOUR, projections=("none", "global"), seeds=(0, 1, 2),
        sources=("resnet20", "vgg13"), title="Four scores", certificates=True,
        failures=[("resnet20/seed 0/nnguide/none", "features has NaN, first at row 3.")],
    )  # fmt: skip


@pytest.fixture(scope="session")
def single_study(tmp_path_factory) -> Store:
    """One model, one seed, one outlier set: nothing to rank over."""
    return make_store(tmp_path_factory.mktemp("single") / "run", scores=FOUR, sets={"svhn": ""}, title="One block")


@pytest.fixture(scope="session")
def large_study(tmp_path_factory):
    """30 scores x 5 projections x 8 outlier sets; a page averages over seeds, so one is as large as three."""
    names = [entry.name for entry in catalogue()][:30]
    sets = SETS | {"places365": "mid", "emnist": "far"}

    def made(seeds: tuple[int, ...]) -> Store:
        return make_store(
            tmp_path_factory.mktemp("large") / "run", scores={name: 0.4 + 0.04 * i for i, name in enumerate(names)},
            projections=("none", "global", "class", "class_pred", "class_avg"), sets=sets, seeds=seeds, title="Large",
        )  # fmt: skip

    return made
