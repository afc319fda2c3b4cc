r"""From bounds of logit differences to bounds of confidence, and to the loss that trains for them.

With u_kl an upper bound of f_k - f_l over the ball (``difference_bounds``), and K classes:

$$ \max_B \log Conf \le \max_k -\log \sum_l e^{-u_{kl}} \quad (6) \qquad
   \max_B \log Conf \le \min(0, \max_{k,l} u_{kl} - \log K) \quad (7) $$
$$ L_{CUB} = \log(1 + (\max_{k,l} u_{kl})^2 / 2) \quad (8) \qquad
   \min_B \log Conf \ge \max_k -\log \sum_l e^{u_{lk}} $$

Bitterwolf, Meinke and Hein, "Certifiably Adversarially Robust Detection of Out-of-Distribution Data", NeurIPS 2020,
arXiv:2007.08473; the lower bound is the same argument for inliers. A softmax of upper bounds of logits bounds nothing:
raising every logit leaves a softmax as it was.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

__all__ = [
    "confidence_loss",
    "largest_difference",
    "log_confidence",
    "log_confidence_lower",
    "log_confidence_upper",
    "log_one_plus",
    "log_probability_lower",
    "log_probability_upper",
    "spread_upper",
]


def log_confidence(logits: Tensor) -> Tensor:
    """max_k log p_k of logits (n, K), shape (n,): the objective of attacks, because confidence saturates at 1.

    As -log(1 + sum over the other classes), so that it does not saturate either: log-softmax gives 0 in float32 as soon
    as a logit is 17 ahead.

    >>> log_confidence(torch.tensor([[0.0, 0.0]])).exp()
    tensor([0.5000])
    """
    top = logits.max(dim=1, keepdim=True)
    return -log_one_plus((logits - top.values).scatter(1, top.indices, -torch.inf), dim=1)


def log_probability_upper(differences: Tensor) -> Tensor:
    """Upper bounds (n, K) of each log p_k from differences (n, K, K): -log sum_l exp(-u_kl)."""
    return -log_one_plus(_off_diagonal(-differences), dim=2)


def log_probability_lower(differences: Tensor) -> Tensor:
    """Lower bounds (n, K) of each log p_k from differences (n, K, K): -log sum_l exp(u_lk)."""
    return -log_one_plus(_off_diagonal(differences), dim=1)


def log_confidence_upper(differences: Tensor) -> Tensor:
    """Eq. (6): upper bound (n,) of the log-confidence from differences (n, K, K). What certificates use.

    >>> log_confidence_upper(torch.zeros(1, 2, 2)).exp()
    tensor([0.5000])
    """
    return log_probability_upper(differences).amax(dim=1)


def log_confidence_lower(differences: Tensor) -> Tensor:
    """Lower bound (n,) of the log-confidence from differences (n, K, K).

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
    """Eq. (7): a looser upper bound (n,), for comparison. It can pass 0, which is no news, so it stops there."""
    return (largest_difference(differences) - math.log(differences.shape[1])).clamp(max=0)


def largest_difference(differences: Tensor) -> Tensor:
    """max_kl u_kl, shape (n,): what GOOD sorts and penalises. At epsilon 0, largest minus smallest logit."""
    return differences.flatten(1).amax(dim=1)


def confidence_loss(differences: Tensor) -> Tensor:
    """Eq. (8), L_CUB, shape (n,): quadratic near 0, logarithmic far away, so that it does not drown cross-entropy.

    >>> round(confidence_loss(torch.tensor([[[0.0, 2.0], [1.0, 0.0]]])).item(), 4)  # log(1 + 4/2)
    1.0986
    """
    return torch.log1p(largest_difference(differences).square() / 2)
