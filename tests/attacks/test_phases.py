"""What a lying party says in the phases of blinded sums: nothing but what the protocol writes, or a refusal by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from benchmarks.hostile import Score, attack_owner, train
from torch import Tensor

import colonnade as cn
from colonnade.errors import AwayError, MessageError, SealError
from colonnade.runtime.remote.packet import Packet, read_packet, write_packet
from colonnade.seal.codec import as_wire
from colonnade.seal.relay import stacked, unstacked
from colonnade.wire.message import Envelope, decode_fields, encode

Fields = dict[str, Tensor]
LIAR, DROPPED = "party 2", "party 4"


def sums(recover: bool, phase: str, change: Callable[[Fields], Fields], dropped: str = "") -> None:
    """A run in which one party's answers in a phase are changed after a round; 'sum' is a step that is summed.

    ``dropped`` is a party whose masked messages do not arrive from then on.
    """

    def begin(run: cn.Run) -> None:
        parties: Any = run.parties
        party = parties.backend.transport.parties[LIAR]
        if run.round == 1:
            party.serve = partial(_lie, party.serve, phase, change)
            parties.blinding.forget_keys()
            if dropped:
                end = parties.blinding.ends[dropped]
                end.answer = partial(_dropped, end.answer)
                parties.blinding.leaves_out = True

    train(cn.FDML(), cn.Blind(recover=recover), on_round=begin)


def _lie(serve: Callable[[bytes], bytes], phase: str, change: Callable[[Fields], Fields], request: bytes) -> bytes:
    asked, reply = read_packet(request), read_packet(serve(request))
    if phase not in (asked.kind, asked.purpose):
        return write_packet(reply)
    return write_packet(replace(reply, frames=_changed(reply, change)))


def _dropped(answer: Callable[..., Fields], phase: str, *message: Any) -> Fields:
    if phase == "mask":
        raise AwayError(f"'{DROPPED}' is gone.", DROPPED)
    return answer(phase, *message)


def _changed(reply: Packet, change: Callable[[Fields], Fields]) -> tuple[bytes, ...]:
    fields = decode_fields(reply.frames[0])[0]
    new = change(dict(fields))
    return () if new is GONE else (encode(new, Envelope(reply.step or "blind", LIAR, reply.round)),)


GONE: Fields = {}


def more(name: str) -> Callable[[Fields], Fields]:
    return lambda fields: {**fields, name: torch.zeros(1, dtype=torch.uint8)}


def without(name: str) -> Callable[[Fields], Fields]:
    return lambda fields: {key: value for key, value in fields.items() if key != name}


def turned(fields: Fields) -> Fields:
    """The same boxes in another order."""
    return {name: value.flip(0) for name, value in fields.items()}


def longer(fields: Fields) -> Fields:
    """One code more than the sum has."""
    size = int(fields["codes.form"][1]) + 1
    return as_wire("codes", np.zeros(size, np.uint32), 32, (size,))


def both_kinds(fields: Fields) -> Fields:
    """A share of a survivor's key, beside that of its seed."""
    return fields | {f"key_{name}": fields[f"seed_{name}"][:1] for name in ("who", "part0")}


LIES: list[tuple[bool, str, Callable[[Fields], Fields], str]] = [
    (False, "join", more("x"), "the phase 'join' .* with 'x' as uint8 .1.; nothing was due"),
    (False, "join", lambda _: GONE, "the phase 'join' of a blinded sum of round 0 with nothing"),
    (False, "hello", more("x"), "was to say keys .* it said 'part0' as uint8 .32., .* 'x' as uint8 .1."),
    (False, "sum", lambda _: {}, "step 'logits' of round 1 with nothing; its part of a blinded sum was due"),
    (True, "sum", more("o"), "step 'logits' of round 1 with 'o' as uint8 .1.; nothing was due"),
    (True, "join", more("x"), "nothing was due"),
    (
        True,
        "advertise",
        without("part1"),
        "was to say keys or signatures in parts of 32, 32, 64 bytes; it said 'part0'",
    ),
    (True, "share", turned, "sent 'shares' of a blinded sum that are none: .* in this order"),
    (True, "share", more("x"), "sent 'shares' of a blinded sum that are none: .* 'x' as uint8 .1. came"),
    (True, "mask", longer, "sent 'codes' of a blinded sum that are none: .* was expected"),
    (True, "mask", more("x"), "sent 'codes' of a blinded sum that are none: .* 'x' as uint8 .1."),
    (True, "sign", more("x"), "was to say keys or signatures in parts of 64 bytes; it said"),
    (True, "reveal", without("key_who"), "sent 'key_.' of a blinded sum that are none: .* nothing came"),
    (True, "reveal", more("x"), "was to say shares of seeds and keys; .* 'x' as uint8 .1. came"),
    (True, "reveal", both_kinds, "gave shares of the keys of .'party 1'.; .. are due"),
]


@pytest.mark.parametrize(("recover", "phase", "change", "said"), LIES, ids=lambda one: getattr(one, "__name__", one))
def test_an_answer_in_a_phase_is_as_the_protocol_writes_it(recover: bool, phase: str, change: Any, said: str) -> None:
    with pytest.raises((MessageError, SealError), match=f"'{LIAR}' .*{said}"):
        sums(recover, phase, change)


@pytest.mark.parametrize("recover", [False, True])
def test_the_control_is_the_truth(recover: bool) -> None:
    for phase in ("hello", "confirm", "join", "sum", "advertise", "share", "mask", "sign", "reveal"):
        if recover or phase in ("hello", "confirm", "join", "sum"):
            sums(recover, phase, lambda fields: fields)


def nobody(fields: Fields) -> Fields:
    return fields | {"key_who": fields["key_who"][:0]}


def somebody(fields: Fields) -> Fields:
    """A place more than there are shares, also where nobody dropped out."""
    return fields | {"key_who": torch.cat([fields["key_who"], torch.zeros(1, dtype=torch.int16)])}


def a_survivor(fields: Fields) -> Fields:
    return fields | {"key_who": fields["key_who"] * 0}


def another_share(fields: Fields) -> Fields:
    first = torch.zeros_like(fields["key_part0"])
    first[0, 0] = 1
    return fields | {"key_part0": fields["key_part0"] ^ first}


KEY_LIES: list[tuple[str, Callable[[Fields], Fields], str]] = [
    ("", somebody, "sent 'key_.' of a blinded sum that are none: .* 'who' as int16 .1. came"),
    (DROPPED, somebody, "sent 'key_.' of a blinded sum that are none: .* 'who' as int16 .2., 'part0' as uint8 .1, 66."),
    (DROPPED, nobody, "sent 'key_.' of a blinded sum that are none: .* 'who' as int16 .0., 'part0' as uint8 .1, 66."),
    (DROPPED, without("key_part0"), "sent 'key_.' of a blinded sum that are none: .* 'who' as int16 .1. came"),
    (DROPPED, a_survivor, "gave shares of the keys of .'party 1'.; .'party 4'. are due"),
    (DROPPED, another_share, ".* do not give what was advertised; one of them lied"),  # of three shares all are needed
]


@pytest.mark.parametrize(("dropped", "change", "said"), KEY_LIES, ids=lambda one: getattr(one, "__name__", one))
def test_shares_of_keys_are_of_those_who_dropped_out(dropped: str, change: Any, said: str) -> None:
    """Where nobody dropped out the list of keys is empty, and to empty it is the truth and no lie."""
    with pytest.raises((MessageError, SealError), match=f"'{LIAR}'.*{said}"):
        sums(True, "reveal", change, dropped)


def test_the_control_is_a_sum_without_who_dropped_out() -> None:
    said: list[Fields] = []

    def noted(fields: Fields) -> Fields:
        said.append(fields)
        return fields

    sums(True, "reveal", noted, DROPPED)
    assert said and all(fields["key_who"].tolist() == [3] for fields in said)


def test_who_is_told_to_go_back_says_nothing() -> None:
    parties: Any = train(cn.FDML(), None).parties
    states, party = dict(enumerate(parties.states())), parties.backend.transport.parties[LIAR]
    parties.load(states)
    serve = party.serve
    more_said = (encode({"x": torch.zeros(1)}, Envelope("back", LIAR, 0)),)
    party.serve = lambda request: write_packet(replace(read_packet(serve(request)), frames=more_said))
    with pytest.raises(MessageError, match=f"'{LIAR}' answered 'back' of round 0 with a message"):
        parties.load(states)


def test_there_is_one_way_to_write_what_several_said() -> None:
    said = {"c": (b"z",), "a": (b"x",)}
    fields = stacked(said, "abc")
    assert fields["who"].tolist() == [0, 2] and unstacked(fields, "abc", 1) == said
    for wrong in (turned(fields), without("who")(fields), {}, {"part0": fields["part0"][:0]}):
        with pytest.raises(MessageError, match="in this order and 1 parts; "):
            unstacked(wrong, "abc", 1)


def test_the_benchmark_counts_what_the_owner_takes_and_whom_it_does_not_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a check of it that cannot fail would be worth nothing: a reply of which nothing is read was one."""
    remote: Any = train(cn.FDML(), cn.Blind()).parties
    remote.blinding.ends[LIAR].answer("hello", {})
    transport, end = remote.backend.transport, remote.backend.parties[LIAR]
    asked, party = end._request, transport.parties[LIAR]
    raw = party._last[2]
    for reply, counted in ((raw, "accepted"), (b"", "unnamed"), (raw[:-1], "neither")):
        transport.instead, score = reply, Score()
        end._request = asked
        monkeypatch.setattr(type(transport), "reply", lambda self, name: self.instead)
        if counted == "unnamed":
            monkeypatch.setattr("colonnade.runtime.remote.remote_party.read_packet", lambda raw: _nobody())
        attack_owner(remote, LIAR, raw, score)
        assert (len(score.accepted), len(score.unnamed)) == {"accepted": (1, 0), "unnamed": (0, 1)}.get(counted, (0, 0))
        monkeypatch.undo()


def _nobody() -> Packet:
    raise SealError("nobody is named here.")
