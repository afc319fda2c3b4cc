"""The import direction of the design holds: a module imports only from layers below its own."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import caveat

ROOT = Path(caveat.__file__).parent
LAB = ROOT.with_name("caveat_lab")
LAYERS = [  # from the top down; names on one line do not import each other
    {"__main__"},
    {"cli"},
    {"report", "plots", "serve"},
    {"scale", "estimators"},  # they fit and call a guard
    {"guard"},
    {"evaluation", "nn"},
    {"stats", "drift", "demo"},
    {"metrics"},
    {"scores", "conformal"},
    {"outputs", "results"},
    {"_internal"},
    {"errors"},
]
LAB_LAYERS = [
    {"cli"},
    {"papers"},
    {"experiments"},
    {"attacks", "networks"},
    {"bounds"},
    {"data", "geometry", "robust"},
]
UPWARDS = {("evaluation", "guard")}  # late: a method that builds what stands above it
SLOW = {"torch", "pandas", "matplotlib", "sklearn", "pyarrow", "numba", "networkx", "jinja2", "rich", "True"}
TREES = {
    house: {path: ast.parse(path.read_text(encoding="utf-8")) for path in sorted(house.rglob("*.py"))}
    for house in (ROOT, LAB)
}


def imports(tree):
    """(what is imported from caveat or its laboratory, whether at module level), as ("caveat", "guard")."""
    top = {id(node) for node in tree.body}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            house, _, rest = node.module.partition(".")
            names = [rest] if rest else [alias.name for alias in node.names]
            yield from (((house, name.partition(".")[0]), id(node) in top) for name in names)
        elif isinstance(node, ast.Import):
            for alias in node.names:
                house, _, rest = alias.name.partition(".")
                yield (house, rest.partition(".")[0]), id(node) in top


def outside(tree, *, top_alone=False):
    """Top-level packages of others that a file imports."""
    return {house for (house, _), at_import in imports(tree) if at_import or not top_alone}


def package_of(path, house):
    return path.relative_to(house).parts[0].removesuffix(".py")


@pytest.mark.parametrize(("house", "layers"), [(ROOT, LAYERS), (LAB, LAB_LAYERS)], ids=["product", "laboratory"])
def test_imports_point_downwards(house, layers):
    level = {name: number for number, names in enumerate(layers) for name in names}
    wrong = []
    for path, tree in TREES[house].items():
        here = package_of(path, house)
        if path == house / "__init__.py":
            continue
        assert here in level, f"{here} has no layer: give it one here and in docs/architecture.md"
        for (other, name), at_import in imports(tree):
            if other != house.name or name in ("", here, "__version__") or (not at_import and (here, name) in UPWARDS):
                continue
            if name not in level or level[name] <= level[here]:
                wrong.append(f"{path.relative_to(house)} imports {other}.{name}")
    assert not wrong


def test_the_product_knows_nothing_of_the_laboratory():
    wrong = [path for path, tree in TREES[ROOT].items() if "caveat_lab" in outside(tree)]
    wrong += [path for path in TREES[ROOT] if re.search(r"\bcaveat_lab\b", path.read_text(encoding="utf-8"))]
    assert not wrong


def test_only_the_torch_edge_knows_torch():
    wrong = []
    for path, tree in TREES[ROOT].items():
        here, known = package_of(path, ROOT), {"torch", "onnx", "onnxruntime"}
        # A guard is exported as ONNX, a service may run a model, and torch reads its own files (as data, into arrays):
        # inside functions only, so that all work without it.
        allowed = {"nn": known, "guard": known - {"torch"}, "serve": known - {"torch"}}.get(here, set())
        if path.relative_to(ROOT).as_posix() == "outputs/tensor_files.py":
            allowed = {"torch"}
        if (outside(tree) & known) - allowed or (here != "nn" and outside(tree, top_alone=True) & known):
            wrong.append(path)
        if here not in {"nn", "cli"} and ("caveat", "nn") in {name for name, _ in imports(tree)}:
            wrong.append(path)
    assert not wrong


def test_import_is_light():
    code = "import sys, caveat; print(*sorted({m.split('.')[0] for m in sys.modules}), 'scipy.stats' in sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not SLOW & set(loaded)


def test_no_submodule_loads_slow_packages_at_import():
    code = (
        "import sys, caveat.scores, caveat.conformal, caveat.metrics, caveat.report\n"
        "import caveat_lab.experiments, caveat_lab.data\n"
        "import caveat.stats, caveat_lab.geometry, caveat_lab.robust, caveat.plots\n"
        "print(*sorted({m.split('.')[0] for m in sys.modules}), 'scipy.stats' in sys.modules)"
    )
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not SLOW - {"jinja2", "rich", "pyarrow"} & set(loaded)


def test_an_evaluation_loads_nothing_of_the_laboratory(tmp_path):
    code = (
        "import sys, numpy as np; from caveat import Outputs; from caveat.cli import main\n"
        "rows = Outputs(logits=np.random.default_rng(0).normal(size=(300, 3)), labels=np.arange(300) % 3)\n"
        f"rows.save({str(tmp_path / 'test.npz')!r})\n"
        f"sys.argv[1:] = ['evaluate', '--test', {str(tmp_path / 'test.npz')!r}, '--out', {str(tmp_path / 'out')!r}]\n"
        "try:\n    main()\nexcept SystemExit as stop:\n    assert not stop.code\n"
        "print(*{name for name in sys.modules if name.startswith('caveat_lab.') and '.cli' not in name})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == ""
