"""A model in front of the guard: raw inputs in, verdicts on its outputs out; what does not fit is refused."""

from __future__ import annotations

import hashlib
import json
import sys

import numpy as np
import pytest
from tests.serve.conftest import draw, npy, npz, serving

from caveat import Guard, Head, Outputs
from caveat.cli import main
from caveat.errors import InputError, MissingExtraError
from caveat.serve.audit import open_store
from caveat.serve.model import Model
from caveat.serve.problems import Problem

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
http = pytest.importorskip("tritonclient.http")

FLOAT, INT32, INT64, UINT8 = (getattr(onnx.TensorProto, name) for name in ("FLOAT", "INT32", "INT64", "UINT8"))
WEIGHT = (2.5 * np.eye(8, 3)).astype(np.float32)


def write(path, *, kind=FLOAT, shape=("n", 8), weight=WEIGHT, opset=17, twice=False):
    """An ONNX classifier: input ``pixels``, inner tensor ``dense`` with the logits, output ``probs``."""
    from onnx import helper, numpy_helper

    nodes = [
        helper.make_node("Cast", ["pixels"], ["floats"], to=FLOAT),
        helper.make_node("Flatten", ["floats"], ["flat"], axis=1),
        helper.make_node("MatMul", ["flat", "weight"], ["product"]),
        helper.make_node("Add", ["product", "more"] if twice else ["product", "bias"], ["dense"]),
        helper.make_node("Softmax", ["dense"], ["probs"], axis=1),
    ]
    inputs = [helper.make_tensor_value_info("pixels", kind, shape)]
    inputs += [helper.make_tensor_value_info("more", FLOAT, ["n", weight.shape[1]])] if twice else []
    stored = [numpy_helper.from_array(weight, "weight"),
              numpy_helper.from_array(np.zeros(weight.shape[1], dtype=np.float32), "bias")]  # fmt: skip
    outputs = [helper.make_tensor_value_info("probs", FLOAT, None)]
    graph = helper.make_graph(nodes, "classifier", inputs, outputs, stored)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8), path)
    return path


@pytest.fixture(scope="module")
def model_file(tmp_path_factory):
    return write(tmp_path_factory.mktemp("model") / "classifier.onnx")


def loaded(path, guard, **outputs):
    return Model.load(path, guard, outputs=outputs or {"logits": "dense"})


def refused(model, match, **arrays):
    with pytest.raises(Problem, match=match) as problem:
        model({name: np.asarray(array) for name, array in arrays.items()})
    assert problem.value.status == 422


# -- fields from inputs -----------------------------------------------------------------------------------------------


def test_inner_tensors_are_the_fields_of_the_guard(model_file, logit_guard):
    model, pixels = loaded(model_file, logit_guard), draw(200, seed=7).features
    fields = model({"pixels": pixels})
    assert list(fields) == ["logits"]
    assert fields["logits"] == pytest.approx(pixels @ WEIGHT, rel=1e-6)
    assert [tensor.to_dict() for tensor in model.inputs] == [{"name": "pixels", "datatype": "FP32", "shape": [-1, 8]}]
    assert model.facts == {"file": "classifier.onnx", "sha256": hashlib.sha256(model_file.read_bytes()).hexdigest()}


def test_the_same_inputs_give_the_same_bits(model_file, logit_guard):
    pixels = draw(150, seed=8).features
    first, second = (loaded(model_file, logit_guard)({"pixels": pixels})["logits"] for _ in range(2))
    assert np.array_equal(first, second)


def test_probabilities_may_stand_for_logits(model_file):
    guard = Guard("msp").calibrate(draw(300, seed=4))
    fields = loaded(model_file, guard, probs="probs")({"pixels": draw(5, seed=1).features})
    assert fields["probs"].sum(axis=1) == pytest.approx(1)


@pytest.mark.parametrize("batch", [1, 7])
def test_a_model_with_a_fixed_batch_takes_any_number_of_rows(tmp_path, model_file, logit_guard, batch):
    fixed = loaded(write(tmp_path / "m.onnx", shape=(batch, 8)), logit_guard)
    pixels = draw(20, seed=2).features
    assert fixed.inputs[0].shape == (-1, 8)
    assert fixed({"pixels": pixels})["logits"] == pytest.approx(
        loaded(model_file, logit_guard)({"pixels": pixels})["logits"]
    )


@pytest.mark.parametrize("opset", [11, 13, 21])
def test_older_and_newer_operators_run_as_they_are(tmp_path, logit_guard, opset):
    model = loaded(write(tmp_path / "m.onnx", opset=opset), logit_guard)
    assert model({"pixels": np.ones((1, 8))})["logits"].tolist() == [[2.5, 2.5, 2.5]]


# -- inputs that do not fit -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(), (8,), (1, 7), (1, 8, 1), (0, 8)])
def test_wrong_shapes_are_refused_before_the_model_runs(model_file, logit_guard, shape):
    refused(loaded(model_file, logit_guard), "pixels must have shape \\(n, 8\\)", pixels=np.ones(shape))


def test_numbers_are_those_of_the_input_or_refused(tmp_path, model_file, logit_guard):
    floats, pixels = loaded(model_file, logit_guard), np.ones((2, 8))
    for dtype in ("f2", "f4", "f8", "i8", "u1"):
        assert floats({"pixels": pixels.astype(dtype)})["logits"][0, 0] == 2.5
    refused(floats, "pixels has NaN, first at row 1", pixels=[[1.0] * 8, [np.nan] * 8])
    refused(floats, "as FP32 has an infinite value, first at row 1", pixels=[[1.0] * 8, [1e300] * 8])
    bytes_ = loaded(write(tmp_path / "m.onnx", kind=UINT8), logit_guard)
    assert bytes_({"pixels": np.full((1, 8), 255)})["logits"][0, 0] == 637.5
    refused(bytes_, "whole numbers \\(UINT8\\)", pixels=pixels)
    refused(bytes_, "fit into UINT8, got 256 at row 1", pixels=[[255] * 8, [256] * 8])
    refused(bytes_, "fit into UINT8, got -1 at row 0", pixels=[[-1] * 8])


def test_missing_inputs_are_named(tmp_path, logit_guard):
    model = loaded(write(tmp_path / "m.onnx", twice=True), logit_guard)
    refused(model, "needs pixels, more, got pixels", pixels=np.ones((1, 8)))
    refused(model, "same number of rows", pixels=np.ones((2, 8)), more=np.ones((1, 3)))
    assert model({"pixels": np.ones((1, 8)), "more": np.ones((1, 3)), "other": 1})["logits"].tolist() == [[3.5] * 3]


def test_shapes_that_only_the_model_knows_to_be_wrong_are_refused(tmp_path, logit_guard):
    model = loaded(write(tmp_path / "m.onnx", shape=("n", "d")), logit_guard)
    assert model.inputs[0].shape == (-1, -1)
    refused(model, "cannot run pixels \\(1, 9\\)", pixels=np.ones((1, 9)))


# -- files that cannot be used ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("outputs", "match"), [
    ({}, "no tensor 'logits'.*--model-output logits=.*outputs of the model: probs"),
    ({"logits": "nothing"}, "no tensor 'nothing'"), ({"features": "dense"}, "unknown field"),
    ({"probs": "probs"}, "unknown field"),  # energy needs logits
])  # fmt: skip
def test_tensors_that_the_model_lacks_are_named(model_file, logit_guard, outputs, match):
    with pytest.raises(InputError, match=match):
        Model.load(model_file, logit_guard, outputs=outputs)


def test_a_model_of_another_number_of_classes_is_refused(tmp_path, logit_guard):
    with pytest.raises(InputError, match="3"):
        loaded(write(tmp_path / "m.onnx", weight=np.ones((8, 4), dtype=np.float32)), logit_guard)


@pytest.mark.parametrize("content", [b"", b"not a model", b"\x08\x08" * 500])
def test_files_that_are_not_models_are_refused(tmp_path, logit_guard, content):
    (tmp_path / "m.onnx").write_bytes(content)
    with pytest.raises(InputError, match="not an ONNX file"):
        loaded(tmp_path / "m.onnx", logit_guard)
    with pytest.raises(InputError, match="does not exist"):
        loaded(tmp_path / "other.onnx", logit_guard)


def test_inputs_that_are_not_numbers_are_refused(tmp_path, logit_guard):
    with pytest.raises(InputError, match="pixels.*must be numbers"):
        loaded(write(tmp_path / "m.onnx", kind=onnx.TensorProto.BOOL), logit_guard)


def test_a_guard_on_stochastic_passes_needs_its_clients(model_file):
    rng = np.random.default_rng(0)
    guard = Guard("mc_entropy", sets=None).calibrate(Outputs(mc_logits=rng.normal(size=(4, 300, 3))))
    with pytest.raises(InputError, match="mc_logits, which a model"):
        Model.load(model_file, guard)


def test_features_and_a_head_give_logits(tmp_path, logit_guard):
    head = Head(WEIGHT.T, np.zeros(3))
    model = Model.load(write(tmp_path / "m.onnx"), logit_guard, outputs={"features": "floats"}, head=head)
    pixels = draw(5, seed=1).features
    assert np.array_equal(model({"pixels": pixels})["features"], pixels)


def with_external(path, location):
    """The model with its weights in another file, under a name that may lie elsewhere."""
    proto = onnx.load(path)
    tensor = proto.graph.initializer[0]
    onnx.external_data_helper.set_external_data(tensor, location)
    data = bytes(tensor.raw_data)
    tensor.ClearField("raw_data")
    path.write_bytes(proto.SerializeToString())
    return data


def test_weights_in_the_folder_of_the_file_are_read_and_named(tmp_path, logit_guard):
    path = write(tmp_path / "m.onnx")
    (tmp_path / "weights.bin").write_bytes(with_external(path, "weights.bin"))
    model = loaded(path, logit_guard)
    assert model({"pixels": np.ones((1, 8))})["logits"].tolist() == [[2.5, 2.5, 2.5]]
    assert model.facts["external"] == {
        "weights.bin": hashlib.sha256((tmp_path / "weights.bin").read_bytes()).hexdigest()
    }


@pytest.mark.parametrize("location", ["../weights.bin", "/etc/hostname", "inner/../../weights.bin", "missing.bin"])
def test_weights_elsewhere_are_refused(tmp_path, logit_guard, location):
    (tmp_path / "folder").mkdir()
    path = write(tmp_path / "folder" / "m.onnx")
    (tmp_path / "weights.bin").write_bytes(with_external(path, location))
    with pytest.raises(InputError, match=r"m\.onnx"):
        loaded(path, logit_guard)


def test_a_link_to_weights_elsewhere_is_refused(tmp_path, logit_guard):
    (tmp_path / "folder").mkdir()
    path = write(tmp_path / "folder" / "m.onnx")
    (tmp_path / "weights.bin").write_bytes(with_external(path, "weights.bin"))
    (tmp_path / "folder" / "weights.bin").symlink_to(tmp_path / "weights.bin")
    with pytest.raises(InputError, match=r"m\.onnx"):
        loaded(path, logit_guard)


def test_without_onnxruntime_the_extra_is_named(model_file, logit_guard, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(MissingExtraError, match="caveat\\[onnx\\]"):
        loaded(model_file, logit_guard)


# -- served -----------------------------------------------------------------------------------------------------------


def test_a_service_with_a_model(guards, tmp_path, model_file, logit_guard):
    digest = hashlib.sha256(model_file.read_bytes()).hexdigest()
    pixels = np.concatenate([draw(40, seed=9).features, draw(10, seed=9, shift=9.0).features])
    rows = logit_guard(Outputs(logits=loaded(model_file, logit_guard)({"pixels": pixels})["logits"])).rows()
    options = ("--model", str(model_file), "--model-output", "logits=dense", "--keep-inputs")
    tensors = [{"name": "pixels", "datatype": "FP32", "shape": [-1, 8]}]
    with serving(guards["logits"], tmp_path / "audit.sqlite", *options) as service:
        facts = service.client.get("/v1/guard").json()
        assert facts["model"] == {"file": "classifier.onnx", "sha256": digest}
        assert facts["fields"] == service.live()["fields"] == {"pixels": 8}
        assert facts["inputs"] == service.live()["inputs"] == tensors
        for kind, body in (("x-npy", npy(pixels)), ("x-npz", npz(pixels=pixels, labels=np.zeros(3))),
                           ("json", json.dumps({"pixels": pixels.tolist()}))):  # fmt: skip
            answer = service.client.post("/v1/verdicts", content=body, headers={"content-type": f"application/{kind}"})
            assert [{**row, "id": ""} for row in answer.json()["verdicts"]] == [{"id": "", **row} for row in rows]
        wrong = service.client.post(
            "/v1/verdicts", content=npy(pixels[:, :7]), headers={"content-type": "application/x-npy"}
        )
        assert wrong.status_code == 422
        assert "pixels must have shape (n, 8)" in wrong.json()["error"]
        assert service.post({}, logits=pixels[:, :3]).status_code == 422
        triton = http.InferenceServerClient(service.address.removeprefix("http://"))
        metadata = triton.get_model_metadata("logits")
        assert metadata["inputs"] == tensors
        assert metadata["platform"] == "onnx_onnxv1"
        fed = http.InferInput("pixels", list(pixels.shape), "FP32").set_data_from_numpy(pixels)
        result = triton.infer("logits", [fed])
        assert result.as_numpy("prediction").tolist() == [row["prediction"] for row in rows]
        assert [kind.decode() for kind in result.as_numpy("kind")] == [row["kind"] for row in rows]
        triton.close()
    store = open_store(str(tmp_path / "audit.sqlite"), read_only=True)
    records = [record.entry for record in store.records()]
    store.close()
    assert json.loads(records[0].body)["model"] == {"file": "classifier.onnx", "sha256": digest}
    assert [entry.kind for entry in records] == ["start", *["verdicts"] * 4, "state", "stop"]
    assert len({entry.body for entry in records[1:5]}) == 1


@pytest.mark.parametrize(("options", "match"), [
    (["--model", "no.onnx"], "does not exist"), (["--model-output", "logits=x"], "FIELD=TENSOR"),
    (["--model", "{model}"], "no tensor 'logits'"), (["--model", "{model}", "--model-output", "dense"], "FIELD=TENSOR"),
    (["--model", "{model}", "--model-output", "logits=dense", "--model-output", "logits=x"], "once for each field"),
])  # fmt: skip
def test_wrong_options_end_the_start_with_one_sentence(guards, tmp_path, model_file, options, match, capsys):
    options = [option.format(model=model_file) for option in options]
    with pytest.raises(SystemExit) as ended:
        main(["serve", str(guards["logits"]), "--port", "0", "--audit", str(tmp_path / "audit.sqlite"), *options])
    assert ended.value.code == 2
    assert match in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "audit.sqlite").exists()


def test_images_are_served_and_replayed(tmp_path, guards, capsys):
    path = write(tmp_path / "images.onnx", shape=("n", 2, 4))
    options = ("--model", str(path), "--model-output", "logits=dense")
    images = draw(6, seed=3).features.reshape(6, 2, 4)
    with serving(guards["logits"], tmp_path / "audit.sqlite", *options, "--keep-inputs") as service:
        schema = service.client.get("/openapi.json").json()["paths"]["/v1/verdicts"]["post"]["requestBody"]["content"]
        example = service.client.post("/v1/verdicts", json=schema["application/json"]["example"])
        assert example.status_code == 200
        verdicts = service.client.post("/v1/verdicts", json={"pixels": images.tolist()}).json()["verdicts"]
    expected = Guard.load(guards["logits"])(Outputs(logits=images.reshape(6, 8) @ WEIGHT)).rows()
    assert [row["kind"] for row in verdicts] == [row["kind"] for row in expected]
    with pytest.raises(SystemExit) as stop:
        main(["audit", "replay", str(guards["logits"]), str(tmp_path / "audit.sqlite"), *options])
    assert not stop.value.code
    assert "Verdicts: 7, of them 7 from their inputs" in capsys.readouterr().out
