"""What users see: exported names exist, are documented, and stand on the page of all of Caveat."""

from __future__ import annotations

import functools
import importlib
import importlib.util
import inspect
import pkgutil
import re
from pathlib import Path

import pytest
import typer

import caveat
import caveat_lab
from caveat.cli.app import app

ROOT = Path(__file__).parent.parent
PACKAGES = [
    "caveat",
    *(
        f"{house.__name__}.{m.name}"
        for house in (caveat, caveat_lab)
        for m in pkgutil.iter_modules(house.__path__)
        if m.ispkg and m.name not in ("nn", "networks", "bounds", "attacks", "_internal", "cli")
    ),
]
TORCH = {"caveat.nn", "caveat_lab.networks", "caveat_lab.bounds", "caveat_lab.attacks"}


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


ALL = (ROOT / "docs" / "all-of-caveat.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", PACKAGES)
def test_every_public_name_is_on_the_page_of_all(name):
    page = {word for code in re.findall(r"`([^`\n]+)`", ALL) for word in re.findall(r"\w+", code)}
    by_catalogue = {entry.score.__name__ for entry in caveat.scores.catalogue()}  # the page points to `caveat scores`
    assert set(importlib.import_module(name).__all__) - by_catalogue <= page


def test_what_the_page_of_all_names_is_public():
    table = re.findall(r"^\| `(caveat[.\w]*)` \|[^|]*\|(.*)\|$", ALL, re.MULTILINE)
    rest = re.findall(r"\*\*`(caveat[.\w]*)`\*\*(.*?)(?=\*\*`|^## )", ALL, re.MULTILINE | re.DOTALL)
    assert {package for package, _ in table} <= {*PACKAGES, *TORCH}
    for package, text in [*table, *rest]:
        if package in TORCH and not importlib.util.find_spec("torch"):
            continue
        module = importlib.import_module(package)
        for code in re.findall(r"`([^`\n]+)`", text):
            name = re.match(r"[\w.]*", re.sub(r"^caveat(_lab)?\.", "", code))[0]
            if name and code not in ("fit", "decision_function", "caveat scores", "caveat reproduce --list"):
                assert functools.reduce(getattr, name.split("."), module) is not None, f"{package}: {code}"


def test_every_command_is_on_the_page_of_all():
    listed = re.search(r"^Commands: (.*?)\n\n", ALL, re.MULTILINE | re.DOTALL)[1]
    names = {name.split()[0] for name in re.findall(r"`(?:caveat )?(\w[\w ]*)`", listed)}
    assert names == set(typer.main.get_command(app).commands)
