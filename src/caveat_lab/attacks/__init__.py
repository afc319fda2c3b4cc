"""Attacks on confidence: optimizers, starts, and the worst of all of them for each sample."""

from caveat_lab.attacks.ascent import STARTS, Ball, apgd, checkpoints, climber, make_start, monotone
from caveat_lab.attacks.confidence import Attacked, attack_confidence

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
