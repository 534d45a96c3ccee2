"""A federation on loopback for tests: files and keys of three organisations, and parties in real processes."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import numpy as np

import colonnade as cn
from colonnade.federation.certificates import make_keys
from colonnade.federation.owner_process import OwnerProcess
from colonnade.federation.side_files import read_owner_file, read_party_file
from colonnade.federation.side_sections import OwnerFile
from colonnade.jobs.job_file import Job, TrainSection
from colonnade.jobs.table_sections import AlignSection, Files, PartySection, PrepareSection
from colonnade.wire.ledger import OWNER
from forks import context

OTHERS = ("shop", "clinic", "insurer")
ROWS = 90


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


class Companies:
    """Four organisations in folders; the bank has the label, and columns if ``columns``; all ``record`` or nobody."""

    def __init__(self, folder: Path, *, columns: bool = True, deadline: int = 20, record: bool = False) -> None:
        self.folder, self.columns, self.port = folder, columns, free_port()
        make_keys(folder, ["localhost", "127.0.0.1"], OTHERS)
        (folder / "owner").rename(folder / "bank")
        self._tables()
        own = {"name": "bank", "files": "bank.csv", "id": "id", "label": "class"}
        audit = "[audit]\nrecord = true\n" if record else ""
        others = "".join(f'[[party]]\nname = "{one}"\nkey = "../{one}/identity.pub"\n' for one in OTHERS)
        text = "".join(f'{key} = "{value}"\n' for key, value in own.items())
        (folder / "bank" / "job.toml").write_text(
            f'[federation]\nlisten = "127.0.0.1:{self.port}"\ndeadline = {deadline}\nlabels = "shown"\n'
            f"[[party]]\n{text}{others}[align]\nmode = 'plain'\n{audit}"
        )
        for one in OTHERS:
            known = "".join(f'{peer} = "../{peer}/identity.pub"\n' for peer in OTHERS if peer != one)
            (folder / one / "party.toml").write_text(
                f'[party]\nname = "{one}"\nfiles = "{one}.csv"\nid = "id"\n'
                f'[owner]\naddress = "localhost:{self.port}"\nkey = "../bank/identity.pub"\n'
                f'[allow]\nruns = 1000\nalign = ["plain"]\npatience = {deadline}\nlayers = 0\n'
                f"[peers]\n{known}{audit}"
            )

    def _tables(self) -> None:
        rng = np.random.default_rng(0)
        columns = rng.normal(size=(ROWS, 10)).round(3)
        labels = (columns @ rng.normal(size=(10, 3))).argmax(1)
        widths = {"bank": (0, 2 if self.columns else 0), "shop": (2, 5), "clinic": (5, 8), "insurer": (8, 10)}
        for name, (first, last) in widths.items():
            names = ["id", *(f"c{k}" for k in range(first, last)), *(["class"] if name == "bank" else [])]
            lines = [",".join(names)]
            for row in rng.permutation(ROWS)[: ROWS - 5]:
                label = [str(labels[row])] if name == "bank" else []
                lines.append(",".join([f"p{row:03d}", *map(str, columns[row, first:last]), *label]))
            (self.folder / name / f"{name}.csv").write_text("\n".join(lines) + "\n")

    def side_file(self, method: cn.Method, seals: tuple[Any, ...] = (), **how: Any) -> OwnerFile:
        """The bank's job file with this method, these seals and these settings."""
        side_file = read_owner_file(self.folder / "bank" / "job.toml")
        options = {key: how.pop(key) for key in ("model", "optimizer") if key in how}
        settings = TrainSection(**{"rounds": 8, "batch": 16, "seed": 3, "valid": 0.1, "evaluate_every": 4, **how})
        job = replace(side_file.job, method=method, seals=seals, train=settings, **options)
        return replace(side_file, job=job, prepare=PrepareSection(test=0.2))

    def alone(self, side_file: OwnerFile) -> Job:
        """The same job for one process that has everybody's files."""
        parties = [side_file.own, *(PartySection(one, f"../{one}/{one}.csv", "id") for one in side_file.others)]
        files = Files(tuple(parties), AlignSection(mode="plain"), side_file.prepare, self.folder / "bank")
        return replace(side_file.job, data=files, train=replace(side_file.job.train, runtime="loop"))

    def secrets(self, place: Path) -> dict[str, bytes]:
        """What every side drew in a job below ``place``; the bank's own columns are the owner's."""
        found = {one: next((place / one).glob("*-*/secret.key")) for one in OTHERS}
        whole = {OWNER: place / "bank" / "secret.key", "bank": place / "bank" / "secret.key", **found}
        return {name: file.read_bytes() for name, file in whole.items()}

    @contextmanager
    def parties(self, place: Path) -> Iterator[dict[str, BaseProcess]]:
        """Every other party in a process of its own, with its folder below ``place``."""
        started = {one: self.start(one, place) for one in OTHERS}
        try:
            yield started
        finally:
            for process in started.values():
                process.kill()
                process.join()

    def start(self, name: str, place: Path) -> BaseProcess:
        process = context.Process(target=run_party, args=(self.folder / name / "party.toml", place / name))
        process.start()
        return process

    def train(self, side_file: OwnerFile, place: Path) -> cn.Run:
        """The whole job, the owner in this process and all others in theirs."""
        with self.parties(place) as processes:
            host = OwnerProcess(side_file, place / "bank")
            try:
                host.gather()
                run = host.train()
                for name, process in processes.items():
                    process.join(20)
                    assert process.exitcode == 0, f"'{name}' ended with {process.exitcode}"
                return run
            finally:
                host.close()


def run_party(side_file: Path, folder: Path) -> None:
    """A party's process."""
    from colonnade.federation.party_process import PartyProcess

    PartyProcess(read_party_file(side_file), folder).run()
