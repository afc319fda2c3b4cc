"""Every public name explains itself: one sentence, its parameters, what it returns, and an example that runs.

The sections are those of numpydoc. A class, a result included, describes the arguments of its constructor, which are
its fields, under Parameters. That the examples give what they print is checked where they stand: pytest collects the
doctests of ``src``.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import pkgutil
import re
from collections.abc import Iterator
from functools import cached_property
from typing import Any

import pytest

import caveat

SKIPPED = {"caveat.cli", "caveat.__main__"}  # commands have help texts, which tests/cli reads
OPTIONAL = {"caveat.nn": "torch", "caveat.plots": "matplotlib"}  # packages that import an extra

# Names without an example, and why.
NO_EXAMPLE: dict[str, str] = {}


def packages() -> list[str]:
    found = ["caveat", *(f"caveat.{module.name}" for module in pkgutil.iter_modules(caveat.__path__))]
    public = [name for name in found if name not in SKIPPED and not name.split(".")[-1].startswith("_")]
    return [name for name in public if name not in OPTIONAL or importlib.util.find_spec(OPTIONAL[name])]


def public_names() -> dict[str, Any]:
    """Functions and classes that a public package lists in ``__all__``, each once, under the package that owns it."""
    names: dict[int, tuple[str, Any]] = {}
    for package in packages():
        module = importlib.import_module(package)
        for name in module.__all__:
            thing = getattr(module, name)
            if inspect.isfunction(thing) or inspect.isclass(thing):
                owned = thing.__module__.startswith(package + ".") and package != "caveat"
                if owned or id(thing) not in names:
                    names[id(thing)] = (f"{package}.{name}", thing)
    return dict(names.values())


def public_methods() -> dict[str, Any]:
    """Methods that a public class defines itself, or that a class of the package gives it."""
    methods: dict[int, tuple[str, Any]] = {}
    for name, thing in NAMES.items():
        if not inspect.isclass(thing):
            continue
        for base in thing.__mro__:
            if not base.__module__.startswith("caveat"):
                continue
            for attribute, member in vars(base).items():
                function = member.__func__ if isinstance(member, (classmethod, staticmethod)) else member
                if inspect.isfunction(function) and not attribute.startswith("_"):
                    methods.setdefault(id(function), (f"{name}.{attribute}", (thing, attribute, function)))
    return dict(methods.values())


NAMES = public_names()
METHODS = public_methods()


class Docstring:
    """The parts of a docstring in numpydoc form."""

    def __init__(self, text: str) -> None:
        parts = re.split(r"^(\w[\w ]*)\n-{3,}$", inspect.cleandoc(text), flags=re.MULTILINE)
        self.description = parts[0].strip()
        self.titles = [title.strip() for title in parts[1::2]]
        self.sections = dict(zip(self.titles, (part.strip("\n") for part in parts[2::2]), strict=True))

    @cached_property
    def parameters(self) -> list[str]:
        """Names that the section describes: lines that are not indented, several names with commas."""
        lines = [line for line in self.sections.get("Parameters", "").splitlines() if re.match(r"\S", line)]
        return [name.strip().lstrip("*") for line in lines for name in line.split(" : ")[0].split(",")]

    @property
    def bare_parameters(self) -> list[str]:
        """Names without a word about them."""
        entries = re.findall(r"^(\S.*)\n(?! +\S)", self.sections.get("Parameters", "") + "\n\n", flags=re.MULTILINE)
        return [str(entry) for entry in entries]


def arguments(thing: Any) -> list[str]:
    try:
        parameters = inspect.signature(thing).parameters.values()
    except ValueError:  # an exception without a constructor of its own
        return []
    if inspect.isclass(thing) and [p.kind.name for p in parameters] == ["VAR_POSITIONAL", "VAR_KEYWORD"]:
        return []  # a protocol: nobody constructs it
    return [p.name for p in parameters if p.name not in ("self", "cls")]


def returns_something(function: Any) -> bool:
    # The object itself needs no word; a generator says Yields.
    return inspect.signature(function).return_annotation not in (None, "None", "Self", "NoReturn", inspect.Signature.empty)


def complaints(thing: Any, doc: Docstring, *, method: bool = False) -> Iterator[str]:
    lines = doc.description.splitlines() or [""]
    if not re.search(r"\.$", lines[0]):
        yield "the first line is not a sentence"
    if len(lines) > 1 and lines[1]:
        yield "no empty line after the first"
    if doc.parameters != arguments(thing):
        yield f"parameters {doc.parameters} of the docstring are not those of the signature, {arguments(thing)}"
    if doc.bare_parameters:
        yield f"nothing is said about {doc.bare_parameters}"
    # The first line of a method without arguments says what it returns, as that of a property does.
    plain = inspect.isclass(thing) or (method and not arguments(thing))
    if not plain and returns_something(thing) and not doc.sections.keys() & {"Returns", "Yields"}:
        yield "no Returns section"
    order = ["Parameters", "Returns", "Yields", "Raises", "Examples"]
    if [title for title in order if title in doc.titles] != doc.titles:
        yield f"sections are {doc.titles}, expected some of {order} in this order"


@pytest.mark.parametrize("name", NAMES)
def test_a_public_name_explains_itself(name):
    doc = Docstring(NAMES[name].__doc__ or "")
    problems = list(complaints(NAMES[name], doc))
    if name not in NO_EXAMPLE and ">>> " not in doc.sections.get("Examples", ""):
        problems.append("no example")
    assert not problems


@pytest.mark.parametrize("name", METHODS)
def test_a_public_method_explains_itself(name):
    owner, attribute, function = METHODS[name]
    text = inspect.getdoc(getattr(owner, attribute))  # an overriding method may inherit its docstring
    assert text
    assert not list(complaints(function, Docstring(text), method=True))


def test_exceptions_are_needed():
    assert set(NO_EXAMPLE) <= set(NAMES)
    with_example = [name for name in NO_EXAMPLE if ">>> " in (NAMES[name].__doc__ or "")]
    assert not with_example
