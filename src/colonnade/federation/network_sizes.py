"""The size of the networks that parties' claimed row shapes lead to, computed before anything is built."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from colonnade.core.method import Method
from colonnade.core.optim import OptimizerBuilder
from colonnade.core.table import Table
from colonnade.errors import ConfigError
from colonnade.models import ModelBuilder
from colonnade.runtime.build import Build

MOST_PARAMETERS = 5 * 10**7  # of one party: with gradients and an optimiser's memory 800 MB


def check_networks(
    tables: Sequence[Table],
    method: Method,
    models: Sequence[ModelBuilder],
    optimizers: Sequence[OptimizerBuilder],
    outputs: int,
) -> None:
    """Refuse a federation in which a party's networks would not fit; no memory is taken to find out."""
    holders = [table for table in tables if table.columns is not None]
    for member, (table, model, optimizer) in enumerate(zip(holders, models, optimizers, strict=True)):
        with torch.device("meta"):
            parts = method.party_parts(Build(model, table, member, tried=False), optimizer, outputs)
        count = sum(parameter.numel() for part in parts.values() for parameter in part.net.parameters())
        if count > MOST_PARAMETERS:
            raise ConfigError(
                f"the networks of '{table.name}' would have {count:,} parameters for its rows of shape "
                f"{tuple(table.shape)}, and {MOST_PARAMETERS:,} are the most; let it bring fewer columns, or choose a "
                "smaller model."
            )
