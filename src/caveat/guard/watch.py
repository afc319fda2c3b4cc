"""Watch: drift alarms on the stream of a guard, and a monitor of its live errors. State apart from the guard itself."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from caveat._internal.checks import as_kind, as_level
from caveat._internal.files import read_npy, write_json
from caveat._internal.folders import ArrayFolder
from caveat.drift import DriftAlarm, RiskMonitor
from caveat.errors import InputError
from caveat.guard.verdicts import Verdicts

if TYPE_CHECKING:
    from caveat.guard.guard import Guard

__all__ = ["Watch"]

_FOLDER = ArrayFolder(
    page="state.json", format="caveat-guard-state", version=1, what="the state of a guard", owned=lambda _, __: False
)


@final
class Watch:
    """Three drift alarms that share ``alpha``: the score (inputs), the predicted class (label shift), the confidence.

    A stream of inliers that are exchangeable with the calibration rows ever raises one of them with probability alpha
    at most. Drift never changes a verdict.

    Parameters
    ----------
    guard
        A calibrated guard.
    alpha
        Allowed chance of an alarm on a quiet stream, over all three; the risk monitor has an alpha of its own.

    Examples
    --------
    >>> from caveat.guard import Guard
    >>> from caveat.demo.network import demo_outputs
    >>> demo = demo_outputs()
    >>> guard = Guard(score="knn").fit(demo.train).calibrate(demo.calibration)
    >>> watch = Watch(guard, alpha=0.01)
    >>> evidence = watch.update(guard(demo.outliers["far: inverted"]))
    >>> sorted(evidence), "score" in watch.alarmed
    (['class', 'confidence', 'score'], True)
    """

    def __init__(self, guard: Guard, *, alpha: float = 0.01) -> None:
        from caveat.guard.guard import Guard

        guard = as_kind(guard, Guard, "guard", what="a calibrated Guard")
        self.fingerprint, self.alpha = guard.fingerprint, as_level(alpha, "alpha")
        seed = int(self.fingerprint[:12], 16)  # random numbers depend on guard and row alone: a replay is the same
        streams = guard.watched_
        self.alarms = {
            name: DriftAlarm(values, alpha=self.alpha / len(streams), seed=seed + i)
            for i, (name, values) in enumerate(streams.items())
        }
        promised = next((p for p in guard.promises if p.what == "errors among the accepted" and p.holds), None)
        self.risk = None if promised is None else RiskMonitor(risk=promised.bound, alpha=self.alpha)

    def update(self, verdicts: Verdicts) -> dict[str, NDArray[np.float64]]:
        """Take in the next rows, in the order in which they came; evidence (log10) of each stream after each row.

        Parameters
        ----------
        verdicts
            Verdicts of the guard on the next m rows.

        Returns
        -------
        dict
            Stream (``score``, ``class``, ``confidence``) -> evidence, shape (m,).
        """
        as_kind(verdicts, Verdicts, "verdicts", what="Verdicts, as guard(outputs) gives them")
        return {name: self.alarms[name].update(values) for name, values in self.values(verdicts).items()}

    def values(self, verdicts: Verdicts) -> dict[str, NDArray[np.float64]]:
        """What each stream sees of some verdicts, one value per row.

        Parameters
        ----------
        verdicts
            Verdicts of the guard.

        Returns
        -------
        dict
            Stream -> values, shape (m,).
        """
        columns = {"score": verdicts.score, "class": verdicts.predictions, "confidence": verdicts.doubt}
        return {name: np.asarray(columns[name], dtype=np.float64) for name in self.alarms}

    def labels(self, wrong: ArrayLike, has_label: ArrayLike | None = None) -> None:
        """Labels that came later: whether each answer was wrong, of the accepted rows alone.

        Parameters
        ----------
        wrong
            Whether each answer was wrong, shape (m,).
        has_label
            Whether it has a label; see ``RiskMonitor.update``.
        """
        if self.risk is None:
            raise InputError("the guard promises no error rate, so there is nothing to compare labels with. "
                             "Calibrate it with risk=.")  # fmt: skip
        self.risk.update(wrong, has_label)

    @property
    def rows(self) -> int:
        """Rows so far."""
        return self.alarms["score"].rows

    @property
    def alarmed(self) -> tuple[str, ...]:
        """Streams whose alarm has rung, and ``"risk"`` if the live error passed its promise."""
        names = [name for name, alarm in self.alarms.items() if alarm.alarmed]
        return (*names, "risk") if self.risk is not None and self.risk.alarmed else tuple(names)

    @property
    def alarmed_at(self) -> dict[str, int]:
        """Row at which each alarm rang, of those that have; ``"risk"`` counts labels."""
        rows = {name: alarm.alarmed_at for name, alarm in self.alarms.items()}
        rows |= {} if self.risk is None else {"risk": self.risk.alarmed_at}
        return {name: row for name, row in rows.items() if row is not None}

    @property
    def log10_e(self) -> dict[str, float]:
        """Evidence for drift in each stream; its alarm line is ``alarms[name].line``."""
        return {name: alarm.log10_e for name, alarm in self.alarms.items()}

    def __repr__(self) -> str:
        rung = f"alarm: {', '.join(self.alarmed)}" if self.alarmed else "quiet"
        evidence = ", ".join(f"{name} {value:.2f}" for name, value in self.log10_e.items())
        return f"Watch({rung}, rows={self.rows:,}, log10_e: {evidence})"

    # -- state and files ----------------------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """What changes as rows and labels arrive."""
        return {
            "alarms": {name: alarm.state() for name, alarm in self.alarms.items()},
            "risk": None if self.risk is None else self.risk.state(),
        }

    def restore(self, state: dict[str, Any]) -> Self:
        """Go on from a ``state``.

        Parameters
        ----------
        state
            What ``state`` returned.
        """
        for name, alarm in self.alarms.items():
            alarm.restore(state["alarms"][name])
        if self.risk is not None:
            self.risk.restore(state["risk"])
        return self

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write the state to a folder; the write is atomic.

        Parameters
        ----------
        folder
            Folder to write.
        """
        state = self.state()
        with _FOLDER.saving(folder) as staged:
            for name, alarm in state["alarms"].items():
                np.save(staged / f"counts-{name}.npy", alarm["urn"].pop("counts"))
            page = {"guard": self.fingerprint, "alpha": self.alpha, "state": state}
            write_json(staged / _FOLDER.page, {"format": _FOLDER.format, "version": _FOLDER.version, **page})

    @classmethod
    def load(cls, guard: Guard, folder: str | os.PathLike[str]) -> Watch:
        """Read what ``save`` wrote for this guard.

        Parameters
        ----------
        guard
            The guard that is watched.
        folder
            Folder that ``save`` wrote.

        Returns
        -------
        Watch
            The alarms, which go on from where they were.
        """
        source = Path(folder)

        def read(page: dict[str, Any], files: dict[str, Path]) -> Watch:
            if page.get("guard") != guard.fingerprint:
                raise InputError(f"{source} is the state of another guard. Start a new watch: guard.watch().")
            try:
                watch = cls(guard, alpha=page["alpha"])
                for name, alarm in page["state"]["alarms"].items():
                    alarm["urn"]["counts"] = np.array(read_npy(files[f"counts-{name}.npy"]))
                return watch.restore(page["state"])
            except (KeyError, TypeError, ValueError, AttributeError) as error:
                raise InputError(f"{source / _FOLDER.page} is damaged ({type(error).__name__}: {error}). "
                                 "Start a new watch: guard.watch().") from None  # fmt: skip

        return _FOLDER.reading(source, read)
