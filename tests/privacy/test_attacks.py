"""What holds of every attack in the registry."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from benchmarks.attack_materials import noise_instead
from run_materials import breast_cancer

import colonnade.privacy.attacks  # noqa: F401
from colonnade.privacy.attack import attacks
from colonnade.privacy.material import Material

NAMES = [
    "columns from the owner's embedding",
    "columns from answers",
    "decoder",
    "equations",
    "gradient scoring",
    "label reading",
    "labels from embeddings",
    "labels from the owner's embedding",
    "membership",
    "model completion",
    "one category",
    "one known label a class",
    "ten known labels a class",
]


def test_all_are_registered() -> None:
    assert set(NAMES) <= attacks().keys()


def material_for(name: str) -> Material:
    """A run's material for the secret of the attack."""
    if attacks()[name].secret == "columns":
        return breast_cancer("apfed", "first")["error", "columns"]
    return breast_cancer("cvfl")["mean", "labels"]


@pytest.mark.parametrize("name", NAMES)
def test_each_says_what_it_is(name: str) -> None:
    attack = attacks()[name]
    assert attack.secret in ("labels", "columns", "membership") and attack.__doc__
    assert any(year in attack.citation for year in map(str, range(2015, 2027))) or "arXiv" in attack.citation
    assert attack.adversary.split()[0] in ("keeps", "has") and attack.without.split()[0] in (
        "guesses",
        "fits",
        "scores",
        "judges",
    )
    assert not attack.adversary.endswith(".") and not attack.without.endswith(".")


@pytest.mark.parametrize("name", NAMES)
def test_none_can_be_tried_without_messages(name: str) -> None:
    if name != "model completion":  # which uses the network, and no message
        assert attacks()[name]().unfit(material_for(name).without_messages())


SPOILT = ["narrow", "constant", "few rows", "all missing", "huge"]
CHEAP = [name for name in NAMES if not name.startswith(("membership", "model completion", "columns "))]
ODD = [(name, spoilt) for name in CHEAP for spoilt in SPOILT if name != "decoder" or spoilt in ("narrow", "few rows")]


@pytest.mark.parametrize("name", CHEAP)
def test_the_same_rng_gives_the_same_guess(name: str) -> None:
    attack, material = attacks()[name](), material_for(name)
    if not attack.unfit(material):
        first, second = (attack.guess(material, np.random.default_rng(3)) for _ in range(2))
        assert np.array_equal(first, second)


@pytest.mark.parametrize(("name", "spoilt"), ODD)
def test_odd_messages_do_no_harm(name: str, spoilt: str) -> None:
    attack, material = attacks()[name](), noise_instead(material_for(name))

    def spoil(values: np.ndarray) -> np.ndarray:
        made = values.copy()
        if spoilt == "narrow":
            return made[..., :1]
        if spoilt == "few rows":
            made[:, 5:] = np.nan
        made[np.isfinite(made)] *= {"constant": 0, "huge": 1e30}.get(spoilt, 1)
        return made * (np.nan if spoilt == "all missing" else 1)

    streams = tuple(one._replace(values=spoil(one.values)) for one in material.streams)
    material = attack.judged(replace(material, streams=streams, sent=(), shared=()))
    if not attack.unfit(material):
        assert spoilt != "all missing"
        for guess in (attack.guess, attack.control):
            assert np.isfinite(guess(material, np.random.default_rng(0))).all()
        planted = attack.planted(material, np.random.default_rng(0))
        assert len(attack.guess(planted, np.random.default_rng(0))) == len(material.scored)
