"""One environment for each peer, made from the package index and kept in a cache folder outside the repository."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

__all__ = ["default_cache", "make_all"]

HERE = Path(__file__).parent
MINUTES = 15  # for one environment


def default_cache() -> Path:
    """``caveat-bench`` in the user's cache folder."""
    return Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "caveat-bench"


def make_all(cache: Path) -> tuple[dict[str, Path], dict[str, str]]:
    """Python of each environment that could be made, and for the others what went wrong."""
    pythons, problems = {}, {}
    for name, wanted in tomllib.loads((HERE / "peers" / "versions.toml").read_text()).items():
        try:
            pythons[name] = _make(cache / name, wanted)
        except (OSError, subprocess.SubprocessError) as problem:
            output = getattr(problem, "stderr", None) or str(problem)
            problems[name] = output.strip().splitlines()[-1][:300] if output.strip() else type(problem).__name__
            print(f"{name}: {problems[name]}", flush=True)
    return pythons, problems


def _make(folder: Path, wanted: dict[str, object]) -> Path:
    """An environment is used again if it was made from the same list of versions."""
    constraints = HERE.parent / "constraints.txt"
    recipe = json.dumps([wanted, None if wanted.get("free") else constraints.read_text()], sort_keys=True)
    stamp, python = folder / "made-from", folder / "bin" / "python"
    digest = hashlib.sha256(recipe.encode()).hexdigest()
    if stamp.exists() and stamp.read_text() == digest:
        return python
    print(f"== making {folder}", flush=True)
    shutil.rmtree(folder, ignore_errors=True)
    folder.parent.mkdir(parents=True, exist_ok=True)
    _run([*_base(wanted.get("python")), "-m", "venv", str(folder)])
    install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    bound = [] if wanted.get("free") else ["--constraint", str(constraints)]
    _run([*install, *bound, *wanted["packages"]])
    if wanted.get("no_deps"):
        _run([*install, "--no-deps", *wanted["no_deps"]])
    stamp.write_text(digest)
    return python


def _base(version: object) -> list[str]:
    """Command of the Python to start from; a version other than ours is looked for under the usual names."""
    if version is None:
        return [sys.executable]
    probe = "import sys; print('{}.{}.{}'.format(*sys.version_info))"
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    names = [os.environ.get("PYTHON312", f"python{version}")]
    names += [str(path / "bin" / "python") for path in sorted(pyenv.glob(f"{version}.*"), reverse=True)]
    for name in names:
        try:
            answer = subprocess.run([name, "-c", probe], capture_output=True, text=True, timeout=60, check=False)
        except OSError:
            continue
        if answer.stdout.startswith(f"{version}."):
            return [name]
    raise FileNotFoundError(f"no Python {version} found. Name one by PYTHON312=...")


def _run(command: list[str]) -> None:
    subprocess.run(command, check=True, capture_output=True, text=True, timeout=60 * MINUTES)
