"""Methods and assumptions at the end of a page, in plain sentences."""

from __future__ import annotations

from caveat.evaluation.records import Certificate
from caveat.report.verdicts import ERRORS, Verdict
from caveat.report.view import View
from caveat.report.words import level

__all__ = ["notes_of"]

_NOTES = {
    "Decision": (
        "Candidates are the methods tied with the best on the outliers; the cheapest of them is chosen. Its "
        "threshold is an order statistic of the calibration scores, which had no part in the choice. The promise "
        "holds with {sure} confidence over the draw of the calibration samples, if future in-distribution inputs "
        "are exchangeable with them."
    ),
    "What is not promised": (
        "Nothing is promised about outliers: another kind of outlier may score lower. Shares caught on the "
        "outliers that also chose the score are optimistic. To confirm them, give other outliers with --confirm "
        "name=file; only the finished decision looks at them."
    ),
    "Errors among the accepted": (
        "The score that warns best of the model's own errors decides when to abstain. Its threshold is the "
        "largest one for which the calibration samples prove, with {sure} confidence, that the error rate stays "
        "below the bound. A row is accepted if it is not rejected, its prediction set is not empty, and this score is "
        "below its threshold. The guard of the evaluation does the same. Where no error rate can be promised, nothing "
        "is accepted."
    ),
    "Promises and test rows": (
        "✓: the test rows agree with the promise as chance allows. ✗: they contradict it. A rate is contradicted if so "
        "many hits, at the promised rate itself, have a probability of 2.5 % or less; coverage, if it is below its "
        "central 95 % region. A promise that holds is contradicted by at most 2.5 % of test files. Better than "
        "promised contradicts nothing. –: not judged, because no test row counts or they are too few to contradict it."
    ),
    "Prediction sets": (
        "Split conformal sets hold the true class at the promised rate on average over calibration sets, for "
        "exchangeable samples. Given n calibration and m test samples, the number covered is beta-binomial; the "
        "verdict says whether the measured coverage lies in its central 95 % region."
    ),
    "AUROC": (
        "Chance that a random outlier has a larger score than a random inlier. The {sure} interval is DeLong's "
        "and relies on large samples. The guaranteed interval holds for any number of inliers: with {sure} confidence "
        "it contains this one number, the AUROC of these outliers against all inliers. It decides no rank. The band "
        "of a ROC curve is wider because it holds at all thresholds at once."
    ),
    "Near, mid and far": (
        "Regimes of outlier sets: near ones resemble the training data, far ones do not. They are labels that were "
        "given with the sets; caveat proximity measures them."
    ),
    "FPR@95": (
        "Two rates share this name. Inliers rejected: at the threshold that catches 95 % of the outliers. "
        "Outliers accepted: at the threshold that keeps 95 % of the inliers."
    ),
    "Risk and coverage": (
        "Risk is the error rate among the answered samples, coverage their share. AURC and AUGRC are areas under "
        "selective and generalized risk. For the model's own errors, right answers are compared with wrong ones. "
        "{errors}"
    ),
    "Ranking": "{ranking}",
    "Certificates": (
        "An attacker may change every pixel by up to the radius, within the range 0 to 1. GAUC holds for every "
        "such attack on these samples; its band also covers further inliers. AAUC is what the attacks reached and"
        " no promise. Zero gradients: share of outliers where a gradient attack cannot start; where it is large, "
        "rely on GAUC."
    ),
}


def notes_of(view: View, verdicts: dict[tuple[str, str, str], Verdict]) -> list[tuple[str, str]]:
    """What each number means and what must hold for it, only for what the page shows."""
    overall, errors = verdicts.get(("auroc", "", "all")), verdicts.get(("augrc", "", ERRORS))
    decisions = [d for unit in view.units if (d := view.decision(unit)) is not None]
    shown = {
        "Decision": decisions,
        "What is not promised": decisions,
        "Errors among the accepted": any(d.errors is not None for d in decisions),
        "Promises and test rows": decisions,
        "Near, mid and far": view.regime_names,
        "Prediction sets": any(d.coverage is not None for d in decisions),
        "Ranking": overall,
        "AUROC": overall,
        "FPR@95": overall,
        "Risk and coverage": errors,
        "Certificates": view.findings.of(Certificate),
    }
    texts = {
        "sure": level(1 - view.delta),
        "ranking": "" if overall is None else f"{_test(overall)} {overall.unseen(view)}".strip(),
        # Named once: the ranking above already explains the same test.
        "errors": "" if errors is None or overall is not None else _test(errors),
    }
    return [(name, _NOTES[name].format(**texts).strip()) for name, present in shown.items() if present]


def _test(verdict: Verdict) -> str:
    comparison = verdict.comparison
    if verdict.paired:
        return (
            "Within one model every pair of methods is compared by DeLong's paired test on the same samples, with "
            f"Holm's correction at {level(comparison.alpha)}."
        )
    return (
        "Over several models or seeds, methods are ranked in every block and compared by Friedman's test, then "
        f"{comparison.test_name()} at {level(comparison.alpha)}. {comparison.summary()} Blocks of one model share its "
        "inliers, so the p-values are approximate."
    )
