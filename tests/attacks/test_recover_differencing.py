"""Two sums that differ by one party show that party: an owner does not get both, by no lie and by no mishap."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from lying_owner import LyingOwner, federation, trained

import colonnade as cn
from colonnade.errors import AwayError, CheckpointError, SealError
from colonnade.run import apart_setup as apart
from colonnade.runtime.remote.packet import read_packet
from colonnade.runtime.remote.party_server import PartyServer
from colonnade.seal.key_agreement import Ticket
from colonnade.seal.shamir import threshold
from colonnade.seal.subject import Subject
from colonnade.seal.sum_book import SumBook, SumRules

RECOVER = cn.Blind(recover=True)
STRICT, NONE = SumRules(changes=0), SumRules()
"""What [allow] says by default, and what a simulation says: sets may change between rounds."""


def evaluated(owner: LyingOwner) -> dict[str, Any]:
    return owner.turn(6, "one", "evaluate")


def new_owner(rules: SumRules) -> LyingOwner:
    run = trained(cn.FDML(), RECOVER)
    run.parties.place("one", federation(4, seed=1)[1:])
    return LyingOwner(run, rules)


def differs(owner: LyingOwner, first: dict[str, Any], second: dict[str, Any]) -> float:
    """A sum over all and one over all but the victim: how far their difference is from the victim's values."""
    whole = owner.recover(first, owner.names)
    true = owner.value(owner.victim).astype(np.int32) / 2**16
    rest = owner.recover(second, [name for name in owner.names if name != owner.victim])
    return float(np.abs((whole - rest).numpy() - true).max())


ATTACKS: dict[str, Callable[[LyingOwner], tuple[dict[str, Any], dict[str, Any]]]] = {
    "next round's number": lambda owner: (evaluated(owner), owner.turn(7, "one", "evaluate")),
    "two rounds with answers withheld": lambda owner: (owner.turn(6), owner.turn(7)),
    "a round trained and evaluated": lambda owner: (owner.turn(6, "one", "evaluate"), owner.turn(8, "one", "predict")),
}


@pytest.mark.parametrize("which", ATTACKS)
def test_the_same_people_without_one_party(which: str) -> None:
    strict, control = new_owner(STRICT), new_owner(NONE)
    assert differs(control, *ATTACKS[which](control)) < 1e-4, "the control reads the victim's logits"
    with pytest.raises(SealError, match=r"of rows that were given to one over .*single parties"):
        differs(strict, *ATTACKS[which](strict))


def test_within_a_round_no_simulation_gives_both_either() -> None:
    owner = new_owner(NONE)
    with pytest.raises(SealError, match="given to one over"):
        differs(owner, evaluated(owner), evaluated(owner))


def test_another_step_in_the_ticket() -> None:
    owner = new_owner(NONE)
    owner.sum(owner.victim, "logits", evaluated(owner))
    for about in (Ticket(6, 999, 0, "other: o"), Ticket(7, 999, 0, "logits: o")):
        with pytest.raises(SealError, match="no step of its own"):
            owner.blinding.ends[owner.victim].answer("advertise", {}, about)


# Restarts


def begun_again(owner: LyingOwner, rules: SumRules) -> None:
    """Every party in a new process, with its newest state."""
    parties, there = owner.run.parties, owner.remote.transport.parties
    kept = parties.states()
    for name, old in list(there.items()):
        seat = replace(old.spec, session=b"another session.", sums=rules if rules.place is None else at(rules, name))
        party = PartyServer(seat, old.keeping)
        party.place("one", old.group.tables["one"])
        party.take_up()
        there[name] = party
    parties.load(dict(enumerate(kept)))
    owner.blinding.forget_keys()
    owner.blinding.ready(lambda fields, *_: fields)


def at(rules: SumRules, name: str) -> SumRules:
    assert rules.place is not None
    return replace(rules, place=rules.place / f"{name}.log")


@pytest.mark.parametrize("on_disk", [True, False], ids=["on disk", "control"])
def test_a_new_begin_does_not_forget(on_disk: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rules = SumRules(tmp_path if on_disk else None, changes=0)
    make = apart.make_party
    give = (lambda seat: at(rules, seat.name)) if on_disk else (lambda seat: rules)
    monkeypatch.setattr(apart, "make_party", lambda seat: make(replace(seat, sums=give(seat))))
    owner = new_owner(rules)
    whole = owner.recover(evaluated(owner), owner.names)
    true = owner.value(owner.victim).astype(np.int32) / 2**16
    begun_again(owner, rules)
    rest = [name for name in owner.names if name != owner.victim]
    if on_disk:
        with pytest.raises(SealError, match="given to one over"):
            owner.recover(evaluated(owner), rest)
        assert torch.equal(owner.recover(evaluated(owner), owner.names), whole), "the same again is no news"
    else:
        left = owner.recover(evaluated(owner), rest)
        assert np.abs((whole - left).numpy() - true).max() < 1e-4, "the control reads the victim's logits"


def test_a_missed_round_with_nobody_lying(monkeypatch: pytest.MonkeyPatch) -> None:
    """Evaluations of two rounds that differ by one party; without changes in [allow] the second is refused."""
    how: dict[str, Any] = {"when_absent": "without", "missing": "zero", "evaluate_every": 1, "parties": 5}
    how |= {"test": federation(5, seed=1), "absent": lambda number: ["party 2"] if number == 3 else None}
    assert trained(cn.FDML(), RECOVER, **how).round == 6, "the control: a simulation goes on"
    make = apart.make_party
    for allowed in (0, 3):
        rules = SumRules(changes=allowed)
        monkeypatch.setattr(apart, "make_party", lambda seat, rules=rules: make(replace(seat, sums=rules)))
        if allowed:
            assert trained(cn.FDML(), RECOVER, **how).round == 6
        else:
            with pytest.raises(SealError, match=r"raise changes in \[allow\]"):
                trained(cn.FDML(), RECOVER, **how)


@pytest.mark.parametrize("seal", [cn.Blind(), RECOVER, [RECOVER, cn.Bits(8)]], ids=["blind", "recover", "bits"])
def test_going_back_after_a_crash_repeats_sums_exactly(
    seal: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Strict parties that keep their log: one of them falls away in a sum, all go back, and nothing is refused."""
    how = {"evaluate_every": 2, "test": federation(4, seed=1), "batch": 8, "rounds": 8}
    whole = trained(cn.FDML(), seal, **how)
    (tmp_path / "logs").mkdir()
    rules, make, fallen = SumRules(tmp_path / "logs", changes=0), apart.make_party, []
    monkeypatch.setattr(apart, "make_party", lambda seat: make(replace(seat, sums=at(rules, seat.name))))
    serve = PartyServer.serve

    def falling(self: PartyServer, request: bytes) -> bytes:
        packet = read_packet(request)
        if self.name == "party 2" and packet.round == 5 and packet.kind in ("sum", "blind") and len(fallen) < 1:
            serve(self, request)  # it masked, and its answer is lost
            fallen.append(packet.kind)
            raise AwayError("'party 2' is gone.", "party 2")
        return serve(self, request)

    monkeypatch.setattr(PartyServer, "serve", falling)
    run = trained(cn.FDML(), seal, folder=tmp_path / "run", **how)
    assert fallen and run.round == 8
    drop = {"seconds", "bytes"}
    assert [{k: v for k, v in row.items() if k not in drop} for row in run.history] == [
        {k: v for k, v in row.items() if k not in drop} for row in whole.history
    ]


# The log


def book(place: Path) -> SumBook:
    return SumBook("a", b"job", SumRules(place, changes=0))


ABOUT = Subject("logits", "train", "train", "owner", 0, 0, (1, -2, 3))


def test_a_log_that_is_damaged_is_refused_and_one_cut_off_is_mended(tmp_path: Path) -> None:
    place = tmp_path / "sums.log"
    first = book(place)
    first.lend(ABOUT, b"meaning", b"values")
    first.agree(ABOUT, ("a", "b", "c"))
    whole = place.read_bytes()
    place.write_bytes(whole + b'["sum","ab')  # a crash while it was written: nothing had left
    again = book(place)
    assert place.read_bytes() == whole
    again.lend(ABOUT, b"meaning", b"values")
    with pytest.raises(SealError, match="asked twice"):
        again.lend(ABOUT, b"meaning", b"others")
    with pytest.raises(SealError, match="given to one over a, b, c"):
        again.agree(ABOUT._replace(round=7, part=1), ("a", "b"))
    for spoilt in (whole[:40] + b"0" + whole[41:], whole.split(b"\n", 1)[1], b"junk\n" + whole):
        place.write_bytes(spoilt)
        with pytest.raises(CheckpointError, match=r"sums.log is damaged, and with it what was summed over whom"):
            book(place)


def test_changes_that_are_allowed_come_in_another_round() -> None:
    own = SumBook("a", b"job", SumRules(changes=5))
    own.agree(ABOUT, ("a", "b", "c"))
    with pytest.raises(SealError, match="given to one over a, b, c"):
        own.agree(ABOUT._replace(step="weigh"), ("a", "b"))
    own.agree(ABOUT._replace(round=1), ("a", "b"))


def test_a_full_disk_stops_the_sum_before_it_leaves(tmp_path: Path) -> None:
    place = tmp_path / "there" / "sums.log"
    place.parent.mkdir()
    own = book(place)
    shutil.rmtree(place.parent)
    with pytest.raises(Exception, match=r"cannot be written"):
        own.lend(ABOUT, b"meaning", b"values")
    place.parent.mkdir()
    own.lend(ABOUT, b"meaning", b"values")


def test_a_sum_mixes_as_many_as_the_operator_wants() -> None:
    own = SumBook("a", b"job", SumRules(mix=3))
    with pytest.raises(SealError, match=r"'a' wants 3 others or more in a sum \(mix in \[allow\]\)"):
        own.agree(ABOUT, ("a", "b", "c"))


@pytest.mark.parametrize("parties", range(4, 33))
def test_the_bound_on_corrupt_parties(parties: int) -> None:
    """c <= min(2t - K - 1, t - 2): one list per sum, and two honest parties or more in it; not so with one more."""
    t = threshold(parties)
    most = min(2 * t - parties - 1, t - 2)
    assert most >= 1
    for corrupt in range(most + 2):
        honest = parties - corrupt
        two_lists = 2 * (t - corrupt) <= honest  # disjoint sets of honest signers, all corrupt sign both
        alone = t - corrupt < 2
        assert (two_lists or alone) == (corrupt > most)
