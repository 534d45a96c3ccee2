"""Parties and owners that lie: each lie is found out, and the error names who or what."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from colonnade.align.messages import Greeting, Macs, Places, Points, Roster, Signed, Wanted
from colonnade.align.peer import Peer, Terms, shuffle
from colonnade.align.proof import digest
from colonnade.align.ring import Ring
from colonnade.alignment import Seat, _seats
from colonnade.channel import Channel
from colonnade.errors import ColonnadeError, MessageError, PrivacyError, SealError
from colonnade.runtime import InProcess
from colonnade.seal.keys import Identity

NAMES = ("owner", "shop", "post")
IDS = [[b"ann", b"bob", b"cid", b"dan"], [b"bob", b"ann", b"eve"], [b"fay", b"ann", b"bob", b"gus", b"hal"]]


def seated(minimum: int = 1) -> tuple[list[Seat], Ring]:
    terms = Terms("psi", NAMES, seed=0, minimum=minimum, maximum=None)
    seats = _seats(IDS, terms)
    return seats, Ring(InProcess(seats, seats, Channel(), owner_is_first=True), terms)


def ready() -> Peer:
    """The shop, after everybody joined."""
    seats, ring = seated()
    ring.agree()
    return seats[1].peer


def lying(monkeypatch: pytest.MonkeyPatch, step: str, lie: Callable[[Any], Any], who: int = 1) -> Ring:
    """An alignment in which one party answers a step with something else than it should."""
    seats, ring = seated()
    honest = getattr(seats[who].peer, step)
    monkeypatch.setattr(seats[who].peer, step, lambda *message: lie(honest(*message)))
    return ring


def test_honest_parties_have_one_proof() -> None:
    seats, ring = seated()
    assert ring.run() == 2
    assert len({seat.peer.proof for seat in seats}) == 1 and len(seats[0].peer.proof) == 64


PARTY_LIES: dict[str, tuple[str, Callable[[Any], Any], str]] = {
    "too few points": ("give", lambda said: said._replace(points=said.points[1:]), "by 'shop' came as torch.uint8"),
    "short points": ("give", lambda said: said._replace(points=said.points[:, 1:]), "by 'shop' came as torch.uint8"),
    "wrong type": ("give", lambda said: said._replace(points=said.points.long()), "by 'shop' came as torch.int64"),
    "zeros": ("give", lambda said: said._replace(points=said.points * 0), "holds a point of low order"),
    "one point twice": (
        "give",
        lambda said: said._replace(points=said.points[:1].expand_as(said.points).contiguous()),
        "holds an id twice",
    ),
    "places out of range": ("trace", lambda said: said._replace(places=said.places + 9), "'shop' gave places from"),
    "negative places": ("trace", lambda said: said._replace(places=-1 - said.places), "'shop' gave places from -"),
    "one place twice": ("trace", lambda said: said._replace(places=said.places * 0), "'shop' gave the same place"),
    "too few places": ("trace", lambda said: said._replace(places=said.places[1:]), "places by 'shop' came as"),
    "another key": ("greet", lambda said: said._replace(key=said.key ^ 1), "came back altered|is not valid"),
    "another size": ("greet", lambda said: said._replace(rows=said.rows + 1), "'shop' has 4 ids; it has 3"),
    "no size": ("greet", lambda said: said._replace(rows=said.rows * 0), "'shop' announces 0 ids|it has 3"),
    "a short greeting": ("greet", lambda said: said._replace(key=said.key[:, 1:]), "the greeting of 'shop' came as"),
    "a false signature": ("confirm", lambda said: Signed(said.signatures ^ 1), "the roster by 'shop' is not valid"),
    "a short signature": ("confirm", lambda said: Signed(said.signatures[:, 1:]), "signature of 'shop' came as"),
    "a false proof": ("prove", lambda said: Macs(said.macs ^ 1), "'shop' has other rows than 'owner'"),
    "a short proof": ("prove", lambda said: Macs(said.macs[:1]), "the proof of 'shop' came as"),
}


@pytest.mark.parametrize("name", PARTY_LIES)
def test_a_lying_party_is_found_out(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    step, lie, words = PARTY_LIES[name]
    with pytest.raises(ColonnadeError, match=words):
        lying(monkeypatch, step, lie).run()


def test_a_party_that_mixes_up_places_breaks_the_proof(monkeypatch: pytest.MonkeyPatch) -> None:
    ring = lying(monkeypatch, "trace", lambda said: said._replace(places=(said.places + 1) % len(IDS[said.whose])))
    with pytest.raises(SealError, match="has other rows than"):
        ring.run()


def test_a_party_in_another_order_is_found_by_all(monkeypatch: pytest.MonkeyPatch) -> None:
    seats, ring = seated()
    keep = seats[2].peer.keep

    def reversed_rows(came: Places) -> None:
        keep(came)
        seats[2].peer.rows = seats[2].peer.rows[::-1].copy()

    monkeypatch.setattr(seats[2].peer, "keep", reversed_rows)
    with pytest.raises(SealError, match="'post' has other rows than 'owner', or in another order"):
        ring.run()


# The owner, or whoever speaks for it


def of(whose: int) -> torch.Tensor:
    return torch.tensor(whose)


def points(rows: int) -> torch.Tensor:
    return torch.full((rows, 32), 9, dtype=torch.uint8)


def test_a_set_is_masked_once_and_only_at_its_size() -> None:
    shop = ready()
    for rows in (3, 5, 0):
        with pytest.raises(MessageError, match="the set of 'owner' came as"):
            shop.take(Points(of(0), points(rows)))
    shop.take(Points(of(0), points(4)))
    with pytest.raises(SealError, match="the set of 'owner' came to 'shop' a second time"):
        shop.take(Points(of(0), points(4)))
    with pytest.raises(SealError, match="the set of 'shop' came to 'shop' a second time"):
        shop.take(Points(of(1), points(3)))
    assert shop.give(Wanted(of(0), of(0))).points.shape == (4, 32)
    with pytest.raises(SealError, match="the set of 'owner' is wanted of 'shop', which does not hold it"):
        shop.give(Wanted(of(0), of(0)))
    with pytest.raises(SealError, match="the set of 'post' is wanted of 'shop', which does not hold it"):
        shop.give(Wanted(of(2), of(0)))


def test_sets_and_parts_that_do_not_exist() -> None:
    shop = ready()
    for whose in (of(3), of(-1)):
        with pytest.raises(MessageError, match="the number of a set came as"):
            shop.give(Wanted(whose, of(0)))
    with pytest.raises(MessageError, match="the start of a part came as 3; it goes from 0 to 2"):
        shop.give(Wanted(of(1), of(3)))
    with pytest.raises(MessageError, match="the number of a set came as"):
        shop.take(Points(torch.tensor([0]), points(4)))


def test_places_are_looked_up_once_and_never_for_others() -> None:
    shop = ready()
    with pytest.raises(SealError, match="was asked to tell its own rows"):
        shop.trace(Places(of(1), torch.tensor([0])))
    with pytest.raises(SealError, match="was told the rows of 'owner'"):
        shop.keep(Places(of(0), torch.tensor([0])))
    with pytest.raises(SealError, match="can be looked up once, after its set came"):
        shop.trace(Places(of(0), torch.tensor([0])))
    for wrong, words in (([0, 3], "places from 0 to 3"), ([1, 1], "same place twice"), ([0.5], "came as")):
        with pytest.raises(MessageError, match=words):
            shop.keep(Places(of(1), torch.tensor(wrong)))
    shop.keep(Places(of(1), torch.tensor([0, 2])))
    with pytest.raises(SealError, match="can be looked up once"):
        shop.keep(Places(of(1), torch.tensor([1])))


def test_all_sets_are_opened_for_as_many_ids() -> None:
    shop = ready()
    shop.take(Points(of(0), points(4)))
    shop.keep(Places(of(1), torch.tensor([0, 2])))
    with pytest.raises(SealError, match="the owner opens 3 ids of 'owner' and another number of an earlier set"):
        shop.trace(Places(of(0), torch.tensor([0, 1, 2])))
    assert len(shop.trace(Places(of(0), torch.tensor([3, 1]))).places) == 2


def test_a_party_refuses_to_open_fewer_than_the_minimum() -> None:
    seats, ring = seated(minimum=2)
    ring.agree()
    for count in (0, 1):
        with pytest.raises(PrivacyError, match=f"wants to open {count} common ids and minimum=2"):
            seats[1].peer.keep(Places(of(1), torch.arange(count)))
    assert len(seats[1].peer.rows) == 0


def test_no_proof_before_the_rows_are_known() -> None:
    shop = ready()
    for ask in (lambda: shop.prove(), lambda: shop.verify(Macs(torch.zeros(3, 3, 32, dtype=torch.uint8)))):
        with pytest.raises(SealError, match="to prove its rows before it was told them"):
            ask()


def test_nothing_is_given_before_everybody_signed() -> None:
    seats, _ = seated()
    for ask in (
        lambda peer: peer.give(Wanted(of(1), of(0))),
        lambda peer: peer.take(Points(of(0), points(4))),
        lambda peer: peer.keep(Places(of(1), torch.tensor([0]))),
    ):
        with pytest.raises(SealError, match="before everybody signed who takes part"):
            ask(seats[1].peer)


def test_an_owner_that_shows_parties_different_rosters_is_found_out() -> None:
    seats, _ = seated()
    greetings = [seat.peer.greet() for seat in seats]
    roster = Roster(*(torch.cat(parts) for parts in zip(*greetings, strict=True)))
    stranger = Peer(
        Terms("psi", NAMES, 0, 1, None), 2, IDS[2], identity := Identity.new(), {"post": identity.public}
    ).greet()
    other = Roster(*(torch.cat([*parts[:2], new]) for *parts, new in zip(*greetings[:2], stranger, strict=True)))
    seats[0].peer.confirm(roster)
    with pytest.raises(SealError, match="the hello of 'post' is not valid"):
        seats[1].peer.confirm(other)


def test_parties_that_agreed_on_other_terms_do_not_start() -> None:
    seats, ring = seated()
    seats[1].peer.member.job = Terms("psi", NAMES, seed=1, minimum=1, maximum=None).job
    with pytest.raises(SealError, match="is not valid"):
        ring.run()


def test_greetings_of_too_few_parties() -> None:
    shop = seated()[0][1].peer
    one: Greeting = shop.greet()
    with pytest.raises(MessageError, match="the greetings of all parties came as"):
        shop.confirm(Roster(*one))


def test_orders_are_random_permutations() -> None:
    orders = {tuple(shuffle(4).tolist()) for _ in range(400)}
    assert len(orders) == 24 and all(sorted(one) == [0, 1, 2, 3] for one in orders)


def test_what_is_proved_tells_ids_apart() -> None:
    sizes = {"owner": 2, "shop": 2}
    proofs = {digest(ids, sizes) for ids in ([b"ab", b"c"], [b"a", b"bc"], [b"c", b"ab"], [b"abc"])}
    assert len(proofs | {digest([b"ab", b"c"], {"owner": 2, "shop": 3})}) == 5
