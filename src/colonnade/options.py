"""The one check of options that users write: the default's type says what may come."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import fields
from typing import Any

from colonnade.errors import ConfigError

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
