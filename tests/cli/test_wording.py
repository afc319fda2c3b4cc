"""Remedies of the library in the words of the command line."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import caveat
from caveat.cli._wording import _OPTIONS, in_options

SOURCE = Path(caveat.__file__).parent


@pytest.fixture(scope="module")
def sentences():
    """Every text in the library, parts of formatted ones too."""
    texts = []
    for path in SOURCE.rglob("*.py"):
        if path.name != "_wording.py":
            tree = ast.parse(path.read_text(encoding="utf-8"))
            texts += [
                node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and type(node.value) is str
            ]
    return texts


@pytest.mark.parametrize("words", _OPTIONS)
def test_the_words_still_stand_in_a_message_of_the_library(words, sentences):
    # The names of arguments may be filled in: the pieces around them must stand somewhere.
    for piece in re.split(r"(?<=pass )(?:sets|risk)(?==None)", words):
        assert any(piece in text for text in sentences), words


def test_an_option_takes_the_place_of_an_argument():
    said = "Guard needs labels. Store them, or pass risk=None."
    assert in_options(said) == "Guard needs labels. Store them, or leave out --risk."
    assert in_options("nothing to replace") == "nothing to replace"
