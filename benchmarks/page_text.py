"""The words of the benchmark page: Markdown from the measured records. It measures nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from families import FAMILIES, Family
from verdicts import Finding, compare, kept, listed_first

__all__ = ["page"]

Record = Mapping[str, Any]


_ROUNDING = 1e-9  # differences of rounding are none
OWN_WARNING = {"fixed calibration"}  # shown to be avoided: no package documents it as valid


def page(results: Mapping[str, Any]) -> str:
    """The whole page."""
    times, levels, setup = results["times"], results["levels"], results["setup"]
    parts = [_head(setup), _first(times, setup), _broken(levels, setup), _failures(levels, setup)]
    for name, family in FAMILIES.items():
        family_times, family_levels = ([r for r in records if r["family"] == name] for records in (times, levels))
        if family_times:
            parts.append(_family(name, family_times, family_levels, setup))
        elif family_levels and not family.timed:
            parts.append(_definitions(family_levels, setup))
    parts.append(_method(setup))
    return "\n\n".join(part.strip("\n") for part in parts if part) + "\n"


def _head(setup: Record) -> str:
    marks = []
    if setup["forced"]:
        marks.append(f"**Forced run on a busy machine** (load {setup['load_start']:.2f}): times are not reliable.")
    if setup["quick"]:
        marks.append("**Quick run** with a tenth of the sizes and draws: a test of the script, not a result.")
    return "\n\n".join([
        "# Benchmarks",
        "Caveat, other packages and the physical floor on the same arrays: time, memory, and what speed tables omit: "
        "**the promised and the delivered level**, and the size of the answer. Written by `make bench`; raw numbers in "
        "[results.json](../benchmarks/results.json); each call is one small file in "
        "[benchmarks/peers](../benchmarks/peers). Corrections by the authors of the packages are welcome.",
        f"{setup['date']}, {setup['machine']}, load average {setup['load_start']:.2f} at the start and "
        f"{setup['load_end']:.2f} at the end. Caveat {setup['version']}.",
        *marks,
        "Times are medians in milliseconds with quartiles. A *tie*: the quartiles overlap or the medians differ by "
        "less than 10 %. The *floor* is the plain numpy form of the passes that a method needs; one that "
        "works in blocks can be below it.",
    ])  # fmt: skip


def _first(times: Iterable[Record], setup: Record) -> str:
    findings = listed_first(times)
    rows = [
        [FAMILIES[f.family].title, f.method + (", 2 threads" if f.threads == 2 else ""), _ms(f.ours["seconds"]),
         _peer(f, setup), f"{f.above:.1f} x" if f.floor else "none"]
        for f in findings
    ]  # fmt: skip
    slower = sum(f.behind > 0 for f in findings)
    text = (
        f"{slower} tasks are slower than the fastest peer; {len(findings) - slower} more take over 3 x their floor. "
        "Below about a millisecond the distance to the floor is the checking of arguments."
    )
    table = _table(["family", "method", "Caveat, ms", "fastest peer", "time / floor"], rows)
    return "## Slower than a peer, or more than 3 x above the floor\n\n" + (f"{text}\n\n{table}" if rows else "None.")


def _peer(finding: Finding, setup: Record) -> str:
    if finding.peer is None:
        return "none"
    name, times = _named(finding.peer["package"], setup), _ms(finding.peer["seconds"])
    if finding.behind:
        return f"{name}: {times} ms, **{finding.behind:.1f} x faster**"
    words = "tie" if compare(finding.ours, finding.peer) == "tie" else "slower"
    return f"{name}: {times} ms, {words}"


def _broken(levels: Iterable[Record], setup: Record) -> str:
    rows = []
    for record in levels:
        family = FAMILIES[record["family"]]
        for column, what in (("error", ""), ("error_among_others", ", among others")):
            promised = family.promise(record["method"])
            if column not in record or promised is None:
                continue
            if not kept(record[column], record[f"{column}_se"], promised):
                method = record["method"] + what + (" (to be avoided)" if record["method"] in OWN_WARNING else "")
                rows.append([_named(record["package"], setup), family.title, method, f"{promised:.4g}",
                             _level(record, column)])  # fmt: skip
    rows.sort(key=lambda row: not row[0].startswith("Caveat"))
    text = ("Delivered error rates more than three standard errors above the promised ones, over seeded draws. "
            "What Caveat does not keep comes first.")  # fmt: skip
    table = _table(["package", "family", "method", "promised", "delivered"], rows)
    return "## Promises that were not kept\n\n" + (f"{text}\n\n{table}" if rows else "None.")


def _find(levels: Iterable[Record], family: str, package: str, method: str) -> Record | None:
    return next((r for r in levels if (r["family"], r["package"], r["method"]) == (family, package, method)
                 and "error" in r), None)  # fmt: skip


def _failures(levels: Iterable[Record], setup: Record) -> str:
    """Failures that are known from elsewhere, each with the lines that show it; only what was measured."""
    levels = list(levels)
    parts = ["## Known pitfalls, and the lines that show them"]
    wsr, on_grid = (_find(levels, "risk", "mapie", name) for name in ("wsr", "wsr, alpha on the grid"))
    ours = _find(levels, "risk", "caveat", "wsr")
    if wsr and on_grid and ours:
        verdict = "is not kept" if not kept(wsr["error"], wsr["error_se"], 0.1) else "was not seen to break here"
        parts.append(f"""### A betting bound computed in two halves ({_named("mapie", setup)})

The WSR bound of risk control multiplies one capital over all rows. MAPIE's `get_r_hat_plus` takes the maximum of each
half of the rows and adds their logarithms, which can exceed every capital that was reached. At delta = 0.1 and 200
rows the promise {verdict}: violated in {_level(wsr)} of the draws; Caveat's bound in {_level(ours)}. With an alpha
that is one of the candidate thresholds, as by default: {_level(on_grid)}.

```python
batches = [range(int(n_obs / 2)), range(n_obs - int(n_obs / 2), n_obs)]  # mapie/risk_control/methods.py
for batch in batches:
    K_R_max += np.max(np.cumsum(np.log(1 - nu[batch] * (losses[batch] - R)), axis=0), axis=0)
```""")
    fixed = {name: record for name in ("caveat", "nonconform", "crepes")
             if (record := _find(levels, "drift", name, "fixed calibration"))}  # fmt: skip
    urn, monitor = _find(levels, "drift", "caveat", "simple jumper"), _find(levels, "drift", "nonconform", "alarm")
    if fixed and urn and monitor:
        shares = "; ".join(f"{_named(name, setup)} {_level(record)}" for name, record in fixed.items())
        now = f" nonconform's documented `ExchangeabilityMonitor` avoids this in the same way: {_level(monitor)}."
        parts.append(f"""### Martingales on a fixed calibration set

P-values against a fixed calibration set are uniform on average, but not given that set, so a martingale on them drifts
up. Promised: 5 % of quiet streams ring. With 100 calibration scores and 2,000 points rang: {shares}. With Caveat's
`RankUrn` and the same bettor: {_level(urn)}.{now}

```python
p = detector.compute_p_values(stream)  # each point against the same calibration scores
for value in p:
    martingale.update(value)  # Ville's bound does not hold for these p-values
```""")
    kswin, strict = (_find(levels, "drift", "river", name) for name in ("KSWIN", "KSWIN 0.0001"))
    alarm = _find(levels, "drift", "caveat", "alarm")
    if kswin and strict and alarm:
        parts.append(f"""### KSWIN on a quiet stream ({_named("river", setup)})

KSWIN tests at every point at level alpha (default 0.005) and does not account for the number of tests; its
documentation does not promise that. Of quiet streams of 2,000 points rang {_level(kswin)} with the default and
{_level(strict)} with the 0.0001 of its example, which needs {_number(strict["size"])} points to find a shift of 0.5 sd
(Caveat's `DriftAlarm` at 5 % for the whole stream: {_level(alarm)} rang, {_number(alarm["size"])} points).

```python
kswin = river.drift.KSWIN(seed=0)
rang = any(kswin.update(x) or kswin.drift_detected for x in rng.normal(size=2100))
```""")
    parts += _wrong_by_definition(levels, setup)
    return "\n\n".join(parts) if len(parts) > 1 else ""


def _wrong_by_definition(levels: list[Record], setup: Record) -> list[str]:
    """Answers that differ from an exact one, with the lines that make the difference."""
    parts = []
    low = _find(levels, "definitions", "torch_uncertainty", "threshold")
    sets = _find(levels, "sets", "torch_uncertainty", "lac")
    if low and low["below"] > 0:
        delivered = f" On 200 rows at alpha = 0.1 its sets missed {_level(sets)} of the labels." if sets else ""
        parts.append(f"""### A threshold without the n + 1 ({_named("torch_uncertainty", setup)})

The promise needs the ceil((n + 1)(1 - alpha))-th smallest of n calibration scores. The empirical quantile of level
1 - alpha lies below it in {_share(low, "below")} of {low["draws"]} cases (n up to 100), by {-low["size"]:.1f} places
on average.{delivered} The loss of coverage is about 1 / n: it matters with few rows.

```python
self.q_hat = torch.quantile(scores, 1.0 - self.alpha)  # torch_uncertainty/post_processing/conformal/thr.py
```""")
    slab, ours = (_find(levels, "definitions", name, "worst slab") for name in ("torchcp", "caveat"))
    if slab and ours and slab["error"] > 0:
        parts.append(f"""### Swapped arguments in the worst slab ({_named("torchcp", setup)})

`WSC` passes labels where its search expects coverage, so it looks for the slab with the smallest labels. Where no set
covers the fifth of the rows with the largest first feature, and small labels are elsewhere, it reports a worst-slab
coverage of {slab["size"]:.2f} (mean); Caveat's `worst_slab_coverage` {ours["size"]:.2f}. The slab is found on a quarter
of the rows, so it need not be exactly 0.

```python
calWSC(X_train, covered_train, y_train, ...)  # torchcp/classification/utils/metrics.py
def calWSC(X, y, covered, ...):
```""")
    bins = _find(levels, "definitions", "mapie", "ece")
    if bins and bins["error"] > 0:
        parts.append(f"""### 50 bins of ECE that are 49 ({_named("mapie", setup)})

`expected_calibration_error(num_bins=50)` cuts [0, 1] by 50 edges, which makes 49 bins. The value differs from that of
50 bins in {_share(bins)} of {bins["draws"]} cases, by {bins["size"]:+.4f} on average: a different number of bins than
was asked for, not a large error.

```python
bins = np.linspace(0.0, 1.0, num_bins)  # mapie/metrics/calibration.py
```""")
    rank = _find(levels, "definitions", "crepes", "threshold")
    if rank and rank["error"] > 0:
        parts.append(f"""### A rank in floating point ({_named("crepes", setup)})

1 - 0.9 is 0.09999999999999998, and ten times that rounds down to 0. The threshold has another rank than
ceil((n + 1)(1 - alpha)) in {_share(rank)} of {rank["draws"]} cases, a smaller one in {_share(rank, "below")}: the
promise holds, and intervals are one place too wide there.

```python
alpha_index = int((1 - confidence) * (len(self.alphas) + 1)) - 1  # crepes/base.py
```""")
    return parts


def _definitions(levels: list[Record], setup: Record) -> str:
    """Who computes what by its definition."""
    family = FAMILIES["definitions"]
    what = {"threshold": "rank of the conformal threshold, n = 5 to 100, 7 levels", "ece": "ECE with 50 bins",
            "worst slab": "coverage of a slab that no set covers"}  # fmt: skip
    rows = [[_named(r["package"], setup), what[r["method"]], _share(r), _share(r, "below"),
             f"{r['size']:+.2g}" if abs(r["size"]) > _ROUNDING else "0"]
            for method in what for r in levels if r["method"] == method and "error" in r]  # fmt: skip
    table = _table(["package", "what", "cases that differ", "too small", "mean difference"], rows)
    text = ("The exact rank is ceil((n + 1)(1 - alpha)) with alpha as it is written; bins of ECE are closed on the "
            "right. For the slab a case differs if the coverage is above 0.5.")  # fmt: skip
    problems = [f"{_named(r['package'], setup)}, {r['method']}: not measured ({r['problem']})."
                for r in levels if "problem" in r]  # fmt: skip
    return "\n\n".join([f"## {family.title}", family.task, table, text, *problems])


def _share(record: Record, column: str = "error") -> str:
    value = 100 * record[column]
    return f"{value:.0f} %" if value in (0, 100) else f"{value:.1f} %"


def _family(name: str, times: list[Record], levels: list[Record], setup: Record) -> str:
    family = FAMILIES[name]
    # the floor last; Caveat first
    packages = sorted({r["package"] for r in times}, key=lambda p: (p == "floor", p != "caveat", p))
    compared = [m for m in dict.fromkeys(r["method"] for r in times)
                if any(r["package"] == "caveat" and r["method"] == m for r in times)]  # fmt: skip
    by_key = {(r["method"], r["package"], r["threads"]): r for r in times}
    heads = [_named(p, setup) for p in packages]
    speed = _table(["1 thread, ms", *heads],
                   [[m, *[_cell(by_key, m, p) for p in packages]] for m in compared])  # fmt: skip
    more = _table(["2 threads, ms / peak MB", *heads],
                  [[m, *[_second_cell(by_key, m, p) for p in packages]] for m in compared])  # fmt: skip
    parts = [f"## {family.title}", family.task, speed, more]
    if halves := _halves(name, by_key, compared, packages):
        parts.append(halves)
    if rows := [_level_row(r, family, setup) for r in levels if "error" in r]:
        others = any("error_among_others" in r for r in levels)
        head = ["package", "method", "promised", "delivered", *(["among others"] if others else []), "", "size"]
        parts.append(f"Error: {family.error}. Size: {family.size}.")
        parts.append(_table(head, [row if others else row[:4] + row[5:] for row in rows]))
    if differences := [r for r in levels if "difference" in r]:
        worst = max(differences, key=lambda r: r["difference"])
        parts.append(f"Largest mean difference from the literal definition, over draws with ties: "
                     f"{worst['difference']:.1g} ({_named(worst['package'], setup)}, {worst['method']}).")  # fmt: skip
    problems = {(r["package"], r["method"]): r["problem"] for r in (*times, *levels) if "problem" in r}
    parts += [f"{_named(p, setup)}, {m}: not measured ({words})." for (p, m), words in problems.items()]
    if family.note:
        parts.append(family.note)
    parts.append(f"![{family.title}](figures/benchmarks-{name}.svg)")
    return "\n\n".join(parts)


def _cell(by_key: Mapping[tuple[str, str, int], Record], method: str, package: str) -> str:
    record, ours = by_key.get((method, package, 1)), by_key.get((method, "caveat", 1))
    if record is None or "seconds" not in record:
        return ""
    spread = f"{_ms(record['seconds'])} ({_ms(record['low'])}-{_ms(record['high'])})"
    if package in ("caveat", "floor") or ours is None or "seconds" not in ours:
        return spread
    word = compare(ours, record)
    # seen from the reader of the peer's column
    ratio = ours["seconds"] / record["seconds"]
    return spread + (
        ", tie" if word == "tie" else f", **{ratio:.1f} x faster**" if ratio > 1 else f", {1 / ratio:.1f} x slower"
    )


def _second_cell(by_key: Mapping[tuple[str, str, int], Record], method: str, package: str) -> str:
    record, first = by_key.get((method, package, 2), {}), by_key.get((method, package, 1), {})
    if "seconds" not in record:
        return ""
    memory = first.get("memory_mb")
    return _ms(record["seconds"]) + ("" if memory is None else f" / {memory:.0f}")


def _halves(name: str, by_key: Mapping[tuple[str, str, int], Record], methods: list[str], packages: list[str]) -> str:
    """Fit and score apart, where both matter, and whether the packages compute the same ranking."""
    if not name.startswith("ood"):
        return ""
    lines = []
    for method in methods:
        parts = []
        for package in packages:
            record = by_key.get((method, package, 1), {})
            if "first" in record:
                words = f"{package} {_ms(record['first'])} + {_ms(record['second'])}"
                if package not in ("caveat", "floor") and "rank_correlation" in record:
                    words += f" (rank correlation with ours {record['rank_correlation']:.4f})"
                parts.append(words)
        lines.append(f"- {method}: " + "; ".join(parts))
    return "Fit + score, one thread:\n\n" + "\n".join(lines)


def _level_row(record: Record, family: Family, setup: Record) -> list[str]:
    promised = family.promise(record["method"])
    columns = [c for c in ("error", "error_among_others") if c in record]
    held = promised is not None and all(kept(record[c], record[f"{c}_se"], promised) for c in columns)
    word = "no promise" if promised is None else "kept" if held else "**not kept**"
    return [_named(record["package"], setup), record["method"], "none" if promised is None else f"{promised:.4g}",
            _level(record), _level(record, "error_among_others") if "error_among_others" in record else "", word,
            _number(record["size"]) if "size" in record else ""]  # fmt: skip


def _method(setup: Record) -> str:
    versions = "\n".join(
        f"- {name}: " + ", ".join(f"{package} {version}" for package, version in rows.items())
        for name, rows in setup["versions"].items() if name != "floor"
    )  # fmt: skip
    missing = "".join(f"\n- not measured: {name} ({problem})" for name, problem in setup["problems"].items())
    return f"""## How it was measured

`make bench` makes one environment per package from [versions.toml](../benchmarks/peers/versions.toml), writes the
arrays from fixed seeds, starts one process per package, and lets them take turns: up to 7 turns per method, fewest 2,
after a warm-up. Processes are bound to one or two cores. Memory is the peak above what the process held before the
call. A run refuses to start above a load average of {setup["load_bound"]:g}; `--force` marks the page. Delivered
levels are means over {setup["draws"]} seeded draws, with a standard error; *not kept* means more than three of them
above the promise.

pytorch-ood, TorchCP and torch-uncertainty import torchvision (and some more packages) at the top, which has no build
here; inert modules stand in for them. The measured calls do not use them.

{versions}{missing}"""


def _named(package: str, setup: Record) -> str:
    """Name and version."""
    if package in ("caveat", "floor"):
        return package.capitalize() if package == "caveat" else package
    name = package.replace("_", "-")
    version = setup["versions"].get(package, {}).get(name)
    return f"{name} {version}" if version else name


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


def _ms(seconds: float) -> str:
    """Milliseconds with two or three digits.

    >>> _ms(0.01234), _ms(1.5), _ms(0.000052)
    ('12.3', '1,500', '0.052')
    """
    value = 1000 * seconds
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}" if value >= 1 else f"{value:.2g}"


def _level(record: Record, column: str = "error") -> str:
    return f"{record[column]:.3f} ± {record[column + '_se']:.3f}"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
