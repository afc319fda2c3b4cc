"""Studies are scripts: this loads one by its folder, and finds the data or skips."""

import importlib.util
import os
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def study():
    """Load ``studies/<name>/run.py`` as a module."""

    def load(name):
        spec = importlib.util.spec_from_file_location(f"study_{name}", ROOT / "studies" / name / "run.py")
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
        return module

    return load


@pytest.fixture(scope="session")
def data():
    """The folder of real data, or a skip with the reason."""
    folder = os.environ.get("CAVEAT_DATA")
    if not folder:
        pytest.skip("CAVEAT_DATA does not name a folder of data sets")
    return Path(folder)
