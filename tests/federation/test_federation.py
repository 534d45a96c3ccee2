"""A federation over mutual TLS between real processes does what one process does, bit for bit."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from test_contract import ONE_OWNER, Case, without_time

import colonnade as cn
import views
from colonnade.errors import TableError
from colonnade.federation.audit_check import compare, verify
from colonnade.federation.prediction import Prediction
from colonnade.federation.side_audit import audit_side
from colonnade.federation.view_check import check_view
from colonnade.jobs.run_job import train_job
from colonnade.jobs.table_sections import Files
from colonnade.store import checkpoint
from colonnade.store.state_folder import StateFolder
from companies import OTHERS, Companies

pytestmark = pytest.mark.slow
SEALED = {
    "bits": (cn.SplitNN(), (cn.Bits(4),)),
    "blind": (cn.FDML(), (cn.Blind(),)),
    "blind and bits": (cn.VIMADMMJ(lr=0.02, local_steps=2), (cn.Blind(), cn.Bits(4, feedback=True))),
}


@pytest.fixture(scope="module")
def companies(tmp_path_factory: pytest.TempPathFactory) -> dict[bool, Companies]:
    """With columns at the bank all sides record what they see, which must change nothing."""
    places = {columns: tmp_path_factory.mktemp("companies") for columns in (True, False)}
    return {columns: Companies(place, columns=columns, record=columns) for columns, place in places.items()}


def check_same(where: Companies, method: cn.Method, seals: tuple[cn.Seal, ...], place: Path, **options: object) -> None:
    side_file = where.side_file(method, seals, **options)
    far = where.train(side_file, place)
    near = train_job(where.alone(side_file), secrets=where.secrets(place))
    assert without_time(far.history) == without_time(near.history)
    assert far.ledger.to_json() == near.ledger.to_json()
    assert set(far.description["columns"]) <= {"bank"}  # no party tells the names of its columns
    assert set(near.description["columns"]) == {*far.description["columns"], *OTHERS}
    assert_same_states(near, place)


def assert_same_states(near: cn.Run, place: Path) -> None:
    """Every side's own files hold what the one process holds."""
    states, _ = checkpoint.read(checkpoint.newest(place / "bank" / "checkpoints"))
    for side, expected in near.model.states().items():
        name = near.model.sides.names.get(side, side)
        found = newest_state(place / name) if name in OTHERS else states[side]
        assert found.keys() - {"seal/told", "run/round"} == expected.keys(), (
            "but for what a party was told and how far the run is, which one process needs not"
        )
        for key, value in expected.items():
            assert torch.equal(found[key], value), f"{name}: {key}"


def newest_state(folder: Path) -> dict[str, torch.Tensor]:
    """What a party kept last."""
    (states,) = folder.glob("*-*/states")
    kept = StateFolder(states)
    return kept.get(kept.numbers[-1])


def cases() -> Iterator[Any]:
    """Every case; CI runs some, in which all kinds of steps occur, and `make long` the rest."""
    left = {"splitnn", "fdml", "vfedmh", "vimadmm", "vimadmm-j", "apfed"}
    for case in ONE_OWNER:
        yield pytest.param(case, id=str(case), marks=[] if case.method.name in left else [pytest.mark.long])
        left.discard(case.method.name)


@pytest.mark.parametrize("case", list(cases()))
def test_every_method_over_the_federation(case: Case, companies: dict[bool, Companies], tmp_path: Path) -> None:
    check_same(companies[case.owner == "first"], case.method, (), tmp_path, **case.options)


@pytest.mark.parametrize("which", SEALED)
def test_seals_over_the_federation(which: str, companies: dict[bool, Companies], tmp_path: Path) -> None:
    check_same(companies[False], *SEALED[which], tmp_path)


def test_both_sides_of_every_log_agree(companies: dict[bool, Companies], tmp_path: Path) -> None:
    where = companies[True]
    where.train(where.side_file(cn.SplitNN()), tmp_path)
    own = tmp_path / "bank" / "audit.jsonl"
    assert (verdict := verify(own)).broken is None and verdict.sealed
    for name in OTHERS:
        (theirs,) = (tmp_path / name).glob("*-*/audit.jsonl")
        assert (verdict := verify(theirs)).broken is None and verdict.sealed
        assert compare(own, theirs) == []
        theirs_seen, ours = check_view(theirs.parent).seen, check_view(tmp_path / "bank").seen
        ours = [one for one in ours if name in (one.sender, one.receiver)]
        for one, other in zip(theirs_seen, ours, strict=True):
            views.check_same_message(one, other)
        with pytest.raises(TableError, match="an audit needs at least 100"):  # so its view, table and terms were found
            audit_side(theirs.parent, None, None)


def test_predictions_over_the_federation(companies: dict[bool, Companies], tmp_path: Path) -> None:
    where = companies[True]
    side_file = where.side_file(cn.VIMADMM(lr=0.02, local_steps=2))
    where.train(side_file, tmp_path)
    for name in OTHERS:
        with (where.folder / name / "party.toml").open("a") as file:
            file.write(f'[predict]\nfiles = "{name}.csv"\n')
    with where.parties(tmp_path):
        host = Prediction(side_file, tmp_path / "bank", [str(where.folder / "bank" / "bank.csv")])
        try:
            host.gather()
            scores = host.score()
        finally:
            host.close()
    job = where.alone(side_file)
    near = train_job(job, secrets=where.secrets(tmp_path))
    assert isinstance(job.data, Files)
    sheets = job.data.read()
    expected = cn.score(near, sheets, mode="plain", seed=side_file.job.train.seed)
    order = [list(scores.ids).index(one) for one in expected.ids]
    assert torch.equal(scores.values[order], expected.values)
