"""Adaptivity of prediction sets: six methods, 27 published CIFAR networks, four digit classifiers, one network of ours.

    CAVEAT_DATA=<folder> caveat reproduce adaptivity

Needs the files that reproduction.toml names. One cell per network and part: the tables, the validation of the metrics,
how O-LAC depends on the transformation, human uncertainty as a judge. With CAVEAT_CIFAR10_MODEL=<folder> also a
CIFAR-10 network whose images are changed; it is trained into that folder if it is not there.
"""

from __future__ import annotations

import math
import os
import warnings
from functools import lru_cache
from pathlib import Path
from typing import Any

import digits  # in this folder
import human  # in this folder
import methods  # in this folder
import numpy as np
from numpy.typing import NDArray
from validation import validate_metrics  # in this folder

from caveat import Outputs
from caveat.conformal import SplitSets, logit_noise_ease, tune_raps, tune_saps
from caveat.errors import CaveatWarning
from caveat.metrics import steps_short_and_over, t_ss_ceiling, true_ranks

ALPHAS = (0.05, 0.10, 0.15, 0.20)
LOGIT_SIGMAS = (0.5, 1.0, 2.0)  # strengths to tune among, in units of the logits
JUDGE_SIGMA, COPIES = 1.0, 20  # of the ease that bins T-CV and T-SS: independent of the copies for tuning

Floats = NDArray[np.float64]


CIFAR10 = (
    "mobilenetv2_x0_5", "mobilenetv2_x0_75", "mobilenetv2_x1_0", "mobilenetv2_x1_4", "repvgg_a0", "repvgg_a1",
    "repvgg_a2", "resnet18_weak78", "resnet20", "resnet32", "resnet44", "resnet56", "shufflenetv2_x0_5",
    "shufflenetv2_x1_0", "shufflenetv2_x1_5", "shufflenetv2_x2_0", "unnamed_pretrained", "vgg11_bn", "vgg13_bn",
    "vgg16_bn", "vgg19_bn",
)  # fmt: skip
CIFAR100 = ("mobilenetv2_x1_0", "repvgg_a2", "resnet20", "resnet56", "shufflenetv2_x0_5", "vgg16_bn")
DIGITS = ("logistic", "lda", "mlp-32", "mlp-128-64")
VALIDATED = (*(f"cifar100 {name}" for name in CIFAR100), "cifar10 resnet18_weak78", "cifar10 resnet20",
             "cifar10 shufflenetv2_x0_5")  # fmt: skip
REPEATS, TRIALS, PAIRS = 10, 1000, 10_000
OURS = "cifar10 trained here"

Row = dict[str, str | float]


def grid() -> list[dict[str, str]]:
    """Every network with its part of the study."""
    cifar = [f"{data} {name}" for data, names in (("cifar100", CIFAR100), ("cifar10", CIFAR10)) for name in names]
    parts = {
        "tables": [*(f"mnist {kind}" for kind in DIGITS), *cifar],
        "validation": VALIDATED,
        "sensitivity": [f"mnist {kind}" for kind in DIGITS if kind.startswith("mlp")],
        "human": ["cifar10 all"],
        "images": [OURS] if os.environ.get("CAVEAT_CIFAR10_MODEL") else [],  # where its network is, or is to be trained
    }
    return [{"part": part, "network": network} for part, names in parts.items() for network in names]


def one(part: str, network: str) -> list[Row]:
    """The numbers of one network as long rows: setting, method, metric, value."""
    warnings.simplefilter("ignore", CaveatWarning)
    if part == "images":
        import images  # in this folder; needs torch

        return images.rows(REPEATS)
    if part == "human":
        return human_judge()
    if part == "sensitivity":
        return sensitivity(*digit_network(network), REPEATS)
    if part == "validation":
        outputs = cifar_network(network)
        return validate(outputs, cifar_eases(outputs)[1], trials=TRIALS, pairs=PAIRS)
    if network.startswith("mnist "):
        model, x, outputs = digit_network(network)
        return tables(outputs, *digit_eases(model, x), REPEATS)
    outputs = cifar_network(network)
    hard = human.entropy(os.environ["CAVEAT_DATA"]) if network.startswith("cifar10 ") else None
    return tables(outputs, *cifar_eases(outputs), REPEATS, hard=hard)


def row(setting: str, method: str, metric: str, value: float, x: float = math.nan) -> Row:
    return {"setting": setting, "method": method, "metric": metric, "x": x, "value": float(value)}


def cifar_network(network: str) -> Outputs:
    """Test outputs of a published network."""
    data, name = network.split(" ")
    with np.load(Path(os.environ["CAVEAT_DATA"]) / f"{data}_test_logits.npz", allow_pickle=False) as file:
        return Outputs(logits=file[f"logits_{name}"], labels=file["y"].astype(np.intp))


@lru_cache(maxsize=1)  # its two parts come from one training
def digit_network(network: str) -> tuple[Any, Any, Outputs]:
    """A digit classifier, the test images and its outputs on them."""
    train, y, new, truth = digits.load(os.environ["CAVEAT_DATA"])
    model = digits.classifiers()[network.removeprefix("mnist ")].fit(train, y)
    return model, new, digits.outputs_of(model, new, truth)


def cifar_eases(outputs: Outputs) -> tuple[dict[str, Floats], Floats]:
    """Eases to tune among, and the one for measuring."""
    rng = np.random.default_rng(0)
    eases = {f"{s:g}": logit_noise_ease(outputs, sigma=s, rng=rng, copies=COPIES) for s in LOGIT_SIGMAS}
    return eases, logit_noise_ease(outputs, sigma=JUDGE_SIGMA, rng=rng, copies=COPIES)


def digit_eases(model: Any, x: Any) -> tuple[dict[str, Floats], Floats]:
    rng = np.random.default_rng(0)
    eases = {
        f"{s:g}": digits.ease_under(model, x, transform="noise", strength=s, copies=10, rng=rng) for s in digits.SIGMAS
    }
    return eases, digits.ease_under(model, x, transform="noise", strength=0.05, copies=10, rng=rng)


def tables(
    outputs: Outputs,
    eases: dict[str, Floats],
    judge: Floats,
    repeats: int,
    *,
    hard: Floats | None = None,
    bins: int = methods.BINS,
    other_bins: tuple[int, ...] = methods.OTHER_BINS,
    alphas: tuple[float, ...] = ALPHAS,
) -> list[Row]:
    """Median of every metric over random splits, by alpha and method; intervals on the first split.

    And what does not depend on the method: accuracy, mean rank by ease (Figure 1), the ceiling of T-SS.
    """
    ranks = true_ranks(probs=outputs.probs, labels=outputs.labels)
    found = [row("", "", "accuracy", outputs.correct.mean())]
    new = [methods.halves(outputs.n, seed)[1] for seed in range(repeats)]
    for count in (bins, *other_bins):
        most = np.nanmedian([t_ss_ceiling(ranks=ranks[rows], ease=judge[rows], bins=count) for rows in new])
        found.append(row("", "", "ceiling", most, x=count))
    how: dict[str, Any] = {"bins": bins, "other_bins": other_bins, "human": hard}
    for alpha in alphas:
        runs = [
            methods.compare(outputs, eases, judge, alpha=alpha, seed=seed, intervals=seed == 0, **how)
            for seed in range(repeats)
        ]
        for method in methods.METHODS:
            for metric in runs[0][method]:
                values = [run[method][metric] for run in runs if metric in run[method]]
                found.append(row(str(alpha), method, metric, np.nanmedian(values)))
    order = np.array_split(np.argsort(judge), bins)
    return found + [row("", "", "rank_by_ease", ranks[part].mean(), x=judge[part].mean()) for part in order]


def human_judge() -> list[Row]:
    """Do set sizes follow human uncertainty? Mean over the 21 networks, on the first split, intervals over images."""
    hard = human.entropy(os.environ["CAVEAT_DATA"])
    networks = [(outputs, *cifar_eases(outputs)) for outputs in map(cifar_network, (f"cifar10 {n}" for n in CIFAR10))]
    found: list[Row] = []
    for alpha in ALPHAS:
        sizes: dict[str, list[Floats]] = {}
        for outputs, eases, judge in networks:
            sets, new = methods.split_sets(outputs, eases, alpha=alpha, seed=0)
            for name, one in sets.items():
                sizes.setdefault(name, []).append(one.sizes.astype(np.float64))
            sizes.setdefault("softmax", []).append(1 - outputs.probs[new].max(axis=1))  # what there is to follow
            sizes.setdefault("ease", []).append(-judge[new])
        stacked = {name: np.stack(rows) for name, rows in sizes.items()}
        result = human.mean_correlations(stacked, hard[new], rng=np.random.default_rng(0))
        for kind, by_name in result.items():
            for name, ends in by_name.items():
                for metric, value in zip(("value", "lower", "upper"), ends, strict=True):
                    found.append(row(f"{kind} {alpha}", name, metric, value))
    return found


def validate(outputs: Outputs, judge: Floats, *, trials: int, pairs: int, alpha: float = 0.1) -> list[Row]:
    """Which metric follows property 1, for four methods (Tables 1 and 3)."""
    rng = np.random.default_rng(0)
    order = rng.permutation(outputs.n)
    tune, cal, new = outputs[order[:2000]], outputs[order[2000:4000]], outputs[order[4000:]]
    scores = {
        "LAC": "lac",
        "APS": "aps",
        "RAPS": tune_raps(tune, alpha, rng=rng).score,
        "SAPS": tune_saps(tune, alpha, rng=rng).score,
    }
    ranks = true_ranks(probs=new.probs, labels=new.labels)
    found: list[Row] = []
    for name, score in scores.items():
        sets = SplitSets(score, alpha=alpha).calibrate(cal, rng).predict(new, rng)
        short, over = steps_short_and_over(member=sets.member, probs=new.probs, labels=new.labels)
        result = validate_metrics(
            covered=sets.covers(new.labels), sizes=sets.sizes, ranks=ranks, ease=judge[order[4000:]], short=short,
            over=over, alpha=alpha, rng=rng, trials=trials, pairs=pairs,
        )  # fmt: skip
        for metric, correlation in result.correlation.items():
            found.append(row("correlation", name, metric, correlation))
            found.append(row("p_value", name, metric, result.p_value[metric]))
            found.append(row("place", name, metric, list(result.order).index(metric) + 1))
    return found


def sensitivity(model: Any, x: Any, outputs: Outputs, repeats: int) -> list[Row]:
    """O-LAC at alpha 0.1 by kind of transformation and by number of copies (Figures 5 and 6)."""
    _, judge = digit_eases(model, x)
    found: list[Row] = []
    settings = [(kind, 20) for kind in digits.TRANSFORMS] + [("noise", copies) for copies in (10, 20, 30, 50)]
    for kind, copies in dict.fromkeys(settings):  # noise with 20 copies is in both lists
        rng = np.random.default_rng(0)
        ease = {"it": digits.ease_under(model, x, transform=kind, strength=0.05, copies=copies, rng=rng)}
        runs = [methods.compare(outputs, ease, judge, alpha=0.1, seed=seed)["O-LAC"] for seed in range(repeats)]
        for metric in ("T-CV", "T-SS", "size", "coverage"):
            found.append(row(f"{kind}, L = {copies}", "O-LAC", metric, np.nanmedian([run[metric] for run in runs])))
    return found
