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

from caveat._internal.arrays import read_only, widened
from caveat._internal.blocks import row_blocks
from caveat._internal.by_row import softmax_rows
from caveat._internal.checks import (
    are_probabilities,
    as_kind,
    as_matrix,
    as_rows,
    as_vector,
    check_probabilities,
    check_same,
)
from caveat._internal.classes import as_class_names, listed, read_classes
from caveat.errors import CaveatWarning, InputError
from caveat.outputs.binary import PROBABILITIES, two_columns
from caveat.outputs.demand import demand
from caveat.outputs.head import Head
from caveat.outputs.shapes import (
    CLASS_COLUMNS,
    LAYER,
    SAMPLE_AXIS,
    agree_on_classes,
    agree_on_rows,
    as_cube,
    as_layer,
)

__all__ = ["LAYER", "SAMPLE_AXIS", "Outputs", "demand"]

Array = NDArray[Any]


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
        Shape (n, C); or, of a binary problem, (n,) or (n, 1): the log-odds of the positive class, which is the second.
    probs
        Shape (n, C): probabilities, for a model that gives no logits; or (n,) or (n, 1): P(positive). Never guessed
        from the values of ``logits``.
    features
        Shape (n, D): the input of the last linear layer.
    labels
        Shape (n,): true classes, as numbers 0..C-1, names, or booleans; also 1..C, where C occurs and 0 does not.
        Outliers have none. ``outputs.labels`` holds numbers, ``outputs.class_names`` the names.
    head
        The last linear layer. With ``features`` it also gives logits that were not stored.
    mc_logits
        Shape (T, n, C): logits of T stochastic passes.
    confidence
        Shape (n,): an external confidence; larger is surer. With ``predictions``, that of the predicted class.
    layers
        Name -> array whose first axis counts samples: activations of inner layers.
    embeddings
        Shape (n, E): vectors of a separate encoder, for the proximity of data sets.
    ease_probs
        Shape (L, n, C): probabilities of L transformed copies of each input.
    predictions
        Shape (n,): predicted classes, written as in ``labels``, of a model that gives neither logits nor probs.
    class_names
        Names of the classes in the order of the columns; required where ``labels`` are names and an array or the head
        has a column per class. A scikit-learn classifier has it as ``classes_``. Without such columns the names in
        ``labels`` and ``predictions`` are sorted.
    check
        False checks shapes but no values: for large arrays that were checked before.

    Examples
    --------
    >>> outputs = Outputs(logits=[[2.0, 0.0], [0.0, 1.0], [3.0, 0.0]], labels=[0, 1, 1])
    >>> outputs.predictions, outputs.correct
    (array([0, 1, 0]), array([ True,  True, False]))
    >>> outputs[1:]
    Outputs(n=2, logits 2x2 float64, labels 2)
    >>> Outputs(probs=[0.9, 0.2], labels=["spam", "ham"], class_names=["ham", "spam"])
    Outputs(n=2, probs 2x2 float64, labels 2, classes ham, spam)
    >>> Outputs(predictions=["cat", "dog"], confidence=[0.9, 0.6], labels=["cat", "cat"]).correct
    array([ True, False])
    """

    __slots__ = ("_arrays", "_head", "_layers", "_n", "_names")

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
        predictions: ArrayLike | None = None,
        class_names: Iterable[Any] | None = None,
        check: bool = True,
    ) -> None:
        arrays: dict[str, Array] = {}
        for name, matrix in (("logits", logits), ("probs", probs), ("features", features), ("embeddings", embeddings)):
            if matrix is not None:
                columns = two_columns(matrix, name, 2, check=check) if name in ("logits", "probs") else matrix
                arrays[name] = as_matrix(columns, name, check=check)
        for name, cube in (("mc_logits", mc_logits), ("ease_probs", ease_probs)):
            if cube is not None:
                arrays[name] = as_cube(two_columns(cube, name, 3, check=check), name, check=check)
        if confidence is not None:
            arrays["confidence"] = as_vector(confidence, "confidence")
        head = None if head is None else as_kind(head, Head, "head", what="a caveat.Head(weight, bias)")
        if "logits" in arrays and "probs" in arrays:
            raise InputError("give logits or probs, not both: with both it is unclear which one a score should read.")
        if check:
            for name in set(PROBABILITIES) & set(arrays):
                check_probabilities(arrays[name], name)
            for name, remedy in (("logits", "Pass them as probs"), ("mc_logits", "Pass their logarithms")):
                if name in arrays and are_probabilities(arrays[name]):
                    warnings.warn(f"{name} are rows of probabilities (between 0 and 1, with sum 1), and scores would "
                                  f"take a softmax of them. {remedy}.", CaveatWarning, stacklevel=2)  # fmt: skip

        answers = {"labels": labels, "predictions": predictions}
        numbers, self._names = read_classes(
            {name: column for name, column in answers.items() if column is not None}, class_names,
            agree_on_classes(arrays, head), check=check,
        )  # fmt: skip
        if predictions is not None and (
            {"logits", "probs"} & set(arrays) or (head is not None and "features" in arrays)
        ):
            raise InputError("predictions follow from logits and probs. Leave them out, or give them with a confidence "
                             "alone.")  # fmt: skip
        arrays |= numbers
        if head is not None and "features" in arrays:
            check_same("number of columns", **{"features": len(arrays["features"].T), "head.weight": head.n_features})
        layers = {} if layers is None else as_kind(layers, Mapping, "layers", what="a map from names to arrays")
        inner = {
            as_kind(name, str, "the name of a layer"): as_layer(array, name, check=check)
            for name, array in layers.items()
        }

        self._arrays = {name: read_only(array) for name, array in arrays.items()}
        self._layers = MappingProxyType({name: read_only(array) for name, array in inner.items()})
        self._head = head
        self._n = agree_on_rows(self._arrays, self._layers)

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
        return softmax_rows(self.logits)

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
    def class_names(self) -> tuple[str, ...] | None:
        """Names of the classes, in the order of the class numbers; None where classes have numbers alone."""
        return self._names

    @property
    def has_class_columns(self) -> bool:
        """Whether an array has one column, or the head one row, per class."""
        return agree_on_classes(self._arrays, self._head) is not None

    @property
    def predictions(self) -> Any:
        """The most probable class of each sample (the first one on a tie), or the prediction that was given."""
        if "predictions" in self._arrays or not self.has("predictions"):
            return self._arrays.get("predictions")
        return np.argmax(self._arrays["probs"] if self.gives_probs else self.logits, axis=1)

    @property
    def correct(self) -> Any:
        """Whether each prediction equals the label."""
        return np.asarray(self.predictions == self.labels) if self.has("correct") else None

    def with_class_names(self, class_names: Iterable[Any]) -> Outputs:
        """The same outputs with these class names: unnamed classes get them, named ones are put in their order.

        Parameters
        ----------
        class_names
            One name per class, in the order that the classes shall have. Outputs without a column per class may know
            only some of them.

        Returns
        -------
        Outputs
            With columns, rows of the head, labels and predictions in the new order.

        Examples
        --------
        >>> outputs = Outputs(logits=[[2.0, 0.0], [0.0, 1.0]], labels=["cat", "dog"], class_names=["cat", "dog"])
        >>> turned = outputs.with_class_names(["dog", "cat"])
        >>> turned.logits, turned.labels, turned.class_names
        (array([[0., 2.],
               [1., 0.]]), array([1, 0]), ('dog', 'cat'))
        """
        names = as_class_names(class_names)
        if self._names is None and not self.has_class_columns:
            return _unchecked(self._arrays, self._layers, self._head, names.names, self._n)
        own = self._names or names.names
        if self.has_class_columns and (set(own) != set(names.names) or len(own) != self.n_classes):
            raise InputError(f"class_names must name these {self.n_classes} classes ({listed(own)}), got "
                             f"{len(names.names)} ({listed(names.names)}).")  # fmt: skip
        place = names.numbers(np.array(own), "class_names")  # old class number -> new one
        if (place == np.arange(len(own))).all():
            return _unchecked(self._arrays, self._layers, self._head, names.names, self._n)
        arrays, head, order = dict(self._arrays), self._head, np.argsort(place)
        for name in arrays:
            if name in ("labels", "predictions"):
                arrays[name] = place[arrays[name]]
            elif name in CLASS_COLUMNS:
                arrays[name] = np.ascontiguousarray(arrays[name][..., order])  # sums depend on the layout
        if head is not None:
            head = Head(head.weight[order], head.bias[order])
        return _unchecked(arrays, self._layers, head, names.names, self._n)

    # -- shape ------------------------------------------------------------------------------------------------------

    @property
    def n(self) -> int:
        return self._n

    def __len__(self) -> int:
        return self._n

    @property
    def n_classes(self) -> int | None:
        """C, from the arrays that have one column per class, else from the names, else from the largest class."""
        classes = agree_on_classes(self._arrays, self._head)
        if classes is None and self._names is not None:
            return len(self._names)
        numbers = [self._arrays[name] for name in ("labels", "predictions") if name in self._arrays]
        return int(max(column.max() for column in numbers)) + 1 if classes is None and numbers else classes

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
        if field == "class_names":
            return self._names is not None
        if field == "probs" or (field == "predictions" and field not in stored):
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

    @property
    def gives_probs(self) -> bool:
        """Whether the probabilities were given. They are then the model's answer, whatever features and head say."""
        return "probs" in self._arrays

    def stored(self) -> dict[str, tuple[tuple[int, ...], np.dtype[Any]]]:
        """Shape and type of every stored array, by its key in a file."""
        return {key: (array.shape, array.dtype) for key, array in self.arrays().items()}

    def __repr__(self) -> str:
        parts = [f"n={self.n}"]
        for name, (shape, dtype) in self.stored().items():
            size = "x".join(map(str, shape))
            parts.append(f"{name} {size}" if name in ("labels", "predictions") else f"{name} {size} {dtype}")
        if self._names is not None:
            parts.append(f"classes {listed(self._names)}")
        return f"Outputs({', '.join(parts)})"

    def __getitem__(self, rows: slice | NDArray[Any] | list[int] | int) -> Outputs:
        """The chosen samples, as ``Outputs``: a slice gives views, a mask or an index array copies."""
        rows = as_rows(rows, self.n, "outputs")
        arrays = {
            name: array[rows] if SAMPLE_AXIS[name] == 0 else array[:, rows] for name, array in self._arrays.items()
        }
        layers = {name: array[rows] for name, array in self._layers.items()}
        return _unchecked(arrays, layers, self._head, self._names)

    def __iter__(self) -> Iterator[Outputs]:
        """One sample after the other, each as ``Outputs`` with n = 1. Whole arrays and ``blocks`` are faster."""
        return (self[i] for i in range(self.n))

    def __reduce__(self) -> tuple[Any, ...]:
        # Another process gets the rows themselves, also of memory-mapped files.
        return _unchecked, (self._arrays, dict(self._layers), self._head, self._names, self._n)

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
            # In one layout: the sums of a row depend on it, and a row alone has both.
            part = {
                name: np.ascontiguousarray(widened(a[block] if SAMPLE_AXIS[name] == 0 else a[:, block]))
                for name, a in arrays.items()
            }
            yield _unchecked(part, {k: np.ascontiguousarray(widened(v[block])) for k, v in layers.items()}, head,
                             self._names, n=block.stop - block.start)  # fmt: skip

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

    # -- other sources ----------------------------------------------------------------------------------------------

    @classmethod
    def from_frame(cls, frame: Any, **columns: Any) -> Outputs:
        """Read a table of pandas, polars or pyarrow: :func:`caveat.outputs.frames.outputs_from_frame`.

        Parameters
        ----------
        frame
            The table, or a map from names to columns.
        **columns
            Field -> column: ``logits="logit_*"`` or a list of names, ``labels="y"``, ``confidence="p"``; and ``head``,
            ``class_names`` and ``check`` as they are.

        Returns
        -------
        Outputs
            One sample per row.

        Examples
        --------
        >>> frame = {"p_cat": [0.9, 0.2], "p_dog": [0.1, 0.8], "y": ["cat", "cat"]}
        >>> Outputs.from_frame(frame, probs="p_*", labels="y").correct
        array([ True, False])
        """
        from caveat.outputs.frames import outputs_from_frame

        return outputs_from_frame(frame, **columns)

    @classmethod
    def from_torch(cls, **fields: Any) -> Outputs:
        """Make outputs from tensors on any device: detached, copied to memory, half precision as float32.

        Parameters
        ----------
        **fields
            The fields of ``Outputs``, as tensors or arrays; ``head`` may be a ``torch.nn.Linear``.

        Returns
        -------
        Outputs
            Independent of torch, which is not imported.

        Examples
        --------
        >>> Outputs.from_torch(logits=np.array([[2.0, 0.0]]), labels=[0])
        Outputs(n=1, logits 1x2 float64, labels 1)
        """
        from caveat.outputs.tensors import outputs_from_tensors

        return outputs_from_tensors(fields)

    @classmethod
    def from_sklearn(cls, estimator: Any, x: Any, y: ArrayLike | None = None) -> Outputs:
        """Ask a fitted scikit-learn classifier: probabilities, or decision values as logits, and its class names.

        Parameters
        ----------
        estimator
            With ``classes_`` and ``predict_proba``, or ``decision_function``; also a pipeline or a search.
        x
            Inputs of the estimator, n rows.
        y
            True classes as the estimator knows them, shape (n,); None without labels.

        Returns
        -------
        Outputs
            Columns follow ``classes_``. Classes 0..C-1 have no names.

        Examples
        --------
        >>> from sklearn.linear_model import LogisticRegression
        >>> x, y = [[0.0], [1.0], [2.0], [3.0]], ["low", "low", "high", "high"]
        >>> Outputs.from_sklearn(LogisticRegression().fit(x, y), x, y)
        Outputs(n=4, probs 4x2 float64, labels 4, classes high, low)
        """
        from caveat.outputs.estimator import outputs_of_estimator

        return outputs_of_estimator(estimator, x, y)

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
        class_names: Iterable[Any] | None = None,
        check: bool = True,
    ) -> Outputs:
        """Read a file or a folder of ``.npy`` files, which stays memory-mapped.

        Files of arrays: ``.npz``, ``.safetensors``, ``.pt`` (read as data, never as code). Tables with one row per
        sample: ``.csv``, ``.tsv``, ``.parquet``, ``.arrow``, ``.feather``; the columns of a field are numbered
        (``logits_0``, ``logits_1``, ...), or one column of lists.

        Names: ``logits`` or ``probs``, ``features``, ``labels``, ``predictions``, ``class_names``, ``head_weight``,
        ``head_bias``, ``confidence``, ``embeddings``, ``mc_logits``, ``ease_probs``, ``layer.<name>``; any subset.
        Others are skipped with a warning.

        Parameters
        ----------
        path
            The file or folder.
        keys
            Field -> name in the file, where they differ: ``{"labels": "y"}``. In a table also ``"prefix*"`` or
            ``"a,b,c"``. An empty name leaves the field out.
        rows
            Which rows, as Python writes a slice: ``"0:5000"``, ``"::2"``. Default all.
        class_names
            Names of the classes in the order of the columns, for a file whose labels are names and which does not
            store their order. Where it does, the outputs are put into this order.
        check
            Whether values are checked (NaN, labels, sums of probabilities); shapes always are. False is for a folder
            that was checked before and is too large to read twice; whole numbers are then class numbers.

        Returns
        -------
        Outputs
            Of the rows that were asked for.
        """
        from caveat.outputs.reading import load_outputs

        return load_outputs(Path(path), keys=keys, rows=rows, class_names=class_names, check=check)


def _unchecked(
    arrays: dict[str, Array], layers: Mapping[str, Array], head: Head | None, names: tuple[str, ...] | None,
    n: int | None = None,
) -> Outputs:  # fmt: skip
    """Outputs around arrays that were checked before."""
    part = object.__new__(Outputs)
    part._arrays = {name: read_only(array) for name, array in arrays.items()}
    part._layers = MappingProxyType({name: read_only(array) for name, array in layers.items()})
    part._head, part._names = head, names
    part._n = agree_on_rows(part._arrays, part._layers) if n is None else n
    return part


def _with_sources(fields: Iterable[str], stored: Collection[str]) -> set[str]:
    """The stored arrays that can give the named fields; features are not read for logits that are there."""
    wanted = set(fields)
    if wanted & {"probs", "predictions", "correct"}:
        wanted |= {"probs", "logits"}
    if "correct" in wanted:
        wanted |= {"labels", "predictions"}
    if "logits" in wanted and "logits" not in stored:
        wanted |= {"features"}
    return wanted
