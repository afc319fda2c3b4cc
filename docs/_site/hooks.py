"""What mkdocs does not do alone: reference pages, formulas, links to names, and the repository's own pages.

- One page per public package, filled by mkdocstrings, and one page of all commands (``reference.py``).
- Formulas ($$...$$) become MathML when the site is built, so no script runs and nothing is loaded from elsewhere.
- Names in code style, such as `conformal.SplitSets`, lead to their reference entry.
- Links to files outside of docs/ (a study's README, an example) lead to copies of these files in the site.
"""

from __future__ import annotations

import functools
import html
import posixpath
import re
import sys
from pathlib import Path
from typing import Any

import griffe
import latex2mathml.converter
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

sys.path.insert(0, str(Path(__file__).parent))
import reference

ROOT = Path(__file__).parents[2]
API = "reference/api"
COPIES = "repository"  # files outside of docs/ are copied below this folder of the site
LINK = re.compile(r"(!?)\[([^\[\]]*)\]\(([^)\s]+)\)")
PYTHON_PAGE = "# {name}\n\n```python\n{text}```\n"


# -- pages that are made -----------------------------------------------------------------------------------------------


@functools.cache
def _packages() -> griffe.ModulesCollection:
    """Both packages, in one collection: the laboratory hands on names of the product."""
    loader = griffe.GriffeLoader(search_paths=[str(reference.SOURCE)])
    for house in ("caveat", "caveat_lab"):
        loader.load(house, submodules=True)
    return loader.modules_collection


def _sentence(path: str) -> str:
    """The first paragraph of a docstring, in one line."""
    thing = _packages()[path]
    if thing.is_alias:
        thing = thing.final_target
    return " ".join(thing.docstring.value.split("\n\n")[0].split()) if thing.docstring else ""


def on_files(files: Files, config: Any) -> Files:
    for module in reference.PACKAGES:
        text = reference.api_page(module, _sentence)
        files.append(File.generated(config, f"{API}/{module}.md", content=text))
    files.append(File.generated(config, "reference/commands.md", content=reference.commands_page()))
    pages = [(ROOT / "docs" / file.src_uri, file.src_uri) for file in files.documentation_pages() if file.abs_src_path]
    copied: set[str] = set()
    while pages:  # a copied page may link to further files
        path, _ = pages.pop()
        if not path.is_relative_to(ROOT) or path.suffix != ".md" or not path.exists():
            continue
        for _, _, target in LINK.findall(path.read_text(encoding="utf-8")):
            there = _outside(path, target)
            if there is None or there in copied:
                continue
            copied.add(there)
            files.append(_copy(there, config))
            pages.append((ROOT / there, there))
    return files


def _outside(page: Path, target: str) -> str | None:
    """Path within the repository of a linked file that is not part of docs/; None for every other link."""
    if "://" in target or target.startswith("#"):
        return None
    there = (page.parent / target.partition("#")[0]).resolve()
    if not there.is_relative_to(ROOT) or not there.is_file() or there.is_relative_to(ROOT / "docs"):
        return None
    return there.relative_to(ROOT).as_posix()


def _copy(path: str, config: Any) -> File:
    if path.endswith(".py"):
        text = (ROOT / path).read_text(encoding="utf-8")
        return File.generated(config, f"{COPIES}/{path}.md", content=PYTHON_PAGE.format(name=path, text=text))
    if path.endswith(".md"):
        return File.generated(config, f"{COPIES}/{path}", content=(ROOT / path).read_text(encoding="utf-8"))
    return File.generated(config, f"{COPIES}/{path}", abs_src_path=str(ROOT / path))


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Links to files outside of docs/ lead to their copies; links to folders become plain text."""
    uri = page.file.src_uri
    if uri.startswith(("reference/api/", "reference/commands")):
        return markdown
    here = ROOT / uri.removeprefix(f"{COPIES}/") if uri.startswith(f"{COPIES}/") else ROOT / "docs" / uri

    def moved(match: re.Match[str]) -> str:
        image, text, target = match.groups()
        if "://" in target or target.startswith("#"):
            return match[0]
        path, _, anchor = target.partition("#")
        there = (here.parent / path).resolve()
        if there.is_dir():
            return text
        if there == ROOT / "README.md":
            new = "index.md"
        elif there.is_relative_to(ROOT / "docs"):
            new = there.relative_to(ROOT / "docs").as_posix()
        elif (inside := _outside(here, target)) is not None:
            new = f"{COPIES}/{inside}" + (".md" if inside.endswith(".py") else "")
        else:
            return match[0]
        relative = posixpath.relpath(new, posixpath.dirname(uri) or ".")
        return f"{image}[{text}]({relative}{'#' + anchor if anchor else ''})"

    markdown = markdown.replace("```python\n>>> ", "```pycon\n>>> ")  # prints are not colored as code
    parts = re.split(r"(^```.*?^```)", markdown, flags=re.MULTILINE | re.DOTALL)
    return "".join(part if part.startswith("```") else LINK.sub(moved, part) for part in parts)


# -- formulas and names ------------------------------------------------------------------------------------------------


def _mathml(match: re.Match[str]) -> str:
    block, text = match["tag"] == "div", html.unescape(match["text"]).strip()
    text = text.removeprefix("\\[" if block else "\\(").removesuffix("\\]" if block else "\\)").strip()
    try:
        formula = latex2mathml.converter.convert(text, display="block" if block else "inline")
    except Exception as error:
        raise PluginError(f"The formula {text!r} cannot be converted to MathML: {error!r}.") from error
    return f'<div class="formula">{formula}</div>' if block else formula


@functools.cache
def _addresses() -> dict[str, str]:
    """Where each way to write a public name leads: `conformal.SplitSets`, `caveat.evaluate`, `SplitSets`."""
    places: dict[str, list[str]] = {}
    for module in reference.PACKAGES:
        for name in reference.names(module):
            if f"{module}.{name}" in reference.PACKAGES:
                continue
            address = f"{API}/{module}.html#{module}.{name}"
            for written in {f"{module}.{name}", f"{re.sub('^caveat(_lab)?[.]', '', module)}.{name}"}:
                places.setdefault(written, []).append(address)
            if name[0].isupper() or name in ("evaluate", "wrap"):
                places.setdefault(name, []).append(address)
    return {written: addresses[0] for written, addresses in places.items()}


def on_page_content(content: str, page: Any, **_: Any) -> str:
    math = r'<(?P<tag>div|span) class="arithmatex">(?P<text>.*?)</(?P=tag)>'
    content = re.sub(math, _mathml, content, flags=re.DOTALL)
    if page.file.src_uri.startswith(f"{API}/"):
        return content

    package = ""  # on the page of all names, a bare name belongs to the package that was named last
    listing = page.file.src_uri == "all-of-caveat.md"

    def linked(match: re.Match[str]) -> str:
        nonlocal package
        written = html.unescape(match[1])
        name = re.match(r"[\w.]*", written)[0]  # type: ignore[index]
        if written in reference.PACKAGES:
            package, address = written, f"{API}/{written}.html"
        else:
            address = _addresses().get(f"{package}.{name}" if listing else name) or _addresses().get(name)
        if address is None or not re.fullmatch(r"[\w.]+(\(.*\))?", written, re.DOTALL):
            return match[0]
        relative = posixpath.relpath(address, posixpath.dirname(page.file.dest_uri) or ".")
        return f'<a class="name" href="{relative}">{match[0]}</a>'

    kept = r"(<pre.*?</pre>|<a .*?</a>|<h\d.*?</h\d>)"
    parts = re.split(kept, content, flags=re.DOTALL)
    return "".join(
        part if re.match(kept, part, re.DOTALL) else re.sub(r"<code>([^<]*)</code>", linked, part) for part in parts
    )


# -- checks of the finished site ---------------------------------------------------------------------------------------


def on_post_build(config: Any, **_: Any) -> None:
    """Every public name has its entry, every formula is converted, and no page loads anything from elsewhere."""
    site = Path(config.site_dir)
    for path in sorted(site.rglob("*.html")):
        text = path.read_text(encoding="utf-8")
        if outside := re.search(
            r'<(?:script|img|iframe)[^>]* src="?https?:[^>]*>|<link[^>]*stylesheet[^>]*https?:', text
        ):
            raise PluginError(f"{path.relative_to(site)} loads from another server: {outside[0]}")
        if "arithmatex" in text:
            raise PluginError(f"{path.relative_to(site)} has a formula that was not converted.")
    for module in reference.PACKAGES:
        text = (site / API / f"{module}.html").read_text(encoding="utf-8")
        for name in reference.names(module):
            if f"{module}.{name}" not in reference.PACKAGES and f'id="{module}.{name}"' not in text:
                raise PluginError(f"The page of {module} has no entry for {name}.")
