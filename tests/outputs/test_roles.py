"""One rule for rows in two roles: an error for more than half of the smaller set, else a warning with their number."""

from __future__ import annotations

import time
import warnings

import numpy as np
import pytest

from caveat import CaveatWarning, InputError, Outputs
from caveat.outputs.roles import check_roles, shared_rows
from caveat.scores import KNN


def drawn(seed, n, *, width=6, classes=3, dtype=np.float64):
    rng = np.random.default_rng(seed)
    return Outputs(features=rng.normal(size=(n, width)).astype(dtype), logits=rng.normal(size=(n, classes)))


def joined(*parts):
    return Outputs(
        features=np.concatenate([part.features for part in parts]), logits=np.concatenate([p.logits for p in parts])
    )


def test_sets_apart_pass_without_a_word():
    check_roles({"train": drawn(1, 50), "inlier": drawn(2, 40), "calibration": None}, {"far": drawn(3, 30)})


@pytest.mark.parametrize("roles", [("train", "inlier"), ("calibration", "inlier"), ("train", "calibration")])
def test_the_same_rows_in_two_roles_are_an_error_that_names_both(roles):
    same = drawn(0, 40)
    with pytest.raises(InputError, match=f"{roles[0]} and {roles[1]} are the same 40 rows"):
        check_roles(dict.fromkeys(roles, same))
    copy = Outputs(features=same.features.copy(), logits=same.logits.copy())
    with pytest.raises(InputError, match=r"inlier and outlier set 'far' are the same 40 rows .*features"):
        check_roles({"inlier": same}, {"far": copy})


def test_outlier_sets_have_one_role_and_may_overlap():
    far = drawn(0, 40)
    check_roles({"inlier": drawn(1, 40)}, {"far": far, "also far": far})


@pytest.mark.parametrize("shared", [1, 10, 20])
def test_up_to_half_of_the_smaller_set_is_a_warning_with_the_number(shared):
    train, test = drawn(1, 200), drawn(2, 40)
    mixed = joined(train[30 : 30 + shared], test[shared:])
    with pytest.warns(CaveatWarning, match=f"train and inlier share {shared} of 40 rows"):
        check_roles({"train": train, "inlier": mixed})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_roles({"train": train, "inlier": mixed}, warn=False)


def test_more_than_half_of_the_smaller_set_is_an_error_in_any_order():
    train, test = drawn(1, 200), drawn(2, 40)
    mixed = joined(train[30:51], test[21:])[np.random.default_rng(0).permutation(40)]
    with pytest.raises(InputError, match="train and inlier share 21 of 40 rows"):
        check_roles({"train": train, "inlier": mixed})


def test_a_copy_in_half_precision_is_found():
    said = drawn(0, 60, dtype=np.float32)
    half = Outputs(features=said.features.astype(np.float16))
    assert shared_rows(said, half).same
    assert shared_rows(said[:10], half[5:]).count == 5


def test_all_fields_that_both_sets_store_must_agree():
    said = drawn(0, 60)
    other = Outputs(features=said.features, logits=drawn(1, 60).logits)  # of another model
    assert shared_rows(said, other).count == 0
    assert shared_rows(said, Outputs(features=said.features)).same
    assert shared_rows(said, Outputs(embeddings=said.features)).count == 0  # nothing in common


@pytest.mark.parametrize("kind", ["layers", "confidence", "mc_logits"])
def test_other_fields_decide_where_there_is_nothing_better(kind):
    rng = np.random.default_rng(0)
    made = {"layers": {"conv": rng.normal(size=(30, 3, 4, 4))}, "confidence": rng.random(30)}
    made["mc_logits"] = rng.normal(size=(5, 30, 3))
    said = Outputs(**{kind: made[kind]})
    assert shared_rows(said[:20], said[12:]).count == 8


def test_answers_that_many_samples_share_are_no_shared_rows():
    # an overconfident network, and a forest whose shares of 100 trees take 101 values
    rng = np.random.default_rng(0)

    def forest(n):
        share = rng.binomial(100, rng.beta(0.5, 0.5, size=n)) / 100
        return Outputs(probs=np.column_stack([share, 1 - share]))

    sure = Outputs(probs=np.repeat(np.eye(3), 50, axis=0))
    check_roles({"train": sure, "inlier": sure[rng.permutation(150)]})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CaveatWarning)
        check_roles({"train": forest(5000), "inlier": forest(60)})  # every answer is in train: no error


def test_oversampled_training_rows_are_still_told():
    train, test = drawn(1, 200), drawn(2, 40)
    twice = joined(train, test[:15], test[:15])
    with pytest.warns(CaveatWarning, match="share 15 of 40"):
        check_roles({"train": twice, "inlier": test})


def test_signed_zeros_are_equal_and_blocks_do_not_matter(monkeypatch):
    rng = np.random.default_rng(0)
    values = np.maximum(rng.normal(size=(300, 50)), 0)
    negative = np.where(values == 0, -0.0, values)
    whole = shared_rows(Outputs(features=values), Outputs(features=negative[100:]))
    assert whole.count == 200
    monkeypatch.setattr("caveat._internal.blocks.BLOCK_BYTES", 4096)
    assert shared_rows(Outputs(features=values), Outputs(features=negative[100:])) == whole


def test_memory_maps_are_read_in_blocks(tmp_path):
    said = drawn(0, 500, width=40, dtype=np.float32)
    said.save(tmp_path / "said")
    mapped = Outputs.load(tmp_path / "said", check=False)
    assert isinstance(mapped.features.base, np.memmap) or isinstance(mapped.features, np.memmap)
    assert shared_rows(mapped, said[100:200]).count == 100


def test_rows_that_differ_in_one_number_are_different_rows():
    wide = np.random.default_rng(0).normal(size=(400, 257))
    other = wide.copy()
    other[np.arange(400), np.arange(400) % 257] += 1e-9
    assert shared_rows(Outputs(features=wide), Outputs(features=other)).count == 0


def test_looking_costs_little_beside_scoring():
    sets = {name: Outputs(features=np.random.default_rng(i).normal(size=(6000, 256)).astype(np.float32))
            for i, name in enumerate(("train", "calibration", "inlier"))}  # fmt: skip

    def best_of(run):
        took = []
        for _ in range(3):
            started = time.process_time()
            run()
            took.append(time.process_time() - started)
        return min(took)

    score = KNN().fit(sets["train"])
    assert best_of(lambda: check_roles(sets)) < 0.25 * best_of(lambda: score.score(sets["inlier"]))
