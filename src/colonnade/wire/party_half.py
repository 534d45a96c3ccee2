"""A party's half of a message: it opens what the owner sent, and seals what its step replied.

Every runtime runs this half, in the owner's process or in another one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from colonnade.core.schedule import Turn
from colonnade.errors import MessageError
from colonnade.seal.bits import LARGEST_SCALE
from colonnade.seal.blind import SPREAD, SumCode
from colonnade.seal.blind_party import BlindParty
from colonnade.seal.subject import Subject, digest_of
from colonnade.wire.ends import Ends
from colonnade.wire.message import as_message, fields_of, sendable
from colonnade.wire.witness import Placed, Transfer, Witness

Fields = dict[str, Tensor]
Check = Callable[[Fields], None]


class PartyHalf:
    """One party's half. ``noisy`` is for columns: what several owners tell each other gets no noise.

    ``witness`` is the party's own, of a process that no owner's half is in.
    """

    def __init__(
        self,
        name: str,
        ends: Ends,
        *,
        blind: BlindParty | None = None,
        noisy: bool = True,
        witness: Witness | None = None,
    ) -> None:
        self.name, self.ends, self.blind, self.witness = name, ends, blind, witness
        self.end = ends[name]
        self.noisy = noisy and ends.seals.noise is not None
        self.up, self.down = ends.seals.up, ends.seals.down

    def hear(self, wire: Fields, kind: Any, form: Fields, step: str, turn: Turn, check: Check | None = None) -> Any:
        """The message of class ``kind`` in what arrived; ``form`` has its shapes, and ``check`` may refuse it."""
        if self.down is None and check is None and wire.keys() == form.keys():
            message = kind(**wire)
        else:
            fields = self.end.expand(self.down, wire, form, turn.leader, step, turn, check)
            message = as_message(kind, form, fields)
        if self.witness is not None:
            self._witnessed(wire, fields_of(message), turn.leader, step, turn)
        return message

    def say(self, reply: Any, step: str, turn: Turn) -> Fields:
        """What travels of a reply: with noise if there is some, then compressed."""
        fields = sendable(reply, self.name, step, turn.round)
        if self.noisy:
            fields = self.end.release(fields, step, turn)
        wire = fields if self.up is None else self.end.compress(self.up, fields, turn.leader, step, turn)
        if self.witness is not None:
            self._witnessed(
                wire, self.end.read_back(self.up, fields, wire, turn.leader, step, turn), self.name, step, turn
            )
        return wire

    def _witnessed(self, wire: Fields, read: Fields, sender: str, step: str, turn: Turn) -> None:
        """Let this party's witness see a message as its receiver reads it."""
        assert self.witness is not None
        receiver = turn.leader if sender == self.name else self.name
        self.witness.count((turn.purpose, step, sender, receiver), wire)
        if self.witness.records:
            self.witness.note(read, Transfer(step, sender, [receiver], turn, Placed(*self.ends.placed(turn.table))))

    def masked(self, masked: Fields, step: str, turn: Turn) -> None:
        """Let this party's witness count a reply to a blinded sum: what left is random numbers to all who read it."""
        if self.witness is not None:
            self.witness.count((turn.purpose, step, self.name, turn.leader), masked)

    def hold(self, reply: Any, codes: dict[str, SumCode], subject: Subject, step: str, turn: Turn) -> None:
        """Keep a reply for a blinded sum on this subject: nothing of it leaves but under masks."""
        fields = sendable(reply, self.name, step, turn.round)
        released = self.end.release(fields, step, turn) if self.noisy else fields
        with self.end.scales_if_kept():
            coded = self.end.encode(codes, released, step, turn)
            self.masked_by.hold(coded, subject, digest_of(fields_of(reply)))

    def sum_codes(self, form: Fields, bounds: Mapping[str, Tensor], step: str, turn: Turn) -> dict[str, SumCode]:
        """How a reply of this form becomes ring elements, on the scales that the owner told."""
        blind, numbers = self.masked_by, bounds.values()
        if all(bound.dtype == torch.float32 and not bound.ndim and 0 < bound <= LARGEST_SCALE for bound in numbers):
            scales = {f"{step}/{name.removesuffix('.bound')}": bound for name, bound in bounds.items()}
            codes = self.end.sum_codes(form, len(blind.parties), step, turn, scales)
            if set(bounds) == {f"{name}.bound" for name in codes if name + SPREAD in codes}:
                self.end.check_scales(codes, step, turn, gaps=blind.recover)
                return codes
        raise MessageError(f"scales {sorted(bounds)} came to '{self.name}' for a sum that has others, or are none.")

    @property
    def masked_by(self) -> BlindParty:
        """What masks this party's sums."""
        if self.blind is None:
            raise MessageError(f"'{self.name}' was asked for a blinded sum and agreed to none.")
        return self.blind
