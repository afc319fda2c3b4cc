"""``caveat guard``: fit, show, use, check and export the decision that ships."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from caveat.cli._console import help_of, progress_bar, say, show_table
from caveat.cli._files import ClassNames, HeadKeys, Keys, Reading, Rows, head_of
from caveat.cli._guards import fitted_guard, rules
from caveat.cli._json import json_text
from caveat.cli._named import check_folder
from caveat.cli._required import demanding
from caveat.cli._scale import Scheduler, Workers, Workplace
from caveat.errors import InputError

if TYPE_CHECKING:
    from caveat.guard import Guard, Verdicts
    from caveat.guard.replay import Replay
    from caveat.outputs import Outputs
    from caveat.scale import Source

__all__ = ["guard"]

_FORMATS = (".csv", ".parquet", ".json")
_SHOWN = 10  # verdicts on the terminal
_BLOCK = 4096  # rows between two steps of the progress bar

Folder = Annotated[Path, typer.Argument(metavar="GUARD", help="Folder that caveat guard fit wrote.")]
File = Annotated[Path, typer.Argument(metavar="OUTPUTS", help="Outputs of the model: a file or a folder.")]


def fit(
    out: Annotated[Path, typer.Argument(help="Folder for the guard.")],
    calibration: Annotated[
        Path | None, typer.Option(help="Outputs on held-out inliers, with labels for sets and risk. Required.")
    ] = None,
    train: Annotated[Path | None, typer.Option(help="Outputs on training data, for scores that learn.")] = None,
    score: Annotated[
        list[str] | None, typer.Option(help="OOD score (default energy). Repeat it: the scores are combined.")
    ] = None,
    sets: Annotated[str, typer.Option(help="Prediction sets: lac, aps, raps, ... or none.")] = "lac",
    false_alarm: Annotated[float, typer.Option(help="Allowed share of inliers that are called outliers.")] = 0.05,
    risk: Annotated[
        float | None, typer.Option(help="Allowed share of errors among the accepted. Default: no limit.")
    ] = None,
    alpha: Annotated[float, typer.Option(help="Allowed share of sets without the true class.")] = 0.1,
    delta: Annotated[float, typer.Option(help="Allowed failure of each promise.")] = 0.05,
    confidence: Annotated[str, typer.Option(help="Score that decides whether to abstain.")] = "msp",
    combine: Annotated[
        str, typer.Option(help="How several scores become one: fisher (mean of -log p) or min (smallest p).")
    ] = "fisher",
    outside: Annotated[
        str,
        typer.Option(help="Rows that calibration cannot have seen, such as a confidence in percent: error or outlier."),
    ] = "error",
    key: Keys = None,
    rows: Rows = None,
    class_names: ClassNames = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the fit, and of the split where scores are combined.")] = 0,
    scheduler: Scheduler = None,
    workers: Workers = None,
    force: Annotated[bool, typer.Option("--force", help="Replace another guard in this folder.")] = False,
) -> None:
    """Fit and calibrate a guard on files, and save it.

    A guard that is there already is replaced if its settings and data are the same, or with --force.

    The calibration rows must neither have trained the model nor chosen the score.
    """
    if calibration is None:
        raise InputError("a guard needs calibration rows. Give them: --calibration calibration.npz.")
    check_folder(out)
    made = fitted_guard(
        score or ["energy"], calibration=calibration, train=train, seed=seed,
        reading=Reading.of(key, rows, ["calibration", *(["train"] if train else [])], class_names),
        place=Workplace.of(scheduler, workers, [train]), sets=None if sets == "none" else sets,
        false_alarm=false_alarm, risk=risk, alpha=alpha, delta=delta, confidence=confidence, combine=combine,
        outside=outside,
    )  # fmt: skip
    if not force and _is_another(out, made):
        raise InputError(f"{out} holds another guard. Choose another folder, or add --force to replace it.")
    made.save(out)
    _show_promises(made)
    say(f"Guard: {out}")


def info(
    folder: Folder,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show a guard: thresholds, promises, settings, day, data, fingerprint."""
    from caveat.guard import Guard
    from caveat.guard.facts import guard_facts

    facts = guard_facts(made := Guard.load(folder))
    if json:
        sys.stdout.write(json_text(facts))
        return
    _show_promises(made, explained=True)
    settings = {
        name: ", ".join(value) if isinstance(value, list) else value for name, value in facts["settings"].items()
    }
    say(f"settings: {', '.join(f'{name} = {value}' for name, value in settings.items())}")
    say(f"calibrated: {facts['calibrated_at']}")
    for role, marks in facts["splits"].items():
        digests = ", ".join(f"{name} {digest[:12]}" for name, digest in marks["sha256"].items())
        say(f"{role}: {marks['n']:,} rows ({digests})")
    domain = facts["domain"]
    units = [f"{name} {width:,} columns" for name, width in domain["columns"].items()]
    units += [f"{name} between 0 and 1" for name in domain["shares"]]
    say(f"reads: {', '.join(units)}; other rows: {made.outside}")
    say(f"watched for drift: {', '.join(facts['watched'])}")
    say(f"fingerprint: {facts['fingerprint']}")


def predict(
    folder: Folder,
    outputs: File,
    out: Annotated[
        Path | None, typer.Option(help="File for all verdicts: .csv, .parquet or .json. The .csv is always written.")
    ] = None,
    fdr: Annotated[
        float | None,
        typer.Option(help="Select the outliers of this batch at this false discovery rate, not by the threshold."),
    ] = None,
    key: Keys = None,
    rows: Rows = None,
    class_names: ClassNames = None,
    scheduler: Scheduler = None,
    workers: Workers = None,
) -> None:
    """Give a verdict on each row: accept, abstain or outlier, with p-values, prediction set and reason.

    A .csv file is always written: --out verdicts.parquet also writes verdicts.csv. Read by row ranges (--scheduler,
    --workers, Zarr, a folder of Parquet files), --out is a folder of .npy columns.
    """
    from caveat.guard import Guard
    from caveat.guard.verdicts import KINDS

    place, reading = Workplace.of(scheduler, workers, [outputs]), Reading.of(key, rows, class_names=class_names)
    if place.by_ranges:
        _predict_by_ranges(Guard.load(folder), reading.source(outputs), out, fdr, place)
        return
    if out is not None and out.suffix not in _FORMATS:
        raise InputError(f"--out must end in {', '.join(_FORMATS)}, got {out.name}.")
    with progress_bar() as tell:
        tell("reading guard and rows", 0, 1)
        made, batch = Guard.load(folder), reading.load(outputs)
        size = _BLOCK if fdr is None else batch.n  # a false discovery rate is of the whole batch
        parts = []
        for start in range(0, batch.n, size):
            parts.append(made(batch[start : start + size], fdr=fdr))
            tell("verdicts", start + len(parts[-1]), batch.n)
        if out is not None:
            tell("writing verdicts", 0, 1)
            _write(parts, out)
    counts = {kind: sum(part.counts[kind] for part in parts) for kind in KINDS}
    say(f"{batch.n:,} rows: {', '.join(f'{n:,} {kind}' for kind, n in counts.items())}.")
    if out is not None:
        say(f"Verdicts: {out}")
        return
    first = parts[0]
    lines = [(str(i), str(first.kind[i]), f"{first.p_values[i]:.3g}", first.reason(i))
             for i in range(min(_SHOWN, batch.n))]  # fmt: skip
    show_table(("row", "verdict", "p-value", "reason"), lines, right=("row", "p-value"), unbroken=("verdict",))
    if batch.n > _SHOWN:
        say(f"The first {_SHOWN} rows; all of them: --out verdicts.csv.")


def _predict_by_ranges(
    made: Guard, outputs: Path | Outputs | Source, out: Path | None, fdr: float | None, place: Workplace
) -> None:
    from caveat.scale import predict as predict_source

    if out is None or out.suffix in _FORMATS:
        raise InputError("by row ranges verdicts are written as a folder of .npy columns. Name one: --out verdicts.")
    with progress_bar() as tell:
        result = predict_source(made, outputs, out=out, fdr=fdr, client=place.client, progress=tell)
    say(f"{result.n:,} rows: {', '.join(f'{n:,} {kind}' for kind, n in result.counts.items())}.")
    say(f"Verdicts: {out}")


def check(
    folder: Folder,
    outputs: File,
    out: Annotated[Path, typer.Option(help="Folder for report.html and its tables.")] = Path("caveat-check"),
    alpha: Annotated[
        float | None,
        typer.Option(
            help="Allowed chance that a quiet stream ever raises an alarm. Default: that of --state, or 0.01."
        ),
    ] = None,
    state: Annotated[
        Path | None,
        typer.Option(help="Folder of the watch: it goes on from there if it exists, and is saved there afterwards."),
    ] = None,
    key: Keys = None,
    rows: Rows = None,
    class_names: ClassNames = None,
    batch: Annotated[int, typer.Option(min=1, help="Rows at a time; it changes no result.")] = 256,
) -> None:
    """Replay a file as a stream, oldest row first: do the promises hold, has anything drifted?

    Labels in the file are used to measure errors among the accepted and coverage. With --state, several files are one
    stream; give each file once.

    Exit code 0: sound. 3: an alarm rang, now or earlier in the same state: drift, or more errors than promised. 2: bad
    input.
    """
    from caveat._internal.files import is_folder
    from caveat.guard import Guard, Watch
    from caveat.guard.replay import replay
    from caveat.report import write_report

    reading = Reading.of(key, rows, class_names=class_names)
    check_folder(out)
    with progress_bar() as tell:
        tell("reading guard and rows", 0, 1)
        made, streamed = Guard.load(folder), reading.load(outputs)
        if state is not None and is_folder(state):
            watch = Watch.load(made, state)
            if alpha is not None and alpha != watch.alpha:
                raise InputError(f"the watch in {state} was begun with --alpha {watch.alpha:g}, got {alpha:g}. "
                                 "Leave --alpha out, or begin a new one in another folder.")  # fmt: skip
        else:
            watch = made.watch(alpha=0.01 if alpha is None else alpha)
        result = replay(made, streamed, watch, batch=batch, title=f"Check of a guard on {outputs.name}", progress=tell)
        page = write_report(result, out, progress=tell).html
    if state is not None:
        watch.save(state)
    _show_check(result)
    if state is not None:
        say(f"State:  {state} ({watch.rows:,} rows so far)")
    say(f"Report: {page}")
    if result.alarmed:
        raise typer.Exit(3)


def export(
    folder: Folder,
    out: Annotated[Path, typer.Argument(help="The ONNX file.")],
    head: Annotated[
        Path | None, typer.Option(help="File with head_weight and head_bias: the ONNX file then reads features.")
    ] = None,
    head_key: HeadKeys = None,
) -> None:
    """Write a guard as one ONNX file: score, p-value and verdict, with the promises in its metadata."""
    from caveat.guard import Guard

    made, layer = Guard.load(folder), head_of(head, head_key)
    with progress_bar() as tell:
        tell("writing and comparing", 0, 1)
        written = made.export_onnx(out, head=layer)
    say(f"Inputs: {', '.join(written.inputs)}. Outputs: {', '.join(written.outputs)}.")
    say(f"ONNX: {out}")


def _is_another(folder: Path, made: Guard) -> bool:
    """Whether the folder holds a guard with other settings or data, or one that cannot be read."""
    from caveat.guard import Guard

    if not (folder / "guard.json").exists():
        return False
    try:
        there = Guard.load(folder)
    except InputError:
        return True
    return (there.settings(), there.splits_) != (made.settings(), made.splits_)


def _show_promises(made: Guard, *, explained: bool = False) -> None:
    for rule in rules(made):
        say(rule)
    for promise in made.promises:
        say(f"{'✓' if promise.holds else '!'} {promise.explained if explained else promise}")


def _show_check(result: Replay) -> None:
    from caveat.guard.replay import STREAMS
    from caveat.report.guard_check import measured_text

    counts = ", ".join(f"{n:,} {kind}" for kind, n in result.counts.items())
    say(f"{result.n:,} rows: {counts}.")
    say(result.sentence())
    for name, evidence in result.evidence.items():
        say(f"  {STREAMS[name]:<18} evidence (log10) {evidence.now:.2f}, highest {evidence.highest:.2f}, alarm at "
            f"{evidence.line:.2f}; {100 * evidence.share_small:.1f} % of p-values are 0.05 or less")  # fmt: skip
    for measured in result.measured:
        say(f"  {measured.mark} {measured_text(measured)}.")
        if measured.promise is not None:
            say(f"    {measured.promise}")
    bars = result.histogram
    mark, n = "!" if bars.outside.any() else "✓", int(bars.outside.sum())
    say(f"  {mark} P-values: {n} of {bars.counts.size} bars are outside of what chance allows.")


def _write(parts: Sequence[Verdicts], path: Path) -> None:
    from caveat._internal.files import replacing_file
    from caveat._internal.result_tables import write_csv, write_parquet

    rows = [{"row": i} | row for i, row in enumerate(row for part in parts for row in part.rows())]
    if path.suffix == ".parquet":
        write_parquet(rows, path)
    elif path.suffix == ".json":
        with replacing_file(path) as temporary:
            temporary.write_text(json_text(rows), encoding="utf-8", newline="\n")
    write_csv([_flat(row) for row in rows], path.with_suffix(".csv"))


def _flat(row: dict[str, Any]) -> dict[str, Any]:
    """A verdict with its set as text: class numbers with spaces between them, class names with semicolons."""
    texts = {"set": " ".join(map(str, row["set"] or ()))}
    if "set_names" in row:
        texts["set_names"] = "; ".join(row["set_names"] or ())
    return row | texts


guard = typer.Typer(
    no_args_is_help=True, help="A guard: the decision of an evaluation that is saved, used and checked for drift."
)
for _command in (fit, info, predict, check, export):
    guard.command(help=help_of(_command))(demanding(_command))
