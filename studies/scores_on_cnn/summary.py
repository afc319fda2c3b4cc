"""Tables, cliques and diagrams from the rows of the study, and whether the paper's top cliques are found here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from run import COLLAPSE, GEOMETRY, OUTLIERS, WEIGHTS  # in this folder

from caveat import plots
from caveat._internal.files import replacing_file
from caveat.results import Comparison
from caveat.stats import compare
from caveat.study.agreement import Agreement, Check, compare_findings
from caveat.study.tables import write_csv

REGIMES = ("test", "near", "mid", "far")
PROBABILITIES = ("msp", "entropy", "gen", "renyi", "collision", "guessing", "tempscale", "pnml")


def summary(rows: list[dict[str, Any]], out: Path) -> Agreement:
    shape = {(row["set"], row["metric"]): row for row in rows if row["score"] == GEOMETRY}
    table = wide(rows, {name: shape[name, "n"]["regime"] for name in OUTLIERS})
    write_csv(table, out / "results.csv")
    lines = [*sets_table(shape), "", *collapse_table(shape), ""]
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
    return agreement(
        {regime: [list(layer) for layer in result.layers[:2]] for regime, result in results["augrc"].items()}
    )


def wide(rows: list[dict[str, Any]], regime: dict[str, str]) -> list[dict[str, Any]]:
    """One row per score, set and fold, with both metrics and the regime."""
    found: dict[tuple[str, str, int], dict[str, Any]] = {}
    for row in rows:
        if row["score"] != GEOMETRY:
            key = (row["score"], row["set"], row["fold"])
            found.setdefault(key, dict(zip(("score", "set", "fold"), key, strict=True)))[row["metric"]] = row["value"]
    return [row | {"regime": regime.get(row["set"], "test")} for row in found.values()]


def agreement(layers: dict[str, list[list[str]]]) -> Agreement:
    """Findings of section 4.3 for a CNN (VGG-13), compared with the first two layers here by AUGRC in each regime."""
    top = {regime: found[0] for regime, found in layers.items()}
    softmax = [name for name in top["test"] if name.split()[0] in PROBABILITIES]
    checks = [
        Check("misclassification: most of the top clique are scores of the softmax", "yes",
              f"{len(softmax)} of {len(top['test'])}", 2 * len(softmax) > len(top["test"])),
        _member("misclassification", ("gen", "msp"), layers["test"],
                "guess: GEN and Renyi are not tuned, as they are in the paper; one network in five blocks"),
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
