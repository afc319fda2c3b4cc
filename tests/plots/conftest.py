"""Each test starts without figures and leaves none."""

from __future__ import annotations

import pytest

plt = pytest.importorskip("matplotlib.pyplot")


@pytest.fixture(autouse=True)
def _close_figures():
    plt.close("all")  # doctests and pages that ran before in this process leave theirs open
    yield
    plt.close("all")


@pytest.fixture
def legend():
    """The texts of a legend."""
    return lambda ax: [text.get_text() for text in ax.get_legend().get_texts()]
