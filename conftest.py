"""The torch edge is collected only where torch is installed; tests keep their own cache folder."""

import os
import tempfile
from importlib.util import find_spec

collect_ignore_glob = [] if find_spec("torch") else ["src/caveat/nn/*", "tests/nn/*"]

_cache = tempfile.TemporaryDirectory(prefix="caveat-test-cache-")  # removed when the process ends
os.environ["CAVEAT_CACHE"] = _cache.name


def pytest_terminal_summary(terminalreporter):
    if collect_ignore_glob:
        terminalreporter.write_line(f"torch is not installed: {', '.join(collect_ignore_glob)} not collected")
