"""What users see: exported names exist and are documented, and every example in README and docs runs."""

from __future__ import annotations

import doctest
import functools
import importlib
import importlib.util
import inspect
import pkgutil
import re
import runpy
import shlex
from pathlib import Path

import pytest
import typer

import caveat
from caveat.cli.app import app

ROOT = Path(__file__).parent.parent
PACKAGES = [
    "caveat",
    *(
        f"caveat.{m.name}"
        for m in pkgutil.iter_modules(caveat.__path__)
        if m.ispkg and m.name not in ("nn", "_internal")
    ),
]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
LINKED = [
    *sorted(ROOT.glob("*.md")),
    *(path for part in ("docs", "examples", "studies") for path in sorted((ROOT / part).rglob("*.md"))),
]


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
def test_examples_on_the_page_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # the README reads files; this example makes them
    if page.name == "README.md":
        runpy.run_path(str(ROOT / "examples" / "own_logits.py"))["write_files"](tmp_path)
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    text = page.read_text(encoding="utf-8").replace("```", "")  # the closing fence is not expected output
    if "import torch" in text:
        pytest.importorskip("torch")
    if "import onnxruntime" in text:
        pytest.importorskip("onnx")
        pytest.importorskip("onnxruntime")
    if page.name == "plots.md":
        pytest.importorskip("matplotlib")
    example = doctest.DocTestParser().get_doctest(text, {}, page.name, str(page), 0)
    runner = doctest.DocTestRunner(optionflags=flags)
    runner.run(example)
    assert runner.failures == 0


@pytest.mark.parametrize(
    "page", [*PAGES, ROOT / "examples" / "README.md"], ids=lambda path: str(path.relative_to(ROOT))
)
def test_commands_on_the_page_exist(page):
    commands = typer.main.get_command(app)
    for line in re.findall(r"^(?: {4})?caveat (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE):
        words = shlex.split(line.replace("[", "").replace("]", ""), comments=True)
        command = commands
        while words and words[0] in getattr(command, "commands", {}):
            command = command.commands[words.pop(0)]
        assert not hasattr(command, "commands"), f"{page.name}: there is no command caveat {line}"
        known = {option for parameter in command.params for option in parameter.opts}
        assert {word for word in words if word.startswith("--")} <= known, f"{page.name}: caveat {line}"


@pytest.mark.parametrize("page", LINKED, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
        path, _, anchor = target.partition("#")
        if "://" in target:
            continue
        there = page.parent / path if path else page
        assert there.exists(), f"{page.name} links to {target}"
        if anchor:
            headings = re.findall(r"^#+ (.*)$", there.read_text(encoding="utf-8"), re.MULTILINE)
            assert anchor in {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


ALL = (ROOT / "docs" / "all-of-caveat.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", sorted({*PACKAGES, "caveat.estimators"} - {"caveat.cli"}))
def test_every_public_name_is_on_the_page_of_all(name):
    page = {word for code in re.findall(r"`([^`\n]+)`", ALL) for word in re.findall(r"\w+", code)}
    by_catalogue = {entry.score.__name__ for entry in caveat.scores.catalogue()}  # the page points to `caveat scores`
    assert set(importlib.import_module(name).__all__) - by_catalogue <= page


def test_what_the_page_of_all_names_is_public():
    table = re.findall(r"^\| `(caveat[.\w]*)` \|[^|]*\|(.*)\|$", ALL, re.MULTILINE)
    rest = re.findall(r"\*\*`(caveat[.\w]*)`\*\*(.*?)(?=\*\*`|^## )", ALL, re.MULTILINE | re.DOTALL)
    assert {package for package, _ in table} <= {*PACKAGES, "caveat.estimators", "caveat.nn"}
    for package, text in [*table, *rest]:
        if package == "caveat.nn" and not importlib.util.find_spec("torch"):
            continue
        module = importlib.import_module(package)
        for code in re.findall(r"`([^`\n]+)`", text):
            name = re.match(r"[\w.]*", code.removeprefix("caveat."))[0]
            if name and code not in ("fit", "decision_function", "caveat scores"):
                assert functools.reduce(getattr, name.split("."), module) is not None, f"{package}: {code}"


def test_every_command_is_on_the_page_of_all():
    listed = re.search(r"^Commands: (.*?)\n\n", ALL, re.MULTILINE | re.DOTALL)[1]
    names = {name.split()[0] for name in re.findall(r"`(?:caveat )?(\w[\w ]*)`", listed)}
    assert names == set(typer.main.get_command(app).commands)


def test_the_readme_has_examples():
    assert ">>> " in (ROOT / "README.md").read_text(encoding="utf-8")
