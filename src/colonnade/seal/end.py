"""One side's end of the channel: what its seals do to what it sends, and what they remember of that."""

from __future__ import annotations

import hashlib

import torch
from torch import Tensor

from colonnade.errors import MessageError, SealError
from colonnade.schedule import Turn, derive_seed
from colonnade.seal import Seals
from colonnade.seal.bits import SOFT_MAXIMUM, Bits
from colonnade.seal.blind import Blind, Coded, FewBitCode, SumCode, WholeCode
from colonnade.seal.codec import Codec, Draw
from colonnade.seal.noise import NoiseSource
from colonnade.state import under

Fields = dict[str, Tensor]
Tables = dict[str, tuple[str, int]]
"""By the name that a turn uses: which people's table it is, and how many rows it has."""


class End:
    """The owner's or one party's end.

    ``memory`` is what error feedback still owes, per step, field and training row; ``bounds`` are the scales that the
    owner told all parties for their next blinded codes; ``clipped`` counts what a scale cut off.
    """

    def __init__(self, name: str, seals: Seals, seed: int, tables: Tables) -> None:
        self.name, self.seals, self.seed, self.tables = name, seals, seed, tables
        self.budget = None if seals.noise is None else seals.noise.budget(name)
        # Every run of one process is a simulation that must repeat, so its secrets follow from the seed.
        self.source = NoiseSource(hashlib.sha256(f"noise/{seed}/{name}".encode()).digest())
        self.memory: Fields = {}
        self.bounds: Fields = {}
        self.values = self.clipped = 0

    def release(self, fields: Fields, step: str, turn: Turn) -> Fields:
        """A message with noise on it, counted before it leaves; refused if the budget does not allow it."""
        if self.seals.noise is None or self.budget is None:
            return fields
        table, size = self.tables[turn.table]
        return self.seals.noise.release(
            fields,
            source=self.source,
            budget=self.budget,
            table=table,
            rows=turn.rows,
            size=size,
            label=f"{turn.purpose}/{turn.table}/{turn.round}/{step}",
            purpose=turn.purpose,
        )

    def sum_codes(self, fields: Fields, parties: int, step: str, turn: Turn) -> dict[str, SumCode]:
        """How each field becomes ring elements: the same at every party, because only public facts decide."""
        assert self.seals.blind is not None
        few = self.seals.up if isinstance(self.seals.up, Bits) and turn.training else None
        codes: dict[str, SumCode] = {}
        for name, values in fields.items():
            if few is None or not has_rows(values, turn):
                codes[name] = WholeCode(self.seals.blind, parties)
                continue
            codes[name] = FewBitCode(few, name, parties, self.bounds.get(f"{step}/{name}"))
            if few.scale == "auto":
                codes[f"{name}.spread"] = WholeCode(Blind(ring=64), parties)
        return codes

    def encode(self, codes: dict[str, SumCode], fields: Fields, step: str, turn: Turn) -> dict[str, Coded]:
        """This party's ring elements, not masked yet."""
        coded = {}
        for name, code in codes.items():
            values = fields[name] if name in fields else self.spread(codes, fields, name)
            aimed = self.owed(code.feedback, name, values, step, turn)
            within = self.within(code.bound, code.max_clipped, name, aimed, turn)
            elements = code.encode(within, self.draw(step, name, turn))
            coded[name] = Coded(elements, code.ring.bits, code.bound)
            if code.feedback:
                self.note(name, aimed - code.decode(elements, 1), step, turn)
        return coded

    @staticmethod
    def spread(codes: dict[str, SumCode], fields: Fields, name: str) -> Tensor:
        """How far this party's values of a field reach, in units of the present bound."""
        field = name.removesuffix(".spread")
        return (fields[field].double() / codes[field].bound).abs().clamp(max=8.0).pow(SOFT_MAXIMUM).mean().float()

    def new_bounds(self, codes: dict[str, SumCode], opened: Fields, parties: int, step: str) -> Fields:
        """At the owner: the bounds of the next sum, from how far all parties' values reach together."""
        news = {}
        for name, code in codes.items():
            spread = opened.get(f"{name}.spread")
            if isinstance(code, FewBitCode) and spread is not None and float(spread) > 0:
                reach = float(spread / parties) ** (1 / SOFT_MAXIMUM) * code.bits.loading
                self.bounds[f"{step}/{name}"] = news[name] = torch.tensor(code.bound * min(max(reach, 0.25), 4.0))
        return news

    def compress(self, codec: Codec | None, fields: Fields, step: str, turn: Turn) -> Fields:
        """A message's wire tensors."""
        if codec is None or not turn.training:
            return fields
        wire: Fields = {}
        for name, values in fields.items():
            if has_rows(values, turn):
                aimed = self.owed(codec.feedback, name, values, step, turn)
                within = self.within(codec.bound, codec.max_clipped, name, aimed, turn)
                coded = codec.encode(name, within, self.draw(step, name, turn))
                if codec.feedback:
                    self.note(name, aimed - codec.decode(name, coded), step, turn)
                wire |= coded
            else:
                wire[name] = values
        return wire

    def within(self, bound: float, most: float, name: str, values: Tensor, turn: Turn) -> Tensor:
        """Values within a fixed bound; cut ones are counted, and too many of them are refused."""
        beyond = int((values.abs() > bound).sum())
        self.values += values.numel()
        self.clipped += beyond
        if beyond > most * values.numel():
            raise SealError(
                f"{beyond / values.numel():.2%} of {self.name}'s values in '{name}' lie beyond {bound:g} in round "
                f"{turn.round}, and at most {most:.2%} may be clipped; give the seal a larger scale or clip."
            )
        return values.clamp(-bound, bound) if beyond else values

    def owed(self, feedback: bool, name: str, values: Tensor, step: str, turn: Turn) -> Tensor:
        """The values and what earlier compressions of the same rows lost."""
        before = self.memory.get(f"{step}/{name}") if feedback else None
        return values if before is None else values + before.index_select(0, turn.rows)

    def note(self, name: str, lost: Tensor, step: str, turn: Turn) -> None:
        """Keep what a compression lost, for the next message about the same rows."""
        key = f"{step}/{name}"
        if key not in self.memory:
            self.memory[key] = lost.new_zeros(self.tables[turn.table][1], *lost.shape[1:])
        self.memory[key].index_copy_(0, turn.rows, lost)

    def draw(self, step: str, name: str, turn: Turn) -> Draw:
        """Uniform numbers that follow from (seed, sender, round, step, field), so that a run repeats."""
        generator = torch.Generator().manual_seed(derive_seed(self.seed, "seal", self.name, turn.round, step, name))
        return lambda shape: torch.rand(shape, generator=generator)

    def state(self) -> Fields:
        """What must be saved for an exact resume."""
        kept = {f"feedback/{key}": value.clone() for key, value in self.memory.items()}
        spent = {} if self.budget is None else {f"budget/{key}": value for key, value in self.budget.state().items()}
        counts = {"clipped": torch.tensor([self.values, self.clipped])} if self.values else {}
        bounds = {f"bound/{key}": value.clone() for key, value in self.bounds.items()}
        return {**kept, **bounds, **spent, **counts}

    def load(self, state: Fields) -> None:
        """Take a saved state back."""
        self.memory, self.bounds = under(state, "feedback"), under(state, "bound")
        if self.budget is not None and under(state, "budget"):
            self.budget.load(under(state, "budget"))
        self.values, self.clipped = (int(count) for count in state.get("clipped", torch.zeros(2)))


def expand(codec: Codec | None, wire: Fields, names: tuple[str, ...]) -> Fields:
    """What :meth:`End.compress` compressed, at the receiver."""
    fields, left = {}, set(wire)
    for name in names:
        own = {key for key in wire if key == name or key.startswith(f"{name}.")}
        if codec is not None and len(own) > 1:
            fields[name] = codec.decode(name, wire)
        elif name in wire:
            fields[name] = wire[name]
        left -= own
    if left or len(fields) < len(names):
        raise MessageError(f"fields {tuple(wire)} came where {names} were expected; do both sides use the same seals?")
    return fields


def has_rows(values: Tensor, turn: Turn) -> bool:
    """Whether a tensor holds numbers per sample; others (weights, counts, norms) travel as they are."""
    return values.ndim >= 2 and values.is_floating_point() and len(values) == len(turn.rows)
