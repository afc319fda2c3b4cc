"""Adaptivity of prediction sets: six methods, 27 published CIFAR networks and four digit classifiers.

    CAVEAT_DATA=<folder> python studies/adaptivity/run.py [--store runs/adaptivity] [--repeats 10]

Needs cifar10_test_logits.npz, cifar100_test_logits.npz and mnist.npz. Resumable: one file per network and part in the
store. Writes the tables and figures beside this file.
"""

from __future__ import annotations

import argparse
import csv
import importlib.util
import json
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from caveat import Outputs
from caveat._files import replacing_file, write_json
from caveat.conformal import SplitSets, logit_noise_ease, tune_raps, tune_saps
from caveat.errors import CaveatWarning
from caveat.metrics import steps_short_and_over, true_ranks, validate_metrics

HERE = Path(__file__).parent
ALPHAS = (0.05, 0.10, 0.15, 0.20)
LOGIT_SIGMAS = (0.5, 1.0, 2.0)  # strengths to tune among, in units of the logits
JUDGE_SIGMA, COPIES = 1.0, 20  # of the ease by which T-CV and T-SS bin: drawn apart from those that tune
METRICS = ("T-CV", "T-SS", "SSCV", "ESCV", "deficit", "excess", "coverage", "size")

Floats = NDArray[np.float64]


def beside(name: str) -> Any:
    """A module of this folder, however this file was started."""
    if f"adaptivity_{name}" not in sys.modules:
        spec = importlib.util.spec_from_file_location(f"adaptivity_{name}", HERE / f"{name}.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[f"adaptivity_{name}"] = module
        spec.loader.exec_module(module)
    return sys.modules[f"adaptivity_{name}"]


def networks(folder: str | os.PathLike[str]) -> Iterator[tuple[str, Outputs]]:
    """Name and test outputs of every published network."""
    for data in ("cifar100", "cifar10"):
        with np.load(Path(folder) / f"{data}_test_logits.npz", allow_pickle=False) as file:
            labels = file["y"].astype(np.intp)
            for key in sorted(k for k in file.files if k.startswith("logits_")):
                yield f"{data} {key.removeprefix('logits_')}", Outputs(logits=file[key], labels=labels)


def cifar_eases(outputs: Outputs) -> tuple[dict[str, Floats], Floats]:
    """Eases to tune among, and the one that judges."""
    rng = np.random.default_rng(0)
    eases = {f"{s:g}": logit_noise_ease(outputs, sigma=s, rng=rng, copies=COPIES) for s in LOGIT_SIGMAS}
    return eases, logit_noise_ease(outputs, sigma=JUDGE_SIGMA, rng=rng, copies=COPIES)


def digit_eases(model: Any, x: Any) -> tuple[dict[str, Floats], Floats]:
    digits, rng = beside("digits"), np.random.default_rng(0)
    eases = {
        f"{s:g}": digits.ease_under(model, x, transform="noise", strength=s, copies=10, rng=rng) for s in digits.SIGMAS
    }
    return eases, digits.ease_under(model, x, transform="noise", strength=0.05, copies=10, rng=rng)


def tables(outputs: Outputs, eases: dict[str, Floats], judge: Floats, repeats: int) -> dict[str, Any]:
    """Median of every metric over random splits, by alpha and method; accuracy; mean rank by ease (Figure 1)."""
    methods = beside("methods")
    found: dict[str, Any] = {"accuracy": float(outputs.correct.mean()), "alpha": {}}
    for alpha in ALPHAS:
        runs = [methods.compare(outputs, eases, judge, alpha=alpha, seed=seed) for seed in range(repeats)]
        found["alpha"][str(alpha)] = {
            method: {metric: float(np.nanmedian([run[method][metric] for run in runs])) for metric in METRICS}
            for method in methods.METHODS
        }
    order = np.array_split(np.argsort(judge), 50)
    ranks = true_ranks(probs=outputs.probs, labels=outputs.labels)
    found["rank_by_ease"] = [[float(judge[part].mean()), float(ranks[part].mean())] for part in order]
    return found


def validate(outputs: Outputs, judge: Floats, *, trials: int, pairs: int, alpha: float = 0.1) -> dict[str, Any]:
    """Which metric follows property 1, for four methods (Tables 1 and 3)."""
    rng = np.random.default_rng(0)
    order = rng.permutation(outputs.n)
    tune, cal, new = outputs[order[:2000]], outputs[order[2000:4000]], outputs[order[4000:]]
    scores = {
        "LAC": "lac",
        "APS": "aps",
        "RAPS": tune_raps(tune, alpha, rng=rng).score,
        "SAPS": tune_saps(tune, alpha, rng=rng).score,
    }
    ranks = true_ranks(probs=new.probs, labels=new.labels)
    found = {}
    for name, score in scores.items():
        sets = SplitSets(score, alpha=alpha).calibrate(cal, rng).predict(new, rng)
        short, over = steps_short_and_over(member=sets.member, probs=new.probs, labels=new.labels)
        result = validate_metrics(
            covered=sets.covers(new.labels), sizes=sets.sizes, ranks=ranks, ease=judge[order[4000:]], short=short,
            over=over, alpha=alpha, rng=rng, trials=trials, pairs=pairs,
        )  # fmt: skip
        found[name] = {"correlation": result.correlation, "p_value": result.p_value, "order": result.order}
    return found


def sensitivity(model: Any, x: Any, outputs: Outputs, repeats: int) -> dict[str, Any]:
    """O-LAC at alpha 0.1 by kind of transformation and by number of copies (Figures 5 and 6)."""
    digits, methods = beside("digits"), beside("methods")
    _, judge = digit_eases(model, x)
    found: dict[str, Any] = {}
    settings = [(kind, 20) for kind in digits.TRANSFORMS] + [("noise", copies) for copies in (10, 20, 30, 50)]
    for kind, copies in settings:
        rng = np.random.default_rng(0)
        ease = {"it": digits.ease_under(model, x, transform=kind, strength=0.05, copies=copies, rng=rng)}
        runs = [methods.compare(outputs, ease, judge, alpha=0.1, seed=seed)["O-LAC"] for seed in range(repeats)]
        key = f"{kind}, L = {copies}"
        found[key] = {m: float(np.nanmedian([run[m] for run in runs])) for m in ("T-CV", "T-SS", "size", "coverage")}
    return found


def stored(path: Path, work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """The content of a file, computed and written first if it is not there."""
    if not path.exists():
        start = time.process_time()
        write_json(path, work())
        print(f"{path.parent.name}/{path.stem}: {time.process_time() - start:.0f} CPU s", flush=True)
    content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return content


def collect(folder: str, store: Path, *, repeats: int, trials: int, pairs: int) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {"tables": {}, "validation": {}, "sensitivity": {}}

    def keep(part: str, name: str, work: Callable[..., dict[str, Any]], *arguments: Any) -> None:
        found[part][name] = stored(store / part / f"{name}.json", lambda: work(*arguments))

    digits = beside("digits")
    train, y, new, truth = digits.load(folder)
    for kind, model in digits.classifiers().items():
        outputs, name = digits.outputs_of(model.fit(train, y), new, truth), f"mnist {kind}"
        keep("tables", name, lambda m, o: tables(o, *digit_eases(m, new), repeats), model, outputs)
        if kind.startswith("mlp"):
            keep("sensitivity", name, sensitivity, model, new, outputs, repeats)
    for name, outputs in networks(folder):
        keep("tables", name, lambda o: tables(o, *cifar_eases(o), repeats), outputs)
        if name.startswith("cifar100") or name.endswith(("weak78", "resnet20", "shufflenetv2_x0_5")):
            keep("validation", name, lambda o: validate(o, cifar_eases(o)[1], trials=trials, pairs=pairs), outputs)
    return found


def write_csv(found: dict[str, dict[str, Any]]) -> None:
    """Every number of the tables, and of the validation, as two long CSV files."""
    rows = [
        {"network": network, "accuracy": f"{content['accuracy']:.4f}", "alpha": alpha, "method": method}
        | {metric: f"{value:.3f}" for metric, value in values.items()}
        for network, content in found["tables"].items()
        for alpha, by_method in content["alpha"].items()
        for method, values in by_method.items()
    ]
    checks = [
        {"network": network, "method": method, "metric": metric, "spearman": f"{value:.4f}",
         "p_value": f"{content['p_value'][metric]:.2e}", "place": content["order"].index(metric) + 1}
        for network, by_method in found["validation"].items()
        for method, content in by_method.items()
        for metric, value in content["correlation"].items()
    ]  # fmt: skip
    for name, lines in (("results.csv", rows), ("validation.csv", checks)):
        with replacing_file(HERE / name) as temporary, temporary.open("w", newline="", encoding="utf-8") as stream:
            writer = csv.DictWriter(stream, fieldnames=list(lines[0]))
            writer.writeheader()
            writer.writerows(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", type=Path, default=Path("runs/adaptivity"))
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--trials", type=int, default=1000)
    parser.add_argument("--pairs", type=int, default=10_000)
    options = parser.parse_args()
    if "CAVEAT_DATA" not in os.environ:
        raise SystemExit("Set CAVEAT_DATA to the folder that holds the logits.")
    warnings.simplefilter("ignore", CaveatWarning)
    found = collect(
        os.environ["CAVEAT_DATA"], options.store, repeats=options.repeats, trials=options.trials, pairs=options.pairs
    )
    write_csv(found)
    beside("figures").render(found, HERE)


if __name__ == "__main__":
    main()
