"""The recoverable sum: exact for whoever survives, and closed to an owner that lies."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import partial

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from scipy.stats import chisquare
from test_keys import Session

from colonnade.errors import SealError
from colonnade.seal.key_agreement import Ticket
from colonnade.seal.recover import PHASES, Advert, RecoverOwner, RecoverParty, Reveal, run
from colonnade.seal.ring import Codes, Ring
from colonnade.seal.secure_sum import Masker
from colonnade.seal.shamir import threshold
from colonnade.seal.subject import Subject
from colonnade.seal.sum_book import SumBook
from colonnade.signatures import Identity

T = Ticket(3, 5, 0, "h")
RING = Ring(32)
SHAPES = [(), (0,), (5,), (2, 3)]


def ends(session: Session, ticket: Ticket = T, ring: Ring = RING) -> tuple[dict[str, RecoverParty], RecoverOwner]:
    member = next(iter(session.members.values()))
    owner = RecoverOwner(member.manifest, member.roster, ticket, ring)
    return {name: RecoverParty(each, ticket, ring) for name, each in session.members.items()}, owner


def draw(rng: np.random.Generator, shape: tuple[int, ...], ring: Ring) -> Codes:
    raw = np.frombuffer(rng.bytes(8 * int(np.prod(shape))), np.uint64) & np.uint64(ring.modulus - 1)
    return (
        [raw, np.zeros_like(raw), np.full_like(raw, ring.modulus - 1)][rng.integers(3)]
        .astype(ring.dtype)
        .reshape(shape)
    )


def plain_sum(codes: Mapping[str, Codes], absent: Mapping[str, str], ring: Ring) -> Codes:
    """Those count whose message came: they fell away after it, if at all."""
    counted = [array for name, array in codes.items() if absent.get(name, "sign") in ("sign", "reveal")]
    return ring.add(counted)


def one_round(session: Session, ticket: Ticket, rng: np.random.Generator) -> None:
    ring, shape = Ring(int(rng.integers(1, 65))), SHAPES[rng.integers(len(SHAPES))]
    parties, owner = ends(session, ticket, ring)
    codes = {name: draw(rng, shape, ring) for name in parties}
    spare = len(parties) - threshold(len(parties))
    gone = rng.permutation(list(parties))[: rng.integers(spare + 1)].tolist()
    absent = {name: PHASES[rng.integers(len(PHASES))] for name in gone}
    opened = run(parties, owner, codes, absent)
    assert opened.shape == shape and np.array_equal(opened, plain_sum(codes, absent, ring))


@pytest.mark.parametrize("parties", [4, 5, 7])
def test_drops_at_any_phase_leave_the_exact_sum(parties: int) -> None:
    session, rng = Session.of([f"p{n}" for n in range(parties)]).join(), np.random.default_rng(parties)
    for serial in range(8):
        one_round(session, Ticket(serial, serial, 0, "h"), rng)


@pytest.mark.long
@pytest.mark.parametrize(("parties", "count"), [(4, 200), (5, 120), (6, 100), (7, 80), (9, 50), (12, 40), (32, 10)])
def test_six_hundred_rounds_with_drops(parties: int, count: int) -> None:
    session, rng = Session.of([f"p{n}" for n in range(parties)]).join(), np.random.default_rng(parties)
    for serial in range(count):
        one_round(session, Ticket(serial, serial, 0, "h"), rng)


@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("name", "abcd")
def test_every_party_in_every_phase(name: str, phase: str) -> None:
    parties, owner = ends(Session.of("abcd").join())
    codes = {party: np.array([1 << index], np.uint32) for index, party in enumerate("abcd")}
    assert run(parties, owner, codes, {name: phase}) == plain_sum(codes, {name: phase}, RING)


@pytest.mark.parametrize("phase", PHASES)
def test_one_too_many_falls_away(phase: str) -> None:
    parties, owner = ends(Session.of("abcd").join())
    with pytest.raises(SealError, match="3 are needed"):
        run(parties, owner, {name: np.zeros(2, np.uint32) for name in parties}, {"a": phase, "b": phase})


@pytest.mark.parametrize("count", [1, 2, 3])
def test_fewer_than_four_parties(count: int) -> None:
    member = Session.of("abc"[:count]).join().members["a"]
    with pytest.raises(SealError, match="4 or more"):
        RecoverParty(member, T, RING)


def test_a_message_is_flat() -> None:
    parties, owner = ends(Session.of("abcd").join())
    adverts = owner.advertise([party.advertise() for party in parties.values()])
    boxes = owner.share({name: party.share(adverts) for name, party in parties.items()})
    seen = parties["a"].mask(boxes["a"], np.full(50_000, 7, np.uint32))
    assert chisquare(np.bincount(seen.view(np.uint8), minlength=256)).pvalue > 1e-8


# An owner that lies: each script is told to five honest parties, and one of them must refuse


class Stage:
    """Five parties and the phases up to a point, so that a script can lie at the next."""

    def __init__(self) -> None:
        self.session = Session.of("abcde").join()
        self.parties, self.owner = ends(self.session)
        self.a = self.parties["a"]

    def adverts(self) -> list[Advert]:
        return [party.advertise() for party in self.parties.values()]

    def boxes(self) -> dict[str, dict[str, bytes]]:
        adverts = self.owner.advertise(self.adverts())
        return self.owner.share({name: party.share(adverts) for name, party in self.parties.items()})

    def masked(self) -> Stage:
        boxes = self.boxes()
        self.owner.mask({name: party.mask(boxes[name], np.ones(2, np.uint32)) for name, party in self.parties.items()})
        return self

    def signed(self, survivors: str) -> dict[str, bytes]:
        self.masked()
        return {name: self.parties[name].sign(tuple(survivors)) for name in survivors}


def swapped_key(stage: Stage) -> None:
    adverts = stage.adverts()
    key = X25519PrivateKey.generate().public_key().public_bytes_raw()
    stage.a.share([adverts[0], adverts[1]._replace(key=key), *adverts[2:]])


def swapped_key_signed_by_the_owner(stage: Stage) -> None:
    adverts = stage.adverts()
    false = adverts[1]._replace(key=X25519PrivateKey.generate().public_key().public_bytes_raw())
    false = false._replace(signature=Identity.new().sign(false.signed(stage.a.roster, T)))
    stage.a.share([adverts[0], false, *adverts[2:]])


def own_key_swapped(stage: Stage) -> None:
    stage.a.share(stage.adverts()[1:])


def advert_of_another_round(stage: Stage) -> None:
    later = {n: RecoverParty(m, Ticket(4, 6, 0, "h"), RING) for n, m in stage.session.members.items()}
    old = stage.adverts()
    later["a"].share([later["a"].advertise(), *old[1:]])


def invented_party(stage: Stage) -> None:
    adverts = stage.adverts()
    stage.a.share([*adverts, adverts[1]._replace(party="mallory")])


def low_order_key(stage: Stage) -> None:
    """Signed by a corrupt party, to make its pair mask known to the owner."""
    adverts = stage.adverts()
    false = adverts[1]._replace(key=bytes(32))
    false = false._replace(signature=stage.session.people["b"].sign(false.signed(stage.a.roster, T)))
    adverts[1] = false
    stage.a.share(adverts)
    boxes = {n: stage.parties[n].membership.encrypt("a", T, bytes(132)) for n in "bcde"}
    stage.a.mask(boxes, np.ones(2, np.uint32))


def too_few_adverts(stage: Stage) -> None:
    stage.a.share(stage.adverts()[:3])


def shares_of_the_wrong_peer(stage: Stage) -> None:
    boxes = stage.boxes()
    stage.a.mask({**boxes["a"], "b": boxes["a"]["c"]}, np.ones(2, np.uint32))


def shares_meant_for_another(stage: Stage) -> None:
    boxes = stage.boxes()
    stage.a.mask({**boxes["a"], "b": boxes["c"]["b"]}, np.ones(2, np.uint32))


def tampered_share(stage: Stage) -> None:
    boxes = stage.boxes()
    box = bytearray(boxes["a"]["b"])
    box[40] ^= 1
    stage.a.mask({**boxes["a"], "b": bytes(box)}, np.ones(2, np.uint32))


def shares_of_a_stranger(stage: Stage) -> None:
    boxes = stage.boxes()
    stage.a.mask({**boxes["a"], "mallory": os.urandom(160)}, np.ones(2, np.uint32))


def too_few_shares(stage: Stage) -> None:
    boxes = stage.boxes()
    stage.a.mask({"b": boxes["a"]["b"]}, np.ones(2, np.uint32))


def a_second_message(stage: Stage) -> None:
    boxes = stage.boxes()
    stage.a.mask(boxes["a"], np.ones(2, np.uint32))
    stage.a.mask(boxes["a"], np.zeros(2, np.uint32))


def survivors_below_threshold(stage: Stage) -> None:
    stage.masked().a.sign(("a", "b", "c"))


def unknown_survivor(stage: Stage) -> None:
    stage.masked().a.sign(("a", "b", "c", "mallory"))


def survivor_named_twice(stage: Stage) -> None:
    stage.masked().a.sign(("a", "b", "c", "c"))


def survivors_in_disorder(stage: Stage) -> None:
    stage.masked().a.sign(("b", "a", "c", "d"))


def without_the_one_who_is_asked(stage: Stage) -> None:
    stage.masked().a.sign(("b", "c", "d", "e"))


def a_second_list(stage: Stage) -> None:
    """Both kinds of shares of e: first as a survivor, then as gone."""
    stage.a.reveal(stage.signed("abcde"))
    stage.a.sign(("a", "b", "c", "d"))


def the_same_list_again(stage: Stage) -> None:
    stage.masked().a.sign(tuple("abcde"))
    stage.a.sign(tuple("abcde"))


def a_second_reveal(stage: Stage) -> None:
    signatures = stage.signed("abcde")
    stage.a.reveal(signatures)
    stage.a.reveal(signatures)


def a_second_list_before_the_reveal(stage: Stage) -> None:
    stage.masked().a.sign(tuple("abcde"))
    stage.a.sign(tuple("abcd"))


def signatures_over_another_list(stage: Stage) -> None:
    """The lists differ between parties: b to e were told that a is gone."""
    stage.masked()
    signatures = {name: stage.parties[name].sign(tuple("bcde")) for name in "bcde"}
    stage.a.sign(tuple("abcde"))
    stage.a.reveal(signatures)


def unsigned_list(stage: Stage) -> None:
    stage.masked().a.reveal({})


def list_signed_by_nobody_else(stage: Stage) -> None:
    stage.masked().a.sign(tuple("abcde"))
    stage.a.reveal({})


def too_few_signatures(stage: Stage) -> None:
    signatures = stage.signed("abcde")
    stage.a.reveal({name: signatures[name] for name in "bc"})


def forged_signature(stage: Stage) -> None:
    stage.a.reveal({**stage.signed("abcde"), "b": bytes(64)})


def one_signature_for_all(stage: Stage) -> None:
    signatures = stage.signed("abcde")
    stage.a.reveal(dict.fromkeys("abcde", signatures["b"]))


def signature_of_one_who_is_gone(stage: Stage) -> None:
    stage.a.reveal({**stage.signed("abcd"), "e": bytes(64)})


def signatures_of_another_round(stage: Stage) -> None:
    old = stage.signed("abcde")
    stage.parties, stage.owner = ends(stage.session, Ticket(4, 6, 0, "h"))
    stage.masked()
    stage.parties["a"].sign(tuple("abcde"))
    stage.parties["a"].reveal(old)


def a_ticket_again(stage: Stage) -> None:
    stage.a.reveal(stage.signed("abcde"))
    RecoverParty(stage.session.members["a"], T, RING)


def an_older_ticket(stage: Stage) -> None:
    RecoverParty(stage.session.members["a"], Ticket(3, 4, 0, "h"), RING)


def the_same_ticket_without_recovery(stage: Stage) -> None:
    Masker(stage.session.members["a"]).mask(T, np.ones(2, np.uint32), RING)


def a_phase_skipped(stage: Stage) -> None:
    stage.a.mask({}, np.ones(2, np.uint32))


def another_attempt_after_the_reveal(stage: Stage) -> None:
    stage.a.reveal(stage.signed("abcd"))
    RecoverParty(stage.session.members["a"], T._replace(attempt=1), RING, stage.a.log)


LIES: dict[Callable[[Stage], None], str] = {
    swapped_key: "advert of 'b' is not valid",
    swapped_key_signed_by_the_owner: "advert of 'b' is not valid",
    own_key_swapped: "'a' is missing or altered",
    advert_of_another_round: "advert of 'b' is not valid",
    invented_party: "mallory",
    low_order_key: "low order",
    too_few_adverts: "4 are needed",
    shares_of_the_wrong_peer: "from 'b' do not open",
    shares_meant_for_another: "from 'b' do not open",
    tampered_share: "from 'b' do not open",
    shares_of_a_stranger: "mallory",
    too_few_shares: "4 are needed",
    a_second_message: "keep the order",
    survivors_below_threshold: "4 are needed",
    unknown_survivor: "mallory",
    survivor_named_twice: "each once",
    survivors_in_disorder: "name order",
    without_the_one_who_is_asked: "lack 'a'",
    a_second_list: "were signed",
    a_second_list_before_the_reveal: "were signed",
    the_same_list_again: "'a' was asked to sign, but comes to 'reveal' next",
    a_second_reveal: "'a' was asked to reveal, but comes to 'the next sum' next",
    signatures_over_another_list: "not valid",
    unsigned_list: "keep the order",
    list_signed_by_nobody_else: "4 are needed",
    too_few_signatures: "4 are needed",
    forged_signature: "by 'b' is not valid",
    one_signature_for_all: "not valid",
    signature_of_one_who_is_gone: "expected some of",
    signatures_of_another_round: "not valid",
    a_ticket_again: "already",
    an_older_ticket: "take the next serial",
    the_same_ticket_without_recovery: "already",
    a_phase_skipped: "keep the order",
    another_attempt_after_the_reveal: "opened already",
}


@pytest.mark.parametrize("lie", LIES, ids=lambda lie: lie.__name__)
def test_lies_of_an_owner(lie: Callable[[Stage], None]) -> None:
    with pytest.raises(SealError, match=LIES[lie]):
        lie(Stage())


def test_no_party_ever_gives_both_kinds_of_shares() -> None:
    stage = Stage()
    signatures = stage.signed("abcd")
    for name in "abcd":
        shares = stage.parties[name].reveal(signatures)
        assert shares.seeds.keys() == set("abcd") and shares.keys.keys() == {"e"}


def test_a_lie_leaves_the_party_ready_for_the_truth() -> None:
    stage = Stage()
    boxes = stage.boxes()
    with pytest.raises(SealError):
        stage.a.mask({**boxes["a"], "b": b""}, np.ones(2, np.uint32))
    stage.owner.mask({name: party.mask(boxes[name], np.ones(2, np.uint32)) for name, party in stage.parties.items()})
    signatures = {name: party.sign(tuple("abcde")) for name, party in stage.parties.items()}
    reveals = {name: party.reveal(signatures) for name, party in stage.parties.items()}
    assert stage.owner.open(reveals).tolist() == [5, 5]


# Parties that lie to the owner


def opened_with(spoil: Callable[[Reveal], Reveal]) -> None:
    """Open with what b reveals spoilt; e fell away with its message unsent."""
    parties, owner = ends(Session.of("abcde").join())
    adverts = owner.advertise([party.advertise() for party in parties.values()])
    boxes = owner.share({name: party.share(adverts) for name, party in parties.items()})
    owner.mask({name: parties[name].mask(boxes[name], np.ones(2, np.uint32)) for name in "abcd"})
    signatures = owner.sign({name: parties[name].sign(owner.announce()) for name in "abcd"})
    reveals = {name: parties[name].reveal(signatures) for name in "abcd"}
    owner.open({**reveals, "b": spoil(reveals["b"])})


def off_by_one(raw: bytes) -> bytes:
    return (int.from_bytes(raw) ^ 1).to_bytes(len(raw))


def test_wrong_shares_never_give_a_wrong_sum() -> None:
    opened_with(lambda reveal: reveal)
    with pytest.raises(SealError, match=r"seed of 'a'|do not join"):
        opened_with(lambda reveal: reveal._replace(seeds={**reveal.seeds, "a": off_by_one(reveal.seeds["a"])}))
    with pytest.raises(SealError, match=r"key of 'e'|do not join"):
        opened_with(lambda reveal: reveal._replace(keys={"e": off_by_one(reveal.keys["e"])}))
    for spoilt in (Reveal({}, {}), Reveal({}, {"e": bytes(66)})):
        with pytest.raises(SealError, match=r"'b' gave shares of the seeds of \[\]; \['a', 'b', 'c', 'd'\] are due"):
            opened_with(lambda reveal, spoilt=spoilt: spoilt)
    with pytest.raises(SealError, match=r"'b' gave shares of the keys of \['a', 'e'\]; \['e'\] are due"):
        opened_with(lambda reveal: reveal._replace(keys={**reveal.keys, "a": bytes(66)}))
    with pytest.raises(SealError, match="'b' gave a share of the seed of 'a' of 3 bytes"):
        opened_with(lambda reveal: reveal._replace(seeds={**reveal.seeds, "a": bytes(3)}))


def test_the_owner_checks_what_it_relays() -> None:
    parties, owner = ends(Session.of("abcd").join())
    adverts = [party.advertise() for party in parties.values()]
    with pytest.raises(SealError, match="advert of 'b'"):
        owner.advertise([adverts[0], adverts[1]._replace(commitment=bytes(32)), *adverts[2:]])
    boxes = {name: party.share(owner.advertise(adverts)) for name, party in parties.items()}
    routed = owner.share(boxes)
    messages = {name: party.mask(routed[name], np.ones(2, np.uint32)) for name, party in parties.items()}
    with pytest.raises(SealError, match="message of 'c' has shape"):
        owner.mask({**messages, "c": np.ones(3, np.uint32)})
    owner.mask(messages)
    with pytest.raises(SealError, match="by 'd' is not valid"):
        owner.sign({**{name: party.sign(owner.announce()) for name, party in parties.items()}, "d": bytes(64)})


def test_a_sum_recovered_without_somebody_is_not_opened_with_it() -> None:
    session, about = Session.of("abcd").join(), Subject("logits", "train", "train", "owner", 3, 0, (1, 2))
    books = {name: SumBook(name, b"job") for name in "abcd"}

    def opened(session: Session, absent: dict[str, str]) -> None:
        member = session.members["a"]
        owner = RecoverOwner(member.manifest, member.roster, T, RING)
        agree = {name: partial(book.agree, about) for name, book in books.items()}
        ends = {name: RecoverParty(one, T, RING, agree=agree[name]) for name, one in session.members.items()}
        run(ends, owner, {name: np.ones(2, np.uint32) for name in "abcd"}, absent)

    opened(session, {"d": "mask"})
    with pytest.raises(SealError, match="for a sum over a, b, c, d of rows that were given to one over a, b, c"):
        opened(session.restart().join(), {})
    opened(session.restart().join(), {"d": "mask"})  # after a crash the same sum may be needed again
