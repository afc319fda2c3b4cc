"""Both stores keep the same promises: what is written is there, in order, once, and nothing of a failed write is."""

from __future__ import annotations

import pytest

from caveat.errors import CaveatError, InputError
from caveat.serve import open_store
from caveat.serve.audit.record import START, Entry, chained
from caveat.serve.audit.store import Cut


@pytest.fixture(params=["sqlite", "postgresql"])
def place(request, tmp_path):
    """Where an audit trail can be begun."""
    return str(tmp_path / "audit.sqlite") if request.param == "sqlite" else request.getfixturevalue("postgres").new()


@pytest.fixture
def store(place):
    opened = open_store(place)
    yield opened
    opened.close()


def chain(sizes, *, seq=0, previous=START, row=0, inputs=None, body=b"{}"):
    """Records of verdicts with so many rows each."""
    records = []
    for rows in sizes:
        entry = Entry("verdicts", "2026-11-18T00:00:00.000Z", row, rows, body, inputs)
        records.append(chained(entry, seq=seq + 1, previous=previous))
        seq, previous, row = seq + 1, records[-1].digest, row + rows
    return records


def test_what_is_written_is_read_back_in_order(store, place):
    records = chain([2, 1, 64], inputs=b"\x00\xff")
    store.append(records[:2], {})
    store.append(records[2:], {0: 1, 2: 0})
    assert list(store.records()) == records
    assert list(store.records(1)) == records[1:]
    assert store.last() == records[-1]
    assert store.labels_of([0, 1, 2]) == {0: 1, 2: 0}
    assert store.count_labels() == 2
    reader = open_store(place, read_only=True)
    assert list(reader.records()) == records
    reader.close()


def test_a_store_without_records_is_empty(store):
    assert store.last() is None
    assert list(store.records()) == []
    assert store.labels_of([]) == {}
    assert store.snapshots() == []
    assert store.holding([3]) == []


def test_a_group_is_written_whole_or_not_at_all(store):
    records = chain([2, 1, 64])
    store.append(records[:1], {0: 1})
    with pytest.raises(CaveatError):
        store.append(records[1:], {7: 1, 0: 2})  # row 0 has a label already
    assert list(store.records()) == records[:1]
    with pytest.raises(CaveatError):
        store.append([records[1], records[0]], {})
    assert list(store.records()) == records[:1]
    store.append(records[1:], {7: 1})
    assert list(store.records()) == records


def test_a_row_is_found_in_its_record(store):
    records = chain([2, 1, 64, 1])
    store.append(records, {})
    assert store.holding([1]) == records[:1]
    assert store.holding([66, 3, 0, 4]) == [records[0], records[2]]
    assert store.holding([67]) == [records[3]]
    assert store.holding([68]) == []


def test_two_newest_snapshots_and_that_of_the_anchor_stay(store):
    records = chain([1] * 12)
    store.append(records[:5], {0: 1, 3: 0})
    for seq in (1, 2, 3):
        store.save_snapshot(seq, b"state %d" % seq, records[4 + seq])
    assert store.snapshots() == [2, 3]
    store.prune(Cut(2, records[1].digest, 2, b"base"), records[8])
    assert store.snapshots() == [2, 3]
    for seq in (4, 5, 6):
        store.save_snapshot(seq, b"state %d" % seq, records[5 + seq])
    assert store.snapshots() == [2, 5, 6]
    assert (store.snapshot(2), store.snapshot(6)) == (b"base", b"state 6")
    assert list(store.records()) == records[2:]
    assert store.labels_of([0, 3]) == {3: 0}
    assert store.header()["anchor_digest"] == records[1].digest.hex()


def test_inputs_can_be_forgotten_and_the_records_still_follow(store):
    records = chain([1, 2, 1], inputs=b"secret")
    store.append(records[:2], {})
    store.forget_inputs(1, records[2])
    kept = list(store.records())
    assert [record.entry.inputs for record in kept] == [None, b"secret", b"secret"]
    previous = START
    for record in kept:
        assert record.follows(previous)
        previous = record.digest


def test_a_reader_sees_one_moment_while_the_writer_goes_on(store):
    records = chain([1] * 5)
    store.append(records[:2], {})
    store.set_header({"note": "old"})
    reader = store.reader()
    with reader.reading():
        assert reader.header()["note"] == "old"
        store.append(records[2:4], {})
        store.prune(Cut(1, records[0].digest, 1, b""), records[4])
        store.set_header({"note": "new"})
        assert list(reader.records()) == records[:2]
        assert reader.header()["note"] == "old"
    assert list(reader.records()) == records[1:]
    reader.close()


def test_a_second_writer_is_refused_until_the_first_lets_go(place, monkeypatch):
    monkeypatch.setattr("caveat.serve.audit.postgres._LOCK_SECONDS", 0.2, raising=True)
    first = open_store(place)
    with pytest.raises(CaveatError, match="another service"):
        open_store(place)
    first.close()
    open_store(place).close()


def test_a_newer_format_is_refused(place):
    store = open_store(place)
    store.set_header({"version": "99"})
    store.close()
    for read_only in (False, True):
        with pytest.raises(InputError, match=r"version '99'"):
            open_store(place, read_only=read_only)


def test_a_header_is_replaced_entry_by_entry(store):
    store.set_header({"a": "1", "b": "2"})
    store.set_header({"b": "3"})
    assert {key: store.header()[key] for key in "ab"} == {"a": "1", "b": "3"}
