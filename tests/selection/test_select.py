"""The parts of a selection: the estimator, Fagin's algorithms, the strategies, shares."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import digamma
from sklearn.feature_selection._mutual_info import _compute_mi_cd

from colonnade.core.schedule import permutation
from colonnade.errors import ConfigError, MessageError, TableError
from colonnade.selection import strategies
from colonnade.selection.distances import (
    checked_distances,
    checked_ranks,
    draw_sample,
    packed,
    squared_distances,
    standardised,
    unpacked,
)
from colonnade.selection.fagin import nearest, touched_by_order, touched_by_threshold
from colonnade.selection.information import Estimate, information, ranks, same_class
from colonnade.selection.participation import Participation, how_many, information_of_embeddings, participants
from colonnade.selection.row_order import Secret


def mixture(rows=600, classes=3, apart=2.0, seed=0):
    """One column, a Gaussian per class."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, classes, rows)
    return torch.tensor(rng.normal(labels * apart, 1.0)[:, None]), torch.tensor(labels)


def estimated(column, labels, neighbours=3):
    return information(ranks(squared_distances(column, len(column))), labels, neighbours).value


# the estimator


@pytest.mark.parametrize("neighbours", [1, 3, 7])
@pytest.mark.parametrize("apart", [0.0, 0.5, 2.0, 10.0])
def test_one_column_is_estimated_as_scikit_learn_does(apart, neighbours):
    column, labels = mixture(apart=apart)
    theirs = _compute_mi_cd(column[:, 0].numpy().copy(), labels.numpy(), neighbours)
    assert max(0.0, estimated(column, labels, neighbours)) == pytest.approx(theirs, abs=1e-9)


def test_many_columns_and_few_queries_are_estimated_as_the_slow_reference_does():
    rng = np.random.default_rng(1)
    labels, columns = rng.integers(0, 4, 80), rng.normal(size=(80, 5))
    columns[:, 0] += labels
    each = []
    for q in range(20):
        distance = ((columns - columns[q]) ** 2).sum(1)
        others = [n for n in range(80) if n != q]
        radius = sorted(distance[n] for n in others if labels[n] == labels[q])[2]
        m = sum(distance[n] <= radius for n in others)
        each.append(digamma(80) - digamma((labels == labels[q]).sum()) + digamma(3) - digamma(m))
    found = information(ranks(squared_distances(torch.tensor(columns), 20)), torch.tensor(labels))
    assert found.each.tolist() == pytest.approx(each)
    assert found.error == pytest.approx(np.std(each, ddof=1) / math.sqrt(20))


@pytest.mark.parametrize("apart", [0.0, 1.0, 3.0, 8.0])
def test_gaussian_mixtures_have_the_information_that_they_have(apart):
    column, labels = mixture(2000, 2, apart)
    x = np.linspace(-12, 12 + apart, 40001)
    bell = [np.exp(-((x - mean) ** 2) / 2) / math.sqrt(2 * math.pi) for mean in (0.0, apart)]
    both = (bell[0] + bell[1]) / 2
    terms = [
        np.where(one > 1e-300, one * np.log(np.maximum(one, 1e-300) / np.maximum(both, 1e-300)), 0) for one in bell
    ]
    truth = float(np.trapezoid(sum(terms) / 2, x))
    assert estimated(column, labels) == pytest.approx(truth, abs=0.04)


def test_ties_do_not_make_information():
    labels = torch.arange(200) % 2
    assert abs(estimated(torch.zeros(200, 1), labels)) < 0.02
    assert estimated(labels[:, None].double(), labels) == pytest.approx(math.log(2), abs=0.02)
    assert abs(estimated(torch.arange(200)[:, None] // 40.0, labels)) < 0.05


def test_only_the_order_counts():
    column, _ = mixture(100)
    distances = squared_distances(column, 40)
    stretched = (distances * torch.rand(40, 1).add(0.5)).sqrt()
    assert torch.equal(ranks(distances), ranks(stretched))


def test_a_row_alone_in_its_class_says_nothing_and_classes_of_ones_are_refused():
    column, labels = mixture(60)
    labels[0] = 9
    assert len(information(ranks(squared_distances(column, 60)), labels).each) == 59
    with pytest.raises(TableError, match=r"no query has another row of its class among the 60 rows; use more rows"):
        information(ranks(squared_distances(column, 60)), torch.arange(60))


def test_small_classes_have_fewer_neighbours():
    column, labels = mixture(60, classes=2, apart=9.0)
    labels[:2] = 2
    column[:2] = torch.tensor([[50.0], [51.0]])
    assert math.isfinite(estimated(column, labels, neighbours=5))


def test_fewer_rows_than_neighbours_are_refused():
    column, labels = mixture(5)
    with pytest.raises(ConfigError, match=r"neighbours=5 were asked for among 5 rows; give more rows"):
        estimated(column, labels, neighbours=5)
    for neighbours in (0, 1.5, True):
        with pytest.raises(ConfigError, match="is out of range; give a whole number from 1"):
            estimated(column, labels, neighbours=neighbours)


# distances


def test_distances_add_up_over_parties():
    values = torch.randn(50, 9)
    parts = sum(squared_distances(part, 20) for part in values.split(3, dim=1))
    torch.testing.assert_close(parts, squared_distances(values, 20))


def test_standardised_columns_ignore_units_and_constants():
    values = torch.randn(100, 2)
    odd = torch.cat([values * torch.tensor([1000.0, 0.001]), torch.full((100, 1), 7.0)], dim=1)
    torch.testing.assert_close(
        squared_distances(standardised(odd), 9), squared_distances(standardised(values), 9), rtol=1e-3, atol=1e-3
    )


def test_samples_are_seeded_and_bounded():
    assert torch.equal(draw_sample(5000, 30, 100, 1).rows, draw_sample(5000, 30, 100, 1).rows)
    assert not torch.equal(draw_sample(5000, 30, 100, 1).rows, draw_sample(5000, 30, 100, 2).rows)
    assert draw_sample(50, 300, 1000, 0).shape == (50, 50)
    for queries, rows in ((501, 1000), (300, 2001), (0, 10), (10, 0)):
        with pytest.raises(ConfigError, match=r"is out of range; give a whole number from 1 to"):
            draw_sample(5000, queries, rows, 0)


@pytest.mark.parametrize(
    ("came", "told"),
    [
        (torch.zeros(2, 3), r"shop answered distances of shape \(2, 3\) where \(2, 4\) were asked for; check"),
        (
            torch.tensor([[0.0, 1, 2, 3], [0, 1, -2, 3]]),
            r"shop answered a squared distance of -2, and none is below 0;",
        ),
    ],
)
def test_wrong_distances_are_refused(came, told):
    with pytest.raises(MessageError, match=told):
        checked_distances(came, (2, 4), "shop")


@pytest.mark.parametrize("came", [torch.zeros(2, 3).short(), torch.zeros(2, 4), torch.full((2, 4), 4).short()])
def test_wrong_orders_are_refused(came):
    with pytest.raises(MessageError, match="shop answered"):
        checked_ranks(came, (2, 4), "shop")


def test_secrets_follow_from_their_key_alone():
    one, same, other = Secret.of_seed(1), Secret.of_seed(1), Secret.of_seed(2)
    assert torch.equal(one.order(99, "rows", 3), same.order(99, "rows", 3))
    for order in (one.order(99, "rows", 4), one.order(99, "queries", 3), other.order(99, "rows", 3)):
        assert not torch.equal(one.order(99, "rows", 3), order)
        assert order.sort().values.tolist() == list(range(99))
    lengths = one.lengths(1000, "units", 1)
    assert 0.5 <= float(lengths.min()) < 0.52 and 1.98 < float(lengths.max()) <= 2.0


# Fagin


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 6), st.integers(1, 40), st.integers(1, 8), st.integers(0, 10**6))
def test_fagin_finds_the_nearest_rows(parties, rows, count, seed):
    distances = torch.rand(parties, rows, generator=torch.Generator().manual_seed(seed))
    found = nearest(distances, count)
    assert sorted(found.rows.tolist()) == sorted(distances.sum(0).argsort()[:count].tolist())
    assert min(count, rows) <= found.touched <= rows
    lists = distances.argsort(1).argsort(1)[:, None]
    touched = touched_by_order(lists, torch.ones(1, rows, dtype=torch.bool), count)[0]
    assert bool(touched[found.rows].all()), "the threshold algorithm never sees more than Fagin's first"
    assert found.touched <= int(touched.sum())


@pytest.mark.parametrize("ties", [False, True])
def test_what_is_touched_is_enough_for_the_estimator(ties):
    generator = torch.Generator().manual_seed(0)
    values = torch.randn(5, 120, 2, generator=generator)
    values = values.round() if ties else values
    labels = torch.randint(0, 3, (120,), generator=generator)
    each = torch.stack([squared_distances(one, 50) for one in values])
    cells = touched_by_order(torch.stack([ranks(one) for one in each]), same_class(labels, 50), 3)
    some = ranks(torch.where(cells, each.sum(0), torch.inf))
    assert torch.equal(information(some, labels).each, information(ranks(each.sum(0)), labels).each)
    assert 0 < float(cells.float().mean()) < 1
    assert torch.equal(unpacked(packed(cells), 120), cells)


def test_few_parties_touch_few_rows():
    distances = torch.rand(8, 20, 300, generator=torch.Generator().manual_seed(0))
    shares = [touched_by_threshold(distances[:parties], 3) for parties in (1, 2, 4, 8)]
    assert shares == sorted(shares) and shares[0] == pytest.approx(3 / 300, abs=0.01)


# strategies


COLUMNS = {0: "abc", 1: "ab", 2: "cd", 3: "e", 4: "", 5: "abc"}


def covered(group):
    return Estimate(torch.full((4,), float(len(set().union(*(COLUMNS[k] for k in group))))))


def test_greedy_takes_what_adds_most_and_no_twin_and_no_noise():
    nobody = {}
    assert strategies.greedy(covered, range(6), 3, nobody, ()) == [0, 2, 3]
    assert strategies.greedy(covered, range(6), 6, {0: {5}, 5: {0}}, {4}) == [0, 2, 3, 1]
    assert strategies.greedy(covered, [4], 1, nobody, {4}) == [4], "somebody is always chosen"


def test_what_looks_like_noise_alone_may_be_chosen_beside_another():
    """Two parties that only together tell the label, as in an exclusive or."""

    def both(group):
        return Estimate(torch.full((4,), float({0, 1} <= set(group))))

    assert strategies.greedy(both, range(3), 3, {}, {0, 1, 2}) == [0, 1]


def test_groups_are_random_and_credit_their_members():
    groups = strategies.random_groups(range(12), 200, seed=0)
    assert all(groups) and groups == strategies.random_groups(range(12), 200, seed=0)
    assert np.mean([len(group) for group in groups]) == pytest.approx(6, abs=0.5)
    assert set(strategies.by_groups(covered, range(6), 2, tests=200, seed=0)) < {0, 2, 3, 5}
    assert strategies.by_single(covered, range(6), 2) == [0, 5]
    assert sorted(strategies.at_random(range(6), 6, seed=0)) == list(range(6))
    assert strategies.at_random(range(6), 3, seed=0) == permutation(6, 0, "at random")[:3].tolist()


# shares


def test_participants_are_the_best_share():
    assert participants([3.0, 1.0, 2.0, 0.0], 0.5) == [0, 2]
    assert participants([3.0, 1.0], 0.001) == [0]
    assert participants([1.0, 1.0, 1.0], 1.0) == [0, 1, 2]
    assert how_many(0.5, 14) == 7


@pytest.mark.parametrize("share", [0, 0.0, -0.5, 1.01, float("nan"), "half", True])
def test_a_share_that_selects_nobody_is_refused(share):
    with pytest.raises(
        ConfigError, match=r"of the parties selects nobody, or more than there are; give a number above 0"
    ):
        participants([1.0, 2.0], share)
    with pytest.raises(ConfigError, match="selects nobody"):
        Participation(share=share)


def test_scores_that_are_none_are_refused():
    with pytest.raises(ConfigError, match="no scores came"):
        participants([], 0.5)
    with pytest.raises(ConfigError, match="the score of party number 1 is nan"):
        participants([1.0, float("nan")], 0.5)


def test_parties_are_scored_anew_every_so_many_rounds():
    asked, now = [], []

    def score(number):
        asked.append(number)
        return [number % 2, 1 - number % 2]

    rule = Participation(share=0.5, every=3)
    seen = []
    for number in range(7):
        now = rule.of_round(number, now, lambda number=number: score(number))
        seen.append(now)
    assert asked == [0, 3, 6] and seen == [[1]] * 3 + [[0]] * 3 + [[1]]
    with pytest.raises(ConfigError, match="every=0 is out of range"):
        Participation(every=0)


def test_embeddings_are_scored_without_a_run():
    clear, labels = mixture(200, apart=9.0)
    scores = information_of_embeddings([squared_distances(x, 100) for x in (torch.randn(200, 1), clear)], labels)
    assert participants(scores, 0.5) == [1]
    with pytest.raises(MessageError, match=r"party number 1 answered distances of shape \(100, 199\)"):
        information_of_embeddings([torch.zeros(100, 200), torch.zeros(100, 199)], labels)
