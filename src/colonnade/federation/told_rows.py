"""Which of the common rows the owner's dates put where, as it tells every party with ``prepare``.

One bit a row in the common order, packed and in base64: whether it is to test on, and, if some rows are left out,
whether it is. Everybody signs the digest of these bits with the plan, so that nobody was told anything else.
"""

from __future__ import annotations

import base64
import hashlib

import numpy as np

from colonnade.errors import ConfigError, MessageError
from colonnade.federation.handshake import MOST, Facts
from colonnade.tables.prepare.row_parts import RowParts

TEST, LEFT_OUT = "test_rows", "left_out"
_ROOM = 4096  # bytes of the other facts of the word


def told_rows(parts: RowParts, count: int) -> Facts:
    """The facts about ``count`` common rows that go with ``prepare``."""
    test, left_out = np.zeros(count, bool), np.ones(count, bool)
    test[parts.test], left_out[parts.both] = True, False
    facts = {TEST: _packed(test)} | ({LEFT_OUT: _packed(left_out)} if left_out.any() else {})
    if sum(map(len, facts.values())) > MOST - _ROOM:
        raise ConfigError(
            f"{count:,} common rows are more than the owner can tell its parties the dates' sides of; split fewer rows "
            "by date, or hold out a share of them by test = 0.2."
        )
    return facts


def parts_in(facts: Facts, count: int) -> RowParts:
    """The parts of ``count`` common rows that such facts tell, or :class:`MessageError`."""
    test = _unpacked(facts, TEST, count)
    left_out = _unpacked(facts, LEFT_OUT, count) if LEFT_OUT in facts else np.zeros(count, bool)
    parts = RowParts(np.flatnonzero(~test & ~left_out), np.flatnonzero(test))
    if (test & left_out).any() or not len(parts.train) or not len(parts.test):
        raise MessageError(
            f"the owner told which of {count} common rows are to test on, but none is left for training or for "
            "testing, or one is in two parts; split by another date."
        )
    return parts


def digest_of_rows(facts: Facts) -> str:
    """What stands for the told rows in the plan that everybody signs."""
    told = "/".join(str(facts.get(name, "")) for name in (TEST, LEFT_OUT))
    return hashlib.sha256(told.encode()).hexdigest()


def _packed(bits: np.ndarray) -> str:
    return base64.b64encode(np.packbits(bits).tobytes()).decode()


def _unpacked(facts: Facts, name: str, count: int) -> np.ndarray:
    size, text = -(-count // 8), facts.get(name)
    raw = b""
    if isinstance(text, str) and len(text) == 4 * -(-size // 3):
        try:
            raw = base64.b64decode(text, validate=True)
        except ValueError:
            raw = b""
    bits = np.unpackbits(np.frombuffer(raw, np.uint8)).astype(bool)
    if len(raw) != size or bits[count:].any():
        raise MessageError(f"'{name}' came with the word 'prepare' and is not one bit for each of {count} common rows.")
    return bits[:count]
