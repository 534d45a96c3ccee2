"""What a Ray cluster costs and gives: a round beside a bare stream, a hundred parties on two nodes, a sweep.

    python -m benchmarks.cluster [--rounds 200] [--epochs 30] [--only round|parties|sweep]

A round is as in benchmarks.links: a small request to every party, 0.23 MB back from each, 0.08 MB down to each. The
bare stream is grpcio with mutual TLS, over loopback; both take turns of ten rounds in one run. Ray's round also waits
until every party has said that it has what came down, as a run does; the bare stream's does not.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

import colonnade as cn
from benchmarks.links import ASK, DOWN, TURN, UP, answer_bare, bare_call, bare_streams, compare, rounds
from benchmarks.table import show
from colonnade.core.table import Table
from colonnade.federation.certificates import make_keys
from colonnade.runtime.cluster import load_ray
from colonnade.runtime.remote.party_server import PartySpec
from colonnade.runtime.remote.ray_transport import RayTransport
from colonnade.runtime.remote.remote_backend import RemoteBackend
from colonnade.runtime.remote.transport import DirectTransport

PARTIES = 4
MANY = 100


# a round


class Echo:
    """Answers as a party does, and computes nothing."""

    def __init__(self, seat: PartySpec) -> None:
        self.name = seat.name

    def serve(self, request: bytes) -> bytes:
        return UP if request == ASK else b"have it"

    def place(self, name: str, table: Table) -> None:
        raise NotImplementedError


def bare_party(folder: Path, name: str, port: int) -> None:
    """A party at the other end of a bare stream."""
    end = bare_call(folder, name, port)
    while answer_bare(end):
        pass


def seats(parties: int) -> list[PartySpec]:
    """Seats of a small run."""
    tables = cn.split(torch.randn(40, parties).numpy(), torch.arange(40).numpy() % 2, parties)
    run = cn.train(tables, "splitnn", rounds=1, batch=20, runtime="apart")
    backend = run.parties.backend
    assert isinstance(backend, RemoteBackend) and isinstance(backend.transport, DirectTransport)
    return [party.spec for party in backend.transport.parties.values()]


def ray_rounds(lines: RayTransport) -> list[float]:
    """Milliseconds of each round of a turn."""
    times = []
    for _ in range(TURN):
        began = time.perf_counter()
        for request, due in ((ASK, len(UP)), (DOWN, len(b"have it"))):
            for name in lines.specs:
                lines.post(name, request)
            if any(len(lines.reply(name)) != due for name in lines.specs):
                raise SystemExit("a party sent something else")
        times.append(1000 * (time.perf_counter() - began))
    return times


def a_round(turns: int) -> None:
    names = [f"party {k}" for k in range(PARTIES)]
    with TemporaryDirectory() as place:
        folder = Path(place)
        make_keys(folder, ["127.0.0.1"], names)
        with bare_streams(folder, names, bare_party) as bare:
            lines = RayTransport(seats(PARTIES), Echo, cn.Cluster())
            kinds = {
                "bare grpcio, mTLS": lambda: rounds(bare.ends),
                "Ray, one process a party": lambda: ray_rounds(lines),
            }
            title = f"A round with {PARTIES} parties on this machine (CPU without Ray's own processes)"
            compare(title, kinds, turns, bare.pids)
            lines.close()


# a hundred parties


def hundred_parties(group: int = 25, images: int = 2048) -> None:
    """Each party has 56 columns, as one of 14 has of MNIST's 784; both nodes are on this machine."""
    from ray.cluster_utils import Cluster as LocalNodes

    values = torch.randn(images, 56 * MANY, generator=torch.Generator().manual_seed(0))
    tables = cn.split(values.numpy(), (torch.arange(images) % 10).numpy(), MANY)
    half = MANY // group // 2
    nodes: Any = LocalNodes(initialize_head=True, head_node_args={"num_cpus": half, "include_dashboard": False})
    nodes.add_node(num_cpus=half)
    cluster = cn.Cluster(address=nodes.address, group=group)
    runs, rows = [], []
    where: dict[str, str | cn.Cluster] = {"loop": "loop", f"Ray, {2 * half} processes": cluster}
    for kind, runtime in where.items():
        began = time.perf_counter()
        run = cn.train(tables, cn.VIMADMM(local_steps=5), rounds=10, batch=1024, evaluate_every=10, runtime=runtime)
        rows.append([kind, f"{run.seconds:.1f}", f"{time.perf_counter() - began:.1f}", f"{run.ledger.total / 1e6:.0f}"])
        runs.append(run)
    lines: Any = runs[1].parties.backend.transport  # type: ignore[attr-defined]
    used = set(lines.ray.get([host.__ray_call__.remote(_where) for host in lines.hosts]))
    losses = [[row["train_loss"] for row in run.history] for run in runs]
    same = losses[0] == losses[1] and runs[0].ledger.to_json() == runs[1].ledger.to_json()
    show(
        f"{MANY} parties of 56 columns, 10 rounds of 1024 rows, on {len(used)} nodes; same loss and ledger: {same}",
        ["runtime", "s in rounds", "s with start", "MB"],
        rows,
    )
    lines.close()
    lines.ray.shutdown()
    nodes.shutdown()


def _where(_: Any) -> str:
    import ray

    return str(ray.get_runtime_context().get_node_id())


# a sweep


def a_sweep(runs: int, epochs: int) -> None:
    data, over = {"load": "digits", "parties": 4}, {"seed": list(range(runs))}
    seconds: dict[str, float] = {}
    cluster = cn.Cluster()
    cluster.join()
    ways: dict[str, dict[str, Any]] = {"one process": {"processes": 1}, "Ray": {"cluster": cluster}}
    for kind, how in ways.items():
        with TemporaryDirectory() as folder:
            began = time.perf_counter()
            cn.sweep(data, "vimadmm", over, folder=folder, epochs=epochs, batch=64, **how)
            seconds[kind] = time.perf_counter() - began
    base = seconds["one process"]
    rows = [[kind, f"{took:.1f}", f"{base / took:.2f}"] for kind, took in seconds.items()]
    show(f"A sweep of {runs} runs of {epochs} epochs, {os.cpu_count()} cores", ["where", "s", "times as fast"], rows)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--epochs", type=int, default=30, help="of each run of the sweep")
    parser.add_argument("--only", choices=["round", "parties", "sweep"])
    options = parser.parse_args(arguments)
    if options.only in (None, "round"):
        a_round(max(options.rounds // TURN, 1))
    if options.only in (None, "sweep"):
        a_sweep(8, options.epochs)
    if options.only in (None, "parties"):
        load_ray().shutdown()  # the nodes below are another cluster
        hundred_parties()


if __name__ == "__main__":
    main()
