"""``/openapi.json``: complete, valid, and its examples are answered."""

from __future__ import annotations

import base64
import json

import pytest
import schemathesis
from jsonschema_rs import Draft202012Validator
from schemathesis.core.errors import InvalidSchema

from caveat.serve import Engine, Keys, create_app, open_store, openapi
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
    content = openapi.verdicts(inputs, 100)["openapi_extra"]["requestBody"]["content"]
    assert set(content) == {JSON, NPZ}  # an array of npy has no name, and a column of Arrow holds no images
    for media_type, body in examples(content):
        arrays = read_arrays(body, media_type, field="", most=10_000)
        shapes = {name: array.shape for name, array in arrays.items()}
        assert shapes == {"features": (1, 8), "logits": (1, 3), "image": (1, 2, 4)}
    image = content[JSON]["schema"]["properties"]["image"]["items"]["items"]
    number = {"type": "number", "minimum": -(2**53), "maximum": 2**53}
    assert image == {"type": "array", "items": number, "minItems": 4, "maxItems": 4}


REFUSED = [
    {},
    {"logits": []},
    {"logits": [4, 1, 0]},
    {"logits": [[4, 1]]},
    {"logits": [[4, 1, None]]},
    {"logits": [[4, 1, True]]},
    {"logits": [["4", 1, 0]]},
    {"logits": [[2**53 + 2, 1, 0]]},
    {"logits": [[4, 1, 0]] * 100_001},
    {"logits": [[4, 1, 0]], "more": [["cat"]]},
    {"logits": [[4, 1, 0]], "more": []},
    {"logits": [[4, 1, 0]], "more": 3},
    {"logits": [[4, 1, 0]], "more": [[[[[[[[[1]]]]]]]]]},
]


def validator(schema, path):
    content = schema["paths"][path]["post"]["requestBody"]["content"]
    return Draft202012Validator(content[JSON]["schema"])


@pytest.mark.parametrize("body", REFUSED, ids=lambda body: str(body)[:40])
def test_the_schema_refuses_the_verdicts_that_the_service_refuses(service, schema, body):
    assert service.client.post("/v1/verdicts", json=body).status_code in (413, 422)
    assert not validator(schema, "/v1/verdicts").is_valid(body)


def test_the_schema_takes_what_the_service_takes(service, schema):
    for body in ({"logits": [[4, 1, 0.5]]}, {"logits": [[4, 1, 0]], "labels": [1], "more": [[[1.5]]]}):
        assert service.client.post("/v1/verdicts", json=body).status_code == 200
        assert validator(schema, "/v1/verdicts").is_valid(body)


@pytest.mark.parametrize("labels", [[], 3, [{"id": "x"}], [{"id": 3, "label": 1}], [{"id": "x", "label": -1}],
                                    [{"id": "x", "label": True}], [{"id": "x", "label": 1}] * 100_001],
                         ids=lambda labels: str(labels)[:40])  # fmt: skip
def test_the_schema_refuses_the_labels_that_the_service_refuses(service, schema, labels):
    assert service.client.post("/v1/labels", json={"labels": labels}).status_code == 422
    assert not validator(schema, "/v1/labels").is_valid({"labels": labels})


ROW = {"name": "logits", "shape": [1, 3], "datatype": "FP32", "data": [4, 1, 0]}


@pytest.mark.parametrize("body", [
    {}, {"inputs": []}, {"inputs": [ROW, ROW]}, {"inputs": [ROW | {"name": "other"}]},
    {"inputs": [ROW | {"shape": []}]},
    {"inputs": [ROW | {"shape": [1, 4]}]}, {"inputs": [ROW | {"shape": [3]}]}, {"inputs": [ROW | {"shape": [0, 3]}]},
    {"inputs": [ROW | {"datatype": "BYTES"}]}, {"inputs": [ROW | {"data": ["a", 1, 0]}]},
    {"inputs": [{key: ROW[key] for key in ("name", "shape", "datatype")}]},
    {"inputs": [ROW | {"parameters": {"shared_memory_region": "x"}}]}, {"inputs": [ROW | {"parameters": 3}]},
    {"inputs": [ROW | {"parameters": {"binary_data_size": 24}}]}, {"inputs": [ROW], "id": 3},
    {"inputs": [ROW], "outputs": [{"name": "other"}]}, {"inputs": [ROW], "parameters": {"classification": 2}},
    {"inputs": [ROW], "outputs": [{"name": "kind", "parameters": {"binary_data": "yes"}}]},
    {"inputs": [ROW], "outputs": [{"name": "kind"}] * 9},
], ids=lambda body: str(body)[:60])  # fmt: skip
def test_the_schema_refuses_the_inference_that_the_service_refuses(service, schema, body):
    path = "/v2/models/logits/infer"
    assert service.client.post(path, json=body).status_code in (400, 422)
    valid = validator(schema, "/v2/models/{name}/infer")
    assert not valid.is_valid(body)
    for right in (
        {"inputs": [ROW]},
        {"inputs": [ROW | {"data": [[4, 1, 0]]}], "id": "7", "outputs": [{"name": "kind"}]},
    ):
        assert service.client.post(path, json=right).status_code == 200
        assert valid.is_valid(right)


def test_the_example_of_labels_is_read(service, schema):
    content = schema["paths"]["/v1/labels"]["post"]["requestBody"]["content"]
    ((media_type, body),) = examples(content)
    answer = service.client.post("/v1/labels", content=body, headers={"content-type": media_type})
    assert answer.status_code == 404  # its id is that of another service


def test_without_pyarrow_no_arrow_is_promised(monkeypatch):
    assert (
        ARROW in openapi.verdicts([Tensor("logits", "FP32", (-1, 3))], 100)["openapi_extra"]["requestBody"]["content"]
    )
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    assert (
        ARROW
        not in openapi.verdicts([Tensor("logits", "FP32", (-1, 3))], 100)["openapi_extra"]["requestBody"]["content"]
    )


@pytest.mark.parametrize("key", [None, "0123456789abcdef"])
def test_the_key_is_in_the_schema_where_there_is_one(logit_guard, tmp_path, key):
    engine = Engine(logit_guard, open_store(str(tmp_path / "audit.sqlite")))
    try:
        schema = create_app(engine, keys=Keys(ask=(key,) if key else ())).app.openapi()
    finally:
        engine.close()
    guarded = {path for path in ADDRESSES if next(iter(schema["paths"][path].values())).get("security")}
    assert guarded == (set() if key is None else set(ADDRESSES) - {"/healthz", "/readyz"})
    assert ("securitySchemes" in schema.get("components", {})) == (key is not None)
