"""``caveat evaluate``: every applicable score on a user's own files, ending in a decision."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from caveat.cli._console import progress_bar, say
from caveat.cli._files import ClassNames, Keys, Reading, Rows
from caveat.cli._named import check_folder, named_paths
from caveat.cli._provenance import with_provenance
from caveat.cli._scale import Scheduler, Workers, Workplace
from caveat.errors import InputError

if TYPE_CHECKING:
    from caveat.evaluation import Evaluation

__all__ = ["evaluate"]


def evaluate(
    test: Annotated[Path | None, typer.Option(help="Outputs on held-out inliers: a file or a folder.")] = None,
    outlier: Annotated[
        list[str] | None, typer.Option(help="Outputs on outliers: a path, or name=path. May be repeated.")
    ] = None,
    train: Annotated[Path | None, typer.Option(help="Outputs on training data, for the scores that learn.")] = None,
    calibration: Annotated[
        Path | None, typer.Option(help="Held-out inliers for the thresholds; default: a random half of --test.")
    ] = None,
    confirm: Annotated[
        list[str] | None, typer.Option(help="Other outliers, to confirm the decision: a path, or name=path.")
    ] = None,
    regime: Annotated[list[str] | None, typer.Option(help="Regime of an outlier set: name=near, mid or far.")] = None,
    out: Annotated[Path, typer.Option(help="Folder for results.csv (.parquet too), the report and its tables.")] = Path(
        "caveat-results"
    ),
    key: Keys = None,
    rows: Rows = None,
    class_names: ClassNames = None,
    scores: Annotated[str | None, typer.Option(help="Names, separated by commas; default: all that apply.")] = None,
    tune: Annotated[
        bool,
        typer.Option(
            "--tune", help="Choose temperature and parameters of the scores on a fifth of the calibration rows first."
        ),
    ] = False,
    title: Annotated[str, typer.Option(help="Title of the report.")] = "Evaluation",
    false_alarm: Annotated[float, typer.Option(help="Allowed share of rejected inliers.")] = 0.05,
    risk: Annotated[float, typer.Option(help="Allowed share of errors among the accepted.")] = 0.05,
    alpha: Annotated[float, typer.Option(help="Allowed share of prediction sets without the true class.")] = 0.1,
    delta: Annotated[float, typer.Option(help="Allowed failure of each promise and interval.")] = 0.05,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the split into halves, the fits and the bootstrap.")] = 0,
    scheduler: Scheduler = None,
    workers: Workers = None,
    json: Annotated[str | None, typer.Option(help="Write the decision as JSON to this file, or to stdout: -.")] = None,
    explain: Annotated[
        Path | None, typer.Option(help="Print what this file holds and which scores it allows, and stop.")
    ] = None,
) -> None:
    """Measure every score that the files allow, choose one, and set its threshold. Works without outliers, too.

    Training, calibration, test and outlier files must not share rows: more than half of the smaller file is an error.

    A file holds any of the arrays [bold]logits[/] or [bold]probs[/] (n, C), [bold]features[/] (n, D), [bold]labels[/]
    (n,), [bold]head_weight[/] (C, D), [bold]head_bias[/] (C,), [bold]confidence[/] (n,), [bold]mc_logits[/] (T, n, C),
    [bold]embeddings[/] (n, E), [bold]layer.NAME[/]: .npz, a folder of .npy files, .safetensors or .pt. Or it is a table
    with one row per sample (.csv, .tsv, .parquet, .arrow, .feather) and columns [bold]logits_0[/], [bold]logits_1[/],
    ..., [bold]labels[/]. Labels that are names need the order of the columns: an array [bold]class_names[/], or
    --class-names. Other names: --key; --explain FILE proposes them.
    """
    if explain is not None:
        from caveat.cli._explain import explain as explain_file

        explain_file(explain, Reading.of(key, rows, class_names=class_names))
        return
    if test is None:
        raise InputError("caveat evaluate needs --test. Try: caveat evaluate --train t.npz --test v.npz.")
    from caveat._internal.notes import kept_warnings
    from caveat.cli import _results
    from caveat.evaluation.evaluation import with_notes

    check_folder(out)
    paths, others = named_paths(outlier or [], what="outlier"), named_paths(confirm or [], what="confirm")
    regimes = _regimes(regime or [], list(paths))
    place = Workplace.of(scheduler, workers, [test, train, calibration, *paths.values(), *others.values()])
    if tune and place.by_ranges:
        raise InputError(
            "--tune reads the files into memory: leave out --scheduler and --workers, and give .npz files."
        )
    roles = {"test": test, "train": train, "calibration": calibration, "outlier": paths, "confirm": others}
    reading = Reading.of(key, rows, [*(role for role, file in roles.items() if file), *paths, *others],
                         class_names)  # fmt: skip
    read, run = _evaluation(place, reading)
    with progress_bar() as tell, kept_warnings() as notes:
        tell("reading the files", 0, 1)
        evaluation = run(
            inlier=read(test, "test"),
            outliers={name: read(path, "outlier", name) for name, path in paths.items()},
            train=None if train is None else read(train, "train"),
            calibration=None if calibration is None else read(calibration, "calibration"),
            confirm={name: read(path, "confirm", name) for name, path in others.items()},
            scores=None if scores is None else [name.strip() for name in scores.split(",")],
            false_alarm=false_alarm, risk=risk, alpha=alpha, delta=delta, seed=seed, regimes=regimes, title=title,
            progress=tell, **({"tune": True} if tune else {}),
        )  # fmt: skip
    evaluation = with_provenance(with_notes(evaluation, notes), roles, digests=not place.by_ranges)
    table, report = _results.write(evaluation, out)
    if json is not None:
        _results.write_json(evaluation, json)
    if json == "-":  # standard output holds the JSON alone
        return
    _results.show(evaluation)
    say(f"Table:  {table}")
    say(f"Report: {report}")


def _evaluation(place: Workplace, reading: Reading) -> tuple[Callable[..., Any], Callable[..., Evaluation]]:
    """How a file is read, and what evaluates it."""
    if place.by_ranges:
        from caveat.scale import evaluate as by_ranges
        from caveat.scale import open_source

        return lambda *file: open_source(reading.source(*file)), partial(by_ranges, client=place.client)
    from caveat.evaluation import evaluate as in_memory

    return reading.load, in_memory


def _regimes(items: list[str], outliers: list[str]) -> dict[str, str]:
    """Outlier set -> regime, from name=regime."""
    from caveat.evaluation.records import REGIMES

    regimes = {}
    for item in items:
        name, _, regime = item.rpartition("=")
        if name not in outliers or regime not in REGIMES:
            raise InputError(f"--regime must be name=near, mid or far with the name of an outlier set, got '{item}'.")
        regimes[name] = regime
    return regimes
