from __future__ import annotations

from dataclasses import replace

import pytest

from caveat.report.groups import backbones, group_panels, group_table
from caveat.report.page import render_report
from caveat.report.verdicts import ERRORS, judge_all
from caveat.report.view import View
from caveat_lab.experiments.study_results import _OF_GROUPS


@pytest.fixture(scope="module")
def grouped(study):
    """Two networks with two seeds each, in two groups of one backbone, with the records that a study keeps of them."""
    kept = [record for record in study.records if isinstance(record, _OF_GROUPS)]
    return replace(study, records=kept, groups={"resnet": "digits/net", "vgg": "letters/net"}, assessments={})


def test_a_group_is_ranked_by_its_own_networks_only(grouped):
    view = View(grouped)
    assert view.groups == {"digits/net": ["resnet"], "letters/net": ["vgg"]}
    verdicts = judge_all(view)
    for group, models in view.groups.items():
        mine = [verdict for (_, model, _), verdict in verdicts.items() if model == group]
        assert mine
        assert {place.model for verdict in mine for place in verdict.places} == set(models)
    assert ("augrc", "digits/net", ERRORS) in verdicts
    assert not [key for key in verdicts if key[1] in ("resnet", "vgg")]


def test_a_map_per_metric_and_backbone_and_a_row_per_group_and_regime(grouped):
    view = View(grouped)
    verdicts = judge_all(view)
    assert backbones(view) == ["net"]
    panels = group_panels(view, verdicts, list(view.methods))
    assert [panel.title.split()[4] for panel in panels] == ["AUGRC", "AURC", "AUROC"]
    assert all(panel.title.startswith("net, top groups by") for panel in panels)
    assert all("digits/net" in panel.description for panel in panels)
    table = group_table(view, verdicts)
    rows = [tuple(cell.text for cell in line[:3]) for line in table.groups[0].lines]
    assert len(rows) == len(set(rows))
    regimes = {regime for _, regime, _ in rows}
    assert regimes == {ERRORS, *view.regime_names}


def test_a_page_of_groups_has_no_curves_and_no_decisions(grouped):
    page, markdown, _ = render_report(grouped)
    assert "Best scores by group and regime" in markdown
    assert 'id="cliques"' in page
    assert 'id="histograms"' not in page
    assert 'class="legend' not in page  # no legend where no curve is drawn
    assert "Decision of every model" not in page
    assert 'data-filter="model"' not in page  # columns are groups
