"""Mutated requests against real parties and a real owner, in the middle of real runs.

    python -m benchmarks.hostile --frames 1000000 --seed 0 --cores 2

Every request is mutated before its party sees it and every reply before the owner does: bits flipped, bytes cut, put in
or spliced with another request's, counts, lengths, types and shapes changed, monstrous sizes announced, frames swapped,
requests replayed or of other parties, values that are no numbers. A party must refuse or say that it is no request, and
its state must stay as it was; the owner must raise one of our errors. After all of it every run must have ended exactly
as one that nobody disturbed.

What is left out by construction: requests that an owner or a party may write as well, which are the original with
other numbers in its tensors, or a request for another round or step that may be asked. That nobody on the way makes
such a request of another is the work of TLS; no check of ours could tell them apart.
"""

from __future__ import annotations

import argparse
import copy
import gc
import random
import resource
import struct
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

import colonnade as cn
from benchmarks.table import show
from colonnade.errors import ColonnadeError, MessageError
from colonnade.runtime.backend import Call
from colonnade.runtime.parties import AllParties
from colonnade.runtime.remote.packet import KINDS, Packet, read_packet, write_packet
from colonnade.runtime.remote.party_server import PartyServer
from colonnade.runtime.remote.remote_backend import RemoteBackend
from colonnade.runtime.remote.reply_numbers import number_in
from colonnade.runtime.remote.scope import PURPOSES
from colonnade.runtime.remote.transport import DirectTransport, Transport
from colonnade.runtime.schema import kinds_of
from colonnade.seal.blind_owner import HELLO, SIGNATURE
from colonnade.seal.blind_party import RECOVERING, UNTOLD
from colonnade.seal.key_agreement import Ticket
from colonnade.seal.relay import heard, unstacked
from colonnade.wire.message import Envelope, decode_fields, encode

MOST_MS, MOST_MB = 100.0, 50.0
ROWS, CLASSES, ROUNDS = 60, 3, 6
OWNERS = ("owner 1", "owner 2", "owner 3")
EACH, MORE, MANY = 50, 500, 5_000  # mutants of one request, and from how many of a case on there are more
HUGE = (0, 1, 2**8 - 1, 2**16 - 1, 2**31 - 1, 2**31, 2**32 - 1)
CASES: dict[str, tuple[cn.Method, Any, int]] = {
    "splitnn": (cn.SplitNN(), None, 1),
    "splitnn, bits": (cn.SplitNN(), cn.Bits(4), 1),
    "vimadmm, bits, feedback": (cn.VIMADMM(lr=0.02, local_steps=2), cn.Bits(4, feedback=True), 1),
    "vimsgd, topk": (cn.VIMSGD(), cn.TopK(0.3), 1),
    "fdml, noise": (cn.FDML(), cn.Noise(clip=1.0, epsilon=50.0), 1),
    "fdml, blind": (cn.FDML(), cn.Blind(), 1),
    "fdml, blind, bits": (cn.FDML(), [cn.Blind(), cn.Bits(4)], 1),
    "fdml, blind, recover": (cn.FDML(), cn.Blind(recover=True), 1),
    "multivfl, three owners, bits": (cn.MultiVFL(every=2), cn.Bits(4, feedback=True), 3),
}
"""By name: the method, its seals, and how many owners there are."""

# Mutations of bytes: each takes a source of randomness, a request, and other requests.

Mutation = Callable[[random.Random, bytes, Sequence[bytes]], bytes]


def flip(draw: random.Random, raw: bytes, others: Sequence[bytes]) -> bytes:
    """One to eight bits, most often near the front, where lengths and names stand."""
    new = bytearray(raw)
    for _ in range(draw.choice((1, 1, 2, 8))):
        at = draw.randrange(min(len(new), draw.choice((200, 300, len(new)))))
        new[at] ^= 1 << draw.randrange(8)
    return bytes(new)


def cut(draw: random.Random, raw: bytes, others: Sequence[bytes]) -> bytes:
    start = draw.randrange(len(raw))
    return raw[:start] if draw.random() < 0.5 else raw[:start] + raw[start + draw.randint(1, 40) :]


def put_in(draw: random.Random, raw: bytes, others: Sequence[bytes]) -> bytes:
    at = draw.randrange(len(raw) + 1)
    return raw[:at] + draw.randbytes(draw.randint(1, 40)) + raw[at:]


def splice(draw: random.Random, raw: bytes, others: Sequence[bytes]) -> bytes:
    other = draw.choice(others)
    at = draw.randrange(len(raw))
    return raw[:at] + other[draw.choice((at, draw.randrange(len(other)))) :]


def replay(draw: random.Random, raw: bytes, others: Sequence[bytes]) -> bytes:
    return draw.choice(others)


def number(draw: random.Random, raw: bytes, others: Sequence[bytes]) -> bytes:
    """A count, a length, a type or a dimension somewhere, with a value that hurts."""
    new, form = bytearray(raw), draw.choice("BHI")
    at = draw.randrange(max(1, min(len(raw), draw.choice((110, 300))) - 4))
    value = draw.choice(HUGE) & (2 ** (8 * struct.calcsize(form)) - 1)
    struct.pack_into("<" + form, new, at, value)
    return bytes(new)


# Mutations of requests and replies: what a peer does that knows the format.


def header(draw: random.Random, raw: bytes, others: Sequence[bytes]) -> bytes:
    packet = read_packet(raw)
    change: dict[str, Any] = {
        "kind": draw.choice(KINDS),
        "sender": draw.choice(("owner", "party 1", "party 2", "x")),
        "step": draw.choice(("__init__", "round", "start", "", "fit: o+", "x" * 64)),
        "purpose": draw.choice(("steal", "", "hello", "reveal")),
        "table": draw.choice(("passwords", "", "../train")),
        "leader": draw.choice(("party 1", "", "owner 4")),
        "round": draw.choice((packet.round + ROUNDS, 2**32 - 1)),
        "part": 2**32 - 1,
        "serial": 2**32 - 1,
        "attempt": 2**16 - 1,
        "sequence": draw.choice((0, 1, packet.sequence + 1, max(packet.sequence, 1) - 1, 2**64 - 1)),
        "job": draw.randbytes(16),
        "session": draw.randbytes(16),
        "plan": draw.randbytes(16),
    }
    chosen = draw.sample(sorted(change), draw.choice((1, 1, 2)))
    changed: dict[str, Any] = {name: change[name] for name in chosen}
    return write_packet(replace(packet, **changed))


def frames(draw: random.Random, raw: bytes, others: Sequence[bytes]) -> bytes:
    """Frames of another request, none, twice, in another order, or empty."""
    packet, other = read_packet(raw), read_packet(draw.choice(others))
    mine: tuple[Any, ...] = packet.frames
    new = draw.choice([other.frames, (), mine + mine, mine[::-1], (b"",), mine + other.frames, other.frames + mine])
    return write_packet(replace(packet, frames=new[:3]))


def tensors(draw: random.Random, raw: bytes, others: Sequence[bytes]) -> bytes:
    """One tensor with another name, type, shape or form, one more, one less, or with values that are no numbers."""
    packet = read_packet(raw)
    if not packet.frames or not len(packet.frames[0]):
        return header(draw, raw, others)
    fields, about = decode_fields(packet.frames[0])
    name = draw.choice([*fields, "x"])
    value = fields.pop(name, torch.zeros(1))
    fields |= draw.choice(_NEW)(draw, name, value)
    if draw.random() < 0.1:
        about = draw.choice(
            (about._replace(round=about.round + 1), about._replace(sender="x"), Envelope("x", *about[1:]))
        )
    return write_packet(replace(packet, frames=(encode(fields, about), *packet.frames[1:])))


_NEW: list[Callable[[random.Random, str, Tensor], dict[str, Tensor]]] = [
    lambda draw, name, value: {},
    lambda draw, name, value: {"y": value},
    lambda draw, name, value: {name: value, f"{name}.more": value},
    lambda draw, name, value: {name: value[None]},
    lambda draw, name, value: {name: value[:-1] if value.ndim else value[None]},
    lambda draw, name, value: {name: value.flatten()[:0]},
    lambda draw, name, value: {name: torch.zeros(0, 2**30)},
    lambda draw, name, value: {name: torch.cat([value, value]) if value.ndim else value.double()},
    lambda draw, name, value: {name: value.double()},
    lambda draw, name, value: {name: value.to(torch.int64)},
    lambda draw, name, value: {name: value.to(torch.uint8)},
    lambda draw, name, value: {name: value.reshape(-1, 1) if value.ndim != 2 else value.T.contiguous()},
    lambda draw, name, value: {name: value.double() * draw.choice((float("nan"), float("inf"), 1e300))},
    lambda draw, name, value: {name: value.float() * float("nan")},
    lambda draw, name, value: {name: value, f"{name}.form": torch.tensor([4, 2**14, 2**14], dtype=torch.int32)},
    lambda draw, name, value: {f"{name}.at": value, f"{name}.at.form": torch.tensor([1, 16, 2**24], dtype=torch.int32)},
    lambda draw, name, value: {
        name: torch.full((draw.randint(1, 40),), draw.choice((-(2**31), 2**27)), dtype=torch.int32)
    },
]

MUTATIONS: tuple[Mutation, ...] = (flip, flip, cut, put_in, splice, replay, number, header, frames, tensors, tensors)


def mutant(draw: random.Random, raw: bytes, others: Sequence[bytes]) -> bytes:
    """A request with one thing changed, or two."""
    new = draw.choice(MUTATIONS)(draw, raw, others)
    if draw.random() < 0.1 and len(new) > 4:
        new = draw.choice((flip, cut, number))(draw, new, others)
    return new


AGREED = {"hello": HELLO, "confirm": SIGNATURE}
IDENTITY = ("sender", "sequence", "job", "session", "plan")

# What is left out: other requests that may be written as well.


def form_of(packet: Packet, exact: bool = False) -> list[Any]:
    """A request's frames but for the values in them; where a value is a part of the form, with it."""
    found: list[Any] = []
    for frame in packet.frames:
        fields, about = decode_fields(frame) if len(frame) else ({}, None)
        found.append((about, {name: _form(name, value, exact) for name, value in fields.items()}))
    return found


@lru_cache(maxsize=16)
def _true_form(raw: bytes, exact: bool) -> list[Any]:
    return form_of(read_packet(raw), exact)


def _form(name: str, value: Tensor, exact: bool) -> Any:
    fixed = exact or name.endswith(".form") or name in ("who", "rows")
    return value.dtype, value.shape, value.tolist() if fixed else None


def may_be_written(raw: bytes, new: bytes, silent: Sequence[str], from_party: bool) -> bool:
    """Whether a mutated request is one that its sender might have meant; ``silent`` are steps that read no message."""
    try:
        other, packet = read_packet(new), read_packet(raw)
        # Keys, signatures and shares have no other values that are right.
        exact = packet.kind == "blind" and not from_party
        same_form = form_of(other, exact) == _true_form(raw, exact)
    except MessageError:
        return False
    if len(other.before) or any(getattr(packet, name) != getattr(other, name) for name in IDENTITY):
        return False
    if from_party:
        return same_form and replace(packet, frames=()) == replace(other, frames=())
    if packet.leader != other.leader:  # another owner may ask for the same, and all together for an average
        asks = (*OWNERS, "owner") if other.step == "settle" else OWNERS
        return other.leader in asks and not other.frames and _may_be_asked(other, silent)
    if packet.purpose in RECOVERING and other.purpose == packet.purpose and _fewer(packet, other):
        return True  # some parties may have fallen away
    if other.frames and not (same_form and (packet.kind, packet.step) == (other.kind, other.step)):
        return False
    return _may_be_asked(other, silent)


def silent_steps(party: PartyServer, requests: Iterable[Packet]) -> list[str]:
    """The steps that were asked for and read no message."""
    asked = dict.fromkeys(one.step for one in requests if one.kind in ("step", "sum"))
    return [step for step in asked if kinds_of(getattr(party.spec.method, step))[0] is None]


def _fewer(packet: Packet, other: Packet) -> bool:
    """Whether what some parties said is passed on, and nothing else."""
    if not packet.frames or not other.frames:
        return False
    try:
        (right, about), (came, as_well) = (decode_fields(one.frames[0]) for one in (packet, other))
        said, all_said = (unstacked(fields, "1234", len(right) - 1) for fields in (came, right))
    except MessageError:
        return False
    return about == as_well and said.items() <= all_said.items()


def _may_be_asked(packet: Packet, silent: Sequence[str]) -> bool:
    if packet.kind == "blind":
        return bool(packet.frames) or packet.purpose in UNTOLD
    if packet.kind not in ("step", "sum"):
        return packet.kind in ("keep", "spent", "end", "place")
    due = packet.round < ROUNDS if packet.purpose == "train" else packet.purpose in PURPOSES
    return due and (bool(packet.frames) or packet.step in silent) and packet.table == "train" and not packet.attempt


# Attacks


@dataclass
class Score:
    """What came of the requests of one case."""

    frames: int = 0
    left_out: int = 0
    accepted: list[str] = field(default_factory=list)
    crashed: list[str] = field(default_factory=list)
    unnamed: list[str] = field(default_factory=list)
    """Sentences of the owner that do not say which party it was."""
    slowest: float = 0.0
    largest: float = 0.0
    said: Counter[str] = field(default_factory=Counter)

    def time(self, work: Callable[[], Any]) -> Any:
        """Do one packet's work, and note what it cost.

        Without the collector of garbage: a full collection walks through all that torch has, which takes as long as
        hundreds of packets, and falls on one of them by chance. It runs between packets.
        """
        gc.disable()
        before, began = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.thread_time()
        try:
            return work()
        finally:
            self.slowest = max(self.slowest, 1000 * (time.thread_time() - began))
            gc.enable()
            grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
            self.largest = max(self.largest, grown / 1024)
            self.frames += 1


class Attacked(DirectTransport):
    """Lines on which every request is mutated many times before it comes itself."""

    def __init__(self, remote: AllParties, draw: random.Random, each: int, score: Score, most: int) -> None:
        before = backend_of(remote).transport
        assert isinstance(before, DirectTransport)
        super().__init__(before.parties)
        self._replies = before._replies
        self.remote, self.draw, self.each, self.score, self.most = remote, draw, each, score, most
        self.silent: list[str] = []
        self.seen: dict[bool, list[bytes]] = {True: [], False: []}
        self.instead: bytes | None = None

    def post(self, party: str, request: bytes) -> None:
        packet = read_packet(request)
        both = [*([read_packet(packet.before)] if len(packet.before) else []), packet]
        self.silent = list(dict.fromkeys([*self.silent, *silent_steps(self.parties[party], both)]))
        if len(packet.before):  # two requests in one: the first is attacked inside the other, then each by itself
            first = bytes(packet.before)
            inside = [write_packet(replace(packet, before=new)) for new in self.mutants(first, from_party=False)]
            attack_party(self.parties[party], inside, self.score)
            self.post(party, first)
            super().reply(party)
            request = write_packet(replace(packet, before=b""))
        attack_party(self.parties[party], self.mutants(request, from_party=False), self.score)
        super().post(party, request)

    def reply(self, party: str) -> bytes:
        if self.instead is not None:
            return self.instead
        raw = super().reply(party)
        before = owners_state(self.remote)
        for new in self.mutants(raw, from_party=True):
            self.instead = new
            try:
                attack_owner(self.remote, party, raw, self.score)
            finally:
                self.instead = None
        if not same(owners_state(self.remote), before):
            self.score.accepted.append(f"the owner changed its state after replies of {party}")
        return raw

    def mutants(self, raw: bytes, from_party: bool) -> list[bytes]:
        seen = self.seen[from_party]
        seen.append(raw)
        del seen[:-50]
        found: list[bytes] = []
        for _ in range(min(self.each, self.most - self.score.frames)):
            new = mutant(self.draw, raw, seen + self.seen[not from_party][-5:])
            if new == raw or may_be_written(raw, new, self.silent, from_party):
                self.score.left_out += 1
            else:
                found.append(new)
        return found


def described(raw: bytes) -> str:
    """A request in words, for whoever looks into why it was accepted."""
    try:
        packet = read_packet(raw)
        form_of(packet)
    except MessageError:
        return "no request"
    before = bytes(packet.before)
    return f"{replace(packet, job=b'', session=b'', plan=b'', before=before, frames=())} with {form_of(packet)}"


def attack_party(party: PartyServer, mutants: Sequence[bytes], score: Score) -> None:
    """Mutated requests; only what a refused one may move (the sequence, the turn) is put back after each.

    Whether anything else has moved is looked at once for all of them, since looking takes longer than refusing.
    """
    before, kept = party.states(), (len(party.keeping.numbers), party.ended)
    for new in mutants:
        moved = party._last, dict(party._turns), dict(party.group._notes)
        _attack_once(party, new, score)
        party._last, party._turns, party.group._notes = moved
    if not same(party.states(), before) or (len(party.keeping.numbers), party.ended) != kept:
        score.accepted.append(f"{party.name} changed its state by one of {[described(new) for new in mutants[:3]]}")


def _attack_once(party: PartyServer, new: bytes, score: Score) -> None:
    last = party._last
    try:
        reply = score.time(lambda: party.serve(new))
        again = last is not None and reply == last[2]
        if read_packet(reply).kind != "refusal" and not again:
            score.accepted.append(f"{party.name}: {described(new)}")
        score.said["answered again" if again else "refused"] += 1
    except MessageError:
        score.said["no request"] += 1
    except Exception as error:
        score.crashed.append(f"{party.name}: {type(error).__name__}: {error}")


def attack_owner(remote: AllParties, party: str, raw: bytes, score: Score) -> None:
    """A mutated reply, as far as the owner makes something of it."""
    try:
        score.time(lambda: make_something_of(remote, party, raw))
        score.accepted.append(f"owner, from {party}: {described(instead_of(remote))}")
    except ColonnadeError as error:
        score.said["refused by the owner"] += 1
        if f"'{party}'" not in str(error):
            score.unnamed.append(str(error))
    except Exception as error:
        score.crashed.append(f"owner: {type(error).__name__}: {error}")


def make_something_of(remote: AllParties, party: str, raw: bytes) -> None:
    """What the owner does with the reply to its last request, up to where it would learn from it."""
    backend, k = backend_of(remote), remote.names.index(party)
    asked = backend.parties[party]._request
    assert asked is not None
    if asked.kind == "step":
        _open_answer(remote, k, asked)
        return
    rows = backend._turns[asked.leader][1].rows.shape[-1] if asked.kind == "sum" else 0
    told = backend._reply(k, asked.step, rows) or {}
    end = backend.parties[party]
    if asked.kind == "keep":
        copy.deepcopy(end.states).hear(told, asked.session)
    elif asked.kind == "place":
        rows_told = number_in(party, told, "rows")
        if not torch.equal(rows_told, decode_fields(read_packet(raw).frames[0])[0]["rows"]):
            raise MessageError(f"'{party}' has {int(rows_told)} rows.")  # as RemoteBackend.place says
    elif asked.kind == "spent":
        budget, sent = remote.half.ends[party].budget, remote.half.ledger.sent_by(party)
        copy.deepcopy(end.budget).check(told, budget, sent)
    elif asked.kind == "blind":
        _hear_phase(remote, party, told, asked)
    elif asked.kind == "sum" and told:
        _open_sum(remote, party, told, asked)
    # All others, and the sums that are recovered later, are answered with nothing: RemoteParty.reply sees to that.


def _hear_phase(remote: AllParties, party: str, told: dict[str, Tensor], asked: Packet) -> None:
    """A phase of the key agreement, or of a sum that can do without some parties."""
    assert remote.blinding is not None
    one, phase = remote.blinding.present, asked.purpose
    if phase in AGREED:
        heard(told, AGREED[phase], party)
    elif phase in RECOVERING:
        assert one is not None
        reading = (one.advert, one.shared, one.masked, one.signed, one.revealed)
        dict(zip(RECOVERING, reading, strict=True))[phase](party, told)


def _open_answer(remote: AllParties, k: int, asked: Packet) -> None:
    """As a step's answers are opened when all parties are asked."""
    backend, step = backend_of(remote), step_of(remote, asked.step)
    call, kind = Call(step, asked.step, backend._turns[asked.leader][1], [k]), kinds_of(step)[1]
    wire = backend._reply(k, asked.step, call.turn.rows.shape[-1], replies=kind is not None)
    if wire is not None:
        remote._open(k, backend._answer(k, wire, kind, call), call)


def _open_sum(remote: AllParties, party: str, told: dict[str, Tensor], asked: Packet) -> None:
    backend, blinding = backend_of(remote), remote.blinding
    turn, end = backend._turns[asked.leader][1], backend.parties[party]
    assert blinding is not None
    form = backend.schema.like(party, "up", asked.step, turn.rows.shape[-1])
    task = remote.half.sum_task(blinding, form or {}, asked.step, turn, {})
    kept, end.masked = end.masked, (asked.serial, told)
    try:
        blinding._send(party, task, Ticket(turn.round, asked.serial, 0, asked.step), lambda fields, *_: fields)
    finally:
        end.masked = kept


def owners_state(remote: AllParties) -> dict[str, Tensor]:
    """What the owners' ends and memory hold."""
    ends = {name: remote.half.ends[name].state() for name in remote.half.ledger.owners}
    found = {f"{name}/{key}": value for name, state in ends.items() for key, value in state.items()}
    return found | remote.half.memory.state()


def backend_of(remote: AllParties) -> RemoteBackend:
    assert isinstance(remote.backend, RemoteBackend)
    return remote.backend


def direct(remote: AllParties) -> DirectTransport:
    """The way to parties that are in this process."""
    transport = backend_of(remote).transport
    assert isinstance(transport, DirectTransport)
    return transport


def reach_through(remote: AllParties, transport: Transport) -> None:
    """Send everything this way from now on."""
    backend = backend_of(remote)
    backend.transport = transport
    for party in backend.parties.values():
        party.transport = transport


def instead_of(remote: AllParties) -> bytes:
    """The mutated reply that the owner reads now."""
    return getattr(direct(remote), "instead", None) or b""


def step_of(remote: AllParties, name: str) -> Callable[..., Any]:
    """A step of the method that trains."""
    party = next(iter(direct(remote).parties.values()))
    return getattr(party.spec.method, name)  # type: ignore[no-any-return]


def same(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(value, other[name]) for name, value in one.items())


# Runs


def federation() -> list[cn.Table]:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(ROWS, 12)).astype(np.float32)
    return cn.split(x, (x @ rng.normal(size=(12, CLASSES))).argmax(1), 4)


def train(method: cn.Method, seal: Any, owners: int = 1, on_round: Callable[[cn.Run], None] | None = None) -> cn.Run:
    how: dict[str, Any] = {"rounds": ROUNDS, "batch": 16, "seed": 3, "valid": 0.1, "evaluate_every": 2}
    tables = cn.share(federation(), owners)
    return cn.train(tables, method, runtime="apart", seal=seal, on_round=on_round, **how)


def disturbed(
    method: cn.Method, seal: Any, owners: int, draw: random.Random, each: int, most: int
) -> tuple[cn.Run | None, Score]:
    """A run whose requests are attacked from its second round on; keys are agreed on anew, so that these are too."""
    score = Score()

    def attack(run: cn.Run) -> None:
        remote = run.parties
        if not isinstance(direct(remote), Attacked):
            reach_through(remote, Attacked(remote, draw, each, score, most))
        if remote.blinding is not None and run.round % 2:
            remote.blinding.forget_keys()

    try:
        run = train(method, seal, owners, attack)
    except ColonnadeError as error:
        score.crashed.append(f"the run: {error}")
        return None, score
    attacked = direct(run.parties)
    assert isinstance(attacked, Attacked)
    attacked.most = 0
    return run, score


def ending(run: cn.Run) -> dict[str, Tensor]:
    """What a run predicts, and what its parties hold; to be taken once, because predicting counts and costs."""
    found = {"predictions": run.predict(federation())}
    for name, party in direct(run.parties).parties.items():
        found |= {f"{name}/{key}": value for key, value in party.states().items()}
    return found


def measure(name: str, frames: int, seed: int) -> tuple[Score, bool]:
    """Attack one case until so many requests were mutated."""
    whole, total, alike, number = ending(train(*CASES[name])), Score(), True, 0
    while total.frames < frames and alike:
        draw = random.Random(f"{seed}/{name}/{number}")
        run, score = disturbed(*CASES[name], draw, EACH if frames < MANY else MORE, frames - total.frames)
        alike = alike and run is not None and same(ending(run), whole)
        total.frames, total.left_out = total.frames + score.frames, total.left_out + score.left_out
        total.accepted, total.crashed = total.accepted + score.accepted, total.crashed + score.crashed
        total.slowest, total.largest = max(total.slowest, score.slowest), max(total.largest, score.largest)
        total.said += score.said
        total.unnamed += score.unnamed
        number += 1
    return total, alike


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--frames", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--cores", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(1)
    each = partial(measure, frames=-(-options.frames // len(CASES)), seed=options.seed)
    rows, missed, began = [], False, time.monotonic()
    with ProcessPoolExecutor(options.cores) as pool:
        found = list(pool.map(each, CASES) if options.cores > 1 else map(each, CASES))
    for name, (score, alike) in zip(CASES, found, strict=True):
        rows.append(
            [
                name, score.frames, score.left_out, len(score.accepted), len(score.crashed), len(score.unnamed),
                f"{score.slowest:.1f}", f"{score.largest:.1f}", "yes" if alike else "no",
            ]
        )  # fmt: skip
        for line in [*score.accepted[:5], *sorted(set(score.crashed))[:10], *sorted(set(score.unnamed))[:10]]:
            print(f"{name}: {line}", file=sys.stderr, flush=True)
        missed |= bool(score.accepted or score.crashed or score.unnamed) or not alike
        missed |= score.slowest > MOST_MS or score.largest > MOST_MB
    head = [
        "case",
        "requests",
        "left out",
        "accepted",
        "crashes",
        "unnamed",
        "slowest, CPU ms",
        "memory, MB",
        "ends as undisturbed",
    ]
    show("Mutated requests", head, rows)
    print(f"{1000 * (time.monotonic() - began) / max(options.frames, 1):.2f} ms a request, all in all")
    sys.exit(int(missed))


if __name__ == "__main__":
    main()
