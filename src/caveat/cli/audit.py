"""``caveat audit``: verify, prove, replay, export and prune the audit trail of a service."""

from __future__ import annotations

import datetime
from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer

from caveat.cli._console import help_of, progress_bar, say, say_error
from caveat.cli._files import HeadKeys, head_of
from caveat.cli._required import demanding
from caveat.cli._served import ModelFile, ModelOutput, served_model
from caveat.errors import InputError

__all__ = ["audit"]

Place = Annotated[str, typer.Argument(metavar="AUDIT", help="Audit trail: a file, or a postgresql:// address.")]
Folder = Annotated[Path, typer.Argument(metavar="GUARD", help="Folder of the guard that the service uses.")]
Chain = Annotated[str, typer.Option(help="Name of the chain in a database that several services share.")]
PublicKey = Annotated[
    Path | None, typer.Option("--key", help="File with the public key that must have signed the heads (extra sign).")
]


def verify(
    place: Place,
    head: Annotated[
        str | None,
        typer.Option(help="What was kept elsewhere: a digest of an earlier last record, or a file of published heads."),
    ] = None,
    key: PublicKey = None,
    chain: Chain = "main",
) -> None:
    """Check that every record follows from the one before it; a service may go on writing meanwhile.

    Kept states, header and labels must be those that the records state. With --head, also that the past is the one
    whose heads were published.

    Exit code 0: sound. 3: broken, with the first record that is wrong. 2: bad input.
    """
    from caveat.serve import open_store
    from caveat.serve.audit.heads import read_heads
    from caveat.serve.audit.verify import verify_trail

    digest = head is not None and len(head) == 64 and not set(head.lower()) - set("0123456789abcdef")
    if head is not None and not digest and not Path(head).is_file():
        raise InputError(f"--head must be the 64 hexadecimal digits of a digest or a file of heads, got {head[:80]!r}.")
    heads = [] if head is None or digest else read_heads(head, key=key)
    with closing(open_store(place, read_only=True, chain=chain)) as store, progress_bar() as tell:
        result = verify_trail(store, head=head if digest else None, heads=heads, progress=tell)
    say(f"Records:  {result.records:,} ({result.first_at} to {result.last_at})" if result.records else "Records:  0")
    say(f"Verdicts: {result.verdicts:,}")
    say(f"Labels:   {result.labels:,}")
    if result.inputs or result.inputs_deleted:
        say(f"Inputs:   of {result.inputs:,} records; of {result.inputs_deleted:,} they were deleted")
    if result.pruned_records:
        say(f"Pruned:   {result.pruned_records:,} records with {result.pruned_verdicts:,} verdicts before these")
    say(f"States:   {result.states:,} kept")
    if heads:
        signed = "signed" if key is not None else "signatures not looked at: --key"
        say(f"Heads:    {result.heads:,} of {len(heads):,} published ({signed})")
    say(f"Head:     {result.head}")
    if not result.sound:
        where = "" if result.broken_at is None else f" at record {result.broken_at}"
        say_error("broken", f"the audit trail is damaged{where}: {result.reason}.")
        raise typer.Exit(3)
    say("✓ Every record follows from the one before it.")


def prove(
    place: Place,
    verdict: Annotated[str, typer.Argument(metavar="ID", help="Id of the verdict.")],
    out: Annotated[Path, typer.Argument(metavar="OUT", help="File for the proof, JSON.")],
    head: Annotated[Path, typer.Option(help="File of published heads: the first that has the record is used.")],
    chain: Chain = "main",
) -> None:
    """Write a proof that a verdict is in the trail, for somebody who has a published head and not the trail.

    The proof holds the whole record: verdicts that were answered together with this one are in it, too.
    """
    from caveat._internal.files import write_json
    from caveat.serve import open_store
    from caveat.serve.audit import prove as proofs
    from caveat.serve.audit.heads import read_heads

    with closing(open_store(place, read_only=True, chain=chain)) as store:
        proof = proofs.prove(store, verdict, heads=read_heads(head))
    write_json(out, proof)
    say(f"Record {proof['record']['seq']:,} of {proof['head']['records']:,}, {len(proof['path'])} digests: {out}")


def check_proof(
    proof: Annotated[Path, typer.Argument(metavar="PROOF", help="File that caveat audit prove wrote.")],
    head: Annotated[Path | None, typer.Option(help="File of published heads: that of the proof must be there.")] = None,
    key: PublicKey = None,
) -> None:
    """Check a proof without the trail: against published heads, the key that signs them, or both.

    Exit code 0: the verdict is in the trail. 3: the proof does not hold. 2: bad input.
    """
    from caveat._internal.files import read_json
    from caveat.serve.audit import prove as proofs
    from caveat.serve.audit.heads import read_heads, read_public_key
    from caveat.serve.audit.store import Damaged

    heads = [] if head is None else read_heads(head, key=key)
    public = None if key is None else read_public_key(key)
    try:
        proved = proofs.check_proof(read_json(proof), heads=heads, public=public)
    except Damaged as damage:
        say_error("broken", f"{damage.reason}.")
        raise typer.Exit(3) from None
    say(f"Verdict:  {proved.id} (record {proved.record:,}, {proved.at})")
    say(", ".join(f"{name} {value}" for name, value in proved.verdict.items() if value is not None))
    say(f"Head:     {proved.head.digest} (after {proved.head.records:,} records, {proved.head.at})")
    say("✓ The verdict is in the trail that has this head.")


def replay(
    folder: Folder,
    place: Place,
    head: Annotated[
        Path | None, typer.Option(help="File with head_weight and head_bias, if the service was given one.")
    ] = None,
    model: ModelFile = None,
    model_output: ModelOutput = None,
    head_key: HeadKeys = None,
    chain: Chain = "main",
) -> None:
    """Compute verdicts and drift evidence of an audit trail again, and compare them bit for bit.

    Where the service kept inputs, everything is computed from them (with --model if it had one); elsewhere from the
    recorded scores.

    Exit code 0: all equal. 3: something differs, or the chain is broken. 2: bad input.
    """
    from caveat.guard import Guard
    from caveat.serve import open_store
    from caveat.serve.audit.replay import replay_trail
    from caveat.serve.audit.store import Damaged

    guard = Guard.load(folder)
    layer = head_of(head, head_key)
    network = served_model(model, model_output, guard, layer)
    try:
        with closing(open_store(place, read_only=True, chain=chain)) as store, progress_bar() as tell:
            result = replay_trail(guard, store, head=layer, model=network, progress=tell)
    except Damaged as damage:
        say_error("broken", str(damage))
        raise typer.Exit(3) from None
    say(f"Verdicts: {result.rows:,}, of them {result.from_inputs:,} from their inputs")
    say(f"States:   {result.states} compared")
    for name, value in result.log10_e.items():
        alarm = f", alarm at row {result.alarmed_at[name]:,}" if name in result.alarmed_at else ""
        say(f"Evidence: {name} {value!r} (log10){alarm}")
    if result.labels is not None:
        alarm = f", alarm at label {result.alarmed_at['risk']:,}" if "risk" in result.alarmed_at else ""
        say(f"Labels:   {result.labels:,} of accepted rows, {result.errors:,} of them wrong{alarm}")
        say(f"          {result.assumption}")
    say(f"Head:     {result.head}")
    if result.first_difference is not None:
        say_error("differs", f"{result.differing:,} verdicts; the first difference: {result.first_difference}")
        raise typer.Exit(3)
    say("✓ Everything came out as it was recorded, bit for bit.")


def export(
    place: Place,
    out: Annotated[Path, typer.Argument(metavar="OUT", help="File: .parquet, .csv or .jsonl.")],
    since: Annotated[str | None, typer.Option(help="Verdicts from this day or time on, UTC: 2026-11-18.")] = None,
    until: Annotated[str | None, typer.Option(help="Verdicts before this day or time, UTC.")] = None,
    chain: Chain = "main",
) -> None:
    """Write one row per verdict to a file, with the label where one came."""
    from caveat.serve import open_store
    from caveat.serve.audit.export import export_trail

    first = "" if since is None else _moment(since, "--since")
    end = "~" if until is None else _moment(until, "--until")
    with closing(open_store(place, read_only=True, chain=chain)) as store, progress_bar() as tell:
        rows = export_trail(store, out, since=first, until=end, progress=tell)
    say(f"{rows:,} verdicts: {out}")


def prune(
    folder: Folder,
    place: Place,
    before: Annotated[str, typer.Option(help="Delete records before this day or time, UTC: 2026-11-18.")],
    inputs_only: Annotated[
        bool, typer.Option("--inputs-only", help="Delete kept inputs alone; verdicts and labels stay.")
    ] = False,
    chain: Chain = "main",
) -> None:
    """Delete old records. The service must be stopped; with caveat serve --keep-days it does this itself.

    The rest still verifies and replays: digest and state of the last deleted record are kept, and a record says so.
    """
    from caveat.guard import Guard
    from caveat.serve import open_store
    from caveat.serve.audit.prune import last_before, plan_cut
    from caveat.serve.trail import Trail, begun, label_wait_of

    moment, guard = _moment(before, "--before"), Guard.load(folder)
    open_store(place, read_only=True, chain=chain).close()  # a wrong path is an error, not a new file
    with closing(open_store(place, chain=chain)) as store, progress_bar() as tell:
        header = begun(store.header(), guard)
        cut = None if inputs_only else plan_cut(guard, store, moment, progress=tell)
        until = last_before(store, moment) if inputs_only else 0 if cut is None else cut.until
        if until:
            tell("deleting", 0, 1)
            trail = Trail(guard, store, alpha=float(header["alpha"]), label_wait=label_wait_of(header))
            trail.forget_inputs(until) if cut is None else trail.prune(cut)
    if not until:
        say(f"No record is older than {moment}.")
        return
    say(f"Deleted: {'inputs of ' if inputs_only else ''}records up to {until:,}.")
    say(f"Head:    {trail.digest.hex()}")


def _moment(text: str, option: str) -> str:
    """A day or time as the audit writes it; without a time zone it is UTC."""
    from caveat.serve.audit.content import written_at

    try:
        moment = datetime.datetime.fromisoformat(text)
        return written_at(moment.replace(tzinfo=moment.tzinfo or datetime.UTC))
    except (ValueError, OverflowError):
        raise InputError(f"{option} must be a day or a time such as 2026-11-18 or 2026-11-18T06:00, got "
                         f"{text[:50]!r}.") from None  # fmt: skip


audit = typer.Typer(no_args_is_help=True, help="The audit trail of caveat serve: verify, prove, replay, export, prune.")
for _command in (verify, prove, check_proof, replay, export, prune):
    audit.command(help=help_of(_command))(demanding(_command))
