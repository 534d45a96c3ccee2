"""What our link costs over a bare grpcio stream: milliseconds of a round with 4 parties in processes of their own.

    python -m benchmarks.links [--parties 4] [--rounds 100]

A round is a small request to every party, 0.23 MB back from each (1024 x 60 float32), 0.08 MB down to each. Both kinds
of stream have mutual TLS 1.3 and the same bytes, run over loopback, and take turns of ten rounds in one run. The bare
one has no deadline, no limit and no reconnection: the owner's thread waits for grpc itself. A third kind shows what
grpc costs: Python's own TLS sockets, with a length before every message and nothing else.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import socket
import ssl
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from operator import neg
from pathlib import Path
from queue import SimpleQueue
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.table import show
from colonnade.federation.certificates import Credentials, make_keys, read_credentials
from colonnade.federation.listener import Listener
from colonnade.federation.party_connection import dial
from colonnade.federation.tls import channel_credentials, client_context, load_grpc, server_credentials

ASK, UP, DOWN = b"?" * 100, b"u" * (1024 * 60 * 4), b"d" * 80_000
TURN = 10
WAIT = 300.0  # parties start slowly on a busy machine
PATH = "bare.Link", "Stream"
End = tuple[Callable[[bytes], object], Callable[[], bytes | bytearray]]


def credentials_of(folder: Path, side: str) -> Credentials:
    return read_credentials(*(folder / side / name for name in ("cert.pem", "key.pem", "ca.pem")))


def bare_call(folder: Path, name: str, port: int) -> End:
    """A party's end of a bare stream."""
    mine, grpc, outgoing = credentials_of(folder, name), load_grpc(), SimpleQueue[bytes]()
    channel = grpc.secure_channel(f"127.0.0.1:{port}", channel_credentials(mine, mine.ca))
    call = channel.stream_stream("/".join(("", *PATH)))(iter(outgoing.get, None))
    outgoing.put(b"here")
    return outgoing.put, call.__next__


def answer_bare(end: End) -> bool:
    """A party's side of one turn over a bare stream; whether there will be another."""
    send, receive = end
    for _ in range(TURN):
        if receive() != ASK:
            return False
        send(UP)
        receive()
    return True


def socket_end(link: ssl.SSLSocket) -> End:
    """An end of a TLS socket without grpc."""
    link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def exactly(count: int) -> bytearray:
        came = bytearray(count)
        at, rest = 0, memoryview(came)
        while at < count:
            at += link.recv_into(rest[at:])
        return came

    def receive() -> bytearray:
        return exactly(int.from_bytes(exactly(4), "little"))

    return (lambda data: link.sendall(len(data).to_bytes(4, "little") + data)), receive


def party(folder: Path, name: str, bare: int, ours: int, sockets: int) -> None:
    """A party's end of each kind: whatever is asked over one is answered over it."""
    mine, plain = credentials_of(folder, name), bare_call(folder, name, bare)
    link = dial(f"127.0.0.1:{ours}", mine, seconds=WAIT)
    near = socket.create_connection(("127.0.0.1", sockets))
    raw = socket_end(client_context(mine).wrap_socket(near, server_hostname="127.0.0.1"))
    ours_end: End = link.send, lambda: link.receive(WAIT)
    while answer_bare(plain) and answer_bare(ours_end) and answer_bare(raw):
        pass


def bare_server(credentials: Credentials, parties: int, came: SimpleQueue[Any]) -> tuple[Any, int]:
    """The plainest server of one stream per party; each gives its two ends to ``came``."""
    grpc = load_grpc()

    def serve(requests: Iterator[bytes], _: Any) -> Iterator[bytes]:
        outgoing: SimpleQueue[bytes] = SimpleQueue()
        next(requests)
        came.put((outgoing.put, requests.__next__))
        yield from iter(outgoing.get, None)

    handler = grpc.method_handlers_generic_handler(PATH[0], {PATH[1]: grpc.stream_stream_rpc_method_handler(serve)})
    server = grpc.server(ThreadPoolExecutor(parties), handlers=(handler,))
    port = server.add_secure_port("127.0.0.1:0", server_credentials(credentials))
    server.start()
    return server, port


@dataclass(frozen=True)
class Bare:
    """The owner's ends of bare streams, and the processes at the others."""

    ends: Sequence[End]
    pids: Sequence[int]


@contextmanager
def bare_streams(folder: Path, names: Sequence[str], party: Callable[..., None], *more: Any) -> Iterator[Bare]:
    """Start ``party(folder, name, port, *more)`` in a process for each name, and give a bare stream to each."""
    came, spawn = SimpleQueue[Any](), multiprocessing.get_context("spawn")
    server, port = bare_server(credentials_of(folder, "owner"), len(names), came)
    processes = [spawn.Process(target=party, args=(folder, name, port, *more)) for name in names]
    for process in processes:
        process.start()
    ends: list[End] = [came.get(timeout=WAIT) for _ in names]
    yield Bare(ends, [os.getpid(), *(process.pid or 0 for process in processes)])
    for send, _ in ends:
        send(b"end")
    for process in processes:
        process.join(WAIT)
    server.stop(None)
    for send, _ in ends:
        send(None)  # type: ignore[arg-type]


def socket_server(folder: Path) -> tuple[socket.socket, ssl.SSLContext]:
    """What TLS sockets are accepted with."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version, context.verify_mode = ssl.TLSVersion.TLSv1_3, ssl.CERT_REQUIRED
    context.load_verify_locations(folder / "owner" / "ca.pem")
    context.load_cert_chain(folder / "owner" / "cert.pem", folder / "owner" / "key.pem")
    return socket.create_server(("127.0.0.1", 0)), context


def our_end(listener: Listener, name: str) -> End:
    number = listener.wait(name, WAIT)
    return (lambda data: listener.send(name, number, data)), (lambda: listener.receive(name, number, WAIT))


def rounds(ends: Sequence[End]) -> list[float]:
    """Milliseconds of each round of a turn."""
    times = []
    for _ in range(TURN):
        began = time.perf_counter()
        for send, _receive in ends:
            send(ASK)
        for _send, receive in ends:
            if len(receive()) != len(UP):
                raise SystemExit("a party sent something else")
        for send, _receive in ends:
            send(DOWN)
        times.append(1000 * (time.perf_counter() - began))
    return times


WHOSE = ("owner, own thread", "owner, the others", "parties, own threads", "parties, the others")


def cpu_by_thread(pids: Sequence[int]) -> list[float]:
    """CPU seconds of threads that live, to the nanosecond: those of WHOSE. The first process is the owner's."""
    spent = [0.0] * len(WHOSE)
    for pid in pids:
        for task in Path(f"/proc/{pid}/task").glob("*/schedstat"):
            of = 2 * (pid != pids[0]) + (task.parent.name != str(pid))
            spent[of] += int(task.read_text().split()[0]) / 1e9
    return spent


def cpu_of(pids: Sequence[int]) -> float:
    """CPU seconds of some processes."""
    return sum(cpu_by_thread(pids))


def compare(title: str, kinds: Mapping[str, Callable[[], list[float]]], turns: int, pids: Sequence[int]) -> None:
    """Let kinds of lines take turns, and show what a round takes with each; the first kind is the measure."""
    times: dict[str, list[float]] = {kind: [] for kind in kinds}
    parts = {kind: [0.0] * len(WHOSE) for kind in kinds}
    for turn in range(turns + 1):
        for kind, rounds_of in kinds.items():
            before, took, after = cpu_by_thread(pids), rounds_of(), cpu_by_thread(pids)
            if turn:  # the first turn warms up
                times[kind] += took
                parts[kind] = [sum(three) for three in zip(parts[kind], after, map(neg, before), strict=True)]
    measure, spent = next(iter(kinds)), {kind: sum(part) for kind, part in parts.items()}
    rows = [
        [
            kind,
            f"{median(times[kind]):.2f}",
            f"{median(times[kind]) / median(times[measure]):.2f}",
            f"{1000 * spent[kind] / turns / TURN:.2f}",
            f"{spent[kind] / spent[measure]:.2f}",
        ]
        for kind in kinds
    ]
    show(title, ["a round", "ms, median", "x bare", "CPU ms, all processes", "x bare"], rows)
    split = [[kind, *(f"{1000 * part / turns / TURN:.2f}" for part in parts[kind])] for kind in kinds]
    show("CPU ms of a round, by whose threads they are", ["", *WHOSE], split)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parties", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=200)
    options = parser.parse_args()
    names = [f"party {k}" for k in range(options.parties)]
    with TemporaryDirectory() as place:
        folder = Path(place)
        make_keys(folder, ["127.0.0.1"], names)
        listener = Listener("127.0.0.1:0", credentials_of(folder, "owner"), names)
        server, context = socket_server(folder)
        with bare_streams(folder, names, party, listener.port, server.getsockname()[1]) as bare:
            ours = [our_end(listener, name) for name in names]
            raw = [socket_end(context.wrap_socket(server.accept()[0], server_side=True)) for _ in names]
            kinds = {
                "bare stream": lambda: rounds(bare.ends),
                "our link": lambda: rounds(ours),
                "TLS sockets without grpc": lambda: rounds(raw),
            }
            title = f"A round with {len(names)} parties over loopback"
            compare(title, kinds, max(options.rounds // TURN, 1), bare.pids)
        listener.close()


if __name__ == "__main__":
    main()
