"""A shadow run: train the same method with the same seals on other rows, learn there what messages tell, apply it.

It needs no idea of how a defence works: what it learns, it learns through the same seals. The networks of the two runs
begin with other weights, so their messages have other coordinates. Of labels it therefore takes what does not depend
on coordinates: lengths, main directions, and how near a row is to the mean of ten known rows of each class. Where
messages are as wide as the model's outputs, their numbers mean the same in both runs and are taken as they are. Of
columns, known rows that are in both runs give a linear map from the messages of the one to those of the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, ClassVar, NamedTuple

import numpy as np

from colonnade.privacy.attack import Attack, register
from colonnade.privacy.attacks.candidates import choose, width_of
from colonnade.privacy.attacks.row_features import (
    received,
    side_by_side,
    standardised,
    unit,
    windows_of,
    without_streams,
)
from colonnade.privacy.attacks.row_scores import scores_of_rows
from colonnade.privacy.attacks.secret_streams import embeddings_of, output_errors, slopes_with, with_secret
from colonnade.privacy.attacks.small_models import as_guess, first_of_each_class, logistic
from colonnade.privacy.material import Array, Material, SecondRun, Stream

WINDOWS = ("early", "all", "late")
KNOWN_A_CLASS = 10
LEAST_TWINS = 30
"""Known rows that are in both runs; fewer give no map."""
RIDGES = (0.03, 0.3, 3.0)
_CITATION = (
    "Shokri, Stronati, Song, Shmatikov: Membership inference attacks against machine learning models, S&P 2017 (the "
    "shadow models), here of a federation's messages"
)
_NO_SECOND = "the tables of all sides are not here, so no second run can be trained"


class Pair(NamedTuple):
    """Features of the rows of the second run, on which a model is fitted, and of the audited run."""

    learnt_from: Array
    applied_to: Array


def outside_half(material: Material) -> Material:
    """The material with only those rows to judge and to choose on that the second run does not have."""
    if material.second is None:
        return material
    half = material.second.half
    scored, chosen_on = (rows[~half[rows]] for rows in (material.scored, material.chosen_on))
    return replace(material, scored=scored, chosen_on=chosen_on)


def why_unfit(material: Material) -> str:
    """Why no second run can be learnt from, as the end of a sentence."""
    if material.second is None:
        return _NO_SECOND
    if not received(material):
        return "no values about rows were received"
    if (~material.second.half[material.scored]).sum() < 50:
        return "fewer than 50 rows to judge on are outside the second run"
    return material.second.why_not()


def both(material: Material) -> tuple[Material, Material]:
    """The second run's material, with all its streams that the audited run has too, and the audited run's."""
    assert material.second is not None
    second = material.second.material()
    names = {stream.name for stream in received(second)} & {stream.name for stream in received(material)}
    return _with_streams(second, names), _with_streams(material, names)


def _with_streams(material: Material, names: set[str]) -> Material:
    return replace(material, streams=tuple(stream for stream in material.streams if stream.name in names))


# labels


@register
class ShadowRun(Attack):
    """Labels, by a model that was fitted to the messages of a second run."""

    name: ClassVar[str] = "shadow run"
    secret: ClassVar[str] = "labels"
    citation: ClassVar[str] = _CITATION
    adversary: ClassVar[str] = (
        "trains the same method with the same seals on other rows whose labels and columns it has, fits a model from "
        "messages to labels there, and applies it to the messages that it receives"
    )
    without: ClassVar[str] = "fits the same model to its own columns"
    rows_known: ClassVar[int] = KNOWN_A_CLASS
    trains: ClassVar[bool] = True

    def judged(self, material: Material) -> Material:
        """Rows that the second run does not have."""
        return outside_half(material)

    def unfit(self, material: Material) -> str:
        """It needs classes, messages, and a second run."""
        return why_unfit(material) if material.classes else "the labels are no classes"

    def guess(self, material: Material, rng: np.random.Generator) -> Array:
        """By own columns and by what is told of messages in both runs."""
        second, first = both(material)
        learnt, applied = (_told(one) for one in (second, first))
        return _classified(material, second, _beside_own(second, first, learnt, applied), rng)

    def control(self, material: Material, rng: np.random.Generator) -> Array:
        """By own columns alone."""
        second, first = both(material)
        if first.own is None or second.own is None:
            return choose(material, [_nobody(material)])
        return _classified(material, second, Pair(standardised(second.own), standardised(first.own)), rng)

    def planted(self, material: Material, rng: np.random.Generator) -> Material:
        """Gradients through a head of its own in each of the two runs."""

        def with_labels(one: Material) -> Material:
            return with_secret(one, received(one), slopes_with(output_errors(one, rng), rng))

        return _both_planted(material, with_labels)


def _nobody(material: Material) -> Array:
    return np.zeros(len(material.truth), dtype=np.int64 if material.classes > 2 else np.float64)


def _beside_own(second: Material, first: Material, learnt: Array, applied: Array) -> Pair:
    if first.own is None or second.own is None:
        return Pair(learnt, applied)
    return Pair(side_by_side([second.own, learnt]), side_by_side([first.own, applied]))


def _told(material: Material) -> Array:
    """Numbers about every row that mean the same in every run of the method [n, features]."""
    parts = []
    for stream in received(material):
        windows = windows_of(stream.values)
        for name in WINDOWS:
            parts += [*_numbers_of(material, stream, windows[name])]
    return side_by_side(parts)


def _numbers_of(material: Material, stream: Stream, window: Array) -> Iterator[Array]:
    there = np.isfinite(window).all(1)
    clean = np.where(there[:, None], window, 0.0)
    if there.sum() > 1:
        for score in scores_of_rows(clean[there]).values():
            yield _placed(score, there)
    known = first_of_each_class(material, KNOWN_A_CLASS)
    known = known[there[known]]
    for label in range(material.classes):
        rows = known[material.truth[known] == label]
        if len(rows):
            yield (unit(clean) @ unit(clean[rows].mean(0, keepdims=True)).T)[:, 0]
            yield -np.linalg.norm(clean - clean[rows].mean(0), axis=1)
    if window.shape[1] == width_of(material):
        yield clean


def _placed(score: Array, there: Array) -> Array:
    whole = np.zeros(len(there))
    whole[there] = score
    return whole


def _classified(material: Material, second: Material, pair: Pair, rng: np.random.Generator) -> Array:
    """The better of boosted trees and a line, by the rows to choose on."""
    return choose(material, _class_guesses(material, second.truth, pair, rng))


def _class_guesses(material: Material, truth: Array, pair: Pair, rng: np.random.Generator) -> Iterator[Array]:
    learnt, applied = pair
    stacked = np.concatenate([learnt, applied])
    yield as_guess(logistic(stacked, np.arange(len(learnt)), truth, material.classes)[len(learnt) :])
    if material.classes == 2:
        yield _boosted(int(rng.integers(2**31))).fit(learnt, truth).decision_function(applied)


def _boosted(seed: int) -> Any:
    from sklearn.ensemble import HistGradientBoostingClassifier

    return HistGradientBoostingClassifier(max_iter=60, max_leaf_nodes=15, learning_rate=0.1, random_state=seed)


def _both_planted(material: Material, plant: Callable[[Material], Material]) -> Material:
    """The material with secrets in the messages of both runs."""
    second = material.second
    assert second is not None
    again = plant(second.material())
    return replace(plant(material), second=SecondRun(second.half, second.why_not, lambda: again, second.twins))


# columns


@register
class ShadowDecoder(Attack):
    """Columns, by a decoder that was fitted to the messages of a second run, through a map by known rows."""

    name: ClassVar[str] = "shadow decoder"
    secret: ClassVar[str] = "columns"
    citation: ClassVar[str] = _CITATION
    adversary: ClassVar[str] = (
        "trains the same method with the same seals on other rows whose columns it has, fits a decoder from messages "
        "to columns there, and applies it to the messages that it receives, mapped onto those by rows that it knows"
    )
    without: ClassVar[str] = "fits the same decoder to the labels and its own columns"
    rows_known: ClassVar[int] = 200
    trains: ClassVar[bool] = True

    def judged(self, material: Material) -> Material:
        """Rows that the second run does not have."""
        return outside_half(material)

    def unfit(self, material: Material) -> str:
        """It needs messages and a second run."""
        return why_unfit(material)

    def guess(self, material: Material, rng: np.random.Generator) -> Array:
        """The decoder of the second run on mapped messages."""
        second, first = both(material)
        assert material.second is not None
        learnt, received_now = (_latest(one) for one in (second, first))
        twins = material.second.twins()
        twins = twins[np.isin(twins[:, 0], material.known)]
        if len(twins) < LEAST_TWINS:
            return choose(material, [_mean_rows(material)])
        mapped = _mapped(received_now, learnt, twins)
        return choose(material, _decoded(second, first, Pair(learnt, mapped)))

    def control(self, material: Material, rng: np.random.Generator) -> Array:
        """The same decoder without messages."""
        second, first = both(material)
        if not without_streams(first):
            return choose(material, [_mean_rows(material)])
        return choose(material, _decoded(second, first, None))

    def planted(self, material: Material, rng: np.random.Generator) -> Material:
        """Embeddings with a mixture of their own in each of the two runs."""

        def with_columns(one: Material) -> Material:
            return with_secret(one, received(one), embeddings_of(one.truth, rng))

        return _both_planted(material, with_columns)


def _latest(material: Material) -> Array:
    """Every row's messages in the last quarter of its appearances, side by side."""
    return side_by_side(windows_of(stream.values)["late"] for stream in received(material))


def _mapped(values: Array, onto: Array, twins: Array) -> Array:
    from sklearn.linear_model import RidgeCV

    model = RidgeCV(10.0 ** np.arange(-2, 5)).fit(values[twins[:, 0]], onto[twins[:, 1]])
    return np.asarray(model.predict(values)).reshape(len(values), -1)


def _mean_rows(material: Material) -> Array:
    return np.tile(material.truth[material.known].mean(0), (len(material.truth), 1))


def _decoded(second: Material, first: Material, pair: Pair | None) -> Iterator[Array]:
    """Columns of all rows, by kernel ridge regression with several penalties."""
    from sklearn.kernel_ridge import KernelRidge

    learnt = side_by_side([*without_streams(second), *([] if pair is None else [pair.learnt_from])])
    applied = side_by_side([*without_streams(first), *([] if pair is None else [pair.applied_to])])
    mean, deviation = second.truth.mean(0), second.truth.std(0) + 1e-12
    for ridge in RIDGES:
        model = KernelRidge(alpha=ridge, kernel="rbf", gamma=0.5 / learnt.shape[1])
        yield model.fit(learnt, (second.truth - mean) / deviation).predict(applied) * deviation + mean
