"""What all plots share: new axes, line styles, names that are not read as mathematics, files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from caveat._internal.checks import as_kind
from caveat.errors import MissingExtraError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

INK, MUTED, GRID, ACCENT = "#1a1a1a", "#767676", "#e4e4e4", "#b3541e"
# Colors of Okabe and Ito that are readable on white. Each has its own line style and hatch, so that a print in grey
# still tells the curves apart.
COLORS = ("#0072b2", "#d55e00", "#009e73", "#8c4a7d", "#5f5f5f", "#b8860b")
DASHES: tuple[Any, ...] = ("solid", (0, (5, 1.6)), (0, (1.2, 1.4)), (0, (5, 1.6, 1.2, 1.6)), (0, (9, 2.2)), (0, (3, 1)))
HATCHES = ("", "///", "...", "xxx", "\\\\\\", "---")

LONGEST = 48  # characters of a name
_CURVE = "caveat-curve-"  # marks the curves on an axes, so that the next one gets the next style


def prepare(ax: Axes | None, function: str, *, size: tuple[float, float] = (5.6, 4.2)) -> Axes:
    """The axes to draw on: those of the caller, or those of a new figure of ``size`` inches."""
    try:
        from matplotlib.axes import Axes
    except ImportError:
        raise MissingExtraError(f"plots.{function}", extra="plots") from None
    if ax is None:
        import matplotlib.pyplot as plt

        _, ax = plt.subplots(figsize=size, layout="constrained")
    as_kind(ax, Axes, "ax", what="a matplotlib Axes", hint="Axes of a grid are chosen as ax[0].")
    return ax


def plain(name: object) -> str:
    r"""A name as matplotlib must receive it to print it as it is.

    A pair of dollar signs would be mathematics, and a legend leaves out labels that begin with an underscore. Of a
    very long name the middle is left out, so that it does not push the plot aside.

    >>> plain("cost $a$"), plain("_hidden"), plain("x" * 30 + "y" * 30)
    ('cost \\$a\\$', ' _hidden', 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxx...yyyyyyyyyyyyyyy')
    """
    text = str(name)
    text = (text if len(text) <= LONGEST else f"{text[:30]}...{text[33 - LONGEST :]}").replace("$", r"\$")
    return f" {text}" if text.startswith("_") else text


def draw_curve(ax: Axes, x: Any, y: Any, label: str, **options: Any) -> int:
    """Draw a curve in the next style of these axes; returns its number, 0 for the first."""
    i = sum(str(line.get_gid()).startswith(_CURVE) for line in ax.lines)
    style = {"color": COLORS[i % len(COLORS)], "linestyle": DASHES[i % len(DASHES)], "linewidth": 1.8}
    ax.plot(x, y, label=label, gid=f"{_CURVE}{i}", **style | options)
    return i


def legend_above(ax: Axes, *, points: float = 0.0) -> None:
    """A legend above the axes, raised by ``points``: for plots that fill the inside."""
    from matplotlib.transforms import ScaledTranslation

    root = ax.figure.figure
    place = ax.transAxes + ScaledTranslation(0, points / 72, root.dpi_scale_trans)
    longest = max(len(name) for name in ax.get_legend_handles_labels()[1])
    ax.legend(
        loc="lower left", bbox_to_anchor=(0, 1), bbox_transform=place, borderaxespad=0.1, frameon=False,
        fontsize="small", ncols=2 if longest <= 40 else 1,
    )  # fmt: skip


def save(ax: Axes, path: str | Path) -> None:
    """Write the figure of ``ax`` to a file and close it. The same plot gives the same bytes.

    Parameters
    ----------
    ax
        What a plot returned.
    path
        File to write; its ending (.svg, .png, .pdf) chooses the format.

    Examples
    --------
    >>> import tempfile
    >>> from caveat import plots
    >>> ax = plots.roc(inlier=[0, 1, 2, 3], outlier=[2, 4, 5])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     plots.save(ax, Path(folder) / "roc.svg")
    """
    import matplotlib as mpl
    import matplotlib.pyplot as plt

    figure = ax.figure.figure  # of a subfigure: the one that holds it
    undated = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(Path(path).suffix[1:].lower())
    with mpl.rc_context({"svg.hashsalt": "caveat"}):
        figure.savefig(path, metadata=undated)
    plt.close(figure)
