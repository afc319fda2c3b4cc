"""How a reproduction compares with what was published: numbers within a tolerance, findings that hold or do not.

Whatever does not agree says why, or counts as unexplained; no comparison that is committed has any of those.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, final

from caveat._internal.files import read_json, write_json
from caveat.errors import InputError

__all__ = ["Agreement", "Check", "Part", "compare_findings", "compare_numbers", "within"]


@final
@dataclass(frozen=True)
class Check:
    """One published number or finding, and ours. ``why`` says what makes them differ, if it is known."""

    what: str
    published: str
    ours: str
    agrees: bool
    why: str = ""


@final
@dataclass(frozen=True)
class Part:
    """One table or figure: how many of its numbers or findings were compared, how many agree, by which rule.

    ``checks`` holds all that do not agree; those that do only where they are few findings in words. ``largest`` is the
    largest difference between numbers; None where findings were compared.
    """

    title: str
    rule: str
    compared: int
    agree: int
    largest: float | None
    checks: tuple[Check, ...]

    @property
    def differences(self) -> tuple[Check, ...]:
        """What does not agree."""
        return tuple(check for check in self.checks if not check.agrees)


@final
@dataclass(frozen=True)
class Agreement:
    """All parts of one reproduction."""

    parts: tuple[Part, ...]

    @property
    def compared(self) -> int:
        """How many numbers and findings were compared."""
        return sum(part.compared for part in self.parts)

    @property
    def agree(self) -> int:
        """How many of them agree."""
        return sum(part.agree for part in self.parts)

    @property
    def unexplained(self) -> tuple[Check, ...]:
        """Differences without a reason."""
        return tuple(check for part in self.parts for check in part.differences if not check.why)

    @property
    def sentence(self) -> str:
        """The whole in a few words.

        >>> Agreement((compare_numbers("Table 1", [("a", 1.0, 1.25, "rounded")], tolerance=0.1),)).sentence
        '0 of 1 agree; largest difference 0.25'
        """
        largest = [part.largest for part in self.parts if part.largest is not None]
        tail = f"; largest difference {max(largest):.3g}" if largest else ""
        return f"{self.agree} of {self.compared} agree{tail}"

    def write(self, path: Path) -> None:
        """Keep it as JSON."""
        write_json(path, {"parts": [asdict(part) for part in self.parts]})

    @classmethod
    def read(cls, path: Path) -> Agreement:
        """What :meth:`write` wrote."""
        try:
            return cls(tuple(_part(content) for content in read_json(path)["parts"]))
        except (KeyError, TypeError) as error:
            raise InputError(f"{path} is not a comparison with published numbers ({error}). Run it again.") from None


def compare_numbers(
    title: str,
    pairs: Iterable[tuple[str, float, float, str]],
    *,
    tolerance: float,
    unit: str = "",
    digits: int = 2,
    slack: float = 0.0,
) -> Part:
    """Published numbers compared with ours.

    Parameters
    ----------
    title
        Which table.
    pairs
        What it is a number of, the published one, ours, and why they differ if they do.
    tolerance
        Largest difference that counts as agreement.
    unit
        After the tolerance, for a person to read.
    digits
        Decimals to show.
    slack
        Half a unit of the last published digit, where rounding alone may exceed the tolerance. The rule names it.

    Examples
    --------
    >>> part = compare_numbers("Table 1", [("a", 1.0, 1.01, ""), ("b", 2.0, 2.5, "other data")], tolerance=0.02)
    >>> part.compared, part.agree, part.largest, part.differences[0].what
    (2, 1, 0.5, 'b')
    """
    compared, largest, kept = 0, 0.0, []
    for what, published, ours, why in pairs:
        gap = abs(ours - published)
        compared, largest = compared + 1, max(largest, gap)
        if not gap <= tolerance + slack + 1e-9:  # 33.13 - 33.08 is a little more than 0.05 in floats
            kept.append(Check(what, f"{published:.{digits}f}", f"{ours:.{digits}f}", False, why))
    rule = within(tolerance, unit=unit, slack=slack)
    return Part(title, rule, compared, compared - len(kept), round(float(largest), 6), tuple(kept))


def within(tolerance: float, *, unit: str = "", slack: float = 0.0) -> str:
    """The rule by which numbers agree, in words.

    >>> within(0.05, unit="points")
    'within 0.05 points'
    >>> within(0.03, slack=0.005)
    'within 0.03 and half a unit of the last printed digit (0.035)'
    """
    rounded = f" and half a unit of the last printed digit ({tolerance + slack:g})" if slack else ""
    return f"within {tolerance:g}{f' {unit}' if unit else ''}{rounded}"


def compare_findings(
    title: str, checks: Iterable[Check], *, rule: str = "the same finding", keep_all: bool = True
) -> Part:
    """Published findings compared with ours; each is a :class:`Check`. All are kept, or only those that do not agree.

    Examples
    --------
    >>> compare_findings("Figure 2", [Check("the best", "KNN", "KNN", True)]).agree
    1
    """
    all_checks = tuple(replace(check, agrees=bool(check.agrees)) for check in checks)  # numpy.bool is not JSON
    kept = tuple(check for check in all_checks if keep_all or not check.agrees)
    return Part(title, rule, len(all_checks), sum(check.agrees for check in all_checks), None, kept)


def _part(content: dict[str, Any]) -> Part:
    return Part(**content | {"checks": tuple(Check(**check) for check in content["checks"])})
