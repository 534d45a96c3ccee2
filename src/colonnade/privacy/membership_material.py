"""What a client has that may ask a trained model: predictions for rows that were trained on, and for rows held out.

The reference is the second run of the audit, which was trained on neither: half of the training rows are its own, and
members are taken from the other half.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from colonnade.core.table import Table
from colonnade.errors import TableError
from colonnade.privacy.cases import CLIENT, MEMBERSHIP, Evidence
from colonnade.privacy.material import Array, Material, Stream
from colonnade.privacy.row_sets import row_sets
from colonnade.privacy.second_run import SecondTraining
from colonnade.run.training import Run
from colonnade.wire.ledger import OWNER

MOST = 600
"""Rows of either kind that are asked about."""


def why_no_members(evidence: Evidence) -> str:
    """Why nobody can be asked, as the end of a sentence; empty if it can."""
    if len(evidence.owners) > 1:
        return "with several owners it is not tried"
    run = evidence.run
    return "" if run is None or run.seals.noise is None else "every question would cost of the run's privacy budget"


def membership_material(evidence: Evidence, second: SecondTraining) -> Material:
    """Predictions for rows of both kinds, and what a model says of them that was trained on none of them."""
    run, held_out = evidence.run, evidence.held_out
    assert run is not None and held_out is not None
    others = second.rows if not second.why_not() else np.zeros(0, dtype=np.int64)
    members = np.setdiff1d(evidence.view.sample, others)[:MOST]
    asked = [
        [table.take(members) for table in evidence.tables],
        [table.take(np.arange(min(MOST, table.rows))) for table in held_out],
    ]
    truth = np.concatenate([np.full(len(rows[0].ids), k == 0) for k, rows in enumerate(asked)]).astype(np.int64)
    sets = row_sets(np.ones(len(truth), dtype=bool), truth, evidence.seed)
    again = second.trained().run if len(others) else None
    return Material(
        adversary=CLIENT,
        of=OWNER,
        secret=MEMBERSHIP,
        truth=truth,
        classes=2,
        streams=(Stream(OWNER, CLIENT, "predict", "o", np.zeros(1, dtype=np.int64), _said(run, asked)[None]),),
        labels=np.concatenate([np.asarray(rows[0].labels) for rows in asked]),
        reference=None if again is None else _said(again, asked),
        chosen_on=sets.chosen_on,
        known=sets.known,
        scored=sets.scored,
    )


def _said(run: Run, asked: Sequence[Sequence[Table]]) -> Array:
    return np.concatenate([np.asarray(run.outputs(tables)) for tables in asked]).astype(np.float32)


def check_held_out(train: Sequence[Table], held_out: Sequence[Table]) -> None:
    """Refuse rows that are said to be held out, and are not."""
    common = np.intersect1d(train[0].ids, held_out[0].ids)
    if len(common):
        raise TableError(
            f"{len(common)} rows of test= are among those that the run was trained on, such as '{common[0]}'; pass "
            "rows that were held out."
        )
