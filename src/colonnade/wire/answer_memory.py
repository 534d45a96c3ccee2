"""What the owner remembers of the parties' answers, and what stands for the answer of an absent party."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import Tensor

from colonnade.core.schedule import OWNER, Turn
from colonnade.core.state import Packed, copy, under
from colonnade.errors import AwayError, TrainingError
from colonnade.wire.message import fields_of

M = TypeVar("M")
RECENT = 0.05  # networks move in training, so after twenty rounds a mean forgets what is old


def memory_name(party: str, turn: Turn) -> str:
    """The name under which the leader of a turn remembers a party: each of several owners remembers its own rows."""
    return party if turn.leader == OWNER else f"{turn.leader}/{party}"


class AnswerMemory:
    """The mean of every party's answers in training, by step and field, and on request the last answers themselves.

    It is made of what arrived, so it costs no byte; under Blind no party's answer arrives by itself.
    """

    def __init__(self, *, means: bool = True, sample: bool = False) -> None:
        self.keeps_means, self.keeps_sample = means, sample
        self.means: Packed = {}
        self.counts: dict[str, int] = {}
        self.sample: Packed = {}
        self.rows = torch.arange(0)

    def note(self, party: str, step: str, message: Any, turn: Turn, *, whole: bool = True) -> None:
        """Take a training answer into the mean; ``whole`` rounds, that nobody is absent from, into the sample too."""
        if not self.keeps_means or not turn.training:
            return
        key = f"{party}/{step}"
        self.counts[key] = count = self.counts.get(key, 0) + 1
        real = {name: value for name, value in fields_of(message).items() if value.is_floating_point()}
        for name, value in real.items():
            has_rows = value.ndim > 1 and len(value) == len(turn.rows)
            now = value.detach().mean(0) if has_rows else value.detach()
            before = self.means.get(f"{key}/{name}", now)
            self.means[f"{key}/{name}"] = torch.lerp(before, now, max(1 / count, RECENT))
        if self.keeps_sample and whole and len(turn.rows) >= len(self.rows):  # not an epoch's small last batch
            self.sample[party], self.rows = message[0].detach(), turn.rows

    def knows(self, party: str, step: str) -> bool:
        """Whether the party ever answered this step by itself."""
        return f"{party}/{step}" in self.counts

    def mean_like(self, party: str, step: str, like: M) -> M:
        """A message of the party's mean answers, in the form of another party's message."""
        fields = {name: (self.means.get(f"{party}/{step}/{name}"), value) for name, value in fields_of(like).items()}
        known = {name: mean.expand_as(value) for name, (mean, value) in fields.items() if mean is not None}
        if len(known) < len(fields):
            raise AwayError(
                f"'{party}' is absent and the owner knows no mean of its answers to '{step}', because none arrived by "
                "itself in training; use missing='zero'."
            )
        return type(like)(**known)

    def outputs(self, parties: Sequence[str]) -> Tensor:
        """The last training answers [parties, rows, ...]."""
        if not all(party in self.sample for party in parties):
            raise AwayError("the owner has stored no training answers to refit heads on; use missing='zero'.")
        return torch.stack([self.sample[party] for party in parties])

    def state(self) -> Packed:
        """What must be saved."""
        counts = {f"count/{key}": torch.tensor(count) for key, count in self.counts.items()}
        kept = {f"mean/{key}": copy(value) for key, value in self.means.items()}
        kept |= {f"sample/{party}": copy(value) for party, value in self.sample.items()}
        return {**counts, **kept, **({"rows": copy(self.rows)} if self.sample else {})}

    def load(self, state: Packed) -> None:
        """Take a saved state back; runs that were saved before there was one have none."""
        self.means = {key: copy(value) for key, value in under(state, "mean").items()}
        self.counts = {key: int(count) for key, count in under(state, "count").items()}
        self.sample = {key: copy(value) for key, value in under(state, "sample").items()}
        self.rows = copy(state.get("rows", torch.arange(0)))


class Peaks:
    """The largest value of every sender: finite values may add up to an infinite one, and an error names it.

    >>> peaks = Peaks()
    >>> peaks.note("shop", "embed", {"h": torch.tensor([-3e38])}, Turn(7, torch.arange(1)))
    >>> peaks.said("the loss is inf; stop.")
    "the loss is inf; stop; the largest value that came is 3e+38, of 'shop' in 'h' of step 'embed' in round 7."
    """

    def __init__(self) -> None:
        self.most, self.whose = -1.0, ""

    def note(self, sender: str, step: str, fields: Mapping[str, Tensor], turn: Turn) -> None:
        """Note the largest value of a message, which is finite."""
        for name, value in fields.items():
            if not value.is_floating_point() or not value.numel():
                continue
            low, high = value.aminmax()  # which needs no copy, as absolute values would
            size = max(float(high), -float(low))
            if size > self.most:
                self.most, self.whose = size, f"'{sender}' in '{name}' of step '{step}' in round {turn.round}"

    def said(self, sentence: str) -> str:
        """A sentence about values that are not finite, with who sent the largest; as it is if nothing came."""
        more = f"; the largest value that came is {self.most:g}, of {self.whose}."
        return sentence if not self.whose or sentence.endswith(more) else sentence.removesuffix(".") + more

    @contextmanager
    def naming(self) -> Iterator[None]:
        """Add the sender of the largest value to an error of the work within."""
        try:
            yield
        except TrainingError as error:
            raise TrainingError(self.said(str(error))) from error

    def check(self, outputs: Sequence[Tensor], purpose: str, round: int) -> None:
        """Refuse outputs that are not finite, if they are made of what came."""
        if self.whose and not all(bool(torch.isfinite(output).all()) for output in outputs):
            raise TrainingError(self.said(f"the outputs to {purpose} after {round} rounds are not finite."))


@dataclass(frozen=True)
class Absence:
    """Who does not answer for now, and what stands for the answer: zeros, or the mean of the party's answers.

    In training a party may be absent before it ever answered; then zeros stand for it under every policy.
    """

    absent: frozenset[str] = frozenset()
    policy: str = "refuse"
    training: bool = False

    def instead(self, party: str, step: str, like: M, memory: AnswerMemory) -> M:
        """What stands for an absent party's answer, in the form of another party's answer."""
        if self.policy == "mean" and (memory.knows(party, step) or not self.training):
            return memory.mean_like(party, step, like)
        return type(like)(**{name: torch.zeros_like(value) for name, value in fields_of(like).items()})


class Presence:
    """Who answers for now: some are left out, with a stand-in for each answer; a simulation may let others drop out."""

    def __init__(self) -> None:
        self.absence = Absence()
        self.dropped_out: frozenset[str] = frozenset()

    @contextmanager
    def leaving_out(self, absence: Absence) -> Iterator[None]:
        """Do without these parties for the duration."""
        before, self.absence = self.absence, absence
        try:
            yield
        finally:
            self.absence = before

    @contextmanager
    def dropping_out(self, names: frozenset[str]) -> Iterator[None]:
        """Let these parties not answer for the duration, as a simulation of drop-outs says."""
        before, self.dropped_out = self.dropped_out, names
        try:
            yield
        finally:
            self.dropped_out = before

    def check(self, party: str, round: int) -> None:
        """Refuse a message from or to a party that does not answer."""
        if party in self.absence.absent or party in self.dropped_out:
            raise AwayError(f"'{party}' is absent in round {round}.", party)
