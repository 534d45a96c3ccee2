"""What the terms of a description say: every party's rules, and in sentences who learns what."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from colonnade.description.describe_tables import least_of
from colonnade.description.own_columns import NAMES, PartyRules

BY_PARTY = ("minimum", "names", "epsilon")
"""What each party has by itself; bins, delta and proof are common."""


def plain_rules(rules: Mapping[str, PartyRules]) -> dict[str, Any]:
    """Rules as the terms have them.

    >>> plain_rules({"shop": PartyRules(minimum=50)})["parties"]
    {'shop': {'minimum': 50, 'names': 'shown', 'epsilon': None}}
    """
    first = next(iter(rules.values()))
    common = {name: getattr(first, name) for name in ("bins", "delta", "proof")}
    parties = {party: {name: getattr(own, name) for name in BY_PARTY} for party, own in rules.items()}
    return {**common, "parties": parties}


def rules_in(terms: Mapping[str, Any]) -> dict[str, PartyRules]:
    """Every party's rules, from terms of a known form."""
    section = dict(terms["describe"])
    parties = section.pop("parties")
    return {name: PartyRules(**section, **own) for name, own in parties.items()}


def description_learns(terms: Mapping[str, Any]) -> list[str]:
    """Who learns what of a description, beside its alignment."""
    owner, rules = str(terms["owner"]), rules_in(terms)
    return [
        f"'{owner}' sends every party the label of each common row, encrypted; nobody but '{owner}' can open one.",
        *(_read(owner, name, own) for name, own in rules.items() if name != owner),
        _proved(owner, least_of(owner, rules)),
        "Every party answers once in this job, for one set of encrypted labels.",
    ]


def _read(owner: str, name: str, own: PartyRules) -> str:
    noise = (
        f"with noise of epsilon {own.epsilon:g} at delta {own.delta:g} for given bins"
        if own.epsilon
        else "exactly, without noise"
    )
    return (
        f"'{owner}' reads of every column that '{name}' lets be described: its name, up to {own.bins} bins and those "
        f"of missing and other values, of at least {own.minimum} rows each ({NAMES[own.names]}), each bin's rows and "
        f"the sum of their labels, {noise}; the share of missing values, the correlation with the label, and how "
        "stable the column is on the test rows."
    )


def _proved(owner: str, least: int | None) -> str:
    if least is None:
        return (
            f"Nothing proves that '{owner}' encrypts labels: if it lies, it can read single rows' bins and values "
            "from the sums, whatever the minimum, and noise does not hide them."
        )
    return (
        f"'{owner}' proves that every row is of one class, and that every class has and lacks at least {least} rows; "
        "so every sum is about the rows of a class in a bin. No party learns more of the labels than that."
    )
