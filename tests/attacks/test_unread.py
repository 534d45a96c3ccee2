"""A party that opens streams and reads none of them must not take the places of the others at the owner's port."""

from __future__ import annotations

import time
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from queue import SimpleQueue
from threading import Event, Thread
from typing import Any

from colonnade.errors import ColonnadeError
from colonnade.federation.certificates import Credentials, make_keys, read_credentials
from colonnade.federation.listener import SERVICE, STREAM, Listener
from colonnade.federation.party_connection import dial
from colonnade.federation.tls import channel_credentials, load_grpc, preflight

HOST, STREAMS, LONG = "127.0.0.1", 40, bytes(8 << 20)


def mine(folder: Path, name: str) -> Credentials:
    return read_credentials(*(folder / name / f"{one}.pem" for one in ("cert", "key", "ca")))


def ask(listener: Listener, over: Event) -> None:
    """As an owner does: whenever the bank comes back, it is sent once more what it has not answered."""
    number = 0
    while not over.is_set():
        with suppress(ColonnadeError):
            number = listener.wait("bank", 0.2, after=number)
            listener.send("bank", number, LONG)


def test_streams_that_nobody_reads_leave_room_for_others(tmp_path: Path) -> None:
    make_keys(tmp_path, [HOST], ["bank", "mill"])
    over, bank, grpc, held = Event(), mine(tmp_path, "bank"), load_grpc(), []
    with closing(Listener(f"{HOST}:0", mine(tmp_path, "owner"), ["bank", "mill"])) as listener:
        Thread(target=ask, args=(listener, over), daemon=True).start()
        owner = preflight(HOST, listener.port, bank, None, 5.0)
        options = (("grpc.use_local_subchannel_pool", 1),)
        with ExitStack() as channels:
            for number in range(STREAMS):
                if number % 8 == 0:  # as many as one connection takes
                    how = channel_credentials(bank, owner)
                    channel = channels.enter_context(grpc.secure_channel(f"{HOST}:{listener.port}", how, options))
                words: SimpleQueue[Any] = SimpleQueue()
                held.append((words, channel.stream_stream(f"/{SERVICE}/{STREAM}")(iter(words.get, None))))
                time.sleep(0.03)
            assert listener.connection("bank") > STREAMS // 2  # each takes the place of the one before
            with closing(dial(f"{HOST}:{listener.port}", mine(tmp_path, "mill"), seconds=3.0)) as mill:
                mill.send(b"here")
                assert listener.receive("mill", 1, 5.0) == b"here"
            over.set()
            for words, call in held:
                words.put(None)
                call.cancel()
