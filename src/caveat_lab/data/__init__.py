"""Data that is here without a download, readers for a user's own copies, and strange versions of both."""

from caveat.demo import (
    Images,
    block_shuffled,
    digits,
    inverted,
    noise,
    occluded,
    permuted,
    rotated,
    shifted,
    smooth_noise,
)
from caveat_lab.data.cifar import read_cifar_binary, read_cifar_python
from caveat_lab.data.finding import data_folders, find, load, read
from caveat_lab.data.folder import read_folder
from caveat_lab.data.idx import read_idx
from caveat_lab.data.known import KNOWN, Form, Known
from caveat_lab.data.packed import read_packed
from caveat_lab.data.places import read_places
from caveat_lab.data.svhn import read_svhn
from caveat_lab.data.tables import Table, table

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
