"""Attacks on confidence: optimisers, starts, and the worst of all of them for each sample."""

from caveat.nn.attacks.apgd import apgd, checkpoints
from caveat.nn.attacks.ball import Ball, climber
from caveat.nn.attacks.confidence import Attacked, attack_confidence
from caveat.nn.attacks.monotone import monotone
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
