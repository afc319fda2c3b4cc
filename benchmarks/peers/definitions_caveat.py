"""Caveat: cases with an exact answer."""

from turns import run

from caveat.conformal import SplitIntervals
from caveat.metrics import ece, worst_slab_coverage


def worst_slab(_, data):
    if data.draw >= data.slabs:
        return float("nan")
    covered = data.member[range(len(data.labels)), data.labels]
    return worst_slab_coverage(
        covered=covered, features=data.features, rng=data.draw, delta=data.delta, directions=data.directions
    )


METHODS = {
    "threshold": (
        lambda data: SplitIntervals("absolute", alpha=data.alpha).calibrate(data.scores, mean=0 * data.scores),
        lambda intervals, _: intervals.predict(mean=[0.0]).upper[0],
    ),
    "ece": (
        lambda _: None,
        lambda _, data: ece(confidence=data.confidence, correct=data.correct, bins=data.bins),
    ),
    "worst slab": (lambda _: None, worst_slab),
}


def prepare(data):
    data.scores = data.scores[: data.size]
    return data


if __name__ == "__main__":
    run("caveat", METHODS, prepare=prepare)
