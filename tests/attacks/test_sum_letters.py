"""What a request says beside its values, and what is answered beside sums, gives the owner no single party either."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest
import torch
from lying_owner import ROWS, LyingOwner, federation, trained
from test_scales import SEAL, asked

import colonnade as cn
from colonnade.errors import MessageError, SealError
from colonnade.run import apart_setup as apart
from colonnade.runtime.remote.history import History
from colonnade.runtime.remote.party_server import PartyServer, PartySpec
from colonnade.runtime.schema import Schema
from colonnade.seal.blind_party import BlindParty, tensor_name
from colonnade.seal.key_agreement import Ticket
from colonnade.seal.recover_owner import RecoverableSum, SumSession, SumTicket
from colonnade.seal.sum_book import SumRules

STRICT = SumRules(changes=0)


# Parts of a training round, which has one


@pytest.mark.parametrize("protected", [True, False], ids=["protected", "control"])
def test_a_training_round_is_not_as_many_sums_as_it_is_given_parts(
    protected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner = LyingOwner(trained(cn.FDML(), SEAL, parties=3), STRICT)
    if not protected:
        monkeypatch.setattr(PartyServer, "_rows", lambda self, packet, _: self.schedule.batch_of(packet.round))
    scale = float(owner.run.model.half.ends["owner"].bounds["logits/o"])
    asked(owner, scale, owner.turn(7))
    for part in range(1, 4):
        turn = {**owner.turn(7), "part": part}
        if protected:
            with pytest.raises(MessageError, match=f"part {part} of round 7 .* each in one part"):
                asked(owner, scale / 2**part, turn)
        else:
            asked(owner, scale / 2**part, turn)  # the same people and values on one scale after the other


# Fields in the phases of a recoverable sum


class Swapping:
    """A party's end as a lying owner reaches it: in one phase it asks for the fields in another order."""

    def __init__(self, end: Any, order: str) -> None:
        self.end, self.order = end, order

    def answer(self, phase: str, told: Any, ticket: Ticket) -> Any:
        asked = ticket._replace(tensor=f"weigh: {self.order}") if phase == "mask" and self.order else ticket
        return self.end.answer(phase, told, asked)


def opened(owner: LyingOwner, turn: dict[str, Any], order: str) -> np.ndarray:
    """All fields of a sum, the victim's in another order."""
    for name in owner.names:
        owner.sum(name, "weigh", turn)
    form = owner.remote.schema.like(owner.victim, "up", "weigh", ROWS)
    task = owner.run.model.half.sum_task(owner.blinding, form, "weigh", cn.Turn(7, owner._rows(turn)), {})
    owner.blinding.serial += 1
    said = Ticket(7, owner.blinding.serial, 0, "weigh: o+weight")
    ticket = said._replace(tensor=tensor_name(task.meaning, "o", "weight"))
    ends = {name: Swapping(end, order * (name == owner.victim)) for name, end in owner.blinding.ends.items()}
    keys, roster, ring = owner.blinding.manifest, owner.blinding._roster, task.expected["o"].ring
    session = SumSession(ends, keys, roster, "owner")
    return RecoverableSum(session, SumTicket(said, ticket, ring), lambda fields, *_: fields).run()[0]


@pytest.mark.parametrize("protected", [True, False], ids=["protected", "control"])
def test_a_party_masks_the_fields_that_it_began_with(protected: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    owner = LyingOwner(trained(cn.AggVFL(), cn.Blind(recover=True)), STRICT)
    turn = owner.turn(7)
    whole = opened(owner, turn, "")
    if protected:
        with pytest.raises(SealError, match="asked to mask in a sum that it did not begin"):
            opened(owner, turn, "weight+o")
        return
    real = BlindParty._recover

    def believing(self: BlindParty, phase: str, told: Any, ticket: Ticket) -> Any:
        self._begun = ticket
        return real(self, phase, told, ticket)

    monkeypatch.setattr(BlindParty, "_recover", believing)
    moved = (whole - opened(owner, turn, "weight+o")).astype(np.int32)  # o_0 - w, o_1 - o_0, ...: w is in the plan
    found = np.cumsum(moved)[:-1] + owner.value(owner.victim, "weight").astype(np.int32)
    assert np.array_equal(found, owner.value(owner.victim).astype(np.int32).ravel()), "the victim's logits, exactly"


# An open answer about a network


@pytest.mark.parametrize("protected", [True, False], ids=["protected", "control"])
def test_a_head_norm_after_every_answer_would_show_single_logits(
    protected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner = LyingOwner(trained(cn.VIMADMMJ(local_steps=1, optimizer="sgd"), cn.Blind(), parties=3), STRICT)
    victim, strength = owner.victim, 3.0
    if not protected:
        monkeypatch.setattr(Schema, "has_rows", lambda *_: True)
    kept = owner.request("keep", victim, {}, {})["kept"]

    def squared(person: int, outcome: int, by: float) -> float:
        """|W|^2 at the victim after one answer about one person; then all is as it was."""
        turn, gap = owner.turn(7), torch.zeros(ROWS, 3)
        gap[person, outcome] = by
        owner.serial += 1
        owner.sum(victim, "logits", turn)
        owner.tell(victim, "fit", turn, {"u": gap})
        norm = owner.ask(victim, "head_norm", owner.turn(0, "train", "explain"))["norm"]
        owner.request("back", victim, {}, {"kept": kept})
        return float(norm.double()) ** 2

    def logit(person: int, outcome: int) -> float:
        up, down = (squared(person, outcome, by) for by in (strength, -strength))
        return (up - down) / (4 * 0.1 * strength / ROWS)

    if protected:
        with pytest.raises(SealError, match=r"has answered step 'head_norm' in this run.*told once"):
            logit(0, 0)
        return
    found = np.array([[logit(person, outcome) for outcome in range(3)] for person in range(4)])
    true = owner.value(victim).astype(np.int32)[:4] / 2**16
    assert np.abs(found - true).max() < 0.01 * true.std(), "logits of single people at one party"


def test_an_answer_about_a_network_comes_again_if_it_is_the_same() -> None:
    owner = LyingOwner(trained(cn.VIMADMMJ(), cn.Blind(), parties=3), STRICT)
    assert owner.run.importance() == owner.run.importance()


# A share that makes own values overflow


@pytest.mark.parametrize("share", [3e38, 1.01, 0.0, -0.25])
def test_no_share_of_a_mean_makes_embeddings_overflow(share: float) -> None:
    """Which share is refused for values that are not finite was the largest embedding of the batch, to six digits."""
    owner = LyingOwner(trained(cn.VFedMH(), cn.Blind(), parties=4), STRICT)
    turn = owner.turn(7)
    owner.sum(owner.victim, "embed", turn)
    told = {"h": torch.zeros(ROWS, 60), "share": torch.tensor(share)}
    with pytest.raises(MessageError, match=r"a share of \S+ in a mean came"):
        owner.ask(owner.victim, "decide", turn, told)
    owner.serial, turn = owner.serial + 1, owner.turn(8)
    owner.sum(owner.victim, "embed", turn)
    assert owner.ask(owner.victim, "decide", turn, {**told, "share": torch.tensor(0.25)})["o"].isfinite().all()


# What a sum's parties were told before it


def opened_sum(owner: LyingOwner, round: int) -> np.ndarray:
    """All people of a new table, over all parties."""
    turn = owner.turn(round, "one", "evaluate")
    owner.serial += 1
    return owner.opened({name: owner.sum(name, "logits", turn) for name in owner.names}).astype(np.int32) / 2**16


def goes_back(owner: LyingOwner) -> None:
    """The victim alone, to its first weights."""
    owner.request("back", owner.victim, {}, {"kept": torch.tensor([1])})


def is_told(owner: LyingOwner) -> None:
    """The victim alone, a gradient."""
    turn, owner.serial = owner.turn(7), owner.serial + 1
    owner.sum(owner.victim, "logits", turn)
    owner.tell(owner.victim, "follow", turn, {"slope": torch.ones(ROWS, 3)})


@pytest.mark.parametrize("protected", [True, False], ids=["protected", "control"])
@pytest.mark.parametrize("lie", [goes_back, is_told])
def test_one_party_that_is_led_another_way_masks_for_itself(
    lie: Any, protected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others' values stay as they are, so that two sums would differ by what changed at the victim."""
    if not protected:
        monkeypatch.setattr(History, "hears", lambda *_: nullcontext())
    make = apart.make_party

    def keeping(seat: PartySpec) -> PartyServer:
        party = make(seat)
        party.keeping.keep(party.states() | party.history.state(), [])  # as a request before the first round may ask
        return party

    monkeypatch.setattr(apart, "make_party", keeping)
    owner = LyingOwner(trained(cn.FDML(optimizer="sgd"), cn.Blind(), parties=3), STRICT)
    owner.remote.place("one", federation(3, seed=1)[1:])
    before = opened_sum(owner, 6)
    own = owner.value(owner.victim).astype(np.int32) / 2**16
    lie(owner)
    moved = before - opened_sum(owner, 7)
    due = own - owner.value(owner.victim).astype(np.int32) / 2**16
    assert np.abs(due).max() > 0.01
    assert (np.abs(moved - due).max() == 0.0) == (not protected), "the control reads it exactly"
    assert not protected or np.median(np.abs(moved)) > 100, "noise of 32 bits"


def test_an_owner_is_told_who_was_led_another_way() -> None:
    owner = LyingOwner(trained(cn.FDML(), cn.Blind(), parties=3), STRICT)
    is_told(owner)
    owner.blinding.serial = owner.serial
    owner.remote.place("one", federation(3, seed=1)[1:])
    with pytest.raises(SealError, match="was told something else in training than 'party 1', or has gone back"):
        owner.run.evaluate(federation(3, seed=1))
