"""The noise seal: clipping, grid, where the noise comes from, and what it may never do."""

import ast
import math
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats
from torch import Tensor

from colonnade.errors import ConfigError, PrivacyError, SealError, TrainingError
from colonnade.seal import accountant, noise
from colonnade.seal import label_noise as labels
from colonnade.seal.accountant import epsilon
from colonnade.seal.noise import Budget, Noise, NoiseSource

KEY = bytes(range(32))


def send(
    seal: Noise, message: dict[str, Tensor], budget: Budget | None = None, label: str = "round 1", key: bytes = KEY
) -> dict[str, Tensor]:
    """One release of the rows of the people 0, 1, ..."""
    count = len(next(iter(message.values()))) if message and next(iter(message.values())).dim() else 0
    return seal.release(
        message,
        source=NoiseSource(key),
        budget=budget or seal.budget("bank"),
        people=torch.arange(count),
        label=label,
        purpose="train",
    )


def values(rows: int, width: int, seed: int = 0, size: float = 1.0) -> Tensor:
    return torch.randn(rows, width, generator=torch.Generator().manual_seed(seed)) * size


# Clipping and grid


def test_short_rows_stay_and_long_rows_get_norm_c() -> None:
    seal = Noise(clip=2.0, sigma=1.0, epsilon=100.0)
    came = torch.tensor([[0.5, -0.25], [30.0, 40.0], [0.0, 0.0]], dtype=torch.float64)
    steps, clipped = seal._clip(came)
    assert clipped == 1
    assert torch.equal(steps[0] * seal.grid, came[0]), "multiples of the grid pass as they are"
    assert torch.allclose(steps[1] * seal.grid, torch.tensor([1.2, 1.6], dtype=torch.float64), atol=2 * seal.grid)
    assert torch.equal(steps[2], torch.zeros(2, dtype=torch.float64))


@settings(max_examples=200, deadline=None)
@given(
    came=arrays(
        np.float32,
        st.tuples(st.integers(1, 4), st.integers(1, 12)),
        elements=st.floats(width=32, allow_nan=False, allow_infinity=False),
    ),
    clip=st.floats(1e-6, 1e6),
    sigma=st.floats(0.01, 1000.0),
    unit=st.sampled_from(["row", "party"]),
)
def test_the_norm_is_at_most_c_in_exact_arithmetic(came: np.ndarray, clip: float, sigma: float, unit: str) -> None:
    seal = Noise(clip=clip, sigma=sigma, unit=unit, epsilon=1e6)
    steps, _ = seal._clip(seal._units({"o": torch.from_numpy(came)}, len(came)))
    for line in steps:
        assert bool((line == line.round()).all())
        assert sum(int(step) ** 2 for step in line) * Fraction(seal.grid) ** 2 <= Fraction(clip) ** 2


def test_a_large_message_keeps_its_direction() -> None:
    """A whole batch under one clip has tiny entries; the grid must not swallow them."""
    seal = Noise(clip=0.005, sigma=30.0, unit="party", epsilon=15.0)
    came = values(1024, 60).double().reshape(1, -1)
    steps, clipped = seal._clip(came)
    assert clipped == 1
    assert float(torch.cosine_similarity(steps, came)) > 0.999
    assert float(steps.norm() * seal.grid) > 0.97 * 0.005


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_everything_sent_is_on_the_grid(dtype: torch.dtype) -> None:
    seal = Noise(clip=0.37, sigma=7.3)
    out = send(seal, {"o": values(50, 9).to(dtype)})["o"]
    assert out.dtype == dtype and math.frexp(seal.grid)[0] == 0.5
    steps = out.double() / seal.grid
    assert torch.equal(steps, steps.round())
    assert 2.0**-19 < seal.grid / (7.3 * 0.37) <= 2.0**-18


def test_the_norm_runs_over_all_fields_of_a_row() -> None:
    seal = Noise(clip=1.0, sigma=0.01, epsilon=1e6)
    out = send(seal, {"o": torch.tensor([[30.0]]), "extra": torch.tensor([[0.0, 40.0]])})
    assert float(out["o"]) == pytest.approx(0.6, abs=0.06)
    assert out["extra"][0].tolist() == pytest.approx([0.0, 0.8], abs=0.06)


# The noise


def test_the_noise_is_normal_with_the_promised_deviation() -> None:
    seal = Noise(clip=0.5, sigma=4.0)
    out = send(seal, {"o": torch.zeros(400, 250)})["o"].double().flatten().numpy() / 2.0
    assert out.std() == pytest.approx(1.0, abs=0.01)
    assert abs(out.mean()) < 0.015
    assert stats.kstest(out, "norm").pvalue > 0.01
    assert abs(out).max() > 4.0
    assert abs(np.corrcoef(out[:50_000], out[50_000:])[0, 1]) < 0.02, "both halves of Box and Muller"


def test_an_odd_number_and_no_number_of_values() -> None:
    source = NoiseSource(KEY)
    assert source.gaussian("a", b"", (3, 5)).shape == (3, 5)
    assert source.gaussian("a", b"", (0, 5)).shape == (0, 5)
    uniform = source.uniform("a", b"", (1000,))
    assert bool(((uniform >= 0) & (uniform < 1)).all()) and torch.equal(uniform * 2.0**53, (uniform * 2.0**53).round())


def test_a_replay_gives_the_same_message() -> None:
    seal, came = Noise(), {"o": values(20, 6), "p": values(20, 1)}
    once, again = send(seal, came), send(seal, came)
    assert all(torch.equal(once[name], again[name]) for name in came)


def test_any_change_gives_unrelated_noise() -> None:
    """Of a value, the label or the key; and never the same noise on two values, whose difference would show."""
    seal, came = Noise(), values(200, 20, size=0.1)
    changed = came.clone()
    changed[3, 4] += 0.01
    base = send(seal, {"o": came})["o"]
    others = [
        send(seal, {"o": changed})["o"],
        send(seal, {"o": came}, label="round 2")["o"],
        send(seal, {"o": came}, key=KEY[::-1])["o"],
        send(seal, {"p": came})["p"],
    ]
    for other in others:
        assert abs(np.corrcoef((base - came).flatten(), (other - came).flatten())[0, 1]) < 0.05
        assert int((other == base).sum()) < 5


def test_one_key_at_two_sigmas_gives_unrelated_noise() -> None:
    """The same noise at sigma 10 and 11 would be two equations for one value; both have the same grid."""
    first, second = Noise(sigma=10.0), Noise(sigma=11.0)
    assert first.grid == second.grid
    out = [send(seal, {"o": torch.zeros(200, 20)})["o"].flatten().numpy() for seal in (first, second)]
    assert abs(np.corrcoef(*out)[0, 1]) < 0.05


def test_label_and_digest_do_not_run_together() -> None:
    source = NoiseSource(KEY)
    assert not torch.equal(source.uniform("ab", b"c", (4,)), source.uniform("a", b"bc", (4,)))


def test_a_change_below_the_grid_changes_nothing_at_all() -> None:
    seal, came = Noise(), torch.full((4, 4), 0.1)
    assert torch.equal(send(seal, {"o": came})["o"], send(seal, {"o": came.nextafter(torch.ones(()))})["o"])


@pytest.mark.parametrize("module", [accountant, noise, labels])
def test_no_ordinary_generator_is_used(module: object) -> None:
    tree = ast.parse(Path(str(module.__file__)).read_text())  # type: ignore[attr-defined]
    names = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    names |= {
        alias.name for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom) for alias in node.names
    }
    wrong = {
        name
        for name in names
        if name.startswith(("rand", "normal", "bernoulli", "multinomial", "Generator", "laplace"))
    }
    assert wrong - {"urandom"} == set()


def test_a_short_key_is_refused() -> None:
    with pytest.raises(SealError, match="16 bytes"):
        NoiseSource(bytes(16))


# Release and budget


def test_the_budget_pays_first_and_counts_clipped_rows() -> None:
    seal = Noise(epsilon=2.0, sigma=10.0)
    mine = seal.budget("bank")
    came = {"o": torch.tensor([[3.0, 0.0], [0.1, 0.0]])}
    for turn in range(seal.releases):
        send(seal, came, mine, f"round {turn}")
    assert (mine.clipped, mine.seen) == (seal.releases, 2 * seal.releases)
    before = mine.state()
    with pytest.raises(PrivacyError, match="granted epsilon 2"):
        send(seal, came, mine, "one more")
    assert all(torch.equal(mine.state()[name], value) for name, value in before.items())
    assert mine.epsilon == epsilon(seal.releases, 5.0, 1e-5) <= 2.0 < epsilon(seal.releases + 1, 5.0, 1e-5)


def release(seal: Noise, people: list[int], budget: Budget) -> Tensor:
    """The same rows and label for whatever people."""
    came = {"o": torch.ones(len(people), 4)}
    number = torch.tensor(people, dtype=torch.int64)
    source = NoiseSource(KEY)
    return seal.release(came, source=source, budget=budget, people=number, label="a", purpose="predict")["o"]


def test_a_person_in_two_tables_pays_twice() -> None:
    seal = Noise()
    mine = seal.budget("bank")
    release(seal, [7, -8], mine)
    release(seal, [9, 7, 2**63 - 1], mine)
    assert mine.most_releases == 2 and mine.releases == {"predict": 2}


@pytest.mark.parametrize("unit", ["row", "party"])
def test_other_people_get_other_noise(unit: str) -> None:
    seal = Noise(unit=unit)
    once, again, other = (release(seal, people, seal.budget("bank")) for people in ([1, 2], [1, 2], [2, 1]))
    assert torch.equal(once, again) and int((once == other).sum()) == 0


def test_a_number_of_people_that_is_not_the_number_of_rows_is_refused() -> None:
    seal = Noise()
    mine = seal.budget("bank")
    with pytest.raises(SealError, match="expected 2 rows in front"):
        seal.release(
            {"o": torch.ones(3, 4)},
            source=NoiseSource(KEY),
            budget=mine,
            people=torch.arange(2),
            label="a",
            purpose="predict",
        )
    assert mine.most_releases == 0


def test_a_budget_for_other_noise_is_refused() -> None:
    with pytest.raises(SealError, match="made for other noise"):
        send(Noise(sigma=1.0, epsilon=100.0), {"o": torch.ones(2, 2)}, Noise(sigma=10.0).budget("bank"))


def test_the_party_unit_takes_any_shape_and_counts_messages() -> None:
    seal = Noise(unit="party")
    mine = seal.budget("bank")
    out = send(seal, {"loss": torch.tensor(5.0), "w": torch.ones(2, 3)}, mine)
    assert out["loss"].shape == () and out["w"].shape == (2, 3)
    assert (mine.most_releases, mine.clipped, mine.seen) == (1, 1, 1)


def test_no_rows_and_no_fields_cost_nothing() -> None:
    seal = Noise()
    mine = seal.budget("bank")
    assert send(seal, {}, mine) == {}
    assert send(seal, {"o": torch.zeros(0, 4)}, mine)["o"].shape == (0, 4)
    assert mine.most_releases == 0


def test_a_message_that_carries_a_gradient_loses_it() -> None:
    came = values(3, 2).requires_grad_()
    assert not send(Noise(), {"o": came})["o"].requires_grad


def test_messages_that_are_not_rows_are_refused_and_cost_nothing() -> None:
    seal = Noise()
    mine = seal.budget("bank")
    wrong = [{"o": torch.tensor(1.0)}, {"o": torch.ones(3, 2), "w": torch.ones(2, 3)}]
    for message in wrong:
        with pytest.raises(SealError, match="use unit='party'"):
            send(seal, message, mine)
    with pytest.raises(SealError, match="real numbers"):
        send(seal, {"o": torch.ones(3, 2, dtype=torch.int64)}, mine)
    with pytest.raises(TrainingError, match="'o' is not finite"):
        send(seal, {"o": torch.tensor([[math.nan]])}, mine)
    assert mine.most_releases == 0 and mine.releases == {}


def test_the_examples_of_the_notes() -> None:
    """Ten epochs at 10, 5 and 2 clips; VIM's 530 rounds at 30 clips, counted with the sensitivity 2 C."""
    for sigma, spent in [(10.0, 2.81), (5.0, 6.21), (2.0, 19.05)]:
        seal = Noise(epsilon=20.0, sigma=sigma)
        mine = seal.budget("bank")
        for turn in range(10):
            send(seal, {"o": torch.ones(4, 2)}, mine, f"round {turn}")
        assert mine.epsilon == pytest.approx(spent, abs=0.01)
    assert Noise(epsilon=7.80, sigma=30.0, unit="party").releases == 530


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"epsilon": 0.0}, "epsilon=0.0 is out of range"),
        ({"epsilon": math.inf}, "epsilon=inf is not finite"),
        ({"delta": 0.0}, "delta=0.0 is out of range"),
        ({"delta": 1.0}, "delta=1.0 is out of range"),
        ({"sigma": 0.0}, "sigma=0.0 is out of range"),
        ({"sigma": "much"}, "sigma='much' is not a number"),
        ({"clip": -1.0}, "clip=-1.0 is out of range"),
        ({"unit": "rows"}, "did you mean 'row'"),
        ({"epsilon": 0.5, "sigma": 1.0}, "does not pay for one release"),
    ],
)
def test_options_out_of_range(options: dict[str, float], sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        Noise(**options)  # type: ignore[arg-type]
