"""The page on certified training: its code runs, its recipes are those of the library."""

from __future__ import annotations

import re
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from caveat import CaveatWarning  # noqa: E402
from caveat_lab import data  # noqa: E402
from caveat_lab.networks.training import PARADIGMS, PRESETS, PUBLISHED_DATA, published_preset  # noqa: E402

PAGE = (Path(__file__).parents[2] / "docs" / "certified-training.md").read_text(encoding="utf-8")


def test_the_code_runs_on_smaller_data(monkeypatch, capsys):
    """As it stands, but for what takes minutes: digits of 8 x 8 in place of MNIST, a short recipe."""
    digits = data.digits()
    smaller = {"train": digits[:1300], "test": digits[1300:1330]}
    monkeypatch.setattr(data, "load", lambda name, split: smaller[split])
    block = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)[0]
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
    assert made == {"tiny": ("uniform", "permuted"), "paper": ()} | dict.fromkeys(
        ("quick", "standard", "long", "good"), four
    )


def test_the_second_example_trains_further_what_the_first_one_trained():
    block = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)[1]
    images = data.digits()[:200]
    noise = np.random.default_rng(0).random((100, 1, 8, 8)).astype(np.float32)
    names = {"train": (images.inputs(), images.labels), "photographs": noise}
    short = "replace({}, architecture='mlp', epochs=1, batch_size=50)"
    text = re.sub(r"(published_preset\([^)]*\))", lambda found: short.format(found[1]), block)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CaveatWarning)  # one epoch does not learn much
        exec(compile("from dataclasses import replace\n" + text, "docs/certified-training.md", "exec"), names)
    assert names["good"].paradigm.quantile == 0.8


def test_the_table_of_published_schedules_has_their_numbers():
    start = PAGE.index("## Published schedules")
    lines = {line.split("|")[1].strip(): line.split("|")[2:-1] for line in PAGE[start:].splitlines() if line[:1] == "|"}
    for column, name in enumerate(PUBLISHED_DATA):
        plain, good = published_preset("plain", name), published_preset("good", name)
        assert plain.architecture in lines["network"][column]
        assert float(lines["radius"][column]) == good.paradigm.epsilon
        epochs = [round(share * plain.epochs) for share in plain.schedule]
        assert [int(text) for text in lines["divided by 5 after epochs"][column].split(",")] == epochs
        assert float(lines["weight decay of the sum"][column]) == pytest.approx(128 * plain.weight_decay)
        assert int(lines["epochs, all but ACET and GOOD"][column]) == plain.epochs


def test_every_paradigm_with_outliers_is_listed():
    listed = {name for names, _ in rows("Paradigms") for name in re.findall(r"\w+", names)}
    assert listed == {name for name, paradigm in PARADIGMS.items() if paradigm.needs_outliers}
