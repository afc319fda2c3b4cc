"""Run a model over a data set and keep its outputs: logits, features, labels, head, and more on request.

Activations of inner layers are large: 60,000 maps of 64 channels on 28 x 28 take 12 GB. The scores that read them
(gram, mds_ensemble) learn from sums, minima and maxima, so ``stream`` keeps no row. A stream looks like ``Outputs`` to
code that reads row blocks; each reading runs the model again.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Literal, Never, cast, final

import torch
from numpy.typing import NDArray
from torch import nn

from caveat._internal.checks import Rng
from caveat.errors import InputError
from caveat.nn._rows import PASSES, Rows, as_outputs
from caveat.nn._walk import Walk, watched
from caveat.nn.ease import Transform
from caveat.outputs import Head, Outputs

__all__ = ["extract", "stream"]

_ARRAYS = ("logits", "probs", "features", "labels", "mc_logits", "ease_probs", "predictions")
_GIBIBYTE = 2**30


def extract(
    model: nn.Module,
    loader: Iterable[Any],
    *,
    head: str = "auto",
    layers: Sequence[str] | Mapping[str, int] = (),
    pool: Literal["mean"] | None = None,
    mc: int = 0,
    transforms: Sequence[Transform] | None = None,
    labels: bool | str = True,
    keep: Sequence[Literal["logits", "features", "head"]] | None = None,
    device: str | torch.device | None = None,
    dtype: Literal["float16", "float32"] | None = None,
    out: str | os.PathLike[str] | None = None,
    bound: float = _GIBIBYTE,
    rng: Rng | None = None,
    progress: bool | None = None,
) -> Outputs:
    """Outputs of a classifier on all batches of a loader.

    The model is left unchanged: same weights and buffers, same train/eval mode of every module, same gradients, no hook
    remains, and torch's global generator keeps its state, but for draws of the loader itself. A value that
    is not finite is an error that names its row and batch.

    Parameters
    ----------
    model
        Any module that returns logits (n, C): as a tensor, or called ``logits`` in a mapping or dataclass, as the
        models of transformers do. Features and head need a last linear layer, see ``head``.
    loader
        Gives batches: a list, a DataLoader or a generator. A batch is a tensor or array; a mapping, whose entries go to
        the model by name (``input_ids``, ``attention_mask``), but for text, which is left out; or a tuple that starts
        with one of these and whose second element, if it holds numbers, is the labels. Labels are a class number per
        row, of any number type, or a one-hot row each; other numbers are refused. Floats are converted to the type of
        the model's parameters.
    head
        Name of the last linear layer as in ``model.named_modules()``; ``"auto"`` takes the linear layer or 1x1
        convolution whose output is the model's output, also before a softmax, before a mean over positions, or at one
        position. Its weight and bias must give the model's logits from the features, which the first batch checks.
        Where no layer does (a functional, cosine or quantized head, TorchScript), a warning says why and the logits are
        stored alone. Where a named layer gives other logits than the model returns (it divides them by a temperature),
        a warning says so. A named module that is not linear but gives the model's answer keeps the features.
    layers
        Names of modules whose outputs become ``Outputs.layers``, as the scores gram and mds_ensemble read them: shape
        (n, channels, positions...). Nothing is reduced: a convolution of 64 channels on 28 x 28 takes 200 kB a sample.
        Channels are axis 1, but the last axis of three-dimensional outputs of linear layers, layer norms and
        transformer layers; a mapping name -> axis says it otherwise. ``stream`` fits both scores without storing.
    pool
        ``"mean"`` keeps the mean of each channel, (n, channels): all that mds_ensemble reads, not enough for gram.
    mc
        Number T of further passes with dropout, stored as ``mc_logits`` (T, n, C). Only dropout layers are active
        (``nn.Dropout`` and its kin, and the dropout inside ``nn.MultiheadAttention`` and recurrent layers); batch
        normalization stays at rest. ``F.dropout`` called in a forward method cannot be activated from outside.
    transforms
        Transformations from ``nn.ease``, one for each of L changed copies of the input: their probabilities become
        ``ease_probs`` (L, n, C). Twenty noisy copies: ``[ease.GaussianNoise(0.05)] * 20``. In a mapping they change
        the model's ``main_input_name``, or the first entry.
    labels
        False leaves the labels of the loader out: those of outliers number classes that the model does not have. In a
        mapping the labels are the entry ``labels``, ``label`` or ``label_ids``; a string names another.
    keep
        What to store of ``"logits"``, ``"features"`` and ``"head"``. Default: what the model gives, with a warning
        where features or head are missing; a list that names what is missing is an error instead.
        ``keep=["logits"]`` stores the logits alone.
    device
        Device of the model, to which inputs are moved; default: that of its first parameter.
    dtype
        Float type of everything but the logits, which are small and rank samples: ``"float16"`` halves the room of
        features and layers. Default: as the model gives it, half precision as float32.
    out
        Folder for the rows, written as they come and memory-mapped in the result; ``Outputs.load`` reads it later.
    bound
        Bytes held in memory. What exceeds it goes to memory-mapped files in a temporary folder that lives as long as
        the result (``TMPDIR`` says where).
    rng
        Randomness of ``mc`` and ``transforms``; default: a fixed seed, so that two calls agree.
    progress
        Show a progress bar on standard error; default: if that is a terminal.

    Returns
    -------
    Outputs
        With ``logits``, and ``features``, ``head``, ``labels``, ``layers``, ``mc_logits`` and ``ease_probs`` where the
        model, the loader and the arguments give them.

    Examples
    --------
    >>> model = nn.Sequential(nn.Flatten(), nn.Linear(4, 3), nn.ReLU(), nn.Dropout(0.5), nn.Linear(3, 2))
    >>> batches = [(torch.zeros(5, 2, 2), torch.tensor([0, 1, 0, 1, 1]))]
    >>> extract(model, batches)
    Outputs(n=5, logits 5x2 float32, features 5x3 float32, labels 5, head_weight 2x3 float32, head_bias 2 float32)
    >>> extract(model, batches, mc=50).mc_logits.shape
    (50, 5, 2)
    >>> extract(model, [{"image": torch.zeros(5, 2, 2), "label": [0, 1, 0, 1, 1]}], keep=["logits"])
    Outputs(n=5, logits 5x2 float32, labels 5)
    """
    walk = Walk(
        model, head=head, layers=layers, pool=pool, mc=mc, transforms=transforms, labels=labels, device=device,
        dtype=dtype, rng=rng, keep=keep,
    )  # fmt: skip
    with Rows(bound=bound, out=None if out is None else Path(out)) as rows:
        with closing(watched(loader, progress)) as batches, closing(walk.parts(batches)) as parts:  # type: ignore[type-var]
            for part in parts:
                rows.add(part)
        return rows.finish(walk.head_layer())


def stream(
    model: nn.Module,
    loader: Iterable[Any],
    *,
    head: str = "auto",
    layers: Sequence[str] | Mapping[str, int] = (),
    pool: Literal["mean"] | None = None,
    mc: int = 0,
    transforms: Sequence[Transform] | None = None,
    labels: bool | str = True,
    keep: Sequence[Literal["logits", "features", "head"]] | None = None,
    device: str | torch.device | None = None,
    rng: Rng | None = None,
    progress: bool | None = None,
) -> Outputs:
    """The outputs of ``extract``, batch by batch, for scores to learn from and to score; no row is kept.

    ``score.fit(stream(...))`` equals ``score.fit(extract(...))``, and ``score.score(stream(...))`` likewise, for every
    score that reads its rows in blocks; ``scores.score_all`` learns for several in one walk. A score that needs all
    rows at once (knn keeps them as its bank) raises an error: use ``extract``. A score that reads the training rows a
    second time (mds_ensemble, for the spread of its distances) runs the model a second time.

    Parameters
    ----------
    model
        As for :func:`caveat.nn.extract`.
    loader
        As there; it must give the same batches each time, so a list or a loader that does not shuffle.
    head, layers, pool, mc, transforms, labels, keep, device, rng, progress
        As for :func:`caveat.nn.extract`.

    Returns
    -------
    Outputs
        Rows are computed when they are read; only their blocks are in memory.

    Examples
    --------
    >>> from caveat.scores import Gram
    >>> model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(16, 2))
    >>> batches = [torch.rand(8, 1, 4, 4, generator=torch.Generator().manual_seed(i)) for i in range(4)]
    >>> gram = Gram().fit(stream(model, batches, layers=["0"]))
    >>> gram.score(stream(model, batches, layers=["0"])).max()
    np.float64(0.0)
    """
    if iter(loader) is loader:
        raise InputError("loader must give its batches more than once: pass a list or a DataLoader, not an iterator.")
    walk = Walk(
        model, head=head, layers=layers, pool=pool, mc=mc, transforms=transforms, labels=labels, device=device,
        rng=rng, keep=keep,
    )  # fmt: skip
    return cast(Outputs, _Stream(walk, loader, progress))


@final
class _Stream:
    """The part of the interface of Outputs that a walk over blocks needs."""

    def __init__(self, walk: Walk, loader: Iterable[Any], progress: bool | None) -> None:
        self._walk, self._loader, self._progress = walk, loader, progress
        first = next(walk.parts(watched(loader, progress=False)))
        self.head: Head | None = walk.head_layer()
        self.n_classes = first["logits"].shape[1]
        self._first = as_outputs({key: array[:, :1] if key in PASSES else array[:1] for key, array in first.items()},
                                 self.head)  # fmt: skip

    def has(self, field: str) -> bool:
        return self._first.has(field)

    def room(self, fields: Iterable[str] | None = None, *, beside: int = 0) -> int:
        """0, as no row is kept: a score works on one batch at a time, and leaves the threads to the model."""
        return 0

    def blocks(self, fields: Iterable[str] | None = None, *, beside: int = 0, at_once: int = 1) -> Iterator[Outputs]:
        """The batches of a new walk. All fields are there, and a block is a batch: the loader chose its size."""
        for part in self._walk.parts(watched(self._loader, self._progress)):
            yield as_outputs(part, self.head)

    @property
    def layers(self) -> dict[str, _Shape]:
        return {name: _Shape(f"layers[{name!r}]", array) for name, array in self._first.layers.items()}

    def __getattr__(self, name: str) -> Any:
        """Shape and type of an array; its rows are not here."""
        if name in _ARRAYS:
            return _Shape(name, getattr(self._first, name)) if self.has(name) else None
        raise InputError(f"a stream has no {name}: its rows pass by and are not kept. Use nn.extract(...).")

    def __repr__(self) -> str:
        return f"stream of {self._first!r}"


@final
class _Shape:
    """Shape and type of an array whose rows are not kept."""

    def __init__(self, name: str, like: NDArray[Any]) -> None:
        self._name, self.dtype, self.ndim = name, like.dtype, like.ndim
        self.shape = (0, *like.shape[1:])

    def _refuse(self, *_: Any, **__: Any) -> Never:
        raise InputError(f"all rows of {self._name} are needed at once, but in a stream they pass by. "
                         "Use nn.extract(...).")  # fmt: skip

    __array__ = __getitem__ = __iter__ = __len__ = __matmul__ = __eq__ = astype = _refuse
