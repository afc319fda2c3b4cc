"""The roles of data in an evaluation, and who may look at which.

============  ================================================  =======================================================
role          who may look                                      used for
============  ================================================  =======================================================
train         ``fit``                                           scores that learn
calibration   nobody before the thresholds are set              threshold, sets, risk; temperature on a part of its own
tuning        choosing temperature and parameters               settings of the scores; sets no threshold
inlier        measuring, choosing the score                     AUROC, FPR, AURC, coverage
outliers      measuring, choosing the score                     AUROC, share caught
confirm       the decision alone, after it is made              share caught that the choice did not flatter
============  ================================================  =======================================================
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from caveat._internal.checks import as_kind
from caveat._internal.classes import agreed_names
from caveat._internal.streams import stream
from caveat.errors import InputError
from caveat.outputs import Outputs
from caveat.outputs.roles import check_roles

__all__ = ["Parts", "named_sets", "tuning_rows"]

_TUNING = 5  # one calibration row in five fits what must be fitted on held-out rows, such as a temperature
_LEAST_TUNING = 20


@final
@dataclass(frozen=True, eq=False)
class Parts:
    """What one model said, by role. Any role but ``inlier`` may be missing; a study's cell reads only those it needs.

    Parameters
    ----------
    train, calibration, inlier
        Outputs of the model in these roles.
    outliers, confirm
        Name -> outputs from elsewhere; ``confirm`` is looked at only after the decision.
    split
        Whether ``calibration`` is a random half of the inliers that were given.
    tuning
        Held-out inliers that choose settings and set no threshold; None where nothing is chosen.

    Examples
    --------
    >>> parts = Parts(inlier=Outputs(logits=[[1.0, 0.0]] * 10), outliers={"noise": Outputs(logits=[[0.1, 0.0]])})
    >>> list(parts.roles())
    ['inlier', 'outlier:noise']
    """

    train: Outputs | None = None
    calibration: Outputs | None = None
    inlier: Outputs | None = None
    outliers: Mapping[str, Outputs] = field(default_factory=dict)
    confirm: Mapping[str, Outputs] = field(default_factory=dict)
    split: bool = False
    tuning: Outputs | None = None

    @property
    def held_out(self) -> Outputs:
        """The inliers that everything is measured on."""
        if self.inlier is None:
            raise InputError("inlier outputs are missing. Give held-out inliers.")
        return self.inlier

    @cached_property
    def correct(self) -> Any:
        """Whether each answer about the inliers is right, computed once for all scores; None where that is unknown."""
        return self.held_out.correct

    def roles(self) -> dict[str, Outputs]:
        """Role -> outputs; an outlier set's role is ``outlier:name``."""
        own = {"train": self.train, "tuning": self.tuning, "calibration": self.calibration, "inlier": self.inlier}
        return (
            {role: outputs for role, outputs in own.items() if outputs is not None}
            | {f"outlier:{name}": outputs for name, outputs in self.outliers.items()}
            | {f"confirm:{name}": outputs for name, outputs in self.confirm.items()}
        )

    def check(self) -> None:
        """Raise InputError unless all parts could be of one model and share no rows; warn of a few shared rows."""
        self.check_alike()
        self.check_apart()

    def check_apart(self, *, warn: bool = True) -> None:
        """Raise InputError where the same rows have two roles; warn of a few shared rows.

        Parameters
        ----------
        warn
            Whether to warn of a few shared rows.
        """
        own = {"train": self.train, "calibration": self.calibration, "inlier": self.inlier}
        check_roles(own, self.outliers, self.confirm, warn=warn)

    def check_alike(self) -> None:
        """Raise InputError unless all parts could be of one model: as many classes and features, where there are any.

        Scores of different models can be computed side by side, but their comparison would mean nothing. Logits in one
        part and probabilities in another are not compared either: several scores read them differently.
        """
        for name in {*self.outliers, *self.confirm}:
            if name in ("", "inlier"):
                raise InputError(f"an outlier set cannot be called '{name}'. Give it another name.")
        seen: dict[str, tuple[str, int]] = {}
        for role, outputs in self.roles().items():
            counts = {"classes": outputs.n_classes if outputs.has("probs") else None}
            for name in ("features", "embeddings"):
                counts[f"columns of {name}"] = getattr(outputs, name).shape[1] if outputs.has(name) else None
            for what, count in counts.items():
                if count is None:
                    continue
                first, expected = seen.setdefault(what, (role, count))
                if count != expected:
                    raise InputError(f"all parts must come from one model, got {expected} {what} in {first} and "
                                     f"{count} in {role}. Check the files.")  # fmt: skip

        kinds = {"probs" if outputs.gives_probs else "logits": role for role, outputs in reversed(self.roles().items())
                 if outputs.has("probs")}  # fmt: skip
        if len(kinds) > 1:
            raise InputError(f"all parts must hold logits or all must hold probs, got logits in {kinds['logits']} and "
                             f"probs in {kinds['probs']}. Store the same in both files.")  # fmt: skip

    def with_one_order(self) -> Parts:
        """These parts with class names in one order; an InputError names classes that only some of them have."""
        names = agreed_names(self.roles())

        def ordered(outputs: Outputs) -> Outputs:
            own = getattr(outputs, "class_names", None)
            return outputs if names is None or own in (None, names) else outputs.with_class_names(names)

        train, calibration, inlier = (None if outputs is None else ordered(outputs)
                                      for outputs in (self.train, self.calibration, self.inlier))  # fmt: skip
        outliers, confirm = ({k: ordered(v) for k, v in some.items()} for some in (self.outliers, self.confirm))
        return replace(self, train=train, calibration=calibration, inlier=inlier, outliers=outliers, confirm=confirm)

    def with_calibration(self, seed: int) -> Parts:
        """These parts with calibration rows: those given, or a random half of the inliers, drawn by its own stream.

        Parameters
        ----------
        seed
            Seed of the split.

        Returns
        -------
        Parts
            ``split`` says whether the inliers were split.
        """
        if self.calibration is not None or self.held_out.n < 2:
            return self
        half = stream(seed, "calibration split").permutation(self.held_out.n) < self.held_out.n // 2
        return replace(self, calibration=self.held_out[half], inlier=self.held_out[~half], split=True)

    def with_tuning(self, seed: int) -> Parts:
        """These parts with one calibration row in five as ``tuning``; the other four set the thresholds.

        Parameters
        ----------
        seed
            Seed of the split.

        Returns
        -------
        Parts
            ``calibration`` without the tuning rows.
        """
        if self.calibration is None or self.calibration.n < 2:
            raise InputError("tuning needs held-out inliers: calibration outputs, or at least 4 inliers. Add them.")
        if not self.calibration.has("correct"):
            raise InputError("tuning needs labels and predictions of the calibration outputs: settings are chosen by "
                             "how well a score finds errors. Add labels, or do not tune.")  # fmt: skip
        chosen = tuning_rows(self.calibration.n, seed)
        return replace(self, calibration=self.calibration[~chosen], tuning=self.calibration[chosen])


def named_sets(sets: Any, name: str, default: str) -> dict[str, Any]:
    """Name -> set, from a map; a set alone is called ``default``, and those of a list by number.

    Parameters
    ----------
    sets
        A map from names to sets, one set, a list of them, or None.
    name
        Name of the argument.
    default
        Name of a set that came without one.

    Examples
    --------
    >>> rows = Outputs(logits=[[1.0, 0.0]])
    >>> list(named_sets(rows, "outliers", "outlier")), list(named_sets([rows, rows], "outliers", "outlier"))
    (['outlier'], ['outlier 1', 'outlier 2'])
    """
    if isinstance(sets, Mapping):
        for key in sets:
            as_kind(key, str, f"the name of a set in {name}")
        return dict(sets)
    if sets is None:
        return {}
    if isinstance(sets, (list, tuple)):
        return {default if len(sets) == 1 else f"{default} {i}": item for i, item in enumerate(sets, 1)}
    return {default: sets}


def tuning_rows(n: int, seed: int) -> NDArray[np.bool_]:
    """Which of n calibration rows fit what needs held-out rows; the others set its thresholds.

    >>> int(tuning_rows(100, seed=0).sum())
    20
    """
    return np.asarray(stream(seed, "tuning rows").permutation(n) < max(n // _TUNING, min(_LEAST_TUNING, n // 2)))
