"""What takes sheets says what to write to whoever gives something else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from colonnade.errors import TableError
from colonnade.tables.sheets.frames import is_frame
from colonnade.tables.sheets.sheet import Sheet


def check_sheets(sheets: Any, which: str) -> None:
    """Refuse what is no list of sheets; ``which`` says of which organisations they are to be."""
    refuse_frames(sheets)
    if not isinstance(sheets, Sequence) or not sheets or not all(isinstance(sheet, Sheet) for sheet in sheets):
        raise TableError(f"no sheets came; give a list of what colonnade.read gives, {which}.")


def refuse_frames(sheets: Any) -> None:
    """Refuse frames, of which nobody said which column has the ids."""
    for one in sheets if isinstance(sheets, Sequence) else [sheets]:
        if is_frame(one):
            raise TableError(
                f"a {type(one).__name__} came where sheets are expected; give a list of "
                "colonnade.read(frame, id='...', name='...'), one for each organisation, which say where the ids are."
            )
