"""Requests that nobody should have written: a party refuses them, the owner raises one of our errors, nothing moves.

The mutations are those of ``benchmarks/hostile.py``, drawn by hypothesis so that a failure shrinks. A request whose
tensors merely hold other finite numbers is as good as the original: that it is the original is what TLS vouches for.
"""

import random
import resource
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from benchmarks.hostile import (
    CASES,
    Score,
    attack_owner,
    attack_party,
    backend_of,
    direct,
    disturbed,
    ending,
    may_be_written,
    mutant,
    reach_through,
    same,
    silent_steps,
    train,
)
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor

import colonnade as cn
from colonnade.errors import AwayError, ColonnadeError, FolderError, LinkError, MessageError, SealError
from colonnade.runtime.parties import AllParties
from colonnade.runtime.remote import request_server as server
from colonnade.runtime.remote.packet import Packet, read_packet, write_packet
from colonnade.runtime.remote.request_server import refused
from colonnade.runtime.remote.transport import DirectTransport
from colonnade.seal.codec import shape_of
from colonnade.seal.relay import heard, stacked, unstacked
from colonnade.wire.message import Envelope, decode_fields, encode
from letters import stamp

NAMES = ["a", "b", "c"]
lenient = settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))


class Recording(DirectTransport):
    """A transport that remembers what was asked and answered, and can give something else."""

    def __init__(self, remote: AllParties) -> None:
        super().__init__(direct(remote).parties)
        self._replies = direct(remote)._replies
        self.remote, self.instead = remote, None
        self.heard: list[tuple[str, Any, bytes, bytes]] = []

    def post(self, party: str, request: bytes) -> None:
        super().post(party, request)
        self.heard.append((party, dict(backend_of(self.remote)._turns), request, self._replies[party]))

    def reply(self, party: str) -> bytes:
        return super().reply(party) if self.instead is None else self.instead


@pytest.fixture(scope="module")
def runs() -> dict[str, cn.Run]:
    def record(run: cn.Run) -> None:
        remote = run.parties
        if not isinstance(direct(remote), Recording):
            reach_through(remote, Recording(remote))
        if remote.blinding is not None:
            remote.blinding.forget_keys()

    return {name: train(*case, on_round=record) for name, case in CASES.items()}


@pytest.mark.long
@pytest.mark.parametrize("which", CASES)
def test_a_run_under_attack_ends_as_one_that_nobody_disturbed(which: str) -> None:
    run, score = disturbed(*CASES[which], random.Random(which), each=6, most=600)
    assert score.crashed == [] and score.accepted == [] and score.unnamed == []
    assert score.frames > 200 and run is not None
    assert same(ending(run), ending(train(*CASES[which])))


@lenient
@given(st.data(), st.randoms(use_true_random=False), st.sampled_from(sorted(CASES)))
def test_a_party_moves_for_its_next_request_only(runs: Any, data: Any, draw: random.Random, which: str) -> None:
    lines = direct(runs[which].parties)
    name, _, request, _ = data.draw(st.sampled_from(lines.heard))
    party, score = lines.parties[name], Score()
    raw = write_packet(replace(read_packet(request), sequence=party._last[0] + 1, before=b""))
    new = mutant(draw, raw, [one[2] for one in lines.heard[-20:]])
    heard = [read_packet(one[2]) for one in lines.heard]
    # Spliced of two requests, a mutant may be one that the owner sent before, in its next place: it may mean that.
    again = [write_packet(replace(one, sequence=party._last[0] + 1, before=b"")) for one in heard]
    if new not in again and not may_be_written(raw, new, silent_steps(party, heard), from_party=False):
        attack_party(party, [new], score)
    assert score.crashed == [] and score.accepted == [] and score.unnamed == []


@lenient
@given(st.data(), st.randoms(use_true_random=False), st.sampled_from(sorted(CASES)))
def test_the_owner_raises_our_errors_only(runs: Any, data: Any, draw: random.Random, which: str) -> None:
    lines = direct(runs[which].parties)
    name, turns, request, raw = data.draw(st.sampled_from(lines.heard))
    remote, score = lines.remote, Score()
    backend_of(remote).parties[name]._request = replace(read_packet(request), frames=())
    backend_of(remote)._turns = turns
    new = mutant(draw, raw, [one[3] for one in lines.heard[-20:]])
    if new != raw and not may_be_written(raw, new, [], from_party=True):
        lines.instead = new
        try:
            attack_owner(remote, name, raw, score)
        finally:
            lines.instead = None
    assert score.crashed == [] and score.accepted == [] and score.unnamed == []


@lenient
@given(st.binary(max_size=300))
def test_bytes_are_a_request_or_a_message_error(raw: bytes) -> None:
    for read in (read_packet, decode_fields, lambda raw: refused(raw, "a")):
        try:
            read(raw)
        except MessageError:
            continue


def test_other_finite_numbers_are_a_message_like_any_other() -> None:
    run = train(cn.SplitNN(), None)
    party = direct(run.parties).parties["party 2"]
    packet = replace(stamp(run.parties.backend, party), purpose="train", table="train", turn=99)
    asked = replace(packet, step="embed", sequence=party._last[0] + 1)
    h = decode_fields(read_packet(party.serve(write_packet(asked))).frames[0])[0]["h"]
    frame = encode({"slope": torch.full_like(h, 0.5)}, Envelope("follow", "owner", 0))
    told = replace(packet, step="follow", sequence=party._last[0] + 1, frames=(frame,))
    assert read_packet(party.serve(write_packet(told))).kind == "answer"


# What was found, one by one


def last_party(method: cn.Method, seal: Any = None) -> tuple[Any, Any, cn.Run]:
    run = train(method, seal)
    return run.parties, direct(run.parties).parties["party 2"], run


def tell(remote: Any, party: Any, kind: str, fields: dict[str, Tensor], **about: Any) -> str:
    """What a party says to a request of its owner with these tensors."""
    packet = replace(stamp(remote.backend, party), kind=kind, sequence=party._last[0] + 1, **about)
    frame = encode(fields, Envelope(packet.step or kind, "owner", packet.round))
    reply = read_packet(party.serve(write_packet(replace(packet, frames=(frame,)))))
    assert reply.kind == "refusal"
    return str(refused(reply.frames[0], party.name))


@pytest.mark.parametrize("sequence", [0, 2**64 - 1])
def test_a_foreign_request_does_not_move_what_is_due(sequence: int) -> None:
    remote, party, _ = last_party(cn.SplitNN())
    first = write_packet(
        replace(stamp(remote.backend, party), step="embed", purpose="train", table="train", turn=1, sequence=1)
    )
    foreign = replace(stamp(remote.backend, party), job=bytes(16), sequence=sequence)
    assert read_packet(party.serve(write_packet(foreign))).kind == "refusal"
    assert read_packet(party.serve(first)).kind == "refusal", "request 1 was replayed"
    assert len(remote.states()) == 4, "the next request is refused"


@pytest.mark.parametrize(
    ("kind", "fields", "about"),
    [
        ("keep", {"needed": torch.ones(2, 2, dtype=torch.int64)}, {}),
        ("keep", {"needed": torch.ones(2)}, {}),
        ("back", {"kept": torch.ones(1)}, {}),
        ("blind", {"who": torch.zeros(2, 2)}, {"purpose": "confirm"}),
        ("blind", {"who": torch.tensor(1, dtype=torch.int16)}, {"purpose": "confirm"}),
        ("blind", {"who": torch.arange(4, dtype=torch.int16)}, {"purpose": "confirm"}),
        ("blind", {"who": torch.arange(4, dtype=torch.int16)}, {"purpose": "join"}),
        ("blind", {"who": torch.arange(4, dtype=torch.int16)}, {"purpose": "mask", "step": "logits: o"}),
        ("sum", {"o.bound": torch.ones(3)}, {"step": "logits", "purpose": "train", "table": "train", "serial": 9}),
    ],
)
def test_what_cannot_be_read_is_refused_before_anything_moves(kind: str, fields: Any, about: Any) -> None:
    remote, party, _ = last_party(cn.FDML(), cn.Blind())
    before, kept = party.states(), list(party.keeping.numbers)
    assert tell(remote, party, kind, fields, **about)
    assert party.keeping.numbers == kept
    assert all(torch.equal(value, before[name]) for name, value in party.states().items())


@pytest.mark.parametrize("bound", [torch.tensor(0.0), torch.tensor(-1.0), torch.ones(2), torch.tensor(1)])
def test_a_scale_that_is_none_is_refused_and_not_kept(bound: Tensor) -> None:
    remote, party, _ = last_party(cn.FDML(), [cn.Blind(), cn.Bits(4)])
    packet = replace(stamp(remote.backend, party), kind="sum", step="logits", purpose="train", table="train", serial=99)
    frames = (b"", encode({"o.bound": bound}, Envelope("logits", "owner", 0)))
    raw = write_packet(replace(packet, sequence=party._last[0] + 1, frames=frames))
    assert read_packet(party.serve(raw)).kind == "refusal"
    assert party.ends[party.name].bounds == {}


@pytest.mark.parametrize("method", [cn.SplitNN(), cn.MultiVFL(every=2)], ids=lambda one: one.name)
def test_a_step_before_the_one_that_it_goes_on_from_is_refused_in_a_sentence(method: cn.Method) -> None:
    remote, party, _ = last_party(method)
    slope = {"slope": torch.zeros(16, 60)}
    leader = party.leaders[-1]
    said = tell(remote, party, "step", slope, step="follow", purpose="train", table="train", turn=99, leader=leader)
    assert "goes on from 'output', and the step that gives it did not" in said


def answered(change: Callable[[Any], Any], method: cn.Method, seal: Any = None) -> None:
    """A round in which one party's replies are changed."""
    remote, party, run = last_party(method, seal)
    serve = party.serve
    party.serve = lambda request: write_packet(change(read_packet(serve(request))))
    run.method.round(run.owner, remote, cn.Turn(1, run.schedule.batch_of(1)))


def with_fields(fields: dict[str, Tensor]) -> Callable[[Any], Any]:
    def change(packet: Any) -> Any:
        frame = encode(fields, Envelope(packet.step or "blind", packet.sender, packet.round))
        return replace(packet, frames=(frame,))

    return change


def refusal(**fields: bytes) -> Callable[[Any], Any]:
    tensors = {name: torch.tensor(list(raw), dtype=torch.uint8) for name, raw in fields.items()}
    return lambda packet: packet.reply("refusal", packet.sender, encode(tensors, Envelope("refusal", packet.sender, 0)))


@pytest.mark.parametrize(
    "change",
    [
        lambda packet: replace(packet, frames=()),
        lambda packet: replace(packet, kind="refusal", frames=()),
        lambda packet: replace(packet, kind="refusal", frames=(b"",)),
        lambda packet: replace(packet, kind="talk"),
        lambda packet: replace(packet, round=packet.round + 1),
        lambda packet: replace(packet, frames=packet.frames * 2 or (b"", b"")),
        with_fields({}),
        refusal(part0=b"MessageError"),
        refusal(part0=b"MessageError", part1=b"x" * 5000),
        refusal(part0=b"Broken", part1=b"gone"),
        refusal(part0=b"AwayError", part1=b"gone"),
        refusal(part0=b"\xff\xfe", part1=b"\xff\xfe"),
    ],
)
def test_the_owner_takes_no_reply_that_is_none(change: Any) -> None:
    with pytest.raises(ColonnadeError):
        answered(change, cn.SplitNN())


def test_a_step_without_a_reply_has_none() -> None:
    with pytest.raises(MessageError, match="answered step 'settle' of round 1 with a message"):
        answered(
            lambda packet: packet if packet.frames else with_fields({"h": torch.zeros(1)})(packet),
            cn.MultiVFL(every=1),  # tells two things in a row, and waits until they were heard
        )


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"part0": torch.zeros(32, dtype=torch.uint8)},
        {"part0": torch.zeros(0, dtype=torch.uint8)},
        {f"part{k}": torch.zeros(7, dtype=torch.uint8) for k in range(3)},
        {f"part{k}": torch.zeros(2, 2) for k in range(3)},
        {"o": torch.zeros(4, dtype=torch.uint8), "o.form": torch.tensor([32, 1], dtype=torch.int32)},
    ],
)
@pytest.mark.parametrize("recover", [False, True])
def test_the_owner_of_a_blinded_sum_raises_our_errors(fields: Any, recover: bool) -> None:
    with pytest.raises((MessageError, SealError)):
        answered(with_fields(fields), cn.FDML(), cn.Blind(recover=recover))


def test_a_refusal_cannot_write_on_a_terminal() -> None:
    frame = refusal(part0=b"SealError", part1=b"\x1b[2J\nno")(Packet("answer", "a")).frames[0]
    assert str(refused(frame, "a")) == "'a' refused: ?[2J?no"


@pytest.mark.parametrize("when_absent", ["wait", "skip", "without"])
@pytest.mark.parametrize("kind", ["AwayError", "Broken", "UnreachableError"])
def test_who_says_that_it_is_absent_is_not(kind: str, when_absent: str, tmp_path: Path) -> None:
    """Else it would be waited for, as it is there, and asked again, without end; or rounds would be skipped for it."""
    asked = []

    def spoil(run: cn.Run) -> None:
        party = direct(run.parties).parties["party 3"]
        serve = party.serve

        def refuse(request: bytes) -> bytes:
            asked.append(request)
            assert len(asked) < 20, "the owner asks again and again"
            reply = read_packet(serve(request))
            is_step = read_packet(request).kind == "step"
            return write_packet(refusal(part0=kind.encode(), part1=b"wait for me")(reply) if is_step else reply)

        party.serve = refuse

    tables = cn.split(torch.randn(40, 6).numpy(), torch.arange(40).numpy() % 2, 3)
    how = {"rounds": 4, "batch": 10, "runtime": "apart", "evaluate_every": 1, "when_absent": when_absent}
    with pytest.raises(ColonnadeError, match="'party 3' refused: wait for me") as caught:
        cn.train(tables, "fdml", folder=tmp_path / "run", on_round=spoil, **how)
    assert not isinstance(caught.value, AwayError | LinkError) and asked


def test_few_bytes_do_not_become_a_monstrous_tensor() -> None:
    form = torch.tensor([24, 16, 2**24], dtype=torch.int32)
    bomb = {"h": torch.zeros(16, 1), "h.at": torch.zeros(48, dtype=torch.uint8), "h.at.form": form}
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(MessageError, match="came for rows"):
        answered(with_fields(bomb), cn.VIMSGD(), cn.TopK(0.3))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50 * 1024
    with pytest.raises(MessageError, match="which none has"):
        shape_of("h", {"h": torch.zeros(1), "h.form": torch.zeros(10**6, dtype=torch.int32)})


@pytest.mark.parametrize("shape", [(15, 60), (16, 61), (16,), (17, 60)])
def test_a_change_of_another_shape_is_refused_before_it_is_remembered(shape: tuple[int, ...]) -> None:
    seal = cn.Bits(4, feedback=True, scale="tensor")
    wire = seal.encode("h", torch.randn(shape), torch.rand)
    with pytest.raises(MessageError):
        answered(with_fields(wire), cn.SplitNN(), seal)


def test_a_name_that_cannot_travel_is_refused_where_it_is_written() -> None:
    for name in ("Bürgerbank", "x" * 65, "a\nb"):
        with pytest.raises(MessageError, match="cannot travel"):
            write_packet(replace(Packet("answer", "a"), sender=name))


@lenient
@given(
    st.dictionaries(
        st.sampled_from(["who", "part0", "part1", "x"]),
        st.builds(
            lambda shape, dtype: torch.ones(shape, dtype=dtype),
            st.lists(st.integers(0, 4), max_size=3),
            st.sampled_from([torch.uint8, torch.int16, torch.float32]),
        ),
    )
)
def test_what_parties_said_is_read_or_refused(fields: dict[str, Tensor]) -> None:
    for read in (lambda: unstacked(fields, NAMES, 2), lambda: heard(fields, (2, None), "a")):
        try:
            read()
        except MessageError:
            continue
    assert unstacked(stacked({"a": [b"x", b"yy"]}, NAMES), NAMES, 2) == {"a": (b"x", b"yy")}


def test_a_refusal_names_its_party_even_if_its_words_hold_that_name() -> None:
    for text, said in (
        ("the folder /srv/lab/runs is full.", "'lab' refused: the folder runs is full."),
        ("'lab' allows no labels.", "'lab' allows no labels."),
    ):
        assert str(refused(server.refusal(FolderError(text), "lab"), "lab")) == said
