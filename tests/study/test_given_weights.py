"""Refusals of whole plans are in test_matrix.py; here the folder itself."""

from __future__ import annotations

import pytest

from caveat import InputError

pytest.importorskip("torch")
from caveat_lab.experiments.given_weights import check_weights
from caveat_lab.experiments.train_plan import Source, TrainPlan
from caveat_lab.experiments.training import run_training


@pytest.mark.filterwarnings("ignore:training collapsed")
def test_a_folder_fits_its_own_plan_and_a_file_is_no_folder(tmp_path):
    how = {"training": {"epochs": 1}, "model_options": {"width": 2}, "test": 0.2}
    plan = TrainPlan(train=Source(name="digits", limit=200), **how)
    run_training(plan, tmp_path / "model")
    own = {"train": plan.train, "weights": str(tmp_path / "model")}
    check_weights(TrainPlan(**own, model_options={"width": 2, "dropout": 0.0}), in_shape=(1, 8, 8), classes=10)
    with pytest.raises(InputError, match="classes 10, the plan says classes 9"):
        check_weights(TrainPlan(**own, model_options={"width": 2}), classes=9)
    with pytest.raises(InputError, match="width 2, .* width 16"):
        run_training(TrainPlan(**own), tmp_path / "other")
    with pytest.raises(InputError, match="is a file, and a trained network is a folder"):
        check_weights(TrainPlan(train=plan.train, weights=str(tmp_path / "model" / "model.safetensors")))
