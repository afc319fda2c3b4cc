"""The lower bounds of pyproject.toml: what `make test-oldest` installs is what is declared, and it can be imported."""

from __future__ import annotations

import importlib
import importlib.metadata
import re
import runpy
import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DECLARED = tomllib.loads((ROOT / "pyproject.toml").read_text())
SCRIPT = runpy.run_path(str(ROOT / "tests" / "oldest.py"))
EXTRAS = DECLARED["project"]["optional-dependencies"]
RUNTIME = [
    *DECLARED["project"]["dependencies"],
    *(line for name, lines in EXTRAS.items() if name not in ("dev", "docs", "transformers", "test") for line in lines),
]


@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="the oldest versions are those for Python 3.11")
def test_every_minimum_is_installed_as_declared():
    script = [sys.executable, str(ROOT / "tests" / "oldest.py")]
    lines = subprocess.run(script, capture_output=True, text=True, check=True, timeout=60).stdout.split()
    expected = {line.replace(">=", "==") for line in [*DECLARED["build-system"]["requires"], *RUNTIME]}
    pins = dict(re.findall(r"^([\w.-]+)==(\S+)$", (ROOT / "constraints.txt").read_text(), re.MULTILINE))
    names = [tool.partition(">=")[0] for tool in EXTRAS["test"]]
    tools = {f"{name}=={pins[name.partition('[')[0]]}" for name in names}
    assert set(lines) == expected | tools
    assert len(lines) == len(set(lines))


@pytest.mark.skipif(sys.version_info[:2] == (3, 11), reason="this is the oldest Python")
def test_a_later_python_is_not_taken_for_the_oldest():
    with pytest.raises(SystemExit, match=r"python3\.11"):
        SCRIPT["main"]()


def test_by_hand():
    declaration = {
        "build-system": {"requires": ["hatchling>=1.27"]},
        "project": {
            "dependencies": ["numpy>=2.2"],
            "optional-dependencies": {
                "scale": ["dask[distributed]>=2024.5"],
                "again": ["numpy>=2.2"],
                "test": ["pytest>=8"],
                "dev": ["caveat[test]", "ruff>=0.9"],
            },
        },
    }
    lines = SCRIPT["oldest"](declaration, "# pins\nnumpy==2.4.6\npytest==9.2.0\nruff==0.17.4\n")
    assert lines == ["dask[distributed]==2024.5", "hatchling==1.27", "numpy==2.2", "pytest==9.2.0"]


@pytest.mark.parametrize("line", ["numpy", "numpy<3", "numpy>=2.2,<3", "numpy>=2.2; sys_platform == 'linux'"])
def test_a_requirement_without_a_plain_minimum_is_refused(line):
    with pytest.raises(ValueError, match="name>=version"):
        SCRIPT["minimums"]([line])


def test_two_minimums_of_one_package_are_refused():
    with pytest.raises(ValueError, match="two minimums"):
        SCRIPT["minimums"](["torch>=2.2", "torch>=2.13.0"])


def test_the_pins_are_at_least_the_minimums():
    minimums = SCRIPT["minimums"](RUNTIME)
    pins = re.findall(r"^([\w.-]+)==([\d.]+)$", (ROOT / "constraints.txt").read_text(), re.MULTILINE)
    numbers = {name: [int(part) for part in version.split(".")] for name, version in pins}
    shared = [name for name in minimums if name in numbers]
    assert len(shared) > 15
    for name in shared:
        assert numbers[name] >= [int(part) for part in minimums[name].split(".")], name


@cache
def modules() -> dict[str, list[str]]:
    """The modules that each installed distribution brings."""
    brought: dict[str, list[str]] = {}
    for module, distributions in importlib.metadata.packages_distributions().items():
        for name in distributions:
            brought.setdefault(name.lower().replace("_", "-"), []).append(module)
    return brought


@pytest.mark.parametrize("name", sorted({re.split(r"[\[>]", line)[0] for line in RUNTIME}))
def test_declared_packages_can_be_imported_together(name):
    # An old package may install and still fail at its first import with the newest versions of what it needs.
    public = [module for module in modules().get(name, []) if module.isidentifier() and not module.startswith("_")]
    if not public:
        pytest.skip(f"{name} is not installed")
    for module in public:
        importlib.import_module(module)
