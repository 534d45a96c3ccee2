"""A rehearsal: a few rounds on made-up rows, from which a run knows the form of all its messages before training.

The first two rounds are rehearsed, and those that the method declares in ``rare_rounds``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import torch

from colonnade.core.method import Method, Parties, Turn
from colonnade.core.party_side import Each, To
from colonnade.core.table import Table
from colonnade.core.task import make_task
from colonnade.data.sharing import all_labels
from colonnade.data.stand_ins import owners_in, stand_ins
from colonnade.errors import ConfigError
from colonnade.run.model import Model
from colonnade.runtime.plan import Plan
from colonnade.runtime.schema import Schema, kinds_of
from colonnade.runtime.setup import threads

R = TypeVar("R")
ROWS = (23, 29)  # two rehearsals with different numbers of rows tell which dimensions follow the rows
MOST_ROUNDS = 25


class _NotingParties(Parties):
    """Parties whose every message is noted in a schema."""

    def __init__(self, parties: Parties, schema: Schema, *, quick: bool) -> None:
        self.parties, self.schema, self.quick = parties, schema, quick
        self.names, self.home = parties.names, parties.home

    def ask(self, step: Callable[..., R], turn: Turn, **messages: Any) -> list[R]:
        """Ask, and note messages and replies; a quick rehearsal leaves out steps that reply with nothing."""
        silent = self.quick and kinds_of(step)[1] is None
        replies = [] if silent else self.parties.ask(step, turn, **messages)
        self._note_down(step, turn, **messages)
        for name, reply in zip(self._asked(messages.get("to")), replies, strict=False):  # none if nothing is replied
            self._note(name, "up", step, reply, turn)
        return replies

    def sum(self, step: Callable[..., R], turn: Turn, **messages: Any) -> R:
        """Ask for a sum, and note it as the form of every reply."""
        total = self.parties.sum(step, turn, **messages)
        self._note_down(step, turn, **messages)
        for name in self._asked(messages.get("to")):
            self._note(name, "up", step, total, turn)
            self._note(name, "sum", step, total, turn)
        return total

    def _note_down(
        self, step: Callable[..., Any], turn: Turn, all: Any = None, each: Each = None, to: To = None
    ) -> None:
        if not turn.training:
            self.schema.note_asked(step.__name__)
        for place, name in enumerate(self._asked(to)):
            if each is None:
                self._note(name, "down", step, all, turn)
            else:
                self._note(name, "down", step, each[place], turn)
                self._note(name, "each", step, each[place], turn)

    def _asked(self, to: To) -> list[str]:
        return self.names if to is None else [self.names[k] for k in sorted(set(to))]

    def _note(self, name: str, way: str, step: Callable[..., Any], message: Any, turn: Turn) -> None:
        if message is not None:
            self.schema.note(name, way, step.__name__, message, turn.rows.shape[-1])


def rehearse(description: dict[str, Any], plan: Plan, *, quick: bool = False) -> Schema:
    """The schema of a run on tables with the names, row shapes and outputs of ``description``."""
    with threads(plan.settings.threads):
        first, second = (_rehearse_with(rows, description, plan, quick=quick) for rows in ROWS)
    return first.merge(second)


def rehearse_tables(tables: Sequence[Table], plan: Plan) -> Schema:
    """The schema of a run on these tables; none of their values is used."""
    owner, task = tables[0], plan.settings.task
    outline = {
        "tables": [[table.name, table.rows, list(table.shape)] for table in tables],
        "settings": {"task": task},
        "outputs": outputs_of(tables, task),
        "names": list(owner.classes),
    }
    return rehearse(outline, plan)


def outputs_of(tables: Sequence[Table], task: str) -> int:
    """How many numbers a model of these labels gives for a row."""
    labels, owner = all_labels(tables), tables[0]
    trained = torch.arange(len(labels))
    return make_task(task, labels, trained=trained, table=owner.name, classes=len(owner.classes)).outputs


def _rehearse_with(rows: int, description: dict[str, Any], plan: Plan, *, quick: bool) -> Schema:
    """The forms of the messages in a rehearsal with so many rows in a batch."""
    method, rounds = plan.method.rehearsed, rehearsed_rounds(plan.method)
    tables = stand_ins(_with_rows(description, max(4 * rows, 2 * description["outputs"])))
    settings = replace(plan.settings, batch=rows, runtime="loop", rounds=MOST_ROUNDS, valid=0.0, stop_drop=None)
    model = Model(tables, replace(plan, method=method, settings=settings, seal=(), devices=()))
    schema = Schema({})
    parties = _NotingParties(model.parties, schema, quick=quick)
    for number in rounds:
        method.round(model.owner, parties, Turn(number, model.schedule.batch_of(number)))
    turn = Turn(rounds[-1] + 1, torch.arange(rows), purpose="evaluate", leader=model.sides.leader())
    with torch.no_grad():
        method.predict(model.owner, parties, turn)
        for question in (method.predict_each, method.importance):
            try:
                question(model.owner, parties, replace(turn, purpose="predict"))
            except ConfigError:  # most methods have one model for all parties, or no heads
                continue
    return schema


def rehearsed_rounds(method: Method) -> list[int]:
    """The first two rounds and those that the method declares, in their order."""
    declared: Any = method.rare_rounds
    proper = isinstance(declared, tuple) and all(type(number) is int and number >= 0 for number in declared)
    if not proper or len(declared) > MOST_ROUNDS:
        raise ConfigError(
            f"{method.name}: rare_rounds={declared!r} are no rounds to rehearse; "
            f"give a tuple of at most {MOST_ROUNDS} whole numbers from 0 on, one for each rare step."
        )
    return sorted({0, 1, *declared})


def _with_rows(description: dict[str, Any], rows: int) -> dict[str, Any]:
    """The described tables with so many rows at every owner, and those of all owners at every party."""
    owners = owners_in(description)
    tables = [
        [name, rows if k < owners else rows * owners, shape] for k, (name, _, shape) in enumerate(description["tables"])
    ]
    return {**description, "tables": tables}
