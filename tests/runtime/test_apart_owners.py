"""Several owners, and parties behind requests: the loop's numbers and ledger; requests of leaders who do not lead."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from test_contract import check_same_apart, everything_apart, federation, without_time

import colonnade as cn
from colonnade.errors import AwayError, ColonnadeError
from colonnade.runtime.remote.packet import read_packet, write_packet
from colonnade.runtime.remote.request_server import refused
from colonnade.runtime.remote.transport import DirectTransport
from colonnade.wire.message import Envelope, decode_fields, encode
from letters import stamp

METHODS = {"multivfl": cn.MultiVFL(every=5), "fedoptimus": cn.FedOptimus(every=2, select_every=4, lr=0.02)}
SHARES: dict[str, dict[str, Any]] = {"by class": {"alpha": 0.3}, "by size": {"sizes": [6, 3, 1]}}
OWNERS = ["owner 1", "owner 2", "owner 3"]


def shared(how: str = "by class") -> list[cn.Table]:
    """Owners with other classes and other numbers of rows, one of them with fewer than a batch."""
    return cn.share(federation("labels"), 3, seed=4, **SHARES[how])


def train(method: str, runtime: str, how: str = "by class", **more: Any) -> cn.Run:
    settings = {"rounds": 12, "batch": 8, "seed": 3, "valid": 0.2, "evaluate_every": 4, "test": federation("labels")}
    return cn.train(shared(how), METHODS[method], runtime=runtime, **{**settings, **more})


@pytest.mark.filterwarnings("ignore:classes")
@pytest.mark.parametrize("how", SHARES)
@pytest.mark.parametrize("method", METHODS)
def test_uneven_shares_agree_and_any_owner_predicts(method: str, how: str) -> None:
    apart, loop = (train(method, runtime, how) for runtime in ("apart", "loop"))
    assert {table.rows < 8 for table in shared(how)[:3]} == {False, True}, "all owners fill a batch"
    check_same_apart(apart, loop)
    test = federation("labels")
    each = [apart.predict(test, owner=name) for name in OWNERS]
    for name, found in zip(OWNERS, each, strict=True):
        assert torch.equal(found, loop.predict(test, owner=name))
        assert apart.evaluate(test, owner=name) == loop.evaluate(test, owner=name)
    assert method != "multivfl" or not torch.equal(each[0], each[1]), "two rounds after an average they differ"
    assert apart.ledger.to_json() == loop.ledger.to_json()
    with pytest.raises(ColonnadeError, match="owner 4"):
        apart.predict(test, owner="owner 4")


@pytest.mark.filterwarnings("ignore:classes")
@pytest.mark.parametrize(
    "seal",
    [cn.Bits(4, feedback=True), cn.TopK(0.3), cn.Noise(clip=1.0, epsilon=50.0), cn.RandomLabels(epsilon=3.0)],
    ids=lambda seal: seal.kind,
)
@pytest.mark.parametrize("method", METHODS)
def test_every_seal_agrees(method: str, seal: cn.Seal) -> None:
    apart, loop = (train(method, runtime, seal=seal) for runtime in ("apart", "loop"))
    check_same_apart(apart, loop)
    assert apart.privacy == loop.privacy


@pytest.mark.filterwarnings("ignore:classes")
@pytest.mark.parametrize("method", METHODS)
def test_a_run_resumes_exactly(method: str, tmp_path: Path) -> None:
    whole = train(method, "apart")

    def die(run: cn.Run) -> None:
        if run.round == 6:  # between two checkpoints
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(method, "apart", folder=tmp_path / "run", on_round=die)
    resumed = cn.resume(tmp_path / "run", shared(), test=federation("labels"))
    assert without_time(resumed.history) == without_time(whole.history)
    assert resumed.ledger.to_json() == whole.ledger.to_json()
    found = everything_apart(resumed)
    for name, value in everything_apart(whole).items():
        assert torch.equal(found[name], value), name


@pytest.mark.filterwarnings("ignore:classes")
@pytest.mark.parametrize("runtime", ["apart", "loop"])
def test_a_run_is_opened_without_its_tables(runtime: str, tmp_path: Path) -> None:
    run = train("multivfl", runtime, folder=tmp_path / "run")
    again, test = cn.resume(tmp_path / "run", train=False), federation("labels")
    for name in OWNERS:
        assert torch.equal(again.predict(test, owner=name), run.predict(test, owner=name))


def absent(number: int) -> list[str]:
    return ["party 2"] if number in (2, 5, 6) else []


@pytest.mark.filterwarnings("ignore:classes")
@pytest.mark.parametrize(("when_absent", "missing"), [("skip", "refuse"), ("without", "zero"), ("without", "mean")])
@pytest.mark.parametrize("method", METHODS)
def test_a_run_goes_on_as_the_loop_does(method: str, when_absent: str, missing: str) -> None:
    how = {"when_absent": when_absent, "missing": missing, "absent": absent}
    apart, loop = (train(method, runtime, **how) for runtime in ("apart", "loop"))
    assert (apart.skipped, apart.without, apart.missed) == (loop.skipped, loop.without, loop.missed)
    assert apart.missed["party 2"] > 0
    check_same_apart(apart, loop)


def test_a_run_that_waits_ends_if_nobody_comes() -> None:
    with pytest.raises(AwayError, match="'party 2' is absent in round 2"):
        train("multivfl", "apart", "by size", absent=absent)


def test_every_frame_is_one_that_the_ledger_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bytes around a tensor hold its sender's name, which is the leader's and not that of the process."""
    counted: dict[tuple[str, str], int] = {}
    post = DirectTransport.post

    def spy(self: DirectTransport, party: str, request: bytes) -> None:
        post(self, party, request)
        packet = read_packet(request)
        packets = [packet, read_packet(self._replies[party])]
        packets += [read_packet(packet.before)] if len(packet.before) else []
        for one in packets:
            for frame in one.frames if one.step and one.purpose == "train" else ():
                ends = (one.leader, party) if one.sender == "owner" else (party, one.leader)
                assert decode_fields(frame)[1].sender == ends[0]
                counted[ends] = counted.get(ends, 0) + len(frame)

    monkeypatch.setattr(DirectTransport, "post", spy)
    run = train("multivfl", "apart", "by size")
    lines = [line for line in run.ledger.rows if line.purpose == "train" and line.step in ("embed", "follow")]
    assert counted == {(line.sender, line.receiver): line.total for line in lines} and len(counted) == 24


# Requests that a party must refuse


@pytest.fixture(scope="module")
def parties() -> Any:
    return train("multivfl", "apart", "by size", rounds=3).parties.backend


def ask(backend: Any, step: str = "embed", by: str = "", fields: Any = None, **about: Any) -> str:
    """What party 2 says to a step, with a message ``by`` somebody: a sentence, or nothing if it answers."""
    party = backend.transport.parties["party 2"]
    due = replace(stamp(backend, party), sequence=party._last[0] + 1)
    packet = replace(due, **{"step": step, "purpose": "train", "table": "train", **about})
    frames = (encode(fields, Envelope(step, by or packet.leader, packet.round)),) if fields else ()
    reply = read_packet(party.serve(write_packet(replace(packet, frames=frames))))
    return str(refused(reply.frames[0], "party 2")) if reply.kind == "refusal" else ""


ASIDE = {"step": "", "purpose": "", "turn": 0}


@pytest.mark.parametrize(
    ("about", "said"),
    [
        ({"leader": "owner 1"}, ""),
        (
            {"leader": "owner 4"},
            "for 'owner 4' came to 'party 2', which answers owner or owner 1 or owner 2 or owner 3",
        ),
        ({"leader": "party 2"}, "for 'party 2' came to 'party 2'"),
        ({"leader": ""}, "for '' came to 'party 2'"),
        ({"leader": "owner 1", "sender": "owner 1"}, "a request of 'owner 1' for 'owner 1'"),
        ({"leader": "owner"}, "step 'embed' came to 'party 2' for 'owner'; owner 1 or owner 2 or owner 3 may ask it"),
        ({"leader": "owner", "purpose": "evaluate"}, "may ask it"),
        ({"leader": "owner", "purpose": "evaluate", "step": "settle"}, "belongs to training alone"),
        ({"leader": "owner 2", **ASIDE, "kind": "keep", "table": ""}, "more than it has: ['leader']"),
        ({"leader": "owner 2", **ASIDE, "kind": "place"}, "more than it has: ['leader']"),
        ({"leader": "owner", **ASIDE, "kind": "place"}, ""),
    ],
)
def test_a_request_for_somebody_who_does_not_lead_is_refused(parties: Any, about: dict[str, Any], said: str) -> None:
    party = parties.transport.parties["party 2"]
    before = party.states()
    found = ask(parties, **{"turn": 1000 + party._last[0], **about})
    assert said in found and bool(said) == bool(found)
    assert all(torch.equal(value, before[name]) for name, value in party.states().items())


def test_a_turn_has_one_leader_and_its_messages_are_that_leaders(parties: Any) -> None:
    turn = 1000 + parties.transport.parties["party 2"]._last[0]
    slope = {"slope": torch.ones(8, 60)}
    assert ask(parties, leader="owner 1", turn=turn) == ""
    assert ask(parties, leader="owner 2", turn=turn + 1) == ""
    said = ask(parties, "follow", leader="owner 2", turn=turn, fields=slope)
    assert f"turn {turn} came to 'party 2' for 'owner 2', and 'owner 1' leads it" in said
    said = ask(parties, "follow", leader="owner 2", turn=turn + 1, fields=slope, by="owner 1")
    assert "a frame of 'owner 1', step 'follow', round 0 came in a request of 'owner 2'" in said
    said = ask(parties, "settle", leader="owner", turn=turn)
    assert f"turn {turn} came to 'party 2' for 'owner', and 'owner 1' leads it" in said
    for one, leader in enumerate(["owner 2", "owner 1"]):  # both turns are still open, whoever comes first
        assert ask(parties, "follow", leader=leader, turn=turn + 1 - one, fields=slope) == ""


def test_a_held_request_for_another_leader_is_refused_with_the_next_one(parties: Any) -> None:
    """Of two requests in one either both count or none."""
    party = parties.transport.parties["party 2"]
    due, turn, before = party._last[0] + 1, 1000 + party._last[0], party.states()
    packet = replace(stamp(parties, party), purpose="train", table="train", turn=turn)
    held = write_packet(replace(packet, step="settle", leader="owner 4", sequence=due))
    raw = write_packet(replace(packet, step="embed", leader="owner 1", sequence=due + 1, before=held))
    reply = read_packet(party.serve(raw))
    assert reply.kind == "refusal" and "for 'owner 4'" in str(refused(reply.frames[0], "party 2"))
    assert party._last[0] == due - 1
    assert all(torch.equal(value, before[name]) for name, value in party.states().items())
