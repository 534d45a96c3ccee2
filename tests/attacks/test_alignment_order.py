"""An owner of an alignment that asks in another order, swaps and replays lists, reads what it relays, or tells lies.

The controls show what could be compared in what it relays if it could open it, and that a plain MAC as the proof would
let it try out ids.
"""

from __future__ import annotations

import hmac
import random
from collections.abc import Callable
from itertools import combinations
from typing import Any

import numpy as np
import pytest
import torch
from lying_aligner import Ids, KeyPerId, brought_round, of, people, seated, split

from colonnade.errors import NoCommonIdError, SealError
from colonnade.signatures import pack
from colonnade.tables.align import align_terms as agreed
from colonnade.tables.align import box as boxes
from colonnade.tables.align.align_messages import Locks
from colonnade.tables.align.alignment_party import PLACES, POINTS
from colonnade.tables.align.order_proof import Proof, digest


@pytest.fixture(autouse=True)
def short_trials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agreed, "TRIED", 128)


# Steps left out, in another order, or twice


def test_the_owner_is_bound_to_its_list_before_it_sees_another() -> None:
    for parties in (2, 3, 4):
        peers, ring = seated(people(parties, common=3), 2)
        ring.agree()
        for place, peer in enumerate(peers[1:], 1):
            with pytest.raises(SealError, match="is wanted before that of 'owner' came to it"):
                peer.give(of(place))


def test_the_trial_comes_after_the_list_that_it_tries() -> None:
    peers, ring = seated(people(2, common=3), 2)
    ring.agree()
    owner, shop = peers
    for step in ("before the owner's list", "after it", "while the own one is away"):
        with pytest.raises(SealError, match="the second list of 'shop' is wanted before its first one came back"):
            shop.give(of(2))
        if step == "before the owner's list":
            ring.round(0)
        elif step == "after it":
            owner.take(shop.give(of(1)))


def test_no_party_gives_the_owner_its_own_list_under_another_mask() -> None:
    peers, ring = seated(people(2, common=3), 2)
    ring.agree()
    ring.round(0)
    with pytest.raises(SealError, match="the set of 'owner' is wanted of 'shop', which does not hold it"):
        peers[1].give(of(0))
    peers, ring = seated(people(3, common=3), 2)
    ring.agree()
    owner, shop, _ = peers
    shop.take(owner.give(of(0)))
    passed = shop.give(of(0)).sealed.numpy().tobytes()
    for name in ("shop", "post"):
        for sealed_by, sealed_for in ((name, "owner"), ("owner", name)):
            mine = boxes.Boxes(sealed_for, {sealed_by: owner._keys[name]})
            with pytest.raises(SealError, match="do not open"):
                mine.open(sealed_by, passed, POINTS, 0, 0)


def test_lists_that_are_swapped_replayed_or_come_twice_are_refused() -> None:
    peers, ring = seated(people(4, common=3), 2)
    ring.agree()
    owner, shop, post, mill = peers
    first = owner.give(of(0))
    shop.take(first)
    for receiver in (shop, post, mill):
        with pytest.raises(SealError, match=r"do not open|a second time"):
            receiver.take(first)
    passed = shop.give(of(0))
    own = shop.give(of(1))
    with pytest.raises(SealError, match="do not open"):  # the owner's list for the shop's
        post.take(passed._replace(whose=torch.tensor(1)))
    post.take(passed)
    for whose in (0, 1):  # the shop's list for the owner's, and twice
        post.take(own) if whose else None
        with pytest.raises(SealError, match=r"do not open|a second time"):
            post.take(own._replace(whose=torch.tensor(whose)))
    with pytest.raises(SealError, match="the lists were to be compared before that of"):
        mill.compare()


def test_points_of_an_earlier_alignment_are_no_ids_of_a_later_one() -> None:
    ids = people(2, common=3)
    earlier: Any = brought_round(ids, 4, KeyPerId)[0][0]

    class Replaying(KeyPerId):
        def own(self) -> bytes:
            super().own()
            return b"".join(random.sample(earlier.saw, len(self.ids)))

    peers, ring = brought_round(ids, 1, Replaying)
    with pytest.raises(NoCommonIdError):
        ring.decide()
    assert peers[1].comparison.count == 0


def test_other_parties_points_are_no_ids_of_the_owner() -> None:
    """It hands on the list of one party as that of another, so that an id of two would count for three."""
    ids = [[b"x"], [b"both", b"x"], [b"both", b"y"]]

    class Handing(KeyPerId):
        def foreign(self, points: list[bytes]) -> bytes:
            return b"".join([*reversed(self.saw[:2])][: len(points)])

    _, ring = brought_round(ids, 1, Handing)
    with pytest.raises((NoCommonIdError, SealError)):
        ring.decide()


# What the owner relays


def relayed(monkeypatch: pytest.MonkeyPatch, ids: Ids) -> tuple[list[bytes], dict[str, list[bytes]]]:
    """All lists as the owner relays them, and as their receivers have them."""
    sealed: list[bytes] = []
    opened: dict[str, list[bytes]] = {}
    open_box = boxes.Boxes.open

    def spy(self: Any, sender: str, closed: bytes, what: str, *about: int) -> bytes:
        raw = open_box(self, sender, closed, what, *about)
        if what == POINTS:
            sealed.append(closed)
            opened.setdefault(self._me, []).append(raw)
        return raw

    monkeypatch.setattr(boxes.Boxes, "open", spy)
    brought_round(ids, 2)
    monkeypatch.undo()
    return sealed, opened


def blocks(raw: bytes) -> set[bytes]:
    """Every run of eight bytes."""
    return {raw[at : at + 8] for at in range(len(raw) - 7)}


def test_what_the_owner_relays_cannot_be_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    sealed, opened = relayed(monkeypatch, people(4, common=5))
    assert len(sealed) == 3 * 3 + 4 * 2
    closed = [blocks(one) for one in sealed]
    assert not any(one & other for one, other in combinations(closed, 2))
    inside = set().union(*(blocks(raw) for lists in opened.values() for raw in lists))
    assert not any(one & inside for one in closed)
    compared = [set(split(raw)) for raw in opened["mill"][:3]]
    assert all(one & other for one, other in combinations(compared, 2)), "the control: there would be what to compare"
    for name in ("owner", "shop", "post"):
        lists = [set(split(raw)) for raw in opened[name]]
        assert not any(one & other for one, other in combinations(lists, 2)), "nor can what is in a party's own boxes"


# The proof as a means to try out ids


def wrong_rows() -> tuple[Any, Any, bytes]:
    """An owner that tells the shop one row more of its own choice in place of a common one; and the id of that row."""
    peers, ring = brought_round([[b"ann", b"bob"], [b"ann", b"bob", b"eve"], [b"ann", b"bob"]], 2)
    owner, shop, post = peers
    ring.decide()
    owner.count = 2
    true = owner._opening(1, post.show(of(1)).sealed)  # with three parties it is the last who undoes the shop's shuffle
    told = np.array([true[0], ({0, 1, 2} - set(true.tolist())).pop()])
    shop.keep(owner._boxed(1, told.astype("<i8").tobytes(), PLACES, 1, 0))
    return owner, shop, b"eve"


def tried(of_guess: Callable[[list[bytes]], bool]) -> set[bytes]:
    """Which guesses at the one unknown row are confirmed."""
    names = [b"dan", b"eve", b"fay", b"gus"]
    return {name for name in names for known in (b"ann", b"bob") if of_guess([known, name]) or of_guess([name, known])}


def test_the_proof_does_not_tell_who_is_in_wrong_rows() -> None:
    owner, shop, secret = wrong_rows()
    sizes = dict(zip(shop.terms.names, shop.sizes, strict=True))
    key = owner._keys["shop"]
    held = [shop.ids[row] for row in shop.rows.tolist()]
    assert secret in held

    def plain_mac(ids: list[bytes]) -> bytes:
        return hmac.digest(key, pack("proof", "shop", digest(ids, sizes)), "sha256")

    told = plain_mac(held)  # as it was
    assert tried(lambda ids: hmac.compare_digest(plain_mac(ids), told)) == {secret}, (
        "the control: it could be tried out"
    )

    lock = shop.lock().locks.numpy().tobytes()
    mine = Proof("owner", owner._keys, shop.member.roster + digest([b"ann", b"dan"], sizes))
    locks = [mine.lock, lock, lock]
    macs = shop.prove(Locks(torch.frombuffer(bytearray(b"".join(locks)), dtype=torch.uint8).reshape(3, 32)))
    now = macs.macs[0].numpy().tobytes()

    def confirmed(ids: list[bytes]) -> bool:
        guess = Proof("owner", owner._keys, shop.member.roster + digest(ids, sizes))
        guess._secret = mine._secret
        return now in (guess._mac("shop", "shop", lock), guess._mac("shop", "shop", guess.lock))

    assert not tried(confirmed)
