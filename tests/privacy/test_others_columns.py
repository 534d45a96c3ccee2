"""What a party makes of the owner's answers about another party's columns."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from benchmarks.attack_materials import noise_instead, planted_score, result, split

from colonnade.privacy.attacks.others_columns import OthersColumns
from colonnade.privacy.material import Material, Stream

NAME = "columns from answers"
ROWS = 420


def answered(width: int, *, labels: bool = True) -> Material:
    """A party with three columns that hears, in two rounds, the sum of its own part and that of four other columns."""
    rng = np.random.default_rng(0)
    own, others = rng.standard_normal((ROWS, 3)), rng.standard_normal((ROWS, 4))
    classes = (others[:, 0] + own[:, 0] > 0).astype(np.int64)
    mine, theirs = own @ rng.standard_normal((3, width)), others @ rng.standard_normal((4, width))
    values = np.stack([mine + theirs, mine + 2 * theirs]).astype(np.float32)
    heard = Stream("owner", "shop", "decide", "h", np.arange(2), values)
    said = Stream("shop", "owner", "embed", "h", np.arange(2), np.stack([mine, mine]).astype(np.float32))
    made = Material("shop", "mill", "columns", others.astype(np.float32), streams=(heard,), sent=(said,), own=own)
    return split(replace(made, labels=classes if labels else None))


def test_less_its_own_part_a_sum_tells_the_others_columns() -> None:
    found, control = result(NAME, answered(width=6))
    assert found > 0.95 and control < 0.25


def test_what_labels_tell_is_left_to_the_control() -> None:
    """The gradient of a model that knows nothing is the label alone, and adds nothing to it."""
    material = answered(width=1)
    assert material.labels is not None
    values = (0.5 - material.labels)[None, :, None].astype(np.float32)
    material = replace(material, streams=(material.streams[0]._replace(rounds=np.arange(1), values=values),))
    found, control = result(NAME, material)
    assert abs(found - control) < 0.05 and control > 0.1


def test_nothing_is_found_in_noise() -> None:
    found, control = result(NAME, noise_instead(answered(width=6)))
    assert found - control < 0.05


def test_what_is_planted_is_found() -> None:
    assert planted_score(NAME, answered(width=6)) > 0.9


@pytest.mark.parametrize("labels", [True, False])
def test_it_needs_answers_and_known_rows(labels: bool) -> None:
    material = answered(width=2, labels=labels)
    assert OthersColumns().unfit(material) == ""
    assert OthersColumns().unfit(replace(material, streams=())) == "no messages were received"
    assert "it needs 100 known rows" in OthersColumns().unfit(replace(material, known=material.known[:20]))
