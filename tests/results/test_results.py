from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from caveat import InputError, Outputs
from caveat.report import comparison_latex, comparison_markdown
from caveat.report.tables import latex_page, latex_text
from caveat.results import Estimate, PairedTest, PredictionSets, ScoreBounds
from caveat.stats import compare, rank_models


def estimate(lower, upper):
    return Estimate((lower + upper) / 2, lower, upper, level=0.95, n=10, method="m")


def test_intervals_that_touch_overlap():
    assert estimate(0.1, 0.2).overlaps(estimate(0.2, 0.3))
    assert not estimate(0.1, 0.2).overlaps(estimate(0.21, 0.3))


def test_results_are_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        estimate(0, 1).value = 2


def test_a_caveat_is_printed():
    shown = str(Estimate(0.5, 0.25, 0.75, level=0.9, n=3, method="exact", caveat="n is small."))
    assert shown == "0.500 [0.250, 0.750] (90 % exact, n = 3) n is small."


def test_sets_by_hand():
    sets = PredictionSets(np.array([[1, 0, 1], [0, 0, 0], [0, 1, 0]], dtype=bool), alpha=0.1, level=0.9)
    assert sets.sizes.tolist() == [2, 0, 1]
    assert sets.labels(0).tolist() == [0, 2]
    assert sets.covers([2, 1, 1]).tolist() == [True, False, True]
    assert sets.coverage([2, 1, 1]) == pytest.approx(2 / 3)
    assert "1 single, 1 empty" in str(sets)
    with pytest.raises(InputError, match="same length"):
        sets.covers([0])


def test_comparison_as_tables():
    comparison = compare([[1, 2, 9]] * 3 + [[2, 1, 9]] * 3, methods=["a_1", "b", "c"])
    lines = comparison_markdown(comparison).splitlines()
    assert lines[2:5] == ["| 1 | a_1 | 1.50 | a |", "| 1 | b | 1.50 | a |", "| 2 | c | 3.00 | b |"]
    assert "share a letter cannot be told apart (Conover-Holm, alpha = 0.05)" in lines[-1]
    assert "A layer holds what is tied with its best." in lines[-1]
    latex = comparison_latex(comparison)
    assert r"1 & a\_1 & 1.50 & a \\" in latex
    assert latex.count(r"\midrule") == 2  # under the header, and between the layers
    assert comparison.tied("a_1", "b")
    assert not comparison.tied("b", "c")


def test_a_comparison_says_which_direction_was_assumed():
    table = [[1, 2, 9]] * 6
    for lower, words in ((True, "Lower is better."), (False, "Higher is better.")):
        comparison = compare(table, lower_is_better=lower)
        shown = (
            str(comparison),
            comparison._repr_html_(),
            comparison_markdown(comparison),
            comparison_latex(comparison),
        )
        assert all(words in text for text in shown)


def test_models_on_the_same_rows_have_their_rank_in_every_table():
    rng = np.random.default_rng(0)
    y, right = rng.integers(3, size=900), np.array([0.95, 0.6, 0.6])
    models = {name: Outputs(predictions=np.where(rng.random(900) < share, y, (y + 1) % 3), confidence=rng.random(900),
                            labels=y) for name, share in zip("abc", right, strict=True)}  # fmt: skip
    ranking = rank_models(models, score="confidence")["accuracy"]
    lines = comparison_markdown(ranking).splitlines()
    assert lines[0] == "| rank | model | value | groups |"
    assert [line.split(" | ")[0] for line in lines[2:5]] == [f"| {ranking.rank(name)}" for name in ranking.methods]
    assert comparison_latex(ranking).count("rank & model & value") == 1


def test_a_check_mark_in_latex_is_a_command():
    assert latex_text("promised ✓") == r"promised \checkmark{}"
    assert "amssymb" in latex_page("title", [])


def test_names_of_methods_do_not_break_the_tables():
    comparison = compare([[1, 2]] * 8, methods=[r"k\^2~{a}", "p|q<1"])
    assert r"| 2 | p\|q&lt;1 | 2.00 | b |" in comparison_markdown(comparison)
    latex = comparison_latex(comparison)
    assert r"1 & k\textbackslash{}\textasciicircum{}2\textasciitilde{}\{a\} & 1.00 & a \\" in latex
    assert r"2 & p\textbar{}q\textless{}1 & 2.00 & b \\" in latex


def test_a_p_value_that_underflows_is_not_printed_as_nothing():
    rng = np.random.default_rng(0)
    comparison = compare(np.arange(80) + rng.normal(size=(200, 80)), methods=[f"m{i}" for i in range(80)])
    assert comparison.p_value == comparison.f_p_value == 0  # the tails are below the smallest double
    for text in (comparison.summary(), str(comparison), comparison_markdown(comparison), comparison_latex(comparison)):
        assert text.count("p < 1e-300") == 2
        assert "p = 0" not in text
    paired = PairedTest("auroc", 0.9, 0.6, Estimate(0.3, 0.29, 0.31, level=0.95, n=10**6, method="DeLong"), 0.0)
    assert str(paired).endswith(", p < 1e-300")


def test_score_bounds_decide_only_what_is_certain():
    bounds = ScoreBounds(
        value=np.array([0.2, 0.5, 0.8]), lower=np.array([0.1, 0.3, 0.7]), upper=np.array([0.4, 0.6, 0.9]),
        epsilon=0.3, method="ibp, crown", refined=1,
    )  # fmt: skip
    assert bounds.below(0.5).tolist() == [True, False, False]
    assert bounds.above(0.5).tolist() == [False, False, True]
    assert str(bounds) == "bounds of 3 scores within 0.3 (ibp, crown, 1 refined, float64): mean width 0.267"
    assert bounds.slack.tolist() == [0, 0, 0]  # nothing is known of rounding


def test_score_bounds_say_what_rounding_costs_and_where_nothing_is_certified():
    value, inf = np.array([0.2, 0.5, 0.8]), np.inf
    exact = ScoreBounds(value=value, lower=value - 0.1, upper=value + 0.1, epsilon=0.3, method="ibp", arithmetic="real")
    bounds = ScoreBounds(
        value=value, lower=np.array([0.0, 0.3, -inf]), upper=np.array([0.4, inf, inf]), epsilon=0.3, method="ibp",
        arithmetic="float16", exact=exact,
    )  # fmt: skip
    assert bounds.slack.tolist() == [pytest.approx(0.1), inf, inf]
    assert bounds.certified.tolist() == [True, False, False]
    assert bounds.below(10.0).tolist() == [True, False, False]
    assert bounds.above(-10.0).tolist() == [True, True, False]
    assert str(bounds) == (
        "bounds of 3 scores within 0.3 (ibp, float16): mean width 0.400; 2 without a certificate, since rounding "
        "exceeds the margin"
    )


def test_score_bounds_count_samples_and_not_labels():
    matrix = np.zeros((4, 3))
    assert ScoreBounds(value=matrix, lower=matrix, upper=matrix, epsilon=0.1, method="ibp").n == 4
