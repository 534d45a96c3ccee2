"""An owner that lies in an alignment: it learns nothing of fewer common ids than the minimum, and opens none.

The controls show each attack at work where what stops it is missing: in the arrangement of before, in which the owner
compared, and without the trial of the comparer's list.
"""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from lying_aligner import KeyPerId, ManyTimes, brought_round, of, people, seated, split

from colonnade.errors import ColonnadeError, PrivacyError, SealError
from colonnade.federation import owner_alignment
from colonnade.tables.align import align_terms as agreed
from colonnade.tables.align import box as boxes
from colonnade.tables.align.align_messages import AlignVerdict, Box
from colonnade.tables.align.align_terms import AlignTerms
from colonnade.tables.align.alignment_party import PLACES
from colonnade.tables.align.curve import CurveMask, elligator, multiply
from near import Sides, make_sides


@pytest.fixture(autouse=True)
def short_trials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agreed, "TRIED", 128)


# One key per id


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
    monkeypatch.setattr(AlignTerms, "trial", property(lambda self: None))
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


# Whoever asks


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
            peer.hear(AlignVerdict(torch.zeros(parties, 36, dtype=torch.uint8)))
    for peer in peers:
        with pytest.raises(SealError, match="before it was told them"):
            peer.lock()
    assert not any(len(peer.rows) or peer.count for peer in peers)


def test_the_owner_cannot_speak_for_the_comparer() -> None:
    """Not even with the keys that it has: a verdict and places open only if the comparer sealed them."""
    owner, shop, _ = brought_round(people(3, common=3), 4)[0]
    lines = [owner._boxes.seal(name, (4).to_bytes(8), "words") for name in ("shop", "shop", "post")]
    told = AlignVerdict(torch.frombuffer(bytearray(b"".join(lines)), dtype=torch.uint8).reshape(3, 36))
    with pytest.raises(SealError, match="the words of 'post' do not open at 'shop'"):
        shop.hear(told)
    places = owner._boxes.seal("shop", np.arange(4).tobytes(), PLACES, 1, 0)
    with pytest.raises(SealError, match="after the comparer found enough"):
        shop.keep(Box(torch.tensor(1), torch.frombuffer(bytearray(places), dtype=torch.uint8)))


def test_enough_are_opened() -> None:
    for parties in (2, 3, 4):
        peers, ring = seated(people(parties, common=4), 4)
        assert ring.run() == 4 and len({peer.proof for peer in peers}) == 1


# With real requests


def test_a_lying_owner_gets_nothing_from_parties(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_sides(tmp_path)
    liars: list[KeyPerId] = []

    def lying(*given: Any) -> KeyPerId:
        liars.append(KeyPerId(*given))
        return liars[-1]

    monkeypatch.setattr(owner_alignment, "AlignmentParty", lying)
    sides = Sides(tmp_path)
    host = sides.host(align="minimum = 30")
    with pytest.raises(SealError, match="the ids of 'mill' came back otherwise the second time, so one of owner, shop"):
        host.gather()
    host.close()
    (liar,) = liars
    assert liar.saw and not found_by(liar.each[:4], liar.saw, liar.saw)
    assert not liar.count and not list(tmp_path.rglob("rows*"))
