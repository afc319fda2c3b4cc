"""The examples of sections 5 and 8: the criteria that are not probabilistic, each with the printed values."""

from __future__ import annotations

from typing import Any

import numpy as np

from caveat.conformal.idealised import efficiency, measure

DELTA = 1e-7  # "for a small delta"; what is printed holds up to O(delta)

ONE_OBJECT = np.array([[0.2, 0.3, 0.5]])  # eq. (34)
TWO_OBJECTS = (1 / 3 + DELTA * np.array([[-1, 0, 1], [-5, 2, 3]])) / 2
FOUR_LABELS = np.array([[0.2, 0.3, 0.2, 0.3], [0.3, 0.2, 0.3, 0.2]]) / 2  # eq. (45)
FIRST_OBJECT_LESS = np.array([[0.0] * 4, [1.0] * 4])  # object 1 conforms less than object 2, whatever the label
THREE_OBJECTS = (1 / 3 + DELTA * np.array([[1, -2, 1], [-1, 2, -1], [0, 0, 0]])) / 3
LAST_FIRST = np.array([[3, 0, 3], [1, 4, 1], [2, 2, 5]])  # CP, but (3, 3) conforms most

EXAMPLES = [  # distribution, criterion, epsilon, label-conditional, the better measure, its value, the value of CP
    (ONE_OBJECT, "U", None, False, "sp", 0.25, 0.35),
    (ONE_OBJECT, "M", 0.2, False, "sp", 0.6, 1.0),
    (TWO_OBJECTS, "F", None, False, "mcp", 2 / 3, 3 / 4),
    (TWO_OBJECTS, "E", 2 / 3, False, "mcp", 0.0, 0.5),
    (ONE_OBJECT, "OU", None, False, "msp", 0.5, 0.55),
    (ONE_OBJECT, "OM", 0.2, False, "msp", 0.8, 1.0),
    (FOUR_LABELS, "U", None, True, FIRST_OBJECT_LESS, 0.55, 0.7),
    (FOUR_LABELS, "M", 0.4, True, FIRST_OBJECT_LESS, 2 / 3, 1.0),
    (THREE_OBJECTS, "F", None, True, LAST_FIRST, 2 / 3, 7 / 9),
    (THREE_OBJECTS, "E", 2 / 3, True, LAST_FIRST, 0.0, 1 / 3),
    (FOUR_LABELS, "OU", None, True, FIRST_OBJECT_LESS, 0.55, 0.7),
    (FOUR_LABELS, "OM", 0.4, True, FIRST_OBJECT_LESS, 2 / 3, 1.0),
]


def printed_examples() -> list[dict[str, Any]]:
    """One row per printed value."""
    rows = []
    for q, criterion, epsilon, by_label, better, value, cp_value in EXAMPLES:
        name = better.upper() if isinstance(better, str) else "A"
        order = measure(q, better) if isinstance(better, str) else better  # type: ignore[arg-type]
        for called, conformity, published in (("CP", measure(q, "cp"), cp_value), (name, order, value)):
            ours = efficiency(q, conformity, epsilon=epsilon, by_label=by_label)[criterion]
            rows.append({"kind": "example", "section": 8 if by_label else 5, "criterion": criterion,
                         "measure": called, "published": published, "ours": ours})  # fmt: skip
    return rows
