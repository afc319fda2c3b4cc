"""Two models on the same rows: which questions tell them apart."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

from caveat._internal.checks import check_known
from caveat._internal.html import small_table
from caveat.results.paired_test import PairedTest, p_text

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["HIGHER_IS_BETTER", "TIED", "ModelComparison"]

TIED = "tied"
HIGHER_IS_BETTER: Mapping[str, bool] = {
    "accuracy": True, "aurc": False, "augrc": False, "auroc_of_errors": True, "auroc": True,
}  # fmt: skip


@final
@dataclass(frozen=True, eq=False)
class ModelComparison:
    """Two models on the same rows, one test for each question, and the verdict.

    Parameters
    ----------
    names
        The first and the second model.
    tests
        One paired test for each question: accuracy, aurc, augrc, auroc_of_errors, auroc.
    adjusted
        The p-values of the tests after Holm's adjustment over all questions.
    alpha
        Level of the verdict: the chance that a difference is reported where no question has one.
    n
        Rows that both models answered.
    left_out
        Question -> why it could not be asked.

    Examples
    --------
    >>> from caveat.stats import compare_models
    >>> score, right = list(range(20)), [True] * 15 + [False] * 5
    >>> result = compare_models((score, right), (score[::-1], right), questions=["augrc"], names=("new", "old"))
    >>> result.verdict
    'new is better in augrc.'
    """

    names: tuple[str, str]
    tests: tuple[PairedTest, ...]
    adjusted: tuple[float, ...]
    alpha: float
    n: int
    left_out: Mapping[str, str]

    @property
    def questions(self) -> tuple[str, ...]:
        """The metrics that were compared."""
        return tuple(test.metric for test in self.tests)

    def __getitem__(self, question: str) -> PairedTest:
        return self.tests[self.questions.index(check_known(question, self.questions, "question"))]

    def better(self, question: str) -> str:
        """The name of the model that is significantly better, or "tied".

        Parameters
        ----------
        question
            Name of the question, such as ``"accuracy"``.

        Returns
        -------
        str
            One of ``names``, or ``"tied"``.
        """
        check_known(question, self.questions, "question")
        place = self.questions.index(question)
        if self.adjusted[place] >= self.alpha:
            return TIED
        first_is_larger = self.tests[place].difference.value > 0
        return self.names[0 if first_is_larger == HIGHER_IS_BETTER[question] else 1]

    @property
    def verdict(self) -> str:
        """Which model is better in which question, in one sentence."""
        winners = {question: self.better(question) for question in self.questions}
        by_name = {name: [q for q, winner in winners.items() if winner == name] for name in (*self.names, TIED)}
        parts = [f"{name} is better in {', '.join(by_name[name])}" for name in self.names if by_name[name]]
        if not parts:
            return f"{self.names[0]} and {self.names[1]} are tied in {', '.join(self.questions)}."
        return "; ".join([*parts, *([f"tied in {', '.join(by_name[TIED])}"] if by_name[TIED] else [])]) + "."

    def rule(self) -> str:
        """How the verdict was made, in one sentence."""
        count = len(self.tests)
        over = f"Holm over {count} questions" if count > 1 else "one question"
        return f"{self.n} rows, {over}, alpha = {self.alpha:g}."

    def rows(self) -> list[dict[str, Any]]:
        """One row for each question: values, difference with interval, p-values, verdict."""
        return [
            {"question": test.metric, "first": test.first, "second": test.second,
             "difference": test.difference.value, "lower": test.difference.lower, "upper": test.difference.upper,
             "p_value": test.p_value, "adjusted_p_value": adjusted, "better": self.better(test.metric),
             "method": test.difference.method, "n": test.difference.n, "caveat": test.difference.caveat}
            for test, adjusted in zip(self.tests, self.adjusted, strict=True)
        ]  # fmt: skip

    def to_frame(self) -> pd.DataFrame:
        """The same as a pandas table (extra ``stats``)."""
        from caveat._internal.frames import to_frame

        return to_frame(self.rows())

    def cells(self) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
        """Heading and lines of a printed table."""
        lines: list[tuple[str, ...]] = [
            (row["question"], f"{row['first']:.4f}", f"{row['second']:.4f}",
             f"{row['difference']:.4f} [{row['lower']:.4f}, {row['upper']:.4f}]", row["method"],
             p_text(row["adjusted_p_value"], cell=True), row["better"])
            for row in self.rows()
        ]  # fmt: skip
        return ("question", *self.names, "difference", "test", "adjusted p", "better"), lines

    def to_markdown(self) -> str:
        """The verdict, the table and the notes."""
        head, lines = self.cells()
        texts = [" | ".join(cell.replace("|", r"\|") for cell in cells) for cells in (head, *lines)]
        table = [f"| {texts[0]} |", f"|{'---|' * len(head)}", *(f"| {text} |" for text in texts[1:])]
        return "\n".join([self.verdict, "", *table, "", *self.notes()])

    def notes(self) -> list[str]:
        """The rule, the caveats and what was left out, in sentences."""
        caveats = dict.fromkeys(test.difference.caveat for test in self.tests if test.difference.caveat)
        left_out = [f"{question} was left out: {reason}." for question, reason in self.left_out.items()]
        return [self.rule(), *caveats, *left_out]

    def _repr_html_(self) -> str:
        head, lines = self.cells()
        return small_table(self.verdict, lines, head=head, note=" ".join(self.notes()))

    def __repr__(self) -> str:
        return f"ModelComparison({self.verdict} {self.rule()})"

    def __str__(self) -> str:
        _, lines = self.cells()
        tests = [f"{question}: {first} against {second}, {difference} ({test}), adjusted p {p}"
                 for question, first, second, difference, test, p, _ in lines]  # fmt: skip
        return "\n".join([self.verdict, *tests, *self.notes()])
