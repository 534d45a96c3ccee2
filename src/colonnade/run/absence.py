"""Parties that do not answer: which policies a run can follow, and who is away."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import torch

from colonnade.core.method import Method, methods
from colonnade.core.settings import Settings
from colonnade.core.table import Table, is_partial, parties_of
from colonnade.errors import AwayError, ConfigError, TableError, unknown
from colonnade.runtime.parties import AllParties
from colonnade.seal import Seals
from colonnade.wire.answer_memory import Absence

POLICIES = ("refuse", "zero", "mean", "refit")
WHEN_AWAY = ("wait", "skip", "without")
DropOuts = Callable[[int], Iterable[str] | None]
"""From the number of a training round to the names of those who are away from it: a simulation of drop-outs."""


def obstacles(method: Method, seals: Seals) -> dict[str, str]:
    """The policies that a run cannot follow, each with the reason."""
    found = {}
    blind = seals.blind if method.only_sums else None
    if blind is not None and not blind.recover:
        found["zero"] = "a blinded sum opens only if all answer; train with Blind(recover=True) to sum without some"
    if blind is not None:
        found["mean"] = "the owner sees only blinded sums, so it knows no party's mean"
    if not method.refits:
        found["refit"] = f"{method.name} has no head per party at the owner"
    return found


def check_policy(policy: str, method: Method, seals: Seals) -> str:
    """The policy, if there is one of that name and the run can follow it."""
    if not isinstance(policy, str) or policy not in POLICIES:
        raise unknown("policy for missing parties", policy, POLICIES)
    against = obstacles(method, seals)
    if policy in against and not method.predicts_alone:
        raise ConfigError(
            f"{method.name} as set here cannot follow missing='{policy}': {against[policy]}; {_able(against)}."
        )
    return policy


def check_when_away(choice: str, policy: str, method: Method, seals: Seals) -> str:
    """What a training round does about a party that is away, if there is such a choice and the run can follow it."""
    if not isinstance(choice, str) or choice not in WHEN_AWAY:
        raise unknown("choice of when_away", choice, WHEN_AWAY)
    if choice != "without":
        return choice
    against = obstacles(method, seals)
    if "zero" in against:
        raise ConfigError(f"{method.name} as set here cannot follow when_away='without': {against['zero']}.")
    if policy == "mean" and "mean" in against:
        raise ConfigError(
            f"{method.name} as set here cannot follow when_away='without' with missing='mean': "
            f"{against['mean']}; use missing='zero'."
        )
    if seals.down is not None and seals.down.feedback:
        raise ConfigError(
            f"when_away='without' cannot be followed with {seals.down.kind}(feedback=True) on the way down, whose "
            "messages build on earlier ones that a party may have missed; use feedback with ways='up', or "
            "when_away='skip'."
        )
    return choice


def keeps_means(method: Method, settings: Settings) -> bool:
    """Whether somebody will want the means of the parties' answers: a prediction, or a round that goes on."""
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


def check_drop_outs(away: object) -> None:
    """Refuse a simulation of drop-outs that cannot be asked."""
    if away is not None and not callable(away):
        raise ConfigError(
            f"away={away!r} is not a function from a round's number to the names of those who are away; "
            "give one, such as away=lambda round: ['party 2'] if round < 5 else []."
        )


def dropped_out(away: DropOuts | None, number: int, parties: AllParties) -> frozenset[str]:
    """Who is away from a training round, as a simulation says."""
    names = [] if away is None else _names(away(number) or ())
    _check_away(names, parties.names, parties.names[0] if parties.home else None)
    return frozenset(names)


def find_absence(
    method: Method, seals: Seals, parties: AllParties, tables: Sequence[Table], away: Sequence[str], policy: str
) -> Absence:
    """Who is away (named so, or without a table) and what stands for them, or one sentence that refuses."""
    check_policy(policy, method, seals)
    names, at_home = parties.names, parties.names[0] if parties.home else None
    given = {table.name for table in parties_of(tables)}
    lacking = [] if given - set(names) else [name for name in names if name not in given]
    named = _names(away)
    _check_away([*named, *lacking], names, at_home)
    gone = [name for name in names if name in {*named, *lacking}]
    if not gone or method.predicts_alone:
        return Absence(frozenset(gone), policy)
    if not (method.any_subset and at_home):
        _check_somebody(method, names, gone, at_home)
    who = ", ".join(f"'{name}'" for name in gone)
    verb = "is" if len(gone) == 1 else "are"
    if policy == "refuse":
        able = _able(obstacles(method, seals))
        if lacking:
            raise TableError(
                f"{who} {verb} away, but the model was trained on {names}; {method.name} asks all: {able}."
            )
        raise AwayError(f"{who} {verb} away and {method.name} needs every answer; {able}.")
    return Absence(frozenset(gone), policy)


def _names(away: object) -> list[str]:
    """Those who are said to be away: one name, or several."""
    if isinstance(away, str):
        return [away]
    if not isinstance(away, Iterable):
        raise ConfigError(f"{away!r} came for those who are away; give the names of parties, such as ['party 2'].")
    return list(away)


def _check_away(away: Sequence[str], names: Sequence[str], at_home: str | None) -> None:
    for name in away:
        if name not in names:
            raise unknown("party", name, names)
        if name == at_home:
            raise TableError(f"'{name}' is the owner's own table and cannot be away; name other parties.")


def _check_somebody(method: Method, names: Sequence[str], gone: Sequence[str], at_home: str | None) -> None:
    others = [name for name in names if name != at_home]
    if set(gone).issuperset(others):
        raise AwayError(
            f"all parties are away ({', '.join(others)}) and {method.name} cannot predict alone; wait for one of "
            "them, or distil the run into a model of the owner's own."
        )


def completed(
    tables: Sequence[Table], names: Sequence[str], shapes: Sequence[tuple[int, ...]], away: frozenset[str]
) -> list[Table]:
    """The federation with a stand-in, all zeros, for every party that is away: nothing of its own is read."""
    given = {table.name: table for table in parties_of(tables)}
    here = [name for name in given if name not in away]
    if here != [name for name in names if name not in away]:
        return list(tables)  # other names or another order; placing them says so
    owner = tables[0]
    parties = [
        Table(ids=owner.ids, columns=torch.zeros(1, *shape).expand(owner.rows, *shape), name=name)
        if name in away
        else given[name]
        for name, shape in zip(names, shapes, strict=True)
    ]
    return parties if owner.columns is not None else [owner, *parties]


def _able(against: dict[str, str]) -> str:
    able = [f"missing='{policy}'" for policy in POLICIES[1:] if policy not in against]
    return f"it can follow {', '.join(able)}" if able else "it can follow no other policy than 'refuse'"
