"""Text of the reference pages: every public name of every package, and every command with its options.

Names come from the ``__all__`` lists and commands from the typer application, so the pages miss none. Nothing here
needs mkdocs; the tests use it too.
"""

from __future__ import annotations

import ast
import html
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).parents[2] / "src"

PACKAGES = {
    "caveat": "The main objects",
    "caveat.conformal": "P-values, thresholds, prediction sets, intervals, bands",
    "caveat.demo": "Images to try things on",
    "caveat.drift": "Drift alarms",
    "caveat.errors": "Errors and warnings",
    "caveat.estimators": "Wrappers for scikit-learn estimators",
    "caveat.evaluation": "Measure, rank, decide",
    "caveat.guard": "The decision as an object",
    "caveat.metrics": "Detection, failure, calibration, prediction sets",
    "caveat.nn": "Torch: extraction",
    "caveat.outputs": "Model outputs and their files",
    "caveat.plots": "Figures",
    "caveat.report": "Reports",
    "caveat.results": "Result objects",
    "caveat.scale": "More rows than fit into memory",
    "caveat.scores": "OOD and confidence scores",
    "caveat.serve": "The HTTP service and its audit trail",
    "caveat.stats": "Tests that compare methods and models",
    "caveat_lab.attacks": "Attacks on confidence",
    "caveat_lab.bounds": "Bounds of networks",
    "caveat_lab.data": "Data sets and generated outliers",
    "caveat_lab.experiments": "Plans of many models",
    "caveat_lab.geometry": "Neural collapse and proximity",
    "caveat_lab.networks": "Networks and training",
    "caveat_lab.networks.training": "Training paradigms",
    "caveat_lab.papers": "Published numbers, computed again",
    "caveat_lab.robust": "Certificates",
}


def module_file(module: str) -> Path:
    """The file of a module or package; it need not exist."""
    path = SOURCE.joinpath(*module.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def names(module: str) -> list[str]:
    """``__all__`` of a module, read without importing it: `caveat.nn` needs torch, the documentation does not."""
    for node in ast.parse(module_file(module).read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "__all__":
            return [str(name) for name in ast.literal_eval(node.value)]
    return []


def submodules(module: str) -> list[str]:
    """Exported names that are modules: imported from the package itself, and not from one of its files."""
    tree = ast.parse(module_file(module).read_text(encoding="utf-8"))
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module == module]
    return sorted({alias.name for node in imports for alias in node.names} & set(names(module)))


def _entry(module: str, name: str) -> list[str]:
    """The lines that mkdocstrings replaces by the entry of an object.

    An object with the name of its file (`conformal.boundary`) is named through the file, else the file would be meant.
    """
    path, anchor = f"{module}.{name}", []
    if module_file(path).exists():
        path, anchor = f"{path}.{name}", [f'<span id="{path}"></span>', ""]
    options = ["    options:", "      show_root_heading: true", "      show_root_toc_entry: true"]
    return [*anchor, f"::: {path}", *options]


def api_page(module: str, sentence: Callable[[str], str]) -> str:
    """One package: a table of its names, then each name with its docstring.

    Parameters
    ----------
    module
        Name of the package.
    sentence
        Gives the first sentence of the docstring of an object, by its dotted name.
    """
    exported = names(module)
    modules = submodules(module)
    objects = [name for name in exported if name not in modules]
    lines = [f"# {module}", "", sentence(module), "", f"    import {module}", ""]
    if modules:
        links = [f"[{name}]({module}.{name}.md)" if f"{module}.{name}" in PACKAGES else f"[{name}](#{module}.{name})"
                 for name in modules]  # fmt: skip
        lines += [f"Modules: {', '.join(links)}.", ""]
    lines += ["| name | what it is |", "|---|---|"]
    for name in objects:
        lines.append(f"| [`{name}`](#{module}.{name}) | {sentence(f'{module}.{name}').replace('|', chr(92) + '|')} |")
    for name in objects:
        lines += ["", *_entry(module, name)]
    for name in modules:
        if f"{module}.{name}" not in PACKAGES:
            lines += ["", f"## {name} {{#{module}.{name}}}", "", sentence(f"{module}.{name}"), ""]
            for member in names(f"{module}.{name}"):
                lines += ["", *_entry(f"{module}.{name}", member), "      heading_level: 3"]
    return "\n".join(lines) + "\n"


def commands() -> Iterator[tuple[str, Any]]:
    """Every command without subcommands, as ``("guard fit", command)``, in the order of the help text."""
    import typer

    from caveat.cli.app import app

    def below(prefix: str, group: Any) -> Iterator[tuple[str, Any]]:
        for name, command in group.commands.items():
            if hasattr(command, "commands"):
                yield from below(f"{prefix}{name} ", command)
            elif not command.hidden:
                yield f"{prefix}{name}", command

    yield from below("", typer.main.get_command(app))


def _cell(text: str) -> str:
    return html.escape(" ".join(text.split()), quote=False).replace("|", "\\|")


def _row(parameter: Any) -> str:
    options = ", ".join(f"`{option}`" for option in (*parameter.opts, *parameter.secondary_opts))
    name = f"`{parameter.name.upper()}`" if parameter.param_type_name == "argument" else options
    default = "" if parameter.default in (None, False, (), []) else f"`{parameter.default}`"
    repeated = " May be repeated." if parameter.multiple else ""
    return f"| {name} | {'required' if parameter.required else default} | {_cell(parameter.help or '')}{repeated} |"


def commands_page() -> str:
    """All commands with their arguments and options."""
    lines = [
        "# Command line",
        "",
        "`caveat` and `python -m caveat` are the same. `caveat COMMAND --help` shows this text.",
    ]
    for name, command in commands():
        arguments = [_usage(parameter) for parameter in command.params if parameter.param_type_name == "argument"]
        lines += ["", f"## caveat {name}", "", _cell_paragraphs(command.help or "")]
        lines += ["", f"    caveat {name} [options] {' '.join(arguments)}".rstrip()]
        rows = [_row(parameter) for parameter in command.params if not getattr(parameter, "hidden", False)]
        lines += ["", "| name | default | meaning |", "|---|---|---|", *rows] if rows else []
    return "\n".join(lines) + "\n"


def _usage(argument: Any) -> str:
    name = argument.name.upper() + ("..." if argument.nargs == -1 else "")
    return name if argument.required else f"[{name}]"


def _cell_paragraphs(text: str) -> str:
    return "\n\n".join(_cell(part) for part in text.split("\n\n"))
