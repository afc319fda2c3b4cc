"""Functions that a plan names: ``file.py:function`` in the folder of the plan, or ``module:function``."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from caveat.errors import InputError

__all__ = ["check_function_name", "find_function", "function_file"]

_folders: set[str] = set()  # of task files that this process has loaded


def check_function_name(name: str, path: str) -> str:
    """``name`` if it is written as a function of a file or module."""
    place, colon, function = name.rpartition(":")
    if not colon or not place or not function.isidentifier():
        raise InputError(f"{path} must be 'file.py:function' or 'module:function', got {name!r}.")
    return name


def function_file(name: str, folder: Path) -> Path | None:
    """The Python file that a function is in; None for a module that has none."""
    place = name.rpartition(":")[0]
    if place.endswith(".py"):
        path = folder / place
        if not path.is_file():
            raise InputError(f"{path} does not exist. Check the name '{name}' in the plan.")
        return path
    try:
        spec = importlib.util.find_spec(place)
    except (ImportError, ValueError):
        spec = None
    if spec is None:
        raise InputError(f"there is no module '{place}'. Write '{name}' as 'file.py:function' or install the module.")
    return Path(spec.origin) if spec.origin and Path(spec.origin).is_file() else None


def find_function(name: str, path: str) -> Callable[..., Any]:
    """The function itself. A file is run as a module of its own and can import the modules of its folder."""
    place, _, attribute = name.rpartition(":")
    module = _load_file(Path(path)) if place.endswith(".py") else importlib.import_module(place)
    function = getattr(module, attribute, None)
    if not callable(function):
        raise InputError(f"{path or place} has no function '{attribute}'.")
    return function  # type: ignore[no-any-return]


def _load_file(path: Path) -> Any:
    path = path.resolve()
    code = path.read_bytes()
    name = f"_caveat_task_{hashlib.sha256(str(path).encode() + code).hexdigest()[:16]}"
    _make_importable(path.parent)
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _make_importable(folder: Path) -> None:
    """Let the task import from its own folder, and not from that of another plan's task."""
    here = str(folder)
    if sys.path and sys.path[0] == here:
        return
    for stem in {file.stem for file in folder.glob("*.py")}:
        loaded = getattr(sys.modules.get(stem), "__file__", None)
        if loaded and str(Path(loaded).parent) in _folders - {here}:
            del sys.modules[stem]
    _folders.add(here)
    sys.path[:] = [here, *(entry for entry in sys.path if entry not in _folders)]
