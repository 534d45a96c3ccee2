"""The two halves of a message: the same tensors and the same ledger, whether bytes are really made or only counted."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from torch import Tensor

import colonnade as cn
from colonnade.core.schedule import Turn
from colonnade.errors import AwayError, ColonnadeError, MessageError, TrainingError
from colonnade.runtime.local_backend import through_bytes
from colonnade.seal import make_seals
from colonnade.wire.answer_memory import Absence, AnswerMemory, Presence
from colonnade.wire.ends import Ends
from colonnade.wire.ledger import OWNER, Ledger, Line
from colonnade.wire.message import Envelope, encode, fields_of
from colonnade.wire.owner_half import OwnerHalf, SealedReply, add
from colonnade.wire.party_half import PartyHalf

TRAIN = Turn(3, torch.arange(3), purpose="train")
EVALUATE = Turn(3, torch.arange(3), purpose="evaluate")


class Pair(NamedTuple):
    h: Tensor
    w: Tensor


def pair() -> Pair:
    return Pair(torch.arange(6.0).reshape(2, 3).T, torch.tensor([1, 2, 3], dtype=torch.int8))


class Wire:
    """Both halves, and between them a wire that is there or not."""

    def __init__(self, wire: bool = False, ledger: Ledger | None = None, seal: Any = None, **more: Any) -> None:
        self.wire, ends = wire, Ends(make_seals(seal))
        ends.know("train", cn.Table(ids=["ann", "bob", "eve"], columns=np.zeros((3, 1), dtype=np.float32), name="bank"))
        self.owner, self.party = OwnerHalf(ends, ledger, **more), PartyHalf("bank", ends)

    def up(self, message: Any, step: str = "embed", turn: Turn = TRAIN) -> Any:
        wire = self.carried(self.party.say(message, step, turn), "bank", step, turn)
        return self.owner.open(SealedReply(wire, type(message), fields_of(message)), "bank", step, turn)

    def down(self, message: Any, step: str = "follow", turn: Turn = EVALUATE) -> Any:
        wire = self.carried(self.owner.seal(message, ["bank"], step, turn), OWNER, step, turn)
        return self.party.hear(wire, type(message), fields_of(message), step, turn)

    def carried(self, fields: dict[str, Tensor], sender: str, step: str, turn: Turn) -> dict[str, Tensor]:
        return through_bytes(fields, Envelope(step, sender, turn.round)) if self.wire else fields


def test_wire_or_not_the_ledger_and_the_tensors_are_the_same() -> None:
    counted, real = Wire(wire=False), Wire(wire=True)
    for way in ("up", "down"):
        plain, travelled = (getattr(halves, way)(pair()) for halves in (counted, real))
        assert type(plain) is type(travelled) is Pair
        for a, b, sent in zip(plain, travelled, pair(), strict=True):
            assert a.dtype == b.dtype == sent.dtype
            assert torch.equal(a, b) and torch.equal(a, sent)
    assert counted.owner.ledger.rows == real.owner.ledger.rows


@pytest.mark.parametrize("wire", [False, True])
def test_the_ledger_has_the_bytes_of_the_frame(wire: bool) -> None:
    halves = Wire(wire)
    halves.up(pair())
    halves.down(pair())
    up = len(encode(pair(), Envelope("embed", "bank", 3)))
    down = len(encode(pair(), Envelope("follow", OWNER, 3)))
    assert halves.owner.ledger.rows == [
        Line("train", "embed", "bank", OWNER, messages=1, payload=27, overhead=up - 27, summed=False),
        Line("evaluate", "follow", OWNER, "bank", messages=1, payload=27, overhead=down - 27, summed=False),
    ]


@pytest.mark.parametrize("seal", [cn.Bits(4), cn.TopK(0.5), cn.Bits(4, feedback=True)], ids=repr)
def test_what_is_sealed_is_counted_as_it_travels(seal: Any) -> None:
    """The frames themselves, made by the sender's half alone, have the bytes that the owner's ledger says."""
    halves, message = Wire(seal=seal), Pair(torch.randn(3, 8), torch.randn(3, 8))
    sent = [halves.party.say(message, "embed", TRAIN), halves.owner.seal(message, ["bank"], "follow", TRAIN)]
    halves.owner.open(SealedReply(sent[0], Pair, fields_of(message)), "bank", "embed", TRAIN)
    frames = [encode(sent[0], Envelope("embed", "bank", 3)), encode(sent[1], Envelope("follow", OWNER, 3))]
    by_step = {line.step: line.total for line in halves.owner.ledger.rows}
    assert by_step == {"embed": len(frames[0]), "follow": len(frames[1])}
    assert sum(by_step.values()) < 2 * len(encode(message, Envelope("embed", "bank", 3))), "nothing was compressed"


def test_a_message_to_several_is_sealed_once_and_counted_for_each() -> None:
    halves = Wire(seal=cn.Bits(4, feedback=True))
    wire = halves.owner.seal(Pair(torch.randn(3, 2), torch.randn(3, 2)), ["bank", "shop"], "follow", TRAIN)
    assert [(line.receiver, line.messages) for line in halves.owner.ledger.rows] == [("bank", 1), ("shop", 1)]
    assert {line.total for line in halves.owner.ledger.rows} == {len(encode(wire, Envelope("follow", OWNER, 3)))}


def test_the_given_ledger_is_used_even_when_it_is_empty() -> None:
    ledger = Ledger()
    halves = Wire(ledger=ledger)
    halves.up(pair())
    halves.down(pair())
    assert len(ledger.rows) == 2


@pytest.mark.parametrize("wire", [False, True])
def test_no_gradient_crosses(wire: bool) -> None:
    weight = torch.ones(2, requires_grad=True)
    for way in ("up", "down"):
        came = getattr(Wire(wire), way)(Pair(weight * 3, weight))
        assert [tensor.requires_grad for tensor in came] == [False, False]
        came.h.requires_grad_().sum().backward()
        assert weight.grad is None


@pytest.mark.parametrize("wire", [False, True])
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_values_that_are_not_finite_name_who_when_and_where(wire: bool, value: float) -> None:
    halves = Wire(wire)
    message = Pair(torch.zeros(2), torch.tensor([0.0, value]))
    with pytest.raises(TrainingError, match=r"^bank sent .* in 'w' of step 'embed' in round 12;"):
        halves.up(message, turn=Turn(12, torch.arange(3), purpose="train"))
    with pytest.raises(TrainingError, match=r"^owner sent .* in 'w' of step 'follow' in round 13;"):
        halves.down(message, turn=Turn(13, torch.arange(3), purpose="train"))
    assert halves.owner.ledger.rows == []  # what was not sent is not counted


@pytest.mark.parametrize("wire", [False, True])
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64], ids=str)
def test_large_values_whose_sum_overflows_are_accepted(wire: bool, dtype: torch.dtype) -> None:
    large = torch.full((3,), torch.finfo(dtype).max, dtype=dtype)
    assert not torch.isfinite(large.sum())
    halves = Wire(wire)
    for came in (halves.up(Pair(large, -large)), halves.down(Pair(large, -large))):
        assert torch.equal(came.h, large) and torch.equal(came.w, -large)


@pytest.mark.parametrize(
    "tensor",
    [torch.zeros(2, dtype=torch.bool), torch.zeros(2, dtype=torch.bfloat16), torch.zeros((1,) * 9)],
    ids=["bool", "bfloat16", "nine dimensions"],
)
@pytest.mark.parametrize("wire", [False, True])
def test_what_has_no_wire_form_is_refused_in_simulation_too(wire: bool, tensor: Tensor) -> None:
    for way in ("up", "down"):
        with pytest.raises(ColonnadeError):
            getattr(Wire(wire), way)(Pair(tensor, tensor))


def test_what_seals_make_of_a_message_must_have_a_wire_form_too() -> None:
    """Before a byte of it is counted."""
    many = NamedTuple("many", [(f"h_{k}", Tensor) for k in range(11)])  # type: ignore[misc]
    halves = Wire(seal=cn.Bits(4))
    for way in ("up", "down"):
        with pytest.raises(MessageError, match="33 tensors"):
            getattr(halves, way)(many(*[torch.randn(3, 2)] * 11), turn=TRAIN)
    assert halves.owner.ledger.rows == []


# What both sides agreed on


class Notes:
    """In place of a schema: it notes what is looked at, and may refuse it."""

    def __init__(self, refuses: str = "") -> None:
        self.seen: list[tuple[Any, ...]] = []
        self.refuses = refuses

    def check(self, party: str, way: str, step: str, fields: Mapping[str, Tensor], rows: int, round: int) -> None:
        self.seen.append((party, way, step, tuple(fields), rows, round))
        if step == self.refuses:
            raise MessageError("another form was expected.")


def test_every_message_is_looked_at_both_ways() -> None:
    checks = Notes()
    halves = Wire(seal=cn.Bits(4), checks=checks)
    message = Pair(torch.randn(3, 2), torch.randn(3, 2))
    halves.up(message)
    halves.owner.seal(message, ["bank", "shop"], "follow", TRAIN)
    assert checks.seen == [
        ("bank", "up", "embed", ("h", "w"), 3, 3),
        ("bank", "down", "follow", ("h", "w"), 3, 3),
        ("shop", "down", "follow", ("h", "w"), 3, 3),
    ]


def test_an_answer_of_another_form_is_refused_by_name_and_not_remembered() -> None:
    halves = Wire(checks=Notes(refuses="embed"))
    with pytest.raises(MessageError, match="bank"):
        halves.up(pair())
    assert not halves.owner.memory.state()


def test_what_a_party_refuses_it_does_not_hear() -> None:
    halves = Wire()

    def refuse(fields: dict[str, Tensor]) -> None:
        raise MessageError(f"{sorted(fields)} came.")

    wire = halves.owner.seal(pair(), ["bank"], "follow", TRAIN)
    with pytest.raises(MessageError, match="'h', 'w'"):
        halves.party.hear(wire, Pair, fields_of(pair()), "follow", TRAIN, refuse)


# What the owner remembers


def test_the_owner_remembers_the_mean_of_what_came_in_training() -> None:
    halves = Wire()
    halves.up(Pair(torch.ones(3, 2), torch.ones(3, 2)))
    halves.up(Pair(3 * torch.ones(3, 2), torch.ones(3, 2)))
    halves.up(Pair(9 * torch.ones(3, 2), torch.ones(3, 2)), turn=EVALUATE)
    stand_in = halves.owner.memory.mean_like("bank", "embed", Pair(torch.zeros(5, 2), torch.zeros(5, 2)))
    assert torch.equal(stand_in.h, torch.full((5, 2), 2.0))


def test_each_of_several_leaders_remembers_by_itself() -> None:
    halves = Wire()
    for leader, value in (("owner 1", 1.0), ("owner 2", 2.0)):
        turn = Turn(0, torch.arange(3), leader=leader)
        halves.up(Pair(torch.full((3, 2), value), torch.zeros(3, 2)), turn=turn)
    assert {key for key in halves.owner.memory.means if key.endswith("/h")} == {
        "owner 1/bank/embed/h",
        "owner 2/bank/embed/h",
    }
    assert {line.receiver for line in halves.owner.ledger.rows} == {"owner 1", "owner 2"}


def test_a_memory_that_keeps_nothing_keeps_nothing() -> None:
    halves = Wire(memory=AnswerMemory(means=False))
    halves.up(pair())
    assert not halves.owner.memory.state()


def test_a_sum_of_messages_leaves_its_parts_as_they_are() -> None:
    parts = [Pair(torch.ones(2), torch.ones(1)), Pair(torch.ones(2), torch.zeros(1))]
    total = add(parts)
    assert type(total) is Pair and total.h.tolist() == [2.0, 2.0] and total.w.tolist() == [1.0]
    assert parts[0].h.tolist() == [1.0, 1.0]


# Blinded sums


def test_a_party_that_agreed_to_no_blinded_sum_gives_none() -> None:
    halves = Wire()
    with pytest.raises(MessageError, match="'bank' was asked for a blinded sum and agreed to none"):
        _ = halves.party.masked_by


# Who is here


def test_nothing_is_counted_from_or_to_who_does_not_answer() -> None:
    halves = Wire()
    with halves.owner.presence.dropping_out(frozenset(["bank"])):
        for way in ("up", "down"):
            with pytest.raises(AwayError, match="'bank' is absent in round 3") as caught:
                getattr(halves, way)(pair())
            assert caught.value.party == "bank"
    assert halves.owner.ledger.rows == []
    halves.up(pair())
    assert len(halves.owner.ledger.rows) == 1


def test_presence_is_as_it_was_however_the_absence_ends() -> None:
    presence = Presence()
    outer, inner = Absence(frozenset(["bank"]), "zero"), Absence(frozenset(["shop"]), "mean")

    def interrupted() -> None:
        with presence.leaving_out(inner), presence.dropping_out(frozenset(["mill"])):
            assert presence.absence is inner and presence.dropped_out == {"mill"}
            raise KeyboardInterrupt

    with presence.leaving_out(outer):
        with pytest.raises(KeyboardInterrupt):
            interrupted()
        assert presence.absence is outer and not presence.dropped_out
    assert presence.absence == Absence() and not presence.dropped_out


def test_presence_refuses_who_is_left_out_and_who_is_silent_and_nobody_else() -> None:
    presence = Presence()
    presence.check("bank", 4)
    with presence.leaving_out(Absence(frozenset(["bank"]))), presence.dropping_out(frozenset(["shop"])):
        for name in ("bank", "shop"):
            with pytest.raises(AwayError, match=f"'{name}' is absent in round 4") as caught:
                presence.check(name, 4)
            assert caught.value.party == name
        presence.check("mill", 4)


@pytest.mark.parametrize(
    ("policy", "training", "known", "expected"),
    [
        ("zero", False, True, 0.0),
        ("mean", False, True, 2.0),
        ("mean", True, True, 2.0),
        ("mean", True, False, 0.0),
        ("refuse", True, True, 0.0),
    ],
)
def test_what_stands_for_an_absent_party(policy: str, training: bool, known: bool, expected: float) -> None:
    halves = Wire()
    if known:
        halves.up(Pair(torch.full((3, 2), 2.0), torch.full((3, 2), 2.0)))
    absence = Absence(frozenset(["bank"]), policy, training)
    found = absence.instead("bank", "embed", Pair(torch.ones(4, 2), torch.ones(4, 2)), halves.owner.memory)
    assert type(found) is Pair and torch.equal(found.h, torch.full((4, 2), expected))


def test_a_mean_that_nobody_knows_cannot_stand_for_a_prediction() -> None:
    with pytest.raises(AwayError, match="'bank' is absent and the owner knows no mean of its answers to 'embed'"):
        Absence(frozenset(["bank"]), "mean").instead("bank", "embed", pair(), AnswerMemory())


# The ends


def test_whose_rows_a_name_stands_for_is_known_by_their_ids() -> None:
    table = cn.Table(ids=["ann", "bob"], columns=np.zeros((2, 1), dtype=np.float32), name="bank")
    other = cn.Table(ids=["bob", "eve"], columns=np.zeros((2, 1), dtype=np.float32), name="bank")
    plain, blind = Ends(), Ends(make_seals(cn.Blind()))
    plain.know("train", table)
    assert plain.people["train"].tolist() == [0, 1]
    blind.know("train", table)
    blind.know("test", other)
    assert blind.people["train"][1] == blind.people["test"][0] != blind.people["train"][0]


def test_a_sum_is_about_people_and_about_what_they_were_told() -> None:
    ends = Ends(make_seals(cn.Blind()))
    table = cn.Table(ids=["ann", "bob", "eve"], columns=np.zeros((3, 1), dtype=np.float32), name="bank")
    ends.know("train", table)
    turn = Turn(0, torch.tensor([0, 2]))
    one = ends.subject("fit", turn, {"h": torch.ones(2)})
    assert one == ends.subject("fit", turn, {"h": torch.ones(2)})
    assert len(one.people) == 2 and one.people[0] == int(ends.people["train"][0])
    assert one.owner_digest != ends.subject("fit", turn, {"h": torch.zeros(2)}).owner_digest
    ends.know("train", table)  # put in place once more: answers to it are other answers
    assert ends.subject("fit", turn, {"h": torch.ones(2)}) == one._replace(placed=one.placed + 1)


def test_an_end_is_made_once() -> None:
    ends = Ends()
    assert ends["bank"] is ends["bank"] and list(ends) == ["bank"]
