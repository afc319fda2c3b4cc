"""The scores by name: what each needs, what it costs, where it comes from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, Field, dataclass, fields
from typing import Any, final

from caveat._internal.checks import check_known
from caveat.errors import InputError
from caveat.scores._base import Score
from caveat.scores.ash import ASH
from caveat.scores.collision import Collision
from caveat.scores.confidence import Confidence
from caveat.scores.ctm import CTM, CTMMean
from caveat.scores.dice import DICE
from caveat.scores.energy import Energy
from caveat.scores.entropy import Entropy
from caveat.scores.fdbd import FDBD
from caveat.scores.gen import GEN
from caveat.scores.gradnorm import GradNorm
from caveat.scores.gram import Gram
from caveat.scores.guessing import Guessing
from caveat.scores.kl_matching import KLMatching
from caveat.scores.knn import KNN
from caveat.scores.kpca_error import KernelPCAError
from caveat.scores.mahalanobis import Mahalanobis
from caveat.scores.max_logit import MaxLogit
from caveat.scores.max_logit_pnorm import MaxLogitPNorm
from caveat.scores.mds_ensemble import MDSEnsemble
from caveat.scores.monte_carlo import MCMSP, MCEntropy, MCExpectedEntropy, MCMutualInformation, MCVariance
from caveat.scores.msp import MSP
from caveat.scores.nci import NCI
from caveat.scores.neco import NECO
from caveat.scores.nnguide import NNGuide
from caveat.scores.openmax import OpenMax
from caveat.scores.pca_error import PCAError
from caveat.scores.pnml import PNML
from caveat.scores.react import ReAct
from caveat.scores.relative_mahalanobis import RelativeMahalanobis
from caveat.scores.renyi import Renyi
from caveat.scores.residual import Residual
from caveat.scores.scale import Scale
from caveat.scores.she import SHE
from caveat.scores.sirc import SIRC, SIRCResidual
from caveat.scores.temperature import TempScale
from caveat.scores.vim import ViM

__all__ = ["Entry", "catalogue", "make"]

_SCORES: tuple[type[Score], ...] = (
    MSP,
    TempScale,
    MaxLogit,
    MaxLogitPNorm,
    Energy,
    Entropy,
    GEN,
    Renyi,
    Guessing,
    Collision,
    KLMatching,
    OpenMax,
    Confidence,
    MCMSP,
    MCEntropy,
    MCExpectedEntropy,
    MCMutualInformation,
    MCVariance,
    Mahalanobis,
    RelativeMahalanobis,
    KNN,
    CTM,
    CTMMean,
    PCAError,
    KernelPCAError,
    Residual,
    ViM,
    NECO,
    SHE,
    Gram,
    MDSEnsemble,
    FDBD,
    NCI,
    NNGuide,
    GradNorm,
    ReAct,
    DICE,
    ASH,
    Scale,
    PNML,
    SIRC,
    SIRCResidual,
)

# Names that papers and other libraries use.
ALIASES = {
    "msr": "msp", "baseline": "msp", "temperature_scaling": "tempscale", "mls": "max_logit", "maxlogit": "max_logit",
    "maxlogit_pnorm": "max_logit_pnorm", "pnorm": "max_logit_pnorm", "sirc_norm": "sirc", "sirc_res": "sirc_residual",
    "ebo": "energy", "klm": "kl_matching", "mds": "mahalanobis", "maha": "mahalanobis", "rmds": "relative_mahalanobis",
    "rmd": "relative_mahalanobis", "pca": "pca_error", "kpca": "kpca_error",
    "mutual_information": "mc_mutual_information", "bald": "mc_mutual_information",
}  # fmt: skip

# They ask the model again, so they score inputs rather than Outputs and live at the torch edge.
MODEL_BOUND = {"odin": "caveat.nn.ODIN(model)", "rankfeat": "caveat.nn.RankFeat(model)"}


@final
@dataclass(frozen=True)
class Entry:
    """One line of the catalogue: what a score is, reads and costs, its parameters with their defaults, and the values
    that ``tune`` tries where papers tune it."""

    name: str
    score: type[Score]
    summary: str
    needs: tuple[str, ...]
    fits_on: tuple[str, ...]
    class_scores: bool
    cost: str
    paper: str
    also_known_as: tuple[str, ...]
    params: Mapping[str, Any]
    grid: Mapping[str, tuple[Any, ...]]


def catalogue() -> tuple[Entry, ...]:
    """Every score that ``make`` can build.

    Examples
    --------
    >>> [entry.name for entry in catalogue()][:2]
    ['msp', 'tempscale']
    """
    return tuple(
        Entry(
            name=score.name,
            score=score,
            summary=(score.__doc__ or "").split("\n", 1)[0].split(". ")[0].rstrip("."),
            needs=score.needs,
            fits_on=score.fits_on,
            class_scores=score._class_scores is not Score._class_scores,
            cost=score.cost,
            paper=score.paper,
            also_known_as=tuple(alias for alias, name in ALIASES.items() if name == score.name),
            params={field.name: _default(field) for field in fields(score)},  # type: ignore[arg-type]
            grid=score.grid,
        )
        for score in _SCORES
    )


def _default(field: Field[Any]) -> Any:
    return field.default if field.default_factory is MISSING else field.default_factory()


def make(name: str, **params: Any) -> Score:
    """Build a score by its name in the catalogue, or by a name that it has elsewhere.

    Examples
    --------
    >>> make("knn", k=5), make("ebo")
    (KNN(k=5), Energy(temperature=1.0))
    """
    known = {score.name: score for score in _SCORES}
    name = ALIASES.get(name, name) if isinstance(name, str) else name
    if isinstance(name, str) and name in MODEL_BOUND:
        raise InputError(f"score '{name}' asks the model itself, so it cannot be made from outputs. "
                         f"Use {MODEL_BOUND[name]}.")  # fmt: skip
    kind = known[check_known(name, known, "score")]
    allowed = [field.name for field in fields(kind)]  # type: ignore[arg-type]
    for param in params:
        if not allowed:
            raise InputError(f"score '{name}' takes no parameters, got {param!r}.")
        check_known(param, allowed, f"parameter of score '{name}'")
    return kind(**params)
