"""The built wheel works without the checkout: the core alone, and each extra with what it is for.

Builds the wheel and makes an environment for each extra, so it needs a package index: `make test-wheel`.
"""

from __future__ import annotations

import email
import os
import subprocess
import sys
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest

import caveat

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
START = """
import numpy as np
from caveat import Guard, Outputs, evaluate, scale, scores
rows = np.random.default_rng(0).normal(size=(60, 3))
features = Outputs(features=rows, labels=np.arange(60) % 3)
"""
USES = {  # extra -> what it is for
    "plots": "from caveat.plots import roc; roc(inlier=[0, 1], outlier=[1, 3])",
    "stats": "assert len(evaluate(inlier=Outputs(logits=rows, labels=np.arange(60) % 3), scores=['msp']).to_frame())",
    "torch": """
import torch
from caveat import nn
loader = torch.utils.data.DataLoader(torch.tensor(rows, dtype=torch.float32))
assert nn.extract(torch.nn.Sequential(torch.nn.Linear(3, 2)), loader).n == 60
""",
    "transformers": "import transformers",
    "onnx": "Guard(sets=None).calibrate(Outputs(logits=rows)).export_onnx('guard.onnx')",
    "safetensors": """
from safetensors.numpy import save_file
from caveat_lab.robust.network import Network
save_file({"0.dense.weight": rows[:2], "0.dense.bias": rows[0, :2].copy()}, "net.safetensors")
Network.load("net.safetensors")
""",
    "outlier": "scores.detector('iforest').fit(features).score(features)",
    "knn": "scores.KNN(k=2, index='ivf').fit(features).score(features)",
    "serve": "import caveat.serve",
    "postgres": "import psycopg",
    "sign": "import cryptography",
    "scale": """
import distributed, pyarrow, zarr
if __name__ == "__main__":
    with distributed.Client(processes=False, n_workers=1, dashboard_address=None) as client:
        scale.fit("mahalanobis", features, client=client)
""",
    "examples": "import magika",
}


def environment() -> dict[str, str]:
    """This process's environment without what would show it the checkout."""
    hidden = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "COVERAGE_PROCESS_CONFIG", "COVERAGE_PROCESS_START")
    return {name: value for name, value in os.environ.items() if name not in hidden}


def call(*args: str | Path, cwd: Path) -> str:
    done = subprocess.run([str(arg) for arg in args], cwd=cwd, env=environment(), capture_output=True, text=True,
                          timeout=900, check=False)  # fmt: skip
    assert done.returncode == 0, f"{args}: {done.stdout[-2000:]}{done.stderr[-4000:]}"
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    call(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", folder, ROOT, cwd=folder)
    (path,) = folder.glob("*.whl")
    return path


@pytest.fixture
def install(wheel, tmp_path):
    """A function that installs the wheel with an extra into a new environment and gives its folder of programs."""

    def with_extra(extra: str = "") -> Path:
        venv.create(tmp_path / "venv", with_pip=True)
        programs = tmp_path / "venv" / "bin"
        wanted = f"{wheel}[{extra}]" if extra else str(wheel)
        call(programs / "python", "-m", "pip", "install", "--quiet", "--constraint", ROOT / "constraints.txt", wanted,
             cwd=tmp_path)  # fmt: skip
        call(programs / "python", "-m", "pip", "check", cwd=tmp_path)
        return programs

    return with_extra


def test_the_wheel_holds_the_package_and_its_studies_and_nothing_else(wheel):
    assert wheel.name == f"caveat-{caveat.__version__}-py3-none-any.whl"
    assert wheel.stat().st_size < 3e6
    with zipfile.ZipFile(wheel) as archive:
        files = set(archive.namelist())
        info = next(name for name in files if name.endswith(".dist-info/METADATA"))
        facts = email.message_from_string(archive.read(info).decode())
    inside = {str(path.relative_to(ROOT / "src")) for path in (ROOT / "src").rglob("*")
              if path.is_file() and "__pycache__" not in path.parts}  # fmt: skip
    assert inside <= files
    assert "caveat_lab/_studies/usps/plan.toml" in files
    rest = {name for name in files - inside if not name.startswith(("caveat_lab/_studies/", "caveat-"))}
    assert not rest
    assert not {name for name in files if name.endswith((".svg", ".pyc", ".npz"))} - inside
    assert facts["License-Expression"] == "Apache-2.0"
    assert facts["Requires-Python"] == PROJECT["requires-python"]
    assert set(facts.get_all("Provides-Extra")) == set(PROJECT["optional-dependencies"])


def test_the_core_alone_runs_the_demonstration(install, tmp_path):
    programs = install()
    python, command = programs / "python", programs / "caveat"
    assert call(python, "-m", "caveat", "--version", cwd=tmp_path).strip() == f"caveat {caveat.__version__}"
    assert call(command, "--version", cwd=tmp_path).strip() == f"caveat {caveat.__version__}"
    where = call(python, "-c", "import caveat; print(caveat.__file__)", cwd=tmp_path)
    assert where.startswith(str(tmp_path))
    assert "mahalanobis" in call(command, "scores", cwd=tmp_path)
    assert "usps" in call(command, "reproduce", "--list", cwd=tmp_path)
    assert "digits" in call(command, "data", "list", cwd=tmp_path)
    assert "caveat guard check" in call(command, "demo", cwd=tmp_path)
    assert (tmp_path / "caveat-demo" / "report.html").stat().st_size > 10_000
    installed = call(python, "-m", "pip", "list", "--format=freeze", cwd=tmp_path)
    for name in ("torch", "pandas", "matplotlib", "onnx", "fastapi"):
        assert f"\n{name}==" not in f"\n{installed}"


@pytest.mark.parametrize("extra", USES)
def test_an_extra_brings_what_its_feature_needs(extra, install, tmp_path):
    python = install(extra) / "python"
    call(python, "-c", START + USES[extra], cwd=tmp_path)


def test_no_extra_is_forgotten():
    assert set(USES) == set(PROJECT["optional-dependencies"]) - {"dev", "docs", "peers", "test"}
