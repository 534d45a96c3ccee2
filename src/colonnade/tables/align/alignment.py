"""The result of an alignment: every party's rows in the common order, and what each party learnt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from colonnade.core.table import Table
from colonnade.errors import TableError
from colonnade.tables.align.id_texts import texts
from colonnade.wire.ledger import Ledger


def who_learns(mode: str, names: Sequence[str]) -> tuple[str, ...]:
    """Who will learn what, in plain sentences: to be read before the run.

    >>> print(who_learns("plain", ["bank", "shop"])[0])
    Every party sends 'bank' a hash of each of its ids: 'bank' can find out any id that it can guess.
    """
    owner, *_, last = (f"'{name}'" for name in names)
    common = "Every party learns how many ids each party has, and which of its own ids all parties have."
    guessed = (
        "Who puts ids into its set that it only guessed learns which of those all others have: agree on a maximum, and "
        "on how often this is run."
    )
    if mode == "plain":
        sent = f"Every party sends {owner} a hash of each of its ids: {owner} can find out any id that it can guess."
        return sent, common, f"All are trusted to follow the protocol. {guessed}"
    secret = "Ids that are not common to all stay secret, however easy to guess: they leave their party masked only."
    groups = "; it also learns how many ids every group of the parties has in common" if len(names) > 2 else ""
    compares = (
        f"{owner} relays lists of masked, shuffled ids that are sealed between the parties, and {last} compares them"
        f"{groups}. If fewer than the agreed minimum are common, {last} learns how many, and nobody which."
    )
    trusted = f"Whoever else lies gets nothing below the minimum; {last} is trusted to compare as agreed. {guessed}"
    return common, secret, compares, trusted


@dataclass(frozen=True)
class Alignment:
    """Every party's own row numbers of the common ids, in one order for all.

    Between organisations each party has only its own rows; in one process the result has those of all parties.
    """

    names: tuple[str, ...]
    """The parties, the owner first."""
    rows: dict[str, np.ndarray] = field(repr=False)
    sizes: dict[str, int]
    """How many ids each party has."""
    mode: str
    proof: str
    """A fingerprint that is the same at every party; it exists only if every pair proved that their orders agree."""
    opened: tuple[str, ...] = field(repr=False)
    """Who learnt what, in plain sentences."""
    seconds: float
    """CPU seconds of all sides together."""
    seconds_by_party: dict[str, float] = field(repr=False)
    ledger: Ledger = field(repr=False)

    @property
    def count(self) -> int:
        """How many ids are common."""
        return len(self.rows[self.names[0]])

    @property
    def bytes(self) -> int:
        """All bytes that the alignment sent."""
        return self.ledger.total

    def take(self, tables: Sequence[Table]) -> list[Table]:
        """The federation of the common rows in the common order; give the tables in the order of the parties.

        Ids become texts, so that they are the same at every party.
        """
        if len(tables) != len(self.names):
            raise TableError(f"{len(tables)} tables came; give those of {', '.join(self.names)}, in this order.")
        for name, table in zip(self.names, tables, strict=True):
            if table.rows != self.sizes[name]:
                raise TableError(
                    f"table '{table.name}' has {table.rows} rows and '{name}' had {self.sizes[name]} when it was "
                    "aligned; give the same tables, or align again."
                )
        taken = [table.take(self.rows[name]) for name, table in zip(self.names, tables, strict=True)]
        common = [[text.decode() for text in texts(table.ids, table.name)] for table in taken]
        for table, ids in zip(taken, common, strict=True):
            if ids != common[0]:
                raise TableError(f"the rows of table '{table.name}' are not those that were aligned; align again.")
        return [replace(table, ids=np.array(common[0])) for table in taken]

    def to_json(self) -> dict[str, Any]:
        """The result as plain data, without the rows."""
        plain = ("count", "sizes", "mode", "proof", "seconds", "seconds_by_party", "bytes")
        return {"names": list(self.names), "opened": list(self.opened), **{name: getattr(self, name) for name in plain}}

    def __str__(self) -> str:
        width = max(map(len, self.names))
        lines = [f"{self.count:,} ids are common to {len(self.names)} parties; all have them in the same order"]
        for name, size in self.sizes.items():
            lines.append(f"  {name:{width}}  {size:,} ids, {100 * self.count / size:.1f} % of them common")
        lines.append(f"proof {self.proof[:16]}, {self.bytes:,} bytes, {self.seconds:.1f} CPU seconds")
        return "\n".join([*lines, *self.opened])
