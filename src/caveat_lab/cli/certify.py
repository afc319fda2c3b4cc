"""``caveat certify``: what a trained network can promise about outliers under attack."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich import box
from rich.table import Table

from caveat.cli._console import console, progress_bar, say
from caveat.cli._named import check_folder, named_paths

if TYPE_CHECKING:
    from caveat_lab.experiments.certification import Certification

__all__ = ["certify", "show_certificates"]


def certify(
    model: Annotated[Path, typer.Argument(help="Folder that caveat train wrote.")],
    data: Annotated[str, typer.Option(help="Held-out inliers: a name of caveat data list, or a file or folder.")],
    outlier: Annotated[
        list[str] | None,
        typer.Option(
            help="A name, a path, name=path, or made: uniform_noise, smooth_noise, permuted, block_shuffled, inverted. "
            "Default: the first three."
        ),
    ] = None,
    epsilon: Annotated[float, typer.Option(help="Radius: how far an attacker may change every pixel.")] = 0.3,
    split: Annotated[str | None, typer.Option(help="Split of the inliers and of named outliers.")] = "test",
    points: Annotated[int, typer.Option(min=1, help="Maximum outliers per set for AUC and GAUC.")] = 300,
    attack_points: Annotated[
        int | None,
        typer.Option(min=1, help="Maximum outliers per set for AAUC, chosen among --points. Default: all of those."),
    ] = None,
    refine: Annotated[
        int, typer.Option(min=0, help="Maximum outliers per set that get tighter bounds, half a second each.")
    ] = 0,
    attack: Annotated[
        list[str] | None,
        typer.Option(
            help="Attack to run: apgd (gradient ascent with momentum) or monotone (never accepts a step down). Repeat "
            "for several. Default: both."
        ),
    ] = None,
    steps: Annotated[int, typer.Option(min=0, help="Gradient steps of apgd; 0: no attack. The paper uses 500.")] = 100,
    monotone_steps: Annotated[
        int | None,
        typer.Option(min=1, help="Gradient steps of monotone. Default: twice --steps. The paper uses 200."),
    ] = None,
    restarts: Annotated[
        int, typer.Option(min=1, help="How often attacks start again from new random points. The paper uses 5.")
    ] = 1,
    start: Annotated[
        list[str] | None,
        typer.Option(
            help="Where attacks start: point (the outlier), small, full (random), contrast, decontrast, lower, "
            "toward_id (toward inliers). Repeat for several. Default: point, small, contrast, toward_id."
        ),
    ] = None,
    transfer: Annotated[
        list[Path] | None,
        typer.Option(
            help="Folder of another trained model. It is attacked first, then the monotone attack on MODEL starts from "
            "the points found there. Repeat for several."
        ),
    ] = None,
    arithmetic: Annotated[
        str,
        typer.Option(
            help="Arithmetic that certificates hold in: model (the network as it is deployed, in its own float type), "
            "float64 (nn.in_float64 of it, which must then be deployed) or real (real numbers, as in the paper)."
        ),
    ] = "model",
    delta: Annotated[float, typer.Option(help="Allowed failure probability of the guaranteed band.")] = 0.05,
    seed: Annotated[int, typer.Option(min=0, help="Seed for generated outliers and the attack.")] = 0,
    out: Annotated[Path | None, typer.Option(help="Folder to write to; default: certificates/ in the model.")] = None,
) -> None:  # fmt: skip
    """Bound the confidence of a network on outliers, attack it, and report AUC, AAUC and GAUC.

    Writes certificates.csv, certificates.md, certificates.tex and certificates.html.
    """
    from caveat._internal.result_tables import write_csv
    from caveat._internal.streams import stream
    from caveat.demo.strange import MADE
    from caveat.evaluation.records import long_rows
    from caveat.report import write_report
    from caveat_lab.experiments.certification import certify as run
    from caveat_lab.experiments.certified_images import held_out, named_images, outliers_like
    from caveat_lab.networks.training.model_folder import load_model

    folder = out if out is not None else model / "certificates"
    check_folder(folder)
    with progress_bar() as tell:
        tell("reading model and data", 0, 1)
        trained = load_model(model)
        inliers = held_out(model, data, named_images(data, split))
        shape = inliers.inputs().shape[1:]
        outliers: dict[str, Any] = {
            name: outliers_like(str(spec), split, inliers, shape, stream(seed, "outliers", name))
            for name, spec in named_paths(outlier or list(MADE[:3]), what="outlier").items()
        }
        certification = run(
            trained.model, inlier=inliers, outliers=outliers, epsilon=epsilon, points=points,
            attack_points=attack_points, refine=refine, attack=(attack or ("apgd", "monotone")) if steps else (),
            starts=start or None, steps=max(1, steps), monotone_steps=monotone_steps, restarts=restarts,
            transfer=[load_model(folder).model for folder in transfer or ()], delta=delta, seed=seed,
            arithmetic=arithmetic,
            source=model.resolve().name, progress=tell,
        )  # fmt: skip
    folder.mkdir(parents=True, exist_ok=True)
    title = f"Certificates of {certification.source} at radius {epsilon:g}"
    records = certification.records(seed=seed)
    write_csv(list(long_rows(records)), folder / "certificates.csv")
    page = write_report(certification.findings(title=title, seed=seed), folder, name="certificates").html
    show_certificates(certification)
    for what, path in (("Table", folder / "certificates.csv"), ("Page", page)):
        say(f"{what}: {path}")


def show_certificates(certification: Certification) -> None:
    """The sandwich on the terminal."""
    from caveat.evaluation.records import Certificate
    from caveat.report.certificates import rounding

    right = "" if math.isnan(certification.accuracy) else f", accuracy {_in_percent(certification.accuracy)} %"
    title = f"{certification.source}: radius {certification.epsilon:g}{right}"
    table = Table(title=title, box=box.SIMPLE_HEAD, title_justify="left", pad_edge=False)
    table.add_column("outliers", no_wrap=True)
    fewer = any(one.attacked_rows is not None for one in certification.sets)
    for heading in ("AUC", "AAUC", "GAUC", "guaranteed", "n", *(("attacked",) if fewer else ())):
        table.add_column(heading, justify="right", no_wrap=True)
    for one in certification.sets:
        attacked = "–" if one.attacked is None else _in_percent(certification.aauc(one))
        promised = math.floor(1000 * certification.band(one).lower) / 10  # a promise is never rounded up
        table.add_row(one.name, _in_percent(certification.auc(one)), attacked, _in_percent(certification.gauc(one)),
                      f"≥ {promised:.1f}", str(one.n), *((str(one.n_attacked),) if fewer else ()))  # fmt: skip
    console().print(table)
    say(
        "AUC as they are, AAUC attacked, GAUC certified: no attack within the radius can do better. Guaranteed: GAUC "
        f"for further inliers too, with probability {1 - certification.delta:g}."
    )
    for sentence in rounding(record for record in certification.records() if isinstance(record, Certificate)):
        say(sentence)
    if fewer:
        say("AAUC is of the attacked outliers alone, so it can lie outside GAUC and AUC, which are of all n.")
    for sentence in dict.fromkeys(one.caveat for one in certification.sets if one.caveat):
        say(sentence)


def _in_percent(share: float) -> str:
    from caveat.report.words import percent

    return percent(share).removesuffix("\xa0%")
