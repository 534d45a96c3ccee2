"""A federation's parties keep their log of blinded sums: through a restart of every side, and not if it is damaged."""

from __future__ import annotations

import json
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest

from colonnade.errors import CheckpointError, ManifestError, SealError, TrainingError
from colonnade.federation.owner_process import OwnerProcess
from colonnade.runtime.remote.party_server import PartyServer
from colonnade.signatures import Identity
from near import Sides, make_sides

JOB = {
    "method": "fdml",
    "train": "rounds = 4\nevaluate_every = 4",
    "federation": 'labels = "shown"',
    "more": '[[seal]]\nkind = "blind"',
}


def lead(host: OwnerProcess, leave: int | None = None) -> None:
    def look(run: Any) -> None:
        if run.round == leave:
            raise TrainingError("enough.")

    try:
        host.gather()
        host.train(look)
    finally:
        host.close()


@pytest.fixture
def begun(tmp_path: Path) -> Sides:
    """Three rounds of a blinded job, with no checkpoint but the first, and then every process is gone."""
    sides = Sides(make_sides(tmp_path))
    sides.write_parties("mix = 1")
    with pytest.raises(TrainingError, match="enough"):
        lead(sides.host(**JOB), leave=3)
    sides.restart()
    return sides


def log_of(sides: Sides) -> Path:
    (place,) = (sides.folder / "run-shop").glob("*/sums.log")
    return place


def kept(place: Path) -> list[Any]:
    return [json.loads(line.rpartition("\t")[0]) for line in place.read_text().splitlines()]


def test_the_same_rounds_again_after_a_crash_and_no_others(begun: Sides, monkeypatch: pytest.MonkeyPatch) -> None:
    before = kept(log_of(begun))
    assert [entry[0] for entry in before[1:]] == ["sum"] * 3
    own = PartyServer._run

    def moved(self: PartyServer, *rest: Any) -> Any:
        reply = own(self, *rest)
        return reply if reply is None or self.name != "shop" else type(reply)(*(value * 1.01 for value in reply))

    with monkeypatch.context() as patch:
        patch.setattr(PartyServer, "_run", moved)  # as after another way from the checkpoint on
        with pytest.raises(
            SealError, match="'shop' was asked twice for step 'logits' of round 0 about the same people"
        ):
            lead(begun.host(**JOB))
    begun.restart()
    lead(begun.host(**JOB))
    assert kept(log_of(begun))[:4] == before and len(kept(log_of(begun))) > 4


def test_a_damaged_log_is_refused_by_name(begun: Sides) -> None:
    raw = bytearray(log_of(begun).read_bytes())
    raw[60] ^= 1
    log_of(begun).write_bytes(raw)
    with pytest.raises(CheckpointError, match=r"'shop'.*sums.log is damaged"):
        lead(begun.host(**JOB))


def test_a_party_that_the_owner_invented_is_no_company(tmp_path: Path) -> None:
    """The bounds on corrupt parties count invented ones, so a blinded sum is only with those whose keys are known."""
    sides = Sides(make_sides(tmp_path))
    sides.write_parties("mix = 1", peers="")
    with pytest.raises(ManifestError, match=r"'(shop|mill)'.*\[peers\]"):
        lead(sides.host(**JOB))
    sides.restart()
    invented = b64encode(Identity.new().public).decode()  # of a party that the owner plays by itself
    sides.write_parties("mix = 1", peers=f'mill = "{invented}"\nshop = "../shop/identity.pub"')
    with pytest.raises(ManifestError, match="another key of 'mill' than 'shop' knows"):
        lead(sides.host(**JOB))
