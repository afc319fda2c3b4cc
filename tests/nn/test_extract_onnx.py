from __future__ import annotations

import io
import warnings

import numpy as np
import pytest

from caveat import CaveatWarning, InputError, Outputs

torch = pytest.importorskip("torch")
onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402
from torch import nn  # noqa: E402

from caveat.nn import extract, extract_onnx  # noqa: E402


def exported(model, example, *, free=True):
    """The bytes of the file that torch writes for a model."""
    stream = io.BytesIO()
    axes = {"x": {0: "n"}} if free else None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            model.eval(), (example,), stream, dynamo=False, input_names=["x"], output_names=["y"], dynamic_axes=axes
        )
    return stream.getvalue()


def built(nodes, stored, *, shape=("n", 4), output="y"):
    """A small graph by hand: input x, one output."""
    graph = helper.make_graph(
        nodes, "test", [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info(output, TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in stored.items()],
    )  # fmt: skip
    opset = [helper.make_opsetid("", 17)]
    return helper.make_model(graph, opset_imports=opset, ir_version=8).SerializeToString()


@pytest.fixture
def cnn():
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Dropout(0.5),
        nn.Linear(16, 8), nn.ReLU(), nn.Linear(8, 3),
    )  # fmt: skip


@pytest.fixture
def batches():
    torch.manual_seed(1)
    return [(torch.randn(n, 1, 8, 8), torch.randint(0, 3, (n,))) for n in (5, 5, 2)]


def agree(one, two):
    np.testing.assert_allclose(one.logits, two.logits, atol=1e-5)
    np.testing.assert_allclose(one.features, two.features, atol=1e-5)
    np.testing.assert_allclose(one.head.weight, two.head.weight, atol=1e-6)
    np.testing.assert_allclose(one.head.bias, two.head.bias, atol=1e-6)


def test_the_file_says_what_the_model_says(cnn, batches, tmp_path):
    content = exported(cnn, batches[0][0])
    (tmp_path / "cnn.onnx").write_bytes(content)
    expected = extract(cnn, batches)
    for source in (content, tmp_path / "cnn.onnx", str(tmp_path / "cnn.onnx")):
        said = extract_onnx(source, batches)
        agree(said, expected)
        np.testing.assert_array_equal(said.labels, expected.labels)
    agree(extract_onnx(content, [x.numpy() for x, _ in batches]), expected)


@pytest.mark.parametrize(
    "behind", [nn.Softmax(dim=1), nn.LogSoftmax(dim=1), nn.Identity()], ids=lambda m: type(m).__name__
)
def test_logits_are_those_before_a_softmax(cnn, batches, behind):
    agree(extract_onnx(exported(nn.Sequential(cnn, behind), batches[0][0]), batches), extract(cnn, batches))


@pytest.mark.parametrize("size", [1, 4])
def test_a_fixed_batch_size_is_fed_in_pieces(cnn, batches, size):
    content = exported(cnn, torch.zeros(size, 1, 8, 8), free=False)
    agree(extract_onnx(content, batches), extract(cnn, batches))


def test_a_transformer_without_a_bias_in_its_head(batches):
    class Vit(nn.Module):
        def __init__(self):
            super().__init__()
            self.patches = nn.Conv2d(1, 8, 4, stride=4)
            self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
            self.norm, self.head = nn.LayerNorm(8), nn.Linear(8, 3, bias=False)

        def forward(self, x):
            h = self.patches(x).flatten(2).transpose(1, 2)
            return self.head(self.norm(h + self.attention(h, h, h, need_weights=False)[0]).mean(dim=1))

    torch.manual_seed(0)
    model = Vit()
    agree(extract_onnx(exported(model, torch.zeros(3, 1, 8, 8)), batches), extract(model, batches))


@pytest.fixture
def parts():
    rng = np.random.default_rng(0)
    return rng.normal(size=(3, 4)).astype(np.float32), rng.normal(size=3).astype(np.float32)


def node(kind, inputs, output, name="", **settings):
    return helper.make_node(kind, inputs, [output], name=name, **settings)


FORMS = {
    "gemm": lambda w, b: ([node("Gemm", ["x", "w", "b"], "y", transB=1)], {"w": w, "b": b}, 1, 1),
    "gemm, not transposed": lambda w, b: ([node("Gemm", ["x", "w", "b"], "y")], {"w": w.T.copy(), "b": b}, 1, 1),
    "gemm, scaled": lambda w, b: (
        [node("Gemm", ["x", "w", "b"], "y", transB=1, alpha=0.5, beta=2.0)], {"w": w, "b": b}, 0.5, 2,
    ),
    "gemm without bias": lambda w, b: ([node("Gemm", ["x", "w"], "y", transB=1)], {"w": w}, 1, 0),
    "matmul": lambda w, b: ([node("MatMul", ["x", "w"], "y")], {"w": w.T.copy()}, 1, 0),
    "matmul and add": lambda w, b: (
        [node("MatMul", ["x", "w"], "z"), node("Add", ["z", "b"], "y")], {"w": w.T.copy(), "b": b}, 1, 1,
    ),
    "add the other way round": lambda w, b: (
        [node("MatMul", ["x", "w"], "z"), node("Add", ["b", "z"], "y")], {"w": w.T.copy(), "b": b[None]}, 1, 1,
    ),
    "transposed on the way": lambda w, b: (
        [node("Transpose", ["w"], "t", perm=[1, 0]), node("MatMul", ["x", "t"], "z"), node("Identity", ["b"], "c"),
         node("Add", ["z", "c"], "y")], {"w": w, "b": b}, 1, 1,
    ),
    "a constant node": lambda w, b: (
        [node("Constant", [], "w", value=numpy_helper.from_array(w.T.copy())), node("MatMul", ["x", "w"], "y")],
        {}, 1, 0,
    ),
}  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
def test_every_way_to_write_a_linear_layer(form, parts):
    weight, bias = parts
    nodes, stored, alpha, beta = FORMS[form](weight, bias)
    x = np.random.default_rng(1).normal(size=(5, 4)).astype(np.float32)
    said = extract_onnx(built(nodes, stored), [x])
    np.testing.assert_allclose(said.features, x)
    np.testing.assert_allclose(said.head.weight, alpha * weight, rtol=1e-6)
    np.testing.assert_allclose(said.head.bias, beta * bias, rtol=1e-6)
    np.testing.assert_allclose(said.logits, x @ (alpha * weight.T) + beta * bias, atol=1e-5)


@pytest.mark.parametrize("kind", ["Gemm", "MatMul"])
def test_what_is_added_along_the_samples_is_no_bias(kind, parts):
    weight, bias = parts
    product = node("MatMul", ["x", "w"], "z"), node("Add", ["z", "b"], "y")
    nodes = [node("Gemm", ["x", "w", "b"], "y")] if kind == "Gemm" else list(product)
    content = built(nodes, {"w": weight.T.copy(), "b": bias[:, None]})
    x = np.ones((3, 4), dtype=np.float32)  # as many samples as classes
    with pytest.warns(CaveatWarning, match="no matrix product with stored weights gives the output"):
        said = extract_onnx(content, [x])
    assert (said.features, said.head) == (None, None)
    np.testing.assert_allclose(said.logits, x @ weight.T + bias[:, None], rtol=1e-5)


def test_a_product_added_to_itself_is_no_linear_layer(parts):
    content = built([node("MatMul", ["x", "w"], "z"), node("Add", ["z", "z"], "y")], {"w": parts[0].T.copy()})
    x = np.ones((3, 4), dtype=np.float32)
    with pytest.warns(CaveatWarning, match="which comes from Add .* candidates: 'z'"):
        said = extract_onnx(content, [x])
    np.testing.assert_allclose(said.logits, 2 * x @ parts[0].T, rtol=1e-5)


def test_a_head_can_be_named_and_wrong_names_get_the_candidates(parts):
    weight, bias = parts
    nodes = [
        node("MatMul", ["x", "w"], "z", name="inner"), node("Add", ["z", "b"], "h"),
        node("MatMul", ["h", "v"], "y", name="outer"), node("Sin", ["y"], "odd", name="wave"),
    ]  # fmt: skip
    content = built(nodes, {"w": weight.T.copy(), "b": bias, "v": np.eye(3, dtype=np.float32)}, output="odd")
    x = np.ones((2, 4), dtype=np.float32)
    for name in ("inner", "z", "h", "outer"):  # the bias belongs to the layer, however it is named
        with pytest.warns(CaveatWarning, match=f"head '{name}' are not what the file returns"):
            said = extract_onnx(content, [x], head=name)
        np.testing.assert_allclose(said.logits, x @ weight.T + bias, rtol=1e-5)
    np.testing.assert_allclose(said.head.weight, np.eye(3))
    with pytest.warns(CaveatWarning, match=r"Sin 'wave'.*without features.*head=<name>; candidates: 'inner', 'outer'"):
        said = extract_onnx(content, [x])
    np.testing.assert_allclose(said.logits, np.sin(x @ weight.T + bias), atol=1e-5)
    assert set(extract_onnx(content, [x], keep=["logits"]).arrays()) == {"logits"}
    with pytest.raises(InputError, match="keep has 'features', but no matrix product"):
        extract_onnx(content, [x], keep=["logits", "features"])
    with pytest.raises(
        InputError, match="head 'no' must name a Gemm or MatMul with stored weights; candidates: 'inner'"
    ):
        extract_onnx(content, [x], head="no")


def test_rows_go_to_a_folder_in_half_the_room(cnn, batches, tmp_path):
    said = extract_onnx(exported(cnn, batches[0][0]), batches, out=tmp_path / "said", dtype="float16")
    assert said.features.dtype == np.float16
    assert said.logits.dtype == np.float32
    np.testing.assert_array_equal(Outputs.load(tmp_path / "said").features, said.features)


def test_bad_files_and_batches_are_explained(cnn, batches, tmp_path):
    content = exported(cnn, batches[0][0])
    with pytest.raises(InputError, match="does not exist"):
        extract_onnx(tmp_path / "nothing.onnx", batches)
    with pytest.raises(InputError, match="not an ONNX file"):
        extract_onnx(b"not an onnx file", batches)
    with pytest.raises(InputError, match="not an ONNX file"):
        extract_onnx(content[: len(content) // 2], batches)
    with pytest.raises(InputError, match="at least one batch"):
        extract_onnx(content, [])
    with pytest.raises(InputError, match=r"cannot run inputs of shape \(2, 5, 8, 8\)"):
        extract_onnx(content, [np.zeros((2, 5, 8, 8))])
    with pytest.raises(InputError, match=r"has NaN, first at row 5 \(row 0 of batch 1\)"):
        extract_onnx(content, [batches[0], np.full((2, 1, 8, 8), np.nan)])
    with pytest.raises(InputError, match="a batch must be an array, .* got str"):
        extract_onnx(content, ["words"])
    with pytest.raises(InputError, match="labels must be between 0 and 2"):
        extract_onnx(content, [(batches[0][0], batches[0][1] + 7)])
    assert extract_onnx(content, [(batches[0][0], batches[0][1] + 7)], labels=False).labels is None


def test_a_head_over_a_sequence_is_refused(parts):
    content = built([node("MatMul", ["x", "w"], "y")], {"w": parts[0].T.copy()}, shape=("n", 5, 4))
    with pytest.raises(InputError, match=r"one feature vector per sample, got shape \(2, 5, 4\) for 2 samples"):
        extract_onnx(content, [np.zeros((2, 5, 4))])


def test_several_inputs_come_by_name_and_the_output_called_logits_is_the_answer(parts):
    weight, bias = parts
    nodes = [
        node("Cast", ["mask"], "kept", to=TensorProto.FLOAT), node("Mul", ["x", "kept"], "h"),
        node("Gemm", ["h", "w", "b"], "logits", transB=1), node("ArgMax", ["logits"], "label", axis=1),
    ]  # fmt: skip
    for fixed in ("n", 2):
        inputs = [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, [fixed, 4]),
            helper.make_tensor_value_info("mask", TensorProto.INT64, [fixed, 4]),
        ]
        outputs = [
            helper.make_tensor_value_info("label", TensorProto.INT64, None),
            helper.make_tensor_value_info("logits", TensorProto.FLOAT, None),
        ]
        stored = [numpy_helper.from_array(value, name) for name, value in {"w": weight, "b": bias}.items()]
        graph = helper.make_graph(nodes, "test", inputs, outputs, stored)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()
        rng = np.random.default_rng(0)
        x, mask = rng.normal(size=(5, 4)), rng.integers(0, 2, size=(5, 4))
        batch = {"mask": torch.from_numpy(mask), "labels": [0, 1, 2, 0, 1], "x": x, "text": ["a"] * 5}
        said = extract_onnx(model, [batch])
        np.testing.assert_allclose(said.features, x * mask, rtol=1e-6)
        np.testing.assert_allclose(said.logits, (x * mask) @ weight.T + bias, rtol=1e-4, atol=1e-5)
        assert said.labels.tolist() == [0, 1, 2, 0, 1]
        with pytest.raises(InputError, match=r"inputs of the file .x, mask. by name, got x"):
            extract_onnx(model, [x])
        with pytest.raises(InputError, match="got x, mask, more"):
            extract_onnx(model, [{"x": x, "mask": mask, "more": x}])


def test_one_input_may_have_any_name_in_a_mapping(cnn, batches):
    content = exported(cnn, batches[0][0])
    said = extract_onnx(content, [{"image": x.numpy(), "target": y} for x, y in batches], labels="target")
    agree(said, extract(cnn, batches))
    np.testing.assert_array_equal(said.labels, torch.cat([y for _, y in batches]))


def test_half_precision_is_stored_as_float32(parts):
    weight, bias = (part.astype(np.float16) for part in parts)
    graph = helper.make_graph(
        [node("Gemm", ["x", "w", "b"], "y", transB=1)], "test",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT16, ["n", 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT16, None)],
        [numpy_helper.from_array(weight, "w"), numpy_helper.from_array(bias, "b")],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()
    said = extract_onnx(model, [np.ones((2, 4))])
    assert {str(dtype) for _, dtype in said.stored().values()} == {"float32"}
    np.testing.assert_allclose(said.logits, said.head.logits(said.features), atol=0.01)
    assert extract_onnx(model, [np.ones((2, 4))], dtype="float16").features.dtype == np.float16


def test_class_numbers_are_not_logits(parts):
    nodes = [
        node("MatMul", ["x", "w"], "z"), node("ArgMax", ["z"], "c", axis=1, keepdims=0),
        node("Cast", ["c"], "y", to=TensorProto.FLOAT),
    ]  # fmt: skip
    with (
        pytest.warns(CaveatWarning, match="comes from ArgMax"),
        pytest.raises(InputError, match=r"must give logits \(n, C\), got int64 of shape \(3,\)"),
    ):
        extract_onnx(built(nodes, {"w": parts[0].T.copy()}), [np.ones((3, 4), dtype=np.float32)])
