"""Magika behind a guard as a service: files in, their type and a verdict out; what it was never taught is refused.

    python examples/serve_magika.py [--files 60]         needs the extras 'examples' and 'serve'

``caveat serve --model`` runs Magika's own ONNX file in front of a guard. Two tensors inside the network are the fields
that the guard reads. Clients send what Magika reads of a file, 2,048 bytes as numbers, and get the predicted type, the
verdict and its reason. The guard is fitted on six kinds of file that are made from modules of the standard library.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import importlib.util
import io
import json
import marshal
import re
import subprocess
import sys
import sysconfig
import tempfile
import urllib.request
from contextlib import contextmanager
from pathlib import Path
from xml.sax.saxutils import escape

import numpy as np
from magika_files import MODEL, TYPES, FileTypes, invented, tokens

from caveat.guard import Guard


def as_bytecode(source: str) -> bytes:
    return importlib.util.MAGIC_NUMBER + bytes(12) + marshal.dumps(compile(source, "module", "exec"))


def as_json(source: str) -> bytes:
    names = re.findall(r"\b(def|class) (\w+)", source)
    return json.dumps(
        [{"kind": kind, "name": name, "length": len(name)} for kind, name in names] * 3, indent=2
    ).encode()


def as_csv(source: str) -> bytes:
    stream = io.StringIO()
    writer = csv.writer(stream)
    writer.writerow(["number", "length", "words", "first"])
    for i, line in enumerate(source.splitlines()):
        writer.writerow([i, len(line), len(line.split()), (re.findall(r"\w+", line) or [""])[0]])
    return stream.getvalue().encode()


def as_xml(source: str) -> bytes:
    lines = "\n".join(f'  <line number="{i}">{escape(line)}</line>' for i, line in enumerate(source.splitlines()))
    return f'<?xml version="1.0" encoding="utf-8"?>\n<module>\n{lines}\n</module>\n'.encode()


KINDS = {"python": str.encode, "pythonbytecode": as_bytecode, "json": as_json, "csv": as_csv, "xml": as_xml,
         "gzip": lambda source: gzip.compress(source.encode(), mtime=0)}  # fmt: skip


@contextmanager
def serving(guard: Path, audit: Path, network: FileTypes):
    """The address of ``caveat serve`` with Magika in front, on a free port; stopped at the end."""
    features, logits = network.wanted
    command = [sys.executable, "-m", "caveat", "serve", str(guard), "--port", "0", "--audit", str(audit),
               "--model", str(MODEL), "--model-output", f"features={features}",
               "--model-output", f"logits={logits}"]  # fmt: skip
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            line = next(line for line in process.stdout if line.startswith("Serving:"))
            yield line.split()[1]
        finally:
            process.terminate()


def ask(address: str, path: str, body: bytes | None = None) -> dict:
    headers = {} if body is None else {"Content-Type": "application/x-npy"}
    with urllib.request.urlopen(urllib.request.Request(address + path, body, headers), timeout=60) as answer:
        return json.load(answer)


def verdicts(address: str, contents: list[bytes]) -> list[dict]:
    """Send files, as Magika reads them, in one .npy body; a verdict for each."""
    stream = io.BytesIO()
    np.save(stream, np.array([tokens(content) for content in contents], dtype=np.int32))
    return ask(address, "/v1/verdicts", stream.getvalue())["verdicts"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=60, help="modules of the standard library to use (default 60)")
    most = parser.parse_args().files
    rng = np.random.default_rng(0)
    paths = sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))
    sources = [text for path in paths if len(text := path.read_text(encoding="utf-8")) > 3000]
    sources = [sources[i] for i in rng.permutation(len(sources))[:most]]
    files = [(make(source), kind) for source in sources for kind, make in KINDS.items()]

    network, n = FileTypes(), len(files)
    fresh = files[3 * n // 4 :]  # of modules that the guard has not seen
    outputs = network([content for content, _ in files[: 3 * n // 4]], [kind for _, kind in files[: 3 * n // 4]])
    train, calibration = outputs[: n // 3], outputs[n // 3 :]
    guard = Guard("pca_error", false_alarm=0.05, risk=0.05, alpha=0.1).fit(train).calibrate(calibration)

    with tempfile.TemporaryDirectory() as folder:
        guard.save(Path(folder, "magika"))
        with serving(Path(folder, "magika"), Path(folder, "audit.sqlite"), network) as address:
            facts = ask(address, "/v1/guard")
            print(f"Serving {facts['model']['file']} (sha256 {facts['model']['sha256'][:12]}...) behind the guard "
                  f"{facts['fingerprint'][:12]}. A client sends {facts['inputs']}.")  # fmt: skip
            for promise in facts["promises"]:
                print(f"  {promise['sentence']}")
            sent = {kind: [content for content, made in fresh if made == kind] for kind in KINDS}
            sent["an invented format"] = invented(15, rng)
            sent["random bytes"] = [rng.bytes(3000) for _ in range(15)]
            sent["bytes turned over"] = [bytes(byte ^ 0xA5 for byte in content) for content in sent["python"]]
            print(f"\n{'':22}{'files':>6}{'accept':>8}{'abstain':>8}{'outlier':>8}   first file")
            for kind, contents in sent.items():
                rows = verdicts(address, contents)
                counts = [sum(row["kind"] == verdict for row in rows) for verdict in ("accept", "abstain", "outlier")]
                first = rows[0]
                print(f"{kind:22}{len(rows):6}{counts[0]:8}{counts[1]:8}{counts[2]:8}   "
                      f"{TYPES[first['prediction']]}: {first['kind']}. {first['reason']}")  # fmt: skip


if __name__ == "__main__":
    main()
