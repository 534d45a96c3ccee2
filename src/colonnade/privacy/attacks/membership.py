"""Membership: was a row in the training set? By the loss and the confidence of what is predicted for it.

The sides of a run know its rows anyway; the adversary is who may ask the trained model for predictions. Rows that a
model was trained on are often easier for it than others. Whether they are easier for every model is the control's
question: it reads in the same way what a model says that was trained on none of these rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import numpy as np

from colonnade.privacy.attack import Attack, register
from colonnade.privacy.attacks.candidates import blind_guess, choose
from colonnade.privacy.attacks.row_features import forward, windows_of
from colonnade.privacy.attacks.secret_streams import with_secret
from colonnade.privacy.material import Array, Material


@register
class MembershipScoring(Attack):
    """Loss and confidence of predictions, alone and compared with those of a model that saw none of the rows."""

    name: ClassVar[str] = "membership"
    secret: ClassVar[str] = "membership"
    citation: ClassVar[str] = (
        "Yeom, Giacomelli, Fredrikson, Jha: Privacy risk in machine learning, CSF 2018 (the loss); Watson, Guo, "
        "Cormode, Sablayrolles: On the importance of difficulty calibration in membership inference attacks, ICLR 2022"
    )
    adversary: ClassVar[str] = "keeps the predictions that it receives and knows the rows' labels, if it is given them"
    trains: ClassVar[bool] = True
    without: ClassVar[str] = "judges in the same way by a model that was trained on none of the rows"

    def unfit(self, material: Material) -> str:
        """It needs predictions of classes or values."""
        if not forward(material):
            return "no predictions were received"
        if material.labels is None and outputs_of(material).shape[1] < 2:
            return "one number for a row has no confidence, and the rows' labels are not known"
        return ""

    def guess(self, material: Material, rng: np.random.Generator) -> Array:
        """The score that tells best on the rows to choose on."""
        return choose(material, _scores(material, outputs_of(material), material.reference))

    def control(self, material: Material, rng: np.random.Generator) -> Array:
        """The same scores of the other model's predictions; a constant if there is no such model."""
        return choose(material, _scores(material, material.reference, None))

    def planted(self, material: Material, rng: np.random.Generator) -> Material:
        """Predictions that are right and sure for rows of the training set, and at random for others."""
        return with_secret(material, forward(material), lambda rounds, width: _overfitted(material, rounds, width, rng))


def outputs_of(material: Material) -> Array:
    """What was predicted for each row [n, outputs]: the sum over those who sent logits."""
    return np.asarray(np.sum([windows_of(stream.values)["last"] for stream in forward(material)], axis=0))


def _scores(material: Material, outputs: Array | None, reference: Array | None) -> Iterator[Array]:
    """Scores of membership, higher for rows that a model finds easy."""
    yield blind_guess(material)
    if outputs is not None:
        other = [] if reference is None else _ease(material, reference)
        for number, score in enumerate(_ease(material, outputs)):
            yield score
            if other:
                yield np.nan_to_num(score - other[number])


def _ease(material: Material, outputs: Array) -> list[Array]:
    """How sure a model is of each row, and how right if the labels are known."""
    found = []
    if outputs.shape[1] > 1:
        logs = outputs - outputs.max(1, keepdims=True)
        logs = logs - np.log(np.exp(logs).sum(1, keepdims=True))
        found.append(logs.max(1))
        if material.labels is not None and np.issubdtype(material.labels.dtype, np.integer):
            found.append(np.take_along_axis(logs, material.labels[:, None], axis=1)[:, 0])
    if material.labels is not None and not np.issubdtype(material.labels.dtype, np.integer):
        found.append(-np.square(outputs - material.labels.reshape(len(outputs), -1)).mean(1))
    return [np.nan_to_num(score) for score in found]


def _overfitted(material: Material, rounds: int, width: int, rng: np.random.Generator) -> Array:
    member = (material.truth == 1)[:, None]
    labels = rng.integers(width, size=len(member)) if material.labels is None else material.labels
    if np.issubdtype(labels.dtype, np.integer):
        right = 10.0 * np.eye(max(width, int(labels.max()) + 1))[labels][:, :width]
    else:
        right = np.broadcast_to(labels.reshape(len(labels), -1), (len(labels), width))
    whole = np.where(member, right, 0.0) + np.where(member, 0.1, 1.0) * rng.standard_normal((len(member), width))
    return np.broadcast_to(whole, (rounds, *whole.shape))
