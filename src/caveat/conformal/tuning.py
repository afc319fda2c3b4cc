r"""Settings of RAPS, SAPS and difficulty bins, chosen on a tuning split that calibration never sees.

The tuning split is halved at random: one half calibrates every candidate, the other judges it, by SSCV (smaller is
better: Angelopoulos et al. 2021) or by T-SS (larger is better: Jang and Lee, appendix B). Data that chose a setting is
not calibration data: a threshold from it would promise nothing.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from caveat._internal.checks import Rng, as_kind, as_level, as_list, as_rng, as_vector, check_known, same_length
from caveat.conformal._bins import SIZE_EDGES, bin_means, equal_mass, signed_r2, strata, worst_violation
from caveat.conformal._probabilities import ClassScores, probability_blocks
from caveat.conformal._ranked import label_ranks
from caveat.conformal.difficulty import EaseBins
from caveat.conformal.nonconformity import RAPS, SAPS, Nonconformity
from caveat.conformal.quantile import quantile_rank
from caveat.conformal.split_sets import SplitSets
from caveat.errors import CaveatWarning, InputError
from caveat.outputs import Outputs
from caveat.outputs.outputs import demand
from caveat.results import PredictionSets

__all__ = ["PENALTIES", "WEIGHTS", "Tuned", "tune_difficulty", "tune_raps", "tune_saps"]

PENALTIES = (0.001, 0.01, 0.1, 0.2, 0.5)
WEIGHTS = (0.0, 0.02, *(round(0.05 * i, 2) for i in range(1, 14)))

Criterion = Literal["sscv", "t_ss"]


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
        Halves the tuning split, and randomises the score.
    criterion
        ``"sscv"``, or ``"t_ss"``, which needs ``ease``.
    penalties
        Candidates.
    ease
        Ease of each tuning sample, shape (n,).
    source
        A fitted OOD score in place of the softmax.

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
    candidates = [RAPS(penalty=penalty, k_reg=k_reg) for penalty in as_list(penalties, "penalties")]
    return _best_score(candidates, tuning, alpha, rng=rng, criterion=criterion, ease=ease, source=source)


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
    """SAPS with the best of several weights, the candidates. Parameters as for ``tune_raps``."""
    candidates = [SAPS(weight=weight) for weight in as_list(weights, "weights")]
    return _best_score(candidates, tuning, alpha, rng=rng, criterion=criterion, ease=ease, source=source)


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
        Halves the tuning split, and randomises scores.
    criterion, scores, bins
        What to judge by; candidates.
    judged_by
        The ease by which T-SS bins; None: the one of the candidate.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> logits, useful, useless = 3 * rng.normal(size=(2000, 5)), rng.random(2000), rng.random(2000)
    >>> clear = rng.random(2000) < useful  # the model does not know for which samples its answer is a guess
    >>> tuning = Outputs(logits=logits, labels=np.where(clear, logits.argmax(axis=1), rng.integers(5, size=2000)))
    >>> tune_difficulty(tuning, {"useless": useless, "useful": useful}, 0.1, rng=rng, judged_by=useful).ease
    'useful'
    """
    rng = as_rng(rng)
    check_known(criterion, ("sscv", "t_ss"), "criterion")
    first, second, rows = _halves(tuning, rng, source=None)
    seeds = rng.integers(2**63, size=2)
    as_list(as_kind(ease, Mapping, "ease"), "ease")
    known = {name: _as_ease(values, tuning) for name, values in ease.items()}
    fixed = None if judged_by is None else _as_ease(judged_by, tuning)
    table: dict[Any, float] = {}
    counts, rules = as_list(bins, "bins"), as_list(scores, "scores")
    for name, values in known.items():
        for count in counts:
            for score in rules:
                # Nothing is promised here: every sample of the first half serves, those on the edges too.
                cut = EaseBins.cut(values[rows[0]], count)
                sets = SplitSets(score, alpha=alpha, by=cut.assign(values[rows[0]]), unseen="all")
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", CaveatWarning)  # a bin too small shows in the criterion
                    sets.calibrate(first, np.random.default_rng(seeds[0]))
                judged = cut.assign(values[rows[1]])
                found = sets.predict(second.outputs, np.random.default_rng(seeds[1]), groups=judged)
                judge = (values if fixed is None else fixed)[rows[1]]
                table[name, count, score] = _judge(found, second, criterion, judge)
    name, count, score = _winner(table, criterion)
    return Tuned(score, count, name, criterion, table)


def _best_score(
    candidates: list[Nonconformity] | list[RAPS] | list[SAPS],
    tuning: Outputs,
    alpha: float,
    *,
    rng: Rng,
    criterion: Criterion,
    ease: ArrayLike | None,
    source: ClassScores | None,
) -> Tuned:
    rng = as_rng(rng)
    check_known(criterion, ("sscv", "t_ss"), "criterion")
    if criterion == "t_ss" and ease is None:
        raise InputError("tuning by T-SS needs the ease of each tuning sample. Pass ease=, or choose criterion='sscv'.")
    first, second, rows = _halves(tuning, rng, source)
    seeds = rng.integers(2**63, size=2)
    known = None if ease is None else _as_ease(ease, tuning)[rows[1]]
    table: dict[Any, float] = {}
    for candidate in candidates:
        sets = SplitSets(candidate, alpha=alpha).calibrate(first, np.random.default_rng(seeds[0]))
        found = sets.predict(second.outputs, np.random.default_rng(seeds[1]))
        table[candidate] = _judge(found, second, criterion, known)
    return Tuned(_winner(table, criterion), None, None, criterion, table)


@final
@dataclass(frozen=True, eq=False)
class _Judging:
    """The half that judges, and what does not change from candidate to candidate."""

    outputs: Outputs
    ranks: NDArray[np.intp]


def _judge(found: PredictionSets, second: _Judging, criterion: str, ease: NDArray[np.float64] | None) -> float:
    sizes, covered = found.sizes, found.covers(second.outputs.labels)
    if criterion == "sscv" or ease is None:
        return worst_violation(covered, strata(sizes, SIZE_EDGES), len(SIZE_EDGES), found.alpha)
    bins = min(50, second.outputs.n)
    number = equal_mass(ease, bins)
    return float(signed_r2(bin_means(second.ranks, number, bins), bin_means(sizes, number, bins)))


def _winner(table: Mapping[Any, float], criterion: str) -> Any:
    """The best candidate; the first of equals. One whose value is not defined never wins against one whose is."""
    sign = 1 if criterion == "sscv" else -1
    return min(table, key=lambda key: np.inf if np.isnan(table[key]) else sign * table[key])


def _halves(
    tuning: Outputs, rng: np.random.Generator, source: ClassScores | None
) -> tuple[Outputs, _Judging, tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """Two random halves, with the probabilities computed once for all candidates, and the rows of each."""
    if demand(tuning, "labels", who="tuning", name="tuning").n < 4:
        raise InputError(f"a tuning split must hold at least 4 samples, got {tuning.n}.")
    order = rng.permutation(tuning.n)
    rows = np.sort(order[: tuning.n // 2]), np.sort(order[tuning.n // 2 :])
    probs = np.concatenate([block for _, block in probability_blocks(tuning, source)])
    first, second = (Outputs(probs=probs[r], labels=tuning.labels[r], check=False) for r in rows)
    return first, _Judging(second, label_ranks(second.probs, second.labels)), rows


def _as_ease(values: ArrayLike, tuning: Outputs) -> NDArray[np.float64]:
    known = as_vector(values, "ease")
    same_length(tuning=tuning, ease=known)
    return known
