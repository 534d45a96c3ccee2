"""The ends of the wire in this process: each side's seals, and what they remember of earlier messages."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping

import torch
from torch import Tensor

from colonnade.core.randomness import Sources
from colonnade.core.schedule import Turn
from colonnade.core.table import Table
from colonnade.seal import Seals
from colonnade.seal.seal_end import SealEnd
from colonnade.seal.subject import Subject, digest_of


class Ends(dict[str, SealEnd]):
    """One end per side, by the side's name in the ledger, made at its first use."""

    def __init__(self, seals: Seals | None = None, sources: Sources | None = None) -> None:
        super().__init__()
        self.seals = seals or Seals()
        self.sources = sources or Sources(0)
        self.people: dict[str, Tensor] = {}
        self._placed: Counter[str] = Counter()  # how often rows were put under each table's name

    def __missing__(self, name: str) -> SealEnd:
        end = self[name] = SealEnd(name, self.seals, self.sources, self.people)
        return end

    def know(self, name: str, table: Table) -> None:
        """Note whose rows a table's name stands for from now on: budgets and blinded sums are about people."""
        if self.seals.noise is None and self.seals.blind is None:
            self.people[name] = torch.arange(table.rows)
        else:
            raw = b"".join(hashlib.blake2b(str(person).encode(), digest_size=8).digest() for person in table.ids)
            self.people[name] = torch.frombuffer(bytearray(raw), dtype=torch.int64)
        self._placed[name] += 1

    def placed(self, name: str) -> tuple[int, int]:
        """How many rows stand under a table's name, and how often rows were put there."""
        return len(self.people[name]), self._placed[name]

    def subject(self, step: str, turn: Turn, owner_message: Mapping[str, Tensor]) -> Subject:
        """What a blinded sum is about: two sums of the same people could tell something together."""
        return Subject(
            step=step,
            purpose=turn.purpose,
            table=turn.table,
            leader=turn.leader,
            round=turn.round,
            part=turn.part,
            people=tuple(self.people[turn.table][turn.rows].tolist()),
            owner_digest=digest_of(owner_message),
            placed=self._placed[turn.table],
        )
