"""The grid study: its plan is complete, its tables follow from rows, and the committed tables say what is claimed."""

from __future__ import annotations

import csv
import itertools
from collections import Counter

import numpy as np
import pytest

from caveat import InputError
from caveat._internal.files import read_toml
from caveat_lab.experiments.expansion import expand
from caveat_lab.experiments.matrix import networks
from caveat_lab.experiments.plan import Plan
from caveat_lab.papers.agreement import Agreement

pytest.importorskip("matplotlib")

SCORES = ("msp", "entropy", "gen", "confidence", "energy", "mahalanobis", "kpca_error", "gradnorm", "nnguide")
OUTLIERS = {"a": "near", "b": "near", "c": "mid", "d": "mid", "e": "far", "f": "far"}


@pytest.fixture(scope="module")
def grid(study):
    return study("grid", "summary")


def rows(grid, *, seeds=2):
    """Passes are better by 3 with 26 classes or more and worse by 3 with fewer; ConfidNet is ahead by 1.

    Validation data choose dropout and the reward 3 for ten classes, no dropout and the reward 15 for more. The other
    reward would be better by 10 on all test data.
    """
    rng = np.random.default_rng(0)
    made = []
    paradigms = ("confidnet", "devries", "deep_gamblers reward 3.0", "deep_gamblers reward 15.0")
    ways = list(
        itertools.product(grid.CLASSES, grid.BACKBONES, paradigms, ("", "/dropout 0.2", "/dropout 0.2/10 passes"))
    )
    for (data, backbone, paradigm, way), seed in itertools.product(ways, range(seeds)):
        model = f"{data}/{backbone}/{paradigm}{way}"
        many = grid.CLASSES[data] > 10
        not_chosen = paradigm.endswith("3.0" if many else "15.0")

        def add(method, metric, value, outlier="", model=model, seed=seed):
            made.append({"model": model, "seed": seed, "outlier": outlier, "regime": OUTLIERS.get(outlier, ""),
                         "method": method, "metric": metric, "value": value})  # fmt: skip

        add("", "accuracy", 0.75)
        help_of_passes = (-3 if many else 3) if way.endswith("passes") else 0
        for number, score in enumerate(SCORES):
            for outlier in ("", *OUTLIERS):
                value = 60 + 2 * number + help_of_passes - (paradigm == "confidnet") + rng.normal() / 20
                add(score, "augrc", (value - 10 * not_chosen) / 1000, outlier)
            add(score, "tuning_augrc", 0.05 + 0.01 * not_chosen + (0.001 if many else -0.001) * ("dropout" in way))
        for outlier in OUTLIERS:
            for metric in ("frechet", "mmd", "centroid"):
                add("", metric, 0.5, outlier)
        for projection, quantity in itertools.product(grid.PROJECTIONS, (*grid.COLLAPSE, *grid.WEIGHTS)):
            add(projection, quantity, (2 if backbone == "small_vit" else 1) / grid.CLASSES[data])
    return made


def test_tables_and_findings_from_rows(grid, tmp_path):
    agreement = grid.summary(rows(grid), tmp_path)
    by_title = {part.title.split(",")[0].split(" by")[0]: part for part in agreement.parts}
    checks = {check.what.split(":")[0]: check for check in agreement.parts[0].checks}
    # 7 rows for each of two backbones: with 10 classes all are lower without passes, with more none
    assert checks["ten classes"].ours == "28 of 28 rows"
    assert (
        checks["passes help more as the classes grow"].ours
        == "14 of 14 rows, 14 of 14 rows, 0 of 14 rows, 0 of 14 rows"
    )
    assert all(checks[name].agrees for name in ("ten classes", "passes help more as the classes grow"))
    assert checks["with passes ConfidNet is best"].agrees
    assert not checks["without passes Deep Gamblers are best"].agrees
    assert {"Table 2", "Figure 1", "Table 7", "Tables 8 to 10"} == set(by_title)
    collapse = {check.what: check for check in by_title["Table 7"].checks}
    assert collapse["collapse is weaker in ViT than in VGG-13"].ours == "20 of 20 values"
    assert collapse["max-EqAng falls as the classes grow"].agrees
    assert not agreement.unexplained
    text = (tmp_path / "tables.md").read_text(encoding="utf-8")
    # 4 sets x 2 backbones x (2 paradigms and 2 rewards) x with and without dropout x 2 seeds
    assert "128 trained networks. Seeds: cifar10 0, 1;" in text
    assert "| letters | 26 | 0 of 7 | 0 of 7 | 0 of 7 | 0 of 7 |" in text
    assert {path.name for path in tmp_path.iterdir()} == {
        "tables.md", "results.csv", "cliques_vgg13.svg", "cliques_small_vit.svg",
    }  # fmt: skip
    with (tmp_path / "results.csv").open(encoding="utf-8") as stream:
        table = list(csv.DictReader(stream))
    assert len(table) == 4 * 2 * 3 * 3 * len(SCORES)
    assert float(table[0]["far 2"]) == pytest.approx(59, abs=0.2)


def test_dropout_and_reward_are_chosen_on_validation_data(grid, tmp_path):
    agreement = grid.summary(rows(grid), tmp_path)
    checks = agreement.parts[-1].checks
    assert [check.ours for check in checks] == [
        "27 of 27, 27 of 27, 0 of 27, 0 of 27",  # three paradigms x nine scores
        "27 of 27 on CIFAR-10; all sets: 27 of 27, 27 of 27, 0 of 27, 0 of 27",
        "3.0 on average (of 3, 15)",
        "3.0, 3.0, 15.0, 15.0 on average",
    ]
    assert not any(check.what.startswith("VGG-13") for check in checks if "reward" in check.what)
    assert all(check.agrees for check in checks)
    text = (tmp_path / "tables.md").read_text(encoding="utf-8")
    assert "| cifar10 | 10 | VGG-13 | 9 of 9 (" in text
    assert "| symbols | 46 | ViT | 0 | 18 | 15.0 |" in text  # nine scores, without and with dropout
    # on test data the reward that was not chosen would be the best: it must not win any row
    best = [line.split(" | ") for line in text.splitlines() if line.startswith("| ") and "confidnet (" in line]
    assert len(best) == 4 * 2 * 7
    with (tmp_path / "results.csv").open(encoding="utf-8") as stream:
        rewards = {(line["set"], line["reward"]) for line in csv.DictReader(stream) if line["reward"]}
    assert rewards == {("cifar10", "3"), ("fashion", "3"), ("letters", "15"), ("symbols", "15")}


def test_the_same_networks_are_compared_without_choosing(grid, tmp_path):
    grid.summary(rows(grid), tmp_path)
    text = (tmp_path / "tables.md").read_text(encoding="utf-8")
    assert "| letters | 26 | VGG-13 | 1.00 | 1.00 | 1.00 | 1.00 | 1.00 | 1.00 |" in text
    assert "| fashion | 10 | ViT | 0.00 | 0.00 | 0.00 | 0.00 | 0.00 | 0.00 |" in text


def test_the_published_counts_are_those_of_the_printed_rows(grid):
    printed = grid.published()
    assert list(printed.by_source.values()) == [(8, 9), (4, 9), (4, 9), (0, 9)]
    assert (printed.confidnet, printed.gamblers, printed.rows) == (24, 22, 36)


def test_the_plan_has_the_whole_grid(studies, grid):
    plan = Plan.read(studies / "grid" / "plan.toml")
    assert plan.seeds == (0, 1, 2)
    assert plan.tune
    # 4 sets x 2 backbones x (2 paradigms and 2 rewards) x (no dropout, dropout, dropout with passes)
    assert len(plan.sources) == 4 * 2 * 4 * 3
    assert set(plan.groups.values()) == {f"{data}/{b}" for data in grid.CLASSES for b in grid.BACKBONES}
    trained = {name for name in plan.sources if "passes" not in name}
    assert len(trained) * len(plan.seeds) == 192
    for source in plan.sources.values():
        assert Counter(file.regime for file in source.outliers.values()) == {"near": 2, "mid": 2, "far": 2}
        assert grid.network(source.name).passes == (source.network.passes > 0)
    assert len(plan.scores) == 21


def test_the_committed_comparison_follows_from_the_committed_means(studies, grid):
    with (studies / "grid" / "results.csv").open(encoding="utf-8") as stream:
        table = list(csv.DictReader(stream))
    best = {}
    for line in table:
        for column in ("test", *(f"{regime} {i}" for regime in ("near", "mid", "far") for i in (1, 2))):
            key = (line["set"], line["backbone"], column, line["passes"])
            best[key] = min(best.get(key, np.inf), float(line[column]))
    lower = Counter()
    for (data, backbone, column, passes), value in best.items():
        if passes == "0":
            lower[data] += value < best[data, backbone, column, "1"]
    committed = Agreement.read(studies / "grid" / "comparison.json").parts[0].checks
    counts = next(check.ours for check in committed if check.what.startswith("passes help more"))
    # means are rounded to two decimals, so that a row may be tied here
    assert [int(part.split(" of ")[0]) for part in counts.split(", ")] == pytest.approx(
        [lower[data] for data in grid.CLASSES if data in lower], abs=1
    )


@pytest.fixture(scope="module")
def committed_tables(studies):
    """Rows of the committed tables.md, by the start of the heading."""
    found, heading = {}, ""
    for line in (studies / "grid" / "tables.md").read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            heading = line.removeprefix("## ").partition(":")[0]
        elif line.startswith("| ") and not line.startswith(("| backbone", "| set", "|---")):
            found.setdefault(heading, []).append(line.strip("| ").split(" | "))
    return found


def committed_part(studies, title):
    (part,) = (p for p in Agreement.read(studies / "grid" / "comparison.json").parts if p.title.startswith(title))
    return part


def shape_of(grid, tables):
    keys = {title: key for key, title in grid.BACKBONES.items()}
    return {
        (data, keys[backbone], projection, quantity): float(value)
        for backbone, data, projection, *values in tables["Table 7"] if len(values) == len(grid.COLLAPSE)
        for quantity, value in zip(grid.COLLAPSE, values, strict=True)
    }  # fmt: skip


def test_the_committed_findings_of_table_7_follow_from_the_committed_table(studies, grid, committed_tables):
    shape = shape_of(grid, committed_tables)
    assert len(shape) == 2 * 4 * 3 * 5
    assert grid.collapse_part(shape) == committed_part(studies, "Table 7")


def test_projections_change_variability_a_hundredfold_and_in_the_paper_threefold(grid, committed_tables):
    shape = shape_of(grid, committed_tables)
    none, projected = (shape["symbols", "vgg13", p, "variability"] for p in ("none", "global"))
    assert none / projected == pytest.approx(107, abs=0.5)
    none, projected = (shape["cifar10", "small_vit", p, "variability"] for p in ("none", "global"))
    assert projected / none == pytest.approx(9.7, abs=0.05)
    printed = [(0.0079, 0.0259), (0.0021, 0.0044), (0.0124, 0.0162), (0.0372, 0.0806), (0.0372, 0.0289)]
    assert max(max(a / b, b / a) for a, b in printed) == pytest.approx(grid.PUBLISHED_FACTOR, abs=0.05)


def test_the_committed_choices_follow_from_the_committed_tables(studies, grid, committed_tables):
    keys = {title: key for key, title in grid.BACKBONES.items()}
    wins, rewards = {}, {}
    for data, _, backbone, *cells, _ in committed_tables["Tables 8 and 9"]:
        for paradigm, cell in zip(grid.PARADIGMS, cells, strict=True):
            won, n = (int(number) for number in cell.split(" (")[0].split(" of "))
            wins[data, keys[backbone], paradigm] = {str(i): i < won for i in range(n)}
    for data, _, backbone, three, fifteen, _ in committed_tables["Table 10"]:
        net = grid.Network(data, keys[backbone], "deep_gamblers", False, False)
        chosen = [3.0] * int(three) + [15.0] * int(fifteen)
        rewards |= {(net, str(i)): reward for i, reward in enumerate(chosen)}
    assert grid.choices.choices_part(wins, rewards) == committed_part(studies, "Tables 8 to 10")


def test_fifty_passes_are_better_than_ten_and_mostly_worse_than_none(studies):
    with (studies / "grid" / "passes.csv").open(encoding="utf-8") as stream:
        table = [[float(row[name]) for name in ("at rest", "10 passes", "50 passes")] for row in csv.DictReader(stream)]
    assert len(table) == 21
    assert sum(fifty < ten for _, ten, fifty in table) == 18
    assert sum(rest < fifty for rest, _, fifty in table) == 17


def test_the_plan_of_more_passes_shares_its_trainings_with_the_plan(studies, data):
    def trained(file):
        return {cell.key for cell in expand(Plan.read(studies / "grid" / file))[0] if cell.task == "train"}

    assert trained("passes.toml") <= trained("plan.toml")


def test_the_table_of_passes_has_the_lowest_augrc_of_each_way(study, tmp_path):
    path = "letters/vgg13/{}/dropout 0.2{}"
    lines = [("confidnet", "", "", 0.03), ("devries", "", "", 0.02), ("devries", "/10 passes", "", 0.05),
             ("devries", "/50 passes", "", 0.04), ("confidnet", "", "mnist", 0.06),
             ("confidnet", "/10 passes", "mnist", 0.07), ("confidnet", "/50 passes", "mnist", 0.08)]  # fmt: skip
    with (tmp_path / "results.csv").open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["model", "outlier", "metric", "value"])
        writer.writerow([path.format("devries", ""), "", "auroc", 0.001])  # another metric, which must not count
        writer.writerows(
            [path.format(paradigm, way), outlier, "augrc", value] for paradigm, way, outlier, value in lines
        )
    assert study("grid", "passes").best(tmp_path / "results.csv") == [
        {"set": "letters", "outliers": "test", "at rest": "20.00", "10 passes": "50.00", "50 passes": "40.00"},
        {"set": "letters", "outliers": "mnist", "at rest": "60.00", "10 passes": "70.00", "50 passes": "80.00"},
    ]


# -- the plan of the grid at full size --------------------------------------------------------------------------------

GROUPS = {  # Table 1 of the paper: near, mid, far
    "cifar10": ("cifar100 tinyimagenet", "isun lsun_resize lsun_crop svhn", "places365 dtd"),
    "supercifar100": ("cifar10 tinyimagenet", "isun lsun_resize lsun_crop svhn", "places365 dtd"),
    "cifar100": ("cifar10 tinyimagenet", "isun lsun_resize lsun_crop svhn", "places365 dtd"),
    "tinyimagenet": ("cifar10 cifar100 isun lsun_resize lsun_crop", "places365 dtd", "svhn"),
}


def test_the_full_plan_is_the_grid_of_the_paper(studies):
    content = read_toml(studies / "grid" / "full.toml")
    Plan.read(studies / "grid" / "full.toml")
    found, seeds = networks(content)
    trainings = {network.name.removesuffix("/50 passes") for network in found}
    # 4 sets x 2 backbones x (ConfidNet, DeVries, 6 rewards) x with and without dropout, five seeds
    assert len(trainings) * len(seeds) == 4 * 2 * (1 + 1 + 6) * 2 * 5
    assert len(found) == len(trainings) * 3 // 2  # passes need dropout
    for network in found:
        data = network.group.partition("/")[0]
        regimes = {name: regime for regime, names in zip(("near", "mid", "far"), GROUPS[data], strict=True)
                   for name in names.split()}  # fmt: skip
        assert network.regimes == regimes, network.name
    assert {len(content["scores"]), len(set(content["scores"]))} == {21}


@pytest.fixture
def small_vit(tmp_path):
    """A ViT of one block with random weights, in the format of the package transformers."""
    transformers = pytest.importorskip("transformers")
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    config = transformers.ViTConfig(
        hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32, image_size=32, patch_size=16
    )
    transformers.ViTModel(config, add_pooling_layer=False).save_pretrained(tmp_path)
    return tmp_path


def test_the_backbone_of_the_full_plan_learns_and_is_asked(study, small_vit):
    import torch

    from caveat.nn import extract
    from caveat_lab.networks import fit_classifier
    from caveat_lab.networks.training import dropout_mean

    module = study("grid", "pretrained_vit")
    net = module.network((3, 8, 8), 3, dropout=0.5, folder=str(small_vit))
    kept = next(iter(net.body.parameters()))
    labels = torch.arange(60) % 3
    images = torch.rand(60, 3, 8, 8) * 0.3 + labels[:, None, None, None] / 3
    before = kept.detach().clone()
    trained = fit_classifier(net, (images, labels), "devries", epochs=10, learning_rate=3e-3, progress=False)
    assert not torch.equal(before, kept)  # fine-tuned, not frozen
    outputs = trained.outputs(images)
    assert outputs.features.shape == (60, 16)
    np.testing.assert_allclose(outputs.head.logits(outputs.features), outputs.logits, atol=1e-5)
    passes = dropout_mean(trained, images, passes=4, rng=np.random.default_rng(0))
    assert np.abs(passes.logits - outputs.logits).max() > 1e-3
    assert extract(trained.paradigm.classifier(trained.model), [images]).logits.shape == (60, 3)


def test_the_backbone_of_the_full_plan_names_what_is_missing(study, tmp_path):
    module = study("grid", "pretrained_vit")
    with pytest.raises(InputError, match="folder must hold a pretrained ViT"):
        module.network((3, 32, 32), 10, folder=str(tmp_path))


def test_projections_bring_kernel_pca_to_the_top_of_the_small_vit_and_not_gradnorm(studies):
    with (studies / "grid" / "projected.csv").open(encoding="utf-8") as stream:
        found = list(csv.DictReader(stream))
    assert len(found) == 12
    counts = {
        (name, how): sum(row[f"{name}: {how}"] == "True" for row in found)
        for name in ("gradnorm", "kpca_error")
        for how in ("in the top clique", "without projections")
    }
    assert counts == {
        ("gradnorm", "in the top clique"): 1, ("gradnorm", "without projections"): 0,
        ("kpca_error", "in the top clique"): 11, ("kpca_error", "without projections"): 8,
    }  # fmt: skip
    best = Counter(row["kpca_error: best form"] for row in found)
    assert best["kpca_error class_pred"] > len(found) / 2


def test_the_summary_of_the_projections_ranks_each_form_as_a_method(study):
    module = study("grid", "projected")
    rows = [
        {"data": "letters", "regime": "near", "block": block, "method": method, "value": value + shift}
        for block, shift in enumerate(np.linspace(0, 1, 12))
        for method, value in {
            "gradnorm": 9.0,
            "gradnorm global": 5.0,
            "kpca_error": 2.0,
            "kpca_error class_pred": 1.0,
        }.items()
    ]
    (row,) = module.cliques(rows)
    assert (row["kpca_error: best form"], row["kpca_error: place"]) == ("kpca_error class_pred", 1)
    assert (row["gradnorm: best form"], row["gradnorm: place"], row["gradnorm: in the top clique"]) == (
        "gradnorm global",
        3,
        False,
    )
