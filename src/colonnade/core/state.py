"""State as flat dictionaries of named tensors, so that every side can save and load its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from colonnade.core.optim import UNCOMPILED
from colonnade.errors import CheckpointError

Packed = dict[str, Tensor]
MAX_DIMENSIONS = 8
"""The most dimensions of a tensor that is sent or saved."""
ELEMENTWISE_OPTIMIZERS = (
    *UNCOMPILED,
    torch.optim.SGD,
    torch.optim.Adam,
    torch.optim.AdamW,
    torch.optim.Adagrad,
    torch.optim.RMSprop,
    torch.optim.Adadelta,
    torch.optim.Adamax,
    torch.optim.NAdam,
    torch.optim.RAdam,
)
"""Optimisers whose buffers have their parameter's shape, so that parameters can be stacked under them."""


def pack(things: Mapping[str, Any]) -> Packed:
    """Copies of all tensors in a mapping of modules, optimisers and tensors, under flat names."""
    packed: Packed = {}
    for name, thing in things.items():
        packed.update({f"{name}/{key}": value for key, value in _pack_one(thing).items()})
    return packed


def unpack(things: Mapping[str, Any], packed: Packed, whose: str) -> None:
    """Copy the tensors of :func:`pack` back into the modules, optimisers and tensors, bit for bit."""
    for name, thing in things.items():
        mine = under(packed, name)
        if isinstance(thing, torch.optim.Optimizer):
            unpack_optimizer(thing, mine)
        elif isinstance(thing, dict):  # of any size, such as the trees of a learner
            thing.clear()
            thing.update({key: copy(value) for key, value in mine.items()})
        else:
            _copy_in(f"{whose}: {name}", _tensors_of(thing), mine)


def under(packed: Packed, name: str) -> Packed:
    """The entries below ``name/``, without that prefix."""
    prefix = f"{name}/"
    return {key.removeprefix(prefix): value for key, value in packed.items() if key.startswith(prefix)}


def pack_optimizer(optimizer: torch.optim.Optimizer) -> Packed:
    """An optimiser's buffers, by its kind and the position of their parameter."""
    packed: Packed = {}
    for position, parameter in enumerate(_parameters_of(optimizer)):
        for key, value in optimizer.state.get(parameter, {}).items():
            if value is not None:
                packed[f"{type(optimizer).__name__}/{position}/{key}"] = copy(torch.as_tensor(value))
    return packed


def unpack_optimizer(optimizer: torch.optim.Optimizer, packed: Packed) -> None:
    """Replace an optimiser's buffers by saved ones, which must fit its class and its parameters."""
    kind, parameters = type(optimizer).__name__, _parameters_of(optimizer)
    for name, value in packed.items():
        saved_kind, position, *_ = *name.split("/"), ""
        fits = saved_kind == kind and position.isdigit() and int(position) < len(parameters)
        shaped = type(optimizer) not in ELEMENTWISE_OPTIMIZERS or value.ndim == 0
        if not fits or not (shaped or value.shape == parameters[int(position)].shape):
            raise CheckpointError(
                f"the checkpoint holds '{name}', which does not fit the optimiser {kind} of this run."
            )
    optimizer.state.clear()
    for index, parameter in enumerate(parameters):
        buffers = under(packed, f"{kind}/{index}")
        if buffers:
            group = next(group for group in optimizer.param_groups if any(p is parameter for p in group["params"]))
            on_device = bool(group.get("capturable") or group.get("fused"))
            optimizer.state[parameter] = {
                key: value.clone() if is_counter(f"/{key}") and not on_device else beside(value, parameter)
                for key, value in buffers.items()
            }


def is_counter(name: str) -> bool:
    """Whether a saved buffer is one number for a whole parameter, such as a step count."""
    return name.endswith(("/step", "/mu_product"))


def position_of(name: str) -> int:
    """Which parameter a saved buffer belongs to."""
    return int(name.split("/")[1])


def copy(tensor: Tensor) -> Tensor:
    """A copy on the host without gradient history in contiguous memory, as safetensors needs it."""
    return tensor.detach().to("cpu", copy=True, memory_format=torch.contiguous_format)


def beside(value: Tensor, other: Tensor) -> Tensor:
    """A copy of a saved value on another tensor's device."""
    return value.to(other.device, copy=True)


def _pack_one(thing: Any) -> Packed:
    if isinstance(thing, torch.optim.Optimizer):
        return pack_optimizer(thing)
    return {key: copy(value) for key, value in _tensors_of(thing).items()}


def _tensors_of(thing: Any) -> Packed:
    if isinstance(thing, nn.Module):
        return dict(thing.state_dict(keep_vars=True))
    if isinstance(thing, Tensor):
        return {"value": thing}
    if isinstance(thing, dict):
        return thing
    raise TypeError(
        f"a {type(thing).__name__} cannot be kept as state; use modules, optimisers, tensors and dictionaries of those"
    )


def _copy_in(what: str, current: Packed, saved: Packed) -> None:
    shapes = {name: tuple(tensor.shape) for name, tensor in current.items()}
    saved_shapes = {name: tuple(tensor.shape) for name, tensor in saved.items()}
    if shapes != saved_shapes:
        raise CheckpointError(
            f"{what} has tensors {saved_shapes} in the checkpoint but {shapes} in this run; it is foreign."
        )
    with torch.no_grad():
        for name, tensor in current.items():
            tensor.copy_(saved[name])


def _parameters_of(optimizer: torch.optim.Optimizer) -> list[Tensor]:
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]
