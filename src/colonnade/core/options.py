"""What users write: options, of which the default's type says what may come; plain numbers; builders by name."""

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
MOST = 10**9  # rounds, rows, widths: nobody means more
MOST_WEIGHTS = 10**8  # of a layer for each party
_WIDTHS = ("embedding", "hidden", "projection")
_WORDS = {int: "a whole number", float: "a number", str: "a text", bool: "true or false"}


def check_types(whose: str, options: Any, unchecked: Collection[str] = ()) -> None:
    """Refuse a field of a dataclass that is not of its default's type, or not finite.

    ``unchecked`` names fields of more than one type. A whole number is a number; true and false are none.
    """
    for field in fields(options):
        value, kind = getattr(options, field.name), type(field.default)
        accepted = (int, float) if kind is float else kind
        wrong = isinstance(value, bool) != (kind is bool) or not isinstance(value, accepted)
        if kind in _WORDS and wrong and field.name not in unchecked:
            raise ConfigError(f"{whose}: {field.name}={value!r} is not {_WORDS[kind]}.")
        if isinstance(value, float) and not math.isfinite(value):
            raise ConfigError(f"{whose}: {field.name}={value} is not finite.")
        if isinstance(value, int) and abs(value) > MOST:
            raise ConfigError(f"{whose}: {field.name}={_short(value)} is out of range; give at most {MOST:,}.")
    _check_widths(whose, options)


def _check_widths(whose: str, options: Any) -> None:
    """Refuse layers that no memory holds before one is made."""
    widths = {name: getattr(options, name, 0) for name in _WIDTHS}
    given = {name: width for name, width in widths.items() if isinstance(width, int) and width > 1}
    if math.prod(given.values()) > MOST_WEIGHTS:
        said = ", ".join(f"{name}={width}" for name, width in given.items())
        raise ConfigError(f"{whose}: {said} make a layer of more than {MOST_WEIGHTS:,} weights; give smaller ones.")


def whole(value: Any, what: str) -> int:
    """A whole number, also one of numpy's.

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
    """A seed: a whole number from 0 that has at most 63 bits, which every file, generator and machine can hold.

    >>> seed_of(7)
    7
    """
    seed = whole(value, what)
    if not 0 <= seed <= LARGEST_SEED:
        raise ConfigError(f"{what}={_short(seed)} is out of range; give a whole number from 0 to 2^63 - 1.")
    return seed


def count_of(value: Any, what: str, least: int = 1, most: int = MOST) -> int:
    """A whole number of rounds, rows, epochs and the like, which must be in a range that can be meant.

    >>> count_of(10, "rounds")
    10
    """
    count = whole(value, what)
    if not least <= count <= most:
        raise ConfigError(f"{what}={_short(count)} is out of range; give a whole number from {least} to {most:,}.")
    return count


def _short(number: int) -> str:
    """A number as a sentence can hold it; Python refuses to print those of more than 4,300 digits."""
    return str(number) if number.bit_length() <= 128 else f"a number of {number.bit_length()} bits"


def check_name(name: Any, what: str) -> str:
    """A name that terminals, logs and folders can hold: printable, on one line, neither empty nor endless.

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
    """A name as one part of a path, which cannot lead out of its folder.

    >>> path_part("../up"), path_part("bank 1")
    ('_up', 'bank 1')
    """
    return re.sub(r"[^\w .=-]", "_", name).strip(". ")[:LONGEST_NAME] or "_"


def number(value: Any, what: str) -> float:
    """A real number, also one of numpy's.

    >>> number(1, "valid")
    1.0
    """
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise ConfigError(f"{what}={value!r} is not a number.")
    return float(value)


def make_builder(what: str, kinds: Mapping[str, Any], kind: str, options: Mapping[str, Any]) -> Any:
    """One of these dataclasses by its name, as a job file writes it with its options."""
    if kind not in kinds:
        raise unknown(what, kind, kinds)
    try:
        return kinds[kind](**options)
    except TypeError:
        known = ", ".join(field.name for field in fields(kinds[kind]))
        raise ConfigError(f"{what} {kind} takes {known}, but {', '.join(options)} came.") from None


def describe_builder(kinds: Mapping[str, Any], builder: Any) -> dict[str, Any] | None:
    """What :func:`make_builder` made, as plain data with its name first; None if it is the user's own."""
    for kind, cls in kinds.items():
        if isinstance(builder, cls):
            return {"kind": kind, **asdict(builder)}
    return None
