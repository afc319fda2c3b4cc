"""Writes the benchmark page: docs/benchmarks.md, its figures and benchmarks/results.json.

    make bench                                   the whole run, about 20 minutes, on a quiet machine
    python benchmarks/page.py --quick --force --out FOLDER    a tenth of the sizes, to try the script
    python benchmarks/page.py --render           the page again from results.json, without measuring

The environments of the peers are made once, in the cache folder of the user (--cache).
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import arrays
import contest
import families
import page_figures
import page_text
import venvs

ROOT = Path(__file__).resolve().parents[1]
LOAD = 0.5  # average load of one minute above which times are not worth much
SETTLE = 180  # seconds to wait for it: making environments is load too
DIGITS = 4


def main() -> int:
    options = _options()
    results_path = options.out / "benchmarks" / "results.json"
    if options.render:
        write_page(json.loads(results_path.read_text()), options.out)
        return 0
    pythons, problems = venvs.make_all(options.cache)
    load = wait_for_quiet(LOAD, 0 if options.force else SETTLE)
    if load > LOAD and not options.force:
        print(f"The machine is busy: load average {load:.2f}, allowed {LOAD}. Nothing was written. Try again later, or "
              "use --force, which marks the page.")  # fmt: skip
        return 2
    with tempfile.TemporaryDirectory() as scratch:
        results = measure(Path(scratch), pythons, options, load, problems)
    results_path.parent.mkdir(parents=True, exist_ok=True)
    results_path.write_text(json.dumps(rounded(results), indent=0, sort_keys=True) + "\n")
    write_page(json.loads(results_path.read_text()), options.out)
    print(f"wrote {options.out / 'docs' / 'benchmarks.md'}")
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a tenth of the sizes and draws; the page says so")
    parser.add_argument("--force", action="store_true", help="measure on a busy machine; the page says so")
    parser.add_argument("--render", action="store_true", help="write the page from results.json, measure nothing")
    parser.add_argument("--families", nargs="+", choices=list(families.FAMILIES), default=list(families.FAMILIES))
    parser.add_argument("--cache", type=Path, default=venvs.default_cache(), help="folder of the environments")
    parser.add_argument("--out", type=Path, default=ROOT, help="folder that gets docs/ and benchmarks/")
    return parser.parse_args()


def wait_for_quiet(bound: float, seconds: float) -> float:
    """Load average of the last minute, once it is at or below the bound or the time is over."""
    end = time.monotonic() + seconds
    while (load := os.getloadavg()[0]) > bound and time.monotonic() < end:
        time.sleep(5)
    return load


def measure(
    scratch: Path, pythons: dict[str, Path], options: argparse.Namespace, load: float, problems: dict[str, str]
) -> dict[str, Any]:
    """Times and delivered levels of all families, with the setup they were measured in."""
    start = time.monotonic()
    folders = {name: folder for name, folder in arrays.write_all(scratch, quick=options.quick).items()
               if name in options.families}  # fmt: skip
    times: list[dict[str, Any]] = []
    versions: dict[str, Any] = {}
    for family, folder in folders.items():
        for threads in (1, 2) if families.FAMILIES[family].timed else ():
            records, of_family = contest.race(family, folder, pythons, threads)
            times += records
            versions |= of_family
            print(f"{time.monotonic() - start:6.0f} s  {family}, threads: {threads}", flush=True)
    load_end = os.getloadavg()[0]  # before the draws, which use both cores
    levels = contest.deliver(folders, pythons)
    print(f"{time.monotonic() - start:6.0f} s  draws", flush=True)
    counts = sorted({record["draws"] for record in levels if "draws" in record})
    setup = {
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"), "machine": machine(),
        "load_start": load, "load_end": load_end, "load_bound": LOAD, "forced": bool(load > LOAD),
        "quick": options.quick, "version": caveat_version(), "versions": versions, "problems": problems,
        "draws": f"{counts[0]} to {counts[-1]}" if counts else "0", "minutes": (time.monotonic() - start) / 60,
    }  # fmt: skip
    return {"setup": setup, "times": times, "levels": levels}


def machine() -> str:
    """Processor, cores and memory in a few words."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        model = next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
        memory = f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.0f} GB"
    except (OSError, StopIteration):
        model, memory = platform.processor() or platform.machine(), "unknown memory"
    return f"{model}, {os.cpu_count()} cores, {memory}"


def caveat_version() -> str:
    """Version and commit."""
    import caveat

    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return f"{caveat.__version__} ({commit.stdout.strip()})" if commit.returncode == 0 else caveat.__version__


def rounded(value: Any) -> Any:
    """The same with floats of four digits, so that the file stays small."""
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}")
    if isinstance(value, dict):
        return {key: rounded(item) for key, item in value.items()}
    return [rounded(item) for item in value] if isinstance(value, list) else value


def write_page(results: dict[str, Any], out: Path) -> None:
    """Text and figures."""
    docs = out / "docs"
    page_figures.draw_all(results, docs / "figures")
    (docs / "benchmarks.md").write_text(page_text.page(results))


if __name__ == "__main__":
    sys.exit(main())
