"""``caveat demo``: the whole pipeline on data that scikit-learn brings."""

from __future__ import annotations

from importlib.metadata import entry_points
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated

import typer

from caveat.cli._console import progress_bar, say
from caveat.cli._named import check_folder

if TYPE_CHECKING:
    from caveat.demo.network import Demo
    from caveat.evaluation import Evaluation

__all__ = ["demo"]


def demo(
    out: Annotated[Path, typer.Option(help="Folder for the table and the report.")] = Path("caveat-demo"),
    seed: Annotated[int, typer.Option(min=0, help="Seeds the network, the splits and the outliers.")] = 0,
) -> None:
    """Train a small network on digits 0 to 7, show it other things, and report what each score notices.

    With the laboratory and torch installed, also train one that is provably unsure about outliers, and say what it can
    promise.

    Ends with a saved guard, and the commands that check it on held-out and on drifted digits, and that serve it.
    """
    from caveat.cli import _results
    from caveat.demo.network import demo_outputs
    from caveat.evaluation import evaluate

    check_folder(out)
    with progress_bar() as tell:
        tell("training a small network on digits 0 to 7", 0, 1)
        shown = demo_outputs(seed)
        evaluation = evaluate(
            train=shown.train,
            inlier=shown.inlier,
            calibration=shown.calibration,
            outliers={name.partition(": ")[2]: outputs for name, outputs in shown.outliers.items()},
            regimes={name: regime for regime, _, name in (key.partition(": ") for key in shown.outliers)},
            title="Digits 0 to 7, and what the network was never taught",
            alpha=0.01,
            seed=seed,
            progress=tell,
        )
        table, report = _results.write(evaluation, out)
        tell("calibrating the guard", 0, 1)
        _save_guard(evaluation, shown, out)
        more = [part.load()(out, seed, tell) for part in entry_points(group="caveat.demo")]
    _results.show(evaluation)
    say(f"Table:  {table.resolve()}")
    say(f"Report: {report.resolve()}")
    for show in filter(None, more):
        show()
    guard = quote(str(out / "guard"))
    say(f"Guard:  {(out / 'guard').resolve()}")
    say("Check it on held-out digits, and on partly covered digits (exit code 3: an alarm rang):")
    for name in ("inliers", "drifted"):
        say(f"  caveat guard check {guard} {quote(str(out / f'{name}.npz'))} --out {quote(str(out / f'check-{name}'))}")
    say("Serve it over HTTP, with a live page (extra serve):")
    say(f"  caveat serve {guard} --audit {quote(str(out / 'audit.sqlite'))}")


def _save_guard(evaluation: Evaluation, shown: Demo, out: Path) -> None:
    """The decision as a guard, and two files to check it on."""
    evaluation.guard(shown.train, shown.calibration).save(out / "guard")
    shown.inlier.save(out / "inliers.npz")
    shown.outliers["mid: occluded"].save(out / "drifted.npz")
