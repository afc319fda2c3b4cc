from __future__ import annotations

import numpy as np
import pytest
from scipy.special import ndtr, ndtri

from caveat import InputError, NotFittedError, Outputs
from caveat.metrics import augrc, aurc, auroc
from caveat.scores import Energy, Mahalanobis
from caveat.stats import compare_models, delong, mcnemar


def two_models(rng, n, *, strengths=(1.0, 1.0), error=0.15):
    """(score, correct) of two models on the same rows: a common difficulty, own errors, own scores.

    The same rule makes both, so with equal strengths no question has a difference.
    """
    hard = rng.normal(size=n)
    models = []
    for strength in strengths:
        own = 0.8 * hard + 0.6 * rng.normal(size=n)
        wrong = own + rng.normal(size=n) > -ndtri(error) * np.sqrt(2)
        models.append((strength * own + rng.normal(size=n), ~wrong))
    return models


def said(rng, strength, labels, width=3):
    return Outputs(logits=strength * np.eye(width)[labels] + rng.normal(size=(labels.size, width)), labels=labels)


def test_each_area_is_that_of_the_model_with_its_own_answers():
    a, b = two_models(np.random.default_rng(0), 200)
    found = compare_models(a, b)
    assert found.questions == ("accuracy", "aurc", "augrc", "auroc_of_errors")
    for name, function in (("aurc", aurc), ("augrc", augrc)):
        assert found[name].first == pytest.approx(function(score=a[0], correct=a[1]))
        assert found[name].second == pytest.approx(function(score=b[0], correct=b[1]))
    assert found["auroc_of_errors"].second == pytest.approx(auroc(inlier=b[0][b[1]], outlier=b[0][~b[1]]))
    assert found["accuracy"] == mcnemar(first=a[1], second=b[1])


def test_the_bootstrap_equals_resampling_and_recomputing():
    a, b = two_models(np.random.default_rng(1), 80)
    a = (np.round(a[0], 1), a[1])  # ties
    found = compare_models(a, b, questions=["aurc", "augrc"], method="bootstrap", rng=5, resamples=300)
    rng, gaps = np.random.default_rng(5), {"aurc": [], "augrc": []}
    for _ in range(300):
        rows = rng.integers(80, size=80)
        for name, function in (("aurc", aurc), ("augrc", augrc)):
            values = [function(score=score[rows], correct=correct[rows]) for score, correct in (a, b)]
            gaps[name].append(values[0] - values[1])
    for name, drawn in gaps.items():
        test, spread = found[name], np.std(drawn, ddof=1)
        assert test.p_value == pytest.approx(2 * ndtr(-abs(test.first - test.second) / spread))
        assert test.difference.upper - test.difference.value == pytest.approx(1.959964 * spread, rel=1e-6)


@pytest.mark.parametrize("question", ["aurc", "augrc"])
def test_the_influence_of_rows_agrees_with_the_bootstrap(question):
    # a standard deviation of 4,000 draws is known to 1.1 %
    a, b = two_models(np.random.default_rng(3), 600)
    closed, drawn = (compare_models(a, b, questions=[question], method=method, resamples=4000)[question].difference
                     for method in ("influence", "bootstrap"))  # fmt: skip
    assert closed.value == drawn.value
    assert closed.upper - closed.lower == pytest.approx(drawn.upper - drawn.lower, rel=0.05)
    assert (closed.method, drawn.method) == ("influence function", "paired bootstrap")


def test_with_the_same_answers_augrc_differs_as_the_auroc_of_errors():
    # AUGRC_a - AUGRC_b = (AUROC_b - AUROC_a) e (1 - e) with error rate e. DeLong's variance holds e fixed; over all
    # samples e (1 - e) varies too, by (1 - 2 e)^2 e (1 - e) / n
    (score, right), (other, _) = two_models(np.random.default_rng(2), 2000)
    found = compare_models((score, right), (other, right))
    area, delong = found["augrc"].difference, found["auroc_of_errors"].difference
    e = 1 - right.mean()
    scale, varies = e * (1 - e), 1.96 * delong.value * (1 - 2 * e) * np.sqrt(e * (1 - e) / 2000)
    assert area.value == pytest.approx(-scale * delong.value)
    assert area.upper - area.value == pytest.approx(np.hypot(scale * (delong.upper - delong.value), varies), rel=0.01)


def test_with_the_same_answers_the_auroc_of_errors_is_delongs_test():
    (score, right), (other, _) = two_models(np.random.default_rng(2), 150)
    found = compare_models((score, right), (other, right))["auroc_of_errors"]
    by_delong = delong(inlier=(score[right], other[right]), outlier=(score[~right], other[~right]))
    assert found.p_value == pytest.approx(by_delong.p_value)
    assert found.difference.lower == pytest.approx(by_delong.difference.lower)


def test_one_row_answered_differently_hardly_moves_the_test():
    """The test by rows meets DeLong's, which it replaces where answers differ."""
    (score, right), (other, _) = two_models(np.random.default_rng(3), 3000)
    moved = right.copy()
    moved[0] = not moved[0]
    by_rows = compare_models((score, right), (other, moved), questions=["auroc_of_errors"])["auroc_of_errors"]
    by_delong = compare_models((score, right), (other, right), questions=["auroc_of_errors"])["auroc_of_errors"]
    assert by_rows.difference.method == "DeLong by rows"
    assert by_rows.difference.upper - by_rows.difference.lower == pytest.approx(
        by_delong.difference.upper - by_delong.difference.lower, rel=0.01
    )


def test_auroc_of_the_same_outliers_is_delongs_test():
    rng = np.random.default_rng(4)
    a, b = two_models(rng, 100)
    far = rng.normal(2, size=40), rng.normal(1, size=40)
    found = compare_models(a, b, outliers_a=far[0], outliers_b=far[1])
    assert found["auroc"] == delong(inlier=(a[0], b[0]), outlier=far)
    # the mean over two sets, one of them twice, is that set's again
    twice = compare_models(
        a, b, outliers_a={"x": far[0], "y": far[0]}, outliers_b={"x": far[1], "y": far[1]}, questions=["auroc"]
    )
    assert twice["auroc"].first == pytest.approx(found["auroc"].first)


def test_outputs_and_their_scores_give_the_same():
    rng = np.random.default_rng(5)
    labels = rng.integers(3, size=200)
    a, b = said(rng, 2.0, labels), said(rng, 1.5, labels)
    far = said(rng, 0.0, labels[:50]), said(rng, 0.5, labels[:50])
    by_outputs = compare_models(a, b, score="energy", outliers_a=far[0], outliers_b=far[1])
    score = Energy().score
    by_arrays = compare_models(
        (score(a), a.correct), (score(b), b.correct), outliers_a=score(far[0]), outliers_b=score(far[1])
    )
    assert by_outputs.tests == by_arrays.tests
    assert by_outputs.adjusted == by_arrays.adjusted


def test_each_model_may_have_its_own_fitted_score(train, inlier):
    fitted, other = Mahalanobis().fit(train), Mahalanobis(normalize=True).fit(train)
    found = compare_models(inlier, inlier, score=(fitted, other), questions=["augrc"])
    assert found["augrc"].second == pytest.approx(augrc(score=other.score(inlier), correct=inlier.correct))
    with pytest.raises(NotFittedError, match="has not seen training data"):
        compare_models(inlier, inlier, score="mahalanobis")


def test_a_model_and_itself_are_tied():
    a, _ = two_models(np.random.default_rng(6), 100)
    found = compare_models(a, a)
    assert found.adjusted == (1, 1, 1, 1)
    assert found.verdict == "a and b are tied in accuracy, aurc, augrc, auroc_of_errors."
    assert all(found.better(question) == "tied" for question in found.questions)


def test_a_clear_difference_is_found_in_the_right_direction():
    rng = np.random.default_rng(7)
    labels = rng.integers(3, size=2000)
    found = compare_models(said(rng, 1.0, labels), said(rng, 3.0, labels), names=("old", "new"))
    assert {found.better(question) for question in found.questions} == {"new"}
    assert found.verdict.startswith("new is better in accuracy, aurc, augrc, auroc_of_errors")


def test_models_may_each_be_better_in_something():
    # the first is right more often, the second knows its errors
    rng = np.random.default_rng(8)
    n = 4000
    right, other = rng.random(n) < 0.8, rng.random(n) < 0.7
    found = compare_models((rng.normal(size=n), right), (rng.normal(size=n) - 3 * other, other))
    assert found.better("accuracy") == "a"
    assert found.better("auroc_of_errors") == "b"
    assert "a is better in accuracy; b is better in" in found.verdict


def test_holm_covers_the_questions_that_are_asked():
    a, b = two_models(np.random.default_rng(9), 300, strengths=(2.0, 1.0))
    alone, all_of_them = compare_models(a, b, questions=["augrc"]), compare_models(a, b)
    assert alone.adjusted == (alone["augrc"].p_value,)
    raw = [test.p_value for test in all_of_them.tests]
    smallest = int(np.argmin(raw))
    assert all_of_them.adjusted[smallest] == pytest.approx(min(1, 4 * raw[smallest]))


@pytest.mark.parametrize(
    ("n", "error", "trials"),
    [
        (150, 0.15, 300),
        pytest.param(200, 0.1, 2000, marks=pytest.mark.slow),
        pytest.param(400, 0.05, 2000, marks=pytest.mark.slow),
        pytest.param(1000, 0.2, 800, marks=pytest.mark.slow),
    ],
)
def test_the_verdict_keeps_its_level(n, error, trials):
    """Two models that are alike: a difference in any of four questions is reported in at most 5 % of the draws."""
    rng = np.random.default_rng(n)
    results = [compare_models(*two_models(rng, n, error=error), rng=rng) for _ in range(trials)]
    slack = 4 * np.sqrt(0.05 * 0.95 / trials)
    assert np.mean([min(found.adjusted) < 0.05 for found in results]) <= 0.05 + slack
    for k in range(4):  # each test by itself
        share = np.mean([found.tests[k].p_value < 0.05 for found in results])
        assert share <= 0.05 + slack, results[0].questions[k]


def test_an_answer_of_one_kind_leaves_its_question_out():
    score = np.arange(30.0)
    right, some = np.ones(30, bool), np.arange(30) < 25
    found = compare_models((score, right), (score, some))
    assert "auroc_of_errors" not in found.questions
    assert "every answer of a is right" in found.left_out["auroc_of_errors"]
    assert "auroc_of_errors was left out" in str(found)
    assert "fewer than 10 errors" in found["augrc"].difference.caveat
    with pytest.raises(InputError, match="cannot be asked: every answer of a is right"):
        compare_models((score, right), (score, some), questions=["auroc_of_errors"])


@pytest.mark.parametrize("method", ["influence", "bootstrap"])
@pytest.mark.parametrize("question", ["aurc", "augrc"])
def test_a_difference_without_spread_has_mcnemars_p_value(question, method):
    score = np.random.default_rng(0).normal(size=7)
    found = compare_models((score, np.ones(7)), (score, np.zeros(7)), questions=[question], method=method)
    assert found[question].p_value == pytest.approx(2 / 2**7)
    assert "McNemar" in found[question].difference.caveat


def test_the_seed_decides_the_resamples():
    a, b = two_models(np.random.default_rng(10), 60)
    first, again, other = (compare_models(a, b, method="bootstrap", rng=seed)["aurc"].p_value for seed in (0, 0, 1))
    assert first == again != other
    assert compare_models(a, b, rng=0)["aurc"] == compare_models(a, b, rng=1)["aurc"]  # nothing is drawn


def test_the_table_and_the_texts():
    pytest.importorskip("pandas")
    a, b = two_models(np.random.default_rng(11), 60)
    found = compare_models(a, b, names=("old <1>", "new"))
    frame = found.to_frame()
    assert list(frame["question"]) == list(found.questions)
    assert (frame["better"] == [found.better(question) for question in found.questions]).all()
    assert "old &lt;1&gt;" in found._repr_html_()
    assert repr(found).startswith("ModelComparison(")
    assert found.to_markdown().count("\n| ") == 1 + len(found.questions)
    with pytest.raises(InputError, match="unknown question 'acuracy'"):
        found.better("acuracy")


def test_rows_that_cannot_be_the_same_are_refused():
    rng = np.random.default_rng(12)
    labels = rng.integers(3, size=60)
    a, b = said(rng, 2.0, labels), said(rng, 2.0, labels)
    order = np.argsort(labels, kind="stable")
    with pytest.raises(InputError, match=r"same order.*first at row \d+\. The same labels are there in another order"):
        compare_models(a, b[order])
    with pytest.raises(InputError, match="labels of 60 of 60 rows differ, first at row 0"):
        compare_models(a, said(rng, 2.0, (labels + 1) % 3))
    with pytest.raises(InputError, match="same number of rows, got 60 and 59"):
        compare_models(a, b[:59])
    with pytest.raises(InputError, match="needs b.correct, which is None"):
        compare_models(a, Outputs(logits=b.logits))
    with pytest.raises(InputError, match="outliers_a and outliers_b must be given together"):
        compare_models(a, b, outliers_a=a)
    with pytest.raises(InputError, match="same outlier sets"):
        compare_models(a, b, outliers_a={"x": a}, outliers_b={"y": b})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"names": ("a", "a")}, "two names"),
        ({"questions": ["ece"]}, "unknown question 'ece'"),
        ({"questions": ["auroc"]}, "no outliers were given"),
        ({"alpha": 0}, "alpha must be"),
        ({"resamples": 1}, "resamples must be"),
        ({"a": 3}, "a must be caveat.Outputs or a pair"),
        ({"a": ([1.0, 2.0], [1, 1], [0, 0])}, "a must hold two values"),
        ({"score": "enrgy"}, "unknown score 'enrgy'"),
    ],
)
def test_a_bad_call_is_one_sentence(change, message):
    a, b = two_models(np.random.default_rng(13), 20)
    with pytest.raises(InputError, match=message):
        compare_models(**{"a": a, "b": b} | change)


def test_models_that_name_their_classes_in_other_orders_answered_the_same_rows():
    labels = ["bee", "cat", "bee", "cat"] * 10
    one = Outputs(predictions=["bee", "cat", "cat", "cat"] * 10, confidence=np.linspace(0.1, 1, 40), labels=labels)
    other = Outputs(predictions=["ant", "cat", "bee", "cat"] * 10, confidence=np.linspace(1, 0.1, 40), labels=labels)
    assert one.labels.tolist() != other.labels.tolist()  # ant comes first
    result = compare_models(one, other, score="confidence")
    assert result.n == 40
    others = Outputs(predictions=labels, confidence=np.ones(40), labels=["cat", "cat", "bee", "cat"] * 10)
    with pytest.raises(InputError, match="row 0"):
        compare_models(one, others, score="confidence")
