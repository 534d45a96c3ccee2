"""The owner's port against strangers: connections without any key must not use up files, memory or anybody's time."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from benchmarks.crowd import crowd

from colonnade.errors import LinkError
from colonnade.federation import port_gate as gates
from colonnade.federation.certificates import Credentials, make_keys, read_credentials
from colonnade.federation.listener import Listener
from colonnade.federation.party_connection import PartyConnection, dial
from colonnade.federation.port_gate import Gate

ROOT = Path(__file__).parents[2]
HOST, FILES = "127.0.0.1", 160
OWNER = """
import resource, sys, threading
from pathlib import Path
from queue import SimpleQueue
from benchmarks.links import bare_server, credentials_of
from colonnade.federation.listener import Listener
resource.setrlimit(resource.RLIMIT_NOFILE, (int(sys.argv[3]), int(sys.argv[3])))
mine = credentials_of(Path(sys.argv[1]), "owner")
if sys.argv[2] == "bare":
    server, port = bare_server(mine, 2, SimpleQueue())
else:
    listener = Listener("127.0.0.1:0", mine, ["bank", "mill"])
    port = listener.port
    def serve(party):
        number = 0
        while True:
            number = listener.wait(party, 60.0, after=number)
            try:
                while True:
                    listener.send(party, number, listener.receive(party, number, 60.0))
            except Exception:
                pass
    for party in ("bank", "mill"):
        threading.Thread(target=serve, args=(party,), daemon=True).start()
print(port, flush=True)
for line in sys.stdin:
    try:
        held = [open(sys.argv[1] + "/owner/cert.pem") for _ in range(20)]
        for one in held:
            one.close()
        print("well", flush=True)
    except OSError as error:
        print(error.strerror, flush=True)
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("port")
    make_keys(folder, [HOST], ["bank", "mill"])
    return folder


@contextmanager
def owner(made: Path, how: str) -> Iterator[tuple[int, subprocess.Popen[str]]]:
    command, pipe = [sys.executable, "-c", OWNER, str(made), how, str(FILES)], subprocess.PIPE
    process = subprocess.Popen(command, cwd=ROOT, stdin=pipe, stdout=pipe, stderr=pipe, text=True)
    with process:
        try:
            yield int(process.stdout.readline()), process
        finally:
            process.kill()


def is_well(process: subprocess.Popen[str]) -> str:
    process.stdin.write("?\n")
    process.stdin.flush()
    return process.stdout.readline().strip()


def mine(made: Path, name: str) -> Credentials:
    return read_credentials(*(made / name / f"{one}.pem" for one in ("cert", "key", "ca")))


def called(made: Path, port: int, name: str) -> PartyConnection:
    return dial(f"{HOST}:{port}", mine(made, name), seconds=8.0)


def test_the_attack_uses_up_the_files_of_a_bare_grpc_server(made: Path) -> None:
    """The control: without the gate, an owner has no file left for its own work."""
    with owner(made, "bare") as (port, process):
        assert is_well(process) == "well"
        with crowd(port, idle=2 * FILES):
            time.sleep(0.5)
            assert is_well(process) == "Too many open files"


def test_strangers_without_a_key_stop_nobody(made: Path) -> None:
    with owner(made, "gate") as (port, process), closing(called(made, port, "bank")) as bank:
        with crowd(port, idle=2 * FILES, half=40, dripping=40) as strangers:
            for k in range(5):
                strangers.drip()
                bank.send(b"%d" % k)
                assert bank.receive(5.0) == b"%d" % k
                strangers.come_again()
            with closing(called(made, port, "mill")) as mill:  # one that comes amid the crowd
                mill.send(b"here")
                assert mill.receive(5.0) == b"here"
            assert is_well(process) == "well"
            assert strangers.cut() > FILES
        bank.send(b"still")
        assert bank.receive(5.0) == b"still"
        process.stdin.close()
        assert "Traceback" not in process.stderr.read()


def test_who_does_not_come_to_its_point_is_cut(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gates, "PATIENCE", 0.5)
    told: list[str] = []
    listener = Listener(f"{HOST}:0", mine(made, "owner"), ["bank"], turned_away=told.append)
    with (
        closing(listener),
        crowd(listener.port, idle=3, half=3, dripping=3) as strangers,
        closing(called(made, listener.port, "bank")) as bank,
    ):
        for _ in range(8):
            strangers.drip()
            time.sleep(0.1)
        assert strangers.cut() == 9 and told == 9 * ["late"]
        bank.send(b"on")  # who has shown its certificate is under no such limit
        assert listener.receive("bank", 1, 5.0) == b"on"


def test_what_is_no_tls_or_too_long_is_cut_at_once(made: Path) -> None:
    told: list[str] = []
    listener = Listener(f"{HOST}:0", mine(made, "owner"), ["bank"], turned_away=told.append)
    with closing(listener):
        for words in (b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\xff\xff", b"\0" * 10):
            with crowd(listener.port, idle=1) as strangers:
                strangers.sockets[0][1].send(words)
                until = time.monotonic() + 3
                while not strangers.cut() and time.monotonic() < until:
                    time.sleep(0.01)
                assert strangers.cut() == 1
        assert told == 3 * ["no TLS"]


def test_a_party_cannot_pile_up_connections_either(made: Path) -> None:
    listener = Listener(f"{HOST}:0", mine(made, "owner"), ["bank"])
    with closing(listener):
        streams = [called(made, listener.port, "bank") for _ in range(gates.PROVEN_EACH + 3)]
        time.sleep(0.2)
        assert len(listener._gate._proven["bank"]) <= gates.PROVEN_EACH
        assert len(listener._gate._pipes) <= gates.PROVEN_EACH + 1
        streams[-1].send(b"the newest")
        assert listener.receive("bank", len(streams), 5.0) == b"the newest"
        for one in streams:
            one.close()


def test_a_process_without_a_file_left_waits_for_one(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """EMFILE while accepting is neither a traceback nor the end of the port."""
    gate, told = Gate(f"{HOST}:0", 1), []
    gate._count = told.append
    real, failures = gate._sockets[0], [OSError(24, "Too many open files")] * 3

    class Full:
        def __init__(self) -> None:
            self.fileno, self.close, self.setblocking = real.fileno, real.close, real.setblocking

        def accept(self) -> object:
            if failures:
                raise failures.pop()
            return real.accept()

    gate._sockets = [Full()]
    gate.start()
    with crowd(gate.port, idle=2):
        until = time.monotonic() + 5
        while len(gate._waiting) < 2 and time.monotonic() < until:
            time.sleep(0.01)
        assert not failures and len(gate._waiting) == 2
    gate.close()
    with pytest.raises(LinkError, match="does not resolve"):
        Gate("nowhere.invalid:1", 1)
