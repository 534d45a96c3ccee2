"""A second device without hardware: torch's lazy TorchScript backend, which is in the CPU build and refuses to mix.

It keeps what is asked of it as a graph and computes it when somebody looks. It has a few mistakes, met here and mended
by :class:`Mended`, none of which CUDA has:

- what ``unbind``, ``split`` or iteration gives is on the host, and says that it is not;
- a Python number times a tensor without dimensions is float64 when it is computed, whatever the tensor is;
- under a dispatch mode, such as this one and ``HostDraws``, it is asked for views that it does not have.

It cannot be taken back once it is there, so tests use it in a process of their own.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import torch
import torch._lazy.ts_backend
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

NAME = "lazy"


def begin() -> None:
    """Let there be a device "lazy"."""
    torch._lazy.ts_backend.init()


class Mended(TorchDispatchMode):
    """Does what the backend gets wrong in a way that it gets right."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs, name = kwargs or {}, func._schema.name.removeprefix("aten::")
        is_product = name in ("mul", "div") and func._overloadname in ("Tensor", "Scalar")
        if is_product and is_lazy(args[0]) and not args[0].ndim and isinstance(args[1], float | int):
            other = torch.tensor(args[1], dtype=args[0].dtype, device=NAME)
            return getattr(torch.ops.aten, name).Tensor(args[0], other)
        if func.is_view and args and is_lazy(args[0]):
            return _view(func, name, args, kwargs)
        return func(*args, **kwargs)


def _view(func: Any, name: str, args: Any, kwargs: Any) -> Any:
    """A view, or a copy of what it would show where there are no views."""
    with suppress(RuntimeError):
        if name not in ("unbind", "split", "split_with_sizes"):
            return func(*args, **kwargs)
    copy = getattr(getattr(torch.ops.aten, f"{name}_copy"), func._overloadname)
    return tree_map(lambda part: part.to(NAME), copy(*args, **kwargs))


def is_lazy(value: object) -> bool:
    return isinstance(value, Tensor) and value.device.type == NAME
