"""The owner's end of all connections to its sites, with the methods of the listener that a federation has."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from queue import Empty, SimpleQueue
from threading import Condition

from colonnade.errors import AwayError, Broken, LinkError
from colonnade.federation.listener import check_size
from colonnade.federation.terms import LIMIT
from colonnade.flare.site_connection import ANSWER, ASK, HERE, KNOCK, LETTER, Fields

Fire = Callable[[str, str, Fields], None]
LOOK = 0.5  # seconds between two looks at whether FLARE is ending the job
CALL = 0.25  # seconds between two knocks at a site that is not here yet
DOUBT = 2.5  # seconds of silence after which a site is asked whether it has the request
SILENT = 10.0  # seconds in which a living site answers a knock, whatever it computes
_KNOCKS = 64  # knocks of a site that may still be answered


class _KnownSite:
    """A site's process, since it said that it is here."""

    def __init__(self, number: int, key: bytes) -> None:
        self.number, self.key = number, key
        self.ended = ""
        self.replies: SimpleQueue[bytes] = SimpleQueue()
        self.nonce = b""  # of the request that waits for its answer
        self.lost = 0  # how often in a row the site said what it would say if a request was lost
        self.heard = time.monotonic()

    def here(self, last: bytes, done: bytes) -> None:
        """Note which request came to the site last, and which it answered last."""
        self.heard = time.monotonic()
        is_lost = self.nonce and (last != self.nonce or done == self.nonce)
        self.lost = self.lost + 1 if is_lost else 0


class FlareListener:
    """Connections to the sites ``names``, over messages that ``fire(site, topic, fields)`` sends and nobody answers.

    ``heard`` must be called with what the sites send back; ``stopped`` says whether FLARE is ending the job.
    """

    def __init__(self, names: Sequence[str], fire: Fire, stopped: Callable[[], bool] = lambda: False) -> None:
        self._fire, self._stopped = fire, stopped
        self._sites: dict[str, _KnownSite] = {}
        self._knocks: dict[str, deque[bytes]] = {name: deque(maxlen=_KNOCKS) for name in names}
        self._knocked = dict.fromkeys(names, 0.0)
        self._changed = Condition()

    def heard(self, topic: str, fields: Fields) -> None:
        """Handle a message of a site; one that answers no message of ours is ignored."""
        with self._changed:
            if topic == HERE:
                self._here(fields)
            elif topic == ANSWER:
                for known in self._sites.values():
                    if known.nonce and known.nonce == fields.get("nonce"):
                        known.nonce, known.lost, known.heard = b"", 0, time.monotonic()
                        reply = fields.get(LETTER, b"")
                        known.replies.put(reply if len(reply) <= LIMIT else b"")  # an empty one is refused as no reply

    def connection(self, party: str) -> int:
        """The number of the site's present connection; 0 if it has none, and then it is asked for one."""
        with self._changed:
            self._check_name(party)
            known = self._sites.get(party)
            if known is not None and not known.ended:
                return known.number
        self._knock(party, CALL)
        return 0

    def wait(self, party: str, seconds: float, after: int = 0) -> int:
        """Wait until the site has a connection with a number above ``after``, and give it.

        FLARE never starts a job's process at a site again; one that was here and is silent is not waited for long.
        """
        began = time.monotonic()
        while (number := self.connection(party)) <= after:
            self._check_running()
            waited = time.monotonic() - began
            if waited >= (min(seconds, SILENT) if after else seconds):
                raise AwayError(f"'{party}' did not answer FLARE within {waited:.0f} s; start its site again.", party)
            with self._changed:
                self._changed.wait(CALL)
        return number

    def send(self, party: str, connection: int, data: bytes) -> None:
        """Send a request and do not wait."""
        check_size(data, LIMIT)
        known, nonce = self._known(party, connection), os.urandom(16)
        with self._changed:
            known.nonce, known.lost, known.heard = nonce, 0, time.monotonic()
        self._fire(party, ASK, {"nonce": nonce, "key": known.key, LETTER: data})

    def receive(self, party: str, connection: int, seconds: float) -> bytes:
        """The reply to the last request; raises if either was lost, or if the site does not answer any more."""
        known, until = self._known(party, connection), time.monotonic() + seconds
        while True:
            rest = until - time.monotonic()
            try:
                return known.replies.get(timeout=max(min(rest, LOOK), 0.0))
            except Empty:
                self._check_running()
            if rest <= 0:
                raise AwayError(
                    f"'{party}' sent nothing for {seconds:g} s; see that it is well, or wait longer.", party
                )
            self._look_after(party, known)

    def first(self, connections: Mapping[str, int], seconds: float) -> str | None:
        """The first in their order: whoever is waited for is looked after, see :meth:`receive`."""
        return next(iter(connections), None)

    def hang_up(self, party: str, reason: str) -> None:
        """End the site's connection; the next knock makes another."""
        with self._changed:
            if party in self._sites and not self._sites[party].ended:
                self._sites[party].ended = f"we hung up: {reason}"

    def close(self) -> None:
        """Hang up on all."""
        for party in self._knocks:
            self.hang_up(party, "the owner closed the connection.")

    def _here(self, fields: Fields) -> None:
        nonce, key = fields.get("nonce", b""), fields.get("key", b"")
        party = next((name for name, sent in self._knocks.items() if nonce in sent), None)
        if party is None:
            return
        known = self._sites.get(party)
        if known is not None and not known.ended and known.key == key:
            known.here(fields.get("last", b""), fields.get("done", b""))
            return
        if known is not None and not known.ended:
            known.ended = "another process of it took its place."
        self._sites[party] = _KnownSite(known.number + 1 if known else 1, key)
        self._changed.notify_all()

    def _knock(self, party: str, every: float) -> None:
        """Ask a site whether it is there, but not more often than ``every`` seconds."""
        with self._changed:
            if time.monotonic() - self._knocked[party] < every:
                return
            self._knocked[party] = time.monotonic()
            nonce = os.urandom(16)
            self._knocks[party].append(nonce)
        self._fire(party, KNOCK, {"nonce": nonce})

    def _look_after(self, party: str, known: _KnownSite) -> None:
        """Ask a slow site which request it has. One answer proves no loss, because messages overtake each other."""
        silence = time.monotonic() - known.heard
        if known.lost >= 2:
            known.ended = "a request was lost on its way."
        if known.ended:
            raise Broken(f"the connection to '{party}' broke: {known.ended}", party)
        if silence > SILENT:
            raise AwayError(f"'{party}' has not answered FLARE for {silence:.0f} s; start its site again.", party)
        if silence > DOUBT or known.lost:
            self._knock(party, DOUBT)

    def _known(self, party: str, connection: int) -> _KnownSite:
        self._check_name(party)
        known = self._sites.get(party)
        if known is None or known.number != connection or known.ended:
            why = "it has none." if known is None else known.ended or "another process of it took its place."
            raise Broken(f"the connection to '{party}' broke: {why}", party)
        return known

    def _check_name(self, party: str) -> None:
        if party not in self._knocks:
            raise LinkError(f"there is no site '{party}' in this job; there are {', '.join(self._knocks)}.")

    def _check_running(self) -> None:
        if self._stopped():
            raise LinkError("FLARE ended the job; its log says why.")
