r"""Mean outputs over dropout passes: the prediction of Monte-Carlo dropout.

$$ \bar p = \frac1T \sum_t \operatorname{softmax}(z_t), \quad \bar h = \frac1T \sum_t h_t, \quad
\bar c = \frac1T \sum_t c_t $$

Gal and Ghahramani, "Dropout as a Bayesian Approximation", ICML 2016, arXiv:1506.02142, eq. (6): the prediction is the
mean of the softmax, not the softmax of the mean logits. Scores of probabilities read $\bar p$. The head is linear, so
the mean logits are the head of the mean features, and scores of logits and of features read those. The scores
``mc_*`` read the single passes, which are kept too.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from caveat._internal.checks import Rng, as_count, as_rng
from caveat.nn._heads import head_of
from caveat.nn._modes import dropout_awake, seeded
from caveat.nn._walk import place_of, to_numpy
from caveat.outputs import Head, Outputs
from caveat_lab.networks.training.model_folder import Trained
from caveat_lab.networks.training.rows import Rows

__all__ = ["dropout_mean"]


def dropout_mean(
    trained: Trained, data: Any, *, passes: int = 50, batch_size: int = 512, keep: bool = True, rng: Rng
) -> Outputs:
    """Mean probabilities, features and confidence over dropout passes, and the logits of each pass.

    Only dropout is active; batch normalization rests. Layers of an ``nn.Sequential`` before its first dropout give the
    same in every pass and are run once a batch.

    Parameters
    ----------
    trained
        With at least one dropout layer.
    data
        As for :func:`fit_classifier`.
    passes
        T; the paper on training paradigms uses 50.
    batch_size
        Rows per forward pass.
    keep
        Whether the logits of each pass are kept, for the scores ``mc_*``.
    rng
        Randomness of the dropout masks.

    Returns
    -------
    Outputs
        ``probs``, ``features`` and ``confidence`` are means over the passes; ``logits``, of the features and the head,
        are the mean logits; ``mc_logits`` (T, n, K) has each pass.

    Examples
    --------
    >>> from torch import nn
    >>> from caveat_lab.networks.training import fit_classifier
    >>> x = torch.tensor([[0.0], [1.0]]).repeat(50, 1)
    >>> model = nn.Sequential(nn.Linear(1, 8), nn.Dropout(0.2), nn.Linear(8, 2))
    >>> trained = fit_classifier(model, (x, x[:, 0].long()), epochs=20, learning_rate=0.1)
    >>> dropout_mean(trained, x[:4], passes=3, rng=0).mc_logits.shape
    (3, 4, 2)
    """
    count, net, paradigm = as_count(passes, "passes"), trained.model, trained.paradigm
    rows = Rows.of(data, "data")
    device = place_of(net, None)
    model = paradigm.classifier(net)
    means: dict[str, list[Tensor]] = {"probs": [], "features": [], "confidence": []}
    passed: list[Tensor] = []
    seed = int(as_rng(rng).integers(2**63))
    with torch.no_grad(), dropout_awake(net), seeded(seed, device), _prefixes_once(net):
        for inputs, _ in rows.batches(as_count(batch_size, "batch_size")):
            x = inputs.to(device)
            each_pass = zip(*(paradigm.look(net, x) for _ in range(count)), strict=True)
            for name, values in zip(means, each_pass, strict=True):
                if values[0] is not None:
                    stacked = torch.stack(values)
                    if name == "probs":
                        if keep:
                            passed.append(stacked.cpu())
                        stacked = stacked.double().softmax(dim=-1)
                    means[name].append((stacked.double() if name == "confidence" else stacked).mean(dim=0).cpu())
    head: Any = model.get_submodule(head_of(model, trained.n_classes))
    fields: dict[str, Any] = {name: torch.cat(parts).numpy() for name, parts in means.items() if parts}
    return Outputs(
        **fields,
        labels=None if rows.labels is None else rows.labels.numpy(),
        head=Head(to_numpy(head.weight), None if head.bias is None else to_numpy(head.bias)),
        mc_logits=torch.cat(passed, dim=1).numpy() if passed else None,
    )


@contextmanager
def _prefixes_once(net: nn.Module) -> Iterator[None]:
    """Inside, the part of a Sequential before its first waking layer runs once for the same input."""
    with ExitStack() as undo:
        inside: set[nn.Module] = set()
        for module in net.modules():
            if isinstance(module, nn.Sequential) and module not in inside:
                inside.update(module.modules())  # the outermost is enough
                awake = [any(part.training for part in layer.modules()) for layer in module]
                if True in awake and awake.index(True) > 0:
                    module.forward = _remembering(module, awake.index(True))  # type: ignore[method-assign]
                    undo.callback(module.__dict__.pop, "forward")
        yield


def _remembering(module: nn.Sequential, first: int) -> Any:
    fixed, random = list(module)[:first], list(module)[first:]
    before: Tensor | None = None
    after: Tensor | None = None

    def forward(inputs: Tensor) -> Tensor:
        nonlocal before, after
        if after is None or before is None or not torch.equal(inputs, before):
            before, after = inputs.clone(), inputs
            for layer in fixed:
                after = layer(after)
        outputs = after.clone()  # a layer may write into its input
        for layer in random:
            outputs = layer(outputs)
        return outputs

    return forward
