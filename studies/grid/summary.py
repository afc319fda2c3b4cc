"""The grid in the layout of the paper: Table 2 by number of classes, Figure 1 for two backbones, Tables 7 to 10."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import choices  # in this folder
import numpy as np
from choices import BACKBONES, CLASSES, PARADIGMS, Network, mean_by, network

from caveat import plots
from caveat._internal.files import replacing_file
from caveat._internal.result_tables import write_csv
from caveat.results import Comparison
from caveat.stats import compare
from caveat_lab.papers.agreement import Agreement, Check, Part, compare_findings

REGIMES = ("test", "near", "mid", "far")
SOFTMAX = ("msp", "gen", "entropy", "collision", "guessing", "renyi", "confidence", "pnml")
COLLAPSE = ("equinorm", "equiangularity", "max_equiangularity", "variability", "self_duality")
WEIGHTS = ("weight_equinorm", "weight_equiangularity", "weight_max_equiangularity")
PROJECTIONS = ("none", "global", "class_pred")
PUBLISHED_FACTOR = 3.3  # Table 7, Var Collapse: CIFAR-100, VGG-13, 0.0079 and, projected, 0.0259
PUBLISHED = Path(__file__).parents[1] / "paradigms" / "published.csv"  # the 36 rows of Table 2 by source


def summary(rows: list[dict[str, Any]], out: Path) -> Agreement:
    rows = [row | {"network": network(row["model"])} for row in rows]
    every = [
        {"network": row["network"], "seed": row["seed"], "set": row["outlier"] or "test", "score": row["method"],
         "regime": row["regime"] or "test", "value": 1000 * row["value"]}
        for row in rows if row["metric"] == "augrc"
    ]  # fmt: skip
    validation = choices.validation_augrc(rows)
    rewards = choices.choose_rewards(validation)
    augrc = choices.with_chosen_reward(every, rewards)
    chosen_dropout = choices.dropout_wins(choices.at_chosen_reward(validation, rewards))
    write_csv(wide(augrc, rewards), out / "results.csv")
    best = table2(augrc)
    counts = lower_without_passes(best)
    same = lower_without_passes(table2([row for row in augrc if row["network"].dropout]))
    cliques = {name: by_group(augrc, name) for name in BACKBONES if any(r["network"].backbone == name for r in augrc)}
    for name, (overall, groups) in cliques.items():
        plots.save(plots.clique_map(overall, groups), out / f"cliques_{name}.svg")
    shape = collapse(rows)
    lines = [
        *what_was_run(rows), "",
        *table2_lines(best), "",
        *count_lines(counts, same), "",
        *like_for_like(every), "",
        *choices.dropout_lines(chosen_dropout, choices.dropout_wins(choices.on_test(augrc))), "",
        *choices.reward_lines(rewards), "",
        *(line for name, (_, groups) in cliques.items() for line in (*clique_lines(name, groups), "")),
        *collapse_lines(shape), "",
        *proximity_lines(rows),
    ]  # fmt: skip
    with replacing_file(out / "tables.md") as temporary:
        temporary.write_text("\n".join(lines) + "\n", encoding="utf-8")
    figure = [figure_part(name, groups) for name, (_, groups) in cliques.items()]
    chosen = choices.choices_part(chosen_dropout, rewards)
    return Agreement((table2_part(best, counts), *figure, collapse_part(shape), chosen))


# -- what was run -----------------------------------------------------------------------------------------------------


def what_was_run(rows: list[dict[str, Any]]) -> list[str]:
    accuracy = mean_by((row for row in rows if row["metric"] == "accuracy"), lambda row: row["network"])
    seeds: dict[str, set[int]] = {}
    for row in rows:
        seeds.setdefault(row["network"].data, set()).add(row["seed"])
    networks = {(row["network"]._replace(passes=False), row["seed"]) for row in rows}
    lines = [f"{len(networks)} trained networks. Seeds: "
             + "; ".join(f"{data} {', '.join(map(str, sorted(found)))}" for data, found in seeds.items()) + ".", "",
             "## Accuracy, mean over seeds", "",
             "| set | classes | backbone | paradigm | no dropout | dropout | mean over passes |",
             "|---|---:|---|---|---:|---:|---:|"]  # fmt: skip
    for data, backbone in groups_of(rows):
        mine = {net._replace(dropout=False, passes=False) for net in accuracy if net[:2] == (data, backbone)}
        for net in sorted(mine, key=lambda net: (PARADIGMS.index(net.paradigm), net.reward)):
            ways = [net._replace(dropout=d, passes=p) for d, p in ((False, False), (True, False), (True, True))]
            cells = " | ".join(f"{accuracy[way]:.3f}" if way in accuracy else "" for way in ways)
            name = f"{net.paradigm}, reward {net.reward:g}" if net.reward else net.paradigm
            lines.append(f"| {data} | {CLASSES[data]} | {BACKBONES[backbone]} | {name} | {cells} |")
    return lines


def groups_of(rows: Iterable[dict[str, Any]]) -> list[tuple[str, str]]:
    """Set and backbone of every group that was run, in the order of the paper."""
    found = {(row["network"].data, row["network"].backbone) for row in rows}
    return [(data, backbone) for backbone in BACKBONES for data in CLASSES if (data, backbone) in found]


def wide(augrc: list[dict[str, Any]], rewards: choices.Rewards) -> list[dict[str, Any]]:
    """One line per network, way to ask and score, mean over seeds; two columns per regime, sets in the plan's order."""
    mean = mean_by(augrc, lambda row: (row["network"], row["score"], row["regime"], row["set"]))
    lines: dict[tuple[Network, str], dict[str, Any]] = {}
    for (net, score, regime, _), value in mean.items():
        reward = rewards.get((net, score))
        line = lines.setdefault((net, score), {
            "set": net.data, "backbone": net.backbone, "paradigm": net.paradigm, "dropout": int(net.dropout),
            "passes": int(net.passes), "reward": "" if reward is None else f"{reward:g}", "score": score,
        })  # fmt: skip
        number = sum(name.startswith(f"{regime} ") for name in line) + 1
        line["test" if regime == "test" else f"{regime} {number}"] = f"{value:.2f}"
    columns = ["set", "backbone", "paradigm", "dropout", "passes", "reward", "score", "test",
               *(f"{regime} {i}" for regime in REGIMES[1:] for i in (1, 2))]  # fmt: skip
    return [{column: line.get(column, "") for column in columns} for line in lines.values()]


# -- Table 2 ----------------------------------------------------------------------------------------------------------


class Published(NamedTuple):
    """What the printed table counts."""

    by_source: dict[str, tuple[int, int]]  # rows lower without passes, and all rows
    confidnet: int  # rows where it is best with passes
    gamblers: int  # rows where they are best without passes
    rows: int


def published() -> Published:
    with PUBLISHED.open(encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    by_source: dict[str, tuple[int, int]] = {}
    for row in rows:
        lower, n = by_source.get(row["source"], (0, 0))
        by_source[row["source"]] = (lower + (float(row["without_passes"]) < float(row["with_passes"])), n + 1)
    return Published(by_source, sum(row["best_with"] == "confidnet" for row in rows),
                     sum(row["best_without"] == "deep_gamblers" for row in rows), len(rows))  # fmt: skip


Best = dict[tuple[str, str, str, str, bool], tuple[float, str, str]]  # set, backbone, regime, outliers, passes -> best
Counts = dict[tuple[str, str], tuple[int, int]]  # set, backbone -> rows lower without passes, all rows


def table2(augrc: list[dict[str, Any]]) -> Best:
    """The lowest mean AUGRC with and without passes on every set, and which training and score gave it."""
    mean = mean_by(augrc, lambda row: (row["network"], row["regime"], row["set"], row["score"]))
    best: Best = {}
    for (net, regime, case, score), value in mean.items():
        key = (net.data, net.backbone, regime, case, net.passes)
        best[key] = min(best.get(key, (np.inf, "", "")), (value, net.way, score))
    return best


def table2_rows(best: Best) -> list[tuple[str, str, str, str]]:
    keys = {key[:4] for key in best if (*key[:4], False) in best and (*key[:4], True) in best}
    order = lambda key: (list(BACKBONES).index(key[1]), list(CLASSES).index(key[0]), REGIMES.index(key[2]), key[3])  # noqa: E731
    return sorted(keys, key=order)


def table2_lines(best: Best) -> list[str]:
    lines = ["## Table 2: the best AUGRC x 1000, and what gave it", "",
             "Mean over seeds; the best of all paradigms and scores, chosen on the same data, which flatters. Without "
             "passes six trainings compete, with passes the three that have dropout. Validation data choose the reward "
             "of Deep Gamblers and the settings of the scores.", "",
             "| set | classes | backbone | outliers | regime | nonMCD AUGRC | MCD AUGRC | nonMCD | MCD |",
             "|---|---:|---|---|---|---:|---:|---|---|"]  # fmt: skip
    for data, backbone, regime, case in table2_rows(best):
        (rest, way0, score0), (passes, way1, score1) = (best[data, backbone, regime, case, p] for p in (False, True))
        lines.append(f"| {data} | {CLASSES[data]} | {BACKBONES[backbone]} | {case} | {regime} | {rest:.4f} | "
                     f"{passes:.4f} | {way0} ({score0}) | {way1} ({score1}) |")  # fmt: skip
    return lines


def lower_without_passes(best: Best) -> Counts:
    """(Set, backbone) -> rows with a lower AUGRC without passes, and all rows."""
    counts: Counts = {}
    for key in table2_rows(best):
        lower, all_rows = counts.get(key[:2], (0, 0))
        counts[key[:2]] = (lower + (best[*key, False][0] < best[*key, True][0]), all_rows + 1)
    return counts


def count_lines(counts: Counts, same: Counts) -> list[str]:
    lines = ["## Rows of Table 2 with a lower AUGRC without passes", "",
             "Published, read by source: "
             + ", ".join(f"{lower} of {n} for {name}" for name, (lower, n) in published().by_source.items()) + ".", "",
             "The last columns leave out networks without dropout, so that the same three trainings compete.", "",
             "| set | classes | "
             + " | ".join(f"{b}{end}" for end in ("", ", same networks") for b in BACKBONES.values())
             + " |", "|---|---:|" + "---|" * 2 * len(BACKBONES)]  # fmt: skip
    for data, classes in CLASSES.items():
        cells = [f"{found[data, b][0]} of {found[data, b][1]}" if (data, b) in found else ""
                 for found in (counts, same) for b in BACKBONES]  # fmt: skip
        if any(cells):
            lines.append(f"| {data} | {classes} | " + " | ".join(cells) + " |")
    return lines


def like_for_like(augrc: list[dict[str, Any]]) -> list[str]:
    """The same network and score with and without passes: nothing is chosen, so nothing flatters."""
    lines = ["## The same networks and the same score, with and without passes", "",
             "Networks with dropout. Share of networks, seeds and sets with a lower AUGRC with passes.", "",
             "| set | classes | backbone | msp | entropy | confidence | energy | mahalanobis | all scores |",
             "|---|---:|---|---:|---:|---:|---:|---:|---:|"]  # fmt: skip
    value = {(row["network"], row["seed"], row["set"], row["score"]): row["value"] for row in augrc}
    for data, backbone in groups_of(augrc):
        pairs: dict[str, list[bool]] = {}
        for (net, seed, case, score), mine in value.items():
            if (net.data, net.backbone, net.passes) == (data, backbone, True):
                pairs.setdefault(score, []).append(mine < value[net._replace(passes=False), seed, case, score])
        if pairs:
            shown = [np.mean(pairs[name]) for name in ("msp", "entropy", "confidence", "energy", "mahalanobis")]
            shown.append(np.mean([won for wins in pairs.values() for won in wins]))
            lines.append(f"| {data} | {CLASSES[data]} | {BACKBONES[backbone]} | "
                         + " | ".join(f"{share:.2f}" for share in shown) + " |")  # fmt: skip
    return lines


def table2_part(best: Best, counts: Counts) -> Part:
    rows = table2_rows(best)
    few = {key: n for key, n in counts.items() if CLASSES[key[0]] == min(CLASSES.values())}
    many = {key: n for key, n in counts.items() if CLASSES[key[0]] == max(CLASSES[key[0]] for key in counts)}
    share = lambda found: sum(lower for lower, _ in found.values()) / sum(n for _, n in found.values())  # noqa: E731
    text = lambda found: f"{sum(lower for lower, _ in found.values())} of {sum(n for _, n in found.values())} rows"  # noqa: E731
    size = max(CLASSES[key[0]] for key in counts)
    by_set = [text({key: n for key, n in counts.items() if key[0] == data}) for data in CLASSES
              if any(key[0] == data for key in counts)]  # fmt: skip
    by_size = [share({key: n for key, n in counts.items() if CLASSES[key[0]] == classes})
               for classes in sorted({CLASSES[key[0]] for key in counts})]  # fmt: skip
    falls = by_size == sorted(by_size, reverse=True) and by_size[-1] < by_size[0]
    with_passes = sum(best[*key, True][1] == "confidnet" for key in rows)
    without = sum(best[*key, False][1].startswith("deep_gamblers") for key in rows)
    paper = published()
    first, *_, last = paper.by_source.values()
    checks = [
        Check("ten classes: lower AUGRC without passes", f"{first[0]} of {first[1]} rows", text(few),
              2 * share(few) > 1, "guess: small networks after 12 epochs, far from collapse"),
        Check("most classes: lower AUGRC with passes (published: 200 classes)",
              f"{last[0]} of {last[1]} rows lower without",
              f"{text(many)} lower without, {size} classes", 2 * share(many) < 1,
              "guess: networks that are far from fitting lose accuracy by dropout, the more so with many classes"),
        Check("passes help more as the classes grow: rows lower without passes", 
              f"{', '.join(str(lower) for lower, _ in paper.by_source.values())} of {last[1]}", ", ".join(by_set),
              falls,
              "guess: networks that are far from fitting lose accuracy by dropout, the more so with many classes"),
        Check("with passes ConfidNet is best", f"{paper.confidnet} of {paper.rows} rows",
              f"{with_passes} of {len(rows)} rows", 2 * with_passes > len(rows),
              "guess: with the score free to choose, the paradigms are close"),
        Check("without passes Deep Gamblers are best", f"{paper.gamblers} of {paper.rows} rows",
              f"{without} of {len(rows)} rows", 2 * without > len(rows),
              "guess: the paradigms are close, and small networks gain little from a reward"),
    ]  # fmt: skip
    return compare_findings("Table 2 by number of classes", checks)


# -- Figure 1 ---------------------------------------------------------------------------------------------------------


def by_group(augrc: list[dict[str, Any]], backbone: str) -> tuple[Comparison, dict[str, Comparison]]:
    """All rows of a backbone, and every set and regime: a block is a network, a way to ask, a seed and a set."""
    mine = [
        {"block": f"{row['network']} {row['seed']} {row['set']}", **row}
        for row in augrc
        if row["network"].backbone == backbone
    ]

    def ranked(part: list[dict[str, Any]]) -> Comparison:
        return compare(part, block=["block"], method="score", value="value")

    found = {}
    for data in CLASSES:
        for regime in REGIMES:
            part = [row for row in mine if (row["network"].data, row["regime"]) == (data, regime)]
            if part:
                found[f"{data}, {regime}"] = ranked(part)
    return ranked(mine), found


def clique_lines(backbone: str, groups: dict[str, Comparison]) -> list[str]:
    lines = [f"## Figure 1, {BACKBONES[backbone]}: top cliques by AUGRC", "",
             "| set and regime | best, and tied with it | second layer | blocks | Friedman p |",
             "|---|---|---|---:|---:|"]  # fmt: skip
    for name, result in groups.items():
        layers = [", ".join(layer) for layer in result.layers[:2]] + [""]
        lines.append(f"| {name} | {layers[0]} | {layers[1]} | {result.n_blocks} | {result.p_value:.2g} |")
    return lines


def figure_part(backbone: str, groups: dict[str, Comparison]) -> Part:
    """What sections 4.3, 4.4 and 4.6 say of the top cliques."""
    title = BACKBONES[backbone]

    def share(regimes: tuple[str, ...], names: tuple[str, ...]) -> tuple[int, int]:
        columns = [result.layers[0] for name, result in groups.items() if name.split(", ")[1] in regimes]
        return sum(any(name in layer for name in names) for layer in columns), len(columns)

    def member(what: str, regimes: tuple[str, ...], names: tuple[str, ...], why: str) -> Check:
        hits, columns = share(regimes, names)
        return Check(f"{title}, {what}: {' or '.join(names)} in the top clique", "in most columns",
                     f"{hits} of {columns} columns", 2 * hits > columns, why)  # fmt: skip

    small = "guess: a small network trained for 12 epochs, far from collapse"
    errors = [result.layers[0] for name, result in groups.items() if name.endswith(", test")]
    simple = [sum(name in SOFTMAX for name in layer) * 2 > len(layer) for layer in errors]
    checks = [
        Check(f"{title}, misclassification: most of the top clique are scores of the softmax", "yes",
              f"{sum(simple)} of {len(simple)} columns", 2 * sum(simple) > len(simple), small),
        member("misclassification", ("test",), ("gen", "msp"), small),
    ]  # fmt: skip
    if backbone == "vgg13":
        checks += [
            member("near", ("near",), ("energy", "max_logit", "nnguide"), small),
            member("mid and far", ("mid", "far"), ("ctm", "ctm_mean", "nnguide", "fdbd"), small),
        ]
        return compare_findings("Figure 1, left, what sections 4.3 and 4.6 say of VGG-13", checks)
    pretrained = (
        "guess: the published ViT is pretrained and fine-tuned; projections bring GradNorm into 1 of 12 top cliques "
        "here (projected.csv)"
    )
    projected = (
        "guess: features that are not projected, and more blocks: with one seed and 11 scores kernel PCA is in 8 of 12 "
        "top cliques as it is and in 11 with projections (projected.csv)"
    )
    checks += [
        member("near, mid and far", ("near", "mid", "far"), ("gradnorm",), pretrained),
        member("near, mid and far", ("near", "mid", "far"), ("kpca_error",), projected),
    ]
    return compare_findings("Figure 1, right, what sections 4.4 and 4.6 say of ViT", checks)


# -- Table 7 ----------------------------------------------------------------------------------------------------------

Shape = dict[tuple[str, str, str, str], float]  # set, backbone, projection, quantity -> mean over networks and seeds


def collapse(rows: list[dict[str, Any]]) -> Shape:
    """Neural collapse of the training features at rest, mean over paradigms, dropout and seeds."""
    mine = (row for row in rows if row["metric"] in (*COLLAPSE, *WEIGHTS) and not row["network"].passes)
    return mean_by(mine, lambda row: (row["network"].data, row["network"].backbone, row["method"], row["metric"]))


def collapse_lines(shape: Shape) -> list[str]:
    heads = "EqNorm | EqAng | max-EqAng"
    lines = ["## Table 7: neural collapse (0 is full collapse)", "", "Mean over paradigms, dropout and seeds.", "",
             f"| backbone | set | projection | {heads} | Var Collapse | Self Duality |",
             "|---|---|---|" + "---:|" * 5]  # fmt: skip
    groups = [(d, b) for b in BACKBONES for d in CLASSES if (d, b, "none", COLLAPSE[0]) in shape]
    for data, backbone in groups:
        for projection in PROJECTIONS:
            cells = " | ".join(f"{shape[data, backbone, projection, q]:.4f}" for q in COLLAPSE)
            lines.append(f"| {BACKBONES[backbone]} | {data} | {projection} | {cells} |")
    lines += ["", "Classifier weights:", "", f"| backbone | set | {heads} |", "|---|---|---:|---:|---:|"]
    for data, backbone in groups:
        cells = " | ".join(f"{shape[data, backbone, 'none', q]:.4f}" for q in WEIGHTS)
        lines.append(f"| {BACKBONES[backbone]} | {data} | {cells} |")
    return lines


def collapse_part(shape: Shape) -> Part:
    groups = [key[:2] for key in shape if key[2:] == ("none", COLLAPSE[0])]
    both = [data for data in CLASSES if all((data, b) in groups for b in BACKBONES)]
    higher = [(data, q) for data in both for q in COLLAPSE
              if shape[data, "small_vit", "none", q] > shape[data, "vgg13", "none", q]]  # fmt: skip
    falls = []
    for backbone in BACKBONES:
        ten = [shape[d, b, "none", "max_equiangularity"] for d, b in groups if b == backbone and CLASSES[d] == 10]
        more = [shape[d, b, "none", "max_equiangularity"] for d, b in groups if b == backbone and CLASSES[d] > 10]
        falls.append(bool(ten and more) and max(more) < min(ten))
    change = [abs(shape[d, b, p, q] - shape[d, b, "none", q]) / shape[d, b, "none", q]
              for d, b in groups for p in PROJECTIONS[1:] for q in COLLAPSE[:3]]  # fmt: skip
    variability = [shape[d, b, "none", "variability"] for d, b in groups]
    factor = [max(a / b, b / a) for a, b in ((shape[*g, p, "variability"], shape[*g, "none", "variability"])
              for g in groups for p in PROJECTIONS[1:])]  # fmt: skip
    why = "guess: small networks trained from scratch for 12 epochs; the paper's ViT is pretrained and fine-tuned"
    checks = [
        Check("collapse is weaker in ViT than in VGG-13", "20 of 20 values", f"{len(higher)} of {5 * len(both)} values",
              4 * len(higher) > 3 * 5 * len(both), why),
        Check("max-EqAng falls as the classes grow", "both backbones", f"{sum(falls)} of {len(falls)} backbones",
              all(falls), why),
        Check("projections change EqNorm, EqAng and max-EqAng little", "by at most 6.1 %",
              f"by at most {100 * max(change):.0f} %", max(change) <= 0.0615, why),
        Check("variability of the features", "0.002 to 0.037",
              f"{min(variability):.3f} to {max(variability):.3f}", max(variability) <= 0.037, why),
        Check("projections change the variability of the features", f"up to {PUBLISHED_FACTOR:g}-fold",
              f"up to {max(factor):.3g}-fold", max(factor) <= PUBLISHED_FACTOR + 0.05,
              "guess: far from collapse, directions with little scatter between the classes carry most of it"),
    ]  # fmt: skip
    return compare_findings("Table 7, what it shows", checks)


# -- distances --------------------------------------------------------------------------------------------------------


def proximity_lines(rows: list[dict[str, Any]]) -> list[str]:
    mine = [row for row in rows if row["metric"] in ("frechet", "mmd", "centroid") and not row["network"].passes]
    mean = mean_by(mine, lambda row: (row["network"].backbone, row["network"].data, row["regime"], row["outlier"],
                                      row["metric"]))  # fmt: skip
    lines = ["## Distance of the outlier sets in the networks' features", "",
             "Regimes are those of the plan, by content. Distances depend on the network and are for comparison.", "",
             "| backbone | set | outliers | regime | Frechet | MMD x 1000 | centroid |",
             "|---|---|---|---|---:|---:|---:|"]  # fmt: skip
    keys = sorted({key[:4] for key in mean}, key=lambda k: (list(BACKBONES).index(k[0]), list(CLASSES).index(k[1]),
                                                            REGIMES.index(k[2]), k[3]))  # fmt: skip
    for key in keys:
        frechet, mmd, centroid = (mean[*key, metric] for metric in ("frechet", "mmd", "centroid"))
        lines.append(f"| {BACKBONES[key[0]]} | {key[1]} | {key[3]} | {key[2]} | {frechet:.4f} | {1000 * mmd:.3f} | "
                     f"{centroid:.4f} |")  # fmt: skip
    return lines
