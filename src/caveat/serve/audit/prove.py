"""Prove: that a verdict is in a trail, to somebody who has a published head and not the trail."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, final

import orjson

from caveat.errors import InputError
from caveat.serve.audit.heads import Head
from caveat.serve.audit.merkle import inclusion, root_of
from caveat.serve.audit.record import Entry, Record
from caveat.serve.audit.store import AuditStore, Damaged
from caveat.serve.audit.verify import anchor, base_tree, verified
from caveat.serve.trail import row_of

__all__ = ["Proved", "check_proof", "prove"]

_FORMAT = "caveat-proof-1"


@final
@dataclass(frozen=True)
class Proved:
    """What a proof proves.

    Parameters
    ----------
    id
        Id of the verdict.
    record
        Number of its record.
    at
        When it was recorded, UTC.
    verdict
        The columns of the verdict as they were recorded.
    head
        The head under which the record stands.
    """

    id: str
    record: int
    at: str
    verdict: Mapping[str, Any]
    head: Head


def prove(store: AuditStore, key: str, *, heads: Sequence[Head]) -> dict[str, Any]:
    """A proof that a verdict is in the trail, as plain values for JSON.

    Parameters
    ----------
    store
        The audit trail; a service may go on writing to it.
    key
        Id of the verdict.
    heads
        Published heads: the proof leads to the first of them that has the record.

    Returns
    -------
    dict
        The record, the path of digests and the head.
    """
    with store.reading():
        (first, digest, rows), base = anchor(store), base_tree(store)
        held = store.holding([row_of(store.header().get("chain", ""), key)])
        if not held:
            raise InputError(f"the trail holds no verdict {key[:60]!r}. It may have been pruned.")
        record, digests, before = held[0], [], digest
        head = min((head for head in heads if head.records >= record.seq), key=lambda head: head.records, default=None)
        if head is None:
            raise InputError(f"no head was published after record {record.seq}. Wait for the next one.")
        for each in islice(verified(store, first, digest, rows), head.records - first):
            before = each.digest if each.seq == record.seq - 1 else before
            digests.append(each.digest)
        path, root = inclusion(base, digests, record.seq - 1)
    if head.root != root.hex():
        raise Damaged(f"the head that was published at {head.at} is not that of this trail", seq=head.records)
    entry = record.entry
    return {"format": _FORMAT, "id": key, "head": orjson.loads(head.to_json()), "path": [node.hex() for node in path],
            "record": {"seq": record.seq, "kind": entry.kind, "at": entry.at, "first_row": entry.first_row,
                       "rows": entry.rows, "body": base64.b64encode(entry.body).decode(),
                       "inputs_sha256": record.inputs_digest.hex(), "previous": before.hex()}}  # fmt: skip


def check_proof(
    proof: Mapping[str, Any], *, heads: Sequence[Head] = (), public: bytes | None = None
) -> Proved:  # fmt: skip
    """What a proof proves, without the trail; ``Damaged`` where it proves nothing.

    Parameters
    ----------
    proof
        What ``prove`` returned.
    heads
        Published heads: that of the proof must be among them.
    public
        The key that must have signed the head of the proof.

    Returns
    -------
    Proved
        The verdict as it was recorded.
    """
    if not heads and public is None:
        raise InputError("a proof is checked against published heads, or against the key that signed its head. "
                         "Give one of them.")  # fmt: skip
    if proof.get("format") != _FORMAT:
        raise InputError("a proof must be a JSON object that caveat audit prove wrote.")
    head = Head.from_dict(proof.get("head") or {}, "the proof")
    if public is not None:
        head.demand_signature(public)
    if heads and _facts(head) not in map(_facts, heads):
        raise Damaged("the head of the proof was not published")
    try:
        stated, key = proof["record"], str(proof["id"])
        body = base64.b64decode(stated["body"], validate=True)
        entry = Entry(stated["kind"], stated["at"], int(stated["first_row"]), int(stated["rows"]), body)
        record = Record.made(entry, seq=int(stated["seq"]), previous=bytes.fromhex(stated["previous"]),
                             inputs_digest=bytes.fromhex(stated["inputs_sha256"]))  # fmt: skip
        path = [bytes.fromhex(node) for node in proof["path"]]
        place = row_of(head.chain, key) - entry.first_row
        columns = orjson.loads(body)
        verdict = {name: None if column is None else column[place] for name, column in columns.items()}
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        raise InputError(
            f"the proof cannot be read ({type(error).__name__}). Make it again: caveat audit prove."
        ) from None
    root = root_of(record.digest, index=record.seq - 1, size=head.records, path=path)
    if root is None or root.hex() != head.root or entry.kind != "verdicts" or not 0 <= place < entry.rows:
        raise Damaged("the proof does not lead from this verdict to its head")
    return Proved(id=key, record=record.seq, at=entry.at, verdict=verdict, head=head)


def _facts(head: Head) -> tuple[Any, ...]:
    return head.chain, head.begun, head.records, head.digest, head.root
