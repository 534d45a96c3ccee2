"""What an audit of a run begins with: its view, its tables, and what its method declares."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from colonnade.core.disclosure import UNDECLARED, declared
from colonnade.core.schedule import OWNER
from colonnade.core.table import Table, check_federation
from colonnade.data import reload
from colonnade.errors import CheckpointError, ConfigError
from colonnade.privacy.cases import Case, Evidence
from colonnade.privacy.replay import replayed
from colonnade.run.make_plan import outline_of
from colonnade.run.training import Run
from colonnade.wire.ledger import Ledger
from colonnade.wire.view import View


def evidence_of(run: Run, tables: Sequence[Table] | None, seed: int, view: View | None = None) -> Evidence:
    """The given view, or that which a run recorded or its replay gives, with the tables that it is about."""
    origin = run.description.get("data") or {}
    if tables is None and "load" in origin:
        tables = reload(origin)
    if tables is None:
        raise ConfigError(
            "the run's tables did not come, and its data are no named data set; pass the tables that it was trained "
            "on, because guesses are judged by them."
        )
    check_federation(tables, several=True)
    check_same_tables(run, tables)
    if view is None:
        view = run.view if run.is_recorded else replayed(run, tables)
    check_against_ledger(view, run.ledger)
    return Evidence(view, tables, run, seed, tuple(run.ledger.owners))


def check_same_tables(run: Run, tables: Sequence[Table]) -> None:
    """Refuse other tables than those that the run was trained on."""
    outline = outline_of(tables)
    if any(outline[part] != run.description.get(part) for part in outline):
        raise CheckpointError("the run was trained on other tables than those given; give those, in their order.")


def check_against_ledger(view: View, ledger: Ledger) -> None:
    """Refuse a view that has messages which the run's ledger does not have."""
    counted = {(line.purpose, line.step, line.sender, line.receiver): line.messages for line in ledger.rows}
    for line, (messages, _) in view.counts.items():
        if messages > counted.get(line, 0):
            purpose, step, sender, receiver = line
            raise CheckpointError(
                f"the view has {messages} messages of step '{step}' from {sender} to {receiver} for {purpose}, and the "
                f"run's ledger {counted.get(line, 0)}: it is of another run, or was changed; record the run again."
            )


def declared_level(evidence: Evidence, case: Case) -> str:
    """What the run's method declares of this secret with its options and seals, or "not declared"."""
    run = evidence.run
    if run is None:
        return UNDECLARED
    kinds = [seal.kind for seal in run.model.plan.seal]
    way = "up" if case.adversary == OWNER else "down"
    return declared(run.method, case.secret, classes=_classes(run), seals=kinds, way=way)


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
