"""What the numbers of the benchmark page mean: ties, kept promises, and what must be listed first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["Finding", "compare", "halves", "kept", "listed_first"]

Record = Mapping[str, Any]
TIE = 1.1  # medians that differ by less are a tie, whatever the spread
FAR = 3.0  # times the floor
FITTED = ("mahalanobis", "vim", "react")  # OOD scores whose fit and score are separate tasks with a floor each
DOUBT = 3.0  # standard errors that a delivered level may be off its promise


@dataclass(frozen=True)
class Finding:
    """A task where Caveat is slower than a peer or far above its floor."""

    family: str
    method: str
    threads: int
    ours: Record
    peer: Record | None
    floor: Record | None

    @property
    def behind(self) -> float:
        """How many times slower than the fastest peer; 0 where no peer is faster."""
        slower = self.peer is not None and compare(self.ours, self.peer) == "slower"
        return self.ours["seconds"] / self.peer["seconds"] if slower and self.peer else 0.0

    @property
    def above(self) -> float:
        """Time over floor; 0 without a floor."""
        return self.ours["seconds"] / self.floor["seconds"] if self.floor else 0.0


def compare(ours: Record, other: Record) -> str:
    """``faster``, ``slower`` or ``tie``: a tie if the quartiles overlap or the medians are within 10 %.

    >>> compare({"seconds": 1.0, "low": 0.9, "high": 1.1}, {"seconds": 1.3, "low": 1.05, "high": 1.4})
    'tie'
    >>> compare({"seconds": 1.0, "low": 0.9, "high": 1.1}, {"seconds": 2.0, "low": 1.9, "high": 2.1})
    'faster'
    """
    ratio = ours["seconds"] / other["seconds"]
    overlap = ours["low"] <= other["high"] and other["low"] <= ours["high"]
    if overlap or 1 / TIE < ratio < TIE:
        return "tie"
    return "faster" if ratio < 1 else "slower"


def kept(delivered: float, se: float, promised: float) -> bool:
    """Whether a delivered error is at most the promised one, up to three standard errors.

    >>> kept(0.11, 0.005, 0.1), kept(0.18, 0.02, 0.1)
    (True, False)
    """
    return delivered <= promised + DOUBT * se


def halves(record: Record) -> list[Record]:
    """A record of an OOD score as two tasks, fit and score; where nothing is fitted, and for others, as one."""
    if not record["family"].startswith("ood") or record["method"] not in FITTED or "seconds" not in record:
        return [record]
    return [
        {**record, "method": f"{record['method']} {word}", "seconds": record[name],
         "low": record.get(f"{name}_low", record[name]), "high": record.get(f"{name}_high", record[name])}
        for name, word in (("first", "fit"), ("second", "score"))
    ]  # fmt: skip


def listed_first(records: Iterable[Record]) -> list[Finding]:
    """Tasks where Caveat is slower than a peer (largest ratio first), then those more than 3 x above their floor.

    A task counts once, with one thread, unless only two threads show it.
    """
    tasks = [task for record in records for task in halves(record) if "seconds" in task]
    table = {(task["family"], task["method"], task["threads"], task["package"]): task for task in tasks}
    findings: dict[tuple[str, str], Finding] = {}
    for (family, method, threads, package), ours in sorted(table.items(), key=lambda item: item[0][2]):
        if package != "caveat" or (family, method) in findings:
            continue
        same = [r for key, r in table.items() if key[:3] == (family, method, threads)]
        peers = [r for r in same if r["package"] not in ("caveat", "floor")]
        fastest = min(peers, key=lambda r: r["seconds"], default=None)
        floor = next((r for r in same if r["package"] == "floor"), None)
        finding = Finding(family, method, threads, ours, fastest, floor)
        if finding.behind or finding.above > FAR:
            findings[family, method] = finding
    return sorted(findings.values(), key=lambda f: (-f.behind, -f.above))
