"""A party's end of its connection: it dials the owner, and holds one stream."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import Any

from colonnade.errors import AwayError, Broken, LinkError, RefusedError, UnreachableError, printable
from colonnade.federation.certificates import OWNER, Credentials
from colonnade.federation.inbox import Inbox
from colonnade.federation.listener import ACCEPTED, KEEP_ALIVE, LIMIT, SERVICE, STREAM, check_size, size_options
from colonnade.federation.tls import channel_credentials, load_grpc, preflight, split_address

log = logging.getLogger(__name__)
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 5.0
_ANSWER = 10.0  # seconds that the owner has for each step of taking a call
_CLOSING = 0.5
_TAKEN = b""  # the first thing in the inbox of a stream that the owner took


class PartyConnection:
    """A live stream to the owner; :func:`dial` makes them."""

    def __init__(self, address: str, credentials: Credentials, owner: bytes, limit: int) -> None:
        self._grpc = load_grpc()
        self._limit = limit
        self._inbox = Inbox(OWNER)
        self._outgoing: SimpleQueue[bytes | None] = SimpleQueue()
        self.refused: Any = None  # grpc's code, if the owner did not take the stream
        options = (("grpc.enable_retries", 0), ("grpc.enable_http_proxy", 0), *KEEP_ALIVE, *size_options(limit))
        self._channel = self._grpc.secure_channel(address, channel_credentials(credentials, owner), options)
        self._call = self._channel.stream_stream(f"/{SERVICE}/{STREAM}")(iter(self._outgoing.get, None))
        self._reader = Thread(target=self._read, name="from the owner", daemon=True)
        self._reader.start()

    def receive(self, seconds: float | None) -> bytes:
        """The owner's next message; waits so long at most, or for ever."""
        return self._inbox.take(seconds)

    def send(self, data: bytes) -> None:
        """Hand a message to the stream, without waiting until it is sent."""
        check_size(data, self._limit)
        if self._inbox.ended is not None:
            raise self._inbox.broken()
        self._outgoing.put(data)

    def close(self) -> None:
        """End the stream after what was sent before."""
        self._outgoing.put(None)
        self._inbox.end("we hung up.")
        self._reader.join(_CLOSING)
        self._channel.close()

    def _read(self) -> None:
        try:
            for data in self._messages():
                self._inbox.put(data)
            self._inbox.end("the owner hung up.")
        except self._grpc.RpcError as error:
            self.refused, reason = error.code(), _plain(error.details() or "")
            by_owner = self.refused in (self._grpc.StatusCode.ABORTED, self._grpc.StatusCode.PERMISSION_DENIED)
            self._inbox.end(reason or "the connection was cut.", reason if by_owner else "")
        self._outgoing.put(None)  # lets grpc's own thread go

    def _messages(self) -> Iterator[bytes]:
        if ACCEPTED in self._call.initial_metadata():
            yield _TAKEN
        yield from self._call


def dial(
    address: str, credentials: Credentials, *, limit: int = LIMIT, crl: Path | None = None, seconds: float
) -> PartyConnection:
    """Call the owner at ``host:port`` and give the stream once the owner took it.

    An owner that is not there yet is tried again, less and less often, for so many seconds; what will not pass by
    itself, such as a wrong certificate, is raised at once.
    """
    host, port = split_address(address)
    until, pause, logged = time.monotonic() + seconds, _FIRST_PAUSE, ""
    while True:
        patience = min(max(until - time.monotonic(), 1.0), _ANSWER)
        try:
            owner = preflight(host, port, credentials, crl, patience)
            return _taken(PartyConnection(address, credentials, owner, limit), address, patience)
        except UnreachableError as error:
            if time.monotonic() + pause >= until:
                raise
            if str(error) != logged:  # once, and not at every try
                logged = str(error)
                log.warning("%s It is tried again for up to %.0f s.", logged, until - time.monotonic())
        time.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE)


def _taken(stream: PartyConnection, address: str, seconds: float) -> PartyConnection:
    """The stream, if the owner takes it within so many seconds."""
    codes = load_grpc().StatusCode
    try:
        stream.receive(seconds)
    except AwayError:
        stream.close()
        raise UnreachableError(f"the owner at {address} did not take the call within {seconds:g} s.") from None
    except Broken as error:
        stream.close()
        if stream.refused is codes.PERMISSION_DENIED:
            raise RefusedError(f"the owner at {address} refused: {error.said}") from None
        if stream.refused is codes.UNIMPLEMENTED:
            raise LinkError(f"what listens at {address} is not an owner of Colonnade; check the port.") from None
        raise UnreachableError(f"the owner at {address} did not take the call: {error}") from None
    return stream


def _plain(text: str) -> str:
    """What the other side said, as a sentence that is fit for a terminal."""
    sentence = printable(text)
    return sentence if sentence.endswith("?") or not sentence else sentence.rstrip(".") + "."
