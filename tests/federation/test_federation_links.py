"""The links of a federation over real sockets: what travels, what breaks, who is kept out, each with its sentence."""

from __future__ import annotations

import os
import shutil
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key
from test_federation_keys import refusal, reissue

from colonnade.errors import AwayError, Broken, LinkError, UnreachableError
from colonnade.federation import listener as listening
from colonnade.federation import party_connection as dialling
from colonnade.federation import tls
from colonnade.federation.certificates import Credentials, make_keys, read_credentials, revoke
from colonnade.federation.inbox import ROOM, Inbox
from colonnade.federation.listener import KEEP_ALIVE, Listener
from colonnade.federation.party_connection import PartyConnection, dial
from colonnade.federation.tls import client_context, load_grpc, preflight, split_address

HOST = "127.0.0.1"
SOON = 5.0  # more than enough on a busy machine; nothing here waits so long unless it fails


def credentials(folder: Path, side: str) -> Credentials:
    return read_credentials(*(folder / side / f"{name}.pem" for name in ("cert", "key", "ca")))


def unchecked(folder: Path, side: str, ca: bytes | None = None) -> Credentials:
    """What a liar or a wrong clock would come with."""
    cert, key, own = ((folder / side / f"{name}.pem").read_bytes() for name in ("cert", "key", "ca"))
    return Credentials(cert, key, ca or own)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("links")
    make_keys(folder, [HOST, "localhost"], ["bank", "Kreditbüro 2", "mill"])
    return folder


@pytest.fixture
def trial(made: Path, tmp_path: Path) -> Path:
    """A copy to spoil."""
    return Path(shutil.copytree(made, tmp_path / "trial"))


@pytest.fixture
def other(tmp_path: Path) -> Path:
    """The same sides under another CA."""
    make_keys(tmp_path / "other", [HOST], ["bank"])
    return tmp_path / "other"


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tls, "_PAUSE", 0.01)


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def listen(made: Path, stack: ExitStack) -> Callable[..., Listener]:
    def start(
        mine: Credentials | None = None, names: tuple[str, ...] = ("bank", "Kreditbüro 2"), **options
    ) -> Listener:
        return stack.enter_context(closing(Listener(f"{HOST}:0", mine or credentials(made, "owner"), names, **options)))

    return start


@pytest.fixture
def call(made: Path, stack: ExitStack) -> Callable[..., PartyConnection]:
    def start(port: int, side: str | Credentials = "bank", seconds: float = SOON, **options) -> PartyConnection:
        mine = credentials(made, side) if isinstance(side, str) else side
        return stack.enter_context(closing(dial(f"{HOST}:{port}", mine, seconds=seconds, **options)))

    return start


def broken(work: Callable[[], object]) -> Broken:
    with pytest.raises(Broken) as caught:
        work()
    assert str(caught.value).endswith(".")
    return caught.value


# What travels


def test_a_round_trip_with_two_parties(listen, call) -> None:
    listener = listen()
    streams = {name: call(listener.port, name) for name in ("bank", "Kreditbüro 2")}
    numbers = {name: listener.wait(name, SOON) for name in streams}
    for name, stream in streams.items():
        for data in (b"first", b"", bytes(range(256))):
            listener.send(name, numbers[name], name.encode() + data)
            assert stream.receive(SOON) == name.encode() + data
            stream.send(data)
            assert listener.receive(name, numbers[name], SOON) == data
    assert [listener.connection(name) for name in streams] == [1, 1]


def test_large_messages_and_many(listen, call) -> None:
    listener = listen()
    stream, large = call(listener.port), os.urandom(20 << 20)
    listener.send("bank", 1, large)
    assert stream.receive(SOON) == large
    stream.send(large)
    for k in range(50):
        stream.send(str(k).encode())
    assert listener.receive("bank", 1, SOON) == large
    assert [listener.receive("bank", 1, SOON) for _ in range(50)] == [str(k).encode() for k in range(50)]


def test_what_was_sent_before_the_end_arrives(listen, call) -> None:
    listener = listen()
    stream = call(listener.port)
    for data in (b"1", b"2", b"3"):
        stream.send(data)
    stream.close()
    assert [listener.receive("bank", 1, SOON) for _ in range(3)] == [b"1", b"2", b"3"]
    assert "hung up" in str(broken(lambda: listener.receive("bank", 1, SOON)))
    assert listener.connection("bank") == 0
    stream = call(listener.port)
    listener.send("bank", listener.wait("bank", SOON, after=1), b"last")
    listener.hang_up("bank", "the run has ended.")
    assert stream.receive(SOON) == b"last"
    error = broken(lambda: stream.receive(SOON))
    assert (error.party, error.said) == ("owner", "the run has ended.")
    assert "the run has ended" in str(broken(lambda: stream.send(b"more")))


def test_the_limit_holds_at_both_ends(listen, call) -> None:
    listener = listen(limit=1000)
    stream = call(listener.port, limit=1000)
    for send in (stream.send, lambda data: listener.send("bank", 1, data)):
        send(b"x" * 1000)
        assert "over the limit" in refusal(lambda send=send: send(b"x" * 1001))
    assert len(stream.receive(SOON)) == len(listener.receive("bank", 1, SOON)) == 1000
    liar = call(listener.port, limit=1 << 20)
    number = listener.wait("bank", SOON, after=1)
    liar.send(b"x" * 1001)
    broken(lambda: listener.receive("bank", number, SOON))
    assert "larger than max" in str(broken(lambda: liar.receive(SOON)))
    again = call(listener.port, limit=1000)
    again.send(b"well")
    assert listener.receive("bank", listener.wait("bank", SOON, after=number), SOON) == b"well"


def test_a_mailbox_holds_a_flood_back() -> None:
    box, came = Inbox("bank"), []

    def fill() -> None:
        for k in range(4):
            box.put(bytes(ROOM))
            came.append(k)

    thread = threading.Thread(target=fill)
    thread.start()
    thread.join(0.1)
    assert thread.is_alive() and came == []  # one is there, and the next is not even read
    assert len(box.take(SOON)) == ROOM
    box.end("enough.")
    thread.join(SOON)
    assert not thread.is_alive()


def test_whoever_answers_first_is_served_first(listen, call) -> None:
    listener, names = listen(), ("bank", "Kreditbüro 2")
    slow, quick = (call(listener.port, name) for name in names)
    numbers = {name: listener.wait(name, SOON) for name in names}
    assert listener.first(numbers, 0.01) is None
    quick.send(b"here")
    assert listener.first(numbers, SOON) == "Kreditbüro 2"
    waiting = threading.Timer(0.05, lambda: slow.send(b"here, too"))
    assert listener.receive("Kreditbüro 2", numbers["Kreditbüro 2"], SOON) == b"here"
    waiting.start()
    assert listener.first(numbers, SOON) == "bank"
    assert listener.receive("bank", numbers["bank"], SOON) == b"here, too"
    quick.close()
    assert listener.first(numbers, SOON) == "Kreditbüro 2"
    assert listener.first({**numbers, "bank": 7}, SOON) == "bank", "that connection is not there any more"


# What breaks


def test_a_new_connection_replaces_the_last(listen, call) -> None:
    listener = listen()
    first = call(listener.port)
    assert listener.wait("bank", SOON) == 1
    waiting = threading.Thread(target=lambda: broken(lambda: listener.receive("bank", 1, SOON)))
    waiting.start()
    second = call(listener.port)
    assert listener.wait("bank", SOON, after=1) == 2
    waiting.join(1.0)
    assert not waiting.is_alive()
    assert "took its place" in broken(lambda: first.receive(SOON)).said
    assert "took its place" in str(broken(lambda: listener.send("bank", 1, b"")))
    assert "took its place" in str(broken(lambda: listener.receive("bank", 1, SOON)))
    listener.send("bank", 2, b"for the second")
    assert second.receive(SOON) == b"for the second"


def test_deadlines_name_who_is_absent(listen, call) -> None:
    listener = listen()
    with pytest.raises(AwayError, match="'bank' did not connect") as absent:
        listener.wait("bank", 0.05)
    assert absent.value.party == "bank"
    stream = call(listener.port)
    with pytest.raises(AwayError, match="'bank' sent nothing") as absent:
        listener.receive("bank", 1, 0.05)
    assert absent.value.party == "bank"
    with pytest.raises(AwayError) as absent:
        stream.receive(0.05)
    assert absent.value.party == "owner"
    with pytest.raises(AwayError):
        listener.wait("bank", 0.05, after=1)
    stream.send(b"late")  # a deadline breaks nothing
    assert listener.receive("bank", 1, SOON) == b"late"
    assert "no party 'mill'" in refusal(lambda: listener.connection("mill"))


def test_closing_is_quick_and_said(listen, call) -> None:
    listener = listen()
    stream, silent = call(listener.port), call(listener.port, "Kreditbüro 2")
    waiting = threading.Thread(target=lambda: broken(lambda: listener.wait("bank", SOON, after=1)))
    waiting.start()
    for _ in range(3):
        silent.send(bytes(ROOM))  # which nobody takes
    began = time.monotonic()
    listener.close()
    assert time.monotonic() - began < 1.0
    waiting.join(1.0)
    assert not waiting.is_alive()
    assert broken(lambda: stream.receive(SOON)).said == "the owner closed the connection."
    began = time.monotonic()
    silent.close()
    assert time.monotonic() - began < 1.0


class Wire:
    """A TCP relay that can be cut, or swallow all that comes as a dead network does."""

    swallows = False

    def __init__(self, port: int) -> None:
        self._to, self._ends = port, []
        self._door = socket.create_server((HOST, 0))
        self.port = self._door.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                pair = self._door.accept()[0], socket.create_connection((HOST, self._to))
                self._ends += pair
                for one, two in (pair, pair[::-1]):
                    threading.Thread(target=self._relay, args=(one, two), daemon=True).start()

    def _relay(self, source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(1 << 16):
                if not self.swallows:
                    sink.sendall(data)
            if not self.swallows:
                sink.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        for end in self._ends:
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()
        self._door.close()


def test_a_cut_wire_is_noticed_at_both_ends_and_dialled_again(listen, call, stack) -> None:
    listener = listen()
    wire = stack.enter_context(closing(Wire(listener.port)))
    stream = call(wire.port)
    number = listener.wait("bank", SOON)
    stream.send(b"through the wire")
    assert listener.receive("bank", number, SOON) == b"through the wire"
    wire.close()
    assert broken(lambda: listener.receive("bank", number, SOON)).party == "bank"
    error = broken(lambda: stream.receive(SOON))
    assert (error.party, error.said) == ("owner", "")
    call(listener.port).send(b"again")
    assert listener.receive("bank", listener.wait("bank", SOON, after=number), SOON) == b"again"


def test_a_network_that_died_without_a_word_is_noticed(listen, call, stack, monkeypatch: pytest.MonkeyPatch) -> None:
    faster = [(name, 300 if name.endswith("_ms") else value) for name, value in KEEP_ALIVE]
    for module in (listening, dialling):
        monkeypatch.setattr(module, "KEEP_ALIVE", faster)
    listener = listen()
    wire = stack.enter_context(closing(Wire(listener.port)))
    stream = call(wire.port)
    number = listener.wait("bank", SOON)
    wire.swallows = True
    broken(lambda: listener.receive("bank", number, SOON))
    assert "timeout" in str(broken(lambda: stream.receive(SOON)))
    assert listener.connection("bank") == 0


def test_an_owner_that_starts_late_is_waited_for(made: Path, call, stack) -> None:
    with socket.create_server((HOST, 0)) as taken:
        port = taken.getsockname()[1]
    started = []

    def later() -> None:
        listener = Listener(f"{HOST}:{port}", credentials(made, "owner"), ["bank"])
        stack.callback(listener.close)
        started.append(listener)

    timer = threading.Timer(0.25, later)
    timer.start()
    call(port).send(b"at last")
    timer.join()
    assert started[0].receive("bank", started[0].wait("bank", SOON), SOON) == b"at last"


# Who is kept out


def test_a_certificate_speaks_for_its_own_party_only(listen, call) -> None:
    listener = listen()
    call(listener.port, "Kreditbüro 2").send(b"I am the bank")
    assert listener.wait("Kreditbüro 2", SOON) == 1
    assert listener.connection("bank") == 0


def test_a_name_that_is_not_expected(listen, call) -> None:
    sentence = refusal(lambda: call(listen().port, "mill"))
    assert "refused" in sentence and "expects no party 'mill'" in sentence


@pytest.mark.parametrize("side", ["bank", "owner"])
def test_a_revoked_party_and_a_revoked_owner(listen, call, trial: Path, side: str) -> None:
    crl = revoke(trial, side)
    if side == "bank":
        assert "'bank' was revoked" in refusal(lambda: call(listen(crl=crl).port))
        call(listen(crl=crl).port, "Kreditbüro 2", crl=crl)
    else:
        assert "'owner' was revoked" in refusal(lambda: call(listen().port, crl=crl))
        assert "'owner' was revoked" in refusal(lambda: listen(crl=crl))


def test_a_party_is_revoked_while_the_owner_listens(listen, call, trial: Path) -> None:
    listener = listen(crl=revoke(trial, "mill"))
    call(listener.port)
    revoke(trial, "bank")
    assert "'bank' was revoked" in refusal(lambda: call(listener.port))


def self_signed(mine: Credentials) -> Credentials:
    """The same certificate, signed by its own key."""
    old = x509.load_pem_x509_certificate(mine.cert)
    builder = x509.CertificateBuilder(old.subject, old.subject, old.public_key(), old.serial_number)
    builder = builder.not_valid_before(old.not_valid_before_utc).not_valid_after(old.not_valid_after_utc)
    for extension in old.extensions:
        if not isinstance(extension.value, x509.AuthorityKeyIdentifier):
            builder = builder.add_extension(extension.value, extension.critical)
    certificate = builder.sign(load_pem_private_key(mine.key, None), SHA256())
    return replace(mine, cert=certificate.public_bytes(Encoding.PEM))


def lied(kind: str, folder: Path, other: Path, side: str) -> Credentials:
    """Credentials of a side that the rest must refuse."""
    if kind == "another CA":
        return unchecked(other, side, (folder / "ca.pem").read_bytes())
    if kind == "self-signed":
        return self_signed(unchecked(folder, side))
    days = {"expired": (-2, -1), "not yet valid": (1, 2)}[kind]
    reissue(folder, side, timedelta(days=days[0]), timedelta(days=days[1]))
    return unchecked(folder, side)


@pytest.mark.parametrize("kind", ["another CA", "self-signed", "expired", "not yet valid"])
def test_a_party_with_a_wrong_certificate(listen, call, trial: Path, other: Path, kind: str) -> None:
    listener = listen()
    sentence = refusal(lambda: call(listener.port, lied(kind, trial, other, "bank")))
    assert "hung up on our certificate" in sentence
    assert listener.connection("bank") == 0


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("another CA", "issued by another CA"),
        ("self-signed", "self-signed"),
        ("expired", "has expired"),
        ("not yet valid", "check the clocks"),
    ],
)
def test_an_owner_with_a_wrong_certificate(listen, call, trial: Path, other: Path, kind: str, words: str) -> None:
    listener = listen(lied(kind, trial, other, "owner"))
    began = time.monotonic()
    sentence = refusal(lambda: call(listener.port))
    assert "certificate of the owner" in sentence and words in sentence
    assert time.monotonic() - began < 2.0  # at once, and not when the time is over


def test_a_party_cannot_pose_as_the_owner(listen, call, made: Path) -> None:
    assert "not one for a server" in refusal(lambda: call(listen(credentials(made, "mill")).port))


def test_the_owner_cannot_be_a_party(listen, call, made: Path) -> None:
    assert "hung up on our certificate" in refusal(
        lambda: call(listen(names=("owner",)).port, credentials(made, "owner"))
    )


def test_an_owner_of_another_host(made: Path, tmp_path: Path, listen, call) -> None:
    shutil.copy(made / "ca.pem", tmp_path)
    shutil.copy(made / "ca.key", tmp_path)
    make_keys(tmp_path, ["elsewhere.example", "10.9.8.7"], ["x"])
    listener = listen(credentials(tmp_path, "owner"))
    assert "another address" in refusal(lambda: call(listener.port))
    mine = credentials(made, "bank")
    assert "another host name" in refusal(lambda: dial(f"localhost:{listener.port}", mine, seconds=SOON))


def test_grpc_believes_only_the_certificate_that_was_checked(made: Path, tmp_path: Path, listen, stack) -> None:
    """So nobody can let the check pass to the owner and take the call with a revoked certificate of the same CA."""
    shutil.copy(made / "ca.pem", tmp_path)
    shutil.copy(made / "ca.key", tmp_path)
    make_keys(tmp_path, [HOST], ["x"])
    checked = (tmp_path / "owner/cert.pem").read_bytes()
    mine, listener = credentials(made, "bank"), listen()
    stream = stack.enter_context(closing(PartyConnection(f"{HOST}:{listener.port}", mine, checked, 1000)))
    assert "CERTIFICATE_VERIFY_FAILED" in str(broken(lambda: stream.receive(SOON)))
    assert listener.connection("bank") == 0


# TLS


def knock(port: int, context: ssl.SSLContext) -> bytes:
    """The first byte that the owner says to a TLS client; none if it hangs up."""
    plain = socket.create_connection((HOST, port), timeout=SOON)
    with plain, context.wrap_socket(plain, server_hostname=HOST) as link:
        return link.recv(1)


def test_old_tls_is_refused_and_new_taken(listen, made: Path) -> None:
    port, context = listen().port, client_context(credentials(made, "bank"))
    assert knock(port, context)
    context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_2
    with pytest.raises(OSError, match=r"(?i)handshake|eof|reset"):
        knock(port, context)


@pytest.mark.skipif(shutil.which("openssl") is None, reason="there is no openssl")
def test_openssl_gets_in_with_tls_1_3_only(listen, made: Path) -> None:
    port, bank = listen().port, made / "bank"

    def shown(version: str) -> str:
        command = [
            "openssl",
            "s_client",
            version,
            "-connect",
            f"{HOST}:{port}",
            "-alpn",
            "h2",
            "-CAfile",
            bank / "ca.pem",
        ]
        command += ["-cert", bank / "cert.pem", "-key", bank / "key.pem"]
        return subprocess.run(command, input=b"", capture_output=True, check=False).stdout.decode("ascii", "replace")

    assert "New, TLSv1.3, Cipher is TLS_" in shown("-tls1_3")
    assert "Cipher is (NONE)" in shown("-tls1_2")


def test_a_client_without_a_certificate_is_refused(listen, made: Path) -> None:
    context = ssl.create_default_context(cafile=made / "ca.pem")
    context.set_alpn_protocols(["h2"])
    with suppress(ConnectionResetError):
        assert knock(listen().port, context) == b""


@pytest.mark.long
def test_the_ban_on_old_tls_is_our_own(made: Path) -> None:
    """The other tests' environment has it already, so a fresh process shows that nobody needs to set it."""
    code = """
import sys
sys.path[:0] = ["tests", "tests/federation"]
from pathlib import Path
from test_federation_links import *
made = Path(sys.argv[1])
listener = Listener(f"{HOST}:0", credentials(made, "owner"), ["bank"])
context = client_context(credentials(made, "bank"))
assert knock(listener.port, context)
context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_2
try:
    knock(listener.port, context)
except OSError:
    print("refused")
"""  # and it leaves without close(): no thread may keep it alive
    environment = {key: value for key, value in os.environ.items() if key != tls.CIPHERS}
    done = subprocess.run(
        [sys.executable, "-c", code, made],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
        cwd=Path(__file__).parents[2],
        timeout=60,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "refused\n", "")


def test_grpc_that_came_too_early_or_not_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    load_grpc()
    with monkeypatch.context() as patch:
        patch.delenv(tls.CIPHERS)
        assert "imported before" in refusal(load_grpc)
    monkeypatch.setitem(sys.modules, "grpc", None)
    assert "colonnade[federation]" in refusal(load_grpc)


def answering(stack: ExitStack, answer: Callable[[socket.socket], None]) -> int:
    """The port of a server that is no owner."""
    door = stack.enter_context(socket.create_server((HOST, 0)))

    def serve() -> None:
        with suppress(OSError), door.accept()[0] as guest:
            answer(guest)

    threading.Thread(target=serve, daemon=True).start()
    return door.getsockname()[1]


def test_what_is_no_tls(stack, made: Path) -> None:
    def greet(guest: socket.socket) -> None:
        guest.recv(4096)
        guest.sendall(b"SSH-2.0-something else\r\n")

    port = answering(stack, greet)
    assert "does not speak TLS" in refusal(lambda: preflight(HOST, port, credentials(made, "bank")))


@pytest.mark.parametrize(("version", "words"), [("TLSv1_2", "older than 1.3"), ("TLSv1_3", "but not gRPC")])
def test_tls_that_is_old_or_no_owner(stack, made: Path, version: str, words: str) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(made / "owner/cert.pem", made / "owner/key.pem")
    context.maximum_version = ssl.TLSVersion[version]
    port = answering(stack, lambda guest: context.wrap_socket(guest, server_side=True).close())
    assert words in refusal(lambda: preflight(HOST, port, credentials(made, "bank")))


def test_one_that_accepts_and_says_nothing(stack, made: Path) -> None:
    door = stack.enter_context(socket.create_server((HOST, 0)))
    with pytest.raises(UnreachableError, match="answers no TLS"):
        preflight(HOST, door.getsockname()[1], credentials(made, "bank"), seconds=0.1)


# Addresses


def test_nobody_listens_and_names_that_do_not_resolve(made: Path) -> None:
    mine = credentials(made, "bank")
    with socket.create_server((HOST, 0)) as taken:
        port = taken.getsockname()[1]
    began = time.monotonic()
    assert "nobody listens" in refusal(lambda: dial(f"{HOST}:{port}", mine, seconds=0.3))
    assert 0.1 <= time.monotonic() - began < 2.0
    assert "does not resolve" in refusal(lambda: dial("no-such-host.invalid:8443", mine, seconds=0.1))


def test_a_port_that_is_taken(listen, made: Path) -> None:
    taken = listen().port
    sentence = refusal(lambda: Listener(f"{HOST}:{taken}", credentials(made, "owner"), ["bank"]))
    assert f"port {taken}" in sentence and "in use" in sentence


@pytest.mark.parametrize("address", ["localhost", "localhost:", ":8443", "a:b", "::1:8443", "localhost:70000", "a:-1"])
def test_addresses_that_are_none(made: Path, address: str) -> None:
    assert "is no address" in refusal(lambda: split_address(address))
    assert "is no address" in refusal(lambda: dial(address, credentials(made, "bank"), seconds=0.1))


def test_an_address_of_another_machine(made: Path) -> None:
    assert "cannot be listened at" in refusal(lambda: Listener("192.0.2.1:0", credentials(made, "owner"), ["bank"]))
    sentence = refusal(lambda: Listener("no-such-host.invalid:0", credentials(made, "owner"), ["bank"]))
    assert "does not resolve" in sentence


def test_what_the_other_side_says_is_fit_for_a_terminal(listen, call) -> None:
    listener = listen()
    stream = call(listener.port)
    listener.wait("bank", SOON)
    listener.hang_up("bank", "\x1b[31mred\nlines.")
    assert broken(lambda: stream.receive(SOON)).said == "?[31mred?lines."


def test_a_key_is_not_left_behind(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    original = ssl.SSLContext.load_cert_chain

    def spy(self: ssl.SSLContext, path: Path, **options) -> None:
        seen.append((path, path.read_bytes()))
        original(self, path, **options)

    monkeypatch.setattr(ssl.SSLContext, "load_cert_chain", spy)
    client_context(replace(credentials(made, "bank")))
    ((path, raw),) = seen
    assert b"ENCRYPTED PRIVATE KEY" in raw and not path.exists()


def test_dial_gives_up_on_an_owner_that_never_takes_the_call(listen, call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dialling, "_ANSWER", 0.2)
    monkeypatch.setattr(PartyConnection, "_messages", lambda self: iter(self._call))  # as if the first word never came
    with pytest.raises(UnreachableError, match="did not take the call"):
        call(listen().port, seconds=0.1)


def test_errors_are_of_one_tree() -> None:
    assert issubclass(Broken, LinkError) and issubclass(UnreachableError, LinkError)


def test_who_waits_for_the_owner_says_so_once(made: Path, caplog: pytest.LogCaptureFixture) -> None:
    with socket.create_server((HOST, 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(UnreachableError):
        dial(f"{HOST}:{port}", credentials(made, "bank"), seconds=1.0)
    (said,) = caplog.messages
    assert said.startswith(f"nobody listens at {HOST}:{port};") and "It is tried again" in said
