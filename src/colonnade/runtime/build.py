"""Builds a party's networks and tries them on its own rows before anything is trained."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from colonnade.errors import ColonnadeError, ModelError
from colonnade.method import Method, Part
from colonnade.models import ModelBuilder
from colonnade.optim import OptimizerBuilder
from colonnade.schedule import derive_seed
from colonnade.table import Table


def build_parts(
    method: Method,
    table: Table,
    member: int,
    model: ModelBuilder,
    optimizer: OptimizerBuilder,
    classes: int,
    seed: int,
) -> dict[str, Part]:
    """One party's networks, initialised from (seed, party) and tried on its own rows."""

    def build(width: int) -> nn.Module:
        try:
            net = model(table.shape, width)
        except ColonnadeError:
            raise
        except Exception as error:
            raise ModelError(
                f"model= fails for '{table.name}' when called with the row shape {table.shape} "
                f"and the output width {width}: {error}"
            ) from error
        _try_network(net, table, width)
        return net

    before = torch.get_rng_state()
    torch.manual_seed(derive_seed(seed, "init", member))
    try:
        return method.party_parts(build, optimizer, classes)
    finally:
        torch.set_rng_state(before)


def _try_network(net: object, table: Table, width: int) -> None:
    if not isinstance(net, nn.Module):
        raise ModelError(f"model= gave a {type(net).__name__} for '{table.name}'; it must build a torch.nn.Module.")
    rows = torch.arange(min(2, table.rows))
    net.eval()
    try:
        with torch.no_grad():
            output = net(table.draw(rows))
    except ColonnadeError:
        raise
    except Exception as error:
        raise ModelError(f"the network of '{table.name}' fails on its rows of shape {table.shape}: {error}") from error
    if not isinstance(output, Tensor):
        raise ModelError(f"the network of '{table.name}' gives a {type(output).__name__}; it must give one tensor.")
    if not any(parameter.requires_grad for parameter in net.parameters()):
        raise ModelError(f"the network of '{table.name}' has nothing to train; give it a layer with parameters.")
    if tuple(output.shape) != (len(rows), width):
        came = tuple(output.shape[1:])
        raise ModelError(
            f"the network of '{table.name}' gives outputs of width {came[0] if len(came) == 1 else came}, "
            f"but {width} is expected; build the last layer with the width that model= is given."
        )
