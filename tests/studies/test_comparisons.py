"""The committed comparisons agree with the committed tables."""

import csv
import json
import re

from caveat_lab.papers.agreement import Agreement


def test_no_two_checks_of_a_part_have_the_same_text(studies):
    """On the page the checks of a study are listed together, by reason, so they must differ within a study too."""
    twice = []
    for path in sorted(studies.glob("*/comparison.json")):
        parts = Agreement.read(path).parts
        groups = [[check.what for check in part.checks] for part in parts]
        groups.append([what for group in groups for what in group])
        twice += [(path.parent.name, what) for group in groups for what in set(group) if group.count(what) > 1]
    assert twice == []


def read(path):
    with path.open(encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


def same(found, folder):
    committed = Agreement.read(folder / "comparison.json")
    assert [(p.title, p.rule, p.compared, p.agree, p.checks) for p in found.parts] == [
        (p.title, p.rule, p.compared, p.agree, p.checks) for p in committed.parts
    ]


def test_openood_corrections(study, studies):
    lines = read(studies / "openood_corrections" / "corrections.csv")
    numbers = ("marginal", "published", "reproduced", "promised_level", "exact_level", "by_set")
    rows = [row | {name: float(row[name]) for name in numbers} | {"table": int(row["table"])} for row in lines]
    same(study("openood_corrections", "summary").agreement(rows), studies / "openood_corrections")


def test_openood_tables(study, studies):
    folder, text = studies / "openood_tables", ("detector", "set", "ood")
    lines = read(folder / "results.csv")
    rows = [{k: v if k in text else int(v) if k == "n" else float(v) for k, v in row.items()} for row in lines]
    same(study("openood_tables", "summary").agreement(rows), folder)


def test_adbench(study, studies):
    runs = study("adbench", "kept").kept()
    same(study("adbench", "summary").agreement(runs), studies / "adbench")


def usps_rows(folder, sign=1):
    text = ("metric", "split", "measure")
    return [
        {k: v if k in text else int(v) if k == "K" else sign * float(v) for k, v in row.items()}
        for name in ("results.csv", "repeated.csv")
        for row in read(folder / name)
    ]


def test_usps(study, studies):
    same(study("usps", "summary").agreement(usps_rows(studies / "usps")), studies / "usps")


def test_efficiency_theorems(study, studies):
    folder = studies / "efficiency_theorems"
    numbers = {"distributions": int, "equal": int, "published": float, "ours": float}
    rows = [
        {k: numbers.get(k, str)(v) for k, v in row.items()}
        for name in ("examples.csv", "results.csv")
        for row in read(folder / name)
    ]
    same(study("efficiency_theorems", "summary").agreement(rows), folder)


def test_nonconformity_scores(study, studies):
    folder = studies / "ood_scores_as_nonconformity"
    size = {
        (r["network"], r["score"], r["method"], float(r["alpha"])): float(r["size"])
        for r in read(folder / "results.csv")
    }
    same(study("ood_scores_as_nonconformity", "summary").agreement(size), folder)


OURS = "cifar10 trained here"  # its images are changed; committed where it was trained


def test_adaptivity(study, studies):
    folder, found = studies / "adaptivity", {"tables": {}, "validation": {}, "sensitivity": {}, "images": {}}
    for row in read(folder / "results.csv"):
        network, alpha, method = row.pop("network"), row.pop("alpha"), row.pop("method")
        here = found["tables"].setdefault(network, {"accuracy": float(row.pop("accuracy")), "alpha": {}})
        here["alpha"].setdefault(alpha, {})[method] = {metric: float(value) for metric, value in row.items() if value}
    for line in (folder / "sensitivity.md").read_text(encoding="utf-8").splitlines():
        if row := re.match(r"\| (mnist [\w-]+) \| (.+?) \| ([\d.]+) \| ([\d.]+) \|", line):
            found["sensitivity"].setdefault(row[1], {})[row[2]] = {"T-CV": float(row[3]), "T-SS": float(row[4])}
        if row := re.match(r"\| (\w+, L = \d+) \| ([\d.]+) \| ([\d.]+) \|", line):  # of the network trained here
            if OURS in found["tables"]:
                found["images"][OURS] = found["tables"].pop(OURS) | {"settings": {}}
            found["images"][OURS].setdefault("settings", {})[row[1]] = {"T-CV": float(row[2]), "T-SS": float(row[3])}
    places = {}
    for row in read(folder / "validation.csv"):
        places.setdefault(row["network"], {}).setdefault(row["method"], {})[row["metric"]] = int(row["place"])
    for network, by_method in places.items():
        found["validation"][network] = {m: {"order": sorted(p, key=p.get)} for m, p in by_method.items()}
    same(study("adaptivity", "summary").agreement(found), folder)


def test_regression(study, studies):
    module = study("regression", "summary")
    same(
        module.agreement(module.means_over_seeds(read(studies / "regression" / "results.csv"))), studies / "regression"
    )


def test_cnn_scores(study, studies):
    module = study("scores_on_cnn", "summary")
    layers, untuned, metric, regime = {}, (), "", ""
    for line in (studies / "scores_on_cnn" / "tables.md").read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            metric = line.split()[1]
        elif line.startswith("### "):
            regime = line.removeprefix("### ")
        elif line.startswith(module.BEFORE):
            untuned = tuple(line.removeprefix(module.BEFORE).rstrip(".").split(", "))
        elif metric == "AUGRC" and (row := re.match(r"\| (\d) \| (.+?) \|", line)):
            layers.setdefault(regime, [[], []])[int(row[1]) - 1].append(row[2])
    assert untuned
    same(module.agreement(layers, untuned), studies / "scores_on_cnn")


def test_fpr_fluctuation(study, studies):
    numbers = json.loads((studies / "fpr_fluctuation" / "numbers.json").read_text(encoding="utf-8"))
    same(study("fpr_fluctuation", "summary").agreement(numbers), studies / "fpr_fluctuation")


def test_a_changed_table_changes_the_comparison(study, studies):
    """The comparison is computed: with the curves turned over, nothing that the paper says of them holds."""
    rows = usps_rows(studies / "usps", sign=-1)
    assert study("usps", "summary").agreement(rows).agree == 0
