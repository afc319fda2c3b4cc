"""``caveat serve``: a guard behind HTTP."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Annotated

import typer

from caveat.cli._console import say
from caveat.outputs import Outputs

__all__ = ["serve"]


def serve(
    folder: Annotated[Path, typer.Argument(metavar="GUARD", help="Folder that caveat guard fit wrote.")],
    host: Annotated[str, typer.Option(help="Address to listen on; 0.0.0.0 is every network.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 takes a free one.")] = 8080,
    audit: Annotated[str, typer.Option(help="Audit trail: a file, or a postgresql:// address.")] = "audit.sqlite",
    durable: Annotated[
        bool, typer.Option("--durable", help="Wait for the disk, so that a power failure loses no verdict either.")
    ] = False,
    keep_inputs: Annotated[
        bool, typer.Option("--keep-inputs", help="Record the inputs too, so that a replay starts from them.")
    ] = False,
    head: Annotated[
        Path | None,
        typer.Option(help="Outputs file with head_weight and head_bias: clients then send features alone."),
    ] = None,
    key_file: Annotated[
        Path | None,
        typer.Option(help="File with the key that clients must send. Default: CAVEAT_SERVE_KEY; without it, no key."),
    ] = None,
    alpha: Annotated[float, typer.Option(help="Allowed chance that a quiet stream ever raises a drift alarm.")] = 0.01,
    name: Annotated[str | None, typer.Option(help="Name on the page. Default: that of the folder.")] = None,
    workers: Annotated[
        int | None, typer.Option(min=1, max=64, help="Threads that give verdicts. Default: processors less one.")
    ] = None,
    queue: Annotated[int, typer.Option(min=1, help="Requests that may wait; more get status 429.")] = 64,
    body_mb: Annotated[float, typer.Option(min=0.001, help="Largest body in MB; a larger one gets status 413.")] = 32.0,
    body_seconds: Annotated[
        float, typer.Option(min=0.1, help="Time for a body to arrive; a slower one gets status 408.")
    ] = 10.0,
    verbose: Annotated[bool, typer.Option("--verbose", help="Log every request, never its content.")] = False,
) -> None:
    """Give the verdicts of a guard over HTTP, record each before it is answered, and show a live page.

    Open the printed address in a browser. Stop with Ctrl-C or SIGTERM: requests that are being answered are finished.
    """
    from caveat.guard import Guard
    from caveat.serve import Engine, Limits, create_app, open_store, run
    from caveat.serve.settings import read_key

    logging.basicConfig(level=logging.INFO if verbose else logging.WARNING, format="%(asctime)s %(message)s")
    made, key = Guard.load(folder), read_key(key_file)
    layer = None if head is None else Outputs.load(head).head
    limits = Limits(body_bytes=round(body_mb * 2**20), body_seconds=body_seconds)
    store = open_store(audit, durable=durable)
    engine = Engine(
        made, store, head=layer, alpha=alpha, name=name or folder.resolve().name, workers=workers,
        queue_limit=queue, keep_inputs=keep_inputs,
    )  # fmt: skip

    def ready(address: str) -> None:
        for promise in made.promises:
            say(f"{'✓' if promise.holds else '!'} {promise}")
        if key is None and host not in ("127.0.0.1", "::1", "localhost"):
            say("! Anybody who reaches this address may ask: set a key with --key-file.")
        say(f"Audit:   {audit.rpartition('@')[2]}")  # no password on the screen
        say(f"Serving: {address}")

    run(create_app(engine, limits=limits, key=key), host=host, port=port, limits=limits, ready=ready)
