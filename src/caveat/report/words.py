"""The sentences of a report, made from its numbers. Plain text: whoever places it escapes it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import final

from caveat.results import Estimate
from caveat.results.paired_test import p_text
from caveat.study import DataFacts, Evaluation, SetFacts

__all__ = [
    "Notes",
    "best_score",
    "count",
    "coverage",
    "drawn",
    "duration",
    "false_alarms",
    "headline",
    "interval",
    "level",
    "listing",
    "measured",
    "methods",
    "no_misclassification",
    "no_sets",
    "number",
    "p_value",
    "percent",
    "plain",
    "promise",
    "scaled",
    "shorten",
]

# -- numbers ----------------------------------------------------------------------------------------------------------


def number(value: float, digits: int = 3) -> str:
    """A number between 0 and 1; one that is not an end is never rounded to it.

    >>> number(0.91234), number(0.99996), number(1.0), number(0.00002)
    ('0.912', '>0.999', '1.000', '<0.001')
    """
    step = 10.0**-digits
    if 0 < value < step / 2:
        return f"<{step:.{digits}f}"
    if 1 - step / 2 <= value < 1:
        return f">{1 - step:.{digits}f}"
    return f"{value:.{digits}f}"


def percent(value: float, digits: int = 1) -> str:
    """A share as a percentage, with a space that does not break.

    >>> percent(0.9512), percent(0.9999), percent(0.0)
    ('95.1\\xa0%', '>99.9\\xa0%', '0.0\\xa0%')
    """
    step = 10.0**-digits
    if 0 < 100 * value < step / 2:
        return f"<{step:.{digits}f}\xa0%"
    if 100 - step / 2 <= 100 * value < 100:
        return f">{100 - step:.{digits}f}\xa0%"
    return f"{100 * value:.{digits}f}\xa0%"


def level(value: float) -> str:
    """A confidence or a rate that someone chose, written as chosen: 95 %.

    >>> level(0.95), level(1 - 0.001)
    ('95\\xa0%', '99.9\\xa0%')
    """
    return f"{100 * value:g}\xa0%"


def scaled(value: float) -> str:
    """AUGRC times 1000."""
    return f"{1000 * value:.1f}" if value == 0 or value >= 0.00005 else "<0.1"


def interval(estimate: Estimate, style: str = "number") -> str:
    """The bounds alone, in the same style as the value.

    >>> interval(Estimate(0.91, 0.89, 0.93, level=0.95, n=1000, method="DeLong"))
    '[0.890, 0.930]'
    """
    write = STYLES[style]
    return f"[{write(estimate.lower)}, {write(estimate.upper)}]"


def p_value(value: float) -> str:
    return p_text(value, cell=True)


def plain(value: float) -> str:
    """A number of any size, to three digits.

    >>> plain(0.012345), plain(1234.5), plain(-2.0)
    ('0.0123', '1230', '−2')
    """
    digits = f"{value:.3g}"
    return (f"{float(digits):.0f}" if "e+" in digits and abs(value) < 1e6 else digits).replace("-", "−")


STYLES = {"number": number, "percent": percent, "scaled": scaled, "p": p_value, "plain": plain}


def duration(seconds: float) -> str:
    """
    >>> duration(0.034), duration(12.34), duration(4000)
    ('0.03 s', '12.3 s', '1 h 6 min 40 s')
    """
    if seconds < 60:
        return f"{seconds:.2f} s" if seconds < 1 else f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return (f"{hours} h " if hours else "") + f"{minutes} min {rest} s"


# -- grammar ----------------------------------------------------------------------------------------------------------


def count(n: int, what: str, several: str | None = None) -> str:
    """
    >>> count(1, "inlier"), count(2000, "inlier")
    ('1 inlier', '2,000 inliers')
    """
    return f"{n:,} {what if n == 1 else several or what + 's'}"


def listing(names: Sequence[str], most: int = 5) -> str:
    """
    >>> listing(["a"]), listing(["a", "b", "c"]), listing(list("abcdefgh"), most=3)
    ('a', 'a, b and c', 'a, b, c and 5 others')
    """
    shown = list(names) if len(names) <= most + 1 else [*names[:most], f"{len(names) - most} others"]
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"


def shorten(name: str, most: int = 40) -> str:
    """A name that fits on one line of a figure; its end is kept, where long names differ.

    >>> shorten("resnet50_layer4_avgpool_openimages_validation_v2", most=21)
    'resnet50_l…idation_v2'
    """
    half = (most - 1) // 2
    return name if len(name) <= most else f"{name[:half]}…{name[-half:]}"


# -- the headline -----------------------------------------------------------------------------------------------------


def headline(evaluation: Evaluation) -> str:
    """What was found, in one paragraph that needs no training in statistics."""
    parts = [
        measured(evaluation),
        best_score(evaluation),
        false_alarms(evaluation),
        promise(evaluation.sets) if evaluation.sets is not None else no_sets(evaluation),
        "All of this holds for inputs like the ones measured here; outliers of another kind may look different.",
    ]
    return " ".join(parts)


def measured(evaluation: Evaluation) -> str:
    """Model, data and scores."""
    inlier = evaluation.inlier
    if inlier.accuracy is None:
        model = f"Accuracy was not measured, because the {count(inlier.n, 'inlier')} carry no labels or no predictions."
    else:
        right = f"{percent(inlier.accuracy.value)} {interval(inlier.accuracy, 'percent')}"
        model = f"The model is right on {right} of {count(inlier.n, 'inlier')}."
    outliers = [facts for facts in evaluation.data if facts.role == "outlier"]
    scores = count(len(evaluation.ranking), "OOD score was", "OOD scores were")
    return f"{model} {scores} measured on separating these inliers from {_outlier_sets(outliers)}."


def _outlier_sets(outliers: Sequence[DataFacts]) -> str:
    if len(outliers) == 1:
        return f"{count(outliers[0].n, 'outlier')} ({shorten(outliers[0].name)})"
    total = sum(facts.n for facts in outliers)
    if len(outliers) > 4:
        return f"{total:,} outliers in {len(outliers)} sets (listed under Data)"
    return f"{total:,} outliers in {len(outliers)} sets ({listing([f'{o.n:,} {shorten(o.name)}' for o in outliers])})"


def best_score(evaluation: Evaluation) -> str:
    """The best score, what its number means, and which others are tied with it, by which criterion."""
    best, several = evaluation.best, len(evaluation.outliers) > 1
    area, alone = best.mean_auroc, len(evaluation.ranking) == 1
    mean = "mean AUROC" if several else "AUROC"
    averaged = ", averaged over the sets" if several else ""
    chance = f"{number(area.value)} {interval(area)}"
    name = shorten(best.score)
    first = (
        f"{f'The score {name}' if alone else f'The best is {name}: it'} ranks a random outlier as stranger than a "
        f"random inlier with probability {chance}{averaged} ({mean}; 0.5 is a coin)."
    )
    if area.upper < 0.5:
        first += " That is worse than a coin: it finds the outliers less strange than the inliers."
    elif area.lower <= 0.5:
        first += " The interval holds 0.5, so it cannot be told from a coin."
    if alone:
        return f"{first} No other score was computed, so nothing can be said about which is best."
    return f"{first} {_by_bands(evaluation)} {_by_pairs(evaluation)}"


def _by_bands(evaluation: Evaluation) -> str:
    """Which scores the guaranteed bands leave tied with the best."""
    over, others = evaluation.overlapping, len(evaluation.ranking) - 1
    if not over:
        return f"Its guaranteed band lies above {'those of all others' if others > 1 else 'that of the other one'}."
    if len(over) == others > 1:
        return f"Its guaranteed band overlaps those of all {others} others: they are tied with it."
    whose = "that" if len(over) == 1 else "those"
    tied = "it is" if len(over) == 1 else "they are"
    return f"Its guaranteed band overlaps {whose} of {listing([shorten(name) for name in over])}: {tied} tied with it."


def _by_pairs(evaluation: Evaluation) -> str:
    """Which scores a paired test tells from the best. It is sharper than the bands where there are many outliers."""
    same, others = evaluation.not_told_apart, len(evaluation.ranking) - 1
    test = f"DeLong, Holm-adjusted, {level(evaluation.delta)} level"
    who = "A paired test of the same samples, mostly sharper but without that guarantee,"
    if not same:
        return f"{who} finds it better than {'every other score' if others > 1 else 'the other one'} ({test})."
    named, rest = listing([shorten(name) for name in same]), others - len(same)
    if not rest:
        return f"{who} cannot tell it apart from {named} ({test})."
    worse = "one" if rest == 1 else str(rest)
    return f"{who} cannot tell it apart from {named} and finds the other {worse} worse ({test})."


def false_alarms(evaluation: Evaluation) -> str:
    """What catching most outliers with the best score costs in rejected inliers."""
    found = [evaluation.detection(evaluation.best.score, name) for name in evaluation.outliers]
    found.sort(key=lambda row: row.fpr_outlier_positive.value)
    least, most = found[0], found[-1]
    rejected = percent(most.fpr_outlier_positive.value)
    if len(found) > 1 and percent(least.fpr_outlier_positive.value) != rejected:
        low = percent(least.fpr_outlier_positive.value)
        rejected = f"between {low} ({shorten(least.outlier)}) and {rejected} ({shorten(most.outlier)})"
    with_best = f"With {shorten(evaluation.best.score)}"
    return f"{with_best}, catching {level(evaluation.tpr)} of the outliers means rejecting {rejected} of the inliers."


def promise(sets: SetFacts) -> str:
    """Promise and observation of the prediction sets, with the assumption of the promise."""
    seen = f"{percent(sets.coverage.value)} {interval(sets.coverage, 'percent')} of {sets.coverage.n:,}"
    return (
        f"Prediction sets promise to hold the true class for at least {level(1 - sets.alpha)} of inliers that are "
        f"exchangeable with the calibration data; they held it for {seen}, {_verdict(sets)}. "
        "For outliers nothing is promised."
    )


def _verdict(sets: SetFacts) -> str:
    verdict, m = sets.verdict, sets.coverage.n
    chance = (
        f"by chance it would be {percent(verdict.least / m)} to {percent(verdict.most / m)}, at "
        f"{level(verdict.level)}, for {count(sets.n_calibration, 'calibration sample')} and {m:,} measured ones"
    )
    if verdict.verdict == "below":
        why = "a rare draw, or these inliers are not exchangeable with the calibration data"
        return f"which is below the promise ({chance}): {why}"
    if verdict.verdict == "above":
        return f"which is above the promise ({chance})"
    return f"which is as chance allows ({chance})"


def coverage(sets: SetFacts) -> str:
    """What the promise of the prediction sets rests on."""
    return (
        f"A set holds {sets.mean_size:.2f} classes of an inlier on average. The promise of {level(1 - sets.alpha)} is "
        f"an average over calibration samples, of which this is one with {count(sets.n_calibration, 'inlier')}: the "
        f"next one may give a little more or less. {sets.caveat}".rstrip()
    )


# -- what is not there, and why ---------------------------------------------------------------------------------------


def no_sets(evaluation: Evaluation) -> str:
    """Why there are no prediction sets."""
    if evaluation.inlier.accuracy is None:
        return "Prediction sets were not made, because they need inliers with labels and predictions."
    calibration = [facts for facts in evaluation.data if facts.role == "calibration"]
    if calibration and calibration[0].accuracy is None:
        return "Prediction sets were not made, because the calibration data carry no labels or no predictions."
    return (
        f"Prediction sets were not made, because there are too few calibration samples for "
        f"alpha\xa0=\xa0{evaluation.alpha:g}."
    )


def no_misclassification() -> str:
    return "The model's own errors were not looked at, because they need inliers with labels and predictions."


def drawn(shown: int, total: int) -> str:
    """Which scores a figure shows."""
    return "" if shown == total else f"The {shown} leading scores of {total} are drawn; the tables hold all of them."


# -- under a table ----------------------------------------------------------------------------------------------------


def methods(estimates: Iterable[Estimate | None]) -> str:
    """Level and methods of a table's intervals.

    >>> methods([Estimate(0.91, 0.89, 0.93, level=0.95, n=1000, method="DeLong")])
    '95\\xa0% intervals: DeLong'
    """
    found = [estimate for estimate in estimates if estimate is not None]
    names = list(dict.fromkeys(estimate.method for estimate in found))
    return f"{level(found[0].level)} intervals: {listing(names)}" if found else ""


@final
class Notes:
    """Caveats of a table's numbers, each written once under the table and marked by a letter beside the numbers.

    >>> notes = Notes()
    >>> small = Estimate(1.0, 0.5, 1.0, level=0.95, n=5, method="DeLong", caveat="Few samples.")
    >>> notes.mark(small), notes.mark(small), notes.lines
    ('a', 'a', [('a', 'Few samples.')])
    """

    def __init__(self) -> None:
        self._marks: dict[str, str] = {}

    def mark(self, estimate: Estimate) -> str:
        """The letter of the estimate's caveat; empty where it has none."""
        if not estimate.caveat:
            return ""
        i = len(self._marks)
        return self._marks.setdefault(estimate.caveat, chr(ord("a") + i % 26) * (1 + i // 26))

    @property
    def lines(self) -> list[tuple[str, str]]:
        return [(mark, sentence) for sentence, mark in self._marks.items()]
