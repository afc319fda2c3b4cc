"""Files: histories of kills, lost power, full disks, files that lose their names, and clocks that jump."""

from __future__ import annotations

import pytest
from tests.serve.faults.disk import Disk, faulty
from tests.serve.faults.histories import History, InProcess, Process

from caveat.serve import engine as engine_module


@pytest.fixture
def quick(monkeypatch):
    """The service looks at its store more often, so that a history takes a second."""
    monkeypatch.setattr(engine_module, "_RETRY_SECONDS", 0.02)
    monkeypatch.setattr(engine_module, "_STORE_SECONDS", 0.05)
    monkeypatch.setattr(engine_module, "_FOLD_SECONDS", 0.02)
    return monkeypatch


def in_process(seed, guard, folder, monkeypatch):
    with faulty(Disk(folder)) as disk:
        history = History(
            seed, guard, folder, lambda path, seen, durable: InProcess(guard, path, seen, disk=disk, durable=durable),
            disk=disk, monkeypatch=monkeypatch,
        )  # fmt: skip
        try:
            rows = history.run()
        except BaseException as error:
            error.add_note(f"history {seed}: {', '.join(history.story)}")
            raise
    assert rows >= len(history.seen.rows) > 0


@pytest.mark.parametrize("seed", range(15))
def test_a_history_loses_nothing(seed, logit_guard, tmp_path, quick):
    in_process(seed, logit_guard, tmp_path, quick)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(15, 176))
def test_many_histories_lose_nothing(seed, logit_guard, tmp_path, quick):
    in_process(seed, logit_guard, tmp_path, quick)


def of_processes(seed, guard, folder, guards, *, short=False):
    history = History(seed, guard, folder, lambda path, seen, durable: Process(guards["logits"], path))
    try:
        rows = history.run(short=short)
    except BaseException as error:
        error.add_note(f"history {seed}: {', '.join(history.story)}")
        raise
    assert rows >= len(history.seen.rows) > 0


@pytest.mark.parametrize("seed", [1])
def test_a_history_of_processes_loses_nothing(seed, logit_guard, tmp_path, guards):
    of_processes(seed, logit_guard, tmp_path, guards, short=True)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 14))
def test_many_histories_of_processes_lose_nothing(seed, logit_guard, tmp_path, guards):
    of_processes(seed, logit_guard, tmp_path, guards)
