"""A party's process: dials the owner, serves its letters, and dials again if the line breaks."""

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
from colonnade.federation.job_papers import PartyFile
from colonnade.federation.owner_transport import CONNECT_AGAIN, REFUSED
from colonnade.federation.party_connection import Dialled, dial
from colonnade.federation.party_session import PartySession
from colonnade.federation.prometheus import Metrics
from colonnade.federation.status_file import StatusFile
from colonnade.federation.terms import LIMIT
from colonnade.runtime import threads
from colonnade.runtime.remote.packet import Packet, read_packet
from colonnade.runtime.remote.party_server import PartyServer
from colonnade.runtime.remote.request_server import refused, refused_letter
from colonnade.wire.ledger import OWNER

log = logging.getLogger(__name__)
PAUSE = 0.2  # seconds before the owner is dialled again
DOUBTS = 3


class Attendance:
    """One party's presence at a job, over as many lines as it takes."""

    def __init__(self, paper: PartyFile, folder: Path, metrics: Metrics | None = None) -> None:
        self.paper, self.guest = paper, PartySession(paper, folder)
        self.metrics = metrics or Metrics()
        self._round = 0  # the newest that was begun
        self._doubts = DOUBTS  # how many refusals in a row may be the network's fault
        self._last = b""  # the newest reply
        self._came_once = False
        self.status = StatusFile(make_folder(folder), paper.party.name, "", 0, [OWNER])

    def attend(self) -> None:
        """Serve until the owner says that the job is at its end, or the operator's patience is."""
        try:
            with threads(1), self.status.beating():
                while not self.guest.ended:
                    self._one_line()
        except ColonnadeError as error:
            self.stop(str(error))
            raise
        except KeyboardInterrupt:
            self.stop("it was interrupted.")
            raise
        self.finish()

    def answer(self, request: bytes) -> bytes:
        """The reply to a letter, however it came here."""
        self.metrics.received(OWNER, len(request))
        letter = read_packet(request)
        reply = self.guest.answer(letter, request)
        self.metrics.sent(OWNER, len(reply))
        self._last = reply
        self._tell(letter)
        return reply

    def refuse(self, request: bytes, error: ColonnadeError) -> bytes:
        """The letter that tells the owner why this side could not answer one."""
        reply = refused_letter(request, self.guest.name, error)
        with suppress(FolderError):  # no room for the log may be what it says
            self.guest.note(request, reply)
        return reply

    def finish(self) -> None:
        """Note that the job is at its end, and seal the audit log."""
        self.status.state("finished")
        if self.guest.audit is not None:
            self.guest.audit.event("finished")
            self.guest.audit.seal(self.paper.keys.identity)
            self.guest.audit.close()

    def stop(self, why: str) -> None:
        """Note that it ends here, before the job does."""
        with suppress(FolderError):  # a full disk may be what it ends by
            self.status.state("stopped", why)
            if self.guest.audit is not None:
                self.guest.audit.event("stopped", why=why)
                self.guest.audit.close()

    def _one_letter(self, line: Dialled, request: bytes) -> None:
        """Answer a letter; if this side cannot go on, the owner hears why."""
        try:
            reply = self.answer(request)
        except ColonnadeError as error:
            line.send(self.refuse(request, error))
            raise
        line.send(reply)

    def _one_line(self) -> None:
        patience = self.paper.allow.patience
        self.status.state("waiting")
        self.metrics.away(OWNER)
        line = self._dialled(patience)
        self._doubts = DOUBTS
        (self.metrics.reconnected if self._came_once else self.metrics.up)(OWNER)
        self._came_once = True
        self.status.connected(OWNER)
        log.info("connected to the owner at %s", self.paper.address)
        try:
            while not self.guest.ended:
                self._one_letter(line, line.receive(patience))
        except Broken as error:
            if error.said and CONNECT_AGAIN not in error.said:
                raise self._hung_up(error.said) from None
            log.warning("%s", error)
            self.status.away(OWNER)
            self.status.failed(str(error))
            time.sleep(PAUSE)
        finally:
            line.close()

    def _hung_up(self, said: str) -> ColonnadeError:
        """Why it ends; if that is this side's own affair, by its refusal or the owner's, the exit code says so."""
        if said.startswith(REFUSED):
            return RefusedError(f"the owner hung up: {said}")
        letter = read_packet(self._last) if self._last else None
        if letter is None or letter.kind != "refusal":
            return LinkError(f"the owner hung up: {said}")
        return again(name_of(refused(letter.frames[0], self.guest.name)), f"the owner hung up: {said}")

    def _tell(self, letter: Packet) -> None:
        """What this letter changed, for who watches."""
        if letter.kind == "talk" and letter.step in ("terms", "align", "begin") and self.guest.terms is not None:
            self._describe(self.guest.terms["job"])
            self.status.state({"terms": "waiting", "align": "aligning", "begin": "training"}[letter.step])
        elif letter.purpose == "train" and letter.kind in ("step", "sum") and letter.round + 1 != self._round:
            self._round = letter.round + 1
            if self.status.status.state != "training":  # the same process, over another line
                self.status.state("training")
            self.status.round(self._round)
            self.metrics.round_done(self._round)

    def _describe(self, job: str) -> None:
        """The job and its rounds, as soon as they are known."""
        server = self.guest.server
        rounds = server.seat.settings.rounds if isinstance(server, PartyServer) else 0
        if (self.status.status.job, self.status.status.rounds) != (job, rounds):
            self.status.describe(job, rounds)

    def _dialled(self, patience: float) -> Dialled:
        """A line to the owner; a refusal must come again before it is believed."""
        while True:
            try:
                return dial(
                    self.paper.address,
                    self.paper.keys.credentials,
                    limit=LIMIT,
                    crl=self.paper.keys.crl,
                    seconds=patience,
                )
            except UnreachableError:
                raise
            except LinkError as error:  # a network that alters bytes looks like this as well
                if not self._doubts:
                    raise
                self._doubts -= 1
                log.warning("%s", error)
                time.sleep(PAUSE)
