"""Histories: a service lives, is asked, meets faults, ends and starts again; one checker reads what is left.

A history is drawn from a seed. What was acknowledged is kept beside it, in the order in which it was acknowledged;
after each life every acknowledged row must be in the trail once, in order, with its verdict, and the chain must be
sound.
"""

from __future__ import annotations

import asyncio
import datetime
import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import numpy as np
import orjson
import pytest
from tests.serve.conftest import CLASSES, draw, serving
from tests.serve.trails import feed

from caveat.errors import CaveatError
from caveat.serve import Engine, open_store
from caveat.serve import trail as trail_module
from caveat.serve.audit.content import written_at
from caveat.serve.audit.replay import replay_trail
from caveat.serve.audit.verify import verify_trail
from caveat.serve.audit.witness import Heads
from caveat.serve.problems import Problem
from caveat.serve.trail import Trail

COLUMNS = ("kind", "prediction", "score", "p_value", "conditional_p_value", "set")
_PATIENCE = 30


class Acknowledged:
    """What clients were told, and the checker."""

    def __init__(self):
        self.rows, self.labels, self.heads = {}, {}, []
        self.tried = {}  # labels that were sent: one that was not acknowledged may be recorded all the same
        self.refused = 0

    def take(self, answers):
        """The answers of requests that were sent together, after all earlier ones were answered."""
        newest = max((row for row, _ in self.rows.values()), default=-1)
        for answer in answers:
            if answer is None:
                self.refused += 1
                continue
            for row in answer:
                number = int(row["id"].rpartition("-")[2])
                assert row["id"] not in self.rows, "an id was given twice"
                assert number > newest, "a later answer has an earlier number"
                self.rows[row["id"]] = number, {name: row[name] for name in COLUMNS}

    def check(self, place, guard, *, may_lose_end=False, replay=False):
        """Everything that was acknowledged is recorded once, in order, with its verdict."""
        store = open_store(str(place), read_only=True)
        try:
            header, recorded, row = store.header(), {}, 0
            for record in store.records():
                assert record.entry.first_row == row, "a gap or an overlap"
                if record.entry.kind == "verdicts":
                    body = orjson.loads(record.entry.body)
                    for i in range(record.entry.rows):
                        recorded[f"{header['chain']}-{row + i}"] = {name: body[name][i] for name in COLUMNS}
                    row += record.entry.rows
            last = store.last()
            if may_lose_end:  # what was written in the last moments before a power failure, without --durable
                self.rows = {key: (n, given) for key, (n, given) in self.rows.items() if n < row}
                labels = store.labels_of([self.rows[key][0] for key in self.labels if key in self.rows])
                self.labels = {f"{header['chain']}-{n}": label for n, label in labels.items()}
                self.heads = [head for head in self.heads if last is not None and head.records <= last.seq]
            missing = [key for key in self.rows if key not in recorded]
            assert not missing, f"lost: {missing[:3]} of {len(self.rows)}"
            assert all(recorded[key] == given for key, (_, given) in self.rows.items()), "another verdict was recorded"
            kept = store.labels_of([self.rows[key][0] for key in self.labels])
            assert {f"{header['chain']}-{n}": label for n, label in kept.items()} == self.labels
            result = verify_trail(store, heads=self.heads)
            assert result.sound, result.reason
            assert result.verdicts == row
            if replay:
                again = replay_trail(guard, store)
                assert again.sound, again.first_difference
            return row
        finally:
            store.close()


class InProcess:
    """A service without HTTP; it is killed by a disk that takes nothing more."""

    def __init__(self, guard, place, seen, *, disk=None, durable=False):
        self.disk = disk
        self.engine = Engine(guard, open_store(str(place), durable=durable), workers=2,
                             heads=Heads(seen.heads.append, "the test", 7))  # fmt: skip

    @property
    def ready(self):
        return not self.engine.failure

    def ask(self, requests):
        async def one(logits):
            try:
                return await self.engine.verdicts(lambda: {"logits": logits}, lambda verdicts, ids: verdicts.rows(ids))
            except Problem as problem:
                return _refused(problem)

        async def everyone():
            return await asyncio.gather(*map(one, requests))

        return asyncio.run(everyone())

    def label(self, labels):
        try:
            asyncio.run(self.engine.labels(labels))
        except Problem as problem:
            return bool(_refused(problem))
        return True

    def end(self):
        self.engine.close()

    def kill(self):
        self.disk.dead = True
        self.engine.close()
        self.disk.revive()


def _refused(problem):
    """No answer: allowed, where it is because of the store."""
    assert problem.status == 503, problem


class Process:
    """``caveat serve``, asked over HTTP and killed by the system."""

    def __init__(self, folder, place):
        self.stack = ExitStack()
        self.service = self.stack.enter_context(serving(folder, place))

    @property
    def ready(self):
        return self.service.client.get("/readyz").status_code == 200

    def ask(self, requests):
        answers = [None] * len(requests)

        def one(i):
            try:
                answer = self.service.post({}, logits=requests[i])
            except Exception:  # killed meanwhile
                return
            assert answer.status_code in (200, 503), answer.text
            if answer.status_code == 200:
                answers[i] = answer.json()["verdicts"]

        threads = [threading.Thread(target=one, args=(i,)) for i in range(len(requests))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(_PATIENCE)
        return answers

    def label(self, labels):
        body = [{"id": key, "label": label} for key, label in labels.items()]
        return self.service.client.post("/v1/labels", json={"labels": body}).status_code == 200

    def end(self):
        self.stack.close()

    def kill(self):
        self.service.process.send_signal(signal.SIGKILL)
        self.service.process.wait()
        self.stack.close()


class History:
    """One history of a trail in a file.

    Parameters
    ----------
    seed
        From which it is drawn.
    guard
        The guard of the service.
    folder
        An empty folder.
    start
        Makes a service at a path: ``start(path, seen, durable)``.
    disk
        The disk under it, where the service is in this process.
    """

    FAULTS = ("nothing", "rename", "remove", "replace", "hard link", "second", "clock", "log", "reader")

    def __init__(self, seed, guard, folder, start, *, disk=None, monkeypatch=None):
        self.rng, self.guard, self.folder, self.start, self.disk = (
            np.random.default_rng(seed),
            guard,
            folder,
            start,
            disk,
        )
        self.path, self.seen, self.service = folder / "audit.sqlite", Acknowledged(), None
        self.monkeypatch, self.story = monkeypatch, []
        self.durable = bool(self.rng.random() < 0.5)
        self.faults = (*self.FAULTS, "full") if disk is not None else self.FAULTS

    def run(self, *, short=False):
        for _ in range(2 if short else self.rng.integers(2, 4)):
            self.service = self.start(self.path, self.seen, self.durable)
            self.traffic()
            for _ in range(1 if short else self.rng.integers(1, 4)):
                self.meet(str(self.rng.choice(self.faults)))
                self.traffic()
            self.end(str(self.rng.choice(["stop", "kill", "power"] if self.disk is not None else ["stop", "kill"])))
        return self.seen.check(self.path, self.guard, replay=True)

    # -- a life --------------------------------------------------------------------------------------------------------

    def traffic(self, *, groups=None, refused=False, labels=True):
        """Requests that come together, group after group, and some labels."""
        for _ in range(groups or self.rng.integers(1, 4)):
            sizes = self.rng.choice([1, 1, 3, 40], size=self.rng.integers(1, 6))
            seeds = self.rng.integers(2**31, size=sizes.size)
            answers = self.service.ask([draw(n, seed=seed).logits for n, seed in zip(sizes, seeds, strict=True)])
            if refused:
                assert answers == [None] * len(answers), "acknowledged, though the file was not in its place"
            self.seen.take(answers)
        open_ids = [key for key in list(self.seen.rows)[-50:] if key not in self.seen.labels]
        if open_ids and labels and not refused and self.rng.random() < 0.5:
            labels = {key: int(self.rng.integers(CLASSES)) for key in open_ids[:: self.rng.integers(1, 5)]}
            labels = {key: self.seen.tried.setdefault(key, label) for key, label in labels.items()}
            if self.service.label(labels):
                self.seen.labels |= labels

    def wait(self, *, ready=True):
        end = time.monotonic() + _PATIENCE
        while self.service.ready is not ready:
            assert time.monotonic() < end, f"ready should be {ready}"
            time.sleep(0.01)

    def end(self, how):
        self.story.append(how)
        if how == "stop":
            self.service.end()
        elif self.disk is None:
            with ThreadPoolExecutor(1) as pool:
                asking = pool.submit(self.traffic, groups=5, labels=False)
                time.sleep(float(self.rng.uniform(0, 0.05)))
                self.service.kill()
                asking.result(_PATIENCE)
        else:
            self.disk.left = int(self.rng.integers(0, 40))  # it dies within a write
            self.traffic(groups=3)
            self.service.kill()
            if how == "power":
                self.disk.lose_power(self.rng)
        self.seen.check(self.path, self.guard, may_lose_end=how == "power" and not self.durable)

    # -- faults --------------------------------------------------------------------------------------------------------

    def meet(self, fault):
        self.story.append(fault)
        getattr(self, f"_{fault.replace(' ', '_')}")()

    def _nothing(self):
        pass

    def _rename(self):
        """As logrotate does, and then either undone or not."""
        aside = self.folder / "audit.sqlite.1"
        self.path.rename(aside)
        self.traffic(refused=True)
        self.wait(ready=False)
        if self.rng.random() < 0.5:
            aside.rename(self.path)
            self.wait()
            return
        self.service.end()
        self.seen.check(aside, self.guard)
        aside.rename(self.path)
        self.service = self.start(self.path, self.seen, self.durable)

    def _remove(self):
        for side in ("", "-wal", "-shm"):
            self.path.with_name(self.path.name + side).unlink(missing_ok=True)
        self._restored()

    def _replace(self):
        other = self.folder / "other.sqlite"
        store = open_store(str(other))
        feed(Trail(self.guard, store), self.guard, [1, 2], seed=1)
        store.close()
        os.replace(other, self.path)
        self._restored()

    def _restored(self):
        """What was removed was written back; its owner gives it its name again."""
        self.traffic(refused=True)
        self.service.end()
        (rescued,) = self.folder.glob("audit.sqlite.rescued*")
        self.seen.check(rescued, self.guard)
        for side in ("-wal", "-shm"):
            rescued.with_name(rescued.name + side).unlink(missing_ok=True)
        os.replace(rescued, self.path)
        self.service = self.start(self.path, self.seen, self.durable)

    def _hard_link(self):
        link = self.folder / "link.sqlite"
        os.link(self.path, link)
        self.traffic(refused=True)
        link.unlink()
        self.wait()

    def _second(self):
        link = self.folder / "symbolic.sqlite"
        link.symlink_to(self.path)
        for lock in self.folder.glob("*.lock"):
            lock.unlink()
        for place in (self.path, link):
            with pytest.raises(CaveatError, match="another service"):
                open_store(str(place))
        link.unlink()

    def _clock(self):
        if self.monkeypatch is None:
            return
        shift = datetime.timedelta(hours=float(self.rng.choice([-24 * 400, -1, 0, 24, 24 * 4000])))
        self.monkeypatch.setattr(trail_module, "now", lambda: written_at(datetime.datetime.now(datetime.UTC) + shift))

    def _log(self):
        self.path.with_name("audit.sqlite-wal").unlink()
        self.traffic(groups=1)
        self.wait()

    def _reader(self):
        """Somebody verifies meanwhile, and the file loses its name before they are done."""
        reader = open_store(str(self.path), read_only=True)
        with reader.reading():
            self.traffic()
            aside = self.folder / "audit.sqlite.1"
            self.path.rename(aside)
            self.traffic(refused=True)
            aside.rename(self.path)
        reader.close()
        self.wait()

    def _full(self):
        self.disk.room = int(self.rng.integers(0, 30_000))
        self.traffic(groups=4)
        self.disk.room = None
        self.wait()
