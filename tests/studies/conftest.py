"""Loads a study file as the runner does; finds the data or skips."""

import os
import sys
from pathlib import Path

import pytest

from caveat_lab.experiments.functions import find_function

ROOT = Path(__file__).resolve().parents[2]
FUNCTIONS = {  # any function or class that the file defines itself
    "adaptivity/cifar_network": "network",
    "adaptivity/human": "mean_correlations",
    "adaptivity/orders": "table",
    "adaptivity/sharpness": "among_ten",
    "adaptivity/validation": "validate_metrics",
    "adbench/cells": "cells",
    "adbench/former_svdd": "former_scores",
    "adbench/kept": "write_runs",
    "adbench/protocol": "split",
    "adbench/tables": "markdown",
    "certified/layout": "zoomed",
    "certified/rounding": "row",
    "certified/samples": "letter_rows",
    "fpr_fluctuation/fluctuation": "study",
    "fpr_fluctuation/paper_size": "disjoint",
    "grid/passes": "best",
    "grid/pretrained_vit": "network",
    "grid/projected": "cliques",
    "ood_scores_as_nonconformity/networks": "network",
    "openood_tables/caps": "impossible",
    "regression/masked": "MaskedReconstruction",
    "selective_intervals/coverage": "simulate",
    "usps/figures": "digit_sheet",
    "usps/tangent": "TangentDistance",
}


@pytest.fixture(scope="session")
def studies():
    return ROOT / "studies"


@pytest.fixture(scope="session")
def study():
    """``study("usps")`` is the module of studies/usps/run.py, ``study("usps", "summary")`` that of its summary.py."""

    def load(name, file="run"):
        function = "summary" if file == "summary" else FUNCTIONS.get(f"{name}/{file}", "one")
        path = ROOT / "studies" / name / f"{file}.py"
        return sys.modules[find_function(f"{file}.py:{function}", str(path)).__module__]

    return load


@pytest.fixture(scope="session")
def data():
    """The folder of real data, or a skip with the reason."""
    folder = os.environ.get("CAVEAT_DATA")
    if not folder:
        pytest.skip("CAVEAT_DATA does not name a folder of data sets")
    return Path(folder)
