"""Parties and owners that lie: each lie is found out, and the error names who or what."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from colonnade.errors import ColonnadeError, MessageError, PrivacyError, SealError
from colonnade.runtime.setup import local_parties
from colonnade.signatures import Identity
from colonnade.tables.align import align_terms as agreed
from colonnade.tables.align.align_messages import AlignVerdict, Box, Greeting, Locks, Macs, Roster, Signed, WantedPlaces
from colonnade.tables.align.align_sheets import AlignmentGroup, _groups
from colonnade.tables.align.align_terms import AlignTerms
from colonnade.tables.align.alignment_owner import AlignmentOwner
from colonnade.tables.align.alignment_party import PLACES, POINTS, AlignmentParty, shuffle
from colonnade.tables.align.order_proof import digest
from colonnade.wire.ends import Ends
from colonnade.wire.owner_half import OwnerHalf

NAMES = ("owner", "shop", "post")
IDS = [[b"ann", b"bob", b"cid", b"dan"], [b"bob", b"ann", b"eve"], [b"fay", b"ann", b"bob", b"gus", b"hal"]]


def grouped(minimum: int = 1) -> tuple[list[AlignmentGroup], AlignmentOwner]:
    terms = AlignTerms("psi", NAMES, seed=0, minimum=minimum, maximum=None)
    groups = _groups(IDS, terms)
    return groups, AlignmentOwner(
        local_parties([group.name for group in groups], groups, OwnerHalf(Ends()), {0}), terms
    )


def ready() -> AlignmentParty:
    """The shop, after everybody joined."""
    groups, ring = grouped()
    ring.agree()
    return groups[1].peer


def lying(monkeypatch: pytest.MonkeyPatch, step: str, lie: Callable[[Any], Any], who: int = 1) -> AlignmentOwner:
    """An alignment in which one party answers a step with something else than it should."""
    groups, ring = grouped()
    honest = getattr(groups[who].peer, step)
    monkeypatch.setattr(groups[who].peer, step, lambda *message: lie(honest(*message)))
    return ring


def lying_inside(
    monkeypatch: pytest.MonkeyPatch, what: str, lie: Callable[[bytes], bytes], who: int = 1, minimum: int = 1
) -> AlignmentOwner:
    """An alignment in which one party puts something else into its boxes than it should."""
    groups, ring = grouped(minimum)
    peer = groups[who].peer
    join = peer.join

    def joined(signed: Signed) -> None:
        join(signed)
        seal = peer._boxes.seal
        monkeypatch.setattr(
            peer._boxes,
            "seal",
            lambda to, raw, about, *rest: seal(to, lie(raw) if about == what else raw, about, *rest),
        )

    monkeypatch.setattr(peer, "join", joined)
    return ring


def test_honest_parties_have_one_proof() -> None:
    groups, ring = grouped()
    assert ring.run() == 2
    assert len({group.peer.proof for group in groups}) == 1 and len(groups[0].peer.proof) == 64


def sealed_as(change: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[Any], Any]:
    return lambda said: said._replace(sealed=change(said.sealed))


PARTY_LIES: dict[str, tuple[str, Callable[[Any], Any], str]] = {
    "too few points": ("give", sealed_as(lambda one: one[32:]), "by 'shop' came as torch.uint8"),
    "too many points": ("give", sealed_as(lambda one: one.repeat(2)), "by 'shop' came as torch.uint8"),
    "points in lines": ("give", sealed_as(lambda one: one[None]), "by 'shop' came as torch.uint8"),
    "wrong type": ("give", sealed_as(lambda one: one.long()), "by 'shop' came as torch.int64"),
    "altered points": ("give", sealed_as(lambda one: one ^ 1), "the masked ids of 'shop' do not open at 'post'"),
    "of another list": ("give", lambda said: said._replace(whose=said.whose * 0 + 2), "by 'shop' came as of list 2"),
    "of no list": ("give", lambda said: said._replace(whose=said.whose.float()), "by 'shop' came as torch.float"),
    "too few places": ("trace", sealed_as(lambda one: one[8:]), "the places by 'shop' came as"),
    "altered places": ("trace", sealed_as(lambda one: one ^ 1), "the places of 'shop' do not open at 'owner'"),
    "another key": ("greet", lambda said: said._replace(key=said.key ^ 1), "came back altered|is not valid"),
    "another size": ("greet", lambda said: said._replace(rows=said.rows + 1), "'shop' has 4 ids; it has 3"),
    "no size": ("greet", lambda said: said._replace(rows=said.rows * 0), "'shop' announces 0 ids"),
    "a negative size": ("greet", lambda said: said._replace(rows=-said.rows), "'shop' announces -3 ids"),
    "a huge size": ("greet", lambda said: said._replace(rows=said.rows * 10**9), "'shop' announces 3000000000 ids; at"),
    "a short greeting": ("greet", lambda said: said._replace(key=said.key[:, 1:]), "the greeting of 'shop' came as"),
    "a false signature": ("confirm", lambda said: Signed(said.signatures ^ 1), "the roster by 'shop' is not valid"),
    "a short signature": ("confirm", lambda said: Signed(said.signatures[:, 1:]), "signature of 'shop' came as"),
    "a short lock": ("lock", lambda said: Locks(said.locks[:, 1:]), "the lock of 'shop' came as"),
    "a lock of zeros": ("lock", lambda said: Locks(said.locks * 0), "the lock of 'shop' is of low order"),
    "a false lock": ("lock", lambda said: Locks(said.locks ^ 4), "'shop' has other rows than 'owner'"),
    "a false proof": ("prove", lambda said: Macs(said.macs ^ 1), "'shop' has other rows than 'owner'"),
    "a short proof": ("prove", lambda said: Macs(said.macs[:1]), "the proof of 'shop' came as"),
}


@pytest.mark.parametrize("name", PARTY_LIES)
def test_a_lying_party_is_found_out(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    step, lie, words = PARTY_LIES[name]
    with pytest.raises(ColonnadeError, match=words):
        lying(monkeypatch, step, lie).run()


def as_places(change: Callable[[np.ndarray], np.ndarray]) -> Callable[[bytes], bytes]:
    return lambda raw: change(np.frombuffer(raw, "<i8")).astype("<i8").tobytes()


BOXED_LIES: dict[str, tuple[str, Callable[[bytes], bytes], int, str]] = {
    "zeros": (POINTS, lambda raw: bytes(len(raw)), 1, "the set of '.*' holds a point of low order"),
    "one point twice": (POINTS, lambda raw: raw[:32] * (len(raw) // 32), 1, "the set of '.*' holds an id twice"),
    "places out of range": (PLACES, as_places(lambda one: one + 9), 1, "'shop' gave places from"),
    "negative places": (PLACES, as_places(lambda one: -1 - one), 1, "'shop' gave places from -"),
    "one place twice": (PLACES, as_places(lambda one: one * 0), 1, "'shop' gave the same place twice"),
    "other places": (
        PLACES,
        as_places(lambda one: np.array([one[0], min({0, 1, 2, 3} - {*one})])),
        1,
        "has other rows than",
    ),
    "places of the comparer out of range": (PLACES, as_places(lambda one: one + 9), 2, "'post' gave places from"),
    "a place of the comparer twice": (PLACES, as_places(lambda one: one * 0), 2, "'post' gave the same place twice"),
    "too few places of the comparer": (PLACES, lambda raw: raw[8:], 2, "places .* by 'post' came as"),
    "no places of the comparer": (PLACES, lambda raw: b"", 2, "'post' gave places in 28 bytes; from 1 to 3 ids"),
    "too many places of the comparer": (PLACES, lambda raw: raw * 9, 2, "'post' gave places in 172 bytes"),
    "a count of the comparer that is none": ("words", lambda raw: bytes(8), 2, "'post' wants to open 0 common ids"),
    "a count that is too large": ("words", lambda raw: b"\1" * 8, 2, "'post' counts .* where a set has 3"),
}


@pytest.mark.parametrize("name", BOXED_LIES)
def test_a_party_that_lies_in_its_boxes_is_found_out(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    what, lie, who, words = BOXED_LIES[name]
    with pytest.raises(ColonnadeError, match=words):
        lying_inside(monkeypatch, what, lie, who).run()


@pytest.mark.parametrize("lie", [lambda one: one[:2], lambda one: one[:, 1:], lambda one: one.long()])
def test_a_verdict_of_another_shape_names_the_comparer(lie: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(MessageError, match="the verdict of 'post' came as"):
        lying(monkeypatch, "compare", lambda said: AlignVerdict(lie(said.sealed)), who=2).run()


def test_a_party_in_another_order_is_found_by_all(monkeypatch: pytest.MonkeyPatch) -> None:
    groups, ring = grouped()
    keep = groups[2].peer.keep

    def reversed_rows(came: Box) -> None:
        keep(came)
        groups[2].peer.rows = groups[2].peer.rows[::-1].copy()

    monkeypatch.setattr(groups[2].peer, "keep", reversed_rows)
    with pytest.raises(SealError, match="'post' has other rows than 'owner', or in another order"):
        ring.run()


# The owner, or whoever speaks for it


def of(whose: int) -> torch.Tensor:
    return torch.tensor(whose)


def box(whose: int, size: int) -> Box:
    return Box(of(whose), torch.full((size,), 9, dtype=torch.uint8))


def test_a_set_is_masked_once_and_only_at_its_size() -> None:
    groups, ring = grouped()
    ring.agree()
    owner, shop, post = (group.peer for group in groups)
    for size in (3 * 32 + 28, 5 * 32 + 28, 0):
        with pytest.raises(MessageError, match="the set of 'owner' by 'owner' came as"):
            shop.take(box(0, size))
    sent = owner.give(WantedPlaces(of(0), of(0)))
    shop.take(sent)
    with pytest.raises(SealError, match="the set of 'owner' came to 'shop' a second time"):
        shop.take(sent)
    with pytest.raises(SealError, match="the set of 'shop' came to 'shop' a second time"):
        shop.take(box(1, 3 * 32 + 28))
    passed = shop.give(WantedPlaces(of(0), of(0)))
    with pytest.raises(SealError, match="the set of 'owner' is wanted of 'shop', which does not hold it"):
        shop.give(WantedPlaces(of(0), of(0)))
    with pytest.raises(SealError, match="the set of 'post' is wanted of 'shop', which does not hold it"):
        shop.give(WantedPlaces(of(2), of(0)))
    post.take(passed)
    with pytest.raises(SealError, match="the set of 'owner' came to 'post' a second time"):
        post.take(passed)


def test_sets_and_parts_that_do_not_exist() -> None:
    shop = ready()
    for whose in (of(3), of(-1)):
        with pytest.raises(MessageError, match="the number of a list came as"):
            shop.give(WantedPlaces(whose, of(0)))
    with pytest.raises(MessageError, match="the number of a list came as"):
        shop.take(Box(torch.tensor([0]), torch.zeros(4, dtype=torch.uint8)))
    groups, ring = grouped()
    ring.agree()
    with pytest.raises(MessageError, match="the start of a part came as 4; it goes from 0 to 3"):
        groups[0].peer.give(WantedPlaces(of(0), of(4)))


def test_places_are_looked_up_once_and_never_for_others() -> None:
    groups, ring = grouped()
    ring.agree()
    for whose in ring.terms.lists:
        ring.round(whose)
    shop, post = groups[1].peer, groups[2].peer
    with pytest.raises(SealError, match="was asked to tell its own rows"):
        shop.trace(box(1, 8))
    with pytest.raises(SealError, match="was told the rows of 'owner'"):
        shop.keep(box(0, 8))
    with pytest.raises(SealError, match="can be looked up once, after the comparer found enough"):
        shop.trace(box(0, 8))
    with pytest.raises(SealError, match="places were wanted of 'post', which has none to show"):
        post.show(WantedPlaces(of(0), of(0)))
    with pytest.raises(SealError, match="'shop' was asked to compare, which the comparer does"):
        shop.compare()
    ring.decide()
    places = post.show(WantedPlaces(of(0), of(0)))
    shop.trace(places)
    with pytest.raises(SealError, match="can be looked up once"):
        shop.trace(places)
    with pytest.raises(SealError, match="'post' was asked to compare, which the comparer does, and once"):
        post.compare()
    with pytest.raises(MessageError, match="the places in the set of 'shop' by 'owner' came as"):
        shop.keep(box(1, 8))
    with pytest.raises(SealError, match="the places of 'owner' do not open at 'shop'"):
        shop.keep(box(1, 2 * 8 + 28))


def test_a_party_opens_nothing_before_the_comparer_found_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agreed, "TRIED", 8)
    groups, ring = grouped(minimum=3)
    ring.agree()
    for whose in ring.terms.lists:
        ring.round(whose)
    with pytest.raises(PrivacyError, match=r"fewer than minimum=3 ids are common .* told which, nor how many"):
        ring.decide()
    with pytest.raises(SealError, match="which has none to show"):
        groups[2].peer.show(WantedPlaces(of(0), of(0)))
    forged = AlignVerdict(torch.zeros(3, 36, dtype=torch.uint8))
    with pytest.raises(SealError, match="the words of 'post' do not open at 'shop'"):
        groups[1].peer.hear(forged)
    assert not any(len(group.peer.rows) for group in groups)


def test_no_proof_before_the_rows_are_known() -> None:
    shop = ready()
    with pytest.raises(SealError, match="to prove its rows before it was told them"):
        shop.lock()
    with pytest.raises(SealError, match="after it showed its lock"):
        shop.prove(Locks(torch.zeros(3, 32, dtype=torch.uint8)))
    with pytest.raises(SealError, match="was asked to check proofs before it gave its own"):
        shop.verify(Macs(torch.zeros(3, 3, 32, dtype=torch.uint8)))


def test_nothing_is_given_before_everybody_signed() -> None:
    groups, _ = grouped()
    for ask in (
        lambda peer: peer.give(WantedPlaces(of(1), of(0))),
        lambda peer: peer.take(box(0, 4 * 32 + 28)),
        lambda peer: peer.keep(box(1, 8)),
        lambda peer: peer.compare(),
        lambda peer: peer.hear(AlignVerdict(torch.zeros(3, 36, dtype=torch.uint8))),
        lambda peer: peer.show(WantedPlaces(of(1), of(0))),
    ):
        with pytest.raises(SealError, match="before everybody signed who takes part"):
            ask(groups[1].peer)


def test_in_plain_mode_no_list_comes_to_a_party() -> None:
    terms = AlignTerms("plain", NAMES, seed=0, minimum=1, maximum=None)
    groups = _groups(IDS, terms)
    AlignmentOwner(local_parties([group.name for group in groups], groups, OwnerHalf(Ends()), {0}), terms).agree()
    with pytest.raises(SealError, match="the set of 'post' does not come to 'shop'"):
        groups[1].peer.take(box(2, 5 * 32 + 28))
    with pytest.raises(SealError, match="the set of 'owner' is wanted of 'owner', which does not hold it"):
        groups[0].peer.give(WantedPlaces(of(0), of(0)))


def test_an_owner_that_shows_parties_different_rosters_is_found_out() -> None:
    groups, _ = grouped()
    greetings = [group.peer.greet() for group in groups]
    roster = Roster(*(torch.cat(parts) for parts in zip(*greetings, strict=True)))
    stranger = AlignmentParty(
        AlignTerms("psi", NAMES, 0, 1, None), 2, IDS[2], identity := Identity.new(), {"post": identity.public}
    ).greet()
    other = Roster(*(torch.cat([*parts[:2], new]) for *parts, new in zip(*greetings[:2], stranger, strict=True)))
    groups[0].peer.confirm(roster)
    with pytest.raises(SealError, match="the hello of 'post' is not valid"):
        groups[1].peer.confirm(other)


def test_parties_that_agreed_on_other_terms_do_not_start() -> None:
    groups, ring = grouped()
    groups[1].peer.member.job = AlignTerms("psi", NAMES, seed=1, minimum=1, maximum=None).job
    with pytest.raises(SealError, match="is not valid"):
        ring.run()


def test_greetings_of_too_few_parties() -> None:
    shop = grouped()[0][1].peer
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
