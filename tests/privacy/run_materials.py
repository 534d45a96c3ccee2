"""What adversaries of small real runs have, for tests of attacks.

Messages are noted as the owner's half of the wire sends and opens them. The runs have no seals, so a receiver reads
what was sent.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any
from unittest.mock import patch

import numpy as np

import colonnade as cn
from colonnade.core.schedule import OWNER, Turn
from colonnade.privacy.attack import attacks
from colonnade.privacy.material import Array, Material, SharedValue, Stream
from colonnade.wire.owner_half import OwnerHalf

Key = tuple[str, str, str, str]


@dataclass
class Recording:
    """All messages of training: by sender, receiver, step and field, what each round had."""

    rows: int
    told: dict[Key, dict[int, tuple[Array | None, Array]]] = field(default_factory=lambda: defaultdict(dict))

    def note(self, sender: str, receiver: str, step: str, message: Any, turn: Turn) -> None:
        if not turn.training:
            return
        for name, value in zip(message._fields, message, strict=True):
            of_rows = value.ndim > 1 and len(value) == len(turn.rows) and name != "head"
            rows = turn.rows.numpy() if of_rows else None
            self.told[sender, receiver, step, name][turn.round] = rows, value.detach().numpy().copy()

    def streams(self) -> list[Stream]:
        return [self._stream(key, by_round) for key, by_round in self.told.items() if self._is_of_rows(by_round)]

    def shared(self) -> list[SharedValue]:
        others = {key: by_round for key, by_round in self.told.items() if not self._is_of_rows(by_round)}
        return [
            SharedValue(*key, np.array(sorted(by_round)), np.stack([by_round[one][1] for one in sorted(by_round)]))
            for key, by_round in others.items()
        ]

    @staticmethod
    def _is_of_rows(by_round: dict[int, tuple[Array | None, Array]]) -> bool:
        return next(iter(by_round.values()))[0] is not None

    def _stream(self, key: Key, by_round: dict[int, tuple[Array | None, Array]]) -> Stream:
        rounds = sorted(by_round)
        width = by_round[rounds[0]][1][0].size
        values = np.full((len(rounds), self.rows, width), np.nan, dtype=np.float32)
        for place, number in enumerate(rounds):
            rows, value = by_round[number]
            values[place, rows] = value.reshape(len(value), -1)
        return Stream(*key, np.array(rounds), values)


@contextmanager
def recording(rows: int) -> Iterator[Recording]:
    """Notes every message of training, both ways."""
    noted, opened, sealed = Recording(rows), OwnerHalf.open, OwnerHalf.seal

    def open_one(half: OwnerHalf, answer: Any, party: str, step: str, turn: Turn, **options: Any) -> Any:
        message = opened(half, answer, party, step, turn, **options)
        noted.note(party, turn.leader, step, message, turn)
        return message

    def seal_one(half: OwnerHalf, message: Any, parties: Sequence[str], step: str, turn: Turn) -> Any:
        for party in parties:
            noted.note(turn.leader, party, step, message, turn)
        return sealed(half, message, parties, step, turn)

    with patch.object(OwnerHalf, "open", open_one), patch.object(OwnerHalf, "seal", seal_one):
        yield noted


def materials_of(tables: Sequence[cn.Table], method: Any, **options: Any) -> dict[tuple[str, str], Material]:
    """Train, and give what each adversary has, by its name and the secret.

    A party is after the labels and, if the owner has columns, those; the owner is after each party's columns.
    """
    with recording(tables[0].rows) as noted:
        cn.train(tables, method, **{"rounds": 24, "batch": 64, "seed": 0} | options)
    streams, shared = noted.streams(), noted.shared()
    labels = np.asarray(tables[0].labels)
    columns = {OWNER if place == 0 else table.name: numbers_of(table) for place, table in enumerate(tables)}
    found = {}
    for party in [table.name for table in tables[1:]]:
        classes = int(labels.max()) + 1 if labels.ndim == 1 and labels.dtype.kind == "i" else 0
        truths = [(party, OWNER, "labels", labels, classes), (OWNER, party, "columns", columns[party], 0)]
        if columns[OWNER] is not None:
            truths.append((party, OWNER, "columns", columns[OWNER], 0))
        for adversary, of, secret, truth, count in truths:
            found[adversary, secret if of == OWNER else f"columns of {of}"] = split(
                Material(
                    adversary=adversary,
                    of=of,
                    secret=secret,
                    truth=np.asarray(truth),
                    classes=count,
                    streams=tuple(one for one in streams if (one.sender, one.receiver) == (of, adversary)),
                    sent=tuple(one for one in streams if (one.sender, one.receiver) == (adversary, of)),
                    shared=tuple(one for one in shared if (one.sender, one.receiver) == (of, adversary)),
                    own=columns[adversary],
                    labels=labels if adversary == OWNER else None,
                    categories=two_valued(truth) if secret == "columns" else {},
                )
            )
    return found


def numbers_of(table: cn.Table) -> Array | None:
    return None if table.columns is None else table.columns.flatten(1).float().numpy()


def two_valued(columns: Array) -> dict[int, int]:
    return {k: 2 for k in range(columns.shape[1]) if len(np.unique(columns[:, k])) == 2}


def split(material: Material, seed: int = 0, known: int = 200) -> Material:
    """The material with its rows in three sets; there may be fewer known rows, so that some are left to judge by."""
    order = np.random.default_rng(seed).permutation(len(material.truth))
    known = min(known, len(order) // 2)
    rest = order[known:]
    third = len(rest) // 3
    return replace(material, known=order[:known], chosen_on=rest[:third], scored=rest[third:])


def noise_instead(material: Material, seed: int = 0) -> Material:
    """The same material with independent noise in the place of everything that the adversary received."""
    rng = np.random.default_rng(seed)

    def noisy(values: Array) -> Array:
        return np.where(np.isnan(values), np.nan, rng.standard_normal(values.shape)).astype(np.float32)

    streams = tuple(stream._replace(values=noisy(stream.values)) for stream in material.streams)
    shared = tuple(value._replace(values=noisy(value.values)) for value in material.shared)
    return replace(material, streams=streams, shared=shared)


# How well an attack does


def score(material: Material, guess: Array) -> float:
    """On the rows scored: the area under the curve, the share of right classes, or the mean R2 of columns."""
    from sklearn.metrics import r2_score, roc_auc_score

    truth = material.truth[material.scored]
    assert guess.shape[0] == len(truth) and np.isfinite(guess).all()
    if material.classes == 2:
        return float(roc_auc_score(truth, guess))
    if material.classes:
        return float((guess == truth).mean())
    varied = truth.reshape(len(truth), -1).std(0) > 0
    return float(r2_score(truth.reshape(len(truth), -1)[:, varied], guess.reshape(len(truth), -1)[:, varied]))


def result(name: str, material: Material, seed: int = 1) -> tuple[float, float]:
    """The scores of an attack and of its control."""
    attack = attacks()[name]()
    assert attack.unfit(material) == ""
    judged = attack.judged(material)
    guess = attack.guess(judged, np.random.default_rng(seed))
    control = attack.control(judged, np.random.default_rng(seed))
    again = attack.guess(judged, np.random.default_rng(seed))
    assert np.array_equal(guess, again), "the same rng gives the same guess"
    return score(judged, guess), score(judged, control)


def planted_score(name: str, material: Material, seed: int = 2) -> float:
    """The score of an attack on its positive control in the place of noise."""
    attack = attacks()[name]()
    judged = attack.judged(noise_instead(material))
    planted = attack.planted(judged, np.random.default_rng(seed))
    for before, after in zip(material.streams, planted.streams, strict=True):
        assert before.values.shape == after.values.shape and before.values.dtype == after.values.dtype
        assert np.array_equal(np.isnan(before.values), np.isnan(after.values))
    return score(planted, attack.guess(planted, np.random.default_rng(seed)))
