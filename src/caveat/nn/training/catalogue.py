"""Paradigms by name."""

from __future__ import annotations

import inspect
from typing import Any

from caveat._internal.checks import check_known
from caveat.nn.training.branches import DeepGamblers, DeVries
from caveat.nn.training.ccu import CCU
from caveat.nn.training.confidnet import ConfidNet
from caveat.nn.training.exposure import ACET, CEDA, OutlierExposure
from caveat.nn.training.good import GOOD
from caveat.nn.training.joint import Joint
from caveat.nn.training.paradigm import CrossEntropy, Paradigm

__all__ = ["PARADIGMS", "make_paradigm"]

PARADIGMS: dict[str, type[Paradigm]] = {
    paradigm.name: paradigm
    for paradigm in (
        ACET, CCU, CEDA, ConfidNet, CrossEntropy, DeepGamblers, DeVries, GOOD, Joint, OutlierExposure,
    )
}  # fmt: skip


def make_paradigm(name: str, **params: Any) -> Paradigm:
    """A paradigm by its name, with its parameters.

    Parameters
    ----------
    name
        A name of ``PARADIGMS``.
    **params
        Parameters of its class.

    Returns
    -------
    Paradigm
        The paradigm.

    Examples
    --------
    >>> make_paradigm("cross_entropy")
    CrossEntropy()
    >>> make_paradigm("crossentropy")
    Traceback (most recent call last):
    caveat.errors.InputError: unknown paradigm 'crossentropy'. Did you mean 'cross_entropy'? Known: ...
    """
    chosen = PARADIGMS[check_known(name, PARADIGMS, "paradigm")]
    for param in params:
        check_known(param, inspect.signature(chosen).parameters, f"parameter of {name}")
    # A file has lists where Python has tuples.
    return chosen(**{key: tuple(value) if isinstance(value, list) else value for key, value in params.items()})
