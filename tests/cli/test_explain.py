from __future__ import annotations

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
