"""The result of a prediction on files: ids and scores, and how they are written to a file."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from colonnade.errors import ConfigError, FolderError
from colonnade.tables.sheets import Sheet
from colonnade.tables.sheets.arrow import arrow
from colonnade.wire.ledger import Ledger

SUFFIXES = (".csv", ".parquet")


@dataclass(frozen=True)
class Scores:
    """The ids of the owner's rows, as its file has them and in its order, and the model's prediction for each."""

    ids: np.ndarray = field(repr=False)
    values: Tensor = field(repr=False)
    """Class probabilities [rows, classes], values [rows], or the probabilities of several labels [rows, labels]."""
    names: tuple[str, ...]
    """The classes' or labels' names."""
    task: str
    notes: tuple[str, ...] = ()
    """Which rows were not scored, or without whom."""
    ledger: Ledger = field(default_factory=Ledger, repr=False)
    """What the alignment sent; what the predictions sent is in the run's."""
    id: str = "id"
    """The name of the column of ids, in the owner's file and in the one that is written."""
    rows: np.ndarray = field(default_factory=lambda: np.arange(0), repr=False)
    """The numbers of the rows in the owner's file."""

    @classmethod
    def of(cls, owner: Sheet, rows: np.ndarray, values: Tensor, **more: Any) -> Scores:
        """The scores of these rows of the owner's file."""
        return cls(owner.own_ids_at(rows), values, id=owner.id, rows=rows, **more)

    @property
    def columns(self) -> dict[str, np.ndarray]:
        """The columns of the file: the id, the likeliest class if there is one, and one per class, label or value."""
        predicted = self._predicted()
        return {"id" if self.id in predicted else self.id: self.ids, **predicted}

    def _predicted(self) -> dict[str, np.ndarray]:
        values = self.values.numpy()
        if self.task == "values":
            return {"value": values}
        likeliest = {"class": np.array(self.names)[values.argmax(1)]} if self.task == "classes" else {}
        return likeliest | {f"p({name})": values[:, k] for k, name in enumerate(self.names)}

    def write(self, path: str | Path) -> Path:
        """Write a CSV or Parquet file, whole or not at all."""
        place = check_place(path)
        draft = place.with_name(f".{place.name}.draft")
        try:
            _write(self.columns, draft, place.suffix.lower())
            os.replace(draft, place)
        except OSError as error:
            raise FolderError(f"the scores {place} cannot be written: {error.strerror or error}.") from error
        finally:
            draft.unlink(missing_ok=True)
        return place

    def __str__(self) -> str:
        return "\n".join([f"{len(self.ids):,} rows scored", *self.notes])


def check_place(path: str | Path) -> Path:
    """The path, if scores can be written there: the suffix is known, and the folder exists and is writable."""
    place = Path(path)
    if place.suffix.lower() not in SUFFIXES:
        raise ConfigError(
            f"scores are written as CSV or Parquet, but {place} is neither; end it with .csv or .parquet."
        )
    if not place.parent.is_dir():
        raise FolderError(f"the folder of {place} does not exist; make it first.")
    if place.is_dir() or not os.access(place.parent, os.W_OK):
        why = "it is a folder" if place.is_dir() else "its folder is read-only"
        raise FolderError(f"the scores {place} cannot be written: {why}; choose another place.")
    return place


def _write(columns: dict[str, np.ndarray], path: Path, suffix: str) -> None:
    table = arrow().table({name: _plain(column) for name, column in columns.items()})
    if suffix == ".parquet":
        arrow("pyarrow.parquet").write_table(table, path)
    else:
        arrow("pyarrow.csv").write_csv(table, path)


def _plain(column: np.ndarray) -> Sequence[object] | np.ndarray:
    return column.tolist() if column.dtype.kind in "UO" else column
