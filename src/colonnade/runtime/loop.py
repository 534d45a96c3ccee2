"""One party after the other, each a plain module and optimiser: the reference."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from colonnade.core.column_scale import ColumnScale, as_evened, scale_of
from colonnade.core.device import HOST, Device, reason
from colonnade.core.host_draws import HostDraws, may_draw
from colonnade.core.method import Net, Part, Turn
from colonnade.core.optim import OptimizerBuilder
from colonnade.core.randomness import Randomness
from colonnade.core.state import Packed, copy, pack, pack_optimizer, under, unpack, unpack_optimizer
from colonnade.core.table import Table
from colonnade.core.task import Task
from colonnade.errors import ConfigError, ModelError
from colonnade.runtime.group import Group


class LoopNet(Net):
    """One party's module and optimiser, as any PyTorch user would have them."""

    def __init__(self, part: Part, whose: str, device: Device = HOST) -> None:
        self.module = device.move(part.net, whose)
        self.reads = part.reads
        self.device = device
        self._modules = list(part.net.modules())  # looked at in every step, and slow to walk through
        parameters = [parameter for parameter in part.net.parameters() if parameter.requires_grad]
        super().__init__(parameters, build_optimizer(part.optimizer, parameters, whose))

    def train(self, training: bool) -> None:
        """Put the module and all inside it into training mode, or out of it; most are there already."""
        if any(module.training != training for module in self._modules):
            self.module.train(training)

    def __call__(self, inputs: Tensor) -> Tensor:
        """The module's output."""
        if self.device.precision == "float32":
            return self.module(inputs)  # type: ignore[no-any-return]
        with self.device.casting():
            return self.module(inputs).float()  # type: ignore[no-any-return]


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
        device: Device = HOST,
    ) -> None:
        super().__init__(leaders, device.here() if parts else HOST)  # without a network there is nothing to move
        if task is not None:
            self.task = task
        self.members = [member]
        self.tables = {"train": table}
        self.loop_nets = {name: LoopNet(part, table.name, self.device) for name, part in parts.items()}
        self.nets = dict(self.loop_nets)
        self.randomness = randomness
        modules = [module for net in self.loop_nets.values() for module in net.module.modules()]
        self._draws = not self.device.is_host and may_draw(modules)
        self.soft: Tensor | None = None  # what one of several owners trains on instead of its labels
        self._drawn: tuple[Turn, Tensor] | None = None
        self._moved: dict[str, Tensor] = {}  # by table: all rows on the device, if tables are to be there
        if not self.device.is_host:
            self._try_there()

    def _try_there(self) -> None:
        """Refuse a network that computed on the host and cannot where it is now."""
        table = self.tables["train"]
        few = torch.arange(min(2, table.rows))
        for name, net in self.loop_nets.items():
            if net.reads is None and (name != "net" or table.columns is None):
                continue  # nobody knows what it reads
            inputs = table.draw(few) if net.reads is None else torch.zeros(len(few), net.reads)
            try:
                with self.randomness.drawing("try", name), torch.no_grad(), HostDraws():
                    net.module.eval()(self.device.bring(inputs))
            except Exception as error:
                raise ModelError(
                    f"the network of '{table.name}' computes on the host and not on device='{self.device.name}': "
                    f"{reason(error)}; keep its tensors as parameters or buffers, and make others where its inputs are."
                ) from error

    def draw(self, turn: Turn) -> Tensor:
        """This party's rows of the turn, on the host, or on the device if the whole table is there."""
        table = self.tables[turn.table]
        if self.device.is_host or not self.device.move_tables:
            return table.draw(turn.rows)
        if turn.table not in self._moved:
            self._moved[turn.table] = self.device.bring(table.draw(torch.arange(table.rows)))
        return self._moved[turn.table].index_select(0, self.device.bring(turn.rows))

    def inputs(self, turn: Turn) -> Tensor:
        """This party's rows of the turn, drawn once per turn."""
        if self._drawn is None or self._drawn[0] is not turn:
            self._drawn = turn, self.device.bring(self.draw(turn))
        return self._drawn[1]

    def labels(self, turn: Turn) -> Tensor:
        """This owner's labels; of the turn's row numbers it has one line, as every owner has."""
        rows = turn.rows[self.members[0]]
        if self.soft is not None:
            return self.device.bring(self.soft.index_select(0, rows))
        return self.device.bring(self.task.inside(self.tables[turn.table].labels.index_select(0, rows)))

    def known(self, turn: Turn) -> Tensor:
        """Which of the turn's rows this party really has."""
        known = self.tables[turn.table].known
        return super().known(turn) if known is None else self.device.bring(known.index_select(0, turn.rows))

    def unaligned(self) -> Tensor | None:
        """The rows beside the training table's that only this party has."""
        own = self.tables["train"].draw_unaligned()
        return None if own is None else self.device.bring(own)

    def run(self, step: Callable[..., Any], turn: Turn, received: Sequence[Any], shared: bool) -> list[Any]:
        """Run the step with this party's own randomness for its number, the purpose, the round and the step."""
        for net in self.loop_nets.values():
            net.train(turn.training)
        what = self.members[0], turn.purpose, turn.round, step.__name__
        arguments = [self.device.bring_message(message) for message in received]
        draws = HostDraws() if self._draws else nullcontext()
        with self.randomness.drawing(*what), torch.set_grad_enabled(turn.training), draws:
            return [self.device.give(step(self, turn, *arguments))]

    def place(self, name: str, tables: Sequence[Table]) -> None:
        """Put a table under a name."""
        self.put(name, tables[self.members[0]])

    def put(self, name: str, table: Table) -> None:
        """Put this party's table under a name; raw columns are standardised as those of the training table are."""
        self.tables[name] = as_evened(table, self.tables["train"])
        self._moved.pop(name, None)

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
            self._moved.clear()

    def load(self, states: dict[int, Packed]) -> None:
        """Take this party's state back."""
        packed = states[self.members[0]]
        self.memory = {name: self.device.bring(value) for name, value in under(packed, "memory").items()}
        self.take_scale(packed)
        for name, net in self.loop_nets.items():
            mine = under(packed, name)
            unpack({"weights": net.module}, mine, f"party {self.members[0]}")
            unpack_optimizer(net.optimizer, under(mine, "optimizer"))
