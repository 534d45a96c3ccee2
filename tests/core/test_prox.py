"""The z-step of VIMADMM against SciPy, against its own optimality condition, and by hand."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.optimize import brentq, minimize
from scipy.special import expit, logsumexp, softmax, wrightomega
from torch import Tensor

from colonnade.core import prox
from colonnade.core.prox import cross_entropy_prox, logistic_prox, squared_prox
from colonnade.errors import TrainingError

Row = NDArray[np.float64]


def random_rows(seed: int, rows: int, classes: int, size: float) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Logits up to ``size``, duals as in training, class numbers and soft labels."""
    gen = torch.Generator().manual_seed(seed)
    total = (torch.rand(rows, classes, generator=gen, dtype=torch.float64) * 2 - 1) * size
    hard = torch.randint(classes, (rows,), generator=gen)
    soft = torch.randn(rows, classes, generator=gen, dtype=torch.float64).mul(3).softmax(1)
    before = torch.randn(rows, classes, generator=gen, dtype=torch.float64).softmax(1)
    return total, before - one_hot(hard, classes), hard, soft


def one_hot(hard: Tensor, classes: int) -> Tensor:
    return torch.nn.functional.one_hot(hard, classes).double()


def gradient(z: Row, total: Row, dual: Row, y: Row, rho: float) -> Row:
    result: Row = softmax(z, axis=-1) - y - dual + rho * (z - total)
    return result


def assert_stationary(z: Row, total: Row, dual: Row, y: Row, rho: float) -> None:
    """The gradient is zero up to the rounding of z itself and of the terms that cancel in it."""
    at_z = np.abs(z).max(-1)
    floor = 1.0 + at_z + rho * (at_z + np.abs(total).max(-1)) + np.abs(dual).max(-1)
    assert np.all(np.abs(gradient(z, total, dual, y, rho)).max(-1) <= 1e-13 * floor)


def random_problem(rng: np.random.Generator) -> tuple[Row, Row, Row, Tensor, float]:
    """One row (total, dual, y, target for our function, rho); all scales are log-uniform."""
    classes = round(math.exp(rng.uniform(math.log(2), math.log(1000))))
    rho = 10.0 ** rng.uniform(-3, 3)
    total = rng.uniform(-1, 1, classes) * 10.0 ** rng.uniform(-1, 4)
    label = int(rng.integers(classes))
    hard = np.eye(classes)[label]
    soft = softmax(rng.normal(0, 3, classes))
    # The first round (zero), any later round (softmax - y), and something that training never makes.
    duals = [np.zeros(classes), softmax(rng.normal(0, 2, classes)) - hard, rng.normal(0, 1, classes)]
    dual = duals[int(rng.integers(3))]
    if rng.random() < 0.5:
        return total, dual, hard, torch.tensor([label]), rho
    return total, dual, soft, torch.from_numpy(soft)[None], rho


def objective(move: Row, total: Row, dual: Row, y: Row, rho: float) -> tuple[float, Row]:
    """Value and gradient at z = total + move.

    In ``move`` and not in ``z``, and less the constant max(total) - <y + dual, total>: otherwise values of 1e4
    would hide the last digits from SciPy.
    """
    z = total + move
    value = logsumexp(z - total.max()) - (y + dual) @ move + rho / 2 * move @ move
    return float(value), softmax(z) - y - dual + rho * move


def scipy_move(total: Row, dual: Row, y: Row, rho: float) -> tuple[Row, bool]:
    """The minimum by L-BFGS-B, and whether it had to be polished.

    L-BFGS-B stops when rounding hides the decrease of the value, which for small rho is short of 1e-6 in z (5 to 10 %
    of the problems).  A few dense Newton steps, kept only while they shrink the gradient, take it from there.
    """
    options = {"maxiter": 20_000, "maxfun": 100_000, "maxcor": 30, "ftol": 0.0, "gtol": 1e-12, "maxls": 50}
    args = (total, dual, y, rho)
    move: Row = minimize(objective, np.zeros_like(total), args, method="L-BFGS-B", jac=True, options=options).x
    slope = objective(move, *args)[1]
    polished = False
    while np.linalg.norm(slope) > 1e-6 * rho:
        p = softmax(total + move)
        trial = move - np.linalg.solve(np.diag(p + rho) - np.outer(p, p), slope)
        trial_slope = objective(trial, *args)[1]
        if np.linalg.norm(trial_slope) >= np.linalg.norm(slope):
            break
        move, slope, polished = trial, trial_slope, True
    return move, polished


def compare_with_scipy(problems: int, seed: int) -> tuple[float, float]:
    """Compare random rows with SciPy; the share compared in z, and the share of those that needed no polish.

    The objective is rho-strongly convex, so |gradient| / rho bounds the distance of the reference to the minimum.
    Where this proves it right to 1e-6, z must agree to 1e-5, both absolute.  Everywhere, compared or not, our
    gradient must be at the float64 floor and our value no higher than that of the reference.
    """
    rng = np.random.default_rng(seed)
    compared = untouched = 0
    for _ in range(problems):
        total, dual, y, target, rho = random_problem(rng)
        ours = cross_entropy_prox(torch.from_numpy(total)[None], torch.from_numpy(dual)[None], target, rho)[0].numpy()
        assert_stationary(ours, total, dual, y, rho)

        move, polished = scipy_move(total, dual, y, rho)
        value, slope = objective(move, total, dual, y, rho)
        assert objective(ours - total, total, dual, y, rho)[0] <= value + 1e-12 * max(1.0, abs(value))

        if np.linalg.norm(slope) / rho <= 1e-6:
            compared += 1
            untouched += not polished
            assert np.abs(ours - (total + move)).max() <= 1e-5
    return compared / problems, untouched / problems


def test_agrees_with_scipy_on_60_problems() -> None:
    compared, untouched = compare_with_scipy(60, seed=1)
    assert compared >= 0.98
    assert untouched >= 0.8


@pytest.mark.long
def test_agrees_with_scipy_on_1000_problems() -> None:
    compared, untouched = compare_with_scipy(1000, seed=2)
    assert compared >= 0.98
    assert untouched >= 0.8


@pytest.mark.parametrize("soft", [False, True])
@pytest.mark.parametrize("rho", [1e-3, 0.5, 1.0, 2.0, 1e3])
def test_dual_update_gives_softmax_minus_label(rho: float, soft: bool) -> None:
    """After dual <- dual + rho (v - z) the dual is softmax(z) - y: this is the optimality condition of z."""
    total, dual, hard, mixed = random_rows(3, 200, 10, size=20.0)
    target, y = (mixed, mixed) if soft else (hard, one_hot(hard, 10))
    z = cross_entropy_prox(total, dual, target, rho)
    torch.testing.assert_close(dual + rho * (total - z), z.softmax(1) - y, rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    ("total", "dual", "rho"),
    [((0.0, 0.0), (0.0, 0.0), 1.0), ((3.0, -1.0), (-0.4, 0.4), 0.01), ((-50.0, 70.0), (0.3, 0.1), 5.0)],
)
def test_two_classes_by_hand(total: tuple[float, float], dual: tuple[float, float], rho: float) -> None:
    """With two classes and y = (1, 0) the two conditions p + rho z = c, c = y + dual + rho v, separate.

    Their sum is 1 + rho (z1 + z2) = c1 + c2.  Their difference, with D = z1 - z2 and p1 - p2 = tanh(D/2), is
    tanh(D/2) + rho D = c1 - c2: one increasing function of one number.
    """
    c1, c2 = 1.0 + dual[0] + rho * total[0], dual[1] + rho * total[1]
    both = (c1 + c2 - 1.0) / rho
    gap = brentq(lambda d: math.tanh(d / 2) + rho * d - (c1 - c2), -1e4, 1e4, xtol=1e-13, rtol=1e-14)
    v, multiplier = torch.tensor([[total], [dual]], dtype=torch.float64)
    z = cross_entropy_prox(v, multiplier, torch.tensor([0]), rho)
    assert z[0].tolist() == pytest.approx([(both + gap) / 2, (both - gap) / 2], abs=1e-9)


def test_rows_are_independent() -> None:
    """A hard row, which needs more Newton steps, must not change the easy rows solved beside it."""
    total, dual, hard, _ = random_rows(4, 40, 30, size=1.0)
    total *= torch.logspace(-2, 4, 40, dtype=torch.float64)[:, None]
    together = cross_entropy_prox(total, dual, hard, 0.01)
    alone = [cross_entropy_prox(total[j : j + 1], dual[j : j + 1], hard[j : j + 1], 0.01) for j in range(40)]
    torch.testing.assert_close(together, torch.cat(alone), rtol=1e-13, atol=1e-12)


def test_class_number_equals_one_hot_label() -> None:
    total, dual, hard, _ = random_rows(5, 50, 7, size=10.0)
    as_soft = cross_entropy_prox(total, dual, one_hot(hard, 7), 0.7)
    torch.testing.assert_close(cross_entropy_prox(total, dual, hard, 0.7), as_soft, rtol=0, atol=1e-12)


@pytest.mark.parametrize("rho", [1e-3, 1.0, 1e3])
@pytest.mark.parametrize("classes", [2, 1000])
def test_corners_converge_in_few_steps(classes: int, rho: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ties, a lone leader, staircases of geometric gaps and a ramp, at every scale up to 1e4."""
    monkeypatch.setattr(prox, "MAX_STEPS", 12)
    steps = torch.arange(classes, dtype=torch.float64)
    shapes = [steps * 0, (steps == 0).double(), -(0.5**steps), 0.9**steps, steps / classes, (steps < 2).double()]
    scales = 10.0 ** torch.arange(-3, 5, dtype=torch.float64)
    total = torch.cat([shape * scales[:, None] for shape in shapes])
    target = torch.arange(len(total)) % classes
    z = cross_entropy_prox(total, torch.zeros_like(total), target, rho)
    y = one_hot(target, classes).numpy()
    assert_stationary(z.numpy(), total.numpy(), np.zeros_like(y), y, rho)


@settings(deadline=None)
@given(data=st.data(), classes=st.integers(1, 30), log_rho=st.floats(-3, 3))
def test_gradient_is_zero(data: st.DataObject, classes: int, log_rho: float) -> None:
    def row(lowest: float, highest: float) -> Row:
        return np.array(data.draw(st.lists(st.floats(lowest, highest), min_size=classes, max_size=classes)))

    rho, total, dual, y = 10.0**log_rho, row(-1e4, 1e4), row(-5, 5), softmax(row(-30, 30))
    v, multiplier, target = torch.from_numpy(np.stack([total, dual, y])[:, None])
    assert_stationary(cross_entropy_prox(v, multiplier, target, rho)[0].numpy(), total, dual, y, rho)


def test_float32_stays_float32_and_inputs_stay_as_they_were() -> None:
    total, dual, hard, _ = random_rows(6, 20, 5, size=10.0)
    inputs = total.float().requires_grad_(), dual.float(), hard
    before = [part.detach().clone() for part in inputs]
    z = cross_entropy_prox(*inputs, 1.0)
    assert z.dtype == torch.float32
    assert not z.requires_grad
    assert all(torch.equal(part.detach(), old) for part, old in zip(inputs, before, strict=True))
    torch.testing.assert_close(z.double(), cross_entropy_prox(total, dual, hard, 1.0), rtol=1e-6, atol=1e-5)


def test_empty_batch() -> None:
    nothing = torch.zeros(0, 4)
    assert cross_entropy_prox(nothing, nothing, torch.zeros(0, dtype=torch.int64), 1.0).shape == (0, 4)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("place", [0, 1, 2])
def test_values_that_are_not_finite(place: int, bad: float) -> None:
    total, dual, _, soft = random_rows(7, 4, 3, size=1.0)
    (total, dual, soft)[place][2, 1] = bad
    with pytest.raises(TrainingError, match="not finite"):
        cross_entropy_prox(total, dual, soft, 1.0)


@pytest.mark.parametrize("rho", [0.0, -1.0, math.nan, math.inf])
def test_rho_must_be_positive(rho: float) -> None:
    total, dual, hard, _ = random_rows(8, 4, 3, size=1.0)
    with pytest.raises(TrainingError, match="rho"):
        cross_entropy_prox(total, dual, hard, rho)


def test_shapes_must_fit() -> None:
    total, dual, hard, soft = random_rows(9, 4, 3, size=1.0)
    for parts in [(total[0], dual[0], soft[0]), (total, dual[:, :1], hard), (total, dual, hard[:, None])]:
        with pytest.raises(TrainingError, match="correct the shapes"):
            cross_entropy_prox(*parts, 1.0)


def test_no_convergence_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    total, dual, hard, _ = random_rows(10, 8, 10, size=10.0)
    monkeypatch.setattr(prox, "MAX_STEPS", 1)
    with pytest.raises(TrainingError, match="did not converge in 1 Newton steps"):
        cross_entropy_prox(total, dual, hard, 0.1)


def test_wright_omega_against_scipy() -> None:
    x = torch.cat([torch.linspace(-100, 100, 40_001, dtype=torch.float64), torch.logspace(2, 9, 200).double()])
    torch.testing.assert_close(prox._wright_omega(x), torch.from_numpy(wrightomega(x.numpy())), rtol=1e-13, atol=0)


# Weights, squared error and logistic loss


@pytest.mark.parametrize("soft_labels", [False, True])
@pytest.mark.parametrize("rho", [1e-3, 0.1, 1.0, 30.0, 1e3])
def test_a_weight_is_another_rho_and_dual(rho: float, soft_labels: bool) -> None:
    """min w CE - <dual, z> + rho/2 |.|^2 is, divided by w, the plain problem with dual / w and rho / w."""
    total, dual, hard, soft = random_rows(11, 60, 8, size=20.0)
    target = soft if soft_labels else hard
    weights = torch.logspace(-2, 2, 60, dtype=torch.float64)[:, None]
    together = cross_entropy_prox(total, dual, target, rho, weights)
    for j, w in enumerate(weights[:, 0].tolist()):
        row = slice(j, j + 1)
        alone = cross_entropy_prox(total[row], dual[row] / w, target[row], rho / w)
        torch.testing.assert_close(together[row], alone, rtol=1e-12, atol=1e-10)


def test_weights_of_one_change_nothing_but_rounding() -> None:
    total, dual, hard, _ = random_rows(12, 50, 7, size=10.0)
    ones = torch.ones(50, 1, dtype=torch.float64)
    weighted = cross_entropy_prox(total, dual, hard, 0.7, ones)
    torch.testing.assert_close(weighted, cross_entropy_prox(total, dual, hard, 0.7), rtol=0, atol=1e-12)


def test_squared_by_hand_and_against_scipy() -> None:
    rng = np.random.default_rng(3)
    for _ in range(50):
        rho, (total, dual, y) = 10.0 ** rng.uniform(-3, 3), rng.normal(size=(3, 1, 4)) * 10.0 ** rng.uniform(-1, 3)
        z = squared_prox(*map(torch.from_numpy, (total, dual, y)), rho).numpy()
        np.testing.assert_allclose(z, (y + dual + rho * total) / (1 + rho), rtol=1e-12, atol=1e-12)
        slope = z - y - dual + rho * (z - total)
        assert np.abs(slope).max() <= 1e-12 * (1 + rho) * (1 + np.abs([total, dual, y]).max())

    def value(z: Row) -> float:
        return float(((z - 3) ** 2 / 2 + 2 * z + 0.25 * (1 - z) ** 2).sum())

    (found,) = minimize(value, np.zeros(1), method="L-BFGS-B").x
    one = torch.ones(1, 1, dtype=torch.float64)
    assert squared_prox(one, -2 * one, 3 * one, 0.5).item() == pytest.approx(found, abs=1e-6)


@settings(deadline=None)
@given(
    total=st.floats(-1e4, 1e4),
    dual=st.floats(-5, 5),
    y=st.floats(0, 1),
    log_rho=st.floats(-3, 3),
    log_weight=st.floats(-2, 2),
)
def test_logistic_gradient_is_zero(total: float, dual: float, y: float, log_rho: float, log_weight: float) -> None:
    rho, w = 10.0**log_rho, 10.0**log_weight
    entries = [torch.tensor([[value]], dtype=torch.float64) for value in (total, dual, y)]
    z = logistic_prox(*entries, rho, torch.tensor([[w]], dtype=torch.float64)).item()
    floor = 1.0 + w + abs(z) + rho * (abs(z) + abs(total)) + abs(dual)
    assert abs(w * (expit(z) - y) - dual + rho * (z - total)) <= 1e-13 * floor


def test_logistic_against_brentq() -> None:
    rng = np.random.default_rng(4)
    for _ in range(300):
        rho, w = 10.0 ** rng.uniform(-3, 3), 10.0 ** rng.uniform(-1, 1)
        total, dual, y = rng.uniform(-1, 1) * 10.0 ** rng.uniform(-1, 3), rng.normal(), float(rng.integers(2))
        s = total + (w * y + dual) / rho

        def slope(z: float, s: float = s, c: float = w / rho) -> float:
            return float(z + c * expit(z) - s)

        expected = brentq(slope, s - w / rho - 1, s + 1, xtol=1e-12, rtol=1e-14)
        entries = [torch.tensor([[value]], dtype=torch.float64) for value in (total, dual, y)]
        found = logistic_prox(*entries, rho, torch.tensor([[w]], dtype=torch.float64)).item()
        assert found == pytest.approx(expected, abs=1e-10, rel=1e-11)


@pytest.mark.parametrize("rho", [1e-3, 1.0, 1e3])
def test_logistic_corners_converge_in_few_steps(rho: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prox, "MAX_STEPS", 9)
    sizes = 10.0 ** torch.arange(-3, 5, dtype=torch.float64)
    total = torch.cat([-sizes, torch.zeros(1), sizes])[:, None].expand(-1, 2)
    target = torch.tensor([0.0, 1.0], dtype=torch.float64).expand_as(total)
    z = logistic_prox(total, torch.zeros_like(total), target, rho)
    torch.testing.assert_close(
        z, -logistic_prox(-total, torch.zeros_like(total), 1 - target, rho), rtol=1e-12, atol=1e-12
    )


def test_two_classes_and_one_logistic_label_agree() -> None:
    """A softmax over two logits moves their difference as a logistic loss does, with twice the rho on half of it."""
    total, dual, hard, _ = random_rows(13, 30, 2, size=5.0)
    both = cross_entropy_prox(total, dual, hard, 0.5)
    gap = [(part[:, 1] - part[:, 0])[:, None] for part in (total, dual / 2)]
    alone = logistic_prox(*gap, hard[:, None].double(), 0.25)
    torch.testing.assert_close((both[:, 1] - both[:, 0])[:, None], alone, rtol=0, atol=1e-10)


@pytest.mark.parametrize("solve", [squared_prox, logistic_prox])
def test_the_others_refuse_the_same(solve: Any) -> None:
    total, dual, hard, soft = random_rows(14, 4, 3, size=1.0)
    with pytest.raises(TrainingError, match="rho"):
        solve(total, dual, soft, 0.0)
    with pytest.raises(TrainingError, match="correct the shapes"):
        solve(total, dual, hard, 1.0)
    assert solve(total.float(), dual.float(), soft.float(), 1.0).dtype == torch.float32
    soft[0, 0] = math.nan
    with pytest.raises(TrainingError, match="not finite"):
        solve(total, dual, soft, 1.0)


def test_no_convergence_of_the_logistic_step_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prox, "MAX_STEPS", 1)
    total, dual, _, soft = random_rows(15, 8, 10, size=10.0)
    with pytest.raises(TrainingError, match="did not converge in 1 Newton steps"):
        logistic_prox(total, dual, soft, 0.1)
