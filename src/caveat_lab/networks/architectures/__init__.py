"""Networks of the papers, each readable on a page, for images of 28 x 28 and 32 x 32."""

from caveat_lab.networks.architectures.catalogue import ARCHITECTURES, Normalize, make
from caveat_lab.networks.architectures.convolutional import l, resnet18, resnet20, small_cnn, vgg13, xl, xs
from caveat_lab.networks.architectures.small_vit import small_vit

__all__ = [
    "ARCHITECTURES",
    "Normalize",
    "l",
    "make",
    "resnet18",
    "resnet20",
    "small_cnn",
    "small_vit",
    "vgg13",
    "xl",
    "xs",
]
