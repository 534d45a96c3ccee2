"""What sides say to each other beside the letters of a run: small JSON in letters of the kind ``talk``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from colonnade.errors import MessageError, naming
from colonnade.runtime.remote.packet import Packet, read_packet, write_packet
from colonnade.runtime.remote.request_server import refused

WORDS = ("hello", "terms", "signed", "align", "prepare", "plan", "begin")
MOST = 1 << 20  # bytes of JSON, which may take 25 times as much memory
Facts = dict[str, Any]


def say(word: str, facts: Facts) -> bytes:
    """A letter that says something."""
    return write_packet(Packet("talk", step=word, frames=(json.dumps(facts).encode(),)))


def facts_in(letter: Packet) -> Facts:
    """What a letter says, or :class:`MessageError`."""
    if len(letter.frames) != 1 or len(letter.frames[0]) > MOST or len(letter.before):
        raise MessageError(f"a letter of the kind '{letter.kind}' came without facts, or with too many.")
    try:
        facts = json.loads(bytes(letter.frames[0]))
    except (ValueError, RecursionError):
        raise MessageError("a letter came whose facts are not JSON.") from None
    if not isinstance(facts, dict):
        raise MessageError("a letter came whose facts have no names.")
    return facts


def answered(raw: bytes, by: str, asked: bytes | None = None) -> Facts:
    """What a side answered to a word, if it is about that, or the error that it had."""
    request = None if asked is None else read_packet(asked)
    with naming(by, request.step if request else "talk"):
        letter = read_packet(raw)
        if letter.sender != by:
            raise MessageError(f"an answer of '{letter.sender}' came from '{by}'; it is forged.")
        if letter.kind not in ("answer", "refusal") or (request and not letter.is_about(request)):
            raise MessageError(f"a letter '{letter.kind}' about something else came.")
        if letter.kind == "answer":
            return facts_in(letter)
        error = refused(letter.frames[0] if letter.frames else b"", by)
    raise error


def hex_of(facts: Facts, name: str, length: int) -> bytes:
    """So many bytes that were said in hexadecimal."""
    try:
        raw = bytes.fromhex(facts[name])
    except (KeyError, ValueError, TypeError):
        raw = b""
    if len(raw) != length:
        raise MessageError(
            f"'{name}' came as {str(facts.get(name))!r:.40}; {length} bytes in hexadecimal were expected."
        )
    return raw


def hexed(signatures: Mapping[str, bytes]) -> dict[str, str]:
    """Everybody's signature as it is told."""
    return {name: signature.hex() for name, signature in signatures.items()}


def signatures_in(facts: Facts) -> dict[str, bytes]:
    """Everybody's signature by name."""
    came = facts.get("signatures")
    if not isinstance(came, dict):
        raise MessageError("signatures by name were expected, and something else came.")
    return {str(name): hex_of(came, name, 64) for name in came}
