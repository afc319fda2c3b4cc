"""A renamed thing keeps working for two minor releases and warns with both releases and the new name."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

import caveat
from caveat import CaveatWarning, InputError
from caveat._internal.deprecation import (
    deprecated,
    deprecated_attributes,
    removed_in,
    renamed_arguments,
    warn_deprecated,
)
from caveat._internal.folders import page_checksum
from caveat.conformal import CrossIntervals, DifficultyIntervals, SplitIntervals
from caveat.errors import CaveatDeprecationWarning
from caveat.scores import KernelPCAError, Mahalanobis, NNGuide, OutlierDetector, load, make
from caveat.scores.dagmm import DAGMM
from caveat.study import Plan
from caveat.study.matrix import networks
from caveat.study.train_plan import TrainPlan

SOURCE = Path(caveat.__file__).parent
DEPRECATED = r"deprecated since Caveat 0\.2 .* removed in 0\.4"


@pytest.mark.parametrize(("since", "gone"), [("0.2", "0.4"), ("0.9", "0.11"), ("1.0", "1.2")])
def test_two_minor_releases(since, gone):
    assert removed_in(since) == gone


def test_a_function_works_under_its_old_name():
    @deprecated("metrics.auroc", since="0.2")
    def area(x, *, y=2):
        """Of something."""
        return x + y

    with pytest.warns(CaveatDeprecationWarning, match=rf"area is {DEPRECATED}\. Use metrics\.auroc\."):
        assert area(1, y=5) == 6
    assert (area.__name__, area.__doc__) == ("area", "Of something.")


def test_an_argument_works_under_its_old_name():
    @renamed_arguments(since="0.2", level="alpha", failure="delta")
    def bound(x, *, alpha, delta=0):
        return x, alpha, delta

    with pytest.warns(CaveatDeprecationWarning, match=rf"\(level=\.\.\.\) is {DEPRECATED}.*\(alpha=\.\.\.\)"):
        assert bound(1, level=2) == (1, 2, 0)
    with pytest.warns(CaveatDeprecationWarning, match="Use .*delta"):
        assert bound(1, alpha=2, failure=3) == (1, 2, 3)
    assert bound(1, alpha=2, delta=3) == (1, 2, 3)
    with pytest.raises(InputError, match="alpha or its old name level, got both"):
        bound(1, alpha=2, level=2)


def test_an_attribute_of_a_module_works_under_its_old_name():
    look_up = deprecated_attributes("caveat.metrics", {"area": "caveat.metrics.auroc"}, since="0.2")
    with pytest.warns(
        CaveatDeprecationWarning, match=rf"caveat\.metrics\.area is {DEPRECATED}.*caveat\.metrics\.auroc"
    ):
        assert look_up("area") is caveat.metrics.auroc
    with pytest.raises(AttributeError, match="'caveat.metrics' has no attribute 'volume'"):
        look_up("volume")


def test_the_warning_names_the_line_of_the_user():
    with pytest.warns(CaveatDeprecationWarning) as caught:
        NNGuide(seed=1)
    assert caught[0].filename == __file__


def test_python_shows_it_to_the_user_but_not_for_other_libraries(tmp_path):
    (tmp_path / "library.py").write_text("from caveat.scores import NNGuide\ndef build(): return NNGuide(seed=1)\n")
    (tmp_path / "script.py").write_text(
        "import library\nfrom caveat.scores import Mahalanobis\nlibrary.build()\nMahalanobis(seed=1)\n"
    )
    call = [sys.executable, "script.py"]
    err = subprocess.run(call, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True).stderr
    assert "script.py:4: CaveatDeprecationWarning: Mahalanobis(seed=...)" in err
    assert "NNGuide" not in err


def test_it_is_a_warning_of_caveat_and_of_python():
    with warnings.catch_warnings():
        warnings.simplefilter("error", CaveatWarning)  # as our own tests have it: no code of ours may use an old name
        with pytest.raises(DeprecationWarning):
            warn_deprecated("old", new="new", since="0.2")


def test_nothing_stays_longer_than_was_said():
    now = tuple(map(int, caveat.__version__.split(".")[:2]))
    uses = [(path.name, since) for path in SOURCE.rglob("*.py") if path.name != "deprecation.py"
            for since in re.findall(r'since="([\d.]+)"', path.read_text(encoding="utf-8"))]  # fmt: skip
    assert ("params.py", "0.2") in uses
    late = [use for use in uses if tuple(map(int, removed_in(use[1]).split("."))) <= now]
    assert not late, "remove these names: their time is over"


# -- what is deprecated now -------------------------------------------------------------------------------------------

SEEDED = {
    "nnguide": lambda **seed: NNGuide(k=2, share=0.1, **seed),
    "kpca_error": lambda **seed: KernelPCAError(features="fourier", **seed),
    "mahalanobis": lambda **seed: Mahalanobis(class_rank=2, **seed),
}


@pytest.mark.parametrize("name", SEEDED)
def test_a_seed_of_the_constructor_still_decides(name, train, inlier):
    build = SEEDED[name]
    values = (
        (lambda score: score.class_scores(inlier)) if name == "mahalanobis" else (lambda score: score.score(inlier))
    )
    with pytest.warns(CaveatDeprecationWarning, match=rf"\(seed=\.\.\.\) is {DEPRECATED}.*fit\(train, rng=\.\.\.\)"):
        old = build(seed=3)
    np.testing.assert_array_equal(values(old.fit(train)), values(build().fit(train, rng=3)))
    assert not np.array_equal(values(old), values(build().fit(train)))
    assert repr(old).endswith(", seed=3)")
    assert "seed" not in repr(build())


def test_the_seed_of_a_detector_still_decides(train):
    with pytest.warns(CaveatDeprecationWarning, match=r"OutlierDetector\(seed=\.\.\.\)"):
        old = OutlierDetector("dagmm", {"epochs": 1}, seed=3)
    with pytest.warns(CaveatDeprecationWarning, match=r"DAGMM\(random_state=\.\.\.\).*fit\(X, rng=\.\.\.\)"):
        given = DAGMM(epochs=1, random_state=3)
    expected = DAGMM(epochs=1).fit(train.features, rng=3).weights_
    np.testing.assert_array_equal(old.fit(train).estimator_.weights_, expected)
    np.testing.assert_array_equal(given.fit(train.features).weights_, expected)


def test_a_seed_is_checked_and_named_in_make():
    with pytest.warns(CaveatDeprecationWarning, match="NNGuide"):
        assert make("nnguide", seed=2).seed == 2
    with pytest.warns(CaveatDeprecationWarning), pytest.raises(InputError, match="seed must be a whole number"):
        NNGuide(seed=-1)


@pytest.mark.parametrize("name", SEEDED)
def test_a_score_saved_with_its_seed_loads_in_silence(name, train, inlier, tmp_path):
    score = SEEDED[name]().fit(train)
    score.save(tmp_path / "score")
    path = tmp_path / "score" / "score.json"
    page = json.loads(path.read_text())
    assert "seed" not in page["parameters"]
    page["parameters"]["seed"] = 0  # as version 0.1 wrote it
    page["crc32"] = page_checksum(page)
    path.write_text(json.dumps(page))
    loaded = load(tmp_path / "score")
    np.testing.assert_array_equal(loaded.score(inlier), score.score(inlier))
    assert repr(loaded) == repr(score)[:-1] + ", seed=0)"  # as the fingerprint of an old guard has it
    loaded.save(tmp_path / "again")
    assert repr(load(tmp_path / "again")) == repr(loaded)
    page["parameters"]["seed"] = "0"
    page["crc32"] = page_checksum(page)
    path.write_text(json.dumps(page))
    with pytest.raises(InputError, match=r"score.json.*seed must be a whole number"):
        load(tmp_path / "score")


def test_the_old_name_of_a_metric_in_a_plan():
    plan = {"sources": {"digits": {"train": "a.npz", "inlier": "b.npz"}}, "metrics": ["conformal_auroc"]}
    said = rf"'conformal_auroc' in metrics is {DEPRECATED}.*'auroc_guaranteed'"
    with pytest.warns(CaveatDeprecationWarning, match=said):
        assert Plan.from_dict(plan).metrics == ("auroc_guaranteed",)


def test_the_old_spelling_of_the_score_of_intervals():
    for build in (SplitIntervals, CrossIntervals, DifficultyIntervals):
        with pytest.warns(CaveatDeprecationWarning, match=rf"score='normalised' is {DEPRECATED}.*score='normalized'"):
            assert build("normalised").score == "normalized"


def test_old_keys_of_training_plans(tmp_path):
    plan = tmp_path / "train.toml"
    text = '[data]\nname = "digits"\n{} = true\n[training]\nepochs = 1\n{} = "sgd"\n'
    plan.write_text(text.format("normalize", "optimizer"))
    new = TrainPlan.read(plan)
    plan.write_text(text.format("normalise", "optimiser"))
    with pytest.warns(CaveatDeprecationWarning) as caught:
        assert TrainPlan.read(plan) == new
    assert (new.normalize, new.training["optimizer"]) == (True, "sgd")
    said = [str(warning.message) for warning in caught]
    assert [text.split(" is ")[0] for text in said] == ["data.normalise", "training.optimiser"]
    plan.write_text(text.format("normalize", "optimizer") + 'optimiser = "adam"\n')
    with pytest.raises(InputError, match="training has optimizer and its old name optimiser"):
        TrainPlan.read(plan)


def test_an_old_key_of_a_backbone_in_a_matrix():
    content = {
        "matrix": {"backbone": [{"name": "small_cnn", "normalise": True}], "seed": [0]},
        "data": {"digits": {"name": "digits", "test": 0.2}},
    }
    with pytest.warns(CaveatDeprecationWarning, match="normalise of a backbone"):
        (network,), _ = networks(content)
    assert network.training["data"]["normalize"] is True
