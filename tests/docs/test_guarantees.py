from __future__ import annotations

import doctest
import importlib.util
from pathlib import Path

import numpy as np
import pytest

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def figure():
    spec = importlib.util.spec_from_file_location(
        "band_widths", DOCS.parent / "studies" / "band_widths" / "band_widths.py"
    )
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def found(figure):
    return {n: figure.widths(n, 0.05) for n in (1000, 10_000)}


def test_examples_run():
    failed, run = doctest.testfile(str(DOCS / "guarantees.md"), module_relative=False)
    assert (failed, run > 5) == (0, True)


@pytest.mark.parametrize("n", [1000, 10_000])
def test_table_is_what_is_computed(figure, n):
    text = (DOCS / "guarantees.md").read_text(encoding="utf-8")
    for line in figure.rows(n, 0.05):
        assert line in text


def test_what_the_text_says_of_dkwm(found):
    for n, ratio in ((1000, 1.8), (10_000, 1.9)):
        k = n // 20
        assert found[n]["dkwm"][k] / found[n]["exact"][k] == pytest.approx(ratio, abs=0.05)
        assert 3 < found[n]["dkwm"][n // 100] / found[n]["exact"][n // 100] < 6
    narrower = np.flatnonzero(found[1000]["dkwm"][:999] < found[1000]["exact"][:999]) / 1000
    assert (narrower.min(), narrower.max()) == (pytest.approx(0.25, abs=0.03), pytest.approx(0.65, abs=0.03))
    assert found[1000]["dkwm"][500] / found[1000]["exact"][500] == pytest.approx(0.9, abs=0.02)


def test_what_the_text_says_of_simes(found):
    for n, crossing in ((1000, 0.05), (10_000, 0.006)):
        wider = np.flatnonzero(found[n]["exact"][: n // 5] > found[n]["simes"][: n // 5])
        assert wider.max() / n == pytest.approx(crossing, rel=0.1)
    assert found[1000]["simes"][200] > 0.08


def test_what_the_text_says_of_focused(found):
    gain = np.concatenate([1 - found[n]["focused"][: n // 10 + 1] / found[n]["exact"][: n // 10 + 1] for n in found])
    assert (gain.min(), gain.max()) == (pytest.approx(0.13, abs=0.005), pytest.approx(0.22, abs=0.005))
    # a width falls like 1 / sqrt(n), so that a width times (1 - gain) takes n / (1 - gain)^2
    more = 1 / (1 - gain) ** 2 - 1
    assert (more.min(), more.max()) == (pytest.approx(0.3, abs=0.025), pytest.approx(0.65, abs=0.025))
