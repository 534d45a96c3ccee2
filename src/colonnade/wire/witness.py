"""A witness at the halves of the wire: it keeps what travelled about a sample of rows, and counts all that travelled.

It is given what a receiver reads, after seals, and changes nothing of it. Rows outside the sample are never copied.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple, final

import numpy as np
import torch
from torch import Tensor

from colonnade.core.options import whole
from colonnade.core.schedule import Schedule, SharedSchedule, Turn, sampling_order
from colonnade.errors import CheckpointError, ConfigError
from colonnade.wire.recorded_epochs import RecordedEpochs
from colonnade.wire.view import EVERYBODY, Line, Seen, View, size_of

Fields = Mapping[str, Tensor]
TRAIN = "train"
SUM = "sum"
"""Who is said to send an opened sum over all parties."""
LASTING = (TRAIN, "test")
"""Tables whose rows are the same in every process of a run."""
MOST_ROWS = 2000
MEGABYTES = 64
FEWEST_ROWS = 64
MOST_MESSAGES = 1 << 20
"""Messages take room too, also those without values."""
OF_NO_ROW = frozenset({"head", "block", "blocks", "block_bias", "top", "bias", "w", "norm", "each"})
"""Fields that hold weights or scores, even if they have as many as there are rows by chance."""


@dataclass(frozen=True)
class Recording:
    """Whose view is recorded, of how many rows at most, in how much room."""

    side: str = EVERYBODY
    """The side's name in the ledger, or all of one process."""
    rows: int = MOST_ROWS
    megabytes: int = MEGABYTES

    def __post_init__(self) -> None:
        for name in ("rows", "megabytes"):
            if whole(getattr(self, name), f"record: {name}") < 1:
                raise ConfigError(
                    f"{name} = {getattr(self, name)} of what is recorded is out of range; give 1 or more."
                )

    def plain(self) -> dict[str, Any]:
        """What a run folder keeps of it."""
        return asdict(self)


class Placed(NamedTuple):
    """The rows that stand under a table's name: how many, and how often rows were put there."""

    rows: int
    times: int


class Transfer(NamedTuple):
    """Who told whom something in which step."""

    step: str
    sender: str
    receivers: Sequence[str]
    turn: Turn
    placed: Placed
    """What stands under the name of the turn's table."""
    summed: bool = False


class Sampled(NamedTuple):
    """The rows of a turn that are in the sample: where they stand in the turn, and their numbers."""

    turn: Turn
    at: Tensor
    rows: np.ndarray


@final
class Witness:
    """What one side saw, or all sides of one process, of a sample of training rows.

    The same rows are kept in every epoch that ``epochs`` names. What does not fit is left out
    evenly: first values of no row, then every other epoch, then every other row.
    """

    def __init__(self, sample: Tensor, epochs: RecordedEpochs, how: Recording | None = None) -> None:
        """``sample`` are row numbers of the training table, in the order in which the last ones may be left out."""
        how = how or Recording()
        self._drawn, self.rule, self.side = sample, epochs, how.side
        self.most_bytes, self._most_asked = how.megabytes << 20, how.rows
        self.rounds = 0  # how many rounds it has seen
        self.epochs: dict[int, list[Seen]] = {}
        self._counts: dict[Line, list[int]] = {}
        self._sizes: dict[int, int] = {}  # of the values, by epoch
        self._masks: dict[tuple[str, bool], Tensor] = {}  # by table, and by whether it is trained on
        self._placed: dict[str, int] = {}
        self._sampled: Sampled | None = None  # of the last turn
        self._halvings = 0  # how often half of the rows were left out
        self._is_sparse = False  # whether values of no row are kept in one round of an epoch only
        self._stopped: int | None = None  # the round from which on nothing is kept because nothing more fits
        self._went_back = False
        self._gaps: list[list[int]] = []  # rounds that no witness was there for: the first, and the first after them

    @property
    def _order(self) -> Tensor:
        """The sampled rows that were not left out, in the order in which they were drawn."""
        return self._drawn[: len(self._drawn) >> self._halvings]

    # recording

    def count(self, line: Line, fields: Fields) -> None:
        """Count a message as it travels."""
        messages = self._counts.setdefault(line, [0, 0])
        messages[0] += 1
        messages[1] += sum(tensor.numel() * tensor.element_size() for tensor in fields.values())

    @property
    def records(self) -> bool:
        """Whether values are still kept; messages are counted in any case."""
        return self._stopped is None

    def note(self, fields: Fields, transfer: Transfer) -> None:
        """Keep a message as its receivers read it."""
        turn = transfer.turn
        epoch = self.rule.of(turn.round, training=turn.training)
        self._begin(epoch, transfer)
        if epoch not in self.epochs:  # an earlier one that was left out already
            return
        sampled = self._sample_of(transfer, epoch)
        about, others = self._split(fields, sampled)
        self._sizes[epoch] += sum(array.nbytes for array in (*about.values(), *others.values()))
        before = len(self.epochs[epoch])
        if about or others or not len(turn.rows):
            facts = turn.purpose, transfer.step, transfer.sender
            for receiver in transfer.receivers:
                seen = Seen(*facts, receiver, turn.round, transfer.summed, turn.table, sampled.rows, about, others)
                self.epochs[epoch].append(seen)
        self._make_room()
        if self._is_full() or self._has_too_many():
            del self.epochs.get(epoch, [])[before:]
            self._stopped = turn.round

    def _begin(self, epoch: int, transfer: Transfer) -> None:
        """Take up an epoch, and leave out others that are not among the last any more."""
        turn, table = transfer.turn, transfer.turn.table
        if turn.training:
            if self._went_back:
                self.begin_at(turn.round)
            self.rounds = max(self.rounds, turn.round + 1)
        if self._placed.setdefault(table, transfer.placed.times) != transfer.placed.times:
            self._forget_table(table)
            self._placed[table] = transfer.placed.times
        if epoch not in self.epochs:
            self.epochs[epoch], self._sizes[epoch] = [], 0
            self._keep_by(self.rule)
            while self.rule.has_too_many(self.epochs) and self._thin():
                pass

    def _sample_of(self, transfer: Transfer, epoch: int) -> Sampled:
        """Which of the turn's rows are in the sample; the messages of a turn share the answer."""
        turn = transfer.turn
        if self._sampled is None or self._sampled.turn is not turn:
            mask = self._mask(turn, transfer.placed.rows)
            at = mask[turn.rows].nonzero()[:, 0] if turn.rows.ndim == 1 else torch.arange(0)
            rows = turn.rows[at].numpy().copy() if turn.rows.ndim == 1 else np.zeros(0, dtype=np.int64)
            self._sampled = Sampled(turn, at, rows)
            self._sizes[epoch] += rows.nbytes
        return self._sampled

    def _mask(self, turn: Turn, rows: int) -> Tensor:
        """Which rows of the turn's table are in the sample."""
        key = turn.table, turn.training
        if key not in self._masks:
            self._masks[key] = self._mask_of(key, rows)
        return self._masks[key]

    def _mask_of(self, key: tuple[str, bool], rows: int) -> Tensor:
        """The sample as a mask: of rows that are trained on, or of all rows of a table that is asked about."""
        table, training = key
        mask = torch.zeros(rows, dtype=torch.bool)
        mask[self._order if training else sampling_order(table, rows)[: self._most_asked >> self._halvings]] = True
        return mask

    def _split(self, fields: Fields, sampled: Sampled) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
        """Values of the sampled rows, and values of no row."""
        about: dict[str, np.ndarray] = {}
        others: dict[str, np.ndarray] = {}
        turn, count = sampled.turn, sampled.turn.rows.shape[-1]
        keeps_others = not self._is_sparse or self._is_first(turn.round)
        for name, value in fields.items():
            if value.ndim and len(value) == count and name not in OF_NO_ROW:
                if len(sampled.at):
                    about[name] = value.detach().index_select(0, sampled.at).numpy()
            elif keeps_others:
                others[name] = value.detach().clone().numpy()
        return about, others

    # what does not fit

    def _make_room(self) -> None:
        """Leave out what does not fit, as long as there is something to leave out."""
        while self._is_full() and (self._drop_others() or self._thin() or self._halve()):
            pass
        while self._has_too_many() and self._thin():
            pass

    def _is_full(self) -> bool:
        return sum(self._sizes.values()) > self.most_bytes

    def _has_too_many(self) -> bool:
        return sum(map(len, self.epochs.values())) > MOST_MESSAGES

    def _drop_others(self) -> bool:
        """Leave out values of no row but in the first round of an epoch, if they take more than half of the room."""
        rowless = [one._replace(rows=np.zeros(0), fields={}) for each in self.epochs.values() for one in each]
        if self._is_sparse or 2 * size_of(rowless) < self.most_bytes:
            return False
        self._is_sparse = True
        self._rewrite(lambda one: one if self._is_first(one.round) else one._replace(others={}))
        return True

    def _is_first(self, round: int) -> bool:
        return round % self.rule.per_epoch == 0

    def _thin(self) -> bool:
        """Keep fewer epochs."""
        rule = self.rule.thinner(self.epochs)
        if rule is None:
            return False
        self._keep_by(rule)
        return True

    def _keep_by(self, rule: RecordedEpochs) -> None:
        self.rule, kept = rule, set(rule.kept(self.epochs))
        for epoch in self.epochs.keys() - kept:
            del self.epochs[epoch], self._sizes[epoch]

    def _halve(self) -> bool:
        """Leave out every other row of the sample, in all rounds."""
        if len(self._order) < 2 * FEWEST_ROWS:
            return False
        self._halvings += 1
        self._sampled = None
        self._masks = {key: self._mask_of(key, len(mask)) for key, mask in self._masks.items()}
        shared: dict[int, tuple[np.ndarray, dict[str, np.ndarray]]] = {}
        self._rewrite(lambda one: self._of_fewer_rows(one, shared))
        return True

    def _of_fewer_rows(self, one: Seen, shared: dict[int, tuple[np.ndarray, dict[str, np.ndarray]]]) -> Seen:
        """The same message about the rows that are still in the sample; receivers go on to share its arrays."""
        mask = self._masks.get((one.table, one.purpose == TRAIN))
        if mask is None:  # a table of an earlier process
            return one
        if id(one.fields) not in shared:
            stays = mask[torch.from_numpy(one.rows)].numpy()
            shared[id(one.fields)] = one.rows[stays], {name: value[stays] for name, value in one.fields.items()}
        rows, fields = shared[id(one.fields)]
        return one._replace(rows=rows, fields=fields)

    def _rewrite(self, change: Callable[[Seen], Seen]) -> None:
        self.epochs = {epoch: [change(one) for one in seen] for epoch, seen in self.epochs.items()}
        self._sizes = {epoch: size_of(seen) for epoch, seen in self.epochs.items()}

    # going back, and what was seen

    def go_back(self) -> None:
        """Hear that this side went back to an earlier state: what follows from the next round on comes again."""
        self._went_back = True

    def begin_at(self, round: int) -> None:
        """Begin again with this round: what was seen of it and of later ones will come again."""
        self._went_back = False
        self._gaps = [[first, min(after, round)] for first, after in self._gaps if first < round]
        if round > self.rounds and self.records:
            self._gaps.append([self.rounds, round])
        self._forget_from(round)
        self.rounds = round

    def _forget_from(self, round: int) -> None:
        """Forget the messages of a round and of those after it: they will be sent again."""
        for epoch, seen in self.epochs.items():
            self.epochs[epoch] = [one for one in seen if one.round < round or _was_asked_after(one, round)]
        self.epochs = {epoch: seen for epoch, seen in self.epochs.items() if seen}
        self._sizes = {epoch: size_of(seen) for epoch, seen in self.epochs.items()}
        self._sampled = None
        if self._stopped is not None and self._stopped >= round:
            self._stopped = None

    def _forget_table(self, table: str) -> None:
        """Other rows stand under this name now, so the numbers of the old ones tell nothing."""
        self.epochs = {epoch: [one for one in seen if one.table != table] for epoch, seen in self.epochs.items()}
        self._sizes = {epoch: size_of(seen) for epoch, seen in self.epochs.items()}
        self._masks = {key: mask for key, mask in self._masks.items() if key[0] != table}
        self._sampled = None

    def view(self) -> View:
        """What was seen so far."""
        seen = [one for epoch in sorted(self.epochs) for one in self.epochs[epoch]]
        counts = {line: (messages, payload) for line, (messages, payload) in self._counts.items()}
        return View(self.side, np.sort(self._order.numpy()), seen, counts, self._left_out())

    def _left_out(self) -> list[str]:
        """What was not recorded, or did not fit."""
        left, ends = [], "the first and the last" if self.rule.edge == 1 else "the first two and the last two"
        left += [f"nothing was recorded in rounds {first} to {after - 1}" for first, after in self._gaps]
        if self.rule.stride > 1:
            end = "nd" if self.rule.stride % 10 == 2 else "th"  # it is a power of two
            left.append(f"of the epochs between {ends}, only every {self.rule.stride}{end} was kept")
        if self._is_sparse:
            left.append("values of no row were kept in the first round of an epoch only")
        if self._halvings:
            left.append(f"{len(self._order)} of {len(self._drawn)} sampled rows were kept")
        if self._stopped is not None:
            left.append(f"nothing was kept from round {self._stopped} on")
        return left

    # keeping it on the disk

    def facts(self) -> dict[str, Any]:
        """What a witness of another process needs beside the view to go on."""
        return {
            "per_epoch": self.rule.per_epoch,
            "stride": self.rule.stride,
            "edge": self.rule.edge,
            "halvings": self._halvings,
            "sparse": self._is_sparse,
            "stopped": self._stopped,
            "gaps": self._gaps,
        }

    def go_on(self, view: View, facts: Mapping[str, Any], rounds: int) -> None:
        """Take up what an earlier process saw in so many rounds."""
        self.rule = replace(self.rule, stride=facts["stride"], edge=facts["edge"])
        self._halvings, self._is_sparse = facts["halvings"], facts["sparse"]
        self._stopped, self._gaps, self.rounds = facts["stopped"], facts["gaps"], rounds
        self._check(view, facts)
        self._masks, self._placed, self._sampled = {}, {}, None
        self.epochs = {}
        for one in view.seen:
            epoch = self.rule.of(one.round, training=one.purpose == TRAIN)
            self.epochs.setdefault(epoch, []).append(one)
            if one.table not in LASTING:  # whatever is placed under that name in this process is something else
                self._placed[one.table] = 0
        self._sizes = {epoch: size_of(seen) for epoch, seen in self.epochs.items()}
        self._counts = {line: [*counted] for line, counted in view.counts.items()}

    def _check(self, view: View, facts: Mapping[str, Any]) -> None:
        same = np.array_equal(view.sample, np.sort(self._order.numpy()))
        if view.side != self.side or facts["per_epoch"] != self.rule.per_epoch or not same:
            raise CheckpointError(
                f"the recorded view is of '{view.side}', of {len(view.sample)} rows in epochs of {facts['per_epoch']} "
                f"rounds, and '{self.side}' of this run has {len(self._order)} rows in epochs of "
                f"{self.rule.per_epoch}; it is the view of another run."
            )


def witness_of(rows: int, schedule: Schedule | SharedSchedule, how: Recording | None = None) -> Witness:
    """A witness of a training on so many rows, which samples some of those that are not held out."""
    how = how or Recording()
    held_out = torch.zeros(rows, dtype=torch.bool)
    held_out[schedule.valid_rows] = True
    order = sampling_order(TRAIN, rows)
    return Witness(order[~held_out[order]][: how.rows], RecordedEpochs(schedule.rounds_per_epoch), how)


def _was_asked_after(one: Seen, round: int) -> bool:
    """Whether a message was asked for when this round was about to begin, by an evaluation of the ones before."""
    return one.round == round and one.purpose != TRAIN
