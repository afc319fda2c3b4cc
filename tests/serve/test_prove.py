"""A proof holds without the trail, for this verdict and no other."""

from __future__ import annotations

import base64
import copy
import dataclasses
import json

import pytest
from tests.serve.trails import feed, new_key

from caveat.errors import CaveatError, InputError
from caveat.serve.audit.heads import Signer, head_of, read_public_key
from caveat.serve.audit.prove import check_proof, prove
from caveat.serve.audit.prune import plan_cut
from caveat.serve.audit.store import Damaged
from caveat.serve.trail import Trail


@pytest.fixture(params=["sqlite", "postgresql"])
def world(request, tmp_path, logit_guard):
    """A trail, its ids, and heads after its 7th and its 12th record."""
    from caveat.serve import open_store

    place = str(tmp_path / "audit.sqlite") if request.param == "sqlite" else request.getfixturevalue("postgres").new()
    store = open_store(place)
    trail, ids, heads = Trail(logit_guard, store), [], []
    trail.note("start")
    for seed in range(11):
        ids += feed(trail, logit_guard, [2], seed=seed, keep_inputs=seed % 2)
        if trail.seq in (7, 12):
            heads.append(head_of(trail.header, trail.folding.tree, trail.rows))
    yield store, trail, ids, heads
    store.close()


def test_each_verdict_is_proved_to_who_has_a_head(world):
    store, trail, ids, heads = world
    for row, key in enumerate(ids):
        proof = json.loads(json.dumps(prove(store, key, heads=heads)))
        assert proof["head"]["records"] == (7 if row < 12 else 12)  # the first head that has the record
        proved = check_proof(proof, heads=heads)
        (record,) = store.holding([row])
        assert (proved.id, proved.record, proved.at) == (key, record.seq, record.entry.at)
        assert proved.verdict["score"] == json.loads(record.entry.body)["score"][row % 2]
    assert trail.rows == len(ids)


def test_proofs_hold_after_the_beginning_was_pruned(world, logit_guard):
    store, trail, ids, heads = world
    whole = prove(store, ids[-1], heads=heads)
    trail.prune(plan_cut(logit_guard, store, "2999"))
    ids += feed(trail, logit_guard, [2], seed=50)
    trail.fold()
    heads.append(head_of(trail.header, trail.folding.tree, trail.rows))
    assert check_proof(prove(store, ids[-1], heads=heads), heads=heads).id == ids[-1]
    assert check_proof(whole, heads=heads).id == ids[21]  # what was proved stays proved
    with pytest.raises(InputError, match="pruned"):
        prove(store, ids[0], heads=heads)


def test_no_changed_proof_holds(world):
    store, _, ids, heads = world
    proof = prove(store, ids[3], heads=heads)
    check_proof(proof, heads=heads)
    body = base64.b64decode(proof["record"]["body"]).replace(b"accept", b"reject")
    changes = [
        ("id", ids[5]), ("id", "x-3"), ("path", proof["path"][:-1]), ("path", [*proof["path"], "00" * 32]),
        ("path", proof["path"][::-1]), ("record.body", base64.b64encode(body).decode()), ("record.at", "2020"),
        ("record.seq", 4), ("record.first_row", 3), ("record.rows", 3), ("record.kind", "start"),
        ("record.previous", "00" * 32), ("record.inputs_sha256", "00" * 32), ("head.root", "00" * 32),
        ("head.records", 8), ("head.chain", "deadbeef"), ("record.body", "?"), ("record.body", None), ("path", 3),
        ("format", "x"), ("head", None), ("record", None),
    ]  # fmt: skip
    for name, value in changes:
        changed = copy.deepcopy(proof)
        *folders, last = name.split(".")
        place = changed[folders[0]] if folders else changed
        if place[last] == value:
            continue
        place[last] = value
        with pytest.raises(CaveatError):
            check_proof(changed, heads=heads)
    with pytest.raises(Damaged, match="not published"):
        check_proof(proof, heads=heads[1:])
    with pytest.raises(InputError, match="published heads"):
        check_proof(proof)


def test_a_signed_head_needs_no_list_of_heads(world, tmp_path):
    store, _, ids, heads = world
    private, shown = new_key(tmp_path / "key")
    public = read_public_key(shown)
    proof = prove(store, ids[-1], heads=[Signer(private).sign(heads[1])])
    assert check_proof(proof, public=public).id == ids[-1]
    with pytest.raises(InputError, match="not signed"):
        check_proof(prove(store, ids[-1], heads=heads), public=public)


def test_what_cannot_be_proved_is_said(world):
    store, _, ids, heads = world
    with pytest.raises(InputError, match="holds no verdict"):
        prove(store, "deadbeef-1", heads=heads)
    with pytest.raises(InputError, match="holds no verdict"):
        prove(store, ids[0].rpartition("-")[0] + "-99", heads=heads)
    with pytest.raises(InputError, match="Wait for the next"):
        prove(store, ids[20], heads=heads[:1])
    with pytest.raises(Damaged, match="not that of this trail"):
        prove(store, ids[20], heads=[dataclasses.replace(heads[1], root="00" * 32)])
