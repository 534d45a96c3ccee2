"""How good the scores of new files were, period by period, once their labels are known: by the owner, for itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from colonnade.core.task import TASKS
from colonnade.disk.csv_text import csv_text
from colonnade.disk.whole_files import write_text
from colonnade.errors import ConfigError, TableError
from colonnade.run.period_findings import Judged, by_period
from colonnade.run.training import Run
from colonnade.study.scores import Scores
from colonnade.tables.prepare.dates import dates_of
from colonnade.tables.prepare.label_column import labels_of
from colonnade.tables.prepare.time_split import TimeSplit
from colonnade.tables.sheets import Sheet

HEAD = ("period", "rows", "observed", "predicted", "score", "psi", "chance")
_OUTPUTS: dict[str, Callable[[Tensor], Tensor]] = {  # of which a task makes these predictions
    "classes": lambda values: values.clamp(min=1e-30).log(),
    "values": lambda values: values.reshape(len(values), -1),
    "several": lambda values: values.logit(eps=1e-12),
}


def dated_owner(run: Run, sheet: Sheet, label: str | list[str] | None, split: TimeSplit | None) -> Sheet:
    """The owner's new sheet with its label, if all its dates and labels can be read: before anybody is asked."""
    if split is None or label is None:
        raise ConfigError("the run was not trained with a split by date, so no column of dates is known; train so.")
    labels = [label] if isinstance(label, str) else label
    for column, what in ((split.column, "dates"), *((name, "labels") for name in labels)):
        if column not in sheet.sources[0].names:
            raise TableError(
                f"'{sheet.name}' has no column '{column}' in its new files, so scores cannot be judged over time; add "
                f"the {what}, or leave --over-time out."
            )
    kinds = {name: kind for name, kind in sheet.kinds.items() if name not in labels}
    owner = replace(sheet, label=label if isinstance(label, str) else tuple(label), kinds=kinds)
    dates_of(owner, split.column, leave_out=split.missing == "leave out")
    labels_of(owner, run.task.name, classes=run.names if run.task.name == "classes" else ())
    return owner


def scores_over_time(scores: Scores, owner: Sheet, split: TimeSplit) -> list[dict[str, Any]]:
    """Rows, observed and predicted mean, score and stability of each period; ``owner`` is of :func:`dated_owner`."""
    rows = scores.rows
    dates = dates_of(owner, split.column, rows, leave_out=split.missing == "leave out")
    known = ~np.isnat(dates)
    labels = labels_of(owner, scores.task, rows[known], scores.names if scores.task == "classes" else ())
    outputs = _OUTPUTS[scores.task](scores.values[torch.from_numpy(known)].double())
    task = TASKS[scores.task](outputs.shape[1])
    judged = Judged("test", outputs, torch.from_numpy(labels.values), dates[known])
    found: list[dict[str, Any]] = by_period(task, [judged])["periods"]["lines"]
    return found


def write_over_time(lines: list[dict[str, Any]], path: Path) -> Path:
    """Write the periods as CSV."""
    write_text(path, csv_text(HEAD, ([line[name] for name in HEAD] for line in lines)))
    return path
