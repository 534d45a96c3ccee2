"""The result of an alignment: every party's rows in the common order, and what each party learnt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch

from colonnade.core.table import Table
from colonnade.errors import TableError
from colonnade.tables.align.id_texts import texts
from colonnade.wire.ledger import Ledger


def who_learns(mode: str, names: Sequence[str], join: str = "inner") -> tuple[str, ...]:
    """Who will learn what, in plain sentences: to be read before the run.

    >>> print(who_learns("plain", ["bank", "shop"])[0])
    Every party sends 'bank' a hash of each of its ids: 'bank' can find out any id that it can guess.
    """
    owner, *_, last = (f"'{name}'" for name in names)
    if join == "left":
        alone = f"{owner} is aligned with every other party alone, and learns of each of its own ids who has it."
        places = (
            f"Every other party learns how many rows {owner} has, and the places of those that both have in a random "
            "order of them; it learns nothing about the rows of other parties. Of each such pair:"
        )
        pair = who_learns(mode, [names[0], "the other party"])
        return alone, places, *(sentence.replace("'the other party'", "the other party") for sentence in pair)
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
    join: str = "inner"
    """Whose rows they are: those that all have ("inner"), or all of the owner's, -1 where a party has none ("left")."""

    @property
    def count(self) -> int:
        """How many rows the federation has: those common to all, or in a left join all of the owner's."""
        return len(self.rows[self.names[0]])

    @property
    def known(self) -> dict[str, int]:
        """How many of the federation's rows each party has."""
        return {name: int((rows >= 0).sum()) for name, rows in self.rows.items()}

    @property
    def bytes(self) -> int:
        """All bytes that the alignment sent."""
        return self.ledger.total

    def take(self, tables: Sequence[Table], *, unaligned: bool = False) -> list[Table]:
        """The federation's tables in the common order; give the tables in the order of the parties.

        Ids become texts, so that they are the same at every party. In a left join ``table.known`` says which rows a
        party has. ``unaligned`` keeps each party's other rows as its ``table.unaligned``.
        """
        if len(tables) != len(self.names):
            raise TableError(f"{len(tables)} tables came; give those of {', '.join(self.names)}, in this order.")
        for name, table in zip(self.names, tables, strict=True):
            if table.rows != self.sizes[name]:
                raise TableError(
                    f"table '{table.name}' has {table.rows} rows and '{name}' had {self.sizes[name]} when it was "
                    "aligned; give the same tables, or align again."
                )
        ids = np.array(_ids_of(tables[0].take(self.rows[self.names[0]])))
        taken = [_taken(table, self.rows[name], ids) for name, table in zip(self.names, tables, strict=True)]
        if not unaligned:
            return taken
        each = zip(taken, tables, self.rows.values(), strict=True)
        return [_with_others(part, whole, rows) for part, whole, rows in each]

    def to_json(self) -> dict[str, Any]:
        """The result as plain data, without the rows."""
        plain = ("count", "sizes", "mode", "join", "known", "proof", "seconds", "seconds_by_party", "bytes")
        return {"names": list(self.names), "opened": list(self.opened), **{name: getattr(self, name) for name in plain}}

    def __str__(self) -> str:
        width = max(map(len, self.names))
        lines = [f"{self.count:,} ids are common to {len(self.names)} parties; all have them in the same order"]
        if self.join == "left":
            lines = [
                f"{self.count:,} ids of '{self.names[0]}'; every party knows which of them it has, and their order"
            ]
        for name, size in self.sizes.items():
            lines.append(f"  {name:{width}}  {size:,} ids, {100 * self.known[name] / size:.1f} % of them common")
        lines.append(f"proof {self.proof[:16]}, {self.bytes:,} bytes, {self.seconds:.1f} CPU seconds")
        return "\n".join([*lines, *self.opened])


def _taken(table: Table, rows: np.ndarray, ids: np.ndarray) -> Table:
    """A party's table of the federation's rows, with zeros for those that it does not have."""
    known = rows >= 0
    own = table.take(rows[known])
    if _ids_of(own) != ids[known].tolist():
        raise TableError(f"the rows of table '{table.name}' are not those that were aligned; align again.")
    if known.all():
        return replace(own, ids=ids)
    columns = own.columns.new_zeros(len(ids), *own.shape)
    columns[torch.from_numpy(known)] = own.columns
    return replace(own, ids=ids, columns=columns, known=known)


def _with_others(taken: Table, whole: Table, rows: np.ndarray) -> Table:
    """A party's table with its rows outside the federation as unaligned ones."""
    if whole.columns is None:
        return taken
    others = np.setdiff1d(np.arange(whole.rows), rows)
    return replace(taken, unaligned=whole.columns[torch.from_numpy(others)])


def _ids_of(table: Table) -> list[str]:
    return [text.decode() for text in texts(table.ids, table.name)]
