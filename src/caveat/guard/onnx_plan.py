"""The graph of a guard: which fields of ``Outputs`` it reads, the nodes of its gates, and its promises as metadata."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import numpy as np

from caveat._internal.checks import as_kind
from caveat._internal.rounding import SPREAD_30
from caveat.errors import InputError
from caveat.guard.domain import OUTSIDE
from caveat.guard.onnx_graph import BOOL, DOUBLE, FLOAT, INT64, Graph, Tensor, rank
from caveat.guard.onnx_scores import FORMULAS, Fields, column_of, combined
from caveat.guard.verdicts import KINDS
from caveat.outputs import Head, Outputs
from caveat.scores import Tempered

if TYPE_CHECKING:
    from caveat.guard.guard import Guard

__all__ = ["Plan", "check_exportable", "check_size", "ranked"]

_CLASS_FIELDS = {"logits", "probs", "predictions"}
AT_MOST = 2**31 - 2**20  # bytes of a protobuf message


def check_exportable(guard: Guard) -> None:
    used = (*guard.scores_, *([guard.confidence_] if guard.accept_below_ is not None else []))
    for score in used:
        if isinstance(score, Tempered):
            raise InputError(f"{score.name} at a tuned temperature cannot be exported to ONNX. Evaluate without tune=, "
                             "or divide the logits in the model.")  # fmt: skip
        if score.name not in FORMULAS:
            raise InputError(f"{score.name} cannot be exported to ONNX. These scores can: {', '.join(FORMULAS)}.")
    if guard.sets not in (None, "lac"):
        raise InputError(f"sets of {guard.sets} cannot be exported to ONNX, and verdicts depend on them: an empty set "
                         "abstains. Calibrate the guard with sets='lac' or sets=None.")  # fmt: skip


@final
@dataclass(frozen=True, eq=False)
class Plan:
    """What the graph of a guard reads: fields of ``Outputs`` with their columns (None: any number), and the head."""

    guard: Guard
    shapes: dict[str, int | None]
    head: Head | None

    @classmethod
    def of(cls, guard: Guard, head: Head | None) -> Plan:
        used = (*guard.scores_, *([guard.confidence_] if guard.accept_below_ is not None else []))
        needs = {field for score in used for field in score.needs} | ({"probs"} if guard.sets_ is not None else set())
        stored = guard.splits_["calibration"]["sha256"]
        if head is None:
            kept: Any = next((score for score in used if score.name == "react"), None)
            head = None if kept is None else Head(kept.head_weight_, kept.head_bias_)
        else:
            _check_head(as_kind(head, Head, "head", what="a caveat.Head(weight, bias)"), stored)
        if "head" in needs and head is None:
            raise InputError("the guard does not keep the head that its score reads. Give it: head=, as in Outputs, "
                             "or --head FILE.")  # fmt: skip
        shapes: dict[str, int | None] = {}
        if "features" in needs or head is not None:
            widths = [score.n_features_ for score in used if "features" in score.needs and score.fits_on]
            shapes["features"] = head.n_features if head is not None else widths[0]
        classes = next((s.n_classes_ for s in used if s.fits_on and _CLASS_FIELDS & set(s.needs)), None)
        classes = guard.domain_.columns.get("classes", classes)
        derived = "features" in stored and "head_weight" in stored  # logits, which scores prefer to probabilities
        if "probs" in stored and not derived and needs & _CLASS_FIELDS:
            shapes["probs"] = classes
        elif needs & _CLASS_FIELDS and head is None:
            shapes["logits"] = classes
        return cls(guard, shapes, head)

    @property
    def has_classes(self) -> bool:
        return bool(_CLASS_FIELDS & set(self.shapes)) or self.head is not None

    def proto(self, kinds: Mapping[str, int], opset: int, ir_version: int) -> Any:
        """The model, with inputs of these element types."""
        from onnx import checker
        from onnx.helper import make_graph, make_model, make_node, make_opsetid, make_tensor_value_info
        from onnx.numpy_helper import from_array

        graph = Graph(opset)
        inputs = {name: Tensor(graph, name) for name in self.shapes}
        fields = Fields(graph, inputs, self.head, narrow=kinds.get("features") != DOUBLE)
        results = self._results(fields, kinds)
        nodes = [*graph.nodes, *(make_node("Identity", [tensor.name], [name], name=f"caveat/{name}")
                                 for name, (tensor, _) in results.items())]  # fmt: skip
        widths = {"scores": len(self.guard.scores_)}
        if self.guard.sets_ is not None:
            widths["set"] = self.guard.sets_.n_classes_
        check_size(sum(array.nbytes for _, array in graph.stored.values()))
        proto = make_model(
            make_graph(
                nodes, "caveat_guard",
                [make_tensor_value_info(name, kinds[name], ["n", width or "C"]) for name, width in self.shapes.items()],
                [make_tensor_value_info(name, kind, ["n", widths[name]] if name in widths else ["n"])
                 for name, (_, kind) in results.items()],
                initializer=[from_array(np.asarray(array, order="C"), name) for name, array in graph.stored.values()],
            ),
            opset_imports=[make_opsetid("", opset)], ir_version=ir_version, producer_name="caveat",
            producer_version=_version(),
        )  # fmt: skip
        for key, value in self._metadata(results).items():
            proto.metadata_props.add(key=f"caveat.{key}", value=value)
        checker.check_model(proto)
        return proto

    def _results(self, fields: Fields, kinds: Mapping[str, int]) -> dict[str, tuple[Tensor, int]]:
        """Name -> tensor and its type, of every output."""
        guard, graph = self.guard, fields.graph
        columns = [column_of(score, fields) for score in guard.scores_]
        score = combined(guard.statistic_, columns) + fields.not_finite()
        outside = fields.not_probabilities()
        if outside is not None:
            score = outside.where(OUTSIDE, score)
        results = ranked(guard, score) | {"score": (score, DOUBLE)}
        if len(columns) > 1:
            results["scores"] = graph.op("Concat", *columns, axis=1), DOUBLE
        stops = []  # of the second gate
        if guard.accept_below_ is not None:
            doubt = column_of(guard.confidence_, fields).flat()
            results["doubt"] = doubt, DOUBLE
            stops.append(graph.op("Not", doubt < guard.accept_below_))
        if guard.sets_ is not None:
            member = self._member(fields, kinds)
            results["set"] = member, BOOL
            stops.append(member.cast(DOUBLE).sum().flat() < 0.5)
        kind = graph.integers(0)
        for stop in stops:
            kind = stop.where(graph.integers(1), kind)
        limit = min(guard.threshold_, OUTSIDE)  # below infinity: rows outside are outliers even without a threshold
        outlier = graph.op("Not", score < limit)  # not >=, so that NaN is an outlier
        results["kind"] = outlier.where(graph.integers(2), kind), INT64
        if self.has_classes:
            results["prediction"] = graph.op("ArgMax", fields.classes, axis=1, keepdims=0), INT64
        order = ("kind", "p_value", "conditional_p_value", "score", "scores", "doubt", "prediction", "set")
        return {name: results[name] for name in order if name in results}

    def _member(self, fields: Fields, kinds: Mapping[str, int]) -> Tensor:
        """LAC sets (n, C). Probabilities in the float type of the guard: a sure row has p = 1 in float32 only."""
        source = next((name for name in ("probs", "logits") if name in fields.inputs), "features")
        wide = source == "features" and fields.head is not None and fields.head.weight.dtype == np.float64
        kind = DOUBLE if wide or kinds[source] == DOUBLE else FLOAT
        if "probs" in fields.inputs:
            p = fields.inputs["probs"].cast(kind)
        else:
            weights = (fields.logits - fields.logits.max()).exp()
            p = (weights / weights.sum()).cast(kind)
        if kind == DOUBLE:  # to_digits
            spread = p * SPREAD_30
            p = spread - (spread - p)
        assert self.guard.sets_ is not None
        return fields.graph.op("Not", p.cast(DOUBLE) < -float(self.guard.sets_._cuts[0]))

    def _metadata(self, results: Mapping[str, Any]) -> dict[str, str]:
        guard = self.guard
        left_out = {}
        if "prediction" not in results:
            left_out["prediction"] = "no score of the guard reads logits"
        if "set" not in results:
            left_out["set"] = "the guard has no sets"
        return {
            "version": _version(), "fingerprint": guard.fingerprint, "calibrated_at": guard.calibrated_at_,
            "calibration_rows": str(guard.calibration_scores_.size), "threshold": repr(float(guard.threshold_)),
            "kinds": json.dumps(KINDS), "promises": json.dumps([promise.to_dict() for promise in guard.promises]),
            "settings": json.dumps(guard.settings()), "left_out": json.dumps(left_out),
            "class_names": json.dumps(guard.class_names_),
        }  # fmt: skip


def check_size(size: int) -> None:
    """Refuse what a protobuf message cannot hold."""
    if size > AT_MOST:
        raise InputError(
            f"the file would have {size / 1e9:.1f} GB, and an ONNX file holds 2 GB. Fit knn on fewer rows."
        )


def ranked(guard: Guard, score: Tensor) -> dict[str, tuple[Tensor, int]]:
    """P-values from the rank of the score; NaN for NaN."""
    graph, n = score.graph, guard.calibration_scores_.size
    below = rank(guard.calibration_scores_, score)
    unknown = graph.op("IsNaN", score)
    marginal = (graph.integers(n + 1) - below).cast(DOUBLE) / float(n + 1)
    conditional = graph.constant(guard._band.upper_at(np.arange(n, -1, -1))).at(below)
    return {
        "p_value": (unknown.where(np.nan, marginal), DOUBLE),
        "conditional_p_value": (unknown.where(np.nan, conditional), DOUBLE),
    }


def _check_head(head: Head, stored: Mapping[str, str]) -> None:
    """The head must be that of the calibration rows, where they had one."""
    from caveat.guard.guard import _fingerprints

    own = _fingerprints(Outputs(features=np.zeros((1, head.n_features)), head=head))["sha256"]
    if any(key in stored and stored[key] != own[key] for key in ("head_weight", "head_bias")):
        raise InputError("head is not the head of the calibration rows. Pass the one that they had.")


def _version() -> str:
    from caveat import __version__

    return __version__
