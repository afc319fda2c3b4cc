"""What the laboratory adds to ``caveat demo``: a network that is provably unsure about outliers, with torch."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from caveat.cli._console import say
from caveat_lab import data
from caveat_lab.cli.certify import show_certificates

if TYPE_CHECKING:
    from caveat_lab.experiments.certification import Certification

__all__ = ["certificates", "demo_certificates"]


def certificates(out: Path, seed: int, tell: Callable[[str, int, int], None]) -> Callable[[], None] | None:
    """Train and certify; what then shows the certificates and their page. None without torch."""
    from caveat.report import write_report

    tell("training a network with certificates", 0, 1)
    certified = demo_certificates(seed)
    if certified is None:
        return None
    findings = certified.findings(title="Digits: what no attack within radius 0.3 can do", seed=seed)
    page = write_report(findings, out, name="certificates").html

    def show() -> None:
        show_certificates(certified)
        say(f"Certificates: {page.resolve()}")

    return show


def demo_certificates(seed: int = 0) -> Certification | None:
    """A second network, trained to be provably unsure about outliers, and what it can promise; None without torch.

    The preset ``tiny``: GOOD on the ten digits, in seconds.
    """
    if find_spec("torch") is None:
        return None
    from caveat_lab.experiments.certification import certify
    from caveat_lab.networks.training.presets import fit_preset

    rng = np.random.default_rng(seed)
    images = data.digits()
    order = rng.permutation(len(images))
    train, held_out = images[order[:1300]], images[order[1300:]]
    trained = fit_preset("tiny", (train.inputs(), train.labels), seed=seed, threads=1, progress=False)
    outliers = {
        "uniform noise": data.noise(100, rng)[:, None],
        "permuted pixels": data.permuted(held_out.pixels, rng)[:, None],
        "inverted": data.inverted(held_out.pixels)[:, None],
    }
    return certify(
        trained.model, inlier=held_out, outliers=outliers, epsilon=0.3, points=100, attack=("apgd",), steps=20,
        source="certified", seed=seed,
    )  # fmt: skip
