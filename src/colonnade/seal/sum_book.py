"""A party's log of the sums that its values went into. It is on disk before anything is sent, so it outlives restarts.

It enforces three rules, which do not rely on anything that the owner says:

* *One sum per subject.* A step of a round about the same people is summed once. It may be asked for again, after a
  crash or a broken connection, only if everything is the same: the message, scales, this party's values, the parties.
* *One open reply about a network* in a run, for methods that have such replies.
* *One set per person.* Two sums of a person's rows over different parties differ by single parties' values. The set
  may not change within a round, and in a job at most as often as the operator allows.

One line of ``sums.log`` per entry: JSON, a tab, and the head of a chain of hashes.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from colonnade.disk.whole_files import append_synced, sync_folder
from colonnade.errors import CheckpointError, FolderError, SealError
from colonnade.seal.subject import Subject
from colonnade.signatures import pack

_HEAD = ["colonnade/sums/1"]


@dataclass(frozen=True)
class SumRules:
    """The sums that a party's operator allows, and the file that logs them."""

    place: Path | None = None
    """The file of the log; None to keep it in memory, as in a simulation."""
    changes: int | None = None
    """How often in a job the set of parties of a person's sums may change; None for any number, as in a simulation.
    Within a round it may never change."""
    mix: int = 1
    """How many other parties a sum must have."""
    run: int = 1
    """The number of the run in the job. Another run has other weights, so its sums are new ones, over the same sets."""


class _Place(NamedTuple):
    """The set of parties of a person's last sum, its round, and how often the set has changed."""

    parties: tuple[str, ...]
    round: int
    changes: int


class SumBook:
    """One party's log of sums over all sessions of a job.

    >>> about = Subject("logits", "train", "train", "owner", 0, 0, (1, 2))
    >>> book = SumBook("a", b"job")
    >>> book.lend(about, b"meaning", b"values")
    >>> book.lend(about, b"meaning", b"values")
    >>> book.lend(about, b"another scale", b"values")
    Traceback (most recent call last):
    colonnade.errors.SealError: 'a' was asked twice for step 'logits' of round 0 about the same people, but with \
another message, scale or state; a sum comes again as it was or not at all.
    """

    def __init__(self, party: str, job: bytes, rules: SumRules | None = None) -> None:
        self.party, self.rules = party, rules or SumRules()
        self.job = job + bytes(self.rules.run - 1)  # runs differ in the length of this
        self._lent: dict[bytes, bytes] = {}
        self._sets: dict[bytes, tuple[str, ...]] = {}
        self._people: dict[int, _Place] = {}
        self._file = None if self.rules.place is None else _File(self.rules.place)
        for entry in [] if self._file is None else self._file.read():
            self._take(entry)

    def check_mix(self, parties: Sequence[str]) -> None:
        """Refuse a sum over fewer parties than the operator wants."""
        if len(parties) - 1 < self.rules.mix:
            raise SealError(
                f"'{self.party}' wants {self.rules.mix} others or more in a sum (mix in [allow]), and this one is over "
                f"{', '.join(parties)}; have more parties, or ask its operator."
            )

    def lend(self, about: Subject, meaning: bytes, values: bytes) -> None:
        """Log a sum before this party's masked values are sent; a second sum of the same subject must be identical."""
        key = about.key(self.job)
        exact = hashlib.sha256(pack(meaning, values)).digest()[:16]
        if self._lent.get(key, exact) != exact:
            raise SealError(
                f"'{self.party}' was asked twice for step '{about.step}' of round {about.round} about the same people, "
                "but with another message, scale or state; a sum comes again as it was or not at all."
            )
        if key not in self._lent:
            self._note(["sum", key.hex(), exact.hex()])

    def tell(self, step: str, values: bytes) -> None:
        """Log an open reply about a network; one after every gradient would reveal the values that a sum hides."""
        if self.rules.changes is None:
            return  # in a simulation such replies are allowed
        key = hashlib.sha256(pack("told", self.job, step)).digest()[:16]
        if self._lent.get(key, values[:16]) != values[:16]:
            raise SealError(
                f"'{self.party}' has answered step '{step}' in this run, and its networks have changed since; beside "
                "blinded sums that is told once, so ask when the training is at its end."
            )
        if key not in self._lent:
            self._note(["sum", key.hex(), values[:16].hex()])

    def agree(self, about: Subject, survivors: Sequence[str]) -> None:
        """Log the set of parties of a sum before this party signs it."""
        key, parties = about.key(self.job), tuple(survivors)
        if self._sets.get(key, parties) != parties:
            raise self._differs(about, parties, self._sets[key])
        if key in self._sets:
            return  # the same set as before reveals nothing new
        self.check_mix(parties)
        moved = [person for person in dict.fromkeys(about.people) if self._moves(person, about, parties)]
        self._note(["set", key.hex(), list(parties), about.round, _packed(moved)])
        for person in set(about.people).difference(moved):
            self._people[person] = self._people[person]._replace(round=about.round)

    def _moves(self, person: int, about: Subject, parties: tuple[str, ...]) -> bool:
        """Whether a person is new or its set of parties changes; refused if it may not change."""
        known = self._people.get(person)
        if known is None or known.parties == parties:
            return known is None
        most = self.rules.changes
        if known.round == about.round or (most is not None and known.changes >= most):
            raise self._differs(about, parties, known.parties)
        return True

    def _differs(self, about: Subject, parties: Sequence[str], known: Sequence[str]) -> SealError:
        return SealError(
            f"'{self.party}' was asked in step '{about.step}' of round {about.round} for a sum over "
            f"{', '.join(parties)} of rows that were given to one over {', '.join(known)}, and the difference would "
            "show single parties; ask the same parties, or other rows, or let its operator raise changes in [allow]."
        )

    def _note(self, entry: list[Any]) -> None:
        if self._file is not None:
            self._file.append(entry)
        self._take(entry)

    def _take(self, entry: list[Any]) -> None:
        if entry[0] == "sum":
            self._lent[bytes.fromhex(entry[1])] = bytes.fromhex(entry[2])
            return
        _, key, parties, number, people = entry
        self._sets[bytes.fromhex(key)] = over = tuple(parties)
        fresh = _Place(over, number, 0)  # one object for all people of the sum, who may be many
        for person in _unpacked(people):
            known = self._people.get(person)
            self._people[person] = fresh if known is None else _Place(over, number, known.changes + 1)


class _File:
    """A file to which lines are only appended; the disk has a line before ``append`` returns."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self._chain = b""

    def read(self) -> list[list[Any]]:
        """All entries; a last line that a crash cut off is removed, because nothing was sent after it."""
        try:
            raw = self.place.read_bytes() if self.place.exists() else b""
            whole = raw[: raw.rfind(b"\n") + 1]
            if len(whole) < len(raw):
                os.truncate(self.place, len(whole))
        except OSError as error:
            raise FolderError(f"{self.place} cannot be read: {error.strerror}; give this process the right.") from None
        entries = [self._checked(line) for line in whole.splitlines()]
        if entries and entries[0] != _HEAD:
            raise self._damaged()
        if not entries:
            self.append(_HEAD)
            sync_folder(self.place.parent)
        return entries[1:]

    def append(self, entry: list[Any]) -> None:
        """Append an entry and wait until the disk has it."""
        text = json.dumps(entry, separators=(",", ":")).encode()
        chain = self._next(text)
        try:
            append_synced(self.place, text + b"\t" + chain.hex().encode() + b"\n")
        except OSError as error:
            raise FolderError(f"{self.place} cannot be written: {error.strerror}; free some space.") from None
        self._chain = chain

    def _next(self, text: bytes) -> bytes:
        return hashlib.blake2b(self._chain + text, digest_size=8).digest()

    def _checked(self, line: bytes) -> list[Any]:
        text, _, chain = line.rpartition(b"\t")
        self._chain = self._next(text)
        if chain != self._chain.hex().encode():
            raise self._damaged()
        return list(json.loads(text))

    def _damaged(self) -> CheckpointError:
        return CheckpointError(
            f"{self.place} is damaged, and with it what was summed over whom; bring it back, or start over in another "
            "folder."
        )


def _packed(people: Sequence[int]) -> str:
    return base64.b64encode(np.array(people, "<i8").tobytes()).decode()


def _unpacked(text: str) -> list[int]:
    return [int(person) for person in np.frombuffer(base64.b64decode(text), "<i8")]
