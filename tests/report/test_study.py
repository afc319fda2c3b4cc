"""The page of a study says what the store says, is one file, shows odd names as text; md and tex hold its numbers."""

from __future__ import annotations

import itertools
import json
import re

import numpy as np
import pytest

from caveat import report
from caveat.errors import InputError
from caveat.report import words
from caveat.report.study import all_verdicts, read_study, render_study
from caveat.report.study_verdicts import mean_over
from caveat.study import Cell, Plan, Store, StudyResults, run
from caveat.study.schema import make_row

SECTIONS = ["ranking", "cliques", "differences", "roc", "risk", "histograms", "sets", "certificates", "collapse",
            "proximity", "failures", "reading", "run"]  # fmt: skip


@pytest.fixture(scope="module")
def facts(small_study):
    return read_study(StudyResults(small_study))


@pytest.fixture(scope="module")
def rendered(facts):
    return render_study(facts)


@pytest.fixture(scope="module")
def page(rendered, parse):
    return parse(rendered[0])


def test_every_section_is_there_in_order(page):
    assert [attrs["id"] for tag, attrs in page.tags if tag == "section"] == SECTIONS


def test_the_ranking_holds_the_numbers_of_the_store(page, facts):
    verdict = all_verdicts(facts)["auroc", "", "all"]
    rows = [row for row in page.values("ranking-table") if row]
    assert len(rows) == len(verdict.order) == 8
    for (_, rank, mean, _), label in zip(rows, verdict.order, strict=True):
        blocks = [facts.numbers[block, label, "auroc"].value for block in verdict.blocks]
        assert rank == verdict.comparison.average_ranks[label]
        assert mean == pytest.approx(np.mean(blocks), abs=1e-12)
    names = [row[1][1] for row in page.tables["ranking-table"][1:]]
    assert names == list(verdict.order)


def test_the_table_by_set_holds_the_numbers_of_the_store(page, facts):
    order = all_verdicts(facts)["auroc", "", "all"].order
    rows = [row for row in page.values("numbers-table") if row]
    expected = []
    for source, outlier in facts.sets:
        for label in order:
            blocks = facts.blocks_of(source, outlier)
            names = ("auroc", "augrc", "aurc", "fpr95_outlier_positive", "fpr95_inlier_positive")
            expected.append([mean_over(facts, blocks, label, name).value for name in names])
    assert [[row[0], *row[2:]] for row in rows] == expected


def test_markdown_and_latex_hold_the_numbers_of_the_page(page, rendered):
    _, markdown, latex = rendered
    compared = ("ranking", "regimes", "metrics", "numbers", "models", "sets", "certificates", "collapse", "proximity")
    for key in compared:
        table = page.tables[f"{key}-table"][1:]
        texts = [" ".join(text.split()) for row in table for attrs, text in row if "data-value" in attrs]
        assert texts
        numbers = [re.findall(r"[\d.]+", text) for text in texts]
        flat = list(itertools.chain.from_iterable(numbers))
        title = {"ranking": "Ranking", "regimes": "AUROC by regime", "metrics": "Every metric",
                 "numbers": "Every number, by outlier set", "models": "Models", "sets": "Prediction sets",
                 "certificates": "Certificates", "collapse": "Neural collapse",
                 "proximity": "How far the outlier sets lie"}[key]  # fmt: skip
        written = markdown[markdown.index(f"\n## {title}\n") :].split("\n## ", 2)[1]
        rows = [line.split("|") for line in written.splitlines() if line.startswith("| ") and "---" not in line]
        heads = rows[0]
        found = [cell for row in rows if row != heads for cell in row[1:-1]]
        said = [re.findall(r"[\d.]+", re.sub(r"<sup>.*?</sup>", "", cell)) for cell in found]
        assert flat == [n for cell, numbers in zip(found, said, strict=True) if _is_number(cell) for n in numbers]
        start = latex.index(rf"\label{{tab:{key}}}")
        typeset = latex[start : latex.index(r"\end{longtable}", start)]
        for number in set(flat):
            assert number in typeset


def _is_number(cell: str) -> bool:
    return re.fullmatch(r"(\*\*)?(&[lg]t;)?[−\d\[].*", cell.strip()) is not None


def test_nothing_is_bold_that_is_not_alone(page, rendered, facts):
    verdicts = all_verdicts(facts)
    bold = re.findall(r"<strong>(.*?)</strong>", rendered[0])
    alone = [v for (_, source, _), v in verdicts.items() if v.alone and not source]
    assert bool(bold) == bool(alone)
    assert len(bold) <= 2 * len(alone) + 2
    assert set(re.findall(r"\*\*(.*?)\*\*", rendered[1])) == {
        re.sub("<wbr>", "", text).replace("\xa0", " ") for text in bold
    }


def test_nothing_is_bold_among_ties(study_store, tmp_path):
    tied = study_store(tmp_path / "run", scores={"knn": 1.0, "vim": 1.0, "energy": 1.0}, sets={"a": "near", "b": "far"})
    assert all(not v.alone or v.by == "bands" for v in all_verdicts(read_study(StudyResults(tied))).values())
    source = render_study(read_study(StudyResults(tied)))[0]
    ranking = source[source.index('id="ranking-table"') : source.index("</table>")]
    assert "<strong>" not in ranking
    assert ranking.count("1 tied") == 3


def test_every_picture_and_table_is_described(page):
    pictures = [attrs for tag, attrs in page.tags if tag == "svg" and "figure" in (attrs.get("class") or "")]
    assert len(pictures) > 50
    ids = [attrs["id"] for _, attrs in page.tags if "id" in attrs]
    assert len(ids) == len(set(ids))
    for attrs in pictures:
        assert attrs["role"] == "img"
        assert set(attrs["aria-labelledby"].split()) <= set(ids)
    count = [tag for tag, _ in page.tags].count
    assert count("table") == count("caption")
    assert count("h1") == 1
    levels = [int(tag[1]) for tag, _ in page.tags if re.fullmatch("h[1-6]", tag)]
    assert all(after - before <= 1 for before, after in itertools.pairwise(levels))
    targets = {attrs["href"][1:] for tag, attrs in page.tags if tag == "a"}
    assert targets <= set(ids)


def test_it_is_one_file_that_fetches_nothing(rendered, page):
    source = rendered[0]
    assert "http://" not in source
    assert "https://" not in source
    for tag, attrs in page.tags:
        assert tag not in {"link", "img", "iframe", "object", "embed", "base"}
        assert "src" not in attrs
    assert [tag for tag, _ in page.tags].count("script") == 1
    assert set(re.findall(r"url\((.)", source)) <= {"#"}


def test_the_same_store_gives_the_same_bytes(small_study, rendered, tmp_path):
    files = report.write_study(small_study.folder, tmp_path / "out")
    for path, text in zip((files.html, files.markdown, files.latex), rendered, strict=True):
        assert path.read_bytes() == text.encode()
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == ["report.html", "tables.md", "tables.tex"]


def test_the_title_may_be_chosen(single_study, tmp_path):
    files = report.write_study(single_study, tmp_path, title="Mine & <yours>")
    assert "<h1>Mine &amp; &lt;yours&gt;</h1>" in files.html.read_text(encoding="utf-8")
    assert files.markdown.read_text(encoding="utf-8").startswith("# Mine & &lt;yours&gt;\n")


def test_a_histogram_names_the_auroc_of_the_seed_it_shows(facts, rendered):
    label = all_verdicts(facts)["auroc", "", "all"].best
    block = next(block for block in facts.blocks if block.source == "resnet20" and block.seed == 0 and block.outlier)
    shown = rendered[0].split('id="histogram-list"')[1].split("</details>")[0]
    assert f"AUROC {words.number(facts.numbers[block, label, 'auroc'].value)}" in shown


def test_failures_keys_fingerprints_seeds_and_plan_are_there(page, facts):
    assert "features has NaN, first at row 3." in page.text
    assert all(cell.key in page.text for cell in facts.cells)
    assert all(value in page.text for cell in facts.cells for value in cell.fingerprints.values())
    assert facts.plan in page.text
    rows = [[text for _, text in row] for table in page.tables.values() for row in table]
    assert ["seeds", "0, 1, 2", "of everything random"] in rows
    assert ["numpy", np.__version__, "version"] in rows


def test_one_block_falls_back_to_bands_and_says_so(single_study, parse):
    page = parse(render_study(read_study(StudyResults(single_study)))[0])
    assert "Friedman's test needs at least two blocks" in page.text
    assert "differences" not in [attrs.get("id") for _, attrs in page.tags]
    heads = [text.strip() for _, text in page.tables["ranking-table"][0]]
    assert heads == ["Rank", "Method", "Reads", "AUROC", "Guaranteed band of the AUROC"]
    ranks = [row[0][1] for row in page.tables["ranking-table"][1:]]
    assert ranks == ["1 tied", "1 tied", "3 tied", "3 tied"]


def test_names_are_shown_and_never_run(study_store, tmp_path, parse):
    evil, title = "<script>alert(1)</script>", "<img src=x onerror=alert(2)>"
    store = study_store(tmp_path / "run", scores={"knn": 1.0, "</script><b>": 0.5}, sources=(evil, 'a"b|c'),
                        sets={evil: "near", "$x_1 & $": "far", "long_" * 40: "far"}, title=title,
                        failures=[(evil, evil)])  # fmt: skip
    source, markdown, latex = render_study(read_study(StudyResults(store)))
    page = parse(source)
    tags = [tag for tag, _ in page.tags]
    assert tags.count("script") == 1
    assert "img" not in tags
    assert "b" not in tags
    assert page.text.count(evil) >= 5
    assert title in page.text
    assert "<script" not in markdown
    assert r"\$x\_1 \& \$" in latex


@pytest.mark.parametrize("seeds", [(0,), pytest.param((0, 1, 2), marks=pytest.mark.slow)])
def test_thirty_scores_five_projections_eight_sets_stay_small(large_study, seeds, parse):
    source, _, _ = render_study(read_study(StudyResults(large_study(seeds))))
    assert len(source.encode()) < 6_000_000
    page = parse(source)
    assert len(page.tables["ranking-table"]) == 151
    assert len(page.tables["numbers-table"]) == 1 + 8 * 151
    assert "The 6 leading methods of 150 are drawn" in page.text


def test_a_store_without_results_gets_one_sentence(tmp_path):
    store = Store(tmp_path / "run")
    store.prepare(Plan.parse("[sources.a]\ninlier = 'a.npz'\n"), [Cell("score", {})])
    with pytest.raises(InputError, match="nothing to report: none of its cells has a result"):
        report.write_study(store)
    with pytest.raises(InputError, match="does not exist"):
        report.write_study(tmp_path / "nowhere")


def test_a_task_with_columns_of_its_own_gets_one_sentence(tmp_path):
    store, cell = Store(tmp_path / "run"), Cell("run.py:one", {"k": 1})
    store.prepare(Plan.from_dict({"task": {"run": "run.py:one"}, "grid": {"k": [1]}}), [cell])
    store.write(cell, [{"k": 1, "error": 0.5}])
    with pytest.raises(InputError, match="columns of its own, which have no report.*caveat compare"):
        report.write_study(store)


def test_a_real_run_has_a_report(tmp_path, make_outputs, parse):
    for i, (name, shift) in enumerate({"train": 0, "val": 0, "test": 0, "close": 1.0, "away": 3.0}.items()):
        make_outputs(seed=i, n=300, shift=shift).save(tmp_path / f"{name}.npz")
    (tmp_path / "plan.toml").write_text(
        'title = "Real"\nscores = ["msp", "energy", {name = "knn", k = [5, 20]}]\nprojections = ["none", "global"]\n'
        "resamples = 50\n[sources.net]\ntrain = 'train.npz'\ncalibration = 'val.npz'\ninlier = 'test.npz'\n"
        "[sources.net.outliers]\nclose = {path = 'close.npz', regime = 'near'}\n"
        "away = {path = 'away.npz', regime = 'far'}\n",
        encoding="utf-8",
    )
    results = run(Plan.read(tmp_path / "plan.toml"), store=tmp_path / "run")
    assert not results.failures
    files = report.write_study(results)
    page = parse(files.html.read_text(encoding="utf-8"))
    found = [attrs["id"] for tag, attrs in page.tags if tag == "section"]
    assert found == [name for name in SECTIONS if name != "certificates"]
    assert {"knn(k=5)", "knn(k=20)", "energy global"} <= {row[1][1] for row in page.tables["ranking-table"][1:]}
    assert "nan" not in " ".join(re.findall(r' d="[^"]*"', files.html.read_text(encoding="utf-8")))
    assert "data-table" in page.tables


def certificates(epsilon: float, gauc: float = 0.8, source: str = "good") -> list[dict]:
    common = {"source": source, "params": json.dumps({"epsilon": epsilon})}
    rows = [
        make_row("certificate", "accuracy", 0.97, **common),
        make_row("certificate", "mean_confidence", 0.9, **common),
    ]
    values = {"auc": 0.99, "aauc": 0.9, "gauc": gauc, "mean_confidence": 0.2}
    return rows + [make_row("certificate", n, v, outlier="uniform", x=epsilon, **common) for n, v in values.items()]


def test_certificates_alone_have_a_report(tmp_path, parse):
    store, cell = Store(tmp_path / "run"), Cell("run.py:one", {"k": 1})
    store.prepare(Plan.from_dict({"task": {"run": "run.py:one"}, "grid": {"k": [1]}}), [cell])
    store.write(cell, certificates(0.3) + certificates(0.4, gauc=0.7))
    page = parse(render_study(read_study(StudyResults(store)))[0])
    assert "1 model was certified against 1 outlier set. No score was measured." in page.text
    assert [a["id"] for tag, a in page.tags if tag == "section"] == ["certificates", "failures", "reading", "run"]
    # The confidence on inliers is not that on outliers, and each radius has a line of its own.
    found = [[text for _, text in row] for row in page.tables["certificates-table"][2:]]
    assert found == [
        ["good (epsilon=0.3)", "97.0\xa0%", "0.990", "0.900", "0.800", "0.200"],
        ["good (epsilon=0.4)", "97.0\xa0%", "0.990", "0.900", "0.700", "0.200"],
    ]
    store.write(cell, certificates(0.3) + certificates(0.3, gauc=0.95, source="bad"))
    text = parse(render_study(read_study(StudyResults(store)))[0]).text
    assert "2 models were certified" in text
    assert "is violated: bad on uniform" in text


def test_a_method_that_failed_somewhere_keeps_the_numbers_it_has(study_store, tmp_path, parse):
    store = study_store(tmp_path / "run", scores={"knn": 1.5, "msp": 0.5, "energy": 1.0}, seeds=(0, 1))
    lost = next(cell["key"] for cell in StudyResults(store).cells if cell["label"] == "resnet20/seed 1/energy/none")
    store.path(lost).unlink()
    page = parse(render_study(read_study(StudyResults(store)))[0])
    assert "Left out of the ranking, because numbers are missing: energy (6 blocks missing)." in page.text
    assert "1 cell of the plan is not computed yet." in page.text
    assert [row[1][1] for row in page.tables["ranking-table"][1:]] == ["knn", "msp"]
    assert "energy" in {row[0][1] for row in page.tables["numbers-table"]}


def test_without_outlier_sets_the_page_says_who_warns_of_errors(tmp_path, make_outputs, parse):
    for name, seed in (("train", 1), ("inlier", 2)):
        make_outputs(seed=seed, n=300).save(tmp_path / f"{name}.npz")
    source = {"train": "train.npz", "inlier": "inlier.npz"}
    content = {"scores": ["msp", "energy"], "resamples": 20, "sources": {"net": source}}
    plan = Plan.from_dict(content, folder=tmp_path)
    source, markdown, _ = render_study(read_study(run(plan, store=tmp_path / "run")))
    page = parse(source)
    assert len(page.tables["metrics-table"]) == 3
    assert len(page.tables["models-table"]) == 2
    assert "histograms" not in [attrs.get("id") for _, attrs in page.tags]  # there is nothing to tell inliers from
    assert "## Every metric" in markdown


def test_bands_alone_are_on_the_page_as_in_the_tables(tmp_path, make_outputs, parse):
    for name, seed in (("inlier", 2), ("far", 3)):
        make_outputs(seed=seed, n=100).save(tmp_path / f"{name}.npz")
    content = {"scores": ["msp"], "metrics": ["conformal_auroc"],
               "sources": {"net": {"inlier": "inlier.npz", "outliers": {"far": "far.npz"}}}}  # fmt: skip
    results = run(Plan.from_dict(content, folder=tmp_path), store=tmp_path / "run")
    source, markdown, _ = render_study(read_study(results))
    assert "## Every number" in markdown
    assert len(parse(source).tables["numbers-table"]) == 3


def test_whoever_waits_is_told_what_is_done(single_study, tmp_path):
    told = []
    report.write_study(single_study, tmp_path, progress=lambda what, done, steps: told.append((done, steps)))
    assert told == [(0, 3), (1, 3), (2, 3)]
