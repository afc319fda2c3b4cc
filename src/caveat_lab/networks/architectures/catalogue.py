"""Architectures by name, and normalization as their first layer."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from typing import Any, final

import torch
from torch import Tensor, nn

from caveat._internal.checks import as_count, as_positive, as_rate, as_vector, check_known
from caveat.errors import InputError
from caveat_lab.networks.architectures.convolutional import l, resnet18, resnet20, small_cnn, vgg13, xl, xs
from caveat_lab.networks.architectures.small_vit import small_vit

__all__ = ["ARCHITECTURES", "Normalize", "make"]

ARCHITECTURES: dict[str, Callable[..., nn.Sequential]] = {
    build.__name__: build for build in (l, resnet18, resnet20, small_cnn, small_vit, vgg13, xl, xs)
}


def make(
    name: str,
    in_shape: Sequence[int] = (1, 28, 28),
    classes: int = 10,
    *,
    dropout: float = 0.0,
    normalize: tuple[Sequence[float], Sequence[float]] | None = None,
    seed: int | None = None,
    build: Callable[..., nn.Module] | None = None,
    **options: Any,
) -> nn.Sequential:
    """A network by its name, with fresh weights. It ends in a linear layer.

    Parameters
    ----------
    name
        ``small_cnn``, ``xs``, ``l``, ``xl``, ``vgg13``, ``resnet18``, ``resnet20`` or ``small_vit``.
    in_shape
        Channels, height, width.
    classes
        Number of classes K.
    dropout
        Rate of the dropout layers; 0 leaves them out.
    normalize
        Mean and standard deviation of each channel, for a first layer that removes them; default: no such layer.
    seed
        Seed of the first weights; None: torch's global generator. A seed leaves that one untouched.
    build
        A function of your own that makes the network, ``build(in_shape, classes, **options)``; ``name`` is then free.
    **options
        Options of that architecture, such as ``width``.

    Returns
    -------
    Sequential
        The network, in train mode.

    Examples
    --------
    >>> make("small_cnn", in_shape=(3, 32, 32), classes=5, seed=0)(torch.zeros(2, 3, 32, 32)).shape
    torch.Size([2, 5])
    """
    own = build is not None
    if dropout or not own:
        options["dropout"] = dropout
    check_architecture(name, options, build=build)
    build = build or ARCHITECTURES[name]
    shape = tuple(in_shape)
    if len(shape) != 3 or not all(isinstance(size, int) and size > 0 for size in shape) or min(shape[1:]) < 8:
        raise InputError(f"in_shape must be channels, height, width with at least 8 x 8 pixels, got {tuple(in_shape)}.")
    as_count(classes, "classes", least=2)
    with nullcontext() if seed is None else torch.random.fork_rng(devices=[]):
        if seed is not None:
            torch.manual_seed(seed)
        network = build(shape, classes, **options)
    if not isinstance(network, nn.Module):
        raise InputError(f"{name} must return a torch module, got {type(network).__name__}.")
    if normalize is None:
        return network if isinstance(network, nn.Sequential) else nn.Sequential(network)
    mean, std = normalize
    if len(mean) != shape[0]:
        raise InputError(f"normalize must have one mean per channel ({shape[0]}), got {len(mean)}.")
    return nn.Sequential(Normalize(mean, std), *(network if isinstance(network, nn.Sequential) else [network]))


def check_architecture(name: str, options: Mapping[str, Any], *, build: Callable[..., nn.Module] | None = None) -> None:
    """Raise InputError for an unknown network, an option that it does not have, or a wrong value of an option."""
    accepted = inspect.signature(
        ARCHITECTURES[check_known(name, ARCHITECTURES, "architecture")] if build is None else build
    ).parameters
    any_name = any(parameter.kind is parameter.VAR_KEYWORD for parameter in accepted.values())
    for option, value in options.items():
        if build is not None and option == "dropout" and value == 0:
            continue  # a function without dropout needs no such argument to do without it
        if not any_name:
            check_known(option, set(accepted) - {"in_shape", "classes"}, f"option of {name}")
        if option == "dropout":
            as_rate(value, "dropout")
        elif build is None:  # all others are sizes
            as_count(value, f"{option} of {name}")


@final
class Normalize(nn.Module):
    """(x - mean) / std, per channel.

    Parameters
    ----------
    mean, std
        One number for each channel.

    Examples
    --------
    >>> Normalize([0.5], [0.25])(torch.ones(1, 1, 1, 1)).item()
    2.0
    """

    mean: Tensor
    std: Tensor

    def __init__(self, mean: Sequence[float], std: Sequence[float]) -> None:
        super().__init__()
        if len(mean) != len(std):
            raise InputError(f"mean and std must have one number per channel each, got {len(mean)} and {len(std)}.")
        for value in std:
            as_positive(value, "std")
        for name, values in (("mean", mean), ("std", std)):
            self.register_buffer(name, torch.tensor(as_vector(values, name)).float()[:, None, None])

    def forward(self, x: Tensor) -> Tensor:
        """The normalized inputs.

        Parameters
        ----------
        x
            Inputs, shape (n, channels, ...).

        Returns
        -------
        Tensor
            Of the same shape.
        """
        return (x - self.mean) / self.std
