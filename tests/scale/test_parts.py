"""Scores as parts and a manifest: the scores of one file, resumed after a stop, verified when read."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest

from caveat import InputError, MissingExtraError, NotFittedError, Outputs
from caveat.scale import fit, open_parts, score, score_parts
from caveat.scores import Energy, Mahalanobis, MaxLogit


def place(kind, tmp_path):
    if kind != "folder":
        pytest.importorskip("fsspec")
    return {"folder": tmp_path / "parts", "slash": f"{tmp_path}/parts/", "file": f"file://{tmp_path}/parts",
            "memory": f"memory://{tmp_path.name}/parts"}[kind]  # fmt: skip


@pytest.mark.parametrize("kind", ["folder", "slash", "file", "memory"])
@pytest.mark.parametrize("rows_per_task", [31, 1000])
def test_parts_hold_the_bits_of_one_file(kind, rows_per_task, train, tmp_path):
    train.save(tmp_path / "train")
    out = place(kind, tmp_path)
    parts = score_parts(Energy(), tmp_path / "train", out=out, rows_per_task=rows_per_task)
    expected = score(Energy(), tmp_path / "train", rows_per_task=rows_per_task)
    np.testing.assert_array_equal(parts.read(), expected)
    again = open_parts(out)
    assert (again.n, again.parts) == (train.n, parts.parts)
    for start, stop in ((0, 1), (30, 33), (5, train.n), (train.n - 1, train.n)):
        np.testing.assert_array_equal(again.read(start, stop), expected[start:stop])


def test_a_stopped_run_goes_on_and_computes_only_what_is_missing(train, tmp_path, monkeypatch):
    def stop(what, done, total):
        if done == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        score_parts(Energy(), train, out=tmp_path / "p", rows_per_task=20, progress=stop)
    with pytest.raises(InputError, match="has not finished"):
        open_parts(tmp_path / "p")
    there = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "p").glob("part-*")}
    assert len(there) >= 3
    halfway = tmp_path / "p" / "part-000000000000020-000000000000040.npy"
    halfway.write_bytes(halfway.read_bytes()[:-8])  # as a copy that was cut off leaves it
    parts = score_parts(Energy(), train, out=tmp_path / "p", rows_per_task=20)
    np.testing.assert_array_equal(parts.read(), score(Energy(), train, rows_per_task=20))
    now = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "p").glob("part-*")}
    assert {name for name, time in there.items() if now[name] != time} == {halfway.name}


def test_a_folder_belongs_to_one_score_and_source(train, inlier, tmp_path):
    score_parts(Energy(), train, out=tmp_path / "p", rows_per_task=50)
    calls = {"probe": (MaxLogit(), train, 50), "rows_per_task": (Energy(), train, 51), " n": (Energy(), inlier, 50)}
    for differs, (other, rows, size) in calls.items():
        with pytest.raises(InputError, match=f"parts of another run.*{differs}"):
            score_parts(other, rows, out=tmp_path / "p", rows_per_task=size)


def test_reading_verifies_every_part(train, tmp_path):
    parts = score_parts(Energy(), train, out=tmp_path / "p", rows_per_task=50)
    second = tmp_path / "p" / parts.parts[1].file
    content = bytearray(second.read_bytes())
    content[-1] ^= 1
    second.write_bytes(content)
    assert parts.read(0, 50).size == 50
    with pytest.raises(InputError, match=f"{parts.parts[1].file}.*SHA-256"):
        parts.read()
    second.unlink()
    with pytest.raises(InputError, match="missing"):
        parts.read(60, 61)
    page = json.loads((tmp_path / "p" / "manifest.json").read_text())
    for damage in ({"n": 7}, {"parts": page["parts"][:-1]}, {"dtype": "<f4"}, {"parts": [{"start": 0}]}, {"format": 1}):
        (tmp_path / "p" / "manifest.json").write_text(json.dumps(page | damage))
        with pytest.raises(InputError, match="damaged or of another format"):
            open_parts(tmp_path / "p")


def test_a_manifest_cannot_name_files_elsewhere(train, tmp_path):
    score_parts(Energy(), train, out=tmp_path / "p")
    manifest = tmp_path / "p" / "manifest.json"
    page = json.loads(manifest.read_text())
    (tmp_path / "p" / page["parts"][0]["file"]).rename(tmp_path / "elsewhere.npy")
    page["parts"][0]["file"] = "../elsewhere.npy"
    manifest.write_text(json.dumps(page))
    with pytest.raises(InputError, match="damaged"):
        open_parts(tmp_path / "p")


def test_workers_write_parts_and_a_killed_one_changes_no_bit(client, workers, wide, tmp_path):
    wide.save(tmp_path / "wide")
    made, killed = fit("mahalanobis", tmp_path / "wide", rows_per_task=125), []

    def tell(what, done, total):
        if done >= 10 and not killed:
            workers.kill_one()
            killed.append(done)

    there = score_parts(made, tmp_path / "wide", out=f"file://{tmp_path}/p", rows_per_task=125, client=client,
                        progress=tell)  # fmt: skip
    assert len(killed) == 1
    np.testing.assert_array_equal(there.read(), score(made, tmp_path / "wide", rows_per_task=125))


def test_wrong_calls_get_one_sentence(train, tmp_path, monkeypatch):
    with pytest.raises(NotFittedError, match="Mahalanobis"):
        score_parts(Mahalanobis(), Outputs(features=[[0.0, 1.0]]), out=tmp_path / "p")
    with pytest.raises(InputError, match="start"):
        score_parts(Energy(), train, out=tmp_path / "p").read(5, 5)
    pytest.importorskip("fsspec")
    with pytest.raises(InputError, match="nowhere://x cannot be opened"):
        score_parts(Energy(), train, out="nowhere://x")
    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    with pytest.raises(MissingExtraError, match="extra 'scale'"):
        open_parts("memory://x")
