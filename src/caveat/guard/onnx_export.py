"""A guard as an ONNX file: the score, its rank among the calibration scores, the p-value and the verdict in one graph.

Given the score, p-values and verdicts are those of the guard bit for bit: the same table, the same comparisons. The
score is computed in float64 and rounded as the guard rounds it, so that the two are equal but for a chance of about
1e-7. All of it is checked with onnxruntime before the file is written. A row with NaN or infinity, which the guard
refuses, gets the score NaN, the p-value NaN and the verdict outlier: a graph cannot refuse.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, final

import numpy as np
from numpy.typing import NDArray

from caveat._internal.checks import check_known
from caveat._internal.files import replacing_file
from caveat._internal.streams import stream
from caveat.conformal import p_values
from caveat.errors import CaveatError, InputError, MissingExtraError
from caveat.guard.onnx_compose import compose, read_model, sources_in
from caveat.guard.onnx_graph import DOUBLE, FLOAT, Graph, Tensor
from caveat.guard.onnx_plan import Plan, check_exportable, check_size, ranked
from caveat.guard.statistic import combined
from caveat.outputs import Head, Outputs

if TYPE_CHECKING:
    from caveat.guard.guard import Guard

__all__ = ["OnnxExport", "export_onnx"]

_OPSET, _IR = 17, 8  # of a file of our own: read by onnxruntime 1.12 and later
_ROWS = 192  # drawn to compare the graph with the guard
_AGREE = 2.0**-23  # largest difference of scores, relative to the largest score drawn: one step of their rounding


@final
@dataclass(frozen=True)
class OnnxExport:
    """What was written, and how closely it agrees with the guard.

    Parameters
    ----------
    path, size
        The file and its bytes.
    inputs, outputs
        Names in the file.
    rows
        How many drawn rows were compared.
    difference
        Largest difference between the scores of the graph and those of the guard on the same rows; of combined scores,
        before they are combined. Both are rounded, so that it is 0, or rarely one step of the rounding.
    """

    path: Path
    size: int
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    rows: int
    difference: float


def export_onnx(
    guard: Guard,
    path: str | os.PathLike[str],
    *,
    model: str | os.PathLike[str] | None = None,
    outputs: Mapping[str, str] | None = None,
    head: Head | None = None,
    dtype: Literal["float32", "float64"] = "float32",
) -> OnnxExport:
    """Write a calibrated guard as ONNX; ``Guard.export_onnx`` documents the parameters."""
    try:
        import onnx  # noqa: F401
        import onnxruntime  # noqa: F401
    except ImportError as error:
        raise MissingExtraError("Guard.export_onnx", extra="onnx") from error
    check_known(dtype, ("float32", "float64"), "dtype")
    check_exportable(guard)
    plan = Plan.of(guard, head)
    kinds = dict.fromkeys(plan.shapes, FLOAT if dtype == "float32" else DOUBLE)
    if model is None:
        if outputs is not None:
            raise InputError("outputs maps fields to tensors of model=, which is None. Give the path of the model.")
        proto = plan.proto(kinds, _OPSET, _IR)
        difference = _verified(plan, proto, kinds)
    else:
        parent = read_model(model)
        sources = sources_in(parent, plan.shapes, outputs)
        kinds = {field: source.kind for field, source in sources.items()}
        part = plan.proto(kinds, parent.opset, parent.proto.ir_version)
        difference = _verified(plan, part, kinds)
        proto = compose(parent, sources, part)
    size = proto.ByteSize()
    check_size(size)
    session = _session(proto)  # also a composed file must at least load
    with replacing_file(path) as temporary:
        temporary.write_bytes(proto.SerializeToString())
    names = tuple(value.name for value in session.get_inputs()), tuple(value.name for value in session.get_outputs())
    return OnnxExport(Path(path), size, *names, rows=_ROWS, difference=difference)


# -- comparison with the guard ----------------------------------------------------------------------------------------


def _session(proto: Any) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4  # the library never prints
    try:
        return onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime has no common base class for its errors
        raise InputError(f"onnxruntime cannot run the composed file ({error}).") from None


def _verified(plan: Plan, proto: Any, kinds: Mapping[str, int]) -> float:
    """Largest difference of the score; raise where the graph and the guard disagree."""
    guard = plan.guard
    _verify_ranks(guard, proto)
    rows = _drawn(plan, kinds)
    result = dict(zip((value.name for value in proto.graph.output), _session(proto).run(None, rows), strict=True))
    head = plan.head if "features" in rows and "probs" not in rows else None
    fed = Outputs(**rows, head=head, check=False)  # type: ignore[arg-type]
    score, scores = result["score"], guard.statistic_.scores
    columns = result.get("scores", score[:, None]).T
    if len(scores) > 1:  # given its parts, the statistic is the same to the last bit
        _demand(
            np.array_equal(score, combined(list(columns), guard.statistic_.references, guard.combine)), "statistics"
        )
    difference = max(_difference("scores", own, each.rounded(fed)) for own, each in zip(columns, scores, strict=True))
    outlier, abstain = score >= guard.threshold_, np.zeros(_ROWS, dtype=np.bool_)
    if guard.accept_below_ is not None:
        _difference("confidence scores", result["doubt"], guard.confidence_.rounded(fed))
        abstain |= result["doubt"] >= guard.accept_below_
    if guard.sets_ is not None:
        sets, p = guard.sets_.predict(fed).member, np.asarray(fed.probs, dtype=np.float64)
        close = np.abs(p + guard.sets_._cuts[0]) <= (1e-9 if set(kinds.values()) == {DOUBLE} else 1e-6)
        _demand(bool(((result["set"] == sets) | close).all()), "prediction sets")
        abstain |= ~result["set"].any(axis=1)
    kind = np.where(outlier, 2, np.where(abstain, 1, 0))
    _demand(np.array_equal(result["kind"], kind), "verdicts")
    _demand(np.array_equal(result["p_value"], p_values(calibration=guard.calibration_scores_, test=score)), "p-values")
    return difference


def _verify_ranks(guard: Guard, proto: Any) -> None:
    """P-values on the calibration scores themselves, right below and above each, and at the ends, bit for bit."""
    from onnx.helper import make_graph, make_model, make_tensor_value_info
    from onnx.numpy_helper import from_array

    graph = Graph(next(entry.version for entry in proto.opset_import))
    results = ranked(guard, Tensor(graph, "score"))
    outputs = [make_tensor_value_info(tensor.name, kind, ["n"]) for tensor, kind in results.values()]
    stored = [from_array(np.asarray(array, order="C"), name) for name, array in graph.stored.values()]
    inputs = [make_tensor_value_info("score", DOUBLE, ["n"])]
    alone = make_model(make_graph(graph.nodes, "ranks", inputs, outputs, initializer=stored),
                       opset_imports=proto.opset_import, ir_version=proto.ir_version)  # fmt: skip
    held = guard.calibration_scores_
    score = np.concatenate([held, np.nextafter(held, -np.inf), np.nextafter(held, np.inf), [-np.inf, np.inf, 0.0]])
    marginal, conditional = _session(alone).run(None, {"score": score})
    _demand(np.array_equal(marginal, p_values(calibration=held, test=score)), "p-values")
    _demand(np.array_equal(conditional, guard._band.upper(score)), "conditional p-values")


def _drawn(plan: Plan, kinds: Mapping[str, int]) -> dict[str, NDArray[Any]]:
    """Random rows: near what the scores learned and far from it, a third of them with zeros as after a ReLU."""
    from onnx.helper import tensor_dtype_to_np_dtype

    guard, rng = plan.guard, stream(0, "onnx rows")
    spread = np.repeat([0.3, 1.0, 5.0], _ROWS // 3)[:, None]
    seen = guard.watched_.get("class")
    rows: dict[str, NDArray[Any]] = {}
    for field, width in plan.shapes.items():
        columns = width or (2 if seen is None else max(2, int(seen.max()) + 1))
        values = spread * rng.normal(size=(_ROWS, columns))
        if field == "features":
            values = _like_training(guard, rng, values)
            values[::3] = np.maximum(values[::3], 0)
        if field == "probs":
            values = np.exp(values - values.max(axis=1, keepdims=True))
            values /= values.sum(axis=1, keepdims=True)
        rows[field] = values.astype(tensor_dtype_to_np_dtype(kinds[field]))
    return rows


def _like_training(guard: Guard, rng: np.random.Generator, noise: NDArray[np.float64]) -> NDArray[np.float64]:
    """Noise in the place and the scale of the training rows, as far as a score has kept them."""
    for score in guard.scores_:
        kept = vars(score)
        if "bank_" in kept:
            rows = np.asarray(kept["bank_"][rng.integers(len(kept["bank_"]), size=_ROWS)], dtype=np.float64)
            return np.asarray(rows + noise * rows.std(axis=0))
        if "whitener_" in kept:
            return np.asarray(kept["centre_"] + np.linalg.solve(kept["whitener_"].T, noise.T).T)
    return noise


def _difference(what: str, ours: NDArray[np.float64], theirs: NDArray[np.float64]) -> float:
    largest = float(np.abs(ours - theirs).max())
    _demand(largest <= _AGREE * (1 + float(np.abs(theirs).max())), f"{what} (by {largest:.3g})")
    return largest


def _demand(holds: bool, what: str) -> None:
    if not holds:
        raise CaveatError(f"onnxruntime gives other {what} than the guard, so no file was written. Report this, with "
                          "the version of onnxruntime.")  # fmt: skip
