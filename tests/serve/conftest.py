"""A real ``caveat serve`` process on loopback, started by a test and stopped by its own process id."""

from __future__ import annotations

import getpass
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

import httpx
import numpy as np
import pytest

try:
    import psycopg
except ImportError:
    psycopg = None

from caveat import Guard, Outputs

CLASSES, FEATURES = 3, 8
_PATIENCE = 60  # seconds until a started service must answer


def draw(n, *, seed, shift=0.0):
    """Outputs of an imaginary network on n rows; ``shift`` moves the inputs."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(CLASSES, size=n)
    features = 2 * np.eye(CLASSES, FEATURES)[labels] + 0.7 * rng.normal(size=(n, FEATURES)) + shift
    logits = 2.5 * features[:, :CLASSES]
    return Outputs(features=features.astype(np.float32), logits=logits.astype(np.float32), labels=labels)


@pytest.fixture(scope="session")
def logit_guard():
    """Energy on logits, with sets and a promise about errors."""
    return Guard("energy", risk=0.2).calibrate(draw(600, seed=1), date="2026-11-18")


@pytest.fixture(scope="session")
def feature_guard():
    """Mahalanobis on features alone."""
    train, rows = draw(600, seed=2), draw(600, seed=3)
    guard = Guard("mahalanobis", sets=None).fit(Outputs(features=train.features, labels=train.labels))
    return guard.calibrate(Outputs(features=rows.features), date="2026-11-18")


@pytest.fixture(scope="session")
def guards(tmp_path_factory, logit_guard, feature_guard):
    """Folders of both guards: ``guards["logits"]``, ``guards["features"]``."""
    folder = tmp_path_factory.mktemp("guards")
    logit_guard.save(folder / "logits")
    feature_guard.save(folder / "features")
    return {"logits": folder / "logits", "features": folder / "features"}


class Service:
    """A running process, its address, and a client that talks to it."""

    def __init__(self, process, address, key=None):
        self.process, self.address = process, address
        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        self.client = httpx.Client(base_url=address, headers=headers, timeout=30)

    def post(self, rows, **fields):
        """POST one or more named arrays as JSON."""
        return self.client.post(
            "/v1/verdicts", json={name: np.asarray(a).tolist() for name, a in fields.items()} | rows
        )

    def live(self, *, rows=None):
        """``/v1/live``; waits until the page has taken in this many rows."""
        end = time.monotonic() + _PATIENCE
        while True:
            view = self.client.get("/v1/live").raise_for_status().json()
            if rows is None or view["rows"] >= rows or time.monotonic() > end:
                return view
            time.sleep(0.05)

    def stop(self, how=signal.SIGTERM):
        """Send a signal to this process and wait; its exit code."""
        self.client.close()
        if self.process.poll() is None:
            self.process.send_signal(how)
        try:
            return self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait(30)


@contextmanager
def serving(folder, audit, *options, key=None, environment=None):
    """``caveat serve`` on a free port of loopback; stopped at the end."""
    command = [sys.executable, "-m", "caveat", "serve", str(folder), "--port", "0", "--audit", str(audit), *options]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1", "COLUMNS": "200"} | (environment or {}),
    )  # fmt: skip
    try:
        service = Service(process, _address(process), key)
    except BaseException:
        process.kill()
        process.wait()
        raise
    try:
        yield service
    finally:
        service.stop()
        process.stdout.close()


def _address(process):
    printed, end = "", time.monotonic() + _PATIENCE
    while time.monotonic() < end:
        if not select.select([process.stdout], [], [], 0.2)[0]:
            continue
        # Not readline: it takes several lines into a buffer that select does not see.
        part = os.read(process.stdout.fileno(), 65536).decode()
        printed += part
        address = re.search(r"Serving: (http://\S+)\n", printed)
        if address:
            return address[1]
        if not part and process.poll() is not None:
            break
    raise AssertionError(f"the service did not start:\n{printed}")


@pytest.fixture(scope="module")
def service(guards, tmp_path_factory):
    """A service of the guard on logits, for the tests of one module."""
    with serving(guards["logits"], tmp_path_factory.mktemp("audit") / "audit.sqlite") as running:
        yield running


def npy(array):
    """Bytes of an .npy file."""
    import io

    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


def npz(**arrays):
    """Bytes of an .npz file."""
    import io

    stream = io.BytesIO()
    np.savez(stream, **arrays)
    return stream.getvalue()


class Database:
    """A PostgreSQL server of the tests: its own folder, a unix socket and no network, stopped by its own process id."""

    def __init__(self, binaries, folder):
        self.binaries, self.folder, self.process, self._made = binaries, folder, None, 0
        self._user = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"] if os.geteuid() == 0 else []
        self.account = "postgres" if self._user else getpass.getuser()

    def start(self):
        command = [*self._user, self.binaries / "postgres", "-D", self.folder / "data", "-k", self.folder,
                   "-c", "listen_addresses=", "-c", "fsync=off", "-c", "shared_buffers=16MB"]  # fmt: skip
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, cwd=self.folder)
        end = time.monotonic() + _PATIENCE
        while time.monotonic() < end:
            try:
                psycopg.connect(self.url, connect_timeout=2).close()
                return
            except psycopg.OperationalError:
                time.sleep(0.05)
        raise AssertionError(f"PostgreSQL did not start:\n{(self.folder / 'log').read_text()}")

    def stop(self, how=signal.SIGINT):
        self.process.send_signal(how)
        self.process.wait(30)

    @property
    def url(self):
        return f"postgresql://{self.account}@/postgres?host={self.folder}"

    def new(self):
        """Address of a new, empty schema, which looks like a database of its own and is made in no time."""
        self._made += 1
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(f"CREATE SCHEMA audit{self._made}")
        return f"{self.url}&options=-csearch_path%3Daudit{self._made}"


@pytest.fixture(scope="session")
def postgres():
    """A running PostgreSQL server; the test is skipped where none is installed."""
    pytest.importorskip("psycopg", reason="psycopg is not installed (extra postgres)")
    installed = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    initdb = installed[-1] if installed else shutil.which("initdb")
    if initdb is None:
        pytest.skip("PostgreSQL is not installed")
    with tempfile.TemporaryDirectory(prefix="pg") as name:  # short: the path of a unix socket has at most 107 signs
        database = Database(Path(initdb).parent, Path(name))
        if os.geteuid() == 0:
            shutil.chown(name, "postgres", "postgres")
        subprocess.run(
            [*database._user, initdb, "-D", f"{name}/data", "-A", "trust", "-U", database.account, "--no-sync"],
            check=True, stdout=subprocess.DEVNULL, cwd=name, timeout=_PATIENCE,
        )  # fmt: skip
        database.start()
        try:
            yield database
        finally:
            database.stop()
