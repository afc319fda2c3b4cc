from __future__ import annotations

import socket
import sys
import warnings
from contextlib import nullcontext, suppress
from types import SimpleNamespace

import numpy as np
import pytest

from caveat import CaveatError, InputError, MissingExtraError, Outputs
from caveat._internal.cluster import local_processes
from caveat.scale import Runner, compute, fit, merge_in_tree, p_values, score, select_outliers
from caveat.scores import Energy, Mahalanobis

ROWS = 125  # of 4,000: 32 ranges


@pytest.fixture
def large(tmp_path, wide):
    wide.save(tmp_path / "wide")
    return tmp_path / "wide"


class OneAfterTheOther:
    """The smallest runner of one's own."""

    def reduce(self, work, ranges, merge, tell):
        return merge_in_tree([compute(work, *rows) for rows in reversed(ranges)][::-1], merge)


def test_a_runner_of_ones_own_gives_the_same_bits(large, learned):
    assert isinstance(OneAfterTheOther(), Runner)
    here, own = (fit("mahalanobis", large, rows_per_task=ROWS, client=client) for client in (None, OneAfterTheOther()))
    for key, value in learned(here).items():
        np.testing.assert_array_equal(learned(own)[key], value)


def killing(workers, after):
    """A callback that kills one worker process when some ranges are done, and a list of when it did."""
    killed = []

    def tell(what, done, total):
        if done >= after and not killed:
            workers.kill_one()
            killed.append(done)

    return tell, killed


def check_killed(client, workers, large, learned, after):
    tell, killed = killing(workers, after)
    there = fit([Mahalanobis(), "ctm_mean", "knn"], large, rows_per_task=ROWS, client=client, progress=tell)
    assert killed == [after]
    here = fit([Mahalanobis(), "ctm_mean", "knn"], large, rows_per_task=ROWS)
    for one, other in zip(here, there, strict=True):
        for key, value in learned(one).items():
            np.testing.assert_array_equal(learned(other)[key], value)


@pytest.mark.parametrize("after", [5, 20])
def test_a_worker_killed_in_the_middle_changes_no_bit(client, workers, large, learned, after):
    check_killed(client, workers, large, learned, after)


@pytest.mark.slow
@pytest.mark.parametrize("time", range(20))
def test_a_worker_killed_in_the_middle_changes_no_bit_20_times(client, workers, large, learned, time):
    check_killed(client, workers, large, learned, 1 + (7 * time) % 30)


def test_a_worker_killed_while_scores_are_written_changes_no_bit(client, workers, large, tmp_path):
    made = fit("mahalanobis", large, rows_per_task=ROWS)
    tell, killed = killing(workers, 10)
    there = score(made, large, out=tmp_path / "s.npy", rows_per_task=ROWS, client=client, progress=tell)
    assert len(killed) == 1
    np.testing.assert_array_equal(there, score(made, large, rows_per_task=ROWS))


def test_workers_give_the_bits_of_threads_in_every_call(client, large):
    one, two = (fit("mahalanobis", large, rows_per_task=ROWS, client=place) for place in (None, client))
    np.testing.assert_array_equal(one.whitener_, two.whitener_)
    held = one.score(Outputs(features=np.random.default_rng(0).normal(size=(500, 24)).astype(np.float32)))
    results = [p_values(one, large, calibration=held, rows_per_task=ROWS, client=place) for place in (None, client)]
    np.testing.assert_array_equal(results[0].values, results[1].values)
    np.testing.assert_array_equal(results[0].histogram.counts, results[1].histogram.counts)
    chosen = [select_outliers(one, large, calibration=held, q=0.5, rows_per_task=999, client=place)
              for place in (None, client)]  # fmt: skip
    np.testing.assert_array_equal(*chosen)


def test_an_error_of_a_worker_reaches_the_caller_as_it_is(client, tmp_path):
    logits = np.zeros((100, 2))
    logits[90, 0] = np.nan
    np.save(tmp_path / "logits.npy", logits)
    with pytest.raises(InputError, match="logits has NaN, first at row 10"):
        score(Energy(), tmp_path, rows_per_task=40, client=client)


def test_an_address_stands_for_its_scheduler(client, large, learned):
    there = fit("ctm_mean", large, rows_per_task=1000, client=client.scheduler.address)
    for key, value in learned(fit("ctm_mean", large, rows_per_task=1000)).items():
        np.testing.assert_array_equal(learned(there)[key], value)


@pytest.mark.parametrize(
    ("client", "words"),
    [(0, "client must be a whole number"), ("here", "must be an address"), (1.5, "client must be None"),
     ("tcp://127.0.0.1:9", "no Dask scheduler")],
)  # fmt: skip
def test_what_is_no_client_is_said(client, words, train, monkeypatch):
    pytest.importorskip("distributed")
    monkeypatch.setattr("caveat._internal.cluster._PATIENCE", 0.3)
    with pytest.raises(InputError, match=words):
        fit("mahalanobis", train, client=client)


def test_workers_that_end_late_cost_no_result(monkeypatch):
    class Late:
        closed = 0

        def __init__(self, *_, **__):
            pass

        def close(self):
            Late.closed += 1
            raise TimeoutError

    package = SimpleNamespace(LocalCluster=Late, Client=lambda *_, **__: nullcontext("client"))
    monkeypatch.setattr("caveat._internal.cluster.dask_distributed", lambda _: package)
    with local_processes(2) as client:
        assert client == "client"
    assert Late.closed == 1
    with pytest.raises(ZeroDivisionError), local_processes(2):
        raise ZeroDivisionError
    assert Late.closed == 2


def test_workers_on_this_machine_use_no_fixed_port():
    pytest.importorskip("distributed")
    with socket.socket() as taken, warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)  # Dask: port 8787 is already in use
        with suppress(OSError):  # somebody else has it: as good
            taken.bind(("127.0.0.1", 8787))
            taken.listen()
        with local_processes(1) as client:
            assert sum(client.nthreads().values()) == 1


def test_dask_names_its_extra_where_it_is_not_installed(train, monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(MissingExtraError, match="extra 'scale'"):
        fit("mahalanobis", train, client="tcp://127.0.0.1:8786")
    with pytest.raises(CaveatError, match="several processes"):
        fit("mahalanobis", train, client=2)
