"""Outputs of a model on a data set: logits, features, labels and the last layer.

Every score, prediction set and metric reads ``Outputs``; no other module depends on where the arrays came from.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import softmax

from caveat._internal.arrays import read_only, widened
from caveat._internal.blocks import row_blocks
from caveat._internal.checks import (
    are_probabilities,
    as_kind,
    as_labels,
    as_matrix,
    as_real_array,
    as_rows,
    as_vector,
    check_finite,
    check_probabilities,
    check_same,
    check_shape,
)
from caveat.errors import CaveatWarning, InputError
from caveat.outputs.head import Head

__all__ = ["LAYER", "SAMPLE_AXIS", "Outputs", "demand"]

Array = NDArray[Any]

LAYER = "layer."  # prefix of an inner layer's key in a file
# field -> axis that counts the samples
SAMPLE_AXIS = dict.fromkeys(("logits", "probs", "features", "labels", "confidence", "embeddings"), 0)
SAMPLE_AXIS |= dict.fromkeys(("mc_logits", "ease_probs"), 1)


def _stored(field: str, doc: str) -> property:
    """A property that reads a stored array."""
    return property(lambda outputs: outputs._arrays.get(field), doc=doc)


@final
class Outputs:
    """Outputs of a model on n samples. Any subset of the fields will do; each score says which it needs.

    Checked once, here, and read-only afterwards. Slicing gives views and checks nothing again.

    Parameters
    ----------
    logits
        Shape (n, C).
    probs
        Shape (n, C): probabilities, for a model that gives no logits. Never guessed from the values of ``logits``.
    features
        Shape (n, D): the input of the last linear layer.
    labels
        Shape (n,): true classes 0..C-1. Outliers have none.
    head
        The last linear layer. With ``features`` it also gives logits that were not stored.
    mc_logits
        Shape (T, n, C): logits of T stochastic passes.
    confidence
        Shape (n,): an external confidence; larger is surer.
    layers
        Name -> array whose first axis counts samples: activations of inner layers.
    embeddings
        Shape (n, E): vectors of a separate encoder, for the proximity of data sets.
    ease_probs
        Shape (L, n, C): probabilities of L transformed copies of each input.
    check
        False checks shapes but no values: for large arrays that were checked before.

    Examples
    --------
    >>> outputs = Outputs(logits=[[2.0, 0.0], [0.0, 1.0], [3.0, 0.0]], labels=[0, 1, 1])
    >>> outputs.predictions, outputs.correct
    (array([0, 1, 0]), array([ True,  True, False]))
    >>> outputs[1:]
    Outputs(n=2, logits 2x2 float64, labels 2)
    """

    __slots__ = ("_arrays", "_head", "_layers", "_n")

    def __init__(
        self,
        *,
        logits: ArrayLike | None = None,
        probs: ArrayLike | None = None,
        features: ArrayLike | None = None,
        labels: ArrayLike | None = None,
        head: Head | None = None,
        mc_logits: ArrayLike | None = None,
        confidence: ArrayLike | None = None,
        layers: Mapping[str, ArrayLike] | None = None,
        embeddings: ArrayLike | None = None,
        ease_probs: ArrayLike | None = None,
        check: bool = True,
    ) -> None:
        arrays: dict[str, Array] = {}
        for name, matrix in (("logits", logits), ("probs", probs), ("features", features), ("embeddings", embeddings)):
            if matrix is not None:
                arrays[name] = as_matrix(matrix, name, check=check)
        for name, cube in (("mc_logits", mc_logits), ("ease_probs", ease_probs)):
            if cube is not None:
                arrays[name] = _as_cube(cube, name, check=check)
        if confidence is not None:
            arrays["confidence"] = as_vector(confidence, "confidence")
        head = None if head is None else as_kind(head, Head, "head", what="a caveat.Head(weight, bias)")
        if "logits" in arrays and "probs" in arrays:
            raise InputError("give logits or probs, not both: with both it is unclear which one a score should read.")
        if check:
            for name in {"probs", "ease_probs"} & set(arrays):
                check_probabilities(arrays[name], name)
            for name, remedy in (("logits", "Pass them as probs"), ("mc_logits", "Pass their logarithms")):
                if name in arrays and are_probabilities(arrays[name]):
                    warnings.warn(f"{name} are rows of probabilities (between 0 and 1, with sum 1), and scores would "
                                  f"take a softmax of them. {remedy}.", CaveatWarning, stacklevel=2)  # fmt: skip

        n_classes = _agree_on_classes(arrays, head)
        if labels is not None:
            arrays["labels"] = as_labels(labels, "labels", n_classes=n_classes, check=check)
        if head is not None and "features" in arrays:
            check_same("number of columns", **{"features": len(arrays["features"].T), "head.weight": head.n_features})
        layers = {} if layers is None else as_kind(layers, Mapping, "layers", what="a map from names to arrays")
        inner = {
            as_kind(name, str, "the name of a layer"): _as_layer(array, name, check=check)
            for name, array in layers.items()
        }

        self._arrays = {name: read_only(array) for name, array in arrays.items()}
        self._layers = MappingProxyType({name: read_only(array) for name, array in inner.items()})
        self._head = head
        self._n = _agree_on_rows(self._arrays, self._layers)

    # -- fields -----------------------------------------------------------------------------------------------------

    # Each is an array, or None where it was neither given nor can be derived.

    @property
    def logits(self) -> Any:
        """Logits (n, C): stored, or computed from features and head."""
        if "logits" not in self._arrays and self.has("logits"):
            assert self._head is not None
            return self._head.logits(self._arrays["features"])
        return self._arrays.get("logits")

    @property
    def probs(self) -> Any:
        """Probabilities (n, C): as given, or the softmax of the logits."""
        if "probs" in self._arrays or not self.has("probs"):
            return self._arrays.get("probs")
        return softmax(widened(self.logits), axis=1)

    features = _stored("features", "Features (n, D).")
    labels = _stored("labels", "True classes (n,).")
    mc_logits = _stored("mc_logits", "Logits (T, n, C) of stochastic passes.")
    confidence = _stored("confidence", "External confidence (n,); larger is surer.")
    embeddings = _stored("embeddings", "Vectors (n, E) of a separate encoder.")
    ease_probs = _stored("ease_probs", "Probabilities (L, n, C) of transformed copies.")

    @property
    def head(self) -> Any:
        """The last linear layer, a :class:`Head`."""
        return self._head

    @property
    def layers(self) -> Mapping[str, Array]:
        """Activations of inner layers by name; empty where there are none."""
        return self._layers

    @property
    def predictions(self) -> Any:
        """The most probable class of each sample (the first one on a tie)."""
        if not self.has("predictions"):
            return None
        return np.argmax(self.logits if self.has("logits") else self._arrays["probs"], axis=1)

    @property
    def correct(self) -> Any:
        """Whether each prediction equals the label."""
        return np.asarray(self.predictions == self.labels) if self.has("correct") else None

    # -- shape ------------------------------------------------------------------------------------------------------

    @property
    def n(self) -> int:
        return self._n

    def __len__(self) -> int:
        return self._n

    @property
    def n_classes(self) -> int | None:
        """C, from the arrays that have one column per class, else from the largest label."""
        classes = _agree_on_classes(self._arrays, self._head)
        if classes is None and "labels" in self._arrays:
            classes = int(self._arrays["labels"].max()) + 1
        return classes

    def has(self, field: str) -> bool:
        """Whether a field is there, stored or derivable, without computing it.

        Parameters
        ----------
        field
            Name of the field.

        Returns
        -------
        bool
            True also where it can be derived, as logits from features and head.
        """
        stored = set(self._arrays)
        if field == "head":
            return self._head is not None
        if field == "layers":
            return bool(self._layers)
        logits = "logits" in stored or ("features" in stored and self._head is not None)
        if field == "logits":
            return logits
        if field in ("probs", "predictions"):
            return logits or "probs" in stored
        if field == "correct":
            return self.has("predictions") and "labels" in stored
        return field in stored

    def arrays(self) -> dict[str, Array]:
        """Every stored array by its key in a file; a layer's key is ``layer.<name>``."""
        arrays = dict(self._arrays)
        if self._head is not None:
            arrays |= {"head_weight": self._head.weight, "head_bias": self._head.bias}
        return arrays | {LAYER + name: array for name, array in self._layers.items()}

    def stored(self) -> dict[str, tuple[tuple[int, ...], np.dtype[Any]]]:
        """Shape and type of every stored array, by its key in a file."""
        return {key: (array.shape, array.dtype) for key, array in self.arrays().items()}

    def __repr__(self) -> str:
        parts = [f"n={self.n}"]
        for name, (shape, dtype) in self.stored().items():
            size = "x".join(map(str, shape))
            parts.append(f"{name} {size}" if name == "labels" else f"{name} {size} {dtype}")
        return f"Outputs({', '.join(parts)})"

    def __getitem__(self, rows: slice | NDArray[Any] | list[int] | int) -> Outputs:
        """The chosen samples, as ``Outputs``: a slice gives views, a mask or an index array copies."""
        rows = as_rows(rows, self.n, "outputs")
        arrays = {
            name: array[rows] if SAMPLE_AXIS[name] == 0 else array[:, rows] for name, array in self._arrays.items()
        }
        layers = {name: array[rows] for name, array in self._layers.items()}
        return _unchecked(arrays, layers, self._head)

    def __iter__(self) -> Iterator[Outputs]:
        """One sample after the other, each as ``Outputs`` with n = 1. Whole arrays and ``blocks`` are faster."""
        return (self[i] for i in range(self.n))

    def __reduce__(self) -> tuple[Any, ...]:
        # Another process gets the rows themselves, also of memory-mapped files.
        return _unchecked, (self._arrays, dict(self._layers), self._head, self._n)

    def room(self, fields: Iterable[str] | None = None, *, beside: int = 0) -> int:
        """Bytes that all rows of the named fields (default all) would take together while they are worked on.

        Parameters
        ----------
        fields
            Names of the fields.
        beside
            Bytes of working room for each row on top of the fields.

        Returns
        -------
        int
            Number of bytes.
        """
        fields = None if fields is None else set(fields)
        return self.n * (self._row_bytes(fields) + beside)

    def blocks(self, fields: Iterable[str] | None = None, *, beside: int = 0, at_once: int = 1) -> Iterator[Outputs]:
        """Row blocks of about 8 MiB of the named fields (default all); float16 is widened to float32 on the way.

        Parameters
        ----------
        fields
            Names of the fields.
        beside
            Bytes of working room that the caller needs for each row on top of the fields.
        at_once
            Number of blocks that share the room because they are worked on together.

        Yields
        ------
        Outputs
            One block of rows.
        """
        if self.n == 0:
            raise InputError("outputs must hold at least one sample, got none. The rows that were chosen are empty.")
        fields = None if fields is None else set(fields)
        arrays, layers = self._sources(fields)
        head = self._head
        for block in row_blocks(self.n, row_bytes=self._row_bytes(fields) + beside, at_once=at_once):
            part = {name: widened(a[block] if SAMPLE_AXIS[name] == 0 else a[:, block]) for name, a in arrays.items()}
            yield _unchecked(part, {k: widened(v[block]) for k, v in layers.items()}, head,
                             n=block.stop - block.start)  # fmt: skip

    def _row_bytes(self, fields: set[str] | None) -> int:
        arrays, layers = self._sources(fields)
        size = sum(max(4, a.itemsize) * a.size // max(1, self.n) for a in (*arrays.values(), *layers.values()))
        if self._head is not None and (fields is None or "logits" in _with_sources(fields, self._arrays)):
            size += 8 * self._head.n_classes
        return size

    def _sources(self, fields: set[str] | None) -> tuple[dict[str, NDArray[Any]], dict[str, NDArray[Any]]]:
        """Arrays and layers that the named fields (default all) are read or made from."""
        wanted = None if fields is None else _with_sources(fields, self._arrays)
        arrays = {k: v for k, v in self._arrays.items() if wanted is None or k in wanted}
        return arrays, dict(self._layers) if wanted is None or "layers" in wanted else {}

    # -- files ------------------------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write to ``path``: one file if it ends in ``.npz``, else a folder of ``.npy`` files for memory-mapping.

        The write is atomic, even if the process is killed. A folder that ``save`` wrote before is replaced, and files
        in it that are not Caveat's stay. A folder of something else is left alone with an InputError.

        Parameters
        ----------
        path
            File or folder to write.
        """
        from caveat.outputs.files import save_outputs

        save_outputs(self, Path(path))

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        *,
        keys: Mapping[str, str] | None = None,
        rows: str = "",
        check: bool = True,
    ) -> Outputs:
        """Read a file or a folder of ``.npy`` files, which stays memory-mapped.

        Files of arrays: ``.npz``, ``.safetensors``, ``.pt`` (read as data, never as code). Tables with one row per
        sample: ``.csv``, ``.tsv``, ``.parquet``, ``.arrow``, ``.feather``; the columns of a field are numbered
        (``logits_0``, ``logits_1``, ...), or one column of lists.

        Names: ``logits`` or ``probs``, ``features``, ``labels``, ``head_weight``, ``head_bias``, ``confidence``,
        ``embeddings``, ``mc_logits``, ``ease_probs``, ``layer.<name>``; any subset. Others are skipped with a warning.

        Parameters
        ----------
        path
            The file or folder.
        keys
            Field -> name in the file, where they differ: ``{"labels": "y"}``. In a table also ``"prefix*"`` or
            ``"a,b,c"``. An empty name leaves the field out.
        rows
            Which rows, as Python writes a slice: ``"0:5000"``, ``"::2"``. Default all.
        check
            Whether values are checked (NaN, labels, sums of probabilities); shapes always are. False is for a folder
            that was checked before and is too large to read twice.

        Returns
        -------
        Outputs
            Of the rows that were asked for.
        """
        from caveat.outputs.reading import load_outputs

        return load_outputs(Path(path), keys=keys, rows=rows, check=check)


_HOW_TO_GET = {
    "logits": "Store logits (n, C), or features with head_weight and head_bias.",
    "probs": "Store logits (n, C), or probs if the model gives only probabilities.",
    "predictions": "Store logits (n, C), or probs if the model gives only probabilities.",
    "correct": "Store labels with the logits.",
    "features": "Store the input of the last linear layer, shape (n, D); nn.extract does.",
    "labels": "Store the true classes, shape (n,).",
    "head": "Store head_weight (C, D) and head_bias (C,) of the last linear layer.",
    "mc_logits": "Store logits of T stochastic passes, shape (T, n, C); nn.extract(..., mc=T) does.",
    "confidence": "Store the confidence that the model gives, shape (n,), larger is surer.",
    "ease_probs": "Store probabilities (L, n, C) of transformed copies; nn.extract(..., transforms=[...]) does. Where "
    "there are no inputs to transform, use logit_noise_ease.",
    "layers": "Store activations of inner layers; nn.extract(..., layers=[...]) does.",
}


def demand(outputs: Any, *fields: str, who: str, name: str = "outputs", verb: str = "needs") -> Outputs:
    """``outputs`` if they are ``Outputs`` with all these fields; else an InputError that says how to get the first."""
    if not hasattr(outputs, "has") or not hasattr(outputs, "blocks"):  # a stream of nn has both
        as_kind(outputs, Outputs, name, what="caveat.Outputs", hint="Wrap arrays: Outputs(logits=..., labels=...).")
    for field in fields:
        if not outputs.has(field):
            raise InputError(f"{who} {verb} {name}.{field}, which is None. {_HOW_TO_GET[field]}")
    checked: Outputs = outputs
    return checked


def _unchecked(
    arrays: dict[str, Array], layers: Mapping[str, Array], head: Head | None, n: int | None = None
) -> Outputs:
    """Outputs around arrays that were checked before."""
    part = object.__new__(Outputs)
    part._arrays = {name: read_only(array) for name, array in arrays.items()}
    part._layers = MappingProxyType({name: read_only(array) for name, array in layers.items()})
    part._head = head
    part._n = _agree_on_rows(part._arrays, part._layers) if n is None else n
    return part


def _with_sources(fields: Iterable[str], stored: Collection[str]) -> set[str]:
    """The stored arrays that can give the named fields; features are not read for logits that are there."""
    wanted = set(fields)
    if wanted & {"probs", "predictions", "correct"}:
        wanted |= {"probs", "logits"}
    if "correct" in wanted:
        wanted |= {"labels"}
    if "logits" in wanted and "logits" not in stored:
        wanted |= {"features"}
    return wanted


def _as_cube(value: ArrayLike, name: str, *, check: bool) -> Array:
    array = as_real_array(value, name)
    check_shape(array, name, 3, "array of shape (passes, samples, classes)")
    if check:
        for step in array:
            check_finite(step, name)
    return array


def _as_layer(value: ArrayLike, name: str, *, check: bool) -> Array:
    array = as_real_array(value, f"layers[{name!r}]")
    if array.ndim < 2 or 0 in array.shape:
        raise InputError(
            f"layers[{name!r}] must have samples as its first axis and at least one more axis, got {array.shape}."
        )
    if check:
        check_finite(array, f"layers[{name!r}]")
    return array


def _agree_on_classes(arrays: Mapping[str, Array], head: Head | None) -> int | None:
    columns = {
        name: int(arrays[name].shape[-1]) for name in ("logits", "probs", "mc_logits", "ease_probs") if name in arrays
    }
    if head is not None:
        columns["head.weight"] = head.n_classes
    return check_same("number of classes", **columns) if columns else None


def _agree_on_rows(arrays: Mapping[str, Array], layers: Mapping[str, Array]) -> int:
    rows = {name: int(array.shape[SAMPLE_AXIS[name]]) for name, array in arrays.items()}
    rows |= {f"layers[{name!r}]": int(array.shape[0]) for name, array in layers.items()}
    if not rows:
        raise InputError("outputs need at least one array, such as logits or features; got none.")
    return check_same("number of rows", **rows)
