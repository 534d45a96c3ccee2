"""An owner of a run of one round that goes back and asks a party another question, by other labels."""

from __future__ import annotations

import shutil

import pytest

from colonnade.core.method import Owner, Turn
from colonnade.errors import CheckpointError, PrivacyError, TrainingError
from colonnade.federation.party_counts import OnlyQuestion
from colonnade.methods import oneshot
from colonnade.methods.label_codes import Labels, labels_to_send
from near import Sides, lead

pytest.importorskip("grpc")
pytest.importorskip("pyarrow")

SMALL = '[method]\nlearner = "linear"\ntop = "linear"\nfolds = 2\n'
JOB = {"method": "oneshot", "train": "rounds = 1", "federation": 'labels = "shown"', "more": SMALL}


def leave(_: object) -> None:
    raise TrainingError("enough.")


def begin_and_go_back(sides: Sides) -> None:
    """Train the only round, and let the owner forget that it did."""
    with pytest.raises(TrainingError, match="enough"):
        lead(sides.host(**JOB), leave)
    sides.restart()
    shutil.rmtree(sides.folder / "run-bank" / "checkpoints" / "00000001")


def turned(owner: Owner, turn: Turn) -> Labels:
    """Other labels than the owner's."""
    return Labels(255 - labels_to_send(owner, turn).y)


def test_a_party_answers_one_question_in_a_run(sides: Sides, monkeypatch: pytest.MonkeyPatch) -> None:
    """An owner that goes back to its first checkpoint and sends other labels would read another score of every row."""
    begin_and_go_back(sides)
    monkeypatch.setattr(oneshot, "labels_to_send", turned)
    with pytest.raises(PrivacyError, match="told something else then; a run of one round is one question"):
        lead(sides.host(**JOB))
    sides.restart()
    monkeypatch.setattr(OnlyQuestion, "__call__", lambda *_: None)  # the control: without the rule it is answered
    lead(sides.host(**JOB))


def test_the_same_question_is_answered_again(sides: Sides) -> None:
    begin_and_go_back(sides)
    lead(sides.host(**JOB))


def test_a_damaged_note_of_the_question_is_not_taken_for_none(sides: Sides) -> None:
    begin_and_go_back(sides)
    (place,) = (sides.folder / "run-shop").glob("job-*/told.json")
    place.write_text("[]")
    with pytest.raises(CheckpointError, match=r"told\.json is damaged, and with it what was counted"):
        lead(sides.host(**JOB))
