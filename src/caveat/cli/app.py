"""The typer application: one line per command.

A command imports the library inside its function, so that ``--help`` loads neither numpy nor scipy.
"""

from __future__ import annotations

from typing import Annotated

import typer

from caveat import __version__
from caveat.cli._console import help_of
from caveat.cli._required import demanding
from caveat.cli.audit import audit
from caveat.cli.certify import certify
from caveat.cli.compare import compare
from caveat.cli.data import data
from caveat.cli.demo import demo
from caveat.cli.evaluate import evaluate
from caveat.cli.guard import guard
from caveat.cli.proximity import proximity
from caveat.cli.report import report
from caveat.cli.reproduce import reproduce
from caveat.cli.scores import scores
from caveat.cli.serve import serve
from caveat.cli.study import study
from caveat.cli.threshold import threshold
from caveat.cli.train import train

__all__ = ["app"]

app = typer.Typer(
    name="caveat",
    help="Tells you when not to trust a classifier, and proves how often it will be wrong about that.",
    no_args_is_help=True,
    add_completion=False,
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


for _command in (certify, compare, demo, evaluate, proximity, report, reproduce, scores, serve, study,
                 threshold, train):  # fmt: skip
    app.command(help=help_of(_command))(demanding(_command))
app.add_typer(audit, name="audit")
app.add_typer(data, name="data")
app.add_typer(guard, name="guard")
