"""Whatever is changed in an audit trail is found, and named by its record."""

from __future__ import annotations

import datetime
import threading

import pytest
from tests.serve.trails import change, feed, label

from caveat.serve.audit import verify as verify_module
from caveat.serve.audit.content import written_at
from caveat.serve.audit.prune import plan_cut
from caveat.serve.audit.sqlite import SqliteStore
from caveat.serve.audit.store import Damaged
from caveat.serve.audit.verify import verify_trail
from caveat.serve.folding import Folding
from caveat.serve.trail import Trail


@pytest.fixture
def path(tmp_path, logit_guard):
    """A trail of 1 start, 4 groups of verdicts (records 2 to 5), 1 of labels (6), a state after it (7), 1 stop (8)."""
    file = tmp_path / "audit.sqlite"
    store = SqliteStore(file)
    trail = Trail(logit_guard, store)
    trail.note("start")
    ids = feed(trail, logit_guard, [1, 64, 3, 2], seed=1, keep_inputs=True)
    label(trail, ids, seed=2)
    trail.fold()
    trail.snapshot()
    trail.note("stop")
    store.close()
    return file


def verified(path, **options):
    store = SqliteStore(path, read_only=True)
    try:
        return verify_trail(store, **options)
    finally:
        store.close()


def test_a_sound_trail_is_counted(path):
    result = verified(path)
    assert result.sound
    assert (result.records, result.verdicts, result.labels, result.inputs) == (8, 70, 24, 4)
    assert result.first_at <= result.last_at
    assert len(result.head) == 64


@pytest.mark.parametrize(
    ("statement", "record"),
    [
        ("UPDATE records SET body = CAST(replace(body, 'accept', 'reject') AS BLOB) WHERE seq = 3", 3),
        ("UPDATE records SET at = '2020-01-01T00:00:00.000Z' WHERE seq = 4", 4),
        ("UPDATE records SET kind = 'start' WHERE seq = 5", 5),
        ("UPDATE records SET rows = 2 WHERE seq = 2", 2),
        ("UPDATE records SET inputs = x'00' WHERE seq = 2", 2),
        ("UPDATE records SET digest = zeroblob(32) WHERE seq = 1", 1),
        ("DELETE FROM records WHERE seq = 3", 3),
        ("DELETE FROM records WHERE seq <= 2", 1),
        ("UPDATE records SET inputs = NULL WHERE seq = 4", 4),
        ("UPDATE labels SET label = 2 - label WHERE row = (SELECT row FROM labels WHERE label != 1)", 6),
        ("DELETE FROM labels WHERE row = 0", 6),
        ("INSERT INTO labels VALUES (1, 1)", None),
        ("DELETE FROM records WHERE seq >= 6", None),
        ("INSERT INTO header VALUES ('anchor_seq', 'x')", None),
        ("UPDATE header SET value = 'deadbeef' WHERE key = 'chain'", 1),
        ("UPDATE header SET value = '0.5' WHERE key = 'alpha'", 1),
        ("UPDATE header SET value = replace(value, '1', '2') WHERE key = 'guard'", 1),
        ("DELETE FROM snapshots", None),
        ("UPDATE snapshots SET state = CAST(replace(state, '\"run\": 1', '\"run\": 2') AS BLOB)", None),
        ("UPDATE snapshots SET seq = 5", None),
        ("INSERT INTO snapshots SELECT 5, state FROM snapshots", None),
    ],
)
def test_a_change_is_found_at_its_record(path, statement, record):
    change(path, statement)
    result = verified(path)
    assert not result.sound
    assert result.broken_at == record
    assert result.reason


def test_a_shortened_chain_is_found_by_a_digest_from_elsewhere(path):
    head = verified(path).head
    change(path, "DELETE FROM records WHERE seq = 8")
    assert verified(path).sound  # the rest is a chain too: this is what the digest is for
    result = verified(path, head=head)
    assert not result.sound
    assert head in result.reason


def test_a_digest_from_the_middle_of_the_chain_is_found(path):
    store = SqliteStore(path, read_only=True)
    digests = [record.digest.hex() for record in store.records()]
    store.close()
    assert all(verified(path, head=digest.upper()).sound for digest in digests)


def test_a_beginning_that_was_deleted_by_hand_is_found(path):
    store = SqliteStore(path, read_only=True)
    third = list(store.records())[2]
    store.close()
    for key, value in {"seq": "3", "digest": third.digest.hex(), "row": "65"}.items():
        change(path, "INSERT INTO header VALUES (?, ?)", f"anchor_{key}", value)
    change(path, "DELETE FROM records WHERE seq <= 3")
    change(path, "DELETE FROM labels WHERE row < 65")
    result = verified(path)
    assert not result.sound
    assert "no record says" in result.reason


def test_the_state_of_a_pruned_chain_is_chained_too(path, logit_guard):
    store = SqliteStore(path)
    trail = Trail(logit_guard, store)
    cut = plan_cut(logit_guard, store, written_at_end())
    trail.prune(cut)
    store.close()
    assert verified(path).sound
    assert verified(path).pruned_verdicts == 70
    change(path, "UPDATE snapshots SET state = CAST(replace(state, 'rows', 'sows') AS BLOB) WHERE seq = ?", cut.until)
    assert not verified(path).sound


def test_a_trail_is_verified_while_the_service_writes(path, logit_guard):
    store = SqliteStore(path)
    trail = Trail(logit_guard, store)
    stop, results = threading.Event(), []

    def read():
        while not stop.is_set():
            results.append(verified(path))

    reader = threading.Thread(target=read)
    reader.start()
    for seed in range(30):
        feed(trail, logit_guard, [1, 5, 2], seed=seed)
        if seed == 20:
            trail.prune(plan_cut(logit_guard, store, written_at_end()))
    stop.set()
    reader.join()
    store.close()
    assert len(results) > 1
    assert all(result.sound for result in results), results
    assert verified(path).sound


def written_at_end():
    return written_at(datetime.datetime(2999, 1, 1, tzinfo=datetime.UTC))


def test_a_forged_state_and_an_older_one_in_its_place_are_found(path, logit_guard):
    store = SqliteStore(path)
    trail = Trail(logit_guard, store)
    feed(trail, logit_guard, [40] * 20, seed=7, shift=3.0)
    trail.snapshot()
    assert "score" in trail.watch.alarmed
    seqs = store.snapshots()
    quiet = Folding(logit_guard, chain=trail.chain, alpha=0.01).restore(store.snapshot(seqs[0]))
    assert "score" not in quiet.watch.alarmed
    newest = store.snapshot(seqs[1])
    loud = Folding(logit_guard, chain=trail.chain, alpha=0.01).restore(newest)
    for alarm in loud.watch.alarms.values():
        alarm.alarmed_at, alarm.highest = None, 0.0
    forged, old = loud.state(), store.snapshot(seqs[0])
    store.close()
    assert verified(path).sound
    for state in (forged, old):
        change(path, "UPDATE snapshots SET state = ? WHERE seq = ?", state, seqs[1])
        result = verified(path)
        assert not result.sound
        assert f"the state after record {seqs[1]}" in result.reason
        again = SqliteStore(path)
        with pytest.raises(Damaged, match="not the one that was kept"):
            Trail(logit_guard, again)
        again.close()
    change(path, "UPDATE snapshots SET state = ? WHERE seq = ?", newest, seqs[1])
    assert verified(path).sound


def test_the_header_of_a_pruned_chain_is_chained_too(path, logit_guard):
    store = SqliteStore(path)
    trail = Trail(logit_guard, store)
    trail.prune(plan_cut(logit_guard, store, written_at_end()))
    store.close()
    assert verified(path).sound
    change(path, "UPDATE header SET value = 'deadbeef' WHERE key = 'chain'")
    assert not verified(path).sound


def test_a_chain_is_verified_in_parts_as_it_is_whole(path, monkeypatch):
    whole = verified(path)
    for size in (1, 2, 3, 7, 8, 9):
        monkeypatch.setattr(verify_module, "_READ", size)
        assert verified(path) == whole
    change(path, "DELETE FROM labels WHERE row = 0")
    assert verified(path).broken_at == 6
