"""Heads: what a service publishes about its trail, so that nobody can rewrite the past unseen.

A head says how many records there are, the digest of the last one and the root of the Merkle tree over all. Whoever
holds one can tell whether a trail is the one that was there at that time. A signature (Ed25519, extra ``sign``) says
who published it.
"""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, final

from caveat._internal.files import from_json, read_bytes
from caveat.errors import InputError, MissingExtraError, StoreError
from caveat.serve.audit.content import canonical, now
from caveat.serve.audit.merkle import Tree
from caveat.serve.audit.record import genesis
from caveat.serve.keys import secret_text

__all__ = ["Head", "Signer", "head_of", "publisher", "read_heads", "read_public_key"]

_FORMAT = "caveat-head-1"
_SHA256 = "[0-9a-f]{64}"
_HEX = {"begun": _SHA256, "digest": _SHA256, "root": _SHA256, "key": f"({_SHA256})?", "signature": "([0-9a-f]{128})?"}
_SECONDS = 5  # for a place behind HTTP


@final
@dataclass(frozen=True)
class Head:
    """The state of a trail after so many records.

    Parameters
    ----------
    chain
        Name of the chain: the first part of the ids.
    begun
        Digest from which the first record follows, hex: that of chain, guard and alpha.
    records, rows
        How many records there were, and how many verdicts in them (as far as the page has taken them in).
    digest
        Digest of the last record, hex.
    root
        Root of the Merkle tree over the digests of all records, hex.
    at
        Time, UTC.
    key, signature
        Public key (Ed25519) and signature of the rest, hex; empty without a key.
    """

    chain: str
    begun: str
    records: int
    rows: int
    digest: str
    root: str
    at: str
    key: str = ""
    signature: str = ""

    def message(self) -> bytes:
        """What is signed."""
        return canonical({"format": _FORMAT, **dataclasses.asdict(dataclasses.replace(self, signature=""))})

    def to_json(self) -> str:
        """One line, as it is published."""
        return canonical({"format": _FORMAT, **dataclasses.asdict(self)}).decode()

    @classmethod
    def from_dict(cls, content: Mapping[str, Any], source: str) -> Head:
        """A head as it was published; ``source`` names it in an error."""
        fields = {field.name: str if field.type == "str" else int for field in dataclasses.fields(cls)}
        named: dict[str, Any] = {name: content.get(name) for name in fields}
        typed = content.get("format") == _FORMAT and all(type(named[name]) is kind for name, kind in fields.items())
        if not typed or not all(re.fullmatch(form, named[name]) for name, form in _HEX.items()):
            raise InputError(f"{source} must hold a head that caveat serve --heads wrote, as JSON.")
        return cls(**named)

    def demand_signature(self, public: bytes) -> None:
        """Raise InputError unless this key has signed the head."""
        from_hex, (ed25519, invalid) = bytes.fromhex, _cryptography()
        try:
            if self.key != public.hex():
                raise invalid
            ed25519.Ed25519PublicKey.from_public_bytes(public).verify(from_hex(self.signature), self.message())
        except invalid:
            raise InputError(f"the head of {self.at} after {self.records} records is not signed by the key "
                             f"{public.hex()[:16]}... Keep it as evidence.") from None  # fmt: skip


def head_of(header: Mapping[str, str], tree: Tree, rows: int) -> Head:
    """The head of a trail whose records are in the tree."""
    return Head(chain=header["chain"], begun=genesis(header).hex(), records=tree.size, rows=rows,
                digest=tree.last.hex(), root=tree.root().hex(), at=now())  # fmt: skip


def read_heads(path: str | os.PathLike[str], *, key: str | os.PathLike[str] | None = None) -> list[Head]:
    """The heads of a file, one JSON object a line.

    Parameters
    ----------
    path
        File that ``caveat serve --heads`` wrote, or that collects what it sent.
    key
        File with the public key that must have signed each of them; None: signatures are not looked at.

    Returns
    -------
    list of Head
        In the order of the file.
    """
    lines = read_bytes(Path(path)).splitlines()
    heads = [Head.from_dict(from_json(line, f"{path}, line {i}"), f"{path}, line {i}")
             for i, line in enumerate(lines, 1) if line.strip()]  # fmt: skip
    if not heads:
        raise InputError(f"{path} holds no head. Take the file that caveat serve --heads wrote.")
    if key is not None:
        public = read_public_key(key)
        for head in heads:
            head.demand_signature(public)
    return heads


@final
class Signer:
    """Signs heads with a private key that only its owner can read (PEM, Ed25519).

    Parameters
    ----------
    file
        As ``openssl genpkey -algorithm ed25519`` writes it.
    """

    def __init__(self, file: str | os.PathLike[str]) -> None:
        ed25519, _ = _cryptography()
        from cryptography.hazmat.primitives.serialization import load_pem_private_key

        content = secret_text(Path(file)).encode()
        self._key = _key(file, partial(load_pem_private_key, password=None), content, ed25519.Ed25519PrivateKey)
        self.public: str = self._key.public_key().public_bytes_raw().hex()

    def sign(self, head: Head) -> Head:
        """The same head with key and signature."""
        named = dataclasses.replace(head, key=self.public)
        return dataclasses.replace(named, signature=self._key.sign(named.message()).hex())


def read_public_key(path: str | os.PathLike[str]) -> bytes:
    """The public key in a PEM file, as ``openssl pkey -pubout`` writes it."""
    ed25519, _ = _cryptography()
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    key = _key(path, load_pem_public_key, read_bytes(Path(path)), ed25519.Ed25519PublicKey)
    return bytes(key.public_bytes_raw())


def _key(path: str | os.PathLike[str], load: Callable[..., Any], content: bytes, kind: type[Any]) -> Any:
    try:
        key = load(content)
    except (ValueError, TypeError):
        key = None
    if not isinstance(key, kind):
        raise InputError(f"{path} must hold an {kind.__name__} without a password, as PEM. "
                         "Make one: openssl genpkey -algorithm ed25519.")  # fmt: skip
    return key


def publisher(place: str, say: Callable[[str], None]) -> Callable[[Head], None]:
    """How a head gets to its place: printed ("-"), sent (http:// or https://), or added to a file."""
    scheme, separator, _ = place.partition("://")
    if place == "-":
        return lambda head: say(f"Head: {head.to_json()}")
    if not separator:
        return lambda head: _append(Path(place), head)
    if scheme not in ("http", "https"):
        raise InputError(f"heads must go to a file, to an http(s):// address or to -, got {scheme}://.")
    return lambda head: _post(place, head)


def _append(path: Path, head: Head) -> None:
    try:
        with path.open("ab") as stream:
            stream.write(f"{head.to_json()}\n".encode())
            stream.flush()
            os.fsync(stream.fileno())
    except OSError as error:
        raise StoreError(f"the head cannot be written to {path} ({error.strerror}).") from None


def _post(address: str, head: Head) -> None:
    from urllib.request import Request, urlopen

    request = Request(address, head.to_json().encode(), {"Content-Type": "application/json"}, method="POST")
    try:
        urlopen(request, timeout=_SECONDS).close()
    except (OSError, ValueError) as error:  # a refused status is an OSError
        raise StoreError(f"the head cannot be sent ({error}).") from None


def _cryptography() -> tuple[Any, type[Exception]]:
    try:
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError:
        raise MissingExtraError("a signed head", extra="sign") from None
    return ed25519, InvalidSignature
