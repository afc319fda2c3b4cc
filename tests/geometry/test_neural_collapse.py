from __future__ import annotations

import numpy as np
import pytest

from caveat import Head, InputError, Outputs
from caveat_lab.geometry import neural_collapse

METRICS = ("equinorm", "equiangularity", "max_equiangularity", "variability", "self_duality")


def network(seed=0, n=400, width=6, classes=4):
    rng = np.random.default_rng(seed)
    labels = np.arange(n) % classes
    means = rng.normal(size=(classes, width)) * 2 + 1
    features = means[labels] + rng.normal(size=(n, width)) * rng.uniform(0.2, 1, width)
    return Outputs(features=features, labels=labels, head=Head(means - means.mean(axis=0) + 0.1, np.zeros(classes)))


def literal(features, labels, weight):
    """The formulas, one by one, on all rows at once."""
    classes = int(labels.max()) + 1
    mu = features.mean(axis=0)
    centerd = np.array([features[labels == c].mean(axis=0) - mu for c in range(classes)])
    rest = np.concatenate([features[labels == c] - features[labels == c].mean(axis=0) for c in range(classes)])
    within = rest.T @ rest / len(features)
    between = sum(np.outer(m, m) for m in centerd) / classes
    norms = np.linalg.norm(centerd, axis=1)
    cosines = np.array([
        centerd[i] @ centerd[j] / norms[i] / norms[j] for i in range(classes) for j in range(classes) if i != j
    ])  # fmt: skip
    duality = np.linalg.norm(weight.T / np.linalg.norm(weight) - centerd.T / np.linalg.norm(centerd)) ** 2
    return {
        "equinorm": norms.std() / norms.mean(),
        "equiangularity": cosines.std(),
        "max_equiangularity": np.abs(cosines + 1 / (classes - 1)).mean(),
        "variability": np.trace(within @ np.linalg.pinv(between, rcond=1e-10)) / classes,
        "self_duality": duality,
    }


def basis(rows, variance):
    _, singular, right = np.linalg.svd(rows - rows.mean(axis=0), full_matrices=False)
    share = np.cumsum(singular**2) / np.sum(singular**2)
    return right[: int(np.argmax(share >= variance)) + 1].T


def filtered(outputs, projection, variance):
    """Features after the projection, row by row."""
    x, y = outputs.features, outputs.labels
    if projection == "global":
        p = basis(x, variance)
        return (x - x.mean(axis=0)) @ p @ p.T + x.mean(axis=0)
    rows = []
    for row, c in zip(x, outputs.predictions, strict=True):
        p, mean = basis(x[y == c], variance), x[y == c].mean(axis=0)
        rows.append((row - mean) @ p @ p.T + mean)
    return np.array(rows)


@pytest.mark.parametrize("variance", [0.6, 0.95])
@pytest.mark.parametrize("projection", ["none", "global", "class_pred"])
def test_every_metric_equals_its_formula(projection, variance):
    outputs = network()
    assert 0.5 < outputs.correct.mean() < 1  # so that a predicted class is not always the true one
    features = outputs.features if projection == "none" else filtered(outputs, projection, variance)
    expected = literal(features, outputs.labels, outputs.head.weight)
    found = neural_collapse(outputs, projection=projection, variance=variance)
    for name in METRICS:
        assert getattr(found, name) == pytest.approx(expected[name], rel=1e-6), name


@pytest.mark.parametrize("projection", ["none", "global", "class_pred"])
def test_row_blocks_do_not_change_the_result(projection, monkeypatch):
    outputs = network(1)
    whole = neural_collapse(outputs, projection=projection)
    monkeypatch.setattr("caveat._internal.blocks.BLOCK_BYTES", 1000)
    parts = neural_collapse(outputs, projection=projection)
    for name in METRICS:
        assert getattr(parts, name) == pytest.approx(getattr(whole, name))


def test_a_collapsed_network_has_zeros():
    frame = np.eye(5) - 1 / 5
    labels = np.arange(50) % 5
    found = neural_collapse(Outputs(features=3 * frame[labels], labels=labels, head=Head(2 * frame)))
    for name in (*METRICS, "weight_equinorm", "weight_equiangularity", "weight_max_equiangularity"):
        assert getattr(found, name) == pytest.approx(0, abs=1e-12), name


def test_scale_and_rotation_do_not_matter():
    outputs = network(2)
    turn, _ = np.linalg.qr(np.random.default_rng(0).normal(size=(6, 6)))
    other = Outputs(features=7 * outputs.features @ turn, labels=outputs.labels, head=Head(outputs.head.weight @ turn))
    first, second = neural_collapse(outputs), neural_collapse(other)
    for name in METRICS:
        assert getattr(second, name) == pytest.approx(getattr(first, name))


def test_weights_have_metrics_of_their_own_and_are_optional():
    # two weights at right angles with norms 1 and 3: std / mean = 1 / 2, one cosine 0, |0 + 1| = 1
    outputs = Outputs(features=np.eye(2)[[0, 1, 0, 1]], labels=[0, 1, 0, 1], head=Head([[1.0, 0.0], [0.0, 3.0]]))
    found = neural_collapse(outputs)
    assert (found.weight_equinorm, found.weight_equiangularity, found.weight_max_equiangularity) == (0.5, 0, 1)
    plain = neural_collapse(Outputs(features=outputs.features, labels=outputs.labels))
    assert plain.self_duality is None
    assert plain.weight_equinorm is None


def test_float16_far_from_the_origin_and_more_features_than_rows():
    outputs = network(3)
    far = Outputs(features=(outputs.features + 100).astype(np.float32), labels=outputs.labels)
    near = Outputs(features=outputs.features, labels=outputs.labels)
    assert neural_collapse(far).variability == pytest.approx(neural_collapse(near).variability, rel=1e-3)
    rng = np.random.default_rng(0)
    wide = Outputs(features=rng.normal(size=(12, 40)), labels=np.arange(12) % 3)
    for projection in ("none", "global"):
        assert np.isfinite(neural_collapse(wide, projection=projection).variability)


def test_unequal_classes_are_pointed_out():
    outputs = network()[:399]
    assert "Classes have 99 to 100 samples" in neural_collapse(outputs).caveat
    assert neural_collapse(network()).caveat == ""


def test_bad_input():
    with pytest.raises(InputError, match="needs outputs.features"):
        neural_collapse(Outputs(logits=[[1.0, 2.0]]))
    with pytest.raises(InputError, match="unknown projection 'globl'. Did you mean 'global'"):
        neural_collapse(network(), projection="globl")
    with pytest.raises(InputError, match="variance must be above 0 and at most 1"):
        neural_collapse(network(), variance=0)
    with pytest.raises(InputError, match="at least 2 classes"):
        neural_collapse(Outputs(features=[[1.0], [2.0]], labels=[0, 0]))
    with pytest.raises(InputError, match="no sample of class 1"):
        neural_collapse(Outputs(features=[[1.0], [2.0]], labels=[0, 2]))
    with pytest.raises(InputError, match="needs outputs.predictions"):
        neural_collapse(Outputs(features=[[1.0], [2.0]], labels=[0, 1]), projection="class_pred")
    with pytest.raises(InputError, match="class 0 of the class means is the zero vector"):
        neural_collapse(Outputs(features=[[1.0], [1.0]], labels=[0, 1]))


def test_a_direction_that_holds_only_rounding_of_float32_is_left_out():
    """Behind a layer normalization features have one direction less; more classes than features show its rounding."""
    rng = np.random.default_rng(0)
    labels = np.arange(4600) % 46
    rows = rng.normal(size=(46, 32))[labels] + 0.5 * rng.normal(size=(4600, 32))
    rows = 3 * (rows - rows.mean(axis=1, keepdims=True)) / rows.std(axis=1, keepdims=True)
    turned = np.linalg.qr(np.column_stack([np.ones(32), rng.normal(size=(32, 31))]))[0]
    exact = neural_collapse(Outputs(features=(rows @ turned)[:, 1:], labels=labels)).variability
    rounded = neural_collapse(Outputs(features=rows.astype(np.float32), labels=labels)).variability
    assert rounded == pytest.approx(exact, rel=1e-4)
