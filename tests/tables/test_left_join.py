"""A left join: all of the owner's rows, and who has which of them; what is told to whom, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import colonnade as cn
from colonnade.errors import ConfigError, MessageError, NoCommonIdError, PrivacyError, SealError, TableError
from colonnade.jobs.job_file import read_job
from colonnade.jobs.run_job import gather, train_job
from colonnade.signatures import Identity
from colonnade.tables.align.align_messages import LeftPlaces
from colonnade.tables.align.align_terms import AlignTerms
from colonnade.tables.align.alignment import who_learns
from colonnade.tables.align.alignment_party import AlignmentParty
from colonnade.tables.prepare.row_parts import random_parts

ROWS = 40


def tables() -> list[cn.Table]:
    """An owner, and two parties that have some of its people and some of their own."""
    random = np.random.default_rng(3)
    own = np.arange(100, 100 + ROWS)
    bank = cn.Table(own, own[:, None].astype(float), own % 2, "bank")
    others = []
    for name, mine in (("shop", own[::2]), ("post", own[:5])):
        ids = random.permutation([*mine, *range(900, 907)])
        others.append(cn.Table(ids.astype(str), 10 * ids[:, None].astype(float), name=name))
    return [bank, *others]


@pytest.mark.parametrize(("mode", "runtime"), [("psi", "loop"), ("psi", "bytes"), ("plain", "loop")])
def test_every_row_of_the_owner_is_there_and_every_party_has_its_own(mode: str, runtime: str) -> None:
    alignment = cn.align(tables(), join="left", mode=mode, runtime=runtime)
    bank, shop, post = alignment.take(tables(), unaligned=True)
    assert sorted(bank.ids.tolist()) == sorted(map(str, range(100, 140))) and bank.known is None
    assert alignment.known == {"bank": 40, "shop": 20, "post": 5} and alignment.count == 40
    for table in (shop, post):
        assert table.ids.tolist() == bank.ids.tolist()
        assert torch.equal(table.columns[table.known], 10 * bank.columns[table.known])
        assert not bool(table.columns[~table.known].any())
        assert sorted(table.unaligned[:, 0].tolist()) == [10.0 * each for each in range(900, 907)]
    assert shop.known.sum() == 20 and post.known.sum() == 5 and bank.unaligned is None


def test_the_order_is_the_same_every_time_and_not_that_of_the_file() -> None:
    one, again = (cn.align(tables(), join="left", mode=mode) for mode in ("psi", "plain"))
    bank, *others = tables()
    turned = cn.align([bank.take(np.arange(ROWS)[::-1]), *others], join="left", mode="plain")
    assert all(np.array_equal(one.rows[name], again.rows[name]) for name in one.names)
    assert np.array_equal(turned.rows["bank"], ROWS - 1 - one.rows["bank"])
    assert not np.array_equal(one.rows["bank"], np.arange(ROWS))
    assert not np.array_equal(one.rows["bank"], cn.align(tables(), join="left", mode="plain", seed=1).rows["bank"])


def test_a_party_hears_of_its_own_rows_only() -> None:
    """Of all that the owner tells a party, only the places say something of its rows, and they are its own."""
    alignment = cn.align(tables(), join="left")
    told = [line for line in alignment.ledger.rows if line.step == "spread"]
    assert [(line.receiver, line.payload) for line in told] == [("shop", 8 * 21), ("post", 8 * 6)]
    assert {line.sender for line in alignment.ledger.rows} == {"owner", "shop", "post"}
    assert not [line for line in alignment.ledger.rows if {line.sender, line.receiver} == {"shop", "post"}]


def test_who_learns_what_is_said() -> None:
    said = " ".join(who_learns("psi", ["bank", "shop", "post"], "left"))
    assert "'bank' is aligned with every other party alone" in said
    assert "nothing about the rows of other parties" in said and "every group" not in said
    assert cn.align(tables(), join="left").opened == who_learns("psi", ["bank", "shop", "post"], "left")
    assert "40 ids of 'bank'" in str(cn.align(tables(), join="left", mode="plain"))


@pytest.mark.parametrize("mode", ["psi", "plain"])
def test_the_minimum_holds_for_each_pair(mode: str) -> None:
    assert cn.align(tables(), join="left", mode=mode, minimum=5).count == 40
    with pytest.raises(PrivacyError, match=r"5 ids are common to all of owner, post and minimum=6"):
        cn.align(tables(), join="left", mode=mode, minimum=6)


def test_a_party_without_any_of_the_owners_rows_is_refused() -> None:
    bank, shop, _ = tables()
    stranger = cn.Table(["x", "y"], [[1.0], [2.0]], name="stranger")
    with pytest.raises(NoCommonIdError, match="no id is common to all of owner, stranger"):
        cn.align([bank, shop, stranger], join="left")


def test_an_unknown_join_is_refused() -> None:
    with pytest.raises(ConfigError, match="unknown join of an alignment 'outer'"):
        cn.align(tables(), join="outer")


# what a party takes from the owner


def party(join: str = "left") -> AlignmentParty:
    identity = {name: Identity.new() for name in ("owner", "shop")}
    terms = AlignTerms("psi", ("owner", "shop"), 0, 1, None, join)
    keys = {name: own.public for name, own in identity.items()}
    made = AlignmentParty(terms, 1, [b"a", b"b", b"c"], identity["shop"], keys)
    made.sizes, made.rows, made.proof = [5, 3], np.array([0, 2]), "proof"
    return made


def places(total: int = 5, where: Any = (4, 1)) -> LeftPlaces:
    return LeftPlaces(torch.tensor(total), torch.tensor(where))


def test_places_are_taken_once_and_only_in_a_left_join_after_the_proof() -> None:
    shop = party()
    shop.spread(places())
    assert shop.total == 5 and shop.places.tolist() == [4, 1]
    early = party()
    early.proof = ""
    for refuses in (shop, party("inner"), early):
        with pytest.raises(SealError, match="none are due"):
            refuses.spread(places())


@pytest.mark.parametrize(
    ("message", "words"),
    [
        (places(6), "goes from 0 to 5"),
        (places(-1), "goes from 0 to 5"),
        (places(4), "announced 5 ids and now says 4"),
        (places(where=(4,)), "shape"),
        (places(where=(4.0, 1.0)), "int64"),
        (places(where=(4, 4)), "the same place twice"),
        (places(where=(4, 5)), "go from 0 to 4"),
        (places(where=(-1, 1)), "go from 0 to 4"),
        (LeftPlaces(torch.tensor([5]), torch.tensor([4, 1])), "shape"),
    ],
)
def test_wrong_places_are_refused(message: LeftPlaces, words: str) -> None:
    with pytest.raises((MessageError, SealError), match=words):
        party().spread(message)


def test_the_terms_differ_so_nobody_joins_otherwise_than_agreed() -> None:
    inner, left = (AlignTerms("psi", ("owner", "shop"), 0, 1, None, join) for join in ("inner", "left"))
    assert inner.job != left.job


# files


def files(folder: Path, shop_rows: slice = slice(None, None, 2)) -> list[cn.Sheet]:
    """Files of an owner and a shop, which also has seven people of its own with a category that no other has."""
    lines = [f"{n},{n % 7},{n % 2}" for n in range(100, 140)]
    (folder / "bank.csv").write_text("\n".join(["id,age,bad", *lines]) + "\n")
    mine = [f"{n},{n % 5},{'red' if n % 3 else 'blue'}" for n in range(100, 140)][shop_rows]
    mine += [f"{n},50,green" for n in range(900, 907)]
    (folder / "shop.csv").write_text("\n".join(["id,spent,colour", *mine]) + "\n")
    categories = ["colour"]
    return [
        cn.read(str(folder / "bank.csv"), id="id", label="bad", name="bank"),
        cn.read(str(folder / "shop.csv"), id="id", name="shop", categories=categories),
    ]


def test_a_preparation_is_learnt_on_the_partys_own_rows(tmp_path: Path) -> None:
    sheets = files(tmp_path)
    alignment = cn.align(sheets, join="left", mode="plain")
    train, test = cn.prepare(sheets, alignment, test=0.25)
    shop, held = train[1], test[1]
    assert train[0].rows == 30 and shop.known.sum() + held.known.sum() == 20
    assert abs(float(shop.columns[shop.known, 0].mean())) < 1e-5 and shop.unaligned is None
    assert "colour=green" not in shop.column_names
    with_more = cn.prepare(sheets, alignment, test=0.25, unaligned=True)[0][1]
    assert len(with_more.unaligned) == 7 and "colour=green" in with_more.column_names
    both = torch.cat([with_more.columns[with_more.known], with_more.unaligned])
    assert abs(float(both[:, 0].mean())) < 1e-5
    run = cn.train(train, cn.LASER(), rounds=2, batch=8, test=test)
    assert run.history[-1]["test_accuracy"] >= 0
    with pytest.raises(TableError, match="does not know"):
        cn.train(train, "vafl", rounds=1, batch=8)


def test_a_party_with_no_training_row_is_refused(tmp_path: Path) -> None:
    sheets = files(tmp_path, slice(0, 1))
    alignment = cn.align(sheets, join="left", mode="plain")
    held = next(seed for seed in range(99) if alignment.rows["shop"][_held(seed)].max() >= 0)
    with pytest.raises(TableError, match="'shop' has none of the 30 training rows"):
        cn.prepare(sheets, alignment, test=0.25, seed=held)


def _held(seed: int) -> np.ndarray:
    return random_parts(ROWS, 0.25, seed).test


def test_the_owners_dates_may_split_rows_that_not_everybody_has(tmp_path: Path) -> None:
    sheets = files(tmp_path)
    days = [f"{n},2024-01-{n - 99:02d},{n % 7},{n % 2}" for n in range(100, 130)]
    (tmp_path / "bank.csv").write_text("\n".join(["id,day,age,bad", *days]) + "\n")
    sheets[0] = cn.read(str(tmp_path / "bank.csv"), id="id", label="bad", name="bank")
    alignment = cn.align(sheets, join="left", mode="plain")
    train, test = cn.prepare(sheets, alignment, split=cn.TimeSplit("day", "2024-01-21"), unaligned=True)
    assert [table.rows for table in train + test] == [20, 20, 10, 10]
    assert train[0].dates.max() < np.datetime64("2024-01-21") <= test[0].dates.min() and train[1].dates is None
    assert train[1].known.sum() == 10 and test[1].known.sum() == 5 and len(train[1].unaligned) == 12


JOB = """
[[party]]
name = "bank"
files = "bank.csv"
id = "id"
label = "bad"
[[party]]
name = "shop"
files = "shop.csv"
id = "id"
[align]
mode = "plain"
join = "left"
[prepare]
unaligned = true
[train]
method = "laser"
rounds = 2
batch = 8
"""


def test_a_job_joins_left(tmp_path: Path) -> None:
    files(tmp_path)
    (tmp_path / "job.toml").write_text(JOB)
    job = read_job(tmp_path / "job.toml")
    gathered = gather(job)
    assert gathered.train[0].rows == 32 and gathered.train[1].known is not None
    assert len(gathered.train[1].unaligned) == 7
    run = train_job(job, tmp_path / "run", gathered=gathered)
    assert run.description["data"]["files"]["align"]["join"] == "left"
    scores = cn.score(run, files(tmp_path), mode="plain", missing="zero")
    assert len(scores.ids) == 40  # for everyone, also for those whom only the bank knows
    assert scores.notes == ("20 rows are scored without shop (zero), which does not know them",)
    (tmp_path / "job.toml").write_text(JOB.replace('"left"', '"outer"'))
    with pytest.raises(ConfigError, match="unknown join of an alignment"):
        read_job(tmp_path / "job.toml")
