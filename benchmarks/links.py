"""What our link costs over a bare grpcio stream: milliseconds of a round with 4 parties in processes of their own.

    python -m benchmarks.links [--parties 4] [--rounds 100]

A round is a small request to every party, 0.23 MB back from each (1024 x 60 float32), 0.08 MB down to each. Both kinds
of stream have mutual TLS 1.3 and the same bytes, run over loopback, and take turns of ten rounds in one run. The bare
one has no deadline, no limit and no reconnection: the owner's thread waits for grpc itself.
"""

from __future__ import annotations

import argparse
import multiprocessing
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.table import show
from colonnade.federation.dial import dial
from colonnade.federation.keys import Credentials, make_keys, read_credentials
from colonnade.federation.listen import Listener
from colonnade.federation.tls import channel_credentials, load_grpc, server_credentials

ASK, UP, DOWN = b"?" * 100, b"u" * (1024 * 60 * 4), b"d" * 80_000
TURN = 10
WAIT = 300.0  # parties start slowly on a busy machine
PATH = "bare.Link", "Stream"


def credentials_of(folder: Path, side: str) -> Credentials:
    return read_credentials(*(folder / side / name for name in ("cert.pem", "key.pem", "ca.pem")))


def party(folder: Path, name: str, bare: int, ours: int) -> None:
    """Both ends of a party: whatever is asked over either stream is answered over it."""
    mine, grpc = credentials_of(folder, name), load_grpc()
    link = dial(f"127.0.0.1:{ours}", mine, seconds=WAIT)
    outgoing: SimpleQueue[bytes] = SimpleQueue()
    channel = grpc.secure_channel(f"127.0.0.1:{bare}", channel_credentials(mine, mine.ca))
    call = channel.stream_stream("/".join(("", *PATH)))(iter(outgoing.get, None))
    outgoing.put(b"here")
    while True:
        for receive, send in ((lambda: next(call), outgoing.put), (lambda: link.receive(WAIT), link.send)):
            for _ in range(TURN):
                if receive() != ASK:
                    return
                send(UP)
                receive()


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


End = tuple[Callable[[bytes], object], Callable[[], bytes]]


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


def measure(folder: Path, names: Sequence[str], turns: int) -> dict[str, list[float]]:
    """The times of both kinds."""
    mine, came = credentials_of(folder, "owner"), SimpleQueue[Any]()
    server, bare_port = bare_server(mine, len(names), came)
    listener = Listener("127.0.0.1:0", mine, names)
    spawn = multiprocessing.get_context("spawn")
    processes = [spawn.Process(target=party, args=(folder, name, bare_port, listener.port)) for name in names]
    for process in processes:
        process.start()
    bare = [came.get(timeout=WAIT) for _ in names]
    ends = {"bare": bare, "ours": [our_end(listener, name) for name in names]}
    times: dict[str, list[float]] = {kind: [] for kind in ends}
    for turn in range(turns + 1):
        for kind, each in ends.items():
            took = rounds(each)
            times[kind] += took if turn else []  # the first turn warms up
    for send, _ in bare:
        send(b"end")
    for process in processes:
        process.join(WAIT)
    listener.close()
    server.stop(None)
    for send, _ in bare:
        send(None)
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parties", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=200)
    options = parser.parse_args()
    names = [f"party {k}" for k in range(options.parties)]
    with TemporaryDirectory() as folder:
        make_keys(Path(folder), ["127.0.0.1"], names)
        times = measure(Path(folder), names, max(options.rounds // TURN, 1))
    floor = median(times["bare"])
    rows = [[kind, f"{median(each):.2f}", f"{median(each) / floor:.2f}"] for kind, each in times.items()]
    show(f"A round with {len(names)} parties over loopback", ["stream", "ms a round, median", "x bare"], rows)


if __name__ == "__main__":
    main()
