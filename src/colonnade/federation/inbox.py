"""Messages of one stream that were not taken yet. Their bytes are limited, so that a peer cannot fill the memory."""

from __future__ import annotations

from collections.abc import Callable
from queue import Empty, SimpleQueue

from colonnade.errors import AwayError, Broken

ROOM = 1 << 20  # bytes that may lie there before the stream must wait; one message more may always be on its way
_EACH = 1_000  # what a message costs beside its bytes, so that empty ones do not pile up either


class Inbox:
    """One thread fills it from the stream, and any other takes messages out; both wait without spinning.

    >>> box = Inbox("bank")
    >>> box.end("it hung up.")
    >>> box.take(1.0)
    Traceback (most recent call last):
    colonnade.errors.Broken: the connection to 'bank' broke: it hung up.
    """

    def __init__(self, whose: str, noticed: Callable[[], None] = lambda: None) -> None:
        """``noticed`` is called when there is something to take, by the thread that put it there."""
        self.whose, self._noticed = whose, noticed
        self.ended: tuple[str, str] | None = None
        self._came: SimpleQueue[bytes | None] = SimpleQueue()
        self._taken: SimpleQueue[int] = SimpleQueue()  # sizes, told to the filling thread
        self._held = 0  # the filling thread's own count

    def put(self, data: bytes) -> None:
        """Add a message, and wait until there is room for the next; after the end a message is dropped."""
        if self.ended is not None:
            return
        self._came.put(data)
        self._noticed()
        self._held += len(data) + _EACH
        while self.ended is None and (self._held > ROOM or not self._taken.empty()):
            self._held -= self._taken.get()

    def end(self, why: str, said: str = "") -> None:
        """End the inbox because of ``why`` (the first reason counts); messages that are there can still be taken."""
        if self.ended is None:
            self.ended = why, said
            self._came.put(None)
            self._noticed()
        self._taken.put(0)  # wakes the filling thread

    @property
    def has_something(self) -> bool:
        """Whether :meth:`take` has a message, or an error, without waiting."""
        return not self._came.empty()

    def take(self, seconds: float | None) -> bytes:
        """The next message; waits so long at most, or for ever."""
        try:
            data = self._came.get(timeout=seconds if seconds is None else max(seconds, 0.0))
        except Empty:
            raise AwayError(
                f"'{self.whose}' sent nothing for {seconds:g} s; see that it is well, or wait longer.", self.whose
            ) from None
        if data is None:
            self._came.put(None)  # for whoever asks next
            raise self.broken()
        self._taken.put(len(data) + _EACH)
        return data

    def broken(self) -> Broken:
        """The error that says whose connection ended and why."""
        why, said = self.ended or ("it is gone.", "")
        return Broken(f"the connection to '{self.whose}' broke: {why}", self.whose, said)
