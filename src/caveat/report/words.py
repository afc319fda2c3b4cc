"""Numbers and lists as a report writes them. Plain text: the page, Markdown and LaTeX escape it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

from caveat.results import Estimate
from caveat.results.promise import percent_below

__all__ = [
    "STYLES", "Notes", "bound", "count", "interval", "level", "listing", "number", "percent", "plain", "scaled",
    "share", "shorten",
]  # fmt: skip

# -- numbers ----------------------------------------------------------------------------------------------------------


def number(value: float, digits: int = 3) -> str:
    """A number between 0 and 1; one that is not an end is never rounded to it.

    >>> number(0.91234), number(0.99996), number(1.0), number(0.00002)
    ('0.912', '>0.999', '1.000', '<0.001')
    """
    step = 10.0**-digits
    if 0 < value < step / 2:
        return f"<{step:.{digits}f}"
    if 1 - step / 2 <= value < 1:
        return f">{1 - step:.{digits}f}"
    return f"{value:.{digits}f}"


def percent(value: float, digits: int = 1) -> str:
    """A share as a percentage, with a space that does not break.

    >>> percent(0.9512), percent(0.9999), percent(0.0)
    ('95.1\\xa0%', '>99.9\\xa0%', '0.0\\xa0%')
    """
    step = 10.0**-digits
    if 0 < 100 * value < step / 2:
        return f"<{step:.{digits}f}\xa0%"
    if 100 - step / 2 <= 100 * value < 100:
        return f">{100 - step:.{digits}f}\xa0%"
    return f"{100 * value:.{digits}f}\xa0%"


def level(value: float) -> str:
    """A confidence or a rate that someone chose, written as chosen: 95 %.

    >>> level(0.95), level(1 - 0.001)
    ('95\\xa0%', '99.9\\xa0%')
    """
    return f"{percent_below(value, 6)}\xa0%"


def bound(value: float) -> str:
    """A promised share, to four digits, but never rounded up to 100 %.

    >>> bound(0.90012), bound(1 - 1e-6)
    ('90.01\\xa0%', '99.9999\\xa0%')
    """
    return f"{percent_below(value)}\xa0%"


def scaled(value: float) -> str:
    """AUGRC times 1000."""
    return f"{1000 * value:.1f}" if value == 0 or value >= 0.00005 else "<0.1"


def interval(estimate: Estimate, style: str = "number") -> str:
    """The bounds alone, in the same style as the value.

    >>> interval(Estimate(0.91, 0.89, 0.93, level=0.95, n=1000, method="DeLong"))
    '[0.890, 0.930]'
    """
    write = STYLES[style]
    return f"[{write(estimate.lower)}, {write(estimate.upper)}]"


def share(estimate: Estimate | None) -> str:
    """A share with its interval, in percent.

    >>> share(Estimate(0.713, 0.65, 0.77, level=0.95, n=200, method="Clopper-Pearson"))
    '71.3\\xa0% [65.0, 77.0]'
    """
    if estimate is None:
        return "not measured"
    return f"{percent(estimate.value)} [{100 * estimate.lower:.1f}, {100 * estimate.upper:.1f}]"


def plain(value: float) -> str:
    """A number of any size, to three digits.

    >>> plain(0.012345), plain(1234.5), plain(-2.0)
    ('0.0123', '1230', '−2')
    """
    digits = f"{value:.3g}"
    return (f"{float(digits):.0f}" if "e+" in digits and abs(value) < 1e6 else digits).replace("-", "−")


STYLES = {"number": number, "percent": percent, "scaled": scaled, "plain": plain}


# -- grammar ----------------------------------------------------------------------------------------------------------


def count(n: int, what: str, several: str | None = None) -> str:
    """
    >>> count(1, "inlier"), count(2000, "inlier")
    ('1 inlier', '2,000 inliers')
    """
    return f"{n:,} {what if n == 1 else several or what + 's'}"


def listing(names: Sequence[str], most: int = 5) -> str:
    """
    >>> listing(["a"]), listing(["a", "b", "c"]), listing(list("abcdefgh"), most=3)
    ('a', 'a, b and c', 'a, b, c and 5 others')
    """
    shown = list(names) if len(names) <= most + 1 else [*names[:most], f"{len(names) - most} others"]
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"


def shorten(name: str, most: int = 40) -> str:
    """A name that fits on one line of a figure; its end is kept, where long names differ.

    >>> shorten("resnet50_layer4_avgpool_openimages_validation_v2", most=21)
    'resnet50_l…idation_v2'
    """
    half = (most - 1) // 2
    return name if len(name) <= most else f"{name[:half]}…{name[-half:]}"


@final
class Notes:
    """Caveats of a table's numbers, each written once under the table and marked by a letter after the numbers.

    >>> notes = Notes()
    >>> small = Estimate(1.0, 0.5, 1.0, level=0.95, n=5, method="DeLong", caveat="Few samples.")
    >>> notes.mark(small), notes.mark(small), notes.lines
    ('a', 'a', [('a', 'Few samples.')])
    """

    def __init__(self) -> None:
        self._marks: dict[str, str] = {}

    def mark(self, estimate: Estimate | None) -> str:
        """The letter of the estimate's caveat; empty where it has none."""
        if estimate is None or not estimate.caveat:
            return ""
        i = len(self._marks)
        return self._marks.setdefault(estimate.caveat, chr(ord("a") + i % 26) * (1 + i // 26))

    @property
    def lines(self) -> list[tuple[str, str]]:
        return [(mark, sentence) for sentence, mark in self._marks.items()]
