"""Find and load data sets by name: those that come with a package, and a user's own copies.

Copies are looked for in the folders that the environment variable ``CAVEAT_DATA`` names (several are separated as in
``PATH``), then where Debian puts data sets, ``/usr/share/datasets``. Nothing is ever fetched over a network.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from caveat._internal.checks import as_count, check_known
from caveat._internal.files import is_folder, npz_names
from caveat._internal.streams import stream
from caveat.demo.images import Images, stratified_rows
from caveat.errors import InputError
from caveat_lab.data.cifar import read_cifar_binary
from caveat_lab.data.folder import read_folder
from caveat_lab.data.idx import read_idx
from caveat_lab.data.known import KNOWN, Form, Known
from caveat_lab.data.packed import read_packed
from caveat_lab.data.svhn import read_svhn

__all__ = ["data_folders", "find", "load", "read"]

_DEBIAN = Path("/usr/share/datasets")


def data_folders() -> tuple[Path, ...]:
    """Folders in which data sets are looked for, in this order.

    Returns
    -------
    tuple of Path
        Those of the environment variable ``CAVEAT_DATA`` first.

    Examples
    --------
    >>> data_folders()[-1].as_posix()
    '/usr/share/datasets'
    """
    named = os.environ.get("CAVEAT_DATA", "")
    return (*(Path(part).expanduser() for part in named.split(os.pathsep) if part), _DEBIAN)


def find(name: str) -> dict[str, Path]:
    """Where each split of a known data set lies; splits that are not here are left out.

    A set that comes with an installed package has no path and is left out as well: ``load`` and ``table`` have it.

    Parameters
    ----------
    name
        Name in ``caveat_lab.data.KNOWN``.

    Returns
    -------
    dict
        Split -> path of its first file.

    Examples
    --------
    >>> find("digits")
    {}
    """
    known = KNOWN[check_known(name, KNOWN, "data set")]
    return {split: files[0] for split, _, files in places(known)}


def places(known: Known) -> Iterator[tuple[str, Form, tuple[Path, ...]]]:
    """Each split that is here, with the first form of it that was found and its files."""
    seen = set()
    for folder in data_folders():
        for form in known.forms:
            for split, names in form.files.items():
                files = tuple(folder / name for name in names)
                if split not in seen and all(file.exists() for file in files):
                    seen.add(split)
                    yield split, form, files


def load(name: str, split: str | None = None, *, limit: int | None = None, seed: int = 0) -> Images:
    """Images of a known data set by name.

    Parameters
    ----------
    name
        As in ``caveat data list``.
    split
        ``"train"``, ``"test"`` or what the set has; may be left out where there is only one.
    limit, seed
        At most so many images, drawn at random with this seed, every class in its share; default all.

    Returns
    -------
    Images
        Pixels, labels and, where the source has them, the names of the classes.

    Examples
    --------
    >>> len(load("digits"))
    1797
    >>> load("mnist", "training")
    Traceback (most recent call last):
    caveat.errors.InputError: unknown split of mnist 'training'. Did you mean 'train'? Known: test, train.
    """
    known = KNOWN[check_known(name, KNOWN, "data set")]
    if known.kind != "images":
        table = known.kind == "table"
        how = f"data.table({name!r})" if table else f"numpy.load(data.find({name!r})['all'])"
        raise InputError(f"{name} must hold images to be loaded so, but it holds {'a table' if table else 'arrays'}. "
                         f"Use {how}.")  # fmt: skip
    if split is None:
        if len(known.sizes) > 1 and not known.usual:
            raise InputError(f"split must be given for {name}, which has {', '.join(known.sizes)}.")
        split = known.usual or next(iter(known.sizes))
    check_known(split, known.sizes, f"split of {name}")
    if known.inside is not None:
        return limited(known.inside(), limit, seed)
    for here, form, paths in places(known):
        if here == split and form.read is not None:
            return limited(form.read(paths, split), limit, seed)
    raise InputError(absence(name, split))


def absence(name: str, split: str | None = None) -> str:
    """What to do about a split of a known set of images that is not here; empty where it is."""
    known = KNOWN[name]
    split = split or known.usual or next(iter(known.sizes))
    if known.inside is not None or files_of(name, split):
        return ""
    files = next(form.files[split] for form in known.forms if split in form.files)
    folders = os.environ.get("CAVEAT_DATA")
    where = f"the folder of CAVEAT_DATA ({folders})" if folders else (
        "a folder, and name that folder in the environment variable CAVEAT_DATA"
    )  # fmt: skip
    return f"{name} ({split}) is not here. Get it from {known.home} and put {' and '.join(files)} into {where}."


def limited(images: Images, limit: int | None, seed: int) -> Images:
    """At most ``limit`` images, drawn with this seed, every class in its share: files are often grouped by class."""
    if limit is None:
        return images
    return images[stratified_rows(images.labels, as_count(limit, "limit"), stream(seed, "limit"))]


def files_of(name: str, split: str | None = None) -> tuple[Path, ...]:
    """Files that ``load`` reads for a split; none for a set that comes with a package, or that is not here."""
    known = KNOWN[check_known(name, KNOWN, "data set")]
    wanted = split or known.usual or next(iter(known.sizes))
    return next((files for here, form, files in places(known) if here == wanted and form.read is not None), ())


def files_at(path: Path) -> tuple[Path, ...]:
    """Files that ``read`` reads for a path: itself, and the labels next to an IDX file of images."""
    labels = _idx_labels(path)
    return (path,) if labels is None else (path, labels)


def read(
    path: str | os.PathLike[str], split: str | None = None, *, size: int | None = None, limit: int | None = None,
    seed: int = 0,
) -> Images:  # fmt: skip
    """Images of a user's own file or folder, by what it is.

    ``.npz`` with x and y (or ``x_<split>``, or JPEG streams), an IDX file of images with its labels in the same folder,
    ``.bin`` of CIFAR-10, ``.mat`` of SVHN, or a folder with one subfolder per class (``size``: side of its squares).

    Parameters
    ----------
    path
        File or folder.
    split
        Split of an ``.npz`` file that holds several, such as ``"test"``. A source without splits has ``"all"`` alone.
    size
        Side of the square that each image of a folder becomes.
    limit, seed
        As for :func:`load`.

    Returns
    -------
    Images
        Pixels and labels; labels are 0 where the source has none.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.savez(f"{folder}/mine.npz", x=np.zeros((3, 4, 4), dtype=np.uint8), y=[0, 1, 1])
    ...     read(f"{folder}/mine.npz").labels
    array([0, 1, 1])
    """
    return limited(_read(Path(path), split, size), limit, seed)


def splits_of(source: Path) -> tuple[str, ...]:
    """Splits of a user's own file: those of an ``.npz`` file with ``x_<split>``; anything else has none."""
    if source.suffix != ".npz" or not source.is_file():
        return ()
    return tuple(sorted(name.removeprefix("x_") for name in npz_names(source) if name.startswith("x_")))


def check_split(source: Path, split: str | None) -> None:
    """Raise InputError where a user's own source does not have this split; without splits it has "all" alone."""
    if split is not None and (names := splits_of(source)):
        check_known(split, names, f"split of {source}")
    elif split not in (None, "all"):
        raise InputError(f"{source} has no splits, so split {split!r} cannot be chosen. Leave it out.")


def _read(source: Path, split: str | None, size: int | None) -> Images:
    check_split(source, split)
    if is_folder(source):
        return read_folder(source, size=size)
    if source.suffix == ".npz":
        return read_packed(source, split)
    if source.suffix == ".mat":
        return read_svhn(source)
    if source.suffix == ".bin":
        return read_cifar_binary([source])
    if "idx" in source.name:
        pixels, labels = read_idx(source), _idx_labels(source)
        return Images(
            pixels, np.zeros(len(pixels), dtype=np.intp) if labels is None else read_idx(labels).astype(np.intp)
        )
    raise InputError(f"{source} must be a folder of images or a file that ends in .npz, .mat or .bin, or an IDX file "
                     "with 'idx' in its name.")  # fmt: skip


def _idx_labels(source: Path) -> Path | None:
    """The labels next to an IDX file of images, if they are there."""
    labels = source.with_name(source.name.replace("images", "labels").replace("idx3", "idx1"))
    suffixes = (".npz", ".mat", ".bin")
    idx = "idx" in source.name and source.suffix not in suffixes and not is_folder(source)
    return labels if idx and labels != source and labels.is_file() else None
