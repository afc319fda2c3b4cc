from __future__ import annotations

import math

import numpy as np
import pytest

from caveat import InputError
from caveat_lab.papers.agreement import Agreement, Check, compare_findings, compare_numbers


def test_numbers_within_the_tolerance_agree_and_the_others_are_kept_with_their_reason():
    # gaps 0, 0.05 (33.13 - 33.08 is 0.05000000000000426 in floats) and 0.45: two agree within 0.05
    pairs = [("a", 1.0, 1.0, ""), ("b", 33.08, 33.13, ""), ("c", 62.87, 63.32, "a mean")]
    part = compare_numbers("Table 4", pairs, tolerance=0.05, unit="points")
    assert (part.compared, part.agree, part.rule) == (3, 2, "within 0.05 points")
    assert part.largest == pytest.approx(0.45)
    assert part.checks == (Check("c", "62.87", "63.32", False, "a mean"),)


def test_slack_allows_for_the_rounding_of_what_was_published():
    pairs = [("a", 0.70, 0.734, "")]
    assert compare_numbers("t", pairs, tolerance=0.03).agree == 0
    part = compare_numbers("t", pairs, tolerance=0.03, slack=0.005)
    assert part.agree == 1
    assert part.rule == "within 0.03 and half a unit of the last printed digit (0.035)"


def test_nan_does_not_agree():
    assert compare_numbers("t", [("a", 0.5, math.nan, "no valid clusters")], tolerance=1).agree == 0


def test_findings_are_all_kept_or_only_the_differences():
    checks = [Check("a", "yes", "yes", True), Check("b", "yes", "no", False, "other data")]
    assert compare_findings("t", checks).checks == tuple(checks)
    few = compare_findings("t", checks, keep_all=False)
    assert (few.compared, few.agree, few.checks) == (2, 1, (checks[1],))


def test_truths_and_numbers_of_numpy_are_written_too(tmp_path):
    numbers = compare_numbers("t", [("a", np.float64(1), np.float64(2), "why")], tolerance=0.1)
    whole = Agreement((numbers, compare_findings("f", [Check("c", "1", "2", np.bool_(True))])))
    whole.write(tmp_path / "comparison.json")
    assert Agreement.read(tmp_path / "comparison.json").agree == 1


def test_the_whole_counts_its_parts_and_finds_what_nobody_explained():
    numbers = compare_numbers("t", [("a", 1.0, 2.0, "why"), ("b", 1.0, 1.0, "")], tolerance=0.1)
    words = compare_findings("f", [Check("c", "yes", "no", False)])
    whole = Agreement((numbers, words))
    assert (whole.compared, whole.agree) == (3, 1)
    assert whole.sentence == "1 of 3 agree; largest difference 1"
    assert [check.what for check in whole.unexplained] == ["c"]
    assert Agreement((words,)).sentence == "0 of 1 agree"


def test_written_and_read_back(tmp_path):
    numbers = compare_numbers("t", [("a", 1.0, 2.0, "why")], tolerance=0.1)
    whole = Agreement((numbers, compare_findings("f", [Check("c", "é", "no | yes", False, "x")])))
    whole.write(tmp_path / "comparison.json")
    assert Agreement.read(tmp_path / "comparison.json") == whole
    assert whole.parts[1].largest is None  # NaN would make two equal comparisons unequal


def test_another_file_is_refused(tmp_path):
    (tmp_path / "comparison.json").write_text('{"parts": [{"title": "t"}]}')
    with pytest.raises(InputError, match="comparison with published numbers"):
        Agreement.read(tmp_path / "comparison.json")
