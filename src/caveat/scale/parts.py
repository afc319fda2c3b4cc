"""Scores as one part per row range and a manifest: for object storage, where no file can be filled by slices.

A part is a ``.npy`` file named by its rows. The plan is written first and says what the parts are of, so that a run
that was stopped goes on where it ended; the manifest comes last and lists every part with its SHA-256. Paths are local,
or URLs of any file system that fsspec knows (``s3://``, ``gs://``, ``memory://``).
"""

from __future__ import annotations

import hashlib
import importlib
import io
import json
import operator
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from caveat._internal.checks import as_count
from caveat._internal.files import from_json, read_bytes, replacing_file
from caveat.errors import InputError, MissingExtraError
from caveat.outputs import Outputs
from caveat.scale.fitting import Job, Progress
from caveat.scale.rows import pieces
from caveat.scale.runner import running
from caveat.scale.scoring import can_score
from caveat.scale.sources import Source
from caveat.scores import Score

__all__ = ["Parts", "open_parts", "score_parts"]

Path_ = str | os.PathLike[str]
Floats = NDArray[np.float64]
_PLAN, _MANIFEST, _FORMAT, _DTYPE = "plan.json", "manifest.json", "caveat-parts", "<f8"
_PROBED = 64  # rows at each end whose scores say whether a folder holds parts of the same score and rows


@final
@dataclass(frozen=True)
class Files:
    """The few verbs that parts need of a folder, local or at a URL; sent to workers as its name."""

    folder: str

    @property
    def is_url(self) -> bool:
        return "://" in self.folder

    def write(self, name: str, content: bytes) -> None:
        """Write a whole file; it appears complete or not at all."""
        if self.is_url:
            system, root = _file_system(self.folder)
            system.makedirs(root, exist_ok=True)
            system.pipe_file(f"{root}/{name}", content)
        else:
            with replacing_file(Path(self.folder, name)) as temporary:
                temporary.write_bytes(content)

    def read(self, name: str) -> bytes | None:
        """The content of a file; None where there is none."""
        if self.is_url:
            system, root = _file_system(self.folder)
            place = f"{root}/{name}"
            return bytes(system.cat_file(place)) if system.exists(place) else None
        path = Path(self.folder, name)
        return read_bytes(path) if path.exists() else None

    def read_json(self, name: str) -> dict[str, Any] | None:
        content = self.read(name)
        return None if content is None else from_json(content, f"{self.folder}/{name}")

    def write_json(self, name: str, content: dict[str, Any]) -> None:
        self.write(name, (json.dumps(content, indent=1) + "\n").encode())


def _file_system(url: str) -> tuple[Any, str]:
    try:
        core = importlib.import_module("fsspec.core")
    except ImportError:
        raise MissingExtraError(f"the URL {url}", extra="scale") from None
    try:
        system, root = core.url_to_fs(url)
    except (ImportError, ValueError) as error:  # a protocol that is unknown, or whose package is not installed
        raise InputError(f"{url} cannot be opened ({str(error).splitlines()[0][:200]}).") from None
    return system, str(root).rstrip("/")


@final
@dataclass(frozen=True)
class Part:
    """One part of the manifest."""

    start: int
    stop: int
    file: str
    sha256: str


@final
@dataclass(frozen=True, eq=False)
class ScoringPart:
    """The work on one range: its part is kept where it is there and whole, and else computed and written."""

    source: Source
    first: Outputs
    score: Score
    files: Files

    def __call__(self, start: int, stop: int) -> tuple[Part, ...]:
        name = _file_name(start, stop)
        content = self.files.read(name)
        if content is None or _values(content, stop - start) is None:
            rows = pieces(self.source, self.first, start, stop, set(self.score.needs), check=True)
            stream = io.BytesIO()
            values = np.concatenate([self.score.score(piece) for piece in rows])
            np.save(stream, values.astype(_DTYPE, copy=False), allow_pickle=False)
            content = stream.getvalue()
            self.files.write(name, content)
        return (Part(start, stop, name, hashlib.sha256(content).hexdigest()),)


@final
@dataclass(frozen=True, eq=False)
class Parts:
    """Scores that were written as parts. Reading verifies the checksum of every part that it touches.

    Parameters
    ----------
    folder
        Local folder or URL.
    n
        Number of rows.
    parts
        Row range, file name and SHA-256 of each part, in the order of the rows.

    Examples
    --------
    >>> from caveat.scores import MaxLogit
    >>> parts = score_parts(MaxLogit(), Outputs(logits=[[9.0, 0.0], [1.0, 1.0]]), out="memory://doc", rows_per_task=1)
    >>> parts.n, len(parts.parts), parts.read()
    (2, 2, array([-9., -1.]))
    """

    folder: str
    n: int
    parts: tuple[Part, ...]

    def read(self, start: int = 0, stop: int | None = None) -> Floats:
        """Scores of rows from ``start`` up to ``stop``, by default all.

        Parameters
        ----------
        start, stop
            First row, and the row after the last.

        Returns
        -------
        array of shape (stop - start,)
            The scores.
        """
        stop = self.n if stop is None else as_count(stop, "stop", most=self.n)
        as_count(start, "start", least=0, most=stop - 1)
        files, pieces_ = Files(self.folder), []
        for part in self.parts:
            if part.stop <= start or part.start >= stop:
                continue
            content = files.read(part.file)
            if content is None:
                raise InputError(f"{self.folder}/{part.file} is missing. Run score_parts again: it writes what is not "
                                 "there.")  # fmt: skip
            values = _values(content, part.stop - part.start)
            if values is None or hashlib.sha256(content).hexdigest() != part.sha256:
                raise InputError(f"{self.folder}/{part.file} is not what the manifest lists (SHA-256 differs). Delete "
                                 "it and run score_parts again.")  # fmt: skip
            pieces_.append(values[max(0, start - part.start) : stop - part.start])
        return np.concatenate(pieces_)


def score_parts(
    score: Score,
    source: Source | Outputs | Path_,
    *,
    out: Path_,
    client: Any = None,
    rows_per_task: int | None = None,
    progress: Progress | None = None,
) -> Parts:
    """Score every row of a source into one part per row range and a manifest. The larger, the stranger.

    For object storage, and for runs that must be able to go on: parts that are there are kept. A folder belongs to one
    score, source and ``rows_per_task``; another one is refused. That is decided by the number of rows and by the scores
    of the first and last 64 rows, so do not change rows in between under a run that was stopped.

    Parameters
    ----------
    score
        A fitted score.
    source
        As in ``fit``.
    out
        A local folder, or a URL that fsspec knows, such as ``"s3://bucket/run"``; all workers must reach it.
    client, rows_per_task, progress
        As in ``fit``.

    Returns
    -------
    Parts
        ``read()`` gives the scores, of all rows or of a range.

    Examples
    --------
    >>> from caveat.scores import Energy
    >>> score_parts(Energy(), Outputs(logits=[[9.0, 0.0], [0.0, 0.0]]), out="memory://energy").read().round(3)
    array([-9.   , -0.693])
    """
    files = Files(os.fspath(out).rstrip("/") if "://" not in os.fspath(out) else os.fspath(out))
    with running(client) as runner:
        job = Job.on(source, runner, rows_per_task=rows_per_task, progress=progress)
        can_score(score, job.first)
        plan = _plan(job, score)
        kept = files.read_json(_PLAN)
        if kept is None:
            files.write_json(_PLAN, plan)
        elif kept != plan:
            differs = [key for key in plan if kept.get(key) != plan[key]]
            raise InputError(f"{files.folder} holds parts of another run (it differs in {', '.join(differs)}). Choose "
                             "another folder, or delete this one.")  # fmt: skip
        work = ScoringPart(job.source, job.first, score, files)
        parts: tuple[Part, ...] = job.reduce("scoring", work, operator.add)
    files.write_json(_MANIFEST, plan | {"parts": [asdict(part) for part in parts]})
    return Parts(files.folder, job.source.n, parts)


def open_parts(folder: Path_) -> Parts:
    """Parts that ``score_parts`` wrote.

    Parameters
    ----------
    folder
        Local folder or URL.

    Returns
    -------
    Parts
        From the manifest; the parts themselves are read and verified by ``read``.

    Examples
    --------
    >>> from caveat.scores import MaxLogit
    >>> _ = score_parts(MaxLogit(), Outputs(logits=[[9.0, 0.0], [1.0, 1.0]]), out="memory://opened")
    >>> open_parts("memory://opened").n
    2
    """
    name = os.fspath(folder)
    page = Files(name).read_json(_MANIFEST)
    if page is None:
        raise InputError(f"{name} has no {_MANIFEST}: no parts, or a run that has not finished. Run score_parts again.")
    try:
        parts = tuple(Part(**part) for part in page["parts"])
        n, of_ours = page["n"], (page["format"], page["dtype"]) == (_FORMAT, _DTYPE)
        ends = [0, *(part.stop for part in parts)]
        whole = of_ours and ends[-1] == n and ends[:-1] == [part.start for part in parts]
        # The manifest names no files of its own choice: one elsewhere must not be read.
        whole = whole and all(part.file == _file_name(part.start, part.stop) for part in parts)
    except (KeyError, TypeError, ValueError):
        whole = False
    if not whole:
        raise InputError(f"{name}/{_MANIFEST} is damaged or of another format. Run score_parts again.")
    return Parts(name, n, parts)


def _plan(job: Job, score: Score) -> dict[str, Any]:
    """What the parts of a folder are of."""
    n = job.source.n
    probe = hashlib.sha256()
    for start, stop in ((0, min(n, _PROBED)), (max(0, n - _PROBED), n)):
        for piece in pieces(job.source, job.first, start, stop, set(score.needs), check=True):
            probe.update(score.score(piece).astype(_DTYPE).tobytes())
    return {"format": _FORMAT, "dtype": _DTYPE, "n": n, "rows_per_task": job.ranges[0][1] - job.ranges[0][0],
            "score": score.name, "probe": probe.hexdigest()}  # fmt: skip


def _file_name(start: int, stop: int) -> str:
    return f"part-{start:015d}-{stop:015d}.npy"


def _values(content: bytes, rows: int) -> Floats | None:
    """The scores in a part; None where it is not a whole part of so many rows."""
    try:
        values = np.load(io.BytesIO(content), allow_pickle=False)
    except (ValueError, OSError, EOFError):
        return None
    return values if isinstance(values, np.ndarray) and values.shape == (rows,) and values.dtype == _DTYPE else None
