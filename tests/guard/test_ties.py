"""Equal inputs get one verdict: alone and in a batch, with other kernels, over HTTP and through ONNX.

Ten kinds of input, as of templates, probes or categorical data; the strangest is three tenths of the traffic. The
threshold then stands right above the score of a kind, and a score that changes in its last bit breaks the promise.
"""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
from scipy.stats import binom

from caveat import Guard, Head, Outputs
from caveat._internal import products
from caveat.scores import catalogue

KINDS, WIDTH = 10, 16
SCORES = ["mahalanobis", "relative_mahalanobis", "kpca_error", "vim", "knn", "neco", "pnml", "energy", "msp"]


class World:
    """Draws of ten kinds of input, with logits or with a head that gives them."""

    def __init__(self, seed, dtype=np.float32, *, derived=False):
        rng = np.random.default_rng(seed)
        self.kinds = rng.normal(size=(KINDS, WIDTH)).astype(dtype)
        self.kinds[-1] *= 3
        classes = 0
        while classes < 2:  # a score by class needs rows of both
            self.head = Head(rng.normal(size=(2, WIDTH)).astype(dtype), np.full(2, 30, dtype=dtype))
            self.logits = self.head.logits(self.kinds)
            classes = np.unique(self.logits.argmax(axis=1)).size
        self.shares = np.append(np.full(KINDS - 1, 0.7 / (KINDS - 1)), 0.3)
        self.derived = derived

    def draw(self, n, seed):
        return np.random.default_rng(seed).choice(KINDS, p=self.shares, size=n)

    def rows(self, which):
        logits = None if self.derived else self.logits[which]
        return Outputs(features=self.kinds[which], logits=logits, head=self.head,
                       labels=self.logits[which].argmax(axis=1))  # fmt: skip

    def guard(self, score, seed, **settings):
        guard = Guard(score, **settings).fit(self.rows(self.draw(400, seed + 1)))
        return guard.calibrate(self.rows(self.draw(300, seed + 2)), date="2026-11-19")


def one_by_one(guard, world):
    return np.array([guard(world.rows(np.array([kind]))).score[0] for kind in range(KINDS)])


@pytest.mark.parametrize("derived", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("score", SCORES)
def test_a_kind_of_input_has_one_verdict_in_every_batch(score, dtype, derived):
    world = World(3, dtype, derived=derived)
    guard = world.guard(score, 30, risk=0.5)
    alone = one_by_one(guard, world)
    stream = world.draw(700, 5)
    assert set(guard(world.rows(stream)).score) == set(alone)
    for size in (2, 7, 64, 700):
        verdicts = [guard(world.rows(stream[i : i + size])) for i in range(0, stream.size, size)]
        np.testing.assert_array_equal(np.concatenate([some.score for some in verdicts]), alone[stream])
        doubt = np.concatenate([some.doubt for some in verdicts])
        assert all(np.unique(doubt[stream == kind]).size == 1 for kind in range(KINDS))


def test_every_score_gives_a_kind_of_input_one_rounded_score(make_outputs):
    train, rows = make_outputs(seed=1, dtype=np.float32), make_outputs(seed=2, n=KINDS, dtype=np.float32)
    which = np.random.default_rng(0).integers(KINDS, size=200)
    for entry in catalogue():
        score = entry.score().fit(train)
        np.testing.assert_array_equal(score.rounded(rows[which]), score.rounded(rows)[which], err_msg=entry.name)


@pytest.mark.parametrize("score", SCORES)
def test_noise_in_the_last_bits_of_every_product_changes_no_verdict(score, monkeypatch):
    world = World(4, derived=True)
    multiply, place = products._multiply, [0]

    def noisy(rows, columns, result, sizes):
        multiply(rows, columns, result, sizes)
        place[0] += 1
        draws = np.random.default_rng(place[0]).integers(-2, 3, size=result.shape)
        result *= 1 + 2.0**-52 * draws

    exact = world.guard(score, 40, risk=0.5)
    stream = world.rows(world.draw(300, 6))
    expected = exact(stream)
    monkeypatch.setattr(products, "_multiply", noisy)
    for verdicts in (exact(stream), exact(stream)):
        np.testing.assert_array_equal(verdicts.score, expected.score)
        np.testing.assert_array_equal(verdicts.kind, expected.kind)
        np.testing.assert_array_equal(verdicts.p_values, expected.p_values)
    again = exact.calibrate(world.rows(world.draw(300, 42)), date="2026-11-19")
    np.testing.assert_array_equal(one_by_one(again, world), np.array(sorted_by_kind(expected, world, 6)))


def sorted_by_kind(verdicts, world, seed):
    which = world.draw(300, seed)
    return [verdicts.score[np.flatnonzero(which == kind)[0]] for kind in range(KINDS)]


SERVED = """
import sys
import numpy as np
from caveat import Guard, Outputs
guard = Guard.load(sys.argv[1])
with np.load(sys.argv[2]) as kept:
    rows = [Outputs(features=kept["features"][i : i + 1], logits=kept["logits"][i : i + 1]) for i in range(10)]
print(" ".join(guard(row).score[0].hex() for row in rows), " ".join(guard(row).kind[0] for row in rows))
"""


@pytest.mark.parametrize("score", ["mahalanobis", "relative_mahalanobis", "kpca_error", "knn", "msp"])
def test_a_guard_gives_the_same_scores_with_other_kernels(score, tmp_path):
    world = World(8)
    guard = world.guard(score, 80)
    guard.save(tmp_path / "guard")
    np.savez(tmp_path / "rows.npz", features=world.kinds, logits=world.logits)
    expected = guard(world.rows(np.arange(KINDS)))
    # SSE2 kernels run on every x86 machine; elsewhere the variable is ignored.
    environment = {**os.environ, "OPENBLAS_CORETYPE": "Nehalem", "OMP_NUM_THREADS": "2"}
    command = [sys.executable, "-c", SERVED, str(tmp_path / "guard"), str(tmp_path / "rows.npz")]
    printed = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=True).stdout
    words = printed.split()
    assert [float.fromhex(word) for word in words[:KINDS]] == expected.score.tolist()
    assert words[KINDS:] == expected.kind.tolist()


def test_an_onnx_file_gives_a_kind_of_input_the_score_of_the_guard(tmp_path):
    runtime = pytest.importorskip("onnxruntime")
    for name in ("mahalanobis", "vim", "knn", "msp"):
        world = World(9)
        guard = world.guard(name, 90)
        path = guard.export_onnx(tmp_path / f"{name}.onnx", head=world.head).path
        session = runtime.InferenceSession(path, providers=["CPUExecutionProvider"])
        fields = {"features": world.kinds, "logits": world.logits}
        expected = guard(world.rows(np.arange(KINDS)))
        for rows in (slice(0, KINDS), *(slice(kind, kind + 1) for kind in range(KINDS))):
            asked = {field.name: fields[field.name][rows] for field in session.get_inputs()}
            score, p_value = session.run(["score", "p_value"], asked)
            np.testing.assert_array_equal(score, expected.score[rows])
            np.testing.assert_array_equal(p_value, expected.p_values[rows])


def broken(score, guards, dtype, rows):
    """How many of so many guards raise a drift alarm on a quiet stream, and have too many false alarms."""
    rung = alarms = 0
    for seed in range(guards):
        world = World(seed, dtype, derived=seed % 2 == 0)
        guard = world.guard(score, 10**5 * (seed + 1), sets=None)
        alone = one_by_one(guard, world)
        stream = world.draw(rows, seed)
        watch = guard.watch(alpha=0.01).alarms["score"]
        watch.update(alone[stream])
        rung += watch.alarmed
        alarms += world.shares[alone >= guard.threshold_].sum() > guard.false_alarm
    return rung, alarms


def check_promises(score, guards, dtype, rows):
    rung, alarms = broken(score, guards, dtype, rows)
    assert rung <= binom.ppf(1 - 1e-6, guards, 0.01)
    assert alarms <= binom.ppf(1 - 1e-6, guards, 0.05)


@pytest.mark.parametrize("score", ["mahalanobis", "msp"])
def test_streams_of_discrete_inputs_keep_both_promises(score):
    # Broken in 30 to 41 % and 63 to 100 % of guards while a score depended on its batch; 40 guards would show 10 %.
    check_promises(score, 40, np.float32, 1500)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("score", SCORES)
def test_streams_of_discrete_inputs_keep_both_promises_in_400_guards(score, dtype):
    check_promises(score, 400, dtype, 3000)
