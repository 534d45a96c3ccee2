"""A split by the owner's dates between organisations: what is signed and told, and an owner that tells two things."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_contract import without_time

from colonnade.errors import ColonnadeError, ConfigError, ManifestError, MessageError, TableError
from colonnade.federation import owner_process
from colonnade.federation.handshake import MOST, facts_in
from colonnade.federation.job_parts import parts_at_party
from colonnade.federation.owner_process import OwnerProcess
from colonnade.federation.plan_check import check_split
from colonnade.federation.prediction import Prediction
from colonnade.federation.side_files import read_owner_file
from colonnade.federation.terms import learns, terms_of
from colonnade.federation.terms_forms import check_terms_form
from colonnade.federation.told_rows import LEFT_OUT, TEST, digest_of_rows, parts_in, told_rows
from colonnade.jobs.run_job import train_job
from colonnade.jobs.table_sections import AlignSection, Files, PartySection
from colonnade.runtime.remote.packet import read_packet, write_packet
from colonnade.tables.prepare.row_parts import RowParts
from colonnade.wire.ledger import OWNER
from near import PARTIES, Near, Sides, make_sides

SPLIT = '[prepare]\nsplit = {column = "called", after = "2024-06"}'
JOB = {"train": "rounds = 3\nvalid = 0.1\nseed = 3", "align": 'mode = "plain"', "more": SPLIT}


def with_dates(folder: Path) -> None:
    """Give every row of the bank a month, and one of them none."""
    head, *lines = (folder / "bank" / "table.csv").read_text().splitlines()
    months = [str(np.datetime64("2024-01", "M") + k % 10) for k in range(len(lines))]
    months[5] = ""
    dated = [f"{line},{month}" for line, month in zip(lines, months, strict=True)]
    (folder / "bank" / "table.csv").write_text("\n".join([f"{head},called", *dated]) + "\n")


@pytest.fixture
def sides(tmp_path: Path) -> Iterator[Sides]:
    with_dates(make_sides(tmp_path, rows=60))
    sides = Sides(tmp_path)
    sides.write_parties(allow='align = ["plain"]\nruns = 9')
    yield sides
    sides.restart()


def leaving_out(more: str = SPLIT) -> dict[str, str]:
    return {**JOB, "more": more.replace("}", ', missing = "leave out"}')}


def in_one_process(folder: Path) -> Any:
    """The same job in one process, with the secrets that the sides drew."""
    side_file = read_owner_file(folder / "bank" / "job.toml")
    parties = [side_file.own, *(PartySection(one, f"../{one}/table.csv", "id") for one in PARTIES)]
    files = Files(tuple(parties), AlignSection(mode="plain"), side_file.prepare, folder / "bank")
    secrets = {one: next((folder / f"run-{one}").glob("*-*/secret.key")).read_bytes() for one in PARTIES}
    own = (folder / "run-bank" / "secret.key").read_bytes()
    job = replace(side_file.job, data=files, train=replace(side_file.job.train, runtime="loop"))
    return train_job(job, secrets={OWNER: own, "bank": own, **secrets})


def trained(host: OwnerProcess) -> Any:
    try:
        host.gather()
        return host.train()
    finally:
        host.close()


def test_a_federation_does_what_one_process_does(sides: Sides) -> None:
    far = trained(sides.host(**leaving_out()))
    near = in_one_process(sides.folder)
    assert without_time(far.history) == without_time(near.history)
    assert far.findings == near.findings and far.findings["periods"]["unit"] == "month"
    assert far.description["columns"]["bank"]["names"] == ["a", "b", "c"], "the date is no input of the model"
    terms = json.loads((sides.folder / "run-bank" / "terms.json").read_text())
    assert terms["prepare"]["split"] == {
        "column": "called", "after": "2024-06", "missing": "leave out", "feature": False,
    }  # fmt: skip
    said = "whether its date in column 'called' of 'bank' is 2024-06 or later, earlier or missing."
    assert any(said in line for line in terms["learns"]) and terms["learns"] == learns(terms)
    plan = json.loads((sides.folder / "run-bank" / "plan.json").read_text())
    test = [line["rows"] for line in far.findings["periods"]["lines"] if line["part"] == "test"]
    assert plan["test"] == sum(test) and len(plan["split"]) == 64


def test_its_model_predicts_rows_without_dates(sides: Sides) -> None:
    sides.write_parties(allow='align = ["plain"]\nruns = 9', more='[predict]\nfiles = "table.csv"')
    trained(sides.host(**leaving_out()))
    sides.restart()
    undated = [line.rpartition(",")[0] for line in (sides.folder / "bank" / "table.csv").read_text().splitlines()]
    (sides.folder / "new.csv").write_text("\n".join(undated) + "\n")
    listener: Any = Near({name: sides.guests.setdefault(name, sides.guest(name)) for name in PARTIES}, {})
    side_file = sides.owner_file(**leaving_out())
    host = Prediction(side_file, sides.folder / "run-bank", [str(sides.folder / "new.csv")], listener=listener)
    try:
        host.gather()
        assert len(host.score().ids) == 60
    finally:
        host.close()


def test_parties_that_come_back_are_told_the_same(sides: Sides) -> None:
    host = sides.host(**leaving_out())
    host.gather()
    host.session.with_all(host._ready)
    host.close()
    sides.restart()
    assert trained(sides.host(**leaving_out())).round == 3


def test_a_missing_date_ends_it_before_anybody_is_asked(sides: Sides) -> None:
    with pytest.raises(TableError, match="has no date in 1 rows, the first is row 6; fill them in, or leave such rows"):
        sides.host(**JOB)
    assert not (sides.folder / "run-bank").exists()


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ('"called"', '"a date"', "'bank' has no column 'a date' to split by; only the owner's dates decide"),
        ("2024-06", "2030", "before 2030, the last at 2024-10; give an earlier date"),
        ("2024-06", "2024-06-15", "is a day and column 'called' of 'bank' holds months"),
    ],
)
def test_what_cannot_be_split_by_is_refused_at_once(old: str, new: str, sentence: str, sides: Sides) -> None:
    with pytest.raises((ConfigError, TableError)) as caught:
        sides.host(**leaving_out(SPLIT.replace(old, new)))
    assert sentence in str(caught.value)


# An owner that tells one party something else


class TwoTongues(Near):
    """Tells the mill that two rows change places: one to test on, and one to train on."""

    def send(self, party: str, connection: int, data: bytes) -> None:
        packet = read_packet(data)
        if party == "mill" and packet.step == "prepare":
            facts = facts_in(packet)
            parts = parts_in(facts, 60)
            swapped = RowParts(np.r_[parts.train[1:], parts.test[:1]], np.r_[parts.test[1:], parts.train[:1]])
            facts |= told_rows(swapped, 60)
            data = write_packet(replace(packet, frames=(json.dumps(facts).encode(),)))
        super().send(party, connection, data)


def test_everybody_signs_what_everybody_was_told(sides: Sides) -> None:
    host = sides.host(**leaving_out())
    listener: Any = TwoTongues(sides.guests, {})
    host.close()
    lying = OwnerProcess(host.job_file, sides.folder / "run-bank", listener=listener)
    with pytest.raises(ColonnadeError, match="the plan has other rows to test on than the owner told 'mill'"):
        trained(lying)


def test_a_run_keeps_its_test_rows(sides: Sides, monkeypatch: pytest.MonkeyPatch) -> None:
    host = sides.host(**leaving_out())
    host.gather()
    host.session.with_all(host._ready)
    host.close()
    sides.restart()
    honest = owner_process.parts_at_owner

    def others(*of: Any) -> RowParts:
        parts = honest(*of)
        return RowParts(np.r_[parts.train[1:], parts.test[:1]], np.r_[parts.test[1:], parts.train[:1]], parts.dates)

    monkeypatch.setattr(owner_process, "parts_at_owner", others)
    with pytest.raises(ColonnadeError, match="other rows to train and to test on than when this run began"):
        trained(sides.host(**leaving_out()))


def test_a_plan_is_compared_with_what_was_told_and_signed() -> None:
    check_split({"split": "a"}, "a", None, "shop")
    check_split({}, None, {}, "shop")
    for plan, told, signed in (({"split": "a"}, "b", None), ({"split": "a"}, None, None), ({"split": "a"}, "a", {})):
        with pytest.raises(ManifestError, match="other rows to test on"):
            check_split(plan, told, signed, "shop")


# What travels


@pytest.mark.parametrize("count", [3, 8, 9, 100])
def test_told_rows_come_back(count: int) -> None:
    left, test = np.arange(count) % 3 == 1, np.arange(count) % 3 == 2
    parts = RowParts(np.flatnonzero(~left & ~test), np.flatnonzero(test))
    found = parts_in(json.loads(json.dumps(told_rows(parts, count))), count)
    assert found.train.tolist() == parts.train.tolist() and found.test.tolist() == parts.test.tolist()
    assert found.dates is None, "no date travels"
    whole = RowParts(np.flatnonzero(~test), np.flatnonzero(test))
    assert told_rows(whole, count).keys() == {TEST}, "nothing is said of rows that are left out if none are"


def test_another_row_is_another_digest() -> None:
    facts = told_rows(RowParts(np.arange(7), np.arange(7, 10)), 10)
    other = told_rows(RowParts(np.arange(1, 8), np.r_[0, 8, 9]), 10)
    assert digest_of_rows(facts) != digest_of_rows(other) and len(digest_of_rows(facts)) == 64


@pytest.mark.parametrize(
    ("facts", "sentence"),
    [
        ({}, "'test_rows' came with the word 'prepare' and is not one bit for each of 10"),
        ({TEST: 7}, "not one bit for each"),
        ({TEST: "AAA="}, "none is left for training or for testing"),
        ({TEST: "/8A="}, "none is left for training or for testing"),
        ({TEST: "AP8="}, "not one bit for each"),
        ({TEST: "A*B="}, "not one bit for each"),
        ({TEST: "A" * 400}, "not one bit for each"),
        ({TEST: "gAA=", LEFT_OUT: "gAA="}, "one is in two parts"),
        ({TEST: "gAA=", LEFT_OUT: ["gAA="]}, "'left_out' came with the word 'prepare' and is not one bit"),
    ],
)
def test_other_words_about_rows_are_refused(facts: dict[str, Any], sentence: str) -> None:
    with pytest.raises(MessageError, match=sentence):
        parts_in(facts, 10)


def test_rows_may_be_told_only_if_the_terms_say_so() -> None:
    terms = {"prepare": {}, "train": {}}
    assert len(parts_at_party({}, np.arange(10), terms).test) == 2
    with pytest.raises(MessageError, match="the terms have no split by date"):
        parts_at_party({TEST: "gAA="}, np.arange(10), terms)


def test_more_rows_than_a_word_has_room_for_are_refused_at_the_owner() -> None:
    many = 6 * MOST
    with pytest.raises(ConfigError, match="common rows are more than the owner can tell its parties"):
        told_rows(RowParts(np.arange(1), np.arange(1, many)), many)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"after": 2024}, "prepare.split.after"),
        ({"after": "x" * 50}, "prepare.split.after"),
        ({"missing": "guess"}, "prepare.split.missing"),
        ({"feature": 1}, "prepare.split.feature"),
        ({"more": 1}, "prepare.split.more"),
        ({"column": ["called"]}, "prepare.split.column"),
    ],
)
def test_terms_with_another_split_are_refused_by_field(change: dict[str, Any], field: str, sides: Sides) -> None:
    terms = terms_of(sides.owner_file(**leaving_out()))
    check_terms_form(terms)
    terms["prepare"]["split"] |= change
    with pytest.raises(MessageError, match=field):
        check_terms_form(terms)
