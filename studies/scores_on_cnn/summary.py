"""Tables, cliques and diagrams from the rows of the study, and whether the paper's top cliques are found here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from run import ALL, COLLAPSE, GEOMETRY, NOTHING, OUTLIERS, PARAMETERS, PROJECTIONS, WEIGHTS  # in this folder

from caveat import plots
from caveat._internal.files import replacing_file
from caveat._internal.result_tables import write_csv
from caveat.results import Comparison
from caveat.stats import compare
from caveat_lab.papers.agreement import Agreement, Check, compare_findings

REGIMES = ("test", "near", "mid", "far")
PROBABILITIES = ("msp", "entropy", "gen", "renyi", "collision", "guessing", "tempscale", "pnml")


BEFORE = "Top clique of misclassification (AUGRC) with default settings: "


def summary(rows: list[dict[str, Any]], out: Path) -> Agreement:
    shape = {(row["set"], row["metric"]): row for row in rows if row["score"] == GEOMETRY}
    regimes = {name: shape[name, "n"]["regime"] for name in OUTLIERS}
    ways = {way: wide([row for row in rows if row["tuned"] == way], regimes) for way in (ALL, PARAMETERS, NOTHING)}
    table = ways[ALL]
    write_csv([{"tuned": way} | row for way, part in ways.items() for row in part], out / "results.csv")
    untuned = [row for row in ways[NOTHING] if row["regime"] == "test"]
    before = compare(untuned, block=["set", "fold"], method="score", value="augrc").layers[0]
    lines = [*sets_table(shape), "", *collapse_table(shape), "", *settings_table(rows), "", *gains_table(ways), "",
             f"{BEFORE}{', '.join(before)}.", ""]  # fmt: skip
    results: dict[str, dict[str, Comparison]] = {}  # metric -> regime -> ranks and cliques
    for metric in ("augrc", "aurc"):
        results[metric] = {}
        for regime in (name for name in REGIMES if any(row["regime"] == name for row in table)):
            part = [row for row in table if row["regime"] == regime]
            results[metric][regime] = compare(part, block=["set", "fold"], method="score", value=metric)
        lines += regime_tables(metric, table, results[metric])
        overall = compare(table, block=["set", "fold"], method="score", value=metric)
        plots.save(plots.clique_map(overall, results[metric]), out / f"cliques_{metric}.svg")
        for regime, result in results[metric].items():
            plots.save(plots.critical_difference(result), out / f"cd_{metric}_{regime}.svg")
    with replacing_file(out / "tables.md") as temporary:
        temporary.write_text("\n".join(lines) + "\n", encoding="utf-8")
    layers = {regime: [list(layer) for layer in result.layers[:2]] for regime, result in results["augrc"].items()}
    return agreement(layers, before)


def wide(rows: list[dict[str, Any]], regime: dict[str, str]) -> list[dict[str, Any]]:
    """One row per score, set and fold, with both metrics and the regime."""
    found: dict[tuple[str, str, int], dict[str, Any]] = {}
    for row in rows:
        if row["score"] != GEOMETRY:
            key = (row["score"], row["set"], row["fold"])
            found.setdefault(key, dict(zip(("score", "set", "fold"), key, strict=True)))[row["metric"]] = row["value"]
    return [row | {"regime": regime.get(row["set"], "test")} for row in found.values()]


def means(rows: list[dict[str, Any]], regime: str) -> dict[str, float]:
    """Score -> mean AUGRC over the blocks of a regime."""
    values: dict[str, list[float]] = {}
    for row in rows:
        if row["regime"] == regime:
            values.setdefault(row["score"], []).append(row["augrc"])
    return {name: float(np.mean(some)) for name, some in values.items()}


def agreement(layers: dict[str, list[list[str]]], untuned: tuple[str, ...]) -> Agreement:
    """Findings of section 4.3 for a CNN (VGG-13), compared with the first two layers here by AUGRC in each regime.

    ``untuned`` is the top layer of misclassification with default settings.
    """
    top = {regime: found[0] for regime, found in layers.items()}
    softmax = [name for name in top["test"] if name.split()[0] in PROBABILITIES]
    before = "also" if {"gen", "msp"} & {name.split()[0] for name in untuned} else "not"
    checks = [
        Check("misclassification: most of the top clique are scores of the softmax", "yes",
              f"{len(softmax)} of {len(top['test'])}", 2 * len(softmax) > len(top["test"])),
        _member("misclassification", ("gen", "msp"), layers["test"],
                f"with default settings one of them is {before} in the top clique; one network in five blocks"),
    ]  # fmt: skip
    for name in ("energy", "max_logit", "nnguide"):
        checks.append(_member("near", (name,), layers["near"], "guess: another network"))
    fewer = ("guess: the paper finds this as the number of classes grows, on networks near collapse (variability "
             "0.008, here 0.75); CIFAR-10 has ten classes")  # fmt: skip
    for regime in ("mid", "far"):
        checks += [_member(regime, names, layers[regime], fewer) for names in (("fdbd",), ("ctm", "ctm_mean"))]
    said = ", ".join(f"{regime} {len(top[regime])}" for regime in ("near", "mid", "far"))
    checks.append(
        Check("top cliques shrink from near to far", "tend to", f"{said} variants", len(top["near"]) > len(top["far"]),
              "guess: the far regime is one outlier set with five blocks: fewer blocks tell less apart")
    )  # fmt: skip
    return Agreement((compare_findings("Figure 1 (left), what section 4.3 says of the top cliques (AUGRC)", checks),))


def _member(regime: str, names: tuple[str, ...], layers: list[list[str]], why: str) -> Check:
    """Whether one of the scores, plain or projected, is in the top layer."""
    place = {
        name: next((i for i, layer in enumerate(layers, 1) if any(found.split()[0] == name for found in layer)), None)
        for name in names
    }
    ours = ", ".join(f"{name} {f'in layer {i}' if i else 'further down'}" for name, i in place.items())
    return Check(f"{regime}: {' or '.join(names)} in the top clique", "yes", ours, 1 in place.values(), why)


def sets_table(shape: dict[tuple[str, str], dict[str, Any]]) -> list[str]:
    lines = [
        "## Outlier sets",
        "",
        "| set | n | Frechet | MMD x 1000 | centroid | regime |",
        "|---|---:|---:|---:|---:|---|",
    ]
    for name in sorted(OUTLIERS, key=lambda name: shape[name, "frechet"]["value"]):
        n, frechet, mmd, centroid = (shape[name, m]["value"] for m in ("n", "frechet", "mmd", "centroid"))
        lines.append(f"| {name} | {n:.0f} | {frechet:.4f} | {1000 * mmd:.3f} | {centroid:.4f} | "
                     f"{shape[name, 'n']['regime']} |")  # fmt: skip
    return lines


def collapse_table(shape: dict[tuple[str, str], dict[str, Any]]) -> list[str]:
    lines = ["## Neural collapse (training features; 0 is full collapse)", "",
             "| projection | equinorm | equiangularity | max equiangularity | variability | self-duality |",
             "|---|---:|---:|---:|---:|---:|"]  # fmt: skip
    for projection in ("none", "global", "class_pred"):
        cells = " | ".join(f"{shape[projection, metric]['value']:.4f}" for metric in COLLAPSE)
        lines.append(f"| {projection} | {cells} |")
    cells = " | ".join(f"{shape['weights', metric]['value']:.4f}" for metric in WEIGHTS)
    return [*lines, f"| weights | {cells} | | |"]


def settings_table(rows: list[dict[str, Any]]) -> list[str]:
    """What was chosen for each score and projection, in the layout of Tables 8 to 10."""
    chosen: dict[str, list[dict[str, str]]] = {}
    for row in rows:
        if row["tuned"] == ALL and row["set"] == "test" and row["metric"] == "augrc":
            pairs = (part.split("=") for part in row["settings"].split())
            chosen.setdefault(row["score"], []).append(dict(pairs))
    heat = [float(fold["temperature"]) for folds in chosen.values() for fold in folds if "temperature" in fold]
    lines = ["## Settings chosen on validation data (layout of Tables 8 to 10)", "",
             f"One choice for each of the five folds. The temperature, {min(heat):.2f} to {max(heat):.2f}, is that of "
             "every score that reads logits. Other settings: the most frequent choice, and in how many folds it was "
             "made if not in all. –: nothing to choose. N/A: no such projection.", "",
             "| method | base | class | class avg | class pred | global |", "|---|---|---|---|---|---|"]  # fmt: skip
    order = ("", "class", "class_avg", "class_pred", "global")
    assert set(order[1:]) == set(PROJECTIONS)
    for name in (name for name in chosen if " " not in name):
        cells = [_chosen(chosen.get(f"{name} {projection}".strip())) for projection in order]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return lines


def _chosen(folds: list[dict[str, str]] | None) -> str:
    if folds is None:
        return "N/A"
    cells = []
    for key in folds[0]:
        values = [fold[key] for fold in folds]
        best = max(dict.fromkeys(values), key=values.count)
        if key not in ("temperature", "top"):  # of ten classes, every top is all of them
            cells.append(f"{key} {best}" + (f" ({values.count(best)} of 5)" if values.count(best) < 5 else ""))
    return ", ".join(cells) or "–"


def gains_table(ways: dict[str, list[dict[str, Any]]]) -> list[str]:
    """AUGRC with default and with tuned settings, by regime."""
    lines = ["## What tuning does (AUGRC x 1000, scores without projection)", "",
             "| score | tuned | test | near | mid | far |", "|---|---|---:|---:|---:|---:|"]  # fmt: skip
    table = {(way, regime): means(rows, regime) for way, rows in ways.items() for regime in REGIMES}
    for name in (name for name in table[ALL, "test"] if " " not in name):
        for way in (NOTHING, PARAMETERS, ALL):
            if name in table[way, "test"]:
                cells = " | ".join(f"{table[way, regime][name]:.2f}" for regime in REGIMES)
                lines.append(f"| {name} | {way} | {cells} |")
    return lines


def regime_tables(metric: str, rows: list[dict[str, Any]], results: dict[str, Comparison]) -> list[str]:
    lines = [f"## {metric.upper()} x 1000", ""]
    for regime, result in results.items():
        lines += [f"### {regime}", "", result.summary(), "",
                  "| layer | score | average rank | mean |", "|---:|---|---:|---:|"]  # fmt: skip
        for number, layer in enumerate(result.layers[:2], start=1):
            for name in layer:
                values = [row[metric] for row in rows if row["score"] == name and row["regime"] == regime]
                lines.append(f"| {number} | {name} | {result.average_ranks[name]:.2f} | {np.mean(values):.2f} |")
        rest = sum(len(layer) for layer in result.layers[2:])
        lines += ["", f"{rest} scores in {len(result.layers) - 2} further layers." if rest else "", ""]
    return lines
