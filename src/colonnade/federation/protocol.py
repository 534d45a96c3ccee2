"""Which word may follow which between an owner and a party: one table, without keys, files or sockets.

Both sides walk the same table, the owner with one :class:`Conversation` for each party. A conversation begins at
``new`` and goes to the stage that the table names for each word. A word that has no entry at the present stage may not
be said: the owner does not send it, and a party refuses it and changes nothing. Nothing private is done before
``signed``, where the party has seen everybody's signature of the terms that it signed itself.

A word may come again at the stage to which it led, because a connection broke before its answer arrived. ``terms`` may
come at any later stage: when another party has come back as another process, the owner goes through the handshake with
all of them again. Another process of either side begins at ``new``.
"""

from __future__ import annotations

from colonnade.errors import MessageError

NEW, ENDED = "new", "ended"
REQUEST = "request"
"""Any request of an alignment or of a run; what it may ask for is checked by the server of the alignment or the run."""
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
    ("aligning", REQUEST): "aligning",
    ("begun", REQUEST): "begun",
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
        known = [other for other in (*WORDS, REQUEST) if (stage, other) in TABLE]
        may = " or ".join(filter(None, [", ".join(known[:-1]), known[-1]]))
        raise MessageError(f"'{word:.20}' came at the stage '{stage}'; {may} may come there.")
    return TABLE[stage, word]


class Conversation:
    """How far one owner and one party have come, as one of the two sees it.

    >>> conversation = Conversation()
    >>> conversation.say("hello")
    >>> conversation.say("terms")
    >>> conversation.stage
    'agreed'
    """

    def __init__(self) -> None:
        self.stage = NEW

    def allows(self, word: str) -> bool:
        """Whether the word may be said now."""
        return (self.stage, word) in TABLE

    def check(self, word: str) -> None:
        """Raise :class:`MessageError` if the word may not be said now."""
        after(self.stage, word)

    def say(self, word: str) -> None:
        """Go to the stage to which the word leads: it was said and answered."""
        self.stage = after(self.stage, word)

    def restart(self) -> None:
        """Begin again: the other side is another process."""
        self.stage = NEW
