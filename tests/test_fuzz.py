"""For any argument, a public function returns a result without NaN or raises an error of Caveat: no raw exception,
no silent NaN, no call that never ends, no terabytes."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import importlib
import importlib.util
import math
import signal
import sys
import warnings
from collections.abc import Iterator, Mapping
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse

from caveat import CaveatError, InputError, Outputs

try:  # before memory is bounded; without them the same array is passed as it is
    import pandas
    import torch
except ImportError:
    pandas = torch = None

_spec = importlib.util.spec_from_file_location("fuzz_calls", Path(__file__).parent / "fuzz_calls.py")
fuzz_calls = importlib.util.module_from_spec(_spec)
sys.modules["fuzz_calls"] = fuzz_calls  # dataclasses look their module up
_spec.loader.exec_module(fuzz_calls)
CALLS = fuzz_calls.CALLS
PACKAGES = ("scores", "conformal", "conformal.idealised", "metrics", "stats", "geometry", "robust")

Change = tuple[str, str, Any]  # argument, label, maker of what replaces it

SECONDS = 2.0  # of processor time for one call
BYTES = 2**30  # that one call may ask for


# -- what replaces an argument ----------------------------------------------------------------------------------------

SCALARS = {
    "None": None, "text": "x", "empty text": "", "bytes": b"x", "True": True, "numpy True": np.True_, "complex": 1j,
    "list": [], "list of one": [0.5], "nested list": [[0.5]], "dict": {}, "tuple": (), "set": set(), "object": object(),
    "function": len, "type": int, "slice": slice(None), "nan": math.nan, "inf": math.inf, "-inf": -math.inf, "-1": -1,
    "0": 0, "1": 1, "2": 2, "0.5": 0.5, "-0.5": -0.5, "10**400": 10**400, "-10**400": -(10**400), "2**40": 2**40,
    "1e200": 1e200, "1e-320": 1e-320, "1e308": 1e308, "float16": np.float16(0.3), "int8": np.int8(2),
    "longdouble": np.longdouble("0.3"), "Fraction": Fraction(1, 3), "Decimal": Decimal("0.3"),
    "0-d array": np.array(0.5), "array": np.array([0.5, 0.5]), "numpy text": np.str_("x"),
    "date": np.datetime64(1, "s"), "strange array": np.array([object()]), "generator": (i for i in range(3)),
    "Outputs": Outputs(logits=[[1.0, 0.0]]),
}  # fmt: skip


def _with(array: np.ndarray, value: float) -> np.ndarray:
    """A copy with one other value in the second row."""
    changed = array.astype(np.float64)
    changed.reshape(-1)[min(changed.size - 1, changed.size // max(1, len(changed)))] = value
    return changed


def _strided(array: np.ndarray) -> np.ndarray:
    wide = np.repeat(array, 2, axis=-1)
    return wide[..., ::2]


def _read_only(array: np.ndarray) -> np.ndarray:
    fixed = array.copy()
    fixed.flags.writeable = False
    return fixed


def _torch(array: np.ndarray) -> Any:
    return array if torch is None else torch.from_numpy(np.array(array))


def _pandas(array: np.ndarray) -> Any:
    if pandas is None or not 0 < array.ndim < 3:
        return array
    index = np.arange(len(array))[::-1]  # labels in another order than places
    return pandas.Series(array, index=index) if array.ndim == 1 else pandas.DataFrame(array, index=index)


SAME = {  # other ways to write the same numbers: the result must not change
    "as big-endian": lambda a: a.astype(a.dtype.newbyteorder(">")),
    "as longdouble": lambda a: a.astype(np.longdouble) if a.dtype.kind == "f" else a.astype(np.int16),
    "as read-only": _read_only,
    "as strided": _strided,
    "as fortran": np.asfortranarray,
    "as list": lambda a: a.tolist(),
    "as torch": _torch,
    "as pandas": _pandas,
    "as no mask": np.ma.masked_array,
    "as whole numbers": lambda a: a.astype(np.uint64) if a.dtype.kind == "i" else a,
}
ARRAYS = {
    **SAME,
    "float16": lambda a: a.astype(np.float16),
    "float32": lambda a: a.astype(np.float32),
    "int8": lambda a: a.astype(np.int8),
    "uint64": lambda a: np.abs(a).astype(np.uint64),
    "bool": lambda a: a.astype(bool),
    "complex": lambda a: a.astype(np.complex128),
    "object": lambda a: a.astype(object),
    "text": lambda a: a.astype(str),
    "date": lambda a: a.astype("int64").astype("datetime64[s]"),
    "structured": lambda a: np.zeros(a.shape, dtype=[("x", "f8")]),
    "ragged": lambda a: [[1.0, 2.0], [3.0]],
    "empty": lambda a: a[:0],
    "no columns": lambda a: a[..., :0],
    "one row": lambda a: a[:1],
    "a row less": lambda a: a[:-1],
    "a column less": lambda a: a[..., :-1],
    "0-d": lambda a: a.reshape(-1)[0],
    "a dimension more": lambda a: a[None],
    "column": lambda a: a[..., None],
    "flat": lambda a: a.reshape(-1),
    "sparse": lambda a: scipy.sparse.csr_array(np.atleast_2d(a)) if a.ndim < 3 else a,
    "masked": lambda a: np.ma.masked_array(a, mask=np.arange(a.size).reshape(a.shape) == 1),
    "matrix": lambda a: np.matrix(a) if a.ndim < 3 else a,
    "nan": lambda a: _with(a, np.nan),
    "inf": lambda a: _with(a, np.inf),
    "-inf": lambda a: _with(a, -np.inf),
    "all nan": lambda a: np.full(a.shape, np.nan),
    "one 1e200": lambda a: _with(a, 1e200),
    "one -1e200": lambda a: _with(a, -1e200),
    "times 1e200": lambda a: a * 1e200,
    "times 1e307": lambda a: a / max(1, np.abs(a).max(initial=1)) * 1.7e308,
    "times 1e-200": lambda a: a * 1e-200,
    "subnormal": lambda a: np.sign(a.astype(float)) * 1e-320,
    "float32 1e38": lambda a: (a / max(1, np.abs(a).max(initial=1)) * 3e38).astype(np.float32),
    "float16 6e4": lambda a: (a / max(1, np.abs(a).max(initial=1)) * 6e4).astype(np.float16),
    "zeros": np.zeros_like,
    "constant": lambda a: np.full_like(a, 1),
    "ties": np.round,
    "equal rows": lambda a: np.repeat(a[:1], len(a), axis=0),
    "negative": lambda a: -np.abs(a.astype(float)) - 1,
    "one 2**40": lambda a: _with(a, 2.0**40).astype(a.dtype if a.dtype.kind == "i" else np.float64),
    "one 2**62": lambda a: _with(a, 2.0**62).astype(a.dtype if a.dtype.kind == "i" else np.float64),
    "times 1000": lambda a: a * 1000,
}


def variants(value: Any, fields: tuple[str, ...] | None = None) -> Iterator[tuple[str, Any]]:
    """Label and maker of everything that may stand in place of a valid argument."""
    yield from ((name, lambda other=other: other) for name, other in SCALARS.items())
    if isinstance(value, np.ndarray) and value.size and value.dtype.kind in "biuf":
        yield from ((name, lambda make=make: make(value)) for name, make in ARRAYS.items())
    elif isinstance(value, Outputs):
        for name, (field, make) in _field_variants(value, fields).items():
            yield name, lambda field=field, make=make: _replaced(value, field, make)
    elif isinstance(value, Mapping):
        for key in value:
            for name, make in variants(value[key]):
                yield f"[{key!r}] {name}", lambda key=key, make=make: {**value, key: make()}
    elif isinstance(value, tuple):
        for place in range(len(value)):
            for name, make in variants(value[place]):
                yield f"[{place}] {name}", lambda place=place, make=make: (
                    *value[:place], make(), *value[place + 1 :],
                )  # fmt: skip


def _fields(outputs: Outputs) -> dict[str, Any]:
    """What ``Outputs`` was made of."""
    names = ("logits", "features", "labels", "mc_logits", "confidence", "embeddings", "ease_probs", "head")
    return {name: getattr(outputs, name) for name in names} | {"layers": dict(outputs.layers)}


def _field_variants(outputs: Outputs, fields: tuple[str, ...] | None) -> dict[str, tuple[str, Any]]:
    found: dict[str, tuple[str, Any]] = {}
    for name in fields if fields is not None else tuple(_fields(outputs)):
        found[f".{name} missing"] = (name, lambda a: None)
        for label, make in ARRAYS.items():
            found[f".{name} {label}"] = (name, make)
    if fields and "logits" in fields:
        for label in ("zeros", "one 1e200", "float32", "ties"):  # a model that gives probabilities only
            found[f".probs {label}"] = ("probs", ARRAYS[label])
        found[".probs sure"] = ("probs", lambda a: np.eye(a.shape[1])[np.argmax(a, axis=1)])
    return found


def _replaced(outputs: Outputs, field: str, make: Any) -> Outputs:
    fields = _fields(outputs)
    if field == "head":
        fields["head"] = None if make(np.ones(2)) is None else type(outputs.head)(
            make(np.array(outputs.head.weight)), outputs.head.bias
        )  # fmt: skip
    elif field == "layers":
        fields["layers"] = {name: make(np.array(array)) for name, array in outputs.layers.items()}
    elif field == "probs":
        fields |= {"logits": None, "head": None, "probs": make(np.array(outputs.probs))}
    else:
        fields[field] = make(np.array(fields[field]))
        if field == "features" and fields[field] is None:
            fields["head"] = None
    return Outputs(**fields)


# -- what the answer may be -------------------------------------------------------------------------------------------


class TooLongError(BaseException):
    """A call took more processor time than any may."""


def _stop(*_: Any) -> None:
    raise TooLongError


@contextlib.contextmanager
def bounded() -> Iterator[None]:
    """Bounds on time and memory, where the platform has them."""
    resource = pytest.importorskip("resource") if importlib.util.find_spec("resource") else None
    before = signal.signal(signal.SIGPROF, _stop) if hasattr(signal, "SIGPROF") else None
    if resource is not None:
        limits = resource.getrlimit(resource.RLIMIT_AS)
        used = next(
            int(line.split()[1]) * 1024
            for line in Path("/proc/self/status").read_text().splitlines()
            if line.startswith("VmSize")
        ) if Path("/proc/self/status").exists() else 0  # fmt: skip
        if used:
            resource.setrlimit(resource.RLIMIT_AS, (used + BYTES, limits[1]))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        if before is not None:
            signal.setitimer(signal.ITIMER_PROF, 0)
            signal.signal(signal.SIGPROF, before)
        if resource is not None:
            resource.setrlimit(resource.RLIMIT_AS, limits)


def numbers(result: Any) -> Iterator[np.ndarray]:
    """Every number in a result, however deep."""
    if isinstance(result, (float, np.ndarray, np.generic)):
        array = np.asarray(result)
        if array.dtype.kind in "fiubc":
            yield array
    elif isinstance(result, Outputs):
        for part in _fields(result).values():
            yield from numbers(part)
    elif dataclasses.is_dataclass(result) and not isinstance(result, type):
        for field in dataclasses.fields(result):
            yield from numbers(getattr(result, field.name))
    elif isinstance(result, Mapping):
        for part in result.values():
            yield from numbers(part)
    elif isinstance(result, (list, tuple)):
        for part in result:
            yield from numbers(part)


def _differ(first: Any, second: Any, tolerance: float) -> bool:
    one, two = list(numbers(first)), list(numbers(second))
    if len(one) != len(two) or any(a.shape != b.shape for a, b in zip(one, two, strict=True)):
        return True
    return not all(
        np.allclose(a.astype(float), b.astype(float), rtol=tolerance, atol=tolerance * np.std(a.astype(float)),
                    equal_nan=True)
        if np.isfinite(a.astype(float)).all() else np.array_equal(np.isfinite(a), np.isfinite(b))
        for a, b in zip(one, two, strict=True)
    )  # fmt: skip


def arguments_of(call: Any) -> dict[str, Any]:
    """The valid arguments; a random generator as a copy, which draws the same in every call."""
    return {k: copy.deepcopy(v) if isinstance(v, np.random.Generator) else v for k, v in call.arguments.items()}


def outcome(call: Any, changes: list[Change], usual: Any, seconds: float = SECONDS) -> str:
    """Of a call with some arguments replaced: ``"result"``, ``"sentence"`` (an error of ours), or the fault."""
    arguments = arguments_of(call)
    theirs = any(argument in call.theirs for argument, _, _ in changes)
    same = not theirs and all(" as " in f" {label}" for _, label, _ in changes)
    _time_limit(seconds)
    try:
        arguments |= {argument: make() for argument, _, make in changes}
        result = call.run(**arguments)
    except CaveatError as error:
        return "sentence" if str(error).strip() else f"{type(error).__name__} without a word"
    except TooLongError:
        return f"took more than {seconds} s"
    except Exception as error:  # the fault that is looked for
        return "sentence" if theirs else f"{type(error).__name__}: {str(error)[:150]}"
    finally:
        _time_limit(0)
    found = list(numbers(result))
    if not call.nan and any(np.isnan(array).any() for array in found):
        return "NaN in the result"
    if not call.infinite and any(np.isinf(array).any() for array in found):
        return "an infinity in the result"
    return "another result for the same numbers" if same and _differ(usual, result, call.tolerance) else "result"


def _time_limit(seconds: float) -> None:
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_PROF, seconds)


def cases(call: Any) -> list[Change]:
    """Argument, label and maker of every single change of a call."""
    return [
        (argument, label, make)
        for argument, value in call.arguments.items()
        for label, make in variants(value, call.fields.get(argument))
        if not (argument in call.work and label in ("2**40", "1e200", "1e308"))
        and not (isinstance(value, bool) and label == "array")  # a flag is what Python calls true or false
    ]


def fuzz(name: str, *, share: float, together: int) -> tuple[list[str], int]:
    """Faults of a seeded share of all single changes, then of pairs of changes that gave a result alone; and tries."""
    call, rng = CALLS[name], np.random.default_rng(list(name.encode()))
    faults, accepted, tries = [], [], 0
    with bounded():
        usual = call.run(**arguments_of(call))

        def attempt(*changes: Change) -> str:
            nonlocal tries
            tries += 1
            if (what := outcome(call, [*changes], usual)) not in ("result", "sentence"):
                spoiled = ", ".join(f"{argument}: {label}" for argument, label, _ in changes)
                faults.append(f"{name}({spoiled}): {what}")
            return what

        for change in cases(call):
            if rng.random() < share and attempt(change) == "result":
                accepted.append(change)
        for _ in range(together if accepted else 0):
            first, second = (accepted[i] for i in rng.integers(len(accepted), size=2))
            if first[0] != second[0]:
                attempt(first, second)
    return faults, tries


def _report(found: list[str]) -> str:
    return "\n".join([f"{len(found)} faults", *found[:30]])


# -- the claims -------------------------------------------------------------------------------------------------------

GROUPS = sorted({name.split(".")[0] if "." in name.split("(")[0] else "top" for name in CALLS})
of_group = {
    group: [n for n in CALLS if (n.split(".")[0] if "." in n.split("(")[0] else "top") == group] for group in GROUPS
}
every_group = pytest.mark.parametrize("group", GROUPS)


def _refuse(x: Any) -> None:
    raise InputError(f"x must be 1, got {x}.")


def _house(package):
    return "caveat_lab" if package in ("geometry", "robust") else "caveat"


def test_no_public_name_is_forgotten():
    covered = {name for call in CALLS.values() for name in call.names}
    public = {"Outputs", "Head", "wrap"}
    for package in PACKAGES:
        public |= {f"{package}.{name}" for name in importlib.import_module(f"{_house(package)}.{package}").__all__}
    listed = covered | fuzz_calls.RECORDS | set(fuzz_calls.ELSEWHERE)
    forgotten = sorted(public - listed)
    assert not forgotten, "give each a valid call in fuzz_calls.py"
    assert not (fuzz_calls.RECORDS | set(fuzz_calls.ELSEWHERE)) - public


def test_the_valid_calls_are_valid():
    with bounded():
        for name, call in CALLS.items():
            assert call.run(**arguments_of(call)) is not None, name


@pytest.mark.parametrize(
    ("run", "what"),
    [
        (lambda x: 1 / x, "ZeroDivisionError"),
        (lambda x: np.float64(x) * np.nan, "NaN"),
        (lambda x: np.float64(np.inf), "infinity"),
        (lambda x: [None for _ in iter(int, 1)], "took more than"),
        (lambda x: np.empty(2**40), "MemoryError"),
        (lambda x: np.float64(x + 1), "another result"),
        (lambda x: np.float64(x + 0), "result"),
        (_refuse, "sentence"),
    ],
)
def test_the_oracle_sees_every_kind_of_fault(run, what):
    call = fuzz_calls.Call(run, {"x": 1}, ())
    with bounded():
        found = outcome(call, [("x", "as zero", lambda: 0)], usual=np.float64(0), seconds=0.05)
    assert what in found


@every_group
def test_one_spoiled_argument_gives_a_result_or_a_sentence(group):
    found = [line for name in of_group[group] for line in fuzz(name, share=0.2, together=10)[0]]
    assert not found, _report(found)


@pytest.mark.slow
@every_group
def test_every_spoiled_argument_and_many_pairs_give_a_result_or_a_sentence(group):
    found = [line for name in of_group[group] for line in fuzz(name, share=1.0, together=300)[0]]
    assert not found, _report(found)
