"""The form of every message of a run, known before anything is sent: fields, kinds of numbers and shapes.

A rehearsal (``run/rehearsal.py``) learns the forms. All sides sign them before training, and both ends of a message
check it: a message of another form is refused, and so is one that no rehearsal has shown.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import typing
from collections.abc import Callable, Iterable, Mapping
from functools import cache, lru_cache
from typing import Any

import torch
from torch import Tensor

from colonnade.errors import MessageError

ROWS = -1
"""Stands in a shape for the number of the turn's rows."""
ANY = -2
"""Stands in a shape for a number that differed between two rehearsals and is not the number of rows."""

ASKED = "/asked"
"""Stands in a key for a party and a way: a step that is asked to evaluate, predict or explain.

No party's name is empty, so no party's key begins like this.
"""

Form = dict[str, tuple[str, tuple[int, ...]]]
"""A message's fields by name: the kind of numbers, and the shape with ROWS and ANY in it."""


@cache
def kinds_of(step: Callable[..., Any]) -> tuple[Any, Any]:
    """The classes of the message that a step reads and of the one that it replies with; None where there is none."""
    function = inspect.unwrap(getattr(step, "__func__", step))
    hints = typing.get_type_hints(function)
    replies = hints.pop("return", None)
    reads = [hint for name, hint in hints.items() if name not in ("self", "mine", "turn")]
    return (reads[0] if reads else None), (None if replies is type(None) else replies)


class Schema:
    """The forms of all messages by party, way and step; the way is ``"down"`` from the owner or ``"up"`` to it.

    Two more ways only say that a step had such a message: ``"sum"`` if replies were summed, ``"each"`` if every party
    was sent a message of its own.
    """

    def __init__(self, forms: Mapping[str, Form] | None = None, beside: Iterable[str] = ()) -> None:
        """``beside`` are steps beside the method's own, which no rehearsal knows and whose messages are not checked."""
        self.checks, self.beside = forms is not None, frozenset(beside)
        self.forms = dict(forms or {})

    @classmethod
    def unchecked(cls) -> Schema:
        """A schema that takes any message, for exchanges that check their messages themselves, such as an alignment."""
        return cls(None)

    def note(self, party: str, way: str, step: str, message: Any, rows: int) -> None:
        """Learn the form of a message from one of a turn with so many rows."""
        form = {
            name: (_name_of(value.dtype), tuple(ROWS if size == rows else size for size in value.shape))
            for name, value in zip(message._fields, message, strict=True)
        }
        self.forms[f"{party}/{way}/{step}"] = form

    def merge(self, other: Schema) -> Schema:
        """The forms on which two rehearsals with different numbers of rows agree."""
        return Schema({key: _merged(form, other.forms.get(key, form)) for key, form in self.forms.items()})

    def check(self, party: str, way: str, step: str, fields: Mapping[str, Tensor], rows: int, round: int) -> None:
        """Refuse a message that is not in the schema or has another form, before its values are used."""
        if not self.checks or step in self.beside:
            return
        form = self.forms.get(f"{party}/{way}/{step}")
        where = f"{'from' if way == 'up' else 'to'} '{party}' in step '{step}' of round {round}"
        if form is None:
            raise MessageError(
                f"the message {where} is not in the schema, which a rehearsal makes before training; "
                "a method that takes a step in some rounds only declares such a round in rare_rounds."
            )
        if set(fields) != set(form):
            raise MessageError(f"fields {sorted(fields)} came {where}, and {sorted(form)} were expected.")
        for name, value in fields.items():
            kind, shape = form[name]
            expected = _shape_for(shape, rows)
            if (value.shape != expected and not _fits(value.shape, expected)) or _name_of(value.dtype) != kind:
                given = f"shape {tuple(value.shape)} of {_name_of(value.dtype)}"
                raise MessageError(
                    f"'{name}' came {where} with {given}, and {expected} of {kind} was expected; does that "
                    "party have the same rows and the same settings?"
                )

    def note_asked(self, step: str) -> None:
        """Learn that a step is asked outside training."""
        self.forms[f"{ASKED}/{step}"] = {}

    def may_ask(self, step: str) -> bool:
        """Whether a step may be asked outside training; any may, if the schema names none."""
        return f"{ASKED}/{step}" in self.forms or not any(key.startswith(f"{ASKED}/") for key in self.forms)

    def is_summed(self, party: str, step: str) -> bool:
        """Whether the owner asks for the sum of a step's replies."""
        return f"{party}/sum/{step}" in self.forms

    def is_known(self, party: str, way: str, step: str) -> bool:
        """Whether the schema has such a message."""
        return f"{party}/{way}/{step}" in self.forms

    def has_rows(self, party: str, step: str) -> bool:
        """Whether a step's reply has numbers for every row, and not only numbers about a network."""
        form = self.forms.get(f"{party}/up/{step}", {})
        return any(ROWS in shape for _, shape in form.values())

    def like(self, party: str, way: str, step: str, rows: int) -> dict[str, Tensor] | None:
        """Tensors without values in the form of a message; None if the form is not known in full."""
        form = self.forms.get(f"{party}/{way}/{step}")
        if form is None or any(ANY in shape for _, shape in form.values()):
            return None
        return {name: _empty(kind, _shape_for(shape, rows)) for name, (kind, shape) in form.items()}

    def to_json(self) -> dict[str, Any]:
        """The forms as plain data, for the plan that all sides sign."""
        return {
            key: {name: [kind, list(shape)] for name, (kind, shape) in form.items()} for key, form in self.forms.items()
        }

    @classmethod
    def from_json(cls, forms: Mapping[str, Any]) -> Schema:
        """The schema whose forms :meth:`to_json` gave."""
        return cls(
            {
                key: {name: (str(kind), tuple(int(size) for size in shape)) for name, (kind, shape) in form.items()}
                for key, form in forms.items()
            }
        )

    @property
    def digest(self) -> bytes:
        """Sixteen bytes by which both sides know that they have the same schema."""
        return hashlib.sha256(json.dumps(self.to_json(), sort_keys=True).encode()).digest()[:16]


@cache
def _name_of(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


@cache
def _empty(kind: str, shape: tuple[int, ...]) -> Tensor:
    return torch.empty(shape, dtype=getattr(torch, kind), device="meta")


@lru_cache(maxsize=256)
def _shape_for(shape: tuple[int, ...], rows: int) -> tuple[int, ...]:
    """A form's shape in a turn with so many rows."""
    return tuple(rows if size == ROWS else size for size in shape)


def _fits(shape: tuple[int, ...], expected: tuple[int, ...]) -> bool:
    if len(shape) != len(expected):
        return False
    return all(wanted in (size, ANY) for size, wanted in zip(shape, expected, strict=True))


def _merged(first: Form, second: Form) -> Form:
    merged: Form = {}
    for name, (kind, shape) in first.items():
        _, other_shape = second.get(name, (kind, shape))
        alike = len(shape) == len(other_shape)
        merged[name] = kind, tuple(map(_merged_size, shape, other_shape)) if alike else shape
    return merged


def _merged_size(first: int, second: int) -> int:
    """One dimension of two rehearsals; a size that equals the rows in only one of them does so by chance."""
    if ROWS in (first, second):
        return second if first == ROWS else first
    return first if first == second else ANY
