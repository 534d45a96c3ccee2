"""The messages of a view as arrays over the sampled rows: what an adversary that keeps its messages has."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

import numpy as np

from colonnade.privacy.material import Array, SharedValue, Stream
from colonnade.wire.view import Seen, View

SUM = "sum"
"""The sender of opened sums in a view."""
MOST_NUMBERS = 8_000_000
"""In the messages of one stream; of longer ones some epochs are kept, evenly from the first to the last."""


def streams_of(
    view: View, senders: Sequence[str], receivers: Sequence[str], per_epoch: int | None = None
) -> tuple[Stream, ...]:
    """The streams about training rows from any of the senders to any of the receivers."""
    found: dict[tuple[str, str, str, str], list[tuple[Seen, Array]]] = defaultdict(list)
    for seen in view.seen:
        if seen.table == "train" and seen.sender in senders and seen.receiver in receivers:
            for name, values in seen.fields.items():
                found[seen.sender, seen.receiver, seen.step, name].append((seen, np.asarray(values)))
    return tuple(
        _stream(key, parts, view.sample, per_epoch or epoch_of(view))
        for key, parts in found.items()
        if key[0] != key[1]
    )


def shared_of(view: View, senders: Sequence[str], receivers: Sequence[str]) -> tuple[SharedValue, ...]:
    """The values that belong to no row, such as heads; those of the rounds in which they had their usual shape."""
    found: dict[tuple[str, str, str, str], dict[int, Array]] = defaultdict(dict)
    for seen in view.seen:
        if seen.table == "train" and seen.sender in senders and seen.receiver in receivers:
            for name, values in seen.others.items():
                found[seen.sender, seen.receiver, seen.step, name].setdefault(seen.round, np.asarray(values))
    made = []
    for key, by_round in found.items():
        (shape, _), *_ = Counter(values.shape for values in by_round.values()).most_common(1)
        rounds = sorted(one for one, values in by_round.items() if values.shape == shape)
        values = np.stack([by_round[one] for one in rounds]).astype(np.float32)
        made.append(SharedValue(*key, np.asarray(rounds, dtype=np.int64), values))
    return tuple(made)


def epoch_of(view: View) -> int:
    """How many rounds visit every sampled row once, as far as the view tells."""
    counts = [len(seen.rows) for seen in view.seen if seen.purpose == "train" and len(seen.rows)]
    return max(1, round(len(view.sample) / np.mean(counts))) if counts else 1


def _stream(key: tuple[str, str, str, str], parts: list[tuple[Seen, Array]], sample: Array, per_epoch: int) -> Stream:
    """One array of all rounds of a stream; a row that occurs twice in a round has what came first."""
    width = max(_flat(values).shape[1] for _, values in parts)
    rounds = _some(sorted({seen.round for seen, _ in parts}), len(sample) * max(width, 1), per_epoch)
    number = {one: place for place, one in enumerate(rounds)}
    whole = np.full((len(rounds), len(sample), width), np.nan, dtype=np.float32)
    for seen, values in reversed(parts):  # training comes before the evaluations of its round
        if seen.round in number:
            flat = _flat(values)
            inside = np.isin(seen.rows, sample)
            places = np.searchsorted(sample, seen.rows[inside])
            whole[number[seen.round], places, : flat.shape[1]] = flat[inside]
    return Stream(*key, np.asarray(rounds, dtype=np.int64), whole)


def _flat(values: Array) -> Array:
    return values.reshape(len(values), -1).astype(np.float32)


def _some(rounds: list[int], numbers: int, per_epoch: int) -> list[int]:
    """The rounds of as many whole epochs as there is room for, and at least one."""
    by_epoch: dict[int, list[int]] = defaultdict(list)
    for one in rounds:
        by_epoch[one // per_epoch].append(one)
    epochs = sorted(by_epoch)
    room = max(1, MOST_NUMBERS // max(numbers * min(per_epoch, len(rounds)), 1))
    if len(epochs) <= room:
        return rounds
    chosen = {epochs[int(place)] for place in np.linspace(0, len(epochs) - 1, room)}
    return [one for epoch in sorted(chosen) for one in by_epoch[epoch]]


def present(streams: Iterable[Stream], rows: int) -> Array:
    """Which rows of the sample have a part in some message, bool [rows]; all if there is no message."""
    each = [np.isfinite(stream.values).all(2).any(0) for stream in streams]
    return np.any(each, axis=0) if each else np.ones(rows, dtype=bool)
