"""Arrays, texts and numbers out of a pickle file, without running anything that the file says.

Unpickling runs code of the file's choosing. Here its instructions are read as data: a name such as
``numpy.core.multiarray _reconstruct`` is a word, never an import, and only the way in which numpy stores an array of
bytes or integers is understood. Everything else is refused.
"""

from __future__ import annotations

import pickletools
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from caveat._internal.files import read_bytes
from caveat.errors import InputError

_ARRAY = {"numpy.core.multiarray _reconstruct", "numpy._core.multiarray _reconstruct"}
_TYPES = {"u1", "i1", "i2", "i4", "i8", "f4", "f8"}
_VALUES = {
    "BININT", "BININT1", "BININT2", "INT", "LONG", "LONG1", "BINUNICODE", "SHORT_BINUNICODE", "UNICODE", "BINSTRING",
    "SHORT_BINSTRING", "STRING", "BINBYTES", "SHORT_BINBYTES", "BINFLOAT", "FLOAT",
}  # fmt: skip
_MAKES = {"EMPTY_DICT", "EMPTY_LIST", "EMPTY_TUPLE", "DICT", "LIST", "TUPLE", "TUPLE1", "TUPLE2", "TUPLE3", "REDUCE"}

# What a file of images needs, and ten times more. A byte of a pickle may stand for a hundred bytes of memory.
_STEPS = 2_000_000  # instructions
_CONTAINERS = 100_000  # lists, tuples, dicts and things to be made
_DEEPEST = 100  # containers within containers
_LARGEST = 2**31  # bytes of the file


class _Made:
    """A thing the file wants made: by what, from what, in which state."""

    __slots__ = ("args", "by", "state")

    def __init__(self, by: Any, args: Any) -> None:
        if not isinstance(by, str) or not isinstance(args, tuple):
            raise InputError("it wants to call something without a name, which is never done.")
        self.by, self.args = by, args
        self.state: Any = None


def read_inert(path: Path) -> Any:
    """Dicts, lists, tuples, texts (as bytes or str), numbers and numeric numpy arrays of a pickle file.

    Time and memory are at most a multiple of the size of the file.
    """
    raw = read_bytes(path)
    try:
        if len(raw) > _LARGEST:
            raise InputError(f"it has {len(raw)} bytes and is not read; at most {_LARGEST} are.")
        return _Builder(len(raw)).value(_run(raw))
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    except (ValueError, IndexError, KeyError, TypeError, AttributeError, OverflowError) as error:
        reason = str(error)[:200]
        raise InputError(
            f"{path} is damaged or not the pickle of plain arrays ({reason}). Download it again."
        ) from None


def _run(raw: bytes) -> Any:
    """The one object that the instructions leave on the stack, with unmade things inside."""
    stack: list[Any] = []
    marks: list[int] = []
    memo: dict[Any, Any] = {}
    containers = 0

    def since_mark() -> list[Any]:
        return take(len(stack) - marks.pop())

    def take(n: int) -> list[Any]:
        if not 0 <= n <= len(stack) - (marks[-1] if marks else 0):
            raise InputError("corrupt pickle (stack underflow). Download it again.")
        items = stack[len(stack) - n :]
        del stack[len(stack) - n :]
        return items

    instruction: Any
    for step, (instruction, arg, _) in enumerate(pickletools.genops(raw)):
        name, value = instruction.name, cast(Any, arg)
        containers += name in _MAKES
        if step > _STEPS or containers > _CONTAINERS:
            raise InputError("it has more parts than a file of arrays and is not read.")
        if name in _VALUES:
            # Python 2 wrote bytes as texts, which pickletools shows as Latin-1.
            stack.append(value.encode("latin-1") if name.endswith("STRING") else value)
            continue
        match name:
            case "PROTO" | "FRAME":
                pass
            case "MARK":
                marks.append(len(stack))
            case "NONE" | "NEWTRUE" | "NEWFALSE":
                stack.append({"NONE": None, "NEWTRUE": True, "NEWFALSE": False}[name])
            case "EMPTY_DICT" | "EMPTY_LIST" | "EMPTY_TUPLE":
                stack.append({"EMPTY_DICT": dict, "EMPTY_LIST": list, "EMPTY_TUPLE": tuple}[name]())
            case "LIST":
                stack.append(since_mark())
            case "TUPLE":
                stack.append(tuple(since_mark()))
            case "TUPLE1" | "TUPLE2" | "TUPLE3":
                stack.append(tuple(take(int(name[-1]))))
            case "DICT":
                stack.append(dict(_pairs(since_mark())))
            case "SETITEM" | "SETITEMS":
                items = take(2) if name == "SETITEM" else since_mark()
                stack[-1].update(_pairs(items))
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
                if not isinstance(stack[-1], _Made):
                    raise InputError("it wants to change a plain value, which is never done.")
                stack[-1].state = state
            case "STOP":
                return take(1)[0]
            case _:
                raise InputError(f"it holds more than plain arrays (instruction {name}) and is not read.")
    raise InputError("it ends too early. Download it again.")


def _pairs(items: list[Any]) -> Iterator[tuple[Any, Any]]:
    """Keys and values of a dict. Keys are texts, made or unmade: the hash of nested tuples may take for ever."""
    if any(not isinstance(key, (str, bytes, _Made)) for key in items[::2]):
        raise InputError("it holds a dict whose keys are not texts and is not read.")
    return zip(items[::2], items[1::2], strict=True)


class _Builder:
    """Makes the arrays inside a value, each once, and refuses everything else that wants making.

    ``budget``: bytes that may be made. Every array of an honest file has bytes of its own in the file.
    """

    def __init__(self, budget: int) -> None:
        self.arrays = self.texts = budget
        self.made: dict[int, Any] = {}

    def value(self, item: Any, depth: int = 0) -> Any:
        if not isinstance(item, (dict, list, tuple, _Made)):
            return item
        if depth > _DEEPEST:
            raise ValueError(f"nested more than {_DEEPEST} deep")
        if id(item) not in self.made:
            self.made[id(item)] = self._new(item, depth + 1)
        return self.made[id(item)]

    def _new(self, item: Any, depth: int) -> Any:
        if isinstance(item, dict):
            return dict(_pairs([self.value(one, depth) for pair in item.items() for one in pair]))
        if isinstance(item, (list, tuple)):
            return type(item)(self.value(one, depth) for one in item)
        if item.by == "_codecs encode" and isinstance(item.args[0], str):  # how Python 3 writes bytes for Python 2
            self.texts = _spend(self.texts, len(item.args[0]))
            return item.args[0].encode("latin-1")
        if item.by in _ARRAY and isinstance(item.args[0], str) and item.args[0] == "numpy ndarray":
            return self._array(item.state, depth)
        raise InputError(f"it wants to call {item.by[:100]!r}, which is never done. Only plain arrays are read.")

    def _array(self, state: Any, depth: int) -> NDArray[Any]:
        _, shape, kind, fortran, content = state
        values = self.value(content, depth)
        name = order = ""
        if isinstance(kind, _Made) and kind.by == "numpy dtype":
            name, order = _text(self.value(kind.args[0], depth)), _text(kind.state[1])
        whole = isinstance(values, bytes) and isinstance(shape, tuple) and all(type(side) is int for side in shape)
        if not whole or not order or name not in _TYPES:
            raise InputError(f"it holds an array without bytes or sides, or of type {name[:100]!r}, and is not read.")
        self.arrays = _spend(self.arrays, len(values))
        flat = np.frombuffer(values, dtype=np.dtype((order if order in ("<", ">") else "=") + name))
        return flat.reshape(shape, order="F" if fortran else "C").astype(name)


def _spend(budget: int, size: int) -> int:
    if size > budget:
        raise InputError("it uses the same bytes many times and is not read.")
    return budget - size


def _text(value: Any) -> str:
    return value.decode("ascii") if isinstance(value, bytes) else value if isinstance(value, str) else ""
