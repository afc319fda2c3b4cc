"""A plan is read strictly: unknown content is an error, never ignored."""

from __future__ import annotations

import dataclasses

import pytest

from caveat import InputError
from caveat.outputs.keys import as_slice
from caveat_lab.experiments import Plan
from caveat_lab.experiments.plan import METRICS, SetFile, locate

SOURCE = '[sources.a]\ninlier = "a.npz"\n'


def test_every_key_is_read(tmp_path):
    plan = Plan.parse(
        """
        title = "T"
        about = "Why."
        alpha = 0.2
        delta = 0.1
        seeds = [1, 2]
        metrics = ["auroc", "fpr95"]
        scores = ["msp", {name = "knn", k = [10, 50]}, {name = "energy", temperature = 2}]
        projections = ["none", "class_pred"]
        variance = 0.9
        sets = ["raps"]
        resamples = 50
        [regimes]
        by = "proximity"
        [sources.net]
        train = {path = "f.npz", keys = {features = "feat_train"}, rows = "0:10"}
        calibration = "c.npz"
        inlier = "i.npz"
        head = "h.npz"
        [sources.net.outliers]
        dtd = {path = "d.npz", regime = "far"}
        svhn = "s.npz"
        [sources.made]
        task = "make.py:outputs"
        params = {depth = 3}
        [sources.made.outliers]
        noise = {regime = "far"}
        """,
        folder=tmp_path,
    )
    assert (plan.title, plan.about, plan.alpha, plan.delta) == ("T", "Why.", 0.2, 0.1)
    assert (plan.seeds, plan.metrics, plan.projections) == ((1, 2), ("auroc", "fpr95"), ("none", "class_pred"))
    assert (plan.variance, plan.sets, plan.resamples, plan.by_proximity) == (0.9, ("raps",), 50, True)
    assert [(s.name, s.variants()) for s in plan.scores] == [
        ("msp", [{}]), ("knn", [{"k": 10}, {"k": 50}]), ("energy", [{"temperature": 2}]),
    ]  # fmt: skip
    net, made = plan.sources["net"], plan.sources["made"]
    assert net.train == SetFile("f.npz", {"features": "feat_train"}, "0:10")
    assert net.outliers == {"dtd": SetFile("d.npz", regime="far"), "svhn": SetFile("s.npz")}
    assert list(net.files) == ["train", "calibration", "inlier", "outlier:dtd", "outlier:svhn"]
    assert (made.task, made.params, made.outliers["noise"].regime) == ("make.py:outputs", {"depth": 3}, "far")
    assert made.depends_on_seed
    assert not net.depends_on_seed


def test_defaults():
    plan = Plan.parse(SOURCE)
    assert (plan.alpha, plan.delta, plan.seeds, plan.metrics) == (0.1, 0.05, (0,), METRICS)
    assert (plan.scores, plan.projections, plan.by_proximity) == (None, ("none",), False)


def test_a_plan_is_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        Plan.parse(SOURCE).title = "x"


def test_a_plan_survives_its_json():
    plan = Plan.parse('scores = ["msp", {name = "knn", k = [10, 50]}]\n' + SOURCE, folder="x")
    assert dataclasses.replace(Plan.from_dict(plan.content, folder="x"), text=plan.text) == plan


def test_a_task_plan():
    plan = Plan.parse(
        '[task]\nrun = "run.py:one"\ndata = ["${CAVEAT_DATA}/usps.npz"]\n[grid]\nset = ["a", "b"]\nseed = 1'
    )
    assert plan.task.grid == {"set": ("a", "b"), "seed": (1,)}
    assert plan.task.data == ("${CAVEAT_DATA}/usps.npz",)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('titel = "x"\n' + SOURCE, r"unknown key 'titel'\. Did you mean 'title'\?"),
        ("alpha = 1.5\n" + SOURCE, "alpha must be strictly between 0 and 1, got 1.5"),
        ('delta = "small"\n' + SOURCE, "delta must be a number, got 'small'"),
        ("seeds = [0, 0]\n" + SOURCE, "seeds has 0 twice"),
        ("seeds = [-1]\n" + SOURCE, "seeds must be a whole number, at least 0, got -1"),
        ('metrics = ["auc"]\n' + SOURCE, "unknown name in metrics 'auc'. Did you mean 'aurc'"),
        ('projections = ["globe"]\n' + SOURCE, "unknown name in projections 'globe'. Did you mean 'global'"),
        ('scores = ["enrgy"]\n' + SOURCE, r"scores\[0\]: unknown score 'enrgy'. Did you mean 'energy'"),
        ('scores = [{name = "knn", n = 3}]\n' + SOURCE, r"scores\[0\]: unknown parameter of score 'knn' 'n'"),
        ('scores = [{name = "knn", k = []}]\n' + SOURCE, r"scores\[0\]\.k must be a list with at least one"),
        ('scores = [{name = "knn", k = 0}]\n' + SOURCE, r"scores\[0\]: k must be a whole number, at least 1, got 0"),
        ('scores = [{k = 3}]\n' + SOURCE, r"scores\[0\]\.name is missing"),
        ('scores = ["msp", "msp"]\n' + SOURCE, "scores has msp twice"),
        ("scores = []\n" + SOURCE, "scores must be a list with at least one"),
        ("resamples = 0\n" + SOURCE, "resamples must be a whole number, at least 1"),
        ('title = "x"', r"a plan needs \[sources.NAME\]"),
        ("[sources.a]\ntrain = 't.npz'", r"sources\.a\.inlier is missing"),
        (SOURCE + 'trian = "t.npz"', r"unknown key 'sources\.a\.trian'. Did you mean 'sources\.a\.train'"),
        (SOURCE + 'params = {a = 1}', r"sources\.a\.params belongs to a task"),
        (SOURCE + '[sources.a.outliers]\nb = {path = "b.npz", regime = "nea"}', "Did you mean 'near'"),
        (SOURCE + '[sources.a.outliers]\nb = {regime = "near"}', r"sources\.a\.outliers\.b\.path is missing"),
        (SOURCE + '[sources.a.outliers]\ninlier = "b.npz"', "cannot be called"),
        (SOURCE + 'train = {path = "t.npz", rows = "1-2"}', "rows must be a slice such as '0:5000'"),
        (SOURCE + 'train = {path = "t.npz", regime = "near"}', r"unknown key 'sources\.a\.train\.regime'"),
        (SOURCE + "[regimes]\nby = 'distance'", "unknown value of regimes.by 'distance'"),
        (SOURCE + "[grid]\nk = [1]", r"grid belongs to a study of a task"),
        ("[sources.a]\ntask = 'make.py'", r"sources\.a\.task must be 'file.py:function' or 'module:function'"),
        ("[task]\ndata = ['x']", r"task\.run is missing"),
        ("[task]\nrun = 'run.py:one'\n[grid]\nk = []", r"grid\.k must be a list with at least one"),
        ("[task]\nrun = 'run.py:one'\n[grid]\nk = [1, 1]", r"grid\.k has 1 twice"),
        ("[task]\nrun = 'run.py:one'\ngrid = 'run.py:g'\n[grid]\nk = [1]", "as \\[grid\\] or as task.grid, not both"),
        ("[task]\nrun = 'run.py:one'\n[sources.a]\ninlier = 'x'", "unknown key 'sources'"),
        ("alpha = ", "is not a TOML file"),
        ("title = 2020-01-01\n" + SOURCE, "text, numbers, lists and tables only"),
    ],
)  # fmt: skip
def test_a_wrong_plan_gets_one_sentence(text, said):
    with pytest.raises(InputError, match=said):
        Plan.parse(text)


def test_an_error_names_the_file(tmp_path):
    (tmp_path / "p.toml").write_text("alpha = 2\n" + SOURCE)
    with pytest.raises(InputError, match=r"p\.toml: alpha must be"):
        Plan.read(tmp_path / "p.toml")
    with pytest.raises(InputError, match="does not exist"):
        Plan.read(tmp_path / "gone.toml")
    with pytest.raises(InputError, match="is a folder where a file is expected"):
        Plan.read(tmp_path)


def test_paths_know_the_environment_and_the_seed(tmp_path, monkeypatch):
    monkeypatch.setenv("SOME_DATA", "/data")
    assert str(locate("${SOME_DATA}/x.npz", tmp_path)) == "/data/x.npz"
    assert locate("run{seed}/t.npz", tmp_path, 7) == tmp_path / "run7" / "t.npz"
    monkeypatch.delenv("SOME_DATA")
    with pytest.raises(InputError, match="needs the environment variable SOME_DATA, which is not set"):
        locate("${SOME_DATA}/x.npz", tmp_path)


@pytest.mark.parametrize(
    ("text", "rows"), [("0:3", [0, 1, 2]), ("::3", [0, 3]), ("-2:", [4, 5]), (" 1 : 5 : 2", [1, 3])]
)
def test_rows_as_python_writes_them(text, rows):
    assert list(range(6))[as_slice(text, "rows")] == rows


def test_a_set_that_is_neither_a_path_nor_a_table():
    sources = {"net": {"inlier": "a.npz", "outliers": {"far": 3}}}
    with pytest.raises(InputError, match="sources.net.outliers.far must be a path or a table with one, got 3."):
        Plan.from_dict({"sources": sources})
    sources = {"net": {"task": "make.py:outputs", "outliers": {"far": "far"}}}
    with pytest.raises(InputError, match="sources.net.outliers.far must be a table, got 'far'."):
        Plan.from_dict({"sources": sources})
