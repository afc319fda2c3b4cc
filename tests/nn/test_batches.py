from __future__ import annotations

from collections import UserDict

import numpy as np
import pytest

from caveat import CaveatWarning, InputError, Outputs

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

from caveat.nn import ease, extract, stream  # noqa: E402


class Words(nn.Module):
    """Mean of the embeddings that the mask keeps, times a scale; computes a loss, and so fails, if it gets labels."""

    def __init__(self):
        super().__init__()
        self.embed, self.drop, self.out = nn.Embedding(20, 6), nn.Dropout(0.5), nn.Linear(6, 3)

    def forward(self, input_ids, attention_mask=None, scale=1.0, labels=None):
        assert labels is None
        mask = torch.ones_like(input_ids) if attention_mask is None else attention_mask
        vectors = self.embed(input_ids) * mask[..., None]
        return {"logits": self.out(self.drop(vectors.sum(dim=1) / mask.sum(dim=1, keepdim=True) * scale))}


class Encoding(UserDict):
    """As tokenizers give it: a mapping that is not a dict."""


@pytest.fixture
def model():
    torch.manual_seed(0)
    return Words()


@pytest.fixture
def words():
    numbers = torch.Generator().manual_seed(1)
    ids = torch.randint(0, 20, (7, 5), generator=numbers)
    mask = torch.ones(7, 5, dtype=torch.long)
    mask[:4, 3:] = 0
    return {"input_ids": ids, "attention_mask": mask, "labels": torch.randint(0, 3, (7,), generator=numbers)}


def by_hand(model, words):
    """The plain loop that extract replaces."""
    model.eval()
    with torch.no_grad():
        return model(input_ids=words["input_ids"], attention_mask=words["attention_mask"])["logits"].numpy()


@pytest.mark.parametrize(
    "form",
    [
        lambda w: w,
        Encoding,
        lambda w: {"labels": w["labels"], "attention_mask": w["attention_mask"], "input_ids": w["input_ids"]},
        lambda w: {key: value.numpy() for key, value in w.items()},
        lambda w: {key: value.tolist() for key, value in w.items()},
        lambda w: w | {"text": ["a word"] * 7, "nothing": None},
        lambda w: {("label" if key == "labels" else key): value for key, value in w.items()},
        lambda w: ({"input_ids": w["input_ids"], "attention_mask": w["attention_mask"]}, w["labels"]),
        lambda w: (w, None),
        lambda w: w | {"labels": nn.functional.one_hot(w["labels"], 3)},
        lambda w: w | {"scale": 1.0},
    ],
)
def test_mappings_in_any_form_give_what_the_plain_loop_gives_bit_for_bit(model, words, form):
    outputs = extract(model, [form(words)])
    np.testing.assert_array_equal(outputs.logits, by_hand(model, words))
    np.testing.assert_array_equal(outputs.labels, words["labels"])
    unmasked = extract(model, [{"input_ids": words["input_ids"]}]).logits
    assert np.abs(outputs.logits[:4] - unmasked[:4]).max() > 1e-3  # the mask was used


def test_the_key_of_the_labels_can_be_named_and_labels_never_reach_the_model(model, words):
    target = {"input_ids": words["input_ids"], "target": words["labels"]}
    np.testing.assert_array_equal(extract(model, [target], labels="target").labels, words["labels"])
    with pytest.raises(InputError, match=r"does not take the inputs 'target'.*'attention_mask'.*labels=<key>"):
        extract(model, [target])
    assert extract(model, [words | {"labels": torch.full((7,), 90)}], labels=False).labels is None
    with pytest.raises(InputError, match=r"batch 0: labels must be between 0 and 2, got 90"):
        extract(model, [words | {"labels": torch.full((7,), 90)}])


@pytest.mark.parametrize("name", ["image", "input"])
def test_a_mapping_of_one_input_fits_a_model_whatever_it_calls_its_input(name):
    x = torch.randn(4, 2)
    outputs = extract(nn.Sequential(nn.Linear(2, 3)), [{name: x, "label": torch.tensor([0, 1, 2, 0])}])
    np.testing.assert_array_equal(outputs.features, x)
    assert outputs.labels.tolist() == [0, 1, 2, 0]


def test_the_main_input_counts_rows_and_is_the_one_that_is_transformed():
    class Scaled(nn.Module):
        main_input_name = "pixels"

        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(2, 3)

        def forward(self, scales, pixels):
            return self.fc(pixels * scales)

    torch.manual_seed(0)
    batch = {"scales": torch.tensor([2.0, 3.0]), "pixels": torch.randn(6, 2)}
    outputs = extract(Scaled(), [batch], transforms=[lambda x, _: x * 0])
    assert outputs.n == 6
    np.testing.assert_allclose(outputs.ease_probs[0], np.broadcast_to(outputs.ease_probs[0, 0], (6, 3)), rtol=1e-6)
    assert np.ptp(outputs.logits, axis=0).min() > 0


def test_passes_layers_and_streams_take_mappings(model, words):
    outputs = extract(model, [words], mc=4, layers={"embed": -1}, pool="mean")
    assert outputs.mc_logits.std(axis=0).min() > 0
    assert outputs.layers["embed"].shape == (7, 6)
    block = next(stream(model, [words]).blocks())
    np.testing.assert_array_equal(block.features, outputs.features)


def test_a_model_that_writes_into_an_input_does_not_change_the_batch():
    class Writing(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(2, 2)

        def forward(self, x, mask):
            return self.fc(x.mul_(mask.mul_(0.5)))

    batch = {"x": torch.ones(3, 2), "mask": torch.ones(3, 2)}
    outputs = extract(Writing(), [batch], transforms=[lambda x, _: x])
    assert all((value == 1).all() for value in batch.values())
    np.testing.assert_allclose(outputs.ease_probs[0], outputs.probs, rtol=1e-6)


def test_every_input_is_moved_to_the_device_of_the_model(elsewhere):
    torch.manual_seed(0)
    model = Words().to(elsewhere)
    batch = {"input_ids": torch.zeros(2, 5, dtype=torch.long), "attention_mask": torch.ones(2, 5, dtype=torch.long)}
    assert extract(model, [batch]).logits.shape == (2, 3)


@pytest.mark.parametrize("kind", [np.float64, np.float32, np.float16, ">f4"])
def test_arrays_of_any_float_type_fit_the_model(kind):
    torch.manual_seed(0)
    model, x = nn.Sequential(nn.Linear(4, 3)), np.random.default_rng(0).normal(size=(5, 4)).astype(kind)
    x.flags.writeable = False
    outputs = extract(model, [(x, np.arange(5) % 3)])
    expected = model(torch.from_numpy(x.astype(np.float32))).detach()
    np.testing.assert_array_equal(outputs.logits, expected)
    assert outputs.labels.tolist() == [0, 1, 2, 0, 1]


def test_whole_numbers_keep_their_type():
    """Token ids and images of bytes are not floats; the model says what it makes of them."""

    class Bytes(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(4, 2)

        def forward(self, x):
            assert x.dtype == torch.uint8
            return self.fc(x / 255)

    assert extract(Bytes(), [np.zeros((3, 4), dtype=np.uint8)]).n == 3


@pytest.mark.parametrize(
    ("batch", "what"),
    [
        ({"x": "a"}, "got a dict without an array among its inputs .none"),
        ({"x": 1}, "without an array among its inputs .'x'"),
        ({"labels": torch.zeros(3)}, "without an array"),
        ("abc", "got str"),
        (np.array(["a", "b"]), "got ndarray"),
        (torch.tensor(1.0), "got Tensor"),
        (([["a"]], 1), "got tuple"),
    ],
)
def test_what_is_not_a_batch_is_refused(model, batch, what):
    with pytest.raises(InputError, match=f"a batch must be a tensor or an array, a mapping.*{what}"):
        extract(model, [batch])


def test_soft_labels_are_refused_with_the_reason(model, words):
    soft = torch.full((7, 3), 0.05) + 0.85 * nn.functional.one_hot(words["labels"], 3)
    with pytest.raises(InputError, match="soft labels, which name no true class"):
        extract(model, [words | {"labels": soft}])


def test_a_dataset_and_a_single_batch_are_not_loaders(model, words):
    data = torch.utils.data.TensorDataset(words["input_ids"], words["labels"])
    with pytest.raises(InputError, match=r"got a TensorDataset, which gives single samples. Pass DataLoader"):
        extract(model, data)
    with pytest.raises(InputError, match=r"got a Encoding, which is one batch. Pass \[it\]"):
        extract(model, Encoding(words))
    assert extract(model, torch.utils.data.DataLoader(data, batch_size=3)).n == 7


def test_a_data_loader_of_mappings_and_a_generator(model, words):
    rows = [{key: value[i] for key, value in words.items()} for i in range(7)]
    loader = torch.utils.data.DataLoader(rows, batch_size=3)
    loaded = extract(model, loader)
    np.testing.assert_array_equal(loaded.labels, words["labels"])
    np.testing.assert_array_equal(extract(model, (batch for batch in loader)).logits, loaded.logits)
    with pytest.raises(InputError, match="more than once"):
        stream(model, (batch for batch in loader))


# -- half precision -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16])
def test_a_model_in_half_precision_takes_floats_and_is_stored_as_float32(kind):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(40, 30), nn.ReLU(), nn.Dropout(0.2), nn.Linear(30, 3)).to(kind)
    x = torch.randn(64, 40)
    outputs = extract(model, [(x, torch.zeros(64))], layers=["0"], mc=2, transforms=[ease.GaussianNoise(0.1)])
    with torch.no_grad():
        expected = model.eval()(x.to(kind)).float()
    np.testing.assert_array_equal(outputs.logits, expected)
    assert {str(dtype) for _, dtype in outputs.stored().values()} == {"float32", "int64"}
    np.testing.assert_allclose(outputs.head.logits(outputs.features), expected, atol=0.02)
    narrow = extract(model, [x], dtype="float16")
    assert (str(narrow.features.dtype), str(narrow.logits.dtype)) == ("float16", "float32")


def test_a_model_of_several_float_types_gets_its_inputs_as_they_are():
    class Mixed(nn.Module):
        def __init__(self):
            super().__init__()
            self.body, self.fc = nn.Linear(4, 4).double(), nn.Linear(4, 2)

        def forward(self, x):
            return self.fc(self.body(x).float())

    assert isinstance(extract(Mixed(), [torch.randn(3, 4, dtype=torch.float64)]), Outputs)
    with pytest.raises(RuntimeError, match="dtype"):
        extract(Mixed(), [torch.randn(3, 4)])


def test_keep_chooses_what_is_stored(model, words):
    assert set(extract(model, [words], keep=["logits"]).arrays()) == {"logits", "labels"}
    assert set(extract(model, [words], keep=["logits", "features"]).arrays()) == {"logits", "features", "labels"}
    assert set(extract(model, [words], keep=("logits", "head")).arrays()) == {
        "logits", "labels", "head_weight", "head_bias",
    }  # fmt: skip
    with pytest.raises(InputError, match="keep must contain 'logits'"):
        extract(model, [words], keep=["features"])
    with pytest.raises(InputError, match="unknown part in keep 'logit'. Did you mean 'logits'"):
        extract(model, [words], keep=["logit"])
    passing = stream(model, [words], keep=["logits"])
    assert (passing.has("features"), passing.head, passing.n_classes) == (False, None, 3)


def test_a_warning_about_a_missing_head_comes_once(model, words):
    class Doubled(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = model

        def forward(self, input_ids, attention_mask):
            return 2 * self.inner(input_ids, attention_mask)["logits"]

    with pytest.warns(CaveatWarning, match="stored without features and head") as caught:
        outputs = extract(Doubled(), [words, words], mc=2)
    assert len(caught) == 1
    assert outputs.mc_logits.shape == (2, 14, 3)
    np.testing.assert_array_equal(outputs.logits[:7], 2 * by_hand(model, words))
