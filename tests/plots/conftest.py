"""Figures are closed after each test."""

from __future__ import annotations

import pytest

plt = pytest.importorskip("matplotlib.pyplot")


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


@pytest.fixture
def legend():
    """The texts of a legend."""
    return lambda ax: [text.get_text() for text in ax.get_legend().get_texts()]
