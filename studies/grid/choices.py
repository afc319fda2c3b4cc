"""What validation data choose: the reward of Deep Gamblers, and whether a network is trained with dropout.

Tables 8 to 10 of the paper, in layout. The choice is made for every score by its AUGRC of misclassification on the
tuning rows, which measure nothing else, mean over seeds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from caveat_lab.papers.agreement import Check, Part, compare_findings

CLASSES = {"cifar10": 10, "fashion": 10, "letters": 26, "symbols": 46}
BACKBONES = {"vgg13": "VGG-13", "small_vit": "ViT"}
PARADIGMS = ("confidnet", "devries", "deep_gamblers")

# Table 8, columns "base": scores whose validation AUGRC is lower with dropout, of 20 for each of three paradigms.
PUBLISHED_DROPOUT = {"CIFAR-10": 30, "SuperCIFAR-100": 22, "CIFAR-100": 14, "Tiny-ImageNet": 7}
PUBLISHED_CELLS = 60
# Table 9, which has no caption in the text that was read here, column "(none)": a 1 for every score with a value on
# CIFAR-10 and CIFAR-100, a 0 for every one on the two others. It is read as dropout, as in Table 8.
PUBLISHED_VIT = {"CIFAR-10": "20 of 20", "SuperCIFAR-100": "none", "CIFAR-100": "all", "Tiny-ImageNet": "none"}


class Network(NamedTuple):
    """What the name of a source of the matrix says."""

    data: str
    backbone: str
    paradigm: str
    dropout: bool
    passes: bool
    reward: float = 0.0  # of Deep Gamblers; 0 for the others, and once it is chosen

    @property
    def way(self) -> str:
        """Paradigm and dropout, as in a cell of Table 2."""
        return f"{self.paradigm}{' with dropout' if self.dropout and not self.passes else ''}"


def network(model: str) -> Network:
    """
    >>> network("letters/vgg13/deep_gamblers reward 6.0/dropout 0.2/10 passes")
    Network(data='letters', backbone='vgg13', paradigm='deep_gamblers', dropout=True, passes=True, reward=6.0)
    """
    data, backbone, training, *rest = model.split("/")
    paradigm, _, reward = training.partition(" reward ")
    return Network(data, backbone.split(" ")[0], paradigm, any(part.startswith("dropout") for part in rest),
                   any(part.endswith("passes") for part in rest), float(reward or 0))  # fmt: skip


def mean_by(rows: Iterable[dict[str, Any]], key: Any) -> dict[Any, float]:
    values: dict[Any, list[float]] = {}
    for row in rows:
        values.setdefault(key(row), []).append(row["value"])
    return {name: float(np.mean(found)) for name, found in values.items()}


Validation = dict[tuple[Network, str], float]  # network, score -> AUGRC on the tuning rows, mean over seeds
Rewards = dict[tuple[Network, str], float]  # network without its reward, score -> the chosen reward


def validation_augrc(rows: Iterable[dict[str, Any]]) -> Validation:
    mine = (row for row in rows if row["metric"] == "tuning_augrc")
    return mean_by(mine, lambda row: (row["network"], row["method"]))


def choose_rewards(validation: Validation) -> Rewards:
    """The reward with the lowest AUGRC on the tuning rows, for every network and score; the smaller one if tied."""
    best: dict[tuple[Network, str], tuple[float, float]] = {}
    for (net, score), value in validation.items():
        if net.reward:
            key = (net._replace(reward=0.0), score)
            best[key] = min(best.get(key, (np.inf, 0.0)), (value, net.reward))
    return {key: reward for key, (_, reward) in best.items()}


def with_chosen_reward(augrc: list[dict[str, Any]], rewards: Rewards) -> list[dict[str, Any]]:
    """Rows of one Deep Gambler instead of one for every reward: for each score the one that validation data choose."""
    kept = []
    for row in augrc:
        net = row["network"]._replace(reward=0.0)
        if row["network"].reward in (0.0, rewards.get((net, row["score"]))):
            kept.append(row | {"network": net})
    return kept


# -- Tables 8 and 9: dropout ------------------------------------------------------------------------------------------

Wins = dict[tuple[str, str, str], dict[str, bool]]  # set, backbone, paradigm -> score -> lower with dropout


def dropout_wins(value: dict[tuple[Network, str], float]) -> Wins:
    """Whether a score has a lower AUGRC on networks that were trained with dropout and are asked at rest."""
    wins: Wins = {}
    for (net, score), without in value.items():
        other = (net._replace(dropout=True), score)
        if not net.dropout and other in value:
            wins.setdefault((net.data, net.backbone, net.paradigm), {})[score] = value[other] < without
    return wins


def at_chosen_reward(validation: Validation, rewards: Rewards) -> dict[tuple[Network, str], float]:
    """The validation AUGRC of networks at rest, Deep Gamblers with their chosen reward."""
    return {
        (net._replace(reward=0.0), score): value
        for (net, score), value in validation.items()
        if not net.passes and net.reward in (0.0, rewards.get((net._replace(reward=0.0), score)))
    }


def on_test(augrc: list[dict[str, Any]]) -> dict[tuple[Network, str], float]:
    """AUGRC of the networks' own errors on test images, at rest, mean over seeds."""
    mine = (row for row in augrc if row["set"] == "test" and not row["network"].passes)
    return mean_by(mine, lambda row: (row["network"], row["score"]))


def dropout_lines(wins: Wins, test: Wins) -> list[str]:
    lines = ["## Tables 8 and 9: is a network trained with dropout chosen?", "",
             "Number of scores with a lower AUGRC of misclassification on validation data with dropout, asked at rest. "
             "In brackets: for how many scores test data choose the same.", "",
             f"Published (Table 8, VGG-13, unprojected scores, {PUBLISHED_CELLS} cells each): "
             + ", ".join(f"{name} {count}" for name, count in PUBLISHED_DROPOUT.items())
             + ". Published for ViT (Table 9, unprojected scores): all 20 on CIFAR-10, all on CIFAR-100, none on "
             "SuperCIFAR-100 and Tiny-ImageNet.", "",
             "| set | classes | backbone | " + " | ".join(PARADIGMS) + " | all |",
             "|---|---:|---|" + "---|" * len(PARADIGMS) + "---|"]  # fmt: skip
    for (data, backbone), found in by_group(wins).items():
        cells = []
        for paradigm in PARADIGMS:
            mine = found.get(paradigm, {})
            same = sum(test[data, backbone, paradigm].get(score) == won for score, won in mine.items())
            cells.append(f"{sum(mine.values())} of {len(mine)} ({same})" if mine else "")
        every = [won for mine in found.values() for won in mine.values()]
        lines.append(f"| {data} | {CLASSES[data]} | {BACKBONES[backbone]} | {' | '.join(cells)} | {sum(every)} of "
                     f"{len(every)} |")  # fmt: skip
    return lines


def by_group(wins: Wins) -> dict[tuple[str, str], dict[str, dict[str, bool]]]:
    """Set and backbone -> paradigm -> scores, in the order of the paper."""
    return {
        (data, backbone): found
        for backbone in BACKBONES
        for data in CLASSES
        if (found := {p: wins[data, backbone, p] for p in PARADIGMS if (data, backbone, p) in wins})
    }


# -- Table 10: rewards ------------------------------------------------------------------------------------------------


def reward_lines(rewards: Rewards) -> list[str]:
    tried = sorted(set(rewards.values()))
    lines = ["## Table 10: the reward of Deep Gamblers that validation data choose", "",
             "Number of scores that choose it; networks at rest, without and with dropout. The paper has this table "
             "for the ViT alone.", "",
             "| set | classes | backbone | " + " | ".join(f"reward {reward:g}" for reward in tried) + " | mean |",
             "|---|---:|---|" + "---:|" * (len(tried) + 1)]  # fmt: skip
    for (data, backbone), chosen in rewards_by_group(rewards).items():
        counts = Counter(chosen)
        lines.append(f"| {data} | {CLASSES[data]} | {BACKBONES[backbone]} | "
                     + " | ".join(str(counts[reward]) for reward in tried) + f" | {np.mean(chosen):.1f} |")  # fmt: skip
    return lines


def rewards_by_group(rewards: Rewards) -> dict[tuple[str, str], list[float]]:
    found: dict[tuple[str, str], list[float]] = {}
    for backbone in BACKBONES:
        for data in CLASSES:
            mine = [reward for (net, _), reward in rewards.items()
                    if (net.data, net.backbone, net.passes) == (data, backbone, False)]  # fmt: skip
            if mine:
                found[data, backbone] = mine
    return found


# -- findings ---------------------------------------------------------------------------------------------------------


def choices_part(wins: Wins, rewards: Rewards) -> Part:
    """What Tables 8 to 10 say: dropout for both backbones, the reward for the ViT alone (caption of Table 10)."""
    small = "guess: small networks after 12 epochs, and a few hundred validation images for each choice"
    two = "guess: two rewards were tried here; they follow the difficulty of the set; the smaller one costs accuracy"
    dropout = {
        backbone: {data: [won for mine in paradigms.values() for won in mine.values()]
                   for (data, group), paradigms in by_group(wins).items() if group == backbone}
        for backbone in BACKBONES
    }  # fmt: skip
    shown = {backbone: ", ".join(f"{sum(won)} of {len(won)}" for won in by_data.values())
             for backbone, by_data in dropout.items()}  # fmt: skip
    few, most = extremes(dropout["vgg13"])
    on_cifar = dropout["small_vit"]["cifar10"]
    chosen = {data: values for (data, group), values in rewards_by_group(rewards).items() if group == "small_vit"}
    sets = ", ".join(f"{name} {count}" for name, count in PUBLISHED_VIT.items())
    ten = [float(np.mean(values)) for data, values in chosen.items() if CLASSES[data] == min(CLASSES.values())]
    more = [float(np.mean(values)) for data, values in chosen.items() if CLASSES[data] > min(CLASSES.values())]
    tried = ", ".join(f"{reward:g}" for reward in sorted(set(rewards.values())))
    checks = [
        Check("VGG-13: dropout in training is chosen less as the classes grow (Table 8)",
              f"{', '.join(map(str, PUBLISHED_DROPOUT.values()))} of {PUBLISHED_CELLS} cells", shown["vgg13"],
              most < few, small),
        Check("ViT: dropout in training is chosen on CIFAR-10, the set that is here (Table 9)", sets,
              f"{sum(on_cifar)} of {len(on_cifar)} on CIFAR-10; all sets: {shown['small_vit']}",
              10 * sum(on_cifar) >= 9 * len(on_cifar), small),
        Check("ViT: the reward on CIFAR-10 (Table 10)", "2.2 to 10",
              f"{np.mean(chosen['cifar10']):.1f} on average (of {tried})", max(chosen["cifar10"]) <= 10, two),
        Check("ViT: a larger reward is chosen on every set with more classes (Table 10)",
              "mostly 2.2 to 10 on CIFAR-10, 15 or 20 on Tiny-ImageNet",
              ", ".join(f"{np.mean(values):.1f}" for values in chosen.values()) + " on average",
              bool(ten and more) and max(ten) < min(more), two),
    ]  # fmt: skip
    return compare_findings("Tables 8 to 10, choices on validation data", checks)


def extremes(by_data: dict[str, list[Any]]) -> tuple[float, float]:
    """Mean over the sets with the fewest classes, and over those with the most."""
    sizes = {CLASSES[data] for data in by_data}
    few, most = ([value for data, values in by_data.items() if CLASSES[data] == size for value in values]
                 for size in (min(sizes), max(sizes)))  # fmt: skip
    return float(np.mean(few)), float(np.mean(most))
