"""What each party holds, as far as the owner knows: the names of its columns, or its part of the picture."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from rich.cells import cell_len

from colonnade.data.catalog import CATALOG
from colonnade.data.split import split
from colonnade.errors import ColonnadeError
from colonnade.report.shapes import HeldCells
from colonnade.report.summary import RunView, printable
from colonnade.report.words import cut

LINE = 48  # characters of column names that fit below a bar


@dataclass(frozen=True)
class Columns:
    """A party's columns; ``names`` may be only the first of ``count``."""

    names: list[str]
    count: int

    def first(self, room: int = LINE) -> str:
        """As many names as fit below a bar, and the number of the others.

        >>> Columns(["age", "job", "income"], 40).first(room=9)
        'age, job and 38 more'
        """
        shown = 1
        while shown < len(self.names) and cell_len(", ".join(self.names[: shown + 1])) <= room:
            shown += 1
        return self._listed([cut(name, room) for name in self.names[:shown]])

    @property
    def whole(self) -> str:
        """All names that are known."""
        return self._listed(self.names)

    def _listed(self, names: list[str]) -> str:
        more = self.count - len(names)
        return ", ".join(names) + (f" and {more:,} more" if more > 0 else "")


def columns_of(run: RunView) -> dict[str, Columns]:
    """Each party's columns, where the run knows their names."""
    return {
        name: Columns([*map(printable, columns["names"])], columns["count"])
        for name, columns in run.columns.items()
        if columns["names"]
    }


def parts_of(run: RunView) -> dict[str, HeldCells]:
    """Each party's part of the picture, if the run's data are a known set of images and say how they were cut."""
    origin = run.origin
    known = CATALOG.get(str(origin.get("load")))
    if known is None or len(known.shape) < 2:
        return {}
    by, parties = origin.get("by") or known.by, origin.get("parties") or known.parties or 0
    how: dict[str, Any] = {"by": by, "width": origin.get("width"), "owner": origin.get("owner") or "labels"}
    places = np.arange(prod(known.shape), dtype=np.float32).reshape(1, *known.shape)
    try:  # split numbers instead of pixels, to see which party gets which
        tables = split(places, [0], parties, **how)
    except (ColonnadeError, TypeError, ValueError):
        return {}
    held = {table.name: table.columns.numpy().astype(int) for table in tables if table.columns is not None}
    return {name: HeldCells(_cells(known.shape, by, numbers)) for name, numbers in held.items()}


def _cells(shape: tuple[int, ...], by: str, numbers: np.ndarray) -> np.ndarray:
    """Which views, or which pixels, a party holds; a pixel counts if any of its channels is held."""
    whole: np.ndarray = np.isin(np.arange(prod(shape)), numbers).reshape(-1, *shape[-2:])
    cells: np.ndarray = np.any(whole, axis=(1, 2))[None] if by == "views" else np.any(whole, axis=0)
    return cells
