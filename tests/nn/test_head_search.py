"""The head is found from values, checked against the model's answer, and its absence is said."""

from __future__ import annotations

import warnings
import weakref

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from caveat import CaveatWarning, InputError
from caveat.scores import KNN, Energy

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402

from caveat.nn import extract, stream  # noqa: E402

LOGITS_ONLY = "stored without features and head"


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


def answer_of(model, x):
    """What the model returns at rest, by the plain loop."""
    model.eval()
    with torch.no_grad():
        return model(x)


def check_whole(outputs, expected):
    """Logits are the model's, bit for bit, and the head gives them from the features."""
    np.testing.assert_array_equal(outputs.logits, expected)
    np.testing.assert_allclose(outputs.head.logits(outputs.features), expected, rtol=1e-4, atol=1e-5)


class Ending(nn.Module):
    """A body of maps (n, 6, 4, 4), and an end that is to be examined."""

    def __init__(self, *end):
        super().__init__()
        self.body, self.end = nn.Sequential(nn.Conv2d(1, 6, 3), nn.ReLU()), nn.Sequential(*end)

    def forward(self, x):
        return self.end(self.body(x))


POOL = nn.AdaptiveAvgPool2d(1)
IMAGES = torch.randn(8, 1, 6, 6, generator=torch.Generator().manual_seed(1))


class Transposed(nn.Module):
    def forward(self, x):
        return x.transpose(1, 2)


class Mean(nn.Module):
    def forward(self, x):
        return x.mean(dim=1)


class Cosine(nn.Module):
    """Logits are scaled cosines; the weight is a parameter of its own."""

    def __init__(self, width, classes):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(classes, width))

    def forward(self, x):
        return 10 * functional.linear(functional.normalize(x), functional.normalize(self.weight))


class CosineLinear(nn.Linear):
    """The same as a kind of linear layer, whose weight is not the one that is used."""

    def forward(self, x):
        return functional.linear(functional.normalize(x), functional.normalize(self.weight))


# -- 1x1 convolutions and positions ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "end",
    [
        [POOL, nn.Conv2d(6, 3, 1), nn.Flatten()],
        [nn.Conv2d(6, 3, 1), POOL, nn.Flatten()],
        [nn.Conv2d(6, 3, 1, bias=False), nn.Dropout(0.5), POOL, nn.Flatten()],
        [nn.Conv2d(6, 3, 1, padding="same"), POOL, nn.Flatten()],
        [nn.Flatten(2), nn.Conv1d(6, 3, 1), nn.AdaptiveAvgPool1d(1), nn.Flatten()],
        [nn.Conv2d(6, 3, 1), POOL, nn.Flatten(), nn.Identity()],
    ],
    ids=["pool-conv", "conv-pool", "no bias", "padding same", "conv1d", "identity behind"],
)
def test_a_1x1_convolution_is_a_head_on_pooled_maps(end):
    model = Ending(*end)
    outputs = extract(model, [IMAGES[:5], IMAGES[5:]])
    expected = torch.cat([answer_of(model, part) for part in (IMAGES[:5], IMAGES[5:])])
    check_whole(outputs, expected)
    pooled = model.body(IMAGES).mean(dim=(2, 3)).detach()
    np.testing.assert_allclose(outputs.features, pooled, rtol=1e-5, atol=1e-6)
    name = next(name for name, module in model.named_modules() if type(module).__name__.startswith("Conv")
                and name.startswith("end"))  # fmt: skip
    np.testing.assert_array_equal(extract(model, [IMAGES[:5], IMAGES[5:]], head=name).features, outputs.features)


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    width=st.integers(1, 6),
    classes=st.integers(2, 5),
    sizes=st.lists(st.integers(1, 9), min_size=1, max_size=3),
    side=st.integers(1, 3),
    bias=st.booleans(),
    kind=st.sampled_from([torch.float32, torch.float64, torch.bfloat16]),
    form=st.sampled_from(["linear", "softmax", "conv-pool", "pool-conv", "positions"]),
)
def test_any_linear_end_is_found_and_gives_the_logits(seed, width, classes, sizes, side, bias, kind, form):
    torch.manual_seed(seed)
    linear, conv = nn.Linear(width, classes, bias=bias), nn.Conv2d(width, classes, 1, bias=bias)
    end = {
        "linear": [POOL, nn.Flatten(), linear],
        "softmax": [POOL, nn.Flatten(), linear, nn.Softmax(dim=1)],
        "conv-pool": [conv, POOL, nn.Flatten()],
        "pool-conv": [POOL, conv, nn.Flatten()],
        "positions": [nn.Flatten(2), Transposed(), linear, Mean()],
    }[form]
    model = nn.Sequential(nn.Conv2d(2, width, 1), *end).to(kind)
    batches = [torch.randn(n, 2, side, side, dtype=kind) for n in sizes]
    outputs = extract(model, batches)
    expected = torch.cat([answer_of(model, x) for x in batches]).double()
    if form == "softmax":
        np.testing.assert_allclose(outputs.probs, expected, atol=8 * torch.finfo(kind).eps)
    else:
        np.testing.assert_array_equal(outputs.logits, expected)
    maps = torch.cat([model[0](x).detach().double().abs().mean(dim=(2, 3)) for x in batches])  # rounded, then averaged
    terms = maps.numpy() @ np.abs(outputs.head.weight).T + np.abs(outputs.head.bias)
    gap = np.abs(outputs.head.logits(outputs.features) - outputs.logits)
    assert (gap <= 4 * torch.finfo(kind).eps * terms + 1e-6).all()


def test_positions_that_cancel_in_the_mean_are_no_reason_to_miss_a_head():
    conv = nn.Conv2d(1, 2, 1, bias=False).to(torch.bfloat16)
    conv.weight.data = torch.tensor([1.0, 0.3], dtype=torch.bfloat16).reshape(2, 1, 1, 1)
    maps = torch.tensor([[100.1, -100.0], [1.0, 2.0]]).reshape(2, 1, 1, 2).to(torch.bfloat16)
    outputs = extract(nn.Sequential(nn.Identity(), conv, POOL, nn.Flatten()), [maps])
    assert outputs.features.shape == (2, 1)


def test_a_pooled_head_is_found_on_another_device(elsewhere):
    model = Ending(nn.Conv2d(6, 3, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten()).to(elsewhere)
    assert extract(model, [IMAGES]).features.shape == (8, 6)


def test_dropout_between_a_convolution_and_its_pooling_wakes():
    outputs = extract(Ending(nn.Conv2d(6, 3, 1), nn.Dropout(0.5), POOL, nn.Flatten()), [IMAGES], mc=300)
    assert outputs.features.shape == (8, 6)
    assert outputs.mc_logits.std(axis=0).min() > 0
    # The mean of 300 passes is the answer at rest, up to its standard error.
    gap = np.abs(outputs.mc_logits.mean(axis=0) - outputs.logits)
    assert (gap < 5 * outputs.mc_logits.std(axis=0) / np.sqrt(300)).all()


def test_an_answer_that_leaves_the_head_only_in_later_rows_is_not_that_of_the_head():
    model = nn.Sequential(nn.Linear(4, 3), nn.Hardtanh(-4.0, 4.0))
    x = torch.randn(9, 4)
    x[6] *= 100
    with pytest.warns(CaveatWarning, match=rf"what '0' gives is changed.*{LOGITS_ONLY}"):
        outputs = extract(model, [x])
    np.testing.assert_array_equal(outputs.logits, answer_of(model, x))


@pytest.mark.parametrize(
    "end",
    [
        [nn.Conv2d(6, 3, 1), nn.ReLU(), POOL, nn.Flatten()],
        [nn.Conv2d(6, 3, 1), nn.AdaptiveMaxPool2d(1), nn.Flatten()],
        [nn.Conv2d(6, 3, 3), POOL, nn.Flatten()],
        [nn.Conv2d(6, 3, 1, stride=2), POOL, nn.Flatten()],
        [nn.Conv2d(6, 3, 1, padding=1), POOL, nn.Flatten()],
        [nn.Conv2d(6, 3, 1, groups=3), POOL, nn.Flatten()],
    ],
    ids=["relu between", "max pool", "3x3", "stride", "padding", "groups"],
)
def test_a_convolution_that_is_not_linear_in_pooled_maps_leaves_logits_alone(end):
    model = Ending(*end)
    with pytest.warns(CaveatWarning, match=LOGITS_ONLY):
        outputs = extract(model, [IMAGES])
    np.testing.assert_array_equal(outputs.logits, answer_of(model, IMAGES))
    assert (outputs.features, outputs.head) == (None, None)


def test_the_warning_says_which_layer_is_changed():
    with pytest.warns(CaveatWarning, match=r"what 'end.0' gives is changed"):
        extract(Ending(nn.Conv2d(6, 3, 1), nn.ReLU(), POOL, nn.Flatten()), [IMAGES])


class Tokens(nn.Module):
    """A linear layer on every word; the answer is the mean over words, or the last word that is not padding (0)."""

    def __init__(self, choose):
        super().__init__()
        self.embed, self.score, self.choose = nn.Embedding(20, 6, padding_idx=0), nn.Linear(6, 3), choose

    def forward(self, ids):
        words = self.embed(ids).cumsum(dim=1)
        logits, kept = self.score(words), (ids != 0)
        if self.choose == "mean":
            return logits.mean(dim=1)
        if self.choose == "kept":
            return (logits * kept[..., None]).sum(dim=1) / kept.sum(dim=1, keepdim=True)
        return logits[torch.arange(len(ids)), kept.sum(dim=1) - 1]


def word_batches():
    full = torch.randint(1, 20, (9, 5), generator=torch.Generator().manual_seed(3))
    short = full.clone()
    short[:5, 3:] = 0
    return full, short


def test_a_linear_layer_on_every_word_is_a_head_on_the_word_that_the_model_chose():
    model, (full, short) = Tokens("last"), word_batches()
    outputs = extract(model, [short, full])
    check_whole(outputs, torch.cat([answer_of(model, short), answer_of(model, full)]))
    chosen = model.embed(short).cumsum(dim=1)[torch.arange(9), (short != 0).sum(dim=1) - 1].detach()
    np.testing.assert_array_equal(outputs.features[:9], chosen)
    np.testing.assert_array_equal(extract(model, [short, full], head="score").features, outputs.features)


def test_a_linear_layer_on_every_word_is_a_head_on_the_mean_word():
    model, (full, _) = Tokens("mean"), word_batches()
    outputs = extract(model, [full])
    check_whole(outputs, answer_of(model, full))
    np.testing.assert_allclose(outputs.features, model.embed(full).cumsum(dim=1).mean(dim=1).detach(), rtol=1e-5)


def test_a_mean_that_leaves_out_padding_is_not_taken_for_a_plain_mean():
    model, (full, short) = Tokens("kept"), word_batches()
    with pytest.warns(CaveatWarning, match=LOGITS_ONLY):
        extract(model, [short])
    with pytest.warns(CaveatWarning, match=LOGITS_ONLY):
        extract(model, [short.flip(0)])  # the first rows have no padding
    with pytest.raises(InputError, match=r"head 'score'.*not in a later one.*keep=\['logits'\]"):
        extract(model, [full, short])  # without padding both means agree
    np.testing.assert_array_equal(
        extract(model, [short, full], keep=["logits"]).logits,
        torch.cat([answer_of(model, short), answer_of(model, full)]),
    )


def test_a_named_head_whose_positions_are_not_pooled_is_refused():
    with pytest.raises(InputError, match=r"one feature vector per sample, got \(8, 6, 4, 4\)"):
        extract(Ending(nn.Conv2d(6, 3, 1), nn.ReLU(), POOL, nn.Flatten()), [IMAGES], head="end.0")


class LateBranch(nn.Module):
    """Other layers run after the head, one of them with as many outputs."""

    def __init__(self, depth=1, width=5):
        super().__init__()
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.head, self.late = nn.Linear(width, 3), nn.Linear(3, 3)

    def forward(self, x):
        for layer in self.body:
            x = layer(x)
        logits = self.head(x)
        self.late(logits)
        return logits


def test_a_head_that_is_not_the_last_layer_to_run_keeps_all_its_rows():
    model, x = LateBranch(), torch.randn(11, 5)
    outputs = extract(model, [x[:9], x[9:]], mc=0)
    check_whole(outputs, torch.cat([answer_of(model, x[:9]), answer_of(model, x[9:])]))
    np.testing.assert_array_equal(outputs.features[:9], answer_of(model.body[0], x[:9]))


def test_the_search_does_not_keep_all_rows_of_all_layers():
    """A vision transformer of twelve blocks would need 100 MB per image."""
    runs, rows = [], 1000
    model = LateBranch(depth=30)

    class Counting(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            result = func(*args, **(kwargs or {}))
            if func._schema.name == "aten::clone":
                runs.append(weakref.ref(result))
                most.append(sum(len(t) for ref in runs if (t := ref()) is not None and t.ndim))
            return result

    most = []
    with Counting():
        extract(model, [torch.randn(rows, 5)], progress=False)
    assert max(most) < 6 * rows  # input, and input and output of two layers; all of them would be over 60 times


# -- a softmax behind the head --------------------------------------------------------------------------------------


@pytest.mark.parametrize("behind", [nn.Softmax(dim=1), nn.LogSoftmax(dim=1)])
@pytest.mark.parametrize("kind", [torch.float64, torch.float32, torch.bfloat16])
def test_the_logits_before_a_softmax_are_found(behind, kind):
    plain = nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 3)).to(kind)
    x = torch.randn(7, 4)
    outputs, expected = extract(nn.Sequential(plain, behind), [x]), extract(plain, [x])
    np.testing.assert_array_equal(outputs.logits, expected.logits)
    np.testing.assert_array_equal(outputs.features, expected.features)
    np.testing.assert_array_equal(outputs.head.weight, expected.head.weight)


class Functional(nn.Module):
    """A head that is not a module."""

    def __init__(self, behind=None):
        super().__init__()
        self.body, self.weight, self.behind = nn.Linear(4, 5), nn.Parameter(torch.randn(3, 5)), behind

    def forward(self, x):
        logits = functional.linear(self.body(x).relu(), self.weight)
        return logits if self.behind is None else self.behind(logits)


def test_probabilities_are_never_stored_as_logits():
    x = torch.randn(7, 4)
    with pytest.raises(InputError, match="returns probabilities, and no linear layer gives"):
        extract(Functional(nn.Softmax(dim=1)), [x])
    with pytest.raises(InputError, match="returns probabilities"):
        extract(Functional(nn.Softmax(dim=1)), [x], keep=["logits"])
    tempered = nn.Sequential(nn.Linear(4, 3), Halved(), nn.Softmax(dim=1))
    with pytest.raises(InputError, match="returns probabilities.*candidates: '0'"):
        extract(tempered, [x])


def test_log_probabilities_without_a_layer_are_warned_of():
    with pytest.warns(CaveatWarning, match="log-probabilities, .*energy"):
        outputs = extract(Functional(nn.LogSoftmax(dim=1)), [torch.randn(7, 4)], keep=["logits"])
    np.testing.assert_allclose(Energy().score(outputs), 0, atol=1e-6)  # the warning's reason


# -- heads that are not linear --------------------------------------------------------------------------------------


class Halved(nn.Module):
    def forward(self, x):
        return x / 2


class InPlace(nn.Module):
    def forward(self, x):
        return x.div_(2)


@pytest.mark.parametrize(
    "make",
    [
        Functional,
        lambda: nn.Sequential(nn.Linear(4, 5), nn.ReLU(), Cosine(5, 3)),
        lambda: nn.Sequential(nn.Linear(4, 3), Halved()),
        lambda: nn.Sequential(nn.Linear(4, 3), InPlace()),
    ],
    ids=["functional", "cosine", "temperature", "temperature in place"],
)
def test_without_a_linear_head_the_models_own_logits_are_stored(make):
    model, x = make(), torch.randn(7, 4)
    with pytest.warns(CaveatWarning, match=rf"no linear layer gives the model's output.*{LOGITS_ONLY}") as caught:
        outputs = extract(model, [(x, torch.zeros(7)), (x, torch.ones(7))])
    assert len(caught) == 1
    np.testing.assert_array_equal(outputs.logits[:7], answer_of(model, x))
    assert set(outputs.arrays()) == {"logits", "labels"}
    silent = extract(model, [x], keep=["logits"])  # a warning would be an error here
    np.testing.assert_array_equal(silent.logits, outputs.logits[:7])
    with pytest.raises(InputError, match="keep has 'features' and 'head', but no linear layer"):
        extract(model, [x], keep=["logits", "features", "head"])
    with pytest.warns(CaveatWarning, match=LOGITS_ONLY):
        passing = stream(model, [x])
    np.testing.assert_allclose(Energy().score(passing), Energy().score(silent), rtol=1e-6)
    with pytest.raises(InputError, match="features, which is None"):
        KNN().fit(outputs)


def test_a_linear_layer_that_computes_something_else_gives_features_without_a_head():
    model, x = nn.Sequential(nn.Linear(4, 5), nn.ReLU(), CosineLinear(5, 3)), torch.randn(7, 4)
    with pytest.warns(CaveatWarning, match="head '2' .CosineLinear. does not compute weight @ features"):
        outputs = extract(model, [x])
    np.testing.assert_array_equal(outputs.logits, answer_of(model, x))
    np.testing.assert_array_equal(outputs.features, answer_of(model[:2], x))
    assert outputs.head is None
    assert extract(model, [x], keep=["logits", "features"]).head is None
    with pytest.raises(InputError, match="keep has 'head', but head '2'"):
        extract(model, [x], keep=["logits", "head"])


def test_a_named_module_that_gives_the_answer_keeps_its_features():
    model, x = nn.Sequential(nn.Linear(4, 5), nn.ReLU(), Cosine(5, 3)), torch.randn(7, 4)
    with pytest.warns(CaveatWarning, match=r"head '2' is Cosine, not a linear layer.*stored without head"):
        outputs = extract(model, [x], head="2")
    np.testing.assert_array_equal(outputs.logits, answer_of(model, x))
    np.testing.assert_array_equal(outputs.features, answer_of(model[:2], x))
    with pytest.raises(InputError, match="head '1' must name a linear layer or .* it is ReLU; candidates: '0'"):
        extract(model, [x], head="1")


@pytest.mark.parametrize("norm", ["weight_norm", "spectral_norm", "orthogonal"])
def test_a_parametrized_head_is_linear(norm):
    layer = getattr(nn.utils.parametrizations, norm)(nn.Linear(5, 3))
    model, x = nn.Sequential(nn.Linear(4, 5), nn.ReLU(), layer), torch.randn(7, 4)
    check_whole(extract(model, [x]), answer_of(model, x))


def test_features_that_are_returned_first_are_not_taken_for_logits():
    """A linear layer gives the features, a cosine the logits: the linear layer must not be the head."""

    class Both(nn.Module):
        def __init__(self, order):
            super().__init__()
            self.embed, self.cosine, self.order = nn.Linear(4, 5), Cosine(5, 3), order

        def forward(self, x):
            features = self.embed(x)
            return self.order(self.cosine(features), features)

    x = torch.randn(7, 4)
    with pytest.raises(InputError, match=r"several matrices.*unclear.*key 'logits'"):
        extract(Both(lambda z, h: (z, h)), [x])
    with pytest.warns(CaveatWarning, match=LOGITS_ONLY):
        assert extract(Both(lambda z, h: {"logits": z, "features": h}), [x]).logits.shape == (7, 3)


# -- compiled forms -------------------------------------------------------------------------------------------------


def small():
    return nn.Sequential(nn.Flatten(), nn.Linear(4, 5), nn.ReLU(), nn.Dropout(0.5), nn.Linear(5, 3))


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
@pytest.mark.parametrize(
    "form", ["script", "trace", "freeze", pytest.param("export", marks=pytest.mark.slow), "quantize"]
)
def test_models_whose_layers_cannot_be_watched_give_their_logits(form):
    model, x = small(), torch.randn(7, 4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = {
            "script": lambda: torch.jit.script(model),
            "trace": lambda: torch.jit.trace(model.eval(), x),
            "freeze": lambda: torch.jit.freeze(torch.jit.script(model.eval())),
            "export": lambda: torch.export.export(model.eval(), (x,)).module(),
            "quantize": lambda: torch.ao.quantization.quantize_dynamic(model, {nn.Linear}, dtype=torch.qint8),
        }[form]()
    modes = [getattr(module, "training", None) for module in made.modules()]
    with pytest.warns(CaveatWarning, match=LOGITS_ONLY):
        outputs = extract(made, [(x, torch.arange(7) % 3)])
    assert [getattr(module, "training", None) for module in made.modules()] == modes
    if form == "quantize":  # eight bits: near, not equal
        np.testing.assert_allclose(outputs.logits, answer_of(model, x), atol=0.1)
    else:
        np.testing.assert_allclose(outputs.logits, answer_of(model, x), rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(extract(made, [x], keep=["logits"]).logits, outputs.logits)


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
def test_parts_of_a_script_cannot_be_asked_for():
    scripted = torch.jit.script(small())
    for ask in ({"head": "4"}, {"layers": ["1"]}):
        with pytest.raises(InputError, match=r"got a TorchScript model. Pass the Python model"):
            extract(scripted, [torch.randn(7, 4)], **ask)


def test_a_compiled_model_is_read_as_the_model_that_it_wraps():
    model, x = small(), torch.randn(7, 4)
    check_whole(extract(torch.compile(model, backend="eager"), [x]), answer_of(model, x))


# -- models in the manner of timm -----------------------------------------------------------------------------------


class ImageModel(nn.Module):
    """The interface of timm: forward_features, forward_head, get_classifier, num_features."""

    def __init__(self, num_classes=3, *, conv_head=False):
        super().__init__()
        self.num_classes, self.num_features, self.conv_head = num_classes, 6, conv_head
        self.stem, self.norm = nn.Conv2d(1, 6, 2, stride=2), nn.BatchNorm2d(6)
        self.pool, self.head_drop = nn.AdaptiveAvgPool2d(1), nn.Dropout(0.2)
        self.reset_classifier(num_classes)

    def reset_classifier(self, num_classes):
        self.head = (
            nn.Identity() if num_classes == 0
            else nn.Conv2d(6, num_classes, 1) if self.conv_head
            else nn.Linear(6, num_classes)
        )  # fmt: skip

    def get_classifier(self):
        return self.head

    def forward_features(self, x):
        return self.norm(self.stem(x))

    def forward_head(self, x, pre_logits=False):
        x = self.head_drop(self.pool(x))
        if pre_logits or not self.conv_head:
            x = x.flatten(1)
        return x if pre_logits else self.head(x).flatten(1)

    def forward(self, x):
        return self.forward_head(self.forward_features(x))


@pytest.mark.parametrize("conv_head", [False, True])
def test_an_image_model_gives_its_pre_logits_as_features(conv_head):
    model = ImageModel(conv_head=conv_head)
    model.norm.running_mean.uniform_()
    outputs = extract(model, [IMAGES])
    check_whole(outputs, answer_of(model, IMAGES))
    with torch.no_grad():
        features = model.forward_head(model.forward_features(IMAGES), pre_logits=True)
    np.testing.assert_array_equal(outputs.features, features)
    assert outputs.features.shape[1] == model.num_features


def test_an_image_model_without_a_classifier_does_not_pass_features_off_as_logits():
    with pytest.raises(InputError, match=r"no classifier.*returns features, not logits"):
        extract(ImageModel(num_classes=0), [IMAGES])


def test_the_blocks_of_a_vision_transformer_have_channels_last():
    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.mlp = nn.Linear(6, 6)

        def forward(self, x):
            return x + self.mlp(x).relu()

    class Vision(ImageModel):
        def __init__(self):
            super().__init__()
            self.block = Block()

        def forward_features(self, x):
            return self.block(self.stem(x).flatten(2).transpose(1, 2))

        def forward_head(self, x, pre_logits=False):
            return self.head(x.mean(dim=1))

    outputs = extract(Vision(), [IMAGES], layers=["block"])
    assert outputs.layers["block"].shape == (8, 6, 9)  # nine patches
    assert extract(Vision(), [IMAGES], layers={"block": 1}).layers["block"].shape == (8, 9, 6)


# -- afterwards -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["forward", "search", "labels"])
def test_hooks_modes_and_gradients_are_restored_after_an_error(where):
    model = Ending(nn.Conv2d(6, 3, 1), nn.Dropout(0.5), POOL, nn.Flatten()).train()
    model.body.eval()
    modes = [module.training for module in model.modules()]
    batch = {
        "forward": torch.zeros(2, 5, 6, 6),
        "search": (IMAGES, torch.zeros(8)),
        "labels": (IMAGES, torch.full((8,), 7)),
    }[where]
    ask = {"layers": ["body.0"], "mc": 2} | ({"head": "body"} if where == "search" else {})
    with pytest.raises((InputError, RuntimeError)):
        extract(model, [batch], **ask)
    assert [module.training for module in model.modules()] == modes
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())
    assert torch.is_grad_enabled()
