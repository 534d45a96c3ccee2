"""What follows from terms and plan: the owner, or a party, that follows the protocol and works out what others drew.

Each attack has a control in which the same code knows the secret of the side, as everybody did when all followed from
the seed.
"""

from __future__ import annotations

from hashlib import sha256
from itertools import count
from pathlib import Path

import pytest
import torch
from quickstart import Job, inverted, write_companies

from colonnade.store import secret_file

EXACT = 1e-3  # of a row's length
TRIED = 24  # rows of the first round


@pytest.fixture(scope="module")
def companies(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_companies(tmp_path_factory.mktemp("companies"))


@pytest.fixture(scope="module")
def job(companies: Path, tmp_path_factory: pytest.TempPathFactory) -> Job:
    """A job whose sides draw the same secrets in every run of the tests: how well the control does depends on them."""
    draws = (sha256(b"secret %d" % k).digest() for k in count())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(secret_file, "fresh_secret", lambda: next(draws))
        found = Job(companies, tmp_path_factory.mktemp("job"))
        found.train()
    return found


def read_share(job: Job, secret: bytes | None) -> float:
    """The share of the first round's rows that an owner reads from their embeddings, whatever it knows beside them."""
    net = job.rebuilt(secret).group.loop_nets["net"].module
    rows = job.victim.schedule.batch_of(0)[:TRIED]
    true = job.victim.group.tables["train"].draw(rows).double()
    found = inverted(net, job.heard[0]["h"][:TRIED], true.shape[1])
    return float(((found - true).norm(dim=1) < EXACT * true.norm(dim=1)).double().mean())


def test_columns_cannot_be_read_from_the_first_embeddings(job: Job) -> None:
    assert read_share(job, None) == 0.0
    assert read_share(job, job.victim.spec.secret) > 0.8, "the attack is not one"


def test_the_secret_is_in_nothing_that_both_signed(job: Job) -> None:
    own = job.victim.spec.secret
    assert own is not None and own != job.host.session.folder.secret
    for file in (job.host.folder).rglob("*"):
        if file.is_file():
            assert own not in file.read_bytes() and own.hex().encode() not in file.read_bytes(), file


def test_two_jobs_of_equal_terms_draw_otherwise(companies: Path, job: Job, tmp_path: Path) -> None:
    other = Job(companies, tmp_path)
    other.train()
    assert other.host.terms == job.host.terms
    assert not torch.equal(other.heard[0]["h"], job.heard[0]["h"])
