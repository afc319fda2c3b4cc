r"""From bounds of logit differences to bounds of confidence, and to the loss that trains for them.

With u_kl an upper bound of f_k - f_l over the ball (``difference_bounds``), and K classes:

$$ \max_B \log Conf \le \max_k -\log \sum_l e^{-u_{kl}} \quad (6) \qquad
   \max_B \log Conf \le \min(0, \max_{k,l} u_{kl} - \log K) \quad (7) $$
$$ L_{CUB} = \log(1 + (\max_{k,l} u_{kl})^2 / 2) \quad (8) \qquad
   \min_B \log Conf \ge \max_k -\log \sum_l e^{u_{lk}} $$

Bitterwolf, Meinke and Hein, "Certifiably Adversarially Robust Detection of Out-of-Distribution Data", NeurIPS 2020,
arXiv:2007.08473; the lower bound is the same argument for inliers. A softmax of upper bounds of logits bounds nothing:
raising every logit leaves a softmax as it was.

A classifier that a detector g gates needs an upper bound of g alone, the classifier may be anything:

$$ p(y|x) = \sigma(g(x))\, p_{in}(y|x) + (1 - \sigma(g(x))) / K, \qquad
   \max_B \max_y p(y|x') \le \tfrac1K + \tfrac{K-1}{K} \sigma(\overline g(x)) $$

Meinke, Bitterwolf and Hein, "Provably Adversarially Robust Detection of Out-of-Distribution Data", NeurIPS 2022,
arXiv:2106.04260, eq. (8). If the classifier's own confidence has a bound too, it replaces the 1 in (K-1)/K = 1 - 1/K,
and gives lower bounds (ours).
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional as F

from caveat.errors import InputError

__all__ = [
    "confidence_loss",
    "demand_classes",
    "effective_gate",
    "gated_log_confidence",
    "joint_log_probabilities",
    "largest_difference",
    "log_confidence",
    "log_confidence_lower",
    "log_confidence_upper",
    "log_one_plus",
    "log_probability_lower",
    "log_probability_upper",
    "spread_loss",
    "spread_upper",
]


def demand_classes(logits: Tensor) -> None:
    """Raise for a single logit: a softmax over one class is 1 whatever it says."""
    if logits.shape[1] < 2:
        raise InputError(
            "the model must return logits of at least 2 classes to have a confidence, got 1. Let it "
            "return F.pad(logit, (0, 1)): the softmax of that is the sigmoid of the logit."
        )


def log_confidence(logits: Tensor) -> Tensor:
    """max_k log p_k of logits (n, K), shape (n,): the objective of attacks, because confidence saturates at 1.

    As -log(1 + sum over the other classes), so that it does not saturate either: log-softmax gives 0 in float32 as soon
    as a logit is 17 ahead.

    Parameters
    ----------
    logits
        Shape (n, K).

    Returns
    -------
    Tensor of shape (n,)
        At most 0.

    Examples
    --------
    >>> log_confidence(torch.tensor([[0.0, 0.0]])).exp()
    tensor([0.5000])
    """
    demand_classes(logits)
    top = logits.max(dim=1, keepdim=True)
    return -log_one_plus((logits - top.values).scatter(1, top.indices, -torch.inf), dim=1)


def log_probability_upper(differences: Tensor) -> Tensor:
    """Upper bounds (n, K) of each log p_k from differences (n, K, K): -log sum_l exp(-u_kl).

    Parameters
    ----------
    differences
        Upper bounds of f_k - f_l, shape (n, K, K), from :func:`difference_bounds`.

    Returns
    -------
    Tensor of shape (n, K)
        The bounds.

    Examples
    --------
    >>> log_probability_upper(torch.tensor([[[0.0, 2.0], [1.0, 0.0]]])).exp()
    tensor([[0.8808, 0.7311]])
    """
    return -log_one_plus(_off_diagonal(-differences), dim=2)


def log_probability_lower(differences: Tensor) -> Tensor:
    """Lower bounds (n, K) of each log p_k from differences (n, K, K): -log sum_l exp(u_lk).

    Parameters
    ----------
    differences
        Upper bounds of f_k - f_l, shape (n, K, K), from :func:`difference_bounds`.

    Returns
    -------
    Tensor of shape (n, K)
        The bounds.

    Examples
    --------
    >>> log_probability_lower(torch.tensor([[[0.0, 2.0], [1.0, 0.0]]])).exp()
    tensor([[0.2689, 0.1192]])
    """
    return -log_one_plus(_off_diagonal(differences), dim=1)


def log_confidence_upper(differences: Tensor) -> Tensor:
    """Eq. (6): upper bound (n,) of the log-confidence from differences (n, K, K). What certificates use.

    Parameters
    ----------
    differences
        Upper bounds of f_k - f_l, shape (n, K, K), from :func:`difference_bounds`.

    Returns
    -------
    Tensor of shape (n,)
        The bounds.

    Examples
    --------
    >>> log_confidence_upper(torch.zeros(1, 2, 2)).exp()
    tensor([0.5000])
    """
    return log_probability_upper(differences).amax(dim=1)


def log_confidence_lower(differences: Tensor) -> Tensor:
    """Lower bound (n,) of the log-confidence from differences (n, K, K).

    Parameters
    ----------
    differences
        Upper bounds of f_k - f_l, shape (n, K, K), from :func:`difference_bounds`.

    Returns
    -------
    Tensor of shape (n,)
        The bounds.

    Examples
    --------
    >>> log_confidence_lower(torch.zeros(1, 2, 2)).exp()
    tensor([0.5000])
    """
    return log_probability_lower(differences).amax(dim=1)


def log_one_plus(exponents: Tensor, dim: int) -> Tensor:
    """log(1 + sum exp), exact also where the sum is far below the unit roundoff."""
    total = torch.logsumexp(exponents, dim=dim)
    return torch.logaddexp(total, torch.zeros_like(total))


def _off_diagonal(differences: Tensor) -> Tensor:
    eye = torch.eye(differences.shape[1], dtype=torch.bool, device=differences.device)
    return differences.masked_fill(eye, -torch.inf)


def spread_upper(differences: Tensor) -> Tensor:
    """Eq. (7): a looser upper bound (n,), for comparison. It is cut off at 0.

    Parameters
    ----------
    differences
        Upper bounds of f_k - f_l, shape (n, K, K), from :func:`difference_bounds`.

    Returns
    -------
    Tensor of shape (n,)
        The bounds.

    Examples
    --------
    >>> spread_upper(torch.tensor([[[0.0, 0.5], [0.25, 0.0]]])).exp()
    tensor([0.8244])
    """
    return (largest_difference(differences) - math.log(differences.shape[1])).clamp(max=0)


def largest_difference(differences: Tensor) -> Tensor:
    """max_kl u_kl, shape (n,): what GOOD sorts and penalizes. At epsilon 0, largest minus smallest logit.

    Parameters
    ----------
    differences
        Upper bounds of f_k - f_l, shape (n, K, K), from :func:`difference_bounds`.

    Returns
    -------
    Tensor of shape (n,)
        At least 0.

    Examples
    --------
    >>> largest_difference(torch.tensor([[[0.0, 2.0], [1.0, 0.0]]]))
    tensor([2.])
    """
    return differences.flatten(1).amax(dim=1)


def confidence_loss(differences: Tensor) -> Tensor:
    """Eq. (8), L_CUB, shape (n,): quadratic near 0, logarithmic far away, so that it does not drown cross-entropy.

    Parameters
    ----------
    differences
        Upper bounds of f_k - f_l, shape (n, K, K), from :func:`difference_bounds`.

    Returns
    -------
    Tensor of shape (n,)
        The loss.

    Examples
    --------
    >>> round(confidence_loss(torch.tensor([[[0.0, 2.0], [1.0, 0.0]]])).item(), 4)  # log(1 + 4/2)
    1.0986
    """
    return spread_loss(largest_difference(differences))


def spread_loss(largest: Tensor) -> Tensor:
    """Eq. (8), L_CUB, shape (n,), of the largest difference bounds (n,), such as ``largest_difference_bound`` gives.

    Parameters
    ----------
    largest
        Largest difference bounds, shape (n,).

    Returns
    -------
    Tensor of shape (n,)
        The loss.

    Examples
    --------
    >>> spread_loss(torch.tensor([0.0, 2.0]))  # log(1 + 4/2)
    tensor([0.0000, 1.0986])
    """
    return torch.log1p(largest.square() / 2)


def joint_log_probabilities(class_logits: Tensor, gate: Tensor) -> Tensor:
    """log p(y|x), shape (n, K), from the classifier's logits (n, K) and the detector's g (n,). Stable for any g.

    Parameters
    ----------
    class_logits
        Logits of the classifier, shape (n, K).
    gate
        Logit of the detector, shape (n,).

    Returns
    -------
    Tensor of shape (n, K)
        The log-probabilities.

    Examples
    --------
    >>> joint_log_probabilities(torch.tensor([[9.0, 0.0]]), torch.tensor([-50.0])).exp()
    tensor([[0.5000, 0.5000]])
    """
    inside = torch.log_softmax(class_logits, dim=1) + F.logsigmoid(gate)[:, None]
    return torch.logaddexp(inside, (F.logsigmoid(-gate) - math.log(class_logits.shape[1]))[:, None])


def effective_gate(class_logits: Tensor, gate: Tensor) -> Tensor:
    r"""The gate (n,) with which a sure classifier would have the same confidence: it rises with it and never saturates.

    $$ t = \log \frac{Conf - 1/K}{1 - Conf} \le g, \qquad Conf = \tfrac1K + \tfrac{K-1}{K} \sigma(t) $$

    Densities of images differ by hundreds of orders of magnitude. Float64 rounds the confidence of all outliers to 1/K,
    where nothing can be ranked and an attack sees no slope. An upper bound of g is one of t.

    Parameters
    ----------
    class_logits
        Of the classifier (n, K).
    gate
        g (n,).

    Returns
    -------
    Tensor of shape (n,)
        The effective gate.

    Examples
    --------
    >>> logits, gate = torch.tensor([[3.0, 0.0], [3.0, 0.0]]), torch.tensor([-300.0, -200.0])
    >>> joint_log_probabilities(logits, gate).amax(dim=1).exp(), effective_gate(logits, gate)
    (tensor([0.5000, 0.5000]), tensor([-300.0997, -200.0997]))
    """
    top = class_logits.max(dim=1, keepdim=True)
    behind = class_logits - top.values
    others = torch.logsumexp(behind.scatter(1, top.indices, -torch.inf), dim=1)
    log_sum = -log_confidence(class_logits)
    surplus = (-torch.expm1(behind)).sum(dim=1).clamp_min(torch.finfo(behind.dtype).tiny)  # K - 1 / conf
    classes = class_logits.shape[1]
    log_surplus = surplus.log() - math.log(classes) - log_sum
    return log_surplus - torch.logaddexp(math.log1p(-1 / classes) - gate, others - log_sum)


def gated_log_confidence(gate: Tensor, n_classes: int, log_confidence: Tensor | None = None) -> Tensor:
    """The log-confidence (n,) of a gated classifier whose own log-confidence is at most (or at least) a bound.

    log(1/K + sigma(g) (conf - 1/K)) rises with both arguments: upper bounds in, upper bound out; lower in, lower out.

    Parameters
    ----------
    gate
        g, or a bound of it (n,). The log density ratio log b of CCU enters the same way.
    n_classes
        K.
    log_confidence
        The classifier's log-confidence, or a bound of it (n,); None: 0, which every classifier keeps.

    Returns
    -------
    Tensor of shape (n,)
        Log-confidence between -log K and 0.

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
