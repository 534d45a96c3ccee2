"""The owner's common rows: those that all sides have kept of an earlier alignment, or those of a new one."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from colonnade.federation.job_folder import JobFolder
from colonnade.federation.job_parts import align_terms
from colonnade.federation.owner_handshake import OwnerHandshake
from colonnade.runtime.remote.remote_setup import RemoteSetup
from colonnade.runtime.schema import Schema
from colonnade.runtime.setup import remote_parties
from colonnade.tables.align.align_sheets import AlignmentGroup
from colonnade.tables.align.alignment_owner import AlignmentOwner, Progress
from colonnade.tables.align.alignment_party import AlignmentParty
from colonnade.tables.align.id_texts import texts
from colonnade.tables.sheets import Sheet
from colonnade.wire.ends import Ends
from colonnade.wire.ledger import OWNER, Ledger
from colonnade.wire.owner_half import OwnerHalf


@dataclass(frozen=True)
class AlignedRows:
    """The owner's row numbers in the common order, the proof of the alignment, and its messages in a ledger."""

    rows: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64))
    proof: str = ""
    ledger: Ledger = field(default_factory=Ledger)


def align_rows(
    handshake: OwnerHandshake, sheet: Sheet, folder: JobFolder, on_progress: Progress | None = None
) -> AlignedRows:
    """Show everybody all signatures, and find the common rows; rows that all sides kept are not aligned again."""
    kept = folder.rows(sheet.digest)
    proofs = handshake.tell_signed()
    if kept is not None and proofs == {kept[1]["proof"]}:
        rows, facts = kept
        ledger = Ledger()
        ledger.replace(facts["ledger"])
    else:
        handshake.open_alignment()
        rows, facts, ledger = _aligned(handshake, sheet, on_progress)
        folder.keep_rows(rows, facts)
    return AlignedRows(rows, facts["proof"], ledger)


def _aligned(
    handshake: OwnerHandshake, sheet: Sheet, on_progress: Progress | None
) -> tuple[np.ndarray, dict[str, Any], Ledger]:
    """A new alignment: the rows, the facts that are kept beside them, and the messages."""
    terms, owner = align_terms(handshake.terms), handshake.name
    keys = {OWNER if name == owner else name: key for name, key in handshake.keys.items()}
    group = AlignmentGroup(0, AlignmentParty(terms, 0, texts(sheet.ids, owner), handshake.identity, keys))
    half = OwnerHalf(Ends())
    setup = RemoteSetup(connect=lambda _: handshake.transport, schema=Schema.unchecked(), job=handshake.job)
    parties = remote_parties([group.name, *terms.names[1:]], [group], half, setup, handshake.transport)
    AlignmentOwner(parties, terms, on_progress).run()
    peer = group.peer
    facts = {
        "proof": peer.proof,
        "files": sheet.digest,
        "ledger": half.ledger.to_json(),
        "sizes": dict(zip([owner, *terms.names[1:]], peer.sizes, strict=True)),
    }
    return peer.rows, facts, half.ledger
