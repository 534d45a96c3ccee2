"""Check that plain data from a file has an expected form, and name the first place where it does not.

A form is one of these:

* a :class:`Kind`, for a plain value of that kind;
* ``[form]``, for a list whose elements all have that form;
* ``{"name": form}``, for a table with that entry, and perhaps others; the entry ``"name?"`` may be left out;
* ``{"*": form}``, for a table whose entries all have that form;
* ``(form, None)``, for a value of that form or ``None``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

Form = Any


@dataclass(frozen=True)
class Kind:
    """A kind of plain value: what an error message calls it, and a function that recognises it."""

    words: str
    fits: Callable[[Any], bool]


class Wrong(NamedTuple):
    """A place where data does not have the expected form."""

    place: str
    value: Any
    words: str

    def __str__(self) -> str:
        return f"{self.place} is {self.value!r:.60} where {self.words} is expected"


def is_number(value: Any) -> bool:
    """Whether it is a float, or an integer that fits into 64 bits; true and false are no numbers."""
    return isinstance(value, float) or (type(value) is int and abs(value) < 2**63)


TEXT = Kind("a text", lambda value: isinstance(value, str))
NUMBER = Kind("a number", is_number)
COUNT = Kind("a whole number from 0", lambda value: type(value) is int and 0 <= value < 2**63)
FLAG = Kind("true or false", lambda value: isinstance(value, bool))
ANYTHING = Kind("anything", lambda _: True)


def first_wrong(value: Any, form: Form, place: str = "") -> Wrong | None:
    """The first place where a value does not have the form, or None.

    >>> str(first_wrong({"rows": [1, "2"]}, {"rows": [NUMBER]}))
    "rows[1] is '2' where a number is expected"
    """
    if isinstance(form, Kind):
        return None if form.fits(value) else Wrong(place, value, form.words)
    if isinstance(form, tuple):
        return None if value is None else first_wrong(value, form[0], place)
    if isinstance(form, list):
        return _wrong_in_list(value, form[0], place)
    return _wrong_in_table(value, form, place)


def _wrong_in_list(value: Any, form: Form, place: str) -> Wrong | None:
    if not isinstance(value, list):
        return Wrong(place, value, "a list")
    each = (first_wrong(element, form, f"{place}[{number}]") for number, element in enumerate(value))
    return next((wrong for wrong in each if wrong is not None), None)


def _wrong_in_table(value: Any, form: dict[str, Form], place: str) -> Wrong | None:
    if not isinstance(value, dict):
        return Wrong(place, value, "a table")
    for name, inner in form.items():
        keys = list(value) if name == "*" else [name.removesuffix("?")]
        for key in keys:
            if key in value:
                wrong = first_wrong(value[key], inner, f"{place}.{key}" if place else key)
            else:
                wrong = None if name.endswith("?") else Wrong(f"{place}.{key}" if place else key, None, "something")
            if wrong is not None:
                return wrong
    return None
