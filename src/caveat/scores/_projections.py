"""Which scores take which projections: Table 3 of Claros-Olivares and Brockmeier.

In print the columns of mahalanobis, nnguide, fdbd, pnml and gradnorm have slipped one to the left; the result tables
(8 to 10) of the paper show that it is the class projection that they lack. kpca_error is missing from Table 3 and has
all four in the result tables.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from caveat._internal.checks import check_known


class Row(NamedTuple):
    """What of a score is projected, and by which projections."""

    what: str
    projections: tuple[str, ...]


_ALL = ("global", "class", "class_pred", "class_avg")
_LOGITS, _COSINE, _RECONSTRUCTION = Row("logits", _ALL), Row("cosine", _ALL), Row("reconstruction", _ALL)
_FEATURES = Row("features", ("global", "class_pred", "class_avg"))
NONE = Row("", ())

TABLE: Mapping[str, Row] = MappingProxyType(
    {
        "ctm": _COSINE,
        "ctm_mean": _COSINE,
        "energy": _LOGITS,
        "msp": _LOGITS,
        "max_logit": _LOGITS,
        "entropy": _LOGITS,
        "gen": _LOGITS,
        "renyi": _LOGITS,
        "guessing": _LOGITS,
        "collision": _LOGITS,
        "mahalanobis": _FEATURES,
        "nnguide": _FEATURES,
        "fdbd": _FEATURES,
        "pnml": _FEATURES,
        "gradnorm": _FEATURES,
        "pca_error": _RECONSTRUCTION,
        "kpca_error": _RECONSTRUCTION,
        "vim": NONE,
        "neco": NONE,
        "residual": NONE,
        "confidence": NONE,
    }
)


def projections_of(name: str) -> tuple[str, ...]:
    """Which projections a score of the catalogue takes; empty if it takes none.

    Examples
    --------
    >>> projections_of("mahalanobis"), projections_of("vim")
    (('global', 'class_pred', 'class_avg'), ())
    """
    from caveat.scores.catalogue import catalogue

    check_known(name, {*TABLE, *(entry.name for entry in catalogue())}, "score")
    return TABLE.get(name, NONE).projections
