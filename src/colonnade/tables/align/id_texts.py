"""Ids as text, so that ids of different types at two organisations compare equal."""

from __future__ import annotations

import numbers
from collections import Counter
from typing import Any

from colonnade.errors import TableError

SHOWN = 3  # examples in an error


def texts(ids: Any, name: str) -> list[bytes]:
    """The ids of one party as text in UTF-8, each once.

    The whole number 7, the text "7" and the bytes b"7" are the same id.

    >>> texts([7, "7a", b"b"], "shop")
    [b'7', b'7a', b'b']
    >>> texts(["ann", "bob", "ann"], "shop")
    Traceback (most recent call last):
        ...
    colonnade.errors.TableError: 1 of the 2 ids of 'shop' occurs more than once: 'ann' (2 times); drop or merge them.
    """
    if isinstance(ids, str | bytes):
        raise TableError(f"the ids of '{name}' are one text; give a list with one id per row.")
    try:
        listed = ids.tolist() if hasattr(ids, "tolist") else list(ids)
    except TypeError:
        raise TableError(f"the ids of '{name}' are a {type(ids).__name__}; give a list with one per row.") from None
    if not isinstance(listed, list) or not listed:
        raise TableError(f"'{name}' has no ids; it needs at least one row.")
    encoded = [_text(value, name) for value in listed]
    if len(set(encoded)) < len(encoded):
        raise _repeated(encoded, name)
    return encoded


def _text(value: Any, name: str) -> bytes:
    try:
        if isinstance(value, str):
            return value.encode()
        if isinstance(value, bytes):
            return value.decode().encode()
    except UnicodeError:
        raise TableError(f"the id {value!r:.60} of '{name}' is no valid text; give ids in UTF-8.") from None
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise TableError(f"the id {value!r:.60} of '{name}' is a {type(value).__name__}; give texts or whole numbers.")
    return str(int(value)).encode()


def _repeated(encoded: list[bytes], name: str) -> TableError:
    counts = Counter(encoded)
    often = {text.decode(): count for text, count in counts.items() if count > 1}
    examples = ", ".join(f"{text!r:.60} ({count} times)" for text, count in list(often.items())[:SHOWN])
    verb = "occurs" if len(often) == 1 else "occur"
    such_as = ":" if len(often) <= SHOWN else ", such as"
    return TableError(
        f"{len(often)} of the {len(counts)} ids of '{name}' {verb} more than once{such_as} {examples}; "
        "drop or merge them."
    )
