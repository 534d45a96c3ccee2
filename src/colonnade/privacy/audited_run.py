"""What an audit of a run begins with: its view, its tables, and what its method declares."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from colonnade.core.disclosure import UNDECLARED
from colonnade.core.schedule import OWNER
from colonnade.core.table import Table, check_federation
from colonnade.data import reload
from colonnade.errors import CheckpointError, ConfigError, TableError
from colonnade.privacy.agreement import agreement_of
from colonnade.privacy.cases import MEMBERSHIP, Case, Evidence
from colonnade.privacy.packed_labels import with_labels_unpacked
from colonnade.privacy.replay import replayed
from colonnade.run.make_plan import outline_of
from colonnade.run.training import Run
from colonnade.wire.ledger import Ledger
from colonnade.wire.view import EVERYBODY, View

GUESSES_AT_IDS = "guesses at ids"


def evidence_of(run: Run | None, tables: Sequence[Table] | None, seed: int, view: View | None = None) -> Evidence:
    """The given view, or that which a run recorded or its replay gives, with the tables that it is about."""
    if run is None or (run.is_recorded and (view or run.view).side != EVERYBODY):
        return evidence_of_side(run, tables, seed, view)
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
    return Evidence(with_labels_unpacked(view, agreement_of(run)), tables, run, seed, tuple(run.ledger.owners))


def evidence_of_side(run: Run | None, tables: Sequence[Table] | None, seed: int, view: View | None) -> Evidence:
    """What one side of a federation has: its view and its own table, of the rows and in the order of training."""
    if view is None:
        view = None if run is None else run.view
    if view is None or tables is None or len(tables) != 1:
        raise ConfigError(
            "one side of a federation is audited with its own view and its own table, in a list of one, of the rows "
            "that were trained on and in their order; pass both."
        )
    (own,) = tables
    if not len(view.sample) or view.sample[-1] >= own.rows:
        raise TableError(
            f"table '{own.name}' has {own.rows} rows, and the view is about row {max([*view.sample, -1])} of those "
            "that were trained on; pass the table of that run."
        )
    return Evidence(view, tables, None, seed)


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
    if evidence.agreed is None or case.secret == MEMBERSHIP:
        return UNDECLARED
    return evidence.agreed.declared(case.secret, "up" if evidence.is_owner(case.adversary) else "down")


def facts_of_audit(evidence: Evidence, budget: float, seconds: float) -> dict[str, Any]:
    """What was audited, and how."""
    agreed, view = evidence.agreed, evidence.view
    seals = [] if agreed is None else [{"kind": seal.kind, **asdict(seal)} for seal in agreed.seals]
    return {
        "method": None if agreed is None else agreed.method.name,
        "data": None if agreed is None else agreed.data,
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
        "untried": _untried(evidence),
    }


def _untried(evidence: Evidence) -> list[str]:
    """What no attack was about, because something for it is not here."""
    untried = []
    if evidence.held_out is None:
        untried.append("membership among predictions (no rows that were held out came)")
    if evidence.view.side != EVERYBODY:
        untried.append("what parties can tell of each other's columns (no side has both)")
    untried.append(GUESSES_AT_IDS)
    return untried
