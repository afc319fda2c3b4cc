"""``caveat serve``: a guard behind HTTP."""

from __future__ import annotations

from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Literal

import typer

from caveat.cli._console import say
from caveat.cli._files import HeadKeys, head_of
from caveat.cli._served import ModelFile, ModelOutput, published_heads, served_model

__all__ = ["serve"]


def serve(
    folder: Annotated[Path, typer.Argument(metavar="GUARD", help="Folder that caveat guard fit wrote.")],
    host: Annotated[str, typer.Option(help="Address to listen on; 0.0.0.0 is every network.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 takes a free one.")] = 8080,
    audit: Annotated[str, typer.Option(help="Audit trail: a file, or a postgresql:// address.")] = "audit.sqlite",
    chain: Annotated[str, typer.Option(help="Name of the chain in a database that several services share.")] = "main",
    durable: Annotated[
        bool, typer.Option("--durable", help="Wait for the disk, so that a power failure loses no verdict either.")
    ] = False,
    keep_inputs: Annotated[
        bool, typer.Option("--keep-inputs", help="Record the inputs too, so that a replay starts from them.")
    ] = False,
    keep_days: Annotated[
        float | None, typer.Option(min=0.001, help="Delete records older than this, daily. Default: keep everything.")
    ] = None,
    verify: Annotated[
        Literal["background", "full"], typer.Option(help="Verify older records while answering, or before (full).")
    ] = "background",
    heads: Annotated[
        str | None, typer.Option(help="Second place for heads: a file, http(s)://, or - to print.")
    ] = None,
    heads_every: Annotated[int, typer.Option(min=1, help="Records from one head to the next.")] = 1000,
    sign_key: Annotated[Path | None, typer.Option(help="Ed25519 key (PEM) that signs heads (extra sign).")] = None,
    head: Annotated[
        Path | None,
        typer.Option(help="File with head_weight and head_bias: clients then send features alone."),
    ] = None,
    head_key: HeadKeys = None,
    model: ModelFile = None,
    model_output: ModelOutput = None,
    key_file: Annotated[
        Path | None,
        typer.Option(help="File with the keys of clients, one a line. Default: CAVEAT_SERVE_KEY; without it, no key."),
    ] = None,
    labels_key_file: Annotated[
        Path | None,
        typer.Option(help="File with the key for labels alone. Default: CAVEAT_SERVE_LABELS_KEY; else those above."),
    ] = None,
    admin_key_file: Annotated[
        Path | None,
        typer.Option(
            help="File with the key for live page and metrics, and all else. Default: CAVEAT_SERVE_ADMIN_KEY; else "
            "those above."
        ),
    ] = None,
    alpha: Annotated[float, typer.Option(help="Allowed chance that a quiet stream ever raises a drift alarm.")] = 0.01,
    label_wait: Annotated[
        int | None, typer.Option(min=0, help="Count labels in row order; a missing one at its worst after so many.")
    ] = None,
    name: Annotated[str | None, typer.Option(help="Name on the page. Default: that of the folder.")] = None,
    workers: Annotated[
        int | None, typer.Option(min=1, max=64, help="Threads that give verdicts. Default: processors less one.")
    ] = None,
    queue: Annotated[int, typer.Option(min=1, help="Requests that may wait; more get status 429.")] = 64,
    body_mb: Annotated[float, typer.Option(min=0.001, help="Largest body in MB; a larger one gets status 413.")] = 32.0,
    json_mb: Annotated[
        float, typer.Option(min=0.001, help="Largest JSON body in MB, which takes 30 times its size to read.")
    ] = 8.0,
    body_seconds: Annotated[
        float, typer.Option(min=0.1, help="Time for a body to arrive; a slower one gets status 408.")
    ] = 10.0,
    bodies_mb: Annotated[
        float, typer.Option(min=0.001, help="Largest size of all bodies together in MB; beyond it requests get 429.")
    ] = 256.0,
    rows: Annotated[int, typer.Option(min=1, help="Most rows of a request; more get status 413.")] = 100_000,
    header_seconds: Annotated[
        float, typer.Option(min=0.1, help="Time for the headers of a request; a slower connection is closed.")
    ] = 10.0,
    answer_seconds: Annotated[
        float, typer.Option(min=0.1, help="Time to take an answer; the connection of a slower client is closed.")
    ] = 60.0,
    connections: Annotated[
        int, typer.Option(min=1, help="Most open connections; beyond it only health is answered.")
    ] = 1000,
    rate: Annotated[
        float | None,
        typer.Option(min=0.001, help="Most requests a second of a key; more get status 429. Default: no limit."),
    ] = None,
    verbose: Annotated[bool, typer.Option("--verbose", help="Log every request, never its content.")] = False,
    log_json: Annotated[bool, typer.Option("--log-json", help="Write the log as one JSON object a line.")] = False,
) -> None:
    """Give the verdicts of a guard over HTTP, record each before it is answered, and show a live page.

    Open the printed address in a browser. Stop with Ctrl-C or SIGTERM: requests that are being answered are finished.
    """
    from caveat.guard import Guard
    from caveat.serve import Engine, Keys, Limits, create_app, open_store, run
    from caveat.serve.fields import check_head
    from caveat.serve.keys import ADMIN_VARIABLE, LABELS_VARIABLE, read_keys
    from caveat.serve.logs import set_up_logs
    from caveat.serve.run import listen

    set_up_logs(verbose=verbose, as_json=log_json)
    made = Guard.load(folder)
    keys = Keys(
        ask=read_keys(key_file),
        labels=read_keys(labels_key_file, LABELS_VARIABLE),
        admin=read_keys(admin_key_file, ADMIN_VARIABLE),
    )
    layer = head_of(head, head_key)
    limits = Limits(
        body_bytes=round(body_mb * 2**20), json_bytes=round(json_mb * 2**20), reading_bytes=round(bodies_mb * 2**20),
        rows=rows, connections=connections, body_seconds=body_seconds, header_seconds=header_seconds,
        answer_seconds=answer_seconds, rate=rate,
    )  # fmt: skip
    listening = listen(host, port)  # before the audit trail is opened: a port in use leaves no trace in it
    check_head(made, layer)  # before the audit trail is opened, too
    network = served_model(model, model_output, made, layer)
    published = published_heads(heads, heads_every, sign_key)
    store = open_store(audit, durable=durable, chain=chain)
    engine = Engine(
        made, store, head=layer, model=network, alpha=alpha, name=name or folder.resolve().name, workers=workers,
        queue_limit=queue, keep_inputs=keep_inputs, rows_limit=limits.rows, keep_days=keep_days,
        heads=published, verify=verify, label_wait=label_wait,
    )  # fmt: skip

    local = _is_local(host)

    def ready(address: str) -> None:
        for promise in made.promises:
            say(f"{'✓' if promise.holds else '!'} {promise}")
        if not keys and not local:
            say("! Anybody who reaches this address may ask: set a key with --key-file.")
        say(f"Audit:   {audit.rpartition('@')[2]}")  # no password on the screen
        say(f"Serving: {address}")

    app = create_app(engine, limits=limits, keys=keys, local_only=local and not keys)
    run(app, listening=listening, limits=limits, ready=ready)


def _is_local(host: str) -> bool:
    """Whether only this machine reaches an address.

    >>> [_is_local(host) for host in ("127.0.0.1", "127.1.2.3", "::1", "localhost", "0.0.0.0", "", "example.org")]
    [True, True, True, True, False, False, False]
    """
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False
