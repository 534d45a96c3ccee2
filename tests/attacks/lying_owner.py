"""An owner that lies to real parties behind requests: it has its keys and its place, and writes what it likes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

import colonnade as cn
from colonnade.seal.codec import from_wire
from colonnade.seal.pack import Codes
from colonnade.seal.ring import Ring
from colonnade.seal.sum_book import SumRules

Fields = dict[str, Tensor]
ROWS = 32


def federation(parties: int, owner: str = "labels", seed: int = 0) -> list[cn.Table]:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(ROWS, 3 * parties)).astype(np.float32)
    tables = cn.split(x, (x @ rng.normal(size=(3 * parties, 3))).argmax(1), parties, owner=owner)
    return [replace(table, ids=np.arange(ROWS) + 1000 * seed) for table in tables]


def trained(method: cn.Method, seal: Any, parties: int = 4, **more: Any) -> cn.Run:
    """A run behind requests whose keys are agreed on; every round is about all people."""
    tables = federation(parties, "first" if method.needs_owner_columns else "labels")
    how = {"rounds": 6, "batch": ROWS, "seed": 3, "runtime": "apart", "model": cn.MLP((5,)), "shuffle": "once", **more}
    return cn.train(tables, method, seal=seal, **how)


class LyingOwner:
    """What such an owner can do with a run's parties."""

    def __init__(self, run: cn.Run, rules: SumRules | None = None) -> None:
        """``rules`` are what the parties' operators allow."""
        self.run = run
        self.remote: Any = run.parties.backend
        self.blinding: Any = run.parties.blinding
        self.blinding.leaves_out = True
        self.names = list(self.blinding.parties)
        self.victim = self.names[0]
        self.serial = self.blinding.serial + 100
        self.turns = 10_000
        for name in self.names:
            party = self.remote.transport.parties[name]
            party.spec = replace(party.spec, settings=replace(party.spec.settings, rounds=20))  # more are to come
            if rules is not None:
                party.blinded.book.rules = rules

    def end(self, name: str) -> Any:
        return self.remote.transport.parties[name].blinded

    def turn(self, round: int, table: str = "train", purpose: str = "train") -> dict[str, Any]:
        """What a request says of a turn; the parties work out the rows."""
        self.turns += 1
        return {
            "round": round,
            "table": table,
            "purpose": purpose,
            "leader": "owner",
            "turn": self.turns,
            "part": 0,
        }

    def ask(self, name: str, step: str, turn: dict[str, Any], told: Fields | None = None) -> Fields:
        """A step, openly."""
        return self.request("step", name, {"step": step, **turn}, told)

    def sum(
        self,
        name: str,
        step: str,
        turn: dict[str, Any],
        told: Fields | None = None,
        scale: Fields | None = None,
    ) -> Fields:
        """A party's masked reply; under recover it now holds its values."""
        return self.request("sum", name, {"step": step, **turn, "serial": self.serial}, told, scale)

    def tell(self, name: str, step: str, turn: dict[str, Any], told: Fields) -> None:
        """A step that has no reply."""
        self.request("step", name, {"step": step, **turn}, told, replies=False)

    def request(
        self, kind: str, name: str, about: dict[str, Any], *messages: Fields | None, replies: bool = True
    ) -> Fields:
        """A request with these messages, and what the party answers."""
        self.remote._post(kind, self.run.parties.names.index(name), about, *messages)
        return dict(self.remote.parties[name].reply(replies=replies) or {})

    def recover(self, turn: dict[str, Any], over: Iterable[str], step: str = "logits", field: str = "o") -> Tensor:
        """Ask these parties alone, as if the others were absent, and open what they add up to."""
        over = tuple(over)
        for name in over:
            self.sum(name, step, turn)
        about = cn.Turn(turn["round"], self._rows(turn), turn["table"], turn["purpose"])
        form = self.remote.schema.like(over[0], "up", step, len(about.rows))
        task = self.run.model.half.sum_task(self.blinding, form, step, about, {})
        totals, _ = self.blinding._recover_some(task, [field], over, None, lambda fields, *_: fields)
        return task.expected[field].decode(totals[field], len(over))  # type: ignore[no-any-return]

    def _rows(self, turn: dict[str, Any]) -> Tensor:
        if turn["purpose"] == "train":
            return self.run.schedule.batch_of(turn["round"])
        return torch.arange(ROWS)

    def value(self, name: str, field: str = "o") -> Codes:
        """The codes that a party holds, which nobody else is to see."""
        return self.end(name)._coded[field].codes  # type: ignore[no-any-return]

    def opened(self, replies: dict[str, Fields], field: str = "o", bits: int = 32) -> Codes:
        """What masked replies add up to."""
        codes = [from_wire(field, fields, bits) for fields in replies.values()]
        return Ring(bits).add([one.reshape(shape) for one, shape in codes])

    def cancel(self, replies: dict[str, Fields], field: str = "o", bits: int = 32) -> bool:
        """Whether no mask is left in their sum."""
        values = [self.value(name, field) for name in replies]
        return np.array_equal(self.opened(replies, field, bits), Ring(bits).add(values))
