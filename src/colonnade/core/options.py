"""Checks of values that users write: options by the type of their default, plain numbers, names, builders by name."""

from __future__ import annotations

import math
import numbers
import operator
import re
from collections.abc import Collection, Mapping
from dataclasses import asdict, fields
from typing import Any

from colonnade.errors import ConfigError, printable, unknown

LONGEST_NAME = 100  # characters
LARGEST_SEED = 2**63 - 1
MOST = 10**9  # rounds, rows, widths: a larger number is a mistake
MOST_WEIGHTS = 10**8  # of a layer for each party
_WIDTHS = ("embedding", "hidden", "projection")
_WORDS = {int: "a whole number", float: "a number", str: "a text", bool: "true or false"}


def check_types(whose: str, options: Any, unchecked: Collection[str] = ()) -> None:
    """Refuse a field of a dataclass that is not of its default's type, or not finite.

    A field whose default is None may be None. ``unchecked`` names fields of more than one type. A whole number is also
    a number; true and false are not.
    """
    for field in fields(options):
        value, kind = getattr(options, field.name), _kind(field)
        accepted = (int, float) if kind is float else kind
        if value is None and field.default is None:
            continue
        wrong = isinstance(value, bool) != (kind is bool) or not isinstance(value, accepted)
        if kind in _WORDS and wrong and field.name not in unchecked:
            raise ConfigError(f"{whose}: {field.name}={value!r} is not {_WORDS[kind]}.")
        if isinstance(value, float) and not math.isfinite(value):
            raise ConfigError(f"{whose}: {field.name}={value} is not finite.")
        if isinstance(value, int) and abs(value) > MOST:
            raise ConfigError(f"{whose}: {field.name}={_short(value)} is out of range; give at most {MOST:,}.")
    _check_widths(whose, options)


def _kind(field: Any) -> type:
    """The type of an option: its default's, or what is written before "| None" if the default is None."""
    written = {kind.__name__: kind for kind in _WORDS}
    return type(field.default) if field.default is not None else written.get(str(field.type).split(" ")[0], object)


def _check_widths(whose: str, options: Any) -> None:
    """Refuse layers that are too large for memory, before one is built."""
    widths = {name: getattr(options, name, 0) for name in _WIDTHS}
    factors = {name: width for name, width in widths.items() if isinstance(width, int) and width > 1}
    if math.prod(factors.values()) > MOST_WEIGHTS:
        product = ", ".join(f"{name}={width}" for name, width in factors.items())
        raise ConfigError(f"{whose}: {product} make a layer of more than {MOST_WEIGHTS:,} weights; give smaller ones.")


def whole(value: Any, what: str) -> int:
    """A whole number, of Python or of numpy.

    >>> import numpy as np
    >>> whole(np.int64(3), "rounds")
    3
    """
    try:
        if isinstance(value, bool):
            raise TypeError
        return operator.index(value)
    except TypeError:
        raise ConfigError(f"{what}={value!r} is not a whole number; give one, such as 10.") from None


def seed_of(value: Any, what: str = "seed") -> int:
    """A seed: a whole number from 0 with at most 63 bits, so that every file and generator can store it.

    >>> seed_of(7)
    7
    """
    seed = whole(value, what)
    if not 0 <= seed <= LARGEST_SEED:
        raise ConfigError(f"{what}={_short(seed)} is out of range; give a whole number from 0 to 2^63 - 1.")
    return seed


def count_of(value: Any, what: str, least: int = 1, most: int = MOST) -> int:
    """A whole number of rounds, rows, epochs and so on, in a sensible range.

    >>> count_of(10, "rounds")
    10
    """
    count = whole(value, what)
    if not least <= count <= most:
        raise ConfigError(f"{what}={_short(count)} is out of range; give a whole number from {least} to {most:,}.")
    return count


def _short(number: int) -> str:
    """A number for an error message; Python refuses to print one of more than 4,300 digits."""
    return str(number) if number.bit_length() <= 128 else f"a number of {number.bit_length()} bits"


def check_name(name: Any, what: str) -> str:
    """A name that can be used in terminals, logs and folders: printable, on one line, not empty, not too long.

    >>> check_name("bank", "a party")
    'bank'
    """
    if not isinstance(name, str) or not name.strip(". ") or not name.isprintable() or len(name) > LONGEST_NAME:
        raise ConfigError(
            f"the name {printable(name, 60)!r} of {what} cannot be used; give 1 to {LONGEST_NAME} printable characters "
            "that are not only dots and blanks."
        )
    return name


def path_part(name: str) -> str:
    """A name as one part of a path that cannot lead out of its folder.

    >>> path_part("../up"), path_part("bank 1")
    ('_up', 'bank 1')
    """
    return re.sub(r"[^\w .=-]", "_", name).strip(". ")[:LONGEST_NAME] or "_"


def number(value: Any, what: str) -> float:
    """A real number, of Python or of numpy.

    >>> number(1, "valid")
    1.0
    """
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise ConfigError(f"{what}={value!r} is not a number.")
    return float(value)


def make_builder(what: str, kinds: Mapping[str, Any], kind: str, options: Mapping[str, Any]) -> Any:
    """An instance of one of these dataclasses, from its name and options in a job file."""
    if kind not in kinds:
        raise unknown(what, kind, kinds)
    try:
        return kinds[kind](**options)
    except TypeError:
        known = ", ".join(field.name for field in fields(kinds[kind]))
        raise ConfigError(f"{what} {kind} takes {known}, but {', '.join(options)} came.") from None


def describe_builder(kinds: Mapping[str, Any], builder: Any) -> dict[str, Any] | None:
    """A builder of :func:`make_builder` as plain data, its name first; None if it is the user's own class."""
    for kind, cls in kinds.items():
        if isinstance(builder, cls):
            return {"kind": kind, **asdict(builder)}
    return None
