"""The owner's common rows: those that all sides have kept of an earlier alignment, or those of a new one."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from colonnade.errors import TableError
from colonnade.federation.job_folder import JobFolder
from colonnade.federation.job_parts import align_terms, align_terms_of, is_left_join
from colonnade.federation.owner_handshake import OwnerHandshake
from colonnade.runtime.remote.remote_setup import RemoteSetup
from colonnade.runtime.schema import Schema
from colonnade.runtime.setup import remote_parties
from colonnade.tables.align.align_sheets import AlignmentGroup
from colonnade.tables.align.align_terms import AlignTerms
from colonnade.tables.align.alignment_owner import AlignmentOwner, Progress
from colonnade.tables.align.alignment_party import AlignmentParty
from colonnade.tables.align.id_texts import texts
from colonnade.tables.align.left_join import order_of, places_of
from colonnade.tables.align.mask_work import MaskWork, Workers
from colonnade.tables.sheets import Sheet
from colonnade.wire.ends import Ends
from colonnade.wire.ledger import OWNER, Ledger
from colonnade.wire.owner_half import OwnerHalf


@dataclass(frozen=True)
class AlignedRows:
    """The owner's row numbers in the common order, the proof of each party's alignment, and the ledger of them all."""

    rows: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64))
    proofs: dict[str, str] = field(default_factory=dict)
    ledger: Ledger = field(default_factory=Ledger)
    known: dict[str, np.ndarray] = field(default_factory=dict)
    """In a left join: which of the rows each party has."""

    def facts(self, sheet: Sheet) -> dict[str, Any]:
        """What is kept beside the rows."""
        known = {party: base64.b64encode(np.packbits(mask).tobytes()).decode() for party, mask in self.known.items()}
        about = {"files": sheet.digest, "labels": list(sheet.labels)}
        return {**about, "ledger": self.ledger.to_json(), "proofs": self.proofs, "known": known}


def align_rows(
    handshake: OwnerHandshake,
    sheet: Sheet,
    folder: JobFolder,
    on_progress: Progress | None = None,
    due: np.ndarray | None = None,
) -> AlignedRows:
    """Show everybody all signatures, and find the common rows; rows that all sides kept are not aligned again.

    ``due`` are the rows that must come of it, in their order: those of the job that this one goes on from.
    """
    kept, proofs = folder.rows(sheet.digest), handshake.tell_signed()
    if kept is not None and proofs == kept[1].get("proofs"):
        return _as_kept(*kept)
    handshake.open_alignment()
    if is_left_join(handshake.terms):
        aligned = _left_joined(handshake, sheet, folder.secret, on_progress)
    else:
        brought = np.arange(sheet.rows) if due is None else due  # no others, or who leaves would bring more rows in
        peer, ledger = _aligned(handshake, sheet.ids_at(brought), align_terms(handshake.terms), on_progress)
        aligned = AlignedRows(brought[peer.rows], dict.fromkeys(proofs, peer.proof), ledger)
    if due is not None and not np.array_equal(aligned.rows, due):
        raise TableError(
            f"{len(aligned.rows)} rows are common now and {len(due)} were in the job that is extended; a job is "
            "extended with the same rows: ask a new party for all of them, or train anew with join = 'left' in [align]."
        )
    folder.keep_rows(aligned.rows, aligned.facts(sheet))
    return aligned


def _as_kept(rows: np.ndarray, facts: Mapping[str, Any]) -> AlignedRows:
    ledger = Ledger()
    ledger.replace(facts["ledger"])
    masks = {party: np.frombuffer(base64.b64decode(text), np.uint8) for party, text in facts["known"].items()}
    known = {party: np.unpackbits(mask, count=len(rows)).astype(bool) for party, mask in masks.items()}
    return AlignedRows(rows, facts["proofs"], ledger, known)


def _left_joined(handshake: OwnerHandshake, sheet: Sheet, secret: bytes, on_progress: Progress | None) -> AlignedRows:
    """All of the owner's rows, in an order by its secret; each party is aligned with the owner alone, one by one."""
    order = order_of(texts(sheet.ids, handshake.name), 0, secret)
    proofs, known, ledger, places = dict[str, str](), dict[str, np.ndarray](), Ledger(), places_of(order)
    for link in handshake.links:
        terms = align_terms_of(handshake.terms, link.name)
        peer, sent = _aligned(handshake, sheet.ids, terms, on_progress, places)
        known[link.name] = np.isin(order, peer.rows)
        proofs[link.name] = peer.proof
        ledger.add(sent)
    return AlignedRows(order, proofs, ledger, known)


def _aligned(
    handshake: OwnerHandshake,
    ids: np.ndarray,
    terms: AlignTerms,
    on_progress: Progress | None,
    places: np.ndarray | None = None,
) -> tuple[AlignmentParty, Ledger]:
    """One alignment: the owner's end of it, and its messages; in a left join the party is told its ``places``."""
    owner = handshake.name
    keys = {OWNER if name == owner else name: key for name, key in handshake.keys.items()}
    known = {name: keys[name] for name in terms.names}
    half = OwnerHalf(Ends())
    setup = RemoteSetup(connect=lambda _: handshake.transport, schema=Schema.unchecked(), job=handshake.job)
    with Workers() as workers:
        peer = AlignmentParty(terms, 0, texts(ids, owner), handshake.identity, known, MaskWork(workers))
        group = AlignmentGroup(0, peer)
        parties = remote_parties([group.name, *terms.names[1:]], [group], half, setup, handshake.transport)
        leader = AlignmentOwner(parties, terms, on_progress)
        leader.run()
    if places is not None:
        leader.tell_places(places[peer.rows], len(places))
    return peer, half.ledger
