"""Every public name explains itself: one sentence, its parameters, what it returns, and an example that runs.

The sections are those of numpydoc. A class, a result included, describes the arguments of its constructor, which are
its fields, under Parameters. That the examples print what they say is checked where they stand: pytest collects the
doctests of ``src``.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import pkgutil
import re
from collections.abc import Iterator
from typing import Any

import pytest

import caveat
import caveat_lab

SKIPPED = {"caveat.cli", "caveat.__main__", "caveat_lab.cli"}  # commands have help texts, which tests/cli reads
TORCH = ("caveat.nn", "caveat_lab.networks", "caveat_lab.bounds", "caveat_lab.attacks")
OPTIONAL = dict.fromkeys(TORCH, "torch") | {"caveat.plots": "matplotlib"}  # packages that import an extra
PARTS = (
    "caveat.conformal.idealised",
    "caveat.nn.ease",
    "caveat_lab.networks.architectures",
    "caveat_lab.networks.training",
)
ORDER = ["Parameters", "Attributes", "Returns", "Yields", "Raises", "Examples"]

# Names without an example, and why.
NO_EXAMPLE = {
    "caveat.serve.Model": "needs onnx and onnxruntime, which an installation with the extra serve may lack",
    "caveat.serve.run": "serves until a signal ends it",
}


def packages() -> list[str]:
    """Public modules of the package, and those that they name as their parts."""
    below = [
        f"{house.__name__}.{module.name}"
        for house in (caveat, caveat_lab)
        for module in pkgutil.iter_modules(house.__path__)
    ]
    public = [name for name in below if name not in SKIPPED and "._" not in name]
    extras = {name: OPTIONAL.get(".".join(name.split(".")[:2])) for name in ["caveat", *public, *PARTS]}
    return [name for name, extra in extras.items() if extra is None or importlib.util.find_spec(extra)]


def public_names() -> dict[str, Any]:
    """Functions and classes that a public module lists in ``__all__``, each once, under the module that owns it."""
    names: dict[int, tuple[str, Any]] = {}
    for package in packages():
        module = importlib.import_module(package)
        for name in module.__all__:
            thing = getattr(module, name)
            if inspect.isfunction(thing) or inspect.isclass(thing):
                owned = thing.__module__.startswith(package) and package != "caveat"
                if owned or id(thing) not in names:
                    names[id(thing)] = (f"{package}.{name}", thing)
    return dict(names.values())


def public_methods() -> dict[str, tuple[type, str, Any]]:
    """Methods of public classes, each once; those of other packages, such as torch, are left out."""
    methods: dict[int, tuple[str, tuple[type, str, Any]]] = {}
    for name, thing in NAMES.items():
        for base in inspect.getmro(thing) if inspect.isclass(thing) else ():
            for attribute, member in vars(base).items() if base.__module__.startswith("caveat") else ():
                function = member.__func__ if isinstance(member, (classmethod, staticmethod)) else member
                own = getattr(function, "__qualname__", "") == f"{base.__qualname__}.{attribute}"  # not a default value
                if inspect.isfunction(function) and own and (attribute == "__call__" or attribute[0] != "_"):
                    methods.setdefault(id(function), (f"{name}.{attribute}", (thing, attribute, function)))
    return dict(methods.values())


NAMES = public_names()
METHODS = public_methods()


class Docstring:
    """The parts of a docstring in numpydoc form."""

    def __init__(self, text: str) -> None:
        parts = re.split(r"^(\w+)\n-{3,}$", inspect.cleandoc(text), flags=re.MULTILINE)
        self.description = parts[0].strip()
        self.titles = parts[1::2]
        self.sections = dict(zip(self.titles, (part.strip("\n") for part in parts[2::2]), strict=True))
        self.parts = {"description": self.description, **self.sections}

    @property
    def parameters(self) -> list[str]:
        """Names that the section describes: lines that are not indented, several names with commas."""
        lines = [line for line in self.sections.get("Parameters", "").splitlines() if re.match(r"\S", line)]
        return [name.strip() for line in lines for name in line.split(",")]

    @property
    def bare(self) -> list[str]:
        """Entries without a word about them."""
        both = [self.sections.get(title, "").splitlines() for title in ("Parameters", "Returns", "Yields")]
        pairs = [(line, after) for lines in both for line, after in zip(lines, [*lines[1:], ""], strict=False)]
        return [line for line, after in pairs if re.match(r"\S", line) and not re.match(r" +\S", after)]


def arguments(thing: Any) -> list[str]:
    try:
        parameters = inspect.signature(thing).parameters.values()
    except ValueError:  # an exception without a constructor of its own
        return []
    if inspect.isclass(thing) and [p.kind.name for p in parameters] == ["VAR_POSITIONAL", "VAR_KEYWORD"]:
        return []  # a protocol: nobody constructs it
    stars = {"VAR_POSITIONAL": "*", "VAR_KEYWORD": "**"}
    return [stars.get(p.kind.name, "") + p.name for p in parameters if p.name not in ("self", "cls")]


def must_say_what_it_returns(thing: Any, *, method: bool) -> bool:
    # The first line of a method without arguments says what it returns, as that of a property does.
    if inspect.isclass(thing) or (method and not arguments(thing)):
        return False
    return inspect.signature(thing).return_annotation not in (None, "None", "Self", "NoReturn")


def complaints(thing: Any, doc: Docstring, *, method: bool = False) -> Iterator[str]:
    first, *rest = doc.description.splitlines() or [""]
    if not first.endswith("."):
        yield "the first line is not a sentence"
    if rest and rest[0]:
        yield "the first sentence takes more than a line"
    if doc.parameters != arguments(thing):
        yield f"parameters {doc.parameters} of the docstring are not those of the signature, {arguments(thing)}"
    if must_say_what_it_returns(thing, method=method) and not doc.sections.keys() & {"Returns", "Yields"}:
        yield "no Returns section"
    if doc.bare:
        yield f"nothing is said about {doc.bare}"
    if [title for title in ORDER if title in doc.titles] != doc.titles:
        yield f"sections are {doc.titles}, expected some of {ORDER} in this order"
    if any(">>> " in part for title, part in doc.parts.items() if title != "Examples"):
        yield "an example outside the section Examples"


def has_example(doc: Docstring) -> bool:
    example = doc.sections.get("Examples", "")
    return ">>> " in example and "+SKIP" not in example


@pytest.mark.parametrize("name", NAMES)
def test_a_public_name_explains_itself(name):
    doc = Docstring(NAMES[name].__doc__ or "")
    assert not list(complaints(NAMES[name], doc))
    assert has_example(doc) or name in NO_EXAMPLE


@pytest.mark.parametrize("name", METHODS)
def test_a_public_method_explains_itself(name):
    owner, attribute, function = METHODS[name]
    text = inspect.getdoc(getattr(owner, attribute))  # an overriding method may inherit its docstring
    assert not list(complaints(function, Docstring(text or ""), method=True))


def test_the_exceptions_have_no_example():
    assert set(NO_EXAMPLE) <= set(NAMES)
    assert not [name for name in NO_EXAMPLE if has_example(Docstring(NAMES[name].__doc__ or ""))]


GOOD = """Share of a in b.

Parameters
----------
a, b
    Numbers.

Returns
-------
float
    The share.
"""


def share(a: float, b: float) -> float:
    return a / b


def test_a_complete_docstring_gives_no_complaint():
    assert not list(complaints(share, Docstring(GOOD)))


@pytest.mark.parametrize(
    ("old", "new", "key_word"),
    [
        ("b.\n", "b\n", "sentence"),
        ("b.\n", "b.\nMore.\n", "more than a line"),
        ("a, b", "b, a", "signature"),
        ("a, b", "a", "signature"),
        ("a, b", "a, b, c", "signature"),
        ("    Numbers.\n", "", "nothing is said"),
        ("    The share.\n", "", "nothing is said"),
        (GOOD[GOOD.index("Returns") :], "", "no Returns"),
        ("    The share.\n", "    The share.\n\n>>> share(1, 2)\n0.5\n", "outside"),
        ("Parameters\n----------", "Raises\n------\nInputError\n    Never.\n\nParameters\n----------", "in this order"),
    ],
)
def test_what_is_missing_is_named(old, new, key_word):
    assert old in GOOD
    assert any(key_word in complaint for complaint in complaints(share, Docstring(GOOD.replace(old, new))))
