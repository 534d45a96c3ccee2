"""What a party makes sure of before it signs: that its operator allows the terms, and that the plan follows from them.

Nothing that the owner says is taken on trust: who learns what is worked out of the terms, and settings, networks and
messages of the plan are worked out of terms, rows and shapes.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from colonnade import models, optim, seal
from colonnade.errors import ManifestError, MessageError
from colonnade.federation.papers import AllowSection
from colonnade.federation.terms import (
    PROTOCOL,
    digest,
    first_difference,
    keys_in,
    labels_under,
    learns,
    method_in,
)
from colonnade.plan import Plan, plan
from colonnade.rehearsal import rehearse
from colonnade.stand_in import stand_ins
from colonnade.table import Table
from colonnade.version import __version__

_KINDS = {"job": str, "owner": str, "parties": list, "method": dict, "train": dict, "seals": list, "align": dict}
_KINDS |= {"prepare": dict, "limits": dict}
MOST = 10**7  # numbers in a row, rows of a table, or outputs: more is not believed


def check_allowed(
    terms: Mapping[str, Any], name: str, allow: AllowSection, owner: bytes, keys: Mapping[str, bytes]
) -> None:
    """Refuse terms that this party's operator did not allow; each refusal names the field."""
    _check_version(terms)
    for field, due in _KINDS.items():
        if not isinstance(terms.get(field), due):
            raise MessageError(f"the terms have {field} {str(terms.get(field))[:40]!r}; they are not whole.")
    _check_sides(terms, name, {str(terms["owner"]): owner, **keys})
    kinds = [one["kind"] for one in terms["seals"]]
    method, train, how = terms["method"]["name"], terms["train"], terms["align"]
    if allow.methods is not None and method not in allow.methods:
        raise _not_allowed("method.name", method, allow.methods, name)
    for kind in kinds:
        if allow.seals is not None and kind not in allow.seals:
            raise _not_allowed("seals", kind, allow.seals, name)
    for kind in allow.needs:
        if kind not in kinds:
            raise ManifestError(f"the terms have no seal '{kind}', which '{name}' needs; add it to the job.")
    if allow.rounds is not None and train.get("rounds") is not None and train["rounds"] > allow.rounds:
        raise _not_allowed("train.rounds", train["rounds"], f"at most {allow.rounds}", name)
    if (how.get("mode") or "psi") not in allow.align:
        raise _not_allowed("align.mode", how["mode"], allow.align, name)
    least, most = how.get("minimum") or 1, how.get("maximum")
    if allow.minimum is not None and least < allow.minimum:
        raise _not_allowed("align.minimum", least, f"at least {allow.minimum}", name)
    if allow.maximum is not None and (most is None or most > allow.maximum):
        raise _not_allowed("align.maximum", most, f"at most {allow.maximum}", name)
    _check_epsilon(terms, name, allow)
    others = len(terms["parties"]) - 2
    if "blind" in kinds and others < allow.mix:
        raise _not_allowed("parties", f"{others} beside us in a blinded sum", f"at least {allow.mix} (mix)", name)
    _check_words(terms, kinds)


def _check_version(terms: Mapping[str, Any]) -> None:
    for field, ours in (("protocol", PROTOCOL), ("colonnade", __version__)):
        if terms.get(field) != ours:
            raise ManifestError(
                f"the terms have {field} {terms.get(field)!r} and this side {ours!r}; install the same version."
            )


def _check_sides(terms: Mapping[str, Any], name: str, keys: Mapping[str, bytes]) -> None:
    """Everybody once, the owner first and with the key that this party knows, and this party beside it."""
    told, listed = keys_in(terms), [one["name"] for one in terms["parties"]]
    if name not in told:
        raise ManifestError(f"'{name}' is not among the parties of the terms, {', '.join(told)}; ask the owner.")
    if listed[0] != terms["owner"] or terms["owner"] == name:
        raise ManifestError(
            f"the terms have the owner '{terms['owner']}' and the parties {', '.join(listed)}; it is first."
        )
    if not len(listed) == len(told) == len(set(told.values())):
        raise ManifestError("the terms have a party or a key twice in parties; each side needs its own.")
    for side, key in keys.items():
        if side not in told:
            raise ManifestError(f"the terms have no party '{side}', which [peers] of '{name}' names; ask the owner.")
        if told[side] != key:
            raise ManifestError(f"the terms have another key of '{side}' than '{name}' knows; ask '{side}' for it.")


def _check_epsilon(terms: Mapping[str, Any], name: str, allow: AllowSection) -> None:
    if allow.epsilon is None:
        return
    granted = [one for one in terms["seals"] if one["kind"] == "noise"]
    if not granted:
        raise _not_allowed("seals.noise.epsilon", "no noise", f"at most {allow.epsilon:g}", name)
    for field, most in (("epsilon", allow.epsilon), ("delta", allow.delta)):
        if not max(one[field] for one in granted) <= most:
            raise _not_allowed(f"seals.noise.{field}", granted[0][field], f"at most {most:g}", name)


def _check_words(terms: Mapping[str, Any], kinds: Sequence[str]) -> None:
    """What the terms say in words must be what their other fields come to."""
    due = {"learns": learns(terms), "labels": labels_under(method_in(terms), kinds)}
    found = first_difference(due, {key: terms.get(key) for key in due})
    if found:
        raise ManifestError(f"the terms gloss over what they do, in {found}; do not sign them.")


def _not_allowed(field: str, came: Any, allowed: Any, name: str) -> ManifestError:
    return ManifestError(f"the terms have {field} {came!r}, and '{name}' allows {allowed}; change the job or [allow].")


# the plan


def check_plan(came: Mapping[str, Any], terms: Mapping[str, Any], name: str, own: Table, allow: AllowSection) -> None:
    """Refuse a plan that is not what this party works out of the terms, or more than its operator allows."""
    listed = [one["name"] for one in terms["parties"]]
    if [one[0] for one in came["tables"]] != listed:
        raise ManifestError(f"the plan is not of the parties {', '.join(listed)} in this order; align again.")
    mine = [name, own.rows, list(own.shape)]
    said = came["tables"][listed.index(name)]
    if said != mine:
        raise ManifestError(f"the plan says {said[1:]} of the rows of '{name}', which has {mine[1:]}; align again.")
    for one, rows, shape in came["tables"]:
        if rows != own.rows or not 0 <= math.prod(shape) <= MOST or not (shape or one == listed[0]):
            raise ManifestError(f"the plan says {rows} rows of {shape} of '{one}', and '{name}' has {own.rows}.")
    if not 1 <= came["outputs"] <= MOST:
        raise ManifestError(f"the plan has {came['outputs']} outputs; from 1 to {MOST} were expected.")
    found = first_difference(_worked_out(came, terms, name, own), dict(came))
    if found:
        raise ManifestError(f"the plan does not follow from the terms that were signed, in {found}; do not go on.")
    if allow.rows is not None and own.rows > allow.rows:
        raise ManifestError(
            f"the plan has {own.rows} rows, and '{name}' allows {allow.rows}; change the job or [allow]."
        )
    rounds = came["settings"]["rounds"]
    if allow.rounds is not None and rounds > allow.rounds:
        raise ManifestError(
            f"the plan has {rounds} rounds, and '{name}' allows {allow.rounds}; change the job or [allow]."
        )


def _worked_out(came: Mapping[str, Any], terms: Mapping[str, Any], name: str, own: Table) -> dict[str, Any]:
    """The plan as this party makes it: the owner's word counts for shapes, outputs and task alone."""
    task = came["settings"]["task"]
    outline = {
        "tables": came["tables"],
        "settings": {"task": task},
        "outputs": came["outputs"],
        "names": [],
    }
    tables = stand_ins(outline)
    what = _planned(terms, came, tables, name, own)
    schema = rehearse(outline, what.method, what.settings, what.models, what.optimizers)
    found = {
        "terms": digest(terms).hex(),
        "tables": came["tables"],
        "settings": asdict(what.settings),
        "model": [models.describe(one) for one in what.models],
        "optimizer": [optim.describe(one) for one in what.optimizers],
        "outputs": came["outputs"],
        "test": came["test"],
        "schema": schema.to_json(),
    }
    return json.loads(json.dumps(found))  # type: ignore[no-any-return]  # as it came


def _planned(terms: Mapping[str, Any], came: Mapping[str, Any], tables: Sequence[Table], name: str, own: Table) -> Plan:
    networks = terms["model"]
    if networks is None:
        networks = _usual(came, name, own)
    given = {key: value for key, value in terms["train"].items() if key not in ("method", "runtime")}
    return plan(
        tables,
        method_in(terms),
        model=_built(models.make_model, networks, models.default_model),
        optimizer=None if terms["optimizer"] is None else _built(optim.make_optimizer, terms["optimizer"]),
        seal=[seal.make_seal(**entry) for entry in terms["seals"]],
        runtime="federation",
        **{**given, "task": came["settings"]["task"] if given.get("task") is None else given["task"]},
    )


def _usual(came: Mapping[str, Any], name: str, own: Table) -> Any:
    """Everybody's usual network: the party's own by its columns, the others' as the plan has them."""
    names = [one[0] for one in came["tables"] if one[2]]
    usual = json.loads(json.dumps(models.describe(models.default_for(own.cardinalities))))
    said = came["model"][names.index(name)]
    if said != usual:
        raise ManifestError(f"the plan does not follow from the terms in model: {said} is not the usual one, {usual}.")
    return came["model"]


def _built(make: Any, entries: Any, default: Any = None) -> Any:
    if isinstance(entries, list):
        return [_built(make, one, default) for one in entries]
    if entries is None:
        raise MessageError("a plan came with a network or an optimiser that has no name.")
    options = dict(entries)
    kind = options.pop("kind")
    return default if kind == "default" else make(kind, **options)
