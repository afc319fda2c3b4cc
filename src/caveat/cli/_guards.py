"""Making a guard from files, as ``caveat guard fit`` and ``caveat threshold`` do."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from caveat.cli._console import progress_bar
from caveat.errors import InputError

if TYPE_CHECKING:
    from caveat.cli._files import Reading
    from caveat.cli._scale import Workplace
    from caveat.guard import Guard


def fitted_guard(
    scores: Sequence[str],
    *,
    calibration: Path,
    train: Path | None,
    seed: int = 0,
    place: Workplace | None = None,
    reading: Reading | None = None,
    **settings: Any,
) -> Guard:
    """A calibrated guard from files; a score that learns from training rows asks for ``--train``."""
    from caveat.cli._files import Reading
    from caveat.guard import Guard

    reading = Reading() if reading is None else reading
    guard = Guard(scores[0] if len(scores) == 1 else list(scores), **settings)
    used = (*guard.scores_, *((guard.confidence_,) if guard.risk is not None else ()))
    learning = [score.name for score in used if score.fits_on and not score.held_out]
    if learning and train is None:
        raise InputError(f"{learning[0]} learns from training rows. Give them: --train train.npz.")
    with progress_bar() as tell:
        tell("reading the files", 0, 3)
        held = reading.load(calibration, "calibration")
        if train is not None and place is not None and place.by_ranges:
            from caveat import scale

            scale.fit(guard, reading.source(train, "train"), client=place.client, progress=tell, rng=seed)
        elif train is not None:
            rows = reading.load(train, "train")
            tell("fitting", 1, 3)
            guard.fit(rows, rng=seed)
        tell("calibrating", 2, 3)
        return guard.calibrate(held, seed=seed)


def rules(guard: Guard) -> list[str]:
    """The thresholds of a guard, one rule a line."""
    name = " + ".join(score.name for score in guard.scores_)
    how = f" ({guard.combine} of p-values)" if len(guard.scores_) > 1 else ""
    if math.isinf(guard.threshold_):
        lines = [f"outlier: {name}{how} has no threshold: rejects nothing"]
    else:
        lines = [f"outlier: {name}{how} >= {guard.threshold_:.10g}"]
    if guard.accept_below_ is not None:
        always = guard.accept_below_ == -math.inf
        limit = "abstains always" if always else f"{guard.confidence_.name} >= {guard.accept_below_:.10g}"
        lines.append(f"abstain: {limit}")
    return lines + [f"{score.name}: {score.note}" for score in guard.scores_ if score.note]
