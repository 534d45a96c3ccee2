"""One side's end of the channel: its seals applied to messages that it sends and receives, and the seals' memory."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property, partial

import torch
from torch import Tensor

from colonnade.core.randomness import Sources
from colonnade.core.schedule import Turn
from colonnade.core.state import copy, under
from colonnade.errors import MessageError, SealError
from colonnade.seal import Seals
from colonnade.seal.bits import SOFT_MAXIMUM, Bits
from colonnade.seal.blind import SPREAD, Blind, Coded, FewBitCode, SumCode, WholeCode
from colonnade.seal.codec import Codec, Draw, is_state, rows_field
from colonnade.seal.noise import NoiseSource

log = logging.getLogger(__name__)
Fields = dict[str, Tensor]
LEAST_REACH, MOST_REACH = 0.25, 4.0  # how much a shared scale may move from one sum to the next


People = Tensor
"""The people of a table's rows: one number per row, the same for the same id in every table."""


class SealEnd:
    """The owner's or one party's end.

    ``memory`` is the memory of error feedback, per partner, step, field and training row. ``bounds`` are the shared
    scales of blinded codes, which the owner sets. ``scales`` are the newest of those that a party was sent, with their
    round, by step and field. ``clipped`` counts the values that a scale clipped.
    """

    def __init__(self, name: str, seals: Seals, sources: Sources, tables: dict[str, People]) -> None:
        self.name, self.seals, self.sources, self.tables = name, seals, sources, tables
        self.budget = None if seals.noise is None else seals.noise.budget(name)
        self.memory: Fields = {}
        self.bounds: Fields = {}
        self.scales: Fields = {}
        self.values = self.clipped = 0

    @cached_property
    def source(self) -> NoiseSource:
        """The source of noise; only the side itself has it, so it is made at the first use."""
        return NoiseSource(self.sources.of(self.name).key("noise", self.name))

    def release(self, fields: Fields, step: str, turn: Turn) -> Fields:
        """A message with noise, counted in the budget before it is sent, or refused if the budget does not allow it."""
        if self.seals.noise is None or self.budget is None:
            return fields
        return self.seals.noise.release(
            fields,
            source=self.source,
            budget=self.budget,
            people=self.tables[turn.table].index_select(0, turn.rows),
            label=f"{turn.purpose}/{turn.table}/{turn.round}/{step}",
            purpose=turn.purpose,
        )

    def disguise(self, fields: Fields, classes: Tensor, to: str, step: str, turn: Turn) -> Fields:
        """The owner's gradients with noise that depends on the classes of their rows; other fields are sent as is.

        As in ``noise.py`` the noise follows from the values, too: another message under the same name has other noise.
        """
        assert self.seals.gradients is not None
        noisy: Fields = {}
        for name, values in fields.items():
            if not rows_field(name, values, len(turn.rows)):
                continue
            label = f"{turn.table}/{turn.round}/{turn.part}/{step}/{to}/{name}"
            raw = values.detach().contiguous().numpy().tobytes() + classes.contiguous().numpy().tobytes()
            digest = hashlib.sha256(repr(self.seals.gradients).encode() + raw).digest()
            normal = partial(self.source.gaussian, label, digest)
            noisy[name] = self.seals.gradients.disguise(values, classes, normal)
        return fields | noisy

    # compressed messages between two sides

    def compress(self, codec: Codec | None, fields: Fields, to: str, step: str, turn: Turn) -> Fields:
        """A message's wire tensors."""
        if codec is None or not turn.training:
            return fields
        wire: Fields = {}
        for name, values in fields.items():
            if not rows_field(name, values, len(turn.rows)):
                wire[name] = values
                continue
            key = f"to {to}/{step}/{name}"
            before = self.recall(codec.feedback, key, values, turn)
            aimed = values - before if is_state(name) else values + before
            within = self.within(*codec.limits(), name, aimed, turn)
            wire |= (coded := codec.encode(name, within, self.draw(key, turn)))
            if codec.feedback:
                arrived = codec.decode(name, coded)
                self.keep(key, before + arrived if is_state(name) else aimed - arrived, turn)
        return wire

    def read_back(self, codec: Codec | None, sent: Fields, wire: Fields, to: str, step: str, turn: Turn) -> Fields:
        """What the receiver reads of a message that :meth:`compress` has just made ``wire`` of."""
        if codec is None or not turn.training:
            return wire
        read: Fields = {}
        for name, values in sent.items():
            own = {key: wire[key] for key in wire if key == name or key.startswith(f"{name}.")}
            if not rows_field(name, values, len(turn.rows)):
                read[name] = wire[name]
            elif codec.feedback and is_state(name):
                read[name] = self.recall(True, f"to {to}/{step}/{name}", values, turn)
            else:
                read[name] = codec.decode(name, own)
        return {name: value.to(sent[name].dtype) for name, value in read.items()}

    def expand(
        self,
        codec: Codec | None,
        wire: Fields,
        like: Fields,
        by: str,
        step: str,
        turn: Turn,
        check: Callable[[Fields], None] | None = None,
    ) -> Fields:
        """The fields of a compressed message; ``like`` has their form, ``check`` may refuse them before feedback."""
        if (codec is None or not turn.training) and wire.keys() == like.keys():
            if check is not None:
                check(wire)
            return wire
        fields, coded, left = {}, [], set(wire)
        for name, form in like.items():
            own = {key for key in wire if key == name or key.startswith(f"{name}.")}
            if codec is not None and turn.training and len(own) > 1:
                fields[name] = _decoded(codec, name, {key: wire[key] for key in own})
                coded.append(name)
            elif own == {name} and not (codec and turn.training and rows_field(name, form, len(turn.rows))):
                fields[name] = wire[name]
            left -= own
        if left or len(fields) < len(like):
            raise MessageError(
                f"fields {tuple(wire)} came where {tuple(like)} were expected; do both sides use the same seals?"
            )
        if check is not None:
            check(fields)
        if codec is not None and codec.feedback:
            fields |= self._completed({name: fields[name] for name in coded}, f"from {by}/{step}", turn)
        return fields

    def _completed(self, arrived: Fields, by: str, turn: Turn) -> Fields:
        """Add the received changes of states to the last ones of the same rows, if there is error feedback."""
        whole: Fields = {}
        for name, change in arrived.items():
            if is_state(name):
                before = self.memory.get(key := f"{by}/{name}", change)
                if len(change) != len(turn.rows) or before.shape[1:] != change.shape[1:]:
                    raise MessageError(f"'{name}' came as {tuple(change.shape)}, which is no change of what it was.")
                whole[name] = self.recall(True, key, change, turn) + change
                if not bool(torch.isfinite(whole[name]).all()):
                    raise MessageError(f"'{name}' came as a change that makes its values infinite.")
        for name, values in whole.items():  # only after all fields were checked
            self.keep(f"{by}/{name}", values, turn)
        return arrived | whole

    # blinded sums

    def sum_codes(
        self, fields: Fields, parties: int, step: str, turn: Turn, bounds: Fields | None = None
    ) -> dict[str, SumCode]:
        """The code of each field as ring elements; scales are this end's own at the owner, ``bounds`` at a party."""
        assert self.seals.blind is not None
        scales = self.bounds if bounds is None else bounds
        few = self.seals.up if isinstance(self.seals.up, Bits) and turn.training else None
        codes: dict[str, SumCode] = {}
        for name, values in fields.items():
            if few is None or not rows_field(name, values, len(turn.rows)):
                codes[name] = WholeCode(self.seals.blind, parties)
                continue
            codes[name] = FewBitCode(few, name, parties, scales.get(f"{step}/{name}"))
            if few.scale == "auto":
                codes[name + SPREAD] = WholeCode(Blind(ring=64), parties)
        return codes

    def check_scales(self, codes: dict[str, SumCode], step: str, turn: Turn, *, gaps: bool) -> None:
        """At a party: refuse a scale that changed more than an honest owner would change it.

        Sums on many scales would show the range of single parties' values. ``gaps`` means that this party may have been
        absent from sums in which the scale changed.
        """
        for name, code in codes.items():
            if not isinstance(code, FewBitCode) or name + SPREAD not in codes:
                continue
            first = torch.tensor([code.bits.fixed_scale(name), -1.0], dtype=torch.float64)
            last, number = self.scales.get(f"{step}/{name}", first).tolist()
            moves = max(turn.round - number, 1) if gaps else 1
            if not LEAST_REACH**moves * 0.999 <= code.bound / last <= MOST_REACH**moves * 1.001:
                raise SealError(
                    f"'{self.name}' was told another scale of '{name}' for step '{step}' of round {turn.round} than "
                    f"can follow from the one before, which moves by a factor of {MOST_REACH:g} at most; stop."
                )

    @contextmanager
    def scales_if_kept(self) -> Iterator[None]:
        """Forget the scales of a refused sum; otherwise each refused sum could change them by a factor of four."""
        before = dict(self.scales)
        try:
            yield
        except SealError:
            self.scales = before
            raise

    def encode(self, codes: dict[str, SumCode], fields: Fields, step: str, turn: Turn) -> dict[str, Coded]:
        """This party's ring elements before masking."""
        coded: dict[str, Coded] = {}
        aims: Fields = {}
        for name, code in codes.items():
            key = f"to sum/{step}/{name}"
            field = name.removesuffix(SPREAD)
            values = fields[name] if name in fields else _spread(aims[field], codes[field].bound)
            before = self.recall(code.feedback, key, values, turn)
            aims[name] = aimed = values - before if is_state(name) else values + before
            elements = code.encode(self.within(code.bound, code.most, name, aimed, turn), self.draw(key, turn))
            coded[name] = Coded(elements, code.ring, code.bound)
            if name + SPREAD in codes:
                self.scales[f"{step}/{name}"] = torch.tensor([code.bound, turn.round], dtype=torch.float64)
            if code.feedback:
                arrived = code.decode(elements, 1)
                self.keep(key, before + arrived if is_state(name) else aimed - arrived, turn)
        return coded

    def open_sum(self, codes: dict[str, SumCode], totals: Fields, parties: int, step: str, turn: Turn) -> Fields:
        """At the owner: the sums; the common range of all values also gives the scale of the next sum."""
        for name, code in codes.items():
            spread = totals.get(name + SPREAD)
            if isinstance(code, FewBitCode) and spread is not None:
                # The statistic of values far below the bound is rounded to 0; the bound then shrinks by the limit.
                reach = float((spread / parties).clamp(min=0)) ** (1 / SOFT_MAXIMUM) * code.bits.loading
                self.bounds[f"{step}/{name}"] = torch.tensor(
                    max(code.bound * min(max(reach, LEAST_REACH), MOST_REACH), 1e-12)
                )
        summed = {name: value for name, value in totals.items() if not name.endswith(SPREAD)}
        with_feedback = {name: value for name, value in summed.items() if codes[name].feedback}
        return summed | self._completed(with_feedback, f"from sum/{step}", turn)

    # clipping, feedback, randomness and state

    def within(self, bound: float, most: float, name: str, values: Tensor, turn: Turn) -> Tensor:
        """Values clipped to a fixed bound; clipped ones are counted, and too many are refused."""
        beyond = int((values.abs() > bound).sum())
        self.values += values.numel()
        self.clipped += beyond
        if beyond > most * values.numel():
            share = f"{beyond / values.numel():.2%}"
            log.warning(
                "%s of %s's values in '%s' lie beyond %g in round %d", share, self.name, name, bound, turn.round
            )
            # The owner reads this error and must not learn anything about blinded values, so it has no number then.
            share = "too many" if self.seals.blind is not None else share
            raise SealError(
                f"{share} of {self.name}'s values in '{name}' lie beyond {bound:g} in round {turn.round}, and at most "
                f"{most:.2%} may be clipped; give the seal a larger scale or clip."
            )
        return values.clamp(-bound, bound) if beyond else values

    def recall(self, feedback: bool, key: str, like: Tensor, turn: Turn) -> Tensor:
        """The feedback memory of these rows; 0 if there is none."""
        if not feedback or key not in self.memory:
            return torch.zeros((), dtype=like.dtype)
        return self.memory[key].index_select(0, turn.rows)

    def keep(self, key: str, values: Tensor, turn: Turn) -> None:
        """Store the feedback memory for the next message about the same rows."""
        if key not in self.memory:
            self.memory[key] = values.new_zeros(len(self.tables[turn.table]), *values.shape[1:])
        self.memory[key].index_copy_(0, turn.rows, values)

    def draw(self, key: str, turn: Turn) -> Draw:
        """Uniform numbers for this sender, round and key; the same again if a round is repeated."""
        generator = self.sources.of(self.name).generator("seal", self.name, turn.round, key)
        return lambda shape: torch.rand(shape, generator=generator)

    def state(self) -> Fields:
        """The state that must be saved for an exact resume."""
        feedback = {f"feedback/{key}": copy(value) for key, value in self.memory.items()}
        bounds = {f"bound/{key}": copy(value) for key, value in self.bounds.items()}
        bounds |= {f"scale/{key}": copy(value) for key, value in self.scales.items()}
        counts = {"clipped": torch.tensor([self.values, self.clipped])} if self.values else {}
        return {**feedback, **bounds, **counts, **self.budget_state()}

    def budget_state(self) -> Fields:
        """The used privacy budget: the part of the state that may never return to an older value."""
        return {} if self.budget is None else {f"budget/{key}": value for key, value in self.budget.state().items()}

    def load(self, state: Fields) -> None:
        """Load a saved state, without lowering the used privacy budget."""
        self.memory = {key: copy(value) for key, value in under(state, "feedback").items()}
        self.bounds, self.scales = under(state, "bound"), under(state, "scale")
        if self.budget is not None and under(state, "budget"):
            self.budget.load(under(state, "budget"))
        self.values, self.clipped = (int(count) for count in state.get("clipped", torch.zeros(2)))


def _spread(values: Tensor, bound: float) -> Tensor:
    """The range statistic of one party's values, in units of the present bound."""
    return (values.double() / bound).abs().clamp(max=8.0).pow(SOFT_MAXIMUM).mean().float()


def _decoded(codec: Codec, name: str, wire: Fields) -> Tensor:
    """A field's values from its wire tensors; the other side is not trusted, so anything wrong is refused."""
    if set(wire) != {name + part for part in codec.parts}:
        raise MessageError(f"'{name}' came as {sorted(wire)}, which are not codes of {codec}; use the same seals.")
    try:
        values = codec.decode(name, wire)
    except MessageError:
        raise
    except (KeyError, IndexError, TypeError, ValueError, RuntimeError) as error:
        raise MessageError(f"'{name}' came in tensors that are not codes of {codec}: {error}") from error
    if not bool(torch.isfinite(values).all()):
        raise MessageError(f"'{name}' came on a scale that makes its values infinite.")
    return values
