r"""Drift alarm: on a stream that does not change it ever rings with probability alpha at most.

The p-values come from a rank urn. The mean capital of the bettors on them is a martingale $M$, and by Ville
$P(\exists t: M_t \ge 1/\alpha) \le \alpha$. A long drifted stream teaches the urn that drift is normal, so urn and
bettors start again every ``restart_after`` points; run k rings at $M \ge k (k + 1) / \alpha$. As
$\sum_k 1 / (k (k + 1)) = 1$, the promise holds over all runs together.
"""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any, Self, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from caveat._internal.checks import as_comparable, as_count, as_level
from caveat._internal.files import read_npy, write_json
from caveat._internal.folders import ArrayFolder
from caveat.drift.bettors import default_bettors, log_mean
from caveat.drift.rank_urn import RankUrn
from caveat.errors import InputError

__all__ = ["DriftAlarm"]

_FOLDER = ArrayFolder(
    page="drift.json", format="caveat-drift", version=1, what="a saved drift alarm", owned=lambda _, __: False
)
_BINS = 20  # of the p-value histogram; the first one is p < 0.05
_NATS = math.log(10)


@final
class DriftAlarm:
    """Watches a stream of scores and rings when it no longer looks like the calibration scores.

    With probability 1 - alpha a stream that is exchangeable with the calibration rows never raises the alarm, however
    long it is. The alarm says that something changed, not what.

    Parameters
    ----------
    calibration
        Calibration scores, shape (n,).
    alpha
        Allowed chance that a quiet stream ever rings.
    seed
        Seed of the random tie-breaking.
    restart_after
        Points after which urn and bettors start again. Default: 10 n, at least 1,000. 0: never, and the alarm level is
        1 / alpha.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> alarm = DriftAlarm(rng.normal(size=1000), alpha=0.01, seed=0)
    >>> _ = alarm.update(rng.normal(size=5000))
    >>> alarm.alarmed
    False
    >>> _ = alarm.update(rng.normal(0.5, 1, size=1000))
    >>> alarm.alarmed, alarm.alarmed_at > 5000
    (True, True)
    """

    def __init__(
        self, calibration: ArrayLike, *, alpha: float = 0.01, seed: int = 0, restart_after: int | None = None
    ) -> None:
        self.alpha = as_level(alpha, "alpha")
        self.urn = RankUrn(calibration, seed=seed)
        default = max(1000, 10 * self.urn.calibration.size)
        self.restart_after = default if restart_after is None else as_count(restart_after, "restart_after", least=0)
        self.bettors = default_bettors()
        self.run = 1
        self.highest = 0.0  # log10 of the strongest evidence so far
        self.alarmed_at: int | None = None
        self._log_e = 0.0
        self._histogram = np.zeros(_BINS, dtype=np.int64)

    @property
    def rows(self) -> int:
        """Points so far."""
        return self.urn.row

    @property
    def log10_e(self) -> float:
        """Evidence for drift now, log10, divided by the k (k + 1) of its run; the alarm line is at -log10 alpha."""
        return (self._log_e - self._cost()) / _NATS

    @property
    def line(self) -> float:
        """The alarm line: -log10 alpha."""
        return -math.log10(self.alpha)

    @property
    def alarmed(self) -> bool:
        """Whether the alarm has ever rung; it stays on."""
        return self.alarmed_at is not None

    @property
    def p_histogram(self) -> NDArray[np.int64]:
        """P-values since the last restart in 20 bins of equal width; a quiet stream fills them evenly."""
        return self._histogram.copy()

    @property
    def share_small(self) -> float:
        """Share of p < 0.05 since the last restart: the size of the effect. About 0.05 on a quiet stream."""
        total = int(self._histogram.sum())
        return float(self._histogram[0] / total) if total else math.nan

    def update(self, scores: ArrayLike) -> NDArray[np.float64]:
        """Evidence (log10) after each of the next scores; see ``log10_e``.

        Parameters
        ----------
        scores
            Next scores of the stream, shape (m,).

        Returns
        -------
        array of shape (m,)
            The evidence.
        """
        values = np.atleast_1d(as_comparable(scores, "scores"))
        evidence = np.empty(values.size)
        start = 0
        while start < values.size:
            if self.restart_after and self.urn.t >= self.restart_after:
                self._restart()
            room = self.restart_after - self.urn.t if self.restart_after else values.size
            block = slice(start, min(start + room, values.size))
            evidence[block] = self._run(values[block])
            start = block.stop
        return evidence

    def _run(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        first = self.urn.row
        p_values = self.urn.update(scores)
        # log1p(-p) needs p < 1; the last float below 1 differs from 1 by less than any p-value is exact to
        inside = np.minimum(p_values, 1 - 2.0**-53)
        path = log_mean(np.stack([bettor.update(inside) for bettor in self.bettors]))
        self._histogram += np.bincount((inside * _BINS).astype(np.intp), minlength=_BINS)
        self._log_e = float(path[-1])
        evidence = (path - self._cost()) / _NATS
        self.highest = max(self.highest, float(evidence.max()))
        over = evidence >= self.line
        if self.alarmed_at is None and over.any():
            self.alarmed_at = first + int(np.argmax(over)) + 1
        return np.asarray(evidence)

    def _restart(self) -> None:
        self.run += 1
        self.urn.restart()
        for bettor in self.bettors:
            bettor.restart()
        self._log_e = 0.0
        self._histogram[:] = 0

    def _cost(self) -> float:
        return math.log(self.run * (self.run + 1)) if self.restart_after else 0.0

    def __repr__(self) -> str:
        rung = f"rang at row {self.alarmed_at:,}" if self.alarmed else "quiet"
        return f"DriftAlarm({rung}, rows={self.rows:,}, log10_e={self.log10_e:.2f}, line={self.line:.2f})"

    # -- state and files ----------------------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """What changes as points arrive; ``restore`` goes on from it, bit for bit."""
        return {
            "urn": self.urn.state(),
            "bettors": [bettor.state() for bettor in self.bettors],
            "run": self.run,
            "highest": self.highest,
            "alarmed_at": self.alarmed_at,
            "log_e": self._log_e,
            "histogram": self._histogram.tolist(),
        }

    def restore(self, state: dict[str, Any]) -> Self:
        """Go on from a ``state``.

        Parameters
        ----------
        state
            What ``state`` returned.
        """
        self.urn.restore(state["urn"])
        for bettor, numbers in zip(self.bettors, state["bettors"], strict=True):
            bettor.restore(numbers)
        self.run, self.highest, self.alarmed_at = state["run"], state["highest"], state["alarmed_at"]
        self._log_e, self._histogram = state["log_e"], np.array(state["histogram"], dtype=np.int64)
        return self

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write alarm and state to a folder; the write is atomic.

        Parameters
        ----------
        folder
            Folder to write.
        """
        state = self.state()
        urn = state.pop("urn")
        with _FOLDER.saving(folder) as staged:
            np.save(staged / "calibration.npy", self.urn.calibration)
            np.save(staged / "counts.npy", urn["counts"])
            page = {"alpha": self.alpha, "seed": self.urn.seed, "restart_after": self.restart_after, "row": urn["row"]}
            write_json(staged / _FOLDER.page, {"format": _FOLDER.format, "version": _FOLDER.version, **page, **state})

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> DriftAlarm:
        """Read what ``save`` wrote; the alarm goes on from where it was.

        Parameters
        ----------
        folder
            Folder that ``save`` wrote.

        Returns
        -------
        DriftAlarm
            The alarm.
        """
        source = Path(folder)

        def read(page: dict[str, Any], files: dict[str, Path]) -> DriftAlarm:
            try:
                calibration, counts = (np.array(read_npy(files[f"{name}.npy"])) for name in ("calibration", "counts"))
                alarm = cls(calibration, alpha=page["alpha"], seed=page["seed"], restart_after=page["restart_after"])
                return alarm.restore(page | {"urn": {"row": page["row"], "counts": counts}})
            except (KeyError, TypeError, ValueError) as error:
                raise InputError(f"{source / _FOLDER.page} is damaged ({error}). Start a new alarm.") from None

        return _FOLDER.reading(source, read)
