from __future__ import annotations

import csv

import numpy as np
import pytest

from caveat import Outputs


@pytest.fixture
def files(tmp_path):
    rng = np.random.default_rng(0)
    center = 3 * np.eye(6)[0]
    Outputs(embeddings=rng.normal(size=(200, 6)) + center, labels=np.arange(200) % 2).save(tmp_path / "train.npz")
    for name, move in (("near", 0), ("mid", 4), ("mid2", 4.2), ("far", 20)):
        rows = rng.normal(size=(150, 6)) + center + move * np.eye(6)[1]
        Outputs(embeddings=rows).save(tmp_path / f"{name}.npz")
    np.save(tmp_path / "text.npy", np.eye(6)[:2])
    return tmp_path


def test_distances_and_buckets(run, files):
    sets = [option for name in ("near", "mid", "mid2") for option in ("--outlier", files / f"{name}.npz")]
    code, out, _ = run(
        "proximity", "--inlier", files / "train.npz", *sets, "--outlier", f"svhn={files / 'far.npz'}",
        "--text", files / "text.npy", "--out", files / "table.csv",
    )  # fmt: skip
    assert code == 0
    with (files / "table.csv").open(encoding="utf-8") as stream:
        table = {row["set"]: row for row in csv.DictReader(stream)}
    assert {name: row["bucket"] for name, row in table.items()} == {
        "near": "near", "mid": "mid", "mid2": "mid", "svhn": "far",
    }  # fmt: skip
    assert float(table["near"]["frechet"]) < float(table["mid"]["frechet"]) < float(table["svhn"]["frechet"])
    assert table["near"]["text"]
    assert "svhn" in out


def test_two_sets_have_distances_but_no_buckets(run, files):
    code, out, _ = run("proximity", "--inlier", files / "train.npz", "--outlier", files / "near.npz")
    assert code == 0
    assert "near" in out
    assert "mid" not in out


def test_a_bad_file_is_one_sentence(run, files):
    Outputs(logits=[[1.0, 2.0]]).save(files / "none.npz")
    code, _, err = run("proximity", "--inlier", files / "train.npz", "--outlier", files / "none.npz")
    assert code == 2
    assert "none needs embeddings" in err
    code, _, err = run(
        "proximity", "--inlier", files / "train.npz", "--outlier", files / "near.npz", "--outlier", files / "near.npz"
    )
    assert code == 2
    assert "two outlier sets are called 'near'" in err


def test_plain_arrays_with_prompts(run, tmp_path):
    rng = np.random.default_rng(0)
    for i, name in enumerate(("train", "a", "b", "c")):
        np.save(tmp_path / f"{name}.npy", rng.normal(size=(30, 4)) + i)
    np.save(tmp_path / "text.npy", rng.normal(size=(3, 2, 4)))
    outliers = [part for name in "abc" for part in ("--outlier", tmp_path / f"{name}.npy")]
    code, _, _ = run(
        "proximity",
        "--inlier",
        tmp_path / "train.npy",
        *outliers,
        "--text",
        tmp_path / "text.npy",
        "--out",
        tmp_path / "t.csv",
    )
    assert code == 0
    lines = (tmp_path / "t.csv").read_text(encoding="utf-8").splitlines()
    assert {line.rsplit(",", 1)[1] for line in lines[1:]} == {"near", "mid", "far"}
