r"""ONNX nodes written as numpy expressions, and the conformal rank as a search of fixed length.

``log1p``, which ONNX lacks, is

$$ \log(1 + x) = \frac{x \log u}{u - 1}, \qquad u = \operatorname{fl}(1 + x), $$

accurate to a few units in the last place (Goldberg, "What Every Computer Scientist Should Know About Floating-Point
Arithmetic", ACM Computing Surveys 23(1), 1991, theorem 4).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

FLOAT, INT64, BOOL, DOUBLE = 1, 7, 9, 11  # TensorProto.DataType, fixed by the ONNX standard


@final
@dataclass(frozen=True, eq=False)
class Tensor:
    """A named value of a graph, with the operators of numpy; rows are the first axis, columns the second."""

    graph: Graph
    name: str

    def __add__(self, other: Any) -> Tensor:
        return self.graph.op("Add", self, other)

    def __sub__(self, other: Any) -> Tensor:
        return self.graph.op("Sub", self, other)

    def __mul__(self, other: Any) -> Tensor:
        return self.graph.op("Mul", self, other)

    def __truediv__(self, other: Any) -> Tensor:
        return self.graph.op("Div", self, other)

    def __matmul__(self, other: Any) -> Tensor:
        return self.graph.op("MatMul", self, other)

    def __lt__(self, other: Any) -> Tensor:
        return self.graph.op("Less", self, other)

    def __neg__(self) -> Tensor:
        return self.graph.op("Neg", self)

    def exp(self) -> Tensor:
        return self.graph.op("Exp", self)

    def log(self) -> Tensor:
        return self.graph.op("Log", self)

    def sqrt(self) -> Tensor:
        return self.graph.op("Sqrt", self)

    def equals(self, other: Any) -> Tensor:
        return self.graph.op("Equal", self, other)

    def where(self, yes: Any, no: Any) -> Tensor:
        """``yes`` in the rows and columns where this is true, else ``no``."""
        return self.graph.op("Where", self, yes, no)

    def cast(self, kind: int) -> Tensor:
        return self.graph.op("Cast", self, to=kind)

    def sum(self) -> Tensor:
        """Sum over the columns, shape (n, 1)."""
        return self.graph.op("ReduceSum", self, self.graph.integers([1]), keepdims=1)

    def max(self) -> Tensor:
        """Largest column, shape (n, 1)."""
        if self.graph.opset >= 18:  # the axes moved from the attributes to the inputs
            return self.graph.op("ReduceMax", self, self.graph.integers([1]), keepdims=1)
        return self.graph.op("ReduceMax", self, axes=[1], keepdims=1)

    def flat(self) -> Tensor:
        """A column (n, 1) as a vector (n,)."""
        return self.graph.op("Reshape", self, self.graph.integers([-1]))

    def at(self, index: Any, axis: int = 0) -> Tensor:
        """Rows (or columns) of these numbers."""
        return self.graph.op("Gather", self, index, axis=axis)

    def width(self) -> Tensor:
        """How many columns, shape (1,)."""
        return self.graph.op("Shape", self).at(self.graph.integers([1]))

    def largest(self, k: int) -> tuple[Tensor, Tensor]:
        """The k largest columns of each row (all, where there are fewer), in falling order, and their numbers."""
        count = self.graph.op("Min", self.width(), self.graph.integers([k]))
        values, numbers = self.graph.several("TopK", self, count, n=2, axis=1)
        return values, numbers

    def unit(self) -> Tensor:
        """Rows scaled to length one; zero rows stay zero."""
        length = (self * self).sum().sqrt()
        return self / (self.graph.constant(0.0) < length).where(length, 1.0)


@final
class Graph:
    """Nodes and stored arrays, in the order in which they were asked for."""

    def __init__(self, opset: int) -> None:
        self.opset = opset
        self.nodes: list[Any] = []
        self.stored: dict[Any, tuple[str, NDArray[Any]]] = {}

    def op(self, kind: str, *inputs: Any, **attributes: Any) -> Tensor:
        return self.several(kind, *inputs, n=1, **attributes)[0]

    def several(self, kind: str, *inputs: Any, n: int, **attributes: Any) -> tuple[Tensor, ...]:
        """A node with n outputs; inputs that are not tensors become float64 constants."""
        from onnx.helper import make_node

        names = [each.name if isinstance(each, Tensor) else self.constant(each).name for each in inputs]
        outputs = [f"caveat/{kind}_{len(self.nodes)}_{i}" for i in range(n)]
        self.nodes.append(make_node(kind, names, outputs, name=f"caveat/{kind}_{len(self.nodes)}", **attributes))
        return tuple(Tensor(self, name) for name in outputs)

    def constant(self, value: ArrayLike, dtype: Any = np.float64) -> Tensor:
        """A stored array; float64 unless another type is named, or its own for None."""
        array = np.asarray(value, dtype=dtype)
        key = (array.dtype.str, array.shape, array.tobytes()) if array.size == 1 else len(self.stored)
        if key not in self.stored:
            self.stored[key] = (f"caveat/constant_{len(self.stored)}", array)
        return Tensor(self, self.stored[key][0])

    def integers(self, value: Any) -> Tensor:
        return self.constant(value, np.int64)


def log1p(x: Tensor) -> Tensor:
    u = x + 1.0
    return u.equals(1.0).where(x, u.log() * (x / (u - 1.0)))


def rank(calibration: NDArray[np.float64], score: Tensor) -> Tensor:
    """How many of the sorted calibration scores are below each score (n,): ``np.searchsorted``, steps unrolled.

    The table is padded with infinity to a power of two less one, so that every step halves it.
    """
    graph, steps = score.graph, int(calibration.size).bit_length()
    table = graph.constant(np.append(calibration, np.full(2**steps - 1 - calibration.size, np.inf)))
    place = graph.integers(0)
    for step in (2**i for i in reversed(range(steps))):
        below = table.at(place + graph.integers(step - 1)) < score
        place = place + below.cast(INT64) * graph.integers(step)
    return place
