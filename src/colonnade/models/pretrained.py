"""An MLP that a party trains alone before the first round, on all its rows, aligned or not; nothing travels."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from colonnade.core.table import Table
from colonnade.errors import ConfigError, ModelError, unknown
from colonnade.models.mlp import MLP

WAYS = ("autoencoder", "masked")
HIDDEN_SHARE = 0.3  # of a row's numbers, if they are masked
BATCH, RATE = 256, 0.001
MOST_EPOCHS = 1000  # a plan of another side may ask for them


@dataclass(frozen=True)
class Pretrained:
    """The network of :class:`MLP`, trained to rebuild the party's own rows by a decoder that is then thrown away.

    ``by="masked"`` hides a part of every row's numbers, which the decoder must guess from the others. The rows are
    those of the training table that the party has, and its ``unaligned`` ones; labels are not needed.
    """

    hidden: tuple[int, ...] = (120,)
    epochs: int = 5
    by: str = "autoencoder"

    def __post_init__(self) -> None:
        object.__setattr__(self, "hidden", tuple(self.hidden))
        if isinstance(self.epochs, bool) or not isinstance(self.epochs, int) or not 1 <= self.epochs <= MOST_EPOCHS:
            raise ConfigError(
                f"epochs={self.epochs!r} of a pretrained network is out of range; give 1 to {MOST_EPOCHS}."
            )
        if self.by not in WAYS:
            raise unknown("way to pretrain", self.by, WAYS)

    def __call__(self, shape: tuple[int, ...], width: int) -> nn.Module:
        """The network before it is pretrained."""
        return MLP(self.hidden)(shape, width)

    def decision(self, embedding: int, classes: int) -> nn.Module:
        """The layer above the embedding."""
        return MLP(self.hidden).decision(embedding, classes)

    def decoder(self, shape: tuple[int, ...], embedding: int) -> nn.Module:
        """The same layers backwards."""
        return MLP(self.hidden).decoder(shape, embedding)

    def pretrain(self, net: nn.Module, table: Table, width: int) -> None:
        """Train the network on the party's own rows; what is drawn follows from the party's randomness."""
        if table.cardinalities:
            raise ModelError(f"the columns of '{table.name}' hold codes to embed; prepare them one-hot to pretrain.")
        inputs = own_rows(table)
        if bool((inputs == inputs[:1]).all()):  # a stand-in for somebody's table
            return
        decoder = self.decoder(table.shape, width)
        optimizer = torch.optim.Adam([*net.parameters(), *decoder.parameters()], lr=RATE)
        net.train()
        with torch.enable_grad():
            for _ in range(self.epochs):
                for rows in torch.randperm(len(inputs)).split(BATCH):
                    self._step(net, decoder, optimizer, inputs[rows])

    def _step(self, net: nn.Module, decoder: nn.Module, optimizer: torch.optim.Optimizer, x: Tensor) -> None:
        seen = x if self.by == "autoencoder" else x * (torch.rand(x.shape) >= HIDDEN_SHARE)
        loss = (decoder(net(seen)) - x.reshape(-1, math.prod(x.shape[1:]))).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def own_rows(table: Table) -> Tensor:
    """All rows that the party has, scaled: those of the federation, and those of its own."""
    aligned, own = table.draw(table.known_rows.nonzero()[:, 0]), table.draw_unaligned()
    return aligned if own is None else torch.cat([aligned, own])
