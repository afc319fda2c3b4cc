"""One random stream per purpose: what one step draws does not depend on which other steps ran before it."""

from __future__ import annotations

import hashlib

import numpy as np

from caveat._internal.checks import Rng, as_count, as_rng, as_whole_seed


def stream(seed: int, *purpose: str | int) -> np.random.Generator:
    """A generator of its own for (seed, purpose), the same on every machine and for any order of calls.

    Examples
    --------
    >>> first, again = stream(0, "calibration split"), stream(0, "calibration split")
    >>> float(first.random()) == float(again.random()) != float(stream(0, "bootstrap", "msp").random())
    True
    """
    text = "\x1f".join(f"{type(part).__name__}:{part}" for part in purpose)
    words = np.frombuffer(hashlib.sha256(text.encode()).digest(), dtype="<u4")
    return np.random.default_rng([as_count(seed, "seed", least=0), *words.tolist()])


def draws_for(rng: Rng, purpose: str) -> np.random.Generator:
    """The generator itself, or for an int seed the stream of this purpose.

    For steps that must draw independently of each other though a user gives the same seed to both: calibration and
    prediction.
    """
    return as_rng(rng) if isinstance(rng, np.random.Generator) else stream(rng, purpose)


def as_seed(rng: Rng) -> int:
    """The int seed itself, or one that the generator draws: for steps that must all start from the same seed.

    >>> as_seed(3), as_seed(np.random.default_rng(0)) == as_seed(np.random.default_rng(0))
    (3, True)
    """
    return int(rng.integers(2**32)) if isinstance(rng, np.random.Generator) else as_whole_seed(rng)
