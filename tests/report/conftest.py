"""Findings to report on: small and seeded, with two models, without outliers, with odd names, of certificates."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest

from caveat import Head, Outputs
from caveat.evaluation import Evaluation, evaluate
from caveat.evaluation.findings import CellFacts, FailureFacts, Findings
from caveat.evaluation.records import Block, Certificate
from caveat.guard import Guard
from caveat.guard.replay import Replay, replay
from caveat.results import Estimate

CLASSES, WIDTH = 4, 6
VOID = {"meta", "br", "wbr", "link", "img", "input", "hr"}
SCORES = ("msp", "energy", "max_logit", "mahalanobis", "knn", "residual", "vim")


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
    return Page


def outputs(seed: int, n: int, *, shift: float = 0.0, labeled: bool = True) -> Outputs:
    """A linear classifier on Gaussian classes; ``shift`` moves the features away from all of them."""
    rng = np.random.default_rng(seed)
    head = Head(2.0 * np.eye(CLASSES, WIDTH), np.zeros(CLASSES))
    labels = rng.integers(CLASSES, size=n)
    features = 2 * np.eye(CLASSES, WIDTH)[labels] + rng.normal(size=(n, WIDTH))
    features[:, -1] += shift
    return Outputs(logits=head.logits(features), features=features, labels=labels if labeled else None, head=head)


def measured(seed: int = 0, *, sets=None, labeled: bool = True, title: str = "Small", **options) -> Evaluation:
    sets = {"close": 1.0, "distant": 5.0} if sets is None else sets
    return evaluate(
        train=outputs(10 * seed + 1, 200), calibration=outputs(10 * seed + 2, 120, labeled=labeled),
        inlier=outputs(10 * seed + 3, 100, labeled=labeled), scores=SCORES, seed=seed, title=title,
        outliers={name: outputs(10 * seed + 4 + i, 50, shift=shift) for i, (name, shift) in enumerate(sets.items())},
        **({"regimes": {"close": "near", "distant": "far"}} | options),
    )  # fmt: skip


@pytest.fixture(scope="session")
def evaluation() -> Evaluation:
    return measured(confirm={"elsewhere": outputs(99, 80, shift=3.0)})


@pytest.fixture(scope="session")
def findings(evaluation) -> Findings:
    return evaluation.findings()


@pytest.fixture(scope="session")
def without_outliers() -> Findings:
    return measured(sets={}).findings()


@pytest.fixture(scope="session")
def unlabeled() -> Findings:
    return measured(labeled=False).findings()


def joined(parts: dict[tuple[str, int], Evaluation], **options) -> Findings:
    """Several evaluations as the findings of a study."""
    records, assessments = [], {}
    for (model, seed), found in parts.items():
        assessments[model, seed] = found.assessment
        records += [replace(r, block=replace(r.block, model=model, seed=seed)) for r in found.records]
    cells = [CellFacts(f"{model}-{seed}", model, 1.0, {"caveat": "1.0"}, {f"{model}.npz": "ab" * 32})
             for model, seed in parts]  # fmt: skip
    return Findings(
        "Two models", records, assessments, 0.1, 0.05, 0.05, 0.05, cells=cells, plan="title = 'x'", **options
    )


@pytest.fixture(scope="session")
def study() -> Findings:
    failed = [FailureFacts("k" * 20, "a cell", "ValueError: no")]
    units = [(model, seed) for model in ("resnet", "vgg") for seed in (0, 1)]
    return joined({unit: measured(i) for i, unit in enumerate(units)}, failures=failed, notes=["A note."])


ODD = {"<script>alert(1)</script>": 4.0, "a|b_$x$ & \\input{c}": 2.0, "no_space_in_this" * 9: 1.0}


@pytest.fixture(scope="session")
def odd() -> Findings:
    return measured(sets=ODD, regimes={}, title="<i>odd</i> & co " * 5).findings()


@pytest.fixture(scope="session")
def certified() -> Findings:
    rng = np.random.default_rng(0)
    shares = rng.dirichlet(np.ones(20))
    records = [
        Certificate(Block(model, 0, outlier), "confidence", 0.3, 0.99, 0.97, gauc,
                    Estimate(gauc, gauc - 0.05, gauc, 0.95, 100, "band"), 0.97, 0.2, 0.4, 0.0, 80, 80,
                    np.linspace(0.1, 1, 21), shares, ("a", "b"), np.array([0.2, 0.3]), np.array([0.4, 0.5]))
        for model, values in (("plain", (0.3, 0.6)), ("robust", (0.95, 0.8)))
        for outlier, gauc in zip(("noise", "letters"), values, strict=True)
    ]  # fmt: skip
    return Findings("Certificates", records, {}, np.nan, 0.05, np.nan, np.nan)


def checked_guard() -> Guard:
    guard = Guard(["energy", "mahalanobis"], risk=0.1).fit(outputs(1, 200))
    return guard.calibrate(outputs(2, 600), date="2026-11-18")


@pytest.fixture(scope="session")
def checks() -> dict[str, Replay]:
    """Checks of a guard: quiet, drifted after 300 rows, without labels, with an odd title."""
    guard = checked_guard()
    quiet, drifted = outputs(3, 500), outputs(4, 300, shift=2.5)
    features = np.concatenate([quiet.features[:300], drifted.features])
    labels = np.concatenate([quiet.labels[:300], drifted.labels])
    stream = Outputs(logits=quiet.head.logits(features), features=features, labels=labels, head=quiet.head)
    return {
        "sound": replay(guard, quiet, title="Check of a guard on quiet.npz"),
        "drifted": replay(guard, stream, title="Check of a guard on drifted.npz"),
        "bare": replay(guard, outputs(5, 300, labeled=False), title="<script>alert(1)</script> & co"),
    }


# -- pages in a browser ------------------------------------------------------------------------------------------------


@pytest.fixture
def open_page(browser, pages) -> Iterator[Any]:
    """Opens a page; when the test ends, nothing may have gone wrong in it and nothing may have been fetched."""
    contexts, problems, requests = [], [], []

    def opened(name: str, *, width: int = 1300, scheme: str = "light", scripts: bool = True) -> Any:
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
