"""The page on training: its code runs, its plan trains, its numbers are those of the networks."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from caveat_lab.experiments.train_plan import TrainPlan  # noqa: E402
from caveat_lab.networks.architectures import ARCHITECTURES, make  # noqa: E402
from caveat_lab.networks.training import PARADIGMS  # noqa: E402

PAGE = (Path(__file__).parents[2] / "docs" / "training.md").read_text(encoding="utf-8")


def test_the_code_runs(capsys):
    space: dict[str, object] = {}
    for block in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL):
        exec(compile(block, "docs/training.md", "exec"), space)
    assert "confidence 497" in capsys.readouterr().out
    assert space["trained"].outputs((space["x"], space["y"])).correct.mean() > 0.9


def test_the_plan_is_read(tmp_path):
    (block,) = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    (tmp_path / "plan.toml").write_text(block, encoding="utf-8")
    plan = TrainPlan.read(tmp_path / "plan.toml")
    assert plan.paradigm == "deep_gamblers"
    assert plan.early_stopping == {"monitor": "augrc", "patience": 5}


def test_every_network_is_listed_with_its_size():
    listed = dict(re.findall(r"^\| `(\w+)` \|.*\| ([\d,]+) \|$", PAGE, re.MULTILINE))
    assert set(listed) == set(ARCHITECTURES)
    for name, size in listed.items():
        with torch.device("meta"):
            assert sum(p.numel() for p in make(name).parameters()) == int(size.replace(",", "")), name


def test_every_paradigm_is_listed():
    section = PAGE[PAGE.index("## Paradigms") : PAGE.index("## Dropout")]
    listed = re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE)
    others = re.findall(r"`(\w+)`", re.search(r"^The four others, (.*), are about", section, re.MULTILINE)[1])
    assert len(others) == 4
    assert {*listed, *others} == set(PARADIGMS)
    assert len(PARADIGMS) == 10  # as the text says
