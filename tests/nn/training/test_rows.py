"""Accepted training data: arrays and data sets of many kinds, or a clear error."""

from __future__ import annotations

import numpy as np
import pytest

from caveat import InputError

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset  # noqa: E402

from caveat_lab.networks import fit_classifier  # noqa: E402
from caveat_lab.networks.training.rows import Rows, as_draw, draw_fingerprint  # noqa: E402


class Known(Dataset):
    """Rows by number, and their labels as torchvision's sets have them."""

    def __init__(self, x, y, targets=None):
        self.x, self.y = x, y
        if targets is not None:
            self.targets = targets

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return self.x[i], self.y[i]


class Bare(Known):
    def __getitem__(self, i):
        return self.x[i]


@pytest.mark.parametrize(
    "targets",
    [
        lambda y: y,
        lambda y: y.tolist(),
        torch.tensor,
        lambda y: torch.tensor(y).float(),
        lambda y: y[:, None],
        lambda y: nn.functional.one_hot(torch.tensor(y)),
        lambda y: None,
    ],
    ids=["array", "list", "tensor", "floats", "column", "one-hot", "none"],
)
def test_a_data_set_is_taken_however_its_targets_come(blobs, small_net, same_weights, targets):
    x, y = blobs()
    how = {"epochs": 2, "learning_rate": 0.05}
    arrays = fit_classifier(small_net(), (x, y), **how).model
    assert same_weights(arrays, fit_classifier(small_net(), Known(x, y, targets(y)), **how).model)


def test_transformed_targets_count_and_not_the_stored_ones():
    class Transformed(Known):
        target_transform = staticmethod(lambda y: 1 - y)

        def __getitem__(self, i):
            return self.x[i], self.target_transform(self.y[i])

    y = np.array([0, 1, 1])
    assert Rows.of(Transformed(np.zeros((3, 2)), y, y), "data").labels.tolist() == [1, 0, 0]


@pytest.mark.parametrize(
    "given", [lambda y: y.astype(float), lambda y: np.eye(3)[y], lambda y: y[:, None], torch.tensor]
)
def test_labels_of_arrays_are_understood_as_in_extract(blobs, given):
    x, y = blobs()
    assert torch.equal(Rows.of((x, given(y)), "data").labels, torch.tensor(y))


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (lambda x, y: Known(x, y, y[1:]), r"labels must be .* 300 rows, got shape \(299,\)"),
        (lambda x, y: Known(x, y, y + 0.5), "whole class numbers"),
        (lambda x, y: Known(x, y, np.ones((len(x), 3))), "one-hot"),
        (lambda x, y: (x, list("abc") * 100), "numbers of classes"),
        (Bare, r"\(input, label\) pairs"),
        (lambda x, y: DataLoader(Known(x, y)), "loader.dataset"),
        (lambda x, y: (list("abc"), y), "real numbers"),
    ],
)
def test_data_that_cannot_be_learned_from_gets_one_sentence(blobs, small_net, data, what):
    with pytest.raises(InputError, match=what):
        fit_classifier(small_net(), data(*blobs()))


@pytest.mark.parametrize(
    "given",
    [
        lambda x, y: x,
        lambda x, y: torch.tensor(x),
        lambda x, y: x.tolist(),
        Known,
        Bare,
        lambda x, y: Known(x, ["a name"] * len(x)),
        lambda x, y: TensorDataset(torch.tensor(x)),
        lambda x, y: TensorDataset(torch.tensor(x), torch.tensor(y) - 5),
        lambda x, y: (x, y),
    ],
    ids=["array", "tensor", "list", "data set", "bare", "names", "tensors", "labeled tensors", "pair"],
)
def test_outliers_are_drawn_alike_from_whatever_holds_them(blobs, given):
    x, y = blobs()
    expected = torch.tensor(x)[torch.randint(len(x), (20,), generator=torch.Generator().manual_seed(1))]
    outliers = given(x, y)
    assert torch.equal(as_draw(outliers)(20, torch.Generator().manual_seed(1)), expected)
    assert isinstance(draw_fingerprint(outliers), str)


def test_a_network_learns_from_a_data_set_of_outliers(blobs, small_net, same_weights):
    x, y = blobs()
    how = {"epochs": 2, "learning_rate": 0.05}
    one, two = (fit_classifier(small_net(), (x, y), "oe", outliers=out, **how) for out in (x, Known(x, y)))
    assert same_weights(one.model, two.model)


class Passing(IterableDataset):
    def __iter__(self):
        return iter(torch.zeros(5, 4))


@pytest.mark.parametrize(
    ("outliers", "what"),
    [
        (DataLoader(TensorDataset(torch.zeros(5, 4))), "got DataLoader.*loader.dataset"),
        (Passing(), "rows by number, got Passing"),
        (object(), "outliers .*real numbers"),
        ([torch.zeros(3, 4), torch.zeros(2, 4)], "outliers .*array of numbers"),
        (Known(["a"], [0]), "an input of outliers must be a tensor"),
    ],
)
def test_outliers_that_cannot_be_drawn_get_one_sentence(blobs, small_net, outliers, what):
    with pytest.raises(InputError, match=what):
        fit_classifier(small_net(), blobs(), "oe", outliers=outliers)
