"""A record follows from the one before it, and from nothing else."""

from __future__ import annotations

import hashlib
from dataclasses import replace

import pytest

from caveat.serve.audit.record import START, Entry, chained

ENTRY = Entry("verdicts", "2026-11-18T00:00:00.000Z", 5, 2, b'{"kind":[]}', b"inputs")


def test_the_digest_by_hand():
    record = chained(ENTRY, seq=3, previous=START)
    line = b"3|verdicts|2026-11-18T00:00:00.000Z|5|2|"
    parts = bytes(32) + line + hashlib.sha256(ENTRY.body).digest() + hashlib.sha256(b"inputs").digest()
    assert record.digest == hashlib.sha256(parts).digest()
    assert record.follows(START)


@pytest.mark.parametrize(
    "change", [{"kind": "labels"}, {"at": "2026-11-18T00:00:00.001Z"}, {"first_row": 4}, {"rows": 3}, {"body": b"{}"},
               {"inputs": b"others"}],
)  # fmt: skip
def test_any_change_is_seen(change):
    record = chained(ENTRY, seq=3, previous=START)
    assert not replace(record, entry=replace(ENTRY, **change)).follows(START)


def test_a_moved_record_is_seen():
    record = chained(ENTRY, seq=3, previous=START)
    assert not replace(record, seq=4).follows(START)
    assert not record.follows(b"\x01" * 32)


def test_deleted_inputs_leave_the_digest_as_it_is():
    record = chained(ENTRY, seq=3, previous=START)
    assert replace(record, entry=replace(ENTRY, inputs=None)).follows(START)
    assert not replace(record, entry=replace(ENTRY, inputs=None), inputs_digest=b"").follows(START)
