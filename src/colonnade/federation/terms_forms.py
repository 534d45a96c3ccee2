"""What terms and plans look like, field by field: kinds, ranges, lengths. All is checked before use.

A form is a function of a value and of its place; it raises :class:`MessageError` with the place in it. The options of
methods, networks, optimisers and seals are those of their classes, so that they are told once.
"""

from __future__ import annotations

import base64
import math
import re
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import cache
from typing import Any

from colonnade import models
from colonnade.core import optim
from colonnade.core.device import LOCAL_OPTIONS
from colonnade.core.option_names import stored_names
from colonnade.core.settings import Settings
from colonnade.core.task import TASKS
from colonnade.description.label_targets import MOST_TARGETS, STEPS, WIDE
from colonnade.description.own_columns import MOST_BINS, NAMES
from colonnade.errors import MessageError, printable
from colonnade.federation.side_sections import LABELS
from colonnade.jobs.job_file import TrainSection
from colonnade.jobs.table_sections import AlignSection, PrepareSection
from colonnade.methods import methods
from colonnade.seal import SEALS
from colonnade.tables.align.align_terms import JOINS
from colonnade.tables.prepare.time_split import MISSING

Form = Callable[[Any, str], None]

MOST_SIDES = 1000
MOST = 10**7  # numbers in a row, rows of a table, or outputs: more is not believed
_COUNT = 10**9  # rounds, rows of a batch, ids, seconds
_OPTION = 10**6  # a width, a depth, a number of steps
_FLOAT = 1e12
_DEEP = 6  # lists in lists of what has no form of its own


def check_terms_form(value: Mapping[str, Any]) -> None:
    """Refuse terms that are not whole, or hold what does not belong there; the field is named."""
    (_description_terms() if "describe" in value else _terms())(value, "terms")


def check_plan_form(value: Mapping[str, Any]) -> None:
    """Refuse a plan that is not whole, or holds what does not belong there; the field is named."""
    (_description_plan() if "describe" in value else _plan())(value, "plan")


def _wrong(where: str, value: Any, due: str) -> MessageError:
    document, _, field = where.partition(".")
    shown = printable(repr(value) if isinstance(value, str | int | float | None) else type(value).__name__, 40)
    return MessageError(f"the {document} came with {printable(field, 80) or 'itself'} {shown}; {due} was expected.")


# Plain values


def _whole(least: int, most: int) -> Form:
    def check(value: Any, where: str) -> None:
        if type(value) is not int or not least <= value <= most:
            raise _wrong(where, value, f"a whole number from {least} to {most}")

    return check


def _number(value: Any, where: str) -> None:
    if type(value) not in (int, float) or not abs(value) <= _FLOAT:
        raise _wrong(where, value, f"a number of at most {_FLOAT:g}")


def _between(least: float, most: float) -> Form:
    def check(value: Any, where: str) -> None:
        if type(value) not in (int, float) or not least <= value <= most:
            raise _wrong(where, value, f"a number from {least:g} to {most:g}")

    return check


def _flag(value: Any, where: str) -> None:
    if not isinstance(value, bool):
        raise _wrong(where, value, "true or false")


def _none(value: Any, where: str) -> None:
    if value is not None:
        raise _wrong(where, value, "nothing")


def _text(most: int) -> Form:
    def check(value: Any, where: str) -> None:
        if not isinstance(value, str) or len(value) > most or not value.isprintable():
            raise _wrong(where, value, f"a printable text of at most {most} characters")

    return check


def _name(value: Any, where: str) -> None:
    """Of a side or a job: it stands in logs and beside other words, and must not lead out of a folder."""
    _text(100)(value, where)
    if not value.strip() or value.startswith(".") or re.search(r"[/\\]", value):
        raise _wrong(where, value, "a name without slashes that does not begin with a dot")


def _hex(length: int) -> Form:
    def check(value: Any, where: str) -> None:
        if not isinstance(value, str) or not re.fullmatch(f"[0-9a-f]{{{length}}}", value):
            raise _wrong(where, value, f"{length} digits of hexadecimal")

    return check


def _key(value: Any, where: str) -> None:
    _text(64)(value, where)
    try:
        raw = base64.b64decode(value, validate=True)
    except ValueError:
        raw = b""
    if len(raw) != 32:
        raise _wrong(where, value, "a public key of 32 bytes in base64")


def _one_of(*known: str) -> Form:
    def check(value: Any, where: str) -> None:
        if value not in known or not isinstance(value, str):
            raise _wrong(where, value, f"one of {', '.join(known)}")

    return check


# Values made of others


def _either(*forms: Form) -> Form:
    def check(value: Any, where: str) -> None:
        for form in forms[:-1]:
            try:
                return form(value, where)
            except MessageError:
                continue
        forms[-1](value, where)
        return None

    return check


def _listed(form: Form, most: int, least: int = 0) -> Form:
    def check(value: Any, where: str) -> None:
        if not isinstance(value, list) or not least <= len(value) <= most:
            raise _wrong(where, value, f"a list of {least} to {most} entries")
        for number, entry in enumerate(value):
            form(entry, f"{where}.{number}")

    return check


def _row(*forms: Form) -> Form:
    def check(value: Any, where: str) -> None:
        if not isinstance(value, list) or len(value) != len(forms):
            raise _wrong(where, value, f"a list of {len(forms)} entries")
        for number, (entry, form) in enumerate(zip(value, forms, strict=True)):
            form(entry, f"{where}.{number}")

    return check


def _mapped(form: Form, most: int) -> Form:
    """Any names, all with values of one form."""

    def check(value: Any, where: str) -> None:
        if not isinstance(value, dict) or len(value) > most:
            raise _wrong(where, value, f"at most {most} entries with names")
        for name, entry in value.items():
            _text(300)(name, where)
            form(entry, f"{where}.{name}")

    return check


def _record(needed: Mapping[str, Form], optional: Mapping[str, Form] | None = None) -> Form:
    known = {**needed, **(optional or {})}

    def check(value: Any, where: str) -> None:
        if not isinstance(value, dict):
            raise _wrong(where, value, f"a section with {', '.join(needed) or 'names'}")
        for name in needed:
            if name not in value:
                raise MessageError(f"the {where.partition('.')[0]} came without {where.partition('.')[2]} {name}.")
        for name, entry in value.items():
            if name not in known:
                raise _wrong(f"{where}.{name}", entry, "no such field")
            known[name](entry, f"{where}.{name}")

    return check


def _anything(value: Any, where: str, deep: int = _DEEP) -> None:
    """Plain data without a known form: the options of a user's own method."""
    if isinstance(value, list | dict) and deep:
        _listed(lambda entry, at: _anything(entry, at, deep - 1), 1000)(
            list(value.values()) if isinstance(value, dict) else value, where
        )
    else:
        _either(_text(1000), _flag, _number, _none)(value, where)


# Options of classes


def _of_hint(hint: Any, most: int = _OPTION) -> Form:
    members = typing.get_args(hint)
    if isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union:
        return _either(
            *(_of_hint(member, most) for member in sorted(members, key=lambda member: member is types.NoneType))
        )
    if typing.get_origin(hint) in (list, tuple):
        return _listed(_of_hint(members[0], most), 1000)
    plain: dict[Any, Form] = {int: _whole(0, most), float: _number, str: _text(100), bool: _flag, types.NoneType: _none}
    return plain.get(hint, _anything)


@cache
def _options(kind: Any, most: int = _OPTION) -> dict[str, Form]:
    hints = typing.get_type_hints(kind)
    return {field.name: _of_hint(hints[field.name], most) for field in fields(kind)}


def _named(what: str, kinds: Mapping[str, Any]) -> Form:
    """One of these classes by its name under ``what``, and options of it."""

    def check(value: Any, where: str) -> None:
        if not isinstance(value, dict):
            raise _wrong(where, value, f"a section with {what}")
        _one_of(*kinds)(value.get(what), f"{where}.{what}")
        chosen = kinds[value[what]]
        _record({what: _text(100)}, {} if chosen is None else _options(chosen))(value, where)

    return check


@cache
def _how() -> dict[str, Form]:
    """Settings of a run by name."""
    given = {**stored_names(_options(TrainSection, _COUNT)), **_options(Settings, _COUNT)}
    weights = _either(_text(20), _none, _listed(_number, MOST_SIDES))
    known = {**given, "seed": _whole(0, 2**63 - 1), "weights": weights, "cluster": _none}
    known["threads"] = _either(_none, _whole(1, 1024))
    return {name: form for name, form in known.items() if name not in ("folder", *LOCAL_OPTIONS)}


def _networks() -> Form:
    return _named("kind", {**models.KINDS, "default": None})


def _common(*joins: str) -> dict[str, Form]:
    """What the terms of every kind of job have; ``joins`` are the ways to align that this kind can have."""
    count, join = _either(_none, _whole(1, _COUNT)), _either(_none, _one_of(*joins))
    split = _record({"column": _text(300), "after": _text(40), "missing": _one_of(*MISSING), "feature": _flag})
    return {
        "protocol": _text(100),
        "colonnade": _text(100),
        "job": _name,
        "owner": _name,
        "parties": _listed(_record({"name": _name, "key": _key}), MOST_SIDES, least=2),
        "align": _record({}, _options(AlignSection) | {"minimum": count, "maximum": count, "join": join}),
        "prepare": _record({}, _options(PrepareSection, _COUNT) | {"split": _either(_none, split)}),
        "limits": _record({"message": _whole(1, _COUNT), "deadline": _whole(1, _COUNT)}),
        "learns": _listed(_text(10**5), MOST_SIDES + 50),
    }


def _description_terms() -> Form:
    epsilon = _either(_none, _between(0.001, 1000))
    own = {"minimum": _whole(1, _COUNT), "names": _one_of(*NAMES), "epsilon": epsilon}
    section = {
        "bins": _whole(2, MOST_BINS),
        "delta": _between(1e-300, 1 - 1e-9),
        "proof": _flag,
        "parties": _mapped(_record(own), MOST_SIDES),
    }
    how = _record({"seed": _how()["seed"]}, {"task": _one_of(*TASKS)})
    return _record({**_common("inner"), "describe": _record(section), "train": how})


def _description_plan() -> Form:
    targets = _whole(1, MOST_TARGETS)
    labels = {"rows": _whole(1, _COUNT), "targets": targets, "bound": _whole(1, STEPS * WIDE), "together": targets}
    return _record({"terms": _hex(64), "describe": _record(labels), "test": _whole(0, _COUNT)}, {"split": _hex(64)})


def _terms() -> Form:
    several = _networks(), _named("kind", optim.KINDS)
    network, optimizer = (_either(_listed(form, MOST_SIDES), _none, form) for form in several)
    return _record(
        {
            **_common(*JOINS),
            "method": _named("name", methods()),
            "train": _record({}, _how() | {"method": _text(100)}),
            "model": network,
            "optimizer": optimizer,
            "seals": _listed(_named("kind", SEALS), len(SEALS)),
            "labels": _one_of(*LABELS),
        },
        {
            "predict": _record({"of": _hex(64), "number": _text(100)}),
            "extends": _record({"of": _hex(64), "run": _hex(32), "stays": _listed(_name, MOST_SIDES)}),
        },
    )


def _plan() -> Form:
    values = _row(_text(20), _listed(_whole(-2, _COUNT), 8))
    count = _whole(0, _COUNT)
    return _record(
        {
            "terms": _hex(64),
            "tables": _listed(_row(_name, _whole(1, _COUNT), _shape), MOST_SIDES, least=2),
            "settings": _record({field.name: _how()[field.name] for field in fields(Settings)}),
            "model": _listed(_networks(), MOST_SIDES),
            "optimizer": _listed(_named("kind", optim.KINDS), MOST_SIDES),
            "outputs": _whole(1, MOST),
            "test": count,
            "schema": _mapped(_mapped(values, 32), 100 * MOST_SIDES),
        },
        # Plans of older versions have no method, as their terms have one with all options, and no sentences.
        {
            "method": _named("name", methods()),
            "predict": count,
            "split": _hex(64),
            "learns": _listed(_text(10**5), 1000),
        },
    )


def _shape(value: Any, where: str) -> None:
    """Of a row; that of an owner without columns is empty."""
    _listed(_whole(1, MOST), 4)(value, where)
    if math.prod(value) > MOST:
        raise _wrong(where, math.prod(value), f"at most {MOST} numbers in a row")
