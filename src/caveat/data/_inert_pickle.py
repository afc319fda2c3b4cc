"""Arrays, texts and numbers out of a pickle file, without running anything that the file says.

Unpickling runs code of the file's choosing. Here its instructions are read as data: a name such as
``numpy.core.multiarray _reconstruct`` is a word, never an import, and only the way in which numpy stores an array of
bytes or integers is understood. Everything else is refused.
"""

from __future__ import annotations

import pickletools
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from caveat.errors import InputError

__all__ = ["read_inert"]

_MARK = object()
_ARRAY = {"numpy.core.multiarray _reconstruct", "numpy._core.multiarray _reconstruct"}
_TYPES = {"u1", "i1", "i2", "i4", "i8", "f4", "f8"}
_VALUES = {
    "BININT", "BININT1", "BININT2", "INT", "LONG", "LONG1", "BINUNICODE", "SHORT_BINUNICODE", "UNICODE", "BINSTRING",
    "SHORT_BINSTRING", "STRING", "BINBYTES", "SHORT_BINBYTES", "BINFLOAT", "FLOAT",
}  # fmt: skip


class _Made:
    """A thing the file wants made: by what, from what, in which state."""

    def __init__(self, by: str, args: tuple[Any, ...]) -> None:
        self.by, self.args = by, args
        self.state: Any = None


def read_inert(path: Path) -> Any:
    """Dicts, lists, tuples, texts (as bytes or str), numbers and numeric numpy arrays of a pickle file."""
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        raise InputError(f"{path} does not exist. Check the path.") from None
    try:
        return _value(_run(raw))
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    except (ValueError, IndexError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise InputError(f"{path} is damaged or not the pickle of plain arrays ({error}). Fetch it again.") from None


def _run(raw: bytes) -> Any:
    """The one object that the instructions leave on the stack, with unmade things inside."""
    stack: list[Any] = []
    memo: dict[Any, Any] = {}

    def since_mark() -> list[Any]:
        start = max(i for i, item in enumerate(stack) if item is _MARK)
        return take(len(stack) - start)[1:]

    def take(n: int) -> list[Any]:
        if n > len(stack):
            raise InputError("it takes more than it gave. Fetch it again.")
        items = stack[len(stack) - n :]
        del stack[len(stack) - n :]
        return items

    instruction: Any
    for instruction, arg, _ in pickletools.genops(raw):
        name, value = instruction.name, cast(Any, arg)
        if name in _VALUES:
            # Python 2 wrote bytes as texts, which pickletools shows as Latin-1.
            stack.append(value.encode("latin-1") if name.endswith("STRING") else value)
            continue
        match name:
            case "PROTO" | "FRAME":
                pass
            case "MARK":
                stack.append(_MARK)
            case "NONE" | "NEWTRUE" | "NEWFALSE":
                stack.append({"NONE": None, "NEWTRUE": True, "NEWFALSE": False}[name])
            case "EMPTY_DICT" | "EMPTY_LIST" | "EMPTY_TUPLE":
                stack.append({"EMPTY_DICT": {}, "EMPTY_LIST": [], "EMPTY_TUPLE": ()}[name])
            case "LIST":
                stack.append(since_mark())
            case "TUPLE":
                stack.append(tuple(since_mark()))
            case "TUPLE1" | "TUPLE2" | "TUPLE3":
                stack.append(tuple(take(int(name[-1]))))
            case "DICT":
                items = since_mark()
                stack.append(dict(zip(items[::2], items[1::2], strict=True)))
            case "SETITEM" | "SETITEMS":
                items = take(2) if name == "SETITEM" else since_mark()
                stack[-1].update(zip(items[::2], items[1::2], strict=True))
            case "APPEND" | "APPENDS":
                items = take(1) if name == "APPEND" else since_mark()
                stack[-1].extend(items)
            case "PUT" | "BINPUT" | "LONG_BINPUT":
                memo[value] = stack[-1]
            case "MEMOIZE":
                memo[len(memo)] = stack[-1]
            case "GET" | "BINGET" | "LONG_BINGET":
                stack.append(memo[value])
            case "GLOBAL":
                stack.append(value)
            case "STACK_GLOBAL":
                stack.append(" ".join(take(2)))
            case "REDUCE":
                stack.append(_Made(*take(2)))
            case "BUILD":
                (state,) = take(1)
                stack[-1].state = state
            case "STOP":
                return stack.pop()
            case _:
                raise InputError(f"it holds more than plain arrays (instruction {name}) and is not read.")
    raise InputError("it ends too early. Fetch it again.")


def _value(item: Any, known: dict[int, Any] | None = None) -> Any:
    """The same with every array made, and everything else that wants making refused.

    A thing that stands in many places is made once: a short file of lists of lists must not fill the memory.
    """
    known = {} if known is None else known
    if isinstance(item, (dict, list, tuple)) and id(item) not in known:
        if isinstance(item, dict):
            known[id(item)] = {_value(key, known): _value(value, known) for key, value in item.items()}
        else:
            known[id(item)] = type(item)(_value(value, known) for value in item)
    if id(item) in known:
        return known[id(item)]
    if not isinstance(item, _Made):
        return item
    if item.by == "_codecs encode" and isinstance(item.args[0], str):  # how Python 3 writes bytes for Python 2
        return item.args[0].encode("latin-1")
    if item.by in _ARRAY and item.args[0] in {"numpy ndarray"}:
        return _array(item.state)
    raise InputError(f"it wants to call {item.by!r}, which is never done. Only files of plain arrays are read.")


def _array(state: Any) -> NDArray[Any]:
    _, shape, kind, fortran, content = state
    if not isinstance(kind, _Made) or kind.by != "numpy dtype":
        raise InputError("it holds an array of an unknown type and is not read.")
    name, order = _text(_value(kind.args[0])), _text(kind.state[1])
    if name not in _TYPES:
        raise InputError(f"it holds an array of type {name!r}; only numbers are read.")
    dtype = np.dtype((order if order in ("<", ">") else "=") + name)
    flat = np.frombuffer(_value(content), dtype=dtype)
    return flat.reshape(_value(shape), order="F" if fortran else "C").astype(name)


def _text(value: Any) -> str:
    return value.decode("ascii") if isinstance(value, bytes) else str(value)
