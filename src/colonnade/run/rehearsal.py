"""A rehearsal: two rounds on rows that are nobody's, to know what every message of a run will look like."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import torch

from colonnade.core.method import Method, Parties, Turn
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
ROWS = (23, 29)  # two numbers of rows tell which dimensions follow them
MOST_ROUNDS = 25


class _Watching(Parties):
    """Parties whose every message is noted."""

    def __init__(self, parties: Parties, schema: Schema, *, quick: bool = False) -> None:
        self.parties, self.schema, self.names, self.quick = parties, schema, parties.names, quick

    def ask(self, step: Callable[..., R], turn: Turn, **how: Any) -> list[R]:
        """Ask, and note what went down and what came up; in a quick rehearsal nobody learns from what he is told."""
        if self.quick and kinds_of(step)[1] is None:
            self._note(step, turn, [None] * len(self.names), **how)
            return []
        replies = self.parties.ask(step, turn, **how)
        self._note(step, turn, replies, **how)
        return replies

    def sum(self, step: Callable[..., R], turn: Turn, **how: Any) -> R:
        """The same for a sum, whose parts have its form."""
        total = self.parties.sum(step, turn, **how)
        self._note(step, turn, None, total, **how)
        return total

    def _note(
        self,
        step: Callable[..., Any],
        turn: Turn,
        replies: Sequence[Any] | None,
        total: Any = None,
        all: Any = None,
        each: Sequence[Any] | None = None,
        to: Iterable[int] | None = None,
    ) -> None:
        if not turn.training:
            self.schema.note_asked(step.__name__)
        chosen, rows = range(len(self.names)) if to is None else sorted(set(to)), turn.rows.shape[-1]
        for place, k in enumerate(chosen):
            told = all if each is None else each[place]
            said = total if replies is None else replies[place]
            for way, message in (("down", told), ("up", said), ("sum", total), ("each", each and told)):
                if message is not None:
                    self.schema.note(self.names[k], way, step.__name__, message, rows)


def rehearse(description: dict[str, Any], plan: Plan, *, quick: bool = False) -> Schema:
    """The schema of a run of these tables, as ``description`` has their names, row shapes and outputs."""
    with threads(plan.settings.threads):
        first, second = (_one(rows, description, plan, quick=quick) for rows in ROWS)
    return first.merge(second)


def rehearse_tables(tables: Sequence[Table], plan: Plan) -> Schema:
    """The schema of a run on these tables; no value of theirs is used."""
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


def _one(rows: int, description: dict[str, Any], plan: Plan, *, quick: bool) -> Schema:
    tables, method = stand_ins(_with_rows(description, max(4 * rows, 2 * description["outputs"]))), plan.method
    how = replace(plan.settings, batch=rows, runtime="loop", rounds=MOST_ROUNDS, valid=0.0, stop_drop=None)
    trained = Model(tables, replace(plan, settings=how, seal=()))
    schema, turns = Schema(), min(MOST_ROUNDS, max([2, *_periods(method)]))
    watched = _Watching(trained.parties, schema, quick=quick)
    for number in range(turns):
        method.round(trained.owner, watched, Turn(number, trained.schedule.batch_of(number)))
    asked = Turn(turns, torch.arange(rows), purpose="evaluate", leader=trained.sides.leader())
    with torch.no_grad():
        method.predict(trained.owner, watched, asked)
        for more in (method.predict_each, method.importance):
            try:
                more(trained.owner, watched, replace(asked, purpose="predict"))
            except ConfigError:  # most methods have one model for all, or no heads
                continue
    return schema


def _with_rows(description: dict[str, Any], many: int) -> dict[str, Any]:
    """The same tables, with so many rows at every owner."""
    owners = owners_in(description)
    tables = [
        [name, many if k < owners else many * owners, shape] for k, (name, _, shape) in enumerate(description["tables"])
    ]
    return {**description, "tables": tables}


def _periods(method: Method) -> list[int]:
    """How often things happen that not every round has."""
    return [value for name, value in vars(method).items() if name.endswith("every") and isinstance(value, int)]
