"""How entries of the API reference are read from the source, as an extension of griffe.

A file has its formula and its paper at the top (house style), so an entry gets the text of its file too. A default
is shown without its check: ``positive(1.0)`` is ``1.0``.
"""

from __future__ import annotations

from typing import Any

import griffe

DECLARED = frozenset({"choice", "count", "flag", "level", "number", "percent", "positive", "share"})


class Entries(griffe.Extension):
    """Texts and defaults as a reader needs them."""

    def on_attribute_instance(self, *, attr: griffe.Attribute, **_: Any) -> None:
        value = attr.value
        if isinstance(value, griffe.ExprCall) and str(value.function) in DECLARED and value.arguments:
            attr.value = value.arguments[0]

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        for module in _modules(pkg):
            about = module.docstring.value if module.docstring else ""
            objects = [
                module[name] for name in module.exports or () if isinstance(name, str) and name in module.members
            ]
            objects = [thing for thing in objects if not thing.is_alias and (thing.is_class or thing.is_function)]
            _, _, rest = about.partition("\n\n")
            for thing in objects:
                if thing.docstring and rest and not module.is_package:
                    thing.docstring.value = _joined(thing.docstring.value, about, rest, module.path, len(objects))


def _modules(module: griffe.Module) -> list[griffe.Module]:
    below = [part for part in module.modules.values() if not part.is_alias]
    return [module, *(inner for part in below for inner in _modules(part))]


def _joined(text: str, about: str, rest: str, path: str, count: int) -> str:
    """The text of the file after the first paragraph: as it is for its only object, else folded."""
    first, _, more = text.partition("\n\n")
    if count > 1:
        folded = "\n".join(f"    {line}" if line else "" for line in about.splitlines())
        rest = f'??? note "About {path}"\n\n{folded}'
    return "\n\n".join(part for part in (first, rest.rstrip(), more) if part)
