"""The key agreement: honest parties get equal, unique keys; a lying relay gets an error."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from colonnade.errors import SealError
from colonnade.seal.key_agreement import PROTOCOL, Hello, Membership, Ticket, agree, expand, roster_digest
from colonnade.signatures import Identity, pack, verify

T = Ticket(0, 0, 0, "h")
P = 2**255 - 19
LOW_ORDER = [
    0,
    1,
    325606250916557431795983626356110631294008115727848805560023387167927233504,
    39382357235489614581723060781553021112529911719440698176882885853963445705823,
    P - 1,
    P,
    P + 1,
]


@dataclasses.dataclass
class Session:
    """Identities that outlive restarts, and the memberships of one start."""

    people: dict[str, Identity]
    members: dict[str, Membership]

    @classmethod
    def of(cls, names: Sequence[str]) -> Session:
        return cls({name: Identity.new() for name in names}, {}).restart()

    def restart(self, job: bytes = b"job") -> Session:
        manifest = {name: identity.public for name, identity in self.people.items()}
        return Session(self.people, {n: Membership(job, n, who, manifest) for n, who in self.people.items()})

    def hellos(self) -> list[Hello]:
        return [member.hello() for member in self.members.values()]

    def join(self) -> Session:
        hellos = self.hellos()
        signed = {name: member.confirm(hellos) for name, member in self.members.items()}
        for member in self.members.values():
            member.join(signed)
        return self


def test_pairs_agree_and_nobody_else() -> None:
    members = Session.of("dbca").join().members
    assert members["c"].peers == ("a", "b", "d") and members["c"].names == ("a", "b", "c", "d")
    assert len({member.roster for member in members.values()}) == 1
    keys = {(me, peer): members[me].pair_key(peer, T) for me in members for peer in members[me].peers}
    assert all(key == keys[peer, me] and len(key) == 32 for (me, peer), key in keys.items())
    assert len(set(keys.values())) == 6


def test_hkdf_is_hkdf() -> None:
    one, two = X25519PrivateKey.generate(), X25519PrivateKey.generate()
    salt = os.urandom(32)
    reference = HKDF(SHA256(), 32, salt, pack(PROTOCOL, "a", 7)).derive(one.exchange(two.public_key()))
    assert expand(agree(one, two.public_key().public_bytes_raw(), salt, "b"), "a", 7) == reference


def test_packing_is_unambiguous() -> None:
    texts = [("a", "b"), ("ab",), ("", "ab"), ("ab", ""), (b"a", b"b", b""), ("a\0", "b"), (1, "a"), ("a", 1)]
    assert len({pack(*parts) for parts in texts}) == len(texts)


# No key twice


def test_keys_are_unique_over_restarts() -> None:
    """100,800 keys of six parties: rounds, serials, attempts, tensors, pairs; seven starts with the same tickets."""
    session, seen, derived = Session.of("abcdef"), set(), 0
    for _ in range(7):
        members = session.restart().join().members
        for serial in range(60):
            for attempt in range(4):
                for tensor in ("h", "h2", "2h", ""):
                    ticket = Ticket(serial // 3, serial, attempt, tensor)
                    for me, peer in PAIRS:
                        seen.add(members[me].pair_key(peer, ticket))
                        derived += 1
    assert len(seen) == derived == 7 * 60 * 4 * 4 * 15 == 100_800


PAIRS = [(me, peer) for me in "abcdef" for peer in "abcdef" if me < peer]


def test_a_ticket_serves_once_and_time_goes_forward() -> None:
    a = Session.of("abc").join().members["a"]
    for good in (
        T,
        T._replace(tensor="g"),
        T._replace(attempt=2),
        T._replace(attempt=2, tensor="x"),
        Ticket(4, 9, 0, "h"),
    ):
        a.pair_key("b", good)
        a.pair_key("c", good)
        with pytest.raises(SealError, match="already"):
            a.pair_key("b", good)
    for old in (T, Ticket(4, 8, 0, "h"), Ticket(5, 8, 7, "h"), Ticket(5, 9, 0, "h"), Ticket(3, 9, 1, "h")):
        with pytest.raises(SealError, match="take the next serial"):
            a.pair_key("b", old)
    a.pair_key("b", Ticket(0, 10, 0, "h"))


@pytest.mark.parametrize("bad", [Ticket(-1, 0, 0, "h"), Ticket(0, 2**63, 0, "h"), Ticket(0, 0, True, "h")])
def test_tickets_that_are_none(bad: Ticket) -> None:
    with pytest.raises(SealError, match="whole number"):
        Session.of("ab").join().members["a"].pair_key("b", bad)


# A relay that lies


def swapped(session: Session) -> list[Hello]:
    """The man in the middle: b's key replaced by one the relay knows."""
    a, b, c = session.hellos()
    return [a, b._replace(key=X25519PrivateKey.generate().public_key().public_bytes_raw()), c]


def resigned(session: Session) -> list[Hello]:
    a, b, c = session.hellos()
    return [a, b._replace(signature=Identity.new().sign(b.signed(b"job"))), c]


def replaced_own(session: Session) -> list[Hello]:
    _, b, c = session.hellos()
    return [session.restart().members["a"].hello(), b, c]


def of_another_job(session: Session) -> list[Hello]:
    return [session.hellos()[0], *session.restart(b"other").hellos()[1:]]


def renamed(session: Session) -> list[Hello]:
    a, b, c = session.hellos()
    return [a, b._replace(party="c"), c._replace(party="b")]


def same_key(session: Session) -> list[Hello]:
    a, b, c = session.hellos()
    copy = c._replace(key=b.key)
    return [a, b, copy._replace(signature=session.people["c"].sign(copy.signed(b"job")))]


def same_incarnation(session: Session) -> list[Hello]:
    a, b, c = session.hellos()
    copy = c._replace(incarnation=a.incarnation)
    return [a, b, copy._replace(signature=session.people["c"].sign(copy.signed(b"job")))]


LIES: list[tuple[Callable[[Session], list[Hello]], str]] = [
    (swapped, "signature of the hello of 'b'"),
    (resigned, "signature of the hello of 'b'"),
    (replaced_own, "'a' came back altered"),
    (of_another_job, "signature of the hello of 'b'"),
    (renamed, "signature of the hello"),
    (same_key, "same key"),
    (same_incarnation, "same key or incarnation"),
    (lambda session: session.hellos()[:2], "once"),
    (lambda session: [*session.hellos(), session.hellos()[1]], "once"),
    (lambda session: [*session.hellos(), session.hellos()[1]._replace(party="mallory")], "once"),
]


@pytest.mark.parametrize(("lie", "words"), LIES)
def test_lies_about_hellos(lie: Callable[[Session], list[Hello]], words: str) -> None:
    session = Session.of("abc")
    with pytest.raises(SealError, match=words):
        session.members["a"].confirm(lie(session))
    session.join()  # nothing was signed, so the truth is still welcome


@pytest.mark.parametrize("number", LOW_ORDER)
@pytest.mark.parametrize("top", [0, 1 << 255])
def test_low_order_keys_are_refused_even_when_signed(number: int, top: int) -> None:
    refuse_key((number | top).to_bytes(32, "little"), "low order")


@pytest.mark.parametrize("length", [0, 31, 33])
def test_keys_of_the_wrong_length(length: int) -> None:
    refuse_key(bytes(length), "malformed")


def refuse_key(key: bytes, words: str) -> None:
    session = Session.of("ab")
    a, b = session.hellos()
    bad = b._replace(key=key)
    bad = bad._replace(signature=session.people["b"].sign(bad.signed(b"job")))
    with pytest.raises(SealError, match=words):
        session.members["a"].confirm([a, bad])


def test_a_replayed_hello_gets_no_further_than_the_roster() -> None:
    """b's hello of an earlier start is well signed, but nobody can sign a roster with a's fresh incarnation for b."""
    old = Session.of("ab")
    old_b = old.members["b"].hello()
    old_signatures = {name: member.confirm(old.hellos()) for name, member in old.members.items()}
    a = old.restart().members["a"]
    mine = a.confirm([a.hello(), old_b])
    with pytest.raises(SealError, match="roster by 'b'"):
        a.join({"a": mine, "b": old_signatures["b"]})
    with pytest.raises(SealError, match="not joined"):
        a.pair_key("b", T)


def test_a_relay_that_shows_different_rosters() -> None:
    session = Session.of("abc")
    others = session.restart()
    a, b, c = session.hellos()
    one = session.members["a"].confirm([a, b, c])
    two = session.members["b"].confirm([a, b, others.members["c"].hello()])
    three = session.members["c"].confirm([a, b, c])
    with pytest.raises(SealError, match="roster by 'b'"):
        session.members["a"].join({"a": one, "b": two, "c": three})


def test_confirmations_of_others_or_in_disorder() -> None:
    session = Session.of("ab")
    a = session.members["a"]
    with pytest.raises(SealError, match="cannot join now"):
        a.join({})
    signed = {name: member.confirm(session.hellos()) for name, member in session.members.items()}
    for bad in ({"a": signed["a"]}, {**signed, "c": b""}, {}):
        with pytest.raises(SealError, match="once"):
            a.join(bad)
    for forged in (b"", bytes(64), signed["a"]):
        with pytest.raises(SealError, match="not valid"):
            a.join({**signed, "b": forged})
    a.join(signed)
    with pytest.raises(SealError, match="join once"):
        a.join(signed)
    with pytest.raises(SealError, match="already"):
        a.confirm(session.hellos())


def test_manifests_that_do_not_fit() -> None:
    me, other = Identity.new(), Identity.new()
    bad: list[dict[str, bytes]] = [{}, {"b": me.public}, {"a": other.public}, {"a": me.public, "b": me.public}]
    for manifest in [*bad, {"a": me.public, "b": b"short"}]:
        with pytest.raises(SealError, match="manifest"):
            Membership(b"job", "a", me, manifest)


def test_strangers() -> None:
    a = Session.of("ab").join().members["a"]
    for peer in ("a", "c"):
        with pytest.raises(SealError, match="not a peer"):
            a.pair_key(peer, T)


# The channel between two parties


def test_only_the_right_peer_opens_it_for_the_right_ticket() -> None:
    members = Session.of("abc").join().members
    sealed = members["a"].encrypt("b", T, b"share")
    assert members["b"].decrypt("a", T, sealed) == b"share"
    assert members["a"].encrypt("b", T, b"share") != sealed
    later = T._replace(attempt=1)
    tries: list[tuple[str, str, Ticket, bytes]] = [
        ("c", "a", T, sealed),
        ("b", "c", T, sealed),
        ("a", "b", T, sealed),
        ("b", "a", later, sealed),
        ("b", "a", T, sealed[:-1]),
        ("b", "a", T, b""),
        ("b", "a", T, sealed[:20] + bytes([sealed[20] ^ 1]) + sealed[21:]),
    ]
    for me, peer, ticket, text in tries:
        with pytest.raises(SealError, match="do not open"):
            members[me].decrypt(peer, ticket, text)


def test_identities_come_back_and_verify() -> None:
    me = Identity.new()
    again = Identity(me.private())
    assert again.public == me.public and roster_digest(b"j", []) != roster_digest(b"k", [])
    verify(me.public, b"x", again.sign(b"x"))
    bad: list[tuple[Any, ...]] = [
        (me.public, b"y", me.sign(b"x")),
        (b"short", b"x", me.sign(b"x")),
        (me.public, b"x", b""),
    ]
    for case in bad:
        with pytest.raises(SealError, match="not valid"):
            verify(*case)
    with pytest.raises(SealError, match="must be 32"):
        Identity(b"short")


def test_expanding_is_hkdf() -> None:
    """Against the library's own HKDF-Expand, which is ten times slower for one short block."""
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand

    info = ("mask", b"roster", 3, "tensor")
    assert expand(b"s" * 32, *info) == HKDFExpand(SHA256(), 32, pack(PROTOCOL, *info)).derive(b"s" * 32)
