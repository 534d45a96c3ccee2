"""What an audit of a run begins with: its view, its tables, what its method declares, and a second run to learn from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from colonnade.core.disclosure import declared
from colonnade.core.schedule import OWNER
from colonnade.core.table import Table, check_federation
from colonnade.data import reload
from colonnade.errors import ConfigError
from colonnade.privacy.cases import Case, Evidence
from colonnade.privacy.replay import replayed
from colonnade.run.training import Run
from colonnade.wire.view import View

NOT_DECLARED = "not declared"


def evidence_of(run: Run, tables: Sequence[Table] | None, seed: int) -> Evidence:
    """The view that a run recorded, or that its replay gives, with the tables that it is about."""
    origin = run.description.get("data") or {}
    if tables is None and "load" in origin:
        tables = reload(origin)
    if tables is None:
        raise ConfigError(
            "the run's tables did not come, and its data are no named data set; pass the tables that it was trained "
            "on, because guesses are judged by them."
        )
    check_federation(tables, several=True)
    view = run.view if run.view is not None else replayed(run, tables)
    check_view(view)
    return Evidence(view, tables, run, seed, tuple(run.ledger.owners))


def check_view(view: View) -> None:
    """Refuse a view in which no message has values."""
    if not view.seen or not len(view.sample):
        raise ConfigError(
            "the view has no values of any message: nothing was recorded, or nothing travels; train with record=True, "
            "or pass the tables so that the run can be replayed."
        )


def declared_level(evidence: Evidence, case: Case) -> str:
    """What the run's method declares of this secret with its options and seals, or "not declared"."""
    run = evidence.run
    if run is None:
        return NOT_DECLARED
    level = declared(run.method, case.secret, classes=_classes(run), seals=run.model.plan.seal)
    return level or NOT_DECLARED


def _classes(run: Run) -> int:
    return run.task.outputs if run.task.name == "classes" else 0


def facts_of_audit(evidence: Evidence, budget: float, seconds: float) -> dict[str, Any]:
    """What was audited, and how."""
    run, view = evidence.run, evidence.view
    seals = [] if run is None else [{"kind": seal.kind, **asdict(seal)} for seal in run.model.plan.seal]
    return {
        "method": None if run is None else run.method.name,
        "data": None if run is None else str((run.description.get("data") or {}).get("load", "tables of one's own")),
        "seals": seals,
        "side": view.side,
        "rows": len(view.sample),
        "rounds": len({seen.round for seen in view.seen}),
        "parties": evidence.parties,
        "owner": OWNER,
        "seed": evidence.seed,
        "budget": budget,
        "seconds": round(seconds, 2),
        "left_out": list(view.left_out),
    }
