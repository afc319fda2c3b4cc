"""``caveat.evaluate`` over sources: scores are fitted and computed by row ranges, everything else is the same code.

Of each part the caller's process holds what measuring reads: one number per row and score, the answers (logits or
probs) and the labels. Features and inner layers stay where they are.
"""

from __future__ import annotations

import operator
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, final

import numpy as np
from numpy.typing import NDArray

from caveat._internal.checks import as_count, as_level
from caveat._internal.classes import agreed_names
from caveat._internal.notes import kept_warnings
from caveat.errors import InputError
from caveat.evaluation import Evaluation
from caveat.evaluation.evaluation import check_regime, choose_scores, evaluate_fitted, with_notes
from caveat.evaluation.measure import Settings, fit
from caveat.evaluation.parts import Parts, named_sets
from caveat.evaluation.records import Block, Data, Method
from caveat.outputs import Outputs
from caveat.scale.fitting import Job, Progress, fit_scores
from caveat.scale.rows import pieces
from caveat.scale.runner import running
from caveat.scale.scoring import Filled, can_score, check_rows
from caveat.scale.sources import Source
from caveat.scores import Score

__all__ = ["evaluate"]

Rows = Source | Outputs | str | os.PathLike[str]
_KEPT = ("logits", "probs", "labels", "predictions", "confidence", "ease_probs")  # what measuring reads besides scores


@final
@dataclass(eq=False)
class Computed(Score):
    """A score whose values stand in the outputs as a layer, so that they follow when rows are chosen."""

    method: str

    needs: ClassVar[tuple[str, ...]] = ("layers",)
    name: ClassVar[str] = "computed"

    def rounded(self, outputs: Outputs) -> NDArray[np.float64]:
        """As they stand: they were rounded before."""
        return self.score(outputs)

    def _score(self, block: Outputs) -> NDArray[Any]:
        return block.layers[self.method][:, 0]


@final
@dataclass(frozen=True, eq=False)
class ScoringAll:
    """The work of scoring one range with several scores: an array (rows, scores)."""

    source: Source
    first: Outputs
    scores: tuple[Score, ...]

    def __call__(self, start: int, stop: int) -> Filled:
        needs = {field for score in self.scores for field in score.needs}
        parts = [np.stack([score.rounded(piece) for score in self.scores], axis=1)
                 for piece in pieces(self.source, self.first, start, stop, needs, check=True)]  # fmt: skip
        return Filled(stop - start, tuple(parts))


def evaluate(
    *,
    inlier: Rows,
    outliers: Mapping[str, Rows] | Sequence[Rows] | Rows | None = None,
    train: Rows | None = None,
    calibration: Rows | None = None,
    confirm: Mapping[str, Rows] | Sequence[Rows] | Rows | None = None,
    scores: Iterable[str | Score] | None = None,
    false_alarm: float = 0.05,
    risk: float = 0.05,
    alpha: float = 0.1,
    delta: float = 0.05,
    seed: int = 0,
    regimes: Mapping[str, str] | None = None,
    regime: str = "",
    title: str = "Evaluation",
    client: Any = None,
    rows_per_task: int | None = None,
    progress: Progress | None = None,
) -> Evaluation:
    """Evaluate one model whose outputs are sources: ``caveat.evaluate`` with fitting and scoring by row ranges.

    Scores that need all training rows at once (knn, nnguide) are left out with that reason; named, they are an error.
    Training rows are not compared with those of the other parts.

    Parameters
    ----------
    inlier, outliers, train, calibration, confirm
        Sources in the roles of ``caveat.evaluate``.
    scores, false_alarm, risk, alpha, delta, seed, regimes, regime, title
        As in ``caveat.evaluate``.
    client, rows_per_task, progress
        As in ``scale.fit``.

    Returns
    -------
    Evaluation
        As ``caveat.evaluate`` returns it: ``decision``, ``ranking``, ``to_frame()``.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> sure = Outputs(logits=rng.normal(size=(400, 3)) + 5 * np.eye(3)[rng.integers(3, size=400)])
    >>> unsure = Outputs(logits=rng.normal(size=(100, 3)))
    >>> result = evaluate(inlier=sure, outliers={"noise": unsure}, scores=["msp", "energy"], rows_per_task=64)
    >>> result.ranking.methods
    ('energy', 'msp')
    """
    started = time.perf_counter()
    with kept_warnings() as notes:
        settings = Settings(as_level(alpha, "alpha"), as_level(delta, "delta"), as_count(seed, "seed", least=0))
        false_alarm, risk = as_level(false_alarm, "false_alarm"), as_level(risk, "risk")
        check_regime(regime, regimes)
        tell = progress or (lambda what, done, total: None)
        with running(client) as runner:

            def job(source: Rows | None) -> Any:
                if source is None:
                    return None
                return Job.on(source, runner, rows_per_task=rows_per_task, progress=progress)

            far, confirming = ({k: job(v) for k, v in named_sets(sets, name, "outlier").items()}
                               for name, sets in (("outliers", outliers), ("confirm", confirm)))  # fmt: skip
            jobs: Any = Parts(job(train), job(calibration), job(inlier), far, confirming)
            names = agreed_names(_mapped(jobs, lambda job: job.rows(None)).roles())
            jobs = _mapped(jobs, lambda job: job.in_order(names, name="a part", of="another"))
            able, left = _fitted(jobs, scores, seed)
            here = {method: score for method, score in able.items() if score.held_out}  # fitted on calibration rows
            there = {method: score for method, score in able.items() if method not in here}
            slim = _mapped(jobs, lambda one: _with_scores(one, there))
        slim = replace(slim, train=None)
        slim.check()
        parts = slim.with_calibration(seed)
        fit(here.values(), parts, seed)
        computed: dict[Method, Score] = {method: here.get(method) or Computed(str(method)) for method in able}
        result = evaluate_fitted(
            parts, computed, left, settings, false_alarm=false_alarm, risk=risk, regimes=regimes, regime=regime,
            title=title, tell=tell, started=started,
        )  # fmt: skip
        result = replace(
            result, records=(*_data(jobs, result), *(r for r in result.records if not isinstance(r, Data)))
        )
    return with_notes(result, notes)


def _fitted(
    jobs: Any, scores: Iterable[str | Score] | None, seed: int
) -> tuple[dict[Method, Score], dict[Method, str]]:
    """The chosen scores, those that learn from training rows fitted, and why the others are left out."""
    shapes: Parts = _mapped(jobs, lambda job: job.rows(job.first.n_classes))
    held = shapes.calibration or shapes.inlier  # without calibration rows, a half of the inliers takes their place
    chosen, left = choose_scores(replace(shapes, calibration=held), scores)
    able = {method: score.without_class_scores() for method, score in chosen.items()}
    if scores is None:
        reasons = {
            method: score.all_rows() or score.walks_alone for method, score in able.items() if not score.held_out
        }
        left |= {method: f"{reason}, and these rows are read by ranges" for method, reason in reasons.items() if reason}
        able = {method: score for method, score in able.items() if method not in left}
    if not able:
        raise InputError("no score can be computed from these sources by row ranges. Name a score of the logits.")
    if jobs.train is not None:
        fit_scores([score for score in able.values() if not score.held_out], jobs.train, seed)
    return able, left


def _with_scores(job: Job, scores: Mapping[Method, Score]) -> Outputs:
    """What measuring reads of a source, with the scores as layers."""
    for score in scores.values():
        can_score(score, job.first)
    columns: dict[str, NDArray[np.float64]] = {}
    if scores:
        work = ScoringAll(job.source, job.first, tuple(scores.values()))
        filled = check_rows(job, job.reduce("scoring", work, operator.add))
        table = np.concatenate(filled.values)
        columns = {str(method): np.ascontiguousarray(table[:, [i]]) for i, method in enumerate(scores)}
    kept = [key for key in _KEPT if key in job.source.fields]
    if "logits" not in kept and job.first.has("logits"):  # made from features and head, block by block
        parts = pieces(job.source, job.first, 0, job.source.n, ("logits",), check=False)
        arrays: dict[str, Any] = {"logits": np.concatenate([part.logits for part in parts])}
        kept = [key for key in kept if key != "probs"]
    else:
        arrays = {}
    if kept:
        rows = job.source.read(0, job.source.n, kept, check=False)
        arrays |= {key: getattr(rows, key) for key in kept}
    return Outputs(**arrays, layers=columns, class_names=job.first.class_names, check=False)


def _mapped(jobs: Any, change: Any) -> Parts:
    """The parts with each job changed into something else."""

    def one(job: Any) -> Any:
        return None if job is None else change(job)

    outliers, confirm = ({name: one(job) for name, job in some.items()} for some in (jobs.outliers, jobs.confirm))
    return Parts(one(jobs.train), one(jobs.calibration), one(jobs.inlier), outliers, confirm)


def _data(jobs: Any, result: Evaluation) -> Iterable[Data]:
    """The records of the data, which describe the sources."""
    shapes: dict[str, Any] = _mapped(jobs, lambda job: job.rows(job.first.n_classes)).roles()
    measured = {f"{d.role}:{d.block.outlier}".rstrip(":"): d for d in result.of(Data)}
    for role, rows in shapes.items():
        text = ", ".join(f"{key} {'x'.join(map(str, shape))}" for key, (shape, _) in rows.stored().items())
        old = measured.get(role) or Data(Block("model", result.settings.seed), "train", rows.n, rows.n_classes or 0, "")
        yield replace(old, fields=text)
    if "calibration" in measured and "calibration" not in shapes:  # a half of the inliers
        yield measured["calibration"]
