"""Normalise ids so that they compare equal at all parties: the job states one rule for all parties.

A rule is a set of these words, in any order:

- ``trim``: white space around the id is removed;
- ``nfkc``: Unicode forms that look alike become one (full-width digits, joined accents, hard spaces);
- ``casefold``: capital letters become small, also beyond ASCII (``Straße`` is ``STRASSE``);
- ``whole``: a text such as ``7.0``, which is what pandas makes of the number 7 beside a missing one, is ``7``.

Whole numbers become their decimal texts under every rule, also if they are stored as floats.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from colonnade.errors import TableError, unknown
from colonnade.tables.sheets.arrow import arrow, as_texts

RULE = ("trim", "nfkc", "casefold", "whole")
_SPACE = " \t\n\r\x0b\x0c\x1c\x1d\x1e\x1f"  # the ASCII characters that str.strip removes
WHOLE = r"^(-?[0-9]+)\.0+$"
_LAST_EXACT = 2**53  # above it, floats cannot represent all whole numbers
_ODD = np.uint64(0x9E3779B97F4A7C15)

_STEPS: dict[str, Callable[[str], str]] = {
    "nfkc": lambda text: unicodedata.normalize("NFKC", text),
    "casefold": str.casefold,
    "trim": str.strip,
    "whole": lambda text: re.sub(WHOLE.replace("$", r"\Z"), r"\1", text),
}


def make_rule(rule: str | Sequence[str]) -> tuple[str, ...]:
    """The rule as a tuple of words, in a fixed order.

    >>> make_rule("casefold+trim"), make_rule(())
    (('trim', 'casefold'), ())
    """
    words = [word for word in rule.split("+") if word] if isinstance(rule, str) else list(rule)
    for word in words:
        if word not in RULE:
            raise unknown("word in normalise", word, RULE)
    return tuple(word for word in RULE if word in words)


def normalised(text: str, rule: Sequence[str] = RULE) -> str:
    """One id normalised by a rule; normalising it again changes nothing.

    >>> normalised("  Ann@Example.ORG "), normalised("7.0"), normalised(" x", ())
    ('ann@example.org', '7', ' x')
    """
    steps = [step for word, step in _STEPS.items() if word in rule]
    before = None
    while before != text:  # case folding can undo the normal form, and vice versa
        before = text
        for step in steps:
            text = step(text)
    return text


def normalise(texts: Any, rule: Sequence[str]) -> Any:
    """An Arrow array of texts, each normalised as by :func:`normalised`, but faster for plain ASCII."""
    pa, pc = arrow(), arrow("pyarrow.compute")
    result = texts
    if "casefold" in rule:
        result = pc.ascii_lower(result)
    if "trim" in rule:
        result = pc.ascii_trim(result, characters=_SPACE)
    if "whole" in rule:
        result = pc.replace_substring_regex(result, pattern=WHOLE, replacement=r"\1")
    plain = pc.fill_null(pc.string_is_ascii(texts), True)
    if rule and not pc.all(plain, min_count=0).as_py():
        odd = pc.invert(plain)
        words = [normalised(text, rule) for text in texts.filter(odd).to_pylist()]
        result = pc.replace_with_mask(result, odd, pa.array(words, pa.string()))
    return result


def id_texts(values: Any, sheet: str, column: str) -> Any:
    """A column of ids as Arrow texts, before any rule."""
    pa = arrow()
    kind = values.type
    if pa.types.is_dictionary(kind):
        return id_texts(values.dictionary_decode(), sheet, column)
    if pa.types.is_floating(kind):
        values = _whole_numbers(values, sheet, column)
    elif not (pa.types.is_integer(kind) or is_text(kind) or pa.types.is_null(kind)):
        raise TableError(
            f"the id column '{column}' of '{sheet}' holds {kind} values; ids are texts or whole numbers: "
            "choose another column with id=."
        )
    return as_texts(values)


def is_text(kind: Any) -> bool:
    """Whether an Arrow type holds texts."""
    types = arrow().types
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def _whole_numbers(values: Any, sheet: str, column: str) -> Any:
    pa, pc = arrow(), arrow("pyarrow.compute")
    values = pc.cast(values, pa.float64())
    values = pc.if_else(pc.is_nan(values), None, values)
    numbers = pc.drop_null(values).to_numpy(zero_copy_only=False)
    wrong = numbers[~((numbers == np.round(numbers)) & (np.abs(numbers) < _LAST_EXACT))]
    if len(wrong):
        raise TableError(
            f"the id column '{column}' of '{sheet}' holds {float(wrong[0])!r}, which is no whole number that a float "
            "can tell from its neighbours; write the ids as text or as integers."
        )
    return pc.cast(values, pa.int64())


def hashes(texts: Any) -> np.ndarray:
    """A 64-bit number per text, to find duplicates: equal texts have equal numbers, others rarely. It hides nothing."""
    if not len(texts):
        return np.zeros(0, np.uint64)
    raw = arrow("pyarrow.compute").cast(texts, arrow().large_binary())
    offsets = np.frombuffer(raw.buffers()[1], np.int64)[raw.offset : raw.offset + len(raw) + 1]
    lengths = np.diff(offsets)
    data = np.frombuffer(raw.buffers()[2] or b"", np.uint8)[offsets[0] : offsets[-1]]
    place = np.arange(len(data)) - np.repeat(offsets[:-1] - offsets[0], lengths)
    weights = np.cumprod(np.full(int(lengths.max()) + 1, _ODD))
    sums = np.zeros(len(data) + 1, np.uint64)
    np.cumsum((data.astype(np.uint64) + np.uint64(1)) * weights[place], out=sums[1:])
    ends = offsets - offsets[0]
    return np.asarray(sums[ends[1:]] - sums[ends[:-1]])


def refuse_duplicates(texts: Any, sieve: np.ndarray, sheet: str, column: str) -> None:
    """Refuse ids that occur more than once; the error shows three of them. Sorts the hashes in ``sieve`` in place."""
    pc = arrow("pyarrow.compute")
    sieve.sort()
    suspects = np.unique(sieve[1:][sieve[1:] == sieve[:-1]])
    if not len(suspects):
        return
    again = np.concatenate([hashes(chunk) for chunk in texts.chunks])
    counts = pc.value_counts(texts.take(np.flatnonzero(np.isin(again, suspects))))
    several = counts.filter(pc.greater(counts.field("counts"), 1))
    if not len(several):
        return
    shown = ", ".join(f"'{text}'" for text in sorted(several.field("values").to_pylist())[:3])
    count = len(several)
    raise TableError(
        f"{count} id{'s' if count > 1 else ''} of '{sheet}' (column '{column}') occur{'' if count > 1 else 's'} more "
        f"than once after normalisation, such as {shown}; ids must be unique: drop or merge those rows, "
        "or write duplicates = 'first' or 'last'."
    )
