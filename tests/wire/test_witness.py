"""What a witness at the halves keeps: what travelled, about a sample of rows, and as much as the ledger says."""

from __future__ import annotations

import itertools
from collections import defaultdict
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import colonnade as cn
import views
from colonnade.core.schedule import Schedule, Turn
from colonnade.runtime.remote.party_server import PartyServer
from colonnade.wire.message import fields_of
from colonnade.wire.owner_half import OwnerHalf
from colonnade.wire.party_half import PartyHalf
from colonnade.wire.recorded_epochs import RecordedEpochs
from colonnade.wire.view import Seen, View
from colonnade.wire.witness import FEWEST_ROWS, Placed, Recording, Transfer, Witness, witness_of

ROWS = 60
SEALS = {
    "none": None,
    "bits": cn.Bits(4),
    "feedback": cn.Bits(4, feedback=True),
    "topk": cn.TopK(0.5, feedback=True),
    "noise": cn.Noise(epsilon=1e6, delta=1e-5, clip=1.0),
}


def tables(rows: int = ROWS, owner: str = "labels") -> list[cn.Table]:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(rows, 11)).astype(np.float32)
    y = (x @ rng.normal(size=(11, 3))).argmax(1)
    return cn.split(x, y, [list(range(a, b)) for a, b in itertools.pairwise((0, 3, 6, 9, 11))], owner=owner)


def train(method: Any = "vimadmm", **more: Any) -> cn.Run:
    return cn.train(tables(), method, **{"rounds": 8, "batch": 16, "runtime": "loop", "record": True, **more})


# what travelled


@pytest.mark.parametrize("seal", SEALS.values(), ids=SEALS)
def test_recording_changes_nothing(seal: Any) -> None:
    """Without a seal every method is tried in tests/methods/test_contract.py."""
    plain, recorded = (train(seal=seal, test=tables(20), record=record) for record in (False, True))
    assert plain.ledger.rows == recorded.ledger.rows
    for side, state in plain.model.states().items():
        assert all(torch.equal(value, recorded.model.states()[side][name]) for name, value in state.items()), side
    assert recorded.view.counts == views.counted(recorded.ledger)


@pytest.mark.parametrize("seal", SEALS.values(), ids=SEALS)
@pytest.mark.parametrize("method", ["vimadmm", "vafl"])
def test_a_view_has_what_the_receivers_read(method: str, seal: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also what a codec made of it, and with error feedback what the receiver's memory then holds."""
    read: dict[tuple[str, str, int], list[Any]] = defaultdict(list)
    hear, opened = PartyHalf.hear, OwnerHalf.open

    def heard(half: PartyHalf, wire: Any, kind: Any, form: Any, step: str, turn: Turn, check: Any = None) -> Any:
        message = hear(half, wire, kind, form, step, turn, check)
        read[step, half.name, turn.round].append((turn, copied(message)))
        return message

    def was_opened(half: OwnerHalf, answer: Any, party: str, step: str, turn: Turn, **more: Any) -> Any:
        message = opened(half, answer, party, step, turn, **more)
        read[step, party, turn.round].append((turn, copied(message)))
        return message

    monkeypatch.setattr(PartyHalf, "hear", heard)
    monkeypatch.setattr(OwnerHalf, "open", was_opened)
    view = train(method, seal=seal, runtime="bytes").view
    assert sum(map(len, read.values())) == len(view.seen) > 50
    for one in view.seen:
        party = one.sender if one.receiver == "owner" else one.receiver
        turn, fields = read[one.step, party, one.round].pop(0)
        assert one.rows.tolist() == turn.rows.tolist(), "all rows are in the sample"
        for name, value in (one.fields | one.others).items():
            assert np.array_equal(value, fields[name]), (one.step, name)


def copied(message: Any) -> dict[str, np.ndarray]:
    return {name: value.detach().clone().numpy() for name, value in fields_of(message).items()}


@pytest.mark.parametrize("recover", [False, True])
def test_of_blinded_sums_there_are_the_sums_alone(recover: bool) -> None:
    run = train("vimadmm-j", seal=cn.Blind(recover=recover))
    sums = [one for one in run.view.seen if one.summed]
    assert len(sums) == 8 and {one.sender for one in sums} == {"sum"} and {one.receiver for one in sums} == {"owner"}
    assert {one.sender for one in run.view.seen} == {"sum", "owner"}
    assert run.view.counts == views.counted(run.ledger), "masked replies and keys are counted"
    plain = train("vimadmm-j")
    first = np.sum([one.fields["o"] for one in plain.view.seen if one.sender != "owner" and one.round == 0], 0)
    assert np.allclose(sums[0].fields["o"], first, atol=1e-3)


def test_a_message_to_all_is_one_for_each_and_shares_its_values() -> None:
    told = [one for one in train("vimadmm-j").view.seen if one.sender == "owner" and one.round == 0]
    assert [one.receiver for one in told] == [f"party {k}" for k in range(1, 5)]
    assert len({id(one.fields) for one in told}) == 1


def test_what_an_evaluation_asks_is_recorded_too() -> None:
    run = train(test=tables(20), evaluate_every=4, valid=0.2)
    asked = {(one.purpose, one.table, one.round) for one in run.view.seen if one.purpose != "train"}
    assert asked == {("evaluate", table, number) for table in ("train", "test") for number in (4, 8)}
    held_out = np.concatenate([one.rows for one in run.view.seen if (one.purpose, one.table) == ("evaluate", "train")])
    assert set(held_out) == set(run.schedule.valid_rows.tolist()) and not set(held_out) & set(run.view.sample)


def test_of_rows_that_were_replaced_nothing_stays() -> None:
    run = train()
    for count in (30, 20):
        run.predict(tables(count))
    asked = [one for one in run.view.seen if one.purpose == "predict"]
    assert len(asked) == 4 and {len(one.rows) for one in asked} == {20}


@pytest.mark.parametrize("seal", [None, cn.Bits(4, feedback=True), cn.Blind()], ids=repr)
def test_a_party_in_another_process_sees_its_own_messages(seal: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same that the owner's view has of them, but of a blinded reply nothing."""
    init = PartyServer.__init__
    monkeypatch.setattr(
        PartyServer, "__init__", lambda self, spec, *rest: init(self, replace(spec, record=Recording(spec.name)), *rest)
    )
    run = train("vimadmm-j", runtime="apart", seal=seal)
    for name, server in run.parties.backend.transport.parties.items():
        own = server.witness.view()
        assert own.side == name and own.counts == views.counted(server.ledger)
        both = [one for one in run.view.seen if name in (one.sender, one.receiver)]
        assert len(both) == len(own.seen) > 0
        for one, other in zip(both, own.seen, strict=True):
            views.check_same_message(one, other)


# what does not fit


class Pretended:
    """A training whose messages are made up: so many rows, each with numbers, and a head beside them."""

    def __init__(self, witness: Witness, rows: int, batch: int, head: int = 1) -> None:
        self.witness, self.schedule, self.head = witness, Schedule(rows, batch), head

    def run(self, first: int, last: int) -> View:
        for number in range(first, last):
            turn = Turn(number, self.schedule.batch_of(number))
            fields = {"h": turn.rows.float()[:, None].repeat(1, 10), "head": torch.full((self.head,), float(number))}
            transfer = Transfer("embed", "bank", ["owner"], turn, Placed(self.schedule.rows, 1))
            self.witness.count(("train", "embed", "bank", "owner"), fields)
            if self.witness.records:
                self.witness.note(fields, transfer)
            assert self.witness.view().nbytes <= self.witness.most_bytes
        return self.witness.view()


def pretended(rows: int = 1000, batch: int = 100, most: int = 0, head: int = 1) -> Pretended:
    schedule = Schedule(rows, batch)
    sample = torch.randperm(rows, generator=torch.Generator().manual_seed(0))[: rows // 2]
    witness = Witness(sample, RecordedEpochs(schedule.rounds_per_epoch))
    witness.most_bytes = most or witness.most_bytes  # less than a megabyte
    return Pretended(witness, rows, batch, head)


def epochs_in(view: View, per_epoch: int = 10) -> list[int]:
    return sorted({one.round // per_epoch for one in view.seen})


def test_only_sampled_rows_are_kept_the_same_in_every_epoch() -> None:
    view = pretended().run(0, 40)
    for epoch in range(4):
        rows = np.concatenate([one.rows for one in view.seen if one.round // 10 == epoch])
        assert sorted(rows) == view.sample.tolist() and len(rows) == 500
    assert all((one.fields["h"] == one.rows[:, None]).all() for one in view.seen)
    assert view.left_out == []


def test_of_many_epochs_some_between_are_kept() -> None:
    view = pretended().run(0, 1000)
    assert epochs_in(view) == [0, 1, *range(4, 97, 4), 98, 99]
    assert view.left_out == ["of the epochs between the first two and the last two, only every 4th was kept"]
    assert "only every 2nd was kept" in pretended().run(0, 400).left_out[0]


def test_what_does_not_fit_is_left_out_evenly_and_said() -> None:
    one_epoch = 500 * (10 * 4 + 8) + 10 * 4
    view = pretended(most=8 * one_epoch).run(0, 250)
    assert epochs_in(view) == [0, 1, 8, 16, 23, 24]
    few = pretended(most=one_epoch + 200).run(0, 250)
    assert epochs_in(few) == [0, 24] and len(few.sample) == 250
    assert few.left_out[-1] == "250 of 500 sampled rows were kept"
    assert {len(np.concatenate([s.rows for s in few.seen if s.round // 10 == e])) for e in (0, 24)} == {250}
    assert {int(n) for one in few.seen for n in one.rows} == set(few.sample.tolist())


def test_large_values_of_no_row_go_first() -> None:
    view = pretended(most=1 << 20, head=10_000).run(0, 100)
    assert "values of no row were kept in the first round of an epoch only" in view.left_out
    assert {one.round % 10 for one in view.seen if one.others} == {0}
    assert len(view.sample) == 500


def test_when_nothing_fits_it_stops_and_goes_on_counting() -> None:
    view = pretended(most=1000).run(0, 100)
    assert view.counts == {("train", "embed", "bank", "owner"): (100, 100 * (100 * 40 + 4))}
    assert view.left_out[-1].startswith("nothing was kept from round 1 on") and view.nbytes <= 1000
    assert len(view.sample) < 2 * FEWEST_ROWS


def test_who_goes_back_forgets_what_comes_again() -> None:
    once, twice = pretended(), pretended()
    twice.run(0, 25)
    twice.witness.go_back()
    views_of = [once.run(0, 40).seen, twice.run(13, 40).seen]
    assert len(views_of[0]) == len(views_of[1])
    for one, other in zip(*views_of, strict=True):
        views.check_same_message(one, other)


def test_a_head_with_as_many_entries_as_rows_is_of_no_row() -> None:
    (one, *_) = pretended(head=100).run(0, 1).seen
    assert isinstance(one, Seen) and one.others.keys() == {"head"} and one.fields.keys() == {"h"}


def test_a_sample_has_no_row_that_is_held_out() -> None:
    schedule = Schedule(5000, 100, valid=0.5)
    sample = witness_of(5000, schedule).view().sample
    assert len(sample) == 2000 and not set(sample) & set(schedule.valid_rows.tolist())
    assert np.array_equal(sample, witness_of(5000, schedule, Recording("shop")).view().sample), (
        "all sides sample the same"
    )


# what a lying owner could do to a party's witness


def note(witness: Witness, number: int, rows: Tensor, purpose: str = "train") -> None:
    fields = {"h": torch.ones(len(rows), 1)}
    turn = Turn(number, rows, "train", purpose)
    witness.note(fields, Transfer("embed", "bank", ["owner"], turn, Placed(1000, 1)))


@pytest.mark.parametrize("purpose", ["train", "evaluate"])
def test_a_message_of_an_epoch_that_was_left_out_breaks_nothing(purpose: str) -> None:
    made = pretended()
    before = epochs_in(made.run(0, 1000))
    assert 9 not in before and 8 in before
    for number in (81, 95):
        note(made.witness, number, torch.arange(100), purpose)
    assert epochs_in(made.witness.view()) == before
    assert [one.round for one in made.witness.view().seen].count(81) == 2, "one of an epoch that is kept is noted"


def test_messages_without_values_fill_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("colonnade.wire.witness.MOST_MESSAGES", 50)
    flooded, honest = pretended().witness, pretended()
    for _ in range(60):
        if flooded.records:
            note(flooded, 3, torch.arange(0), "explain")
    assert len(flooded.view().seen) == 50 and flooded.view().left_out == ["nothing was kept from round 3 on"]
    assert honest.run(0, 40).left_out == [], "forty messages are not too many"
    assert 0 < len(honest.run(40, 200).seen) <= 50 and honest.witness.records, "of more, fewer epochs are kept"


def test_rounds_that_came_again_after_a_gap_are_no_gap() -> None:
    witness = pretended().witness
    witness.begin_at(4)
    assert witness.view().left_out == ["nothing was recorded in rounds 0 to 3"]
    witness.begin_at(2)
    assert witness.view().left_out == ["nothing was recorded in rounds 0 to 1"]
    for _ in range(100):
        witness.begin_at(0)
        witness.begin_at(5)
    assert witness.view().left_out == ["nothing was recorded in rounds 0 to 4"]
