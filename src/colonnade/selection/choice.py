"""The result of a selection: the chosen parties, their information, the costs, and what each side learnt."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from colonnade.core.table import Table
from colonnade.wire.ledger import Ledger


@dataclass(frozen=True)
class Selection:
    """The chosen parties, the best first, with the facts about all candidates.

    ``tables`` is the federation of the owner and the chosen parties, ready for :func:`colonnade.train`.
    Information is in nats and None where it was not measured.
    """

    chosen: tuple[str, ...]
    by: str
    scores: dict[str, float]
    """Every candidate's own information; for ``by="heads"`` its head norm."""
    information: float | None
    of_all: float | None
    """The information of all parties together."""
    notes: dict[str, str]
    opened: tuple[str, ...]
    """What each side learnt, in plain sentences."""
    evaluations: int
    """The number of groups whose distances were added up."""
    touched: float | None
    """The mean share of rows that Fagin's algorithm touched, if it was used."""
    seconds: float
    """CPU seconds of all sides together."""
    ledger: Ledger = field(repr=False)
    tables: list[Table] = field(repr=False)

    @property
    def bytes(self) -> int:
        """All bytes that the selection sent."""
        return self.ledger.total

    @property
    def reached(self) -> float | None:
        """The share of all parties' information that the chosen ones have."""
        return self.information / self.of_all if self.information is not None and self.of_all else None

    def to_json(self) -> dict[str, Any]:
        """The result as plain data."""
        plain = ("by", "scores", "information", "of_all", "notes", "evaluations", "touched", "seconds", "bytes")
        lists = {"chosen": list(self.chosen), "opened": list(self.opened)}
        return {**lists, **{name: getattr(self, name) for name in plain}, "reached": self.reached}

    def __str__(self) -> str:
        width = max(map(len, self.scores))
        lines = [f"{len(self.chosen)} of {len(self.scores)} parties chosen by {self.by}: {', '.join(self.chosen)}"]
        if self.information is not None and self.of_all is not None:
            share = "" if self.reached is None else f" ({100 * self.reached:.1f} %)"
            lines.append(f"information {self.information:.3f} of {self.of_all:.3f} nats{share}")
        for name, score in self.scores.items():
            mark = "*" if name in self.chosen else " "
            lines.append(f"{mark} {name:{width}}  {score:6.3f}  {self.notes.get(name, '')}".rstrip())
        lines.append(f"{self.evaluations} groups, {self.bytes:,} bytes, {self.seconds:.1f} CPU seconds")
        return "\n".join([*lines, *self.opened])
