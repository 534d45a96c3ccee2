"""A side's randomness: the seed's numbers in a simulation, a secret's elsewhere, and never a mixture."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from test_contract import ROUNDS, Case, check_same_apart, federation, tables_of, with_dropout
from torch import nn

import colonnade as cn
from colonnade.core.randomness import Randomness, Sources, _state
from colonnade.core.schedule import derive_seed
from colonnade.core.settings import Settings
from colonnade.errors import CheckpointError, ConfigError
from colonnade.run.apart_setup import remote_setup_for
from colonnade.run.make_plan import start
from colonnade.run.train import _moved
from colonnade.store.secret_file import secret_in
from colonnade.wire.ledger import OWNER
from plans import plan_for

SECRET = hashlib.sha256(b"a side's").digest()
DRAWING = [
    Case(cn.SplitNN(), owner="first", options={"model": with_dropout, "seal": cn.Bits(4, feedback=True)}),
    Case(cn.SplitNN(), options={"seal": cn.Noise(epsilon=1000.0)}),
    Case(cn.APFed(loss="contrastive", projection=8, dropout=0.5, contribution_every=2), owner="first"),
    Case(cn.TVFL(fill="random"), owner="first", options={"seal": cn.RandomLabels(4.0)}),
    Case(cn.VIMADMMJ(lr=0.02, local_steps=2), options={"seal": [cn.Blind(), cn.Bits(4)]}),
    Case(cn.MultiVFL(every=2), owners=3, options={"seal": cn.Bits(4)}),
]


def test_without_a_secret_all_follows_from_the_seed_as_ever() -> None:
    draws = Randomness(7)
    expected = torch.rand(3, generator=torch.Generator().manual_seed(derive_seed(7, "init", 2)))
    assert torch.equal(torch.rand(3, generator=draws.generator("init", 2)), expected)
    with draws.drawing("init", 2):
        assert torch.equal(torch.rand(3), expected)
    assert draws.key("noise", "shop") == hashlib.sha256(b"noise/7/shop").digest()
    assert draws.within("owners") == Randomness(derive_seed(7, "owners"))


def test_with_a_secret_the_seed_has_no_part_in_it() -> None:
    one, other = (Randomness(seed, SECRET) for seed in (1, 2))
    assert torch.equal(*(torch.rand(9, generator=each.generator("init", 0)) for each in (one, other)))
    assert one.key("noise", "shop") == other.key("noise", "shop") != Randomness(1).key("noise", "shop")


def test_every_secret_side_purpose_and_part_draws_otherwise() -> None:
    secrets = [SECRET, hashlib.sha256(SECRET).digest()]
    sides = [Randomness(0, one) for one in secrets] + [Randomness(0, SECRET).within("owners"), Randomness(0)]
    what = [
        ("init", 0),
        ("init", 1),
        ("init", "0/1"),
        ("init/0", 1),
        (0, "train", 1, "embed"),
        (0, "train", 2, "embed"),
    ]
    drawn = {tuple(torch.rand(4, generator=side.generator(*one)).tolist()) for side in sides[:-1] for one in what}
    assert len(drawn) == 3 * len(what)


def test_a_secret_fills_the_whole_state() -> None:
    """A seed of torch's generator has 32 bits that count; the words of its state would follow from the first."""
    words = _state(SECRET)[24 : 24 + 8 * 624].view(torch.int64)
    assert int(words.max()) < 2**32 and len(words.unique()) == 624
    first = int(words[0])
    grown = torch.Generator().manual_seed(first).get_state()[24 : 24 + 8 * 624].view(torch.int64)
    assert int(grown[0]) == first and int((grown == words).sum()) == 1
    drawn = torch.rand(100_000, generator=Randomness(0, SECRET).generator("any"))
    assert abs(float(drawn.mean()) - 0.5) < 0.005 and abs(float(drawn.var()) - 1 / 12) < 0.002


def test_what_is_drawn_within_changes_nothing_outside() -> None:
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    with pytest.raises(ZeroDivisionError), Randomness(0, SECRET).drawing("any"):
        nn.Linear(2, 1 // 0)
    assert torch.equal(torch.rand(2), expected)


def test_secrets_are_shown_nowhere() -> None:
    shown = repr(Randomness(0, SECRET)) + repr(Sources(0, {"shop": SECRET}))
    assert repr(SECRET)[2:10] not in shown
    with pytest.raises(ConfigError, match="31 bytes; 32 are expected"):
        Randomness(0, SECRET[:31])


def test_a_secret_is_drawn_once_for_its_owner_alone(tmp_path: Path) -> None:
    found = secret_in(tmp_path)
    assert len(found) == 32 and secret_in(tmp_path) == found
    assert (tmp_path / "secret.key").stat().st_mode & 0o077 == 0
    assert [file.name for file in tmp_path.iterdir()] == ["secret.key"]
    (tmp_path / "secret.key").write_bytes(found[:20])
    with pytest.raises(CheckpointError, match="damaged"):
        secret_in(tmp_path)


def secrets_on_disk(run: cn.Run) -> dict[str, bytes]:
    """What every side of a run drew, from the folder in which it keeps it; all owners are in one process."""
    assert run.folder is not None
    places = {name: run.folder / "parties" / f"{k:03d}" for k, name in enumerate(run.parties.names)}
    own = dict.fromkeys((*run.model.sides.leaders, *run.parties.names, OWNER), run.folder)
    far = {name: place for name, place in places.items() if name in run.parties.backend.parties}  # type: ignore[attr-defined]
    return {name: (place / "secret.key").read_bytes() for name, place in (own | far).items()}


def train_with(case: Case, secrets: dict[str, bytes], **more: Any) -> cn.Run:
    """A case in one process whose sides have these secrets; as :func:`test_contract.train` has it otherwise."""
    settings = {"rounds": ROUNDS, "batch": 16, "seed": 3, "valid": 0.1, "runtime": "loop", **case.options, **more}
    what = plan_for(tables_of(case), case.method, **settings)
    return start(what, tables_of(case), secrets=secrets).fit(federation(case.owner))


def test_sides_of_one_organisation_keep_their_secrets(tmp_path: Path) -> None:
    """As on a Ray cluster that is asked for secrets, but behind requests here."""
    case = DRAWING[2]
    what = plan_for(tables_of(case), case.method, rounds=8, batch=16, seed=3, valid=0.1, evaluate_every=4)
    apart = replace(what.settings, runtime="apart", cluster=cn.Cluster(secrets=True).plain())
    run = start(replace(what, settings=apart), tables_of(case), tmp_path / "run").fit(federation(case.owner))
    own = secrets_on_disk(run)
    assert len(set(own.values())) == 4
    check_same_apart(run, train_with(case, own, rounds=8, evaluate_every=4))
    resumed = cn.resume(tmp_path / "run", tables_of(case), test=federation(case.owner), rounds=12)
    check_same_apart(resumed, train_with(case, own, rounds=12, evaluate_every=4))


def test_a_run_keeps_how_it_draws_when_it_moves(tmp_path: Path) -> None:
    settings = Settings(1, 2, 0, "ray", 0.0, "epoch", 1, None, 1, cluster=cn.Cluster(secrets=True).plain())
    assert _moved(settings, cn.Cluster(group=2)).cluster == cn.Cluster(group=2, secrets=True).plain()
    with pytest.raises(ConfigError, match="drew from the seed; leave it out"):
        _moved(replace(settings, cluster=cn.Cluster().plain()), cn.Cluster(secrets=True))
    with pytest.raises(ConfigError, match="give true or false"):
        cn.Cluster(secrets="yes")  # type: ignore[arg-type]


def run_of(case: Case, runtime: str, secrets: dict[str, bytes]) -> cn.Run:
    """A run whose sides have these secrets, in one process or behind requests."""
    tables = tables_of(case)
    what = plan_for(tables, case.method, rounds=6, batch=16, seed=3, valid=0.1, runtime=runtime, **case.options)
    remote = remote_setup_for(tables, what, None)
    return start(what, tables, remote=remote and replace(remote, secrets=secrets), secrets=secrets).fit()


@pytest.mark.parametrize("case", DRAWING, ids=str)
def test_sides_with_secrets_do_the_same_in_one_process(case: Case) -> None:
    names = [OWNER, *(table.name for table in tables_of(case))]
    secrets = {name: hashlib.sha256(name.encode()).digest() for name in names}
    loop = run_of(case, "loop", secrets)
    check_same_apart(run_of(case, "apart", secrets), loop)
    others = run_of(case, "loop", {name: hashlib.sha256(one).digest() for name, one in secrets.items()})
    assert [row["train_loss"] for row in others.history] != [row["train_loss"] for row in loop.history]
