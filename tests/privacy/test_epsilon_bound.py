"""What guesses about canaries refute: against brute force over all private mechanisms, and in simulated audits."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.stats import beta, binom

from colonnade.errors import ConfigError
from colonnade.privacy.epsilon_bound import one_run, p_value, separate_runs


@pytest.mark.parametrize("epsilon", [0.0, 0.5, 3.0])
@pytest.mark.parametrize(("guesses", "correct"), [(1, 1), (20, 0), (20, 13), (500, 480)])
def test_pure_epsilon_is_a_binomial_tail(guesses: int, correct: int, epsilon: float) -> None:
    chance = 1.0 / (1.0 + math.exp(-epsilon))
    assert p_value(2 * guesses, guesses, correct, epsilon) == pytest.approx(binom.sf(correct - 1, guesses, chance))


def most_possible(canaries: int, guesses: int, correct: int, epsilon: float, delta: float) -> float:
    """The largest probability of so many right guesses over all (epsilon, delta)-private mechanisms.

    A linear programme over the probability of every list of guesses given every list of coins.
    """
    coins = list(itertools.product((-1, 1), repeat=canaries))
    outputs = [guess for guess in itertools.product((-1, 0, 1), repeat=canaries) if np.abs(guess).sum() == guesses]
    pairs = [
        (one, other)
        for one, other in itertools.permutations(range(len(coins)), 2)
        if np.not_equal(coins[one], coins[other]).sum() == 1
    ]
    width, chances = len(outputs), len(coins) * len(outputs)
    gain = np.zeros(chances + len(pairs) * width)
    for number, (secret, guess) in enumerate(itertools.product(coins, outputs)):
        gain[number] = -float(np.equal(secret, guess).sum() >= correct) / len(coins)
    sums = np.zeros((len(coins), len(gain)))
    for number in range(len(coins)):
        sums[number, number * width : (number + 1) * width] = 1.0
    limits, limit = [], []
    for place, (one, other) in enumerate(pairs):
        first = chances + place * width  # how much likelier each output is than epsilon allows
        for output in range(width):
            row = np.zeros(len(gain))
            row[one * width + output], row[other * width + output], row[first + output] = 1.0, -math.exp(epsilon), -1.0
            limits, limit = [*limits, row], [*limit, 0.0]
        total = np.zeros(len(gain))
        total[first : first + width] = 1.0
        limits, limit = [*limits, total], [*limit, delta]
    found = linprog(gain, A_ub=np.array(limits), b_ub=limit, A_eq=sums, b_eq=np.ones(len(coins)), method="highs")
    return float(-found.fun)


@pytest.mark.parametrize("epsilon", [0.3, 1.5])
@pytest.mark.parametrize("delta", [0.0, 0.01, 0.1])
@pytest.mark.parametrize(("canaries", "guesses", "correct"), [(1, 1, 1), (2, 2, 2), (2, 1, 1), (3, 2, 2), (3, 3, 3)])
def test_no_private_mechanism_lets_more_be_guessed(
    canaries: int, guesses: int, correct: int, epsilon: float, delta: float
) -> None:
    possible = most_possible(canaries, guesses, correct, epsilon, delta)
    bound = p_value(canaries, guesses, correct, epsilon, delta)
    assert possible <= bound + 1e-9
    if delta == 0.0:
        assert possible == pytest.approx(bound), "randomised response reaches it"
    else:
        assert possible > p_value(canaries, guesses, correct, epsilon), "delta allows more, so the term is needed"


def most_of_all(canaries: int, correct: int, epsilon: float, delta: float) -> float:
    """The same if every canary is guessed: only the number of right guesses matters then, so many canaries are easy.

    Of outputs in which a canary is guessed right, x of the others being right, the share that is likelier than epsilon
    allows adds up to delta at most.
    """
    gain, limits = np.zeros(2 * canaries + 1), np.zeros((canaries + 1, 2 * canaries + 1))
    gain[correct : canaries + 1] = -1.0
    for x in range(canaries):
        limits[x, x + 1] = (x + 1) / canaries
        limits[x, x] = -math.exp(epsilon) * (canaries - x) / canaries
        limits[x, canaries + 1 + x] = -1.0
    limits[canaries, canaries + 1 :] = 1.0
    sums = np.concatenate([np.ones(canaries + 1), np.zeros(canaries)])[None]
    found = linprog(gain, A_ub=limits, b_ub=[0.0] * canaries + [delta], A_eq=sums, b_eq=[1.0], method="highs")
    return float(-found.fun)


@pytest.mark.parametrize("epsilon", [0.5, 1.5, 3.0])
@pytest.mark.parametrize("delta", [0.0, 1e-4, 1e-2])
def test_no_private_mechanism_lets_more_of_many_be_guessed(epsilon: float, delta: float) -> None:
    canaries = 60
    for correct in range(1, canaries + 1):
        bound = p_value(canaries, canaries, correct, epsilon, delta)
        if bound < 0.5:
            assert most_of_all(canaries, correct, epsilon, delta) <= bound + 1e-7


@pytest.mark.parametrize(
    ("counts", "delta", "printed"), [((1000, 100, 75), 1e-4, 0.673), ((100_000, 1510, 1439), 1e-5, 2.675)]
)
def test_figures_that_the_paper_prints(counts: tuple[int, int, int], delta: float, printed: float) -> None:
    """Appendix D and figure 11 of arXiv:2305.08846v1, to their last digit."""
    assert one_run(*counts, delta) == pytest.approx(printed, abs=1e-3)


@pytest.mark.parametrize("delta", [0.0, 1e-5, 1e-3])
def test_more_right_guesses_prove_more_and_a_larger_delta_proves_less(delta: float) -> None:
    for bound in (one_run, separate_runs):
        proved = [bound(1000, 400, right, delta) for right in range(0, 401, 25)]
        assert proved == sorted(proved) and proved[0] == 0.0 and proved[-1] > 1.5
        assert bound(1000, 400, 390, delta) >= bound(1000, 400, 390, 2 * delta + 1e-6)
        assert bound(1000, 400, 390, delta, 0.99) < bound(1000, 400, 390, delta, 0.9)


@pytest.mark.parametrize("delta", [0.0, 1e-6, 1e-4])
@pytest.mark.parametrize(("canaries", "guesses", "correct"), [(100, 100, 90), (5000, 300, 290), (2000, 2000, 1999)])
def test_what_is_refuted_is_an_interval_from_zero(canaries: int, guesses: int, correct: int, delta: float) -> None:
    """The search halves an interval, which is right only if a larger epsilon is never easier to refute."""
    chances = [p_value(canaries, guesses, correct, epsilon, delta) for epsilon in np.linspace(0.0, 12.0, 241)]
    unlikely = [chance for chance in chances if chance < 0.5]
    assert unlikely == sorted(unlikely) and chances.index(max(chances)) >= len(unlikely)
    assert p_value(canaries, guesses, correct, one_run(canaries, guesses, correct, delta), delta) <= 0.05


def test_separate_runs_are_clopper_and_pearson() -> None:
    right, wrong = beta.ppf(0.025, 700, 1000 - 700 + 1), beta.ppf(0.975, 20 + 1, 1000 - 20)
    assert separate_runs(1000, 720, 700, 1e-3) == pytest.approx(math.log((right - 1e-3) / wrong))
    assert separate_runs(1000, 0, 0) == separate_runs(1000, 100, 50) == 0.0


@pytest.mark.parametrize("bound", [one_run, separate_runs])
def test_an_audit_of_randomised_response_is_wrong_one_time_in_twenty_at_most(bound: object) -> None:
    """Randomised response of epsilon 1.2 has nothing to spare, so this is the worst case."""
    rng, canaries, epsilon = np.random.default_rng(0), 300, 1.2
    right = rng.binomial(canaries, 1.0 / (1.0 + math.exp(-epsilon)), size=2000)
    proved = {count: bound(canaries, canaries, int(count)) for count in np.unique(right)}  # type: ignore[operator]
    wrong = np.mean([proved[count] > epsilon for count in right])
    assert wrong <= 0.05 + 0.015
    assert np.median(list(map(proved.get, right))) > 0.7 * epsilon, "and it is not so by proving nothing"


def test_an_unlikely_delta_cannot_be_told_from_a_small_one() -> None:
    """The case that delta allows: one time in twenty everything is shown. One run must not call that a violation."""
    canaries = 400
    assert p_value(canaries, canaries, canaries, 1.0, 0.05) >= 0.05
    assert one_run(canaries, canaries, canaries, 0.05) == 0.0


@pytest.mark.parametrize("counts", [(10, 11, 5), (10, 5, 6), (10, 5, -1)])
def test_counts_that_cannot_be_are_refused(counts: tuple[int, int, int]) -> None:
    for bound in (one_run, separate_runs):
        with pytest.raises(ConfigError, match="cannot be; expected at most as many right"):
            bound(*counts)
