"""``kill -9`` under load: what was acknowledged is recorded, the chain verifies, drift goes on, and a replay agrees."""

from __future__ import annotations

import sys
import threading
import time

import httpx
import numpy as np
import orjson
import pytest
from tests.serve.conftest import CLASSES, draw, serving

from caveat.serve import open_store
from caveat.serve.audit.replay import replay_trail
from caveat.serve.audit.verify import verify_trail

_ANSWERED = ("kind", "prediction", "score", "p_value", "conditional_p_value", "set")


class Client(threading.Thread):
    """Sends verdicts of 1 and 64 rows and labels until the service is gone, and keeps what was acknowledged."""

    def __init__(self, address, rng, *, drift):
        super().__init__()
        self.address, self.rng, self.drift = address, rng, drift
        self.verdicts, self.labels, self.statuses = {}, {}, []
        self.problem = None

    def run(self):
        try:
            with httpx.Client(base_url=self.address, timeout=30) as http:
                while True:
                    self._send(http)
        except httpx.TransportError:
            pass  # killed
        except BaseException as error:
            self.problem = error

    def _send(self, http):
        ids = [key for key in list(self.verdicts)[-200:] if key not in self.labels]
        if ids and self.rng.random() < 0.2:
            some = self.rng.choice(ids, size=min(len(ids), 5), replace=False).tolist()
            labels = {key: int(self.rng.integers(CLASSES)) for key in some}
            body = [{"id": key, "label": label} for key, label in labels.items()]
            answer = http.post("/v1/labels", json={"labels": body})
            self.statuses.append(answer.status_code)
            self.labels |= labels
        else:
            n = int(self.rng.choice([1, 64]))
            rows = draw(n, seed=int(self.rng.integers(2**31)), shift=self.drift).logits.astype(np.float64)
            answer = http.post("/v1/verdicts", json={"logits": rows.tolist()})
            self.statuses.append(answer.status_code)
            for row in answer.json()["verdicts"]:
                assert row["id"] not in self.verdicts
                self.verdicts[row["id"]] = {name: row[name] for name in _ANSWERED}


def killed_often(guard, folder, place, *, kills, seed, seconds):
    """Kill a service so many times under load; everything that was acknowledged, and the last live evidence."""
    rng = np.random.default_rng(seed)
    verdicts, labels, requests = {}, {}, 0
    for kill in range(kills):
        if kill % 10 == 9:  # in between an orderly end, which keeps a state
            with serving(folder, place):
                pass
        with serving(folder, place) as service:
            assert service.live()["rows"] >= len(verdicts)  # drift and page go on from where they were
            clients = [Client(service.address, np.random.default_rng([seed, kill, i]), drift=0.02 * kill / kills)
                       for i in range(4)]  # fmt: skip
            for client in clients:
                client.start()
            time.sleep(rng.uniform(*seconds))
            service.process.kill()
            for client in clients:
                client.join(60)
                assert client.problem is None, client.problem
                assert set(client.statuses) <= {200}
                assert not verdicts.keys() & client.verdicts.keys()  # ids do not repeat
                verdicts |= client.verdicts
                labels |= client.labels
                requests += len(client.statuses)
        if kill % 20 == 19:
            check_store(guard, place, verdicts, labels)
    with serving(folder, place) as service:
        store = open_store(str(place), read_only=True)
        total = sum(record.entry.rows for record in store.records())
        view = service.live(rows=total)
        assert view["rows"] == total
        rows = check_store(guard, place, verdicts, labels, view=view)
        store.close()
    return {"requests": requests, "acknowledged": len(verdicts), "labels": len(labels), "recorded": rows}


def check_store(guard, place, verdicts, labels, *, view=None):
    """No acknowledged verdict or label is missing; chain, row numbers and replay are right. Number of rows."""
    store = open_store(str(place), read_only=True)
    verification = verify_trail(store)
    assert verification.sound, verification.reason
    name, row, missing = store.header()["chain"], 0, dict(verdicts)
    for record in store.records():
        assert record.entry.first_row == row  # no gap, no overlap
        if record.entry.kind == "verdicts":
            body = orjson.loads(record.entry.body)
            for i in range(record.entry.rows):
                answer = missing.pop(f"{name}-{row + i}", None)
                assert answer is None or answer == {column: body[column][i] for column in _ANSWERED}
            row += record.entry.rows
    assert not missing
    kept = store.labels_of([int(key.rpartition("-")[2]) for key in labels])
    assert {f"{name}-{row}": label for row, label in kept.items()} == labels
    result = replay_trail(guard, store)
    assert result.sound, result.first_difference
    if view is not None:
        assert {stream["name"]: stream["now"] for stream in view["drift"]["streams"]} == dict(result.log10_e)
        assert view["live"]["error"] is None or view["live"]["error"]["errors"] == result.errors
    store.close()
    return row


def test_three_kills_lose_nothing(guards, logit_guard, tmp_path):
    counts = killed_often(logit_guard, guards["logits"], tmp_path / "audit.sqlite", kills=3, seed=1, seconds=(0.2, 0.6))
    assert counts["acknowledged"] > 50
    assert counts["labels"] > 0


@pytest.mark.slow
def test_a_hundred_kills_lose_nothing(guards, logit_guard, tmp_path):
    counts = killed_often(
        logit_guard, guards["logits"], tmp_path / "audit.sqlite", kills=100, seed=2, seconds=(0.1, 1.0)
    )
    sys.stdout.write(f"{counts}\n")
    assert counts["acknowledged"] > 10_000


@pytest.mark.slow
def test_ten_kills_with_postgresql_lose_nothing(guards, logit_guard, postgres):
    counts = killed_often(logit_guard, guards["logits"], postgres.new(), kills=10, seed=3, seconds=(0.2, 1.0))
    sys.stdout.write(f"{counts}\n")
    assert counts["acknowledged"] > 500
