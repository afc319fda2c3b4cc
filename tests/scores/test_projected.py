"""Every cell of Table 3 against a loop over samples that reads like the paper."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

from caveat import InputError, NotFittedError, Outputs
from caveat.scores import (
    FDBD,
    KNN,
    MSP,
    PNML,
    Energy,
    GradNorm,
    Mahalanobis,
    NNGuide,
    Projected,
    ReAct,
    Score,
    catalogue,
    make,
    projections_of,
    score_all,
)
from caveat.scores.projected import TABLE
from caveat.scores.together import fit_all

SHAPES = [(200, 12, 4), (60, 70, 4), (120, 9, 2), (600, 16, 100)]  # n, D, C: D < N, D > N, two and many classes
shapes = pytest.mark.parametrize("shape", SHAPES, ids=str)
VARIANCE = 0.8
CELLS = [(name, each) for name, row in TABLE.items() for each in row.projections]
HERE = {entry.name for entry in catalogue()}
every_cell = pytest.mark.parametrize(("name", "projection"), [cell for cell in CELLS if cell[0] in HERE])


def cosines(rows, vectors):
    return (rows @ vectors.T) / np.linalg.norm(rows, axis=1)[:, None] / np.linalg.norm(vectors, axis=1)


@dataclass(eq=False)
class Cosine(Score):
    """CTM in its shortest form: only its name matters to the table."""

    name: ClassVar[str] = "ctm"
    needs: ClassVar[tuple[str, ...]] = ("features", "head")

    def _score(self, block):
        return -cosines(block.features, block.head.weight).max(axis=1)

    def _class_scores(self, block):
        return -cosines(block.features, block.head.weight)


@dataclass(eq=False)
class MeanCosine(Score):
    name: ClassVar[str] = "ctm_mean"
    needs: ClassVar[tuple[str, ...]] = ("features",)
    fits_on: ClassVar[tuple[str, ...]] = ("features", "labels")

    def _fit(self, train, gathered):
        self.means_ = np.stack([train.features[train.labels == c].mean(axis=0) for c in range(train.n_classes)])

    def _score(self, block):
        return -cosines(block.features, self.means_).max(axis=1)


@dataclass(eq=False)
class Reconstruction(Score):
    name: ClassVar[str] = "pca_error"
    needs: ClassVar[tuple[str, ...]] = ("features",)
    fits_on: ClassVar[tuple[str, ...]] = ("features",)

    def _score(self, block):
        raise AssertionError("the wrapper has the reconstruction itself")


class Literal:
    """The projections of section 3.2, one sample at a time."""

    def __init__(self, train, variance):
        self.train = train
        self.whole = self.subspace(train.features, variance)
        self.classes = [self.subspace(train.features[train.labels == c], variance) for c in range(train.n_classes)]

    @staticmethod
    def subspace(rows, variance):
        mean = rows.mean(axis=0)
        _, lengths, axes = np.linalg.svd(rows - mean, full_matrices=False)
        share = np.cumsum(lengths**2) / np.sum(lengths**2)
        return mean, axes[: int(np.argmax(share >= variance - 1e-12)) + 1].T

    @staticmethod
    def onto(h, subspace):
        mean, basis = subspace
        return basis @ (basis.T @ (h - mean)) + mean

    def features(self, h, projection):
        if projection == "global":
            return self.onto(h, self.whole)
        if projection == "class_avg":
            return np.mean([self.onto(h, each) for each in self.classes], axis=0)
        predicted = int(self.train.head.logits(h[None])[0].argmax())
        return self.onto(h, self.classes[predicted])

    def logits(self, h, projection):
        head = self.train.head
        if projection == "class":
            return np.array([head.weight[c] @ self.onto(h, each) + head.bias[c] for c, each in enumerate(self.classes)])
        return head.weight @ self.features(h, projection) + head.bias

    def outputs(self, outputs, projection):
        rows = np.stack([self.features(h, projection) for h in outputs.features])
        return Outputs(features=rows, labels=outputs.labels, head=self.train.head)


def data(make_outputs, n, width, classes):
    train = make_outputs(n=n, width=width, classes=classes, seed=1)
    # two samples of every class at least, so that the reference has a spread to divide by
    twice = np.concatenate([np.arange(n), np.arange(classes)])
    features = np.array(train.features)[twice]
    features[n:] += np.random.default_rng(5).normal(size=(classes, width))
    train = Outputs(features=features, labels=train.labels[twice], head=train.head)
    return train, make_outputs(n=25, width=width, classes=classes, seed=2, shift=0.5)


@shapes
@pytest.mark.parametrize("projection", ["global", "class", "class_pred", "class_avg"])
@pytest.mark.parametrize("score", [MSP(), Energy(temperature=2.0)], ids=lambda score: score.name)
def test_logits_and_probabilities(shape, projection, score, make_outputs):
    train, test = data(make_outputs, *shape)
    paper = Literal(train, VARIANCE)
    logits = np.stack([paper.logits(h, projection) for h in test.features])
    wrapped = Projected(score, projection, variance=VARIANCE).fit(train)
    np.testing.assert_allclose(wrapped.score(test), score.score(Outputs(logits=logits)), rtol=1e-8)
    np.testing.assert_allclose(
        wrapped.class_scores(test), score.class_scores(Outputs(logits=logits)), rtol=1e-8, atol=1e-10
    )


@shapes
@pytest.mark.parametrize("projection", ["global", "class_pred", "class_avg"])
@pytest.mark.parametrize(
    "kind",
    [Mahalanobis, lambda: Mahalanobis(normalize=True), lambda: NNGuide(k=5, share=0.5), FDBD, GradNorm, Cosine,
     MeanCosine],
    ids=["mahalanobis", "normalized mahalanobis", "nnguide", "fdbd", "gradnorm", "ctm", "ctm_mean"],
)  # fmt: skip
def test_features_and_the_score_fitted_on_them(shape, projection, kind, make_outputs):
    train, test = data(make_outputs, *shape)
    paper = Literal(train, VARIANCE)
    reference = kind().fit(paper.outputs(train, projection)).score(paper.outputs(test, projection))
    wrapped = Projected(kind(), projection, variance=VARIANCE).fit(train)
    np.testing.assert_allclose(wrapped.score(test), reference, rtol=1e-6)


@pytest.mark.parametrize("projection", ["global", "class_pred", "class_avg"])
def test_pnml_reads_projected_features_and_their_logits(projection, make_outputs):
    train, test = data(make_outputs, 200, 12, 4)
    paper = Literal(train, VARIANCE)
    reference = PNML().fit(paper.outputs(train, projection)).score(paper.outputs(test, projection))
    found = Projected(PNML(), projection, variance=VARIANCE).fit(train).score(test)
    np.testing.assert_allclose(found, reference, rtol=1e-6, atol=1e-9)


@shapes
@pytest.mark.parametrize("kind", [Cosine, MeanCosine])
def test_class_cosines(shape, kind, make_outputs):
    train, test = data(make_outputs, *shape)
    paper = Literal(train, VARIANCE)
    towards = train.head.weight if kind is Cosine else np.stack([mean for mean, _ in paper.classes])
    expected = []
    for h in test.features:
        views = [paper.onto(h, each) for each in paper.classes]
        expected.append([v @ w / np.linalg.norm(v) / np.linalg.norm(w) for v, w in zip(views, towards, strict=True)])
    wrapped = Projected(kind(), "class", variance=VARIANCE).fit(train)
    np.testing.assert_allclose(wrapped.score(test), -np.max(expected, axis=1), rtol=1e-8)
    if kind is Cosine:
        np.testing.assert_allclose(wrapped.class_scores(test), -np.array(expected), rtol=1e-8, atol=1e-10)


@shapes
@pytest.mark.parametrize("projection", ["global", "class", "class_pred", "class_avg"])
def test_reconstruction_errors(shape, projection, make_outputs):
    train, test = data(make_outputs, *shape)
    paper = Literal(train, VARIANCE)
    expected = []
    for h in test.features:
        if projection == "class":
            errors = [np.linalg.norm(h - paper.onto(h, each)) for each in paper.classes]
        else:
            errors = [np.linalg.norm(h - paper.features(h, projection))]
        expected.append(min(errors) / np.linalg.norm(h))
    found = Projected(Reconstruction(), projection, variance=VARIANCE).fit(train).score(test)
    np.testing.assert_allclose(found, expected, rtol=1e-7)


@dataclass(eq=False)
class Mapped(Score):
    """Kernel principal components in their shortest form: a fixed map and nothing else."""

    name: ClassVar[str] = "kpca_error"
    needs: ClassVar[tuple[str, ...]] = ("features",)
    fits_on: ClassVar[tuple[str, ...]] = ("features",)

    def _map(self, rows):
        return np.hstack([np.cos(rows), np.sin(rows), rows**2 / 10])

    def _score(self, block):
        raise AssertionError("the wrapper has the reconstruction itself")


@pytest.mark.parametrize("projection", ["global", "class", "class_pred", "class_avg"])
def test_reconstruction_errors_in_kernel_space(projection, train, inlier, monkeypatch):
    # The same as the linear error on mapped features, with the class predicted from the features as they are.
    monkeypatch.setattr("caveat.scores.projected._MAPPED_ROWS", 50)
    found = Projected(Mapped(), projection, variance=VARIANCE).fit(train).score(inlier)
    mapped = Outputs(features=Mapped()._map(train.features), labels=train.labels)
    paper = Literal(mapped, VARIANCE)
    expected = []
    for h, psi in zip(inlier.features, Mapped()._map(inlier.features), strict=True):
        if projection == "class":
            errors = [np.linalg.norm(psi - paper.onto(psi, each)) for each in paper.classes]
        elif projection == "class_pred":
            predicted = int(train.head.logits(h[None])[0].argmax())
            errors = [np.linalg.norm(psi - paper.onto(psi, paper.classes[predicted]))]
        else:
            errors = [np.linalg.norm(psi - paper.features(psi, projection))]
        expected.append(min(errors) / np.linalg.norm(psi))
    np.testing.assert_allclose(found, expected, rtol=1e-7)


def test_a_zero_row_has_a_finite_reconstruction_error(train):
    wrapped = Projected(Reconstruction(), "global").fit(train)
    mean, basis = Literal(train, 0.95).whole
    expected = np.linalg.norm(mean - basis @ (basis.T @ mean))  # what lies outside, with no length to divide by
    assert wrapped.score(Outputs(features=np.zeros((1, 12)))) == pytest.approx([expected])


@pytest.mark.skipif("pca_error" not in HERE, reason="the catalogue has no pca_error")
def test_the_global_reconstruction_is_the_score_itself(train, inlier):
    plain = make("pca_error", variance=0.9).fit(train).score(inlier)
    wrapped = Projected(make("pca_error"), "global", variance=0.9).fit(train).score(inlier)
    np.testing.assert_allclose(wrapped, plain, rtol=1e-7)


@every_cell
def test_every_cell_of_the_table_keeps_the_promises_of_a_score(name, projection, train, inlier, monkeypatch):
    score = Projected(make(name), projection).fit(train)
    whole = score.score(inlier)
    assert whole.shape == (inlier.n,)
    assert np.isfinite(whole).all()
    assert np.unique(whole).size > 1
    single = np.concatenate([score.score(inlier[i]) for i in range(0, inlier.n, 29)])
    np.testing.assert_allclose(single, whole[::29], rtol=1e-8, atol=1e-10)
    monkeypatch.setattr("caveat._internal.blocks.BLOCK_BYTES", 4096)
    again = Projected(make(name), projection).fit(train).score(inlier)
    np.testing.assert_allclose(again, whole, rtol=1e-6, atol=1e-8)


@every_cell
def test_float32_agrees_with_float64(name, projection, make_outputs):
    wide = Projected(make(name), projection).fit(make_outputs(seed=1)).score(make_outputs(seed=2, n=80))
    train, test = (make_outputs(seed=seed, n=n, dtype=np.float32) for seed, n in ((1, 240), (2, 80)))
    narrow = Projected(make(name), projection).fit(train).score(test)
    np.testing.assert_allclose(narrow, wide, rtol=2e-3, atol=2e-3 * np.std(wide))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("projection", ["global", "class_avg"])
def test_a_changed_whitening_is_a_projection_and_a_whitening(projection, dtype, make_outputs, monkeypatch):
    train, test = (make_outputs(seed=seed, n=n, dtype=dtype, shift=20) for seed, n in ((1, 240), (2, 80)))
    composed = Projected(Mahalanobis(), projection).fit(train)
    with monkeypatch.context() as before:  # as version 0.2 fitted and saved it
        before.setattr(Projected, "_whitens", False)
        apart = Projected(Mahalanobis(), projection).fit(train)
    assert hasattr(apart, "axes_" if projection == "global" else "operator_")
    rtol = 1e-4 if dtype == np.float32 else 1e-9
    np.testing.assert_allclose(composed.score(test), apart.score(test), rtol=rtol)
    np.testing.assert_allclose(composed.class_scores(test), apart.class_scores(test), rtol=rtol)
    np.testing.assert_array_equal(apart.fit(train).score(test), composed.score(test))


def test_all_of_the_variance_changes_nothing(train, inlier):
    plain = {score.name: score.fit(train).score(inlier) for score in (Energy(), Mahalanobis(), FDBD())}
    for score in (Energy(), Mahalanobis(), FDBD()):
        kept = Projected(score, "global", variance=1.0).fit(train).score(inlier)
        np.testing.assert_allclose(kept, plain[score.name], rtol=1e-7)


def test_a_shift_that_the_training_data_never_shows_is_filtered_out(train, inlier):
    # A direction without training variance: energy reacts to it, its projection does not.
    def wider(outputs, value):
        features = np.hstack([outputs.features, np.full((outputs.n, 1), value)])
        weight = np.hstack([train.head.weight, np.ones((train.head.n_classes, 1))])
        return Outputs(features=features, labels=outputs.labels, head=type(train.head)(weight, train.head.bias))

    score = Projected(Energy(), "global").fit(wider(train, 0.0))
    np.testing.assert_allclose(score.score(wider(inlier, 100.0)), score.score(wider(inlier, 0.0)), rtol=1e-9)


def test_the_score_inside_is_copied_and_not_touched(train):
    inside = Mahalanobis()
    Projected(inside, "global").fit(train)
    assert not hasattr(inside, "fitted_")


def test_the_score_inside_is_spared_what_only_class_scores_need(train, inlier):
    whole = Projected(Mahalanobis(), "class_pred")
    spared = whole.without_class_scores()
    assert spared.inner.class_rank == 0
    np.testing.assert_array_equal(spared.fit(train).score(inlier), whole.fit(train).score(inlier))


def test_training_features_beyond_the_limit_go_to_a_file(train, inlier, monkeypatch):
    whole = Projected(Mahalanobis(), "class_pred").fit(train).score(inlier)
    monkeypatch.setattr("caveat.scores.projected._IN_MEMORY", 0)
    np.testing.assert_array_equal(Projected(Mahalanobis(), "class_pred").fit(train).score(inlier), whole)


def test_a_global_projection_shares_the_walk_with_others(train, inlier):
    together = [Projected(Energy(), "global"), Projected(FDBD(), "global"), Mahalanobis()]
    fit_all(together, train)
    alone = Projected(FDBD(), "global").fit(train)
    np.testing.assert_allclose(together[1].score(inlier), alone.score(inlier), rtol=1e-12)
    assert score_all(train, inlier, ["msp"]).keys() == {"msp"}


def test_which_fields_it_asks_for():
    assert Projected(Energy(), "global").fits_on == ("features", "head")
    assert Projected(Energy(), "class").fits_on == ("features", "labels", "head")
    assert Projected(Mahalanobis(), "global").fits_on == ("features", "labels")
    assert Projected(Mahalanobis(), "class_pred").fits_on == ("features", "labels", "head")
    assert Projected(Reconstruction(), "global").fits_on == ("features",)
    assert Projected(Energy(), "global").needs == ("features",)
    assert Projected(Energy(), "class_pred").name == "energy_class_pred"


def test_projections_by_name():
    assert projections_of("msp") == ("global", "class", "class_pred", "class_avg")
    assert projections_of("gradnorm") == ("global", "class_pred", "class_avg")
    assert projections_of("kpca_error") == ("global", "class", "class_pred", "class_avg")
    assert projections_of("vim") == projections_of("knn") == ()
    with pytest.raises(InputError, match="unknown score 'mps'"):
        projections_of("mps")


def test_what_does_not_exist_says_so(train, inlier):
    with pytest.raises(
        InputError, match=r"unknown projection of mahalanobis 'class'.* Known: class_avg, class_pred, global"
    ):
        Projected(Mahalanobis(), "class")
    with pytest.raises(InputError, match=r"'knn' has no projection\. These have: ctm, .*gradnorm.*"):
        Projected(KNN(), "global")
    with pytest.raises(InputError, match=r"'react' has no projection\. These have"):
        Projected(ReAct(), "global")
    with pytest.raises(InputError, match="a projection wraps a score such as MSP"):
        Projected(MSP, "global")
    with pytest.raises(InputError, match="variance must be above 0 and at most 1, got 95"):
        Projected(MSP(), "global", variance=95)
    with pytest.raises(NotFittedError, match="Projected has not seen training data"):
        Projected(MSP(), "global").score(inlier)
    with pytest.raises(InputError, match=r"Projected learns from train\.labels, which is None"):
        Projected(MSP(), "class").fit(Outputs(features=train.features, head=train.head))
    with pytest.raises(InputError, match="GradNorm has no class scores, projected or not"):
        Projected(GradNorm(), "global").fit(train).class_scores(inlier)
    with pytest.raises(InputError, match="12 columns as in training, got 3"):
        Projected(MSP(), "global").fit(train).score(Outputs(features=np.ones((2, 3))))
