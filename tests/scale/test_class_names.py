"""Labels as text in sources: the names of all ranges are known before the first one is read."""

from __future__ import annotations

import numpy as np
import pytest

import caveat
from caveat import Guard, InputError, Outputs
from caveat.evaluation.records import ClassFacts
from caveat.scale import evaluate, fit, open_source, predict, sample

NAMES = np.array(["ant", "bee", "cat", "dog", "eel"])


def write(folder, kind, arrays, class_names=None):
    """Arrays as a source, labels as they are."""
    if kind == "npy":
        folder.mkdir()
        for key, array in arrays.items():
            np.save(folder / f"{key}.npy", array)
    elif kind == "zarr":
        zarr = pytest.importorskip("zarr")
        group = zarr.open_group(str(folder := folder.with_suffix(".zarr")), mode="w")
        for key, array in arrays.items() if class_names is None else [*arrays.items(), ("class_names", class_names)]:
            stored = array.astype("T") if array.dtype.kind == "U" else array
            # Without "data", which the oldest zarr does not know; it knows text by the name "str" alone.
            group.create_array(key, shape=stored.shape, dtype="str" if stored is not array else stored.dtype)[:] = (
                stored
            )
        return folder
    else:
        pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
        folder.mkdir()
        columns = {key: pa.array(list(array)) if array.ndim == 2 else pa.array(array) for key, array in arrays.items()}
        if kind == "categories" and "labels" in columns:
            columns["labels"] = columns["labels"].dictionary_encode()
        pq.write_table(pa.table(columns), folder / "rows.parquet", row_group_size=50)
    if class_names is not None:
        np.save(folder / "class_names.npy", np.asarray(class_names))
    return folder


def arrays_of(outputs, labels=None):
    kept = {"features": outputs.features, "logits": outputs.logits}
    return kept if labels is None else kept | {"labels": labels}


@pytest.fixture
def names(train):
    assert train.n_classes <= NAMES.size
    return NAMES[: train.n_classes]


@pytest.mark.parametrize("kind", ["npy", "zarr", "parquet", "categories"])
def test_a_fit_on_names_is_the_fit_on_numbers(kind, tmp_path, train, names):
    folder = write(tmp_path / "train", kind, arrays_of(train, names[train.labels]) | {"logits": train.logits})
    with pytest.raises(InputError, match=r"4 class names .*which of the 4 columns"):
        open_source(folder)
    folder = open_source(folder, class_names=names)
    assert folder.class_names == tuple(names)
    folder = write(tmp_path / "narrow", kind, {"features": train.features, "labels": names[train.labels]})
    source = open_source(folder)
    assert source.class_names == tuple(names)
    part = source.read(7, 30)
    np.testing.assert_array_equal(part.labels, train.labels[7:30])
    assert part.class_names == tuple(names)
    there, here = (fit("mahalanobis", rows, rows_per_task=37) for rows in (folder, train))
    np.testing.assert_array_equal(there.whitener_, here.whitener_)
    assert sample(folder, 64).class_names == tuple(names)


@pytest.mark.parametrize("kind", ["npy", "zarr", "parquet"])
def test_stored_names_have_the_order_of_the_columns(kind, tmp_path, train, names):
    turned = names[::-1]
    folder = write(tmp_path / "train", kind, arrays_of(train, turned[train.labels]), class_names=turned)
    source = open_source(folder)
    assert source.class_names == tuple(turned)
    np.testing.assert_array_equal(source.read(0, train.n).labels, train.labels)


def test_a_saved_folder_keeps_its_names(tmp_path, train, names):
    Outputs(**arrays_of(train), labels=names[::-1][train.labels], class_names=names[::-1]).save(tmp_path / "train")
    assert open_source(tmp_path / "train").read(0, 3).class_names == tuple(names[::-1])


def test_an_evaluation_of_names_is_the_one_in_memory(tmp_path, train, inlier, outlier, names):
    parts = {"train": Outputs(**arrays_of(train), labels=names[train.labels], class_names=names),
             "inlier": Outputs(**arrays_of(inlier), labels=names[inlier.labels], class_names=names)}  # fmt: skip
    folders = {role: write(tmp_path / role, "npy", arrays_of(part, names[part.labels]), names)
               for role, part in (("train", train), ("inlier", inlier))}  # fmt: skip
    turned = parts["inlier"].with_class_names(names[::-1])  # another order of the columns is put right
    outliers = {"far": Outputs(**arrays_of(outlier))}
    expected = caveat.evaluate(**parts, outliers=outliers, scores=["msp", "kl_matching", "mahalanobis"])
    for inside in (folders["inlier"], turned):
        result = evaluate(train=folders["train"], inlier=inside, outliers=outliers,
                          scores=["msp", "kl_matching", "mahalanobis"], rows_per_task=50)  # fmt: skip
        assert str(result.decision) == str(expected.decision)
        assert [facts.names for facts in result.of(ClassFacts)] == [facts.names for facts in expected.of(ClassFacts)]


def test_a_guard_knows_the_names_of_its_training_rows(tmp_path, train, inlier, outlier, names):
    folder = write(tmp_path / "train", "npy", arrays_of(train, names[train.labels]), names)
    held = Outputs(**arrays_of(inlier), labels=names[inlier.labels], class_names=names)
    guard = fit(Guard("kl_matching"), folder, rows_per_task=50).calibrate(held)
    plain = fit(Guard("kl_matching"), train, rows_per_task=50).calibrate(inlier)
    assert guard.class_names_ == tuple(names)
    assert guard.threshold_ == plain.threshold_
    expected = guard(outlier)
    turned = Outputs(**arrays_of(outlier), class_names=names).with_class_names(names[::-1])
    result = predict(guard, turned, out=tmp_path / "verdicts", rows_per_task=23, fdr=0.2)
    np.testing.assert_allclose(result.column("p_value"), expected.p_values, rtol=1e-12)
    np.testing.assert_array_equal(result.column("prediction"), expected.predictions)


def test_truth_values_are_two_classes(tmp_path):
    rng = np.random.default_rng(0)
    folder = write(tmp_path / "rows", "npy", {"features": rng.normal(size=(40, 3)), "labels": np.arange(40) % 2 == 0})
    assert open_source(folder).read(0, 2).labels.tolist() == [1, 0]
    assert fit("ctm_mean", folder, rows_per_task=7).n_classes_ == 2


def test_names_that_do_not_fit_are_said(tmp_path, train, names):
    few = np.where(train.labels == 1, 0, train.labels)  # one class has no row, and nothing says which column is which
    folder = write(tmp_path / "few", "npy", arrays_of(train, names[few]))
    with pytest.raises(InputError, match=r"class name.*classes.*class_names"):
        fit("mahalanobis", folder)
    folder = write(tmp_path / "other", "npy", arrays_of(train, names[few]), class_names=names)
    assert open_source(folder).read(0, 5).class_names == tuple(names)
    other = write(tmp_path / "unknown", "npy", arrays_of(train, names[train.labels]), class_names=[*names[1:], "fly"])
    with pytest.raises(InputError, match="labels must be one of the class names"):
        fit("mahalanobis", other)
