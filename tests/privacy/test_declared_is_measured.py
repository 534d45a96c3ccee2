"""What methods declare is what audits measure, both ways: no leak is undeclared, and no level is declared for nothing.

A declaration is about the worst data set and the worst options, so a level has to be measured on one of the three data
sets only; a leak must be declared on all of them.
"""

from __future__ import annotations

from collections import defaultdict
from functools import cache

import pytest
from declared_cases import CASES, FEW, METHODS, trained

import colonnade as cn
from colonnade.privacy.audit_result import LEVELS

BUDGET, LEAST = 40.0, 12.0
"""CPU seconds; in the ordinary run cheap attacks and a short shadow run have to do."""


@cache
def audited(data, name, number):
    run, rows = trained(data, name, number)
    return cn.audit(run, rows, budget=LEAST if (data, name, number) in FEW else BUDGET)


@pytest.mark.parametrize(
    ("data", "name", "number"),
    [pytest.param(*case, marks=pytest.mark.slow if case in FEW else pytest.mark.long) for case in CASES],
)
def test_no_leak_is_undeclared(data, name, number):
    found = audited(data, name, number)
    told = [f"{one.secret} to {one.adversary}: {one.word}, {one.declared}. {one.sentence}" for one in found.undeclared]
    assert told == []


@pytest.mark.long
@pytest.mark.parametrize(("name", "number"), [(name, number) for _, name, number in CASES if _ == "digits"])
def test_no_level_is_declared_for_nothing(name, number):
    """The worst that is declared of a secret is measured on one of the data sets, or one level below it."""
    declared, measured = defaultdict(int), defaultdict(int)
    for data in {case[0] for case in CASES if case[1:] == (name, number)}:
        for one in audited(data, name, number).verdicts:
            if one.word == "not tested" and is_owner(one.adversary) and is_owner(one.of):
                continue  # top nets belong to no row: that they hint at labels is declared, and no attack is about rows
            key = one.secret, is_owner(one.adversary), is_owner(one.of)
            declared[key] = max(declared[key], LEVELS[one.declared])
            measured[key] = max(measured[key], LEVELS.get(one.word, 0))
    for key, level in declared.items():
        assert measured[key] >= level - 1, f"{key} is declared {level} and was measured {measured[key]}"
        assert measured[key] > 0 or level == 0, f"{key} is declared, and nothing measures it"


def is_owner(side):
    return side.startswith("owner")


def test_every_method_is_audited():
    registered = {name for name, cls in cn.methods().items() if cls.__module__.startswith("colonnade.")}
    assert registered == METHODS.keys()
