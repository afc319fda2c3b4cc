"""The torch edge and the plots are collected only where their extras are; tests keep their own cache folder."""

import os
import tempfile
from importlib.util import find_spec

collect_ignore_glob = [
    folder
    for package, folders in (
        (
            "torch",
            [
                "src/caveat/nn/*",
                "src/caveat_lab/networks/*",
                "src/caveat_lab/bounds/*",
                "src/caveat_lab/attacks/*",
                "tests/nn/*",
            ],
        ),
        ("matplotlib", ["src/caveat/plots/*"]),
    )
    if not find_spec(package)
    for folder in folders
]
os.environ["MPLBACKEND"] = "agg"  # no test opens a window

_cache = tempfile.TemporaryDirectory(prefix="caveat-test-cache-")  # removed when the process ends
os.environ["CAVEAT_CACHE"] = _cache.name


def pytest_terminal_summary(terminalreporter):
    if collect_ignore_glob:
        terminalreporter.write_line(f"torch is not installed: {', '.join(collect_ignore_glob)} not collected")
