"""What a report says about where it came from: the files with their digests, the command, the day."""

from __future__ import annotations

import datetime
import hashlib
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from caveat.evaluation import Evaluation
    from caveat.evaluation.records import Role

__all__ = ["ARGUMENTS", "digest_of", "with_provenance"]

ARGUMENTS: ContextVar[tuple[str, ...]] = ContextVar("ARGUMENTS", default=())
"""What the command line was called with."""
_ROLES: dict[str, Role] = {"test": "inlier", "train": "train", "calibration": "calibration", "outlier": "outlier",
                           "confirm": "confirm"}  # fmt: skip


def with_provenance(
    evaluation: Evaluation, roles: Mapping[str, Path | Mapping[str, Path] | None], *, digests: bool = True
) -> Evaluation:
    """The evaluation with records of its files, of the command, and of the day."""
    from caveat.evaluation.records import Block, Data, File, Run

    block = Block("model", evaluation.settings.seed)
    rows = {(data.role, data.block.outlier): data.n for data in evaluation.of(Data)}
    if evaluation.split:  # the test file has both halves
        rows["inlier", ""] += rows.get(("calibration", ""), 0)
    elif ("tuning", "") in rows:
        rows["calibration", ""] += rows["tuning", ""]
    files = [File(replace(block, outlier=name), role, str(path), rows.get((role, name), 0),
                  digest_of(path) if digests else "") for role, name, path in _paths(roles)]  # fmt: skip
    run = Run(block, shlex.join(["caveat", *ARGUMENTS.get()]), datetime.date.today().isoformat())
    return replace(evaluation, records=(*evaluation.records, *files, run))


def _paths(roles: Mapping[str, Path | Mapping[str, Path] | None]) -> Iterator[tuple[Role, str, Path]]:
    for option, given in roles.items():
        if isinstance(given, Path):
            yield _ROLES[option], "", given
        else:
            for name, path in (given or {}).items():
                yield _ROLES[option], name, path


def digest_of(path: Path) -> str:
    """SHA-256 of a file's bytes; of a folder, of the names and bytes of its files."""
    from caveat._internal.files import is_folder

    if not is_folder(path):
        return _digest(path)
    files: Sequence[Path] = sorted(file for file in path.rglob("*") if file.is_file())
    lines = "".join(f"{file.relative_to(path).as_posix()} {_digest(file)}\n" for file in files)
    return hashlib.sha256(lines.encode()).hexdigest()


def _digest(path: Path) -> str:
    from caveat._internal.files import path_errors

    with path_errors(path), path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
