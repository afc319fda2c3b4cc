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
        modules = _modules(pkg)
        public = {
            member.target_path
            for package in modules
            if package.is_init_module
            for name, member in package.members.items()
            if member.is_alias and name in (package.exports or ())
        }
        for module in modules:
            about = module.docstring.value if module.docstring else ""
            _, _, rest = about.partition("\n\n")
            entries = [member for member in module.members.values() if member.path in public and not member.is_alias]
            for entry in entries:
                if entry.docstring and rest:
                    entry.docstring.value = _joined(entry.docstring.value, about, rest, module.path, len(entries))


def _modules(module: griffe.Module) -> list[griffe.Module]:
    below = [part for part in module.modules.values() if not part.is_alias]
    return [module, *(inner for part in below for inner in _modules(part))]


def _joined(text: str, about: str, rest: str, path: str, count: int) -> str:
    """An entry with the text of its file after the first paragraph; folded where many entries share the file."""
    first, _, more = text.partition("\n\n")
    if count > 2:
        folded = "\n".join(f"    {line}" if line else "" for line in about.splitlines())
        rest = f'??? note "About {path}"\n\n{folded}'
    return "\n\n".join(part for part in (first, rest.rstrip(), more) if part)
