"""Saved guards: the same verdicts elsewhere, format 2 for ever, one sentence for whatever was done to the folder."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from caveat import InputError, NotFittedError, Outputs
from caveat._internal.folders import page_checksum
from caveat.guard import Guard
from caveat.scores import KNN, MSP, Projected

pytestmark = pytest.mark.filterwarnings("ignore:Nothing can be promised")  # small calibration sets keep the tests quick

FORMAT_2 = Path(__file__).parent / "format2"


@pytest.fixture
def parts(draw):
    rng = np.random.default_rng(12)
    return [draw(rng, n, features=True) for n in (200, 300, 150)]


def alike(first, second):
    assert first.kind.tolist() == second.kind.tolist()
    for name in ("score", "p_values", "conditional_p_values", "doubt"):
        one, other = getattr(first, name), getattr(second, name)
        assert (one is None and other is None) or one.tobytes() == other.tobytes()
    assert first.reasons == second.reasons
    assert (first.sets is None) == (second.sets is None)
    if first.sets is not None:
        assert first.sets.to_dense().tobytes() == second.sets.to_dense().tobytes()
        assert first.sets.level == second.sets.level


@pytest.mark.parametrize(
    "make",
    [
        lambda: Guard("mahalanobis", risk=0.15),
        lambda: Guard([KNN(k=3), "energy"], combine="min", sets="topk"),
        lambda: Guard(Projected(MSP(), "global"), sets="aps", risk=0.2, confidence="knn"),
        lambda: Guard("tempscale", sets=None),
    ],
    ids=["mahalanobis", "combined", "projected", "tempscale"],
)
def test_a_loaded_guard_gives_the_same_verdicts(make, parts, tmp_path):
    train, held, rows = parts
    guard = make().fit(train).calibrate(held)
    guard.save(tmp_path / "guard")
    other = Guard.load(tmp_path / "guard")
    alike(guard(rows), other(rows))
    assert other.promises == guard.promises
    assert other.fingerprint == guard.fingerprint
    assert repr(other) == repr(guard)
    guard.watch().save(tmp_path / "guard" / "state")  # state lives apart: the guard is as before
    assert Guard.load(tmp_path / "guard").fingerprint == guard.fingerprint


def test_another_process_gives_the_same_verdicts(parts, tmp_path):
    train, held, rows = parts
    guard = Guard("mahalanobis", risk=0.15).fit(train).calibrate(held)
    guard.save(tmp_path / "guard")
    rows.save(tmp_path / "rows.npz")
    code = ("import sys, numpy as np; from caveat import Guard, Outputs; "
            "v = Guard.load(sys.argv[1])(Outputs.load(sys.argv[2])); "
            "np.savez(sys.argv[3], kind=v.kind, p=v.p_values, c=v.conditional_p_values)")  # fmt: skip
    paths = [str(tmp_path / name) for name in ("guard", "rows.npz", "out.npz")]
    subprocess.run([sys.executable, "-c", code, *paths], check=True, timeout=120)
    verdicts = guard(rows)
    with np.load(tmp_path / "out.npz") as out:
        assert out["kind"].tolist() == verdicts.kind.tolist()
        assert out["p"].tobytes() == verdicts.p_values.tobytes()
        assert out["c"].tobytes() == verdicts.conditional_p_values.tobytes()


def test_a_guard_of_format_2_loads_for_ever():
    guard = Guard.load(FORMAT_2)
    expected = json.loads((FORMAT_2 / "expected.json").read_text())
    verdicts = guard(Outputs(logits=expected["logits"], features=expected["features"]))
    assert verdicts.kind.tolist() == expected["kind"]
    assert verdicts.p_values.tolist() == expected["p_values"]
    assert [str(promise) for promise in guard.promises] == expected["promises"]


def test_only_a_calibrated_guard_of_catalogue_scores_is_saved(parts, tmp_path):
    with pytest.raises(NotFittedError):
        Guard("energy").save(tmp_path / "a")
    other = tmp_path / "mine"
    other.mkdir()
    (other / "notes.txt").write_text("x")
    with pytest.raises(InputError, match="left alone"):
        Guard("energy").calibrate(parts[1]).save(other)
    with pytest.raises(InputError, match="folder"):
        Guard.load(tmp_path / "absent")


# -- whatever was done to the folder ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    rng = np.random.default_rng(13)
    labels = rng.integers(3, size=80)
    outputs = Outputs(logits=3 * np.eye(3)[labels] + rng.normal(size=(80, 3)), labels=labels)
    folder = tmp_path_factory.mktemp("guards") / "guard"
    Guard(["energy", "msp"], risk=0.2).calibrate(outputs).save(folder)
    return folder, (folder / "guard.json").read_text()


def rewritten(folder, page, *, sealed):
    """Write an edited page; ``sealed`` gives it a checksum that fits, as an attacker would."""
    page = page | ({"crc32": page_checksum(page)} if sealed else {})
    (folder / "guard.json").write_text(json.dumps(page))


def paths_of(value, path=()):
    yield path
    for key, item in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from paths_of(item, (*path, key))


def changed(page, path, value):
    if not path:
        return value
    copy = dict(page) if isinstance(page, dict) else list(page)
    copy[path[0]] = changed(copy[path[0]], path[1:], value)
    return copy


_VALUES = [None, True, -1, 10**30, 1.5, "", "../../etc/passwd", "/etc/passwd", "a\x00b", [], {}, [[]], {"is": "array"},
           {"is": "score"}, {"is": "pickle", "value": "x"}, float("inf")]  # fmt: skip


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), sealed=st.booleans())
def test_an_edited_page_is_one_sentence_or_harmless(saved, data, sealed):
    folder, text = saved
    page = json.loads(text)
    path = data.draw(st.sampled_from([p for p in paths_of(page) if p]))
    rewritten(folder, changed(page, path, data.draw(st.sampled_from(_VALUES))), sealed=sealed)
    message = ""
    try:
        Guard.load(folder)(
            Outputs(logits=np.eye(3))
        )  # what no code reads, such as the version of a library, may change
    except InputError as error:
        message = str(error)
    finally:
        (folder / "guard.json").write_text(text)
    assert "\n" not in message
    assert len(message) < 600


@pytest.mark.parametrize("name", ["../secret.npy", "/etc/hostname.npy", "sub/x.npy", "..", "x.txt", 3])
def test_files_outside_the_folder_are_never_read(saved, name):
    folder, text = saved
    page = json.loads(text)
    some = next(iter(page["folder"]["files"]))
    page["folder"]["files"][some] = name
    rewritten(folder, page, sealed=True)
    with pytest.raises(InputError):
        Guard.load(folder)
    (folder / "guard.json").write_text(text)


def test_links_truncated_and_changed_files_are_refused(saved):
    folder, _ = saved
    file = sorted(folder.glob("*.npy"))[0]
    content = file.read_bytes()
    for wrong in (b"", content[:-1], content + b"x", bytes([content[0] ^ 1]) + content[1:], b"\x80\x04K\x01."):
        file.write_bytes(wrong)
        with pytest.raises(InputError):
            Guard.load(folder)
    file.unlink()
    with pytest.raises(InputError):
        Guard.load(folder)
    elsewhere = folder.parent / "elsewhere.npy"
    elsewhere.write_bytes(content)
    os.symlink(elsewhere, file)
    with pytest.raises(InputError, match="plain file"):
        Guard.load(folder)
    file.unlink()
    file.write_bytes(content)
    Guard.load(folder)


def test_pages_that_are_no_page(saved):
    folder, text = saved
    for wrong in ("", "[]", "{", "null", "{}", text[: len(text) // 2], text.replace("caveat-guard", "caveat-score"),
                  text.replace('"version": 2', '"version": 3')):  # fmt: skip
        (folder / "guard.json").write_text(wrong)
        with pytest.raises(InputError):
            Guard.load(folder)
    (folder / "guard.json").write_text(text)
