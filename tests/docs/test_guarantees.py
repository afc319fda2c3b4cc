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
    for n, crossing in ((1000, 0.047), (10_000, 0.007)):
        wider = np.flatnonzero(found[n]["exact"][: n // 5] > found[n]["simes"][: n // 5])
        assert wider.max() / n == pytest.approx(crossing, abs=0.003)
    assert found[1000]["simes"][200] > 0.08


def test_what_the_text_says_of_focused(found):
    for n in (1000, 10_000):
        k = np.arange(n // 10 + 1)
        gain = 1 - found[n]["focused"][k] / found[n]["exact"][k]
        assert gain[n // 200 :].min() > 0.11
        assert gain[n // 200 :].max() < 0.21
