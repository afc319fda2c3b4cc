from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

from caveat import CaveatWarning, Head, InputError, Outputs
from caveat.conformal import SplitSets
from caveat.scores import Energy, Mahalanobis


def test_derived_fields_by_hand():
    # head: logits = (h1 + 1, 2 h2 - 1); rows (1, 2) -> (2, 3), (3, 0) -> (4, -1)
    said = Outputs(features=[[1.0, 2.0], [3.0, 0.0]], head=Head([[1.0, 0.0], [0.0, 2.0]], [1.0, -1.0]), labels=[1, 1])
    np.testing.assert_array_equal(said.logits, [[2, 3], [4, -1]])
    np.testing.assert_allclose(said.probs[0], np.exp([2, 3]) / np.exp([2, 3]).sum())
    assert said.predictions.tolist() == [1, 0]
    assert said.correct.tolist() == [True, False]
    assert (said.n, said.n_classes) == (2, 2)


def test_probabilities_are_never_guessed():
    given = Outputs(probs=[[0.9, 0.1], [0.2, 0.8]])
    assert given.logits is None
    assert given.has("probs")
    assert not given.has("logits")
    assert given.predictions.tolist() == [0, 1]
    with pytest.warns(CaveatWarning, match="rows of probabilities"):  # a warning, and they are used as named
        looks_like_probs = Outputs(logits=[[0.9, 0.1]] * 20)
    assert looks_like_probs.probs[0, 0] == pytest.approx(np.exp(0.9) / (np.exp(0.9) + np.exp(0.1)))


def test_absent_fields_are_none():
    said = Outputs(features=[[1.0]])
    for field in (
        "logits",
        "probs",
        "labels",
        "head",
        "mc_logits",
        "confidence",
        "embeddings",
        "predictions",
        "correct",
    ):
        assert getattr(said, field) is None, field
        assert not said.has(field)
    assert said.n_classes is None
    assert not said.layers


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({}, "outputs need at least one array"),
        ({"logits": np.zeros((0, 3))}, r"logits must be a non-empty matrix .* got shape \(0, 3\)"),
        ({"logits": 1.0}, r"logits must be a non-empty matrix .* got shape \(\)"),
        ({"features": [1.0, 2.0]}, r"features must be a non-empty matrix .* got shape \(2,\)"),
        ({"logits": [[1.0, np.nan]]}, "logits has NaN, first at row 0"),
        ({"features": [[1.0], [np.inf]]}, "features has an infinite value, first at row 1"),
        ({"logits": [[1.0, 2.0]], "labels": [2]}, "labels must be between 0 and 1, got 2 at row 0"),
        (
            {"logits": [[1.0, 2.0]], "labels": [0, 1]},
            "logits and labels must have the same number of rows, got 1 and 2",
        ),
        ({"logits": [[1.0, 2.0]], "probs": [[0.5, 0.5]]}, "logits or probs, not both"),
        ({"probs": [[0.5, 0.6], [3.0, 1.0]]}, r"sum to 1, got the sum 1\.1 at row 0"),
        ({"probs": [[1.5, -0.5]]}, "got a negative value at row 0"),
        (
            {"logits": [[1.0, 2.0]], "head": Head(np.zeros((3, 2)))},
            "logits and head.weight must have the same number of classes, got 2 and 3",
        ),
        (
            {"features": [[1.0]], "head": Head(np.zeros((3, 2)))},
            r"features and head.weight must have the same number of columns, got 1 and 2",
        ),
        ({"logits": [[1.0]], "head": np.zeros((1, 1))}, "head must be a caveat.Head"),
        ({"mc_logits": np.zeros((2, 3))}, "mc_logits must be a non-empty array"),
        ({"layers": {"a": np.zeros(3)}}, "samples as its first axis"),
        ({"layers": {"a": np.full((2, 2), np.nan)}}, r"layers\['a'\] has NaN"),
        ({"logits": [[1.0]], "layers": [[[1.0]]]}, "layers must be a map from names to arrays"),
        ({"logits": [[1.0]], "layers": {3: [[1.0]]}}, "the name of a layer must be of type str, got 3"),
        ({"logits": [[1.0, 2.0], [3.0]]}, "logits must be an array of numbers, got a list that numpy cannot read"),
        ({"logits": np.ma.masked_invalid([[1.0, np.nan]])}, "logits has masked values, first at row 0"),
    ],
)
def test_bad_input_gets_one_sentence(fields, message):
    with pytest.raises(InputError, match=message):
        Outputs(**fields)


def test_a_head_needs_one_bias_per_class():
    with pytest.raises(InputError, match=r"head.weight and head.bias must have the same length, got 2 and 3"):
        Head(np.zeros((2, 4)), np.zeros(3))


def test_a_bias_without_room_in_the_type_of_the_weights_is_refused():
    with pytest.raises(InputError, match="head.bias has an infinite value, first at row 1"):
        Head(np.zeros((2, 4), np.float16), [0.0, 1e6])


def test_outputs_are_read_only_but_the_callers_array_is_not_touched():
    logits = np.zeros((2, 2))
    said = Outputs(logits=logits)
    with pytest.raises(ValueError, match="read-only"):
        said.logits[0, 0] = 1
    logits[0, 0] = 1
    with pytest.raises(AttributeError):
        said.logits = logits


def test_rows_by_slice_mask_index_and_number(inlier):
    for rows in (slice(3, 9), np.arange(inlier.n) % 2 == 0, [5, 1, 1], np.array([0])):
        part = inlier[rows]
        np.testing.assert_array_equal(part.logits, inlier.logits[rows])
        np.testing.assert_array_equal(part.mc_logits, inlier.mc_logits[:, rows])
        np.testing.assert_array_equal(part.layers["conv"], inlier.layers["conv"][rows])
        assert part.head is inlier.head
    assert inlier[-1].labels.tolist() == [inlier.labels[-1]]
    assert inlier[2].n == 1
    with pytest.raises(InputError, match="row 150 is outside outputs with n = 150"):
        inlier[150]


def test_samples_come_one_after_the_other(inlier):
    each = list(inlier)
    assert len(each) == inlier.n
    np.testing.assert_array_equal(np.concatenate([one.features for one in each]), inlier.features)
    assert inlier[[]].n == 0
    with pytest.raises(InputError, match="got a tuple"):
        inlier[:, 0]
    with pytest.raises(InputError, match=r"a mask and outputs must have the same length, got 3 and 150"):
        inlier[np.array([True, False, True])]


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda said: pickle.loads(pickle.dumps(said))])
def test_another_process_gets_the_same_and_read_only(inlier, copied):
    back = copied(inlier)
    assert back.stored() == inlier.stored()
    np.testing.assert_array_equal(back.mc_logits, inlier.mc_logits)
    np.testing.assert_array_equal(back.layers["conv"], inlier.layers["conv"])
    np.testing.assert_array_equal(back.head.weight, inlier.head.weight)
    for array in (back.logits, back.layers["conv"], back.head.bias):
        assert not array.flags.writeable


def test_blocks_cover_everything_in_order(inlier, monkeypatch):
    monkeypatch.setattr("caveat._internal.blocks.BLOCK_BYTES", 3000)
    blocks = list(inlier.blocks())
    assert len(blocks) > 3
    np.testing.assert_array_equal(np.concatenate([b.features for b in blocks]), inlier.features)
    np.testing.assert_array_equal(np.concatenate([b.mc_logits for b in blocks], axis=1), inlier.mc_logits)


def test_blocks_carry_only_what_is_asked_for_and_widen_float16():
    said = Outputs(logits=np.ones((3, 2), np.float16), features=np.ones((3, 5)), labels=[0, 1, 0])
    (block,) = said.blocks(["probs"])
    assert block.logits.dtype == np.float32
    assert block.labels is None


def test_a_selection_without_samples_cannot_be_scored(train, inlier):
    sets = SplitSets("lac").calibrate(train)
    for use in (Energy().score, Mahalanobis().fit, SplitSets("lac").calibrate, sets.predict):
        with pytest.raises(InputError, match="outputs must hold at least one sample, got none"):
            use(inlier[np.zeros(inlier.n, dtype=bool)])


def test_features_are_not_read_for_logits_that_are_there():
    head = Head(np.eye(2, 5))
    said = Outputs(logits=np.zeros((3, 2)), features=np.ones((3, 5), np.float16), head=head, labels=[0, 1, 0])
    for fields in (["logits"], ["probs"], ["predictions"], ["correct"]):
        (block,) = said.blocks(fields)
        assert block.features is None
        assert not block.logits.any()
    without = Outputs(features=said.features, head=head)
    (block,) = without.blocks(["probs"])
    np.testing.assert_array_equal(block.logits, without.logits)


@pytest.mark.parametrize("name", ["said.npz", "said"])
def test_files_keep_every_field(tmp_path, inlier, name):
    path = tmp_path / name
    inlier.save(path)
    inlier.save(path)  # again: our own file is replaced
    back = Outputs.load(path)
    for field in ("logits", "features", "labels", "mc_logits", "confidence", "embeddings"):
        np.testing.assert_array_equal(getattr(back, field), getattr(inlier, field))
    np.testing.assert_array_equal(back.head.weight, inlier.head.weight)
    np.testing.assert_array_equal(back.layers["conv"], inlier.layers["conv"])
    assert back.stored() == inlier.stored()


def test_layer_names_may_hold_slashes_and_dots(tmp_path):
    names = ["block.1/relu", "../up", "", ".", "x", "x.npy", "%41", "A", "layer.x", "\x00\n", "日本"]
    said = Outputs(logits=[[1.0]], layers={name: [[i, 0.5]] for i, name in enumerate(names)})
    for path in (tmp_path / "a.npz", tmp_path / "folder"):
        said.save(path)
        assert {name: array[0, 0] for name, array in Outputs.load(path).layers.items()} == {
            name: i for i, name in enumerate(names)
        }
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.npz", "folder"]


def test_a_folder_stays_on_disk(tmp_path, inlier):
    inlier.save(tmp_path / "said")
    features = Outputs.load(tmp_path / "said").features
    base = features
    while base is not None and not isinstance(base, np.memmap):
        base = base.base
    assert isinstance(base, np.memmap)


def test_a_newer_folder_and_a_foreign_manifest_are_refused(tmp_path, inlier):
    inlier.save(tmp_path / "said")
    manifest = tmp_path / "said" / "caveat.json"
    manifest.write_text('{"format": "caveat-outputs", "version": 99}')
    with pytest.raises(InputError, match="has version 99; this Caveat reads up to 3. Upgrade Caveat"):
        Outputs.load(tmp_path / "said")
    manifest.write_text('{"format": "recipes"}')
    with pytest.raises(InputError, match="does not describe Caveat outputs"):
        Outputs.load(tmp_path / "said")


def test_unknown_keys_are_said(tmp_path):
    np.savez(tmp_path / "a.npz", logits=np.zeros((2, 2)), extra=np.zeros(2))
    with pytest.warns(CaveatWarning, match="ignored unknown keys extra"):
        Outputs.load(tmp_path / "a.npz")
    np.savez(tmp_path / "b.npz", feats=np.zeros((2, 2)))
    with pytest.raises(InputError, match="holds none of the keys logits, .* found feats"):
        Outputs.load(tmp_path / "b.npz")


def test_a_bad_array_in_a_file_is_named_with_the_file(tmp_path):
    np.savez(tmp_path / "a.npz", logits=np.array([[1.0, np.nan]]))
    with pytest.raises(InputError, match=r"a\.npz: logits has NaN, first at row 0"):
        Outputs.load(tmp_path / "a.npz")
    np.savez(tmp_path / "b.npz", logits=np.zeros((1, 2)), head_bias=np.zeros(2))
    with pytest.raises(InputError, match="head_bias but no head_weight"):
        Outputs.load(tmp_path / "b.npz")


def test_saying_what_it_is():
    said = Outputs(logits=np.zeros((3, 2), np.float32), labels=[0, 1, 0])
    assert repr(said) == "Outputs(n=3, logits 3x2 float32, labels 3)"


def test_half_precision_is_multiplied_in_single_precision():
    """The predictions are those of the scores, which read float16 as float32."""
    rng = np.random.default_rng(0)
    features, weight = rng.normal(size=(500, 64)).astype(np.float16), rng.normal(size=(9, 64)).astype(np.float16)
    said = Outputs(features=features, head=Head(weight))
    assert said.logits.dtype == np.float32
    np.testing.assert_allclose(said.logits, features.astype(np.float64) @ weight.T.astype(np.float64), atol=1e-4)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_probabilities_given_as_logits_are_told(dtype):
    probs = np.random.default_rng(0).dirichlet(np.ones(5), size=(3, 300)).astype(dtype)
    with pytest.warns(CaveatWarning, match=r"logits are rows of probabilities .* Pass them as probs"):
        Outputs(logits=probs[0])
    with pytest.warns(CaveatWarning, match=r"mc_logits are rows of probabilities .* logarithms"):
        Outputs(mc_logits=probs)
    Outputs(probs=probs[0])
    Outputs(logits=probs[0], check=False)


def test_logits_are_not_taken_for_probabilities():
    probs = np.random.default_rng(0).dirichlet(np.ones(5), size=300)
    Outputs(logits=np.log(probs))
    Outputs(logits=np.eye(3))
    Outputs(logits=np.ones((9, 1)))
    Outputs(logits=probs[:19])  # a few rows may be chance
    last = probs.copy()
    last[-1, 0] += 1  # one row is enough
    Outputs(logits=last)


# -- class names and given predictions --------------------------------------------------------------------------------


@pytest.fixture
def named():
    logits = np.random.default_rng(0).normal(size=(6, 3))
    return Outputs(logits=logits, labels=["dog", "cat", "bee", "cat", "dog", "bee"], class_names=["cat", "dog", "bee"],
                   features=np.ones((6, 2)), head=Head([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], [1.0, 2.0, 3.0]),
                   mc_logits=logits[None], layers={"conv": np.ones((6, 1))})  # fmt: skip


@pytest.mark.parametrize("file", ["rows.npz", "rows"])
def test_names_and_predictions_go_through_files(named, file, tmp_path):
    answers = Outputs(predictions=["b", "a"], confidence=[0.5, 0.9], labels=["a", "a"])
    for outputs in (named, answers):
        outputs.save(tmp_path / file)
        back = Outputs.load(tmp_path / file)
        assert back.class_names == outputs.class_names
        np.testing.assert_array_equal(back.labels, outputs.labels)
        np.testing.assert_array_equal(back.predictions, outputs.predictions)
        assert repr(back) == repr(outputs)


def test_text_in_a_file_is_read_as_names(tmp_path):
    np.savez(tmp_path / "rows.npz", probs=[0.9, 0.2], labels=["spam", "ham"])
    loaded = Outputs.load(tmp_path / "rows.npz", class_names=["ham", "spam"])
    assert (loaded.correct.tolist(), loaded.class_names) == ([True, True], ("ham", "spam"))
    with pytest.raises(InputError, match="rows.npz: labels are 2 class names .*--class-names"):
        Outputs.load(tmp_path / "rows.npz")


def test_the_order_in_a_file_says_the_columns_and_the_order_asked_for_the_result(named, tmp_path):
    named.save(tmp_path / "rows.npz")
    turned = Outputs.load(tmp_path / "rows.npz", class_names=["bee", "cat", "dog"])
    assert turned.class_names == ("bee", "cat", "dog")
    np.testing.assert_array_equal(turned.correct, named.correct)
    with pytest.raises(InputError, match="must name these 3 classes"):
        Outputs.load(tmp_path / "rows.npz", class_names=["bee", "cat", "cow"])


def test_names_stay_with_rows_blocks_and_copies(named):
    assert named[1:3].class_names == named[[0, 5]].class_names == ("cat", "dog", "bee")
    assert {block.class_names for block in named.blocks(("logits",))} == {("cat", "dog", "bee")}
    assert pickle.loads(pickle.dumps(named)).class_names == ("cat", "dog", "bee")
    assert named.has("class_names")
    assert "classes cat, dog, bee" in repr(named)


def test_classes_in_another_order_are_the_same_classes(named):
    turned = named.with_class_names(["bee", "cat", "dog"])
    np.testing.assert_array_equal(turned.logits, named.logits[:, [2, 0, 1]])
    np.testing.assert_array_equal(turned.mc_logits, named.mc_logits[..., [2, 0, 1]])
    np.testing.assert_array_equal(turned.head.weight, named.head.weight[[2, 0, 1]])
    np.testing.assert_array_equal(turned.head.bias, [3, 1, 2])
    assert turned.labels.tolist() == [2, 1, 0, 1, 2, 0]
    np.testing.assert_array_equal(turned.correct, named.correct)
    back = turned.with_class_names(named.class_names)
    np.testing.assert_array_equal(back.logits, named.logits)
    with pytest.raises(InputError, match="class_names must name these 3 classes"):
        named.with_class_names(["bee", "cat"])
    with pytest.raises(InputError, match="class_names must name these 3 classes"):
        named.with_class_names(["bee", "cat", "cow"])


def test_unnamed_classes_get_names_and_labels_alone_may_know_some():
    assert Outputs(logits=[[1.0, 0.0]]).with_class_names(["a", "b"]).class_names == ("a", "b")
    some = Outputs(labels=["c", "a"]).with_class_names(["a", "b", "c"])
    assert (some.labels.tolist(), some.n_classes) == ([2, 0], 3)
    with pytest.raises(InputError, match="must name these 2 classes"):
        Outputs(logits=[[1.0, 0.0]]).with_class_names(["a", "b", "c"])


def test_given_predictions_answer_where_there_are_no_logits():
    answers = Outputs(predictions=[2, 0, 1], confidence=[0.5, 0.9, 0.7], labels=[2, 1, 1])
    assert answers.predictions.tolist() == [2, 0, 1]
    assert answers.correct.tolist() == [True, False, True]
    assert answers[1:].correct.tolist() == [False, True]
    assert (answers.n_classes, answers.has("probs"), answers.has("logits")) == (3, False, False)
    for fields in ({"logits": np.eye(3)}, {"probs": np.eye(3)}, {"features": np.eye(3), "head": Head(np.eye(3))}):
        with pytest.raises(InputError, match="predictions follow from logits"):
            Outputs(predictions=[0, 1, 2], **fields)
    with pytest.raises(InputError, match="Energy needs outputs.logits.*'confidence' reads the confidence"):
        Energy().score(answers)


def test_one_number_that_two_sets_share_is_no_shared_row(recwarn):
    from caveat.outputs.roles import check_roles

    rounded = np.random.default_rng(0).random(600).round(3)
    check_roles({"calibration": Outputs(confidence=rounded[:300]), "inlier": Outputs(confidence=rounded[300:])})
    assert not recwarn.list
    same = Outputs(confidence=np.arange(300.0), predictions=np.zeros(300, int))
    with pytest.raises(InputError, match="the same 300 rows"):
        check_roles({"calibration": same, "inlier": same})


def test_one_hot_labels_and_transposed_logits_get_the_remedy():
    logits = np.random.default_rng(0).normal(size=(40, 3))
    with pytest.raises(InputError, match=r"one-hot rows of shape \(40, 3\). Store labels.argmax\(axis=1\)"):
        Outputs(logits=logits, labels=np.eye(3)[np.arange(40) % 3])
    with pytest.raises(InputError, match=r"logits must have a row per sample, got shape \(3, 40\).*Store logits.T"):
        Outputs(logits=logits.T, labels=np.zeros(40, dtype=int))
    with pytest.raises(InputError, match="logits and labels must have the same number of rows, got 40 and 39"):
        Outputs(logits=logits, labels=np.zeros(39, dtype=int))


def test_a_tensor_that_numpy_cannot_read_gets_the_remedy():
    torch = pytest.importorskip("torch")
    with pytest.raises(InputError, match=r"BFloat16.*Use Outputs.from_torch, or tensor.detach\(\).cpu\(\).float\(\)"):
        Outputs(logits=torch.zeros(3, 2, dtype=torch.bfloat16))
