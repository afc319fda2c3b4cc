"""Published tables and figures, what the papers report, computed again; ``caveat reproduce`` is the way in."""

__all__: list[str] = []
