"""Ids as text: what two organisations write differently in type, they mean alike."""

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
    found = [_text(one, name) for one in listed]
    if len(set(found)) < len(found):
        raise _repeated(found, name)
    return found


def _text(one: Any, name: str) -> bytes:
    try:
        if isinstance(one, str):
            return one.encode()
        if isinstance(one, bytes):
            return one.decode().encode()
    except UnicodeError:
        raise TableError(f"the id {one!r:.60} of '{name}' is no valid text; give ids in UTF-8.") from None
    if isinstance(one, bool) or not isinstance(one, numbers.Integral):
        raise TableError(f"the id {one!r:.60} of '{name}' is a {type(one).__name__}; give texts or whole numbers.")
    return str(int(one)).encode()


def _repeated(found: list[bytes], name: str) -> TableError:
    counts = Counter(found)
    often = {one.decode(): count for one, count in counts.items() if count > 1}
    examples = ", ".join(f"{one!r:.60} ({count} times)" for one, count in list(often.items())[:SHOWN])
    verb = "occurs" if len(often) == 1 else "occur"
    such_as = ":" if len(often) <= SHOWN else ", such as"
    return TableError(
        f"{len(often)} of the {len(counts)} ids of '{name}' {verb} more than once{such_as} {examples}; "
        "drop or merge them."
    )
