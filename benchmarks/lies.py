"""What a party answers if it lies; and an owner that is told every lie about every answer, one a run.

    python -m benchmarks.lies [--case plain] [--only PART_OF_A_NAME] [--training]

An honest run in one process shows all that a party says: to words, letters of the alignment and of the training. Then
each field of each answer is changed in every way below, and the owner must stop with a sentence that names the party
and what it said wrong. A lie about the end of a job stops nothing, because the run is done: there the owner's warning
must name the party. Left out are other values in a message of the agreed form, and what a party says of its own
width: nobody can know these. ``LIES`` are for parties in processes of their own (:mod:`benchmarks.sides`), called with
the guest, the request and the true reply.
"""

from __future__ import annotations

import argparse
import json
import logging
import shutil
import sys
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks.table import show
from colonnade.errors import AwayError, ColonnadeError
from colonnade.federation import end_of_job
from colonnade.federation.alignment_server import AlignmentServer
from colonnade.federation.handshake import facts_in
from colonnade.federation.owner_process import OwnerProcess
from colonnade.federation.party_session import PartySession
from colonnade.federation.side_files import read_owner_file, read_party_file
from colonnade.runtime.remote.packet import Packet, read_packet, write_packet
from colonnade.wire.message import decode_fields, encode

Lie = Callable[[PartySession, bytes, bytes], bytes]
DAY = 86_400


def lie_of(name: str) -> Lie:
    """The lie of this name; of none, the truth."""
    return LIES[name]() if name else lambda _, request, reply: reply


def says(word: str, **false: Callable[[Any], Any]) -> Callable[[], Lie]:
    """Another fact in the answer to a word."""

    def lie(_: PartySession, request: bytes, reply: bytes) -> bytes:
        letter = read_packet(reply)
        if read_packet(request).step != word or letter.kind != "answer":
            return reply
        facts = facts_in(letter)
        facts |= {name: change(facts[name]) for name, change in false.items()}
        return write_packet(replace(letter, frames=(json.dumps(facts).encode(),)))

    return lambda: lie


def answers(change: Callable[[Packet], Packet]) -> Lie:
    """Something else in a training round."""

    def lie(_: PartySession, request: bytes, reply: bytes) -> bytes:
        asked, letter = read_packet(request), read_packet(reply)
        trains = asked.kind == "step" and asked.purpose == "train" and letter.frames
        return write_packet(change(letter)) if trains else reply

    return lie


def narrow(letter: Packet) -> Packet:
    """The same tensors without their last column."""
    fields, about = decode_fields(letter.frames[0])
    return replace(letter, frames=(encode({name: value[..., :-1] for name, value in fields.items()}, about),))


def not_a_number(letter: Packet) -> Packet:
    """The last value is none."""
    return replace(letter, frames=(bytes(letter.frames[0])[:-4] + np.float32("nan").tobytes(),))


def stale() -> Lie:
    """From the second round on, the answer of the first."""
    kept: list[Packet] = []

    def change(letter: Packet) -> Packet:
        kept.append(letter)
        return kept[0]

    return answers(change)


def permuted() -> Lie:
    """Common rows in another order than was found."""

    def lie(guest: PartySession, request: bytes, reply: bytes) -> bytes:
        server = guest.server
        if isinstance(server, AlignmentServer) and len(server.group.peer.rows) and read_packet(request).step == "keep":
            server.group.peer.rows = server.group.peer.rows[::-1].copy()
        return reply

    return lie


LIES: dict[str, Callable[[], Lie]] = {
    "identity": says("hello", signature=lambda signature: "00" + signature[2:]),
    "clock": says("hello", time=lambda at: at + DAY),
    "version": says("hello", colonnade=lambda _: "0.0.1"),
    "rows": says("prepare", rows=lambda rows: rows - 1),
    "shape": lambda: answers(narrow),
    "nan": lambda: answers(not_a_number),
    "stale": stale,
    "permuted": permuted,
}


# All lies about all answers, told in one process: python -m benchmarks.lies


@dataclass(frozen=True)
class Place:
    """Something that a party says in a job: in answer to which letter, and under which name."""

    kind: str
    step: str
    purpose: str
    field: str

    @classmethod
    def of(cls, request: Packet, field: str) -> Place:
        """Where a reply to this letter has a field."""
        return cls(request.kind, request.step, request.purpose, field)

    @property
    def is_before_training(self) -> bool:
        """Whether it is said in the handshake or in the alignment."""
        return self.kind == "talk" or self.purpose == "align"

    def __str__(self) -> str:
        return "/".join(one for one in (self.kind, self.step, self.purpose, self.field) if one)


NOWHERE = object()
TEXT = "well\x1b]0;owned\x07\x1b[2J\n2026-11-18T00:00:00Z INFO all parties agreed\u202e"
WRONG_FACTS: dict[str, Callable[[Any], Any]] = {
    "left out": lambda true: NOWHERE,
    "null": lambda true: None,
    "a list": lambda true: [true],
    "a dict": lambda true: {"x": true},
    "a wrong text": lambda true: TEXT,
    "below nothing": lambda true: -1,
    "true": lambda true: True,
    "10^400": lambda true: 10**400,
    "a megabyte": lambda true: "0" * 2**20,
    "10^5 numbers": lambda true: [1] * 10**5,
}
WRONG_COUNTS: dict[str, Callable[[Any], Any]] = {
    "one more": lambda true: true + 1,
    "one less": lambda true: true - 1,
    "a fraction": lambda true: true + 0.5,
    "a billion more": lambda true: true + 10**9,
}
WRONG_SHAPES: dict[str, Callable[[Any], Any]] = {
    "10^7 numbers": lambda true: [10**7],
    "10^5 x 10^5": lambda true: [10**5, 10**5],
    "nothing": lambda true: [0],
    "below nothing": lambda true: [-3],
    "many dimensions": lambda true: [1] * 9,
}
WRONG_TENSORS: dict[str, Callable[[Tensor], Any]] = {
    "left out": lambda true: NOWHERE,
    "another kind": lambda true: true.to(torch.int16 if true.dtype != torch.int16 else torch.int32),
    "a row more": lambda true: (
        torch.cat([true, true[:1] if len(true) else true.new_zeros(1)]) if true.ndim else true[None]
    ),
    "a dimension more": lambda true: true[None],
    "nothing": lambda true: true.flatten()[:0],
    "a monstrous shape": lambda true: torch.zeros(0, 2**24, dtype=true.dtype),
}
WRONG_NUMBERS: dict[str, Callable[[Tensor], Any]] = {
    "one more": lambda true: true + 1,
    "the one before": lambda true: true - 1,
    "none": lambda true: true * 0,
    "below nothing": lambda true: -true - 1,
    "2^40": lambda true: true * 0 + 2**40,
}
WRONG_LETTERS: dict[str, Callable[[Packet], Packet]] = {
    "of another": lambda letter: replace(letter, sender="clinic"),
    "of the owner": lambda letter: replace(letter, sender="owner"),
    "another sequence": lambda letter: replace(letter, sequence=letter.sequence + 1),
    "another round": lambda letter: replace(letter, round=letter.round + 1),
    "another job": lambda letter: replace(letter, job=bytes(16)[:-1] + b"x"),
    "another session": lambda letter: replace(letter, session=bytes(16)[:-1] + b"x"),
    "a request": lambda letter: replace(letter, kind="keep"),
    "two frames": lambda letter: replace(letter, frames=(*letter.frames, b"x")),
    "a letter in it": lambda letter: replace(letter, before=write_packet(letter)),
    "a torn frame": lambda letter: replace(letter, frames=(b"CLND",)),
    "a refusal of nothing": lambda letter: replace(letter, kind="refusal", frames=()),
}


def fields_in(request: Packet, reply: Packet) -> dict[str, Any]:
    """What a reply says, by name."""
    if not reply.frames:
        return {}
    return facts_in(reply) if request.kind == "talk" else decode_fields(reply.frames[0])[0]


def with_fields(request: Packet, reply: Packet, fields: dict[str, Any]) -> Packet:
    """The reply that says something else."""
    if request.kind == "talk":
        return replace(reply, frames=(json.dumps(fields).encode(),))
    _, about = decode_fields(reply.frames[0])
    return replace(reply, frames=(encode(fields, about),))


def lies_about(place: Place, true: Any) -> dict[str, Callable[[Any], Any]]:
    """The lies that fit what is said there; a change that changes nothing is none."""
    return {name: lie for name, lie in _changes_of(place, true).items() if not _same(lie(true), true)}


def _same(said: Any, true: Any) -> bool:
    if not isinstance(said, Tensor) or not isinstance(true, Tensor):
        return type(said) is type(true) and bool(said == true)
    return said.dtype == true.dtype and torch.equal(said, true)


def _changes_of(place: Place, true: Any) -> dict[str, Callable[[Any], Any]]:
    if isinstance(true, Tensor):
        alone = true.shape == (1,) and place.kind in ("keep", "place", "spent")
        odd = WRONG_TENSORS | (WRONG_NUMBERS if alone else {})
        if place.field.startswith("messages."):  # how many were for what is shown as the party says
            odd = {name: lie for name, lie in odd.items() if name not in ("left out", "one more", *LESS)}
        return odd
    if place.field in ("rows", "test"):
        return WRONG_FACTS | WRONG_COUNTS
    if place.field == "shape":
        return {name: lie for name, lie in WRONG_FACTS.items() if name != "a list"} | WRONG_SHAPES
    if place.field == "cardinalities":
        return {name: lie for name, lie in WRONG_FACTS.items() if name != "a list"} | {"10^7": lambda true: [10**7]}
    return WRONG_FACTS


LESS = ("the one before", "none")
PLAIN: dict[str, Any] = {"method": "splitnn"}
NOISE = '[[seal]]\nkind = "noise"\nepsilon = 1000.0\n'
CASES: dict[str, dict[str, Any]] = {
    "plain": PLAIN,
    "admm, bits": {"method": "vimadmm", "train": '[[seal]]\nkind = "bits"\nbits = 4\n'},
    "noise": {"method": "fdml", "train": NOISE},
    "blind": {"method": "fdml", "train": '[[seal]]\nkind = "blind"\n', "parties": 3},
    "recover": {"method": "fdml", "train": '[[seal]]\nkind = "blind"\nrecover = true\n', "parties": 4},
}
LIAR = "shop"
Spoil = Callable[[Packet, Packet], Packet]


class Near:
    """In place of a port: a letter is served at once, and the liar's replies are spoilt."""

    def __init__(self, guests: dict[str, PartySession], spoil: Spoil) -> None:
        self.guests, self.spoil = guests, spoil
        self.replies: dict[str, deque[bytes]] = {name: deque() for name in guests}

    def connection(self, party: str) -> int:
        return 1

    def wait(self, party: str, seconds: float, after: int = 0) -> int:
        if after:
            raise AwayError(f"'{party}' is gone.", party)
        return 1

    def send(self, party: str, connection: int, data: bytes) -> None:
        reply = self.guests[party].serve(data)
        if party == LIAR:
            reply = write_packet(self.spoil(read_packet(data), read_packet(reply)))
        self.replies[party].append(reply)

    def receive(self, party: str, connection: int, seconds: float) -> bytes:
        return self.replies[party].popleft()

    def first(self, connections: Mapping[str, int], seconds: float) -> str | None:
        """In their order: all have answered."""
        return next((party for party in connections), None)

    def hang_up(self, party: str, reason: str) -> None:
        """Nobody listens."""

    def close(self) -> None:
        """Nothing is open."""


class Warnings(logging.Handler):
    """What an owner says of the end of a job, which stops nothing any more."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.said: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.said.append(record.getMessage())

    def __enter__(self) -> Warnings:
        logging.getLogger(end_of_job.__name__).addHandler(self)
        return self

    def __exit__(self, *_: object) -> None:
        logging.getLogger(end_of_job.__name__).removeHandler(self)


class Court:
    """A federation in one process, made anew for every lie."""

    def __init__(self, folder: Path, case: str) -> None:
        from benchmarks.sides import FOUR, OWNER, Trial, write_rows

        how = dict(CASES[case])
        self.folder, self.parties = folder, FOUR[: how.pop("parties", 2)]
        Trial(folder, rounds=2, evaluate_every=1, parties=self.parties, **how)
        write_rows(folder, 60 + 50 * len(self.parties), self.parties)
        self.owner = OWNER

    def run(self, spoil: Spoil) -> str:
        """A whole job; what stopped it, or what the owner said of its end; nothing if all was well."""
        for run in self.folder.glob("run-*"):
            shutil.rmtree(run)
        guests = {
            name: PartySession(read_party_file(self.folder / name / "party.toml"), self.folder / f"run-{name}")
            for name in self.parties
        }
        paper = read_owner_file(self.folder / self.owner / "job.toml")
        host = OwnerProcess(paper, self.folder / "run-owner", listener=Near(guests, spoil))
        try:
            with Warnings() as warnings:
                host.gather()
                host.train()
            return " ".join(warnings.said)
        except ColonnadeError as error:
            return str(error)
        finally:
            host.close()
            for guest in guests.values():
                if guest.audit is not None:
                    guest.audit.close()

    def said(self) -> dict[Place, Any]:
        """All that the party says in an honest run, by where; of each the second time if there is one."""
        found: dict[Place, Any] = {}
        times = Counter[Place]()

        def note(request: Packet, reply: Packet) -> Packet:
            for name, value in {"": None, **fields_in(request, reply)}.items():
                place = Place.of(request, name)
                times[place] += 1
                if times[place] <= 2:
                    found[place] = value
            return reply

        stopped = self.run(note)
        if stopped:
            raise SystemExit(f"the honest run failed: {stopped}")
        return found

    def tell(self, place: Place, lie: Callable[[Any], Any]) -> str:
        """A run in which the party lies there, from the second time on if there is one: what stopped it."""
        seen = 0

        def spoil(request: Packet, reply: Packet) -> Packet:
            nonlocal seen
            fields = fields_in(request, reply) if reply.kind == "answer" else {}
            if Place.of(request, place.field) != place or (place.field and place.field not in fields):
                return reply
            seen += 1
            if not place.field:
                return lie(reply)  # type: ignore[no-any-return]
            new = {**fields, place.field: lie(fields[place.field])}
            return with_fields(request, reply, {name: one for name, one in new.items() if one is not NOWHERE})

        return self.run(spoil)


IN_WORDS = ("the signature", "the set", "the places", "the proof", "keys or signatures")  # for fields without a name


def judged(place: Place, said: str) -> str:
    """What became of a lie: refused, refused without a name or a field, or believed."""
    if not said:
        return "believed"
    about = [one for one in (place.field, place.step, place.kind) if one] + list(IN_WORDS)
    if f"'{LIAR}'" not in said or not said.isprintable() or len(said) > 2500:
        return "not named"
    return "refused" if any(one in said for one in about) or not place.field else "no field"


def lies_in(court: Court) -> list[tuple[Place, str, Callable[[Any], Any]]]:
    """Every lie about everything that is said."""
    found: list[tuple[Place, str, Callable[[Any], Any]]] = []
    for place, true in court.said().items():
        lies: dict[str, Callable[[Any], Any]] = dict(lies_about(place, true)) if place.field else dict(WRONG_LETTERS)
        found += [(place, name, lie) for name, lie in lies.items()]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case", choices=CASES)
    parser.add_argument("--only", default="", help="lies in whose name this stands")
    parser.add_argument("--training", action="store_true", help="without words and alignment, alike in all cases")
    options = parser.parse_args()
    torch.set_num_threads(1)
    rows, bad = [], 0
    for case in [options.case] if options.case else CASES:
        counts, slowest = Counter[str](), 0.0
        with TemporaryDirectory() as place:
            court = Court(Path(place, "court"), case)
            for where, name, lie in lies_in(court):
                if options.only not in f"{where}: {name}" or (options.training and where.is_before_training):
                    continue
                began = time.perf_counter()
                try:
                    said = court.tell(where, lie)
                    how = judged(where, said)
                except Exception as error:
                    how, said = "crashed", f"{type(error).__name__}: {error}"
                slowest = max(slowest, time.perf_counter() - began)
                counts[how] += 1
                if how != "refused":
                    print(f"{case}: {where}: {name}: {how}: {said[:300]}", file=sys.stderr, flush=True)
        bad += counts.total() - counts["refused"]
        kinds = ("refused", "believed", "not named", "no field", "crashed")
        rows.append([case, counts.total(), *(counts[kind] for kind in kinds), f"{slowest:.1f}"])
    show("Lies", ["case", "lies", "refused", "believed", "not named", "no field", "crashed", "longest s"], rows)
    sys.exit(int(bad > 0))


if __name__ == "__main__":
    main()
