"""Commands that the laboratory adds to ``caveat``."""
