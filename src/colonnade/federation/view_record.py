"""What a side of a federation records of its own view: the packets that are kept whole, and a line of the audit log.

The view itself is written by the run at the owner, and by :meth:`ViewRecord.write` at a party.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import final

from colonnade.errors import CheckpointError
from colonnade.federation.audit_log import AuditLog
from colonnade.federation.packet_sample import PacketSample, read_packets, write_packets
from colonnade.store.view_files import PLACE, ViewFolder, ViewIndex, has_view, read_view
from colonnade.wire.witness import Witness

RECORDED = "view recorded"
"""The event of the audit log that has the digest of a view's index."""


@final
class ViewRecord:
    """One side's record of a training in ``folder``, beside its audit log; ``job`` names the job and its run."""

    def __init__(self, folder: Path, audit: AuditLog, packets: PacketSample, job: str) -> None:
        self.folder, self.audit, self.packets, self.job = folder, audit, packets, job
        self._writer = ViewFolder(folder)
        self._witness: Witness | None = None
        self._noted = (0, 0)  # when the index was written that the audit log knows, and its size

    def follow(self, witness: Witness) -> None:
        """Sample the packets of what this witness sees; one of an earlier process goes on."""
        self._witness = witness
        self.packets.follow(witness, read_packets(self.folder / PLACE) if has_view(self.folder) else [])

    def go_on(self, witness: Witness) -> None:
        """At a party: take up what an earlier process recorded, and follow the witness."""
        if has_view(self.folder):
            view, index = read_view(self.folder)
            if index.run != self.job:
                raise CheckpointError(
                    f"{self.folder / PLACE} is the view of another run; bring back this run's, or delete it."
                )
            witness.go_on(view, index.facts, index.round)
        self.follow(witness)

    def write(self, round: int) -> None:
        """At a party, and of a prediction: write the view, and note it, if there is one."""
        if self._witness is None:
            return
        index = ViewIndex(self.job, round, self._witness.facts())
        self._writer.write(self._witness.view(), self._witness.epochs, index)
        self.note()

    def note(self) -> None:
        """Write the packets, and the digest of the view's index into the audit log, which is signed at the end."""
        if self._witness is None or not has_view(self.folder):
            return
        known = (self.folder / PLACE / "view.json").stat()
        if (known.st_mtime_ns, known.st_size) != self._noted:
            write_packets(self.folder / PLACE, self.packets.kept())
            self.audit.event(RECORDED, digest=index_digest(self.folder))
            self._noted = known.st_mtime_ns, known.st_size


def index_digest(folder: Path) -> str:
    """The digest of a view's index, which has the hashes of all its files."""
    return hashlib.sha256((folder / PLACE / "view.json").read_bytes()).hexdigest()
