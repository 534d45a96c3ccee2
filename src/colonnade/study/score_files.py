"""``score``: predictions for the ids of new files, by a run that was just trained or opened from its folder."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from colonnade.core.table import Table
from colonnade.errors import ConfigError, NoCommonIdError, TableError, unknown
from colonnade.run.absence import check_policy
from colonnade.run.training import Run
from colonnade.study.scores import Scores
from colonnade.tables.align.align_sheets import align, who_learns
from colonnade.tables.align.align_terms import MODES
from colonnade.tables.prepare import Preparation
from colonnade.tables.sheets import Sheet
from colonnade.tables.sheets.sheet_list import check_sheets
from colonnade.wire.ledger import Ledger

CHUNK = 1 << 16  # rows that are prepared at once, or more if they are narrow: each time all files are read
CHUNK_BYTES = 128 << 20
Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class RowGroup:
    """Rows of the owner that the same parties know: by party the numbers of its rows, all in the same order."""

    rows: dict[str, np.ndarray]
    absent: tuple[str, ...] = ()

    def chunks(self, size: int) -> Iterator[dict[str, np.ndarray]]:
        """The row numbers in pieces of ``size`` rows."""
        for start in range(0, len(next(iter(self.rows.values()))), size):
            yield {name: rows[start : start + size] for name, rows in self.rows.items()}


def score(
    run: Run,
    sheets: Sequence[Sheet],
    *,
    mode: str = "psi",
    missing: str | None = None,
    minimum: int = 1,
    maximum: int | None = None,
    seed: int = 0,
    on_progress: Progress | None = None,
) -> Scores:
    """Align new files, ask all parties, and give the owner its ids with their predictions.

    ``sheets`` are what :func:`colonnade.read` gives, the owner's first, under the names of the training tables; no
    label is needed. With ``missing="refuse"`` (the run's policy if None) the ids that all parties know are aligned and
    scored. Any other policy aligns the owner with each party by itself, so each pair learns what ids it has in common,
    and every row of the owner that somebody knows is scored; the policy stands for those who do not know it. A method
    that predicts alone (APFed) asks nobody, and needs the owner's file only; ``laser`` also scores rows that only the
    owner knows, if it has columns. ``mode``, ``minimum``, ``maximum`` and
    ``seed`` are those of :func:`colonnade.align`; :func:`who_will_learn` says who learns what.

    ``scores.write("scores.parquet")`` writes ids and predictions; ``scores.notes`` say what was not scored, and why.
    """
    owner, preparations = _checked(run, sheets)
    policy = check_policy(run.settings.missing if missing is None else missing, run.method, run.seals)
    how = {"mode": mode, "minimum": minimum, "maximum": maximum, "seed": seed, "on_progress": on_progress}
    ledger = Ledger()
    groups = _groups(run, sheets, policy, how, ledger)
    for sheet in sheets:
        sheet.check_unchanged()
    predictions = [_predicted(run, sheets, preparations, group, policy) for group in groups]
    rows = np.concatenate([group.rows[owner.name] for group in groups])
    order = np.argsort(rows)
    return Scores.of(
        owner,
        rows[order],
        torch.cat(predictions)[torch.from_numpy(order)],
        names=run.names or tuple(map(str, range(run.task.outputs))),
        task=run.task.name,
        notes=tuple(_notes(owner, groups, policy, asks=not run.method.predicts_alone)),
        ledger=ledger,
    )


def who_will_learn(run: Run, sheets: Sequence[Sheet], mode: str, missing: str | None = None) -> tuple[str, ...]:
    """Sentences that say who learns what when new files are aligned and scored; read them before that."""
    if mode not in MODES:
        raise unknown("mode of an alignment", mode, MODES)
    names = [sheet.name for sheet in sheets]
    if run.method.predicts_alone or len(names) < 2:
        return (f"'{names[0]}' asks nobody: nobody learns anything.",)
    if (missing or run.settings.missing) == "refuse" or len(names) == 2:
        return who_learns(mode, names)
    pairs = f"'{names[0]}' is aligned with every other party by itself. Of each such pair:"
    return pairs, *who_learns(mode, names[:2])


def _checked(run: Run, sheets: Sequence[Sheet]) -> tuple[Sheet, dict[str, Preparation]]:
    """The owner's sheet, and every party's preparation from the training."""
    check_sheets(sheets, "the owner's first")
    if not run.preparations:
        raise ConfigError(
            "the run was trained on tables that colonnade.prepare did not make; prepare new ones alike and use "
            "run.predict(tables)."
        )
    names = [*run.preparations]
    for sheet in sheets:
        if sheet.name not in names:
            raise TableError(f"there is no party '{sheet.name}' in the run, which has {', '.join(names)}.")
        run.preparations[sheet.name].check(sheet)
    if sheets[0].name != names[0]:
        raise TableError(f"the first sheet is that of '{sheets[0].name}'; the owner is '{names[0]}': put it first.")
    return sheets[0], run.preparations


def _groups(run: Run, sheets: Sequence[Sheet], policy: str, how: dict[str, Any], ledger: Ledger) -> list[RowGroup]:
    """The rows that are scored, in groups that the same parties know."""
    if run.method.predicts_alone:
        owner, *others = run.preparations
        return [RowGroup({owner: np.arange(sheets[0].rows)}, tuple(others))]
    return _known_to_all(run, sheets, how, ledger) if policy == "refuse" else _by_who_knows(run, sheets, how, ledger)


def _known_to_all(run: Run, sheets: Sequence[Sheet], how: dict[str, Any], ledger: Ledger) -> list[RowGroup]:
    """The rows that all parties have."""
    here = [sheet.name for sheet in sheets]
    absent = [name for name in run.preparations if name not in here]
    if absent:
        raise TableError(
            f"no file of '{absent[0]}' came, and the run refuses to do without; give it, or missing='zero' or 'mean'."
        )
    alignment = align(sheets, **how)
    ledger.add(alignment.ledger)
    return [RowGroup(alignment.rows)]


def _by_who_knows(run: Run, sheets: Sequence[Sheet], how: dict[str, Any], ledger: Ledger) -> list[RowGroup]:
    """The owner's rows in groups by the parties that know them; each party is aligned with the owner alone."""
    owner, *others = sheets
    # By party: the number of its row for each of the owner's rows, -1 if it has none.
    places = np.full((len(others), owner.rows), -1)
    for place, sheet in zip(places, others, strict=True):
        try:
            alignment = align([owner, sheet], **how)
        except NoCommonIdError:
            continue
        ledger.add(alignment.ledger)
        place[alignment.rows[owner.name]] = alignment.rows[sheet.name]
    patterns, which, counts = np.unique(places >= 0, axis=1, return_inverse=True, return_counts=True)
    groups = []
    by_pattern = np.split(np.argsort(which.ravel(), kind="stable"), np.cumsum(counts)[:-1])
    for pattern, rows in zip(patterns.T, by_pattern, strict=True):
        known = {sheet.name: own[rows] for sheet, own, there in zip(others, places, pattern, strict=True) if there}
        if known or (run.method.any_subset and run.owner.has_columns):
            absent = [name for name in [*run.preparations][1:] if name not in known]
            groups.append(RowGroup({owner.name: rows, **known}, tuple(absent)))
    if not groups:
        raise NoCommonIdError(
            "no party knows any id of the owner's file; check the id columns and how ids are written."
        )
    return groups


def _predicted(
    run: Run, sheets: Sequence[Sheet], preparations: dict[str, Preparation], group: RowGroup, policy: str
) -> Tensor:
    """Predictions for a group of rows, in its order."""
    by_name = {sheet.name: sheet for sheet in sheets}
    width = sum(preparations[name].width for name in group.rows)
    predictions = []
    for rows in group.chunks(max(CHUNK, CHUNK_BYTES // (4 * max(width, 1)))):
        tables = [preparations[name].table(by_name[name], own) for name, own in rows.items()]
        predictions.append(run.predict(_in_order(run, tables), absent=group.absent, missing=policy))
    return torch.cat(predictions)


def _in_order(run: Run, tables: list[Table]) -> list[Table]:
    place = {name: number for number, name in enumerate(run.preparations)}
    return sorted(tables, key=lambda table: place[table.name])


def _notes(owner: Sheet, groups: Sequence[RowGroup], policy: str, *, asks: bool) -> Iterator[str]:
    scored = sum(len(group.rows[owner.name]) for group in groups)
    if scored < owner.rows:
        why = "not all parties know them" if policy == "refuse" else "nobody else knows them"
        yield f"{owner.rows - scored} of {owner.rows} rows of '{owner.name}' are not scored: {why}"
    for group in groups:
        if group.absent and asks:
            count = len(group.rows[owner.name])
            yield f"{count} rows are scored without {', '.join(group.absent)} ({policy}), which does not know them"
