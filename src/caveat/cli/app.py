"""The typer application: one line per command.

A command imports the library inside its function, so that ``--help`` loads neither numpy nor scipy.
"""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from caveat import __version__
from caveat.cli._console import help_of
from caveat.cli._required import demanding
from caveat.cli.audit import audit
from caveat.cli.compare import compare
from caveat.cli.demo import demo
from caveat.cli.evaluate import evaluate
from caveat.cli.guard import guard
from caveat.cli.scores import scores
from caveat.cli.serve import serve
from caveat.cli.threshold import threshold
from caveat.errors import InputError

__all__ = ["app"]

# typer has its own copy of click or imports click, depending on its version; this finds the class of either.
_UsageError: Any = next(kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "UsageError")


class _Commands(TyperGroup):
    """The commands; a wrong argument is an InputError in one line, because typer's box would cut long paths."""

    def make_context(self, *args: Any, **kwargs: Any) -> Any:
        try:
            return super().make_context(*args, **kwargs)
        except _UsageError as error:
            raise _in_one_line(error) from None

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except _UsageError as error:
            raise _in_one_line(error) from None


def _in_one_line(error: Any) -> Exception:
    if type(error).__name__ == "NoArgsIsHelpError":  # its message is the whole help
        return error  # type: ignore[no-any-return]
    message = " ".join(error.format_message().split()).rstrip(".")
    stop = "" if message.endswith("?") else "."
    command = error.ctx.command_path if error.ctx is not None else "caveat"
    return InputError(f"{message}{stop} See: {command} -h")


app = typer.Typer(
    name="caveat",
    cls=_Commands,
    help="Tells you when not to trust a classifier, and proves how often it will be wrong about that.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},  # commands and groups inherit it
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"caveat {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and stop.")
    ] = False,
) -> None:
    pass


for _command in (compare, demo, evaluate, scores, serve, threshold):
    app.command(help=help_of(_command))(demanding(_command))
app.add_typer(audit, name="audit")
app.add_typer(guard, name="guard")
for _entry in entry_points(group="caveat.commands"):  # those of the laboratory, where it is installed
    _command = _entry.load()
    if isinstance(_command, typer.Typer):
        app.add_typer(_command, name=_entry.name)
    else:
        app.command(help=help_of(_command))(demanding(_command))
