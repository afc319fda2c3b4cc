"""Table 2 of the paper in our numbers, cliques of scores and of paradigms, and whether the paper's findings hold."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from run import COLLAPSE, GEOMETRY, SETS  # in this folder

from caveat import plots
from caveat._internal.files import replacing_file
from caveat._internal.result_tables import write_csv
from caveat.results import Comparison
from caveat.stats import compare
from caveat_lab.geometry import buckets
from caveat_lab.papers.agreement import Agreement, Check, compare_findings

PARADIGMS = ("confidnet", "devries", "deep_gamblers")
CALLED = {"rest": "at rest", "passes": "dropout passes"}
REGIMES = ("test", "near", "mid", "far")
SOFTMAX = ("msp", "gen", "entropy", "collision", "guessing", "renyi", "tempscale", "confidence", "pnml", "nci")

Mean = dict[tuple[str, str, str, str], float]  # paradigm, inference, score, set -> mean over seeds


def summary(rows: list[dict[str, Any]], out: Path) -> Agreement:
    distances = {
        name: [float(np.median(pick(rows, GEOMETRY, name, metric))) for metric in ("frechet", "mmd", "centroid")]
        for name in SETS
    }
    regime = {"test": "test"} | buckets(distances, seed=0)
    measured = [row | {"regime": regime[row["set"]]} for row in rows if row["metric"] == "augrc"]
    write_csv(wide(measured), out / "results.csv")
    mean: Mean = {}
    for row in measured:
        mean.setdefault((row["paradigm"], row["inference"], row["score"], row["set"]), []).append(row["value"])  # type: ignore[arg-type]
    mean = {key: float(np.mean(values)) for key, values in mean.items()}
    order = ["test", *sorted(SETS, key=lambda name: (REGIMES.index(regime[name]), distances[name][0]))]
    best = {(case, inference): least(mean, case, inference) for case in order for inference in CALLED}

    scores = by_regime(measured)
    ways = compare(
        [row | {"way": f"{row['paradigm']}, {CALLED[row['inference']]}"} for row in best_of_each(measured)],
        block=["set", "seed"], method="way", value="value",
    )  # fmt: skip
    lines = [
        *table2(order, regime, best), "",
        *every_paradigm(order, regime, mean), "",
        *like_for_like(order, regime, mean), "",
        "## Paradigms and dropout passes", "",
        "Each way to train and to ask with its best score on each set; a block is a set and a seed.", "",
        *ranking(ways, 99), "",
        *(line for name in REGIMES for line in (*clique(name, scores[name]), "")),
        *facts(rows, regime, distances),
    ]  # fmt: skip
    with replacing_file(out / "tables.md") as temporary:
        temporary.write_text("\n".join(lines) + "\n", encoding="utf-8")
    plots.save(plots.critical_difference(ways), out / "cd_paradigms.svg")
    return agreement(order, best, scores["test"])


def pick(rows: list[dict[str, Any]], inference: str, case: str, metric: str) -> list[float]:
    wanted = (inference, case, metric)
    return [row["value"] for row in rows if (row["inference"], row["set"], row["metric"]) == wanted]


def wide(measured: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """One line per network, inference and score, one column per set: AUGRC x 1000."""
    found: dict[tuple[str, int, str, str], dict[str, Any]] = {}
    for row in measured:
        key = (row["paradigm"], row["seed"], row["inference"], row["score"])
        line = found.setdefault(key, dict(zip(("paradigm", "seed", "inference", "score"), key, strict=True)))
        line[row["set"]] = f"{row['value']:.2f}"
    return list(found.values())


def least(mean: Mean, case: str, inference: str) -> tuple[float, str, str]:
    """The lowest AUGRC on a set, and which paradigm and score gave it."""
    return min((value, p, score) for (p, i, score, s), value in mean.items() if (i, s) == (inference, case))


def best_of_each(measured: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """For every paradigm, inference, seed and set its lowest AUGRC."""
    found: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in measured:
        key = (row["paradigm"], row["inference"], row["seed"], row["set"])
        if key not in found or row["value"] < found[key]["value"]:
            found[key] = row
    return list(found.values())


def by_regime(measured: list[dict[str, Any]]) -> dict[str, Comparison]:
    """Scores compared within each regime, without dropout passes; a block is a network and a set."""
    return {
        name: compare(
            [row for row in measured if row["regime"] == name and row["inference"] == "rest"],
            block=["paradigm", "seed", "set"], method="score", value="value",
        )
        for name in REGIMES
    }  # fmt: skip


def table2(order: list[str], regime: dict[str, str], best: dict[tuple[str, str], tuple[float, str, str]]) -> list[str]:
    lines = ["## Table 2 of the paper: the best AUGRC x 1000, and what gave it", "",
             "Mean over seeds; the best of all paradigms and scores, chosen on the same data, which flatters.", "",
             "| set | regime | nonMCD AUGRC | MCD AUGRC | nonMCD paradigm | MCD paradigm |",
             "|---|---|---:|---:|---|---|"]  # fmt: skip
    for case in order:
        (rest, p0, s0), (passes, p1, s1) = best[case, "rest"], best[case, "passes"]
        lines.append(f"| {case} | {regime[case]} | {rest:.4f} | {passes:.4f} | {p0} ({s0}) | {p1} ({s1}) |")
    return lines


def every_paradigm(order: list[str], regime: dict[str, str], mean: Mean) -> list[str]:
    """The same for each paradigm separately."""
    ways = [(paradigm, inference) for paradigm in PARADIGMS for inference in CALLED]
    lines = ["## The best score of each paradigm", "",
             "| set | regime | " + " | ".join(f"{p}, {CALLED[i]}" for p, i in ways) + " |",
             "|---|---|" + "---:|" * len(ways)]  # fmt: skip
    for case in order:
        cells = []
        for paradigm, inference in ways:
            value, score = min(
                (value, score)
                for (p, i, score, s), value in mean.items()
                if (p, i, s) == (paradigm, inference, case)
            )  # fmt: skip
            cells.append(f"{value:.2f} ({score})")
        lines.append(f"| {case} | {regime[case]} | " + " | ".join(cells) + " |")
    return lines


def like_for_like(order: list[str], regime: dict[str, str], mean: Mean) -> list[str]:
    """One score with and without passes. No score is chosen, so the numbers are not optimistic."""
    pairs = [("msp", "rest", "msp"), ("mc_msp", "passes", "mc_msp"), ("confidence", "rest", "confidence"),
             ("confidence", "passes", "mean confidence")]  # fmt: skip
    heads = [f"{p}: {called}" for p in PARADIGMS for _, _, called in pairs]
    lines = ["## The same score with and without passes", "",
             "| set | regime | " + " | ".join(heads) + " |", "|---|---|" + "---:|" * len(heads)]  # fmt: skip
    for case in order:
        cells = [f"{mean[p, inference, score, case]:.2f}" for p in PARADIGMS for score, inference, _ in pairs]
        lines.append(f"| {case} | {regime[case]} | " + " | ".join(cells) + " |")
    return lines


def ranking(result: Comparison, most: int) -> list[str]:
    lines = [result.summary(), "", "| layer | method | average rank | groups |", "|---:|---|---:|---|"]
    shown = result.lines()[:most]
    lines += [f"| {layer} | {name} | {result.average_ranks[name]:.2f} | {letters} |" for layer, name, letters in shown]
    rest = len(result.lines()) - len(shown)
    return lines + (["", f"{rest} more behind them."] if rest else [])


def clique(name: str, result: Comparison) -> list[str]:
    return [f"## Scores: {'errors on inliers' if name == 'test' else name}", "", *ranking(result, 12)]


def facts(rows: list[dict[str, Any]], regime: dict[str, str], distances: dict[str, list[float]]) -> list[str]:
    lines = ["## Networks and sets", "", "| paradigm | accuracy at rest | accuracy of the mean over passes | "
             + " | ".join(COLLAPSE) + " |", "|---|---:|---:|" + "---:|" * len(COLLAPSE)]  # fmt: skip
    for paradigm in PARADIGMS:
        mine = [row for row in rows if row["paradigm"] == paradigm]
        cells = [np.mean(pick(mine, inference, "test", "accuracy")) for inference in CALLED]
        cells += [np.mean(pick(mine, GEOMETRY, "", metric)) for metric in COLLAPSE]
        lines.append(f"| {paradigm} | " + " | ".join(f"{cell:.4f}" for cell in cells) + " |")
    seconds = pick(rows, GEOMETRY, "", "cpu_seconds")
    lines += ["", f"{len(seconds)} networks, {sum(seconds) / 60:.0f} minutes of one core in all.", "",
              "| set | regime | Frechet | MMD x 1000 | centroid |", "|---|---|---:|---:|---:|"]  # fmt: skip
    for name, (frechet, mmd, centroid) in sorted(distances.items(), key=lambda item: item[1]):
        lines.append(f"| {name} | {regime[name]} | {frechet:.4f} | {1000 * mmd:.3f} | {centroid:.4f} |")
    return lines


def agreement(order: list[str], best: dict[tuple[str, str], tuple[float, str, str]], errors: Comparison) -> Agreement:
    """What section 4.5 and the conclusion say of ten classes."""
    lower = [case for case in order if best[case, "rest"][0] <= best[case, "passes"][0]]
    with_passes = [case for case in order if best[case, "passes"][1] == "confidnet"]
    without = [case for case in order if best[case, "rest"][1] == "deep_gamblers"]
    top = errors.layers[0]
    simple = [name for name in top if name in SOFTMAX]
    most = f"of {len(order)} rows"
    checks = [
        check("ten classes: lower AUGRC without dropout passes (paper: 8 of 9 rows of CIFAR-10)", "consistently",
              f"{len(lower)} {most}", 2 * len(lower) > len(order),
              "guess: a network of two convolutions, with dropout before its linear layers only"),
        check("with passes ConfidNet gives the lowest AUGRC (paper: 7 of 9 rows of CIFAR-10)", "across the board",
              f"{len(with_passes)} {most}", 2 * len(with_passes) > len(order),
              "guess: with the score free to choose, the paradigms are close"),
        check("without passes Deep Gamblers stand out (paper: 5 of 9 rows of CIFAR-10)", "yes",
              f"{len(without)} {most}", 2 * len(without) > len(order),
              "guess: the lowest values come from distances between features, which work best with plain "
              "cross-entropy, the loss of ConfidNet's classifier; one reward, not tuned on validation data"),
        check("misclassification: softmax scores and learned confidence lead", "yes",
              f"{len(simple)} of {len(top)} in the top layer", 2 * len(simple) > len(top),
              "guess: few blocks tell little apart"),
    ]  # fmt: skip
    return Agreement((compare_findings("Table 2 and what sections 4.5 and 4.6 say of ten classes", checks),))


def check(what: str, published: str, ours: str, agrees: bool, why: str) -> Check:
    return Check(what, published, ours, agrees, "" if agrees else why)
