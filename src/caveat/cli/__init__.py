"""The command line: thin. Every command reads files, calls the library and prints what came back.

Exit codes: 0 done; 1 parts of a study failed; 2 bad input, with one sentence on standard error; 3 an alarm
of ``caveat guard check``, or an audit trail that is not sound; 130 stopped by Ctrl-C.
"""

from __future__ import annotations

import io
import sys
import warnings

from caveat.errors import CaveatError, CaveatWarning

__all__ = ["main"]


def main(args: list[str] | None = None) -> None:
    """Run the command line; a bad input ends with exit code 2 and one sentence, never a traceback."""
    from caveat.cli._console import say_error
    from caveat.cli._provenance import ARGUMENTS
    from caveat.cli._wording import in_options
    from caveat.cli.app import app

    def note(message: Warning | str, category: type[Warning], *rest: object) -> None:
        if issubclass(category, CaveatWarning):
            say_error("note", str(message), style="yellow")
        else:
            shown(message, category, *rest)  # type: ignore[arg-type]

    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without dashes and squares shows question marks
    shown = warnings.showwarning
    with warnings.catch_warnings():
        warnings.simplefilter("always", CaveatWarning)
        warnings.showwarning = note  # type: ignore[assignment]
        ARGUMENTS.set(tuple(sys.argv[1:] if args is None else args))
        try:
            app(args=args, prog_name="caveat")
        except CaveatError as error:
            say_error("error", in_options(str(error)))
            sys.exit(2)
        except OSError as error:  # what the library does not name itself: a full disk, a folder that is a file
            where, why = error.filename or "a file", error.strerror or error
            say_error("error", f"{where} cannot be read or written ({why}). Check the path, its rights and the disk.")
            sys.exit(2)
