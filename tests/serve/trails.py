"""Audit trails that tests write without HTTP, and the damage that they do to them."""

from __future__ import annotations

import sqlite3

import numpy as np
import pytest
from tests.serve.conftest import CLASSES, draw

from caveat import Outputs
from caveat.serve.audit.content import encode_verdicts
from caveat.serve.audit.record import Record, chained, genesis
from caveat.serve.engine import packed
from caveat.serve.trail import RowIds


def feed(trail, guard, sizes, *, seed, shift=0.0, keep_inputs=False, fold=True, say=False):
    """Record verdicts of requests with so many rows each, two in a group; their ids. ``say``: as the engine does."""
    requests, said = [], []
    for i, n in enumerate(sizes):
        logits = draw(n, seed=seed * 1000 + i, shift=shift).logits
        said.append(guard(Outputs(logits=logits)))
        body = encode_verdicts(said[-1])
        requests.append((n, body, packed({"logits": logits}) if keep_inputs else None))
    ids = []
    for start in range(0, len(requests), 2):
        group = requests[start : start + 2]
        for first_row, (n, _, _) in zip(
            trail.append_verdicts(group, said[start : start + 2] if say else ()), group, strict=True
        ):
            ids += RowIds(trail.chain, first_row, n)
    if fold:
        trail.fold()
    return ids


def label(trail, ids, *, seed):
    """Label every third verdict at random."""
    rng = np.random.default_rng(seed)
    return trail.append_labels({key: int(rng.integers(CLASSES)) for key in ids[::3]})


def change(path, statement, *values):
    """Change a SQLite file behind the back of the store."""
    connection = sqlite3.connect(path)
    with connection:
        connection.execute(statement, values)
    connection.close()


def forge(path, store, replace):
    """Write the whole chain anew, each entry as ``replace`` gives it: what an attacker with the whole file can do."""
    previous, records = genesis(store.header()), []
    for record in store.records():
        records.append(chained(replace(record.entry), seq=record.seq, previous=previous))
        previous = records[-1].digest
    for record in records:
        change(path, "UPDATE records SET body = ?, digest = ? WHERE seq = ?", record.entry.body, record.digest,
               record.seq)  # fmt: skip


def new_key(path):
    """Files of a new private and public key, as openssl writes them."""
    serialization = pytest.importorskip("cryptography.hazmat.primitives.serialization")
    ed25519 = pytest.importorskip("cryptography.hazmat.primitives.asymmetric.ed25519")
    key = ed25519.Ed25519PrivateKey.generate()
    private, public = path.with_suffix(".pem"), path.with_suffix(".pub")
    pem, plain = serialization.Encoding.PEM, serialization.NoEncryption()
    private.write_bytes(key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain))
    private.chmod(0o600)
    public.write_bytes(key.public_key().public_bytes(pem, serialization.PublicFormat.SubjectPublicKeyInfo))
    return private, public


def followed(trail):
    """What follows from verdicts and labels, however often a state was kept between them."""
    return {name: fact for name, fact in trail.folding.facts().items() if name != "tree"}


def last_digest(store) -> bytes:
    record: Record = store.last()
    return record.digest
