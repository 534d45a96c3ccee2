"""Noise, rounding and label noise: whoever knows terms and plan tries to work out what another side drew.

The attacker even knows the message below (it has a guess at it, and wants to see it confirmed), and whose rows it is
about. In each control the same code knows the secret, or attacks a side that draws from the seed, as all did before.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from quickstart import Job, write_companies
from torch import Tensor

import colonnade as cn
from colonnade.core.randomness import Randomness
from colonnade.core.schedule import Turn
from colonnade.methods.steps import Embedding
from colonnade.runtime.remote.party_server import PartyServer

ROWS = 40
MESSAGE = torch.randn(ROWS, 60, generator=torch.Generator().manual_seed(1))


@pytest.fixture(scope="module")
def companies(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_companies(tmp_path_factory.mktemp("companies"))


def trained(companies: Path, place: Path, *seals: cn.Seal) -> Job:
    job = Job(companies, place, seals=seals)
    job.train()
    return job


def said(job: Job, party: PartyServer) -> dict[str, Tensor]:
    """How a party sends the message in a round that has not been yet."""
    party.ends.people["train"] = job.run.model.half.ends.people["train"]  # the owner knows whose rows are common
    return party.half.say(Embedding(MESSAGE), "embed", Turn(5, torch.arange(ROWS)))


def same(one: dict[str, Tensor], other: dict[str, Tensor]) -> float:
    """The share of equal numbers."""
    return float(torch.cat([(one[name] == other[name]).double().flatten() for name in one]).mean())


def test_noise_cannot_be_taken_off(companies: Path, tmp_path: Path) -> None:
    job = trained(companies, tmp_path, cn.Noise(epsilon=8.0, sigma=10.0))
    sent = said(job, job.victim)
    assert same(sent, said(job, job.rebuilt())) < 0.01
    assert same(sent, said(job, job.rebuilt(job.victim.spec.secret))) == 1.0
    assert same(said(job, job.rebuilt()), said(job, job.rebuilt())) == 1.0, "a side that draws from the seed is open"


def test_rounding_cannot_be_predicted(companies: Path, tmp_path: Path) -> None:
    job = trained(companies, tmp_path, cn.Bits(4))
    sent = said(job, job.victim)
    assert same(sent, said(job, job.rebuilt())) < 0.9
    assert same(sent, said(job, job.rebuilt(job.victim.spec.secret))) == 1.0
    assert same(said(job, job.rebuilt()), said(job, job.rebuilt())) == 1.0


@pytest.mark.parametrize("seal", [cn.RandomLabels(1.0), cn.LaplaceLabels(1.0)], ids=lambda seal: seal.kind)
def test_label_noise_cannot_be_predicted(seal: cn.Seal, companies: Path, tmp_path: Path) -> None:
    job = trained(companies, tmp_path, seal)
    seed, labels = job.run.settings.seed, job.run.owner.tables["train"]
    soft = job.run.owner.soft
    found = [
        seal.protect(labels, 2, Randomness(seed, key).key("labels")) for key in (None, job.host.session.folder.secret)
    ]
    assert not torch.equal(soft, found[0]) and torch.equal(soft, found[1])
