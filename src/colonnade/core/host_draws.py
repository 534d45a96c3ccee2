"""Random numbers that a network draws by itself, such as those of dropout, drawn on the host wherever it computes.

A device has a generator of its own, with other numbers and a seed of 64 bits. A side's numbers shall be the same on
every device, and follow from all of its secret (``core/randomness.py``). So operations that draw are computed on the
host. Only networks that may draw pay for that: torch's layers that surely do not are known by where torch has them, and
a layer of another kind can say ``draws = False``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

_DRAW_NOTHING = {
    f"torch.nn.modules.{name}"
    for name in (
        "activation",
        "batchnorm",
        "container",
        "conv",
        "flatten",
        "instancenorm",
        "linear",
        "normalization",
        "padding",
        "pooling",
        "sparse",
    )
}
_BUT = (nn.RReLU, nn.MultiheadAttention, nn.FractionalMaxPool2d, nn.FractionalMaxPool3d)


def may_draw(modules: Iterable[nn.Module]) -> bool:
    """Whether some of these layers may draw numbers when they compute; not those that never do, or say so.

    >>> may_draw(nn.Sequential(nn.Linear(2, 2), nn.ReLU()).modules()), may_draw([nn.Dropout()])
    (False, True)
    """
    return any(getattr(module, "draws", _is_unknown(module)) for module in modules)


def _is_unknown(module: nn.Module) -> bool:
    where = type(module).__module__
    known = where in _DRAW_NOTHING or where.startswith("colonnade.models.")
    return not known or isinstance(module, _BUT)


class HostDraws(TorchDispatchMode):
    """Computes what draws random numbers on the host, from torch's own generator, and brings the result back."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operation, on the host if it draws."""
        kwargs = kwargs or {}
        device = _device_of(args, kwargs)
        if device is None or torch.Tag.nondeterministic_seeded not in func.tags:
            return func(*args, **kwargs)
        made = func(*tree_map(_to_host, args), **tree_map(_to_host, kwargs))
        if func._schema.name.endswith("_"):  # in place: its first argument has the numbers
            return args[0].copy_(made)
        return tree_map(lambda value: value.to(device) if isinstance(value, Tensor) else value, made)


def _device_of(args: Any, kwargs: Any) -> torch.device | None:
    """The device that an operation would draw on; None if that is the host already."""
    values = [*args, *kwargs.values()]
    devices = [value.device if isinstance(value, Tensor) else value for value in values]
    return next((value for value in devices if isinstance(value, torch.device) and value.type != "cpu"), None)


def _to_host(value: Any) -> Any:
    if isinstance(value, torch.device):
        return torch.device("cpu")
    return value.cpu() if isinstance(value, Tensor) else value
