"""Magika with a guard: file types it was calibrated on are accepted, kinds that nobody has shown it are flagged.

    python examples/guard_magika.py [--files 60]         needs the extra 'examples'

Magika (Google, Apache-2.0) names 214 types of file; ``magika_files.py`` in this folder opens its network. The guard is
fitted and calibrated on files of this Python installation and its promises are counted on other files of it. Then come
types that Magika knows and the guard does not, real formats for which Magika has no class, an invented format and
random bytes. With few files (try ``--files 2``) the guard says what it cannot promise.
"""

from __future__ import annotations

import argparse

import numpy as np
from magika_files import KNOWN, TYPES, UNKNOWN, FileTypes, files_here, invented, read, tokens

from caveat.guard import Guard, Verdicts
from caveat.guard.replay import replay

# Types that Magika knows and that are kept from the guard: nobody calibrated it on images, fonts or style sheets.
HELD_OUT = (".png", ".svg", ".ttf", ".gz", ".css")
# A header is C or C++ and an HTML file is often a template: here a suffix does not name the type.
AMBIGUOUS = (".h", ".html")


def different(paths: dict[str, list[str]]) -> dict[str, list[bytes]]:
    """What Magika reads of each file, without those that look the same to it: a copy in two roles breaks promises."""
    contents, seen = {suffix: [] for suffix in paths}, set()
    for suffix, path in ((suffix, path) for suffix, of_suffix in paths.items() for path in of_suffix):
        content = read(path)
        look = bytes(token % 256 for token in tokens(content))  # padding counts as zero
        if len(content) >= 64 and look not in seen:  # a file of a few bytes has no type
            seen.add(look)
            contents[suffix].append(content)
    return contents


def shares(verdicts: Verdicts) -> str:
    return "".join(f"{count / len(verdicts):9.1%}" for count in verdicts.counts.values())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=60, help="most files of each suffix (default 60)")
    most = parser.parse_args().files
    rng = np.random.default_rng(0)
    here = different(files_here(most, rng))
    labeled = [
        (c, KNOWN[s]) for s, contents in here.items() if s in KNOWN and s not in HELD_OUT + AMBIGUOUS for c in contents
    ]
    labeled = [labeled[i] for i in rng.permutation(len(labeled))]

    model, n = FileTypes(), len(labeled)
    outputs = model([content for content, _ in labeled], [label for _, label in labeled])
    train, calibration, test = outputs[: n // 3], outputs[n // 3 : 3 * n // 4], outputs[3 * n // 4 :]
    # How far the features are from the directions in which known files differ. Magika is sure of random bytes, which
    # are a class to it, so that a threshold on its confidence would let them pass.
    guard = Guard("pca_error", false_alarm=0.05, risk=0.1, alpha=0.1).fit(train).calibrate(calibration)
    verdicts = guard(test)
    print(f"{n} files of {len({label for _, label in labeled})} types: {train.n} to fit, {calibration.n} to calibrate, "
          f"{test.n} to check. Magika names the type of the suffix for {outputs.correct.mean():.1%}.")  # fmt: skip
    for measured in replay(guard, test).measured:
        print(f"{measured.promise}\n    Measured: {measured.share or 'nothing'}")

    if not all(promise.holds for promise in guard.promises):
        print("Without a promise the outlier gate stops nothing and the abstain gate everything: give it more files.")

    print(f"\n{'':32}{'files':>6}{'accept':>9}{'abstain':>9}{'outlier':>9}")
    print(f"{'types it was calibrated on':32}{test.n:6}{shares(verdicts)}")
    kinds = {f"{s} (held out: {KNOWN[s]})": here[s][:15] for s in HELD_OUT}
    kinds |= {f"{s} (Magika has no class)": here[s][:15] for s in UNKNOWN}
    kinds |= {"an invented format": invented(15, rng), "random bytes": [rng.bytes(3000) for _ in range(15)]}
    for name, contents in kinds.items():
        if contents:
            print(f"{name:32}{len(contents):6}{shares(guard(model(contents)))}")

    print()
    for kind in ("accept", "abstain", "outlier"):
        for i in np.flatnonzero(verdicts.kind == kind)[:1]:
            print(
                f"{labeled[3 * n // 4 + i][1]}, answer {TYPES[verdicts.predictions[i]]}: {kind}. {verdicts.reason(i)}"
            )


if __name__ == "__main__":
    main()
