"""Random changes of the training images: mirrored left to right, and moved by a crop after padding.

Both keep the class of a photograph. They are drawn for every image anew, batch by batch, from a generator of the run,
so that a run that was killed resumes to the same weights. Validation and test images are never changed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor
from torch.nn import functional as F

from caveat._internal.params import check_params, count, flag
from caveat.errors import InputError

__all__ = ["Augmentation"]


@final
@dataclass(frozen=True)
class Augmentation:
    """What is done to every training image at random.

    Parameters
    ----------
    flip
        Mirror half of the images left to right. Right for photographs, wrong for letters and digits.
    crop
        Pad with this many black pixels on each side and cut out an image of the old size at a random place; 0 leaves
        it out. Four is usual for images of 32 x 32.

    Examples
    --------
    >>> images = torch.arange(8.0).reshape(2, 1, 2, 2)
    >>> Augmentation(flip=True)(images, torch.Generator().manual_seed(0)).tolist()
    [[[[1.0, 0.0], [3.0, 2.0]]], [[[4.0, 5.0], [6.0, 7.0]]]]
    """

    flip: bool = flag(False)
    crop: int = count(0, least=0)

    def __post_init__(self) -> None:
        check_params(self)

    def __call__(self, images: Tensor, generator: torch.Generator) -> Tensor:
        """Changed copies of a batch of images.

        Parameters
        ----------
        images
            Shape (n, channels, height, width).
        generator
            Randomness of the changes.

        Returns
        -------
        Tensor
            Of the same shape.
        """
        if images.ndim != 4:
            raise InputError(
                f"augmentation needs images (n, channels, height, width), got shape {tuple(images.shape)}."
            )
        if self.flip:
            mirrored = torch.rand(len(images), generator=generator) < 0.5
            images = torch.where(mirrored.to(images.device)[:, None, None, None], images.flip(3), images)
        return images if not self.crop else _moved(images, self.crop, generator)


def _moved(images: Tensor, most: int, generator: torch.Generator) -> Tensor:
    n, _, height, width = images.shape
    padded = F.pad(images, (most,) * 4)
    tops, lefts = torch.randint(2 * most + 1, (2, n), generator=generator)
    rows = (tops[:, None] + torch.arange(height)).to(images.device)
    columns = (lefts[:, None] + torch.arange(width)).to(images.device)
    return padded[
        torch.arange(n, device=images.device)[:, None, None], :, rows[:, :, None], columns[:, None, :]
    ].permute(0, 3, 1, 2)
