"""A scikit-learn pipeline with a guard: which digits it answers, which it leaves open, which images are no digits.

    python examples/guard_sklearn.py

The guard sets its thresholds on digits that the pipeline has not seen and promises how often it is wrong. The promises
are compared with fresh digits, the guard meets turned digits, moved digits and strokes, is saved and loaded by another
process, and watches a camera that slowly turns.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from scipy.ndimage import gaussian_filter, rotate
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from caveat import Outputs, wrap
from caveat.guard import Guard
from caveat.guard.replay import replay

ANOTHER_PROCESS = """
import sys
import numpy as np
from caveat import Outputs
from caveat.guard import Guard
verdicts = Guard.load(sys.argv[1])(Outputs.load(sys.argv[2]))
np.savez(sys.argv[3], kind=verdicts.kind, score=verdicts.score, p_values=verdicts.p_values, sets=verdicts.sets.member)
"""


def outputs_of(pipeline: Pipeline, images: np.ndarray, labels: np.ndarray | None = None) -> Outputs:
    """What the guard reads: the probabilities of the classes, and the scaled pixels as features."""
    pixels = images.reshape(len(images), -1)
    return Outputs(probs=pipeline.predict_proba(pixels), features=pipeline[0].transform(pixels), labels=labels)


def turned(images: np.ndarray, degrees: np.ndarray) -> np.ndarray:
    """Each image turned by its own angle."""
    pairs = zip(images, degrees, strict=True)
    return np.clip([rotate(image, angle, reshape=False, order=1) for image, angle in pairs], 0, 16)


def strokes(n: int, rng: np.random.Generator) -> np.ndarray:
    """Three straight strokes at random places, blurred: drawn like letters, but nobody's."""
    images = np.zeros((n, 8, 8))
    for image in images:
        for start, end in rng.uniform(0, 8, size=(3, 2, 2)):
            rows, columns = np.linspace(start, end, 20).T.astype(int)
            image[rows, columns] = 16
    return np.minimum(16, 2 * gaussian_filter(images, (0, 0.6, 0.6)))


def main() -> None:
    rng = np.random.default_rng(0)
    digits = load_digits()
    rows = dict(zip(("train", "calibration", "test"), np.split(rng.permutation(1797), [600, 1200]), strict=True))
    pipeline = make_pipeline(StandardScaler(), LogisticRegression(C=0.01))
    pipeline.fit(digits.data[rows["train"]], digits.target[rows["train"]])
    parts = {name: outputs_of(pipeline, digits.images[i], digits.target[i]) for name, i in rows.items()}

    # The distance from the training digits finds outliers. The probability of the answer decides where to abstain.
    guard = Guard("mahalanobis", false_alarm=0.05, risk=0.02, alpha=0.05).fit(parts["train"])
    guard.calibrate(parts["calibration"])
    verdicts = guard(parts["test"])
    print(f"{pipeline.score(digits.data[rows['test']], digits.target[rows['test']]):.1%} of the answers are right.")
    for measured in replay(guard, parts["test"]).measured:
        print(f"{measured.promise}\n    Measured: {measured.share or 'nothing'}")

    images = digits.images[rows["test"]]
    inputs = {
        "digits": images,
        "digits turned by 30 degrees": turned(images, np.full(len(images), 30.0)),
        "digits moved by two pixels": np.roll(images, 2, axis=2),
        "strokes": strokes(500, rng),
        "noise": rng.uniform(0, 16, size=(500, 8, 8)),
    }
    by_probability = Guard("msp").fit(parts["train"]).calibrate(parts["calibration"])
    print(f"\n{'':30}{'accept':>9}{'abstain':>9}{'outlier':>9}   outlier by probability alone")
    for name, pixels in inputs.items():
        outputs = outputs_of(pipeline, pixels)
        cells = "".join(f"{count / outputs.n:9.1%}" for count in guard(outputs).counts.values())
        print(f"{name:30}{cells}{by_probability(outputs).counts['outlier'] / outputs.n:9.1%}")
    for kind in ("accept", "abstain", "outlier"):
        print(f"{kind}: {verdicts.reason(int(np.flatnonzero(verdicts.kind == kind)[0]))}")

    with tempfile.TemporaryDirectory() as folder:
        saved, rows_file, answer = (Path(folder) / name for name in ("guard", "test.npz", "answer.npz"))
        guard.save(saved)
        parts["test"].save(rows_file)
        subprocess.run([sys.executable, "-c", ANOTHER_PROCESS, saved, rows_file, answer], check=True)
        with np.load(answer) as there:
            here = {"kind": verdicts.kind, "score": verdicts.score, "p_values": verdicts.p_values,
                    "sets": verdicts.sets.member}  # fmt: skip
            same = all(array.tobytes() == there[name].tobytes() for name, array in here.items())
    print(f"\nLoaded by another process: verdicts equal bit for bit: {same}")

    # As one scikit-learn estimator: the same rows train and calibrate the pipeline, and half of them the guard.
    pixels, rows_seen = digits.data, np.concatenate([rows["train"], rows["calibration"]])
    guarded = wrap(pipeline, cv=5, alpha=0.05, guard=Guard("mahalanobis", sets=None, false_alarm=0.05))
    guarded.fit(pixels[rows_seen], digits.target[rows_seen])
    print(f"wrap with a guard flags {guarded.is_outlier(pixels[rows['test']]).mean():.1%} of the digits and "
          f"{guarded.is_outlier(inputs['strokes'].reshape(500, -1)).mean():.1%} of the strokes")  # fmt: skip

    # A quiet stream of inliers ever raises an alarm with probability 0.01 at most. Then the camera starts to turn.
    watch, angles = guard.watch(alpha=0.01), np.linspace(0, 15, len(images) - 300)
    watch.update(guard(parts["test"][:300]))
    print(f"After {watch.rows} digits: {watch}")
    watch.update(guard(outputs_of(pipeline, turned(images[300:], angles))))
    rung = min(watch.alarmed_at.values()) - 300
    print(f"Then the camera turns, up to 15 degrees: {watch}")
    print(f"First alarm {rung} digits later, at {angles[rung - 1]:.1f} degrees")


if __name__ == "__main__":
    main()
