"""Multi-VFL: several owners with labels of different rows, whose models are averaged every few rounds.

Mugunthan, Goyal, Kagal: *Multi-VFL: a vertical federated learning system for multiple data and label owners*, 2021.

====================  ==========================================================
paper                 here
====================  ==========================================================
label owners L        the first tables of the federation, see :func:`colonnade.share`
data owners D         the parties; each has a network per owner, ``mine.nets[turn.leader]``
n_l / n               ``mine.leaders``, ``owners.shares``
h_k                   message ``Embedding.h``, to the owner of the rows
server network        ``mine.top`` at every owner; message ``Weights.w`` when they are averaged
local steps           ``every``
FedAvg, FedAdam, ...  ``server``, see ``methods/aggregate.py``
====================  ==========================================================

With one owner and ``server="fedavg"`` it is SplitNN.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from colonnade.core.method import register
from colonnade.methods.several import SeveralOwners


@register
@dataclass(frozen=True, kw_only=True)
class MultiVFL(SeveralOwners):
    """Several owners, a network per owner at every party, everything averaged every few rounds."""

    name: ClassVar[str] = "multivfl"
    summary: ClassVar[str] = "several owners with labels of different rows, models averaged every K rounds"
