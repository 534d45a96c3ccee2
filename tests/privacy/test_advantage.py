"""Metrics against scikit-learn, intervals against what they promise, and words against their bounds."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import r2_score, roc_auc_score

from colonnade.privacy.advantage import Advantage, auc, judge_of, measure_advantage
from colonnade.privacy.material import Material
from colonnade.privacy.verdict import Attempt, Verdict, worst_of


def material(truth, classes=0, secret="labels", scored=None):
    rows = np.arange(len(truth)) if scored is None else scored
    known = np.arange(0, len(truth), 3)
    return Material("lab", "owner", secret, truth, classes, known=known, scored=rows)


def random(seed=0):
    return np.random.default_rng(seed)


def test_the_area_is_that_of_scikit_learn_with_ties_and_weights():
    rng = random()
    truth, scores = rng.integers(0, 2, 300), rng.integers(0, 20, 300).astype(float)
    counts = rng.multinomial(300, np.full(300, 1 / 300), size=5)
    expected = [roc_auc_score(truth, scores, sample_weight=weight) for weight in counts]
    np.testing.assert_allclose(auc(truth, scores, counts), expected)


def test_r2_is_over_standardised_columns_against_the_mean_of_the_known_rows():
    rng = random()
    truth = rng.standard_normal((400, 3)) * [1, 1000, 0.001]
    guess = truth + rng.standard_normal((400, 3)) * [0.5, 500, 0.0001]
    judge = judge_of(material(truth, secret="columns"))
    each = [r2_score(truth[:, k], guess[:, k]) for k in range(3)]
    assert judge.score(guess, np.ones((1, 400)))[0] == pytest.approx(np.mean(each), abs=0.01)
    best, score = judge.best_column(guess)
    assert best == 2 and score == pytest.approx(each[2], abs=0.01)


def test_a_constant_column_and_guesses_that_are_no_numbers_do_no_harm():
    truth = np.stack([np.ones(200), random().standard_normal(200)], axis=1)
    judge = judge_of(material(truth, secret="columns"))
    guess = truth.copy()
    assert judge.score(guess, np.ones((1, 200)))[0] == pytest.approx(1.0)
    guess[:] = np.nan
    assert judge.score(guess, np.ones((1, 200)))[0] == pytest.approx(0.0)
    binary = judge_of(material(np.arange(200) % 2, classes=2))
    assert binary.score(np.full(200, np.nan), np.ones((1, 200)))[0] == 0.5


def test_the_interval_of_a_known_advantage_covers_it():
    """Guesses that are right in 70 of 100 rows: the advantage over ten equal classes is (0.7 - 0.1) / 0.9."""
    covered = 0
    for seed in range(60):
        rng = random(seed)
        truth = rng.integers(0, 10, 400)
        guess = np.where(rng.random(400) < 2 / 3, truth, rng.integers(0, 10, 400))
        found = measure_advantage(judge_of(material(truth, classes=10)), guess, rng.integers(0, 10, 400), rng)
        covered += found.low <= (0.7 - 0.1) / 0.9 <= found.high
    assert covered >= 52  # 57 are expected of 60; the control's own luck costs little


def test_lower_bounds_hold_for_all_attacks_together():
    rng = random()
    truth = rng.integers(0, 2, 500)
    guess, control = truth + rng.standard_normal(500), rng.standard_normal(500)
    one, many = (
        measure_advantage(judge_of(material(truth, classes=2)), guess, control, random(), family) for family in (1, 30)
    )
    assert many.low < one.low < one.value < one.high == many.high


def test_the_wrong_way_round_is_not_turned():
    truth = np.arange(400) % 2
    found = measure_advantage(judge_of(material(truth, classes=2)), -truth.astype(float), np.zeros(400), random())
    assert found.inverted and found.low < 0
    assert Attempt("a", found, control_passed=True).word == "not decided"


@pytest.mark.parametrize("classes", [2, 10])
def test_a_few_rows_that_the_control_leaves_open_do_not_prove_that_all_can_be_read(classes):
    """The control misses one row of twenty, and the attack none of these few."""
    rng = random()
    truth = np.arange(200) % classes
    control = truth.astype(float) if classes == 2 else truth.copy()
    missed = rng.choice(200, 10, replace=False)
    control[missed] = (truth[missed] + 1) % classes
    found = measure_advantage(judge_of(material(truth, classes=classes)), truth, control, rng, family=20)
    assert found.value == 1.0 and 0.1 < found.low < 0.9


def test_eight_rows_of_a_class_do_not_prove_that_all_can_be_read():
    truth = (np.arange(200) < 8).astype(int)
    found = measure_advantage(judge_of(material(truth, classes=2)), truth, np.zeros(200), random())
    assert found.value == 1.0 and 0.1 < found.low < 0.9
    many = measure_advantage(
        judge_of(material(np.arange(200) % 2, classes=2)), np.arange(200) % 2, np.zeros(200), random()
    )
    assert many.low > 0.9


@pytest.mark.parametrize(("rows", "excluded"), [(200, False), (1000, True)])
def test_who_falls_back_on_the_control_excludes_no_more_than_so_many_rows_can(rows, excluded):
    guess = random().standard_normal(rows)
    found = measure_advantage(judge_of(material(np.arange(rows) % 2, classes=2)), guess, guess, random())
    assert found.value == 0 and (found.high < 0.1) == excluded


def advantage(low, high, **more):
    return Advantage("AUC", 0.7, 0.6, 0.8, 0.5, (low + high) / 2, low, high, 400, **more)


@pytest.mark.parametrize(
    ("low", "high", "passed", "word"),
    [
        (0.95, 1.0, True, "read"),
        (0.9, 1.0, False, "read"),
        (0.3, 0.5, True, "leaks"),
        (0.05, 0.3, True, "hints"),
        (-0.05, 0.05, True, "nothing found"),
        (-0.05, 0.05, False, "not decided"),
        (-0.05, 0.2, True, "not decided"),
        (0.0, 0.05, True, "nothing found"),
    ],
)
def test_words_follow_from_the_bounds(low, high, passed, word):
    assert Attempt("a", advantage(low, high), control_passed=passed).word == word


def test_the_worst_attack_decides():
    nothing = Attempt("a", advantage(-0.1, 0.05), control_passed=True, story="nothing.")
    leak = Attempt("b", advantage(0.4, 0.5), control_passed=True, story="a leak.")
    void = Attempt("c", advantage(-0.1, 0.3), control_passed=False, why="it fails")
    wide = Attempt("d", advantage(-0.1, 0.3), control_passed=True, story="too few rows.")
    left = Attempt("e", why="it did not fit")

    def verdict(*attempts):
        return Verdict("lab", "owner", "labels", attempts)

    assert verdict(nothing, leak, void).word == "leaks" and verdict(nothing, leak).sentence == "a leak."
    assert verdict(nothing, void, left).word == "nothing found"
    assert verdict(nothing, wide).word == "not decided"
    assert verdict(void).word == "not decided"
    assert verdict(left).word == "not tested" and "it did not fit" in verdict(left).sentence
    assert verdict(nothing, void, left).untried == ["c (it fails)", "e (it did not fit)"]
    assert worst_of([verdict(nothing).word, verdict(leak).word]) == "leaks"
