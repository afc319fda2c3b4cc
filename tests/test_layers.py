"""The import direction of the design holds: a module imports only from layers below its own."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import caveat

ROOT = Path(caveat.__file__).parent
LAYERS = [  # from the top down; names on one line do not import each other
    {"__main__"},
    {"cli"},
    {"report", "plots", "serve"},
    {"scale", "estimators"},  # they fit and call a guard
    {"study", "guard"},
    {"evaluation", "nn"},
    {"stats", "geometry", "robust", "drift"},
    {"metrics"},
    {"scores", "conformal", "data"},
    {"outputs", "results"},
    {"_internal"},
    {"errors"},
]
UPWARDS = {("evaluation", "guard")}  # late: a method that builds what stands above it
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}
MODULES = sorted(path for path in ROOT.rglob("*.py") if path != ROOT / "__init__.py")


def imports(path):
    """(what is imported from caveat, whether at module level) of one file."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    top = {id(node) for node in tree.body}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "caveat":
            parts = node.module.split(".")
            names = [parts[1]] if len(parts) > 1 else [alias.name for alias in node.names]
            yield from ((name, id(node) in top) for name in names)
        elif isinstance(node, ast.Import):
            for alias in node.names:
                parts = alias.name.split(".")
                if parts[0] == "caveat" and len(parts) > 1:
                    yield parts[1], id(node) in top


def package_of(path):
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_point_downwards(path):
    here = package_of(path)
    assert here in LEVEL, f"{here} has no layer: give it one in LAYERS and in the design"
    for name, at_import in imports(path):
        if name in (here, "__version__") or (not at_import and (here, name) in UPWARDS):
            continue
        assert name in LEVEL, f"{path.name} imports caveat.{name}, which has no layer"
        assert LEVEL[name] > LEVEL[here], f"caveat.{here} may not import caveat.{name}"


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_only_the_torch_edge_knows_torch(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    modules = [n.module or "" for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)]
    modules += [alias.name for n in ast.walk(tree) if isinstance(n, ast.Import) for alias in n.names]
    # A guard is exported as ONNX, a service may run a model, and torch reads its own files (as data, into arrays):
    # inside functions only, so that all work without it.
    here = {"nn": set(), "guard": {"torch"}, "serve": {"torch"}}.get(package_of(path), {"torch", "onnx", "onnxruntime"})
    reads_torch_files = path.relative_to(ROOT).as_posix() == "outputs/tensor_files.py"
    assert not [m for m in modules if m.split(".")[0] in here - ({"torch"} if reads_torch_files else set())]
    if package_of(path) in ("guard", "serve") or reads_torch_files:
        top = [n.module or "" for n in tree.body if isinstance(n, ast.ImportFrom)]
        top += [alias.name for n in tree.body if isinstance(n, ast.Import) for alias in n.names]
        assert not [m for m in top if m.split(".")[0] in {"torch", "onnx", "onnxruntime"}]
    if package_of(path) not in {"nn", "cli", "study"}:
        assert "nn" not in {name for name, _ in imports(path)}


def test_import_is_light():
    code = "import sys, caveat; print(*sorted({m.split('.')[0] for m in sys.modules}), 'scipy.stats' in sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"torch", "pandas", "matplotlib", "sklearn", "pyarrow", "numba", "jinja2", "rich", "True"} & set(loaded)


def test_no_submodule_loads_slow_packages_at_import():
    code = (
        "import sys, caveat.scores, caveat.conformal, caveat.metrics, caveat.study, caveat.report, caveat.data\n"
        "import caveat.stats, caveat.geometry, caveat.robust, caveat.plots\n"
        "print(*sorted({m.split('.')[0] for m in sys.modules}), 'scipy.stats' in sys.modules)"
    )
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"torch", "pandas", "matplotlib", "sklearn", "numba", "networkx", "True"} & set(loaded)
