"""Published heads find every rewrite of the past; signatures say who published them."""

from __future__ import annotations

import dataclasses
import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from tests.serve.trails import change, feed, forge, label, new_key

from caveat.errors import InputError, StoreError
from caveat.serve.audit.heads import Head, Signer, head_of, publisher, read_heads, read_public_key
from caveat.serve.audit.prune import plan_cut
from caveat.serve.audit.sqlite import SqliteStore
from caveat.serve.audit.verify import verify_trail
from caveat.serve.trail import Trail


@pytest.fixture
def world(tmp_path, logit_guard):
    """A trail of 12 records and a head after each of them."""
    store = SqliteStore(tmp_path / "audit.sqlite")
    trail = Trail(logit_guard, store)
    heads = []
    for seed in range(10):
        ids = feed(trail, logit_guard, [3], seed=seed)
        heads.append(head_of(trail.header, trail.folding.tree, trail.rows))
    label(trail, ids, seed=1)
    trail.snapshot()
    trail.fold()
    yield store, trail, heads
    store.close()


def test_every_head_of_a_trail_is_found_in_it(world, logit_guard):
    store, trail, heads = world
    result = verify_trail(store, heads=heads)
    assert result.sound, result.reason
    assert result.heads == 10
    trail.prune(plan_cut(logit_guard, store, "2999"))
    feed(trail, logit_guard, [2], seed=20)
    heads.append(head_of(trail.header, trail.folding.tree, trail.rows))
    result = verify_trail(store, heads=heads)
    assert result.sound, result.reason  # the root covers the pruned records
    assert result.heads == 1


def test_a_trail_whose_heads_were_all_pruned_away_is_not_sound(world, logit_guard):
    store, trail, heads = world
    trail.prune(plan_cut(logit_guard, store, "2999"))
    result = verify_trail(store, heads=heads)
    assert not result.sound
    assert "no published head can be compared" in result.reason


def test_a_head_of_another_chain_is_found_also_where_nothing_can_be_compared(world, logit_guard):
    store, trail, heads = world
    trail.prune(plan_cut(logit_guard, store, "2999"))
    feed(trail, logit_guard, [2], seed=20)
    heads.append(head_of(trail.header, trail.folding.tree, trail.rows))
    other = head_of({**trail.header, "chain": "deadbeef"}, trail.folding.tree, trail.rows)
    result = verify_trail(store, heads=[*heads, dataclasses.replace(other, records=3)])
    assert not result.sound
    assert "belongs to the chain deadbeef" in result.reason


@pytest.mark.parametrize("row", [0, 4, 8])
def test_a_chain_that_was_computed_anew_is_found_by_the_heads_alone(world, row):
    store, _, heads = world

    def lie(entry):
        body = entry.body.replace(b"accept", b"reject") if entry.first_row == 3 * row else entry.body
        return dataclasses.replace(entry, body=body)

    forge(store.path, store, lie)
    assert verify_trail(store).sound
    result = verify_trail(store, heads=heads)
    assert (result.sound, result.broken_at) == (False, row + 1)
    assert verify_trail(store, heads=heads[:row] or heads[-1:]).sound == bool(row)


def test_a_whole_new_chain_and_a_shorter_one_are_found(world, tmp_path, logit_guard):
    store, _, heads = world
    other = SqliteStore(tmp_path / "other.sqlite")
    trail = Trail(logit_guard, other)
    for seed in range(20):
        feed(trail, logit_guard, [3], seed=seed)
    assert verify_trail(other).sound
    result = verify_trail(other, heads=heads[-1:])
    assert not result.sound
    other.close()
    change(store.path, "DELETE FROM records WHERE seq > 9")
    change(store.path, "DELETE FROM snapshots")
    change(store.path, "DELETE FROM labels")
    assert verify_trail(store).sound
    result = verify_trail(store, heads=heads)
    assert "a head was published after 10" in result.reason


def test_the_same_records_under_another_name_are_found(world):
    store, _, heads = world
    change(store.path, "UPDATE header SET value = 'deadbeef' WHERE key = 'chain'")
    forge(store.path, store, lambda entry: entry)
    assert verify_trail(store).sound
    assert not verify_trail(store, heads=heads[-1:]).sound


def test_a_signature_is_by_one_key_on_one_head(world, tmp_path):
    head = world[2][0]
    private, shown = new_key(tmp_path / "key")
    public, signer = read_public_key(shown), Signer(private)
    assert public.hex() == signer.public
    signed = signer.sign(head)
    signed.demand_signature(public)
    other = Signer(new_key(tmp_path / "other")[0])
    bad = [head, dataclasses.replace(signed, rows=4), dataclasses.replace(signed, at="2020"),
           dataclasses.replace(signed, root="0" * 64), dataclasses.replace(signed, signature="0" * 128),
           other.sign(head), dataclasses.replace(other.sign(head), key=signer.public)]  # fmt: skip
    for forged in bad:
        with pytest.raises(InputError, match="is not signed by the key"):
            forged.demand_signature(public)


def test_a_signature_of_another_program_is_read(world, tmp_path):
    """The message is canonical JSON and the signature plain Ed25519: nobody needs Caveat to check a head."""
    ed25519 = pytest.importorskip("cryptography.hazmat.primitives.asymmetric.ed25519")
    line = Signer(new_key(tmp_path / "key")[0]).sign(world[2][3]).to_json()
    content = json.loads(line)
    signature = bytes.fromhex(content.pop("signature"))
    message = json.dumps(content | {"signature": ""}, sort_keys=True, separators=(",", ":")).encode()
    key = ed25519.Ed25519PublicKey.from_public_bytes(bytes.fromhex(content["key"]))
    key.verify(signature, message)


def test_keys_are_refused_in_one_sentence(tmp_path):
    private, public = new_key(tmp_path / "key")
    with pytest.raises(InputError, match="Ed25519PublicKey"):
        read_public_key(private)
    public.chmod(0o600)
    with pytest.raises(InputError, match="Ed25519PrivateKey"):
        Signer(public)
    private.chmod(0o644)
    with pytest.raises(InputError, match="by others"):
        Signer(private)


def test_heads_are_written_line_by_line_and_read_again(world, tmp_path):
    heads = world[2]
    publish = publisher(str(tmp_path / "heads.jsonl"), print)
    for head in heads:
        publish(head)
    assert read_heads(tmp_path / "heads.jsonl") == heads
    with pytest.raises(StoreError, match="cannot be written"):
        publisher(str(tmp_path / "none" / "heads.jsonl"), print)(heads[0])
    said = []
    publisher("-", said.append)(heads[0])
    assert Head.from_dict(json.loads(said[0].removeprefix("Head: ")), "line") == heads[0]
    with pytest.raises(InputError, match="ftp"):
        publisher("ftp://x/y", print)


@pytest.mark.parametrize(
    "line", ["", "{}", "[1]", "x", '{"format": "caveat-head-1"}', '{"format": "caveat-head-1", "records": true}']
)
def test_other_files_are_no_heads(tmp_path, line):
    (tmp_path / "heads.jsonl").write_text(line)
    with pytest.raises(InputError):
        read_heads(tmp_path / "heads.jsonl")


def test_heads_are_sent_over_http_and_a_refusal_is_an_error(world):
    received, status = [], [200]

    class Place(BaseHTTPRequestHandler):
        def do_POST(self):
            received.append(self.rfile.read(int(self.headers["content-length"])))
            self.send_response(status[0])
            self.end_headers()

        def log_message(self, *_):
            pass

    with HTTPServer(("127.0.0.1", 0), Place) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        publish = publisher(f"http://127.0.0.1:{server.server_port}/heads", print)
        publish(world[2][0])
        status[0] = 500
        with pytest.raises(StoreError, match="cannot be sent"):
            publish(world[2][1])
        server.shutdown()
        thread.join()
    assert Head.from_dict(json.loads(received[0]), "body") == world[2][0]
    with pytest.raises(StoreError, match="cannot be sent"):
        publish(world[2][0])  # nobody listens
