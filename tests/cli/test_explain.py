from __future__ import annotations

import numpy as np

from caveat import Outputs


def test_explain_says_what_a_file_allows(run, files):
    code, out, _ = run("evaluate", "--explain", files / "far.npz")
    assert code == 0
    assert "120 samples, 4 classes" in out
    assert "The head gives the logits back" in out
    assert "no: needs labels of the training outputs" in out


def test_explain_notices_features_of_another_layer(run, files):
    said = Outputs.load(files / "test.npz")
    Outputs(logits=said.logits, features=said.features[:, ::-1], head=said.head).save(files / "odd.npz")
    _, out, _ = run("evaluate", "--explain", files / "odd.npz")
    assert "does NOT give the logits back" in out


def test_explain_shows_the_columns_of_a_table_and_proposes_keys(run, tmp_path):
    (tmp_path / "a.csv").write_text("id,p_0,p_1,y\na,0.5,0.5,1\nb,0.25,0.75,0\n", encoding="utf-8")
    code, out, err = run("evaluate", "--explain", tmp_path / "a.csv")
    assert (code, err) == (0, "")
    assert "p_* (2 columns)" in out
    assert "--key 'probs=p_*' --key labels=y" in out
    assert "No outputs yet" in out
    code, out, err = run("evaluate", "--explain", tmp_path / "a.csv", "--key", "probs=p_*", "--key", "labels=y")
    assert (code, err) == (0, "")
    assert "2 samples, 2 classes" in out
    assert "Try" not in out


def test_explain_proposes_keys_for_arrays_of_other_names(run, tmp_path, inlier):
    np.savez(tmp_path / "a.npz", z=inlier.logits, targets=inlier.labels)
    code, out, _ = run("evaluate", "--explain", tmp_path / "a.npz")
    assert code == 0
    assert "--key labels=targets --key logits=z" in out
