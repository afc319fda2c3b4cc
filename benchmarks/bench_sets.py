"""Prediction sets of 20,000 + 50,000 rows x 1000 classes, float32, one thread: time and memory against a floor.

The floor is a plain torch version of the same method, timed in the same run (``pip install torch``); without torch
the minimum work: the softmax of the same arrays for lac and saps, softmax and row sort for aps and raps, softmax and
one binary search per label for the p-values. Peers (MAPIE, TorchCP) are timed if they are installed.

    OMP_NUM_THREADS=1 python benchmarks/bench_sets.py [--rows 50000] [--calibration 20000] [--classes 1000]
"""

from __future__ import annotations

import argparse
import importlib.util
import math
import resource
import subprocess
import tempfile
import time
from pathlib import Path

import numpy as np
from timing import least

from caveat import Outputs
from caveat.conformal import RAPS, SAPS, SplitSets

ALPHA = 0.1


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=50_000)
    parser.add_argument("--calibration", type=int, default=20_000)
    parser.add_argument("--classes", type=int, default=1000)
    parser.add_argument("--puncc", metavar="PYTHON", help="Python of an environment that holds puncc (numpy 1)")
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    calibration = draw(options.calibration, options.classes, rng)
    test = draw(options.rows, options.classes, rng)

    ours = {}
    for name, score in {"lac": "lac", "aps": "aps", "raps": RAPS(0.01, 5), "saps": SAPS(0.02)}.items():
        sets = SplitSets(score, alpha=ALPHA)
        first = least(lambda: sets.calibrate(calibration, np.random.default_rng(1)))  # noqa: B023
        second = least(lambda: sets.predict(test, np.random.default_rng(2)))  # noqa: B023
        found = sets.predict(test, np.random.default_rng(2))
        ours[name] = (first, second, found.coverage(test.labels), found.sizes.mean())
        del found
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    sets = SplitSets("lac", alpha=ALPHA).calibrate(calibration)
    p_seconds = least(lambda: sets.p_values(test))

    floors = torch_floor(calibration, test) if importlib.util.find_spec("torch") else numpy_floor(calibration, test)
    print(f"{options.calibration} + {options.rows} rows x {options.classes} classes, CPU s, alpha {ALPHA}")
    print(f"{'method':10}{'calibrate':>10}{'predict':>9}{'floor':>14}{'ratio':>7}{'coverage':>10}{'size':>7}")
    for name, (first, second, coverage, size) in ours.items():
        floor = floors[name]
        print(
            f"{name:10}{first:10.2f}{second:9.2f}{floor[0]:7.2f}{floor[1]:7.2f}{(first + second) / sum(floor):7.2f}"
            f"{coverage:10.3f}{size:7.2f}"
        )
    print(f"{'p-values':10}{'':10}{p_seconds:9.2f}{floors['p'][1]:14.2f}{p_seconds / floors['p'][1]:7.2f}")
    print(f"peak memory after the four methods, inputs included: {peak:.0f} MB")
    peers(calibration, test)
    if options.puncc:
        puncc(options.puncc, calibration, test)


def draw(n: int, classes: int, rng: np.random.Generator) -> Outputs:
    """A calibrated model with sets of about four labels."""
    logits = rng.standard_normal(size=(n, classes), dtype=np.float32)
    logits *= 5
    labels = [np.argmax(part + rng.gumbel(size=part.shape), axis=1) for part in np.array_split(logits, n // 1000 + 1)]
    return Outputs(logits=logits, labels=np.concatenate(labels))


def torch_floor(calibration: Outputs, test: Outputs) -> dict[str, tuple[float, float]]:
    """A short torch program for each method, on logits; rows in blocks, because memory would triple otherwise."""
    import torch

    torch.set_num_threads(1)
    cal, new = torch.tensor(calibration.logits), torch.tensor(test.logits)
    labels = torch.tensor(calibration.labels)
    n, k = cal.shape[0], math.ceil((cal.shape[0] + 1) * (1 - ALPHA))
    ranks = torch.arange(1, cal.shape[1] + 1)

    def ranked(name: str, ordered: torch.Tensor, u: torch.Tensor) -> torch.Tensor:
        if name == "saps":
            top = ordered[:, :1]
            scores = top + (ranks - 2 + u) * 0.02
            scores[:, :1] = u * top
            return scores
        scores = ordered.cumsum(1) - ordered + u * ordered
        return scores + 0.01 * torch.clamp(ranks - 5, min=0) if name == "raps" else scores

    def calibrate(name: str) -> float:
        found = []
        for z, y in zip(cal.split(2048), labels.split(2048), strict=True):
            p = torch.softmax(z, 1)
            own = p.gather(1, y[:, None])
            if name == "lac":
                found.append(1 - own[:, 0])
                continue
            rank = (p > own).sum(1, keepdim=True)
            u = torch.rand(len(z), 1)
            if name == "saps":
                top = p.max(1, keepdim=True).values
                found.append(torch.where(rank == 0, u * top, top + (rank - 1 + u) * 0.02)[:, 0])
            else:
                above = (p * (p > own)).sum(1, keepdim=True) + u * own
                found.append((above + (0.01 * torch.clamp(rank - 4, min=0) if name == "raps" else 0))[:, 0])
        return float(torch.cat(found).sort().values[k - 1])

    def predict(name: str, q: float) -> torch.Tensor:
        found = []
        for z in new.split(2048):
            p = torch.softmax(z, 1)
            if name == "lac":
                found.append(p >= 1 - q)
                continue
            ordered, order = p.sort(1, descending=True)
            inside = ranked(name, ordered, torch.rand(len(z), 1)) <= q
            found.append(torch.zeros_like(inside).scatter_(1, order, inside))
        return torch.cat(found)

    def p_values() -> torch.Tensor:
        known = 1 - torch.softmax(cal, 1).gather(1, labels[:, None])[:, 0]
        known = known.sort().values
        found = [
            (n - torch.searchsorted(known, 1 - torch.softmax(z, 1)) + 1).float() / (n + 1) for z in new.split(2048)
        ]
        return torch.cat(found)

    found = {}
    for name in ("lac", "aps", "raps", "saps"):
        q = calibrate(name)
        found[name] = (least(lambda: calibrate(name)), least(lambda: predict(name, q)))  # noqa: B023
    return found | {"p": (0.0, least(p_values))}


def numpy_floor(calibration: Outputs, test: Outputs) -> dict[str, tuple[float, float]]:
    def softmax(z: np.ndarray) -> np.ndarray:
        e = np.exp(z - z.max(axis=1, keepdims=True))
        return e / e.sum(axis=1, keepdims=True)

    known = np.sort(np.random.default_rng(0).random(calibration.n)).astype(np.float32)
    plain = least(lambda: softmax(calibration.logits)), least(lambda: softmax(test.logits))
    ordered = plain[0], least(lambda: np.sort(softmax(test.logits), axis=1))
    search = least(lambda: np.searchsorted(known, softmax(test.logits)))
    return {"lac": plain, "saps": ordered, "aps": ordered, "raps": ordered, "p": (0.0, search)}


def peers(calibration: Outputs, test: Outputs) -> None:
    """Installed peers on the same arrays. Both get precomputed probabilities."""
    if importlib.util.find_spec("mapie"):
        from mapie.classification import SplitConformalClassifier
        from sklearn.base import BaseEstimator, ClassifierMixin

        class Ready(ClassifierMixin, BaseEstimator):
            def fit(self, x: np.ndarray, y: np.ndarray) -> Ready:
                return self

            def predict_proba(self, x: np.ndarray) -> np.ndarray:
                return x

            def predict(self, x: np.ndarray) -> np.ndarray:
                return x.argmax(axis=1)

        ready = Ready()
        ready.classes_, ready.is_fitted_ = np.arange(calibration.n_classes), True
        for name in ("lac", "aps"):
            known, new = calibration.probs.astype(np.float64), test.probs.astype(np.float64)
            known, new = known / known.sum(1, keepdims=True), new / new.sum(1, keepdims=True)
            peer = SplitConformalClassifier(ready, confidence_level=1 - ALPHA, conformity_score=name, prefit=True)
            start = time.process_time()
            peer.conformalize(known, calibration.labels)
            middle = time.process_time()
            peer.predict_set(new)
            print(f"MAPIE {name}: calibrate {middle - start:.2f}, predict {time.process_time() - middle:.2f} CPU s")
    if importlib.util.find_spec("torchcp"):
        try:
            import torch
            from torchcp.classification.score import APS as PeerAPS
        except ImportError as error:  # TorchCP needs torchsort, which has no wheels
            print(f"TorchCP cannot be imported: {error}")
            return
        cal, new, peer = torch.tensor(calibration.logits), torch.tensor(test.logits), PeerAPS(score_type="softmax")
        start = time.process_time()
        peer(cal, torch.tensor(calibration.labels))
        middle = time.process_time()
        peer(new)
        print(f"TorchCP aps scores: calibrate {middle - start:.2f}, predict {time.process_time() - middle:.2f} CPU s")


def puncc(python: str, calibration: Outputs, test: Outputs) -> None:
    """puncc in a separate environment, on the same probabilities."""
    with tempfile.TemporaryDirectory() as folder:
        arrays = {"calibration": calibration.probs, "labels": calibration.labels, "test": test.probs}
        for name, array in arrays.items():
            np.save(Path(folder) / f"{name}.npy", array)
        script = Path(__file__).parent / "peer_puncc.py"
        told = subprocess.run([python, script, folder, str(ALPHA)], capture_output=True, text=True, check=True).stdout
    for line in told.splitlines():
        name, first, second = line.split()
        print(f"puncc {name}: calibrate {first}, predict {second} CPU s")


if __name__ == "__main__":
    main()
