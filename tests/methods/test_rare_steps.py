"""Steps that a method takes in some rounds only: between processes those that it does not declare are refused."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import pytest
import torch
from test_apart import ask
from test_contract import Case, check_same_apart, federation, tables_of, train
from torch import Tensor

import colonnade as cn
from colonnade.core.method import Method
from colonnade.core.settings import TrainOptions
from colonnade.errors import ConfigError, MessageError
from colonnade.run.make_plan import make_plan
from colonnade.run.rehearsal import rehearse_tables
from colonnade.runtime.schema import Schema
from colonnade.wire.message import Envelope, encode


class Centre(NamedTuple):
    """The mean of the sum of logits over the rows [C]."""

    centre: Tensor


class Distance(NamedTuple):
    """How far a party's logits are from the centre on average."""

    far: Tensor


@dataclass(frozen=True, kw_only=True)
class Undeclared(cn.FDML):
    """FDML whose owner asks in every ``period``-th round how far the parties' logits are from a centre."""

    name: ClassVar[str] = "undeclared"
    period: int = 3

    @cn.party_step
    def distance(self, mine: cn.Mine, turn: cn.Turn, centre: Centre) -> Distance:
        """The mean distance of this party's logits from the centre."""
        with torch.no_grad():
            return Distance((mine.net(mine.inputs(turn)) - centre.centre).abs().mean((-1, -2)))

    def round(self, owner: cn.Owner, parties: cn.Parties, turn: cn.Turn) -> Tensor:
        """FDML's round; in every ``period``-th one the question after it."""
        loss = super().round(owner, parties, turn)
        if (turn.round + 1) % self.period == 0:
            centre = Centre(torch.zeros(owner.outputs))
            loss = loss + sum(reply.far for reply in parties.ask(self.distance, turn, all=centre))
        return loss


@dataclass(frozen=True, kw_only=True)
class Declared(Undeclared):
    """The same method, which says in which round it first asks the question."""

    name: ClassVar[str] = "declared"

    @property
    def rare_rounds(self) -> tuple[int, ...]:
        """The first round that asks for distances."""
        return (self.period - 1,)


class RareReply(NamedTuple):
    """One number."""

    far: Tensor


@dataclass(frozen=True, kw_only=True)
class RareReplies(cn.FDML):
    """FDML whose parties answer a step without a message in every third round."""

    name: ClassVar[str] = "rare-replies"

    @cn.party_step
    def size(self, mine: cn.Mine, turn: cn.Turn) -> RareReply:
        """The mean size of this party's logits."""
        with torch.no_grad():
            return RareReply(mine.net(mine.inputs(turn)).abs().mean((-1, -2)))

    def round(self, owner: cn.Owner, parties: cn.Parties, turn: cn.Turn) -> Tensor:
        """FDML's round and, in every third one, the sizes."""
        loss = super().round(owner, parties, turn)
        if turn.round % 3 == 2:
            parties.ask(self.size, turn)
        return loss


def schema_of(method: Method, owner: str = "labels") -> Schema:
    tables = tables_of(Case(method, owner=owner))
    return rehearse_tables(tables, make_plan(tables, method, TrainOptions(rounds=3, batch=16, runtime="loop").filled()))


@pytest.mark.parametrize("period", [3, 40])
def test_a_declared_step_is_in_the_schema_and_trains_apart_as_in_the_loop(period: int) -> None:
    schema = schema_of(Declared(period=period))
    assert schema.is_known("party 1", "down", "distance")
    assert schema.is_known("party 1", "up", "distance")
    rounds = period + 1
    loop, apart = (train(Case(Declared(period=period)), runtime, rounds=rounds) for runtime in ("loop", "apart"))
    check_same_apart(apart, loop)


def test_an_undeclared_step_works_in_the_loop_and_is_refused_behind_letters() -> None:
    train(Case(Undeclared()), "loop", rounds=4)
    train(Case(Undeclared()), "apart", rounds=2)
    sentence = r"to 'party 1' in step 'distance' of round 2 .*not in the schema.* rare_rounds"
    with pytest.raises(MessageError, match=sentence):
        train(Case(Undeclared()), "apart", rounds=4)


def test_an_undeclared_reply_is_refused_at_the_party() -> None:
    with pytest.raises(MessageError, match=r"from 'party \d' in step 'size' of round 2 .*not in the schema"):
        train(Case(RareReplies()), "apart", rounds=4)


def test_a_party_refuses_a_message_outside_the_schema() -> None:
    """An owner that sends it all the same, without a check of its own, is refused by the party."""
    run: Any = train(Case(Undeclared(period=50)), "apart", rounds=3)
    party = run.parties.backend.transport.parties["party 2"]
    message = encode({"centre": torch.zeros(3)}, Envelope("distance", "owner", 2))
    asked = {"step": "distance", "purpose": "train", "table": "train", "round": 2, "frames": (message,)}
    refusal = ask(party, run.parties.backend, **asked)
    assert "to 'party 2' in step 'distance' of round 2 is not in the schema" in refusal


def test_a_schema_refuses_messages_that_it_does_not_have_and_an_unchecked_one_takes_any() -> None:
    fields = {"h": torch.zeros(2, 3)}
    for schema in (Schema({}), Schema.from_json({}), schema_of(cn.FDML())):
        with pytest.raises(MessageError, match="from 'party 1' in step 'embed' of round 7 is not in the schema"):
            schema.check("party 1", "up", "embed", fields, 2, 7)
    Schema.unchecked().check("party 1", "up", "embed", fields, 2, 7)
    assert Schema.unchecked().digest == Schema({}).digest


def rounds_rehearsed(method: Method, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    rounds: list[int] = []
    original: Callable[..., Tensor] = type(method).round

    def noted(self: Method, owner: Any, parties: Any, turn: cn.Turn) -> Tensor:
        rounds.append(turn.round)
        return original(self, owner, parties, turn)

    monkeypatch.setattr(type(method), "round", noted)
    schema_of(method, "first" if method.needs_owner_columns else "labels")
    return sorted(set(rounds))


@pytest.mark.parametrize(
    ("method", "rounds"),
    [
        (cn.FDML(), [0, 1]),
        (cn.APFed(contribution_every=70), [0, 1]),
        (cn.MultiVFL(every=60), [0, 1, 59]),
        (cn.FedOptimus(every=20, select_every=100), [0, 1, 19, 99]),
        (cn.FedOptimus(every=20, select_every=100, share=1.0), [0, 1, 19]),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_the_rehearsal_takes_the_first_rounds_and_the_declared_ones(
    method: Method, rounds: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert rounds_rehearsed(method, monkeypatch) == rounds


def test_apfed_is_asked_for_both_kinds_of_rounds() -> None:
    """Party 1 replies for a sum in most rounds, and by itself in those that measure contributions."""
    schema = schema_of(cn.APFed(contribution_every=70), "first")
    party = federation("first")[1].name
    assert schema.is_summed(party, "assist")
    assert schema.is_known(party, "up", "assist")


@pytest.mark.parametrize("declared", [(-1,), (2.5,), ("every",), tuple(range(100)), 3])
def test_a_declaration_that_makes_no_sense_is_refused(declared: Any) -> None:
    @dataclass(frozen=True, kw_only=True)
    class Odd(cn.FDML):
        name: ClassVar[str] = "odd"

        @property
        def rare_rounds(self) -> Any:
            return declared

    with pytest.raises(ConfigError, match="odd: rare_rounds"):
        schema_of(Odd())
