"""The Open Inference Protocol, asked by Triton's own client against a running service."""

from __future__ import annotations

import json
import struct

import numpy as np
import pytest
from tests.serve.conftest import draw, serving

from caveat import Guard, Outputs, __version__
from caveat.serve.audit import open_store

http = pytest.importorskip("tritonclient.http")
InferenceServerException = pytest.importorskip("tritonclient.utils").InferenceServerException

ALL = ["id", "kind", "prediction", "score", "p_value", "conditional_p_value", "set", "reason"]
LENGTH = "Inference-Header-Content-Length"


@pytest.fixture(scope="module")
def triton(service):
    client = http.InferenceServerClient(service.address.removeprefix("http://"))
    yield client
    client.close()


def tensor(name, rows, *, binary=True):
    datatype = {"f2": "FP16", "f4": "FP32", "f8": "FP64", "i4": "INT32", "i8": "INT64"}[rows.dtype.str[1:]]
    made = http.InferInput(name, list(rows.shape), datatype)
    made.set_data_from_numpy(rows, binary_data=binary)
    return made


def output(name, *, binary=True):
    return http.InferRequestedOutput(name, binary_data=binary)


def columns(result, names=ALL):
    """Outputs by name, texts as str."""
    arrays = {name: result.as_numpy(name) for name in names}
    return {name: [v.decode() if isinstance(v, bytes) else v for v in a.tolist()] for name, a in arrays.items()}


def expected(verdicts, names=ALL):
    rows = verdicts.rows()
    values = {name: [row[name] for row in rows] for name in names if name != "id"}
    return values | ({"set": [json.dumps(row["set"], separators=(",", ":")) for row in rows]} if "set" in names else {})


def refused(status, client, name, inputs, match, **options):
    with pytest.raises(InferenceServerException, match=match) as error:
        client.infer(name, inputs, **options)
    assert error.value.status() == str(status)


def post(service, body, *, name="logits", headers=None, status):
    answer = service.client.post(f"/v2/models/{name}/infer", content=body, headers=headers or {})
    assert answer.status_code == status
    if status != 200:
        assert list(answer.json()) == ["error"]
        assert answer.json()["error"].endswith(".")
    return answer


# -- health and metadata ----------------------------------------------------------------------------------------------


def test_health_and_metadata(triton, logit_guard):
    version = logit_guard.fingerprint[:12]
    assert triton.is_server_live()
    assert triton.is_server_ready()
    assert triton.is_model_ready("logits")
    assert triton.is_model_ready("logits", version)
    assert not triton.is_model_ready("other")
    assert not triton.is_model_ready("logits", "1")
    assert triton.get_server_metadata() == {
        "name": "caveat", "version": __version__, "extensions": ["binary_tensor_data"]
    }  # fmt: skip
    metadata = triton.get_model_metadata("logits")
    assert metadata == triton.get_model_metadata("logits", version)
    assert metadata["name"] == "logits"
    assert metadata["versions"] == [version]
    assert metadata["platform"] == "caveat_guard"
    assert metadata["inputs"] == [{"name": "logits", "datatype": "FP32", "shape": [-1, 3]}]
    assert [entry["name"] for entry in metadata["outputs"]] == ALL
    assert {entry["name"]: entry["datatype"] for entry in metadata["outputs"]}["prediction"] == "INT64"
    with pytest.raises(InferenceServerException, match="unknown model 'other'"):
        triton.get_model_metadata("other")


# -- verdicts ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("binary_input", [True, False])
@pytest.mark.parametrize("how", ["default", "binary", "json"])
def test_verdicts_are_those_of_the_guard(triton, logit_guard, binary_input, how):
    rows = np.concatenate([draw(40, seed=9).logits, draw(10, seed=9, shift=9.0).logits])
    outputs = None if how == "default" else [output(name, binary=how == "binary") for name in ALL]
    result = triton.infer("logits", [tensor("logits", rows, binary=binary_input)], outputs=outputs, request_id="mine")
    values = columns(result)
    ids = values.pop("id")
    assert values == expected(logit_guard(Outputs(logits=rows)))
    assert len(set(ids)) == 50
    response = result.get_response()
    assert response["id"] == "mine"
    assert response["model_name"] == "logits"
    assert response["model_version"] == logit_guard.fingerprint[:12]
    assert [entry["name"] for entry in response["outputs"]] == ALL


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "i4", "i8"])
@pytest.mark.parametrize("binary", [True, False])
def test_types_of_inputs(triton, logit_guard, dtype, binary):
    rows = np.round(draw(20, seed=3).logits).astype(dtype)
    values = columns(triton.infer("logits", [tensor("logits", rows, binary=binary)]), ALL[1:])
    assert values == expected(logit_guard(Outputs(logits=rows.astype("f8") if dtype[0] == "i" else rows)))


def test_some_outputs_in_the_order_of_the_client(triton):
    rows = draw(3, seed=1).logits
    wanted = [output("reason"), output("kind", binary=False), output("score")]
    response = triton.infer("logits", [tensor("logits", rows)], outputs=wanted).get_response()
    assert [entry["name"] for entry in response["outputs"]] == ["reason", "kind", "score"]
    assert ["data" in entry for entry in response["outputs"]] == [False, True, False]


def test_async_and_versioned_requests(triton, logit_guard):
    rows = draw(3, seed=1).logits
    result = triton.async_infer("logits", [tensor("logits", rows)], model_version=logit_guard.fingerprint[:12])
    assert columns(result.get_result(), ["kind"]) == expected(logit_guard(Outputs(logits=rows)), ["kind"])
    refused(404, triton, "logits", [tensor("logits", rows)], "unknown version '7'", model_version="7")


def test_nested_data_and_no_outputs_named(service, logit_guard):
    data = [[4.0, 1.0, 0.5], [0.0, 1.0, 0.0]]
    request = {"inputs": [{"name": "logits", "shape": [2, 3], "datatype": "FP64", "data": data}]}
    answer = post(service, json.dumps(request), headers={"content-type": "application/json"}, status=200).json()
    assert "id" not in answer
    kinds = next(entry for entry in answer["outputs"] if entry["name"] == "kind")
    assert kinds["data"] == logit_guard(Outputs(logits=np.array(data))).kind.tolist()
    assert LENGTH not in post(service, json.dumps(request), status=200).headers


def test_verdicts_are_recorded_as_those_of_v1(guards, tmp_path, logit_guard):
    rows = draw(30, seed=5).logits
    with serving(guards["logits"], tmp_path / "audit.sqlite", "--keep-inputs", "--name", "my model") as service:
        service.post({}, logits=rows)
        client = http.InferenceServerClient(service.address.removeprefix("http://"))
        ids = columns(client.infer("my model", [tensor("logits", rows.astype("f8"))]), ["id"])["id"]
        client.close()
        assert service.client.post("/v1/labels", json={"labels": [{"id": ids[0], "label": 1}]}).json()["recorded"] == 1
        assert service.live(rows=60)["rows"] == 60
        page = service.client.get("/metrics").text
        assert 'caveat_requests_total{path="/v2/models/{name}/infer",status="200"} 1.0' in page
    store = open_store(str(tmp_path / "audit.sqlite"), read_only=True)
    first, second = (record.entry for record in store.records() if record.entry.kind == "verdicts")
    store.close()
    assert first.body == second.body
    assert first.inputs == second.inputs
    assert (second.first_row, second.rows) == (30, 30)
    assert ids[0].endswith("-30")


def test_several_inputs(tmp_path):
    train, rows = draw(300, seed=5), draw(50, seed=6)
    guard = Guard("mahalanobis").fit(train).calibrate(draw(300, seed=4))
    guard.save(tmp_path / "both")
    with serving(tmp_path / "both", tmp_path / "audit.sqlite") as service:
        client = http.InferenceServerClient(service.address.removeprefix("http://"))
        assert [entry["name"] for entry in client.get_model_metadata("both")["inputs"]] == ["logits", "features"]
        for binary in ((True, True), (False, True), (True, False)):
            inputs = [
                tensor("features", rows.features, binary=binary[0]),
                tensor("logits", rows.logits, binary=binary[1]),
            ]
            assert columns(client.infer("both", inputs), ALL[1:]) == expected(guard(rows))
        refused(422, client, "both", inputs[:1], "needs logits, features")
        refused(422, client, "both", [inputs[0], tensor("logits", rows.logits[:9])], "same number of rows")
        client.close()


def test_a_guard_without_classes_has_fewer_outputs(guards, tmp_path, feature_guard):
    with serving(guards["features"], tmp_path / "audit.sqlite", key="0123456789abcdef",
                 environment={"CAVEAT_SERVE_KEY": "0123456789abcdef"}) as service:  # fmt: skip
        client = http.InferenceServerClient(service.address.removeprefix("http://"))
        key = {"Authorization": "Bearer 0123456789abcdef"}
        rows = draw(9, seed=1).features
        assert client.is_server_ready()
        assert not client.is_model_ready("features")
        refused(401, client, "features", [tensor("features", rows)], "key")
        names = [entry["name"] for entry in client.get_model_metadata("features", headers=key)["outputs"]]
        assert names == ["id", "kind", "score", "p_value", "conditional_p_value", "reason"]
        values = columns(client.infer("features", [tensor("features", rows)], headers=key), names)
        assert values.pop("id")
        assert values == expected(feature_guard(Outputs(features=rows)), names)
        refused(
            422, client, "features", [tensor("features", rows)], "outputs must be", outputs=[output("set")], headers=key
        )
        client.close()


# -- refusals ---------------------------------------------------------------------------------------------------------

ROWS = draw(4, seed=2).logits


def test_unknown_names(triton):
    refused(404, triton, "other", [tensor("logits", ROWS)], "unknown model 'other'")
    refused(422, triton, "logits", [tensor("x", ROWS)], "inputs must be.*'x'")
    refused(422, triton, "logits", [tensor("logits", ROWS), tensor("labels", ROWS)], "'labels'")
    refused(422, triton, "logits", [tensor("logits", ROWS)] * 2, "each once")
    refused(422, triton, "logits", [tensor("logits", ROWS)], "outputs must be", outputs=[output("logits")])
    refused(422, triton, "logits", [tensor("logits", ROWS)], "each once", outputs=[output("kind")] * 2)


def test_wrong_shapes_and_numbers(triton):
    refused(422, triton, "logits", [tensor("logits", ROWS[:, :2])], "3|columns|classes")
    refused(422, triton, "logits", [tensor("logits", ROWS[0])], "row per input")
    refused(422, triton, "logits", [tensor("logits", ROWS[None])], "logits must")
    wrong = ROWS.copy()
    wrong[2, 1] = np.nan
    refused(422, triton, "logits", [tensor("logits", wrong)], "NaN, first at row 2")
    refused(422, triton, "logits", [tensor("logits", np.full((2, 3), 2**53 + 1))], "2\\*\\*53.*row 0")


def test_what_the_service_does_not_do_is_refused(triton):
    flags = http.InferInput("logits", [1, 3], "BOOL")
    flags.set_data_from_numpy(np.array([[True, False, True]]))
    refused(422, triton, "logits", [flags], "datatype of logits")
    shared = http.InferInput("logits", [1, 3], "FP32")
    shared.set_shared_memory("region", 12)
    refused(422, triton, "logits", [shared], "shared_memory_region")
    refused(422, triton, "logits", [tensor("logits", ROWS)], "classification",
            outputs=[http.InferRequestedOutput("score", class_count=2)])  # fmt: skip
    refused(415, triton, "logits", [tensor("logits", ROWS)], "compressed", request_compression_algorithm="gzip")


def binary_request(rows, **changes):
    """Body and headers of a binary request, with changes to its input."""
    item = {"name": "logits", "shape": list(rows.shape), "datatype": "FP32",
            "parameters": {"binary_data_size": rows.nbytes}} | changes  # fmt: skip
    text = json.dumps({"inputs": [item]}).encode()
    return text + rows.tobytes(), {LENGTH: str(len(text))}


def test_cut_and_inconsistent_binary_data(service):
    body, headers = binary_request(ROWS)
    post(service, body, headers=headers, status=200)
    post(service, body[:-1], headers=headers, status=400)
    post(service, body + b"x", headers=headers, status=400)
    post(service, body[: int(headers[LENGTH])], headers=headers, status=400)
    post(service, body, status=400)  # without the header all of it should be JSON
    for length in ("-1", "x", str(len(body) + 1), "1" * 40, "", str(int(headers[LENGTH]) - 1)):
        post(service, body, headers={LENGTH: length}, status=400)
    for size in (0, -48, 47, 2**62, "48", 48.0, True, [48]):
        changed, headers = binary_request(ROWS, parameters={"binary_data_size": size})
        post(service, changed, headers=headers, status=400)
    changed, headers = binary_request(ROWS, data=[1.0])
    post(service, changed, headers=headers, status=400)


@pytest.mark.parametrize("shape", [
    [], [0, 3], [-4, 3], [4, 3.0], ["4", 3], [True, 12], [4, 3] * 9, 12, None, [2**60, 3], [4, 4],
])  # fmt: skip
def test_wrong_shapes_in_the_request(service, shape):
    body, headers = binary_request(ROWS, shape=shape)
    post(service, body, headers=headers, status=400 if shape == [4, 4] else 422)


@pytest.mark.parametrize("request_", [
    {}, {"inputs": []}, {"inputs": {}}, {"inputs": [1]}, {"inputs": [{}]}, {"inputs": [{"name": 1}]},
    {"inputs": [{"name": "logits"}]}, {"inputs": [{"name": "logits"}] * 101},
    *({"inputs": [{"name": "logits", "shape": [1, 3], "datatype": kind, "data": data}]} for kind, data in [
        ("FP32", [1, 2]), ("FP32", [[1, 2], [3]]), ("FP32", [[1], [2], [3]]), ("FP32", [True, 2, 3]),
        ("FP32", ["1", 2, 3]), ("FP32", None), ("FP32", 1), ("fp32", [1, 2, 3]), ("BYTES", ["a", "b", "c"]),
        (None, [1, 2, 3]), ("BF16", [1, 2, 3]), ("INT32", [1, 2, 2.5]), ("INT8", [1, 2, 128]), ("UINT8", [1, 2, -1]),
        ("FP16", [1, 2, 1e6]), ("FP32", [1, 2, 1e300]), ("INT64", [1, 2, 2**60]),
    ]),
    *({"inputs": [{"name": "logits", "shape": [1, 3], "datatype": "FP32", "data": [1, 2, 3]}]} | more for more in [
        {"id": 7}, {"outputs": "kind"}, {"outputs": [{"name": "kind", "parameters": {"binary_data": 1}}]},
        {"outputs": [{"name": 1}]}, {"parameters": {"binary_data_output": "yes"}}, {"parameters": []},
        {"parameters": [1]},
    ] if more != {"parameters": []}),
], ids=lambda request: json.dumps(request)[-60:])  # fmt: skip
def test_requests_that_are_not_of_the_protocol(service, request_):
    post(service, json.dumps(request_), status=422)


def test_text_that_is_not_json(service):
    for body in (b"", b"{", b"[" * 9999, b"\xff"):
        post(service, body, status=400)
    post(
        service,
        b'{"inputs": [{"name": "logits", "shape": [1, 3], "datatype": "FP32", "data": [1, 2, NaN]}]}',
        status=422,
    )


def test_a_page_of_another_site_cannot_send_without_being_asked_for_leave(service):
    body, headers = binary_request(ROWS)
    for kind in ("text/plain", "multipart/form-data", "application/x-www-form-urlencoded"):
        post(service, body, headers=headers | {"content-type": kind}, status=415)
    post(service, body, headers=headers | {"origin": "https://example.org"}, status=415)


def test_refused_requests_leave_no_record(service):
    before = service.live()["audit"]["records"]
    body, headers = binary_request(ROWS)
    post(service, body[:-1], headers=headers, status=400)
    request = {"inputs": [{"name": "logits", "shape": [1, 3], "datatype": "FP32", "data": [1, 2, 3]}],
               "outputs": [{"name": "other"}]}  # fmt: skip
    post(service, json.dumps(request), status=422)
    assert service.live()["audit"]["records"] == before


def test_binary_texts_have_their_length_before_them(service):
    request = {"inputs": [{"name": "logits", "shape": [1, 3], "datatype": "FP32", "data": [9, 0, 0]}],
               "outputs": [{"name": "kind", "parameters": {"binary_data": True}}, {"name": "score"}]}  # fmt: skip
    answer = post(service, json.dumps(request), status=200)
    length = int(answer.headers[LENGTH])
    assert answer.headers["content-type"] == "application/octet-stream"
    kind = json.loads(answer.content[:length])["outputs"][0]
    data = answer.content[length:]
    assert kind["parameters"]["binary_data_size"] == len(data)
    assert struct.unpack("<I", data[:4])[0] == len(data) - 4
    assert data[4:] in (b"accept", b"abstain", b"outlier")


def test_the_schema_describes_the_addresses_and_its_examples_work(service):
    schema = service.client.get("/openapi.json").json()
    paths = {path for path in schema["paths"] if path.startswith("/v2")}
    model = {"/v2/models/{name}", "/v2/models/{name}/versions/{version}"}
    assert paths == {"/v2", "/v2/health/live", "/v2/health/ready", *model, *(f"{path}/ready" for path in model),
                     *(f"{path}/infer" for path in model)}  # fmt: skip
    operation = schema["paths"]["/v2/models/{name}/versions/{version}/infer"]["post"]
    values = {entry["name"]: entry["example"] for entry in operation["parameters"] if entry["in"] == "path"}
    example = operation["requestBody"]["content"]["application/json"]["example"]
    answer = service.client.post(f"/v2/models/{values['name']}/versions/{values['version']}/infer", json=example)
    assert answer.status_code == 200
    assert [entry["name"] for entry in answer.json()["outputs"]] == ["kind", "p_value"]
