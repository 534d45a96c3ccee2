"""What the requests of one session may ask for: everything, of a training, or of a prediction that trains nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from colonnade.errors import MessageError, unknown
from colonnade.runtime.remote.packet import Packet

PURPOSES = ("train", "evaluate", "predict", "explain")
TURNS = ("step", "sum")


@dataclass(frozen=True)
class Scope:
    """``purposes`` are those that are served, each with the tables that it may be about; None is any table."""

    what: str
    keeps: bool = True
    """Whether the owner may have states kept, and so others forgotten."""
    purposes: Mapping[str, tuple[str, ...]] | None = None

    def check(self, packet: Packet, name: str) -> None:
        """Refuse a request that this session is not for."""
        if packet.kind == "keep" and not self.keeps:
            raise MessageError(f"'{name}' serves {self.what}, which trains nothing, and was told to keep a state.")
        if packet.kind == "place":
            self._check_table(packet.table, name)
        if packet.kind in TURNS:
            self._check_turn(packet, name)

    def _check_turn(self, packet: Packet, name: str) -> None:
        if packet.purpose not in PURPOSES:
            raise unknown(f"purpose at '{name}'", packet.purpose, PURPOSES)
        if self.purposes is None:
            return
        if packet.purpose not in self.purposes:
            raise MessageError(
                f"'{name}' serves {self.what} and was asked to {packet.purpose}; {_listed(self.purposes)} only."
            )
        if packet.table not in self.purposes[packet.purpose]:
            raise MessageError(
                f"'{name}' serves {self.what} and was asked to {packet.purpose} on '{packet.table}'; on "
                f"{_listed(self.purposes[packet.purpose])} only."
            )

    def _check_table(self, table: str, name: str) -> None:
        known = (
            None
            if self.purposes is None
            else {table_name for tables in self.purposes.values() for table_name in tables}
        )
        if known is not None and table not in known:
            raise unknown(f"table at '{name}'", table, known)


def _listed(names: Mapping[str, tuple[str, ...]] | tuple[str, ...]) -> str:
    return " or ".join(names)


ANYTHING = Scope("a run")
"""Processes of one organisation, which train, evaluate and predict in one session."""
TRAINING = Scope(
    "a training", purposes={"train": ("train",), "evaluate": ("train", "test"), "explain": ("train", "test")}
)
EVALUATION = Scope(
    "a job that leaves it as it is", purposes={"evaluate": ("train", "test"), "explain": ("train", "test")}
)
"""A training in which this party's part of the model is not changed."""
PREDICTION = Scope("a prediction", keeps=False, purposes={"predict": ("predict",)})
