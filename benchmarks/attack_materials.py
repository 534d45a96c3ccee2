"""What the adversaries of a run have, made of what the run recorded, and how well an attack does on it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch

import colonnade as cn
from colonnade.core.schedule import OWNER
from colonnade.privacy.attack import attacks
from colonnade.privacy.material import Array, Material, OwnNetwork, SharedValue, Stream
from colonnade.runtime.local_backend import LocalBackend
from colonnade.runtime.loop import LoopGroup
from colonnade.wire.view import View

Key = tuple[str, str, str, str]
"""Sender, receiver, step and field."""


def streams_of(view: View) -> list[Stream]:
    """What travelled in training about each sampled row."""
    found: dict[Key, dict[int, tuple[Array, Array]]] = defaultdict(dict)
    for one in view.seen:
        if one.purpose == "train" and one.table == "train":
            for name, value in one.fields.items():
                rows = np.searchsorted(view.sample, one.rows)
                found[one.sender, one.receiver, one.step, name][one.round] = rows, value.reshape(len(rows), -1)
    return [_stream(key, by_round, len(view.sample)) for key, by_round in found.items()]


def _stream(key: Key, by_round: dict[int, tuple[Array, Array]], rows: int) -> Stream:
    rounds = sorted(by_round)
    values = np.full((len(rounds), rows, by_round[rounds[0]][1].shape[1]), np.nan, dtype=np.float32)
    for place, number in enumerate(rounds):
        values[place, by_round[number][0]] = by_round[number][1]
    return Stream(*key, np.array(rounds), values)


def shared_of(view: View) -> list[SharedValue]:
    """What travelled in training and belongs to no row."""
    found: dict[Key, dict[int, Array]] = defaultdict(dict)
    for one in view.seen:
        if one.purpose == "train":
            for name, value in one.others.items():
                found[one.sender, one.receiver, one.step, name][one.round] = value
    return [
        SharedValue(*key, np.array(sorted(by_round)), np.stack([by_round[one] for one in sorted(by_round)]))
        for key, by_round in found.items()
    ]


def materials_of(tables: Sequence[cn.Table], method: Any, **options: Any) -> dict[tuple[str, str], Material]:
    """Train, and give what each adversary has, by its name and the secret.

    A party is after the labels and, if the owner has columns, those; the owner is after each party's columns.
    """
    run = cn.train(tables, method, record=True, **{"rounds": 24, "batch": 64, "seed": 0} | options)
    streams, shared, rows = streams_of(run.view), shared_of(run.view), run.view.sample
    labels = np.asarray(tables[0].labels)[rows]
    columns = {OWNER if place == 0 else table.name: numbers_of(table, rows) for place, table in enumerate(tables)}
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
                    network=None if adversary == OWNER else network_of(run, adversary),
                    categories=two_valued(truth) if secret == "columns" else {},
                )
            )
    return found


def network_of(run: cn.Run, party: str) -> OwnNetwork | None:
    """The party's trained network and one with fresh weights, of a run whose runtime is "loop"."""
    assert isinstance(run.parties.backend, LocalBackend)
    (group,) = [one for one in run.parties.backend.grouping.groups if run.parties.names.index(party) in one.members]
    if not isinstance(group, LoopGroup) or "net" not in group.loop_nets:
        return None
    trained, shape = group.loop_nets["net"].module, group.tables["train"].shape
    untrained = deepcopy(trained)
    with torch.random.fork_rng():
        torch.manual_seed(7)
        for layer in untrained.modules():
            getattr(layer, "reset_parameters", lambda: None)()

    def reads(module: torch.nn.Module, rows: Array) -> Array:
        with torch.no_grad():
            outputs: torch.Tensor = module(torch.from_numpy(rows).reshape(len(rows), *shape))
        return np.asarray(outputs.flatten(1).numpy())

    return OwnNetwork(partial(reads, trained), partial(reads, untrained))


def numbers_of(table: cn.Table, rows: Array) -> Array | None:
    return None if table.columns is None else table.draw(torch.from_numpy(rows)).flatten(1).numpy()


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
    guess, control = (of(judged, np.random.default_rng(seed)) for of in (attack.guess, attack.control))
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
