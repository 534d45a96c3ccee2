"""How an owner ends a job: it tells every party that the job is over, and no party serves the job again."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

from colonnade.errors import ColonnadeError
from colonnade.federation.job_folder import JobFolder
from colonnade.federation.owner_transport import OwnerTransport
from colonnade.federation.terms import sign
from colonnade.signatures import Identity

log = logging.getLogger(__name__)
Ask = Callable[[str], ColonnadeError | None]
"""Sends a party the request that ends the job. What it gives is None if the party answered, or why it did not."""


class EndOfJob:
    """The end of a job on the owner's disk: that the job is over, and which parties were told.

    It is written before anybody is told. An owner that dies on the way tells the others when it is started again, by
    the word ``end``: parties that have ended serve no requests of a run.
    """

    def __init__(self, folder: JobFolder, transport: OwnerTransport, identity: Identity, job: bytes) -> None:
        self.folder, self.transport, self.identity, self.job = folder, transport, identity, job

    @property
    def is_over(self) -> bool:
        """Whether the job is over."""
        return self.folder.ended is not None

    def tell(self, parties: Iterable[str], ask: Ask | None = None) -> None:
        """Tell the parties that do not know yet, by a request of the run if ``ask`` sends one; wait for each once."""
        if not self.is_over:
            self.folder.end(heard=[])
        for party in parties:
            if party in self._heard:
                continue
            try:
                self._tell(party, ask)
            except ColonnadeError as error:  # the run is done, whatever one party makes of it
                log.warning("the end of the job was not heard: %s", error)
            else:
                self.folder.end(heard=[*self._heard, party])

    @property
    def _heard(self) -> list[str]:
        return list((self.folder.ended or {}).get("heard", []))

    def _tell(self, party: str, ask: Ask | None) -> None:
        """Tell one party; if it ended before it answered the request, tell its next process by the word ``end``."""
        if ask is not None:
            unheard = ask(party)
            if unheard is None:
                self.transport.ended(party)
                return
            log.info("%s", unheard)
        self.transport.meet(party)
        signature = sign(self.identity, "end", {"job": self.job.hex()}).hex()
        self.transport.exchange(party, "end", {"job": self.job.hex(), "signature": signature})
