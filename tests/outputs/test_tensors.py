"""Tensors as outputs, without torch in the core: a double of a tensor, and torch itself where it is installed."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from caveat import InputError, Outputs


class Tensor:
    """As much of a tensor as is asked for: it must be detached and copied before it has an array."""

    def __init__(self, array, steps=(), dtype="torch.float32"):
        self.array, self.steps, self.dtype = array, steps, dtype

    def detach(self):
        return Tensor(self.array, (*self.steps, "detach"), self.dtype)

    def cpu(self):
        return Tensor(self.array, (*self.steps, "cpu"), self.dtype)

    def float(self):
        return Tensor(self.array.astype(np.float32), self.steps)

    def numpy(self):
        if self.steps != ("detach", "cpu") or self.dtype == "torch.bfloat16":
            raise TypeError("not in memory")
        return self.array


class Linear:
    weight, bias = Tensor(np.array([[1.0, 0.0], [0.0, 1.0]])), None


def test_tensors_are_detached_copied_and_widened():
    half = Tensor(np.array([[2.0, 0.0]]), dtype="torch.bfloat16")
    outputs = Outputs.from_torch(logits=half, labels=Tensor(np.array([0])), layers={"conv": Tensor(np.ones((1, 3)))},
                                 head=Linear(), features=[[2.0, 0.0]], class_names=["a", "b"])  # fmt: skip
    assert outputs.logits.dtype == np.float32
    assert (outputs.class_names, outputs.correct.tolist()) == (("a", "b"), [True])
    np.testing.assert_array_equal(outputs.head.weight, np.eye(2))
    assert outputs.layers["conv"].shape == (1, 3)


def test_a_tensor_without_an_array_gets_one_sentence():
    class Meta(Tensor):
        def detach(self):
            raise RuntimeError("no data on meta")

    with pytest.raises(InputError, match="logits must be a dense tensor .*no data on meta"):
        Outputs.from_torch(logits=Meta(None))


def test_torch_itself():
    torch = pytest.importorskip("torch")
    logits = torch.tensor([[2.0, 0.0], [0.0, 1.0]], requires_grad=True)
    outputs = Outputs.from_torch(logits=logits.to(torch.bfloat16), labels=torch.tensor([0, 0]),
                                 head=torch.nn.Linear(3, 2), features=torch.zeros(2, 3).half())  # fmt: skip
    assert (outputs.logits.dtype, outputs.features.dtype) == (np.float32, np.float32)
    assert outputs.correct.tolist() == [True, False]
    assert outputs.head.n_features == 3
    one = Outputs.from_torch(logits=torch.tensor([1.5, -1.0]), labels=torch.tensor([True, True]))
    assert one.correct.tolist() == [True, False]


def test_torch_is_not_imported(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    assert Outputs.from_torch(logits=Tensor(np.eye(2))).n == 2
