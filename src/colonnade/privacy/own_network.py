"""The part of the model that a party has itself, trained and with fresh weights."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn

from colonnade.core.column_scale import evened
from colonnade.core.randomness import Randomness
from colonnade.core.schedule import derive_seed
from colonnade.core.table import Table
from colonnade.privacy.material import Array, OwnNetwork
from colonnade.run.training import Run
from colonnade.runtime.build import Build, build_parts
from colonnade.runtime.loop import LoopGroup


def own_network(run: Run | None, party: str, table: Table | None) -> OwnNetwork | None:
    """A party's network, if the run, its table and such a network are here."""
    if run is None or table is None or party not in run.parties.names:
        return None
    number = run.parties.names.index(party)
    state = run.model.states().get(f"party-{number:03d}", {})
    trained, untrained = (_group(run, number, table, fresh=fresh) for fresh in (False, True))
    if "net" not in trained.loop_nets or not any(key.startswith("net/weights") for key in state):
        return None
    trained.load({number: state})
    return OwnNetwork(_ColumnsNet(trained, table), _ColumnsNet(untrained, table))


def _group(run: Run, number: int, table: Table, *, fresh: bool) -> LoopGroup:
    """A party of the run's kind by itself, with initial weights of its own."""
    plan = run.model.plan
    randomness = Randomness(derive_seed(plan.settings.seed, "fresh network", fresh))
    leaders = dict.fromkeys(run.model.sides.leaders, 1.0)
    build = Build(plan.models[number], evened(table), number, list(leaders))
    parts = build_parts(plan.method, build, plan.optimizers[number], run.task.outputs, randomness)
    return LoopGroup(number, evened(table), parts, randomness, task=run.task.public, leaders=leaders)


class _ColumnsNet:
    """A party's network as a function of columns that are scaled already, with their shape or flat."""

    def __init__(self, group: LoopGroup, table: Table) -> None:
        self.module: nn.Module = group.loop_nets["net"].module
        self.shape = table.shape

    def __call__(self, columns: Array) -> Array:
        self.module.eval()
        with torch.no_grad():
            inputs = torch.from_numpy(np.asarray(columns, dtype=np.float32)).reshape(len(columns), *self.shape)
            return np.asarray(self.module(inputs).reshape(len(columns), -1))
