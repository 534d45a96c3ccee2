"""One party in another process as the owner sees it, and all of them: requests in order, replies that are theirs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor

import colonnade as cn
from colonnade.errors import AwayError, ColonnadeError, MessageError, SealError
from colonnade.runtime.parties import AllParties
from colonnade.runtime.remote.packet import Packet, read_packet, write_packet
from colonnade.runtime.remote.remote_backend import RemoteBackend
from colonnade.runtime.remote.remote_party import KEPT, RemoteParty
from colonnade.runtime.remote.request_server import refusal
from colonnade.runtime.schema import Schema
from colonnade.wire.ends import Ends
from colonnade.wire.message import Envelope, decode_fields, encode
from colonnade.wire.owner_half import OwnerHalf
from colonnade.wire.party_half import PartyHalf

AGREED = {"job": b"the job ........", "plan": b"the plan ......."}
ONE, TWO = b"one session.....", b"two sessions...."
STEP = {"step": "embed", "purpose": "train", "table": "train", "round": 3, "turn": 4}
Change = Callable[[Packet], "Packet | bytes"]


class Sent(NamedTuple):
    party: str
    request: Packet


class Scripted:
    """A transport whose parties answer as a test says: by kind or step, with these fields."""

    def __init__(self, **answers: Any) -> None:
        self.answers: dict[str, Any] = {"embed": {"h": torch.ones(2, 3)}, "spent": {}, **answers}
        self.sessions: dict[str, bytes] = {}
        self.sent: list[Sent] = []
        self.change: Change = lambda reply: reply
        self.absent: set[str] = set()
        self.slow: set[str] = set()
        self.taken: list[str] = []  # whose replies, in this order
        self.given: list[tuple[str, str]] = []
        self.waited: list[str] = []
        self.closed = False
        self._replies: dict[str, bytes] = {}

    def post(self, party: str, request: bytes) -> None:
        if party in self.absent:
            raise AwayError(f"'{party}' is absent.", party)
        assert party not in self._replies, "a request came before the last one was answered"
        packet = read_packet(request)
        self.sent.append(Sent(party, packet))
        fields = self.answers.get(packet.step or packet.kind)
        frames = () if fields is None else (encode(fields, Envelope(packet.step or packet.kind, party, packet.round)),)
        changed = self.change(packet.reply("answer", party, *frames))
        self._replies[party] = changed if isinstance(changed, bytes) else write_packet(changed)

    def reply(self, party: str) -> bytes:
        self.taken.append(party)
        return self._replies.pop(party)

    def first(self, parties: Sequence[str]) -> str:
        return min(parties, key=self.slow.__contains__)

    def session(self, party: str) -> bytes:
        return self.sessions.get(party, ONE)

    def give(self, party: str, name: str, table: cn.Table) -> None:
        self.given.append((party, name))

    def wait_for(self, party: str) -> None:
        self.waited.append(party)

    def close(self) -> None:
        self.closed = True

    @property
    def kinds(self) -> list[str]:
        return [one.request.kind for one in self.sent]


def shop(transport: Scripted, *, goes_on: bool = False) -> RemoteParty:
    return RemoteParty("shop", transport, AGREED, goes_on=goes_on)


# Requests


def test_requests_are_numbered_and_say_job_plan_and_session() -> None:
    transport = Scripted()
    party = shop(transport)
    assert party.session == b""
    for _ in range(3):
        assert torch.equal(party.call("step", **STEP)["h"], torch.ones(2, 3))
    assert [one.request.sequence for one in transport.sent] == [1, 2, 3]
    for _, request in transport.sent:
        assert (request.job, request.plan, request.session) == (AGREED["job"], AGREED["plan"], ONE)
        assert (request.sender, request.step, request.round, request.turn) == ("owner", "embed", 3, 4)
    assert party.session == ONE


def test_a_message_travels_in_a_frame_of_its_step_or_kind() -> None:
    transport = Scripted(keep={"kept": torch.tensor([1])})
    party = shop(transport)
    party.call("step", {"slope": torch.ones(2)}, **STEP, leader="owner 2")
    party.call("keep", {"needed": torch.arange(2)})
    about = [decode_fields(one.request.frames[0])[1] for one in transport.sent]
    assert about == [Envelope("embed", "owner 2", 3), Envelope("keep", "owner", 0)]


def test_a_silent_request_travels_in_front_of_the_next_one() -> None:
    transport = Scripted()
    party = shop(transport)
    told = {**STEP, "step": "follow"}
    assert not party.post("step", told, b"", silent=True)
    assert transport.sent == []
    assert party.post("step", STEP)
    assert party.reply() is not None
    (only,) = transport.sent
    before = read_packet(only.request.before)
    assert (before.step, before.sequence, before.session) == ("follow", 1, ONE)
    assert (only.request.step, only.request.sequence) == ("embed", 2)
    party.call("spent")
    assert not len(transport.sent[-1].request.before) and transport.sent[-1].request.sequence == 3


def test_of_two_silent_requests_in_a_row_the_second_is_sent_and_answered() -> None:
    transport = Scripted()
    party = shop(transport)
    told = {**STEP, "step": "follow"}
    assert [party.post("step", told, silent=True) for _ in range(2)] == [False, True]
    assert party.reply(replies=False) is None
    assert [one.request.sequence for one in transport.sent] == [2]
    assert read_packet(transport.sent[0].request.before).sequence == 1


def test_what_waits_for_a_next_request_that_does_not_come_is_sent_by_itself() -> None:
    transport = Scripted()
    party = shop(transport)
    assert not party.post_waiting()
    party.post("step", {**STEP, "step": "follow"}, silent=True)
    assert party.post_waiting() and not party.post_waiting()
    assert party.reply(replies=False) is None
    assert [(one.request.step, one.request.sequence) for one in transport.sent] == [("follow", 1)]
    assert party.call("spent") == {} and transport.sent[-1].request.sequence == 2


# A new session


def test_a_new_session_counts_from_one_and_nothing_of_the_old_one_travels() -> None:
    transport = Scripted()
    party = shop(transport)
    party.call("step", **STEP)
    party.post("step", {**STEP, "step": "follow"}, silent=True)
    transport.sessions["shop"] = TWO
    party.call("spent")
    last = transport.sent[-1].request
    assert (last.session, last.sequence, bytes(last.before)) == (TWO, 1, b"")
    assert party.session == TWO


def test_who_kept_a_state_and_is_another_process_takes_all_back_with_it() -> None:
    transport = Scripted()
    party = shop(transport)
    party.call("step", **STEP)
    party.states.newest = torch.tensor([7])
    party.post("step", {**STEP, "step": "follow"}, silent=True)
    transport.sessions["shop"] = TWO
    with pytest.raises(AwayError, match="'shop' came back as another process amid a round") as caught:
        party.post("step", {**STEP, "turn": 5})
    assert caught.value.party == "shop" and len(transport.sent) == 1
    for _ in range(3):  # whoever tries again, as a key agreement does, must not ask it before it has gone back
        with pytest.raises(AwayError, match="amid a round"):
            party.call("blind", purpose="hello")
    assert not party.post_waiting() and len(transport.sent) == 1
    party.post("back", {}, party.go_back_request(torch.tensor([6])))
    assert party.reply() is None
    assert transport.kinds == ["step", "back"] and int(party.states.newest) == 6


def test_a_run_that_goes_on_leads_it_back_to_its_newest_state_before_the_next_turn() -> None:
    transport = Scripted()
    party = shop(transport, goes_on=True)
    party.call("step", **STEP)
    party.states.newest = torch.tensor([7])
    transport.sessions["shop"] = TWO
    party.call("step", **{**STEP, "turn": 5})
    back, again = (one.request for one in transport.sent[1:])
    assert (back.kind, back.sequence, again.kind, again.sequence) == ("back", 1, "step", 2)
    assert decode_fields(back.frames[0])[0][KEPT].tolist() == [7]


def test_amid_a_turn_even_a_run_that_goes_on_does_without_it() -> None:
    """Another process has none of what was noted in this turn."""
    transport = Scripted()
    party = shop(transport, goes_on=True)
    party.call("step", **STEP)
    party.states.newest = torch.tensor([7])
    transport.sessions["shop"] = TWO
    with pytest.raises(AwayError, match="amid a round"):
        party.post("step", {**STEP, "step": "follow"})
    transport.answers["keep"] = {"kept": torch.tensor([8])}
    party.call("keep")
    assert transport.kinds == ["step", "back", "keep"], "it keeps the state that it went back to"


# Replies


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda reply: replace(reply, sequence=1), "to request 1 came from 'shop', which was asked 2; it is stale"),
        (lambda reply: replace(reply, sender="mill"), "a reply of 'mill' to request 2 came from 'shop'"),
        (lambda reply: replace(reply, session=TWO), "'shop' replied for another job, session or plan"),
        (lambda reply: replace(reply, job=bytes(16)), "'shop' replied for another job, session or plan"),
        (lambda reply: replace(reply, plan=bytes(16)), "'shop' replied for another job, session or plan"),
        (lambda reply: replace(reply, round=9), "that is not about what it was asked"),
        (lambda reply: replace(reply, step="logits"), "not about what it was asked"),
        (lambda reply: replace(reply, kind="talk"), "'shop' replied with a talk"),
        (lambda reply: replace(reply, before=write_packet(reply)), "not about what it was asked"),
        (lambda reply: replace(reply, frames=reply.frames * 2), "not about what it was asked"),
        (lambda reply: replace(reply, frames=()), "'shop' answered step 'embed' of round 3 with nothing"),
        (lambda reply: write_packet(reply)[:50], "'shop' sent what is no reply"),
        (lambda reply: b"", "'shop' sent what is no reply"),
        (
            lambda reply: replace(reply, frames=(encode({"h": torch.ones(1)}, Envelope("embed", "mill", 3)),)),
            "'shop' replied with a frame of 'mill', step 'embed', round 3",
        ),
        (
            lambda reply: replace(reply, frames=(encode({"h": torch.ones(1)}, Envelope("embed", "shop", 2)),)),
            "'shop' replied with a frame of 'shop', step 'embed', round 2",
        ),
    ],
)
def test_a_reply_that_is_stale_or_foreign_is_refused_by_name(change: Change, said: str) -> None:
    transport = Scripted()
    party = shop(transport)
    party.call("step", **STEP)
    transport.change = change
    with pytest.raises(MessageError) as caught:
        party.call("step", **STEP)
    assert said in str(caught.value)


def test_a_frame_that_is_none_or_too_long_is_refused_by_name() -> None:
    transport = Scripted()
    party = shop(transport)
    transport.change = lambda reply: replace(reply, frames=(b"CLND",))
    with pytest.raises(MessageError, match="shop"):
        party.call("step", **STEP)
    transport.change = lambda reply: reply
    transport.answers["embed"] = {"h": torch.zeros(100_000)}
    party.post("step", STEP)
    with pytest.raises(MessageError, match=r"shop.*400\d\d\d bytes"):
        party.reply(form={"h": torch.empty(2, 3)})


def test_a_step_without_a_reply_has_none() -> None:
    party = shop(Scripted())
    party.post("step", STEP)
    with pytest.raises(MessageError, match="'shop' answered step 'embed' of round 3 with a message"):
        party.reply(replies=False)


def test_a_refusal_is_the_error_that_the_party_had() -> None:
    transport = Scripted()
    transport.change = lambda reply: replace(
        reply, kind="refusal", frames=(refusal(SealError("the budget is spent."), "shop"),)
    )
    with pytest.raises(SealError, match="'shop' refused: the budget is spent"):
        shop(transport).call("step", **STEP)


def test_after_a_refused_reply_the_next_request_has_the_next_number() -> None:
    transport = Scripted()
    party = shop(transport)
    transport.change = lambda reply: replace(reply, sequence=99)
    with pytest.raises(ColonnadeError):
        party.call("step", **STEP)
    transport.change = lambda reply: reply
    party.call("step", **STEP)
    assert [one.request.sequence for one in transport.sent] == [1, 2]


# All parties


class Hidden(NamedTuple):
    h: Tensor


class Slope(NamedTuple):
    slope: Tensor


@cn.party_step
def embed(mine: cn.Mine, turn: cn.Turn) -> Hidden:
    """Replies."""
    raise NotImplementedError


@cn.party_step
def follow(mine: cn.Mine, turn: cn.Turn, message: Slope) -> None:
    """Is told, and has no reply."""
    raise NotImplementedError


NAMES = ["shop", "mill", "post"]
FORMS = {f"{name}/up/embed": {"h": ("float32", (-1, 3))} for name in NAMES} | {
    f"{name}/down/follow": {"slope": ("float32", (-1, 3))} for name in NAMES
}


def three(transport: Scripted, *, goes_on: bool = False) -> AllParties:
    half = OwnerHalf(Ends())
    halves = [PartyHalf(name, half.ends) for name in NAMES]
    backend = RemoteBackend(
        [], halves, transport, Schema(FORMS), job=AGREED["job"], ledger=half.ledger, goes_on=goes_on
    )
    return AllParties(NAMES, backend, half, home=set())


def turn(number: int = 0, leader: str = "owner") -> cn.Turn:
    return cn.Turn(number, torch.arange(2), leader=leader)


def test_all_are_asked_at_once_and_answer_in_their_order() -> None:
    transport = Scripted()
    replies = three(transport).ask(embed, turn())
    assert len(replies) == 3 and all(type(one) is Hidden and torch.equal(one.h, torch.ones(2, 3)) for one in replies)
    assert [one.party for one in transport.sent] == NAMES
    assert {one.request.plan for one in transport.sent} == {Schema(FORMS).digest}


def test_who_is_slow_is_read_last_and_still_stands_in_its_place() -> None:
    """The owner checks the others' replies while the slow one's travels; the result does not tell."""
    transport = Scripted()

    def own_name(reply: Packet) -> Packet:
        said = {"h": torch.full((2, 3), float(NAMES.index(reply.sender)))}
        return replace(reply, frames=(encode(said, Envelope("embed", reply.sender, 0)),))

    transport.slow, transport.change = {NAMES[0]}, own_name
    parties = three(transport)
    replies = parties.ask(embed, turn())
    assert transport.taken == [*NAMES[1:], NAMES[0]]
    assert [float(one.h[0, 0]) for one in replies] == [0.0, 1.0, 2.0]
    assert [line.sender for line in parties.half.ledger.rows] == NAMES


def test_those_who_are_not_asked_get_no_request() -> None:
    transport = Scripted()
    assert len(three(transport).ask(embed, turn(), to=[2, 0])) == 2
    assert [one.party for one in transport.sent] == ["shop", "post"]


def test_what_parties_are_told_in_training_travels_with_the_next_question_and_is_counted_at_once() -> None:
    transport = Scripted()
    parties, now = three(transport), turn()
    parties.ask(embed, now)
    parties.tell(follow, now, all=Slope(torch.ones(2, 3)))
    assert len(transport.sent) == 3
    assert {line.receiver for line in parties.half.ledger.rows if line.step == "follow"} == set(NAMES)
    parties.ask(embed, turn(1))
    for _, request in transport.sent[3:]:
        before = read_packet(request.before)
        assert (before.step, before.turn, request.step, request.turn) == ("follow", 1, "embed", 2)
        assert decode_fields(before.frames[0])[1] == Envelope("follow", "owner", 0)


def test_what_was_told_last_is_sent_when_the_run_settles() -> None:
    transport = Scripted()
    parties = three(transport)
    parties.tell(follow, turn(), all=Slope(torch.ones(2, 3)), to=[1])
    parties.backend.settle()
    assert [(one.party, one.request.step) for one in transport.sent] == [("mill", "follow")]
    parties.backend.settle()
    assert len(transport.sent) == 1


def test_steps_of_one_turn_have_its_number_and_every_leaders_turn_its_own() -> None:
    transport = Scripted()
    parties, one, two = three(transport), turn(leader="owner 1"), turn(leader="owner 2")
    for now in (one, two, one, two, turn(1, "owner 1")):
        parties.ask(embed, now, to=[0])
    assert [one.request.turn for one in transport.sent] == [1, 2, 1, 2, 3]
    assert [one.request.leader for one in transport.sent] == [f"owner {k}" for k in (1, 2, 1, 2, 1)]


def test_an_answer_of_another_form_is_refused_by_name() -> None:
    transport = Scripted(embed={"h": torch.ones(2, 4)})
    with pytest.raises(MessageError, match="shop"):
        half_checked(transport).ask(embed, turn())


def half_checked(transport: Scripted) -> AllParties:
    """As a run has it: the owner's half looks at every message."""
    parties = three(transport)
    parties.half.checks = Schema(FORMS)
    return parties


def test_states_are_numbers_that_the_parties_tell() -> None:
    transport = Scripted(keep={"kept": torch.tensor([1])})
    parties = three(transport)
    assert [int(state[KEPT]) for state in parties.states()] == [1, 1, 1]
    transport.answers["keep"] = {"kept": torch.tensor([1])}
    with pytest.raises(MessageError, match="'shop' kept a state and called it 'kept' = 1; 2 was due"):
        parties.states()


def test_a_party_that_is_told_to_keep_a_state_hears_which_ones_are_needed() -> None:
    transport = Scripted(keep={"kept": torch.tensor([1])})
    parties = three(transport)
    parties.backend.saved({f"party-{k:03d}": state for k, state in enumerate(parties.states())})
    transport.answers["keep"] = {"kept": torch.tensor([2])}
    parties.states()
    needed = [decode_fields(one.request.frames[0])[0]["needed"].tolist() for one in transport.sent]
    assert needed == [[]] * 3 + [[1]] * 3


def test_parties_go_back_to_the_states_that_are_named_and_others_stay() -> None:
    transport = Scripted()
    parties = three(transport)
    parties.load({1: {KEPT: torch.tensor([4])}})
    assert [(one.party, one.request.kind) for one in transport.sent] == [("mill", "back")]
    assert decode_fields(transport.sent[0].request.frames[0])[0][KEPT].tolist() == [4]


@pytest.mark.parametrize("goes_on", [False, True])
def test_who_is_absent_when_states_are_kept_has_its_last_one_if_the_run_goes_on(goes_on: bool) -> None:
    transport = Scripted(keep={"kept": torch.tensor([1])})
    parties = three(transport, goes_on=goes_on)
    parties.states()
    transport.absent, transport.answers["keep"] = {"mill"}, {"kept": torch.tensor([2])}
    if not goes_on:
        with pytest.raises(AwayError, match="mill"):
            parties.states()
        return
    assert [int(state[KEPT]) for state in parties.states()] == [2, 1, 2]


def test_who_never_kept_a_state_is_waited_for() -> None:
    transport = Scripted(keep={"kept": torch.tensor([1])})
    transport.absent = {"mill"}
    with pytest.raises(AwayError, match="'mill' is absent and never kept a state") as caught:
        three(transport, goes_on=True).states()
    assert caught.value.party == "mill"


def test_tables_are_given_and_their_rows_compared() -> None:
    transport = Scripted(place={"rows": torch.tensor([4])})
    parties = three(transport)
    tables = [cn.Table(ids=range(4), columns=torch.zeros(4, 1), name=name) for name in NAMES]
    parties.place("test", tables)
    assert transport.given == [(name, "test") for name in NAMES] and transport.kinds == ["place"] * 3
    transport.answers["place"] = {"rows": torch.tensor([5])}
    with pytest.raises(MessageError, match="'shop' has 5 rows of 'test' and the owner 4; align again"):
        parties.place("test", tables)


def test_only_those_are_waited_for_who_are_absent() -> None:
    transport = Scripted()
    parties = three(transport)
    assert parties.wait_for("mill") and transport.waited == ["mill"]
    assert parties.wait_for(None) and transport.waited == ["mill", *NAMES]
    with parties.presence.dropping_out(frozenset(["post"])):
        assert not parties.wait_for("post"), "a simulation would let it drop out again"


def test_the_end_is_told_and_the_transport_closed_even_if_somebody_is_gone() -> None:
    transport = Scripted()
    three(transport).backend.close()
    assert transport.kinds == ["end"] * 3 and transport.closed
    broken = Scripted()
    broken.absent = {"shop"}
    with pytest.raises(AwayError):
        three(broken).backend.close()
    assert broken.closed


def test_a_closed_run_tells_its_parties_that_this_is_the_end() -> None:
    train, _ = cn.load("digits", parties=2, rows=40)
    run: Any = cn.train(train, "fdml", rounds=1, batch=10, runtime="apart")
    run.parties.close()
    assert all(party.ended for party in run.parties.backend.transport.parties.values())
