"""Labels that were sent in few bits each (``methods/label_codes.py``), read as their receiver reads them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch

from colonnade.core.schedule import Schedule
from colonnade.core.task import Task
from colonnade.errors import MessageError
from colonnade.methods.label_codes import Labels, labels_received
from colonnade.privacy.agreement import Agreement
from colonnade.privacy.material import Array
from colonnade.wire.view import Seen, View

FIELD = "y"


def with_labels_unpacked(view: View, agreed: Agreement) -> View:
    """The view with a value for each output of the sampled rows, where packed labels of a round's rows were sent."""
    schedule = agreed.schedule
    if not isinstance(schedule, Schedule):
        return view
    return replace(view, seen=[_unpacked(one, agreed.task.public, schedule, view.sample) for one in view.seen])


def _unpacked(one: Seen, task: Task, schedule: Schedule, sample: Array) -> Seen:
    raw = one.others.get(FIELD)
    if raw is None or raw.dtype != np.uint8 or one.table != "train" or one.purpose != "train":
        return one
    rows = schedule.batch_of(one.round).numpy()
    try:
        codes = labels_received(Labels(torch.from_numpy(raw.copy())), len(rows), task)
    except MessageError:  # bytes that are no labels of these rows stay as they are
        return one
    targets = task.targets(codes).numpy()
    inside = np.isin(rows, sample)
    others = {name: value for name, value in one.others.items() if name != FIELD}
    return one._replace(rows=rows[inside], fields={**one.fields, FIELD: targets[inside]}, others=others)
