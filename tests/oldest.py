"""Print the oldest versions that ``pyproject.toml`` allows, as lines for ``pip install --requirement``.

``make test-oldest`` installs these lines. They are read from the declaration each time: there is no second list to keep
true. Runtime dependencies, extras and the build backend are at exactly their minimum. The tools of the extra ``test``
are at the versions of ``constraints.txt``, because they check Caveat and are not part of it. The extras ``dev``
(linter, type checker), ``docs`` and ``transformers`` (whose models Caveat reads without importing it) are left out.
Python must be the oldest declared version as well.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterable
from itertools import chain
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
_LEFT_OUT = ("dev", "docs", "transformers")
_REQUIREMENT = re.compile(r"(?P<name>[\w.-]+)(?P<extras>\[[\w,.-]+\])?>=(?P<version>[\d.]+)")


def minimums(requirements: Iterable[str]) -> dict[str, str]:
    """The minimum of each requirement: name, with its extras, to version.

    >>> minimums(["numpy>=2.2", "dask[distributed]>=2024.5"])
    {'numpy': '2.2', 'dask[distributed]': '2024.5'}
    """
    versions: dict[str, str] = {}
    for requirement in requirements:
        parts = _REQUIREMENT.fullmatch(requirement)
        if parts is None:
            raise ValueError(f"a requirement must read name>=version, got {requirement!r}.")
        name = parts["name"] + (parts["extras"] or "")
        if versions.setdefault(name, parts["version"]) != parts["version"]:
            raise ValueError(f"{name} has two minimums, {versions[name]} and {parts['version']}. Declare one.")
    return versions


def oldest(declaration: dict[str, Any], constraints: str) -> list[str]:
    """Lines ``name==version`` for the parsed ``pyproject.toml`` and the text of ``constraints.txt``."""
    project = declaration["project"]
    extras = {name: lines for name, lines in project["optional-dependencies"].items() if name not in _LEFT_OUT}
    tools = minimums(extras.pop("test"))
    runtime = chain(declaration["build-system"]["requires"], project["dependencies"], *extras.values())
    pinned = dict(re.findall(r"^([\w.-]+)==(\S+)$", constraints, re.MULTILINE))
    return sorted(f"{name}=={version}" for name, version in [
        *minimums(runtime).items(), *((tool, pinned[tool.partition("[")[0]]) for tool in tools),
    ])  # fmt: skip


def main() -> None:
    declaration = tomllib.loads((ROOT / "pyproject.toml").read_text())
    python = declaration["project"]["requires-python"].removeprefix(">=")
    if python != "{}.{}".format(*sys.version_info):
        sys.exit(f"The oldest versions are tested with Python {python}; this is {sys.version.split()[0]}. "
                 f"Try: make PYTHON=python{python} test-oldest")  # fmt: skip
    lines = oldest(declaration, (ROOT / "constraints.txt").read_text())
    sys.stdout.write("".join(f"{line}\n" for line in lines))


if __name__ == "__main__":
    main()
