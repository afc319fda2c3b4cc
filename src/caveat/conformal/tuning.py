r"""Settings of RAPS, SAPS and difficulty bins, chosen on a tuning split that calibration never sees.

The tuning split is halved at random: one half calibrates every candidate, the other judges it, by SSCV (smaller is
better: Angelopoulos et al. 2021) or by T-SS (larger is better: Jang and Lee, appendix B). Data that chose a setting is
not calibration data: a threshold from it would promise nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Literal, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from caveat._internal.checks import (
    Rng,
    as_count,
    as_kind,
    as_level,
    as_list,
    as_rng,
    as_vector,
    check_known,
    same_length,
)
from caveat.conformal._bins import SIZE_EDGES, bin_means, equal_mass, signed_r2, strata, worst_violation
from caveat.conformal._probabilities import ClassScores, probability_blocks
from caveat.conformal._ranked import label_ranks
from caveat.conformal.difficulty import EaseBins
from caveat.conformal.grouped import GroupedScores
from caveat.conformal.nonconformity import RAPS, SAPS, Nonconformity
from caveat.conformal.quantile import Promise, quantile_rank
from caveat.conformal.split_sets import SplitSets
from caveat.errors import InputError
from caveat.outputs import Outputs
from caveat.outputs.outputs import demand

__all__ = ["PENALTIES", "WEIGHTS", "Tuned", "tune_difficulty", "tune_raps", "tune_saps"]

PENALTIES = (0.001, 0.01, 0.1, 0.2, 0.5)
WEIGHTS = (0.0, 0.02, *(round(0.05 * i, 2) for i in range(1, 14)))

Criterion = Literal["sscv", "t_ss"]
# The key in the table, the score and, for difficulty sets, the ease and the number of bins.
Candidate = tuple[Any, str | Nonconformity, NDArray[np.float64] | None, int]


@final
@dataclass(frozen=True)
class Tuned:
    """The chosen setting and how every candidate fared.

    Parameters
    ----------
    score
        The chosen nonconformity score.
    bins, ease
        For difficulty sets: the chosen number of bins and the name of the chosen ease; else None.
    criterion
        What was judged by.
    table
        Candidate -> value of the criterion.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> logits = 2 * rng.normal(size=(500, 8))
    >>> tuning = Outputs(logits=logits, labels=(logits + rng.gumbel(size=(500, 8))).argmax(axis=1))
    >>> tuned = tune_raps(tuning, alpha=0.1, rng=0, penalties=(0.01, 0.5))
    >>> tuned.score, {score.penalty: round(value, 3) for score, value in tuned.table.items()}
    (RAPS(penalty=0.5, k_reg=4), {0.01: 0.057, 0.5: 0.05})
    """

    score: Nonconformity | str
    bins: int | None
    ease: str | None
    criterion: str
    table: Mapping[Any, float]


def tune_raps(
    tuning: Outputs,
    alpha: float,
    *,
    rng: Rng,
    criterion: Criterion = "sscv",
    penalties: Iterable[float] = PENALTIES,
    ease: ArrayLike | None = None,
    source: ClassScores | None = None,
) -> Tuned:
    """RAPS with k_reg from the ranks of the true labels and the best of several penalties.

    k_reg is the conformal quantile of the ranks: the smallest fixed set size that covers (Angelopoulos et al. 2021,
    algorithm 4).

    Parameters
    ----------
    tuning
        Outputs with labels, for nothing but this choice: a split of their own.
    alpha
        Allowed error of the sets that the score is for.
    rng
        Halves the tuning split, and randomizes the score.
    criterion
        ``"sscv"``, or ``"t_ss"``, which needs ``ease``.
    penalties
        Candidates.
    ease
        Ease of each tuning sample, shape (n,).
    source
        A fitted OOD score in place of the softmax.

    Returns
    -------
    Tuned
        ``score`` is the chosen RAPS; ``table`` maps each candidate to the value of the criterion.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> logits = 2 * rng.normal(size=(1000, 20))
    >>> tuning = Outputs(logits=logits, labels=np.argmax(logits + rng.gumbel(size=(1000, 20)), axis=1))
    >>> tuned = tune_raps(tuning, alpha=0.1, rng=rng)
    >>> tuned.score.k_reg, len(tuned.table)
    (7, 5)
    """
    demand(tuning, "labels", who="tuning", name="tuning")
    k = quantile_rank(tuning.n, as_level(alpha, "alpha"))
    blocks = probability_blocks(tuning, source)
    ranks = np.sort(np.concatenate([label_ranks(probs, tuning.labels[rows]) for rows, probs in blocks]))
    k_reg = int(ranks[min(k, ranks.size) - 1])
    scores = [RAPS(penalty=penalty, k_reg=k_reg) for penalty in as_list(penalties, "penalties")]
    return _best_score(scores, tuning, alpha, rng=rng, criterion=criterion, ease=ease, source=source)


def tune_saps(
    tuning: Outputs,
    alpha: float,
    *,
    rng: Rng,
    criterion: Criterion = "sscv",
    weights: Iterable[float] = WEIGHTS,
    ease: ArrayLike | None = None,
    source: ClassScores | None = None,
) -> Tuned:
    """SAPS with the best of several weights.

    Parameters
    ----------
    tuning, alpha, rng, criterion
        As for ``tune_raps``.
    weights
        The candidates.
    ease, source
        As for ``tune_raps``.

    Returns
    -------
    Tuned
        ``score`` is the chosen SAPS; ``table`` maps each candidate to the value of the criterion.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> logits = 2 * rng.normal(size=(500, 8))
    >>> tuning = Outputs(logits=logits, labels=(logits + rng.gumbel(size=(500, 8))).argmax(axis=1))
    >>> tuned = tune_saps(tuning, alpha=0.1, rng=0, weights=(0.05, 0.2, 0.5))
    >>> tuned.score, [round(value, 3) for value in tuned.table.values()]
    (SAPS(weight=0.5), [0.2, 0.061, 0.047])
    """
    scores = [SAPS(weight=weight) for weight in as_list(weights, "weights")]
    return _best_score(scores, tuning, alpha, rng=rng, criterion=criterion, ease=ease, source=source)


def tune_difficulty(
    tuning: Outputs,
    ease: Mapping[str, ArrayLike],
    alpha: float,
    *,
    rng: Rng,
    criterion: Criterion = "t_ss",
    scores: Iterable[str | Nonconformity] = ("lac",),
    bins: Iterable[int] = (10, 20, 30),
    judged_by: ArrayLike | None = None,
) -> Tuned:
    """The number of bins, the kind of ease and the score that give the most adaptive difficulty sets.

    Parameters
    ----------
    tuning
        Outputs with labels, for nothing but this choice.
    ease
        Name of a transformation (such as its strength) -> ease of each tuning sample under it.
    alpha
        Allowed error.
    rng
        Halves the tuning split, and randomizes scores.
    criterion, scores, bins
        What to judge by; candidates.
    judged_by
        The ease by which T-SS bins; None: the one of the candidate.

    Returns
    -------
    Tuned
        The chosen ``score``, ``bins`` and ``ease``; ``table`` holds the value of every candidate.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> logits, useful, useless = 3 * rng.normal(size=(2000, 5)), rng.random(2000), rng.random(2000)
    >>> clear = rng.random(2000) < useful  # the model does not know for which samples its answer is a guess
    >>> tuning = Outputs(logits=logits, labels=np.where(clear, logits.argmax(axis=1), rng.integers(5, size=2000)))
    >>> tune_difficulty(tuning, {"useless": useless, "useful": useful}, 0.1, rng=rng, judged_by=useful).ease
    'useful'
    """
    eases = {name: _as_ease(ease[name], tuning) for name in as_list(as_kind(ease, Mapping, "ease"), "ease")}
    counts, choices = [as_count(count, "bins") for count in as_list(bins, "bins")], as_list(scores, "scores")
    for score in choices:
        SplitSets(score, alpha=alpha)  # says what is wrong with one; they are keys of the table below
    keys = product(eases, counts, choices)
    candidates = [((name, count, score), score, eases[name], count) for name, count, score in keys]
    table = _judged(candidates, tuning, alpha, rng=rng, criterion=criterion, ease=judged_by)
    name, count, score = best_of(table, criterion)
    return Tuned(score, count, name, criterion, table)


def _best_score(scores: Sequence[Nonconformity], tuning: Outputs, alpha: float, **how: Any) -> Tuned:
    criterion = how["criterion"]
    if criterion == "t_ss" and how["ease"] is None:
        raise InputError("tuning by T-SS needs the ease of each tuning sample. Pass ease=, or choose criterion='sscv'.")
    table = _judged([(score, score, None, 1) for score in scores], tuning, alpha, **how)
    return Tuned(best_of(table, criterion), None, None, criterion, table)


def _judged(
    candidates: Sequence[Candidate],
    tuning: Outputs,
    alpha: float,
    *,
    rng: Rng,
    criterion: Criterion,
    ease: ArrayLike | None,
    source: ClassScores | None = None,
) -> dict[Any, float]:
    """The criterion of each candidate: calibrated on one random half of the tuning split, judged on the other.

    ``ease``: by which T-SS bins; None: the one of the candidate.
    """
    rng = as_rng(rng)
    check_known(criterion, ("sscv", "t_ss"), "criterion")
    if demand(tuning, "labels", who="tuning", name="tuning").n < 4:
        raise InputError(f"a tuning split must hold at least 4 samples, got {tuning.n}.")
    order = rng.permutation(tuning.n)
    fit, new = np.sort(order[: tuning.n // 2]), np.sort(order[tuning.n // 2 :])
    probs = np.concatenate([block for _, block in probability_blocks(tuning, source)])  # once for all candidates
    first, second = (Outputs(probs=probs[rows], labels=tuning.labels[rows], check=False) for rows in (fit, new))
    ranks = label_ranks(second.probs, second.labels)
    seeds = rng.integers(2**63, size=2)
    u_fit, u_new = np.random.default_rng(seeds[0]).random(first.n), np.random.default_rng(seeds[1]).random(second.n)
    fixed = None if ease is None else _as_ease(ease, tuning)
    promise, table = Promise(alpha), dict.fromkeys((key for key, *_ in candidates), np.nan)
    for score in dict.fromkeys(score for _, score, _, _ in candidates):
        rule, its = SplitSets(score, alpha=alpha).nonconformity.fine, [c for c in candidates if c[1] == score]
        calibration = rule._of_labels(first.probs, first.labels, u_fit)
        own = rule._of_labels(second.probs, second.labels, u_new)
        every = (
            rule._of_all(second.probs, u_new) if len(its) > 1 else None
        )  # all labels, scored once for its candidates
        for key, _, own_ease, count in its:
            by, groups = None, np.zeros(second.n, dtype=np.intp)
            if own_ease is not None:
                # Nothing is promised here: every sample of the first half serves, those on the edges too.
                cut = EaseBins.cut(own_ease[fit], count)
                by, groups = cut.assign(own_ease[fit]), cut.assign(own_ease[new])
            grouped = GroupedScores.of(calibration, by)
            # A bin too small for alpha has threshold inf, which shows in the criterion; so has one that is empty.
            threshold = np.append(grouped.thresholds(promise.rank), np.inf)[grouped.find(groups)]
            member = rule._within(second.probs, u_new, threshold) if every is None else every <= threshold[:, None]
            sizes, covered = np.count_nonzero(member, axis=1), own <= threshold
            judge = own_ease if fixed is None else fixed
            if criterion == "sscv" or judge is None:
                table[key] = worst_violation(covered, strata(sizes, SIZE_EDGES), len(SIZE_EDGES), promise.alpha)
            else:
                bins = min(50, second.n)
                number = equal_mass(judge[new], bins)
                table[key] = float(signed_r2(bin_means(ranks, number, bins), bin_means(sizes, number, bins)))
    return table


def best_of(table: Mapping[Any, float], criterion: str) -> Any:
    """The best candidate; the first of equals. One whose value is not defined never wins against one whose is."""
    sign = 1 if criterion == "sscv" else -1
    return min(table, key=lambda key: np.inf if np.isnan(table[key]) else sign * table[key])


def _as_ease(values: ArrayLike, tuning: Outputs) -> NDArray[np.float64]:
    ease = as_vector(values, "ease")
    same_length(tuning=demand(tuning, "labels", who="tuning", name="tuning"), ease=ease)
    return ease
