"""Two models on the same rows: is one really better?

Each model has its own answers and its own score; only the rows are shared. ``stats/_model_tests.py`` says which test
answers which question and why. Holm's adjustment covers all questions that are asked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from caveat._internal.checks import Rng, as_kind, as_level, as_list, as_pair, check_known
from caveat.errors import InputError
from caveat.metrics.selective_intervals import Method
from caveat.results import ModelComparison
from caveat.results.model_comparison import HIGHER_IS_BETTER
from caveat.scores import Score
from caveat.stats._model_rows import Model, ModelRows, Outliers, read_models
from caveat.stats._model_tests import paired_tests
from caveat.stats.posthoc import holm

__all__ = ["compare_models"]


def compare_models(
    a: Model,
    b: Model,
    *,
    score: str | Score | tuple[str | Score, str | Score] = "msp",
    outliers_a: Outliers | None = None,
    outliers_b: Outliers | None = None,
    questions: Sequence[str] | None = None,
    alpha: float = 0.05,
    method: Method = "influence",
    rng: Rng = 0,
    resamples: int = 2000,
    names: tuple[str, str] = ("a", "b"),
) -> ModelComparison:
    """Which of two models is better on the same rows, by accuracy, selective risk and detection; or that they are tied.

    Parameters
    ----------
    a, b
        Outputs with labels of the same rows in the same order, which is checked by the labels; or a pair (score,
        correct) of arrays (n,), where the score is larger for stranger rows: minus the confidence.
    score
        Name of the score that ranks the rows of both models, a score, or one fitted score for each. Pairs of arrays
        bring their own.
    outliers_a, outliers_b
        The same outliers by both models: outputs, an array of scores, or a map from names to either. The question
        ``auroc`` then is their mean AUROC against all rows.
    questions
        Which of accuracy, aurc, augrc, auroc_of_errors and auroc to ask; default all that the data allow. Fewer
        questions find smaller differences.
    alpha
        Level of the verdict after Holm's adjustment. Each interval has level 1 - alpha by itself.
    method
        Standard errors of aurc and augrc: ``"influence"`` needs no resampling, ``"bootstrap"`` draws the same rows for
        both models.
    rng, resamples
        Of the bootstrap.
    names
        What the models are called in the result.

    Returns
    -------
    ModelComparison
        ``verdict`` in one sentence, ``tests`` with one PairedTest for each question, ``adjusted`` p-values.

    Examples
    --------
    >>> import numpy as np
    >>> from caveat import Outputs
    >>> rng = np.random.default_rng(0)
    >>> labels = rng.integers(3, size=900)
    >>> logits = [strength * np.eye(3)[labels] + rng.normal(size=(900, 3)) for strength in (3, 1)]
    >>> strong, weak = (Outputs(logits=values, labels=labels) for values in logits)
    >>> compare_models(strong, weak, questions=["accuracy", "augrc"])
    ModelComparison(a is better in accuracy, augrc. 900 rows, Holm over 2 questions, alpha = 0.05.)
    >>> compare_models(strong, strong).verdict
    'a and b are tied in accuracy, aurc, augrc, auroc_of_errors.'
    """
    alpha, names = as_level(alpha, "alpha"), as_pair(names, "names")
    if len({as_kind(name, str, "a name of a model") for name in names}) == 1:
        raise InputError(f"two models need two names, got {names[0]!r} twice.")
    if (outliers_a is None) != (outliers_b is None):
        raise InputError("outliers_a and outliers_b must be given together: the same outliers by both models.")
    outliers = None if outliers_a is None else dict(zip(names, (outliers_a, outliers_b), strict=True))
    scores = score if isinstance(score, tuple) else (score, score)
    models = read_models(
        dict(zip(names, (a, b), strict=True)), dict(zip(names, as_pair(scores, "score"), strict=True)), outliers
    )
    able, left_out = askable(models, questions)
    by_question = paired_tests(models, able, delta=alpha, method=method, rng=rng, resamples=resamples)
    tests = tuple(by_question[question][names] for question in able)
    adjusted = holm([test.p_value for test in tests])
    return ModelComparison(names, tests, tuple(adjusted.tolist()), alpha, models[names[0]].score.size, left_out)


def askable(models: Mapping[str, ModelRows], questions: Sequence[str] | None) -> tuple[tuple[str, ...], dict[str, str]]:
    """The questions that these models can be asked, and why others cannot. One that was named must be possible."""
    without = {} if all(model.outliers for model in models.values()) else {"auroc": "no outliers were given"}
    one_kind = [f"every answer of {name} is {'wrong' if model.errors else 'right'}"
                for name, model in models.items() if model.errors in (0, model.correct.size)]  # fmt: skip
    if one_kind:
        without["auroc_of_errors"] = one_kind[0]
    if questions is None:
        possible = tuple(question for question in HIGHER_IS_BETTER if question not in without)
        return possible, {question: reason for question, reason in without.items() if question != "auroc"}
    named = tuple(dict.fromkeys(check_known(q, HIGHER_IS_BETTER, "question") for q in as_list(questions, "questions")))
    for question in named:
        if question in without:
            raise InputError(f"question '{question}' cannot be asked: {without[question]}.")
    return named, {}
