"""All settings of a score chosen on validation data: the temperature, and the parameters that papers tune.

Appendix E of Claros-Olivares and Brockmeier, "A Systematic Analysis of Out-of-Distribution Detection Under
Representation and Training Paradigm Shifts": one temperature is fitted on validation data and given to every score that
reads logits; every other parameter is the one with the smallest AUGRC of misclassification there, also the variance
that a projection keeps and the parameters of the score inside it. No outlier is looked at.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection

import numpy as np

from caveat._internal import ranking
from caveat._internal.checks import Rng
from caveat.errors import CaveatWarning
from caveat.outputs import Outputs
from caveat.outputs.outputs import demand
from caveat.scores._base import Score
from caveat.scores.msp import fit_temperature
from caveat.scores.tempered import Tempered, reads_logits
from caveat.scores.tuning import Tuned, search

__all__ = ["tune_settings"]


def tune_settings(
    score: Score, *, train: Outputs | None, validation: Outputs, keep: Collection[str] = (), rng: Rng = 0
) -> Tuned:
    """Choose temperature and parameters of a score on held-out inliers, and fit it.

    Parameters
    ----------
    score
        The score, plain or projected; its parameters are the defaults, which win ties.
    train
        Training outputs, where the score learns.
    validation
        Held-out inliers with labels, none of them training rows. They must set no threshold afterwards.
    keep
        Parameters that stay as they are; with ``"temperature"`` among them the logits stay as they are too.
    rng
        Seed of the random steps of the fits.

    Returns
    -------
    Tuned
        The fitted score, ``params`` with everything that was chosen, the points that were tried, and as ``value`` the
        AUGRC of the chosen settings on the validation rows: networks can be chosen by it, too. Without a parameter to
        choose, or where every answer on the validation rows is right, the defaults stay; in the second case ``caveat``
        says so and the value is NaN.

    Examples
    --------
    >>> from caveat.scores import GEN
    >>> outputs = Outputs(logits=[[4.0, 0.0, 0.0], [4.0, 3.9, -9.0], [4.0, 0.5, 0.5]], labels=[0, 1, 0])
    >>> chosen = tune_settings(GEN(), train=None, validation=outputs)
    >>> {name: round(value, 2) for name, value in chosen.params.items()}
    {'temperature': 0.66, 'gamma': 0.1, 'top': 100}
    """
    demand(validation, "correct", who="tuning", name="the tuning rows")
    chosen: dict[str, object] = {}
    caveat = ""
    if reads_logits(score) and not score.held_out and "temperature" not in keep and validation.has("probs"):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", CaveatWarning)
            temperature = fit_temperature(validation)
        caveat = "The tuning rows have no error that a temperature could be fitted to: T = 1." if caught else ""
        chosen["temperature"] = temperature
        score = Tempered(score, temperature)
    grid = {name: values for name, values in score.grid_for(validation).items() if name not in keep}
    correct = np.asarray(validation.correct)
    if grid and not correct.all() and correct.any():
        tuned = search(score, grid, train=train, validation=validation, rng=rng)
        return Tuned(tuned.score, {**chosen, **tuned.params}, tuned.value, tuned.metric, tuned.table, tuned.n, caveat)
    if grid:
        kind = "right" if correct.all() else "wrong"
        caveat = f"All {correct.size} answers on the tuning rows are {kind}: nothing to choose by, so defaults stay."
    if score.held_out:
        score.fit(validation, rng=rng)
    elif score.fits_on and train is not None:
        score.fit(train, rng=rng)
    judged = correct.any() and not correct.all()
    value = ranking.augrc(score.score(validation), correct) if judged else float("nan")
    return Tuned(score, chosen, value, "augrc", (), validation.n, caveat)
