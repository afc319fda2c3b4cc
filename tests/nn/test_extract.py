from __future__ import annotations

import copy
import gc
import mmap
import subprocess
import sys

import numpy as np
import pytest

from caveat import CaveatWarning, InputError, Outputs, conformal
from caveat.scores import MDSEnsemble

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

from caveat.nn import ease, extract  # noqa: E402


class SmallCNN(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten()
        )
        self.drop = nn.Dropout(0.5)
        self.side = nn.Linear(16, 7)
        self.fc = nn.Linear(16, 3)

    def forward(self, x):
        h = self.drop(self.body(x))
        self.side(h)  # runs, but is not the answer
        return self.fc(h)


@pytest.fixture
def model():
    torch.manual_seed(0)
    return SmallCNN()


@pytest.fixture
def batches():
    torch.manual_seed(1)
    return [(torch.randn(n, 1, 8, 8), torch.randint(0, 3, (n,))) for n in (5, 5, 2)]


def test_outputs_are_those_of_the_model_at_rest(model, batches):
    said = extract(model, batches)
    model.eval()
    with torch.no_grad():
        expected = model(torch.cat([x for x, _ in batches])).numpy()
    np.testing.assert_allclose(said.logits, expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(said.head.logits(said.features), said.logits, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(said.labels, torch.cat([y for _, y in batches]))
    assert said.features.shape == (12, 16)


def test_the_rows_are_those_of_a_plain_loop_bit_for_bit(model, batches):
    outputs = extract(model, batches)
    model.eval()
    with torch.no_grad():
        features = [model.body(x) for x, _ in batches]
        logits = [model(x) for x, _ in batches]
    np.testing.assert_array_equal(outputs.features, torch.cat(features))
    np.testing.assert_array_equal(outputs.logits, torch.cat(logits))
    np.testing.assert_array_equal(outputs.head.weight, model.fc.weight.detach())


def test_the_model_is_left_bit_identical_and_in_its_modes(model, batches):
    model.train()
    model.drop.eval()  # a mixed state must survive
    before = copy.deepcopy(model.state_dict())
    extract(model, batches)
    assert all(torch.equal(before[key], value) for key, value in model.state_dict().items())
    assert model.training
    assert model.body.training
    assert not model.drop.training
    assert not any(module._forward_hooks for module in model.modules())
    assert torch.is_grad_enabled()


def test_the_model_is_restored_when_a_batch_fails(model):
    model.train()
    with pytest.raises(RuntimeError):
        extract(model, [torch.zeros(2, 5, 8, 8)])  # five channels instead of one
    assert model.training
    assert not any(module._forward_hooks for module in model.modules())


def test_a_head_can_be_named(model, batches):
    with pytest.warns(CaveatWarning, match="head 'side' are not what the model returns"):
        assert extract(model, batches, head="side").logits.shape == (12, 7)


@pytest.mark.parametrize("change", [lambda z: z / 2.5, lambda z: z + torch.arange(3.0), lambda z: z.argmax(dim=1)])
def test_a_named_head_whose_logits_the_model_changes_is_warned_of_once(change):
    model, x = Answering(lambda z, *_: change(z)), torch.randn(6, 4)
    with pytest.warns(CaveatWarning, match="head 'fc' are not what the model returns") as told:
        said = extract(model, [x, x], head="fc", mc=0)
    assert len(told) == 1
    np.testing.assert_allclose(said.logits[:6], model.fc(model.embed(x)).detach(), rtol=1e-5)


@pytest.mark.parametrize(
    "how",
    [
        lambda z, *_: z,
        lambda z, *_: z.softmax(dim=1),
        lambda z, *_: z.log_softmax(dim=1),
        lambda z, *_: z.half(),
        lambda z, h, _: {"logits": z.double(), "features": h},
        lambda z, h, other: (other, [h, z]),
    ],
)
def test_a_named_head_that_gives_the_answer_is_not_warned_of(how):
    assert extract(Answering(how), [torch.randn(6, 4)], head="fc").logits.shape == (6, 3)


@pytest.mark.parametrize(
    ("head", "message"),
    [("nope", "not a module of the model; candidates: 'side', 'fc'"), ("drop", "it is Dropout; candidates")],
)
def test_a_wrong_head_name_is_explained(model, batches, head, message):
    with pytest.raises(InputError, match=message):
        extract(model, batches, head=head)


def test_a_head_over_a_sequence_is_refused():
    with pytest.raises(InputError, match=r"one feature vector per sample, got \(2, 5, 4\) for 2 samples"):
        extract(nn.Sequential(nn.Linear(4, 3)), [torch.zeros(2, 5, 4)])
    with pytest.raises(InputError, match=r"per sample, got \(2, 5, \d\) for 2 samples"):
        extract(nn.Sequential(nn.Linear(4, 3)), [torch.zeros(2, 5, 4)], keep=["logits"])


def test_a_head_that_runs_twice_is_refused():
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(3, 3)

        def forward(self, x):
            return self.fc(self.fc(x))

    with pytest.raises(InputError, match="must run once in a forward pass, ran 2 times"):
        extract(Twice(), [torch.zeros(2, 3)], head="fc")


class Answering(nn.Module):
    """Says its logits in one of many ways; the features are the output of a linear layer too."""

    def __init__(self, how):
        super().__init__()
        self.how = how
        self.embed, self.fc, self.other = nn.Linear(4, 5), nn.Linear(5, 3), nn.Linear(5, 2)

    def forward(self, x):
        h = self.embed(x)
        return self.how(self.fc(h), h, self.other(h))


@pytest.mark.parametrize(
    "how",
    [
        lambda z, h, _: (z, h),
        lambda z, h, _: (h, z),
        lambda z, h, _: {"features": h, "scores": z},
        lambda z, h, other: {"features": h, "other": other, "logits": z},
        lambda z, h, _: (h, [{"inner": z}]),
        lambda z, _, __: z.unsqueeze(0).squeeze(0),
        lambda z, _, __: z.double(),
    ],
)
def test_the_answer_is_found_beside_features(how):
    assert extract(Answering(how), [torch.randn(6, 4)]).logits.shape == (6, 3)


def test_two_answers_are_one_too_many():
    model = Answering(lambda z, h, other: (z, other))
    with pytest.raises(InputError, match="several linear layers .* candidates: 'fc', 'other'"):
        extract(model, [torch.randn(6, 4)])
    assert extract(model, [torch.randn(6, 4)], head="fc").logits.shape == (6, 3)


def test_a_nan_is_found_where_it_is_and_not_in_the_head():
    with pytest.raises(InputError, match="logits has NaN, first at row 1"):
        extract(nn.Linear(4, 3), [torch.tensor([[0.0] * 4, [np.nan] * 4])])


def test_a_module_with_two_names_answers_to_both():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = self.head = nn.Linear(4, 3)

        def forward(self, x):
            return self.head(x)

    model, x = Tied(), torch.randn(6, 4)
    for name in ("auto", "fc", "head"):
        np.testing.assert_array_equal(extract(model, [x], head=name).logits, model(x).detach())


class Scribbling(nn.Module):
    """Writes into its input: halves it in place, and drops in place. Its logits are the sum of what is left, and 0."""

    def __init__(self):
        super().__init__()
        self.drop, self.fc = nn.Dropout(0.5, inplace=True), nn.Linear(4, 2, bias=False)
        with torch.no_grad():
            self.fc.weight.copy_(torch.tensor([[1.0] * 4, [0.0] * 4]))

    def forward(self, x):
        return self.fc(self.drop(x.mul_(0.5)))


def test_a_model_that_writes_into_its_input_hears_the_same_each_time():
    x = torch.ones(400, 4)

    def nothing(inputs, _):
        return inputs.mul_(0)

    def same(inputs, _):
        return inputs

    said = extract(Scribbling(), [x], mc=40, transforms=[nothing, same])
    assert (x == 1).all()
    assert (said.logits == np.array([2, 0])).all()  # 4 x 1/2
    np.testing.assert_allclose(said.ease_probs[0], 0.5)
    np.testing.assert_allclose(said.ease_probs[1], said.probs, rtol=1e-6)
    # In a pass each input is 0 or 1 with equal chances: the sum has mean 2 and variance 1, so the mean of 400 has a
    # standard error of 1/20. On what the passes before left, the fortieth would be 0.
    assert abs(said.mc_logits[-1, :, 0].mean() - 2) < 4 / 20


def test_loaders_without_labels_and_bad_loaders(model):
    assert extract(model, [torch.randn(3, 1, 8, 8)]).labels is None
    assert extract(model, [[torch.randn(3, 1, 8, 8)]]).labels is None
    with pytest.raises(InputError, match="at least one batch"):
        extract(model, [])
    with pytest.raises(InputError, match="every batch must have labels, or none"):
        extract(model, [(torch.randn(3, 1, 8, 8), torch.tensor([0, 1, 2])), torch.randn(3, 1, 8, 8)])


@pytest.mark.parametrize(
    "given",
    [
        lambda y: y,
        lambda y: y[:, None],
        lambda y: y.numpy(),
        lambda y: y.tolist(),
        lambda y: y.to(torch.uint8),
        lambda y: y.float(),
        lambda y: y.half()[:, None],
        lambda y: y.to(torch.bfloat16),
        lambda y: y.double().numpy(),
        lambda y: nn.functional.one_hot(y, 3),
        lambda y: nn.functional.one_hot(y, 3).float(),
        lambda y: nn.functional.one_hot(y, 3).bool().numpy(),
    ],
)
def test_labels_are_class_numbers_or_one_hot_rows_however_they_come(model, batches, given):
    said = extract(model, [(x, given(y)) for x, y in batches])
    np.testing.assert_array_equal(said.labels, torch.cat([y for _, y in batches]))


@pytest.mark.parametrize("beside", [lambda n: {"path": "a"}, lambda n: None])
def test_what_is_not_numbers_is_no_label(model, batches, beside):
    assert extract(model, [(x, beside(len(x))) for x, _ in batches]).labels is None


@pytest.mark.parametrize("beside", [lambda n: ["cat"] * n, lambda n: ("cat",) * n, lambda n: np.array(["cat"] * n)])
def test_text_in_place_of_labels_is_said_once_and_not_stored(model, batches, beside):
    given = [(x, beside(len(x))) for x, _ in batches]
    with pytest.warns(CaveatWarning, match="text where labels may be .'cat'.*Encode the names") as told:
        assert extract(model, given).labels is None
    assert len(told) == 1
    assert extract(model, given, labels=False).labels is None


def test_text_under_the_key_of_labels_is_said(model, batches):
    given = [{"image": x, "label": ["cat"] * len(x)} for x, _ in batches]
    with pytest.warns(CaveatWarning, match="Encode the names"):
        assert extract(model, given, keep=["logits"]).labels is None


class CountsRows(nn.Module):
    """Counts its rows in a buffer, in place or by a new tensor."""

    def __init__(self, in_place):
        super().__init__()
        self.layer, self.in_place = nn.Linear(4, 3), in_place
        self.register_buffer("rows", torch.zeros(()))

    def forward(self, x):
        if self.in_place:
            self.rows += len(x)
        else:
            self.rows = self.rows + len(x)
        return self.layer(x) + self.rows


@pytest.mark.parametrize("in_place", [True, False])
def test_a_model_that_counts_its_rows_in_a_buffer_is_restored(in_place):
    model = CountsRows(in_place)
    before, x = model.rows, torch.rand(5, 4)
    said = extract(model, [x, x], mc=0, keep=["logits"])
    assert model.rows is before
    assert model.rows == 0
    np.testing.assert_array_equal(said.logits[:5], said.logits[5:])  # the second batch is as the first


def test_bytes_for_a_model_of_floats_are_explained(model, batches):
    with pytest.raises(InputError, match="cannot take a batch of torch.uint8 .* Convert it to the floats"):
        extract(model, [(batches[0][0] * 255).to(torch.uint8)])


def test_a_model_without_numbers_is_explained():
    with pytest.raises(InputError, match="'weight' of Linear is on the meta device, which holds no numbers"):
        extract(nn.Linear(4, 3, device="meta"), [torch.rand(2, 4)])


@pytest.mark.parametrize(
    ("beside", "what"),
    [
        (lambda n: torch.full((n,), 0.5), "whole class numbers, got 0.5 at row 0"),
        (lambda n: torch.full((n,), float("nan")), "NaN"),
        (lambda n: torch.full((n, 3), 1 / 3), "one-hot rows with a single 1"),
        (lambda n: torch.ones(n, 3), "one-hot rows with a single 1"),
        (lambda n: nn.functional.one_hot(torch.zeros(n).long(), 4), "one-hot rows of 3 classes, got 4"),
        (lambda n: torch.zeros(n + 1), "for each of"),
        (lambda n: torch.zeros(n, 1, 8, 8), "for each of"),
    ],
)
def test_numbers_that_are_no_labels_are_refused_not_dropped(model, batches, beside, what):
    given = [(x, beside(len(x))) for x, _ in batches]
    with pytest.raises(InputError, match=f"batch 0: labels .*{what}.* labels=False"):
        extract(model, given)
    assert extract(model, given, labels=False).labels is None


def test_a_seed_stands_for_a_generator(model, batches):
    one, two = (extract(model, batches, mc=3, rng=rng) for rng in (4, np.random.default_rng(4)))
    np.testing.assert_array_equal(one.mc_logits, two.mc_logits)


def test_an_empty_batch_says_nothing(model, batches):
    x, y = batches[0]
    said = extract(model, [(x[:0], y[:0]), (x, y), (x[:0], y[:0])])
    np.testing.assert_array_equal(said.labels, y)
    with pytest.raises(InputError, match="at least one batch"):
        extract(model, [(x[:0], y[:0])])


def test_what_is_no_model_and_no_loader_is_explained(model, batches):
    for loader in (batches[0][0], batches[0][0].numpy()):
        with pytest.raises(InputError, match="loader must give batches, got a .* Pass \\[it\\]"):
            extract(model, loader)
    with pytest.raises(InputError, match="model must be a torch.nn.Module, got a function"):
        extract(lambda x: x, batches)
    with pytest.raises(InputError, match="got Tensor"):
        extract(model, [torch.tensor(1.0)])


def test_a_loader_without_a_length_has_a_progress_bar_too(model, batches):
    class Rows(torch.utils.data.IterableDataset):
        def __iter__(self):
            return zip(*batches[0], strict=True)

    said = extract(model, torch.utils.data.DataLoader(Rows(), batch_size=2), progress=True)
    np.testing.assert_array_equal(said.labels, batches[0][1])


def test_a_torch_data_loader_and_the_progress_bar(model, batches, capsys):
    data = torch.utils.data.TensorDataset(torch.cat([x for x, _ in batches]), torch.cat([y for _, y in batches]))
    said = extract(model, torch.utils.data.DataLoader(data, batch_size=4), progress=True)
    assert said.n == 12
    assert capsys.readouterr().out == ""


class Vit(nn.Module):
    """A class token before the patches, an encoder, and a head on the token."""

    def __init__(self, dropout=0.1):
        super().__init__()
        self.patches = nn.Conv2d(1, 8, 4, stride=4)
        self.token = nn.Parameter(torch.zeros(1, 1, 8))
        layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=dropout, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.norm = nn.LayerNorm(8)
        self.head = nn.Linear(8, 3)

    def forward(self, x):
        h = self.patches(x).flatten(2).transpose(1, 2)
        h = self.encoder(torch.cat([self.token.expand(len(x), -1, -1), h], dim=1))
        return self.head(self.norm(h)[:, 0])


class Words(nn.Module):
    """Mean of a transformer encoder over a sequence; the answer is in a dict, as some libraries give it."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(20, 8)
        self.encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 1)
        self.out = nn.Linear(8, 4)

    def forward(self, x):
        return {"logits": self.out(self.encoder(self.embed(x)).mean(dim=1)), "loss": None}


@pytest.fixture
def vit():
    torch.manual_seed(2)
    return Vit()


def everything_of(model):
    """What must not change: weights and buffers to the byte, modes, gradients, hooks."""
    return (
        {key: value.numpy().tobytes() for key, value in model.state_dict().items()},
        [module.training for module in model.modules()],
        [(p.requires_grad, None if p.grad is None else p.grad.numpy().tobytes()) for p in model.parameters()],
        [len(m._forward_hooks) + len(m._forward_pre_hooks) + len(m._backward_hooks) for m in model.modules()],
    )


@pytest.mark.parametrize(
    "ask",
    [{}, {"layers": ["body.0"]}, {"mc": 3}, {"transforms": [ease.GaussianNoise(0.1)]}],
    ids=["plain", "layers", "mc", "ease"],
)
def test_nothing_outside_changes(model, batches, ask):
    model.train()
    model.body[1].eval()
    model.fc.bias.requires_grad_(False)
    model(batches[0][0]).sum().backward()
    before, numbers = everything_of(model), torch.random.get_rng_state()
    fast = torch.backends.mha.get_fastpath_enabled()
    extract(model, batches, **ask)
    assert everything_of(model) == before
    assert torch.equal(torch.random.get_rng_state(), numbers)
    assert torch.is_grad_enabled()
    assert torch.backends.mha.get_fastpath_enabled() == fast


def test_the_head_is_a_copy(model, batches):
    said = extract(model, batches)
    before = said.head.weight.copy()
    with torch.no_grad():
        model.fc.weight.add_(1)
    np.testing.assert_array_equal(said.head.weight, before)


@pytest.mark.parametrize("made", [Vit, Words], ids=["vit", "encoder"])
def test_transformers_are_understood(made):
    torch.manual_seed(0)
    model = made()
    x = torch.randn(6, 1, 8, 8) if made is Vit else torch.randint(0, 20, (6, 5))
    said = extract(model, [x[:4], x[4:]])
    model.eval()
    with torch.no_grad():
        expected = model(x) if made is Vit else model(x)["logits"]
    np.testing.assert_allclose(said.logits, expected.numpy(), atol=1e-5)
    np.testing.assert_allclose(said.head.logits(said.features), said.logits, atol=1e-5)
    assert said.features.shape == (6, 8)


def test_later_writes_into_a_tensor_are_not_seen():
    class Scribbler(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.act, self.fc = nn.Conv2d(1, 2, 3), nn.ReLU(inplace=True), nn.Linear(2, 3)

        def forward(self, x):
            h = self.act(self.conv(x)).mean(dim=(2, 3))
            z = self.fc(h)
            h.zero_()
            return z.mul_(2)

    torch.manual_seed(0)
    model, x = Scribbler(), torch.randn(5, 1, 6, 6)
    with pytest.warns(CaveatWarning, match="not what the model returns"):  # twice the logits of the layer
        said = extract(model, [x], head="fc", layers=["conv"])
    assert said.layers["conv"].min() < 0  # before the rectifier wrote into it
    assert np.abs(said.features).max() > 0
    np.testing.assert_allclose(said.head.logits(said.features), said.logits, atol=1e-6)


# -- layers ---------------------------------------------------------------------------------------------------------


def test_layers_are_maps_with_channels_second(model, vit, batches):
    said = extract(model, batches, layers=["body.0", "body.2", "fc"])
    model.eval()
    with torch.no_grad():
        maps = model.body[0](torch.cat([x for x, _ in batches])).numpy()
    np.testing.assert_allclose(said.layers["body.0"], maps, atol=1e-6)
    assert said.layers["body.2"].shape == (12, 4, 6, 6)
    assert said.layers["fc"].shape == (12, 3)
    said = extract(vit, batches, layers=["encoder.layers.0", "encoder.layers.1.linear1", "patches"])
    assert said.layers["encoder.layers.0"].shape == (12, 8, 5)  # four patches and the token
    assert said.layers["encoder.layers.1.linear1"].shape == (12, 16, 5)
    assert said.layers["patches"].shape == (12, 8, 2, 2)


def test_the_channel_axis_can_be_said(vit, batches):
    said = extract(vit, batches, layers={"encoder.layers.0": 1, "patches": 3})
    assert said.layers["encoder.layers.0"].shape == (12, 5, 8)
    assert said.layers["patches"].shape == (12, 2, 8, 2)


def test_pooled_layers_are_the_channel_means(model, batches):
    maps, means = (extract(model, batches, layers=["body.0"], pool=pool) for pool in (None, "mean"))
    np.testing.assert_allclose(means.layers["body.0"], maps.layers["body.0"].mean(axis=(2, 3)), atol=1e-6)
    whole, pooled = (MDSEnsemble().fit(said).score(said) for said in (maps, means))
    np.testing.assert_allclose(pooled, whole, rtol=1e-3)


@pytest.mark.parametrize(
    ("layers", "message"),
    [
        (["body.9"], r"unknown layer 'body.9'. Did you mean 'body.\d'"),
        (["drop", "nothing"], "unknown layer 'nothing'"),
    ],
)
def test_a_wrong_layer_name_is_explained(model, batches, layers, message):
    with pytest.raises(InputError, match=message):
        extract(model, batches, layers=layers)


@pytest.mark.parametrize("axis", [0, 4, -4, -5])
def test_a_wrong_channel_axis_is_explained(model, batches, axis):
    with pytest.raises(InputError, match=f"channel axis of layer 'body.0' must be one of 1 to 3, got {axis}"):
        extract(model, batches, layers={"body.0": axis})


def test_one_layer_may_be_named_without_a_list(model, batches):
    assert list(extract(model, batches, layers="body.0").layers) == ["body.0"]


def test_a_layer_that_is_silent_or_runs_twice_is_explained(batches):
    class Odd(nn.Module):
        def __init__(self):
            super().__init__()
            self.unused, self.act, self.fc = nn.Linear(3, 3), nn.ReLU(), nn.Linear(64, 3)

        def forward(self, x):
            return self.fc(self.act(self.act(x.flatten(1))))

    with pytest.raises(InputError, match="layer 'unused' must run once in a forward pass, ran 0 times"):
        extract(Odd(), batches, layers=["unused"])
    with pytest.raises(InputError, match="layer 'act' must run once in a forward pass, ran 2 times"):
        extract(Odd(), batches, layers=["act"])


# -- dropout passes -------------------------------------------------------------------------------------------------


def test_only_dropout_wakes(model, batches):
    model.train()
    said = extract(model, batches, mc=40, rng=np.random.default_rng(1))
    assert said.mc_logits.shape == (40, 12, 3)
    assert said.mc_logits.std(axis=0).min() > 0
    # A dropped feature is zero, a kept one is doubled: every pass is the head of masked eval-mode features.
    weight, bias, features = said.head.weight, said.head.bias, said.features
    for row in range(3):
        masks = np.array(np.meshgrid(*[[0, 2]] * 16)).reshape(16, -1).T  # all 65,536
        possible = (masks * features[row]) @ weight.T + bias
        for one in said.mc_logits[:5, row]:
            assert np.abs(possible - one).max(axis=1).min() < 1e-4


def test_dropout_passes_have_the_mean_and_variance_of_theory():
    # One input of ones, weight 1/d, rate 1/2: logit = mean of d values that are 0 or 2, so mean 1 and variance 1/d.
    width, passes = 100, 400
    model = nn.Sequential(nn.Dropout(0.5), nn.Linear(width, 1, bias=False))
    nn.init.constant_(model[1].weight, 1 / width)
    said = extract(model, [torch.ones(20, width)], mc=passes)
    values = said.mc_logits[..., 1].ravel()  # one output is the logit of the positive class
    assert abs(values.mean() - 1) < 4 * np.sqrt(1 / width / values.size)
    assert values.var() == pytest.approx(1 / width, rel=4 * np.sqrt(2 / values.size))


@pytest.mark.parametrize("layer", [nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, nn.AlphaDropout, nn.FeatureAlphaDropout])
def test_every_kind_of_dropout_wakes(layer):
    sides = {nn.Dropout1d: 1, nn.Dropout3d: 3}.get(layer, 2)
    model = nn.Sequential(layer(0.5), nn.Flatten(), nn.Linear(2 * 3**sides, 2))
    said = extract(model, [torch.randn(4, 2, *[3] * sides)], mc=6)
    assert said.mc_logits.std(axis=0).max() > 0


def test_dropout_inside_transformers_and_recurrent_layers_wakes(vit, batches):
    said = extract(vit, batches, mc=5)
    assert said.mc_logits.std(axis=0).min() > 0
    for layer in vit.encoder.layers:  # only the dropout of the attention itself is left
        for name in ("dropout", "dropout1", "dropout2"):
            getattr(layer, name).p = 0.0
    assert extract(vit, batches, mc=5).mc_logits.std(axis=0).min() > 0

    class Recurrent(nn.Module):
        def __init__(self):
            super().__init__()
            self.rnn, self.fc = nn.LSTM(4, 6, num_layers=2, dropout=0.5, batch_first=True), nn.Linear(6, 2)

        def forward(self, x):
            return self.fc(self.rnn(x)[0][:, -1])

    assert extract(Recurrent(), [torch.randn(3, 5, 4)], mc=5).mc_logits.std(axis=0).min() > 0


def test_passes_follow_the_seed_and_not_the_global_numbers(model, batches):
    first = extract(model, batches, mc=4, rng=np.random.default_rng(3)).mc_logits
    torch.manual_seed(99)
    np.testing.assert_array_equal(extract(model, batches, mc=4, rng=np.random.default_rng(3)).mc_logits, first)
    assert np.abs(extract(model, batches, mc=4, rng=np.random.default_rng(4)).mc_logits - first).max() > 0
    twice = extract(model, [batches[0], batches[0]], mc=4).mc_logits
    assert np.abs(twice[:, :5] - twice[:, 5:]).max() > 0  # each batch has its own random numbers


@pytest.mark.parametrize("model", [nn.Sequential(nn.Linear(4, 2)), nn.Sequential(nn.Dropout(0.0), nn.Linear(4, 2))])
def test_passes_without_dropout_are_refused(model):
    with pytest.raises(InputError, match=r"mc needs a model with a dropout layer whose rate is above 0"):
        extract(model, [torch.zeros(2, 4)], mc=5)
    with pytest.raises(InputError, match="mc must be a whole number, at least 0"):
        extract(model, [torch.zeros(2, 4)], mc=-1)


# -- transformed copies ---------------------------------------------------------------------------------------------


def test_transformed_copies_are_probabilities_of_changed_inputs(model, batches):
    def shifted(inputs, generator):
        return inputs + 1

    said = extract(model, batches, transforms=[shifted, ease.GaussianNoise(0.05), shifted])
    expected = extract(model, [x + 1 for x, _ in batches]).probs
    assert said.ease_probs.shape == (3, 12, 3)
    np.testing.assert_allclose(said.ease_probs[0], expected, atol=1e-5)
    np.testing.assert_array_equal(said.ease_probs[0], said.ease_probs[2])
    assert 0 < np.abs(said.ease_probs[1] - said.probs).max() < 0.2
    assert conformal.ease(probs=said.probs, transformed=said.ease_probs).shape == (12,)


def test_passes_do_not_change_the_copies(model, batches):
    noise = [ease.GaussianNoise(0.1)] * 2
    alone, beside = (extract(model, batches, transforms=noise, mc=mc).ease_probs for mc in (0, 3))
    np.testing.assert_array_equal(alone, beside)


def test_bad_transformations_are_refused(model, batches):
    with pytest.raises(InputError, match="transforms must be a list with at least one"):
        extract(model, batches, transforms=[])
    with pytest.raises(InputError, match=r"must keep the shape of the inputs \(5, 1, 8, 8\), got \(5, 1, 4, 8\)"):
        extract(model, batches, transforms=[lambda inputs, generator: inputs[:, :, :4]])


# -- types and values -----------------------------------------------------------------------------------------------


def test_half_the_room_but_for_the_logits(model, batches):
    wide = extract(model, batches, layers=["body.0"], mc=2)
    half = extract(model, batches, layers=["body.0"], mc=2, dtype="float16")
    assert half.logits.dtype == np.float32
    np.testing.assert_array_equal(half.logits, wide.logits)
    for a, b in [
        (half.features, wide.features),
        (half.mc_logits, wide.mc_logits),
        (half.layers["body.0"], wide.layers["body.0"]),
    ]:
        assert a.dtype == np.float16
        np.testing.assert_array_equal(a, b.astype(np.float16))
    assert extract(model.double(), [(x.double(), y) for x, y in batches]).features.dtype == np.float64
    with pytest.raises(InputError, match="unknown dtype 'float8'"):
        extract(model, batches, dtype="float8")


def test_brain_floats_are_widened(model, batches):
    said = extract(model.to(torch.bfloat16), [x.to(torch.bfloat16) for x, _ in batches])
    assert said.features.dtype == np.float32


def test_values_that_are_not_finite_name_row_and_batch(model, batches):
    x = batches[1][0].clone()
    x[3] = float("nan")
    with pytest.raises(InputError, match=r"has NaN, first at row 8 \(row 3 of batch 1\). Look for such values"):
        extract(model, [batches[0], x])
    linear = nn.Sequential(nn.Linear(2, 2))
    nn.init.eye_(linear[0].weight)
    with pytest.raises(InputError, match=r"features has an infinite value, first at row 1 .* too large for float16"):
        extract(linear, [torch.tensor([[1.0, 1.0], [1e5, 1.0]])], dtype="float16")


def test_labels_of_outliers_can_be_left_out(model, batches):
    foreign = [(x, y + 50) for x, y in batches]
    with pytest.raises(InputError, match=r"batch 0: labels must be between 0 and 2, got 5.*labels=False"):
        extract(model, foreign)
    assert extract(model, foreign, labels=False).labels is None


# -- files ----------------------------------------------------------------------------------------------------------

ALL = {"layers": ["body.0", "fc"], "mc": 3, "transforms": [ease.GaussianNoise(0.1)] * 2}


def same(one, two):
    assert one.stored().keys() == two.stored().keys()
    for name in ("logits", "features", "labels", "mc_logits", "ease_probs"):
        np.testing.assert_array_equal(getattr(one, name), getattr(two, name))
    for name in two.layers:
        np.testing.assert_array_equal(one.layers[name], two.layers[name])
    np.testing.assert_array_equal(one.head.weight, two.head.weight)
    np.testing.assert_array_equal(one.head.bias, two.head.bias)


def test_a_folder_holds_the_same_and_is_memory_mapped(model, batches, tmp_path):
    said = extract(model, batches, out=tmp_path / "said", **ALL)
    same(said, extract(model, batches, **ALL))
    same(Outputs.load(tmp_path / "said"), said)
    assert all(isinstance(array.base, (np.memmap, mmap.mmap)) for array in (said.features, said.mc_logits))
    assert sorted(p.name for p in tmp_path.iterdir()) == ["said"]
    assert not list((tmp_path / "said").glob("*.part"))
    extract(model, batches[:1], out=tmp_path / "said")  # written again, whole
    assert Outputs.load(tmp_path / "said").n == 5


@pytest.mark.parametrize("bound", [0, 2000, 10**9])
def test_rows_beyond_the_bound_go_to_a_temporary_folder_that_goes_with_them(
    model, batches, tmp_path, monkeypatch, bound
):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    said = extract(model, batches, bound=bound, **ALL)
    same(said, extract(model, batches, **ALL))
    assert bool(list(tmp_path.iterdir())) == (bound < 10**9)
    some = said[2:4]
    del said
    gc.collect()
    assert np.isfinite(some.features).all()
    del some
    gc.collect()
    assert not list(tmp_path.iterdir())


def test_nothing_half_written_is_left(model, batches, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    bad = [batches[0], torch.full((2, 1, 8, 8), float("nan"))]
    for ask in ({"out": tmp_path / "said"}, {"bound": 0}):
        with pytest.raises(InputError, match="has NaN"):
            extract(model, bad, **ask)
        assert not list(tmp_path.iterdir())
    with pytest.raises(InputError, match="out must be a folder"):
        extract(model, batches, out=tmp_path / "said.npz")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "file").write_text("precious")
    with pytest.raises(InputError, match="was not written by Caveat"):
        extract(model, batches, out=tmp_path / "mine")


def test_rows_must_agree_in_shape(batches):
    flexible = nn.Sequential(nn.Conv2d(1, 2, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2, 3))
    with pytest.raises(InputError, match=r"got layer:0 rows of \(2, 4, 4\) after \(2, 6, 6\)"):
        extract(flexible, [batches[0], (torch.zeros(2, 1, 6, 6), torch.tensor([0, 1]))], layers=["0"])
    assert (
        extract(flexible, [batches[0], (torch.zeros(2, 1, 6, 6), torch.tensor([0, 1]))], layers=["0"], pool="mean").n
        == 7
    )


def test_memory_stays_bounded_when_rows_go_to_files(tmp_path):
    # 160 MB of features in batches of 2 MB: the process may grow by little more than a batch and the buffers.
    code = """
import resource, sys, torch
from caveat.nn import extract
model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(1000, 2))
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
extract(model, [torch.zeros(500, 1000)], out=sys.argv[1])
before = peak()
said = extract(model, (torch.zeros(500, 1000) for _ in range(80)), out=sys.argv[1])
print(said.n, (peak() - before) // 1024)
"""
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "said")], capture_output=True, text=True, check=True
    )
    n, grown = map(int, done.stdout.split())
    assert n == 40_000
    assert grown < 40  # MiB
