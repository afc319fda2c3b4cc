"""Every data set that Caveat knows by name: what it is, how it may lie on a disk, and where a person gets it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, final

import numpy as np

from caveat.demo.digits import digits
from caveat.demo.images import Images
from caveat.errors import InputError
from caveat_lab.data.cifar import cifar_classes, read_cifar_binary, read_cifar_python
from caveat_lab.data.folder import read_folder
from caveat_lab.data.idx import read_idx
from caveat_lab.data.packed import read_packed
from caveat_lab.data.places import read_places
from caveat_lab.data.svhn import read_svhn
from caveat_lab.data.tables import TABLES

__all__ = ["KNOWN", "Form", "Known"]

Read = Callable[[tuple[Path, ...], str], Images]


@final
@dataclass(frozen=True)
class Form:
    """One way in which a data set lies on a disk: the files of each split, relative to the data folder, and a reader.

    Parameters
    ----------
    files
        Split -> its files, relative to the data folder.
    read
        Turns the files of a split into images; None for files that hold no images.
    note
        What is different about this copy, or empty.

    Examples
    --------
    >>> KNOWN["mnist"].forms[0].files["test"]
    ('mnist/t10k-images-idx3-ubyte', 'mnist/t10k-labels-idx1-ubyte')
    """

    files: Mapping[str, tuple[str, ...]]
    read: Read | None
    note: str = ""


@final
@dataclass(frozen=True)
class Known:
    """One line of the list of data sets.

    Parameters
    ----------
    name
        Name for ``load``, ``find`` and ``table``.
    what
        What the data show, in a few words.
    kind
        ``"images"``, which ``load`` reads; ``"table"``, which ``table`` reads; ``"arrays"``, whose file ``find`` names.
    shape
        Shape of a sample, as text.
    home
        Where the data come from: an address or a package.
    sizes
        Split -> number of rows in the official version.
    forms
        Files in which the data may be stored.
    inside
        Reads the data from an installed package; None where they are files.
    usual
        The split that is meant where none is named; empty where it must be named.

    Examples
    --------
    >>> KNOWN["mnist"].kind, KNOWN["mnist"].shape, KNOWN["mnist"].sizes["test"]
    ('images', '28 x 28', 10000)
    """

    name: str
    what: str
    kind: Literal["images", "table", "arrays"]
    shape: str
    home: str
    sizes: Mapping[str, int] = field(default_factory=dict)
    forms: tuple[Form, ...] = ()
    inside: Callable[[], Images] | None = None  # comes with an installed package
    usual: str = ""


def _idx(folders: tuple[str, ...], prefix: str = "", *, transposed: bool = False, first_label: int = 0) -> list[Form]:
    """The four files of MNIST in one of several folders, gzipped or not."""

    def read(files: tuple[Path, ...], _: str) -> Images:
        pixels, labels = (read_idx(file) for file in files)
        pixels = pixels.swapaxes(1, 2).copy() if transposed else pixels
        return Images(pixels, labels.astype(np.intp) - first_label)

    parts = {"train": "train", "test": "test" if prefix else "t10k"}
    return [
        Form(
            {
                split: tuple(f"{folder}/{prefix}{part}-{what}-ubyte{end}" for what in ("images-idx3", "labels-idx1"))
                for split, part in parts.items()
            },
            read,
        )
        for folder in folders
        for end in ("", ".gz")
    ]


def _npz(file: str, *splits: str, note: str = "", **keys: str | float) -> Form:
    def read(files: tuple[Path, ...], split: str) -> Images:
        return read_packed(files[0], split, **keys)  # type: ignore[arg-type]

    return Form({split: (file.format(split=split),) for split in splits}, read, note)


def _cifar(folder: str, files: Mapping[str, tuple[str, ...]], *, label_bytes: int | None, coarse: bool = False) -> Form:
    def read(paths: tuple[Path, ...], _: str) -> Images:
        if label_bytes is None:
            images = read_cifar_python(paths, coarse=coarse)
        else:
            images = read_cifar_binary(paths, label_bytes=label_bytes, coarse=coarse)
        return replace(images, classes=cifar_classes(paths[0].parent, coarse=coarse))

    end = "" if label_bytes is None else ".bin"
    return Form({split: tuple(f"{folder}/{name}{end}" for name in names) for split, names in files.items()}, read)


def _folders(split: str, *folders: str, side: int | None = 32, note: str = "") -> tuple[Form, ...]:
    """A folder of images under one of several names; ``side`` None: the central 32 x 32 pixels of larger images."""

    def read(files: tuple[Path, ...], _: str) -> Images:
        return read_folder(files[0], size=side) if side is not None else _central(read_folder(files[0]), 32, files[0])

    return tuple(Form({split: (folder,)}, read, note) for folder in folders)


def _central(images: Images, side: int, path: Path) -> Images:
    """The middle of each image, without resizing: what "crop" means in the name of a set."""
    height, width = images.pixels.shape[1:3]
    if min(height, width) < side:
        raise InputError(f"{path} must hold images of at least {side} x {side} pixels, got {height} x {width}.")
    top, left = (height - side) // 2, (width - side) // 2
    pixels = np.ascontiguousarray(images.pixels[:, top : top + side, left : left + side])
    return replace(images, pixels=pixels)


def _arrays(name: str, what: str, shape: str, home: str) -> Known:
    return Known(name, what, "arrays", shape, home, {}, (Form({"all": (f"{name}.npz",)}, None),))


_CIFAR10 = {"train": tuple(f"data_batch_{i}" for i in range(1, 6)), "test": ("test_batch",)}
_CIFAR100 = {"train": ("train",), "test": ("test",)}
_JPEG = "JPEG copies, lossy"
_ODIN = "https://github.com/facebookresearch/odin"
_LMDB = "of the official LMDB test_lmdb, export each image as a file into"
_SETS = (
    Known(
        "digits", "handwritten digits of scikit-learn", "images", "8 x 8", "Python package scikit-learn",
        {"all": 1797}, (), digits,
    ),
    Known(
        "mnist", "handwritten digits", "images", "28 x 28", "http://yann.lecun.com/exdb/mnist",
        {"train": 60_000, "test": 10_000},
        (*_idx(("mnist", "MNIST/raw")), _npz("mnist.npz", "train", "test")),
    ),
    Known(
        "fashion_mnist", "pictures of clothes", "images", "28 x 28",
        "Debian package dataset-fashion-mnist, or https://github.com/zalandoresearch/fashion-mnist",
        {"train": 60_000, "test": 10_000},
        (
            *_idx(("fashion-mnist", "fashion_mnist", "FashionMNIST/raw")),
            _npz("fashion_mnist.npz", "train", "test", note="train may be cut to its first images"),
        ),
    ),
    Known(
        "kmnist", "cursive Japanese characters", "images", "28 x 28", "http://codh.rois.ac.jp/kmnist",
        {"train": 60_000, "test": 10_000}, tuple(_idx(("kmnist", "KMNIST/raw"))),
    ),
    Known(
        "emnist_letters", "handwritten letters, both cases merged", "images", "28 x 28",
        "https://www.nist.gov/itl/products-and-services/emnist-dataset", {"train": 124_800, "test": 20_800},
        (
            *_idx(("emnist", "EMNIST/raw", "gzip"), "emnist-letters-", transposed=True, first_label=1),
            _npz("emnist_letters_test.npz", "test", note="rows grouped by class", first_label=1),
        ),
    ),
    Known(
        "notmnist", "letters A to J in many fonts", "images", "28 x 28",
        "http://yaroslavvb.blogspot.com/2011/09/notmnist-dataset.html", {"train": 60_000, "test": 10_000},
        (*_idx(("notmnist", "notMNIST")), _npz("notmnist_test.npz", "test")),
    ),
    Known(
        "omniglot", "characters of many alphabets", "images", "28 x 28", "https://github.com/brendenlake/omniglot",
        {"background": 4840, "evaluation": 800},
        (
            _npz("omniglot28.npz", "background", labels="character", note="8 of 30 alphabets, white on black"),
            _npz("omniglot28.npz", "evaluation", pixels="x_oneshot_eval", note="one-shot images, no classes"),
        ),
    ),
    Known(
        "usps", "digits of American postcodes", "images", "16 x 16",
        "https://hastie.su.domains/ElemStatLearn/data.html", {"train": 7291, "test": 2007},
        (_npz("usps.npz", "train", "test", full=2000.0),),
    ),
    Known(
        "cifar10", "ten kinds of things in color", "images", "32 x 32 x 3",
        "https://www.cs.toronto.edu/~kriz/cifar.html", {"train": 50_000, "test": 10_000},
        (
            _cifar("cifar-10-batches-bin", _CIFAR10, label_bytes=1),
            _cifar("cifar-10-batches-py", _CIFAR10, label_bytes=None),
            _npz("cifar10_{split}_jpeg.npz", "train", "test", note=_JPEG),
        ),
    ),
    Known(
        "cifar100", "a hundred kinds of things in color", "images", "32 x 32 x 3",
        "https://www.cs.toronto.edu/~kriz/cifar.html", {"train": 50_000, "test": 10_000},
        (
            _cifar("cifar-100-binary", _CIFAR100, label_bytes=2),
            _cifar("cifar-100-python", _CIFAR100, label_bytes=None),
        ),
    ),
    Known(
        "supercifar100", "CIFAR-100 with its 20 superclasses", "images", "32 x 32 x 3",
        "https://www.cs.toronto.edu/~kriz/cifar.html", {"train": 50_000, "test": 10_000},
        (
            _cifar("cifar-100-binary", _CIFAR100, label_bytes=2, coarse=True),
            _cifar("cifar-100-python", _CIFAR100, label_bytes=None, coarse=True),
        ),
    ),
    Known(
        "svhn", "house numbers from street photographs", "images", "32 x 32 x 3",
        "http://ufldl.stanford.edu/housenumbers", {"train": 73_257, "test": 26_032, "extra": 531_131},
        tuple(
            Form(
                {split: (f"{folder}{split}_32x32.mat",) for split in ("train", "test", "extra")},
                lambda files, _: read_svhn(files[0]),
            )
            for folder in ("svhn/", "SVHN/", "")
        ),
    ),
    Known(
        "tinyimagenet", "TinyImageNet, 200 classes, at 32 x 32", "images", "32 x 32 x 3",
        "http://cs231n.stanford.edu/tiny-imagenet-200.zip", {"val": 10_000, "train": 100_000},
        (
            Form(
                {split: (f"tiny-imagenet-200/{split}",) for split in ("val", "train")},
                lambda files, _: read_folder(files[0], size=32), "resized",
            ),
            _npz("tinyimagenet32_val_jpeg.npz", "val", note=_JPEG),
        ),
        usual="val",
    ),
    Known(
        "dtd", "describable textures, at 32 x 32", "images", "32 x 32 x 3",
        "https://www.robots.ox.ac.uk/~vgg/data/dtd", {"all": 5640},
        (
            Form({"all": ("dtd/images",)}, lambda files, _: read_folder(files[0], size=32), "central squares, resized"),
            _npz("dtd_part_32.npz", "all", note="10 of 47 categories"),
        ),
    ),
    Known(
        "isun", "natural scenes, iSUN, at 32 x 32", "images", "32 x 32 x 3", f"{_ODIN} (iSUN.tar.gz)", {"all": 8925},
        _folders("all", "iSUN/iSUN_patches", "iSUN/images", "iSUN", "isun"),
    ),
    Known(
        "lsun_crop", "scenes, LSUN test images cropped to 32 x 32", "images", "32 x 32 x 3",
        f"{_ODIN} (LSUN.tar.gz; {_LMDB} LSUN/test)", {"test": 10_000},
        _folders("test", "LSUN/test", "LSUN_C/test", "LSUN_C", "LSUN_crop", side=None, note="the middle of each image"),
    ),
    Known(
        "lsun_resize", "scenes, LSUN test images resized to 32 x 32", "images", "32 x 32 x 3",
        f"{_ODIN} (LSUN_resize.tar.gz; {_LMDB} LSUN_resize)", {"test": 10_000},
        _folders("test", "LSUN_resize/LSUN_resize", "LSUN_resize"),
    ),
    Known(
        "places365", "365 kinds of places, at 32 x 32", "images", "32 x 32 x 3",
        "http://places2.csail.mit.edu/download.html (val_256.tar and filelist_places365-standard.tar)",
        {"val": 36_500},
        tuple(
            Form(
                {"val": (f"{folder}{images}", f"{folder}places365_val.txt")},
                lambda files, _: read_places(files[0], files[1], size=32), "central squares, resized",
            )
            for folder in ("places365/", "places365_standard/", "Places365/", "")
            for images in ("val_256", "val_large")
        ),
    ),
    *(
        Known(name, what, "table", shape, "Python package scikit-learn", {"all": rows})
        for (name, what), (shape, rows) in zip(
            TABLES.items(), (("30 columns", 569), ("4 columns", 150), ("13 columns", 178)), strict=True
        )
    ),
    _arrays("adbench_classical", "ADBench tables", "43 of 47 sets", "https://github.com/Minqi824/ADBench"),
    _arrays("adbench_cv_resnet18", "ADBench image embeddings", "512 columns", "https://github.com/Minqi824/ADBench"),
    _arrays("adbench_nlp", "ADBench text embeddings", "768 columns", "https://github.com/Minqi824/ADBench"),
    _arrays(
        "cifar10_test_logits", "CIFAR-10 test logits of 21 networks", "10 classes",
        "https://github.com/chenyaofo/pytorch-cifar-models",
    ),
    _arrays(
        "cifar100_test_logits", "CIFAR-100 test logits of 6 networks", "100 classes",
        "https://github.com/chenyaofo/pytorch-cifar-models",
    ),
    _arrays(
        "cifar10_test_probs", "CIFAR-10 test probabilities of 5 networks", "10 classes",
        "https://github.com/EFS-OpenSource/calibration-framework and others",
    ),
    _arrays(
        "cifar10_resnet20_jpeg75_features", "features of a ResNet-20 on CIFAR-10 and 8 outlier sets", "64 columns",
        "made with the weights of https://github.com/akamaster/pytorch_resnet_cifar10",
    ),
    _arrays("cifar10h", "human label counts on the CIFAR-10 test set", "10 classes",
            "https://github.com/jcpeterson/cifar-10h"),
    _arrays("regression_uci", "UCI regression tables", "21 sets", "https://github.com/treforevans/uci_datasets"),
    _arrays("regression_cqr", "regression tables of conformal papers", "11 sets", "https://github.com/yromano/cqr"),
)  # fmt: skip

KNOWN: Mapping[str, Known] = {known.name: known for known in _SETS}
