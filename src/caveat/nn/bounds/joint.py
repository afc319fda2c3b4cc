r"""Bounds for a classifier that a detector gates.

$$ p(y|x) = \sigma(g(x))\, p_{in}(y|x) + (1 - \sigma(g(x))) / K $$
$$ \max_B \max_y p(y|x') \le \tfrac1K + \tfrac{K-1}{K} \sigma(\overline g(x)) $$

with an upper bound of the detector g alone: the classifier may be anything. Meinke, Bitterwolf and Hein, "Provably
Adversarially Robust Detection of Out-of-Distribution Data", NeurIPS 2022, arXiv:2106.04260, eq. (8). If the
classifier's own confidence has a bound too, it replaces the 1 in (K-1)/K = 1 - 1/K, and gives lower bounds (ours).
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

__all__ = ["effective_gate", "gated_log_confidence", "joint_log_probabilities"]


def joint_log_probabilities(class_logits: Tensor, gate: Tensor) -> Tensor:
    """log p(y|x), shape (n, K), from the classifier's logits (n, K) and the detector's g (n,). Stable for any g.

    >>> joint_log_probabilities(torch.tensor([[9.0, 0.0]]), torch.tensor([-50.0])).exp()
    tensor([[0.5000, 0.5000]])
    """
    inside = torch.log_softmax(class_logits, dim=1) + F.logsigmoid(gate)[:, None]
    return torch.logaddexp(inside, (F.logsigmoid(-gate) - math.log(class_logits.shape[1]))[:, None])


def effective_gate(class_logits: Tensor, gate: Tensor) -> Tensor:
    r"""The gate (n,) with which a sure classifier would have the same confidence: it rises with it and never saturates.

    $$ t = \log \frac{Conf - 1/K}{1 - Conf} \le g, \qquad Conf = \tfrac1K + \tfrac{K-1}{K} \sigma(t) $$

    Densities of images differ by hundreds of orders of magnitude. Float64 rounds the confidence of all that is strange
    to 1/K, where nothing can be ranked and an attack sees no slope. An upper bound of g is one of t.

    Parameters
    ----------
    class_logits
        Of the classifier (n, K).
    gate
        g (n,).

    Examples
    --------
    >>> logits, gate = torch.tensor([[3.0, 0.0], [3.0, 0.0]]), torch.tensor([-300.0, -200.0])
    >>> joint_log_probabilities(logits, gate).amax(dim=1).exp(), effective_gate(logits, gate)
    (tensor([0.5000, 0.5000]), tensor([-300.0997, -200.0997]))
    """
    top = class_logits.max(dim=1, keepdim=True)
    behind = class_logits - top.values
    others = torch.logsumexp(behind.scatter(1, top.indices, -torch.inf), dim=1)
    log_sum = torch.logaddexp(others, torch.zeros_like(others))
    surplus = (-torch.expm1(behind)).sum(dim=1).clamp_min(torch.finfo(behind.dtype).tiny)  # K - 1 / conf
    classes = class_logits.shape[1]
    log_surplus = surplus.log() - math.log(classes) - log_sum
    return log_surplus - torch.logaddexp(math.log1p(-1 / classes) - gate, others - log_sum)


def gated_log_confidence(gate: Tensor, n_classes: int, log_confidence: Tensor | None = None) -> Tensor:
    """The log-confidence (n,) of a gated classifier whose own log-confidence is at most (or at least) what is given.

    log(1/K + sigma(g) (conf - 1/K)) rises with both arguments: upper bounds in, upper bound out; lower in, lower out.

    Parameters
    ----------
    gate
        g, or a bound of it (n,). The log density ratio log b of CCU enters the same way.
    n_classes
        K.
    log_confidence
        The classifier's log-confidence, or a bound of it (n,); None: 0, which every classifier keeps.

    Examples
    --------
    >>> gated_log_confidence(torch.tensor([-50.0, 0.0, 50.0]), 10).exp()
    tensor([0.1000, 0.5500, 1.0000])
    """
    own = torch.zeros_like(gate) if log_confidence is None else log_confidence
    surplus = (n_classes * own.exp() - 1).clamp(min=0)  # the largest of K probabilities is at least 1/K
    near_uniform = torch.log1p(torch.sigmoid(gate) * surplus) - math.log(n_classes)
    # A confidence near 1 is one minus what it lacks: a difference of two logarithms would round it to 0, or below.
    most = 1 - 1 / n_classes
    lacking = torch.sigmoid(-gate) * most + torch.sigmoid(gate) * (-torch.expm1(own)).clamp(max=most)
    return torch.where(lacking < 0.5, torch.log1p(-lacking), near_uniform)
