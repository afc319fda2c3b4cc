"""The notebook runs from the first cell to the last, and its last lines are right."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest

pytest.importorskip("pandas")
pytest.importorskip("matplotlib")

NOTEBOOK = Path(__file__).parents[2] / "examples" / "evaluate.ipynb"


def run(source: str, names: dict[str, object]) -> object:
    """Run a cell and give the value of its last line, as a notebook would show it."""
    tree = ast.parse(source)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "cell", "exec"), names)
    return None if last is None else eval(compile(ast.Expression(last.value), "cell", "eval"), names)


def test_the_notebook_runs():
    content = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    names: dict[str, object] = {}
    shown = [run("".join(cell["source"]), names) for cell in content["cells"] if cell["cell_type"] == "code"]
    assert all(cell.get("outputs", []) == [] for cell in content["cells"])  # committed without results
    assert "reject when" in shown[1]._repr_html_()
    assert ("false alarms", 0.05, 0.95, True) in shown[2]
    assert "Holm" in shown[3]._repr_html_()
    assert shown[4].shape == (5, 6)
    assert names["ax"].get_xlabel()
