"""What users write: options, of which the default's type says what may come; plain numbers; builders by name."""

from __future__ import annotations

import math
import numbers
import operator
from collections.abc import Collection, Mapping
from dataclasses import asdict, fields
from typing import Any

from colonnade.errors import ConfigError, unknown

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
