from __future__ import annotations

import pytest

from caveat import CaveatError, InputError, MissingExtraError, NotFittedError


@pytest.mark.parametrize(("error", "builtin"), [(InputError, ValueError), (NotFittedError, AttributeError)])
def test_errors_are_caught_by_their_builtin_cousins(error, builtin):
    assert issubclass(error, builtin)
    assert issubclass(error, CaveatError)


def test_a_missing_extra_says_how_to_get_it():
    error = MissingExtraError("nn.extract", extra="torch")
    assert isinstance(error, ImportError)
    assert "pip install 'caveat[torch]'" in str(error)
