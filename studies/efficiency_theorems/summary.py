"""results.csv from the rows of the study, and whether the printed examples and theorems hold."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from caveat._internal.result_tables import write_csv
from caveat_lab.papers.agreement import Agreement, Check, compare_findings, compare_numbers

CORNER = (
    "Theorem 4 fails for an object whose largest probability is exactly 1/2, with three or more labels: the theorem "
    "allows this label to conform less than the others. For Q = (1/4, 1/4, 1/2) that order has OM = 1 for epsilon < "
    "1/2, where MSP has 1 - epsilon"
)
ZEROS = (
    "with three or more labels, a label of probability 0 may conform less than the others of its object and change no "
    "criterion, so more orders are optimal than the theorem names. Theorems 2 and 4 need Q(x, y) > 0"
)
TWO_LABELS = (
    "Theorem 6 is wrong for U, M, F and E. For Q = (1, 1; 1, 2; 2, 3) / 10 the label-conditional CP has U = 0.2625, "
    "and M = 1/6 at epsilon = 1/2; the order in which object 3 conforms least for label 1 and most for label 2, the "
    "two other objects tied, has U = 0.25 and M = 0"
)
CHECKS = [  # what, kinds of distributions, names of the criteria in the rows, why it fails
    ("Theorem 1: O(S) = O(N) = O(OF) = O(OE) = R(CP)", ("positive", "zeros"), ("S", "N", "OF", "OE"), ""),
    ("Remark: O(S_phi) = R(CP), phi = p^2 and 2p - p^2", ("positive", "zeros"), ("S_phi, p^2", "S_phi, 2p - p^2"), ""),
    ("Theorem 2: O(U) = O(M) = R'(SP)", ("positive",), ("U", "M"), ""),
    ("Theorem 2 with some Q(x, y) = 0", ("zeros",), ("U", "M"), ZEROS),
    ("Theorem 3: O(F) = O(E) = R(MCP)", ("positive", "zeros"), ("F", "E"), ""),
    ("Theorem 4: O(OU) = O(OM) = R''(MSP)", ("positive",), ("OU", "OM"), CORNER),
    (
        "Theorem 4 with some Q(x, y) = 0",
        ("zeros",),
        ("OU", "OM"),
        f"{ZEROS}. Where f(x) = 1/2, theorem 4 also names orders that are not optimal",
    ),
    ("Corollary 1: two labels, CP has an optimal refinement", ("positive", "zeros"), ("corollary 1",), ""),
    ("Theorem 5, label-conditional: O(S) = O(N) = O(OF) = O(OE) = R(CP)", ("by-label",), ("S", "N", "OF", "OE"), ""),
    ("Theorem 6, label-conditional, two labels: CP is U-optimal (and F-optimal)", ("two-labels",), ("U",), TWO_LABELS),
    ("Theorem 6, label-conditional, two labels: CP is OU-optimal", ("two-labels",), ("OU",), ""),
]
CORRECTED = [
    ("Theorem 4, if the label of probability 1/2 conforms at least as much as the others of its object (|Y| > 2)",
     ("positive",), ("OU corrected", "OM corrected"), ""),
    ("Theorem 2 with some Q(x, y) = 0: R'(SP) is a part of O(U) and O(M)", ("zeros",), ("U subset", "M subset"), ""),
]  # fmt: skip


def summary(rows: list[dict[str, Any]], out: Path) -> Agreement:
    examples = [row for row in rows if row["kind"] == "example"]
    rounded = [{k: f"{v:.6f}" if isinstance(v, float) else v for k, v in row.items()} for row in examples]
    write_csv(rounded, out / "examples.csv")
    write_csv([row for row in rows if row["kind"] != "example"], out / "results.csv")
    return agreement(rows)


def agreement(rows: list[dict[str, Any]]) -> Agreement:
    printed = [
        (f"section {row['section']}: {row['criterion']} of {row['measure']}", row["published"], row["ours"], "")
        for row in rows if row["kind"] == "example"
    ]  # fmt: skip
    counted = [row for row in rows if row["kind"] != "example"]
    return Agreement(
        (
            compare_numbers("Sections 5 and 8: values of the examples", printed, tolerance=1e-5),
            compare_findings(
                "Theorems 1 to 6: optimal orders by enumeration",
                [_check(counted, *fields, published="holds") for fields in CHECKS], rule="holds for every distribution",
            ),
            compare_findings(
                "Statements that hold in place of those that do not",
                [_check(counted, *fields, published="not in the paper") for fields in CORRECTED],
                rule="holds for every distribution",
            ),
        )
    )  # fmt: skip


def _check(
    rows: list[dict[str, Any]],
    what: str,
    kinds: tuple[str, ...],
    criteria: tuple[str, ...],
    why: str,
    *,
    published: str,
) -> Check:
    """For each criterion the same distributions: on the worst one, how many are as stated."""
    totals = {c: [0, 0] for c in criteria}
    for row in rows:
        if row["kind"] in kinds and row["criterion"] in criteria:
            totals[row["criterion"]][0] += row["distributions"]
            totals[row["criterion"]][1] += row["equal"]
    count, equal = min(totals.values(), key=lambda pair: pair[1])
    return Check(what, published, f"{equal} of {count} distributions", equal == count, why if equal < count else "")
