"""An owner that lies in an alignment: it learns nothing of fewer common ids than the minimum, and opens none.

The controls show each attack at work where what stops it is missing: in the arrangement of before, in which the owner
compared; without the trial of the comparer's list; with a plain MAC as the proof.
"""

from __future__ import annotations

import hmac
import random
import secrets
from collections.abc import Callable, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from colonnade.align import box as boxes
from colonnade.align import terms as agreed
from colonnade.align.curve import CurveMask, elligator, multiply
from colonnade.align.messages import Box, Locks, Verdict, Wanted
from colonnade.align.peer import PLACES, POINTS, Peer, Terms
from colonnade.align.proof import Proof, digest
from colonnade.align.ring import Ring
from colonnade.alignment import Seat
from colonnade.channel import Channel
from colonnade.errors import ColonnadeError, NoCommonIdError, PrivacyError, SealError
from colonnade.federation import host as hosts
from colonnade.runtime import InProcess
from colonnade.seal.keys import Identity, pack
from near import Sides, make_sides

NAMES = ("owner", "shop", "post", "mill")
Ids = list[list[bytes]]


def people(parties: int, common: int, own: int = 6) -> Ids:
    shared = [b"common %d" % k for k in range(common)]
    return [[*shared, *(b"%d only %d" % (party, k) for k in range(own))] for party in range(parties)]


def split(points: bytes) -> list[bytes]:
    return [points[at : at + 32] for at in range(0, len(points), 32)]


class Liar(Peer):
    """An owner with real keys that masks as it likes, and keeps all that it can open."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.saw: list[bytes] = []

    def bare(self, ids: Sequence[bytes]) -> list[bytes]:
        """The points of ids under no mask."""
        return split(elligator([CurveMask(self.member.roster)._digest(one) for one in ids]))

    def own(self) -> bytes:
        """The list that it says is of its own ids."""
        raise NotImplementedError

    def foreign(self, points: list[bytes]) -> bytes:
        """What it makes of a list that came to it."""
        raise NotImplementedError

    def give(self, wanted: Wanted) -> Box:
        whose = int(wanted.whose)
        if whose == 0:
            return self._boxed(self.terms.after(0, 0), self.own(), POINTS, 0, 0)
        came = split(self._came[whose][0].numpy().tobytes())
        self.saw += came
        return self._boxed(self.terms.after(whose, 0), self.foreign(came), POINTS, whose, 0)


class KeyPerId(Liar):
    """The attack on the alignment of before: every id under a key of its own."""

    def own(self) -> bytes:
        self.each = [secrets.token_bytes(32) for _ in self.ids]
        return b"".join(multiply(key, one, "me") for key, one in zip(self.each, self.bare(self.ids), strict=True))

    def foreign(self, points: list[bytes]) -> bytes:
        return b"".join(multiply(random.choice(self.each), one, "me") for one in points)


class ManyTimes(Liar):
    """Lets some entries of others count three times: three keys for each id, three answers for each such entry."""

    def own(self) -> bytes:
        self.three = [secrets.token_bytes(32) for _ in range(3)]
        real = self.bare(self.ids[: len(self.ids) // 3])
        return b"".join(multiply(key, one, "me") for one in real for key in self.three)

    def foreign(self, points: list[bytes]) -> bytes:
        chosen = random.sample(points, -(-len(points) // 3))
        return b"".join([multiply(key, one, "me") for one in chosen for key in self.three][: len(points)])


def seated(ids: Ids, minimum: int, owner: type[Peer] = Peer) -> tuple[list[Any], Ring]:
    terms = Terms("psi", NAMES[: len(ids)], seed=0, minimum=minimum, maximum=None)
    identities = {name: Identity.new() for name in terms.names}
    keys = {name: identity.public for name, identity in identities.items()}
    kinds = [owner, *[Peer] * (len(ids) - 1)]
    peers = [
        kind(terms, place, own, identities[name], keys)
        for place, (kind, name, own) in enumerate(zip(kinds, terms.names, ids, strict=True))
    ]
    seats = [Seat(place, peer) for place, peer in enumerate(peers)]
    return peers, Ring(InProcess(seats, seats, Channel(), owner_is_first=True), terms)


def brought_round(ids: Ids, minimum: int, owner: type[Peer] = Peer) -> tuple[list[Any], Ring]:
    """An alignment up to the comparison."""
    peers, ring = seated(ids, minimum, owner)
    ring.agree()
    for whose in ring.terms.lists:
        ring.round(whose)
    return peers, ring


@pytest.fixture(autouse=True)
def short_trials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agreed, "TRIED", 128)


# (1) One key per id


def found_by(keys: list[bytes], masked: list[bytes], others: list[bytes]) -> set[int]:
    """For which of its keys an owner sees one of its ids, masked by a party, among that party's ids under its key."""
    seen = set(masked)
    return {i for i, key in enumerate(keys) for one in others if multiply(key, one, "me") in seen}


def test_control_an_owner_that_compares_reads_ids_by_a_key_of_each() -> None:
    """As it was: the party gives back the owner's list under its mask, and its own list under its mask."""
    mine, theirs = people(2, common=3)
    party = CurveMask(b"salt")
    bare = split(elligator([party._digest(one) for one in mine]))
    keys = [secrets.token_bytes(32) for _ in mine]
    back = party.again(b"".join(multiply(key, one, "me") for key, one in zip(keys, bare, strict=True)), "owner")
    assert found_by(keys, split(back), split(party.own(theirs))) == {0, 1, 2}, "whatever the minimum"


@pytest.mark.parametrize("parties", [2, 3, 4])
def test_a_key_per_id_shows_nothing_below_the_minimum(parties: int) -> None:
    peers, ring = brought_round(people(parties, common=3), 4, KeyPerId)
    owner = peers[0]
    with pytest.raises((PrivacyError, SealError)) as refused:
        ring.decide()
    assert not any(one.decode() in str(refused.value) for peer in peers for one in peer.ids)
    assert len(owner.saw) >= 9 and not found_by(owner.each, owner.saw, owner.saw)
    assert not any(len(peer.rows) or peer.count for peer in peers)


def test_a_refusal_is_one_bit() -> None:
    """An owner that brings one true id among made-up ones does not hear whether the party has it."""
    said = []
    for common in (0, 1, 3):
        _, ring = brought_round(people(2, common), 4)
        with pytest.raises(PrivacyError) as refused:
            ring.decide()
        said.append(str(refused.value))
    assert len(set(said)) == 1


# One id that counts several times


def forged(times: int) -> tuple[list[Exception | None], list[int]]:
    """What came of some attacks: ten of a party's twelve ids are common, and eleven are the minimum."""
    came: list[Exception | None] = []
    counts = []
    for _ in range(times):
        shared = [b"common %d" % k for k in range(10)]
        peers, ring = brought_round(
            [shared + [b"filler %d" % k for k in range(20)], [*shared, b"a", b"b"]], 11, ManyTimes
        )
        try:
            ring.decide()
            came.append(None)
        except ColonnadeError as error:
            came.append(error)
        counts.append(peers[1].comparison.count)
    return came, counts


def test_control_without_the_trial_ids_count_several_times(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Terms, "trial", property(lambda self: None))
    came, counts = forged(40)
    assert None in came and max(counts) == 12, "four common ids, three times each"


def test_no_id_counts_twice() -> None:
    came, counts = forged(10)
    assert all(isinstance(error, SealError) and "came back otherwise the second time" in str(error) for error in came)
    assert counts == [None] * 10, "the comparer did not even count"


def test_who_guesses_passes_the_trial_once_in_as_many_times_as_it_has_entries(monkeypatch: pytest.MonkeyPatch) -> None:
    """The best that is left: all answers from one entry, and a guess which one that is the second time."""
    monkeypatch.setattr(agreed, "TRIED", 4)

    class OneEntry(ManyTimes):
        def foreign(self, points: list[bytes]) -> bytes:
            self.many = getattr(self, "many", [secrets.token_bytes(32) for _ in points])
            return b"".join(multiply(key, points[0], "me") for key in self.many)

    passed = 0
    for _ in range(40):
        _, ring = brought_round([[b"x", b"y", b"z"], [b"other"]], 2, OneEntry)
        with pytest.raises((SealError, PrivacyError)) as refused:
            ring.decide()
        passed += refused.type is PrivacyError
    assert 1 <= passed <= 24, "ten of forty are expected"


# (2) Steps left out, in another order, or twice


def of(whose: int, start: int = 0) -> Wanted:
    return Wanted(torch.tensor(whose), torch.tensor(start))


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


# (3) Whoever asks


@pytest.mark.parametrize("parties", [2, 3, 4])
def test_a_count_below_the_minimum_is_never_opened(parties: int) -> None:
    peers, ring = brought_round(people(parties, common=3), 4)
    comparer = peers[-1]
    with pytest.raises(PrivacyError, match=r"fewer than minimum=4 ids .* nobody was told which, nor how many"):
        ring.decide()
    junk = torch.zeros(3 * 8 + boxes.OVER, dtype=torch.uint8)
    for whose in range(parties):
        with pytest.raises(SealError, match="which has none to show"):
            comparer.show(of(whose))
        for peer in peers:
            for ask in (peer.trace, peer.keep):
                with pytest.raises(ColonnadeError):
                    ask(Box(torch.tensor(whose), junk))
    for peer in peers[:-1]:
        with pytest.raises(SealError, match="do not open"):
            peer.hear(Verdict(torch.zeros(parties, 36, dtype=torch.uint8)))
    for peer in peers:
        with pytest.raises(SealError, match="before it was told them"):
            peer.lock()
    assert not any(len(peer.rows) or peer.count for peer in peers)


def test_the_owner_cannot_speak_for_the_comparer() -> None:
    """Not even with the keys that it has: a verdict and places open only if the comparer sealed them."""
    owner, shop, _ = brought_round(people(3, common=3), 4)[0]
    lines = [owner._boxes.seal(name, (4).to_bytes(8), "words") for name in ("shop", "shop", "post")]
    told = Verdict(torch.frombuffer(bytearray(b"".join(lines)), dtype=torch.uint8).reshape(3, 36))
    with pytest.raises(SealError, match="the words of 'post' do not open at 'shop'"):
        shop.hear(told)
    places = owner._boxes.seal("shop", np.arange(4).tobytes(), PLACES, 1, 0)
    with pytest.raises(SealError, match="after the comparer found enough"):
        shop.keep(Box(torch.tensor(1), torch.frombuffer(bytearray(places), dtype=torch.uint8)))


def test_enough_are_opened() -> None:
    for parties in (2, 3, 4):
        peers, ring = seated(people(parties, common=4), 4)
        assert ring.run() == 4 and len({peer.proof for peer in peers}) == 1


# (4) What the owner relays


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


# With real letters


def test_a_lying_host_gets_nothing_from_guests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_sides(tmp_path)
    liars: list[KeyPerId] = []

    def lying(*given: Any) -> KeyPerId:
        liars.append(KeyPerId(*given))
        return liars[-1]

    monkeypatch.setattr(hosts, "Peer", lying)
    sides = Sides(tmp_path)
    for name, other in (("shop", "mill"), ("mill", "shop")):
        paper = tmp_path / name / "party.toml"
        paper.write_text(f'{paper.read_text()}\n[peers]\n{other} = "../{other}/identity.pub"\n')
    host = sides.host(align="minimum = 30")
    with pytest.raises(SealError, match="the ids of 'mill' came back otherwise the second time, so one of owner, shop"):
        host.gather()
    host.close()
    (liar,) = liars
    assert liar.saw and not found_by(liar.each[:4], liar.saw, liar.saw)
    assert not liar.count and not list(tmp_path.rglob("rows*"))
