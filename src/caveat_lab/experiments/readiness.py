"""What a training plan needs before it starts: data on the disk, splits that exist, known names, possible options.

Without this a mistake in the last network of a matrix would be found when all others are trained.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from caveat._internal.files import is_folder
from caveat.errors import InputError
from caveat_lab.data.finding import absence, check_split
from caveat_lab.experiments.embeddings import check_files
from caveat_lab.experiments.given_weights import check_weights
from caveat_lab.experiments.loading import naming
from caveat_lab.experiments.matrix import Network
from caveat_lab.experiments.networks import plan_of
from caveat_lab.experiments.plan import Plan, Source, locate
from caveat_lab.experiments.train_plan import Source as ImageSource
from caveat_lab.experiments.train_plan import TrainPlan

__all__ = ["check_data_here", "check_network", "check_networks", "check_splits"]

_WEIGHTS = "model.safetensors"


def check_data_here(plan: Plan) -> None:
    """Raise one InputError that names all data of a matrix that are not on this machine, with what to do."""
    absent: dict[str, None] = {}
    files: dict[Path, None] = {}
    for source, network, seed in _networks(plan):
        training = plan_of(network, seed, plan.folder)[1]
        for images in _sources(training):
            if images.name and (text := absence(images.name, images.split)):
                absent[text] = None
            elif images.path:
                files[Path(images.path)] = None
        for given in (training.start, training.weights):
            if given:
                files[Path(given) / _WEIGHTS if is_folder(given) else Path(given)] = None
        files |= dict.fromkeys(locate(file.path, plan.folder, seed) for file in source.embeddings.values())
    absent |= {f"{file} does not exist. Check the path.": None for file in files if not file.exists()}
    if len(absent) > 1:
        lines = "".join(f"\n- {text}" for text in absent)
        raise InputError(f"{len(absent)} sets or files of the plan are not here:{lines}")
    for text in absent:
        raise InputError(text)


def check_networks(plan: Plan, *, here: bool = True) -> None:
    """Raise InputError that names the first network of a matrix that cannot be trained, or embeddings that do not fit.

    ``here``: whether its device must be one of this machine.
    """
    seen = set()
    for source, network, seed in _networks(plan):
        training = plan_of(network, seed, plan.folder)[1]
        what = repr(replace(training, seed=0))
        if what not in seen:
            with naming(source.name):
                check_splits(training)
                check_network(training, here=here)
        seen.add(what)
    for source, network, seed in _networks(plan):
        files = {name: locate(file.path, plan.folder, seed) for name, file in source.embeddings.items()}
        if files and repr(files) not in seen:
            _check_embeddings(source, files, plan_of(network, seed, plan.folder)[1])
        seen.add(repr(files))


def _check_embeddings(source: Source, files: Mapping[str, Path], training: TrainPlan) -> None:
    from caveat_lab.experiments.training import load_parts

    how = {name: {"keys": dict(file.keys), "rows": file.rows} for name, file in source.embeddings.items()}
    with naming(f"embeddings of {source.name}"):
        check_files(files, how, lambda: load_parts(training)[1])


def _networks(plan: Plan) -> Iterator[tuple[Source, Network, int]]:
    """Sources of the plan that are networks, with each seed."""
    for source, seed in itertools.product(plan.sources.values(), plan.seeds):
        if source.network is not None:
            yield source, source.network, seed


def check_network(plan: TrainPlan, *, here: bool = True) -> None:
    """Raise InputError where network, paradigm or options are unknown or impossible, without looking at images."""
    from caveat.nn._walk import as_device
    from caveat_lab.networks.architectures.catalogue import check_architecture
    from caveat_lab.networks.training import Augmentation, EarlyStopping, make_paradigm
    from caveat_lab.networks.training.fit import check_options
    from caveat_lab.networks.training.outlier_mix import check_kinds

    check_architecture(plan.model, plan.model_options, build=plan.builder())
    paradigm = make_paradigm(plan.paradigm, **plan.paradigm_options)
    if here and "device" in plan.training:
        as_device(plan.training["device"])
    if plan.weights is not None:
        check_weights(plan)
        return
    check_options(plan.training)
    if plan.early_stopping is not None:
        EarlyStopping(**plan.early_stopping)
    if plan.augment is not None:
        Augmentation(**plan.augment)
    if paradigm.needs_outliers and not plan.exposure:
        raise InputError(f"paradigm {paradigm.name} learns from outliers, and training.outliers names none. Add "
                         'outliers = ["uniform", "smooth"], or a data set.')  # fmt: skip
    if plan.exposure and not paradigm.needs_outliers:
        raise InputError(f"paradigm {paradigm.name} uses no outliers. Take training.outliers out, or give it to the "
                         "paradigms that learn from them.")  # fmt: skip
    if not isinstance(plan.exposure, ImageSource) and plan.exposure:
        check_kinds(plan.exposure)


def check_splits(plan: TrainPlan) -> None:
    """Raise InputError where a plan names a split that a file or folder of images does not have."""
    for source in _sources(plan):
        if source.path and source.split is not None:
            try:
                check_split(Path(source.path), source.split)
            except InputError as error:
                share = " data.test may also be a share, such as 0.2." if source.split == plan.test else ""
                raise InputError(f"{error}{share}") from None


def _sources(plan: TrainPlan) -> Iterator[ImageSource]:
    """Everything that images come from, the test split and the parts of joined sets too."""
    waiting = [plan.train, *plan.outliers.values()]
    if isinstance(plan.test, str):
        waiting.append(replace(plan.train, split=plan.test))
    if isinstance(plan.exposure, ImageSource):
        waiting.append(plan.exposure)
    while waiting:
        source = waiting.pop(0)
        waiting += source.join
        yield source
