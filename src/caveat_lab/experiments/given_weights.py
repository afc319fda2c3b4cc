"""Weights that a plan gives must be of the network that it describes: else their numbers stand under a wrong name."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, is_dataclass
from typing import TYPE_CHECKING, Any

from caveat._internal.checks import check_known
from caveat.errors import InputError
from caveat_lab.experiments.train_plan import TrainPlan

if TYPE_CHECKING:
    from caveat_lab.networks.training import Trained

__all__ = ["check_weights", "load_weights"]

_NO_OPTIONS = ("name", "in_shape", "classes", "normalize", "seed")


def load_weights(plan: TrainPlan, in_shape: Sequence[int], classes: int) -> Trained:
    """The trained network of ``model.weights``, if it is the one of the plan and takes its images."""
    from caveat_lab.networks.training import load_model

    check_weights(plan, in_shape=in_shape, classes=classes)
    assert plan.weights is not None
    return load_model(plan.weights, build=plan.builder())


def check_weights(plan: TrainPlan, *, in_shape: Sequence[int] | None = None, classes: int | None = None) -> None:
    """Raise InputError that names what the description of the weights and the plan say differently.

    Options that one of them leaves out have their default. The shape of the inputs and the number of classes are
    compared where they are given.
    """
    from caveat_lab.networks.training.model_folder import read_description

    assert plan.weights is not None
    stored = read_description(plan.weights)
    name = (stored.get("about") or {}).get("plan", {}).get("train", {}).get("name", "")
    own = {plan.model: plan.builder()}
    theirs = _facts(stored["architecture"], stored["paradigm"], bool(stored["architecture"].get("normalize")), own)
    mine = _facts({"name": plan.model, **plan.model_options},
                  {"name": plan.paradigm, **plan.paradigm_options}, plan.normalize, own)  # fmt: skip
    if name and plan.train.name:
        theirs["data"], mine["data"] = name, plan.train.name
    if in_shape is not None:
        theirs["input shape"], mine["input shape"] = list(stored["architecture"].get("in_shape", ())), list(in_shape)
    if classes is not None:
        theirs["classes"], mine["classes"] = stored.get("n_classes"), classes
    # Options of another network or paradigm say nothing that its name does not say.
    others = [part for part in ("backbone", "paradigm") if theirs[part] != mine[part]]
    keys = [key for key in (theirs | mine) if not any(key.startswith(f"{part} ") for part in others)]
    if differing := [key for key in keys if theirs.get(key) != mine.get(key)]:
        first, second = (", ".join(f"{key} {facts.get(key)}" for key in differing) for facts in (theirs, mine))
        raise InputError(f"the weights in {plan.weights} are of another network: the file says {first}, the plan says "
                         f"{second}. Give the weights of this network, or describe them in the plan.")  # fmt: skip


def _facts(
    architecture: Mapping[str, Any], paradigm: Mapping[str, Any], normalize: bool,
    own: Mapping[str, Callable[..., Any] | None],
) -> dict[str, Any]:  # fmt: skip
    """Network and paradigm with all of their options, by the words of a message; ``own``: functions of the plan."""
    from caveat_lab.networks.architectures.catalogue import ARCHITECTURES, check_architecture
    from caveat_lab.networks.training import make_paradigm

    name = architecture["name"]
    given = {key: value for key, value in architecture.items() if key not in _NO_OPTIONS}
    if ":" in name:
        build = own.get(name)  # None: a function that this plan does not name
    else:
        build = ARCHITECTURES[check_known(name, ARCHITECTURES, "architecture")]
        check_architecture(name, given)
    accepted = {} if build is None else inspect.signature(build).parameters
    named = {key: part.default for key, part in accepted.items() if part.kind is not part.VAR_KEYWORD}
    options = {key: value for key, value in (named | given).items() if key not in ("in_shape", "classes")}
    trained = make_paradigm(**paradigm)
    params: dict[str, Any] = asdict(trained) if is_dataclass(trained) else {}
    return {
        "backbone": name, **{"dropout" if key == "dropout" else f"backbone {key}": options[key] for key in options},
        "normalize": normalize, "paradigm": trained.name,
        **{f"paradigm {key}": value for key, value in params.items()},
    }  # fmt: skip
