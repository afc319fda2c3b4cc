"""Several models on the same rows, ranked by each question, with the groups that cannot be told apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations

from caveat._internal.checks import Rng, as_kind, as_level
from caveat.errors import InputError
from caveat.metrics.selective_intervals import Method
from caveat.results import Comparison, PairedTest
from caveat.results.model_comparison import HIGHER_IS_BETTER
from caveat.scores import Score
from caveat.stats._model_rows import Model, ModelRows, Outliers, read_models
from caveat.stats._model_tests import paired_tests
from caveat.stats._pairs import best_first, comparison_of_pairs
from caveat.stats.compare_models import askable

__all__ = ["rank_models", "rank_rows"]

_TESTS = {"accuracy": "mcnemar", "auroc_of_errors": "delong_rows", "auroc": "delong"}


def rank_models(
    models: Mapping[str, Model],
    *,
    score: str | Score | Mapping[str, str | Score] = "msp",
    outliers: Mapping[str, Outliers] | None = None,
    questions: Sequence[str] | None = None,
    alpha: float = 0.05,
    method: Method = "influence",
    rng: Rng = 0,
    resamples: int = 2000,
) -> dict[str, Comparison]:
    """Question -> ranking of the models: every pair by the test of :func:`compare_models`, Holm over the pairs.

    Each question is its own family of tests: with several, a difference may be reported by chance in one of them more
    often than alpha.

    Parameters
    ----------
    models
        Name -> outputs with labels, or (score, correct), as for :func:`compare_models`; at least two.
    score
        The score that ranks the rows, for all models or by name.
    outliers
        Name of the model -> its outputs or scores on the same outliers.
    questions, alpha, method, rng, resamples
        As for :func:`compare_models`.

    Returns
    -------
    dict
        Question -> Comparison; ``layers`` holds the models from best to worst.

    Examples
    --------
    >>> import numpy as np
    >>> from caveat import Outputs
    >>> rng = np.random.default_rng(0)
    >>> labels = rng.integers(3, size=900)
    >>> models = {name: Outputs(logits=strength * np.eye(3)[labels] + rng.normal(size=(900, 3)), labels=labels)
    ...           for name, strength in (("weak", 1.0), ("strong", 3.0), ("as strong", 3.0))}
    >>> rank_models(models, questions=["accuracy"])["accuracy"].layers
    (('strong', 'as strong'), ('weak',))
    """
    if len(as_kind(models, Mapping, "models", what="a map from names to models")) < 2:
        raise InputError(f"a ranking needs at least 2 models, got {len(models)}.")
    scores: Mapping[str, str | Score] = score if isinstance(score, Mapping) else dict.fromkeys(models, score)
    for what, named in (("score", scores), ("outliers", models if outliers is None else outliers)):
        if set(as_kind(named, Mapping, what)) != set(models):
            raise InputError(f"{what} must name the models {', '.join(models)}, got {', '.join(map(str, named))}.")
    rows = read_models(models, scores, outliers)
    return rank_rows(rows, questions, alpha=as_level(alpha, "alpha"), method=method, rng=rng, resamples=resamples)


def rank_rows(
    models: Mapping[str, ModelRows],
    questions: Sequence[str] | None,
    *,
    alpha: float,
    method: Method = "influence",
    rng: Rng = 0,
    resamples: int = 2000,
) -> dict[str, Comparison]:
    """The same from scores and answers that were read already."""
    able, _ = askable(models, questions)
    by_question = paired_tests(models, able, delta=alpha, method=method, rng=rng, resamples=resamples)
    return {
        question: _ranking(question, tests, alpha, _TESTS.get(question, method))
        for question, tests in by_question.items()
    }


def _ranking(question: str, tests: Mapping[tuple[str, str], PairedTest], alpha: float, test: str) -> Comparison:
    values = {a: test.first for (a, _), test in tests.items()} | {b: test.second for (_, b), test in tests.items()}
    lower_is_better = not HIGHER_IS_BETTER[question]
    names = best_first(values, lower_is_better=lower_is_better)
    p_values = [(tests.get((a, b)) or tests[b, a]).p_value for a, b in combinations(names, 2)]
    return comparison_of_pairs(
        {name: values[name] for name in names}, p_values, alpha=alpha, lower_is_better=lower_is_better,
        posthoc=test, n_blocks=1, what="models",
    )  # fmt: skip
