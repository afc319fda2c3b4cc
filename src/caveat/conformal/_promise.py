"""What a threshold promises: coverage on average over calibration sets, or with high confidence (PAC)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self, final

from caveat._internal.checks import as_level
from caveat.conformal.grouped import GroupedScores
from caveat.conformal.pac import pac_rank, pac_too_few
from caveat.conformal.quantile import quantile_rank, too_few
from caveat.errors import InputError

__all__ = ["Promise"]


@final
@dataclass(frozen=True)
class Promise:
    """Miscoverage at most alpha: on average (``delta`` None), or with probability 1 - delta.

    With groups, 1 - delta is the probability for each group by itself, or, ``joint``, for all of them at once.
    """

    alpha: float
    delta: float | None = None
    joint: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "alpha", as_level(self.alpha, "alpha"))
        if self.delta is not None:
            object.__setattr__(self, "delta", as_level(self.delta, "delta"))
        elif self.joint:
            raise InputError("joint=True shares delta among the groups, and delta is None. Give delta.")

    def among(self, known: GroupedScores) -> Self:
        """The promise of each group: where it is joint, delta is shared equally by the groups that have scores."""
        if not self.joint or self.delta is None:
            return self
        return replace(self, delta=self.delta / max(1, int((known.sizes > 0).sum())), joint=False)

    def scope(self, groups: int) -> str:
        """The sentence for what a confidence about several groups means; empty where there is none to explain."""
        if self.delta is None or groups < 2:
            return ""
        if self.joint:
            return f"The confidence {1 - self.delta:g} holds for all {groups} groups at once."
        return f"The confidence {1 - self.delta:g} holds for each of {groups} groups by itself, not for all at once."

    def rank(self, n: int) -> int:
        """Which of n sorted calibration scores is the threshold; more than n: none of them."""
        return quantile_rank(n, self.alpha) if self.delta is None else pac_rank(n, self.alpha, self.delta)

    def too_few(self, n: int) -> str:
        """The sentence for n too small; empty if it is enough."""
        return too_few(n, self.alpha) if self.delta is None else pac_too_few(n, self.alpha, self.delta)

    def kept_by(self, known: GroupedScores, *, by_group: bool) -> tuple[float, str]:
        """The least level that a group is promised, and a sentence where a group is too small."""
        sizes = [int(n) for n in known.sizes]
        on_average = min(min(1.0, self.rank(n) / (n + 1)) for n in sizes)
        level = on_average if self.delta is None else 1 - self.alpha
        sentences = {n: self.too_few(n) for n in set(sizes)}
        small = [g for g, n in enumerate(sizes) if sentences[n]]
        if not small:
            return level, ""
        sentence = sentences[sizes[small[0]]]
        if not by_group:
            return level, sentence
        names = ", ".join(str(known.names[g]) for g in small[:5]) + (", ..." if len(small) > 5 else "")
        return level, f"{len(small)} of {len(sizes)} groups ({names}) are too small: {sentence}"
