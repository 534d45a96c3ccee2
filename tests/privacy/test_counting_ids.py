"""Ids are found by counting up in plain mode, and not in psi mode."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import pytest

import colonnade as cn
from colonnade.privacy.attacks.counting_ids import DIGEST, count_up, ids_by_counting
from colonnade.privacy.ids_verdict import ids_verdict
from colonnade.tables.align.alignment_party import POINTS
from colonnade.tables.align.box import Boxes


def list_of_shop(mode: str) -> tuple[bytes, list[str]]:
    """What the owner receives of the shop's list in a real alignment, and the shop's ids."""
    ids = [str(number) for number in random.Random(5).sample(range(100_000, 110_000), 300)]
    bank = SimpleNamespace(name="bank", ids=ids[:200])
    shop = SimpleNamespace(name="shop", ids=[*ids[100:], *(f"customer {k}" for k in range(20))])
    received: dict[int, bytes] = {}
    opened = Boxes.open

    def note(boxes: Boxes, sender: str, sealed: bytes, what: str, *about: int) -> Any:
        raw = opened(boxes, sender, sealed, what, *about)
        if sender == "shop" and what == POINTS and about[0] == 1:
            received[about[1]] = raw
        return raw

    with patch.object(Boxes, "open", note):
        cn.align([bank, shop], mode=mode, seed=3)
    return b"".join(received[start] for start in sorted(received)), shop.ids


def test_guessable_ids_are_found_in_plain_mode() -> None:
    masked, ids = list_of_shop("plain")
    found = count_up("shop", masked, range(100_000, 110_000), seed=3)
    assert sorted(found.ids.values()) == sorted(one for one in ids if one.isdigit())
    assert found.listed == len(ids) == 220 and found.tried == 10_000
    assert found.sentence() == (
        "Who received the list of 'shop' finds 200 of the 220 ids (91 %) by trying 10,000 ids; "
        "without the list it finds none."
    )


def test_nothing_is_found_in_psi_mode() -> None:
    """The control: the same adversary, whose list is masked with a key that it does not have."""
    masked, ids = list_of_shop("psi")
    assert len(masked) >= len(ids) * DIGEST
    found = count_up("shop", masked, range(100_000, 110_000), seed=3)
    assert found.ids == {} and found.share == 0.0
    assert "finds none of" in found.sentence()


def test_a_verdict_counts_between_the_ids_that_were_seen() -> None:
    ids = [f"c{number:04d}".encode() for number in range(100, 400, 3)]
    told = ids_verdict("shop", [*ids, b"ann"], seed=3)
    assert (told.word, told.declared) == ("read", "read")
    assert "finds 100 of the 101 ids (99 %) by trying 298 ids" in told.sentence
    assert ids_verdict("shop", [b"ann", b"bob"], seed=3).word == "not tested"


def test_the_seed_of_the_terms_is_needed() -> None:
    masked, _ = list_of_shop("plain")
    assert count_up("shop", masked, range(100_000, 110_000), seed=4).ids == {}


@pytest.mark.parametrize("guesses", [[], ["17", 18]])
def test_lists_may_be_empty(guesses: list[object]) -> None:
    assert ids_by_counting([], guesses, seed=0) == ({}, len(guesses))
    assert count_up("shop", b"", guesses, seed=0).share == 0.0
