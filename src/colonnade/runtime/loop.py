"""One party after the other, each a plain module and optimiser: the reference."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from colonnade.core.column_scale import ColumnScale, as_evened, scale_of
from colonnade.core.method import Net, Part, Turn
from colonnade.core.optim import OptimizerBuilder
from colonnade.core.randomness import Randomness
from colonnade.core.state import Packed, copy, pack, pack_optimizer, under, unpack, unpack_optimizer
from colonnade.core.table import Table
from colonnade.core.task import Task
from colonnade.errors import ConfigError
from colonnade.runtime.group import Group


class LoopNet(Net):
    """One party's module and optimiser, as any PyTorch user would have them."""

    def __init__(self, part: Part, whose: str) -> None:
        self.module = part.net
        self.reads = part.reads
        self._modules = list(part.net.modules())  # looked at in every step, and slow to walk through
        parameters = [parameter for parameter in part.net.parameters() if parameter.requires_grad]
        super().__init__(parameters, build_optimizer(part.optimizer, parameters, whose))

    def train(self, training: bool) -> None:
        """Put the module and all inside it into training mode, or out of it; most are there already."""
        if any(module.training != training for module in self._modules):
            self.module.train(training)

    def __call__(self, inputs: Tensor) -> Tensor:
        """The module's output."""
        return self.module(inputs)  # type: ignore[no-any-return]


def build_optimizer(builder: OptimizerBuilder, parameters: Sequence[Tensor], whose: str) -> torch.optim.Optimizer:
    """The party's optimiser, or one sentence about what its builder did instead."""
    try:
        optimizer = builder(parameters)
    except Exception as error:
        raise ConfigError(f"optimizer= fails for '{whose}': {error}") from error
    if not isinstance(optimizer, torch.optim.Optimizer):
        kind = type(optimizer).__name__
        raise ConfigError(f"optimizer= gave a {kind} for '{whose}'; it must build a torch.optim.Optimizer.")
    return optimizer


class LoopGroup(Group):
    """Exactly one party, computed plainly: the reference."""

    def __init__(
        self,
        member: int,
        table: Table,
        parts: dict[str, Part],
        randomness: Randomness,
        *,
        task: Task | None = None,
        leaders: Mapping[str, float] | None = None,
    ) -> None:
        super().__init__(leaders)
        if task is not None:
            self.task = task
        self.members = [member]
        self.tables = {"train": table}
        self.loop_nets = {name: LoopNet(part, table.name) for name, part in parts.items()}
        self.nets = dict(self.loop_nets)
        self.randomness = randomness
        self.soft: Tensor | None = None  # what one of several owners trains on instead of its labels
        self._drawn: tuple[Turn, Tensor] | None = None

    def inputs(self, turn: Turn) -> Tensor:
        """This party's rows of the turn, drawn once per turn."""
        if self._drawn is None or self._drawn[0] is not turn:
            self._drawn = turn, self.tables[turn.table].draw(turn.rows)
        return self._drawn[1]

    def labels(self, turn: Turn) -> Tensor:
        """This owner's labels; of the turn's row numbers it has one line, as every owner has."""
        rows = turn.rows[self.members[0]]
        if self.soft is not None:
            return self.soft.index_select(0, rows)
        return self.task.inside(self.tables[turn.table].labels.index_select(0, rows))

    def known(self, turn: Turn) -> Tensor:
        """Which of the turn's rows this party really has."""
        known = self.tables[turn.table].known
        return super().known(turn) if known is None else known.index_select(0, turn.rows)

    def unaligned(self) -> Tensor | None:
        """The rows beside the training table's that only this party has."""
        return self.tables["train"].draw_unaligned()

    def run(self, step: Callable[..., Any], turn: Turn, received: Sequence[Any], shared: bool) -> list[Any]:
        """Run the step with this party's own randomness for its number, the purpose, the round and the step."""
        for net in self.loop_nets.values():
            net.train(turn.training)
        what = self.members[0], turn.purpose, turn.round, step.__name__
        with self.randomness.drawing(*what), torch.set_grad_enabled(turn.training):
            return [step(self, turn, *received)]

    def place(self, name: str, tables: Sequence[Table]) -> None:
        """Put a table under a name."""
        self.put(name, tables[self.members[0]])

    def put(self, name: str, table: Table) -> None:
        """Put this party's table under a name; raw columns are standardised as those of the training table are."""
        self.tables[name] = as_evened(table, self.tables["train"])

    def states(self) -> dict[int, Packed]:
        """This party's state."""
        packed = {f"memory/{name}": copy(value) for name, value in self.memory.items()} | self.scale_state
        for name, net in self.loop_nets.items():
            packed |= {f"{name}/{key}": value for key, value in pack({"weights": net.module}).items()}
            packed |= {f"{name}/optimizer/{key}": value for key, value in pack_optimizer(net.optimizer).items()}
        return {self.members[0]: packed}

    @property
    def scale_state(self) -> Packed:
        """What raw columns are standardised by; empty if they are not."""
        scale = self.tables["train"].scale
        return {f"scale/{name}": value for name, value in scale.state.items()} if isinstance(scale, ColumnScale) else {}

    def take_scale(self, packed: Packed) -> None:
        """Standardise all tables as the run of this state did, or not at all."""
        scale = scale_of(under(packed, "scale"))
        if scale is not None or self.scale_state:
            self.tables = {name: replace(table, scale=scale) for name, table in self.tables.items()}
            self._drawn = None

    def load(self, states: dict[int, Packed]) -> None:
        """Take this party's state back."""
        packed = states[self.members[0]]
        self.memory = under(packed, "memory")
        self.take_scale(packed)
        for name, net in self.loop_nets.items():
            mine = under(packed, name)
            unpack({"weights": net.module}, mine, f"party {self.members[0]}")
            unpack_optimizer(net.optimizer, under(mine, "optimizer"))
