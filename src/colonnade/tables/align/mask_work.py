"""Masks of an alignment, worked out ahead by threads: on all cores, and while messages travel.

libsodium (through cffi) and the compiled ladder let other threads run while they multiply, so threads are as good as
processes here. They start at once, and no key leaves the process. What they give does not depend on how many there
are: every slice of a list is masked by itself, and slices are put together in their order.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import Any, TypeVar

from colonnade.errors import ConfigError
from colonnade.runtime.cores import cores

SLICE = 2048
"""The number of entries that a worker masks at a time: some hundredths of a second."""
T = TypeVar("T", Sequence[bytes], bytes)
Piece = tuple[Future[Any], Callable[..., Any], tuple[Any, ...]]
Later = Callable[[], bytes]
"""Gives the masked entries of a part, and waits for them if they are not there yet."""


class Workers:
    """Threads that do one piece of work after another, until they are closed.

    >>> with Workers(2) as workers:
    ...     pieces = [workers.submit(pow, base, 2) for base in (1, 2, 3)]
    ...     [piece.result() for piece in pieces]
    [1, 4, 9]
    """

    def __init__(self, threads: int | None = None) -> None:
        self._pieces: SimpleQueue[Piece | None] = SimpleQueue()
        self._threads = 0
        if threads is not None and (not isinstance(threads, int) or isinstance(threads, bool) or threads < 1):
            raise ConfigError(f"threads={threads!r} is out of range; give a whole number from 1, or None for all.")
        self._most = threads or cores()

    def submit(self, function: Callable[..., Any], *given: Any) -> Future[Any]:
        """Have a function called by one of the threads."""
        future: Future[Any] = Future()
        self._pieces.put((future, function, given))
        if self._threads < self._most:
            self._threads += 1
            # Daemons, so that a process that was interrupted ends at once and not after all that is still to do.
            threading.Thread(target=_work, args=(self._pieces,), name="masks", daemon=True).start()
        return future

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Drop what was not begun, and let the threads end."""
        threads, self._threads = self._threads, 0
        if not threads:
            return  # a second time, when those who are still at work have not yet seen that they end
        with suppress(Empty):
            while piece := self._pieces.get_nowait():
                piece[0].cancel()
        for _ in range(threads):
            self._pieces.put(None)

    def __del__(self) -> None:
        self.close()


def _work(pieces: SimpleQueue[Piece | None]) -> None:
    """What a thread does. It does not hold its ``Workers``, which close themselves when nobody needs them any more."""
    while (piece := pieces.get()) is not None:
        future, function, given = piece
        try:
            future.set_result(function(*given))
        except BaseException as error:
            future.set_exception(error)
        del piece, future, function, given  # or the last result would be held until the next piece comes


class MaskWork:
    """One party's masking: by workers as soon as the entries are there, or without workers when it is asked for."""

    def __init__(self, workers: Workers | None = None) -> None:
        self._workers = workers
        self._spent: list[float] = []

    @property
    def seconds(self) -> float:
        """The CPU seconds that workers spent for this party."""
        return sum(self._spent)

    def start(self, mask: Callable[[T], bytes], entries: T, width: int = 1) -> Later:
        """Mask entries that are ``width`` long each."""
        step = SLICE * width
        slices = [entries[at : at + step] for at in range(0, len(entries), step)]
        if self._workers is None:
            return lambda: b"".join(map(mask, slices))
        begun = [self._workers.submit(_timed, self._spent, mask, part) for part in slices]
        return lambda: b"".join([future.result() for future in begun])


def _timed(spent: list[float], mask: Callable[[T], bytes], entries: T) -> bytes:
    """Mask entries, and note how long it took. It holds no ``Workers``, as in ``_work``."""
    began = time.thread_time()
    try:
        return mask(entries)
    finally:
        spent.append(time.thread_time() - began)
