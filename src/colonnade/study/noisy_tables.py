"""Copies of a federation's tables in which one party's columns are noisy, or shuffled among the rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import torch

from colonnade.core.options import number, seed_of
from colonnade.core.schedule import derive_seed, permutation
from colonnade.core.table import Table, check_federation, parties_of
from colonnade.errors import ConfigError, unknown


def with_noise(tables: Sequence[Table], party: str, scale: float = 1.0, seed: int = 0) -> list[Table]:
    """The federation in which noise of N(0, scale^2) is added to one party's columns, as in the VIM paper.

    The unit is that of the inputs as its network sees them, in which pixels go from 0 to 1. Train on it to see whether
    a method gives that party less weight; predict with it to see how much the others rely on the party.

    >>> import colonnade as cn
    >>> train, _ = cn.load("digits", parties=4)
    >>> noisy = cn.with_noise(train, "party 2", scale=3.0)
    >>> float(noisy[2].columns.std()) > 2, noisy[1] is train[1]
    (True, True)
    """
    check_federation(tables, labelled=False, several=True)
    parties = {table.name: table for table in parties_of(tables)}
    if party not in parties:
        raise unknown("party", party, parties)
    changed = noisy(parties[party], check_scale(scale), seed_of(seed))
    first, *others = exchanged(tables, replace(changed, origin=None))
    return [replace(first, origin=None), *others]  # a resumed run would load the data without the noise


def noisy(table: Table, scale: float, *seed: object) -> Table:
    """The table with noise added to its columns as a network sees them."""
    values = table.draw(torch.arange(table.rows))
    random = torch.Generator().manual_seed(derive_seed(*seed, "noisy", table.name))
    return replace(table, columns=values + scale * torch.randn(values.shape, generator=random), scale=None)


def shuffled(table: Table, *seed: object) -> Table:
    """The table with its rows of columns in another order; the labels keep theirs."""
    known = table.known_rows.nonzero()[:, 0]
    order = torch.arange(table.rows)
    order[known] = known[permutation(len(known), *seed, "shuffled", table.name)]
    return replace(table, columns=table.columns[order])


def exchanged(tables: Sequence[Table], new: Table) -> list[Table]:
    """The federation with a table replaced by the new table of the same name."""
    return [new if table.name == new.name else table for table in tables]


def check_scale(scale: float) -> float:
    """The standard deviation of noise; refused if it cannot be used as such."""
    if not 0 <= number(scale, "scale") < math.inf:
        raise ConfigError(f"scale={scale} is out of range; give the noise's standard deviation, at least 0.")
    return float(scale)
