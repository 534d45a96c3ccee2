"""The adversaries and secrets of a run, and for each of them what the adversary has.

===================  ==============  ===========================================  ================================
adversary            secret          messages                                     what it has anyway
===================  ==============  ===========================================  ================================
a party              the labels      what it received                             its columns, its own network
the owner            columns         what it received from that party, or sums    the labels, its own columns
a party              the owner's     what it received, where the owner sends      its columns, its own network
                     columns         embeddings (``apfed``)
a party              another         what it received of the owner                its columns, what it sent, the
                     side's                                                       labels
                     columns
===================  ==============  ===========================================  ================================

Of each party's columns the party before it is the adversary, of the owner's the first party: what the owner answers is
much the same to all of them, and with every pair an audit would take too long. Of several owners each has labels of
rows of its own, and reads the embeddings of those rows only: each is audited by itself.

A side audits what it sent itself: the owner its labels and columns, a party its columns. In one process all is there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import permutations
from typing import NamedTuple

import numpy as np
import torch

from colonnade.core.schedule import OWNER
from colonnade.core.table import Table, parties_of
from colonnade.data.sharing import all_labels, places_of
from colonnade.errors import ConfigError
from colonnade.privacy.agreement import Agreement, agreement_of
from colonnade.privacy.material import Array, Material
from colonnade.privacy.own_network import own_network
from colonnade.privacy.row_sets import row_sets
from colonnade.privacy.streams import SUM, present, shared_of, streams_of
from colonnade.run.training import Run
from colonnade.wire.view import EVERYBODY, View

_EMBEDDINGS = ("h", "h_others")
MEMBERSHIP = "membership"
CLIENT = "a client"
"""Whoever may ask a trained model."""


class Case(NamedTuple):
    """An adversary and the secret that it is after."""

    adversary: str
    of: str
    secret: str


@dataclass(frozen=True)
class Evidence:
    """What an audit has: a view, the tables that whoever audits has, and the run, if it is here."""

    view: View
    tables: Sequence[Table]
    run: Run | None = None
    seed: int = 0
    owners: Sequence[str] = field(default=(OWNER,))
    """The owners' names in the ledger."""
    held_out: Sequence[Table] | None = None
    """Rows that the run was not trained on, with their labels, if some were given."""
    signed: Agreement | None = None
    """What all sides signed, where the run is not here."""

    @property
    def agreed(self) -> Agreement | None:
        """What the sides agreed on, if that is known."""
        return self.signed if self.run is None else agreement_of(self.run)

    @property
    def owns_columns(self) -> bool:
        """Whether the owner has columns."""
        return self.tables[0].labels is not None and self.tables[0].columns is not None

    @property
    def per_epoch(self) -> int | None:
        """How many rounds an epoch has, if that is known."""
        return None if self.agreed is None else self.agreed.schedule.rounds_per_epoch

    @property
    def parties(self) -> list[str]:
        """The names of the parties other than the owner's own part, as the view has them."""
        sides = {side for line in self.view.counts for side in line[2:]} | {seen.sender for seen in self.view.seen}
        known = [table.name for table in parties_of(self.tables)[int(self.owns_columns) :]] or sorted(sides)
        return [name for name in known if name not in (*self.owners, SUM, EVERYBODY)]

    def is_owner(self, side: str) -> bool:
        """Whether a side is the owner, or one of several."""
        return side in (OWNER, *self.owners)

    def from_answers(self, case: Case) -> bool:
        """Whether a party is after columns that it receives nothing of but what the owner computes of everybody's."""
        if case.secret != "columns" or self.is_owner(case.adversary):
            return False
        return not self.is_owner(case.of) or not self.gets_embeddings(case.adversary)

    def gets_embeddings(self, party: str) -> bool:
        """Whether the owner sends a party embeddings, which follow from its own columns."""
        return any(
            seen.receiver == party and seen.sender in self.owners and not seen.fields.keys().isdisjoint(_EMBEDDINGS)
            for seen in self.view.seen
        )

    def of_rows(self, case: Case) -> Array:
        """Which of the sampled rows a case is about, bool [n]: of several owners, each has the labels of its own."""
        about = np.ones(len(self.view.sample), dtype=bool)
        if len(self.owners) > 1:
            for owner, places in zip(self.owners, places_of(self.tables), strict=True):
                if owner == (case.of if self.is_owner(case.of) else case.adversary):
                    about = np.isin(self.view.sample, places.numpy())
        return about

    def table(self, name: str) -> Table | None:
        """A side's table, if it is here."""
        if name in (OWNER, *self.owners):
            return self.tables[0] if self.tables[0].labels is not None else None
        return next((table for table in parties_of(self.tables) if table.name == name), None)

    def sends(self, sender: str, receiver: str) -> bool:
        """Whether a message of training travelled from one side to the other."""
        return any(line[0] == "train" and line[2] == sender and line[3] == receiver for line in self.view.counts)


def cases_of(evidence: Evidence) -> list[Case]:
    """All adversaries and secrets that whoever has this view can audit."""
    side, parties = evidence.view.side, evidence.parties
    owners = evidence.owners
    mine = side == EVERYBODY or side in evidence.owners
    found = [Case(party, owner, "labels") for owner in owners for party in parties] if mine else []
    if mine and evidence.owns_columns:
        told = [party for party in parties if evidence.gets_embeddings(party)]
        found += [Case(party, OWNER, "columns") for party in told or parties[:1]]
    found += [Case(owner, party, "columns") for party in parties if side in (EVERYBODY, party) for owner in owners]
    found += [Case(*pair, "labels") for pair in permutations(owners, 2) if evidence.sends(pair[1], pair[0])]
    if side == EVERYBODY and len(parties) > 1:
        found += [Case(*pair, "columns") for pair in zip(parties[-1:] + parties, parties, strict=False)]
    if evidence.run is not None and evidence.held_out is not None:
        found.append(Case(CLIENT, OWNER, MEMBERSHIP))
    for case in found:
        if evidence.table(case.of) is None:
            raise ConfigError(
                f"the table of {case.of} is not there, whose {case.secret} are the secret; pass the tables of the run."
            )
    return found


def is_silent(evidence: Evidence, case: Case) -> bool:
    """Whether no message at all travels to this adversary from whom it is after."""
    senders, receivers = _ends(case, evidence)
    return case.secret != MEMBERSHIP and not any(
        evidence.sends(sender, receiver) for sender in senders for receiver in receivers
    )


def _ends(case: Case, evidence: Evidence) -> tuple[Sequence[str], Sequence[str]]:
    """Who sends what the adversary reads, and who receives it."""
    if evidence.from_answers(case):
        return evidence.owners, (case.adversary,)
    return (case.of,) if evidence.is_owner(case.of) else (case.of, SUM), (case.adversary,)


def material_of(case: Case, evidence: Evidence) -> Material:
    """What this adversary has, and the secret by which its guesses are judged."""
    to_owner, answers, view = evidence.is_owner(case.adversary), evidence.from_answers(case), evidence.view
    there, here = _ends(case, evidence)
    streams = streams_of(view, there, here, evidence.per_epoch)
    rows = view.sample
    labels, classes = _labels(evidence, rows)
    columns = _columns(evidence.table(case.of), rows) if case.secret == "columns" else None
    truth = labels if columns is None else columns
    usable = present(streams, len(rows)) & _known(evidence, case, rows) & evidence.of_rows(case)
    sets = row_sets(usable, truth if case.secret == "labels" and classes else None, evidence.seed)
    return Material(
        adversary=case.adversary,
        of=case.of,
        secret=case.secret,
        truth=truth,
        classes=classes if case.secret == "labels" else 0,
        streams=streams,
        sent=streams_of(view, here, there, evidence.per_epoch),
        shared=shared_of(view, there, here),
        own=_columns(evidence.table(case.adversary), rows),
        labels=labels if case.secret == "columns" and (to_owner or answers) else None,
        network=None if to_owner else own_network(evidence.run, case.adversary, evidence.table(case.adversary)),
        categories={} if columns is None else _categories(columns),
        chosen_on=sets.chosen_on,
        known=sets.known,
        scored=sets.scored,
    )


def column_names(evidence: Evidence, case: Case) -> Sequence[str]:
    """The names of the columns that are the secret, where they are known."""
    table = evidence.table(case.of) if case.secret == "columns" else None
    return () if table is None else tuple(map(str, table.column_names))


def _labels(evidence: Evidence, rows: Array) -> tuple[Array, int]:
    """The labels of the sampled rows, and how many classes they have; 0 for values and for several labels."""
    if evidence.table(OWNER) is None:
        return np.zeros(len(rows), dtype=np.int64), 0
    labels = all_labels(evidence.tables).numpy()
    if labels.ndim == 1 and labels.dtype.kind in "iu":
        classes = int(labels.max()) + 1 if evidence.agreed is None else evidence.agreed.task.outputs
        return labels[rows].astype(np.int64), classes
    return labels.reshape(len(labels), -1)[rows].astype(np.float64), 0


def _columns(table: Table | None, rows: Array) -> Array | None:
    """A side's columns of the sampled rows, as its network sees them."""
    if table is None or table.columns is None:
        return None
    drawn: Array = table.draw(torch.from_numpy(rows)).numpy()
    return np.asarray(drawn.reshape(len(rows), -1))


def _known(evidence: Evidence, case: Case, rows: Array) -> Array:
    """Which of the rows the side whose secret it is has, and the adversary if it has a table here."""
    tables = [evidence.table(case.of), evidence.table(case.adversary)]
    masks = [table.known_rows.numpy()[rows] for table in tables if table is not None and table.known is not None]
    return np.asarray(np.logical_and.reduce([np.ones(len(rows), dtype=bool), *masks]))


def _categories(columns: Array) -> dict[int, int]:
    """Columns with two values, and how many that is."""
    return {k: 2 for k in range(columns.shape[1]) if len(np.unique(columns[:, k])) == 2}
