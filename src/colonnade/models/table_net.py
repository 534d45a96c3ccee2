"""A network for tables whose last columns are codes of categories; it learns an embedding of each code."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from colonnade.errors import ModelError
from colonnade.models.mlp import MLP, LinearDecision

_WIDEST = 50


class Embedded(nn.Module):
    """Replaces the codes in a row's last columns by learnt embeddings."""

    def __init__(self, cardinalities: tuple[int, ...], dims: tuple[int, ...]) -> None:
        super().__init__()
        self.tables = nn.ModuleList(_table(count, dim) for count, dim in zip(cardinalities, dims, strict=True))

    def forward(self, rows: Tensor) -> Tensor:
        """[rows, numbers and codes] to [rows, numbers and embeddings]."""
        numbers = rows.shape[-1] - len(self.tables)
        codes = rows[..., numbers:].long()
        return torch.cat([rows[..., :numbers], *(t(codes[..., k]) for k, t in enumerate(self.tables))], dim=-1)


def _table(codes: int, dim: int) -> nn.Embedding:
    table = nn.Embedding(codes, dim)
    with torch.no_grad():
        table.weight[0] = 0.0  # code 0, for categories that training never saw, has no influence at first
    return table


@dataclass(frozen=True)
class TableNet(LinearDecision):
    """An MLP over numbers and learnt embeddings; ``cardinalities`` are the numbers of codes of the last columns.

    ``dims`` are the embeddings' widths, by default half of the codes, at most 50.

    >>> TableNet(hidden=(8,), cardinalities=(3, 10))((6,), 4)(torch.zeros(2, 6)).shape
    torch.Size([2, 4])
    """

    hidden: tuple[int, ...] = (120,)
    cardinalities: tuple[int, ...] = ()
    dims: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        put = object.__setattr__
        put(self, "hidden", tuple(self.hidden))
        put(self, "cardinalities", tuple(self.cardinalities))
        put(self, "dims", None if self.dims is None else tuple(self.dims))
        if self.dims is not None and len(self.dims) != len(self.cardinalities):
            raise ModelError(
                f"dims has {len(self.dims)} widths for {len(self.cardinalities)} columns of codes; give one each."
            )

    def __call__(self, shape: tuple[int, ...], width: int) -> nn.Module:
        """Build the network for rows of this shape."""
        if len(shape) != 1 or shape[0] < len(self.cardinalities):
            raise ModelError(
                f"rows of shape {shape} cannot have {len(self.cardinalities)} columns of codes at their end; "
                "give the cardinalities of this table."
            )
        dims = tuple(min(_WIDEST, (count + 1) // 2) for count in self.cardinalities) if self.dims is None else self.dims
        above = MLP(self.hidden)((shape[0] - len(dims) + sum(dims),), width)
        return nn.Sequential(Embedded(self.cardinalities, dims), above) if dims else above
