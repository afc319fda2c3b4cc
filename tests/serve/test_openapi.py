"""``/openapi.json``: complete, valid, and its examples are answered."""

from __future__ import annotations

import base64
import json

import pytest
import schemathesis
from schemathesis.core.errors import InvalidSchema

from caveat.serve import Engine, create_app, open_store, openapi
from caveat.serve.bodies import ARROW, JSON, MEDIA_TYPES, NPZ, read_arrays
from caveat.serve.tensors import Tensor

ADDRESSES = {"/v1/verdicts": "post", "/v1/labels": "post", "/v1/guard": "get", "/v1/live": "get", "/healthz": "get",
             "/readyz": "get", "/metrics": "get"}  # fmt: skip


@pytest.fixture(scope="module")
def schema(service):
    return service.client.get("/openapi.json").raise_for_status().json()


def test_every_address_is_described(schema):
    paths = {path: operations for path, operations in schema["paths"].items() if not path.startswith("/v2")}
    assert {path: next(iter(operations)) for path, operations in paths.items()} == ADDRESSES
    for operations in paths.values():
        for operation in operations.values():
            assert operation["summary"]
            assert operation["description"].endswith((".", "**"))
            for answer in operation["responses"].values():
                assert answer["description"].endswith(".")


def test_the_schema_is_valid(schema):
    try:
        schemathesis.openapi.from_dict(schema).validate()
    except InvalidSchema as error:  # pragma: no cover
        pytest.fail(str(error))
    broken = json.loads(json.dumps(schema))
    broken["paths"]["/healthz"]["get"]["responses"] = 5
    with pytest.raises(Exception, match="responses|5"):
        schemathesis.openapi.from_dict(broken).validate()


def examples(content):
    """The example of each media type as bytes."""
    for media_type, body in content.items():
        if "example" in body:
            yield media_type, json.dumps(body["example"]).encode()
        else:
            (example,) = body["examples"].values()
            yield media_type, base64.b64decode(example["description"].rpartition(" ")[2])


def test_the_example_of_every_media_type_gets_a_verdict(service, schema):
    content = schema["paths"]["/v1/verdicts"]["post"]["requestBody"]["content"]
    assert set(content) == set(MEDIA_TYPES)
    for media_type, body in examples(content):
        answer = service.client.post("/v1/verdicts", content=body, headers={"content-type": media_type})
        assert (answer.status_code, len(answer.json()["verdicts"])) == (200, 1), media_type


def test_examples_have_the_arrays_and_widths_of_the_guard():
    inputs = [
        Tensor("features", "FP32", (-1, 8)),
        Tensor("logits", "FP32", (-1, -1)),
        Tensor("image", "FP32", (-1, 2, 4)),
    ]
    content = openapi.verdicts(inputs)["openapi_extra"]["requestBody"]["content"]
    assert set(content) == {JSON, NPZ}  # an array of npy has no name, and a column of Arrow holds no images
    for media_type, body in examples(content):
        arrays = read_arrays(body, media_type, field="", most=10_000)
        shapes = {name: array.shape for name, array in arrays.items()}
        assert shapes == {"features": (1, 8), "logits": (1, 3), "image": (1, 2, 4)}
    image = content[JSON]["schema"]["properties"]["image"]["items"]["items"]
    assert image == {"type": "array", "items": {"type": "number"}, "minItems": 4, "maxItems": 4}


def test_the_example_of_labels_is_read(service, schema):
    content = schema["paths"]["/v1/labels"]["post"]["requestBody"]["content"]
    ((media_type, body),) = examples(content)
    answer = service.client.post("/v1/labels", content=body, headers={"content-type": media_type})
    assert answer.status_code == 404  # its id is that of another service


def test_without_pyarrow_no_arrow_is_promised(monkeypatch):
    assert ARROW in openapi.verdicts([Tensor("logits", "FP32", (-1, 3))])["openapi_extra"]["requestBody"]["content"]
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    assert ARROW not in openapi.verdicts([Tensor("logits", "FP32", (-1, 3))])["openapi_extra"]["requestBody"]["content"]


@pytest.mark.parametrize("key", [None, "0123456789abcdef"])
def test_the_key_is_in_the_schema_where_there_is_one(logit_guard, tmp_path, key):
    engine = Engine(logit_guard, open_store(str(tmp_path / "audit.sqlite")))
    try:
        schema = create_app(engine, key=key).app.openapi()
    finally:
        engine.close()
    guarded = {path for path in ADDRESSES if next(iter(schema["paths"][path].values())).get("security")}
    assert guarded == (set() if key is None else set(ADDRESSES) - {"/healthz", "/readyz"})
    assert ("securitySchemes" in schema.get("components", {})) == (key is not None)
