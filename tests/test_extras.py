"""The extras of pyproject.toml are true and minimal: what is imported is declared, and what is declared is imported."""

from __future__ import annotations

import ast
import importlib.metadata
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
TOOLS = ("dev", "docs", "test", "transformers")  # for work on Caveat, not to run it: its models are read without it
OWN_FOLDER = {"examples": ROOT / "examples", "peers": ROOT / "benchmarks"}  # extras of programs beside the package
PACKAGE_OF = {"sklearn": "scikit-learn", "PIL": "pillow", "faiss": "faiss-cpu", "distributed": "dask"}
BROUGHT_BY = {"markupsafe": "jinja2", "starlette": "fastapi", "h11": "uvicorn", "google": "onnx"}
DISTRIBUTION_OF = {"google": "protobuf"}


def names(requirements) -> set[str]:
    return {re.split(r"[\[>=<]", line)[0].lower() for line in requirements}


CORE = names(PROJECT["dependencies"])
EXTRAS = {extra: names(lines) for extra, lines in PROJECT["optional-dependencies"].items() if extra not in TOOLS}
TREES = {path: ast.parse(path.read_text(encoding="utf-8")) for path in sorted(SOURCE.rglob("*.py"))}


def package_of(module: str) -> str:
    """The package that brings a module, or the one that brings that package."""
    top = module.partition(".")[0]
    return PACKAGE_OF.get(top) or BROUGHT_BY.get(top) or top.lower().replace("_", "-")


def imports(node: ast.AST) -> Iterator[str]:
    """Modules of other packages that the code under a node imports, also by name."""
    for part in ast.walk(node):
        modules: list[str] = []
        if isinstance(part, ast.Import):
            modules = [alias.name for alias in part.names]
        elif isinstance(part, ast.ImportFrom) and part.level == 0 and part.module:
            modules = [part.module]
        elif isinstance(part, ast.Call) and getattr(part.func, "attr", "") == "import_module":
            modules = [str(name.value) for name in part.args[:1] if isinstance(name, ast.Constant)]
        elif isinstance(part, ast.Constant) and re.fullmatch(r"pyod\.[\w.]+", str(part.value)):
            modules = [str(part.value)]  # the table of detectors
        for module in modules:
            if module.split(".")[0] not in {*sys.stdlib_module_names, "caveat", "caveat_lab"}:
                yield module


@pytest.mark.parametrize("path", TREES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_what_is_imported_is_declared(path):
    declared = CORE.union(*EXTRAS.values())
    assert {package_of(module) for module in imports(TREES[path])} <= declared


@pytest.mark.parametrize("path", TREES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_only_the_core_is_needed_to_import_a_module(path):
    here = path.relative_to(SOURCE).parts[1].removesuffix(".py")
    nodes = [node for node in TREES[path].body if isinstance(node, (ast.Import, ast.ImportFrom))]
    needed = {package_of(module) for node in nodes for module in imports(node)}
    torch = dict.fromkeys(("nn", "networks", "bounds", "attacks"), EXTRAS["torch"])
    allowed = {**torch, "serve": EXTRAS["serve"] | EXTRAS["postgres"]}.get(here, set())
    assert needed <= CORE | allowed


def test_what_the_core_declares_is_imported():
    imported = {package_of(module) for tree in TREES.values() for module in imports(tree)}
    assert imported >= CORE


@pytest.mark.parametrize("extra", EXTRAS)
def test_what_an_extra_declares_is_imported(extra):
    folder = OWN_FOLDER.get(extra)
    trees = TREES.values() if folder is None else [ast.parse(path.read_text()) for path in folder.rglob("*.py")]
    assert EXTRAS[extra] <= {package_of(module) for tree in trees for module in imports(tree)}
    assert not EXTRAS[extra] & CORE


def missing_extras() -> Iterator[tuple[str, list[str], str]]:
    """(place, modules of a try block, extra that its error names)."""
    for path, tree in TREES.items():
        for node in ast.walk(tree):
            if not isinstance(node, ast.Try):
                continue
            for handler in node.handlers:
                for call in ast.walk(handler):
                    if isinstance(call, ast.Call) and getattr(call.func, "id", "") == "MissingExtraError":
                        extra = next(key.value for key in call.keywords if key.arg == "extra")
                        if isinstance(extra, ast.Constant):
                            modules = sorted({module for part in node.body for module in imports(part)})
                            yield f"{path.relative_to(SOURCE)}:{node.lineno}", modules, extra.value


@pytest.mark.parametrize(("place", "modules", "extra"), list(missing_extras()), ids=lambda value: str(value)[:40])
def test_the_extra_that_an_error_names_brings_what_is_missing(place, modules, extra):
    assert extra in EXTRAS
    assert {package_of(module) for module in modules} <= CORE | EXTRAS[extra]


@pytest.mark.parametrize("module", BROUGHT_BY)
def test_what_is_not_declared_itself_is_required_by_a_package_that_is(module):
    parent = BROUGHT_BY[module]
    try:
        needs = importlib.metadata.requires(parent) or []
    except importlib.metadata.PackageNotFoundError:
        pytest.skip(f"{parent} is not installed")
    assert DISTRIBUTION_OF.get(module, module) in {re.split(r"[^\w-]", line)[0].lower() for line in needs}
