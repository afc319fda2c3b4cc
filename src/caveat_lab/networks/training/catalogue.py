"""Paradigms by name."""

from __future__ import annotations

import inspect
from typing import Any

from caveat._internal.checks import as_number, check_known
from caveat.errors import InputError
from caveat_lab.networks.training.branches import DeepGamblers, DeVries
from caveat_lab.networks.training.ccu import CCU
from caveat_lab.networks.training.confidnet import ConfidNet
from caveat_lab.networks.training.exposure import ACET, CEDA, OutlierExposure
from caveat_lab.networks.training.good import GOOD
from caveat_lab.networks.training.joint import Joint
from caveat_lab.networks.training.paradigm import CrossEntropy, Paradigm

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
    accepted = inspect.signature(chosen).parameters
    for param, value in params.items():
        check_known(param, accepted, f"parameter of {name}")
        usual = accepted[param].default
        if isinstance(value, (list, tuple)) and not isinstance(usual, tuple):
            raise InputError(f"{param} of {name} must be one value, got {value!r}.")
        if isinstance(usual, tuple):
            if isinstance(value, (list, tuple)) and len(value) != len(usual):
                raise InputError(f"{param} of {name} must be {len(usual)} numbers, got {value!r}.")
            for number in value if isinstance(value, (list, tuple)) else (value,):
                as_number(number, f"{param} of {name}")
    try:  # a file has lists where Python has tuples
        return chosen(**{key: tuple(value) if isinstance(value, list) else value for key, value in params.items()})
    except TypeError as error:
        raise InputError(f"the parameters of {name} have a wrong type ({error}). Check them.") from None
