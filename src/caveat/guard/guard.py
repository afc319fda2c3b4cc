"""Guard: the decision of an evaluation as an object that is fitted, calibrated, called, saved and watched.

A row passes three gates in this order; the first that stops it gives the verdict.

1. *outlier* if its score is at or above a threshold. Promise: with probability 1 - delta over the calibration rows, at
   most ``false_alarm`` of further inliers are stopped here.
2. *abstain* if its confidence is too low for the promised ``risk``, or no class fits. Promise: with probability
   1 - delta, at most ``risk`` of the accepted inliers are answered wrongly. Where the calibration rows cannot carry
   that promise, nothing is accepted.
3. *accept*, with a prediction set. Promise: the sets of inliers hold the true class with probability 1 - alpha.

Each promise spends a delta of its own. Nothing is promised about outliers.
"""

from __future__ import annotations

import copy
import datetime
import hashlib
import json
import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, Self, final

import numpy as np
from numpy.typing import NDArray

from caveat._internal.checks import Rng, as_kind, as_list, as_vector, check_known, same_length
from caveat._internal.classes import agreed_names, in_order
from caveat._internal.params import check_params, choice, level
from caveat._internal.streams import stream
from caveat.conformal import FPRBand, SplitSets, select_outliers
from caveat.conformal.grouped import GroupedScores
from caveat.conformal.nonconformity import NONCONFORMITY
from caveat.errors import CaveatWarning, InputError, NotFittedError
from caveat.evaluation.gates import abstain_gate, outlier_gate
from caveat.evaluation.parts import tuning_rows
from caveat.guard.domain import OUTSIDE, Domain
from caveat.guard.statistic import Combination, Statistic
from caveat.guard.verdicts import Verdicts
from caveat.outputs import Head, Outputs
from caveat.outputs.outputs import demand
from caveat.outputs.roles import check_roles
from caveat.results import PredictionSets, Promise
from caveat.scores import Score, make
from caveat.scores.together import fit_all

if TYPE_CHECKING:
    from caveat.guard.onnx_export import OnnxExport
    from caveat.guard.watch import Watch

__all__ = ["Guard"]

_EXCHANGEABLE = "calibration rows and future in-distribution rows are exchangeable"


@final
@dataclass(eq=False)
class Guard:
    """Accepts, abstains, or calls an input an outlier, and promises how often it is wrong about that.

    Parameters
    ----------
    score
        OOD score of the outlier gate: a name, a score object (copied), or several of them, which are combined on a
        part of the calibration rows.
    sets
        Nonconformity of the prediction sets (``"lac"``, ``"aps"``, ...); None: no sets.
    false_alarm
        Allowed share of inliers that are called outliers.
    risk
        Allowed share of wrong answers among the accepted inliers; None: no such gate.
    alpha
        Allowed share of inliers whose set lacks the true class.
    delta
        Allowed chance that the calibration rows mislead, for each promise by itself.
    confidence
        Score of the abstain gate.
    combine
        How several scores become one: ``"fisher"`` (mean of -log p) or ``"min"`` (smallest p).
    outside
        What becomes of a row that calibration cannot have seen, such as a confidence in percent where all were between
        0 and 1: ``"error"``, or ``"outlier"``.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> labels = rng.integers(3, size=1200)
    >>> logits = 6 * np.eye(3)[labels] + rng.normal(size=(1200, 3))
    >>> guard = Guard("energy", risk=0.05)
    >>> guard = guard.calibrate(Outputs(logits=logits[:1000], labels=labels[:1000]), date="2026-11-18")
    >>> guard(Outputs(logits=logits[1000:]))
    Verdicts(n=200: 185 accept, 11 abstain, 4 outlier)
    >>> print(guard.promises[0])
    At most 5 % of in-distribution inputs are rejected, with 95 % confidence (n = 1000 calibration rows, 2026-11-18).
    """

    score: str | Score | Sequence[str | Score] = "energy"
    sets: str | None = "lac"
    false_alarm: float = level(0.05)
    risk: float | None = level(None)
    alpha: float = level(0.1)
    delta: float = level(0.05)
    confidence: str | Score = "msp"
    combine: Combination = "fisher"
    outside: Literal["error", "outlier"] = choice("error", ("error", "outlier"), "value of outside")

    def __post_init__(self) -> None:
        check_params(self)
        check_known(self.combine, ("fisher", "min"), "combination")
        if self.sets is not None:
            check_known(self.sets, NONCONFORMITY, "nonconformity score")
        parts = [self.score] if isinstance(self.score, Score) else as_list(self.score, "score")
        self.scores_ = tuple(_made(part, "score") for part in parts)
        self.confidence_ = _made(self.confidence, "confidence")
        self.splits_: dict[str, dict[str, Any]] = {}
        self.class_names_: tuple[str, ...] | None = None
        self._train: Outputs | None = None

    # -- fitting ------------------------------------------------------------------------------------------------------

    def fit(self, train: Outputs, *, rng: Rng = 0) -> Self:
        """Fit the scores that learn on training outputs. Scores that learn nothing need no call.

        A guard that was calibrated must be calibrated again.

        Parameters
        ----------
        train
            Training outputs.
        rng
            Seed of the random steps, as in ``Score.fit``.
        """
        demand(train, who="Guard.fit", name="train")
        for score in self.learners():
            score.can_fit(train)
        self.scores_ = tuple(score.without_class_scores() for score in self.scores_)  # sets come from probabilities
        if self.risk is not None:
            self.confidence_ = self.confidence_.without_class_scores()
        fit_all(self.learners(), train, rng=rng)
        return self.fitted_on(_fingerprints(train), train)

    def learners(self) -> list[Score]:
        """The scores that ``fit`` fits: all in use but those that learn from calibration rows."""
        return [score for score in self._all_scores() if not score.held_out]

    def fitted_on(self, fingerprints: Mapping[str, Any], train: Outputs | None = None) -> Self:
        """Note which rows the scores were fitted on.

        Parameters
        ----------
        fingerprints
            Number of rows, and the SHA-256 of each array.
        train
            The rows, where they are in memory, to be compared with others.
        """
        self.splits_ = {"train": dict(fingerprints)}
        self._train = train
        self.class_names_ = getattr(train, "class_names", None)
        vars(self).pop("promises_", None)  # thresholds of the scores as they were say nothing about the new ones
        return self

    def calibrate(
        self, calibration: Outputs, *, seed: int = 0, date: str | None = None, tuning: Outputs | None = None
    ) -> Self:
        """Set every threshold on held-out outputs.

        Parameters
        ----------
        calibration
            Outputs that neither trained the model nor chose the score. Labels are needed for ``risk`` and ``sets``,
            logits or probs for ``sets``. Class names must be those of the training outputs, where both have names.
        seed
            Splits the calibration rows where scores are combined, or where a score learns from held-out rows.
        date
            Day of the calibration, for the promises; default today.
        tuning
            Other held-out rows, for scores that learn from held-out rows, such as a temperature. Default: one
            calibration row in five, which then sets no threshold of a gate with such a score.
        """
        demand(calibration, who="Guard.calibrate", name="calibration")
        if tuning is not None:
            demand(tuning, who="Guard.calibrate", name="tuning")
        for name, wanted in (("risk", self.risk), ("sets", self.sets)):
            able = calibration.has("correct") and (name == "risk" or calibration.has("probs"))
            if wanted is not None and not able:
                answers = "logits or probs" if name == "sets" else "logits, probs or predictions"
                raise InputError(f"Guard with {name} needs labels, and {answers}, of the calibration rows. "
                                 f"Store them, or pass {name}=None.")  # fmt: skip
        if self._train is not None:
            agreed_names({"train": self._train, "calibration": calibration})
        calibration = in_order(calibration, self.class_names_, name="calibration", of="train")
        self.class_names_ = self.class_names_ or calibration.class_names
        if tuning is not None:
            tuning = in_order(tuning, self.class_names_, name="tuning", of="calibration")
        self._check_roles(calibration, tuning)
        self.domain_ = Domain.of(calibration, self._reads(calibration))
        gate, both = (_on(calibration, rows) for rows in self._split(calibration, seed, tuning))
        self.calibrated_at_ = date or datetime.date.today().isoformat()
        self.keep_calibration(np.sort(self.statistic_.score(gate)))
        self.threshold_, alarms = outlier_gate(self.calibration_scores_, false_alarm=self.false_alarm,
                                               delta=self.delta, assumption=_EXCHANGEABLE)  # fmt: skip
        promises, self.sets_ = [alarms], None
        if self.sets is not None:
            held = gate if self.statistic_.references else calibration  # sets read probabilities, which learn nothing
            self.sets_ = SplitSets(self.sets, alpha=self.alpha).calibrate(held)
            promises.append(Promise(what="coverage", bound=min(self.sets_.level_, 1 - self.alpha), confidence=None,
                                    n=held.n, method="split conformal", assumption=_EXCHANGEABLE))  # fmt: skip
        self.accept_below_: float | None = None
        if self.risk is not None:
            self.accept_below_, errors = self._abstain_gate(both, self.risk)
            promises.insert(1, errors)
        self.promises_ = [_dated(promise, self.calibrated_at_, self.splits_) for promise in promises]
        self._keep_for_watching(gate, both)
        for promise in self.promises_:
            if not promise.holds:
                warnings.warn(str(promise), CaveatWarning, stacklevel=2)
        return self

    def keep_calibration(self, scores: NDArray[np.float64]) -> None:
        """Keep the sorted calibration scores, and what p-values are read from.

        Parameters
        ----------
        scores
            Sorted scores of the calibration rows, shape (n,).
        """
        self.calibration_scores_ = scores
        self._ranks, self._band = GroupedScores.of(scores), FPRBand(scores, delta=self.delta)

    def _check_roles(self, calibration: Outputs, tuning: Outputs | None) -> None:
        marks = _fingerprints(calibration)
        for role, kept in self.splits_.items():
            if role == "train" and kept["sha256"] == marks["sha256"]:
                raise InputError(f"{role} and calibration are the same {calibration.n} rows. "
                                 "Give each role data of its own.")  # fmt: skip
        check_roles({"train": self._train, "tuning": tuning, "calibration": calibration})
        self.splits_ = {role: kept for role, kept in self.splits_.items() if role == "train"}
        if tuning is not None:
            self.splits_["tuning"] = _fingerprints(tuning)
        self.splits_["calibration"] = marks

    def _split(
        self, calibration: Outputs, seed: int, tuning: Outputs | None
    ) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Fit what needs held-out rows, and say which rows are left for the outlier gate, and for both gates."""
        gate = np.ones(calibration.n, dtype=np.bool_)
        both = gate.copy()
        for score in self._all_scores():
            if not score.held_out:
                continue
            if tuning is not None:
                score.fit(tuning, rng=seed)
                continue
            chosen = tuning_rows(calibration.n, seed)
            score.fit(calibration[chosen], rng=seed)
            both &= ~chosen
            gate &= ~chosen if score in self.scores_ else True
        if len(self.scores_) == 1:
            self.statistic_ = Statistic(self.scores_)
            return gate, both
        place = np.flatnonzero(both)
        first = stream(seed, "combination rows").permutation(place)[: place.size // 2]
        references = tuple(np.sort(score.rounded(calibration[np.sort(first)])) for score in self.scores_)
        self.statistic_ = Statistic(self.scores_, references, self.combine)
        both[first] = False
        return both, both

    def _abstain_gate(self, held: Outputs, risk: float) -> tuple[float, Promise]:
        """Calibrate on the labeled rows that pass the first gate and have a class that fits."""
        passed = self.statistic_.score(held) < self.threshold_
        if self.sets_ is not None:
            passed &= self.sets_.predict(held).sizes > 0
        return abstain_gate(self.confidence_.rounded(held), held.correct, passed, risk=risk, delta=self.delta,
                            assumption=_EXCHANGEABLE)  # fmt: skip

    def _keep_for_watching(self, gate: Outputs, both: Outputs) -> None:
        # Functions of a row that do not depend on these rows, so that rows and stream stay exchangeable.
        self.watched_: dict[str, NDArray[np.float64]] = {"score": self.calibration_scores_}
        if gate.has("predictions"):
            self.watched_["class"] = np.sort(gate.predictions.astype(np.float64))
        if self.risk is not None or not (
            self.confidence_.fits_on or self.confidence_.missing(train=None, outputs=both)
        ):
            self.watched_["confidence"] = np.sort(self.confidence_.rounded(both))

    # -- verdicts -----------------------------------------------------------------------------------------------------

    @property
    def promises(self) -> tuple[Promise, ...]:
        """What holds for inliers, also promises that could not be made."""
        self._demand_calibrated()
        return tuple(self.promises_)

    def __call__(self, outputs: Outputs, *, fdr: float | None = None, cut: float | None = None) -> Verdicts:
        """Verdict on each row.

        Parameters
        ----------
        outputs
            What the model said about the rows. Class names, where they have any, must be those of the guard; verdicts
            number the classes in the order of the guard.
        fdr
            None: rows at or above the threshold are outliers. A number: the outliers of this batch are selected so
            that at most this share of the selected is expected to be inliers (Benjamini-Hochberg).
        cut
            Largest p-value that is selected, with ``fdr``, where these rows are a part of the batch
            (``RankHistogram.largest_p`` of all parts).

        Returns
        -------
        Verdicts
            ``kind`` of each row, with p-values, prediction sets and reasons.
        """
        self._demand_calibrated()
        demand(outputs, who="Guard")
        outputs = in_order(outputs, self.class_names_, name="outputs", of="the guard")
        self.domain_.check(outputs, columns_alone=self.outside == "outlier")
        outputs = self.domain_.read(outputs)
        score = self.statistic_.score(outputs)
        if self.outside == "outlier":
            score[self.domain_.outside(outputs)] = OUTSIDE
        return self._decided(
            score=score,
            doubt=self.confidence_.rounded(outputs) if "confidence" in self.watched_ else None,
            sets=None if self.sets_ is None else self.sets_.predict(outputs), predictions=outputs.predictions, fdr=fdr,
            cut=cut,
        )  # fmt: skip

    def decide(
        self, *, score: NDArray[np.float64], doubt: NDArray[np.float64] | None = None,
        sets: PredictionSets | None = None, predictions: NDArray[np.intp] | None = None, fdr: float | None = None,
        cut: float | None = None,
    ) -> Verdicts:  # fmt: skip
        """Verdicts from what was computed of each row: p-values and the three gates alone.

        Parameters
        ----------
        score
            OOD score, shape (n,).
        doubt
            Score of the abstain gate, shape (n,); None where the guard does not watch it.
        sets
            Prediction sets; None where the guard has none.
        predictions
            Predicted classes, shape (n,).
        fdr, cut
            As in a call of the guard.

        Returns
        -------
        Verdicts
            One verdict per row.
        """
        self._demand_calibrated()
        score = as_vector(score, "score", allow_infinite=True)
        if doubt is not None:
            doubt = as_vector(doubt, "doubt", allow_infinite=True)
            same_length(score=score, doubt=doubt)
        return self._decided(score=score, doubt=doubt, sets=sets, predictions=predictions, fdr=fdr, cut=cut)

    def _decided(
        self, *, score: NDArray[np.float64], doubt: NDArray[np.float64] | None, sets: PredictionSets | None,
        predictions: NDArray[np.intp] | None, fdr: float | None, cut: float | None,
    ) -> Verdicts:  # fmt: skip
        """``decide`` for values that were checked before."""
        p_values = self._ranks.p_values(score)
        if fdr is None:
            outlier = score >= self.threshold_
        else:
            outlier = select_outliers(p_values, fdr) if cut is None else p_values <= cut
        outlier |= score == OUTSIDE  # also where the calibration rows carry no threshold
        kind = np.where(outlier, "outlier", "accept").astype("<U7")
        abstain = np.zeros(score.size, dtype=np.bool_)
        if self.accept_below_ is not None and doubt is not None:
            abstain |= doubt >= self.accept_below_
        if sets is not None:
            abstain |= sets.sizes == 0
        kind[abstain & ~outlier] = "abstain"
        return Verdicts(
            kind=kind, score=score, p_values=p_values, conditional_p_values=self._band.upper(score),
            threshold=self.threshold_, predictions=predictions, sets=sets, doubt=doubt,
            accept_below=self.accept_below_, selected_at=fdr, confidence=self.confidence_.name,
            class_names=self.class_names_,
        )  # fmt: skip

    def watch(self, *, alpha: float = 0.01) -> Watch:
        """Drift alarms on the inputs, the predicted classes and the confidence, which share ``alpha``.

        Parameters
        ----------
        alpha
            Allowed chance of an alarm on a quiet stream, over all alarms.

        Returns
        -------
        Watch
            Feed it verdicts with ``update``.
        """
        from caveat.guard.watch import Watch

        self._demand_calibrated()
        return Watch(self, alpha=alpha)

    # -- identity and files -------------------------------------------------------------------------------------------

    @property
    def fingerprint(self) -> str:
        """Identifies the calibrated guard: SHA-256 of its settings, data and calibration scores."""
        self._demand_calibrated()
        names = [] if self.class_names_ is None else [list(self.class_names_)]
        parts = [self.settings(), self.splits_, self.domain_.to_dict(), self.calibrated_at_, *names]
        digest = hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode())
        digest.update(self.calibration_scores_.tobytes())
        return digest.hexdigest()

    def settings(self) -> dict[str, Any]:
        """The parameters as plain values; scores by their representation."""
        return {
            "score": [repr(score) for score in self.scores_],
            "sets": self.sets,
            "false_alarm": self.false_alarm,
            "risk": self.risk,
            "alpha": self.alpha,
            "delta": self.delta,
            "confidence": repr(self.confidence_),
            "combine": self.combine,
            "outside": self.outside,
        }

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write the guard to a folder of JSON and ``.npy`` files; the write is atomic.

        Parameters
        ----------
        folder
            Folder to write.
        """
        from caveat.guard.files import save

        self._demand_calibrated()
        save(self, folder)

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> Guard:
        """Read a guard that ``save`` wrote; its verdicts are the same, bit for bit.

        Parameters
        ----------
        folder
            Folder that ``save`` wrote.

        Returns
        -------
        Guard
            The calibrated guard.
        """
        from caveat.guard.files import load

        return load(folder)

    def export_onnx(
        self,
        path: str | os.PathLike[str],
        model: str | os.PathLike[str] | None = None,
        *,
        outputs: Mapping[str, str] | None = None,
        head: Head | None = None,
        dtype: Literal["float32", "float64"] = "float32",
    ) -> OnnxExport:
        """Write the guard as an ONNX file, or together with the model that it guards; compared with numpy before.

        Parameters
        ----------
        path
            File to write.
        model
            ONNX file of the classifier: the guard is appended to it, and its outputs stay.
        outputs
            Field of ``Outputs`` -> name of the tensor of the model, where they differ; inner tensors count too.
        head
            Last linear layer: logits are then computed from features, as in ``Outputs``. ash and scale need it.
        dtype
            Type of the inputs of a file without ``model``; that of the calibration outputs.

        Returns
        -------
        OnnxExport
            What was written, and ``difference``, how closely it agrees with the guard.
        """
        from caveat.guard.onnx_export import export_onnx

        self._demand_calibrated()
        return export_onnx(self, path, model=model, outputs=outputs, head=head, dtype=dtype)

    def _reads(self, outputs: Outputs) -> set[str]:
        """Fields of these outputs that verdicts are computed from."""
        able = self.risk is not None or not self.confidence_.missing(train=None, outputs=outputs)
        scores = (*self.scores_, self.confidence_) if able else self.scores_
        return {field for score in scores for field in score.needs} | ({"probs"} if self.sets is not None else set())

    def _all_scores(self) -> tuple[Score, ...]:
        return (*self.scores_, self.confidence_) if self.risk is not None else self.scores_

    def _demand_calibrated(self) -> None:
        if not hasattr(self, "promises_"):
            raise NotFittedError("the guard has no thresholds yet. Call calibrate(calibration) first.")

    def __repr__(self) -> str:
        names = ", ".join(score.name for score in self.scores_)
        state = f"calibrated {self.calibrated_at_}" if hasattr(self, "promises_") else "not calibrated"
        return f"Guard({names}, false_alarm={self.false_alarm:g}, {state})"


def _made(value: str | Score, name: str) -> Score:
    if isinstance(value, str):
        return make(value)
    # A copy: another guard that fits the same object would change the scores under these thresholds.
    return copy.deepcopy(as_kind(value, Score, name, what="the name of a score or a Score"))


def _on(outputs: Outputs, rows: NDArray[np.bool_]) -> Outputs:
    return outputs if rows.all() else outputs[rows]


def _dated(promise: Promise, date: str, splits: Mapping[str, Any]) -> Promise:
    digests = {role: hashlib.sha256(json.dumps(marks, sort_keys=True).encode()).hexdigest()
               for role, marks in splits.items()}  # fmt: skip
    return replace(promise, calibrated_at=date, splits=digests)


def _fingerprints(outputs: Outputs) -> dict[str, Any]:
    """Number of rows, and SHA-256 of each array's bytes."""
    digests = {}
    for name, array in outputs.arrays().items():
        digest = hashlib.sha256()
        digest.update(f"{array.dtype.str}{array.shape}".encode())
        digest.update(np.ascontiguousarray(array).data)
        digests[name] = digest.hexdigest()
    return {"n": outputs.n, "sha256": digests}
