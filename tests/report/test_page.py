"""The page: what it shows for an evaluation, a study, certificates and odd names; it is safe and repeatable."""

from __future__ import annotations

import base64
import hashlib
import re
from dataclasses import replace

import pytest

from caveat.evaluation.records import Left, Method
from caveat.report import render_report


@pytest.fixture(scope="module")
def pages(findings, without_outliers, unlabeled, study, odd, certified) -> dict[str, tuple[str, str, str]]:
    kinds = {"plain": findings, "without": without_outliers, "unlabeled": unlabeled, "study": study, "odd": odd,
             "certified": certified}  # fmt: skip
    return {name: render_report(found) for name, found in kinds.items()}


def section(page: str, key: str) -> str:
    return page[page.index(f'<section id="{key}"') :].partition("</section>")[0]


def cards(page: str) -> list[str]:
    return re.findall(r'<section class="card (\w+)', page)


def test_the_first_screen_holds_decision_ranking_caught_and_threshold(pages, evaluation):
    page, decision = pages["plain"][0], evaluation.decision
    assert cards(page) == ["decision", "forest", "caught", "threshold"]
    text = re.sub("<[^>]+>", "", page)
    assert f"{decision.threshold:.5g}".replace("-", "−") in text
    wanted = (
        "At most 5 % of in-distribution inputs are rejected", "95 % confidence", "120 calibration samples",
        "Errors among the accepted: nothing can be promised at 5 %", "hold the true class in at least 90 % of cases",
        "Nothing is promised about outliers",
    )  # fmt: skip
    for words in wanted:
        assert words in text.replace("\xa0", " ")


def test_the_chosen_score_is_said_to_be_chosen_on_the_same_outliers_unless_confirmed(pages, odd):
    assert "on these same outliers" in pages["odd"][0]
    assert "--confirm" in pages["odd"][0]
    first = pages["plain"][0].partition("<nav")[0]
    assert "on these same outliers" not in first
    assert "no part in the choice" in first


def test_sections_come_in_their_order(pages):
    keys = re.findall(r'<section id="(\w+)"', pages["plain"][0])
    assert keys == ["roc", "risk", "histograms", "sets", "numbers", "data", "methods", "repeat"]


def test_without_outliers_nothing_is_empty(pages):
    page = pages["without"][0]
    assert cards(page) == ["decision", "forest", "caught", "threshold"]
    assert "Risk and coverage" in page
    assert '<section id="roc"' not in page
    assert "no outliers were given" in page
    assert not re.search(r'<div class="panels[^>]*>\s*</div>', page)


def test_without_labels_there_are_no_promises_on_errors_and_sets(pages):
    first = pages["unlabeled"][0].partition("<nav")[0]
    assert "accepted answers" not in first
    assert "Accuracy" not in first
    assert '<section id="sets"' not in pages["unlabeled"][0]


def test_a_study_shows_the_rank_test_the_groups_and_one_decision_per_model(pages, parse):
    page = pages["study"][0]
    assert cards(page) == ["decisions", "forest", "verdict"]
    assert "Friedman, then Conover-Holm" in page
    rows = parse(page).tables["first-decisions-table"]
    assert [row[0][1] for row in rows[1:]] == ["resnet, seed 0", "resnet, seed 1", "vgg, seed 0", "vgg, seed 1"]
    keys = re.findall(r'<section id="(\w+)"', page)
    assert keys[:2] == ["differences", "cliques"]
    assert "ValueError: no" in page
    assert "A note." in page


def test_one_model_gives_the_same_page_whatever_it_is_called_and_in_any_order(findings, pages):
    def named(record):
        return replace(record, block=replace(record.block, model="another"))

    (unit,) = findings.assessments
    other = replace(findings, records=[named(r) for r in reversed(findings.records)], title="Other", plan="x = 1",
                    assessments={("another", unit[1]): findings.assessments[unit]})  # fmt: skip
    one, two = pages["plain"][0], render_report(other)[0]
    assert (
        one.partition("<main>")[2].partition('<section id="repeat"')[0]
        == two.partition("<main>")[2].partition('<section id="repeat"')[0]
    )


def test_the_same_findings_give_the_same_bytes(findings, study, pages):
    assert render_report(findings) == pages["plain"]
    assert render_report(study) == pages["study"]


@pytest.mark.parametrize("name", ["plain", "without", "unlabeled", "study", "odd", "certified"])
def test_pages_are_well_formed_fetch_nothing_and_allow_one_script(pages, parse, name):
    page = pages[name][0]
    found = parse(page)
    ids = [attrs["id"] for _, attrs in found.tags if attrs.get("id")]
    assert len(ids) == len(set(ids))
    assert all(not str(attrs.get(key, "#")).startswith("http") for _, attrs in found.tags for key in ("href", "src"))
    (script,) = re.findall("<script>(.*?)</script>", page, flags=re.S)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in page


@pytest.mark.parametrize("name", ["plain", "study", "certified"])
def test_every_figure_has_a_title_and_a_description(pages, parse, name):
    tags = parse(pages[name][0]).tags
    charts = [attrs for tag, attrs in tags if tag == "svg" and "chart" in (attrs.get("class") or "")]
    ids = {attrs.get("id") for tag, attrs in tags if tag in ("title", "desc")}
    assert charts
    for attrs in charts:
        assert attrs["role"] == "img"
        assert set(attrs["aria-labelledby"].split()) <= ids


def test_names_stay_text_in_all_formats(pages, parse):
    page, markdown, latex = pages["odd"]
    assert len([tag for tag, _ in parse(page).tags if tag == "script"]) == 1
    assert "<i>odd" not in page
    assert "<script>" not in markdown
    assert "a\\|b" in markdown
    assert "\\input" not in latex


def test_numbers_of_the_page_are_those_of_the_evaluation(pages, parse, evaluation):
    rows = parse(pages["plain"][0]).tables["caught-table"][1:]
    shares = {c.outlier: c.share.value for c in evaluation.decision.caught}
    assert {row[0][1]: float(row[2][0]["data-value"]) for row in rows} == pytest.approx(shares)
    ranked = parse(pages["plain"][0]).tables["ranking-table"][1:]
    assert [row[1][1].removesuffix(" (chosen)") for row in ranked] == list(evaluation.ranking.methods)
    assert [float(row[0][0]["data-value"]) for row in ranked] == [
        evaluation.ranking.rank(name) for name in evaluation.ranking.methods
    ]


def test_words_are_few(pages):
    page = re.sub(r"<(table|svg|style|script|option).*?</\1>", " ", pages["plain"][0], flags=re.S)
    assert len(re.sub("<[^>]+>", " ", page).split()) < 1500


def test_scores_that_were_left_out_are_named_once(findings):
    left = [Left(findings.records[0].block, Method("gram"), "needs layers")]
    page = render_report(
        replace(findings, records=[*findings.records, *left], notes=["gram left out (needs layers)."])
    )[0]
    assert page.count("needs layers") == 1


def test_certificates_say_what_no_attack_can_do(pages):
    page = pages["certified"][0].replace("\xa0", " ")
    assert "robust: accuracy 97.0 %. Certified to tell apart (GAUC of 0.9 or more): noise." in page
    assert "plain: accuracy 97.0 %. No useful promise (GAUC below 0.5): noise." in page
    assert "holds in all 4 comparisons" in page
    assert "nan" not in section(page, "repeat")


def test_a_violated_order_of_the_areas_is_an_alarm(certified):
    wrong = replace(certified, records=[replace(certified.records[0], aauc=0.999), *certified.records[1:]])
    page = render_report(wrong)[0]
    assert "! GAUC ≤ AAUC ≤ AUC is violated: plain on noise" in page
