"""Metrics: the names of the sheet as Prometheus reads them, the same after a restart; traffic adds no series."""

from __future__ import annotations

import numpy as np
import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.serve.conftest import draw, metrics, serving

import caveat
from caveat.serve.metrics import SECONDS, Requests
from caveat.serve.trail import P_EDGES

FAMILIES = {
    "caveat_verdicts": "counter",
    "caveat_p_value": "histogram",
    "caveat_drift_log10_e": "gauge",
    "caveat_request_seconds": "histogram",
    "caveat_queue_depth": "gauge",
    "caveat_guard_info": "gauge",
}


@pytest.fixture(scope="module")
def life(guards, logit_guard, tmp_path_factory):
    """Metrics of a service after some traffic, and of the same one after a restart; what it was asked."""
    audit = tmp_path_factory.mktemp("metrics") / "audit.sqlite"
    quiet, strange = draw(200, seed=1).logits, np.zeros((50, 3), dtype=np.float32)
    with serving(guards["logits"], audit) as service:
        for rows in (quiet, strange):
            ids = [row["id"] for row in service.post({}, logits=rows).json()["verdicts"]]
        service.client.post("/v1/labels", json={"labels": [{"id": ids[0], "label": 1}]}).raise_for_status()
        for i in range(30):
            service.client.get(f"/nowhere/{i}?{i}")
        service.live(rows=250)
        before, text = metrics(service), service.client.get("/metrics")
    with serving(guards["logits"], audit) as service:
        after = metrics(service)
    return before, after, text, caveat.Outputs(logits=np.concatenate([quiet, strange]))


def test_the_names_of_the_sheet_are_there_with_their_types(life):
    text = life[2]
    assert text.headers["content-type"].startswith("text/plain; version=0.0.4")
    families = {family.name: family for family in text_string_to_metric_families(text.text)}
    assert {name: families[name].type for name in FAMILIES} == FAMILIES
    assert all(family.documentation for family in families.values())
    labels = {name: set(families[name].samples[0].labels) for name in FAMILIES}
    assert labels == {
        "caveat_verdicts": {"verdict"}, "caveat_p_value": {"le"}, "caveat_drift_log10_e": {"stream"},
        "caveat_request_seconds": {"le"}, "caveat_queue_depth": set(), "caveat_guard_info": {"hash", "version"},
    }  # fmt: skip


def test_verdicts_and_p_values_are_those_of_the_guard(life, logit_guard):
    before, verdicts = life[0], logit_guard(life[3])
    for kind, count in verdicts.counts.items():
        assert before["caveat_verdicts_total", kind] == count
    assert before["caveat_p_value_count",] == 250
    assert before["caveat_p_value_sum",] == pytest.approx(verdicts.p_values.sum())
    for edge in P_EDGES:
        assert before["caveat_p_value_bucket", f"{edge:g}"] == (verdicts.p_values <= edge).sum()
    assert before["caveat_p_value_bucket", "+Inf"] == 250
    assert before["caveat_guard_info", logit_guard.fingerprint, caveat.__version__] == 1


def test_a_restart_keeps_what_belongs_to_the_guard(life):
    before, after = life[:2]
    for name, value in before.items():
        if name[0] == "caveat_audit_records_total":
            assert after[name] > value  # the service stopped and started
        elif not name[0].startswith(("caveat_request", "caveat_queue", "caveat_held")):
            assert after[name] == value, name


def test_traffic_makes_no_new_series(life):
    series = {name for name in life[0] if name[0] == "caveat_requests_total"}
    assert ("caveat_requests_total", "other", "404") in series
    assert life[0]["caveat_requests_total", "other", "404"] == 30
    assert {name[1] for name in series} <= {"other", "/v1/verdicts", "/v1/labels", "/v1/live", "/metrics"}


def test_times_fall_into_the_bucket_whose_end_includes_them():
    requests = Requests()
    for seconds in (0.0, SECONDS[0], 0.0011, SECONDS[-1], 100.0):
        requests.add("/", 200, seconds)
    _, histogram = requests.families()
    counts = {sample.labels.get("le"): sample.value for sample in histogram.samples}
    assert (counts["0.001"], counts["0.0025"], counts["5"], counts["10"], counts["+Inf"]) == (2, 3, 3, 4, 5)
