from __future__ import annotations

import json
import logging

import numpy as np
import pytest

from caveat import Guard, InputError, Outputs
from caveat.cli._scale import Workplace


@pytest.fixture
def folders(files):
    for name in ("train", "test", "far"):
        Outputs.load(files / f"{name}.npz").save(files / name)
    return files


@pytest.fixture
def address():
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=2, processes=False, protocol="tcp", host="127.0.0.1", dashboard_address=None,
        silence_logs=50,
    ) as cluster:  # fmt: skip
        yield cluster.scheduler_address


@pytest.fixture(autouse=True)
def quiet_threads(monkeypatch):
    """A scheduler that another test has ended may still log, to a stream that is closed."""
    monkeypatch.setattr(logging, "raiseExceptions", False)


def test_evaluate_on_a_scheduler_decides_as_in_memory(run, folders, tmp_path, address):
    words = ["evaluate", "--test", folders / "test", "--train", folders / "train", "--outlier", folders / "far",
             "--scores", "msp,mahalanobis,vim"]  # fmt: skip
    code, here, _ = run(*words, "--out", tmp_path / "here", "--json", "-")
    assert code == 0
    code, there, err = run(*words, "--out", tmp_path / "there", "--json", "-", "--scheduler", address)
    assert (code, err) == (0, "")
    decisions = [json.loads(text)["decision"] if "decision" in json.loads(text) else json.loads(text) for text in
                 (here, there)]  # fmt: skip
    assert decisions[0]["score"] == decisions[1]["score"]
    assert decisions[0]["threshold"] == pytest.approx(decisions[1]["threshold"], rel=1e-9)
    assert (tmp_path / "there" / "report.html").exists()


def test_guard_fit_and_predict_on_a_scheduler_are_those_in_memory(run, folders, tmp_path, address):
    code, out, _ = run("guard", "fit", tmp_path / "guard", "--calibration", folders / "test.npz", "--train",
                       folders / "train", "--score", "mahalanobis", "--scheduler", address)  # fmt: skip
    assert code == 0
    assert "rejected" in out
    code, out, _ = run("guard", "predict", tmp_path / "guard", folders / "far", "--out", tmp_path / "verdicts",
                       "--scheduler", address)  # fmt: skip
    assert code == 0
    guard, far = Guard.load(tmp_path / "guard"), Outputs.load(folders / "far")
    np.testing.assert_array_equal(np.load(tmp_path / "verdicts" / "p_value.npy"), guard(far).p_values)
    assert f"{guard(far).counts['outlier']:,} outlier" in out


def test_a_study_on_a_scheduler_has_the_numbers_of_this_process(run, folders, tmp_path, address):
    pytest.importorskip("pyarrow")
    plan = tmp_path / "plan.toml"
    plan.write_text(
        f'resamples = 5\nscores = ["msp", "mahalanobis"]\n[sources.net]\ntrain = "{folders / "train.npz"}"\n'
        f'inlier = "{folders / "test.npz"}"\n[sources.net.outliers]\nfar = "{folders / "far.npz"}"\n'
    )
    assert run("study", plan, "--out", tmp_path / "here")[0] == 0
    code, _, err = run("study", plan, "--out", tmp_path / "there", "--scheduler", address)
    assert (code, "failed" in err) == (0, False)
    assert (tmp_path / "there" / "results.csv").read_text() == (tmp_path / "here" / "results.csv").read_text()


def test_guard_predict_reads_parquet(run, folders, tmp_path):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    far = Outputs.load(folders / "far")
    logits = pa.FixedSizeListArray.from_arrays(pa.array(far.logits.ravel()), far.logits.shape[1])
    pq.write_table(pa.table({"logits": logits}), tmp_path / "far.parquet")
    assert run("guard", "fit", tmp_path / "guard", "--calibration", folders / "test.npz")[0] == 0
    code, whole, _ = run("guard", "predict", tmp_path / "guard", tmp_path / "far.parquet")
    assert code == 0
    ranges = ["guard", "predict", tmp_path / "guard", tmp_path / "far.parquet", "--workers", "1"]
    code, _, err = run(*ranges)
    assert code == 2
    assert "folder of .npy columns" in err
    code, out, _ = run(*ranges, "--out", tmp_path / "v")
    assert (code, out.splitlines()[-1]) == (0, f"Verdicts: {tmp_path / 'v'}")
    assert out.splitlines()[0] == whole.splitlines()[0]


def test_a_bad_address_and_two_places_are_one_sentence(run, folders):
    words = ["evaluate", "--test", folders / "test"]
    code, _, err = run(*words, "--scheduler", "here")
    assert code == 2
    assert "must be an address" in err
    code, _, err = run(*words, "--scheduler", "tcp://127.0.0.1:9", "--workers", "2")
    assert code == 2
    assert "not both" in err


def test_files_are_read_by_ranges_where_workers_or_tables_ask_for_it(tmp_path):
    (tmp_path / "rows.zarr").mkdir()
    assert not Workplace.of(None, None, [tmp_path / "x.npz", None]).by_ranges
    assert Workplace.of(None, 3, [tmp_path / "x.npz"]) == Workplace(True, 3)
    assert Workplace.of(None, None, [tmp_path / "rows.zarr"]) == Workplace(True, None)
    with pytest.raises(InputError, match="address"):
        Workplace.of("nowhere", None, [])
