"""Every method on NVIDIA FLARE does what it does in one process, bit for bit: one server, four sites, a job a case.

FLARE is provisioned and started once, in its proof-of-concept mode, in real processes over mutual TLS.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from benchmarks import flare
from benchmarks.poc import ADMIN, SERVER, Poc
from sklearn.datasets import load_digits
from test_contract import ONE_OWNER, Case

from colonnade.federation.side_files import read_owner_file
from colonnade.flare.job import export
from colonnade.flare.submit import Submission, session

pytest.importorskip("nvflare", reason="nvflare is not installed: pip install 'colonnade[flare]'")
pytestmark = [pytest.mark.long, pytest.mark.filterwarnings("ignore")]  # FLARE's own warnings
CASES = {case.method.name: case for case in reversed(ONE_OWNER)}  # a job takes five processes, so one of each method
DEADLINE, ROWS = 300, 300
TRAIN = {"rounds": 5, "batch": 64, "seed": 3, "valid": 0.1, "evaluate_every": 2}


@pytest.fixture(scope="module")
def organisations(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Poc, Any]]:
    """The folder of everybody's job and party files, their FLARE, and a session of its admin."""
    folder = tmp_path_factory.mktemp("flare")
    columns, labels = load_digits(return_X_y=True)
    flare.write_parties(folder, columns[:ROWS], labels[:ROWS], runs=1000)
    poc = flare.set_up(folder, ())
    with poc.running(), session(poc.kit(ADMIN)) as server:
        yield folder, poc, server


def words_of(case: Case) -> str:
    """A case as sections of a job file, whose values are written as in JSON."""
    assert not case.options
    options = {name: value for name, value in asdict(case.method).items() if value is not None}
    sections = {"train": {"method": case.method.name, **TRAIN}, "method": options, "prepare": {"test": 0.2}}
    return "".join(
        "\n".join([f"[{name}]", *(f"{key} = {json.dumps(value)}" for key, value in values.items()), ""])
        for name, values in sections.items()
    )


@pytest.mark.parametrize("job", sorted(CASES))
def test_every_method_on_flare(job: str, organisations: tuple[Path, Poc, Any]) -> None:
    (folder, poc, server), case = organisations, CASES[job]
    flare.write_job(folder, job, words_of(case), deadline=DEADLINE, columns=case.owner == "first")
    poc.place(SERVER, folder / "owner" / f"{job}.toml")
    side_file = read_owner_file(folder / "owner" / f"{job}.toml", tls=False)
    assert side_file.job.method == case.method
    submission = Submission(server, list(side_file.others), DEADLINE, print)
    submission.follow(export(side_file, folder / "jobs"), folder / f"results-{job}")
    assert flare.report(poc, folder, job) == "history equal, ledger equal, parameters equal"
