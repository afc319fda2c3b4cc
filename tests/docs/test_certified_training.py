"""The page on certified training: its code runs, its recipes are those of the library."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from caveat import data  # noqa: E402
from caveat.nn.training import PARADIGMS, PRESETS  # noqa: E402

PAGE = (Path(__file__).parents[2] / "docs" / "certified-training.md").read_text(encoding="utf-8")


def test_the_code_runs_on_smaller_data(monkeypatch, capsys):
    """As it stands, but for what takes minutes: digits of 8 x 8 in place of MNIST, a short recipe."""
    digits = data.digits()
    smaller = {"train": digits[:1300], "test": digits[1300:1330]}
    monkeypatch.setattr(data, "load", lambda name, split: smaller[split])
    (block,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    names = {"short": replace(PRESETS["tiny"], epochs=5)}
    exec(compile(block.replace('"standard"', "short"), "docs/certified-training.md", "exec"), names)
    assert re.match(
        r"GAUC <= AAUC <= AUC: [\d.]+ <= [\d.]+ <= [\d.]+ \(30 inliers, 30 outliers\)", capsys.readouterr().out
    )


def rows(section):
    start = PAGE.index(f"## {section}")
    return re.findall(
        r"^\| (`\w+`(?:, `\w+`)*) \|(.*)\|$", PAGE[start : PAGE.index("\n\n", PAGE.index("|---", start))], re.MULTILINE
    )


def test_every_preset_is_listed_as_it_is():
    listed = {name.strip("`"): line for name, line in rows("Presets")}
    assert set(listed) == set(PRESETS)
    for name, preset in PRESETS.items():
        images, epochs = re.findall(r"([\d,]+) x (\d+)", listed[name])[-1]
        assert int(epochs) == preset.epochs
        if preset.rows is not None:
            assert int(images.replace(",", "")) == preset.rows
        if preset.architecture != "mlp":
            assert f"`{preset.architecture}`" in listed[name]


def test_what_the_text_says_of_made_outliers():
    four = ("uniform", "smooth", "permuted", "blocks")
    made = {name: preset.outliers for name, preset in PRESETS.items()}
    assert made == {"tiny": ("uniform", "permuted"), "quick": four, "standard": four, "good": four, "paper": ()}


def test_every_paradigm_with_outliers_is_listed():
    listed = {name for names, _ in rows("Paradigms") for name in re.findall(r"\w+", names)}
    assert listed == {name for name, paradigm in PARADIGMS.items() if paradigm.needs_outliers}
