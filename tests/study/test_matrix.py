from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from caveat import InputError, Outputs
from caveat.evaluation.records import Detection, ModelFacts, Tuning
from caveat_lab.experiments import StudyResults, run
from caveat_lab.experiments.expansion import expand
from caveat_lab.experiments.given_weights import check_weights
from caveat_lab.experiments.matrix import networks
from caveat_lab.experiments.plan import Plan
from caveat_lab.experiments.train_plan import TrainPlan

DIGITS = {"digits": {"name": "digits", "test": 0.25, "limit": 240, "outliers": {
    "noise": {"made": "uniform_noise", "n": 40, "regime": "far"},
    "smooth": {"made": "smooth_noise", "n": 40, "regime": "mid"},
    "turned": {"made": "rotated", "n": 40, "regime": "near"}}}}  # fmt: skip


def content(data=DIGITS, training=None, **matrix):
    usual = {"backbone": {"name": "small_cnn", "width": 4}}
    return {
        "scores": ["msp", "mahalanobis"], "metrics": ["auroc", "augrc", "accuracy"], "resamples": 5,
        "matrix": usual | matrix, "data": data,
        "training": {"epochs": 1, "learning_rate": 0.01, "batch_size": 50} | (training or {}),
    }  # fmt: skip


# -- expansion --------------------------------------------------------------------------------------------------------


def test_every_combination_is_a_source_and_passes_need_dropout():
    found, seeds = networks(content(
        backbone=["small_cnn", {"name": "small_vit", "width": [16, 32]}], paradigm=["confidnet", "devries"],
        dropout=[0.0, 0.3], passes=[0, 10], seed=[0, 1, 2],
    ))  # fmt: skip
    # 3 backbones x 2 paradigms x (at rest without dropout, at rest with it, passes with it)
    assert len(found) == 3 * 2 * 3
    assert seeds == (0, 1, 2)
    assert Counter(network.group for network in found) == {
        "digits/small_cnn": 6, "digits/small_vit width 16": 6, "digits/small_vit width 32": 6,
    }  # fmt: skip
    assert not [network for network in found if network.passes and not network.training["model"]["dropout"]]
    assert found[0].regimes == {"noise": "far", "smooth": "mid", "turned": "near"}


def test_a_part_of_the_training_may_belong_to_the_set_the_backbone_or_the_paradigm():
    data = {"a": {"name": "digits", "test": 0.2, "training": {"epochs": 3, "augment": {"crop": 1}}}}
    found, _ = networks(content(
        data, backbone={"name": "small_cnn", "training": {"learning_rate": 0.5}},
        paradigm=["devries", {"name": "confidnet", "training": {"epochs": 7}}],
    ))  # fmt: skip
    first, second = (network.training["training"] for network in found)
    assert (first["epochs"], second["epochs"]) == (3, 7)
    assert first["learning_rate"] == second["learning_rate"] == 0.5
    assert first["augment"] == {"crop": 1}
    assert "training" not in found[0].training["data"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"matrix": {"bakbone": "vgg13"}}, "Did you mean 'matrix.backbone'"),
        ({"matrix": {"data": ["digit"]}}, "Did you mean 'digits'"),
        ({"matrix": {"passes": [10]}}, "needs a network with dropout"),
        ({"matrix": {"seed": [1, 1]}}, "matrix.seed has 1 twice"),
        ({"matrix": {"paradigm": ["devries", "devries"]}}, "twice"),
        ({"matrix": {"backbone": {"width": 3}}}, "name is missing"),
        ({"matrix": {"backbone": {"name": "vgg13", "label": "a/b"}}}, "slash"),
        ({"data": {}}, "needs \\[data.NAME\\]"),
        ({"training": {"epoch": 3}}, "Did you mean 'training.epochs'"),
        ({"matrix": {"dropout": 0.3, "passes": [0, 10, 10]}}, "matrix.passes has 10 twice"),
        ({"matrix": {"data": ["digits", "digits"]}}, "matrix.data has digits twice"),
        ({"matrix": {"backbone": {"name": "vgg13", "width": [4, 4]}}}, r"matrix.backbone\[0\].width has 4 twice"),
        ({"matrix": {"dropout": [0.0, 1.5]}}, "matrix.dropout must be at least 0 and below 1, got 1.5"),
        (
            {"matrix": {"backbone": {"name": "vgg13", "dropout": 1}}},
            r"backbone\[0\].dropout must be at least 0",
        ),
        ({"matrix": {"paradigm": {"name": "confidnet", "shares": [[3, 1, 1], [2, 1, 1]]}}}, "one entry for each list"),
        (
            {"matrix": {"data": ["digits"]}, "data": DIGITS | {"other": {"nmae": "digits"}}},
            "unknown key 'data.other.nmae'. Did you mean 'data.other.name'",
        ),
        ({"seeds": [0]}, "unknown key 'seeds'"),
        ({"sources": {"a": {"inlier": "a.npz"}}}, "unknown key 'sources'"),
    ],
)
def test_mistakes_are_named(change, message):
    with pytest.raises(InputError, match=message):
        Plan.from_dict(content() | change)


def test_tables_of_a_matrix_without_one_are_named():
    with pytest.raises(InputError, match="training belongs to a study with \\[matrix\\]"):
        Plan.from_dict({"sources": {"a": {"inlier": "a.npz"}}, "training": {"epochs": 3}})


def test_a_set_without_test_images_is_named():
    with pytest.raises(InputError, match="test is missing"):
        expand(Plan.from_dict(content({"digits": {"name": "digits"}})))


def test_networks_at_rest_and_with_passes_share_their_training():
    cells, _ = expand(Plan.from_dict(content(dropout=0.3, passes=[0, 3], seed=[0, 1])))
    tasks = Counter(cell.task for cell in cells)
    assert (tasks["train"], tasks["outputs"]) == (2, 4)
    assert {cell.needs for cell in cells if cell.task == "outputs"} == {c.key for c in cells if c.task == "train"}


def test_a_training_depends_on_what_its_weights_depend_on():
    def keys(task, **change):
        return {cell.key for cell in expand(Plan.from_dict(content(**change)))[0] if cell.task == task}

    fewer = {"digits": DIGITS["digits"] | {"outliers": {"turned": {"made": "rotated", "n": 40}}}}
    assert keys("train") == keys("train", data=fewer)
    assert keys("outputs") != keys("outputs", data=fewer)
    for change in ({"training": {"epochs": 2}}, {"paradigm": "devries"}, {"seed": 1}, {"dropout": 0.1}):
        assert keys("train") != keys("train", **change)
    shorter = {"digits": DIGITS["digits"] | {"limit": 300}}
    assert keys("train") != keys("train", data=shorter)


def test_edited_image_files_train_again(tmp_path):
    def key():
        data = {"own": {"path": "own.npz", "test": 0.2}}
        return expand(Plan.from_dict(content(data), folder=tmp_path))[0][0].key

    images = np.zeros((20, 8, 8), dtype=np.uint8)
    np.savez(tmp_path / "own.npz", x=images, y=np.arange(20) % 2)
    before = key()
    assert before == key()
    np.savez(tmp_path / "own.npz", x=images + 1, y=np.arange(20) % 2)
    assert before != key()


def keys(data, folder="."):
    """Keys of the training and of the outputs of the first network."""
    return [cell.key for cell in expand(Plan.from_dict(content(data), folder=folder))[0][:2]]


def save_image(path, value):
    Image = pytest.importorskip("PIL.Image")
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.full((4, 4, 3), value, dtype=np.uint8)).save(path)


def test_changed_images_in_the_folder_of_a_named_set_are_noticed(tmp_path, monkeypatch):
    monkeypatch.setenv("CAVEAT_DATA", str(tmp_path))
    root = tmp_path / "tiny-imagenet-200"
    for name in ("n01", "n02"):
        save_image(root / "train" / name / "images" / "a.png", 3)
    save_image(root / "val" / "images" / "v.png", 3)
    (root / "val" / "val_annotations.txt").write_text("v.png\tn01\n")
    save_image(tmp_path / "iSUN" / "iSUN_patches" / "1.png", 3)
    data = {"tiny": {"name": "tinyimagenet", "train": "train", "test": "val", "outliers": {"isun": {"split": "all"}}}}
    first = keys(data)
    assert keys(data) == first
    save_image(tmp_path / "iSUN" / "iSUN_patches" / "2.png", 3)  # an outlier
    second = keys(data)
    assert second[0] == first[0]
    assert second[1] != first[1]
    (root / "val" / "val_annotations.txt").write_text("v.png\tn02\n")  # a label of the same length
    third = keys(data)
    assert third[0] == first[0]
    assert third[1] != second[1]
    save_image(root / "train" / "n01" / "images" / "b.png", 3)
    assert keys(data)[0] != first[0]


def test_changed_test_labels_are_asked_again_and_not_trained_again(tmp_path, monkeypatch):
    monkeypatch.setenv("CAVEAT_DATA", str(tmp_path))
    (tmp_path / "mnist").mkdir()
    files = {name: tmp_path / "mnist" / f"{name}-ubyte" for name in
             ("train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1")}  # fmt: skip
    for path in files.values():
        path.write_bytes(b"before")
    data = {"mnist": {"name": "mnist", "train": "train", "test": "test"}}
    first = keys(data)
    files["t10k-labels-idx1"].write_bytes(b"after")
    second = keys(data)
    assert second[0] == first[0]
    assert second[1] != first[1]
    files["train-labels-idx1"].write_bytes(b"after")
    assert keys(data)[0] != first[0]


def test_labels_next_to_an_idx_file_and_files_of_one_name_are_in_the_key(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "images-idx3").write_bytes(name.encode())
        (tmp_path / name / "labels-idx1").write_bytes(name.encode())
    data = {"own": {"test": 0.2, "join": [{"path": f"{name}/images-idx3"} for name in ("a", "b")]}}
    seen = {keys(data, tmp_path)[0]}
    for name in ("a", "b"):
        for file in ("images-idx3", "labels-idx1"):
            (tmp_path / name / file).write_bytes(b"new" + name.encode())
            seen.add(keys(data, tmp_path)[0])
    assert len(seen) == 5


# -- runs -------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    pytest.importorskip("torch")
    store = tmp_path_factory.mktemp("matrix") / "runs"
    plan = Plan.from_dict(content(paradigm=["cross_entropy", "devries"], dropout=0.3, passes=[0, 4], seed=[0, 1]))
    return plan, run(plan, store=store)


def test_a_study_trains_extracts_and_measures(finished):
    _, results = finished
    assert not results.failures
    assert not results.missing
    facts = list(results.records(ModelFacts))
    assert len(facts) == 8
    detections = list(results.records(Detection))
    assert len(detections) == 8 * 2 * 3
    assert {d.block.regime for d in detections} == {"near", "mid", "far"}
    names = {fact.block.model for fact in facts}
    assert names == {
        f"digits/small_cnn/{paradigm}/dropout 0.3{passes}"
        for paradigm in ("cross_entropy", "devries") for passes in ("", "/4 passes")
    }  # fmt: skip


def test_the_outputs_of_passes_are_mean_probabilities_and_the_scores_are_fitted_on_passes(finished):
    _, results = finished
    outputs = [cell for cell in results.cells if cell["task"] == "outputs"]
    for cell in outputs:
        from caveat import Outputs

        train = Outputs.load(results.store.outputs(cell["key"]) / "train")
        assert train.gives_probs == (cell["params"]["passes"] > 0)
        assert train.mc_logits is None  # no score of the plan reads the single passes


def test_a_second_run_computes_nothing_and_a_lost_model_is_trained_again(finished, tmp_path):
    plan, results = finished
    store = tmp_path / "runs"
    shutil.copytree(results.store.folder, store)
    seen = []
    run(plan, store=store, progress=seen.append)
    assert [progress.done for progress in seen] == [0]
    # Outputs and model are gone, and one score is new: everything that it reads is made again.
    shutil.rmtree(store / "models")
    shutil.rmtree(store / "outputs")
    more = Plan.from_dict({**plan.content, "scores": ["msp", "mahalanobis", "energy"]})
    again = run(more, store=store)
    assert not again.failures
    before = {(d.block, str(d.method)): d for d in results.records(Detection)}
    after = {(d.block, str(d.method)): d for d in again.records(Detection)}
    assert {key: after[key] for key in before} == before
    assert len(after) == len(before) * 3 // 2


def test_a_failed_training_fails_what_waits_for_it_and_nothing_else(tmp_path):
    pytest.importorskip("torch")
    plan = Plan.from_dict(content(backbone=[{"name": "small_cnn", "width": 4}, {"name": "small_vit", "patch": 3}]))
    results = run(plan, store=tmp_path / "runs")
    assert {failure.label.split()[0] for failure in results.failures} == {"digits/small_vit/cross_entropy"}
    waiting = [failure for failure in results.failures if failure.error == "SourceError"]
    assert len(waiting) == len(results.failures) - 1
    assert len(list(results.records(ModelFacts))) == 1


def test_given_weights_are_taken_without_training(finished, tmp_path):
    _, results = finished
    trained = next(cell for cell in results.cells if cell["task"] == "train")
    shutil.copytree(results.store.model(trained["key"]), tmp_path / "models" / "digits" / "0")
    given = {"name": "small_cnn", "width": 4, "weights": "models/{data}/{seed}"}
    plan = Plan.from_dict(content(backbone=given, dropout=0.3, seed=0), folder=tmp_path)
    taken = run(plan, store=tmp_path / "runs")
    assert not taken.failures
    first = next(
        r for r in results.records(ModelFacts) if r.block.model == "digits/small_cnn/cross_entropy/dropout 0.3"
    )
    assert next(iter(taken.records(ModelFacts))).accuracy == first.accuracy
    (tmp_path / "models" / "digits" / "0" / "model.safetensors").write_bytes(b"other")
    assert expand(plan)[0][0].key != taken.cells[0]["key"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"backbone": {"name": "small_vit", "patch": 2}}, r"backbone small_cnn, the plan says backbone small_vit\."),
        ({"backbone": {"name": "small_cnn"}}, r"says backbone width 4, the plan says backbone width 16\."),
        ({"backbone": {"name": "small_cnn", "width": 4, "normalize": True}}, "normalize False, .* normalize True"),
        ({"paradigm": "devries"}, "paradigm cross_entropy, the plan says paradigm devries"),
        ({"dropout": 0.2}, r"dropout 0\.3, the plan says dropout 0\.2"),
        ({"dropout": None}, r"dropout 0\.3, the plan says dropout 0\.0"),
        ({"data": {"mnist": DIGITS["digits"] | {"name": "mnist", "train": "train"}}}, "data digits, .* data mnist"),
    ],
)  # fmt: skip
def test_given_weights_of_another_network_are_refused(finished, tmp_path, change, message):
    _, results = finished
    folder = results.store.model(next(cell for cell in results.cells if cell["task"] == "train")["key"])
    given = change.get("backbone", {"name": "small_cnn", "width": 4}) | {"weights": str(folder)}
    plan = content(**{"dropout": 0.3} | change | {"backbone": given})
    network = networks(plan)[0][0]
    with pytest.raises(InputError, match=message):
        check_weights(TrainPlan.from_dict(network.training))


def test_given_weights_that_take_other_images_are_refused(finished, tmp_path):
    _, results = finished
    folder = results.store.model(next(cell for cell in results.cells if cell["task"] == "train")["key"])
    given = {"name": "small_cnn", "width": 4, "weights": str(folder)}
    wider = {"digits": DIGITS["digits"] | {"shape": [1, 12, 12]}}
    plan = Plan.from_dict(content(wider, dropout=0.3, backbone=given))
    failures = run(plan, store=tmp_path / "runs").failures
    assert "input shape [1, 8, 8], the plan says input shape [1, 12, 12]" in failures[0].message
    assert failures[0].error == "InputError"


@pytest.mark.parametrize("place", ["backbone", "paradigm"])
def test_a_training_of_given_weights_is_refused_and_the_general_one_is_not(place):
    entries = {"backbone": {"name": "small_cnn", "weights": "models/x"}, "paradigm": {"name": "devries"}}
    networks(content(**entries))
    networks(content(**entries | {place: entries[place] | {"training": {"device": "cpu"}}}))
    entries[place]["training"] = {"epochs": 3}
    with pytest.raises(InputError, match=f"the {place} .* sets training.epochs, but its networks are given"):
        networks(content(**entries))
    if place == "paradigm":  # another backbone is trained
        networks(content(**entries | {"backbone": [entries["backbone"], "vgg13"]}))


def test_start_weights_are_trained_further(finished, tmp_path):
    _, results = finished
    trained = next(cell for cell in results.cells if cell["task"] == "train")
    shutil.copytree(results.store.model(trained["key"]), tmp_path / "start")
    given = {"name": "small_cnn", "width": 4, "start": "start"}
    plan = Plan.from_dict(content(backbone=given, dropout=0.3), folder=tmp_path)
    done = run(plan, store=tmp_path / "runs")
    assert not done.failures
    from caveat_lab.networks import load_model

    one, two = (load_model(folder.store.model(cell["key"])) for folder, cell in
                ((results, trained), (done, next(c for c in done.cells if c["task"] == "train"))))  # fmt: skip
    assert two.history[-1].loss < one.history[-1].loss


@pytest.mark.slow
def test_two_processes_give_the_same_numbers_as_one(finished, tmp_path):
    plan, results = finished
    twice = run(plan, store=tmp_path / "runs", jobs=2)
    assert not twice.failures
    assert (tmp_path / "runs").is_dir()
    one, two = ({(d.block, str(d.method)): d.auroc for d in r.records(Detection)} for r in (results, twice))
    assert one == two


@pytest.mark.slow
def test_the_example_runs_and_its_report_shows_cliques_by_group(tmp_path):
    pytest.importorskip("torch")
    from caveat.report import write_report

    plan = Path(__file__).parents[2] / "examples" / "grid" / "plan.toml"
    results = run(plan, store=tmp_path / "runs")
    assert not results.failures
    files = write_report(results)
    text = files.markdown.read_text(encoding="utf-8")
    for group in ("digits/small_cnn", "digits/small_vit"):
        for regime in ("errors", "near", "mid", "far"):
            assert f"| {group} | {regime} | AUGRC" in text
    assert "digits" in files.html.read_text(encoding="utf-8")


def test_findings_of_a_matrix_have_groups_and_no_decisions(finished):
    _, results = finished
    findings = StudyResults.read(results.store.folder).findings()
    assert set(findings.groups.values()) == {"digits/small_cnn"}
    assert findings.assessments == {}


def test_regimes_of_a_matrix_follow_files_of_embeddings(tmp_path):
    """The regimes of the plan say noise is far; by the embeddings it is nearest, and the embeddings decide."""
    pytest.importorskip("torch")
    labels = np.arange(60) % 10
    place = np.eye(10)[labels]
    Outputs(embeddings=place, labels=labels).save(tmp_path / "train.npz")
    away = -np.ones((20, 10))
    for name, embeddings in {"noise": place[:20], "smooth": place[:20] + 0.3 * away, "turned": away}.items():
        np.save(tmp_path / f"{name}.npy", embeddings)
    files = {"train": "train.npz"} | {name: f"{name}.npy" for name in ("noise", "smooth", "turned")}
    plan = content({"digits": DIGITS["digits"] | {"embeddings": files}}) | {"regimes": {"by": "proximity"}}
    results = run(Plan.from_dict(plan, folder=tmp_path), store=tmp_path / "runs")
    assert (results.missing, results.failures) == ((), ())
    regimes = {record.block.outlier: record.block.regime for record in results.records(Detection)}
    assert regimes == {"noise": "near", "smooth": "mid", "turned": "far"}


def test_embeddings_of_a_set_that_the_matrix_does_not_have_are_named():
    wrong = {"digits": DIGITS["digits"] | {"embeddings": {"train": "a.npy", "nois": "b.npy"}}}
    with pytest.raises(InputError, match=r"'nois'.*noise"):
        Plan.from_dict(content(wrong))


def test_regimes_by_proximity_need_three_outlier_sets_in_a_matrix():
    outliers = {"noise": {"made": "uniform_noise", "n": 40}}
    plan = content({"digits": DIGITS["digits"] | {"outliers": outliers}}) | {"regimes": {"by": "proximity"}}
    with pytest.raises(InputError, match="at least 3 outlier sets, got 1"):
        expand(Plan.from_dict(plan))


def test_scores_of_dropout_passes_are_left_out_at_rest(tmp_path):
    pytest.importorskip("torch")
    from caveat.report import write_report

    for scores, methods in ((["msp", "mc_entropy"], {"msp", "mc_entropy"}), (["mc_entropy"], {"mc_entropy"})):
        plan = content(dropout=0.3, passes=[0, 3]) | {"scores": scores}
        results = run(Plan.from_dict(plan), store=tmp_path / scores[0])
        assert (results.missing, results.failures) == ((), ())
        found = {(r.block.model.endswith("passes"), r.method.score) for r in results.records(Detection)}
        assert found == {(True, name) for name in methods} | {(False, name) for name in methods - {"mc_entropy"}}
        assert "mc_entropy left out where dropout rests: no dropout passes." in results.notes
        assert "mc_entropy" in write_report(results).markdown.read_text(encoding="utf-8")


def test_scores_of_dropout_passes_need_passes():
    with pytest.raises(InputError, match="'mc_entropy' reads dropout passes, and no network .* Add matrix.passes"):
        expand(Plan.from_dict(content(dropout=0.3) | {"scores": ["msp", "mc_entropy"]}))


def test_scores_of_a_matrix_are_tuned_on_validation_images(tmp_path):
    pytest.importorskip("torch")
    plan = Plan.from_dict(content() | {"scores": ["msp", "gen"], "tune": True})
    results = run(plan, store=tmp_path / "runs")
    assert (results.missing, results.failures) == ((), ())
    chosen = {record.method.score: record for record in results.records(Tuning)}
    assert chosen.keys() == {"msp", "gen"}
