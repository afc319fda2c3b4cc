"""The long table of a study becomes facts: each number under its block, curves averaged over the seeds."""

from __future__ import annotations

import numpy as np
import pytest

from caveat.errors import InputError
from caveat.report.study_facts import Block, gather
from caveat.study.schema import COLUMNS, make_row


def facts_of(*rows, **options):
    columns = {name: np.asarray([row[name] for row in rows], dtype=object) for name in COLUMNS}
    return gather(columns, title="t", alpha=0.1, delta=0.05, **options)


def metric(value=0.9, **others):
    given = {"source": "net", "score": "knn", "params": "{}", "outlier": "svhn", "regime": "near"} | others
    return make_row("metric", given.pop("metric", "auroc"), value, **given)


def test_a_number_stands_under_its_block_method_and_metric():
    facts = facts_of(metric(0.9, lower=0.8, upper=0.95, level=0.95, n=10, method="DeLong", caveat="Few.", seed=3))
    ((key, found),) = facts.numbers.items()
    assert key == (Block("net", 3, "svhn"), "knn", "auroc")
    assert (found.value, found.lower, found.upper, found.n, found.method, found.caveat) == (
        0.9,
        0.8,
        0.95,
        10,
        "DeLong",
        "Few.",
    )
    assert facts.regimes == {key[0]: "near"}


def test_methods_are_scores_with_parameters_and_projections():
    facts = facts_of(
        metric(), metric(params='{"k": 5}'), metric(projection="global"), metric(score="msp"), metric(score="mine")
    )
    assert [m.label for m in facts.methods] == ["knn", "knn(k=5)", "knn global", "msp", "mine"]
    assert [m.family for m in facts.methods] == ["features", "features", "features", "logits", "other"]


def test_numbers_of_the_model_are_not_those_of_a_method():
    facts = facts_of(metric(), metric(0.93, score="", outlier="", metric="accuracy"))
    assert [m.label for m in facts.methods] == ["knn"]
    assert [(row.metric, row.estimate.value) for row in facts.of_kind("model")] == [("accuracy", 0.93)]


def test_what_is_not_a_number_is_missing():
    assert facts_of(metric(np.nan), metric(0.5, score="msp")).numbers.keys() == {
        (Block("net", 0, "svhn"), "msp", "auroc")
    }


def test_outlier_sets_go_from_near_to_far_within_a_source():
    rows = [
        metric(source=s, outlier=o, regime=r) for s in ("b", "a") for o, r in (("x", "far"), ("y", ""), ("z", "near"))
    ]
    facts = facts_of(*rows)
    assert facts.sets == (("b", "z"), ("b", "x"), ("b", "y"), ("a", "z"), ("a", "x"), ("a", "y"))
    assert facts.regime_names == ("near", "far")


def test_curves_are_means_over_the_seeds():
    rows = [metric()]
    for seed, tpr in ((0, [0.0, 0.4, 1.0]), (1, [0.0, 0.6, 1.0])):
        for x, y in zip([0.0, 0.5, 1.0], tpr, strict=True):
            rows.append(make_row("roc", "tpr", y, x=x, lower=y / 2, upper=1, seed=seed, source="net", score="knn",
                                 params="{}", outlier="svhn"))  # fmt: skip
    curve = facts_of(*rows).curves["roc", "net", "svhn", "knn"]
    assert curve.x.tolist() == [0, 0.5, 1]
    assert curve.value.tolist() == [0, 0.5, 1]
    assert curve.lower.tolist() == [0, 0.25, 0.5]
    assert curve.seeds == 2


def test_curves_on_different_grids_meet_on_the_first():
    rows = [
        make_row("risk", "selective", y, x=x, seed=0, source="n", score="knn")
        for x, y in ((0, 0), (0.5, 0.1), (1, 0.2))
    ]
    rows += [make_row("risk", "selective", y, x=x, seed=1, source="n", score="knn") for x, y in ((1, 0.4), (0, 0))]
    curve = facts_of(metric(), *rows).curves["risk", "n", "", "knn"]
    assert curve.value == pytest.approx([0, 0.15, 0.3])  # the second is 0, 0.2, 0.4 there


def test_a_histogram_has_edges_and_the_shares_of_every_sample():
    rows = [metric()]
    for name, kind, shares in (("", "inlier", [0.7, 0.3, np.nan]), ("svhn", "outlier", [0.1, 0.9, np.nan])):
        rows += [make_row("histogram", kind, s, x=x, source="net", score="knn", outlier=name)
                 for x, s in zip([0.0, 1.0, 3.0], shares, strict=True)]  # fmt: skip
    found = facts_of(*rows).histograms["net", "knn"]
    assert found.edges.tolist() == [0, 1, 3]
    assert {name: share.tolist() for name, share in found.shares.items()} == {"": [0.7, 0.3], "svhn": [0.1, 0.9]}


def test_the_histogram_of_the_first_seed_is_shown_and_named():
    rows = [metric(seed=4), metric(seed=2)]
    for seed in (4, 2):
        rows += [make_row("histogram", "inlier", s, x=x, source="net", score="knn", seed=seed)
                 for x, s in ((seed, 1.0), (seed + 1, np.nan))]  # fmt: skip
    found = facts_of(*rows).histograms["net", "knn"]
    assert (found.seed, found.edges.tolist()) == (2, [2, 3])


def test_a_seed_that_repeats_another_number_for_number_is_no_block_of_its_own():
    rows = [metric(seed=0), metric(seed=1), metric(seed=2, value=0.8)]
    rows += [metric(seed=seed, value=1.0, score="msp") for seed in (0, 1, 2)]
    facts = facts_of(*rows)
    assert [block.seed for block in facts.blocks] == [0, 1, 2]
    assert [block.seed for block in facts.blocks_of("net", "svhn")] == [0, 2]


def test_another_table_gets_one_sentence():
    with pytest.raises(InputError, match="needs the column 'kind'.*caveat compare"):
        gather({"k": np.arange(3)}, title="t", alpha=0.1, delta=0.05)
