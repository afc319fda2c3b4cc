from __future__ import annotations

import json
from pathlib import Path

import pytest

from caveat import InputError
from caveat_lab.geometry import Proximity, buckets

KNOWN = json.loads((Path(__file__).parents[1] / "known" / "paper003_table4.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("source", ["CIFAR-10", "SuperCIFAR-100", "CIFAR-100"])
@pytest.mark.parametrize("seed", [0, 7])
def test_the_published_groups_come_out(source, seed):
    distances = {name: row[:4] for name, row in KNOWN[source].items()}
    assert buckets(distances, seed=seed) == {name: row[4] for name, row in KNOWN[source].items()}


def far(frechet, centroid=None):
    return Proximity(frechet=frechet, mmd=frechet / 10, centroid=centroid, text=None, n_inlier=10, n_outlier=10)


def test_results_of_proximity_are_grouped_and_missing_distances_left_out():
    table = {"a": far(0.1, 0.2), "b": far(1.0), "c": far(1.1, 5.0), "d": far(9.0, 0.3)}
    assert buckets(table) == {"a": "near", "b": "mid", "c": "mid", "d": "far"}


def test_scale_of_a_distance_does_not_matter():
    table = {"a": {"x": 1, "y": 10}, "b": {"x": 2, "y": 30}, "c": {"y": 20, "x": 9}, "d": {"x": 9.5, "y": 21}}
    scaled = {name: {"x": row["x"] * 1e6, "y": row["y"] * 1e-3} for name, row in table.items()}
    assert buckets(table) == buckets(scaled)


def test_groups_can_be_named():
    assert buckets({"a": [1], "b": [2], "c": [9]}, names=("close", "away")) == {"a": "close", "b": "close", "c": "away"}


def test_too_little_is_an_error():
    with pytest.raises(InputError, match="3 buckets need at least as many different data sets, got 2"):
        buckets({"a": [1], "b": [2]})
    with pytest.raises(InputError, match="as many different data sets, got 2"):
        buckets({"a": [1], "b": [2], "c": [2]})
    with pytest.raises(InputError, match="the same number of distances"):
        buckets({"a": [1], "b": [2, 3], "c": [2]})
    with pytest.raises(InputError, match="same distances, but 'b' has"):
        buckets({"a": {"x": 1}, "b": {"y": 1}, "c": {"x": 3}})
    with pytest.raises(InputError, match="must have a list of distances, but 'b' has 2.0"):
        buckets({"a": [1], "b": 2.0, "c": [2]})
    with pytest.raises(InputError, match="must have a list of distances, but 'c' has"):
        buckets({"a": [1], "b": [2.0], "c": ["far"]})
    with pytest.raises(InputError, match="finite for every data set"):
        buckets({"a": [None], "b": [2], "c": [2]})
