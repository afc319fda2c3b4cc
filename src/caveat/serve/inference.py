"""The addresses of the Open Inference Protocol (``/v2``): clients of KServe and Triton get verdicts.

Inputs are named as the fields of ``Outputs`` (or as the inputs of the model in front), outputs as the entries of a
verdict. The version of the model is the beginning of the guard's fingerprint, so that a client can insist on a guard.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import orjson
from fastapi import FastAPI, Request, Response

from caveat import __version__
from caveat.guard import Verdicts
from caveat.outputs.outputs import LAYER
from caveat.serve.bodies import AXES, JSON, MEMBERS
from caveat.serve.engine import Arrays, Engine
from caveat.serve.gate import Body
from caveat.serve.openapi import answered, numbers, problems
from caveat.serve.problems import Problem
from caveat.serve.settings import Limits
from caveat.serve.tensors import DATATYPES, InferenceRequest, Tensor, packed_answer, read_request
from caveat.serve.trail import RowIds

__all__ = ["add_inference_routes"]

BINARY = "application/octet-stream"
_LENGTH = "Inference-Header-Content-Length"
_VERSION_DIGITS = 12  # of the fingerprint
_EXAMPLE = 4096  # numbers in an example of a request
_OUTPUTS = {"id": "BYTES", "kind": "BYTES", "prediction": "INT64", "score": "FP64", "p_value": "FP64",
            "conditional_p_value": "FP64", "set": "BYTES", "reason": "BYTES"}  # fmt: skip


def add_inference_routes(app: FastAPI, engine: Engine, bodies: Body, limits: Limits) -> None:
    """Add the addresses under ``/v2``.

    Parameters
    ----------
    app
        The application.
    engine
        Gives the verdicts.
    bodies
        Reads bodies within the limits.
    limits
        What clients may send.
    """
    version, outputs = engine.guard.fingerprint[:_VERSION_DIGITS], _outputs(engine)
    head = {"model_name": engine.name, "model_version": version}
    server = orjson.dumps({"name": "caveat", "version": __version__, "extensions": ["binary_tensor_data"]})
    facts = {"name": engine.name, "versions": [version], "platform": _platform(engine),
             "inputs": [tensor.to_dict() for tensor in engine.inputs],
             "outputs": [tensor.to_dict() for tensor in outputs]}  # fmt: skip

    async def metadata() -> Response:
        """Say what serves here, and which extensions of the protocol it knows."""
        return Response(server, media_type=JSON)

    async def live() -> Response:
        """Say that the process answers."""
        return Response(b'{"live":true}', media_type=JSON)

    async def ready() -> Response:
        """Say whether verdicts can be given and recorded."""
        _check_ready(engine)
        return Response(b'{"ready":true}', media_type=JSON)

    async def model_metadata(request: Request) -> Response:
        """Describe inputs and outputs of the guard, or of the model in front and the guard."""
        _check_model(request, engine.name, version)
        return Response(orjson.dumps(facts), media_type=JSON)

    async def model_ready(request: Request) -> Response:
        """Say whether this model can give verdicts."""
        _check_model(request, engine.name, version)
        _check_ready(engine)
        return Response(orjson.dumps({"name": engine.name, "ready": True}), media_type=JSON)

    async def infer(request: Request) -> Response:
        """Give a verdict on each row, as tensors. It is recorded before it is answered."""
        _check_model(request, engine.name, version)
        _check_type(request)
        body = await bodies.read(request.headers, request.receive)
        try:
            engine.admit()
            try:
                asked: list[InferenceRequest] = []

                def read() -> Arrays:
                    asked.append(
                        read_request(body, request.headers.get(_LENGTH), reads=engine.reads, most=limits.body_bytes,
                                     outputs=[tensor.name for tensor in outputs])
                    )  # fmt: skip
                    return asked[0].arrays

                return await engine.verdicts(read, partial(_answer, request, head, asked))
            finally:
                engine.leave()
        finally:
            bodies.release(len(body))

    app.add_api_route("/v2", metadata, **_SERVER)
    app.add_api_route("/v2/health/live", live, **_health("live", "The process answers."))
    app.add_api_route("/v2/health/ready", ready, **_health("ready", "Verdicts can be given and recorded."))
    is_ready = {"name": engine.name, "ready": True}
    names = {"name": engine.name}
    for path in ("/v2/models/{name}", "/v2/models/{name}/versions/{version}"):
        app.add_api_route(path, model_metadata, **_described(names, _METADATA, facts, "Inputs and outputs."))
        app.add_api_route(f"{path}/ready", model_ready, **_described(names, _READY, is_ready, "It gives verdicts."))
        app.add_api_route(f"{path}/infer", infer, methods=["POST"], **_inference(names, engine, head, limits.rows))
        names = names | {"version": version}


def _outputs(engine: Engine) -> list[Tensor]:
    """Entries of a verdict that this guard gives."""
    absent = set() if engine.fields.predicts else {"prediction"}
    absent |= {"set"} if engine.guard.sets_ is None else set()
    return [Tensor(name, datatype, (-1,)) for name, datatype in _OUTPUTS.items() if name not in absent]


def _platform(engine: Engine) -> str:
    return "caveat_guard" if engine.model is None else "onnx_onnxv1"


def _answer(
    request: Request, head: dict[str, Any], asked: list[InferenceRequest], verdicts: Verdicts, ids: RowIds
) -> Response:
    request.scope["rows"] = len(verdicts)  # for the log
    columns = {name: (_OUTPUTS[name], _column(name, verdicts, ids)) for name in asked[0].outputs}
    content, length = packed_answer(head, asked[0], columns)
    if length is None:
        return Response(content, media_type=JSON)
    return Response(content, media_type=BINARY, headers={_LENGTH: str(length)})


def _column(name: str, verdicts: Verdicts, ids: RowIds) -> Any:
    if name == "id":
        return list(ids)
    if name == "set":
        return [f"[{','.join(map(str, labels))}]" for labels in verdicts.label_lists()]
    if name == "reason":
        return verdicts.reasons
    arrays = {"kind": verdicts.kind, "prediction": verdicts.predictions, "score": verdicts.score,
              "p_value": verdicts.p_values, "conditional_p_value": verdicts.conditional_p_values}  # fmt: skip
    return np.asarray(arrays[name])


# -- checks -----------------------------------------------------------------------------------------------------------


def _check_model(request: Request, name: str, version: str) -> None:
    asked = request.path_params
    if asked["name"] != name:
        raise Problem(404, f"unknown model {asked['name'][:100]!r}. This service has {name!r}.")
    if asked.get("version", version) != version:
        raise Problem(404, f"unknown version {asked['version'][:100]!r} of {name!r}. This service has {version!r}.")


def _check_ready(engine: Engine) -> None:
    if engine.failure:
        raise Problem(503, f"the audit trail cannot be written ({engine.failure}).")


def _check_type(request: Request) -> None:
    """Clients of Triton send no content type; a page of another site may send one of three others unasked, or none."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind not in (JSON, BINARY, "") or (not kind and "origin" in request.headers):
        raise Problem(415, f"the content type must be {JSON} or {BINARY}, got {kind[:100] or 'none'!r}.")


# -- what /openapi.json says ------------------------------------------------------------------------------------------

_TEXT = {"type": "string"}
_TENSOR = {
    "type": "object",
    "properties": {"name": _TEXT, "datatype": _TEXT, "shape": {"type": "array", "items": {"type": "integer"}}},
    "required": ["name", "datatype", "shape"],
}
_METADATA = {
    "type": "object",
    "properties": {"name": _TEXT, "versions": {"type": "array", "items": _TEXT}, "platform": _TEXT,
                   "inputs": {"type": "array", "items": _TENSOR}, "outputs": {"type": "array", "items": _TENSOR}},
    "required": ["name", "platform", "inputs", "outputs"],
}  # fmt: skip
_READY = {"type": "object", "properties": {"name": _TEXT, "ready": {"type": "boolean"}}, "required": ["name", "ready"]}
_SIZE = {"type": "integer", "minimum": 1}
_ANSWER = {
    "type": "object",
    "properties": {"model_name": _TEXT, "model_version": _TEXT, "id": _TEXT,
                   "outputs": {"type": "array", "items": _TENSOR}},
    "required": ["model_name", "outputs"],
}  # fmt: skip
_SERVER: dict[str, Any] = {
    "responses": answered(
        {"type": "object", "properties": {"name": _TEXT, "version": _TEXT, "extensions": {"type": "array"}},
         "required": ["name", "version", "extensions"]},
        {"name": "caveat", "version": __version__, "extensions": ["binary_tensor_data"]},
        description="What serves here.",
    )
    | problems(),
}  # fmt: skip


def _health(word: str, description: str) -> dict[str, Any]:
    schema = {"type": "object", "properties": {word: {"type": "boolean"}}, "required": [word]}
    refusals = {status: entry for status, entry in problems(503).items() if status not in (401, 403, 429)}  # open
    return {"responses": answered(schema, {word: True}, description=description) | refusals}


def _described(names: dict[str, str], schema: dict[str, Any], example: Any, description: str) -> dict[str, Any]:
    return {
        "responses": answered(schema, example, description=description) | problems(404, 503),
        "openapi_extra": {"parameters": _path_parameters(names)},
    }


def _path_parameters(names: dict[str, str]) -> list[dict[str, Any]]:
    return [{"name": name, "in": "path", "required": True, "schema": {"type": "string"}, "example": value}
            for name, value in names.items()]  # fmt: skip


def _input_schema(name: dict[str, Any], shape: Sequence[int], most_rows: int) -> dict[str, Any]:
    """An input in JSON: its numbers flat, or as nested lists."""
    sizes: list[dict[str, Any]] = [{"const": size} if size > 0 else _SIZE for size in shape]
    sizes[0] = _SIZE | {"maximum": most_rows}
    return {
        "type": "object",
        "properties": {
            "name": name,
            "datatype": {"enum": list(DATATYPES)},
            "shape": {"type": "array", "prefixItems": sizes, "items": _SIZE, "minItems": len(sizes),
                      "maxItems": len(sizes) if "const" in name else AXES},
            "parameters": _parameters("binary_data_size", "shared_memory_region", "classification"),
            "data": {"anyOf": [numbers((-1,)), numbers(shape, most_rows)]},
        },
        "required": ["name", "datatype", "shape", "data"],
    }  # fmt: skip


def _parameters(*refused: str) -> dict[str, Any]:
    flags = {key: {"type": "boolean"} for key in ("binary_data", "binary_data_output")}
    return {"type": ["object", "null"], "properties": flags | dict.fromkeys(refused, False)}


def _request_schema(engine: Engine, most_rows: int) -> dict[str, Any]:
    inputs = [_input_schema({"const": tensor.name}, tensor.shape, most_rows) for tensor in engine.inputs]
    if engine.model is None and engine.reads("probs"):  # in place of logits
        inputs.append(_input_schema({"const": "probs"}, (-1, -1), most_rows))
    if has_layers := engine.reads(LAYER):
        inputs.append(_input_schema({"type": "string", "pattern": f"^{re.escape(LAYER)}"}, (-1, -1), most_rows))
    wanted = {
        "type": "object",
        "properties": {"name": {"enum": [tensor.name for tensor in _outputs(engine)]},
                       "parameters": _parameters("shared_memory_region", "classification")},
        "required": ["name"],
    }  # fmt: skip
    count = len(engine.inputs)
    return {
        "type": "object",
        "properties": {
            "id": {"type": ["string", "null"]},
            "parameters": _parameters("shared_memory_region", "classification"),
            "outputs": {"type": "array", "items": wanted, "maxItems": len(_outputs(engine))},
            "inputs": {"type": "array", "items": {"anyOf": inputs}, "minItems": count + has_layers,
                       "maxItems": MEMBERS if has_layers else count},
        },
        "required": ["inputs"],
    }  # fmt: skip


def _inference(names: dict[str, str], engine: Engine, head: dict[str, str], most_rows: int) -> dict[str, Any]:
    sizes = {tensor: [abs(size) for size in tensor.shape] for tensor in engine.inputs}  # one row
    inputs = [{"name": tensor.name, "shape": shape, "datatype": tensor.datatype, "data": [0] * math.prod(shape)}
              for tensor, shape in sizes.items()]  # fmt: skip
    asked = {"id": "7", "inputs": inputs, "outputs": [{"name": "kind"}, {"name": "p_value"}]}
    got = {**head, "id": "7", "outputs": [
        {"name": "kind", "datatype": "BYTES", "shape": [1], "data": ["accept"]},
        {"name": "p_value", "datatype": "FP64", "shape": [1], "data": [0.61]},
    ]}  # fmt: skip
    binary = {"schema": {"type": "string", "format": "binary"}}
    responses = answered(_ANSWER, got, description="An entry per row in each output.")
    responses[200]["content"][BINARY] = binary
    length = {"name": _LENGTH, "in": "header", "required": False, "schema": {"type": "integer", "minimum": 0},
              "description": "Length of the JSON, where binary tensor data follow it."}  # fmt: skip
    text: dict[str, Any] = {"schema": _request_schema(engine, most_rows)}
    if sum(map(math.prod, sizes.values())) <= _EXAMPLE:
        text["example"] = asked
    return {
        "responses": responses | problems(400, 404, 408, 413, 415, 422, 429, 503),
        "openapi_extra": {
            "parameters": [*_path_parameters(names), length],
            "requestBody": {"required": True, "content": {JSON: text, BINARY: binary}},
        },
    }
