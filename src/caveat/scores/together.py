"""Many scores, one walk over the training outputs, and one more for what depends on the first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from caveat._internal.checks import Rng, as_list
from caveat._internal.streams import as_seed
from caveat.outputs import Outputs
from caveat.outputs.outputs import demand
from caveat.scores._base import Score
from caveat.scores._statistics import gather
from caveat.scores.catalogue import catalogue, make

__all__ = ["applicable", "fit_all", "score_all"]


def applicable(train: Outputs | None, *others: Outputs) -> tuple[dict[str, Score], dict[str, str]]:
    """Scores of the catalogue with default parameters that these outputs allow, and why the rest cannot be computed.

    Parameters
    ----------
    train
        Training outputs, or None.
    *others
        Outputs that are to be scored.

    Returns
    -------
    tuple of two dict
        Name -> score, not fitted; and name -> reason why it cannot be computed.

    Examples
    --------
    >>> can, cannot = applicable(None, Outputs(logits=[[1.0, 0.0]]))
    >>> can["msp"], cannot["knn"]
    (MSP(temperature=1.0), 'needs training outputs')
    """
    can: dict[str, Score] = {}
    cannot: dict[str, str] = {}
    for outputs in others if train is None else (train, *others):
        demand(outputs, who="applicable")
    for entry in catalogue():
        score = entry.score()
        reasons = [reason for outputs in others if (reason := score.missing(train=train, outputs=outputs))]
        if reasons:
            cannot[entry.name] = reasons[0]
        else:
            can[entry.name] = score
    return can, cannot


def fit_all(scores: Iterable[Score], train: Outputs, validation: Outputs | None = None, *, rng: Rng = 0) -> None:
    """Fit every score from one shared walk over the training outputs.

    A second walk, shared too, fills what cannot be had before the first is over: ViM's scale (lengths outside the
    principal space), the tails of OpenMax (distances to class means), the kernel components (values at landmarks) and
    the spread of the layers' distances. Two scores also read single rows: NNGuide draws some, and Mahalanobis
    reads those of one class at a time for its class scores. A score that should learn from held-out inliers (a
    temperature) learns from ``validation`` where that is given. ``rng`` seeds every score alike, so that a score does
    not depend on those fitted with it: with an int it is that of ``score.fit(train, rng=rng)``.
    """
    learners, seed = [], as_seed(rng)
    for score in scores:
        if score.held_out and validation is not None and not score.missing(train=validation, outputs=validation):
            score.fit(validation, rng=seed)
        elif score.fits_on:
            learners.append(score)
    for score in learners:
        score.can_fit(train)
    first = gather(train, [statistic for score in learners for statistic in score.statistics()]).with_seed(seed)
    second = gather(train, [statistic for score in learners for statistic in score.prepare(train, first)])
    for score in learners:
        score.complete(train, first | second)


def score_all(
    train: Outputs | None,
    outputs: Outputs,
    names: Iterable[str] | str | None = None,
    *,
    validation: Outputs | None = None,
    rng: Rng = 0,
) -> dict[str, NDArray[np.float64]]:
    """Scores under every applicable score, or under the named ones, by name. The larger, the stranger.

    All that is learned comes from one shared walk over the training outputs, and one more for what depends on the
    first: see ``fit_all``.

    Parameters
    ----------
    train
        Training outputs; None: only scores that learn nothing.
    outputs
        Outputs to score.
    names
        Names of the catalogue, or one name; None: all that are applicable.
    validation
        Held-out inliers for a score that learns from those.
    rng
        Seed of the random steps, as in ``Score.fit``.

    Returns
    -------
    dict
        Name -> array of shape (n,).

    Examples
    --------
    >>> outputs = Outputs(logits=[[9.0, 0.0], [0.0, 0.0]])
    >>> {name: values.round(2).tolist() for name, values in score_all(None, outputs, ["msp", "energy"]).items()}
    {'msp': [-1.0, -0.5], 'energy': [-9.0, -0.69]}
    """
    for name, rows in {"train": train, "outputs": outputs, "validation": validation}.items():
        if rows is not None or name == "outputs":
            demand(rows, who="score_all", name=name)
    chosen: Mapping[str, Score]
    chosen = applicable(train, outputs)[0] if names is None else {n: make(n) for n in as_list(names, "names")}
    chosen = {name: score.without_class_scores() for name, score in chosen.items()}
    if train is not None:
        fit_all(chosen.values(), train, validation, rng=rng)
    return {name: score.score(outputs) for name, score in chosen.items()}
