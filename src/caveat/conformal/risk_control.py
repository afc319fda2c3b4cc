r"""The least conservative setting whose expected loss is promised to stay below a bound.

Each calibration row has a loss $L_i(\lambda) \in [0, B]$ that does not rise with $\lambda$: the larger $\lambda$, the
larger the set, the mask, the caution. With the average $\hat R(\lambda)$ over n rows:

- ``"crc"``, conformal risk control: $\hat\lambda = \min\{\lambda : (n \hat R(\lambda) + B) / (n + 1) \le \alpha\}$
  promises $E[L_{n+1}(\hat\lambda)] \le \alpha$, on average over calibration sets. Angelopoulos, Bates, Fisch, Lei and
  Schuster, "Conformal Risk Control", ICLR 2024, arXiv:2208.02814, eq. (4).
- With confidence 1 - delta over calibration sets: walk down from the largest $\lambda$ while "the expected loss is
  above alpha" is refuted at level delta, and keep the last one. Bates, Angelopoulos, Lei, Malik and Jordan,
  "Distribution-free, risk-controlling prediction sets", Journal of the ACM 68(6), 2021, arXiv:2101.02703. The test is
  ``"wsr"`` (betting over the whole path, ``conformal.betting``), ``"hoeffding_bentkus"`` or, for losses that are 0 or B
  only, the exact ``"binomial"``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import bdtr

from caveat._internal.blocks import row_blocks
from caveat._internal.checks import (
    Rng,
    as_level,
    as_matrix,
    as_positive,
    as_vector,
    check_each,
    check_known,
    check_same,
    exact_level,
)
from caveat.conformal.betting import Bets, random_order
from caveat.conformal.hoeffding import hoeffding_bentkus_p_values
from caveat.errors import InputError
from caveat.results import Promise, RiskThreshold, proportion_interval

__all__ = ["control_risk"]

Matrix = NDArray[np.float64]
Method = Literal["crc", "wsr", "hoeffding_bentkus", "binomial"]

NAMES = {
    "crc": "conformal risk control",
    "wsr": "betting (WSR) over the whole path",
    "hoeffding_bentkus": "Hoeffding-Bentkus",
    "binomial": "exact binomial",
}
ROUNDING = 1e-9  # by which a loss may rise with lambda, as a share of the bound
MOST_ROWS = 1_000_000  # tried when the needed number is looked for


def control_risk(
    losses: ArrayLike,
    lambdas: ArrayLike,
    *,
    alpha: float,
    delta: float | None = None,
    method: Method | None = None,
    bound: float = 1.0,
    rng: Rng = 0,
) -> RiskThreshold:
    """The smallest lambda whose expected loss is promised to be at most ``alpha``.

    ``inf`` where no lambda can be promised, because a larger lambda is the safer one: sets of all labels with a score
    up to ``inf`` miss nothing. The promise then says what would be needed. Of ``"crc"``, the mean over calibration sets
    counts no loss where nothing is promised.

    Parameters
    ----------
    losses
        Shape (n, m): the loss of each calibration row at each lambda, between 0 and ``bound``, not rising with lambda.
        Rows that neither trained nor tuned the model.
    lambdas
        Shape (m,), chosen without these rows; in any order.
    alpha
        Allowed expected loss, below ``bound``.
    delta
        Allowed chance that the calibration rows mislead. None: the promise holds on average over calibration sets.
    method
        ``"crc"`` without ``delta`` (default); ``"wsr"`` (default), ``"hoeffding_bentkus"`` or ``"binomial"`` with it.
    bound
        B, the largest possible loss.
    rng
        Of ``"wsr"``: seed, or a generator, of the order in which the rows are bet on.

    Returns
    -------
    RiskThreshold
        ``threshold`` is the chosen lambda, ``loss`` its average loss on the calibration rows, ``promise`` what holds.

    Examples
    --------
    A threshold on the probability of each label, so that 10 % of the true labels are missed at most:

    >>> rng = np.random.default_rng(0)
    >>> probs = rng.random((1000, 20))
    >>> true = rng.random((1000, 20)) < probs
    >>> lambdas = np.linspace(0, 1, 101)  # keep labels with a probability of 1 - lambda or more
    >>> missed = [(true & (probs < 1 - t)).sum(axis=1) / true.sum(axis=1).clip(1) for t in lambdas]
    >>> print(control_risk(np.transpose(missed), lambdas, alpha=0.1, delta=0.05))
    Use lambda = 0.69 (average loss 0.0908). The expected loss is at most 0.1, with 95 % confidence (n = 1000
    calibration rows).
    """
    table, grid, top = _checked(losses, lambdas, as_positive(bound, "bound"))
    alpha = as_level(alpha, "alpha", top=top)
    method = ("crc" if delta is None else "wsr") if method is None else method
    check_known(method, NAMES, "method")
    n, allowed = len(table), alpha / top
    if method == "crc":
        if delta is not None:
            raise InputError("'crc' promises the mean over calibration sets and takes no delta. Use method='wsr'.")
        # Sums of losses are rounded, and 1 - 0.9 means one tenth.
        most = float(exact_level(allowed, "alpha") * (n + 1)) * (1 + 1e-12)
        chosen = int(np.argmax(passes)) if (passes := table.sum(axis=0) + 1 <= most).any() else None
    else:
        if delta is None:
            raise InputError(f"'{method}' needs delta, the allowed chance that the calibration rows mislead.")
        chosen = _last_refuted(table, _test(method, allowed, as_level(delta, "delta"), table, rng))
    promise = Promise(
        what="expected loss", bound=alpha, confidence=None if delta is None else 1 - delta, n=n, method=NAMES[method],
        assumption=f"calibration rows and future rows are {'exchangeable' if delta is None else 'independent draws'}; "
        "lambdas were chosen without them",
        remedy="" if chosen is not None else _remedy(table[:, -1], allowed, delta, method, alpha, rng),
    )  # fmt: skip
    at = -1 if chosen is None else chosen
    within = proportion_interval(int((table[:, at] <= allowed).sum()), n, delta=0.05 if delta is None else delta)
    loss = float(table[:, at].mean() * top)
    return RiskThreshold(math.inf if chosen is None else float(grid[chosen]), within, promise, loss=loss)


def _checked(losses: ArrayLike, lambdas: ArrayLike, top: float) -> tuple[Matrix, NDArray[np.float64], float]:
    """Losses as shares of the bound and lambdas, both from the smallest lambda up."""
    table, grid = np.asarray(as_matrix(losses, "losses"), dtype=np.float64), as_vector(lambdas, "lambdas")
    check_same("number of lambdas", losses=table.shape[1], lambdas=grid.size)
    if table.min() < 0 or table.max() > top:
        check_each(table, (table >= 0) & (table <= top), "losses", f"lie between 0 and the bound {top:g}")
    order = np.argsort(grid, kind="stable")
    grid = grid[order]
    if (equal := grid[1:] == grid[:-1]).any():
        raise InputError(f"lambdas must differ, got {grid[np.argmax(equal)]:g} twice.")
    if (order[1:] < order[:-1]).all():
        table = table[:, ::-1]  # a view, where choosing columns would copy
    elif (order[1:] < order[:-1]).any():
        table = table[:, order]
    table = table if top == 1 else table / top
    for block in row_blocks(len(table), row_bytes=table.shape[1] * table.itemsize, block_bytes=2**19):
        rise = np.diff(table[block], axis=1)
        if rise.size and rise.max() > ROUNDING:
            row, j = np.unravel_index(int(np.argmax(rise > ROUNDING)), rise.shape)
            before, after = top * table[block][row, j : j + 2]
            raise InputError(f"losses must not rise with lambda, got {before:g} at lambda = {grid[j]:g} and {after:g} "
                             f"at lambda = {grid[j + 1]:g} in row {block.start + row}.")  # fmt: skip
    return table, grid, top


def _test(method: str, allowed: float, delta: float, table: Matrix, rng: Rng) -> Callable[[NDArray[np.float64]], bool]:
    """Whether the losses of one lambda refute, at level delta, that their mean is above ``allowed``."""
    if method == "binomial":
        check_each(table, (table == 0) | (table == 1), "losses", "be 0 or the bound for method='binomial'")
        return lambda column: bool(bdtr(column.sum(), column.size, allowed) <= delta)
    if method == "hoeffding_bentkus":
        return lambda column: bool(hoeffding_bentkus_p_values(np.asarray(column.mean()), column.size, allowed) <= delta)
    order, target = random_order(table, rng), math.log(1 / delta)

    def refutes(column: NDArray[np.float64]) -> bool:
        rows = column[order] if column.size == order.size else column  # the search of _remedy makes longer ones
        return Bets(1 - rows, delta).log_capital(1 - allowed) >= target

    return refutes


def _last_refuted(table: Matrix, refutes: Callable[[NDArray[np.float64]], bool]) -> int | None:
    """Walk from the largest lambda down; each step is a test of its own because the first failure ends the walk."""
    chosen = None
    for j in reversed(range(table.shape[1])):
        if not refutes(table[:, j]):
            break
        chosen = j
    return chosen


def _remedy(
    column: NDArray[np.float64], allowed: float, delta: float | None, method: str, alpha: float, rng: Rng
) -> str:
    """What would carry the promise at the largest lambda: more rows, or a larger alpha."""
    average, n = float(column.mean()), column.size
    if average >= allowed:
        return (f"Even at the largest lambda the average loss is {average * alpha / allowed:.3g}: allow more, or add "
                "larger lambdas.")  # fmt: skip
    if delta is None:
        needed = math.ceil((1 - allowed) / (allowed - average) * (1 - 1e-12))
    else:
        refutes = _test(method, allowed, delta, column[:, None], rng)
        mixed = column[random_order(column, rng)]
        needed = n + 1
        while needed <= MOST_ROWS and not refutes(np.resize(mixed, needed)):
            needed = math.ceil(1.2 * needed)
        if needed > MOST_ROWS:
            return f"More than {MOST_ROWS:,} rows with losses as small as in these {n:,} would be needed."
    return f"About {needed:,} rows with losses as small as in these {n:,} would do."
