"""Named data sets, loaded and cut into two federations: one to train on, one to test on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from colonnade.core.options import seed_of, whole
from colonnade.core.table import Table, kept
from colonnade.data.catalog import CATALOG, Dataset, datasets
from colonnade.data.features import read_breast_cancer, read_nuswide, read_wikipedia
from colonnade.data.images import read_digits, read_pixels, read_sprites, read_views
from colonnade.data.raw import Raw, RawPart
from colonnade.data.sharing import share
from colonnade.data.split import Parties, split
from colonnade.data.table_sets import read_table
from colonnade.errors import ConfigError, unknown

__all__ = ["Dataset", "datasets", "load", "reload"]

_READERS: dict[str, Callable[[Dataset], Raw]] = {
    "digits": read_digits,
    "breast_cancer": read_breast_cancer,
    "mnist": read_pixels,
    "fashion_mnist": read_pixels,
    "cifar10": read_sprites,
    "tiny_imagenet100": read_sprites,
    "modelnet40_views": read_views,
    "nuswide_mini": read_nuswide,
    "wikipedia": read_wikipedia,
    "adult": read_table,
    "bank_marketing": read_table,
    "bank_marketing_additional": read_table,
    "credit_default": read_table,
    "criteo8k": read_table,
}


def load(
    name: str,
    parties: Parties | None = None,
    *,
    by: str | None = None,
    owner: str = "labels",
    rows: int | None = None,
    seed: int = 0,
    width: int | None = None,
    owners: int | None = None,
    alpha: float | None = None,
) -> tuple[list[Table], list[Table]]:
    """Two federations of a named data set: to train on and to test on. ``datasets()`` lists the names.

    Without ``parties`` the data set is cut as its description says: images in rows, patches or views, tables in the
    parties that its meaning suggests, such as "demography" and "work". Otherwise ``parties``, ``by``, ``owner`` and
    ``width`` are those of ``split``; a table is cut along its source columns, by number or name, before categories
    become several columns, so that no category is spread over two parties.

    ``rows`` keeps a random subset of the training rows, drawn with ``seed``. The test rows are always the same and
    always complete: the data set's own test part if it has one, else a fixed stratified fifth of all rows.

    ``owners`` shares the training labels among several owners, evenly or with ``alpha`` class by class, as
    :func:`colonnade.share` does with the same ``seed``; the test labels stay with one owner.

    >>> train, test = load("digits", parties=4)
    >>> [(table.name, table.rows, table.shape) for table in train[:2]], test[0].rows
    ([('owner', 1437, ()), ('party 1', 1437, (2, 8))], 360)
    >>> [table.name for table in load("breast_cancer")[0]]
    ['owner', 'mean', 'error', 'worst']
    """
    if name not in CATALOG:
        raise unknown("data set", name, CATALOG)
    seed = seed_of(seed)
    raw = _READERS[name](CATALOG[name])
    asked: dict[str, Any] = {"load": name, "parties": parties, "by": by, "owner": owner, "rows": rows, "seed": seed}
    asked |= {"width": width, "owners": owners, "alpha": alpha}
    cut = _table_cut if raw.sources else _image_cut
    how = cut(CATALOG[name], raw, parties, by, width)
    train = raw.train if rows is None else _some(raw.train, rows, seed)

    def federation(part: RawPart, called: str) -> list[Table]:
        origin = {**_plain(asked), "part": called}
        return split(part.X, part.y, ids=part.ids, owner=owner, classes=raw.classes, origin=origin, **how)

    tables = federation(train, "train")
    if owners is None and alpha is not None:
        raise ConfigError(f"alpha={alpha} shares labels among several owners; give owners=5, for instance.")
    if owners is not None:
        origin = tables[0].origin
        tables = [replace(table, origin=origin) for table in share(tables, owners, alpha=alpha, seed=seed)]
    return tables, federation(raw.test, "test")


def reload(origin: Mapping[str, Any]) -> list[Table]:
    """The federation that a table's ``origin`` describes.

    >>> train, _ = load("digits", parties=2, rows=100, seed=7)
    >>> np.array_equal(reload(train[0].origin)[0].ids, train[0].ids)
    True
    """
    options = dict(origin)
    name, part, names = options.pop("load"), options.pop("part"), options.pop("keep", None)
    train, test = load(name, **options)
    whole = train if part == "train" else test
    return whole if names is None else kept(whole, names)


def _some(part: RawPart, rows: int, seed: int) -> RawPart:
    if not 1 <= whole(rows, "rows") <= len(part.y):
        raise ConfigError(
            f"rows is {rows}, but there are {len(part.y)} training rows; give 1 to {len(part.y)}, or None."
        )
    return part.take(np.random.default_rng(seed).permutation(len(part.y))[:rows])


def _image_cut(
    dataset: Dataset, raw: Raw, parties: Parties | None, by: str | None, width: int | None
) -> dict[str, Any]:
    by = by or dataset.by
    scale = raw.scale
    if scale and by in ("overlap", "views"):  # these separate the channels, so one mean and deviation serves all
        scale = replace(scale, mean=float(np.mean(scale.mean)), std=float(np.mean(scale.std)))
    return {"parties": dataset.parties if parties is None else parties, "by": by, "width": width, "scale": scale}


def _table_cut(
    dataset: Dataset, raw: Raw, parties: Parties | None, by: str | None, width: int | None
) -> dict[str, Any]:
    if by not in (None, "columns", "overlap"):
        raise ConfigError(f"{dataset.name} is a table, which can be cut by 'columns' or 'overlap', but by is '{by}'.")
    if parties is None and by != "overlap":
        parties = raw.groups
    if isinstance(parties, int | np.integer) and raw.kinds_apart and by != "overlap":
        parties = _kinds_apart(dataset.name, raw.groups, int(parties))
    numbers = np.arange(len(raw.sources))[
        None
    ]  # split the column numbers to learn which party gets which source column
    shares = split(numbers, [0], parties or 0, by=by, width=width, owner="first", column_names=tuple(raw.sources))
    columns = {t.name: [c for source in t.column_names for c in raw.sources[source]] for t in shares}
    return {"parties": columns if isinstance(parties, Mapping) else list(columns.values()), "column_names": raw.names}


def _kinds_apart(name: str, groups: dict[str, tuple[str, ...]], parties: int) -> list[list[str]]:
    each, rest = divmod(parties, len(groups))
    fewest = min(map(len, groups.values()))
    if rest or not 1 <= each <= fewest:
        raise ConfigError(
            f"{name} has {len(groups)} kinds of columns ({', '.join(groups)}), which {parties} parties cannot share; "
            f"give a multiple of {len(groups)} up to {len(groups) * fewest}, or lists of columns."
        )
    return [list(part) for group in groups.values() for part in np.array_split(np.array(group, dtype=object), each)]


def _plain(value: Any) -> Any:
    """A value in JSON's types."""
    if isinstance(value, Mapping):
        return {str(key): _plain(entry) for key, entry in value.items()}
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, int | np.integer):
        return int(value)
    if isinstance(value, float):
        return value
    if not isinstance(value, Iterable):
        raise ConfigError(f"{value!r} came where a whole number, a name or a list of those was expected.")
    return [_plain(entry) for entry in value]
