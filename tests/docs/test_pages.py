"""Every page: its Python runs and prints what the page shows, its commands exist, its links lead somewhere.

A page runs from top to bottom in one empty folder. ``python`` blocks are doctests. A block with a title is the file of
that name. Lines ``caveat ...`` in ``sh`` blocks are run, and a ``text`` block right after them shows what they print.
Indented commands are only compared with the options that exist.
"""

from __future__ import annotations

import doctest
import re
import runpy
import shlex
from importlib.util import find_spec
from pathlib import Path

import pytest
import typer

from caveat.cli import main
from caveat.cli.app import app

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
LINKED = [
    *sorted(ROOT.glob("*.md")),
    *(path for part in ("docs", "examples", "studies") for path in sorted((ROOT / part).rglob("*.md"))),
]
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE

# Python that is not a doctest, by page: the test that runs it, or why it is not run.
RUN_ELSEWHERE = {
    "certificates.md": "test_certificates.py",
    "certified-training.md": "test_certified_training.py",
    "serving.md": "test_serving.py",
    "studies.md": "test_studies.py",
    "training.md": "test_training.py",
}
NOT_RUN = {
    "benchmarks.md": "Lines of other packages that break a promise. benchmarks/ runs them in other environments.",
    "scale.md": "Runners for Ray and Spark, which are not installed here.",
}
# What a page needs beyond the core; the page is skipped where it is missing.
NEEDS = {
    "import torch": ("torch",),
    "import onnxruntime": ("onnx", "onnxruntime"),
    "plots.": ("matplotlib",),
    "import pandas": ("pandas",),
    "caveat study": ("pyarrow",),
}


def page_id(path: Path) -> str:
    return str(path.relative_to(ROOT))


def blocks(page: Path) -> list[tuple[str, str, int]]:
    """Language, text and first line number of every fenced block.

    The language is "output" for a text right after commands, and "file NAME" for a block with that title.
    """
    text = page.read_text(encoding="utf-8")
    parts: list[tuple[str, str, int]] = []
    end = 0
    for fence in re.finditer(r"^```(\w*)([^\n]*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        follows = bool(parts) and parts[-1][0] == "sh" and not text[end : fence.start()].strip()
        language = "output" if follows and fence[1] == "text" else fence[1]
        if title := re.search(r'title="([\w.-]+)"', fence[2]):
            language = f"file {title[1]}"
        parts.append((language, fence[3], text.count("\n", 0, fence.start(3))))
        end = fence.end()
    return parts


def run_python(code: str, names: dict[str, object], page: Path, line: int) -> None:
    example = doctest.DocTestParser().get_doctest(code, names, page.name, str(page), line)
    example.globs = names  # get_doctest copies; later blocks use the names of earlier ones
    report: list[str] = []
    runner = doctest.DocTestRunner(optionflags=FLAGS)
    runner.run(example, out=report.append, clear_globs=False)
    assert runner.failures == 0, "".join(report)


def run_commands(code: str, capsys: pytest.CaptureFixture[str]) -> str:
    """What the ``caveat`` commands of a block print. Other commands (pip, curl) are left to the reader."""
    capsys.readouterr()
    for line in code.replace("\\\n", " ").splitlines():
        if not line.startswith("caveat "):
            continue
        stated = re.search(r"# exit code (\d)", line)
        expected = int(stated[1]) if stated else 0
        with pytest.raises(SystemExit) as stop:
            main(shlex.split(line, comments=True)[1:])
        assert (stop.value.code or 0) == expected, f"{line}: exit code {stop.value.code}"
    return capsys.readouterr().out


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_the_page_runs_from_top_to_bottom(page, tmp_path, monkeypatch, capsys):
    text = page.read_text(encoding="utf-8")
    for word, packages in NEEDS.items():
        if word in text:
            for package in packages:
                pytest.importorskip(package)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    if page.name == "README.md":  # it reads files that this example makes
        runpy.run_path(str(ROOT / "examples" / "own_logits.py"))["write_files"](tmp_path)
    names: dict[str, object] = {"__name__": "__main__"}
    printed = ""  # by the commands of the last block of them
    for language, code, line in blocks(page):
        if language == "python" and ">>> " in code:
            run_python(code, names, page, line)
        elif language == "sh" and DOCS in page.parents:
            printed = run_commands(code, capsys)
        elif language.startswith("file "):
            Path(language.removeprefix("file ")).write_text(code, encoding="utf-8")
        elif language == "output":
            matches = doctest.OutputChecker().check_output(code, printed, FLAGS)
            assert matches, f"{page.name}, line {line}: printed is\n{printed}"


def test_python_that_is_not_a_doctest_is_run_elsewhere_or_has_a_reason():
    plain = {
        page.name for page in PAGES for language, code, _ in blocks(page) if language == "python" and ">>>" not in code
    }
    assert plain == {*RUN_ELSEWHERE, *NOT_RUN}
    for page, test in RUN_ELSEWHERE.items():
        assert page in (Path(__file__).parent / test).read_text(encoding="utf-8")
    assert not any(language == "" and "import " in code for page in PAGES for language, code, _ in blocks(page))


@pytest.mark.parametrize("page", [*PAGES, ROOT / "examples" / "README.md"], ids=page_id)
def test_commands_on_the_page_exist(page):
    commands = typer.main.get_command(app)
    lines = page.read_text(encoding="utf-8").replace("\\\n", " ")
    for line in re.findall(r"^(?: {4})?caveat (.+)$", lines, re.MULTILINE):
        words = shlex.split(line.replace("[", "").replace("]", ""), comments=True)
        command = commands
        while words and words[0] in getattr(command, "commands", {}):
            command = command.commands[words.pop(0)]
        assert not hasattr(command, "commands"), f"{page.name}: there is no command caveat {line}"
        options = {option for parameter in command.params for option in parameter.opts} | {"--help", "-h"}
        assert {word for word in words if word.startswith("-") and len(word) > 1} <= options, (
            f"{page.name}: caveat {line}"
        )


def anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", LINKED, ids=page_id)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
        path, _, anchor = target.partition("#")
        if "://" in target:
            continue
        there = page.parent / path if path else page
        assert there.exists(), f"{page.name} links to {target}"
        assert not anchor or anchor in anchors(there), f"{page.name} links to {target}"


def test_the_readme_has_examples():
    assert ">>> " in (ROOT / "README.md").read_text(encoding="utf-8")


# -- the site ----------------------------------------------------------------------------------------------------------


def site_navigation() -> list[str]:
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    return re.findall(r"[\w./-]+\.md", text[text.index("\nnav:") :])


def test_every_page_is_in_the_navigation_once():
    listed = [path for path in site_navigation() if not path.startswith(("repository/", "reference/"))]
    assert sorted(listed) == sorted(path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md"))


def test_nothing_is_loaded_from_elsewhere():
    """Fonts and scripts of other servers would tell them what is read here, and fail offline."""
    config = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    assert "font: false" in config
    assert "extra_javascript" not in config
    assert "://" not in config
    assert "url(" not in (DOCS / "_site" / "style.css").read_text(encoding="utf-8")


@pytest.mark.skipif(not find_spec("mkdocs"), reason="make docs builds the site; mkdocs is not installed here")
def test_the_settings_are_read():
    from mkdocs.config import load_config

    assert load_config(str(ROOT / "mkdocs.yml")).site_name == "Caveat"
