"""What several options of ``caveat serve`` name together: the network in front of the guard, and heads of the trail."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from caveat.guard import Guard
    from caveat.outputs import Head
    from caveat.serve import Model
    from caveat.serve.audit.witness import Heads

__all__ = ["ModelFile", "ModelOutput", "published_heads", "served_model"]

ModelFile = Annotated[
    Path | None,
    typer.Option(
        "--model", help="ONNX file of the classifier: clients then send its inputs and get verdicts (extra onnx)."
    ),
]
ModelOutput = Annotated[
    list[str] | None,
    typer.Option(
        "--model-output",
        metavar="FIELD=TENSOR",
        help="Tensor of the model that is a field of the guard, such as "
        "logits=dense_2; inner tensors count too. Repeatable. Default: the tensor of that name.",
    ),
]


def served_model(path: Path | None, outputs: list[str] | None, guard: Guard, head: Head | None) -> Model | None:
    """The network of ``--model`` with its ``--model-output FIELD=TENSOR``; None without both."""
    from caveat.errors import InputError
    from caveat.serve import Model

    tensors: dict[str, str] = {}
    for item in outputs or ():
        field, _, tensor = item.partition("=")
        if path is None or not tensor or field in tensors:
            raise InputError(f"--model-output must be FIELD=TENSOR of --model, once for each field, got {item!r}.")
        tensors[field] = tensor
    return None if path is None else Model.load(path, guard, outputs=tensors, head=head)


def published_heads(place: str | None, every: int, sign_key: Path | None) -> Heads | None:
    """Where the heads of ``--heads`` go, signed by ``--sign-key``; None without both."""
    from caveat.cli._console import say
    from caveat.errors import InputError
    from caveat.serve.audit.heads import Signer, publisher
    from caveat.serve.audit.witness import Heads

    if place is None:
        if sign_key is not None:
            raise InputError("--sign-key signs heads: say where they go with --heads.")
        return None
    shown = place.rpartition("@")[2]  # no password in the trail
    return Heads(publisher(place, say), shown, every, None if sign_key is None else Signer(sign_key))
