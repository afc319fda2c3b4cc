"""``caveat compare``: which methods of a results table, or which models of the same rows, cannot be told apart."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from caveat.cli._console import console, say
from caveat.cli._files import ClassNames, Keys, Rows
from caveat.cli._named import check_folder
from caveat.errors import InputError, MissingExtraError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from caveat.results import Comparison

__all__ = ["compare"]


def compare(
    files: Annotated[
        list[str],
        typer.Argument(
            help="One table of results (.csv, .tsv, .parquet); or two or more outputs of models on the same rows "
            "(files or folders), each a path or name=path."
        ),
    ],
    block: Annotated[
        str | None, typer.Option(help="Columns that say which rows were measured together, separated by commas.")
    ] = None,
    method: Annotated[str | None, typer.Option(help="Column with the method's name. Without: one column each.")] = None,
    value: Annotated[str | None, typer.Option(help="Column with the number to compare.")] = None,
    where: Annotated[list[str] | None, typer.Option(help="Keep only rows with column=value. May be repeated.")] = None,
    regime: Annotated[
        str | None, typer.Option(help="Column to split by (near, mid, far): one comparison for each of its values.")
    ] = None,
    higher_is_better: Annotated[
        bool | None,
        typer.Option(
            "--higher-is-better/--lower-is-better",
            help="Which values are good; default: known from the metric's name, such as auroc or augrc.",
        ),
    ] = None,
    alpha: Annotated[float, typer.Option(help="Level of the tests.")] = 0.05,
    posthoc: Annotated[str, typer.Option(help="conover, nemenyi or wilcoxon.")] = "conover",
    out: Annotated[
        Path | None, typer.Option(help="Folder for tables (.md, .tex) and, with the extra plots, figures (.svg).")
    ] = None,
    score: Annotated[str, typer.Option(help="Models: the score that ranks the rows of each.")] = "msp",
    outlier: Annotated[
        list[str] | None, typer.Option(help="Models: outputs on the same outliers, model=path for every model.")
    ] = None,
    key: Keys = None,
    rows: Rows = None,
    class_names: ClassNames = None,
) -> None:
    """Rank methods of a table over blocks, or compare models on the same rows.

    Two or more models: caveat compare model_a.npz model_b.npz. Accuracy by McNemar's exact test, AURC and AUGRC by
    the influence of each row, AUROC by DeLong's test. Both files hold the same rows in the same order, with labels.

    A table: Friedman, pairs, groups that cannot be told apart. A long table has one row per measurement: caveat compare
    results.csv --block dataset,model,seed --method score --value augrc. A wide one has one row per block and one column
    per method; --block then names columns to leave out. Whether higher is better follows from the metric's name:
    --where metric=NAME, or else the value column.
    """
    if len(files) > 1 or not _is_table(files[0]):
        for option, setting in (("--block", block), ("--method", method), ("--value", value), ("--where", where),
                                ("--regime", regime)):  # fmt: skip
            if setting:
                raise InputError(f"{option} is for a table of results, and these files are outputs of models.")
        from caveat.cli._models import compare_files

        compare_files(files, score=score, outlier=outlier or [], alpha=alpha, out=out, key=key, rows=rows,
                      class_names=class_names)  # fmt: skip
        return
    for option, setting in (("--key", key), ("--rows", rows), ("--class-names", class_names), ("--outlier", outlier)):
        if setting:
            raise InputError(f"{option} is for outputs of two or more models, and {files[0]} is a table of results.")
    from caveat._internal.checks import check_known
    from caveat.stats import compare as run
    from caveat.stats.posthoc import POSTHOC
    from caveat.stats.tables import keep_rows, read_columns, split_columns

    test = check_known(posthoc, POSTHOC, "--posthoc")
    chosen = next(name for name in POSTHOC if name == test)
    if out is not None:
        check_folder(out)
    columns = read_columns(files[0])
    wanted = _conditions(where or [])
    if where:
        columns = keep_rows(columns, wanted)
        if method is None:  # a column that was just held fixed is no method
            columns = {name: column for name, column in columns.items() if name not in wanted}
    metric = wanted.get("metric") or _metric_name(columns, value)
    if higher_is_better is None:
        higher_is_better = _direction(metric)
    keys = None if block is None else [name.strip() for name in block.split(",")]
    parts = {"all": columns} if regime is None else split_columns(columns, regime)
    results = {
        name: run(part, alpha, not higher_is_better, block=keys, method=method, value=value, posthoc=chosen)
        for name, part in parts.items()
    }
    say(f"{'Higher' if higher_is_better else 'Lower'} is better{f' for {metric}' if metric else ''}.")
    for name, result in results.items():
        _show(name if regime is not None else "", result)
    if out is not None:
        _write(out, results, split=regime is not None)


def _is_table(file: str) -> bool:
    return not (Path(file).suffix.lower() in (".npz", ".safetensors", ".pt", ".pth") or Path(file).is_dir())


def _metric_name(columns: Mapping[str, NDArray[Any]], value: str | None) -> str:
    """What was measured: the only entry of a column ``metric``, or the name of the value column. Empty: unknown."""
    entries = {str(entry) for entry in columns.get("metric", ())}
    return entries.pop() if len(entries) == 1 else value or ""


def _direction(metric: str) -> bool:
    """Whether higher is better, by the metric's name; a person at a terminal is asked, anyone else gets an error."""
    from caveat.metrics.direction import higher_is_better

    if (higher := higher_is_better(metric)) is not None:
        return higher
    what = f"'{metric}'" if metric else "this table's metric"
    if sys.stdin.isatty() and sys.stdout.isatty():
        return typer.confirm(f"Is a higher value of {what} better?")
    raise InputError(f"it is not known whether higher values of {what} are better. Add --higher-is-better or "
                     "--lower-is-better.")  # fmt: skip


def _conditions(items: list[str]) -> dict[str, str]:
    conditions = {}
    for item in items:
        name, equals, value = item.partition("=")
        if not equals:
            raise InputError(f"--where must be column=value, got {item}.")
        conditions[name] = value
    return conditions


def _show(name: str, result: Comparison) -> None:
    from rich.table import Table

    shown = Table(title=name or None, title_justify="left")
    for heading, align in (("layer", "right"), ("method", "left"), ("average rank", "right"), ("groups", "left")):
        shown.add_column(heading, justify="right" if align == "right" else "left")
    before = 1
    for layer, method, letters in result.lines():
        if layer != before:
            shown.add_section()
        before = layer
        shown.add_row(str(layer), method, f"{result.average_ranks[method]:.2f}", letters)
    console().print(shown)
    say(f"{result.summary()} {result.legend()} A layer holds what is tied with its best.")


def _write(folder: Path, results: dict[str, Comparison], *, split: bool) -> None:
    from caveat.report import comparison_latex, comparison_markdown

    folder.mkdir(parents=True, exist_ok=True)
    stems = {name: _stem(name) if split else "comparison" for name in results}
    for name, result in results.items():
        (folder / f"{stems[name]}.md").write_text(comparison_markdown(result) + "\n", encoding="utf-8")
        (folder / f"{stems[name]}.tex").write_text(comparison_latex(result) + "\n", encoding="utf-8")
    try:
        import matplotlib as mpl
    except ImportError:
        say(f"Tables: {folder}. {MissingExtraError('drawing the figures', extra='plots')}")
        return
    from caveat import plots

    mpl.use("agg")  # files only: no display is needed
    for name, result in results.items():
        plots.save(plots.critical_difference(result), folder / f"{stems[name]}_cd.svg")
        plots.save(plots.clique_map(result), folder / f"{stems[name]}_cliques.svg")
    if split:
        plots.save(plots.clique_map(next(iter(results.values())), results), folder / "regimes.svg")
    say(f"Figures and tables: {folder}")


def _stem(name: str) -> str:
    return "".join(c if c.isalnum() or c in "-._" else "_" for c in name)
