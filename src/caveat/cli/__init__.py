"""The command line: thin. Every command reads files, calls the library and prints what came back.

Exit codes: 0 done; 1 parts of a study failed; 2 bad input, with one sentence on standard error; 130 stopped by Ctrl-C.
"""

from __future__ import annotations

import sys
import warnings

from caveat.errors import CaveatError, CaveatWarning

__all__ = ["main"]


def main(args: list[str] | None = None) -> None:
    """Run the command line; a bad input ends with exit code 2 and one sentence, never a traceback."""
    from rich.markup import escape

    from caveat.cli._console import error_console
    from caveat.cli.app import app

    def note(message: Warning | str, category: type[Warning], *rest: object) -> None:
        if issubclass(category, CaveatWarning):
            error_console().print(f"[yellow]note:[/] {escape(str(message))}", highlight=False, soft_wrap=True)
        else:
            shown(message, category, *rest)  # type: ignore[arg-type]

    shown = warnings.showwarning
    with warnings.catch_warnings():
        warnings.simplefilter("always", CaveatWarning)
        warnings.showwarning = note  # type: ignore[assignment]
        try:
            app(args=args, prog_name="caveat")
        except CaveatError as error:
            error_console().print(f"[red]error:[/] {escape(str(error))}", highlight=False, soft_wrap=True)
            sys.exit(2)
