"""The words of the handshake as they travel: small JSON (*facts*) in packets of the kind ``talk``, and the answers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from colonnade.errors import MessageError, naming
from colonnade.runtime.remote.packet import Packet, read_packet
from colonnade.runtime.remote.request_server import refused

TALK = "talk"  # the kind of packet that carries a word
MOST = 1 << 20  # bytes of JSON, which may take 25 times as much memory
Facts = dict[str, Any]


def word_packet(word: str, facts: Facts) -> Packet:
    """The request that says a word."""
    return Packet(TALK, step=word, frames=(json.dumps(facts).encode(),))


def facts_in(packet: Packet) -> Facts:
    """The facts of a word or of an answer to one, or :class:`MessageError`."""
    if len(packet.frames) != 1 or len(packet.frames[0]) > MOST or len(packet.before):
        raise MessageError(f"a packet of the kind '{packet.kind}' came without facts, or with too many.")
    try:
        facts = json.loads(bytes(packet.frames[0]))
    except (ValueError, RecursionError):
        raise MessageError("a packet came whose facts are not JSON.") from None
    if not isinstance(facts, dict):
        raise MessageError("a packet came whose facts have no names.")
    return facts


def answer_in(reply: bytes, by: str, request: Packet | None = None) -> Facts:
    """The facts that a side answered to a word, if the reply is about that request; or the error of its refusal."""
    with naming(by, request.step if request else TALK):
        packet = read_packet(reply)
        if packet.sender != by:
            raise MessageError(f"an answer of '{packet.sender}' came from '{by}'; it is forged.")
        if packet.kind not in ("answer", "refusal") or (request and not packet.is_about(request)):
            raise MessageError(f"a reply '{packet.kind}' about something else came.")
        if packet.kind == "answer":
            return facts_in(packet)
        error = refused(packet.frames[0] if packet.frames else b"", by)
    raise error


def hex_of(facts: Facts, name: str, length: int) -> bytes:
    """The bytes of a fact that is given in hexadecimal, if it has this length."""
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
    """Everybody's signature as a fact: in hexadecimal, by name."""
    return {name: signature.hex() for name, signature in signatures.items()}


def signatures_in(facts: Facts) -> dict[str, bytes]:
    """Everybody's signature by name."""
    signatures = facts.get("signatures")
    if not isinstance(signatures, dict):
        raise MessageError("signatures by name were expected, and something else came.")
    return {str(name): hex_of(signatures, name, 64) for name in signatures}
