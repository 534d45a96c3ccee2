"""The owner's end of all connections: one port, one stream per party, whose name is what its certificate says."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Condition, Thread
from typing import Any

from colonnade.errors import AwayError, Broken, LinkError
from colonnade.federation.certificates import Credentials, check_not_revoked, common_name
from colonnade.federation.inbox import Inbox
from colonnade.federation.port_gate import PATIENCE, Gate
from colonnade.federation.tls import load_grpc, server_credentials

log = logging.getLogger(__name__)
SERVICE, STREAM = "colonnade.Link", "Stream"
ACCEPTED = ("colonnade-link", "1")  # what the owner says first on a stream that it takes
LIMIT = 64 << 20
GONE = "it hung up, or the connection was cut."
KEEP_ALIVE = (  # a peer that is silent for so long is asked, and given up if it does not answer
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.http2.ping_timeout_ms", 10_000),  # without it the line above does nothing before a minute is over
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
)
OFTENEST_PING = 5_000  # milliseconds; a party that asks for signs of life more often is hung up on
HEADERS = (  # a connection has one stream, whose headers are short
    ("grpc.max_concurrent_streams", 8),
    ("grpc.max_metadata_size", 4 << 10),
    ("grpc.absolute_max_metadata_size", 8 << 10),
)
_STREAMS_EACH = 4  # a stream whose peer vanished lives until the keep-alive ends it; new ones need room beside it
_CLOSING = 0.5  # seconds that open streams have to say goodbye


def size_options(limit: int) -> tuple[tuple[str, int], ...]:
    """The options of both ends about sizes: messages up to ``limit``."""
    return ("grpc.max_receive_message_length", limit), ("grpc.max_send_message_length", limit)


def check_size(data: bytes, limit: int) -> None:
    """Refuse to send what the other end would not take."""
    if len(data) > limit:
        raise LinkError(f"a message of {len(data):,} bytes is over the limit of {limit:,}; raise it at both ends.")


class _PartyStream:
    """One stream of one party."""

    def __init__(self, party: str, number: int, cut: Callable[[], Any], noticed: Callable[[], None]) -> None:
        """``cut`` ends the stream at once, although the party may not have read all that was sent."""
        self.party, self.number, self.cut = party, number, cut
        self.inbox = Inbox(party, noticed)
        self.outgoing: SimpleQueue[bytes | None] = SimpleQueue()
        self.goodbye = ""

    def read(self, requests: Iterator[bytes]) -> None:
        """Fill the inbox until the stream ends; runs in a thread of its own."""
        with suppress(Exception):  # grpc raises a bare one if the stream is cut, and sometimes ends as if all were well
            for data in requests:
                self.inbox.put(data)
        self.finish(GONE)

    def finish(self, why: str) -> None:
        """Neither receive nor send any more."""
        self.inbox.end(why)
        self.outgoing.put(None)


class Listener:
    """Listens at ``address`` for the parties ``names``; anybody else is refused with a reason.

    Each stream of a party has a number, higher than those before; a new one replaces the last.
    """

    def __init__(
        self,
        address: str,
        credentials: Credentials,
        names: Sequence[str],
        *,
        limit: int = LIMIT,
        crl: Path | None = None,
        turned_away: Callable[[str], None] | None = None,
    ) -> None:
        """``turned_away`` is called with the cause when a connection is cut over which no party came."""
        self._grpc = load_grpc()
        self._names, self._limit, self._crl, self._ca = frozenset(names), limit, crl, credentials.ca
        self._streams: dict[str, _PartyStream] = {}
        self._replaced: dict[str, _PartyStream] = {}  # the one before: it still has a goodbye to say
        self._numbers = dict.fromkeys(names, 0)
        self._changed = Condition()
        self._bell: SimpleQueue[None] = SimpleQueue()  # rung when something came while somebody waits for it
        self._is_awaited = False
        self._closed = False
        check_not_revoked(credentials.cert, crl, credentials.ca)
        self._gate = Gate(address, len(names), turned_away)
        self.port = self._gate.port
        handler = self._grpc.stream_stream_rpc_method_handler(self._serve)
        other = self._grpc.stream_stream_rpc_method_handler(self._refuse)
        self._server = self._grpc.server(
            _Threads(),
            handlers=(self._grpc.method_handlers_generic_handler(SERVICE, {STREAM: handler}), _Any(other)),
            options=(
                ("grpc.server_handshake_timeout_ms", int(1000 * PATIENCE)),
                ("grpc.http2.min_ping_interval_without_data_ms", OFTENEST_PING),
                *KEEP_ALIVE,
                *size_options(limit),
                *HEADERS,
            ),
            maximum_concurrent_rpcs=_STREAMS_EACH * (len(names) + 1),
        )
        try:
            self._server.add_secure_port(f"unix:{self._gate.inner}", server_credentials(credentials))
        except RuntimeError:
            self._gate.close()
            raise LinkError(
                f"grpc cannot listen at {address} with this certificate; check that it is one for a server."
            ) from None
        self._server.start()
        self._gate.start()

    def connection(self, party: str) -> int:
        """The number of the party's present connection; 0 if it has none."""
        with self._changed:
            return self._present(party)

    def wait(self, party: str, seconds: float, after: int = 0) -> int:
        """Wait until the party has a connection with a number above ``after``, and give it."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._present(party) > after or self._closed, max(seconds, 0.0)):
                raise AwayError(f"'{party}' did not connect within {seconds:g} s; start it, or wait longer.", party)
            if self._closed:
                raise Broken(f"the connection to '{party}' broke: the owner closed it.", party)
            return self._present(party)

    def send(self, party: str, connection: int, data: bytes) -> None:
        """Hand a message to the stream, without waiting until it is sent."""
        check_size(data, self._limit)
        self._stream(party, connection).outgoing.put(data)

    def receive(self, party: str, connection: int, seconds: float) -> bytes:
        """The next message of this connection."""
        return self._stream(party, connection, ended=True).inbox.take(seconds)

    def first(self, connections: Mapping[str, int], seconds: float) -> str | None:
        """The first party that has something to take, if only the end of its connection; None if none has in time."""
        until, found = time.monotonic() + seconds, None
        self._is_awaited = True  # before the first look, so that nothing comes between it and the bell unheard
        try:
            while found is None and (left := until - time.monotonic()) > 0:
                found = next((party for party, number in connections.items() if self._has_come(party, number)), None)
                if found is None:
                    with suppress(Empty):
                        self._bell.get(timeout=left)
        finally:
            self._is_awaited = False
        return found

    def _has_come(self, party: str, connection: int) -> bool:
        """Whether something of this connection can be taken, or it is there no more."""
        stream = self._streams.get(party)
        return stream is None or stream.number != connection or stream.inbox.has_something

    def _ring(self) -> None:
        if self._is_awaited:
            self._bell.put(None)

    def hang_up(self, party: str, reason: str) -> None:
        """End the party's stream after what was sent before; the party reads the reason."""
        with self._changed:
            stream = self._streams.get(party)
        if stream is not None:
            stream.goodbye = stream.goodbye or reason  # the first counts: what comes after is because of it
            stream.finish(f"we hung up: {reason}")

    def close(self) -> None:
        """Hang up on all and free the port."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        for party in [*self._streams]:
            self.hang_up(party, "the owner closed the connection.")
        self._gate.refuse_more()
        self._server.stop(_CLOSING).wait(2 * _CLOSING)
        self._gate.close()

    def _present(self, party: str) -> int:
        self._check_name(party)
        stream = self._streams.get(party)
        return stream.number if stream is not None and stream.inbox.ended is None else 0

    def _check_name(self, party: str) -> None:
        if party not in self._names:
            raise LinkError(f"there is no party '{party}' on this port; there are {', '.join(sorted(self._names))}.")

    def _stream(self, party: str, connection: int, *, ended: bool = False) -> _PartyStream:
        """The stream of that number; one that ended may still have a message to take."""
        self._check_name(party)
        stream = self._streams.get(party)
        if stream is None or stream.number != connection:
            why = "another connection of it took its place." if stream is not None else "it has none."
            raise Broken(f"the connection to '{party}' broke: {why}", party)
        if stream.inbox.ended is not None and not ended:
            raise stream.inbox.broken()
        return stream

    def _serve(self, requests: Iterator[bytes], context: Any) -> Iterator[bytes]:
        """Serve one stream in a thread of its own: send the messages that are handed to it, until it ends."""
        stream = self._admit(context)
        context.send_initial_metadata((ACCEPTED,))
        Thread(target=stream.read, args=(requests,), name=f"from {stream.party}", daemon=True).start()
        while (data := stream.outgoing.get()) is not None:
            yield data
        if stream.goodbye:
            context.abort(self._grpc.StatusCode.ABORTED, stream.goodbye)

    def _refuse(self, requests: Iterator[bytes], context: Any) -> Iterator[bytes]:
        """Refuse a stream of another name, and count it for its connection."""
        self._gate.count(context.peer())
        context.abort(self._grpc.StatusCode.UNIMPLEMENTED, "an owner has one stream, of another name.")
        yield b""

    def _admit(self, context: Any) -> _PartyStream:
        """The new stream, or its refusal with a sentence that the party shows."""
        try:
            party = self._check_certificate(context.auth_context())
        except LinkError as error:
            log.warning("refused a connection from %s: %s", self._gate.address_of(context.peer()), str(error))
            context.abort(self._grpc.StatusCode.PERMISSION_DENIED, str(error))
        self._gate.count(context.peer())
        self._gate.prove(context.peer(), party)
        with self._changed:
            if self._closed:
                context.abort(self._grpc.StatusCode.UNAVAILABLE, "the owner is closing.")
            self._numbers[party] += 1
            stream, last = self._stream_of(party, context), self._streams.get(party)
            if not context.add_callback(lambda: stream.finish(GONE)):
                stream.finish(GONE)  # before it was there
            self._streams[party] = stream
            older = self._replaced.pop(party, None)
            self._replaced |= {} if last is None else {party: last}
            self._changed.notify_all()
        if older is not None:
            older.cut()  # streams that a party does not read would else take the places of the others
        if last is not None:
            last.goodbye = f"another process with the certificate of '{party}' connected and took its place."
            last.finish("another connection of it took its place.")
        return stream

    def _stream_of(self, party: str, context: Any) -> _PartyStream:
        return _PartyStream(party, self._numbers[party], context.cancel, self._ring)

    def _check_certificate(self, about: dict[str, list[bytes]]) -> str:
        """The name of the party that connected, from the certificate that TLS has checked."""
        if about.get("ssl_tls_version") != [b"TLSv1.3"]:
            raise LinkError("the connection is not TLS 1.3; use a newer TLS library.")
        pem = b"".join(about.get("x509_pem_cert", ()))
        party = common_name(pem)
        check_not_revoked(pem, self._crl, self._ca)
        if party not in self._names:
            raise LinkError(f"the owner expects no party '{party}'; check whose certificate it is, or ask the owner.")
        return party


class _Any:
    """One handler for all other service names."""

    def __init__(self, handler: Any) -> None:
        self.handler = handler

    def service(self, details: Any) -> Any:
        """The handler, as grpc asks for it."""
        return self.handler


class _Threads(Executor):
    """A thread per task. None keeps the process alive, as streams would until they time out."""

    def submit(self, work: Callable[..., Any], /, *args: Any, **named: Any) -> Future[Any]:
        """Start the work at once."""
        future: Future[Any] = Future()

        def run() -> None:
            try:
                future.set_result(work(*args, **named))
            except BaseException as error:
                future.set_exception(error)

        Thread(target=run, daemon=True).start()
        return future
