"""``cn.prepare``: from sheets and an alignment to two federations, one to train on and one to test on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from colonnade.core.table import Table, check_federation
from colonnade.errors import ConfigError, TableError
from colonnade.tables.prepare.label_column import labels_of
from colonnade.tables.prepare.preparation import Preparation, fit
from colonnade.tables.prepare.row_parts import SHARE, RowParts, random_parts
from colonnade.tables.prepare.time_split import TimeSplit
from colonnade.tables.sheets import Sheet
from colonnade.tables.sheets.sheet_list import check_sheets


def prepare(
    sheets: Sequence[Sheet],
    alignment: Any = None,
    *,
    test: float | None = None,
    split: TimeSplit | Mapping[str, Any] | None = None,
    seed: int = 0,
    numbers: str = "standard",
    categories: str = "one-hot",
    labels: str = "classes",
    most: int | None = None,
    rarest: int = 1,
    unaligned: bool = False,
) -> tuple[list[Table], list[Table]]:
    """Two federations of aligned sheets, to train on and to test on; the owner's table comes first.

    ``alignment`` has ``rows``, from each sheet's name to the row numbers that all have in common, in one order; or it
    is such a mapping itself; a row that a party does not have (``join="left"``) is -1. Without one, the sheets must
    have the same ids in the same order. A share ``test`` of the rows is held out, a fifth by default; the choice
    depends only on ``seed`` and their number. With ``test=0`` the second list is empty. Or the owner's dates decide, by
    ``split``: a :class:`TimeSplit`, or its fields by name.

    ``unaligned`` keeps each party's rows that are not in the federation as ``table.unaligned`` of its training table.

    Each party's preparation is learnt from its own training rows and goes with its table as ``table.preparation``:
    ``numbers`` are scaled ("standard" or "quantile"), ``categories`` become "one-hot" or codes to "embed". A column of
    more than ``most`` different texts is refused; texts of fewer than ``rarest`` rows share one category.
    ``labels`` are "classes", "values" to predict, or "several" yes-or-no labels.
    """
    ordered = _owner_first(sheets)
    rows = _aligned(ordered, alignment)
    for sheet in ordered:
        sheet.check_unchanged()
    by_date = _split_of(split, test, ordered)
    if by_date is None:
        parts = random_parts(len(rows[0]), SHARE if test is None else test, seed)
    else:
        parts = by_date.parts(ordered[0], rows[0])
        ordered[0] = by_date.inputs_of(ordered[0])
    ids = _same_ids(ordered, [chosen[parts.both] for chosen in rows])
    how: dict[str, Any] = {"numbers": numbers, "categories": categories, "most": most, "rarest": rarest}
    each = [
        prepare_alone(sheet, chosen, parts, ids, labels if sheet is ordered[0] else None, unaligned=unaligned, **how)
        for sheet, chosen in zip(ordered, rows, strict=True)
    ]
    both = [first for first, _ in each], [second for _, second in each]
    for tables in both[: 1 + bool(len(parts.test))]:
        check_federation(tables)
    return both[0], both[1] if len(parts.test) else []


def prepare_alone(
    sheet: Sheet,
    rows: np.ndarray,
    parts: RowParts,
    ids: np.ndarray | None = None,
    labels: str | None = None,
    *,
    unaligned: bool = False,
    **how: Any,
) -> tuple[Table, Table]:
    """One party's tables of its aligned ``rows``, to train on and to test on; the second has at least one row.

    ``labels`` is the kind of labels, at the owner, whose tables have the dates of a split by date too. Rows of -1 are
    those that the party does not have.
    """
    chosen = rows[parts.both]
    names = _ids_at(sheet, chosen) if ids is None else ids
    others = np.setdiff1d(np.arange(sheet.rows), rows) if unaligned else np.arange(0)
    preparation = fit(sheet, np.concatenate([_had(rows[parts.train], sheet), others]), **how)
    columns = _columns(preparation, sheet, chosen) if preparation.width else None
    own = preparation.apply(sheet, others) if len(others) and preparation.width else None
    answers = None if labels is None else labels_of(sheet, labels, chosen)
    dates = None if answers is None or parts.dates is None else parts.dates[parts.both]

    def table(part: slice) -> Table:
        return Table(
            names[part],
            None if columns is None else columns[part],
            None if answers is None else answers.values[part],
            name=sheet.name,
            column_names=preparation.column_names,
            classes=() if answers is None else answers.classes,
            preparation=preparation,
            known=None if columns is None else chosen[part] >= 0,
            dates=None if dates is None else dates[part],
        )

    cut = len(parts.train)
    first = table(slice(0, cut))
    second = table(slice(cut, None) if len(parts.test) else slice(0, 1))
    return first if own is None else replace(first, unaligned=own), second


def prepared_rows(preparation: Preparation, sheet: Sheet, rows: np.ndarray) -> Table:
    """A party's table of new rows by a preparation that it has learnt; rows of -1 are those that it does not have."""
    return Table(
        _ids_at(sheet, rows),
        _columns(preparation, sheet, rows) if preparation.width else None,
        name=sheet.name,
        column_names=preparation.column_names,
        preparation=preparation,
        known=rows >= 0 if preparation.width else None,
    )


def _ids_at(sheet: Sheet, rows: np.ndarray) -> np.ndarray:
    """The ids of the rows; of those that the party does not have, names that say so, because it knows no id."""
    known = rows >= 0
    if known.all():
        return sheet.ids_at(rows)
    ids = np.array([f"(row {place} of the owner)" for place in range(len(rows))], dtype=object)
    ids[known] = sheet.ids_at(rows[known])
    return ids.astype(str)


def _had(rows: np.ndarray, sheet: Sheet) -> np.ndarray:
    """Those of the rows that a party has."""
    had = rows[rows >= 0]
    if not len(had):
        raise TableError(f"'{sheet.name}' has none of the {len(rows)} training rows; hold out fewer, or leave it out.")
    return had


def _columns(preparation: Preparation, sheet: Sheet, rows: np.ndarray) -> np.ndarray:
    """The prepared columns of the rows, with zeros for those that the party does not have."""
    known = rows >= 0
    if known.all():
        return preparation.apply(sheet, rows)
    columns = np.zeros((len(rows), preparation.width), np.float32)
    if known.any():
        columns[known] = preparation.apply(sheet, rows[known])
    return columns


def _split_of(
    given: TimeSplit | Mapping[str, Any] | None, test: float | None, sheets: Sequence[Sheet]
) -> TimeSplit | None:
    """The split by date, if one was given instead of a share."""
    if given is None:
        return None
    refuse_both(test)
    chosen = TimeSplit.of(given)
    chosen.check_column(sheets[0], sheets[1:])
    return chosen


def refuse_both(test: float | None) -> None:
    """Refuse a share of rows beside a split by date."""
    if test is not None:
        raise ConfigError(f"test = {test} and split came, and either says which rows are held out; give one of them.")


def _owner_first(sheets: Sequence[Sheet]) -> list[Sheet]:
    check_sheets(sheets, "one per organisation")
    owners = [sheet for sheet in sheets if sheet.labels]
    if len(owners) != 1:
        named = ", ".join(f"'{sheet.name}'" for sheet in owners) or "none"
        raise TableError(f"one sheet must have the label, but {named} of {len(sheets)} have; read it with label=.")
    names = [sheet.name for sheet in sheets]
    if len(set(names)) != len(names):
        raise TableError(f"two sheets have the same name among {', '.join(names)}; give read(..., name=).")
    return [owners[0], *(sheet for sheet in sheets if sheet is not owners[0])]


def _aligned(sheets: Sequence[Sheet], alignment: Any) -> list[np.ndarray]:
    """Each sheet's rows of the common ids, in the common order."""
    if alignment is None:
        aligned = [np.arange(sheet.rows) for sheet in sheets]
    else:
        rows = alignment if isinstance(alignment, Mapping) else alignment.rows
        absent = [sheet.name for sheet in sheets if sheet.name not in rows]
        if absent:
            raise TableError(f"the alignment has no rows of '{absent[0]}'; align all sheets together.")
        aligned = [np.asarray(rows[sheet.name], np.int64) for sheet in sheets]
    counts = {len(chosen) for chosen in aligned}
    if len(counts) > 1:
        each = ", ".join(f"'{sheet.name}' {len(chosen)}" for sheet, chosen in zip(sheets, aligned, strict=True))
        raise TableError(f"the sheets have different numbers of rows ({each}); align them first.")
    if (aligned[0] < 0).any():
        raise TableError(f"'{sheets[0].name}' lacks rows of its own alignment; a federation's rows are the owner's.")
    if counts == {0}:
        raise TableError("the sheets have no row in common; check the id columns and the rule of normalisation.")
    return aligned


def _same_ids(sheets: Sequence[Sheet], rows: Sequence[np.ndarray]) -> np.ndarray:
    """The ids of the aligned rows, one array for all tables."""
    ids = sheets[0].ids_at(rows[0])
    for sheet, chosen in zip(sheets[1:], rows[1:], strict=True):
        known = chosen >= 0
        if known.any() and not np.array_equal(sheet.ids_at(chosen[known]), ids[known]):
            raise TableError(f"the aligned rows of '{sheet.name}' and '{sheets[0].name}' have other ids; align again.")
    return ids
