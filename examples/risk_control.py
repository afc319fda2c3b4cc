"""Conformal risk control: missed labels of multi-label sets, missed pixels of a segmentation mask.

    python examples/risk_control.py

Synthetic arrays replace a model. The loss is computed for every calibration row and every lambda; control_risk returns
the smallest lambda that it can promise. Many fresh rows then measure the loss at this lambda.
"""

from __future__ import annotations

import numpy as np

from caveat.conformal import control_risk

LAMBDAS = np.linspace(0, 1, 201)  # keep labels or pixels with a probability of 1 - lambda or more


def labels(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities of 20 labels per image, and the true labels; images differ in difficulty."""
    hard = rng.uniform(0.5, 2.0, size=(n, 1))
    there = rng.random((n, 20)) < 0.15
    there[np.arange(n), rng.integers(20, size=n)] = True  # at least one label each
    return 1 / (1 + np.exp(-rng.normal(np.where(there, 2.0, -2.0), hard * 1.2))), there


def masks(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities of 24 x 24 pixels, and the true mask, a disk with a blurred border."""
    y, x = np.mgrid[:24, :24]
    center, radius = rng.uniform(8, 16, size=(2, n, 1, 1)), rng.uniform(3, 7, size=(n, 1, 1))
    inside = radius - np.hypot(x - center[0], y - center[1])
    logits = inside * 1.5 + rng.normal(size=(n, 1, 1)) + rng.normal(size=(n, 24, 24))
    return (1 / (1 + np.exp(-logits))).reshape(n, -1), (inside > 0).reshape(n, -1)


def missed(probs: np.ndarray, there: np.ndarray) -> np.ndarray:
    """Share of true labels or pixels that are not kept, for every row and lambda: it falls as lambda grows."""
    kept = np.stack([(there & (probs >= 1 - t)).sum(axis=1) for t in LAMBDAS], axis=1)
    return 1 - kept / there.sum(axis=1, keepdims=True)


def main() -> None:
    rng = np.random.default_rng(0)
    for title, draw in (("labels of multi-label sets", labels), ("pixels of a segmentation mask", masks)):
        losses, (probs, there) = missed(*draw(rng, 500)), draw(rng, 5000)
        fresh = missed(probs, there)
        print(f"Missed {title}, 500 calibration rows, 5,000 fresh rows:")
        for delta, method in ((None, "crc"), (0.1, "wsr"), (0.1, "hoeffding_bentkus")):
            chosen = control_risk(losses, LAMBDAS, alpha=0.1, delta=delta, method=method)
            delivered = fresh[:, np.searchsorted(LAMBDAS, chosen.threshold)].mean()
            kept = (probs >= 1 - chosen.threshold).sum(axis=1).mean()
            how = "on average" if delta is None else f"with {100 * (1 - delta):g} % confidence"
            print(f"  {method:17s} promised at most 10 % {how}: lambda {chosen.threshold:.3f}, "
                  f"delivered {100 * delivered:.2f} %, {kept:.1f} kept per row")  # fmt: skip
    print(control_risk(losses[:8], LAMBDAS, alpha=0.1, delta=0.1))


if __name__ == "__main__":
    main()
