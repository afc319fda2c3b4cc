"""Models of the package transformers, small and with random weights; nothing is downloaded."""

from __future__ import annotations

import numpy as np
import pytest

from caveat import CaveatWarning
from caveat.scores import KNN, ReAct

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from caveat.nn import ease, extract, stream  # noqa: E402

SIZES = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24, "num_labels": 3}


def bert(**config):
    return transformers.BertForSequenceClassification(transformers.BertConfig(vocab_size=50, **SIZES, **config))


def vit(**config):
    return transformers.ViTForImageClassification(transformers.ViTConfig(image_size=8, patch_size=4, **SIZES, **config))


def gpt2():
    return transformers.GPT2ForSequenceClassification(
        transformers.GPT2Config(vocab_size=50, n_embd=16, n_layer=1, n_head=2, num_labels=3, pad_token_id=0,
                                bos_token_id=1, eos_token_id=2)
    )  # fmt: skip


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


@pytest.fixture
def encodings():
    """Two batches as a tokenizer gives them, of different lengths, with padding at the end of some rows."""
    made = []
    for n, length in ((6, 7), (4, 5)):
        ids, mask = torch.randint(3, 50, (n, length)), torch.ones(n, length, dtype=torch.long)
        ids[: n // 2, -2:] = mask[: n // 2, -2:] = 0
        made.append(
            transformers.BatchEncoding({"input_ids": ids, "attention_mask": mask, "labels": torch.arange(n) % 3})
        )
    return made


@pytest.fixture
def images():
    return [{"pixel_values": torch.randn(n, 3, 8, 8), "labels": torch.arange(n) % 3} for n in (6, 4)]


def by_hand(model, batches):
    """Logits and labels by the plain loop."""
    model.eval()
    inputs = [{key: value for key, value in batch.items() if key != "labels"} for batch in batches]
    with torch.no_grad():
        logits = torch.cat([model(**batch).logits for batch in inputs])
    return logits.float().numpy(), torch.cat([batch["labels"] for batch in batches]).numpy()


def check_equal_to_the_loop(outputs, model, batches, *, atol=1e-5):
    logits, labels = by_hand(model, batches)
    np.testing.assert_array_equal(outputs.logits, logits)
    np.testing.assert_array_equal(outputs.labels, labels)
    np.testing.assert_allclose(outputs.head.logits(outputs.features), logits, atol=atol)
    assert outputs.features.shape == (len(labels), 16)


def test_bert_reads_a_batch_encoding_with_its_mask(encodings):
    model = bert()
    check_equal_to_the_loop(extract(model, encodings), model, encodings)
    unmasked = extract(model, [{"input_ids": batch["input_ids"]} for batch in encodings])
    padded = np.r_[0:3, 6:8]
    assert np.abs(unmasked.logits - by_hand(model, encodings)[0])[padded].max() > 1e-5


def test_vit_reads_images(images):
    model = vit()
    check_equal_to_the_loop(extract(model, images), model, images)
    pairs = [(batch["pixel_values"].double().numpy(), batch["labels"].numpy()) for batch in images]
    check_equal_to_the_loop(extract(model, pairs), model, images)


def test_gpt2_has_its_features_at_the_last_word(encodings):
    """Its head runs on every word, and the model picks one row of the result."""
    model = gpt2()
    outputs = extract(model, encodings)
    check_equal_to_the_loop(outputs, model, encodings)
    with torch.no_grad():
        states = model.transformer(**{k: v for k, v in encodings[0].items() if k != "labels"}).last_hidden_state
    last = encodings[0]["attention_mask"].sum(dim=1) - 1
    np.testing.assert_allclose(outputs.features[:6], states[torch.arange(6), last], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16])
def test_half_precision_is_stored_as_float32(encodings, images, kind):
    for model, batches in ((bert().to(kind), encodings), (vit().to(kind), images)):
        outputs = extract(model, batches)
        assert {str(outputs.logits.dtype), str(outputs.features.dtype), str(outputs.head.weight.dtype)} == {"float32"}
        expected = [{k: v.to(kind) if v.is_floating_point() else v for k, v in batch.items()} for batch in batches]
        check_equal_to_the_loop(outputs, model, expected, atol=0.02)


def test_a_tuple_instead_of_a_model_output(images):
    class Plain(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.vit = vit()

        def forward(self, pixel_values):
            return self.vit(pixel_values, return_dict=False)

    assert extract(Plain(), images).features.shape == (10, 16)


def test_scores_passes_copies_and_layers(encodings, images):
    outputs = extract(bert(), encodings, mc=4)
    assert outputs.mc_logits.std(axis=0).min() > 0
    outputs = extract(vit(), images, transforms=[ease.GaussianNoise(0.1)], layers=["vit.layernorm"])
    assert outputs.ease_probs.shape == (1, 10, 3)
    assert outputs.layers["vit.layernorm"].shape == (10, 16, 5)  # four patches and the token
    for score in (KNN(k=2), ReAct()):
        assert np.isfinite(score.fit(outputs).score(outputs)).all()
    passing = stream(vit(), images)
    assert [block.n for block in passing.blocks()] == [6, 4]


def test_the_layers_of_an_encoder_have_channels_second(images):
    model = vit()
    name = next(name for name, module in model.named_modules() if type(module).__name__ == "ViTLayer")
    assert extract(model, images, layers=[name]).layers[name].shape == (10, 16, 5)


def test_the_model_is_unchanged(encodings):
    model = bert().train()
    model.bert.embeddings.eval()
    modes = [module.training for module in model.modules()]
    weights = {key: value.clone() for key, value in model.state_dict().items()}
    extract(model, encodings)
    assert [module.training for module in model.modules()] == modes
    assert all(torch.equal(weights[key], value) for key, value in model.state_dict().items())
    assert not any(module._forward_hooks for module in model.modules())


def test_a_temperature_around_the_model_is_stored_as_the_model_answers(images):
    class Tempered(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.vit = vit()

        def forward(self, pixel_values):
            answer = self.vit(pixel_values)
            answer.logits = answer.logits / 2
            return answer

    model = Tempered()
    with pytest.warns(CaveatWarning, match=r"what 'vit.classifier' gives is changed"):
        outputs = extract(model, images)
    np.testing.assert_array_equal(outputs.logits, by_hand(model, images)[0])
    with pytest.warns(CaveatWarning, match="are not what the model returns"):
        named = extract(model, images, head="vit.classifier")
    np.testing.assert_allclose(named.logits, 2 * outputs.logits, rtol=1e-6)
