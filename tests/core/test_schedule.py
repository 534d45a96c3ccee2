"""Rows of a round: a function of (seed, round) and nothing else."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from colonnade.core.schedule import Schedule, SharedSchedule, derive_seed, permutation
from colonnade.errors import ConfigError


def epoch(schedule: Schedule, number: int) -> list[int]:
    first = number * schedule.rounds_per_epoch
    return torch.cat([schedule.batch_of(first + k) for k in range(schedule.rounds_per_epoch)]).tolist()


@settings(deadline=None)
@given(st.data())
def test_every_epoch_visits_every_training_row_once(data: st.DataObject) -> None:
    rows, valid = data.draw(st.integers(2, 60)), data.draw(st.floats(0, 0.5))
    batch = data.draw(st.integers(1, rows - round(valid * rows)))
    shuffle = data.draw(st.sampled_from(["epoch", "once"]))
    schedule = Schedule(rows, batch, data.draw(st.integers(0, 5)), valid, shuffle)
    training, held_out = schedule.train_rows.tolist(), schedule.valid_rows.tolist()
    assert sorted(training + held_out) == list(range(rows))
    assert len(held_out) == round(valid * rows)
    for number in range(3):
        assert sorted(epoch(schedule, number)) == sorted(training)


def test_all_batches_are_full_but_the_last() -> None:
    schedule = Schedule(rows=10, batch=4)
    assert schedule.rounds_per_epoch == 3
    assert [len(schedule.batch_of(r)) for r in range(6)] == [4, 4, 2, 4, 4, 2]
    assert Schedule(rows=8, batch=4).rounds_per_epoch == 2
    assert Schedule(rows=8, batch=8).rounds_per_epoch == 1


def test_rows_depend_on_seed_and_round_alone() -> None:
    ahead, other = Schedule(20, 6, seed=1, valid=0.2), Schedule(20, 6, seed=1, valid=0.2)
    late = other.batch_of(7)  # asked out of order, as after a resume
    torch.manual_seed(99)
    state = torch.get_rng_state()
    rows = [ahead.batch_of(r) for r in range(8)]
    assert torch.equal(rows[7], late)
    assert torch.equal(torch.get_rng_state(), state)  # nobody else's randomness is spent


def test_other_seeds_other_rows() -> None:
    one, two = (Schedule(50, 40, seed=seed, valid=0.2) for seed in (0, 1))
    assert one.valid_rows.tolist() != two.valid_rows.tolist()
    assert epoch(one, 0) != epoch(two, 0)


def test_the_held_out_rows_do_not_depend_on_the_batch() -> None:
    assert torch.equal(Schedule(30, 3, valid=0.3).valid_rows, Schedule(30, 7, valid=0.3).valid_rows)


def test_shuffle_each_epoch_or_once() -> None:
    each, once = Schedule(30, 7, shuffle="epoch"), Schedule(30, 7, shuffle="once")
    assert epoch(each, 0) != epoch(each, 1) != epoch(each, 2)
    assert epoch(once, 0) == epoch(once, 1) == epoch(once, 2) == epoch(each, 0)


def test_a_batch_may_be_written_without_harm() -> None:
    schedule = Schedule(6, 3)
    before = schedule.batch_of(0).tolist()
    schedule.batch_of(0).zero_()
    assert schedule.batch_of(0).tolist() == before


@pytest.mark.parametrize("shuffle", ["epoch", "once"])
def test_batches_of_rows_in_order_of_date_are_from_all_times(shuffle: str) -> None:
    schedule = Schedule(rows=4000, batch=200, seed=1, valid=0.1, shuffle=shuffle)
    for rows in (schedule.valid_rows, *(schedule.batch_of(number) for number in range(40))):
        tenths = torch.bincount(rows // 400, minlength=10) / len(rows)
        assert tenths.min() > 0.02 and tenths.max() < 0.25, "a tenth of each tenth of the time is expected"
        assert (rows.sort().values.diff() == 1).sum() < len(rows) / 5, "neighbours in time seldom share a batch"


def test_each_owners_batches_of_rows_in_order_of_date_are_from_all_its_times() -> None:
    early, late = torch.arange(0, 1000), torch.arange(1000, 3000)
    schedule = SharedSchedule((early, late), batch=100, seed=1, valid=0.1)
    for number in range(10):
        first, second = schedule.rows_of(number, 0), schedule.rows_of(number, 1)
        for rows, place in ((first, early), (second, late)):
            assert set(rows.tolist()) <= set(place.tolist())
            fifths = torch.bincount((rows - place[0]) * 5 // len(place), minlength=5) / len(rows)
            assert fifths.min() > 0.05 and fifths.max() < 0.4


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"batch": 0}, "batch=0 does not fit a table with 10 training rows"),
        ({"batch": -1}, "batch=-1 does not fit"),
        ({"batch": 11}, "give a number from 1 to 10"),
        ({"batch": 9, "valid": 0.2}, "batch=9 does not fit a table with 8 training rows"),
        ({"valid": 1.0}, "valid=1.0 is not a share"),
        ({"valid": -0.1}, "valid=-0.1 is not a share"),
        ({"valid": float("nan")}, "valid=nan is not a share"),
        ({"shuffle": "never"}, "shuffle='never' is unknown"),
        ({"batch": 4.0}, "batch"),
        ({"valid": "0.1"}, "valid"),
    ],
)
def test_bad_options(options: dict[str, Any], why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        Schedule(**{"rows": 10, "batch": 2, **options})


def test_seeds_are_the_same_on_every_machine() -> None:
    assert derive_seed(0, "rows", 3) == 582664516300166829  # blake2b, so written down once and for all
    assert permutation(5, 0, "split").tolist() == [4, 0, 2, 3, 1]
    assert derive_seed(1, 23) != derive_seed(12, 3)
    assert 0 <= derive_seed("any") < 2**63
