"""Which word may follow which between an owner and a party: one table, without keys, files or sockets.

A party's process begins at ``new`` and goes to the stage that the table names for each word it hears; a word that has
no line at its stage is refused, and changes nothing. Nothing private is done before ``signed``, where the party has
seen everybody's signature of the terms that it signed itself.

A word may come again at the stage to which it led, because a link broke before its answer was heard. ``terms`` may
come at any later stage: when another party has come back as another process, all are led in again. Another process of
the owner begins at ``new``.
"""

from __future__ import annotations

from colonnade.errors import MessageError

NEW, ENDED = "new", "ended"
LETTER = "letter"
"""Any letter of an alignment or of a run; what it may ask for is the affair of whoever serves it."""
WORDS = ("hello", "terms", "signed", "align", "prepare", "plan", "begin", "end")
STAGES = (NEW, "met", "agreed", "signed", "aligning", "prepared", "planned", "begun", ENDED)

_FROM = {
    "hello": STAGES[1:],
    "terms": ("met", "agreed", "signed", "aligning", "prepared", "planned", "begun"),
    "signed": ("agreed", "signed"),
    "align": ("signed", "aligning"),
    "prepare": ("signed", "aligning", "prepared", "planned", "begun"),
    "plan": ("prepared", "planned"),
    "begin": ("planned", "begun"),
    "end": STAGES[1:],
}
_TO = {
    "terms": "agreed",
    "signed": "signed",
    "align": "aligning",
    "prepare": "prepared",
    "plan": "planned",
    "begin": "begun",
    "end": ENDED,
}
TABLE: dict[tuple[str, str], str] = {
    (NEW, "hello"): "met",
    ("aligning", LETTER): "aligning",
    ("begun", LETTER): "begun",
    **{(stage, word): _TO.get(word, stage) for word, stages in _FROM.items() for stage in stages},
}
"""By stage and word: the next stage."""


def after(stage: str, word: str) -> str:
    """The stage after a word, or :class:`MessageError` if the word may not come now.

    >>> after("signed", "align")
    'aligning'
    >>> after("agreed", "align")
    Traceback (most recent call last):
    colonnade.errors.MessageError: 'align' came at the stage 'agreed'; hello, terms, signed or end may come there.
    """
    if (stage, word) not in TABLE:
        known = [one for one in (*WORDS, LETTER) if (stage, one) in TABLE]
        may = " or ".join(filter(None, [", ".join(known[:-1]), known[-1]]))
        raise MessageError(f"'{word:.20}' came at the stage '{stage}'; {may} may come there.")
    return TABLE[stage, word]
