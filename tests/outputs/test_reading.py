"""One set of outputs in every format: the same arrays come back; damaged files give one sentence."""

from __future__ import annotations

import csv
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from caveat import CaveatError, Head, InputError, MissingExtraError, Outputs
from caveat.errors import CaveatWarning
from caveat.outputs.keys import as_slice
from caveat.outputs.reading import load_head

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")


def wide(arrays):
    """Columns of a table, one number per cell."""
    return {
        (f"{name}_{i}" if array.ndim > 1 else name): column
        for name, array in arrays.items()
        for i, column in enumerate(array.T if array.ndim > 1 else [array])
    }


def lists(arrays, fixed=True):
    """Columns of a table, vectors as lists."""
    return pa.table({name: _lists(array, fixed) if array.ndim > 1 else array for name, array in arrays.items()})


def _lists(array, fixed):
    if fixed:
        return pa.FixedSizeListArray.from_arrays(pa.array(array.ravel()), array.shape[1])
    return pa.array(array.tolist(), type=pa.list_(pa.from_numpy_dtype(array.dtype)))


def write_text(arrays, path):
    columns = wide(arrays)
    with path.open("w", newline="", encoding="utf-8") as stream:
        lines = csv.writer(stream, delimiter="\t" if path.suffix == ".tsv" else ",")
        lines.writerow(columns)
        lines.writerows(zip(*(column.tolist() for column in columns.values()), strict=True))


def write_ipc(table, path, opened, **options):
    with pa.OSFile(str(path), "wb") as stream, opened(stream, table.schema, **options) as writer:
        writer.write_table(table, max_chunksize=7)


def write_safetensors(arrays, path):
    pytest.importorskip("safetensors")
    from safetensors.numpy import save_file

    save_file({name: np.ascontiguousarray(array) for name, array in arrays.items()}, path)


def write_torch(arrays, path):
    torch = pytest.importorskip("torch")
    torch.save({name: torch.tensor(array) for name, array in arrays.items()}, path)


ZSTD = pa.ipc.IpcWriteOptions(compression="zstd")
WRITERS = {
    "a.csv": write_text,
    "a.tsv": write_text,
    "wide.parquet": lambda arrays, path: pq.write_table(pa.table(wide(arrays)), path, row_group_size=5),
    "lists.parquet": lambda arrays, path: pq.write_table(lists(arrays), path, row_group_size=5),
    "any.parquet": lambda arrays, path: pq.write_table(lists(arrays, fixed=False), path, row_group_size=5),
    "file.arrow": lambda arrays, path: write_ipc(lists(arrays), path, pa.ipc.new_file),
    "stream.arrow": lambda arrays, path: write_ipc(lists(arrays, fixed=False), path, pa.ipc.new_stream),
    "packed.feather": lambda arrays, path: write_ipc(pa.table(wide(arrays)), path, pa.ipc.new_file, options=ZSTD),
    "a.safetensors": write_safetensors,
    "a.pt": write_torch,
    "a.npz": lambda arrays, path: np.savez(path, **arrays),
}


def drawn(seed, n, classes, width, dtype):
    rng = np.random.default_rng(seed)
    return {
        "logits": (10.0 ** rng.integers(-300, 300, size=(n, classes)) * rng.normal(size=(n, classes))),
        "features": rng.normal(size=(n, width)).astype(dtype),
        "labels": rng.integers(classes, size=n),
        "confidence": rng.normal(size=n),
    }


@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    seed=st.integers(0, 10**6), n=st.integers(1, 23), classes=st.integers(2, 12), width=st.integers(2, 4),
    dtype=st.sampled_from(["float32", "float64"]), rows=st.sampled_from(["", ":1", "-1:", "::3", "0:5", "0:50:4"]),
)  # fmt: skip
@pytest.mark.parametrize("name", WRITERS)
def test_every_format_gives_the_same_outputs(tmp_path, name, seed, n, classes, width, dtype, rows):
    arrays = drawn(seed, n, classes, width, dtype)
    WRITERS[name](arrays, tmp_path / name)
    outputs = Outputs.load(tmp_path / name, rows=rows)
    kept = as_slice(rows, "rows") if rows else slice(None)
    for field, array in arrays.items():
        back = getattr(outputs, field)
        np.testing.assert_array_equal(back, array[kept])  # bit for bit: text has all digits
        if field == "features" and not name.endswith("sv"):
            assert back.dtype == dtype


def _complaint(path):
    """What is said of a damaged file; None where the damage changes only a value or a name."""
    try:
        Outputs.load(path)
    except CaveatError as error:
        return str(error)
    except CaveatWarning:
        pass
    return None


@pytest.mark.parametrize("name", WRITERS)
def test_damage_anywhere_is_one_sentence(tmp_path, name):
    path = tmp_path / name
    WRITERS[name](drawn(0, 20, 3, 2, "float32"), path)
    whole, rng = path.read_bytes(), np.random.default_rng(0)
    damaged = [whole[: len(whole) * part // 20] for part in range(20)]
    for place in rng.integers(len(whole), size=40):
        flipped = bytearray(whole)
        flipped[place] ^= 255
        damaged.append(bytes(flipped))
    for content in (*damaged, b"", b"\0" * 50, b"\xff\xfe" * 20):
        path.write_bytes(content)
        message = _complaint(path)
        assert message is None or (str(path) in message and "\n" not in message)


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".parquet", ".arrow", ".feather", ".pt", ".safetensors"])
def test_a_path_that_is_not_there_or_a_pickle(tmp_path, suffix):
    import pickle

    with pytest.raises(InputError, match="does not exist"):
        Outputs.load(tmp_path / f"gone{suffix}")
    (tmp_path / f"pickle{suffix}").write_bytes(pickle.dumps({"logits": subprocess.Popen}))
    with pytest.raises(InputError, match=f"pickle{suffix}"):
        Outputs.load(tmp_path / f"pickle{suffix}")


def test_keys_rename_fields_and_leave_fields_out(tmp_path):
    logits = np.random.default_rng(0).normal(size=(6, 3))
    table = {
        "z_10": logits[:, 2],
        "z_9": logits[:, 1],
        "z_8": logits[:, 0],
        "y": [0, 1, 2, 0, 1, 2],
        "confidence": np.ones(6),
    }
    write_text({name: np.asarray(column) for name, column in table.items()}, tmp_path / "a.csv")
    keys = {"logits": "z_8,z_9,z_10", "labels": "y", "confidence": ""}
    outputs = Outputs.load(tmp_path / "a.csv", keys=keys, rows="2:")
    np.testing.assert_array_equal(outputs.logits, logits[2:])
    np.testing.assert_array_equal(outputs.labels, [2, 0, 1, 2])
    assert outputs.confidence is None
    with pytest.raises(InputError, match="from 0 or 1"):
        Outputs.load(tmp_path / "a.csv", keys={"logits": "z_*"})
    with pytest.raises(InputError, match="unknown field in keys 'label'. Did you mean 'labels'"):
        Outputs.load(tmp_path / "a.csv", keys={"label": "y"})
    with pytest.raises(InputError, match="no rows to read"):
        Outputs.load(tmp_path / "a.csv", keys=keys, rows="9:")


def test_unknown_columns_are_ignored_with_a_warning_and_a_file_without_fields_is_an_error(tmp_path):
    (tmp_path / "a.csv").write_text("id,confidence\n7,0.5\n", encoding="utf-8")
    with pytest.warns(CaveatWarning, match="ignored unknown keys id"):
        assert Outputs.load(tmp_path / "a.csv").confidence == [0.5]
    (tmp_path / "b.csv").write_text("id,name\n7,x\n", encoding="utf-8")
    with pytest.raises(InputError, match="holds none of the keys logits.*found id, name.*--key"):
        Outputs.load(tmp_path / "b.csv")


def test_class_names_of_columns_give_the_order_of_text_labels(tmp_path):
    (tmp_path / "a.csv").write_text("p_dog,p_cat,y\n0.25,0.75,cat\n0.5,0.5,cat\n", encoding="utf-8")
    outputs = Outputs.load(tmp_path / "a.csv", keys={"probs": "p_*", "labels": "y"})
    np.testing.assert_array_equal(outputs.labels, [1, 1])
    (tmp_path / "b.csv").write_text("probs_0,probs_1,labels\n0.25,0.75,dog\n0.5,0.5,cat\n", encoding="utf-8")
    for names, numbers in ((["cat", "dog"], [1, 0]), (["dog", "cat"], [0, 1])):
        np.testing.assert_array_equal(Outputs.load(tmp_path / "b.csv", class_names=names).labels, numbers)
    (tmp_path / "c.csv").write_text("probs_0,probs_1,labels\n0.25,0.75,dog\n", encoding="utf-8")
    with pytest.raises(InputError, match="1 class name.*2 columns"):
        Outputs.load(tmp_path / "c.csv")


def test_a_head_from_the_weights_of_a_network(tmp_path):
    weight, bias = np.arange(6.0).reshape(2, 3), np.array([1.0, -1.0])
    np.savez(tmp_path / "net.npz", **{"fc.weight": weight, "fc.bias": bias, "conv.weight": np.ones((1, 1, 3, 3))})
    head = load_head(tmp_path / "net.npz", {"head_weight": "fc.weight", "head_bias": "fc.bias"})
    np.testing.assert_array_equal(head.weight, weight)
    np.testing.assert_array_equal(head.bias, bias)
    with pytest.raises(InputError, match="has no array 'head_weight'. It has conv.weight, fc.bias, fc.weight"):
        load_head(tmp_path / "net.npz")
    assert isinstance(load_head(tmp_path / "net.npz", {"head_weight": "fc.weight"}), Head)


def test_outputs_are_not_saved_under_the_name_of_another_format(tmp_path):
    with pytest.raises(InputError, match="written as .npz or as a folder"):
        Outputs(confidence=[1.0]).save(tmp_path / "a.parquet")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("suffix", "module", "extra"), [
    (".parquet", "pyarrow.parquet", "stats"), (".feather", "pyarrow", "stats"), (".pt", "torch", "torch"),
])  # fmt: skip
def test_a_missing_package_is_named_by_its_extra(tmp_path, monkeypatch, suffix, module, extra):
    (tmp_path / f"a{suffix}").write_bytes(b"x")
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtraError, match=rf"caveat\[{extra}\]"):
        Outputs.load(tmp_path / f"a{suffix}")
