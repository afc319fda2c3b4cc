"""``python -m caveat`` is the command ``caveat``."""

from caveat.cli import main

if __name__ == "__main__":
    main()
