"""Parties that do not answer: which policies a run can follow, and who is absent."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import torch

from colonnade.core.method import Method
from colonnade.core.settings import Settings
from colonnade.core.table import Table, is_partial, parties_of
from colonnade.errors import AwayError, ConfigError, SealError, TableError, unknown
from colonnade.methods import methods
from colonnade.runtime.parties import AllParties
from colonnade.seal import Seals
from colonnade.wire.answer_memory import Absence

POLICIES = ("refuse", "zero", "mean", "refit")
WHEN_ABSENT = ("wait", "skip", "without")
ALONE = "a blinded sum over a row that only one party has is that party's own value"
DropOuts = Callable[[int], Iterable[str] | None]
"""From the number of a training round to the names of those who are absent from it: a simulation of drop-outs."""


def obstacles(method: Method, seals: Seals) -> dict[str, str]:
    """The policies that a run cannot follow, each with the reason."""
    reasons = {}
    blind = seals.blind if method.only_sums else None
    if blind is not None and not blind.recover:
        reasons["zero"] = "a blinded sum opens only if all answer; train with Blind(recover=True) to sum without some"
    if blind is not None:
        reasons["mean"] = "the owner sees only blinded sums, so it knows no party's mean"
    if not method.refits:
        reasons["refit"] = f"{method.name} has no head per party at the owner"
    return reasons


def check_policy(policy: str, method: Method, seals: Seals) -> str:
    """The policy, if there is one of that name and the run can follow it."""
    if not isinstance(policy, str) or policy not in POLICIES:
        raise unknown("policy for absent parties", policy, POLICIES)
    against = obstacles(method, seals)
    if policy in against and not method.predicts_alone:
        raise ConfigError(
            f"{method.name} as set here cannot follow missing='{policy}': {against[policy]}; {_able(against)}."
        )
    return policy


def check_when_absent(choice: str, policy: str, method: Method, seals: Seals) -> str:
    """What a training round does about an absent party, if there is such a choice and the run can follow it."""
    if not isinstance(choice, str) or choice not in WHEN_ABSENT:
        raise unknown("choice of when_absent", choice, WHEN_ABSENT)
    if choice != "without":
        return choice
    against = obstacles(method, seals)
    if "zero" in against:
        raise ConfigError(f"{method.name} as set here cannot follow when_absent='without': {against['zero']}.")
    if policy == "mean" and "mean" in against:
        raise ConfigError(
            f"{method.name} as set here cannot follow when_absent='without' with missing='mean': "
            f"{against['mean']}; use missing='zero'."
        )
    if seals.down is not None and seals.down.feedback:
        raise ConfigError(
            f"when_absent='without' cannot be followed with {seals.down.kind}(feedback=True) on the way down, whose "
            "messages build on earlier ones that a party may have missed; use feedback with ways='up', or "
            "when_absent='skip'."
        )
    return choice


def keeps_means(method: Method, settings: Settings) -> bool:
    """Whether the means of the parties' answers are needed, for predictions or for rounds without a party."""
    if method.any_subset:
        return False
    return not method.predicts_alone or (settings.when_away == "without" and settings.missing == "mean")


def check_known_rows(method: Method, tables: Sequence[Table], *, training: bool = False) -> None:
    """Refuse rows that not every party has, unless the method knows what to do about them, or asks no party."""
    if method.partial_rows or (method.predicts_alone and not training) or not is_partial(tables):
        return
    table = next(table for table in tables if table.known is not None)
    able = ", ".join(name for name, cls in methods().items() if cls.partial_rows)
    raise TableError(
        f"table '{table.name}' does not know {int((~table.known).sum())} of its {table.rows} rows and {method.name} "
        f"needs every row of every party; take the common rows with cn.common_rows(tables), or use one of {able}."
    )


def check_known_sums(seals: Seals, tables: Sequence[Table]) -> None:
    """Refuse blinded sums over rows that not every party has: the sum of one party is that party's own value."""
    if seals.blind is not None and is_partial(tables):
        table = next(table for table in tables if table.known is not None)
        raise SealError(
            f"table '{table.name}' does not know {int((~table.known).sum())} of its {table.rows} rows, and {ALONE}; "
            "take the common rows with cn.common_rows(tables), or leave Blind out."
        )


def check_drop_outs(absent: object) -> None:
    """Refuse a simulation of drop-outs that is not a function."""
    if absent is not None and not callable(absent):
        raise ConfigError(
            f"absent={absent!r} is not a function from a round's number to the names of those who are absent; "
            "give one, such as absent=lambda round: ['party 2'] if round < 5 else []."
        )


def dropped_out(absent: DropOuts | None, number: int, parties: AllParties) -> frozenset[str]:
    """Who is absent from a training round, as a simulation says."""
    names = [] if absent is None else _names(absent(number) or ())
    _check_absent(names, parties.names, parties.names[0] if parties.home else None)
    return frozenset(names)


def find_absence(
    method: Method, seals: Seals, parties: AllParties, tables: Sequence[Table], absent: Sequence[str], policy: str
) -> Absence:
    """Who is absent (named so, or without a table) and what stands for them, or one sentence that refuses."""
    check_policy(policy, method, seals)
    names, at_home = parties.names, parties.names[0] if parties.home else None
    given = {table.name for table in parties_of(tables)}
    lacking = [] if given - set(names) else [name for name in names if name not in given]
    named = _names(absent)
    _check_absent([*named, *lacking], names, at_home)
    absentees = [name for name in names if name in {*named, *lacking}]
    if not absentees or method.predicts_alone:
        return Absence(frozenset(absentees), policy)
    if not (method.any_subset and at_home):
        _check_somebody(method, names, absentees, at_home)
    who = ", ".join(f"'{name}'" for name in absentees)
    verb = "is" if len(absentees) == 1 else "are"
    if policy == "refuse":
        able = _able(obstacles(method, seals))
        if lacking:
            raise TableError(
                f"{who} {verb} absent, but the model was trained on {names}; {method.name} asks all: {able}."
            )
        raise AwayError(f"{who} {verb} absent and {method.name} needs every answer; {able}.")
    return Absence(frozenset(absentees), policy)


def _names(absent: object) -> list[str]:
    """Those who are said to be absent: one name, or several."""
    if isinstance(absent, str):
        return [absent]
    if not isinstance(absent, Iterable):
        raise ConfigError(f"{absent!r} came for those who are absent; give the names of parties, such as ['party 2'].")
    return list(absent)


def _check_absent(absent: Sequence[str], names: Sequence[str], at_home: str | None) -> None:
    for name in absent:
        if name not in names:
            raise unknown("party", name, names)
        if name == at_home:
            raise TableError(f"'{name}' is the owner's own table and cannot be absent; name other parties.")


def _check_somebody(method: Method, names: Sequence[str], absentees: Sequence[str], at_home: str | None) -> None:
    others = [name for name in names if name != at_home]
    if set(absentees).issuperset(others):
        raise AwayError(
            f"all parties are absent ({', '.join(others)}) and {method.name} cannot predict alone; wait for one of "
            "them, or distil the run into a model of the owner's own."
        )


def completed(
    tables: Sequence[Table], names: Sequence[str], shapes: Sequence[tuple[int, ...]], absent: frozenset[str]
) -> list[Table]:
    """The federation with a stand-in, all zeros, for every absent party: nothing of its own is read."""
    given = {table.name: table for table in parties_of(tables)}
    here = [name for name in given if name not in absent]
    if here != [name for name in names if name not in absent]:
        return list(tables)  # other names or another order; placing them says so
    owner = tables[0]
    parties = [
        Table(ids=owner.ids, columns=torch.zeros(1, *shape).expand(owner.rows, *shape), name=name)
        if name in absent
        else given[name]
        for name, shape in zip(names, shapes, strict=True)
    ]
    return parties if owner.columns is not None else [owner, *parties]


def _able(against: dict[str, str]) -> str:
    able = [f"missing='{policy}'" for policy in POLICIES[1:] if policy not in against]
    return f"it can follow {', '.join(able)}" if able else "it can follow no other policy than 'refuse'"
