"""The page for users of other packages: every name of Caveat on it exists."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path

import pytest

import caveat
from caveat import conformal, results, scores

PAGE = (Path(__file__).parents[2] / "docs" / "coming-from.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| (.*) \| (.*) \|$", PAGE, re.MULTILINE)


def codes(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


@pytest.mark.parametrize("code", sorted({code for _, right in ROWS for code in codes(right) if code[0].isalpha()}))
def test_names_of_caveat_exist(code):
    path = re.match(r"[\w.]+", code)[0].removeprefix("caveat.")
    first, _, rest = path.partition(".")
    if first == "nn" and not find_spec("torch"):
        pytest.skip("torch is not installed")
    if first in ("conformal", "drift", "metrics", "nn", "scores") and rest:
        assert getattr(getattr(caveat, first), rest)
    elif first[0].isupper():
        assert hasattr(conformal, first) or hasattr(results, first) or hasattr(caveat, first)


def test_scores_have_the_names_on_the_page():
    same = next(left for left, right in ROWS if right == "the same names")
    taken = next(left for left, right in ROWS if right == "`scores.make` takes the same names")
    for code in [*codes(same), *codes(taken)]:
        assert scores.make(re.search(r'"(\w+)"', code)[1])
    section = PAGE[PAGE.index("## pytorch-ood") : PAGE.index("## PyOD")]
    detectors = re.findall(r"^\| ((?:`\w+`(?:, )?)+) \| ((?:`\w+`(?:, )?)+) \|$", section, re.MULTILINE)
    assert len(detectors) == 5
    for left, right in detectors:
        assert len(codes(left)) == len(codes(right))
        for name in codes(right):
            assert scores.make(name)
    for name in ("lac", "aps", "raps", "saps", "topk", "margin"):
        assert conformal.SplitSets(name)
