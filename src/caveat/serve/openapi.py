"""What ``/openapi.json`` says about bodies and answers, with examples that this service answers."""

from __future__ import annotations

import base64
import io
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
from fastapi import FastAPI

from caveat.serve.bodies import ARROW, AXES, EXACT, JSON, NPY, NPZ
from caveat.serve.tensors import Tensor

__all__ = ["DESCRIPTION", "GUARD", "HEALTH", "LIVE", "METRICS", "READY", "answered", "binary", "labels", "numbers",
           "problems", "require_key", "verdicts"]  # fmt: skip

Route = dict[str, Any]

DESCRIPTION = "Verdicts of a guard: accept, abstain or outlier, with a promise on how often they are wrong."
_ID = "1f2e3d4c-0"
_SENTENCES = {
    400: "The body is malformed or was cut.",
    401: "The key is missing or wrong.",
    403: "The key is for something else.",
    404: "The verdict, the model or the address is unknown.",
    408: "The body came too slowly.",
    409: "The verdict has another label already.",
    413: "The body is too large, or has too many rows.",
    414: "The address is too long.",
    415: "The content type is not known.",
    421: "Without a key the service answers this machine alone.",
    422: "The content is not what the guard needs.",
    429: "The service is busy; try again after Retry-After seconds.",
    503: "The service is stopping or has too many connections, or its audit trail cannot be written.",
}
_EVERYWHERE = (401, 403, 414, 421, 429, 503)
_PROBLEM = {"type": "object", "properties": {"error": {"type": "string"}}, "required": ["error"]}
_NUMBER_OR_NULL = {"type": ["number", "null"]}
_COUNT = {"type": "integer", "minimum": 0}
_P_VALUE = {"type": "number", "minimum": 0, "maximum": 1}
_KINDS = ["accept", "abstain", "outlier"]
_VERDICT = {
    "type": "object",
    "properties": {
        "id": {"type": "string"},
        "kind": {"enum": _KINDS},
        "prediction": {"type": ["integer", "null"]},
        "score": _NUMBER_OR_NULL,
        "p_value": _P_VALUE,
        "conditional_p_value": _P_VALUE,
        "set": {"type": ["array", "null"], "items": {"type": "integer"}},
        "reason": {"type": "string"},
        "prediction_name": {"type": ["string", "null"], "description": "Where the guard has class names."},
        "set_names": {"type": ["array", "null"], "items": {"type": "string"}},
    },
    "required": ["id", "kind", "prediction", "score", "p_value", "conditional_p_value", "set", "reason"],
}
_ANSWER = {
    "type": "object",
    "properties": {"guard": {"type": "string"}, "verdicts": {"type": "array", "items": _VERDICT}},
    "required": ["guard", "verdicts"],
}
_ANSWERED = {
    "guard": "9c41d2...",
    "verdicts": [
        {"id": _ID, "kind": "accept", "prediction": 3, "score": -7.21, "p_value": 0.61, "conditional_p_value": 0.66,
         "set": [3], "reason": "Like the calibration data. Possible classes: 3."},
    ],
}  # fmt: skip


def problems(*statuses: int) -> dict[int | str, Any]:
    """Answers other than success: a status with one sentence. Those that every address may give are included."""
    return {status: {"description": _SENTENCES[status], "content": {JSON: {"schema": _PROBLEM}}}
            for status in sorted({*_EVERYWHERE, *statuses})}  # fmt: skip


def answered(schema: dict[str, Any], example: Any, *, description: str) -> dict[int | str, Any]:
    """A success with its schema and an example."""
    return {200: {"description": description, "content": {JSON: {"schema": schema, "example": example}}}}


def binary(content: bytes, command: str) -> dict[str, Any]:
    """A body of bytes: JSON cannot hold them, so that the example has them as base64 in its description."""
    text = f"{command} As base64: {base64.b64encode(content).decode()}"
    return {"schema": {"type": "string", "format": "binary"}, "examples": {"rows": {"summary": command,
                                                                                   "description": text}}}  # fmt: skip


def require_key(app: FastAPI, open_paths: Collection[str]) -> None:
    """Say in the schema that all addresses but these need the key."""
    plain = app.openapi

    def openapi() -> dict[str, Any]:
        schema = plain()
        schemes = schema.setdefault("components", {}).setdefault("securitySchemes", {})
        schemes["key"] = {"type": "http", "scheme": "bearer"}
        for path, operations in schema["paths"].items():
            for operation in operations.values():
                operation["security"] = [] if path in open_paths else [{"key": []}]
        return schema

    app.openapi = openapi  # type: ignore[method-assign]


def _body(content: dict[str, Any]) -> dict[str, Any]:
    return {"requestBody": {"required": True, "content": content}}


def verdicts(inputs: Sequence[Tensor], most_rows: int) -> Route:
    """``POST /v1/verdicts`` of a service that needs these arrays, with so many rows at most."""
    shapes = {tensor.name: tensor.shape for tensor in inputs}
    rows = {name: np.zeros([1, *(size if size > 0 else 3 for size in shape[1:])], dtype=np.float32)
            for name, shape in shapes.items()}  # fmt: skip
    content: dict[str, Any] = {
        JSON: {
            "schema": {
                "type": "object",
                "properties": {name: numbers(shape, most_rows) for name, shape in shapes.items()},
                "required": list(rows),
                "additionalProperties": {
                    "anyOf": [numbers([-1] * axes, most_rows) for axes in range(1, AXES + 1)],
                    "description": "Other arrays of numbers are left out.",
                },
            },
            "example": {name: array.tolist() for name, array in rows.items()},
        },
        NPZ: binary(_saved(np.savez, **rows), "The bytes that numpy.savez(file, name=array, ...) writes."),
    }
    if len(rows) == 1:
        content[NPY] = binary(_saved(np.save, *rows.values()), "The bytes that numpy.save(file, array) writes.")
    stream = _arrow(rows) if all(array.ndim <= 2 for array in rows.values()) else b""  # a column is numbers or lists
    if stream:
        content[ARROW] = binary(stream, "The bytes that pyarrow.ipc.new_stream writes: a column of lists per array.")
    return {
        "responses": answered(_ANSWER, _ANSWERED, description="A verdict per row, in the order of the rows.")
        | problems(400, 408, 413, 415, 422, 429),
        "openapi_extra": _body(content),
    }


def numbers(shape: Sequence[int], most_rows: int | None = None) -> dict[str, Any]:
    """An array of this shape as nested lists; an axis of size -1 has any size from 1 on, all rows the same one."""
    schema: dict[str, Any] = {"type": "number", "minimum": -EXACT, "maximum": EXACT}
    for axis, size in reversed(list(enumerate(shape))):
        sizes = {"minItems": size, "maxItems": size} if size > 0 else {"minItems": 1}
        schema = {
            "type": "array",
            "items": schema,
            **sizes,
            **({"maxItems": most_rows} if most_rows and axis == 0 else {}),
        }
    return schema


def _saved(save: Any, *arrays: Any, **named: Any) -> bytes:
    stream = io.BytesIO()
    save(stream, *arrays, **named)
    return stream.getvalue()


def _arrow(rows: Mapping[str, Any]) -> bytes:
    """The rows as an Arrow stream; nothing where pyarrow is not installed, and then none is read either."""
    try:
        import pyarrow as pa
    except ImportError:
        return b""
    table = pa.table({name: array.tolist() for name, array in rows.items()})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def labels(n_classes: int | None, names: tuple[str, ...], most: int) -> Route:
    """``POST /v1/labels`` of a guard with this many classes (None: not known) and their names, with so many at most."""
    number: dict[str, Any] = {"type": "integer", "minimum": 0, "maximum": (n_classes or 2**31) - 1}
    label = {
        "type": "object",
        "properties": {
            "id": {"type": "string"},
            "label": {"anyOf": [number, {"type": "string", "enum": list(names)}]} if names else number,
        },
        "required": ["id", "label"],
    }
    schema = {
        "type": "object",
        "properties": {"labels": {"type": "array", "minItems": 1, "maxItems": most, "items": label}},
        "required": ["labels"],
    }
    counts = {
        "type": "object",
        "properties": {"recorded": _COUNT, "repeated": _COUNT},
        "required": ["recorded", "repeated"],
    }
    return {
        "responses": answered(counts, {"recorded": 1, "repeated": 0},
                              description="How many labels are new, and how many had been sent before.")
        | problems(400, 404, 408, 409, 413, 415, 422, 429),
        "openapi_extra": _body({JSON: {"schema": schema, "example": {"labels": [{"id": _ID, "label": 1}]}}}),
    }  # fmt: skip


_PROMISE = {
    "type": "object",
    "properties": {"what": {"type": "string"}, "holds": {"type": "boolean"}, "text": {"type": "string"}},
    "required": ["what"],
}
GUARD: Route = {
    "responses": answered(
        {
            "type": "object",
            "properties": {
                "fingerprint": {"type": "string"},
                "name": {"type": "string"},
                "version": {"type": "string"},
                "fields": {"type": "object"},
                "promises": {"type": "array", "items": _PROMISE},
                "class_names": {"type": ["array", "null"], "items": {"type": "string"}},
            },
            "required": ["fingerprint", "name", "version", "fields", "promises"],
        },
        {"fingerprint": "9c41d2...", "name": "guard", "version": "0.2.0", "fields": {"logits": 10}, "promises": []},
        description="The guard and what it promises.",
    )
    | problems(),
}
_COUNTS = {"type": "object", "properties": dict.fromkeys(_KINDS, _COUNT), "required": _KINDS}
LIVE: Route = {
    "responses": answered(
        {
            "type": "object",
            "properties": {
                "rows": _COUNT,
                "counts": _COUNTS,
                "drift": {
                    "type": "object",
                    "properties": {"alpha": {"type": "number"}, "streams": {"type": "array"}},
                    "required": ["alpha", "streams"],
                },
                "last": {"type": "array", "maxItems": 20},
                "alarms": {"type": "array", "items": {"type": "string"}},
                "queue": {"type": "object", "properties": {"depth": _COUNT, "limit": _COUNT}},
            },
            "required": ["rows", "counts", "drift", "last", "alarms", "audit", "queue"],
        },
        {
            "rows": 0,
            "counts": {"accept": 0, "abstain": 0, "outlier": 0},
            "drift": {"alpha": 0.01, "streams": []},
            "last": [],
            "alarms": [],
            "audit": {"kind": "sqlite", "records": 1},
            "queue": {"depth": 0, "limit": 64},
        },
        description="What the page at / shows.",
    )
    | problems(),
}
_STATUS = {"type": "object", "properties": {"status": {"type": "string"}}, "required": ["status"]}
_HEALTH_PROBLEMS = {status: problem for status, problem in problems().items() if status not in (401, 403, 429)}
HEALTH: Route = {
    "responses": answered(_STATUS, {"status": "ok"}, description="The process answers.") | _HEALTH_PROBLEMS
}
READY: Route = {
    "responses": answered(_STATUS, {"status": "ready"}, description="Verdicts can be given and recorded.")
    | _HEALTH_PROBLEMS
}
METRICS: Route = {
    "responses": {
        200: {
            "description": "Metrics for Prometheus.",
            "content": {"text/plain": {"schema": {"type": "string"}, "example": "caveat_queue_depth 0.0\n"}},
        }
    }
    | problems(),
}
