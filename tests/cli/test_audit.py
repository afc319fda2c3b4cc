"""``caveat audit``: exit codes and the sentences that a person reads."""

from __future__ import annotations

import json

import numpy as np
import pytest
from tests.serve.conftest import serving
from tests.serve.trails import new_key

from caveat import Guard, Outputs
from caveat.serve import trail as trail_module
from caveat.serve.audit.content import encode_verdicts
from caveat.serve.audit.sqlite import SqliteStore
from caveat.serve.engine import packed
from caveat.serve.trail import Trail


@pytest.fixture
def audit(tmp_path, monkeypatch):
    """A guard and its trail: five verdicts on each of two days, two labels, a state; (folder, file)."""
    rng = np.random.default_rng(0)
    labels = rng.integers(3, size=600)
    logits = 4 * np.eye(3)[labels] + rng.normal(size=(600, 3))
    guard = Guard("energy", risk=0.2).calibrate(Outputs(logits=logits, labels=labels), date="2026-11-18")
    guard.save(tmp_path / "guard")
    store = SqliteStore(tmp_path / "audit.sqlite")
    trail = Trail(guard, store)
    for day in (17, 18):
        monkeypatch.setattr(trail_module, "now", lambda day=day: f"2026-11-{day}T12:00:00.000Z")
        rows = rng.normal(size=(5, 3))
        body = encode_verdicts(guard(Outputs(logits=rows)))
        trail.append_verdicts([(5, body, packed({"logits": rows}))])
    trail.append_labels({f"{trail.chain}-0": 1, f"{trail.chain}-9": 2})
    trail.fold()
    trail.snapshot()
    store.close()
    return tmp_path / "guard", tmp_path / "audit.sqlite"


def test_a_sound_trail_is_verified_and_counted(run, audit):
    code, out, err = run("audit", "verify", audit[1])
    assert (code, err) == (0, "")
    assert "Records:  4 (2026-11-17T12:00:00.000Z to 2026-11-18T12:00:00.000Z)" in out
    assert "Verdicts: 10" in out
    head = out.split("Head:")[1].split()[0]
    assert run("audit", "verify", audit[1], "--head", head)[0] == 0
    code, out, err = run("audit", "verify", audit[1], "--head", "1" * 64)
    assert code == 3
    assert "1" * 64 in err


def test_a_broken_trail_ends_with_3_and_names_the_record(run, audit):
    store = SqliteStore(audit[1])
    store._run("UPDATE records SET at = '2020' WHERE seq = 2")
    store.close()
    code, out, err = run("audit", "verify", audit[1])
    assert code == 3
    assert "record 2" in err
    assert "✓" not in out
    code, out, err = run("audit", "replay", *audit)
    assert code == 3
    assert "record 2" in err


def test_a_replay_prints_the_evidence_with_all_digits(run, audit):
    code, out, err = run("audit", "replay", *audit)
    assert (code, err) == (0, "")
    guard = Guard.load(audit[0])
    store = SqliteStore(audit[1], read_only=True)
    evidence = Trail(guard, store).watch.log10_e
    store.close()
    for name, value in evidence.items():
        assert f"{name} {value!r} " in out
    assert "10, of them 10 from their inputs" in out
    assert "bit for bit" in out


def test_a_replay_that_differs_ends_with_3(run, audit):
    store = SqliteStore(audit[1])
    store._run("UPDATE snapshots SET state = CAST(replace(state, '\"rows\": 10', '\"rows\": 11') AS BLOB)")
    store.close()
    code, _, err = run("audit", "replay", *audit)
    assert code == 3
    assert "state after record 3" in err


def test_an_export_writes_one_row_per_verdict(run, audit, tmp_path):
    code, out, _ = run("audit", "export", audit[1], tmp_path / "v.jsonl", "--since", "2026-11-18", "--until",
                       "2026-11-18T14:00+01:00")  # fmt: skip
    assert (code, out.split()[0]) == (0, "5")
    rows = [json.loads(line) for line in (tmp_path / "v.jsonl").read_text().splitlines()]
    assert [row["label"] for row in rows] == [None, None, None, None, 2]
    assert run("audit", "export", audit[1], tmp_path / "v.parquet")[1].startswith("10 verdicts")


def test_prune_deletes_what_is_older_and_the_rest_is_sound(run, audit):
    code, out, _ = run("audit", "prune", *audit, "--before", "2026-11-18", "--inputs-only")
    assert code == 0
    assert "inputs of records up to 1" in out
    code, out, _ = run("audit", "verify", audit[1])
    assert code == 0
    assert "of 1 records; of 1 they were deleted" in out
    code, out, _ = run("audit", "prune", *audit, "--before", "2026-11-18")
    assert code == 0
    assert "records up to 1" in out
    code, out, _ = run("audit", "verify", audit[1])
    assert code == 0
    assert "1 records with 5 verdicts" in out
    assert run("audit", "replay", *audit)[0] == 0
    code, out, _ = run("audit", "prune", *audit, "--before", "2026-11-18")
    assert code == 0
    assert "No record" in out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("verify", "none.sqlite"), "does not exist"),
        (("verify", "mysql://x/y"), "mysql"),
        (("verify", "AUDIT", "--head", "abc"), "64 hexadecimal"),
        (("export", "AUDIT", "v.xlsx"), ".parquet"),
        (("export", "AUDIT", "v.csv", "--since", "yesterday"), "--since"),
        (("prune", "GUARD", "AUDIT", "--before", "18.11.2026"), "--before"),
        (("prune", "GUARD", "none.sqlite", "--before", "2026-11-18"), "does not exist"),
        (("replay", "none", "AUDIT"), "none"),
    ],
)
def test_bad_input_ends_with_2_and_one_sentence(run, audit, tmp_path, monkeypatch, arguments, words):
    monkeypatch.chdir(tmp_path)
    places = {"GUARD": audit[0], "AUDIT": audit[1]}
    code, out, err = run("audit", *(places.get(argument, argument) for argument in arguments))
    assert code == 2
    assert words in err
    assert out == ""
    assert not (tmp_path / "none.sqlite").exists()


def test_a_trail_of_another_guard_is_refused(run, audit, tmp_path):
    rng = np.random.default_rng(1)
    Guard("energy", sets=None).calibrate(Outputs(logits=rng.normal(size=(100, 3)))).save(tmp_path / "other")
    for command in (("replay",), ("prune", "--before", "2026-11-18")):
        code, _, err = run("audit", command[0], tmp_path / "other", audit[1], *command[1:])
        assert code == 2
        assert "belongs to the guard" in err


def test_a_trail_that_is_being_written_cannot_be_pruned(run, audit):
    store = SqliteStore(audit[1])
    code, _, err = run("audit", "prune", *audit, "--before", "2026-11-18")
    assert code == 2
    assert "another service" in err
    store.close()


def test_heads_and_proofs_from_the_command_line(run, audit, tmp_path):
    private, public = new_key(tmp_path / "key")
    guard, place, heads, proof = audit[0], audit[1], tmp_path / "heads.jsonl", tmp_path / "proof.json"
    assert run("audit", "verify", place, "--head", heads)[0] == 2  # no such file
    with serving(guard, place, "--heads", str(heads), "--sign-key", str(private), "--heads-every", "1") as service:
        answer = service.client.post("/v1/verdicts", json={"logits": [[9.0, 0.0, 0.0]]}).json()["verdicts"][0]
    code, out, err = run("audit", "verify", place, "--head", heads, "--key", public)
    assert (code, err) == (0, "")
    assert "published (signed)" in out
    assert "not looked at" in run("audit", "verify", place, "--head", heads)[1]
    code, out, _ = run("audit", "prove", place, answer["id"], proof, "--head", heads)
    assert code == 0
    for options in (["--head", heads], ["--key", public], ["--head", heads, "--key", public]):
        code, out, _ = run("audit", "check-proof", proof, *options)
        assert code == 0
        assert answer["id"] in out
        assert f"score {answer['score']}" in out
    assert run("audit", "check-proof", proof)[0] == 2
    other = new_key(tmp_path / "other")[1]
    assert run("audit", "check-proof", proof, "--key", other)[0] == 2
    content = json.loads(proof.read_text())
    proof.write_text(json.dumps(content | {"path": [*content["path"][::-1], "00" * 32]}))
    code, _, err = run("audit", "check-proof", proof, "--head", heads)
    assert code == 3
    assert "does not lead" in err
    lines = heads.read_text().splitlines()
    heads.write_text("\n".join([*lines[:-1], lines[-1].replace('"records":', '"records":1')]))
    assert run("audit", "verify", place, "--head", heads)[0] == 3  # a head of records that are not there
    assert run("audit", "verify", place, "--head", heads, "--key", public)[0] == 2  # and it is not signed


def test_heads_without_a_place_and_other_options_are_refused(run, audit, tmp_path):
    private, _ = new_key(tmp_path / "key")
    code, _, err = run("serve", audit[0], "--port", "0", "--audit", tmp_path / "a.sqlite", "--sign-key", private)
    assert (code, "--heads" in err) == (2, True)
    code, _, err = run("serve", audit[0], "--port", "0", "--audit", tmp_path / "a.sqlite", "--verify", "never")
    assert code == 2
    assert not (tmp_path / "a.sqlite").exists()


def test_the_order_of_labels_is_fixed_with_the_trail(run, audit):
    code, out, _ = run("audit", "replay", *audit)
    assert code == 0
    assert "does not depend on whether the answers were wrong" in out
    code, _, err = run("serve", audit[0], "--port", "0", "--audit", audit[1], "--label-wait", "10")
    assert (code, "--label-wait" in err) == (2, True)
