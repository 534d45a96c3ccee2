"""A few rounds of a plan on its own rows, each side behind requests as in a federation, and how often a run has them.

Nothing is approximated but the seconds: whatever a run does once, every round or at every evaluation is done here.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import final

import torch

from colonnade.core.method import Turn
from colonnade.core.table import Table, owners_of
from colonnade.errors import ConfigError
from colonnade.run.apart_setup import make_party, remote_setup_for
from colonnade.run.make_plan import start
from colonnade.run.run_files import save_checkpoint
from colonnade.runtime.plan import Plan
from colonnade.runtime.remote.party_server import PartySpec
from colonnade.runtime.setup import threads
from colonnade.study.cost.link import NONE, Link
from colonnade.study.cost.request_trace import TimedTransport, Trace

TIMED, LEAST, PATIENCE = 8, 2, 20.0  # rounds of the usual kind, at most and at least; seconds after which no more begin
Kind = tuple[int, int]  # what is unusual about the round before, whose last messages travel with it, and about a round


@dataclass(frozen=True)
class CostPart:
    """What a run does so many times, and traces of it."""

    name: str
    times: int
    traces: Sequence[Trace]

    @property
    def trips(self) -> int:
        """Round trips, all times together."""
        return self.times * self.traces[-1].trips

    @property
    def down(self) -> int:
        """Bytes from the owner, all times together."""
        return self.times * self.traces[-1].down

    @property
    def up(self) -> int:
        """Bytes to the owner, all times together."""
        return self.times * self.traces[-1].up

    def seconds_over(self, link: Link) -> float:
        """Seconds over a line, all times together; of several traces the median counts."""
        return self.times * median(trace.seconds_over(link) for trace in self.traces)

    @property
    def computing(self) -> float:
        """Seconds that it would take without a line."""
        return self.seconds_over(NONE)


def timed_parts(plan: Plan, tables: Sequence[Table], test: Sequence[Table] | None = None) -> list[CostPart]:
    """Everything that a run of this plan does, from its first round to its last evaluation."""
    if len(owners_of(tables)) > 1:
        raise ConfigError(
            f"{len(owners_of(tables))} owners came, and only one can lead parties over a line; "
            "leave 'owners' out of [data]."
        )
    with TemporaryDirectory() as place, threads(plan.settings.threads):
        return _Rehearsal(plan, tables, test, Path(place)).parts()


@final
class _Rehearsal:
    """A run that is begun to be timed, with a folder, as every run between organisations has one."""

    def __init__(self, plan: Plan, tables: Sequence[Table], test: Sequence[Table] | None, folder: Path) -> None:
        apart = replace(plan, settings=replace(plan.settings, runtime="apart", cluster=None))
        setup, transports = remote_setup_for(tables, apart, folder), list[TimedTransport]()
        assert setup is not None

        def connect(specs: Sequence[PartySpec]) -> TimedTransport:
            transports.append(TimedTransport({spec.name: make_party(spec) for spec in specs}))
            return transports[0]

        self.run = start(apart, tables, folder, replace(setup, connect=connect))
        self.transport, self.settings, self.test = transports[0], apart.settings, test

    def parts(self) -> list[CostPart]:
        """All parts, in the order in which they are rehearsed."""
        total, every = self.settings.rounds, self.settings.evaluate_every
        looks = total // every + bool(total % every)
        return [
            CostPart("preparation", 1, [self._traced(self._prepare)]),
            *self._rounds(),
            CostPart("last messages", 1, [self._traced(self.run.parties.backend.settle)]),
            CostPart("evaluations", looks, [self._traced(self._evaluate)]),
            CostPart("checkpoints", looks, [self._traced(partial(save_checkpoint, self.run)) for _ in range(2)]),
        ]

    def _rounds(self) -> list[CostPart]:
        """All rounds, by their kind and that of the round before, whose last messages travel with them."""
        kinds, began = self._kinds(), time.perf_counter()
        traces = dict[Kind, list[Trace]]()
        for number, kind in sorted((number, kind) for kind, (numbers, _) in kinds.items() for number in numbers):
            known = traces.setdefault(kind, [])
            if len(known) < LEAST or time.perf_counter() - began < PATIENCE:
                self._round_before(number)
                known.append(self._traced(partial(self._round, number)))
        self._round_before(self.settings.rounds)
        return [CostPart("rounds", times, traces[kind]) for kind, (_, times) in kinds.items()]

    def _kinds(self) -> dict[Kind, tuple[list[int], int]]:
        """Some rounds of every kind, and how many there are."""
        examples, counts = dict[Kind, list[int]](), Counter[Kind]()
        before = 0
        for number in range(self.settings.rounds):
            kind = before, self._kind_of(number)
            counts[kind] += 1
            examples.setdefault(kind, []).extend([number] if counts[kind] <= TIMED else [])
            before = kind[1]
        usual = max(counts, key=counts.__getitem__)
        return {kind: (numbers if kind == usual else numbers[:1], counts[kind]) for kind, numbers in examples.items()}

    def _kind_of(self, number: int) -> int:
        """1 for the first round, more for those unlike most: the last of an epoch with fewer rows, and declared ones.

        A round that a method declares as rare comes again after as many rounds; if it is the first, all count as such.
        """
        after = [rare + 1 for rare in self.run.method.rare_rounds if rare]
        epoch = self.run.schedule.rounds_per_epoch
        short = self.run.schedule.smallest_batch(epoch) < self.settings.batch
        every = [*after, *([epoch] if short else [])]
        return int(number == 0) + sum(2 << place for place, rounds in enumerate(every) if not (number + 1) % rounds)

    # what is timed

    def _traced(self, work: Callable[[], object]) -> Trace:
        with self.transport.tracing() as trace:
            work()
        return trace

    def _prepare(self) -> None:
        if self.test is not None:
            self.run.model.place("test", self.test, labelled=True)
        save_checkpoint(self.run)

    def _round(self, number: int) -> None:
        run = self.run
        run.model.round = number + 1
        float(run.method.round(run.owner, run.parties, Turn(number, run.schedule.batch_of(number))))

    def _round_before(self, number: int) -> None:
        """Take the round before another one, if it was not the last that was taken."""
        if self.run.model.round != number:
            self._round(number - 1)

    def _evaluate(self) -> None:
        model = self.run.model
        judged = [model.judged_held_out()] if len(self.run.schedule.valid_rows) else []
        if self.test is not None:
            judged.append(model.judged("test", torch.arange(self.test[0].rows), model.sides.leader()))
        for outputs, labels in judged:
            self.run.task.metrics(outputs, labels)
