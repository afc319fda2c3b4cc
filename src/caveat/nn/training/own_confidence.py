"""A network's own confidence, joined to what was extracted from it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, final

import torch
from torch import Tensor

from caveat.outputs import Outputs

__all__ = ["Watched", "with_confidence"]


@final
class Watched:
    """A loader that asks about every batch as it goes by, so that a shuffled or one-way loader is read only once."""

    def __init__(self, loader: Iterable[Any], ask: Callable[[Tensor], Tensor | None], where: torch.device) -> None:
        self._loader, self._ask, self._where = loader, ask, where
        self.seen: list[Tensor] = []

    def __getattr__(self, name: str) -> Any:  # the length and the data set of the loader, for the progress display
        return getattr(self._loader, name)

    def __len__(self) -> int:
        return len(self._loader)  # type: ignore[arg-type]

    def __iter__(self) -> Iterator[Any]:
        for batch in self._loader:
            inputs = batch[0] if isinstance(batch, (tuple, list)) else batch
            with torch.inference_mode():
                said = self._ask(inputs.to(self._where, copy=True))  # the model may write into what it is given
            assert said is not None
            self.seen.append(said.double().cpu())
            yield batch


def with_confidence(outputs: Outputs, confidence: Tensor) -> Outputs:
    """The same outputs with a column of confidence. In float64: a sigmoid in float32 has only ties above 17."""
    fields = ("logits", "features", "labels", "mc_logits", "embeddings", "ease_probs")
    stored = {name: getattr(outputs, name) for name in fields if outputs.has(name)}
    return Outputs(
        **stored, head=outputs.head, layers=outputs.layers, confidence=confidence.double().cpu().numpy(), check=False
    )
