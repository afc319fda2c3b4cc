from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest

from caveat import InputError

torch = pytest.importorskip("torch")

from caveat.nn._answers import are_log_probabilities, are_probabilities, logits_in, tensors_in  # noqa: E402

LOGITS, HIDDEN, LOSS = torch.randn(4, 3), torch.randn(4, 5, 6), torch.tensor(0.5)


@dataclass
class Said:
    loss: Any
    logits: Any
    hidden: Any = None


@dataclass
class Unnamed:
    scores: Any
    hidden: Any = None


class Pair(NamedTuple):
    aux: Any
    logits: Any


@pytest.mark.parametrize(
    "answer",
    [
        LOGITS,
        (LOGITS,),
        (LOSS, LOGITS, HIDDEN),
        [HIDDEN, {"scores": LOGITS}],
        {"logits": LOGITS, "features": torch.randn(4, 9)},
        OrderedDict(loss=LOSS, logits=LOGITS, hidden_states=(HIDDEN, HIDDEN)),
        Said(LOSS, LOGITS, torch.randn(4, 9)),
        Unnamed(LOGITS, HIDDEN),
        Pair(torch.randn(4, 9), LOGITS),
        (torch.zeros(4, 2, dtype=torch.long), LOGITS),
    ],
)
def test_the_logits_are_the_one_matrix_or_the_one_so_named(answer):
    assert logits_in(answer, 4) is LOGITS


@pytest.mark.parametrize(
    ("answer", "what"),
    [
        ((LOGITS, LOGITS + 1), r"\(4, 3\), \(4, 3\) for 4 samples"),
        (HIDDEN, r"\(4, 5, 6\)"),
        (LOGITS[:3], r"\(3, 3\) for 4"),
        (LOGITS.argmax(dim=1), r"\(4,\)"),
        ("yes", "a str"),
        (Said(None, None), "a Said"),
    ],
)
def test_anything_else_is_refused_with_the_remedy(answer, what):
    with pytest.raises(InputError, match=f"one matrix of logits.*{what}.*key 'logits'"):
        logits_in(answer, 4)


def test_text_and_nothing_hold_no_tensors():
    assert list(tensors_in([None, "a", {"b": 1}, Said(None, "x")])) == []


@pytest.mark.parametrize("kind", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
def test_probabilities_and_their_logarithms_are_told_from_logits(kind):
    logits = torch.randn(50, 10, generator=torch.Generator().manual_seed(0))
    probabilities, logarithms = logits.softmax(dim=1).to(kind), logits.log_softmax(dim=1).to(kind)
    assert are_probabilities(probabilities)
    assert are_log_probabilities(logarithms)
    for other in (logits.to(kind), logarithms, logits.sigmoid().to(kind)):
        assert not are_probabilities(other)
    for other in (logits.to(kind), probabilities):
        assert not are_log_probabilities(other)
    assert not are_probabilities(torch.ones(5, 1))  # one logit of a binary model
    assert not are_log_probabilities(torch.zeros(5, 1))
