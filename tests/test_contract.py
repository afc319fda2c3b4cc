"""Every score of the catalogue keeps the same promises. The list is the catalogue, so none is forgotten."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from caveat import InputError, NotFittedError, Outputs
from caveat.scores import KNN, Mahalanobis, ReAct, Tempered, catalogue, load, make
from caveat.scores._statistics import gather
from caveat.scores.projected import Projected, projections_of
from caveat.scores.together import fit_all

ENTRIES = {entry.name: entry for entry in catalogue()}
every_score = pytest.mark.parametrize("name", ENTRIES)
every_learner = pytest.mark.parametrize("name", [name for name, entry in ENTRIES.items() if entry.fits_on])
FIELDS = ("logits", "probs", "features", "labels", "head", "mc_logits", "confidence", "layers", "embeddings")


def fitted(name, train):
    return ENTRIES[name].score().fit(train)


def arrays(outputs):
    return {
        "logits": outputs.logits, "features": outputs.features, "labels": outputs.labels, "head": outputs.head,
        "mc_logits": outputs.mc_logits, "confidence": outputs.confidence, "layers": dict(outputs.layers),
        "embeddings": outputs.embeddings,
    }  # fmt: skip


@every_score
def test_one_finite_number_per_sample_and_not_all_the_same(name, train, inlier):
    values = fitted(name, train).score(inlier)
    assert values.shape == (inlier.n,)
    assert values.dtype == np.float64
    assert np.isfinite(values).all()
    assert np.unique(values).size > 1


VARIANTS = {
    "knn, raw": lambda: KNN(k=5, normalize=False),
    "knn, ivf": lambda: KNN(k=5, index="ivf"),
    "react, msp": lambda: ReAct(base="msp"),
    "mahalanobis, unit": lambda: Mahalanobis(normalize=True),
    "energy, tempered": lambda: Tempered(make("energy"), 2.0),
    **{f"{name}, {projection}": partial(Projected, make(name), projection)
       for name in ("kpca_error", "ctm", "mahalanobis", "energy") for projection in projections_of(name)},
}  # fmt: skip


def derived(outputs, order):
    """The same rows without their logits, which then come from features and head, and in another layout."""
    fields = arrays(outputs) | {"logits": None, "features": np.asarray(outputs.features, order=order)}
    return Outputs(**fields)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("name", [*ENTRIES, *VARIANTS])
def test_a_row_has_one_score_alone_in_a_batch_and_on_any_number_of_threads(name, kind, make_outputs):
    if name == "knn, ivf":
        pytest.importorskip("faiss")
    sizes = {"width": 70, "classes": 11, "dtype": kind}
    train, rows = make_outputs(n=150, seed=1, **sizes), make_outputs(n=140, seed=2, **sizes)
    for learned, asked in ((train, rows), (derived(train, "C"), derived(rows, "F"))):
        score = (ENTRIES[name].score if name in ENTRIES else VARIANTS[name])().fit(learned)
        calls = [score.score]
        if ENTRIES[name.partition(",")[0]].class_scores:
            calls.append(score.class_scores)
        for call in calls:
            with threadpool_limits(1, user_api="blas"):
                whole = call(asked)
            order = np.random.default_rng(0).permutation(asked.n)
            for threads in (1, 2, 4):
                with threadpool_limits(threads, user_api="blas"):
                    single = np.concatenate([call(asked[i : i + 1]) for i in range(threads, asked.n, 20)])
                    np.testing.assert_array_equal(single, whole[threads::20])
                    sevens = np.concatenate([call(asked[i : i + 7]) for i in range(0, asked.n, 7)])
                    np.testing.assert_array_equal(sevens, whole)
                    np.testing.assert_array_equal(call(asked[order]), whole[order])


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("name", [*(name for name, entry in ENTRIES.items() if entry.fits_on), *VARIANTS])
def test_a_fit_has_the_same_bits_on_any_number_of_threads(name, kind, make_outputs, monkeypatch):
    if name == "knn, ivf":
        pytest.importorskip("faiss")
    # Products of this size run on several threads, also in OpenBLAS; and the rows are more than one range.
    sizes = {"width": 300, "classes": 11, "dtype": kind}
    train, rows = make_outputs(n=700, seed=1, **sizes), make_outputs(n=30, seed=2, **sizes)
    monkeypatch.setattr("caveat._internal.products._WORTH_THREADS", 2**20)
    monkeypatch.setattr("caveat._internal.ranges._TASK_BYTES", train.room() // 2)
    values = []
    for threads in (1, 2, 4):
        with threadpool_limits(threads):
            score = (ENTRIES[name].score if name in ENTRIES else VARIANTS[name])().fit(train)
        values.append(score.score(rows))
    np.testing.assert_array_equal(values[1], values[0])
    np.testing.assert_array_equal(values[2], values[0])


@every_score
def test_small_blocks_give_the_same_as_one(name, train, inlier, monkeypatch):
    score = fitted(name, train)
    whole = score.score(inlier)
    monkeypatch.setattr("caveat._internal.blocks.BLOCK_BYTES", 4096)
    monkeypatch.setattr("caveat._internal.products._CHUNK_BYTES", 4096)
    np.testing.assert_array_equal(score.score(inlier), whole)
    np.testing.assert_allclose(fitted(name, train).score(inlier), whole, rtol=1e-8, atol=1e-10)


@every_score
def test_rounding_keeps_the_order_and_seven_digits(name, train, inlier):
    score = fitted(name, train)
    exact, rounded = score.score(inlier), score.rounded(inlier)
    np.testing.assert_allclose(
        rounded, exact, rtol=6e-8, atol=6e-8 * max(abs(score.rounding.origin), score.rounding.unit)
    )
    assert (np.diff(rounded[np.argsort(exact)]) >= 0).all()


@every_score
def test_input_is_left_alone(name, train, inlier):
    before = {key: np.copy(value) for key, value in arrays(inlier).items() if isinstance(value, np.ndarray)}
    writeable = arrays(inlier)
    copies = {k: np.array(v) if isinstance(v, np.ndarray) else v for k, v in writeable.items()}
    fitted(name, train).score(Outputs(**copies))
    for key, value in before.items():
        np.testing.assert_array_equal(copies[key], value)


@every_score
def test_float32_agrees_with_float64(name, make_outputs):
    wide = fitted(name, make_outputs(seed=1)).score(make_outputs(seed=2, n=150))
    narrow = fitted(name, make_outputs(seed=1, dtype=np.float32)).score(make_outputs(seed=2, n=150, dtype=np.float32))
    np.testing.assert_allclose(narrow, wide, rtol=2e-3, atol=2e-3 * np.std(wide))


@every_score
def test_a_missing_field_is_named(name, train, inlier):
    entry = ENTRIES[name]
    score = fitted(name, train)
    sources = {"probs": ("logits", "features"), "logits": ("logits", "features"), "predictions": ("logits", "features")}
    for field in entry.needs:
        gone = sources.get(field, (field,))
        kept = {k: v for k, v in arrays(inlier).items() if k not in gone}
        with pytest.raises(InputError, match=r"needs outputs\.\w+, which is None\. .+"):
            score.score(Outputs(**kept))


@every_learner
def test_scoring_before_fitting_is_an_error(name, inlier):
    with pytest.raises(NotFittedError, match="has not seen training data"):
        ENTRIES[name].score().score(inlier)


@every_learner
def test_fitting_without_a_field_names_it(name, train):
    fields = [field for field in ENTRIES[name].fits_on if field in arrays(train)]
    for field in fields:
        gone = {field, "features"} if field == "logits" else {field}  # features and head would give the logits back
        kept = {k: v for k, v in arrays(train).items() if k not in gone}
        with pytest.raises(InputError, match=r"learns from train\.\w+, which is None\. .+"):
            ENTRIES[name].score().fit(Outputs(**kept))


@every_score
def test_more_features_than_samples(name, make_outputs):
    train = make_outputs(n=60, width=100, seed=1)
    assert np.isfinite(fitted(name, train).score(make_outputs(n=30, width=100, seed=2))).all()


@every_score
def test_a_class_with_one_sample(name, make_outputs):
    train = make_outputs(n=200, seed=1)
    keep = np.flatnonzero(train.labels != 0)
    train = train[np.concatenate([keep, np.flatnonzero(train.labels == 0)[:1]])]
    assert np.isfinite(fitted(name, train).score(make_outputs(n=40, seed=2))).all()


@every_score
@pytest.mark.parametrize("classes", [2, 30])
def test_few_and_many_classes(name, classes, make_outputs):
    train = make_outputs(n=300, classes=classes, seed=1)
    assert np.isfinite(fitted(name, train).score(make_outputs(n=40, classes=classes, seed=2))).all()


@every_learner
def test_another_shape_than_in_training_is_an_error(name, make_outputs):
    needs = set(ENTRIES[name].needs)
    if needs & {"logits", "probs"}:
        other, message = make_outputs(seed=2, classes=5), "4 classes as in training, got 5"
    elif "features" in needs:
        other, message = make_outputs(seed=2, width=13), "12 columns as in training, got 13"
    else:
        other, message = make_outputs(seed=2, width=30), "as in training"
    with pytest.raises(InputError, match=message):
        fitted(name, make_outputs(seed=1)).score(other)


@every_score
def test_class_scores_where_the_catalogue_says_so(name, train, inlier):
    score = fitted(name, train)
    if ENTRIES[name].class_scores:
        values = score.class_scores(inlier)
        assert values.shape == (inlier.n, inlier.n_classes)
        assert np.isfinite(values).all()
    else:
        with pytest.raises(InputError, match="has no class scores"):
            score.class_scores(inlier)


@every_score
def test_saved_and_loaded_it_scores_bit_for_bit_the_same(name, train, inlier, outlier, tmp_path):
    score = fitted(name, train)
    score.save(tmp_path / name)
    found = load(tmp_path / name)
    assert repr(found) == repr(score)
    for outputs in (inlier, outlier):
        np.testing.assert_array_equal(found.score(outputs), score.score(outputs))
    if ENTRIES[name].class_scores:
        np.testing.assert_array_equal(found.class_scores(inlier), score.class_scores(inlier))


@every_score
def test_the_catalogue_line_is_complete(name):
    entry = ENTRIES[name]
    assert entry.summary
    assert entry.cost
    assert entry.paper
    assert set(entry.needs) | set(entry.fits_on) <= {*FIELDS, "predictions", "correct"}
    assert "Examples" in (entry.score.__doc__ or "")


@every_learner
def test_statistics_of_two_parts_add_up_to_those_of_the_whole(name, train, inlier):
    whole = fitted(name, train).score(inlier)
    score = ENTRIES[name].score()
    cut = train.n // 3
    parts = gather(train[:cut], score.statistics()) + gather(train[cut:], score.statistics())
    further = score.prepare(train, parts)
    parts = parts | (gather(train[:cut], further) + gather(train[cut:], further))
    np.testing.assert_allclose(score.complete(train, parts).score(inlier), whole, rtol=1e-6, atol=1e-8 * np.std(whole))


@every_learner
def test_rng_decides_the_random_steps_and_is_not_kept(name, train, inlier):
    zero, again, five = (ENTRIES[name].score().fit(train, rng=rng).score(inlier) for rng in (0, 0, 5))
    np.testing.assert_array_equal(zero, again)
    np.testing.assert_array_equal(fitted(name, train).score(inlier), zero)  # the default seed
    assert (name == "nnguide") == (not np.array_equal(zero, five))  # the only default that draws for its scores
    drawn = (ENTRIES[name].score().fit(train, rng=np.random.default_rng(7)) for _ in range(2))
    one, two = (score.score(inlier) for score in drawn)
    np.testing.assert_array_equal(one, two)
    assert "seed" not in ENTRIES[name].params
    with pytest.raises(InputError, match="rng must be a numpy.random.Generator or a whole number"):
        ENTRIES[name].score().fit(train, rng=-1)


@every_learner
def test_fitted_together_it_draws_what_it_draws_alone(name, train, inlier):
    alone = ENTRIES[name].score().fit(train, rng=5).score(inlier)
    both = [ENTRIES[name].score(), ENTRIES["nnguide"].score()]
    fit_all(both, train, rng=5)
    np.testing.assert_array_equal(both[0].score(inlier), alone)
