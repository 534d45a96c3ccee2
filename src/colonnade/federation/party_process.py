"""A party's process: it dials the owner, serves the owner's requests, and dials again if the connection breaks."""

from __future__ import annotations

import logging
import time
from contextlib import suppress
from pathlib import Path

from colonnade.disk.whole_files import make_folder
from colonnade.errors import (
    Broken,
    ColonnadeError,
    FolderError,
    LinkError,
    RefusedError,
    UnreachableError,
    again,
    name_of,
)
from colonnade.federation.handshake import TALK
from colonnade.federation.owner_transport import CONNECT_AGAIN, REFUSED
from colonnade.federation.party_connection import PartyConnection, dial
from colonnade.federation.party_job import ledger_of
from colonnade.federation.party_report import write_party_report
from colonnade.federation.party_session import PartySession
from colonnade.federation.prometheus import Metrics
from colonnade.federation.side_sections import PartyFile
from colonnade.federation.status_file import StatusFile
from colonnade.federation.terms import LIMIT
from colonnade.runtime.remote.packet import Packet, read_packet, write_packet
from colonnade.runtime.remote.party_server import PartyServer
from colonnade.runtime.remote.request_server import refusal, refused
from colonnade.runtime.setup import threads
from colonnade.wire.ledger import OWNER

log = logging.getLogger(__name__)
PAUSE = 0.2  # seconds before the owner is dialled again
DOUBTS = 3
_STATES = {"terms": "waiting", "align": "aligning", "begin": "training"}  # of the status file, after these words


class PartyProcess:
    """One party's process in a job, over as many connections as it takes."""

    def __init__(self, party_file: PartyFile, folder: Path, metrics: Metrics | None = None) -> None:
        self.party_file, self.session = party_file, PartySession(party_file, folder)
        self.metrics = metrics or Metrics()
        self._round = 0  # the newest that was begun
        self._doubts = DOUBTS  # how many refusals in a row may be the network's fault
        self._last = b""  # the newest reply
        self._was_connected = False
        self.status = StatusFile(make_folder(folder), party_file.party.name, "", 0, [OWNER])

    def run(self) -> None:
        """Serve until the owner ends the job, or until the operator's patience is over."""
        with self.status.working(self.stop, "it was interrupted."), threads(1):
            while not self.session.ended:
                self._serve_connection()
        self.finish()

    def answer(self, request: bytes) -> bytes:
        """The reply to a request, however it came here."""
        self.metrics.received(OWNER, len(request))
        packet = read_packet(request)
        reply = self.session.answer(packet, request)
        self.metrics.sent(OWNER, len(reply))
        self._last = reply
        self._show(packet)
        return reply

    def refuse(self, request: bytes, error: ColonnadeError) -> bytes:
        """The reply that tells the owner why this side could not answer a request."""
        packet = read_packet(request)
        reply = write_packet(packet.reply("refusal", self.session.name, refusal(error, self.session.name)))
        with suppress(FolderError):  # no room for the log may be what it says
            self.session.note(packet, request, reply)
        return reply

    def finish(self) -> None:
        """Note that the job is at its end, and seal the audit log."""
        self.status.state("finished")
        if self.session.audit is not None:
            self.session.audit.event("finished")
            self.session.audit.seal(self.party_file.keys.identity)
            self.session.audit.close()
        self._report("The job is finished.")

    def stop(self, why: str) -> None:
        """Note that this side stops before the end of the job."""
        with suppress(FolderError):  # a full disk may be what it ends by
            self.status.state("stopped", why)
            if self.session.audit is not None:
                self.session.audit.event("stopped", why=why)
                self.session.audit.close()
        self._report(f"This side stopped: {why}")

    def _report(self, state: str) -> None:
        """Write this party's own report, if there is a job; a full disk is no error here."""
        job = self.session.handshake.job
        if job is None:
            return
        try:
            write_party_report(job, ledger_of(self.session.server), state)
        except (FolderError, OSError) as error:
            log.warning("the report cannot be written: %s", error)

    def _serve_request(self, connection: PartyConnection, request: bytes) -> None:
        """Answer a request; if this side cannot go on, tell the owner why."""
        try:
            reply = self.answer(request)
        except ColonnadeError as error:
            connection.send(self.refuse(request, error))
            raise
        connection.send(reply)

    def _serve_connection(self) -> None:
        """Dial the owner, and serve its requests until the job ends or the connection does."""
        patience = self.party_file.allow.patience
        self.status.state("waiting")
        self.metrics.absent(OWNER)
        connection = self._dialled(patience)
        self._doubts = DOUBTS
        (self.metrics.reconnected if self._was_connected else self.metrics.up)(OWNER)
        self._was_connected = True
        self.status.connected(OWNER)
        log.info("connected to the owner at %s", self.party_file.address)
        try:
            while not self.session.ended:
                self._serve_request(connection, connection.receive(patience))
        except Broken as error:
            if error.said and CONNECT_AGAIN not in error.said:
                raise self._hung_up(error.said) from None
            log.warning("%s", error)
            self.status.absent(OWNER)
            self.status.failed(str(error))
            time.sleep(PAUSE)
        finally:
            connection.close()

    def _hung_up(self, reason: str) -> ColonnadeError:
        """Why the connection ended, as the error with the right exit code: a refusal, or a broken connection."""
        if reason.startswith(REFUSED):
            return RefusedError(f"the owner hung up: {reason}")
        packet = read_packet(self._last) if self._last else None
        if packet is None or packet.kind != "refusal":
            return LinkError(f"the owner hung up: {reason}")
        return again(name_of(refused(packet.frames[0], self.session.name)), f"the owner hung up: {reason}")

    def _show(self, packet: Packet) -> None:
        """Show in status and metrics what a request has changed."""
        if packet.kind == TALK and packet.step in _STATES and self.session.terms is not None:
            self._describe(self.session.terms["job"])
            describes = "describe" in self.session.terms and packet.step == "begin"
            self.status.state("describing" if describes else _STATES[packet.step])
        elif packet.purpose == "train" and packet.kind in ("step", "sum") and packet.round + 1 != self._round:
            self._round = packet.round + 1
            if self.status.status.state != "training":  # the same process, over another connection
                self.status.state("training")
            self.status.round(self._round)
            self.metrics.round_done(self._round)

    def _describe(self, job: str) -> None:
        """Show the job and its rounds, as soon as they are known."""
        server = self.session.server
        rounds = server.spec.settings.rounds if isinstance(server, PartyServer) else 0
        if (self.status.status.job, self.status.status.rounds) != (job, rounds):
            self.status.describe(job, rounds)

    def _dialled(self, patience: float) -> PartyConnection:
        """A connection to the owner; a refusal must come twice before it counts."""
        keys = self.party_file.keys
        while True:
            try:
                return dial(self.party_file.address, keys.credentials, limit=LIMIT, crl=keys.crl, seconds=patience)
            except UnreachableError:
                raise
            except LinkError as error:  # a network that alters bytes looks like this as well
                if not self._doubts:
                    raise
                self._doubts -= 1
                log.warning("%s", error)
                time.sleep(PAUSE)
