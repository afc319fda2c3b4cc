"""Networks of the papers, each readable on a page, for images of 28 x 28 and 32 x 32."""

from caveat.nn.architectures.catalogue import ARCHITECTURES, make
from caveat.nn.architectures.l import l
from caveat.nn.architectures.normalise import Normalise
from caveat.nn.architectures.resnet18 import resnet18
from caveat.nn.architectures.resnet20 import resnet20
from caveat.nn.architectures.small_cnn import small_cnn
from caveat.nn.architectures.small_vit import small_vit
from caveat.nn.architectures.vgg13 import vgg13
from caveat.nn.architectures.xl import xl
from caveat.nn.architectures.xs import xs

__all__ = [
    "ARCHITECTURES",
    "Normalise",
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
