"""``caveat compare model_a.npz model_b.npz``: models on the same rows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from caveat.cli._console import console, say
from caveat.cli._files import Reading
from caveat.cli._named import check_folder, named_paths
from caveat.errors import InputError
from caveat.report import comparison_latex, comparison_markdown

if TYPE_CHECKING:
    from caveat.results import Comparison, ModelComparison

__all__ = ["compare_files"]


def compare_files(
    files: Sequence[str],
    *,
    score: str,
    outlier: Sequence[str],
    alpha: float,
    out: Path | None,
    key: list[str] | None = None,
    rows: list[str] | None = None,
    class_names: str | None = None,
) -> None:
    """Print the comparison of two models, or the ranking of more; with ``out``, write it as files too."""
    from caveat.stats import compare_models, rank_models

    paths = _named_models(files)
    if out is not None:
        check_folder(out)
    outside = named_paths(list(outlier), what="outlier")
    if outside and set(outside) != set(paths):
        raise InputError(f"--outlier must be model=path for each of {', '.join(paths)}, got {', '.join(outside)}.")
    reading = Reading.of(key, rows, [*paths, *(["outlier"] if outside else [])], class_names)
    models = {name: reading.load(path, name) for name, path in paths.items()}
    outliers = {name: reading.load(outside[name], "outlier", name) for name in paths} if outside else None
    if len(models) == 2:
        a, b = models
        pair = compare_models(
            models[a], models[b], score=score, alpha=alpha, names=(a, b),
            outliers_a=None if outliers is None else outliers[a], outliers_b=None if outliers is None else outliers[b],
        )  # fmt: skip
        _show_pair(pair)
        if out is not None:
            _write(out, {"models.md": pair.to_markdown()})
        return
    rankings = rank_models(models, score=score, outliers=outliers, alpha=alpha)
    for question, ranking in rankings.items():
        _show_ranking(question, ranking)
    if out is not None:
        tables = {f"{question}.md": comparison_markdown(ranking) for question, ranking in rankings.items()}
        _write(out, tables | {f"{question}.tex": comparison_latex(ranking) for question, ranking in rankings.items()})


def _named_models(files: Sequence[str]) -> dict[str, Path]:
    """Name -> path: as given by name=path, else the stem, or the whole path where two files have the same stem."""
    if len(files) < 2:
        raise InputError(f"a comparison of models needs at least two files of outputs, got {files[0]} alone.")
    plain = [file for file in files if "=" not in file or Path(file).exists()]
    stems = [Path(file).stem for file in plain]
    named: dict[str, Path] = {}
    for file in files:
        name, _, path = file.partition("=")
        if file in plain:
            name, path = Path(file).stem if stems.count(Path(file).stem) == 1 else file, file
        if name in named:
            raise InputError(f"two models are called '{name}'. Name them: caveat compare first={named[name]} ...")
        named[name] = Path(path)
    return named


def _show_pair(result: ModelComparison) -> None:
    from rich.table import Table

    shown = Table()
    head, rows = result.cells()
    for i, heading in enumerate(head):
        shown.add_column(heading, justify="left" if i in (0, len(head) - 1) else "right")
    for row in rows:
        shown.add_row(*row)
    console().print(shown)
    say(result.verdict)
    for note in result.notes():
        say(note)


def _show_ranking(question: str, result: Comparison) -> None:
    from rich.table import Table

    shown = Table(title=question, title_justify="left")
    for heading in ("rank", "model", question, "groups"):
        shown.add_column(heading, justify="right" if heading in ("rank", question) else "left")
    for _, name, letters in result.lines():
        value = "" if result.values is None else f"{result.values[name]:.4f}"
        shown.add_row(str(result.rank(name)), name, value, letters)
    console().print(shown)
    say(f"{result.summary()} {result.legend()}")


def _write(folder: Path, files: dict[str, str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(text + "\n", encoding="utf-8")
    say(f"Tables: {folder}")
