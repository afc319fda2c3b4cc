"""Attacks on confidence: optimisers, starts, and the worst of all of them for each sample."""

from caveat.nn.attacks.ascent import Ball, apgd, checkpoints, climber, monotone
from caveat.nn.attacks.confidence import Attacked, attack_confidence
from caveat.nn.attacks.starts import STARTS, make_start

__all__ = [
    "STARTS",
    "Attacked",
    "Ball",
    "apgd",
    "attack_confidence",
    "checkpoints",
    "climber",
    "make_start",
    "monotone",
]
