"""The first word between two processes: who each side is, its version and its clock."""

from __future__ import annotations

import time

from colonnade.errors import ManifestError, MessageError, RefusedError, SealError, printable
from colonnade.federation.answer_forms import checked_answer
from colonnade.federation.handshake import Facts, hex_of
from colonnade.signatures import Identity, pack, verify
from colonnade.version import __version__

CLOCKS = 3600  # seconds that two clocks may be apart


def hello_of(name: str, identity: Identity, incarnation: bytes, owner: bytes) -> Facts:
    """A party's answer to the owner's hello. Each process has a random number, its incarnation."""
    return {
        "name": name,
        "colonnade": __version__,
        "incarnation": incarnation.hex(),
        "time": time.time(),
        "signature": identity.sign(_covered(owner, incarnation)).hex(),
    }


def check_hello(party: str, facts: Facts, key: bytes, owner: bytes) -> bytes:
    """A party's incarnation, if its answer is fresh and signed by it, and its version and clock agree with ours."""
    if facts.get("colonnade") != __version__:
        theirs = printable(facts.get("colonnade"), 20)
        raise ManifestError(
            f"'{party}' runs colonnade {theirs} and the owner {__version__}; install the same version at all sides."
        )
    checked_answer(party, "hello", facts)
    incarnation, signature = hex_of(facts, "incarnation", 16), hex_of(facts, "signature", 64)
    try:
        verify(key, _covered(owner, incarnation), signature)
    except SealError:
        raise RefusedError(
            f"the hello of '{party}' is signed by another identity than the key of [[party]] '{party}' in the job is "
            "of; bring its identity.pub, or let it bring its own identity.key."
        ) from None
    if facts["name"] != party:
        raise MessageError(f"'{party}' answered 'hello' with 'name' = {facts['name']!r}; its own was expected.")
    apart = abs(time.time() - facts["time"])
    if not apart <= CLOCKS:
        raise RefusedError(f"the clock of '{party}' is {apart / 3600:.1f} hours off the owner's; set both right.")
    return incarnation


def _covered(owner: bytes, party: bytes) -> bytes:
    return pack("colonnade/hello/1", owner, party)
