"""What a passive party of APFed reads from the owner's embedding."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from benchmarks.attack_materials import noise_instead, planted_score, result
from run_materials import breast_cancer

from colonnade.privacy.attack import attacks

LABELS, COLUMNS = "labels from the owner's embedding", "columns from the owner's embedding"


def test_the_embedding_tells_labels() -> None:
    found, control = result(LABELS, breast_cancer("apfed", "first")["error", "labels"])
    assert found > control + 0.05


def test_the_owners_columns_are_rebuilt() -> None:
    found, control = result(COLUMNS, breast_cancer("apfed", "first")["error", "columns"])
    assert found > control + 0.3


@pytest.mark.parametrize(("name", "secret"), [(LABELS, "labels"), (COLUMNS, "columns")])
def test_nothing_is_found_in_noise(name: str, secret: str) -> None:
    material = noise_instead(breast_cancer("apfed", "first")["error", secret])
    found, control = result(name, material)
    assert found < control + 0.03
    found, control = result(name, replace(material, own=None))
    assert abs(found - control) < 0.1


@pytest.mark.parametrize(("name", "secret"), [(LABELS, "labels"), (COLUMNS, "columns")])
def test_what_is_planted_is_found(name: str, secret: str) -> None:
    assert planted_score(name, breast_cancer("apfed", "first")["error", secret]) > 0.9


def test_other_methods_send_no_such_embedding() -> None:
    material = breast_cancer("vfedmh", "first")["error", "columns"]
    assert "no embedding" in attacks()[COLUMNS]().unfit(material)
    assert "no embedding" in attacks()[LABELS]().unfit(breast_cancer("splitnn")["mean", "labels"])


def test_too_few_known_rows_are_named() -> None:
    material = breast_cancer("apfed", "first")["error", "columns"]
    assert "needs 100" in attacks()[COLUMNS]().unfit(replace(material, known=np.arange(20)))
