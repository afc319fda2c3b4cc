"""Data that is here without a download, readers for a user's own copies, and strange versions of both."""

from caveat.data.cifar import read_cifar_binary, read_cifar_python
from caveat.data.finding import data_folders, find, load, read
from caveat.data.folder import read_folder
from caveat.data.idx import read_idx
from caveat.data.images import Images
from caveat.data.known import KNOWN, Form, Known
from caveat.data.packed import read_packed
from caveat.data.places import read_places
from caveat.data.strange import (
    block_shuffled,
    inverted,
    noise,
    occluded,
    permuted,
    rotated,
    shifted,
    smooth_noise,
)
from caveat.data.svhn import read_svhn
from caveat.data.tables import Table, digits, table

__all__ = [
    "KNOWN",
    "Form",
    "Images",
    "Known",
    "Table",
    "block_shuffled",
    "data_folders",
    "digits",
    "find",
    "inverted",
    "load",
    "noise",
    "occluded",
    "permuted",
    "read",
    "read_cifar_binary",
    "read_cifar_python",
    "read_folder",
    "read_idx",
    "read_packed",
    "read_places",
    "read_svhn",
    "rotated",
    "shifted",
    "smooth_noise",
    "table",
]
