"""A left join between organisations: what an owner with valid keys tries in it, and what parties refuse.

Real parties and owners in one process; a control takes away what stops the attack, and shows it at work.
"""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from colonnade.errors import (
    ColonnadeError,
    ConfigError,
    ManifestError,
    NoCommonIdError,
    PrivacyError,
    SealError,
    TrainingError,
)
from colonnade.federation import owner_alignment, side_files
from colonnade.federation.party_counts import OpenRows
from colonnade.federation.prediction import Prediction
from colonnade.federation.terms import terms_of
from colonnade.tables.align.align_messages import LeftPlaces
from colonnade.tables.align.alignment_owner import AlignmentOwner
from colonnade.tables.align.alignment_party import AlignmentParty
from near import Near, Sides, lead

pytest.importorskip("grpc")
pytest.importorskip("pyarrow")

SMALL = '[method]\nlearner = "linear"\ntop = "linear"\nfolds = 2\n'
JOB = {"method": "oneshot", "train": "rounds = 1", "federation": 'labels = "shown"', "more": SMALL}
LEFT = {**JOB, "align": 'join = "left"'}
FEW = 12  # of the bank's 40 people the mill knows these


@pytest.fixture
def sides(sides: Sides) -> Sides:
    sides.write_parties('runs = 3\njoins = ["inner", "left"]', '[predict]\nfiles = "table.csv"')
    path = sides.folder / "mill" / "table.csv"
    path.write_text("\n".join(path.read_text().splitlines()[: 1 + FEW]) + "\n")
    return sides


def ids_of(sides: Sides, name: str) -> list[str]:
    with (sides.folder / name / "table.csv").open() as file:
        return [row["id"] for row in csv.DictReader(file)]


def kept(sides: Sides, name: str) -> np.ndarray:
    """The rows that a party keeps of the job: its own numbers in the common order."""
    (place,) = (sides.folder / f"run-{name}").glob("job-*/rows.bin")
    return np.frombuffer(place.read_bytes(), "<i8")


def leave(_: Any) -> None:
    raise TrainingError("enough.")


def test_every_party_keeps_its_rows_at_the_owners_places(sides: Sides) -> None:
    host = sides.host(**LEFT)
    lead(host)
    order = np.array(ids_of(sides, "bank"))[host.session.aligned.rows]
    assert len(order) == 40
    for name, count in (("shop", 40), ("mill", FEW)):
        rows = kept(sides, name)
        assert int((rows >= 0).sum()) == count == int(host.session.aligned.known[name].sum())
        assert (np.array(ids_of(sides, name))[rows[rows >= 0]] == order[rows >= 0]).all()


def test_the_order_follows_from_the_owners_secret_alone(sides: Sides) -> None:
    """A party that could compute it could try out ids against the gaps between its places."""
    host = sides.host(**LEFT)
    lead(host)
    first = host.session.aligned.rows
    secret = (sides.folder / "run-bank" / "secret.key").read_bytes()
    assert [*owner_alignment.order_of([one.encode() for one in ids_of(sides, "bank")], 0, secret)] == [*first]
    other = owner_alignment.order_of([one.encode() for one in ids_of(sides, "bank")], 0, bytes(32))
    assert [*other] != [*first]


def test_a_party_is_told_nothing_of_another(sides: Sides) -> None:
    host = sides.host(**LEFT)
    lead(host)
    told = [line for line in host.session.aligned.ledger.rows if line.step == "spread"]
    assert {(line.receiver, line.payload) for line in told} == {("shop", 8 * 41), ("mill", 8 * (1 + FEW))}
    assert not [line for line in host.session.aligned.ledger.rows if {line.sender, line.receiver} == {"shop", "mill"}]


def test_the_minimum_holds_for_each_party(sides: Sides) -> None:
    """Few common ids of the mill are opened to nobody, however many the shop has."""
    host = sides.host(**{**LEFT, "align": f'join = "left"\nminimum = {FEW + 1}'})
    with pytest.raises((PrivacyError, NoCommonIdError), match="minimum"):
        lead(host)
    assert not list((sides.folder / "run-mill").glob("job-*/rows.bin"))


def test_a_minimum_needs_no_peers_because_each_party_compares_itself(sides: Sides) -> None:
    sides.write_parties('joins = ["inner", "left"]\nminimum = 5', peers="")
    with pytest.raises(ManifestError, match="knows no key of 'mill'"):
        lead(sides.host(**{**JOB, "align": "minimum = 5"}))
    shutil.rmtree(sides.folder / "run-bank")
    sides.restart()
    lead(sides.host(**{**LEFT, "align": 'join = "left"\nminimum = 5'}))


def test_a_left_join_is_refused_unless_it_is_allowed(sides: Sides) -> None:
    sides.write_parties()
    with pytest.raises(ManifestError, match=r"align.join 'left', and 'shop' allows \['inner'\]"):
        lead(sides.host(**LEFT))


BLIND = '[[seal]]\nkind = "blind"\n'


@pytest.mark.parametrize(
    ("method", "more", "words"),
    [("fdml", "", "fdml needs every row of every party"), ("apfed", BLIND, "that party's own value; do not sign them")],
)
def test_sums_over_rows_of_one_party_are_not_served(
    sides: Sides, method: str, more: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The owner knows who has which rows; ``test_apfed_rows.py`` reads one party's gradients from such a sum."""
    sides.write_parties('joins = ["inner", "left"]\nmix = 1')
    job = {"align": 'join = "left"', "method": method, "more": more, "federation": 'labels = "shown"'}
    with pytest.raises(ConfigError, match="join = 'left' in \\[align\\]"):
        sides.host(**job)
    monkeypatch.setattr(side_files, "_check_join", lambda *_: None)
    with pytest.raises(ManifestError, match=words):
        lead(sides.host(**job))


def test_the_terms_say_who_learns_what(sides: Sides) -> None:
    said = " ".join(terms_of(sides.owner_file(**LEFT))["learns"])
    assert "'bank' is aligned with every other party alone, and learns of each of its own ids who has it." in said
    assert "it learns nothing about the rows of other parties" in said


SPOILT = [
    (lambda total, places: (total, places[[0, *range(len(places) - 1)]]), "the same place twice"),
    (lambda total, places: (total, places + total), "goes from|they go from 0 to"),
    (lambda total, places: (total - 1, places), "announced 40 ids and now says 39"),
    (lambda total, places: (total, places[1:]), "shape"),
]


@pytest.mark.parametrize(("spoil", "words"), SPOILT, ids=[words for _, words in SPOILT])
def test_false_places_are_refused(sides: Sides, spoil: Any, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def tell(self: AlignmentOwner, places: np.ndarray, total: int) -> None:
        count, where = spoil(total, places)
        message = LeftPlaces(torch.tensor(count), torch.from_numpy(np.ascontiguousarray(where)))
        self.parties.tell(AlignmentParty.spread, self.turn, all=message, to=[1])

    monkeypatch.setattr(AlignmentOwner, "tell_places", tell)
    with pytest.raises(ColonnadeError, match=words):
        lead(sides.host(**LEFT))


def test_places_are_refused_where_an_inner_join_was_signed(sides: Sides, monkeypatch: pytest.MonkeyPatch) -> None:
    def told(host: Any, ids: Any, terms: Any, on_progress: Any, places: Any = None) -> Any:
        return real(host, ids, terms, on_progress, np.arange(len(ids)))

    real = owner_alignment._aligned
    monkeypatch.setattr(owner_alignment, "_aligned", told)
    with pytest.raises(SealError, match="told places among the owner's rows, and none are due"):
        lead(sides.host(**JOB))


def test_an_owner_that_tells_no_places_has_no_rows(sides: Sides, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(AlignmentOwner, "tell_places", lambda *_: None)
    with pytest.raises(ManifestError, match="has not aligned these rows; align again"):
        lead(sides.host(**LEFT))


def align_anew(sides: Sides) -> None:
    """Begin a run, and have the owner forget its rows: it draws other places for the same people."""
    with pytest.raises(TrainingError, match="enough"):
        lead(sides.host(**LEFT), leave)
    sides.restart()
    (sides.folder / "run-bank" / "alignment.json").unlink()


def test_a_run_keeps_its_rows_and_their_places(sides: Sides, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other places would let the owner ask about other people under the labels of these."""
    align_anew(sides)
    monkeypatch.setattr(owner_alignment, "order_of", lambda ids, *_: np.arange(len(ids)))
    with pytest.raises(ManifestError, match="other rows than this run has, or another order"):
        lead(sides.host(**LEFT))
    sides.restart()
    monkeypatch.setattr(OpenRows, "check", lambda *_: None)  # the control: without the rule the party goes on
    (sides.folder / "run-bank" / "alignment.json").unlink(missing_ok=True)
    host = sides.host(**LEFT)
    host.gather()
    host.close()


def test_after_a_restart_the_rows_are_found_again_without_comparing_ids(sides: Sides) -> None:
    with pytest.raises(TrainingError, match="enough"):
        lead(sides.host(**LEFT), leave)
    sides.restart()
    lead(sides.host(**LEFT))
    for name in ("shop", "mill"):
        (count,) = (sides.folder / f"run-{name}").glob("job-*/alignments.json")
        assert json.loads(count.read_text()) == 1


def test_a_prediction_scores_all_of_the_owners_new_rows(sides: Sides, tmp_path: Path) -> None:
    host = sides.host(**LEFT)
    lead(host)
    listener: Any = Near(sides.guests, {})
    sides.restart()
    sides.guests.update({name: sides.guest(name) for name in ("shop", "mill")})
    files = [str(sides.folder / "bank" / "table.csv")]
    predicting = Prediction(host.job_file, sides.folder / "run-bank", files, listener=listener)
    try:
        predicting.gather()
        scores = predicting.score()
    finally:
        predicting.close()
    assert [*scores.ids] == ids_of(sides, "bank")
    assert scores.values.shape == (40, 2) and bool(scores.values.isfinite().all())
