"""What a federation costs: a round against a bare stream, training against one process, the socket against the ledger.

    python -m benchmarks.federation round      4 parties, 0.23 MB up and 0.08 MB down each, against a bare grpcio stream
    python -m benchmarks.federation train      VIMADMM on MNIST: CPU of all processes against the loop runtime
    python -m benchmarks.federation            both

``round``: requests, seals' place, schema checks, ledger and audit logs at both sides are ours, and so are the steps of
a method that computes nothing: rows of the turn, a seed, an array of zeros at each party. The bare stream has none of
that: its parties send a constant, and nobody looks at what came. Both take turns of ten rounds in one run. ``train``: 4
parties with 196 pixels each as Parquet files; CPU seconds are those between the first round and the last but one, of
all processes; bytes on the socket are counted by a relay between the parties and the owner, in a run of its own.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import multiprocessing
import os
import socket
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from threading import Thread
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

import colonnade as cn
from benchmarks.links import (
    DOWN,
    TURN,
    UP,
    WAIT,
    answer_bare,
    bare_call,
    bare_streams,
    compare,
    cpu_of,
    credentials_of,
)
from benchmarks.links import rounds as bare_rounds
from benchmarks.table import show
from colonnade.core.method import Method, Mine, Owner, Parties, Turn, party_step
from colonnade.core.optim import SGD
from colonnade.core.settings import Settings
from colonnade.core.table import Table
from colonnade.core.task import Classes
from colonnade.federation.audit_log import AuditLog
from colonnade.federation.certificates import make_keys, read_identity
from colonnade.federation.hello import hello_of
from colonnade.federation.listener import Listener
from colonnade.federation.owner_process import OwnerProcess
from colonnade.federation.owner_transport import Connections, OwnerRecords, OwnerTransport
from colonnade.federation.party_connection import dial
from colonnade.federation.party_process import PartyProcess
from colonnade.federation.prometheus import Metrics
from colonnade.federation.public_keys import read_public
from colonnade.federation.side_files import read_owner_file, read_party_file
from colonnade.federation.side_sections import OwnerFile
from colonnade.federation.status_file import StatusFile
from colonnade.jobs.job_file import TrainSection
from colonnade.jobs.run_job import train_job
from colonnade.jobs.table_sections import AlignSection, Files, PartySection, PrepareSection
from colonnade.methods.steps import Embedding, Gradient
from colonnade.models import default_model
from colonnade.runtime.parties import AllParties
from colonnade.runtime.remote.packet import read_packet, write_packet
from colonnade.runtime.remote.party_server import PartyServer, PartySpec
from colonnade.runtime.remote.remote_setup import RemoteSetup
from colonnade.runtime.schema import ROWS, Schema
from colonnade.runtime.setup import remote_parties
from colonnade.seal import Seals
from colonnade.signatures import Identity
from colonnade.wire.ends import Ends
from colonnade.wire.owner_half import OwnerHalf

BATCH, WIDTH, BACK = 1024, 60, 20


@dataclass(frozen=True, kw_only=True)
class Echo(Method):
    """Sends as many bytes as a method would, and computes nothing."""

    name: ClassVar[str] = "echo"
    summary: ClassVar[str] = "nothing"
    party_sends: ClassVar[str] = "noughts"
    owner_sends: ClassVar[str] = "noughts"

    @party_step
    def give(self, mine: Mine, turn: Turn) -> Embedding:
        return Embedding(torch.zeros(len(turn.rows), WIDTH))

    @party_step
    def take(self, mine: Mine, turn: Turn, slope: Gradient) -> None:
        pass

    def round(self, owner: Owner, parties: Parties, turn: Turn) -> Tensor:
        parties.ask(self.give, turn)
        parties.tell(self.take, turn, all=Gradient(torch.zeros(len(turn.rows), BACK)))
        return torch.tensor(0.0)

    def predict(self, owner: Owner, parties: Parties, turn: Turn) -> Tensor:
        return torch.zeros(len(turn.rows), 2)


def schema(names: Sequence[str]) -> Schema:
    found = Schema()
    for name in names:
        found.forms[f"{name}/up/give"] = {"h": ("float32", (ROWS, WIDTH))}
        found.forms[f"{name}/down/take"] = {"slope": ("float32", (ROWS, BACK))}
    return found


def seat(names: Sequence[str], member: int) -> PartySpec:
    settings = Settings(10**6, BATCH, 0, "federation", 0.0, "epoch", 10**6, None, 1)
    identity = Identity.new()
    table = Table(np.arange(4 * BATCH), torch.zeros(4 * BATCH, 4), name=names[member])
    return PartySpec(
        member,
        tuple(names),
        tuple(names),
        table,
        Echo(),
        default_model,
        SGD(0.1),
        Classes(2),
        settings,
        Seals(),
        schema(names),
        identity,
        {},
        bytes(16),
    )


def party(folder: Path, name: str, bare: int, names: Sequence[str], ours: int) -> None:
    """A party that answers over both kinds of stream, in turns."""
    torch.set_num_threads(1)
    link = dial(f"127.0.0.1:{ours}", credentials_of(folder, name), seconds=WAIT)
    plain = bare_call(folder, name, bare)
    end, log = PartyServer(seat(names, names.index(name))), AuditLog(folder / f"{name}.jsonl", name, "bench")
    hello = read_packet(link.receive(WAIT))
    identity = read_identity(folder / name / "identity.key")
    facts = json.dumps(hello_of(name, identity, bytes(16), bytes(16))).encode()
    link.send(write_packet(hello.reply("answer", name, facts)))
    while answer_bare(plain):
        for _ in range(TURN):  # what a round tells comes with what the next one asks
            request = link.receive(WAIT)
            reply = end.serve(request)
            log.received("owner", "step", request, round=0)
            log.sent("owner", "step", reply, round=0)
            link.send(reply)


def our_rounds(remote: AllParties, began_at: int) -> list[float]:
    """Milliseconds of each round of a turn."""
    times, method = [], Echo()
    for number in range(began_at, began_at + TURN):
        turn = Turn(number, torch.arange(BATCH))
        began = time.perf_counter()
        method.round(None, remote, turn)  # type: ignore[arg-type]
        times.append(1000 * (time.perf_counter() - began))
    return times


def one_round(options: argparse.Namespace) -> None:
    torch.set_num_threads(1)
    names = [f"party {k}" for k in range(options.parties)]
    with TemporaryDirectory() as place:
        folder = Path(place)
        make_keys(folder, ["127.0.0.1"], names)
        listener = Listener("127.0.0.1:0", credentials_of(folder, "owner"), names)
        with bare_streams(folder, names, party, names, listener.port) as bare:
            remote, numbers = remote_over(listener, folder, names), count(step=TURN)
            handed: list[float] = []

            def ours() -> list[float]:
                before = gate_seconds(listener)
                times = our_rounds(remote, next(numbers))
                handed.append(gate_seconds(listener) - before)
                return times

            kinds = {"bare stream": lambda: bare_rounds(bare.ends), "federation": ours}
            title = f"A round with {len(names)} parties, {len(UP):,} bytes up and {len(DOWN):,} down, over loopback"
            compare(title, kinds, max(options.rounds // TURN, 1), bare.pids)
        listener.close()
    print(f"\nThe gate at the owner's port, which hands on every byte: {1000 * median(handed) / TURN:.2f} CPU ms.")
    print(f"\nSHA-256 of all messages of a round at both sides, by itself: {digests(len(names)):.2f} CPU ms.")


def gate_seconds(listener: Listener) -> float:
    """CPU seconds of the gate's thread so far."""
    return time.clock_gettime(time.pthread_getcpuclockid(listener._gate._thread.ident or 0))


def digests(parties: int) -> float:
    """CPU milliseconds of the digests in the audit logs of a round: the least that two logs of everything cost."""
    times = []
    for _ in range(100):
        began = time.thread_time()
        for data in (UP, DOWN) * 2 * parties:
            hashlib.sha256(data)
        times.append(1000 * (time.thread_time() - began))
    return median(times)


def remote_over(listener: Connections, folder: Path, names: Sequence[str]) -> AllParties:
    """The owner's half of a federation whose parties are connected or will be."""
    status = StatusFile(folder, "owner", "bench", 1, names)
    log = AuditLog(folder / "owner.jsonl", "owner", "bench")
    keys = {name: read_public(folder / name / "identity.pub") for name in names}
    lines = OwnerTransport(listener, keys, bytes(16), WAIT, OwnerRecords(log, Metrics(), status), lambda _: None)
    for name in names:
        lines.meet(name)
        lines.links[name].opened(bytes(16))
        lines.links[name].conversation.stage = "begun"
    agreed = schema(names)
    half = OwnerHalf(Ends(), checks=agreed)
    half.ends.know("train", Table(np.arange(4 * BATCH), torch.zeros(4 * BATCH, 4), name=names[0]))
    return remote_parties(names, [], half, RemoteSetup(connect=lambda _: lines, schema=agreed), lines)


# Training


def companies(folder: Path, train: Sequence[Table], hosts: Sequence[str] = ("127.0.0.1",)) -> tuple[OwnerFile, Files]:
    """A federation's tables as files of several organisations; the owner has the labels."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    names = [f"p{k}" for k in range(len(train) - 1)]
    make_keys(folder, hosts, names)
    assert train[0].labels is not None
    ids = [f"i{k:06d}" for k in range(train[0].rows)]
    pq.write_table(pa.table({"id": ids, "digit": train[0].labels.numpy()}), folder / "owner" / "owner.parquet")
    sections = []
    for name, table in zip(names, train[1:], strict=True):
        assert table.columns is not None
        pixels = table.columns.reshape(table.rows, -1).numpy().astype(np.float32)
        columns = {f"c{k}": pixels[:, k] for k in range(pixels.shape[1])}
        pq.write_table(pa.table({"id": ids, **columns}), folder / name / f"{name}.parquet")
        sections.append(PartySection(name, f"../{name}/{name}.parquet", "id", numbers=list(columns)))
    text = "".join(f'[[party]]\nname = "{one}"\nkey = "../{one}/identity.pub"\n' for one in names)
    own = '[[party]]\nname = "bank"\nfiles = "owner.parquet"\nid = "id"\nlabel = "digit"\n'
    head = '[federation]\nlisten = "127.0.0.1:0"\nlabels = "shown"\n'
    (folder / "owner" / "job.toml").write_text(f"{head}{own}{text}[align]\nmode = 'plain'\n")
    side_file = read_owner_file(folder / "owner" / "job.toml")
    prepare = PrepareSection(test=0.0)
    files = Files((side_file.own, *sections), AlignSection(mode="plain"), prepare, folder / "owner")
    return replace(side_file, prepare=prepare), files


def run_party(folder: Path, name: str, port: int) -> None:
    torch.set_num_threads(1)
    (folder / name / "party.toml").write_text(
        f'[party]\nname = "{name}"\nfiles = "{name}.parquet"\nid = "id"\n'
        f'[owner]\naddress = "127.0.0.1:{port}"\nkey = "../owner/identity.pub"\n'
        '[allow]\nruns = 100\nalign = ["plain"]\n'
    )
    PartyProcess(read_party_file(folder / name / "party.toml"), folder / f"run-{name}-{os.getpid()}").run()


def relay(port: int, counted: list[int]) -> int:
    """A port of this machine from which everything goes on to another one, and is counted."""
    server = socket.create_server(("127.0.0.1", 0))

    def pump(one: socket.socket, other: socket.socket) -> None:
        with suppress(OSError):  # the other thread closed it
            while data := one.recv(1 << 16):
                counted[0] += len(data)
                other.sendall(data)
        other.close()

    def accept() -> None:
        while True:
            near, _ = server.accept()
            far = socket.create_connection(("127.0.0.1", port))
            for pair in ((near, far), (far, near)):
                Thread(target=pump, args=pair, daemon=True).start()

    Thread(target=accept, daemon=True).start()
    return int(server.getsockname()[1])


def trained(side_file: OwnerFile, folder: Path, place: Path, counted: list[int] | None = None) -> dict[str, float]:
    """A run over the federation, from its first round to the last but one: CPU, bytes of the ledger and the socket."""
    spawn, found = multiprocessing.get_context("spawn"), []
    listener = Listener("127.0.0.1:0", side_file.keys.credentials, list(side_file.others))
    host = OwnerProcess(side_file, place, listener=listener)
    port = listener.port if counted is None else relay(listener.port, counted)
    everybody = [spawn.Process(target=run_party, args=(folder, name, port)) for name in side_file.others]
    for process in everybody:
        process.start()
    pids = [os.getpid(), *(process.pid or 0 for process in everybody)]

    def note(run: cn.Run) -> None:
        found.append((cpu_of(pids), run.ledger.total, counted[0] if counted else 0))

    host.gather()
    host.train(note)
    for process in everybody:
        process.join(WAIT)
    host.close()
    first, last = found[0], found[-2]  # what the last round tells is heard in it, that of any other in the next one
    return {"cpu": last[0] - first[0], "ledger": last[1] - first[1], "socket": last[2] - first[2]}


def alone(side_file: OwnerFile, files: Files) -> dict[str, float]:
    """The same job in one process, party after party."""
    found = []
    job = replace(side_file.job, data=files, train=replace(side_file.job.train, runtime="loop"))
    train_job(job, on_round=lambda run: found.append((time.process_time(), run.ledger.total)))
    return {"cpu": found[-2][0] - found[0][0], "ledger": found[-2][1] - found[0][1]}


def train(options: argparse.Namespace) -> None:
    torch.set_num_threads(1)
    with TemporaryDirectory() as place:
        folder = Path(place)
        tables, _ = cn.load("mnist", parties=options.parties, by="rows", rows=options.rows)
        side_file, files = companies(folder, tables)
        how = TrainSection(method="vimadmm", rounds=options.train_rounds, batch=1024, evaluate_every=10**6)
        side_file = replace(side_file, job=replace(side_file.job, method=cn.VIMADMM(), train=how))
        near, far = [], []
        for again in range(options.repeats):
            near.append(alone(side_file, files)["cpu"])
            far.append(trained(side_file, folder, folder / f"run-{again}")["cpu"])
        counted = [0]
        wire = trained(side_file, folder, folder / "run-counted", counted)
    rows = [
        ["one process, loop", f"{median(near):.1f}", "1.00"],
        ["federation, all processes", f"{median(far):.1f}", f"{median(far) / median(near):.2f}"],
    ]
    title = f"VIMADMM on MNIST, {options.parties} parties, {options.rows} rows, {options.train_rounds} rounds"
    show(f"{title}: CPU s, medians of {options.repeats}", ["", "CPU s", "x"], rows)
    ratio = wire["socket"] / wire["ledger"]
    show(
        "Bytes between the first round and the last but one",
        ["ledger", "socket", "x"],
        [[f"{wire['ledger']:,}", f"{wire['socket']:,}", f"{ratio:.4f}"]],
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="?", choices=["round", "train", "all"], default="all")
    parser.add_argument("--parties", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--train-rounds", type=int, default=20)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    if options.what in ("round", "all"):
        one_round(options)
    if options.what in ("train", "all"):
        train(options)


if __name__ == "__main__":
    main()
