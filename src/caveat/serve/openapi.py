"""What ``/openapi.json`` says about bodies and answers, with examples."""

from __future__ import annotations

from typing import Any

from caveat.serve.bodies import ARROW, JSON, NPY, NPZ

__all__ = ["DESCRIPTION", "GUARD", "HEALTH", "LABELS", "LIVE", "METRICS", "READY", "VERDICTS", "problems"]

Route = dict[str, Any]

DESCRIPTION = "Verdicts of a guard: accept, abstain or outlier, with a promise on how often they are wrong."
_ID = "1f2e3d4c-0"
_SENTENCES = {
    400: "The body is malformed or was cut.",
    401: "The key is missing or wrong.",
    404: "There is no such verdict.",
    408: "The body came too slowly.",
    409: "The verdict has another label already.",
    413: "The body is too large.",
    415: "The content type is not known.",
    422: "The content is not what the guard needs.",
    429: "The service is busy; try again after Retry-After seconds.",
    503: "The audit trail cannot be written, so nothing is answered.",
}
_PROBLEM = {"type": "object", "properties": {"error": {"type": "string"}}, "required": ["error"]}
_NUMBER_OR_NULL = {"type": ["number", "null"]}
_VERDICT = {
    "type": "object",
    "properties": {
        "id": {"type": "string"},
        "kind": {"enum": ["accept", "abstain", "outlier"]},
        "prediction": {"type": ["integer", "null"]},
        "score": _NUMBER_OR_NULL,
        "p_value": {"type": "number"},
        "conditional_p_value": {"type": "number"},
        "set": {"type": ["array", "null"], "items": {"type": "integer"}},
        "reason": {"type": "string"},
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
_ROWS = {"type": "array", "items": {"type": "array", "items": {"type": "number"}}, "minItems": 1}
_BINARY = {"schema": {"type": "string", "format": "binary"}}


def problems(*statuses: int) -> dict[int | str, Any]:
    """Answers other than success: a status with one sentence."""
    return {status: {"description": _SENTENCES[status], "content": {JSON: {"schema": _PROBLEM}}}
            for status in (401, *statuses)}  # fmt: skip


def answered(schema: dict[str, Any], example: Any, *, description: str) -> dict[int | str, Any]:
    """A success with its schema and an example."""
    return {200: {"description": description, "content": {JSON: {"schema": schema, "example": example}}}}


def _body(content: dict[str, Any]) -> dict[str, Any]:
    return {"requestBody": {"required": True, "content": content}}


VERDICTS: Route = {
    "responses": answered(_ANSWER, _ANSWERED, description="A verdict per row, in the order of the rows.")
    | problems(400, 408, 413, 415, 422, 429, 503),
    "openapi_extra": _body(
        {
            JSON: {
                "schema": {"type": "object", "additionalProperties": _ROWS, "minProperties": 1},
                "example": {"logits": [[4.2, 0.1, -1.0]]},
            },
            NPY: _BINARY,
            NPZ: _BINARY,
            ARROW: _BINARY,
        }
    ),
}
LABELS: Route = {
    "responses": answered(
        {"type": "object", "properties": {"recorded": {"type": "integer"}, "repeated": {"type": "integer"}},
         "required": ["recorded", "repeated"]},
        {"recorded": 1, "repeated": 0},
        description="How many labels are new, and how many had been sent before.",
    )
    | problems(400, 404, 408, 409, 413, 415, 422, 429, 503),
    "openapi_extra": _body(
        {
            JSON: {
                "schema": {
                    "type": "object",
                    "properties": {
                        "labels": {
                            "type": "array",
                            "minItems": 1,
                            "items": {
                                "type": "object",
                                "properties": {
                                    "id": {"type": "string"},
                                    "label": {"type": "integer", "minimum": 0, "maximum": 2**31 - 1},
                                },
                                "required": ["id", "label"],
                            },
                        }
                    },
                    "required": ["labels"],
                },
                "example": {"labels": [{"id": _ID, "label": 3}]},
            }
        }
    ),
}  # fmt: skip
GUARD: Route = {
    "responses": answered({"type": "object", "required": ["fingerprint", "promises"]},
                          {"fingerprint": "9c41d2...", "calibrated_at": "2026-11-02", "promises": []},
                          description="The guard and what it promises.") | problems(),
}  # fmt: skip
LIVE: Route = {
    "responses": answered({"type": "object", "required": ["rows", "counts", "drift", "last"]},
                          {"rows": 0, "counts": {"accept": 0, "abstain": 0, "outlier": 0}},
                          description="What the page at / shows.") | problems(),
}  # fmt: skip
_STATUS = {"type": "object", "properties": {"status": {"type": "string"}}, "required": ["status"]}
HEALTH: Route = {"responses": answered(_STATUS, {"status": "ok"}, description="The process answers.")}
_NOT_READY = {503: {"description": _SENTENCES[503], "content": {JSON: {"schema": _PROBLEM}}}}
READY: Route = {
    "responses": answered(_STATUS, {"status": "ready"}, description="Verdicts can be given and recorded.") | _NOT_READY
}
METRICS: Route = {
    "responses": {200: {"description": "Metrics for Prometheus.", "content": {"text/plain": {}}}} | problems(),
}
