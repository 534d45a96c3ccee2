"""How an owner lets its parties go: every one hears that the job is over, and none of them serves it again."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

from colonnade.errors import AwayError, ColonnadeError
from colonnade.federation.job_folder import JobFolder
from colonnade.federation.owner_transport import OwnerTransport
from colonnade.federation.terms import sign
from colonnade.seal.key_agreement import Identity

log = logging.getLogger(__name__)


class EndOfJob:
    """The end as the owner keeps it on its disk: that it came, and who has heard of it.

    It is written before anybody is told. An owner that dies on the way tells the others when it is started again, by
    the word ``end``: parties that have ended serve no letters.
    """

    def __init__(self, desk: JobFolder, lines: OwnerTransport, identity: Identity, job: bytes) -> None:
        self.desk, self.lines, self.identity, self.job = desk, lines, identity, job

    @property
    def came(self) -> bool:
        """Whether the job is over."""
        return self.desk.ended is not None

    def tell(self, parties: Iterable[str], call: Callable[[str], object] | None = None) -> None:
        """Tell those who have not heard, by a letter of the run if there is one; nobody is waited for twice."""
        if not self.came:
            self.desk.end(heard=[])
        for party in parties:
            if party in self._heard:
                continue
            try:
                self._tell(party, call)
            except ColonnadeError as error:  # the run is done, whatever one party makes of it
                log.warning("the end of the job was not heard: %s", error)
            else:
                self.desk.end(heard=[*self._heard, party])

    @property
    def _heard(self) -> list[str]:
        return list((self.desk.ended or {}).get("heard", []))

    def _tell(self, party: str, call: Callable[[str], object] | None) -> None:
        """One party; if it went before it answered, its next process is told by a word."""
        if call is not None:
            try:
                call(party)
                return
            except AwayError as error:
                log.info("%s", error)
            except ColonnadeError as error:  # it has ended already, or it cannot: either way the run is done
                log.info("%s", error)
        self.lines.meet(party)
        signature = sign(self.identity, "end", {"job": self.job.hex()}).hex()
        self.lines.talk(party, "end", {"job": self.job.hex(), "signature": signature})
