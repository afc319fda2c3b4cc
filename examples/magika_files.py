"""Magika, a classifier of file types, on files whose type it does not know.

    python examples/magika_files.py [--files 30]         needs the extra 'examples'

Magika (Google, Apache-2.0; package magika) classifies 214 file types from 2,048 bytes: the first and last 1,024. Its
ONNX graph ends in a softmax over one linear layer, so logits, features (512) and that layer can be read from the graph.
Inliers: files of this Python installation with a type that Magika knows. Outliers: real files of types without a class,
inliers scrambled in four ways, an invented binary format, and random bytes.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import sysconfig
from collections import defaultdict
from pathlib import Path

import magika
import numpy as np
import onnx
import onnxruntime

from caveat import Head, Outputs, conformal, metrics, scores

MODEL = next((Path(magika.__file__).parent / "models").glob("*/model.onnx"))
CONFIG = json.loads((MODEL.parent / "config.min.json").read_text(encoding="utf-8"))
TYPES = CONFIG["target_labels_space"]

# True types by suffix, because the author of a file chose it. Several suffixes may share one type of Magika.
KNOWN = {
    ".py": "python", ".pyc": "pythonbytecode", ".json": "json", ".so": "elf", ".rst": "rst", ".md": "markdown",
    ".css": "css", ".js": "javascript", ".html": "html", ".png": "png", ".svg": "svg", ".ttf": "ttf", ".csv": "csv",
    ".c": "c", ".h": "c", ".f": "fortran", ".f90": "fortran", ".toml": "toml", ".npz": "npz", ".npy": "npy",
    ".wav": "wav", ".xml": "xml", ".cmake": "cmake", ".pem": "pem", ".exe": "pebin", ".gz": "gzip", ".pdf": "pdf",
}  # fmt: skip
# MATLAB and IDL data, font metrics, Cython, tests of decimal arithmetic, Weka tables: real types without a class.
UNKNOWN = (".mat", ".sav", ".afm", ".pyx", ".pxd", ".decTest", ".arff")


def read(path: str) -> bytes:
    """The two ends of a file: all that Magika reads."""
    with open(path, "rb") as file:
        size, block = file.seek(0, os.SEEK_END), CONFIG["block_size"]
        file.seek(0)
        if size <= 2 * block:
            return file.read()
        start = file.read(block)
        file.seek(-block, os.SEEK_END)
        return start + file.read(block)


def tokens(content: bytes) -> list[int]:
    """Magika's input: 1,024 bytes from each end without outer white space, padded with the number 256."""
    block, first, last, pad = (CONFIG[key] for key in ("block_size", "beg_size", "end_size", "padding_token"))
    start, end = content[:block].lstrip()[:first], content[-block:].rstrip()[-last:]
    return [*start, *[pad] * (first - len(start)), *[pad] * (last - len(end)), *end]


class FileTypes:
    """Magika's network, with features and logits as extra outputs."""

    def __init__(self) -> None:
        model = onnx.load(MODEL)
        constants = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
        # The last linear layer is the last product with a constant; its bias is what is added to the product.
        product = [n for n in model.graph.node if n.op_type == "MatMul" and n.input[1] in constants][-1]
        added = next(n for n in model.graph.node if n.op_type == "Add" and product.output[0] in n.input)
        bias = next(name for name in added.input if name in constants)
        self.head = Head(constants[product.input[1]].T, constants[bias].ravel())
        self.wanted = [product.input[0], added.output[0]]
        for name in self.wanted:  # a tensor inside the graph becomes an output of it
            model.graph.output.append(onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None))
        self.session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])

    def __call__(self, contents: list[bytes], labels: list[str] | None = None) -> Outputs:
        batches = [contents[i : i + 32] for i in range(0, len(contents), 32)]
        results = [
            self.session.run(self.wanted, {"bytes": np.array([tokens(c) for c in batch], dtype=np.int32)})
            for batch in batches
        ]
        features, logits = (np.concatenate(part) for part in zip(*results, strict=True))
        truth = None if labels is None else np.array([TYPES.index(label) for label in labels])
        return Outputs(features=features, logits=logits, labels=truth, head=self.head)


def files_here(most: int, rng: np.random.Generator) -> dict[str, list[str]]:
    """Up to ``most`` files of each suffix of this Python installation, in random order."""
    paths_by_suffix = defaultdict(set)
    for root in (sysconfig.get_path("stdlib"), sys.prefix):
        for folder, _, names in os.walk(root):
            for name in names:
                paths_by_suffix[os.path.splitext(name)[1]].add(os.path.join(folder, name))
    kept = {suffix: sorted(paths_by_suffix[suffix]) for suffix in (*KNOWN, *UNKNOWN)}
    return {suffix: [paths[i] for i in rng.permutation(len(paths))[:most]] for suffix, paths in kept.items()}


def scrambled(contents: list[bytes], rng: np.random.Generator) -> dict[str, list[bytes]]:
    """Real files, corrupted in four ways."""
    arrays = [np.frombuffer(content, dtype=np.uint8) for content in contents]
    halves = zip(contents, contents[1:] + contents[:1], strict=True)
    return {
        "bytes shuffled": [rng.permutation(a).tobytes() for a in arrays],
        "bytes turned over": [(a ^ 0xA5).tobytes() for a in arrays],
        "bits rotated": [((a << 3) | (a >> 5)).astype(np.uint8).tobytes() for a in arrays],
        "head of one, tail of another": [a[: len(a) // 2] + b[len(b) // 2 :] for a, b in halves],
    }


def invented(n: int, rng: np.random.Generator) -> list[bytes]:
    """An invented format: a magic word, then records of a key, a length and small numbers."""
    made = []
    for _ in range(n):
        records = []
        for _ in range(int(rng.integers(20, 200))):
            values = rng.poisson(20, size=int(rng.integers(3, 30))).astype("<u2")
            records.append(b"\x1fK" + rng.bytes(2) + len(values).to_bytes(2, "little") + values.tobytes())
        made.append(b"CVT\x00\x07" + b"".join(records))
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=30, help="maximum number of files per suffix")
    most = parser.parse_args().files
    rng = np.random.default_rng(0)
    here = files_here(most, rng)
    contents = [(read(path), KNOWN[s]) for s, paths in here.items() if s in KNOWN for path in paths]
    contents = [pair for pair in contents if len(pair[0]) >= 64]  # a file of a few bytes has no type
    contents = [contents[i] for i in rng.permutation(len(contents))]
    strange = [read(path) for s, paths in here.items() if s in UNKNOWN for path in paths]

    model, n = FileTypes(), len(contents)
    inliers = model([c for c, _ in contents], [label for _, label in contents])
    train, calibration, test = inliers[: n // 2], inliers[n // 2 : 3 * n // 4], inliers[3 * n // 4 :]
    spare = [c for c, _ in contents[3 * n // 4 :]][: 4 * most]
    outside = {
        "types without a class": [strange[i] for i in rng.permutation(len(strange))[: 4 * most]],
        **scrambled(spare, rng),
        "an invented format": invented(len(spare), rng),
        "random bytes": [rng.bytes(3000) for _ in spare],
    }
    outliers = {name: model(files) for name, files in outside.items()}
    gap = np.abs(inliers.head.logits(inliers.features) - inliers.logits).max()
    print(f"{n} files of {len({label for _, label in contents})} types; {np.mean(inliers.correct):.1%} are classified "
          f"as their suffix says\nfeatures x last layer give the logits to {gap:.1e}\n")  # fmt: skip

    print("Mean confidence and most frequent predictions of Magika on the outliers:")
    for name, outputs in outliers.items():
        names, counts = np.unique(outputs.predictions, return_counts=True)
        top = ", ".join(f"{TYPES[names[i]]} {counts[i] / outputs.n:.0%}" for i in np.argsort(-counts)[:3])
        print(f"  {name:30} {outputs.probs.max(axis=1).mean():.2f}  {top}")

    chosen = ("msp", "max_logit", "energy", "knn", "pca_error", "vim")
    fitted = {name: scores.make(name, **({"k": 10} if name == "knn" else {})).fit(train) for name in chosen}
    inside = {name: score.score(test) for name, score in fitted.items()}
    print(f"\nAUROC, and its lower bound with probability 0.95 ({test.n} inliers)")
    print(f"  {'':30}" + "".join(f"{name:>14}" for name in chosen))
    for outlier, outputs in outliers.items():
        bounds = [
            metrics.conformal_auroc(inlier=inside[s], outlier=fitted[s].score(outputs), delta=0.05) for s in chosen
        ]
        print(f"  {outlier:30}" + "".join(f"{f'{b.value:.2f} > {b.lower:.2f}':>14}" for b in bounds))

    # At most 5 % of new files of this installation are flagged, with probability 0.95 over the calibration files.
    print("\nShare flagged by a threshold with a false-alarm rate of at most 5 % (with probability 0.95)")
    print(f"  {'':30}" + "".join(f"{name:>14}" for name in chosen))
    limits = {s: conformal.threshold_for(fitted[s].score(calibration), false_alarm=0.05, delta=0.05) for s in chosen}
    for name, outputs in {"files it knows": test, **outliers}.items():
        cells = [f"{np.mean(fitted[s].score(outputs) >= limits[s]):.1%}" for s in chosen]
        print(f"  {name:30}" + "".join(f"{cell:>14}" for cell in cells))


if __name__ == "__main__":
    main()
