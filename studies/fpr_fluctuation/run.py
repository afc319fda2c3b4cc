"""The numbers of each design: ``cifar10`` (Figure 2, and the law at n = 500), ``mnist`` and ``ranks`` (Figure 1).

CAVEAT_DATA=<folder> caveat reproduce fpr-fluctuation
"""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

import fluctuation  # in this folder
import paper_size  # in this folder


def one(design: str) -> dict[str, Any]:
    """All numbers of one design, in one row."""
    if design == "cifar10":
        return asdict(fluctuation.study(*fluctuation.load(Path(os.environ["CAVEAT_DATA"])))[0])
    if design == "mnist":
        return asdict(paper_size.from_pool(paper_size.mnist_energies()))
    return asdict(paper_size.disjoint())
