"""The ledger of a run: one line per sender, receiver, step and purpose, with messages and exact bytes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import asdict, astuple, dataclass, fields, replace
from html import escape
from typing import Any

from colonnade.core.schedule import OWNER
from colonnade.disk.csv_text import csv_text
from colonnade.wire.message import Size

__all__ = ["OWNER", "Ledger", "Line"]


@dataclass
class Line:
    """All messages of one kind: who sent them to whom, in which step, for what.

    ``summed`` says how the owner asked the parties for these messages. True: it asked only for their sum. False: it
    asked for at least one of them by itself, or the owner is the sender. None: a version before this field counted
    some of them, so nobody knows.
    """

    purpose: str
    step: str
    sender: str
    receiver: str
    messages: int = 0
    payload: int = 0
    overhead: int = 0
    summed: bool | None = None

    @property
    def total(self) -> int:
        """Bytes on the wire: tensors and frames."""
        return self.payload + self.overhead

    def plus(self, other: Line) -> Line:
        """This line, with the messages of another one counted too.

        >>> summed, asked = Line("train", "embed", "a", "b", 1, 4, 2, summed=True), Line("", "", "", "", 1, 4, 2, False)
        >>> summed.plus(asked)
        Line(purpose='train', step='embed', sender='a', receiver='b', messages=2, payload=8, overhead=4, summed=False)
        """
        return replace(
            self,
            messages=self.messages + other.messages,
            payload=self.payload + other.payload,
            overhead=self.overhead + other.overhead,
            summed=_both_summed(self.summed, other.summed) if self.messages else other.summed,
        )


def _both_summed(first: bool | None, second: bool | None) -> bool | None:
    """Whether all messages were only summed: False if some were not, None if that is not known of some."""
    if first is False or second is False:
        return False
    return None if first is None or second is None else True


class Ledger:
    """Counts messages and bytes; records facts and judges nothing.

    >>> ledger = Ledger()
    >>> ledger.record("train", "embed", "party 1", "owner", Size(payload=400, overhead=40))
    >>> ledger.record("train", "embed", "party 1", "owner", Size(payload=400, overhead=40))
    >>> ledger.total, ledger.payload, ledger.by_step
    (880, 800, {'embed': 880})
    """

    def __init__(self) -> None:
        self.owners = [OWNER]  # who leads turns; of several owners, the others send to the first
        self._lines: dict[tuple[str, str, str, str], Line] = {}

    @staticmethod
    def _key(line: Line) -> tuple[str, str, str, str]:
        return line.purpose, line.step, line.sender, line.receiver

    def record(self, purpose: str, step: str, sender: str, receiver: str, size: Size, *, summed: bool = False) -> None:
        """Add one message; ``summed`` if the receiver asked only for the sum of such messages."""
        key = purpose, step, sender, receiver
        line = self._lines.get(key)
        if line is None:
            line = self._lines[key] = Line(purpose, step, sender, receiver, summed=summed)
        line.messages += 1
        line.payload += size.payload
        line.overhead += size.overhead
        if line.summed is not summed:
            line.summed = _both_summed(line.summed, summed)

    def __repr__(self) -> str:
        return f"Ledger({sum(line.messages for line in self.rows):,} messages, {self.total:,} bytes)"

    def _repr_html_(self) -> str:
        names = [field.name for field in fields(Line)]
        cells = [[escape(str(value)) for value in astuple(line)] for line in self.rows]
        head = "".join(f"<th>{name}</th>" for name in names)
        body = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in cells)
        return f"<table><caption>{escape(repr(self))}</caption><tr>{head}</tr>{body}</table>"

    @property
    def rows(self) -> list[Line]:
        """All lines, in the order in which they first occurred."""
        return list(self._lines.values())

    @property
    def total(self) -> int:
        """All bytes on the wire, frames included."""
        return sum(line.total for line in self.rows)

    @property
    def payload(self) -> int:
        """Bytes of tensors alone, as the papers count."""
        return sum(line.payload for line in self.rows)

    def sent_by(self, side: str) -> int:
        """How many messages a side has sent."""
        return sum(line.messages for line in self._lines.values() if line.sender == side)

    @property
    def by_party(self) -> dict[str, int]:
        """Bytes that each party sent or received; bytes between two parties, or two owners, count for the sender."""
        return self._sum_by("party")

    @property
    def by_step(self) -> dict[str, int]:
        """Bytes of each step."""
        return self._sum_by("step")

    @property
    def by_purpose(self) -> dict[str, int]:
        """Bytes of training, of evaluation, of prediction."""
        return self._sum_by("purpose")

    def bytes_for(self, purpose: str) -> int:
        """Bytes of one purpose, such as ``"train"``."""
        return self.by_purpose.get(purpose, 0)

    def _sum_by(self, what: str) -> dict[str, int]:
        sums: dict[str, int] = defaultdict(int)
        for line in self.rows:
            sums[self._party_of(line) if what == "party" else getattr(line, what)] += line.total
        return dict(sums)

    def _party_of(self, line: Line) -> str:
        leads = self.owners if line.sender not in self.owners or line.receiver not in self.owners else self.owners[:1]
        return line.receiver if line.sender in leads else line.sender

    def to_json(self) -> list[dict[str, str | int | None]]:
        """The lines as plain data."""
        return [asdict(line) for line in self.rows]

    def replace(self, rows: Iterable[dict[str, Any]]) -> None:
        """Forget all lines and take those that :meth:`to_json` gave, in this version or an older one."""
        self._lines = {self._key(line): line for line in (Line(**row) for row in rows)}

    def add(self, other: Ledger) -> None:
        """Count the messages of another ledger too."""
        for line in other.rows:
            key = self._key(line)
            self._lines[key] = self._lines.get(key, Line(*key)).plus(line)

    def since(self, rows: Iterable[dict[str, Any]]) -> Ledger:
        """The messages that were counted after :meth:`to_json` gave these lines."""
        before = {self._key(line): line for line in (Line(**row) for row in rows)}
        after = Ledger()
        for key, line in self._lines.items():
            old = before.get(key, Line(*key))
            counts = line.messages - old.messages, line.payload - old.payload, line.overhead - old.overhead
            if counts[0]:
                after._lines[key] = Line(*key, *counts, line.summed)
        return after

    def to_csv(self) -> str:
        """The lines as CSV text."""
        return csv_text([field.name for field in fields(Line)], map(astuple, self.rows))
