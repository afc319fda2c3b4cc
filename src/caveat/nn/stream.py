"""Outputs that pass by and are not kept: statistics are collected while the model runs.

Activations of inner layers are large: 60,000 maps of 64 channels on 28 x 28 take 12 GB. The scores that read them
(gram, mds_ensemble) learn from sums, minima and maxima, so no row need outlive its batch. A stream looks like
``Outputs`` to anything that walks over row blocks; each walk runs the model again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, Never, cast, final

import torch
from numpy.typing import NDArray
from torch import nn

from caveat._internal.checks import Rng
from caveat.errors import InputError
from caveat.nn._rows import PASSES, as_outputs
from caveat.nn._walk import Walk, watched
from caveat.nn.ease import Transform
from caveat.outputs import Head, Outputs

__all__ = ["stream"]


def stream(
    model: nn.Module,
    loader: Iterable[Any],
    *,
    head: str = "auto",
    layers: Sequence[str] | Mapping[str, int] = (),
    pool: Literal["mean"] | None = None,
    mc: int = 0,
    transforms: Sequence[Transform] | None = None,
    labels: bool = True,
    device: str | torch.device | None = None,
    rng: Rng | None = None,
    progress: bool | None = None,
) -> Outputs:
    """What ``extract`` gives, batch by batch, for scores to learn from and to judge; no row is kept.

    ``score.fit(stream(...))`` equals ``score.fit(extract(...))``, and ``score.score(stream(...))`` likewise, for every
    score that reads its rows in blocks; ``scores.score_all`` learns for several in one walk. A score that needs all
    rows at once (knn keeps them as its bank) says so: it wants ``extract``. A score that reads the training rows a
    second time (mds_ensemble, for the spread of its distances) runs the model a second time.

    Parameters
    ----------
    model, head, layers, pool, mc, transforms, labels, device, rng, progress
        As for :func:`caveat.nn.extract`.
    loader
        As there; it must give the same batches each time, so a list or a loader that does not shuffle.

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
        model, head=head, layers=layers, pool=pool, mc=mc, transforms=transforms, labels=labels, device=device, rng=rng
    )
    return cast(Outputs, _Stream(walk, loader, progress))


@final
class _Stream:
    """The part of the face of Outputs that a walk over blocks needs."""

    def __init__(self, walk: Walk, loader: Iterable[Any], progress: bool | None) -> None:
        self._walk, self._loader, self._progress = walk, loader, progress
        first = next(walk.parts(watched(loader, progress=False)))
        self.head: Head = walk.head_layer()
        self.n_classes = self.head.n_classes
        self._first = as_outputs({key: array[:, :1] if key in PASSES else array[:1] for key, array in first.items()},
                                 self.head)  # fmt: skip

    def has(self, field: str) -> bool:
        return self._first.has(field)

    def room(self, fields: Iterable[str] | None = None, *, beside: int = 0) -> int:
        """None: no row is kept. A score then works on one batch at a time, and leaves the threads to the model."""
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


_ARRAYS = ("logits", "probs", "features", "labels", "mc_logits", "ease_probs", "predictions")


@final
class _Shape:
    """What is known of an array before its rows have passed."""

    def __init__(self, name: str, like: NDArray[Any]) -> None:
        self._name, self.dtype, self.ndim = name, like.dtype, like.ndim
        self.shape = (0, *like.shape[1:])

    def _refuse(self, *_: Any, **__: Any) -> Never:
        raise InputError(f"all rows of {self._name} are needed at once, but in a stream they pass by. "
                         "Use nn.extract(...).")  # fmt: skip

    __array__ = __getitem__ = __iter__ = __len__ = __matmul__ = __eq__ = astype = _refuse
