"""Outputs in narrower float types."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from caveat.outputs.outputs import LAYER, Array, Outputs, _unchecked

__all__ = ["in_float_types"]


def in_float_types(outputs: Outputs, types: Mapping[str, str]) -> Outputs:
    """The same rows with arrays of these keys in narrower float types, where they are wider.

    >>> in_float_types(Outputs(logits=[[0.1, 0.0]]), {"logits": "float32"})
    Outputs(n=1, logits 1x2 float32)
    """
    wide = {
        key for key, (_, kind) in outputs.stored().items() if np.dtype(types.get(key, kind)).itemsize < kind.itemsize
    }
    if not wide:
        return outputs

    def narrowed(arrays: Mapping[str, Array], prefix: str = "") -> dict[str, Array]:
        return {
            name: array.astype(types[prefix + name]) if prefix + name in wide else array
            for name, array in arrays.items()
        }

    return _unchecked(
        narrowed(outputs._arrays), narrowed(outputs._layers, LAYER), outputs._head, outputs._names, outputs._n
    )
