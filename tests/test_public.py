"""What users see: exported names exist and are documented, and every example in README and docs runs."""

from __future__ import annotations

import doctest
import importlib
import inspect
import pkgutil
from pathlib import Path

import pytest

import caveat

ROOT = Path(__file__).parent.parent
PACKAGES = [
    "caveat",
    *(f"caveat.{m.name}" for m in pkgutil.iter_modules(caveat.__path__) if m.ispkg and m.name != "nn"),
]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


@pytest.mark.parametrize("name", PACKAGES)
def test_all_is_sorted_true_and_documented(name):
    module = importlib.import_module(name)
    assert module.__doc__
    assert len(set(module.__all__)) == len(module.__all__)
    for exported in module.__all__:
        thing = getattr(module, exported)
        if inspect.isclass(thing) or inspect.isfunction(thing):
            assert inspect.getdoc(thing), f"{name}.{exported} has no docstring"


def test_submodules_are_reached_from_the_top():
    assert caveat.scores.make("msp")
    assert "scores" in dir(caveat)
    with pytest.raises(AttributeError, match="has no attribute 'score'"):
        caveat.score  # noqa: B018


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_examples_on_the_page_run(page):
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    text = page.read_text(encoding="utf-8").replace("```", "")  # the closing fence is not expected output
    if "import torch" in text:
        pytest.importorskip("torch")
    example = doctest.DocTestParser().get_doctest(text, {}, page.name, str(page), 0)
    runner = doctest.DocTestRunner(optionflags=flags)
    runner.run(example)
    assert runner.failures == 0


def test_the_readme_has_examples():
    assert ">>> " in (ROOT / "README.md").read_text(encoding="utf-8")
