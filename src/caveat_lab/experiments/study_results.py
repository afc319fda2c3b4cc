"""What a study found, read back from its store. Nothing is measured again, and the data are not needed."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, final

from caveat._internal.checks import check_known
from caveat._internal.result_tables import plain_cell, write_csv, write_tables
from caveat.errors import InputError
from caveat.evaluation.findings import Assessment, CellFacts, FailureFacts, Findings, assess
from caveat.evaluation.model_ranking import ModelRanking, rank_study_models
from caveat.evaluation.records import (
    Answers,
    Collapse,
    Data,
    Detection,
    Left,
    ModelFacts,
    Proximity,
    Record,
    Scores,
    Selective,
    long_rows,
)
from caveat_lab.experiments.plan import Plan
from caveat_lab.experiments.records_table import Row, is_record_table, records_in, records_of_tables
from caveat_lab.experiments.store import Failure, Store

__all__ = ["StudyResults"]

_OF_GROUPS = (Collapse, Data, Detection, Left, ModelFacts, Proximity, Selective)  # that a page about a matrix shows


@final
class StudyResults:
    """The records of a study, its failures and how it came about. Read it with :meth:`read`; :func:`run` returns it.

    Cells are in the order of the plan and records in the order of their cell, however the run went: one that was killed
    and resumed gives the same table, byte for byte.

    Parameters
    ----------
    store
        The store of the study.

    Examples
    --------
    >>> import tempfile
    >>> from caveat import Outputs
    >>> from caveat_lab.experiments import run
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     Outputs(logits=[[2.0, 0.0], [0.0, 1.0], [3.0, 0.0]] * 20, labels=[0, 1, 1] * 20).save(f"{folder}/a.npz")
    ...     plan = Plan.from_dict({"scores": ["msp"], "sources": {"a": {"inlier": "a.npz"}}}, folder=folder)
    ...     _ = run(plan, store=f"{folder}/runs")
    ...     results = StudyResults.read(f"{folder}/runs")
    ...     len(results.finished), len(results.missing)
    (2, 0)
    """

    def __init__(self, store: Store) -> None:
        self.store, self.folder = store, store.folder
        self._content = store.plan()

    @classmethod
    def read(cls, store: str | os.PathLike[str]) -> StudyResults:
        """The results in a store.

        Parameters
        ----------
        store
            Folder of the store.

        Returns
        -------
        StudyResults
            What the store holds.
        """
        return cls(Store(store))

    # -- what was asked -----------------------------------------------------------------------------------------------

    @cached_property
    def plan(self) -> Plan:
        """The plan that the store was last run with."""
        return Plan.from_dict(
            self._content["plan"], folder=self._content["folder"], text=_text(self.store.folder / "plan.toml")
        )

    @property
    def title(self) -> str:
        return str(self._content["title"])

    @property
    def notes(self) -> tuple[str, ...]:
        """What the plan left out because it does not exist or cannot be computed."""
        return tuple(self._content["notes"])

    @property
    def cells(self) -> tuple[Mapping[str, Any], ...]:
        """Every cell of the plan, in order: key, label, task, params, seed, fingerprints, version."""
        return tuple(self._content["cells"])

    # -- how it went --------------------------------------------------------------------------------------------------

    @property
    def finished(self) -> tuple[Mapping[str, Any], ...]:
        """The cells that have a result."""
        return tuple(cell for cell in self.cells if self.store.has(cell["key"]))

    @property
    def missing(self) -> tuple[Mapping[str, Any], ...]:
        """The cells that have no result: not yet run, or failed."""
        return tuple(cell for cell in self.cells if not self.store.has(cell["key"]))

    @property
    def failures(self) -> tuple[Failure, ...]:
        """The cells that failed, and why."""
        failures = (self.store.failure(cell["key"]) for cell in self.cells)
        return tuple(failure for failure in failures if failure is not None)

    def facts(self) -> Iterator[Mapping[str, Any]]:
        """Of each finished cell: key, label, params, seed, fingerprints, versions, seconds, caveats."""
        for cell in self.finished:
            yield self.store.facts(cell["key"])

    # -- what was found -----------------------------------------------------------------------------------------------

    def records(self, *kinds: type[Any]) -> Iterator[Record]:
        """The records of the wanted kinds, or all, each with the regime of its outlier set.

        ``results.records(Detection)``

        Parameters
        ----------
        *kinds
            Classes of ``caveat.evaluation.records``, such as ``Detection``; none: all.

        Returns
        -------
        iterator of Record
            In the order of the plan.
        """
        tables = (self.store.read(cell["key"]).table for cell in self.finished)
        yield from map(self._in_regime, records_of_tables(tables, kinds or None))

    def rows(self) -> Iterator[Row]:
        """A long table: rows of a task in its own columns, or one row per number of a score study."""
        for cell in self.finished:
            table = self.store.read(cell["key"]).table
            if is_record_table(table.schema):
                yield from long_rows(self._in_regime(record) for record in records_in(table))
            else:
                yield from table.to_pylist()

    def table(self, metric: str, *, errors: bool = False) -> dict[str, list[Any]]:
        """A long table of one metric for ``caveat.stats.compare``: model, seed, outlier, regime, method, value.

        A block is a model, a seed and an outlier set; a method is a score with its parameters and projection::

            compare(results.table("augrc"), block=["model", "seed", "outlier"], method="method", value="value")

        ``errors`` asks for the metric of the model's own errors on inliers, where there is no outlier set.

        Parameters
        ----------
        metric
            Name of the metric, such as ``"augrc"``.
        errors
            Whether the metric is that of the model's own errors on inliers, where there is no outlier set.

        Returns
        -------
        dict
            Column -> values.
        """
        rows = [row for row in self.rows() if "metric" in row and row.get("method")]
        metrics = sorted({row["metric"] for row in rows})
        check_known(metric, metrics, "metric in this study")
        kept = [row for row in rows if row["metric"] == metric and (row["outlier"] == "") == errors]
        if not kept:
            raise InputError(f"no score of this study has the metric '{metric}'{' of errors' if errors else ''}.")
        names = ("model", "seed", "outlier", "regime", "method", "value")
        return {name: [row[name] for row in kept] for name in names}

    def to_csv(self, path: str | os.PathLike[str]) -> Path:
        """Write the long table as CSV; the same results give the same bytes. NaN and what is missing are empty.

        Parameters
        ----------
        path
            File to write.

        Returns
        -------
        Path
            The file.
        """
        rows = [{name: plain_cell(value) for name, value in row.items()} for row in self.rows()]
        write_csv(rows, Path(path))
        return Path(path)

    def save_tables(self) -> Path:
        """Write the long table into the store: ``results.csv``, and ``results.parquet`` with the same rows and columns.

        Returns
        -------
        Path
            Of the CSV file; its folder has nothing new where no cell has a result.
        """
        rows = list(self.rows())
        if not rows:
            return self.store.folder / "results.csv"
        with self.store.writing():
            return write_tables(rows, self.store.folder)

    @cached_property
    def regimes(self) -> dict[tuple[str, int, str], str]:
        """(Model, seed, outlier set) -> near, mid or far: as the plan says, or by proximity where it says so."""
        if self.plan.by_proximity:
            return {
                (record.block.model, record.block.seed, record.block.outlier): record.block.regime
                for cell in self.finished
                if cell["task"] == "proximity"
                for record in self.store.records(cell["key"], [Proximity])
            }
        return {
            (source.name, seed, name): file.regime
            for source in self.plan.sources.values()
            for seed in self.plan.seeds
            for name, file in source.outliers.items()
        }

    def rank_models(self, method: str | None = None) -> ModelRanking:
        """Which models differ: accuracy, and the other questions with one score that all models have.

        Paired on the rows where the models answered the same ones; by ranks over several seeds.
        ``results.rank_models().rankings["accuracy"].layers`` has the groups that cannot be told apart.

        Parameters
        ----------
        method
            Score that ranks the rows of every model; None: msp, or the first by name that all models have.

        Returns
        -------
        ModelRanking
            ``rankings`` maps each question to a Comparison.
        """
        return self._rank_models(self.records(Scores, Answers), method)

    def _rank_models(self, records: Iterable[Record], method: str | None = None) -> ModelRanking:
        return rank_study_models(records, method=method, alpha=self.plan.delta)

    def findings(self) -> Findings:
        """Everything that a report prints: the records, with a ranking and a decision for every model and seed."""
        cells: list[CellFacts] = []
        plan = self.plan
        groups = plan.groups

        def tables() -> Iterator[Any]:
            for cell in self.finished:
                stored = self.store.read(cell["key"])
                cells.append(_cell_facts(stored.facts))
                yield stored.table

        # A page about a matrix compares groups of many networks: it draws no curves and decides for none of them.
        records = [*map(self._in_regime, records_of_tables(tables(), _OF_GROUPS if groups else None))]
        if not records:
            folder = self.store.folder
            if any(True for _ in self.rows()):
                raise InputError(
                    f"{folder} holds rows of a task in columns of its own, which have no report. Write them with "
                    f"StudyResults.read('{folder}').to_csv('rows.csv') and rank them with caveat compare."
                )
            raise InputError(f"{folder} has nothing to report: none of its cells has a result. "
                             "Run caveat study on it first.")  # fmt: skip
        by_model: dict[tuple[str, int], list[Record]] = {}
        for record in records:
            by_model.setdefault((record.block.model, record.block.seed), []).append(record)
        assessments: dict[tuple[str, int], Assessment] = {
            (model, seed): assess(mine, false_alarm=plan.false_alarm, risk=plan.risk, delta=plan.delta, seed=seed)
            for (model, seed), mine in by_model.items()
            if not groups
        }
        failures = self.failures
        several = len({model for model, _ in by_model}) > 1 and not groups
        models = self._rank_models(records) if several else None
        reason = [f"Models are not compared with each other: {models.reason}."] if models and models.reason else []
        left = {f"{r.block.model}: {r.method} left out ({r.reason})." for r in records if isinstance(r, Left)}
        return Findings(
            self.title, records, assessments, plan.alpha, plan.delta, plan.false_alarm, plan.risk,
            split=any(s.inlier is not None and s.calibration is None for s in plan.sources.values()), about=plan.about,
            cells=cells,
            failures=[FailureFacts(f.key, f.label or f.key, f"{f.error}: {f.message}") for f in failures],
            missing=len(self.missing) - len(failures), notes=[*self.notes, *sorted(left), *reason], plan=plan.text,
            model_ranking=models, groups=groups,
        )  # fmt: skip

    def _in_regime(self, record: Record) -> Record:
        """The record with the regime of its set, which belongs to the plan: changing it computes nothing again."""
        block = record.block
        regime = self.regimes.get((block.model, block.seed, block.outlier), "") if block.outlier else ""
        return replace(record, block=replace(block, regime=regime)) if regime != block.regime else record

    def __repr__(self) -> str:
        return (
            f"StudyResults({self.title!r}, {len(self.finished)} of {len(self.cells)} cells, "
            f"{len(self.failures)} failed)"
        )


def _cell_facts(facts: Mapping[str, Any]) -> CellFacts:
    return CellFacts(
        str(facts["key"]), str(facts.get("label") or facts["key"]), float(facts.get("seconds") or 0.0),
        dict(facts.get("versions") or {}), dict(facts.get("fingerprints") or {}),
    )  # fmt: skip


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError:
        return ""
