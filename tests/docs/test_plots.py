"""The page on plots: every function is listed and has an example. That the examples run is tested in test_public."""

from __future__ import annotations

import re
from pathlib import Path

from caveat import plots

PAGE = (Path(__file__).parents[2] / "docs" / "plots.md").read_text(encoding="utf-8")


def test_every_plot_is_listed_and_has_an_example():
    assert set(re.findall(r"^\| `(\w+)` \|", PAGE, re.MULTILINE)) == set(plots.__all__)
    code = "".join(re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL))
    assert set(re.findall(r"plots\.(\w+)\(", code)) == set(plots.__all__)
