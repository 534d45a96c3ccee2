"""Two jobs of equal terms: whoever has all states of one must know nothing of the first weights of the other."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
import torch
from torch import Tensor

import colonnade as cn
from colonnade.core.randomness import Sources
from colonnade.federation.owner_process import OwnerProcess
from colonnade.runtime.remote.party_server import PartyServer
from near import PARTIES, Sides, make_sides

SOURCE = Path(cn.__file__).parent
SEEDED = re.compile(r"derive_seed|manual_seed|default_rng|fork_rng|\bpermutation\(|np\.random\.")
DRAWING = (
    "methods/*.py",
    "seal/*.py",
    "runtime/**/*.py",
    "federation/*.py",
    "flare/*.py",
    "core/method.py",
    "wire/*.py",
)
HOW = {"train": "rounds = 1", "federation": 'labels = "shown"'}
QUICK = {"fedoptimus": "select_every = 5", "vimadmm": "local_steps = 1", "vimadmm-j": "local_steps = 1"}


@pytest.fixture(scope="module")
def side_files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_sides(tmp_path_factory.mktemp("sides"), rows=24)


def first_states(side_files: Path, place: Path, method: str) -> tuple[dict[str, Tensor], OwnerProcess]:
    """What is drawn at all sides before the first round of a job in folders of its own, and its owner."""
    shutil.copytree(side_files, place)
    sides = Sides(place)
    sides.write_parties("layers = 0")  # for apfed, whose messages are linear in the columns
    host = sides.host(method=method, more=f"[method]\n{QUICK.get(method, '')}", **HOW)
    host.gather()
    run, _ = host.session.with_all(host._ready)
    states = {run.model.sides.names.get(side, side): state for side, state in run.model.states().items()}
    for name in PARTIES:
        party = sides.guests[name].server
        assert isinstance(party, PartyServer)
        states[name] = party.states()
    return {f"{name}/{key}": value for name, state in states.items() for key, value in state.items()}, host


@pytest.mark.parametrize("method", sorted(cn.methods().keys() - {"gal", "oneshot"}))
def test_no_side_has_the_weights_of_another_job(method: str, side_files: Path, tmp_path: Path) -> None:
    # gal and oneshot have no first weights: a party fits what it sends, with a seed that it draws from its secret.
    (one, host), (other, again) = (first_states(side_files, tmp_path / place, method) for place in ("one", "other"))
    assert host.terms == again.terms and host.session.handshake.plan == again.session.handshake.plan
    drawn = [name for name, value in one.items() if value.is_floating_point() and len(value.unique()) > 1]
    assert {*PARTIES, "bank"} <= {name.partition("/")[0] for name in drawn}
    assert [name for name in drawn if torch.equal(one[name], other[name])] == []


def test_nobody_draws_from_a_seed_of_its_own() -> None:
    """The control: what once was drawn so. ``randomness.py`` is the one place that knows a seed or a secret."""
    assert SEEDED.search('torch.default_generator.manual_seed(derive_seed(seed, "init", member))')
    assert all(any(SOURCE.glob(pattern)) for pattern in DRAWING), "a folder moved"
    for file in [file for pattern in DRAWING for file in SOURCE.glob(pattern)]:
        found = [line for line in file.read_text().splitlines() if SEEDED.search(line)]
        assert not found, f"{file.name}: {found}; draw from the side's Randomness"


def test_a_process_cannot_draw_for_a_side_whose_secret_it_lacks() -> None:
    with pytest.raises(cn.errors.ConfigError, match="'shop' was to draw"):
        Sources(0, {"bank": bytes(32)}).of("shop")
