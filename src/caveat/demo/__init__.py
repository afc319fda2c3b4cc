"""Images that are here without a download, and strange versions of them."""

from caveat.demo.digits import digits
from caveat.demo.images import Images
from caveat.demo.strange import (
    block_shuffled,
    inverted,
    noise,
    occluded,
    permuted,
    rotated,
    shifted,
    smooth_noise,
)

__all__ = [
    "Images",
    "block_shuffled",
    "digits",
    "inverted",
    "noise",
    "occluded",
    "permuted",
    "rotated",
    "shifted",
    "smooth_noise",
]
