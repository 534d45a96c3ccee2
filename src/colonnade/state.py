"""State as flat dictionaries of named tensors, so that every side can save and load its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from colonnade.errors import CheckpointError

Packed = dict[str, Tensor]


def pack(things: Mapping[str, Any]) -> Packed:
    """Copies of all tensors in a mapping of modules, optimisers and tensors, under flat names."""
    packed: Packed = {}
    for name, thing in things.items():
        packed.update({f"{name}/{key}": value for key, value in _pack_one(thing).items()})
    return packed


def unpack(things: Mapping[str, Any], packed: Packed, whose: str) -> None:
    """Put what :func:`pack` gave back in place, bit for bit."""
    for name, thing in things.items():
        mine = under(packed, name)
        if isinstance(thing, torch.optim.Optimizer):
            unpack_optimizer(thing, mine)
        else:
            _copy_in(f"{whose}: {name}", _tensors_of(thing), mine)


def under(packed: Packed, name: str) -> Packed:
    """The entries below ``name/``, without that prefix."""
    prefix = f"{name}/"
    return {key.removeprefix(prefix): value for key, value in packed.items() if key.startswith(prefix)}


def pack_optimizer(optimizer: torch.optim.Optimizer) -> Packed:
    """An optimiser's buffers, by the position of their parameter."""
    packed: Packed = {}
    for position, parameter in enumerate(_parameters_of(optimizer)):
        for key, value in optimizer.state.get(parameter, {}).items():
            if value is not None:
                packed[f"{position}/{key}"] = torch.as_tensor(value).detach().clone()
    return packed


def unpack_optimizer(optimizer: torch.optim.Optimizer, packed: Packed) -> None:
    """Replace an optimiser's buffers by saved ones."""
    optimizer.state.clear()
    for position, parameter in enumerate(_parameters_of(optimizer)):
        buffers = under(packed, str(position))
        if buffers:
            optimizer.state[parameter] = {key: value.clone() for key, value in buffers.items()}


def _pack_one(thing: Any) -> Packed:
    if isinstance(thing, torch.optim.Optimizer):
        return pack_optimizer(thing)
    return {key: value.detach().clone() for key, value in _tensors_of(thing).items()}


def _tensors_of(thing: Any) -> Packed:
    if isinstance(thing, nn.Module):
        return dict(thing.state_dict(keep_vars=True))
    if isinstance(thing, Tensor):
        return {"value": thing}
    raise TypeError(f"a {type(thing).__name__} cannot be kept as state; use modules, optimisers and tensors")


def _copy_in(what: str, current: Packed, saved: Packed) -> None:
    shapes = {name: tuple(tensor.shape) for name, tensor in current.items()}
    came = {name: tuple(tensor.shape) for name, tensor in saved.items()}
    if shapes != came:
        raise CheckpointError(f"{what} has tensors {came} in the checkpoint but {shapes} in this run; it is foreign.")
    with torch.no_grad():
        for name, tensor in current.items():
            tensor.copy_(saved[name])


def _parameters_of(optimizer: torch.optim.Optimizer) -> list[Tensor]:
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]
