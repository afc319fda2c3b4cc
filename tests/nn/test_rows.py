from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from caveat import Head, InputError, Outputs

pytest.importorskip("torch")

from caveat.nn._rows import LAYER, Rows

HEAD = Head(np.eye(2, dtype=np.float32))


def parts(sizes, seed=0, dtype=np.float32, labels=True):
    rng = np.random.default_rng(seed)
    for n in sizes:
        part = {
            "logits": rng.normal(size=(n, 2)).astype(np.float32),
            "features": rng.normal(size=(n, 2)).astype(dtype),
            "mc_logits": rng.normal(size=(3, n, 2)).astype(dtype),
            LAYER + "a/b.c": rng.normal(size=(n, 2, 3, 1)).astype(dtype),
        }
        yield part | ({"labels": rng.integers(0, 2, size=n)} if labels else {})


@settings(max_examples=40)
@given(
    sizes=st.lists(st.integers(1, 5), min_size=1, max_size=6),
    bound=st.integers(0, 2000),
    folder=st.booleans(),
    dtype=st.sampled_from([np.float16, np.float32, np.float64]),
)
def test_any_batches_under_any_bound_give_the_joined_rows(sizes, bound, folder, dtype):
    expected = list(parts(sizes, dtype=dtype))
    with tempfile.TemporaryDirectory() as place:
        out = Path(place) / "said" if folder else None
        with Rows(bound=bound, out=out) as rows:
            for part in parts(sizes, dtype=dtype):
                rows.add(part)
            said = rows.finish(HEAD)
        found = [said] + ([Outputs.load(out)] if out else [])
        for one in found:
            assert one.n == sum(sizes)
            for key in ("logits", "features", "labels"):
                np.testing.assert_array_equal(getattr(one, key), np.concatenate([part[key] for part in expected]))
            np.testing.assert_array_equal(one.mc_logits, np.concatenate([p["mc_logits"] for p in expected], axis=1))
            np.testing.assert_array_equal(one.layers["a/b.c"], np.concatenate([p[LAYER + "a/b.c"] for p in expected]))
            assert one.features.dtype == dtype


@pytest.mark.parametrize("bound", [0, 10**9])
def test_batches_must_be_alike(bound):
    with Rows(bound=bound, out=None) as rows:
        rows.add(next(parts([2])))
        with pytest.raises(InputError, match="every batch must have labels, or none"):
            rows.add(next(parts([2], labels=False)))
        odd = next(parts([2]))
        odd["features"] = np.zeros((2, 5))
        with pytest.raises(InputError, match=r"got features rows of \(5,\) after \(2,\)"):
            rows.add(odd)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
@pytest.mark.parametrize("named", [False, True])
def test_a_full_disk_leaves_no_folder_behind(tmp_path, monkeypatch, named):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    rows = Rows(bound=0, out=tmp_path / "said" if named else None)
    with pytest.raises(OSError, match="No space left"), rows:  # noqa: PT012
        rows.add({"logits": np.zeros((3, 2))})
        for file in rows._files["logits"]:
            file._stream = open("/dev/full", "wb")  # noqa: SIM115
        rows.add({"logits": np.zeros((3, 2))})
        rows.finish(None)
    assert not list(tmp_path.iterdir())
