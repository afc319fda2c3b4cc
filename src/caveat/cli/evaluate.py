"""``caveat evaluate``: every applicable score on a user's own files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from caveat.cli import _results
from caveat.cli._console import progress_bar, say
from caveat.cli._explain import explain as explain_file
from caveat.cli._named import check_folder, named_paths
from caveat.errors import InputError
from caveat.outputs import Outputs

__all__ = ["evaluate"]


def evaluate(
    test: Annotated[Path | None, typer.Option(help="Outputs on held-out inliers (.npz or folder).")] = None,
    outlier: Annotated[
        list[str] | None, typer.Option(help="Outputs on outliers: a path, or name=path. May be repeated.")
    ] = None,
    train: Annotated[Path | None, typer.Option(help="Outputs on training data, for the scores that learn.")] = None,
    calibration: Annotated[
        Path | None, typer.Option(help="Held-out inliers for the prediction sets; default: a random half of --test.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for results.parquet (or .csv) and report.html.")] = Path(
        "caveat-results"
    ),
    scores: Annotated[str | None, typer.Option(help="Names, separated by commas; default: all that apply.")] = None,
    title: Annotated[str, typer.Option(help="Title of the report.")] = "Evaluation",
    alpha: Annotated[float, typer.Option(help="Allowed error of the prediction sets.")] = 0.1,
    delta: Annotated[float, typer.Option(help="Allowed failure of each interval.")] = 0.05,
    seed: Annotated[int, typer.Option(min=0, help="Seeds the split into halves and the bootstrap.")] = 0,
    explain: Annotated[
        Path | None, typer.Option(help="Print what this file holds and which scores it allows, and stop.")
    ] = None,
) -> None:
    """Compute and measure every score that the files allow.

    Training, calibration, test and outlier files must not share rows: more than half of the smaller file is an error.

    A file is an .npz archive (or a folder of .npy files) with any of the keys [bold]logits[/] or [bold]probs[/] (n, C),
    [bold]features[/] (n, D), [bold]labels[/] (n,), [bold]head_weight[/] (C, D), [bold]head_bias[/] (C,),
    [bold]confidence[/] (n,), [bold]mc_logits[/] (T, n, C), [bold]embeddings[/] (n, E), [bold]layer.NAME[/].
    """
    if explain is not None:
        explain_file(explain)
        return
    if test is None or not outlier:
        missing = "--test" if test is None else "--outlier"
        raise InputError(
            f"caveat evaluate needs {missing}. Try: caveat evaluate --train t.npz --test v.npz --outlier a.npz."
        )
    from caveat.study import evaluate as run

    check_folder(out)
    with progress_bar() as tell:
        tell("reading the files", 0, 1)
        inlier = Outputs.load(test)
        outliers = {name: Outputs.load(path) for name, path in named_paths(outlier, what="outlier").items()}
        evaluation = run(
            train=None if train is None else Outputs.load(train),
            inlier=inlier,
            calibration=None if calibration is None else Outputs.load(calibration),
            outliers=outliers,
            names=None if scores is None else [name.strip() for name in scores.split(",")],
            title=title,
            alpha=alpha,
            delta=delta,
            seed=seed,
            progress=tell,
        )
        table, report = _results.write(evaluation, out)
    _results.show(evaluation)
    if evaluation.skipped:
        say(f"Not computed: {_by_reason(evaluation.skipped)}.")
    say(f"Table:  {table}")
    say(f"Report: {report}")


def _by_reason(skipped: Mapping[str, str]) -> str:
    """Names that share a reason, and the reason once."""
    together: dict[str, list[str]] = {}
    for name, why in skipped.items():
        together.setdefault(why, []).append(name)
    return "; ".join(f"{', '.join(names)} ({why})" for why, names in together.items())
