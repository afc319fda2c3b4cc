"""The page says what the evaluation says, is one file, and shows odd input as text."""

from __future__ import annotations

import itertools
import re
from dataclasses import replace

import numpy as np
import pytest

from caveat import report
from caveat.metrics.selective import RiskCurve
from caveat.study import Evaluation


@pytest.fixture(scope="module")
def source(evaluation) -> str:
    return report.render_html(evaluation)


@pytest.fixture(scope="module")
def page(source, parse):
    return parse(source)


def test_the_ranking_holds_the_numbers_of_the_evaluation(page, evaluation):
    rows = [row for row in page.values("ranking-table") if row]
    expected = [
        [line.rank, line.mean_auroc.value, line.p_value, line.auroc_band.lower]
        + [evaluation.detection(line.score, name).auroc.value for name in evaluation.outliers]
        for line in evaluation.ranking
    ]
    assert rows == expected


def test_the_table_by_set_holds_the_numbers_of_the_evaluation(page, evaluation):
    rows = [row for row in page.values("detection-table") if row]
    expected = []
    for name in evaluation.outliers:
        for line in evaluation.ranking:
            found = evaluation.detection(line.score, name)
            numbers = (found.fpr_outlier_positive, found.fpr_inlier_positive, found.augrc)
            expected.append(
                [line.rank, found.auroc.value, found.auroc_band.lower, *(number.value for number in numbers)]
            )
    assert rows == expected


def test_the_two_false_positive_rates_are_told_apart(page):
    heads = [text for _, text in page.tables["detection-table"][0]]
    assert heads[4].startswith("Inliers rejected when 95\xa0% of outliers are caught")
    assert heads[5].startswith("Outliers accepted when 95\xa0% of inliers are kept")


def test_what_is_printed_is_what_is_stored(page, evaluation):
    cell = page.tables["detection-table"][2][6]
    augrc = evaluation.detection(evaluation.best.score, "near").augrc
    assert cell[1] == f"{1000 * augrc.value:.1f} [{1000 * augrc.lower:.1f}, {1000 * augrc.upper:.1f}]"
    assert cell[0]["title"] == str(augrc)


def test_bands_that_overlap_the_best_are_marked(page, evaluation):
    rows = page.tables["ranking-table"][1:]
    marked = [any("overlaps" in text for _, text in row) for row in rows]
    assert marked == [line.overlaps_best and line is not evaluation.best for line in evaluation.ranking]
    assert any(marked)


def test_a_band_that_overlaps_is_a_tie_and_the_paired_test_stands_beside_it(evaluation, parse):
    first, second, third, fourth = evaluation.ranking
    lines = [
        first,
        replace(second, rank=2, told_apart=True, overlaps_best=True, p_value=0.01),
        replace(third, rank=3, told_apart=True, overlaps_best=False, p_value=0.001),
        replace(fourth, rank=4, told_apart=True, overlaps_best=False, p_value=0.001),
    ]
    page = parse(report.render_html(replace(evaluation, ranking=tuple(lines))))
    rows = page.tables["ranking-table"][1:]
    assert [row[0][1] for row in rows] == ["1 tied", "2 tied", "3", "4"]
    assert [row[3][1] for row in rows] == ["best", "0.010 told apart", "0.001", "0.001"]


def test_misclassification_is_ordered_by_augrc(page, evaluation):
    rows = [row for row in page.values("error-table") if row]
    found = sorted(evaluation.misclassifications, key=lambda row: row.augrc.value)
    assert rows == [[row.augrc.value, row.auroc.value] for row in found]


def test_sets_parameters_and_versions_are_there(page, evaluation):
    rows = [[text for _, text in row] for table in page.tables.values() for row in table]
    assert ["seed", "0", "of the split into halves and of the bootstrap"] in rows
    assert ["alpha", "0.1", "allowed error of the prediction sets"] in rows
    for name, version in evaluation.versions.items():
        assert [name, version, "version"] in rows
    stored = {a["data-value"] for table in page.tables.values() for row in table for a, _ in row if "data-value" in a}
    assert str(evaluation.sets.coverage.value) in stored
    assert str(evaluation.sets.promised) in stored
    for facts in evaluation.data:
        assert any(row[:3] == [facts.role, facts.name, f"{facts.n:,}"] for row in rows)


def test_every_picture_and_table_is_described(page):
    pictures = [attrs for tag, attrs in page.tags if tag == "svg" and attrs.get("class") == "figure"]
    assert len(pictures) == 2 + 4 + 1 + 3 + 2  # ROC, histograms, coverage, set sizes, risks
    ids = [attrs["id"] for _, attrs in page.tags if "id" in attrs]
    assert len(ids) == len(set(ids))
    for attrs in pictures:
        assert attrs["role"] == "img"
        assert set(attrs["aria-labelledby"].split()) <= set(ids)
    count = [tag for tag, _ in page.tags].count
    assert count("table") == count("caption") == 6  # ranking, by set, coverage, errors, data, run: none was skipped
    assert all("scope" in attrs for tag, attrs in page.tags if tag == "th")
    assert count("h1") == 1
    levels = [int(tag[1]) for tag, _ in page.tags if re.fullmatch("h[1-6]", tag)]
    assert all(after - before <= 1 for before, after in itertools.pairwise(levels))


def test_it_is_one_file_that_fetches_nothing(source, page):
    assert "http://" not in source
    assert "https://" not in source
    for tag, attrs in page.tags:
        assert tag not in {"link", "img", "iframe", "object", "embed", "base"}
        assert "src" not in attrs
        for name in ("href", "xlink:href"):
            assert attrs.get(name, "#").startswith("#")
    assert "@import" not in source
    assert set(re.findall(r"url\(([^)]{0,2})", source)) <= {"#p"}


def test_links_lead_somewhere(page):
    ids = {attrs["id"] for _, attrs in page.tags if "id" in attrs}
    targets = {attrs["href"][1:] for tag, attrs in page.tags if tag == "a"}
    assert targets
    assert targets <= ids


def test_the_same_evaluation_gives_the_same_bytes(evaluation, source):
    assert report.render_html(evaluation) == source


def test_writing_leaves_one_whole_file(evaluation, source, tmp_path):
    path = tmp_path / "new" / "report.html"
    report.write_html(evaluation, path)
    assert path.read_bytes() == source.encode()
    assert [file.name for file in path.parent.iterdir()] == ["report.html"]


def strongs(source: str) -> list[str]:
    return re.findall(r"<strong>(.*?)</strong>", source)


def retied(evaluation: Evaluation, tied: bool) -> Evaluation:
    first, second, *rest = evaluation.ranking
    p_value = 0.4 if tied else 0.001
    second = replace(second, rank=1 if tied else 2, told_apart=not tied, overlaps_best=tied, p_value=p_value)
    rest = [replace(line, rank=3 + i, told_apart=True, overlaps_best=False) for i, line in enumerate(rest)]
    return replace(evaluation, ranking=(first, second, *rest))


def test_only_a_best_score_that_stands_alone_is_bold(evaluation):
    alone = retied(evaluation, False)
    best = alone.best
    assert strongs(report.render_html(alone)) == [best.score, f"{best.mean_auroc.value:.3f}"]


def test_nothing_is_bold_among_ties(evaluation, parse):
    source = report.render_html(retied(evaluation, True))
    assert strongs(source) == []
    ranks = [row[0][1] for row in parse(source).tables["ranking-table"][1:]]
    assert ranks == ["1 tied", "1 tied", "3", "4"]


def test_without_labels_the_page_says_what_is_missing(unlabelled, parse):
    page = parse(report.render_html(unlabelled))
    assert "errors were not looked at" in page.text
    assert "Prediction sets were not made" in page.text
    assert "error-table" not in page.tables
    assert [text for _, text in page.tables["detection-table"][0]][-1].startswith("Outliers accepted")
    assert "knn" in page.text
    assert "needs training outputs" in page.text


def test_names_are_shown_and_never_run(run, parse):
    evil, long = "<script>alert(1)</script>", "a_long_name_" * 12
    title = "<img src=x onerror=alert(2)>"
    source = report.render_html(run({evil: 1.0, long: 2.0, "$x_1": 0.0}, n=60, names=["msp"], title=title))
    page = parse(source)
    assert [tag for tag, _ in page.tags].count("script") == 1
    assert "img" not in [tag for tag, _ in page.tags]
    assert page.text.count(evil) >= 5
    assert long in page.text
    assert title in page.text


def test_one_score_and_one_set(run, parse):
    page = parse(report.render_html(run({"far": 2.0}, n=60, names=["energy"])))
    heads = [text for _, text in page.tables["ranking-table"][0]]
    assert heads == ["Rank", "Score", "Guaranteed band of the AUROC", "AUROC far"]
    assert "outlier-filter" not in [attrs.get("id") for _, attrs in page.tags]


def test_constant_scores(evaluation):
    flat = {name: {k: np.zeros_like(v) for k, v in values.items()} for name, values in evaluation.strangeness.items()}
    source = report.render_html(replace(evaluation, strangeness=flat))
    assert "nan" not in " ".join(re.findall(r' d="[^"]*"', source))


def test_caveats_stand_under_the_table(evaluation, parse):
    weak = replace(evaluation.best.mean_auroc, caveat="This rests on few samples.")
    first = replace(evaluation.best, mean_auroc=weak)
    page = parse(report.render_html(replace(evaluation, ranking=(first, *evaluation.ranking[1:]))))
    assert "a This rests on few samples." in page.text


def test_forty_scores_on_twelve_sets_stay_small(crowd_source, parse):
    page = parse(crowd_source)
    assert len(crowd_source.encode()) < 1_500_000
    assert len(page.tables["ranking-table"]) == 41
    assert len(page.tables["ranking-table"][0]) == 5 + 12
    assert len(page.tables["detection-table"]) == 1 + 12 * 41
    assert "The 6 leading scores of 40 are drawn; the tables hold all of them." in page.text


def test_a_million_samples_stay_small(evaluation):
    rng, n = np.random.default_rng(0), 1_000_000
    big = {"inlier": rng.normal(size=n), "near": rng.normal(0.5, size=n), "far": rng.normal(2, size=n)}
    rising = np.sort(rng.random(n))
    curve = RiskCurve(np.linspace(0, 1, n), rising / 5, rising / 5, threshold=rising)
    ranked = evaluation.ranking[:1]
    failures = tuple(replace(m, curve=curve) for m in evaluation.misclassifications if m.score == ranked[0].score)
    huge = replace(evaluation, ranking=ranked, strangeness={ranked[0].score: big}, misclassifications=failures)
    assert len(report.render_html(huge).encode()) < 120_000
