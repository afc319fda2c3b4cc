"""The files around the code say the same as the code: versions, targets, tools, form of the change log."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

import caveat

yaml = pytest.importorskip("yaml")

ROOT = Path(__file__).parents[1]
DECLARED = tomllib.loads((ROOT / "pyproject.toml").read_text())
CHANGES = (ROOT / "CHANGELOG.md").read_text()
KINDS = ["Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"]


def page(name: str):
    return yaml.safe_load((ROOT / name).read_text())


def targets() -> set[str]:
    """Targets of the Makefile; a pattern counts for the later versions of Python."""
    names = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    return names | {f"test-python-{version}" for version in pythons()}


def pythons() -> list[str]:
    prefix = "Programming Language :: Python :: "
    return [line.removeprefix(prefix) for line in DECLARED["project"]["classifiers"] if line.startswith(prefix)]


def test_the_workflow_runs_every_python_the_oldest_versions_the_core_and_the_wheel():
    jobs = page(".github/workflows/ci.yml")["jobs"]
    tested = jobs["test"]["strategy"]["matrix"]["include"]
    assert [job["python"] for job in tested] == pythons()
    others = jobs["other"]["strategy"]["matrix"]["target"]
    assert {"test-oldest", "test-core", "test-wheel", "coverage"} <= set(others)
    assert {job["target"] for job in tested} | set(others) <= targets()
    for job in jobs.values():
        assert job["steps"][-1]["run"] == "make ${{ matrix.target }}"


def test_a_commit_is_checked_by_the_tools_of_make_lint():
    pins = dict(re.findall(r"^([\w.-]+)==(\S+)$", (ROOT / "constraints.txt").read_text(), re.MULTILINE))
    hooks = {hook["id"]: hook for repo in page(".pre-commit-config.yaml")["repos"] for hook in repo["hooks"]}
    assert hooks.keys() == {"format", "lint", "types"}
    for name in ("format", "lint"):
        assert hooks[name]["additional_dependencies"] == [f"ruff=={pins['ruff']}"]
    commands = re.findall(r"\$\(BIN\)/(ruff \w+)", (ROOT / "Makefile").read_text().split("\nlint:")[1].split("\n\n")[0])
    assert [hooks[name]["entry"].removesuffix(" --force-exclude") for name in ("format", "lint")] == commands
    assert hooks["types"]["entry"] == "make types"


def test_every_template_of_an_issue_asks_for_something():
    for path in sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml")):
        if path.name != "config.yml":
            form = yaml.safe_load(path.read_text())
            assert {"name", "description", "body"} <= form.keys()
            assert any(part.get("validations", {}).get("required") for part in form["body"])


def test_the_citation_names_this_version():
    citation = page("CITATION.cff")
    assert citation["version"] == caveat.__version__
    assert citation["license"] == DECLARED["project"]["license"]
    assert {"cff-version", "message", "title", "authors"} <= citation.keys()


def test_the_change_log_keeps_its_form():
    releases = re.findall(r"^## \[(.+?)\] - (\S+)$", CHANGES, re.MULTILINE)
    assert len(releases) == len(re.findall(r"^## ", CHANGES, re.MULTILINE))
    assert releases[0][0] == caveat.__version__
    for version, day in releases:
        assert re.fullmatch(r"\d+\.\d+\.\d+", version)
        assert re.fullmatch(r"\d{4}-\d\d-\d\d|Unreleased", day)
    for release in re.split(r"^## ", CHANGES, flags=re.MULTILINE)[1:]:
        kinds = re.findall(r"^### (.+)$", release, re.MULTILINE)
        assert kinds
        assert kinds == [kind for kind in KINDS if kind in kinds]  # each once, in this order
    assert "Semantic Versioning" in CHANGES
