"""``caveat certify``: what a trained network can promise about outliers under attack."""

from __future__ import annotations

import math
import warnings
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer
from rich import box
from rich.table import Table

from caveat.cli._console import console, progress_bar, say
from caveat.cli._named import check_folder, named_paths
from caveat.errors import CaveatWarning
from caveat.report.words import percent

if TYPE_CHECKING:
    from caveat.data import Images
    from caveat.study.certification import Certification

__all__ = ["certify", "show_certificates"]

_MADE = ("uniform_noise", "smooth_noise", "permuted", "block_shuffled", "inverted")
_NOISE = 1000  # images of a set that is made


def certify(
    model: Annotated[Path, typer.Argument(help="Folder that caveat train wrote.")],
    data: Annotated[str, typer.Option(help="Held-out inliers: a name of caveat data list, or a file or folder.")],
    outlier: Annotated[
        list[str] | None,
        typer.Option(help=f"A name, a path, name=path, or made: {', '.join(_MADE)}. Default: the first three."),
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
    delta: Annotated[float, typer.Option(help="Allowed failure probability of the guaranteed band.")] = 0.05,
    seed: Annotated[int, typer.Option(min=0, help="Seed for generated outliers and the attack.")] = 0,
    out: Annotated[Path | None, typer.Option(help="Folder to write to; default: certificates/ in the model.")] = None,
) -> None:  # fmt: skip
    """Bound the confidence of a network on outliers, attack it, and report AUC, AAUC and GAUC.

    Writes certificates.csv, certificates.md, certificates.tex and certificates.html.
    """
    from caveat._streams import stream
    from caveat.evaluation.records import long_rows
    from caveat.nn.training.model_folder import load_model
    from caveat.report import write_report
    from caveat.study.certification import certify as run
    from caveat.study.tables import write_csv

    folder = out if out is not None else model / "certificates"
    check_folder(folder)
    with progress_bar() as tell:
        tell("reading model and data", 0, 1)
        trained = load_model(model)
        known = _held_out(model, data, _load(data, split))
        shape = known.inputs().shape[1:]
        outliers: dict[str, Any] = {
            name: _outliers(str(spec), split, known, shape, stream(seed, "outliers", name))
            for name, spec in named_paths(outlier or list(_MADE[:3]), what="outlier").items()
        }
        found = run(
            trained.model, inlier=known, outliers=outliers, epsilon=epsilon, points=points,
            attack_points=attack_points, refine=refine, attack=(attack or ("apgd", "monotone")) if steps else (),
            starts=start or None, steps=max(1, steps), monotone_steps=monotone_steps, restarts=restarts,
            transfer=[load_model(folder).model for folder in transfer or ()], delta=delta, seed=seed,
            source=model.resolve().name, progress=tell,
        )  # fmt: skip
    folder.mkdir(parents=True, exist_ok=True)
    title = f"Certificates of {found.source} at radius {epsilon:g}"
    records = found.records(seed=seed)
    write_csv(list(long_rows(records)), folder / "certificates.csv")
    page = write_report(found.findings(title=title, seed=seed), folder, name="certificates").html
    show_certificates(found)
    for what, path in (("Table", folder / "certificates.csv"), ("Page", page)):
        say(f"{what}: {path}")


def show_certificates(found: Certification) -> None:
    """The sandwich on the terminal."""
    right = "" if np.isnan(found.accuracy) else f", accuracy {_in_percent(found.accuracy)} %"
    title = f"{found.source}: radius {found.epsilon:g}{right}"
    table = Table(title=title, box=box.SIMPLE_HEAD, title_justify="left", pad_edge=False)
    table.add_column("outliers", no_wrap=True)
    fewer = any(one.attacked_rows is not None for one in found.sets)
    for heading in ("AUC", "AAUC", "GAUC", "guaranteed", "n", *(("attacked",) if fewer else ())):
        table.add_column(heading, justify="right", no_wrap=True)
    for one in found.sets:
        attacked = "–" if one.attacked is None else _in_percent(found.aauc(one))
        promised = math.floor(1000 * found.band(one).lower) / 10  # a promise is never rounded up
        table.add_row(one.name, _in_percent(found.auc(one)), attacked, _in_percent(found.gauc(one)),
                      f"≥ {promised:.1f}", str(one.n), *((str(one.n_attacked),) if fewer else ()))  # fmt: skip
    console().print(table)
    say(
        "AUC as they are, AAUC attacked, GAUC certified: no attack within the radius can do better. Guaranteed: GAUC "
        f"for further inliers too, with probability {1 - found.delta:g}."
    )
    if fewer:
        say("AAUC is of the attacked outliers alone, so it can lie outside GAUC and AUC, which are of all n.")
    for sentence in dict.fromkeys(one.caveat for one in found.sets if one.caveat):
        say(sentence)


def _in_percent(share: float) -> str:
    return percent(share).removesuffix("\xa0%")


def _load(spec: str, split: str | None) -> Images:
    from caveat.data import KNOWN, load, read

    if spec in KNOWN:
        splits = KNOWN[spec].sizes
        return load(spec, split if split in splits or len(splits) > 1 else None)
    if not Path(spec).exists():
        return load(spec, split)  # says which names there are
    return read(spec, split)


def _held_out(model: Path, spec: str, known: Images) -> Images:
    """Of a set without a split of its own for tests, the rows that the plan in the model's folder kept from training.

    The band promises something about further inliers, and needs inliers that the network has not seen.
    """
    from caveat._files import read_json
    from caveat.study.train_plan import Source, TrainPlan
    from caveat.study.training import limited_rows, load_images, load_parts

    if not (model / "plan.json").exists():
        return known
    plan = read_json(model / "plan.json")
    train, test = Source(**plan["train"]), plan["test"]
    if spec != train.name and (not train.path or Path(spec).resolve() != Path(train.path).resolve()):
        return known
    whole = load_images(replace(train, limit=None))
    if not np.array_equal(known.pixels, whole.pixels):
        return known  # another split
    if isinstance(test, float):
        return load_parts(TrainPlan(train=train, validation=plan["validation"], test=test, seed=plan["seed"]))[0][
            "test"
        ]
    seen = limited_rows(known, train.limit or len(known), seed=plan["seed"])
    if len(known) > seen.size:
        return known[np.setdiff1d(np.arange(len(known)), seen)]
    warnings.warn(f"the network was trained on images of '{spec}', so the guaranteed band does not hold. "
                  "Set data.test in the plan, or certify on other images.", CaveatWarning, stacklevel=2)  # fmt: skip
    return known


def _outliers(spec: str, split: str | None, like: Images, shape: tuple[int, ...], rng: np.random.Generator) -> Any:
    from caveat import data
    from caveat.data import Images, noise, smooth_noise
    from caveat.study.training import fit_to

    height, width = like.pixels.shape[1:3]
    channels = like.pixels.shape[3] if like.pixels.ndim == 4 else None
    if spec in ("uniform_noise", "smooth_noise"):
        make = noise if spec == "uniform_noise" else smooth_noise
        return fit_to(make(_NOISE, rng, height=height, width=width, channels=channels), shape)
    if spec in _MADE:
        change: Any = getattr(data, spec)
        return fit_to(change(like.pixels) if spec == "inverted" else change(like.pixels, rng), shape)
    given = _load(spec, split)
    fitted = fit_to(given.pixels, shape)
    pixels = fitted[:, 0] if shape[0] == 1 else np.moveaxis(fitted, 1, 3)
    return Images(pixels, given.labels, given.classes)
