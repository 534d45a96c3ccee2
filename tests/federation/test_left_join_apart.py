"""A left join between organisations: all of the owner's rows, and bit for bit what one process does."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from test_contract import without_time
from test_federation import assert_same_states

import colonnade as cn
from colonnade.federation.side_sections import OwnerFile
from colonnade.jobs.run_job import train_job
from colonnade.jobs.table_sections import AlignSection, Files
from companies import OTHERS, ROWS, Companies

pytest.importorskip("grpc")
pytest.importorskip("pyarrow")
METHODS = {
    "oneshot": cn.OneShot(learner="linear", top="linear", folds=2),
    "laser": cn.LASER(),
    "apfed": cn.APFed(),
}


@pytest.fixture(scope="module")
def companies(tmp_path_factory: pytest.TempPathFactory) -> Companies:
    """The shop knows all of the bank's people but five, the clinic half of them."""
    made = Companies(tmp_path_factory.mktemp("companies"))
    place = made.folder / "clinic" / "clinic.csv"
    lines = place.read_text().splitlines()
    place.write_text("\n".join(lines[: 1 + ROWS // 2]) + "\n")
    for name in OTHERS:
        path = made.folder / name / "party.toml"
        path.write_text(path.read_text().replace("[allow]", '[allow]\njoins = ["left"]'))
    return made


def left(where: Companies, method: cn.Method, **how: object) -> OwnerFile:
    return replace(where.side_file(method, **how), align=AlignSection(mode="plain", join="left"))


@pytest.mark.slow
@pytest.mark.parametrize("name", METHODS)
def test_a_left_join_over_tls_is_that_of_one_process(name: str, companies: Companies, tmp_path: Path) -> None:
    side_file = left(companies, METHODS[name])
    far = companies.train(side_file, tmp_path)
    job = companies.alone(side_file)
    assert isinstance(job.data, Files)
    job = replace(job, data=replace(job.data, align=side_file.align))
    near = train_job(job, secrets=companies.secrets(tmp_path))
    assert far.description["tables"][0][1] + far.test_tables[0].rows == ROWS - 5, "all of the bank's rows"
    assert without_time(far.history) == without_time(near.history)
    assert far.ledger.to_json() == near.ledger.to_json()
    assert_same_states(near, tmp_path)
    known = [table.known for table in far.test_tables]
    assert known[0] is None and all(mask is not None and 0 < int(mask.sum()) < len(mask) for mask in known[2:3])
    assert np.isfinite(far.history[-1]["test_loss"])
