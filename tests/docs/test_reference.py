"""The reference of the site: a page for every public package, every public name and every command with its options."""

from __future__ import annotations

import importlib
import pkgutil
import re
import runpy
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import pytest

import caveat
import caveat_lab

ROOT = Path(__file__).parents[2]
REFERENCE = runpy.run_path(str(ROOT / "docs" / "_site" / "reference.py"))
PACKAGES = REFERENCE["PACKAGES"]
PINNED_TYPER = re.search(r"^typer==(\S+)$", (ROOT / "constraints.txt").read_text(), re.MULTILINE)[1]


def importable() -> list[str]:
    needs_torch = ("caveat.nn", "caveat_lab.networks", "caveat_lab.bounds", "caveat_lab.attacks")
    return [name for name in PACKAGES if not name.startswith(needs_torch) or find_spec("torch")]


def test_every_public_module_has_a_page():
    modules = {
        f"{house.__name__}.{module.name}"
        for house in (caveat, caveat_lab)
        for module in pkgutil.iter_modules(house.__path__)
        if module.name[0] != "_" and module.name != "cli"
    }
    assert {"caveat", *modules} <= set(PACKAGES)


def test_every_page_is_in_the_navigation():
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    listed = re.findall(r"reference/api/([\w.]+)\.md", navigation)
    assert sorted(listed) == sorted(PACKAGES)


@pytest.mark.parametrize("module", importable())
def test_every_public_name_is_on_the_page(module):
    page = REFERENCE["api_page"](module, lambda path: f"Sentence of {path}.")
    entries = set(re.findall(r"^::: ([\w.]+)$", page, re.MULTILINE))
    for name in importlib.import_module(module).__all__:
        path = f"{module}.{name}"
        assert path in entries or f"{path}.md" in page or any(entry.startswith(f"{path}.") for entry in entries), path


def test_names_are_read_as_python_reads_them():
    for module in importable():
        assert REFERENCE["names"](module) == list(importlib.import_module(module).__all__)


def test_every_command_and_option_is_on_the_page():
    page = REFERENCE["commands_page"]()
    assert len(list(REFERENCE["commands"]())) > 20
    for name, command in REFERENCE["commands"]():
        section = page[page.index(f"\n## caveat {name}\n") :].partition("\n## ")[2].partition("\n## ")[0]
        for parameter in command.params:
            if not getattr(parameter, "hidden", False):
                # Older versions of typer lose the help of arguments with click 8.5; the site is built with this one.
                if parameter.param_type_name == "option" or version("typer") == PINNED_TYPER:
                    assert parameter.help, f"caveat {name}: {parameter.name} has no help text"
                assert f"`{parameter.opts[0] if parameter.opts[0][0] == '-' else parameter.name.upper()}`" in section
