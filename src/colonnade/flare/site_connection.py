"""A site's end of its connection to the owner: it says that it is there, and answers one request at a time.

Four messages, none of which FLARE answers. Whoever sends one is only who it *says* it is, so every message brings along
what nobody but its true sender has been told::

    knock    to the site    nonce                       a fresh number
    here     to the owner   nonce, key, last, done      the knock's number, and the key of this very process
    ask      to the site    nonce, key, letter          a fresh number, the key that the site gave, the request
    answer   to the owner   nonce, letter               the request's number, the reply

``last`` and ``done`` are the numbers of the request that came last and of the one that was answered last. By these the
owner knows whether a request was lost on its way, and does not wait for it in vain.
"""

from __future__ import annotations

import hmac
import os
from collections.abc import Callable
from threading import Lock

from colonnade.errors import ColonnadeError, LinkError
from colonnade.federation.terms import LIMIT

KNOCK, HERE, ASK, ANSWER = (f"colonnade.{name}" for name in ("knock", "here", "ask", "answer"))
TO_SITE, TO_OWNER = (KNOCK, ASK), (HERE, ANSWER)
LETTER = "letter"  # the field of a request, and of a reply; its name is part of the wire
Fields = dict[str, bytes]


class SiteConnection:
    """One process of a site, which serves requests with ``serve``."""

    def __init__(self, serve: Callable[[bytes], bytes]) -> None:
        self._serve, self._key, self._busy = serve, os.urandom(16), Lock()
        self._last = self._done = b""
        self._closed = False

    def close(self) -> None:
        """Stop answering, after the present request: for the owner this site is absent from then on."""
        with self._busy:
            self._closed = True

    def knocked(self, fields: Fields) -> Fields | None:
        """The answer to a knock, given at once even while a request is served."""
        if self._closed:
            return None
        return {"nonce": fields.get("nonce", b""), "key": self._key, "last": self._last, "done": self._done}

    def asked(self, fields: Fields) -> Fields | None:
        """The reply to a request, after earlier requests; None for a sender that does not know the key."""
        if not hmac.compare_digest(fields.get("key", b""), self._key) or len(fields.get(LETTER, b"")) > LIMIT:
            return None
        self._last = nonce = fields["nonce"]
        with self._busy:
            if self._closed:
                return None
            answer = {"nonce": nonce, LETTER: self._serve(fields[LETTER])}
        self._done = nonce
        return answer


def told_of(error: Exception, name: str) -> ColonnadeError:
    """The error that the owner is told: one of ours as it is, and only the type of any other.

    The words of an error that nobody expected may hold a value of a row.
    """
    if isinstance(error, ColonnadeError):
        return error
    return LinkError(f"'{name}' failed with {type(error).__name__}; the log of its site says more.")
