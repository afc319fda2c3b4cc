"""A guard as ONNX: the scores agree, p-values and verdicts given the score are the guard's bit for bit."""

from __future__ import annotations

import json
import sys
from contextlib import nullcontext

import numpy as np
import pytest

from caveat import CaveatError, Head, InputError, MissingExtraError, NotFittedError, Outputs
from caveat.conformal import p_values
from caveat.guard import Guard
from caveat.guard.onnx_graph import DOUBLE, INT64, Graph, Tensor, rank
from caveat.guard.onnx_scores import FORMULAS
from caveat.scores import ASH, GEN, KNN, Energy, Mahalanobis, ReAct, Renyi, make

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")
from onnx import helper  # noqa: E402
from onnx.numpy_helper import from_array  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:Nothing can be promised")  # small calibration sets keep the tests quick

KINDS = np.array(["accept", "abstain", "outlier"])


def run(path, **inputs):
    """Every output of a file by its name."""
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    return dict(zip([value.name for value in session.get_outputs()], session.run(None, inputs), strict=True))


def metadata(path):
    return {entry.key: entry.value for entry in onnx.load(path).metadata_props}


def relu_rows(rng, n, dtype=np.float64):
    """Features after a ReLU, with zeros that tie, and a head with a bias."""
    labels = rng.integers(3, size=n)
    features = np.maximum(np.eye(3, 8)[labels] * 3 + 1.2 * rng.normal(size=(n, 8)), 0).astype(dtype)
    weight = np.random.default_rng(5).normal(size=(3, 8)) * 0.3 + np.eye(3, 8)
    return Outputs(features=features, labels=labels, head=Head(weight.astype(dtype), [0.1, 0.0, -0.2]))


def same_scores(ours, theirs):
    """To the last bit, but for scores that lie on a border of the rounding: one in ten million."""
    np.testing.assert_allclose(ours, theirs, rtol=2**-22, atol=1e-11)
    assert np.count_nonzero(ours != theirs) <= 1


def same_verdicts(result, guard, rows):
    verdicts = guard(rows)
    same_scores(result["score"], verdicts.score)
    assert KINDS[result["kind"]].tolist() == verdicts.kind.tolist()
    assert result["prediction"].tolist() == verdicts.predictions.tolist()
    if verdicts.sets is not None:
        assert (result["set"] == verdicts.sets.member).all()
    return verdicts


def same_p_values(result, guard):
    """Bit for bit, given the score that the graph gave."""
    held, score = guard.calibration_scores_, result["score"]
    assert result["p_value"].tolist() == p_values(calibration=held, test=score).tolist()
    assert result["conditional_p_value"].tolist() == guard._band.upper(score).tolist()


VARIANTS = [ReAct(base="msp"), ASH("p"),
            ASH("b", percentile=50.0), ASH("p", percentile=1.0), Mahalanobis(normalize=True),
            GEN(top=2), Renyi(order=0.5, top=2), Energy(temperature=2.0), KNN(k=1)]  # fmt: skip


@pytest.mark.parametrize("score", [*FORMULAS, *VARIANTS], ids=str)
def test_every_exportable_score_gives_the_verdicts_of_the_guard(score, tmp_path):
    rng = np.random.default_rng(0)
    guard = Guard(score, risk=0.2, delta=0.1).fit(relu_rows(rng, 300)).calibrate(relu_rows(rng, 250))
    rows = relu_rows(rng, 400)
    written = guard.export_onnx(tmp_path / "guard.onnx", head=rows.head, dtype="float64")
    assert written.inputs == ("features",)
    assert written.difference <= 1e-6
    result = run(written.path, features=rows.features)
    assert tuple(result) == written.outputs
    verdicts = same_verdicts(result, guard, rows)
    same_p_values(result, guard)
    assert {"accept", "outlier"} <= set(verdicts.kind)
    same_scores(result["doubt"], verdicts.doubt)


@pytest.mark.parametrize("score", ["msp", "energy", "max_logit", "entropy", "collision", "gen", "renyi"])
def test_logit_scores_read_float32_logits_without_loss(score, calibration, stream, tmp_path):
    held = Outputs(logits=calibration.logits.astype(np.float32), labels=calibration.labels)
    rows = Outputs(logits=np.concatenate([stream.logits, 40 * stream.logits[:50]]).astype(np.float32))
    guard = Guard(score, risk=0.1, sets=None).calibrate(held)
    written = guard.export_onnx(tmp_path / "guard.onnx")
    assert written.difference <= 1e-6
    result = run(written.path, logits=rows.logits)
    assert "set" not in result
    assert "no sets" in metadata(written.path)["caveat.left_out"]
    same_verdicts(result, guard, rows)
    same_p_values(result, guard)


@pytest.mark.parametrize("score", ["entropy", "collision", "gen"])
def test_scores_of_sure_rows_keep_their_digits(score, calibration, tmp_path):
    guard = Guard(score, sets=None).calibrate(calibration)
    logits = np.array([[20.0, 0.0, 1.0], [50.0, 0.0, 1.0], [300.0, 0.0, 1.0]])
    result = run(guard.export_onnx(tmp_path / "guard.onnx", dtype="float64").path, logits=logits)
    same_scores(result["score"], make(score).rounded(Outputs(logits=logits)))
    assert (np.diff(result["score"]) < 0).all()


def test_distances_on_float32_features_are_those_of_the_guard(tmp_path):
    rng = np.random.default_rng(1)
    guard = (
        Guard("mahalanobis", sets=None).fit(relu_rows(rng, 300, np.float32)).calibrate(relu_rows(rng, 250, np.float32))
    )
    rows = relu_rows(rng, 200, np.float32)
    written = guard.export_onnx(tmp_path / "guard.onnx")
    result = run(written.path, features=rows.features)
    assert written.inputs == ("features",)
    assert "prediction" not in result
    assert "logits" in json.loads(metadata(written.path)["caveat.left_out"])["prediction"]
    same_scores(result["score"], guard.statistic_.score(rows))
    same_p_values(result, guard)


def test_sets_of_a_sure_network_in_float32_are_not_lost(tmp_path):
    # Softmax is 1 in float32 for most rows, and so is the level of the sets; in float64 it is 1 - 1e-11 and below it.
    rng = np.random.default_rng(2)
    labels = rng.integers(4, size=600)
    logits = (25 * np.eye(4)[labels] + rng.normal(size=(600, 4))).astype(np.float32)
    guard = Guard("energy").calibrate(Outputs(logits=logits[:300], labels=labels[:300]))
    assert guard.sets_.threshold_ == 0
    rows = Outputs(logits=logits[300:])
    result = run(guard.export_onnx(tmp_path / "guard.onnx").path, logits=rows.logits)
    verdicts = same_verdicts(result, guard, rows)
    assert verdicts.counts["abstain"] == 0


def test_probabilities_are_read_as_probabilities(tmp_path):
    rng = np.random.default_rng(3)
    probs = rng.dirichlet([0.3, 0.3, 0.3], size=500)
    probs[:40] = np.eye(3)[rng.integers(3, size=40)]  # hard zeros
    labels = np.array([rng.choice(3, p=p) for p in probs])
    for score in ("msp", "entropy", "gen", "renyi", "collision"):
        guard = Guard(score, risk=0.3).calibrate(Outputs(probs=probs[20:300], labels=labels[20:300]))
        written = guard.export_onnx(tmp_path / "guard.onnx", dtype="float64")
        assert written.inputs == ("probs",)
        rows = Outputs(probs=np.concatenate([probs[:20], probs[300:]]))
        result = run(written.path, probs=rows.probs)
        same_verdicts(result, guard, rows)
        same_p_values(result, guard)


# -- ranks ------------------------------------------------------------------------------------------------------------


def ranks_of(calibration, scores):
    graph = Graph(17)
    place = rank(calibration, Tensor(graph, "score"))
    inputs = [helper.make_tensor_value_info("score", DOUBLE, ["n"])]
    stored = [from_array(array, name) for name, array in graph.stored.values()]
    outputs = [helper.make_tensor_value_info(place.name, INT64, ["n"])]
    proto = helper.make_model(helper.make_graph(graph.nodes, "ranks", inputs, outputs, initializer=stored),
                              opset_imports=[helper.make_opsetid("", 17)], ir_version=8)  # fmt: skip
    return run(proto.SerializeToString(), score=scores)[place.name]


@pytest.mark.parametrize("n", [1, 2, 3, 4, 7, 8, 9, 63, 64, 65, 10_000])
def test_the_unrolled_search_is_searchsorted_with_ties_and_infinities(n):
    rng = np.random.default_rng(n)
    held = np.sort(np.concatenate([rng.normal(size=n - n // 2), rng.integers(-3, 3, size=n // 2)]))
    if n > 3:
        held[[0, -1]] = -np.inf, np.inf
    scores = np.concatenate([held, np.nextafter(held, np.inf), rng.normal(size=50), [-np.inf, np.inf, -0.0, 0.0]])
    assert ranks_of(held, scores).tolist() == np.searchsorted(held, scores, side="left").tolist()


@pytest.mark.parametrize("n", [1, 2, 500])
def test_ties_and_few_rows(n, tmp_path):
    rng = np.random.default_rng(4)
    labels = rng.integers(3, size=n)
    held = Outputs(logits=np.round(2 * np.eye(3)[labels] + rng.normal(size=(n, 3))), labels=labels)
    with pytest.warns() if n < 3 else nullcontext():
        guard = Guard("max_logit").calibrate(held)
    rows = Outputs(logits=np.round(2 * rng.normal(size=(300, 3))))
    result = run(guard.export_onnx(tmp_path / "guard.onnx", dtype="float64").path, logits=rows.logits)
    verdicts = same_verdicts(result, guard, rows)
    assert result["p_value"].tolist() == verdicts.p_values.tolist()
    assert result["conditional_p_value"].tolist() == verdicts.conditional_p_values.tolist()


def test_ten_thousand_rows_give_p_values_bit_for_bit_in_a_small_file(tmp_path):
    rng = np.random.default_rng(6)
    width = 64
    train, held, rows = (Outputs(features=rng.normal(size=(n, width)) @ np.diag(np.linspace(0.1, 3, width)),
                                 labels=rng.integers(3, size=n)) for n in (400, 10_000, 2000))  # fmt: skip
    guard = Guard(Mahalanobis(class_rank=0), sets=None).fit(train).calibrate(held)
    written = guard.export_onnx(tmp_path / "guard.onnx", dtype="float64")
    result = run(written.path, features=rows.features)
    same_p_values(result, guard)
    assert np.unique(result["p_value"]).size > 1000
    assert KINDS[result["kind"]].tolist() == np.where(result["score"] >= guard.threshold_, "outlier", "accept").tolist()
    # whitener, the search table of 2^14 - 1 scores, and the conditional p-values; 20 kB for all the rest
    assert written.size == written.path.stat().st_size < 8 * (width**2 + 2**14 + 10_001) + 20_000


@pytest.mark.parametrize("combine", ["fisher", "min"])
def test_combined_scores_keep_the_ties_of_their_statistic(combine, tmp_path):
    rng = np.random.default_rng(7)
    scores = [Mahalanobis(class_rank=0), "energy", KNN(k=5), "msp"]
    guard = Guard(scores, combine=combine, risk=0.2).fit(relu_rows(rng, 300)).calibrate(relu_rows(rng, 60))
    rows = relu_rows(rng, 400)
    result = run(
        guard.export_onnx(tmp_path / "guard.onnx", head=rows.head, dtype="float64").path, features=rows.features
    )
    verdicts = guard(rows)
    assert np.unique(verdicts.score).size < 400
    for column, score in zip(result["scores"].T, guard.scores_, strict=True):
        same_scores(column, score.rounded(rows))
    assert result["score"].tolist() == verdicts.score.tolist()
    assert result["p_value"].tolist() == verdicts.p_values.tolist()
    assert KINDS[result["kind"]].tolist() == verdicts.kind.tolist()


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_row_that_the_guard_refuses_is_an_outlier(bad, calibration, tmp_path):
    guard = Guard("max_logit", risk=0.1).calibrate(calibration)
    path = guard.export_onnx(tmp_path / "guard.onnx", dtype="float64").path
    result = run(path, logits=np.array([[9.0, 0.0, 0.0], [bad, 0.0, 0.0], [0.0, bad, 9.0]]))
    assert KINDS[result["kind"]].tolist() == ["accept", "outlier", "outlier"]
    assert np.isnan(result["p_value"]).tolist() == np.isnan(result["score"]).tolist() == [False, True, True]


# -- files ------------------------------------------------------------------------------------------------------------


def test_promises_are_in_the_metadata(calibration, tmp_path):
    guard = Guard("energy", risk=0.1).calibrate(calibration, date="2026-11-18")
    path = guard.export_onnx(tmp_path / "guard.onnx").path
    data = metadata(path)
    promises = json.loads(data["caveat.promises"])
    assert [entry["sentence"] for entry in promises] == [str(promise) for promise in guard.promises]
    assert promises[0]["n"] == 800
    assert promises[0]["calibrated_at"] == data["caveat.calibrated_at"] == "2026-11-18"
    assert data["caveat.fingerprint"] == guard.fingerprint
    assert json.loads(data["caveat.kinds"]) == KINDS.tolist()
    assert float(data["caveat.threshold"]) == guard.threshold_
    assert data["caveat.version"]


def test_a_loaded_guard_exports_the_same_file(tmp_path):
    rng = np.random.default_rng(8)
    guard = Guard(["knn", "react"], risk=0.2).fit(relu_rows(rng, 100)).calibrate(relu_rows(rng, 200))
    guard.save(tmp_path / "guard")
    first = guard.export_onnx(tmp_path / "a.onnx")
    second = Guard.load(tmp_path / "guard").export_onnx(tmp_path / "b.onnx")
    assert first.inputs == ("features",)  # the head that react keeps gives the logits
    assert first.path.read_bytes() == second.path.read_bytes()


def test_without_a_head_features_and_logits_are_inputs(tmp_path):
    rng = np.random.default_rng(9)
    guard = Guard("vim", risk=0.2).fit(relu_rows(rng, 100)).calibrate(relu_rows(rng, 200))
    written = guard.export_onnx(tmp_path / "guard.onnx", dtype="float64")
    assert written.inputs == ("features", "logits")
    rows = relu_rows(rng, 100)
    same_verdicts(run(written.path, features=rows.features, logits=rows.logits), guard, rows)


def test_combined_scores_of_a_sure_network_are_exported(tmp_path):
    # Rows whose msp is -1, or one unit in the last place above it, tie or do not tie by the rounding of exp.
    rng = np.random.default_rng(14)
    labels = rng.integers(3, size=400)
    logits = 38 * np.eye(3)[labels] + 0.5 * rng.normal(size=(400, 3))
    guard = Guard(["msp", "max_logit"]).calibrate(Outputs(logits=logits, labels=labels))
    assert (guard.statistic_.references[0] == -1).mean() > 0.1
    path = guard.export_onnx(tmp_path / "guard.onnx", dtype="float64").path
    result = run(path, logits=logits)
    same_scores(result["scores"][:, 0], make("msp").rounded(Outputs(logits=logits)))
    same_p_values(result, guard)


# -- composed with a model --------------------------------------------------------------------------------------------


def network(path, *, opset=17, output="logits", inner="hidden", kind=onnx.TensorProto.FLOAT):
    """A network of two layers on inputs x (n, 5), with weights of its own."""
    rng, dtype = np.random.default_rng(10), helper.tensor_dtype_to_np_dtype(kind)
    first = rng.normal(size=(5, 16)).astype(dtype)
    second = (2 * np.eye(16, 3) + 0.2 * rng.normal(size=(16, 3))).astype(dtype)
    bias = np.array([0.1, -0.3, 0.2], dtype=dtype)
    nodes = [
        helper.make_node("MatMul", ["x", "first"], ["product"]),
        helper.make_node("Relu", ["product"], [inner]),
        helper.make_node("Gemm", [inner, "second", "bias"], [output]),
    ]
    graph = helper.make_graph(
        nodes, "network", [helper.make_tensor_value_info("x", kind, ["batch", 5])],
        [helper.make_tensor_value_info(output, kind, ["batch", 3])],
        initializer=[from_array(first, "first"), from_array(second, "second"), from_array(bias, "bias")],
    )  # fmt: skip
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8), path)

    def outputs(x, labels=None):
        hidden = np.maximum(x.astype(dtype) @ first, 0)
        return Outputs(features=hidden, labels=labels, head=Head(second.T, bias))

    return outputs


@pytest.mark.parametrize("opset", [11, 13, 17, 18, 21])
@pytest.mark.parametrize("score", ["energy", "mahalanobis"])
def test_model_and_guard_in_one_file(opset, score, tmp_path):
    model = tmp_path / "network.onnx"
    outputs = network(model, opset=opset, output="score", inner="/layer/Relu")  # the name of an output of ours
    rng = np.random.default_rng(11)
    x = rng.normal(size=(900, 5)).astype(np.float32)
    labels = outputs(x).predictions
    guard = Guard(score, risk=0.2).fit(outputs(x[:300], labels[:300])).calibrate(outputs(x[300:600], labels[300:600]))
    sources = {"logits": "score"} | ({"features": "/layer/Relu"} if score == "mahalanobis" else {})
    written = guard.export_onnx(tmp_path / "both.onnx", model=model, outputs=sources)
    assert written.inputs == ("x",)
    result = run(written.path, x=x[600:])
    np.testing.assert_allclose(result["model/score"], outputs(x[600:]).logits, rtol=1e-4, atol=1e-5)
    verdicts = guard(outputs(x[600:]))
    np.testing.assert_allclose(result["score"], verdicts.score, rtol=1e-3, atol=1e-4)
    assert (KINDS[result["kind"]] == verdicts.kind).mean() > 0.99  # float32 rounds in another order
    assert set(KINDS[result["kind"]]) >= {"accept", "outlier"}
    same_p_values(result, guard)
    assert json.loads(metadata(written.path)["caveat.promises"])[0]["what"] == "false alarms"
    onnx.checker.check_model(written.path, full_check=True)


@pytest.mark.parametrize("kind", [onnx.TensorProto.DOUBLE, onnx.TensorProto.FLOAT])
def test_names_that_agree_need_no_map_and_a_file_can_be_composed_again(kind, tmp_path):
    model = tmp_path / "network.onnx"
    outputs = network(model, kind=kind)
    x = np.random.default_rng(12).normal(size=(300, 5)).astype(helper.tensor_dtype_to_np_dtype(kind))
    for n, names in ((200, None), (300, {"logits": "logits"})):
        held = Outputs(logits=outputs(x[:n]).logits, labels=outputs(x[:n]).predictions)
        guard = Guard("energy").calibrate(held)
        written = guard.export_onnx(tmp_path / f"{n}.onnx", model, outputs=names)
        result = run(written.path, x=x)
        same_p_values(result, guard)
        assert metadata(written.path)["caveat.fingerprint"] == guard.fingerprint
        model = written.path
    assert {"model/logits", "model/kind", "kind"} <= set(written.outputs)


# -- refusals ---------------------------------------------------------------------------------------------------------


def test_what_cannot_be_exported_is_one_sentence(calibration, tmp_path):
    path, rng = tmp_path / "guard.onnx", np.random.default_rng(13)
    train, held = relu_rows(rng, 100), relu_rows(rng, 200)
    with pytest.raises(InputError, match="guessing cannot.*energy.*knn"):
        Guard("guessing").calibrate(calibration).export_onnx(path)
    with pytest.raises(InputError, match="guessing cannot"):
        Guard("energy", confidence="guessing", risk=0.1).calibrate(calibration).export_onnx(path)
    with pytest.raises(InputError, match="aps.*empty set"):
        Guard("energy", sets="aps").calibrate(calibration).export_onnx(path)
    with pytest.raises(InputError, match="head=.*--head FILE"):
        Guard("ash").calibrate(held).export_onnx(path)
    with pytest.raises(InputError, match="not the head"):
        Guard("ash").calibrate(held).export_onnx(path, head=Head(2 * held.head.weight))
    with pytest.raises(InputError, match="head must be"):
        Guard("ash").calibrate(held).export_onnx(path, head=held.head.weight)
    with pytest.raises(InputError, match="float16"):
        Guard("energy").calibrate(calibration).export_onnx(path, dtype="float16")
    with pytest.raises(InputError, match="model="):
        Guard("energy").calibrate(calibration).export_onnx(path, outputs={"logits": "y"})
    with pytest.raises(NotFittedError, match="calibrate"):
        Guard("mahalanobis").fit(train).export_onnx(path)
    assert not list(tmp_path.iterdir())


def test_models_that_do_not_fit_are_one_sentence(calibration, tmp_path):
    guard = Guard("energy").calibrate(calibration)
    path, model = tmp_path / "both.onnx", tmp_path / "network.onnx"
    network(model, output="answer")
    with pytest.raises(InputError, match="no tensor 'logits'.*answer"):
        guard.export_onnx(path, model=model)
    with pytest.raises(InputError, match="shape \\(n, 3\\).*16"):
        guard.export_onnx(path, model=model, outputs={"logits": "hidden"})
    with pytest.raises(InputError, match="field"):
        guard.export_onnx(path, model=model, outputs={"logits": "answer", "probs": "answer"})
    proto = onnx.load(model)
    proto.graph.node.append(helper.make_node("Cast", ["answer"], ["whole"], to=INT64))
    onnx.save(proto, model)
    with pytest.raises(InputError, match="float32.*type 7"):
        guard.export_onnx(path, model=model, outputs={"logits": "whole"})
    with pytest.raises(InputError, match="does not exist"):
        guard.export_onnx(path, model=tmp_path / "none.onnx")
    (tmp_path / "text.onnx").write_text("not a model")
    with pytest.raises(InputError, match="not an ONNX file"):
        guard.export_onnx(path, model=tmp_path / "text.onnx")
    with pytest.raises(InputError, match="folder"):
        guard.export_onnx(path, model=tmp_path)
    assert not path.exists()


def test_a_graph_that_disagrees_is_not_written(calibration, tmp_path, monkeypatch):
    guard = Guard("energy").calibrate(calibration)
    right = FORMULAS["energy"]
    monkeypatch.setitem(FORMULAS, "energy", lambda score, fields: right(score, fields) * (1 + 1e-6))
    with pytest.raises(CaveatError, match="other scores"):
        guard.export_onnx(tmp_path / "guard.onnx")
    assert not list(tmp_path.iterdir())


def test_a_file_too_large_for_onnx_is_one_sentence(calibration, tmp_path, monkeypatch):
    monkeypatch.setattr("caveat.guard.onnx_plan.AT_MOST", 1000)
    with pytest.raises(InputError, match="2 GB.*fewer rows"):
        Guard("energy").calibrate(calibration).export_onnx(tmp_path / "guard.onnx")


def test_a_missing_extra_is_named(calibration, tmp_path, monkeypatch):
    guard = Guard("energy").calibrate(calibration)
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(MissingExtraError, match="caveat.onnx"):
        guard.export_onnx(tmp_path / "guard.onnx")


def test_every_formula_names_a_score_of_the_catalogue():
    assert all(make(name).name == name for name in FORMULAS)
