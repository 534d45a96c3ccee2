"""Which parties are computed together: whole groups while all are asked, others stacked anew, states always each's."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from test_contract import Case, train
from torch import Tensor

import colonnade as cn
from colonnade.core.state import Packed
from colonnade.errors import TrainingError
from colonnade.runtime.group import Group
from colonnade.runtime.grouping import Grouping


def turn(number: int = 1) -> cn.Turn:
    return cn.Turn(number, torch.arange(8))


def fused(**more: Any) -> Grouping:
    """Four like parties, after two rounds of a method with momentum."""
    backend: Any = train(Case(cn.FDML()), "fused", rounds=2, **more).parties.backend
    return backend.grouping  # type: ignore[no-any-return]


def members(groups: list[Group]) -> list[list[int]]:
    return [group.members for group in groups]


def assert_same(one: dict[int, Packed], other: dict[int, Packed]) -> None:
    assert one.keys() == other.keys()
    for k, state in one.items():
        assert state.keys() == other[k].keys()
        assert all(torch.equal(value, other[k][name]) for name, value in state.items())


def test_all_who_are_alike_are_one_group_and_stay_it() -> None:
    grouping = fused()
    whole = members(grouping.groups)
    assert [k for group in whole for k in group] == list(range(grouping.count)) and max(map(len, whole)) > 1
    assert grouping.asked(set(range(grouping.count)), turn()) is grouping.groups
    assert members(grouping.groups) == whole


def test_those_who_are_asked_are_stacked_without_the_others_and_nothing_of_their_state_changes() -> None:
    grouping = fused()
    before, whole = grouping.states(), members(grouping.groups)
    (group,) = (one for one in whole if len(one) > 1)
    some = set(group[:2])
    assert members(grouping.asked(some, turn())) == [sorted(some)]
    assert sorted(k for one in grouping.groups for k in one.members) == list(range(grouping.count))
    assert_same(grouping.states(), before)
    assert members(grouping.asked({group[0]}, turn(2))) == [[group[0]]]
    assert_same(grouping.states(), before)
    grouping.asked(set(range(grouping.count)), turn(3))
    assert members(grouping.groups) == whole
    assert_same(grouping.states(), before)


def test_the_stacks_follow_from_who_is_asked_and_not_from_what_was_before() -> None:
    """So a resumed run computes the same."""
    one, two = fused(), fused()
    (group,) = (found for found in members(one.groups) if len(found) > 1)
    for chosen in ({group[0]}, {group[1], group[2]}):
        one.asked(chosen, turn())
    two.asked({group[1], group[2]}, turn())
    assert members(one.groups) == members(two.groups)


def test_a_group_cannot_be_parted_amid_a_turn() -> None:
    grouping, now = fused(), turn()
    (group,) = (found for found in grouping.groups if len(found.members) > 1)
    group.begin(now)
    group.scratch["output"] = torch.ones(1)
    with pytest.raises(TrainingError, match="round 1 asks some parties of a fused group after a step that all of them"):
        grouping.asked({group.members[0]}, now)
    assert members(grouping.asked({group.members[0]}, turn(2))) == [[group.members[0]]], "another turn may"


def test_states_go_back_to_whoever_they_are_of_however_they_were_stacked() -> None:
    grouping = fused()
    before, whole = grouping.states(), members(grouping.groups)
    grouping.asked({1}, turn())
    other = {k: {name: _moved(value) for name, value in state.items()} for k, state in before.items()}
    grouping.load(other)
    assert_same(grouping.states(), other)
    assert members(grouping.groups) == whole
    grouping.load({2: before[2]})  # the others stay
    assert_same(grouping.states(), {**other, 2: before[2]})


def test_members_that_are_not_as_far_as_the_others_are_stacked_apart() -> None:
    """Adam counts its steps, so who took fewer cannot share one with the others."""
    grouping = fused(optimizer=cn.Adam(lr=0.01))
    before = grouping.states()
    (group,) = (found for found in members(grouping.groups) if len(found) > 1)
    late = {name: value - 1 if name.endswith("/step") else value for name, value in before[group[1]].items()}
    assert any(not torch.equal(value, before[group[1]][name]) for name, value in late.items()), "nothing counts steps"
    grouping.load({group[1]: late})
    assert [group[1]] in members(grouping.groups)
    assert_same(grouping.states(), before | {group[1]: late})


def test_parties_of_a_loop_are_groups_of_one() -> None:
    backend: Any = train(Case(cn.FDML()), "loop", rounds=1).parties.backend
    assert members(backend.grouping.asked({1, 3}, turn())) == [[1], [3]]


def _moved(value: Tensor) -> Tensor:
    return value + 1 if value.is_floating_point() and value.ndim else value
