"""What every message of a run looks like: fields, kinds of numbers, shapes; known before anything is sent."""

from __future__ import annotations

import hashlib
import inspect
import json
import typing
from collections.abc import Callable, Mapping
from functools import cache, lru_cache
from typing import Any

import torch
from torch import Tensor

from colonnade.errors import MessageError

ROWS = -1
"""A dimension that is as long as the turn has rows."""
ANY = -2
"""A dimension that a rehearsal could not explain."""

ASKED = "/asked"
"""In place of a party and a way: steps that are asked to evaluate, predict or explain. No party's name is empty."""

Form = dict[str, tuple[str, tuple[int, ...]]]
"""Fields by name: the kind of numbers, and the shape with ROWS in it."""


@cache
def kinds_of(step: Callable[..., Any]) -> tuple[Any, Any]:
    """The classes of the message that a step reads and of the one that it replies with; None where there is none."""
    function = inspect.unwrap(getattr(step, "__func__", step))
    hints = typing.get_type_hints(function)
    replies = hints.pop("return", None)
    reads = [hint for name, hint in hints.items() if name not in ("self", "mine", "turn")]
    return (reads[0] if reads else None), (None if replies is type(None) else replies)


class Schema:
    """The messages of every step by party and way, ``"down"`` from the owner or ``"up"`` to it."""

    def __init__(self, forms: Mapping[str, Form] | None = None) -> None:
        self.forms = dict(forms or {})

    def note(self, party: str, way: str, step: str, message: Any, rows: int) -> None:
        """Learn from a message of a turn with so many rows."""
        form = {
            name: (_kind(value), tuple(ROWS if one == rows else one for one in value.shape))
            for name, value in zip(message._fields, message, strict=True)
        }
        self.forms[f"{party}/{way}/{step}"] = form

    def merge(self, other: Schema) -> Schema:
        """What two rehearsals with other numbers of rows agree on."""
        return Schema({key: _merged(form, other.forms.get(key, form)) for key, form in self.forms.items()})

    def check(self, party: str, way: str, step: str, fields: Mapping[str, Tensor], rows: int, round: int) -> None:
        """Refuse a message that does not look as it must, before anything is made of it."""
        form = self.forms.get(f"{party}/{way}/{step}")
        if form is None:
            return
        where = f"{'from' if way == 'up' else 'to'} '{party}' in step '{step}' of round {round}"
        if set(fields) != set(form):
            raise MessageError(f"fields {sorted(fields)} came {where}, and {sorted(form)} were expected.")
        for name, value in fields.items():
            kind, shape = form[name]
            due = _due(shape, rows)
            if not _fits(value.shape, due) or _kind(value) != kind:
                raise MessageError(
                    f"'{name}' came {where} with shape {tuple(value.shape)} of {_kind(value)}, and {due} of {kind} "
                    "was expected; does that party have the same rows and the same settings?"
                )

    def note_asked(self, step: str) -> None:
        """Learn that a step is asked outside of training."""
        self.forms[f"{ASKED}/{step}"] = {}

    def may_ask(self, step: str) -> bool:
        """Whether a step is asked outside of training; any, if no rehearsal showed which."""
        return f"{ASKED}/{step}" in self.forms or not any(key.startswith(f"{ASKED}/") for key in self.forms)

    def is_summed(self, party: str, step: str) -> bool:
        """Whether a step's replies are wanted as a sum."""
        return f"{party}/sum/{step}" in self.forms

    def is_known(self, party: str, way: str, step: str) -> bool:
        """Whether a rehearsal had such a message."""
        return f"{party}/{way}/{step}" in self.forms

    def has_rows(self, party: str, step: str) -> bool:
        """Whether a step's reply has something of every row, and not numbers about a network alone."""
        form = self.forms.get(f"{party}/up/{step}", {})
        return any(ROWS in shape for _, shape in form.values())

    def like(self, party: str, way: str, step: str, rows: int) -> dict[str, Tensor] | None:
        """Empty fields of the form that a message will have, if that is known."""
        form = self.forms.get(f"{party}/{way}/{step}")
        if form is None or any(ANY in shape for _, shape in form.values()):
            return None
        return {name: _empty(kind, _due(shape, rows)) for name, (kind, shape) in form.items()}

    def to_json(self) -> dict[str, Any]:
        """Plain data, for a plan that everybody signs."""
        return {
            key: {name: [kind, list(shape)] for name, (kind, shape) in form.items()} for key, form in self.forms.items()
        }

    @classmethod
    def from_json(cls, came: Mapping[str, Any]) -> Schema:
        """What :meth:`to_json` gave."""
        return cls(
            {
                key: {name: (str(kind), tuple(int(one) for one in shape)) for name, (kind, shape) in form.items()}
                for key, form in came.items()
            }
        )

    @property
    def digest(self) -> bytes:
        """Sixteen bytes that stand for all of it."""
        return hashlib.sha256(json.dumps(self.to_json(), sort_keys=True).encode()).digest()[:16]


def _kind(value: Tensor) -> str:
    return _name_of(value.dtype)


@cache
def _name_of(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


@cache
def _empty(kind: str, shape: tuple[int, ...]) -> Tensor:
    return torch.empty(shape, dtype=getattr(torch, kind), device="meta")


@lru_cache(maxsize=256)
def _due(shape: tuple[int, ...], rows: int) -> tuple[int, ...]:
    """A shape for so many rows."""
    return tuple(rows if one == ROWS else one for one in shape)


def _fits(shape: tuple[int, ...], due: tuple[int, ...]) -> bool:
    return shape == due or (len(shape) == len(due) and all(b in (a, ANY) for a, b in zip(shape, due, strict=True)))


def _merged(one: Form, other: Form) -> Form:
    both: Form = {}
    for name, (kind, shape) in one.items():
        _, again = other.get(name, (kind, shape))
        both[name] = kind, tuple(map(_agreed, shape, again)) if len(shape) == len(again) else shape
    return both


def _agreed(one: int, other: int) -> int:
    """A dimension that follows the rows in one rehearsal only has their number by chance."""
    if ROWS in (one, other):
        return other if one == ROWS else one
    return one if one == other else ANY
