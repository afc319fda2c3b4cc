"""Feature scores against the bare matrix products they contain, measured in one run.

    python benchmarks/bench_scores_features.py                 # 20,000 x 512 train, 4,000 test, 100 classes
    python benchmarks/bench_scores_features.py --full          # 50,000 x 512 train, 10,000 test
    python benchmarks/bench_scores_features.py --full --peers  # and KNN against faiss, torch and scikit-learn

Times are CPU seconds over all threads, the minimum of ``--repeat`` runs, so that ratios hold on a busy machine.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits
from timing import least

from caveat import Head, Outputs
from caveat.scores import KNN, KernelPCAError, Mahalanobis, Projected, Score, catalogue

TILE = 1024
CLASSLESS = {"mahalanobis, rank 0": Mahalanobis(class_rank=0)}  # without what it learns for class scores alone
PROJECTED = {
    f"{name}_{projection}": (name, projection)
    for name in ("energy", "mahalanobis", "pca_error", "kpca_error")
    for projection in ("global", "class_pred", "class_avg")
}
NAMES = ("mahalanobis", *CLASSLESS, "relative_mahalanobis", "knn", "ctm", "ctm_mean", "pca_error", "kpca_error",
         "residual", "vim", "neco", "she", *PROJECTED)  # fmt: skip


def outputs(n: int, width: int, classes: int, seed: int) -> Outputs:
    """Float32 features of a Gaussian class mixture, with logits and a head."""
    means = np.random.default_rng(7).normal(size=(classes, width)).astype(np.float32)
    rng = np.random.default_rng(seed)
    labels = np.concatenate([np.arange(classes), rng.integers(classes, size=n - classes)])
    features = np.abs(means[labels] + rng.normal(size=(n, width)).astype(np.float32))
    head = Head(means - means.mean(axis=0))
    return Outputs(features=features, labels=labels, logits=head.logits(features), head=head, check=False)


def blocked_product(queries: np.ndarray, bank: np.ndarray) -> None:
    """Every similarity once, in tiles that fit in the cache, without using the result."""
    tile = np.empty((TILE, TILE), dtype=queries.dtype)
    for i in range(0, len(queries), TILE):
        for j in range(0, len(bank), TILE):
            part, rows = queries[i : i + TILE], bank[j : j + TILE]
            np.matmul(part, rows.T, out=tile[: len(part), : len(rows)])


def products(score: Score, train: Outputs, test: Outputs) -> Callable[[], Any]:
    """The bare matrix products that a fitted score makes on the test rows."""
    x, (classes, width) = test.features, test.head.weight.shape
    rng = np.random.default_rng(0)
    if isinstance(score, KNN):
        return lambda: blocked_product(x, train.features)
    if isinstance(score, KernelPCAError):
        landmarks, turn = score.anchors_.T.astype(x.dtype), score.turn_.astype(x.dtype)
        return lambda: x @ landmarks @ turn
    if isinstance(score, Projected):  # the score alone, and the product that projects where it cannot be left out
        inner = products(score.inner if not score.inner.fits_on else score.inner.fit(train), train, test)
        project = rng.normal(size=(width, width)).astype(x.dtype)
        return (lambda: [x @ project, inner()]) if score.projection == "class_pred" else inner
    columns = {
        "mahalanobis": (width, classes),
        "relative_mahalanobis": (width, width, classes),
        "neco": (getattr(score, "inside_", x).shape[1],),
    }
    projected = (score.outside_.shape[1],) if hasattr(score, "outside_") else (classes,)
    matrices = [rng.normal(size=(width, c)).astype(x.dtype) for c in columns.get(score.name, projected)]
    return lambda: [x @ matrix for matrix in matrices]


def peers(train: Outputs, test: Outputs, k: int, repeat: int) -> None:
    """KNN of other libraries on the same unit rows."""
    import faiss
    import torch
    from sklearn.neighbors import NearestNeighbors

    def unit(a: np.ndarray) -> np.ndarray:
        return a / np.linalg.norm(a, axis=1, keepdims=True)

    bank, queries = unit(train.features), unit(test.features)
    index = faiss.IndexFlatIP(bank.shape[1])
    index.add(bank)
    print(f"  faiss IndexFlatIP   {least(lambda: index.search(queries, k), repeat):8.2f} s")
    held, asked = torch.from_numpy(bank), torch.from_numpy(queries)
    chunks = range(0, len(queries), TILE)
    in_torch = least(lambda: [(asked[i : i + TILE] @ held.T).topk(k) for i in chunks], repeat)
    print(f"  torch topk          {in_torch:8.2f} s")
    brute = NearestNeighbors(n_neighbors=k, algorithm="brute").fit(bank)
    print(f"  scikit-learn brute  {least(lambda: brute.kneighbors(queries), repeat):8.2f} s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--full", action="store_true", help="50,000 training and 10,000 test rows")
    parser.add_argument("--train", type=int, default=20_000)
    parser.add_argument("--test", type=int, default=4_000)
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--classes", type=int, default=100)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--only", nargs="*", help="names of scores")
    parser.add_argument("--peers", action="store_true", help="KNN of faiss, torch and scikit-learn too")
    options = parser.parse_args()
    n, m = (50_000, 10_000) if options.full else (options.train, options.test)
    train, test = (outputs(rows, options.width, options.classes, seed) for seed, rows in enumerate((n, m)))
    print(f"train {n} x {options.width}, test {m}, {options.classes} classes; CPU seconds, least of {options.repeat}")

    scatter = least(lambda: train.features.T @ train.features, options.repeat)
    print(f"one scatter matrix of the training features: {scatter:.2f} s")
    print(f"{'score':22}{'fit':>8}{'/scatter':>9}{'score':>9}{'bare':>9}{'ratio':>8}")
    kinds = {entry.name: entry.score for entry in catalogue()}
    for name in options.only or NAMES:
        if name in PROJECTED:
            inner, projection = PROJECTED[name]
            score: Score = Projected(kinds[inner](), projection)
        else:
            score = CLASSLESS[name] if name in CLASSLESS else kinds[name]()
        fit = least(lambda score=score: score.fit(train), options.repeat) if score.fits_on else 0.0
        with threadpool_limits(1, user_api="blas") if name == "knn" else threadpool_limits(None):
            bare = least(
                products(score, train, test), options.repeat
            )  # KNN multiplies on one thread per chunk of queries
        took = least(lambda score=score: score.score(test), options.repeat)
        print(f"{name:22}{fit:8.2f}{fit / scatter:9.1f}{took:9.3f}{bare:9.3f}{took / bare:8.2f}", flush=True)
    if options.peers:
        peers(train, test, kinds["knn"]().k, options.repeat)


if __name__ == "__main__":
    main()
