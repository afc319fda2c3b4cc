r"""Bettors: the capital of each, when it bets against uniform p-values, is a test martingale.

* simple jumper: bets $1 + \epsilon (p - 1/2)$ with $\epsilon \in \{-1, 0, 1\}$, and spreads a share J of its capital
  evenly over them at each step, so that it follows changes. Vovk, Petej, Nouretdinov, Ahlberg, Carlsson and Gammerman,
  "Retrain or not retrain: conformal test martingales for change-point detection", COPA 2021, algorithm 1.
* power mixture: the mean over $\epsilon$ of $\prod_t \epsilon p_t^{\epsilon - 1}$, and of the same for $1 - p_t$. Vovk,
  Nouretdinov and Gammerman, "Testing exchangeability on-line", ICML 2003.
* plug-in histogram: bets the density that a histogram of the earlier p-values estimates. Fedorova, Gammerman,
  Nouretdinov and Vovk, "Plug-in martingales for testing exchangeability on-line", ICML 2012; here with fading counts
  and a reserve.

With uniform p-values the capital never grows on average, so it ever reaches 1/alpha with probability at most alpha
(Ville).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray
from scipy.signal import lfilter

from caveat._internal.checks import as_shares
from caveat._internal.params import check_params, count, number, positive, share
from caveat.errors import InputError

__all__ = ["Bettor", "PlugInHistogram", "PowerMixture", "SimpleJumper", "default_bettors"]

Vector = NDArray[np.float64]
_STRETCH = 256  # steps between two times that a capital is written as a logarithm
_INSIDE = (np.finfo(np.float64).tiny, 1 - 2.0**-53)  # the smallest and the largest p-value between 0 and 1
_NOTHING = -700.0  # logarithm that changes no sum with a 1 in it; numbers below the range of exp take far longer
_DIGITS = 250  # decimal digits by which a capital may grow in between; a float has 308


class Bettor(ABC):
    """Capital 1 at the start; ``update`` gives its natural logarithm after each p-value."""

    def __post_init__(self) -> None:
        check_params(self)
        self.restart()

    @abstractmethod
    def restart(self) -> None:
        """Start again with capital 1."""

    @abstractmethod
    def update(self, p_values: Vector) -> Vector:
        """Log capital (m,) after each of the next m p-values, all strictly between 0 and 1.

        Parameters
        ----------
        p_values
            Shape (m,).

        Returns
        -------
        array of shape (m,)
            The log capital.
        """

    @abstractmethod
    def state(self) -> list[float]:
        """What changes, as numbers."""

    @abstractmethod
    def restore(self, state: list[float]) -> None:
        """Go on from a state.

        Parameters
        ----------
        state
            What ``state`` returned.
        """


@final
@dataclass(eq=False)
class SimpleJumper(Bettor):
    """Finds p-values that become small or large, and follows when that changes.

    Parameters
    ----------
    jump
        Share J of the capital that is spread anew at each step.

    Examples
    --------
    >>> float(SimpleJumper().update(np.array([0.1, 0.1])).round(3)[1])
    0.1
    """

    jump: float = share(0.01)

    def restart(self) -> None:
        # The capital, and what the bets on large and on small p-values have after the next spread: difference and sum.
        # These three take fewer operations a step than the three bets.
        self._total, self._lean, self._sides, self._log, self._t = 1.0, 0.0, 2 / 3, 0.0, 0

    def update(self, p_values: Vector) -> Vector:
        steps = (as_shares(p_values, "p_values") - 0.5).tolist()  # plain floats: each step needs the one before
        return _in_stretches(steps, self._t, _STRETCH, self._stretch)

    def _stretch(self, steps: list[float], *, full: bool) -> Vector:
        total, lean, sides, totals = self._total, self._lean, self._sides, []
        keep, spread = 1 - self.jump, 2 * self.jump / 3
        for step in steps:
            won = step * lean
            total += won
            lean = keep * (lean + step * sides)
            sides = keep * (sides + won) + spread * total
            totals.append(total)
        path = self._log + np.log(np.fromiter(totals, np.float64, len(totals)))
        if full:  # the capital is kept as a logarithm, before it runs out of the range of floats
            total, lean, sides, self._log = 1.0, lean / total, sides / total, float(path[-1])
        self._total, self._lean, self._sides, self._t = total, lean, sides, self._t + len(steps)
        return np.asarray(path)

    def state(self) -> list[float]:
        return [self._total, self._lean, self._sides, self._log, self._t]

    def restore(self, state: list[float]) -> None:
        (self._total, self._lean, self._sides, self._log), self._t = state[:4], int(state[4])


@final
@dataclass(eq=False)
class PowerMixture(Bettor):
    """Finds many p-values near 0, or near 1.

    Parameters
    ----------
    powers
        How many exponents between 0 and 1 are mixed, on each side.

    Examples
    --------
    >>> float(PowerMixture().update(np.array([0.001])).round(2)[0])
    2.38
    """

    powers: int = count(10)

    def restart(self) -> None:
        self._t, self._log_p, self._log_rest = 0, 0.0, 0.0

    def update(self, p_values: Vector) -> Vector:
        p_values = np.clip(as_shares(p_values, "p_values"), *_INSIDE)  # the logarithms of 0 would leave no capital
        t = self._t + np.arange(1, p_values.size + 1)
        log_p = _running_sum(self._log_p, np.log(p_values))
        log_rest = _running_sum(self._log_rest, np.log1p(-p_values))
        if p_values.size:
            self._t, self._log_p, self._log_rest = int(t[-1]), float(log_p[-1]), float(log_rest[-1])
        epsilon = (np.arange(self.powers) + 0.5) / self.powers
        path = np.empty(p_values.size)
        for start in range(0, p_values.size, _STRETCH):  # so many logarithms stay in the cache of the processor
            part = slice(start, start + _STRETCH)
            staked = np.multiply.outer(np.log(epsilon), t[part])
            sides = [np.multiply.outer(epsilon - 1, sums[part]) + staked for sums in (log_p, log_rest)]
            path[part] = log_mean(np.concatenate(sides))
        return path

    def state(self) -> list[float]:
        return [self._t, self._log_p, self._log_rest]

    def restore(self, state: list[float]) -> None:
        self._t, self._log_p, self._log_rest = int(state[0]), state[1], state[2]


@final
@dataclass(eq=False)
class PlugInHistogram(Bettor):
    """Learns the shape of any departure from uniform p-values.

    Old p-values fade, and only a part of the capital is bet: at each step a share ``jump`` of it is spread evenly over
    a bet and a reserve. So a change after a long quiet time still finds capital to bet with.

    Parameters
    ----------
    bins
        Bins of the histogram, of equal width.
    prior
        Added to the count of each bin: the larger, the more cautious the bets.
    memory
        P-values after which the weight of an old one has fallen to 1/e.
    jump
        Share of the capital that is spread anew at each step.

    Examples
    --------
    >>> float(PlugInHistogram(bins=2, prior=1.0).update(np.array([0.1, 0.2])).round(2)[1])  # bets half on 1, then 4/3
    0.15
    """

    bins: int = count(10, least=2)
    prior: float = positive(5.0)
    memory: float = number(300.0, least=1.0)
    jump: float = share(1e-3)

    def restart(self) -> None:
        # the last count is that of all p-values
        self._counts, self._reserve, self._bet, self._log, self._t = np.zeros(self.bins + 1), 0.5, 0.5, 0.0, 0

    def update(self, p_values: Vector) -> Vector:
        place = np.minimum((as_shares(p_values, "p_values") * self.bins).astype(np.intp), self.bins - 1)
        fade, points = math.exp(-1 / self.memory), np.arange(place.size)
        hits = np.zeros((self.bins + 1, place.size + 1))
        hits[place, points + 1] = hits[-1, 1:] = 1.0
        hits[:, 0] = self._counts
        counts = lfilter([1.0], [1.0, -fade], hits)
        weights = counts[place, points] + self.prior
        bets = self.bins * weights / (counts[-1, :-1] + self.bins * self.prior)
        self._counts = counts[:, -1].copy()
        length = max(1, int(_DIGITS / math.log10(self.bins)))  # a bet wins up to ``bins`` times its stake
        return _in_stretches(bets.tolist(), self._t, min(length, _STRETCH), self._stretch)

    def _stretch(self, bets: list[float], *, full: bool) -> Vector:
        reserve, bet, totals = self._reserve, self._bet, []
        total = reserve + bet
        keep, spread = 1 - self.jump, self.jump / 2
        for factor in bets:
            new = spread * total
            reserve = keep * reserve + new
            bet = (keep * bet + new) * factor
            total = reserve + bet
            totals.append(total)
        path = self._log + np.log(np.fromiter(totals, np.float64, len(totals)))
        if full:  # as in SimpleJumper
            reserve, bet, self._log = reserve / total, bet / total, float(path[-1])
        self._reserve, self._bet, self._t = reserve, bet, self._t + len(bets)
        return np.asarray(path)

    def state(self) -> list[float]:
        return [self._reserve, self._bet, self._log, self._t, *self._counts.tolist()]

    def restore(self, state: list[float]) -> None:
        if len(state) != self.bins + 5:  # states of an earlier form would give other numbers
            raise InputError(f"state must have {self.bins + 5} numbers, got {len(state)}. Start with a new bettor.")
        (self._reserve, self._bet, self._log), self._t = state[:3], int(state[3])
        self._counts = np.array(state[4:])


def default_bettors() -> list[Bettor]:
    """Bettors of each kind; their mean capital is a martingale too.

    The second jumper spends little while the stream is quiet: after 8,000 quiet points a shift of 0.5 sd is found in a
    median of 130 points with it and 230 without.
    """
    return [SimpleJumper(), SimpleJumper(jump=1e-4), PowerMixture(), PlugInHistogram()]


def _in_stretches(steps: list[float], t: int, length: int, stretch: Callable[..., Vector]) -> Vector:
    """The path of a bettor in stretches that end at fixed steps of the stream, so that batches change no bit of it.

    Within a stretch the capital is a plain float, which must stay in range for ``length`` steps.
    """
    parts, start = [np.empty(0)], 0
    while start < len(steps):
        end = min(len(steps), start + length - t % length)
        parts.append(stretch(steps[start:end], full=(t + end - start) % length == 0))
        t, start = t + end - start, end
    return np.concatenate(parts)


def log_mean(logs: Vector) -> Vector:
    """log of the mean of exp over the first axis, without overflow.

    Row is added to row, so that the bits of a column do not depend on how many columns there are.
    """
    top, left = logs.max(axis=0), len(logs)
    terms = np.exp(np.maximum(logs - top, _NOTHING))
    while left > 1:
        half = (left + 1) // 2
        terms[: left - half] += terms[half:left]
        left = half
    return np.asarray(np.log(terms[0] / len(logs)) + top)


def _running_sum(start: float, steps: Vector) -> Vector:
    # start goes in first, so that batches of any size add the same numbers in the same order
    return np.cumsum(np.concatenate([[start], steps]))[1:]
