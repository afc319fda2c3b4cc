"""The scores by name: what each needs, what it costs, where it comes from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache
from types import MappingProxyType
from typing import Any, final

from caveat._internal.checks import check_known
from caveat._internal.params import parameters
from caveat.errors import InputError
from caveat.scores._base import Score
from caveat.scores.ash import ASH, Scale
from caveat.scores.ctm import CTM, SHE, CTMMean
from caveat.scores.energy import Energy, MaxLogit
from caveat.scores.entropy import GEN, Collision, Entropy, Guessing, Renyi
from caveat.scores.fdbd import FDBD, NCI
from caveat.scores.gradnorm import GradNorm
from caveat.scores.gram import Gram
from caveat.scores.kl_matching import KLMatching
from caveat.scores.knn import KNN, NNGuide
from caveat.scores.kpca_error import KernelPCAError
from caveat.scores.mahalanobis import Mahalanobis, RelativeMahalanobis
from caveat.scores.max_logit_pnorm import MaxLogitPNorm
from caveat.scores.mds_ensemble import MDSEnsemble
from caveat.scores.monte_carlo import MCMSP, MCEntropy, MCExpectedEntropy, MCMutualInformation, MCVariance
from caveat.scores.msp import MSP, Confidence, TempScale
from caveat.scores.openmax import OpenMax
from caveat.scores.pca_error import NECO, PCAError
from caveat.scores.pnml import PNML
from caveat.scores.react import DICE, ReAct
from caveat.scores.sirc import SIRC, SIRCResidual
from caveat.scores.vim import Residual, ViM

__all__ = ["Entry", "catalogue", "make"]

# Cost class: 0 reads logits; 1 several passes of logits; 2 a product with the features; 3 one with D x D values or kept
# rows; 4 every training row or every layer. Cost per sample, with D features, C classes, N training rows, T passes.
# Paper.
_SCORES: Mapping[type[Score], tuple[int, str, str]] = {
    MSP: (0, "C", "Hendrycks & Gimpel 2017"),
    TempScale: (0, "C", "Guo et al. 2017"),
    MaxLogit: (0, "C", "Hendrycks et al. 2022"),
    MaxLogitPNorm: (0, "C", "Cattelan & Silva 2024"),
    Energy: (0, "C", "Liu et al. 2020, eq. 4"),
    Entropy: (0, "C", "Shannon 1948; Ovadia et al. 2019"),
    GEN: (0, "C", "Liu et al. 2023"),
    Renyi: (0, "C", "Renyi 1961"),
    Guessing: (0, "C log C", "Massey 1994"),
    Collision: (0, "C", "Granese et al. 2021"),
    KLMatching: (0, "C²", "Hendrycks et al. 2022"),
    OpenMax: (0, "AC", "Bendale & Boult 2016, alg. 2"),
    Confidence: (0, "1", "DeVries & Taylor 2018; Corbiere et al. 2019; Liu et al. 2019"),
    MCMSP: (1, "TC", "Gal & Ghahramani 2016"),
    MCEntropy: (1, "TC", "Gal & Ghahramani 2016"),
    MCExpectedEntropy: (1, "TC", "Gal & Ghahramani 2016"),
    MCMutualInformation: (1, "TC", "Houlsby et al. 2011"),
    MCVariance: (1, "TC", "Gal & Ghahramani 2016"),
    Mahalanobis: (3, "D² + CD", "Lee et al. 2018, eq. 2"),
    RelativeMahalanobis: (3, "D² + CD", "Ren et al. 2021"),
    KNN: (4, "ND", "Sun et al. 2022"),
    CTM: (2, "CD", "Ngoc-Hieu et al. 2023"),
    CTMMean: (2, "CD", "Ngoc-Hieu et al. 2023"),
    PCAError: (3, "D²", "Guan et al. 2023"),
    KernelPCAError: (3, "DM + M²", "Fang et al. 2024"),
    Residual: (3, "D²", "Wang et al. 2022"),
    ViM: (3, "D² + C", "Wang et al. 2022"),
    NECO: (2, "Dd", "Ben Ammar et al. 2024"),
    SHE: (2, "D + C", "Zhang et al. 2023"),
    Gram: (4, "10 passes over the layers", "Sastry & Oore 2020"),
    MDSEnsemble: (4, "sum of D² + CD over layers", "Lee et al. 2018, alg. 1"),
    FDBD: (2, "CD", "Liu & Qin 2024"),
    NCI: (2, "CD", "Liu & Qin 2025"),
    NNGuide: (3, "CD + MD, M bank rows", "Park et al. 2023"),
    GradNorm: (2, "C + D", "Huang et al. 2021, eq. 5"),
    ReAct: (2, "CD", "Sun et al. 2021"),
    DICE: (2, "CD", "Sun & Li 2022"),
    ASH: (2, "CD", "Djurisic et al. 2023, alg. 1-3"),
    Scale: (2, "CD", "Xu et al. 2024"),
    PNML: (3, "D² + CD", "Bibas et al. 2021, thm. 1"),
    SIRC: (2, "C + D", "Xia & Bouganis 2022"),
    SIRCResidual: (3, "C + D²", "Xia & Bouganis 2022"),
}

# Names that papers and other libraries use.
ALIASES = {
    "msr": "msp", "baseline": "msp", "max_softmax": "msp", "temperature_scaling": "tempscale",
    "mls": "max_logit", "maxlogit": "max_logit",
    "maxlogit_pnorm": "max_logit_pnorm", "pnorm": "max_logit_pnorm", "sirc_norm": "sirc", "sirc_res": "sirc_residual",
    "ebo": "energy", "klm": "kl_matching", "mds": "mahalanobis", "maha": "mahalanobis", "rmds": "relative_mahalanobis",
    "rmd": "relative_mahalanobis", "pca": "pca_error", "kpca": "kpca_error",
    "mutual_information": "mc_mutual_information", "bald": "mc_mutual_information",
}  # fmt: skip

# These run the model again, so they score inputs rather than Outputs; they are in caveat.nn.
MODEL_BOUND = {"odin": "caveat.nn.ODIN(model)", "rankfeat": "caveat.nn.RankFeat(model)"}


@final
@dataclass(frozen=True)
class Entry:
    """One line of the catalogue: what a score is, what it reads and what it costs.

    Parameters
    ----------
    name
        Name for ``make``.
    score
        The class.
    summary
        First sentence of its docstring.
    needs, fits_on
        Fields of ``Outputs`` that ``score`` and ``fit`` read.
    class_scores
        Whether it has class scores (n, C) for prediction sets.
    cost
        Operations per sample, with C classes, D features and N training rows.
    cost_class
        The cost as a number from 0, cheapest, to 4.
    paper
        Authors and year.
    also_known_as
        Other names that ``make`` understands.
    params
        Parameter -> default value.
    grid
        Parameter -> values that ``tune`` tries, where papers tune it.

    Examples
    --------
    >>> entry = next(entry for entry in catalogue() if entry.name == "knn")
    >>> entry.needs, entry.cost, entry.paper
    (('features',), 'ND', 'Sun et al. 2022')
    """

    name: str
    score: type[Score]
    summary: str
    needs: tuple[str, ...]
    fits_on: tuple[str, ...]
    class_scores: bool
    cost: str
    cost_class: int
    paper: str
    also_known_as: tuple[str, ...]
    params: Mapping[str, Any]
    grid: Mapping[str, tuple[Any, ...]]


def catalogue() -> tuple[Entry, ...]:
    """Every score that ``make`` can build.

    Returns
    -------
    tuple of Entry
        One entry per score.

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
            cost=cost,
            cost_class=cost_class,
            paper=paper,
            also_known_as=tuple(alias for alias, name in ALIASES.items() if name == score.name),
            params={field.name: field.default for field in parameters(score)},
            grid=score.grid,
        )
        for score, (cost_class, cost, paper) in _SCORES.items()
    )


@cache
def _classes() -> Mapping[str, type[Score]]:
    """Name -> class of every score."""
    return MappingProxyType({score.name: score for score in _SCORES})


def plain_name(name: str) -> str:
    """The name in the catalogue for any way to write it; a name that is not known stays as it is.

    Capitals, spaces, hyphens and underscores do not count, and the names of the classes are known too.

    >>> plain_name("ViM"), plain_name("max softmax"), plain_name("RelativeMahalanobis"), plain_name("iforest")
    ('vim', 'msp', 'relative_mahalanobis', 'iforest')
    """
    return name if name in _classes() else ALIASES.get(name) or _spellings().get(_bare(name), name)


def _bare(name: str) -> str:
    return "".join(sign for sign in name.lower() if sign not in " -_")


@cache
def _spellings() -> Mapping[str, str]:
    """Names without capitals and signs between words -> name; names of the catalogue count before the others."""
    classes = {score.__name__: score.name for score in _SCORES} | {name: name for name in MODEL_BOUND}
    return MappingProxyType(
        {_bare(key): name for key, name in (classes | ALIASES | {n: n for n in _classes()}).items()}
    )


def make(name: str, **params: Any) -> Score:
    """Build a score by its name in the catalogue, or by a name that papers and other libraries use.

    Capitals, spaces and hyphens do not count: ``make("ViM")`` is ``make("vim")``.

    Parameters
    ----------
    name
        Name in ``catalogue()``, or one of its ``also_known_as``.
    **params
        Parameters of the score's class.

    Returns
    -------
    Score
        The score, not fitted.

    Examples
    --------
    >>> make("knn", k=5), make("ebo")
    (KNN(k=5, index='exact', clusters=0, nprobe=16, normalize=True), Energy(temperature=1.0))
    """
    classes = _classes()
    name = plain_name(name) if isinstance(name, str) else name
    if isinstance(name, str) and name in MODEL_BOUND:
        raise InputError(f"score '{name}' runs the model itself, so it cannot be made from outputs. "
                         f"Use {MODEL_BOUND[name]}.")  # fmt: skip
    score = classes[check_known(name, classes, "score")]
    allowed = [field.name for field in fields(score)]  # type: ignore[arg-type]
    for param in params:
        if not allowed:
            raise InputError(f"score '{name}' takes no parameters, got {param!r}.")
        check_known(param, allowed, f"parameter of score '{name}'")
    return score(**params)
