"""Who runs which step: parties serve party steps only, owners run owner steps only, and what is neither is refused."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pytest
import torch
from test_contract import CASES, Case, federation, train

import colonnade as cn
from colonnade.core.step import check_step, steps_of
from colonnade.errors import ConfigError
from colonnade.runtime.backend import Call
from colonnade.runtime.parties import AllParties
from colonnade.runtime.remote.packet import read_packet, write_packet
from colonnade.runtime.remote.request_server import refused
from colonnade.runtime.schema import kinds_of
from colonnade.tables.align.alignment_party import AlignmentParty
from colonnade.wire.message import Envelope, encode
from letters import stamp

OWNERS_STEPS = {
    "local": ["columns", "follow", "logits"],
    "apfed": ["follow", "logits", "shift", "uphill"],
    "multivfl": ["adopt", "decide", "learn", "top"],
    "oneshot": ["columns"],
    "fedoptimus": ["adopt", "choose", "decide", "learn", "score", "top"],
}
METHODS = {case.method.name: type(case.method) for case in CASES}
FIRST = {case.method.name: case for case in reversed(CASES)}


def test_every_step_is_a_partys_or_an_owners() -> None:
    found = {name: sorted(method.owner_steps()) for name, method in METHODS.items()}
    assert {name: steps for name, steps in found.items() if steps} == OWNERS_STEPS
    for method in METHODS.values():
        assert not method.steps().keys() & method.owner_steps().keys()
    assert len(steps_of("party", AlignmentParty)) == 14 and not steps_of("owner", AlignmentParty)


@pytest.mark.parametrize("name", OWNERS_STEPS)
def test_a_party_refuses_every_step_of_owners(name: str) -> None:
    """With a message that fits, so that nothing but the mark keeps the step from running; and nothing has moved."""
    backend: Any = train(FIRST[name], "apart", rounds=2).parties.backend
    party = backend.transport.parties["party 2"]
    leader, served = next(iter(party.spec.leaders)), ", ".join(type(FIRST[name].method).steps()) or "none"
    before, notes = party.states(), repr(party.group.scratch)
    for step in OWNERS_STEPS[name]:
        packet = replace(
            stamp(backend, party),
            step=step,
            leader=leader,
            sequence=party._last[0] + 1,
            purpose="train",
            table="train",
            turn=1000,
        )
        reads, _ = kinds_of(getattr(FIRST[name].method, step))
        fields = {field: torch.ones(4, 4) for field in getattr(reads, "_fields", ())}
        frames = (encode(fields, Envelope(step, leader, 0)),) if fields else ()
        reply = read_packet(party.serve(write_packet(replace(packet, frames=frames))))
        assert reply.kind == "refusal", step
        said = str(refused(reply.frames[0], "party 2"))
        assert f"step '{step}' came to 'party 2' and is an owner's; parties serve {served}." in said
    assert repr(party.group.scratch) == notes
    assert all(torch.equal(value, before[key]) for key, value in party.states().items())


def test_party_steps_are_what_parties_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """A step that only the owner's own side is ever asked for must not be one that parties serve."""
    asked: dict[str, set[str]] = {name: set() for name in METHODS}
    current = ""
    call = AllParties._call

    def spy(self: AllParties, step: Callable[..., Any], *rest: Any) -> Call:
        found = call(self, step, *rest)
        if self.runs_at == "party" and set(found.chosen) - self.home:
            asked[current].add(step.__name__)
        return found

    monkeypatch.setattr(AllParties, "_call", spy)
    for case in CASES:
        current = case.method.name
        run = train(case, "loop", rounds=6)
        if current == "vimadmm-j":
            run.importance()
    assert asked == {name: set(method.steps()) for name, method in METHODS.items()}


# What an author of a method is told


def plain(mine: cn.Mine, turn: cn.Turn) -> None:
    """No step."""


@dataclass(frozen=True, kw_only=True)
class Asking(cn.MultiVFL):
    """Asks the wrong side, or for what is no step."""

    whom: str = "parties.ask"
    what: str = "plain"

    def round(self, owner: cn.Owner, parties: cn.Parties, turn: cn.Turn) -> torch.Tensor:
        step = plain if self.what == "plain" else getattr(self, self.what)
        way = getattr(parties if self.whom.startswith("parties") else owner.owners, self.whom.split(".")[1])
        way(step, turn)
        return torch.zeros(())


@pytest.mark.parametrize("runtime", ["loop", "fused"])
@pytest.mark.parametrize(
    ("whom", "what", "said"),
    [
        ("parties.ask", "plain", "parties were asked to run 'plain', which is no step; mark it with @party_step."),
        ("parties.sum", "plain", "parties were asked to run 'plain', which is no step; mark it with @party_step."),
        ("parties.tell", "top", "parties were asked to run 'top', which is a step of owners; ask those."),
        ("owners.ask", "plain", "owners were asked to run 'plain', which is no step; mark it with @owner_step."),
        ("owners.work", "plain", "owners were asked to run 'plain', which is no step; mark it with @owner_step."),
        ("owners.tell", "settle", "owners were asked to run 'settle', which is a step of parties; ask those."),
        ("owners.sum", "embed", "owners were asked to run 'embed', which is a step of parties; ask those."),
        ("owners.work", "embed", "owners were asked to run 'embed', which is a step of parties; ask those."),
    ],
)
def test_whoever_asks_the_wrong_side_is_told(whom: str, what: str, said: str, runtime: str) -> None:
    tables = cn.share(federation("labels"), 3)
    with pytest.raises(ConfigError) as caught:
        cn.train(tables, Asking(whom=whom, what=what), rounds=1, batch=8, runtime=runtime)
    assert str(caught.value) == said


@pytest.mark.parametrize(("owner", "to"), [("first", [0, 1]), ("first", [1]), ("first", None), ("labels", [0])])
def test_an_owners_step_runs_at_its_own_columns_only(owner: str, to: Sequence[int] | None) -> None:
    run = train(Case(cn.SplitNN(), owner=owner), "loop", rounds=1)
    turn = cn.Turn(0, torch.arange(4))
    with pytest.raises(ConfigError, match="parties were asked to run 'logits', which is a step of owners"):
        run.parties.ask(cn.Local().logits, turn, to=to)
    if owner == "first":
        assert run.parties.ask(cn.Local().logits, turn, to=[0])[0].o.shape == (4, 60)


def test_a_function_without_a_name_is_told_too() -> None:
    with pytest.raises(ConfigError, match=r"'functools.partial\(.*\)', which is no step"):
        check_step(partial(plain), "party")
