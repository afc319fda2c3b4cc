"""The torch edge and the plots are collected only where their extras are; tests keep their own cache folder."""

import os
import tempfile
from importlib.util import find_spec

collect_ignore_glob = [
    folder
    for package, folder in (("torch", "src/caveat/nn/*"), ("matplotlib", "src/caveat/plots/*"))
    if not find_spec(package)
]
os.environ["MPLBACKEND"] = "agg"  # no test opens a window

_cache = tempfile.TemporaryDirectory(prefix="caveat-test-cache-")  # removed when the process ends
os.environ["CAVEAT_CACHE"] = _cache.name
