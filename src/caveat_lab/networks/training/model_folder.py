"""A trained network, in memory and on disk.

``model.safetensors`` holds weights and description and is replaced in one step, so that a reader gets both from one
training. ``model.json`` holds the description for people and other programs; it is read only for weights without one.
"""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, final

import torch
from torch import Tensor, nn

from caveat._internal.checks import as_count
from caveat._internal.files import from_json, path_errors, read_json, write_json
from caveat.errors import InputError
from caveat.nn._heads import head_of
from caveat.outputs import Outputs
from caveat_lab.networks.architectures import make
from caveat_lab.networks.training.catalogue import make_paradigm
from caveat_lab.networks.training.checkpoint import read_tensors, write_tensors
from caveat_lab.networks.training.paradigm import Paradigm
from caveat_lab.networks.training.rows import Loader, Rows

__all__ = ["Epoch", "Trained", "load_model", "load_start", "read_description", "save_model"]

_WEIGHTS, _ABOUT = "model.safetensors", "model.json"
_FORMAT, _VERSION = "caveat-model", 1
_NUMBERS = ("n_classes", "seed", "seconds", "stopped_early")  # fields of Trained that are stored as they are


@final
@dataclass(frozen=True)
class Epoch:
    """One epoch: mean training loss and its parts, the last learning rate, and the validation set where there is one.

    Parameters
    ----------
    number
        Number of the epoch.
    phase
        Name of the phase.
    loss, parts
        Mean training loss, and its named parts.
    learning_rate
        Learning rate of the last step.
    seconds
        Time that the epoch took.
    validation
        ``loss`` (cross-entropy), ``accuracy``, ``confidence`` (mean largest probability) and ``augrc``; empty without a
        validation set.

    Examples
    --------
    >>> Epoch(1, "training", 0.7, {}, 0.001, 2.5).loss
    0.7
    """

    number: int
    phase: str
    loss: float
    parts: Mapping[str, float]
    learning_rate: float
    seconds: float
    validation: Mapping[str, float] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """The fields by name."""
        return dataclasses.asdict(self)


@final
@dataclass(frozen=True, eq=False)
class Trained:
    """A trained network.

    Parameters
    ----------
    model
        The network, in eval mode; it gives class logits.
    paradigm
        How it was trained.
    n_classes
        Number of classes K.
    history
        One entry per epoch.
    seconds
        Time of training, over all starts of a resumed run.
    seed
        Seed of the run.
    stopped_early
        Whether early stopping ended the run.
    resumed
        Whether the run went on from a checkpoint.

    Examples
    --------
    >>> from caveat_lab.networks.training import fit_classifier
    >>> x = torch.tensor([[0.0], [1.0]]).repeat(50, 1)
    >>> trained = fit_classifier(nn.Linear(1, 2), (x, x[:, 0].long()), epochs=20, learning_rate=0.1)
    >>> len(trained.history), trained.outputs(x).n
    (20, 100)
    """

    model: nn.Module
    paradigm: Paradigm
    n_classes: int
    history: tuple[Epoch, ...]
    seconds: float
    seed: int
    stopped_early: bool
    resumed: bool

    def outputs(self, data: Any, *, batch_size: int = 512, **how: Any) -> Outputs:
        """Outputs of the network on ``data``: logits, features, labels, head, and its confidence where it has one.

        Parameters
        ----------
        data
            As for :func:`fit_classifier`: ``(x, y)``, ``x`` alone, a ``Dataset``; or a ``DataLoader`` or an iterator of
            batches.
        batch_size
            Rows per forward pass, where ``data`` is not a loader.
        **how
            Further arguments of ``nn.extract``: ``mc=50`` for dropout passes, ``layers=[...]``.

        Returns
        -------
        Outputs
            What the scores read.
        """
        if isinstance(data, torch.utils.data.DataLoader) or hasattr(data, "__next__"):
            return self.paradigm.outputs(self.model, data, **how)
        batches = Loader(Rows.of(data, "data"), as_count(batch_size, "batch_size"))
        return self.paradigm.outputs(self.model, batches, **how)


def save_model(
    trained: Trained,
    folder: str | os.PathLike[str],
    *,
    architecture: Mapping[str, Any],
    about: Mapping[str, Any] | None = None,
) -> None:
    """Write ``model.safetensors`` and ``model.json`` into a folder.

    Parameters
    ----------
    trained
        Its network must come from ``architectures.make``.
    folder
        Created if it does not exist.
    architecture
        The arguments of ``architectures.make``.
    about
        Further facts: names of the classes, source of the data.

    Examples
    --------
    >>> import tempfile
    >>> from caveat_lab.networks.training import fit_classifier
    >>> architecture = {"name": "small_cnn", "in_shape": (1, 8, 8), "classes": 2}
    >>> labels = torch.tensor([0, 1, 1, 1])
    >>> images = labels[:, None, None, None] * torch.ones(1, 8, 8)
    >>> trained = fit_classifier(make(**architecture, seed=0), (images, labels), epochs=8, learning_rate=0.01)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_model(trained, folder, architecture=architecture)
    ...     sorted(path.name for path in Path(folder).iterdir())
    ['model.json', 'model.safetensors']
    """
    path = Path(folder)
    _check_ours(path)
    paradigm = {"name": trained.paradigm.name}
    if dataclasses.is_dataclass(trained.paradigm):
        paradigm |= dataclasses.asdict(trained.paradigm)
    content = {
        "format": _FORMAT,
        "version": _VERSION,
        "architecture": {key: value for key, value in architecture.items() if key != "seed"},
        "paradigm": paradigm,
        **{key: getattr(trained, key) for key in _NUMBERS},
        "history": [epoch.as_dict() for epoch in trained.history],
        "about": dict(about or {}),
    }
    write_tensors(path / _WEIGHTS, trained.model.state_dict(), {"format": _FORMAT, "about": json.dumps(content)})
    write_json(path / _ABOUT, content)


def _check_ours(folder: Path) -> None:
    """Raise InputError where the folder holds files of these names that Caveat did not write."""
    formats = {}
    with path_errors(folder):
        for path in (folder / _ABOUT, folder / _WEIGHTS):
            if path.exists():
                try:
                    formats[path] = (read_json(path) if path.name == _ABOUT else read_tensors(path)[1]).get("format")
                except InputError:  # damaged: it is ours if the other file is
                    formats[path] = None
    foreign = [path for path, name in formats.items() if name not in (None, _FORMAT)]
    if formats and (foreign or _FORMAT not in formats.values()):
        path = (foreign or list(formats))[0]
        raise InputError(f"{path} exists and does not belong to a model of Caveat, so it is left alone. "
                         "Choose another folder.")  # fmt: skip


def load_model(folder: str | os.PathLike[str], *, build: Callable[..., nn.Module] | None = None) -> Trained:
    """The trained network of a folder that ``caveat train`` or :func:`save_model` wrote.

    Parameters
    ----------
    folder
        The folder.
    build
        The function that made the network, where it was not one of ``architectures``.

    Returns
    -------
    Trained
        ``model`` in eval mode; ``outputs(data)`` gives what the scores read.

    Examples
    --------
    >>> import tempfile
    >>> from caveat_lab.networks.training import fit_classifier
    >>> architecture = {"name": "small_cnn", "in_shape": (1, 8, 8), "classes": 2}
    >>> labels = torch.tensor([0, 1, 1, 1])
    >>> images = labels[:, None, None, None] * torch.ones(1, 8, 8)
    >>> trained = fit_classifier(make(**architecture, seed=0), (images, labels), epochs=8, learning_rate=0.01)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_model(trained, folder, architecture=architecture)
    ...     load_model(folder).n_classes
    2
    """
    path = Path(folder)
    content, weights = _read(path)
    try:
        paradigm = make_paradigm(**content["paradigm"])
        architecture = content["architecture"]
        if build is None and ":" in architecture["name"]:
            raise InputError(f"{path} holds a network that '{architecture['name']}' makes. Pass that function: "
                             "load_model(folder, build=...).")  # fmt: skip
        net = paradigm.build(make(**architecture, build=build), content["n_classes"])
        numbers = {key: content[key] for key in _NUMBERS}
        history = tuple(Epoch(**line) for line in content["history"])
        trained = Trained(model=net, paradigm=paradigm, history=history, resumed=False, **numbers)
    except (KeyError, TypeError) as error:
        raise InputError(f"{path / _ABOUT} is damaged: {error}. Train the model again.") from None
    _fill(net, weights, f"{path / _WEIGHTS} does not fit {path / _ABOUT}")
    net.eval()
    return trained


def read_description(folder: str | os.PathLike[str]) -> dict[str, Any]:
    """What a model folder says of its network: ``architecture``, ``paradigm``, ``n_classes``, ``about`` and more."""
    return _read(Path(folder))[0]


def _read(path: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Description and weights of a model folder."""
    if path.is_file():
        raise InputError(f"{path} is a file, and a trained network is a folder of caveat train. Give its folder.")
    content = read_json(path / _ABOUT)
    weights, metadata = read_tensors(path / _WEIGHTS)
    if "about" in metadata:
        content = from_json(metadata["about"], str(path / _WEIGHTS))
    if content.get("format") != _FORMAT:
        raise InputError(f"{path / _ABOUT} does not describe a model of Caveat (format {content.get('format')!r}).")
    if not isinstance(version := content.get("version"), int) or version > _VERSION:
        raise InputError(f"{path} has version {version!r}; this Caveat reads up to {_VERSION}. Upgrade Caveat.")
    if not all(isinstance(content.get(name), dict) for name in ("architecture", "paradigm")):
        raise InputError(f"{path / _ABOUT} is damaged: architecture or paradigm is missing. Train the model again.")
    return content, weights


def load_start(
    model: nn.Module,
    path: str | os.PathLike[str],
    *,
    new_head: bool = False,
    build: Callable[..., nn.Module] | None = None,
) -> None:
    """Give a network the weights of a trained one with the same layers, to be trained further.

    ``path`` is a folder that ``caveat train`` or :func:`save_model` wrote, whose classifier is read without the branch
    or gate of its paradigm, or a ``.safetensors`` file with the weights of such a network. With ``new_head`` the last
    linear layer keeps its own first weights, so that the start may know other classes.
    """
    place = Path(path)
    if place.is_dir():
        trained = load_model(place, build=build)
        weights = trained.paradigm.classifier(trained.model).state_dict()
    elif place.suffix != ".safetensors":
        raise InputError(f"start must be a folder of caveat train or a .safetensors file, got {place}. Files that may "
                         "hold code (.pt, .pth) are not read: convert with safetensors.torch.save_file.")  # fmt: skip
    else:
        weights = read_tensors(place)[0]
    if new_head:
        head = head_of(model)
        weights = dict(weights) | {
            f"{head}.{name}": value for name, value in model.get_submodule(head).state_dict().items()
        }
    _fill(model, weights, f"the weights of start {place} do not fit the network that is to be trained")


def _fill(net: nn.Module, weights: Mapping[str, Tensor], misfit: str) -> None:
    try:
        net.load_state_dict(weights)
    except RuntimeError as error:
        reason = str(error).splitlines()[-1].strip().rstrip(".")
        raise InputError(f"{misfit}: {reason}.") from None
