"""Several owners, each with the labels of its own rows.

A federation with several owners is still a plain list of tables: first the owners' tables, each with the labels of its
own rows and no columns, then the parties' tables with columns of all rows.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from colonnade.core.method import Method
from colonnade.core.options import seed_of
from colonnade.core.schedule import Schedule, SharedSchedule
from colonnade.core.table import Table, check_classes, check_federation, owners_of
from colonnade.errors import ConfigError, TableError

_TRIES = 1000  # how often to repeat a Dirichlet draw that leaves an owner without rows


def share(
    tables: Sequence[Table],
    owners: int,
    *,
    sizes: Sequence[float] | None = None,
    alpha: float | None = None,
    seed: int = 0,
) -> list[Table]:
    """Share the labels of a federation among several owners, "owner 1", "owner 2", ...

    Rows are drawn at random, equally many for each owner, or in proportion to ``sizes``. With ``alpha`` every class is
    shared in proportions from a Dirichlet distribution: 100 is nearly even, 0.1 gives most of a class to one owner.

    >>> import colonnade as cn
    >>> train, test = cn.load("digits", parties=4)
    >>> [(table.name, table.rows) for table in cn.share(train, owners=3, sizes=[2, 1, 1])[:4]]
    [('owner 1', 718), ('owner 2', 360), ('owner 3', 359), ('party 1', 1437)]
    """
    check_federation(tables)
    whole, parties = tables[0], tables[1:]
    if whole.columns is not None:
        raise TableError(f"the owner's table '{whole.name}' has columns too; split with owner='labels' to share it.")
    _check(owners, sizes, alpha, whole.rows)
    if owners == 1:
        return list(tables)
    random = np.random.default_rng(seed_of(seed))
    if alpha is None:
        proportions = np.ones(owners) if sizes is None else np.asarray(sizes, dtype=float)
        parts = _cut(random.permutation(whole.rows), proportions)
    else:
        check_classes(whole.labels, whole.name)  # alpha shares class by class
        parts = _by_class(whole.labels.numpy(), owners, alpha, random)
    if min(map(len, parts)) == 0:
        raise ConfigError(f"{owners} owners cannot share {whole.rows} rows so that each has one; take other sizes.")
    return [replace(whole.take(np.sort(part)), name=f"owner {k + 1}") for k, part in enumerate(parts)] + list(parties)


def _check(owners: int, sizes: Sequence[float] | None, alpha: float | None, rows: int) -> None:
    if isinstance(owners, bool) or not isinstance(owners, int) or not 1 <= owners <= rows:
        raise ConfigError(f"owners={owners!r} is out of range; {rows} rows have 1 to {rows} owners.")
    if sizes is not None and alpha is not None:
        raise ConfigError("sizes and alpha were both given; give one of them.")
    if sizes is not None and (len(sizes) != owners or not min(sizes) > 0):
        raise ConfigError(f"sizes={list(sizes)} came for {owners} owners; give one positive number per owner.")
    if alpha is not None and not 0 < alpha < np.inf:
        raise ConfigError(f"alpha={alpha} is out of range; give a positive number, such as 0.5.")


def _cut(rows: np.ndarray, proportions: np.ndarray) -> list[np.ndarray]:
    """Cut rows into parts of these proportions."""
    ends = np.rint(np.cumsum(proportions) / np.sum(proportions) * len(rows)).astype(int)
    return np.split(rows, ends[:-1])


def _by_class(labels: np.ndarray, owners: int, alpha: float, random: np.random.Generator) -> list[np.ndarray]:
    """Cut rows into parts, with proportions of their own for every class; every part gets at least one row."""
    classes = [np.flatnonzero(labels == label) for label in np.unique(labels)]
    for _ in range(_TRIES):
        cuts = [_cut(random.permutation(rows), random.dirichlet([alpha] * owners)) for rows in classes]
        parts = [np.concatenate(pieces) for pieces in zip(*cuts, strict=True)]
        if min(map(len, parts)):
            return parts
    raise ConfigError(f"alpha={alpha} leaves one of {owners} owners without rows in {_TRIES} draws; take a larger one.")


def places_of(tables: Sequence[Table]) -> tuple[Tensor, ...]:
    """Each owner's rows, as the parties number rows."""
    owners = owners_of(tables)
    ids = tables[-1].ids
    order = np.argsort(ids, kind="stable")
    return tuple(torch.from_numpy(order[np.searchsorted(ids, owner.ids, sorter=order)]) for owner in owners)


def all_labels(tables: Sequence[Table]) -> Tensor:
    """The labels of all rows of all owners, in the parties' order."""
    owners = owners_of(tables)
    if len(owners) == 1:
        return owners[0].labels  # type: ignore[no-any-return]
    check_alike(owners)
    kind = torch.float64 if any(owner.labels.is_floating_point() for owner in owners) else torch.int64
    labels = torch.empty(tables[-1].rows, *owners[0].labels.shape[1:], dtype=kind)
    for owner, place in zip(owners, places_of(tables), strict=True):
        labels[place] = owner.labels
    return labels


def check_alike(owners: Sequence[Table]) -> None:
    """Refuse owners if some have one label per row and others have several."""
    for owner in owners:
        if owner.labels.shape[1:] != owners[0].labels.shape[1:]:
            raise TableError(
                f"the labels of '{owner.name}' have shape {tuple(owner.labels.shape)} and those of '{owners[0].name}' "
                f"{tuple(owners[0].labels.shape)}; give as many per row at every owner."
            )


def warn_of_lonely_classes(tables: Sequence[Table]) -> None:
    """Warn about classes that only one of several owners has: the others learn them by averaging only."""
    owners = owners_of(tables)
    seen = [set(owner.labels.tolist()) for owner in owners]
    lonely = sorted(label for label in set.union(*seen) if sum(label in classes for classes in seen) == 1)
    if lonely and len(owners) > 1:
        warnings.warn(
            f"classes {', '.join(map(str, lonely))} are seen by one owner only; the others learn them from averages.",
            stacklevel=3,
        )


def schedule_for(
    tables: Sequence[Table], method: Method, batch: int, seed: int, valid: float, shuffle: str
) -> Schedule | SharedSchedule:
    """The schedule of one owner's rows, or of the rows of several owners."""
    if method.several_owners:
        return SharedSchedule(places_of(tables), batch, seed, valid, shuffle)
    return Schedule(tables[0].rows, batch, seed, valid, shuffle)
