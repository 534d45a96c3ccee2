"""The accountant against dp-accounting and against the closed form; the budget against its limit."""

import contextlib
import itertools
import math

import dp_accounting
import pytest
import torch
from dp_accounting import pld, rdp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.special import log_ndtr, ndtr
from torch import Tensor

from colonnade.errors import CheckpointError, ConfigError, PrivacyError, SealError
from colonnade.seal.accountant import Budget, epsilon, releases_within

SETTINGS = list(itertools.product([1, 3, 10, 30, 100, 300, 1000, 3000], [0.7, 1.5, 4.0, 10.0, 30.0], [1e-7, 1e-5]))
SETTINGS += list(itertools.product([2, 7, 20, 61, 150, 530], [1.0, 2.5, 5.0, 15.0, 25.0], [1e-8, 1e-6, 1e-5, 1e-3]))


def exact(releases: int, multiplier: float, delta: float) -> float:
    """Balle and Wang (ICML 2018): n Gaussian releases are one whose mean is sqrt(n) / multiplier."""
    mu = math.sqrt(releases) / multiplier

    def excess(eps: float) -> float:
        return float(ndtr(mu / 2 - eps / mu) - math.exp(eps + log_ndtr(-mu / 2 - eps / mu))) - delta

    return 0.0 if excess(0.0) <= 0 else float(brentq(excess, 0.0, 1e5, xtol=1e-12))


def theirs(releases: int, multiplier: float, delta: float, orders: list[float] | None = None) -> float:
    accountant = rdp.RdpAccountant(orders)
    accountant.compose(dp_accounting.GaussianDpEvent(multiplier), releases)
    return float(accountant.get_epsilon(delta))


def test_agrees_with_dp_accounting() -> None:
    """Theirs with fine orders is ours. Their own orders are few at the ends (epsilon 0.3 and 3,000): up to 5 % more."""
    assert len(SETTINGS) == 200
    fine = [1.0 + 10.0 ** (power / 50) for power in range(-150, 250)]
    for setting in SETTINGS:
        assert epsilon(*setting) == pytest.approx(theirs(*setting, fine), rel=0.001), setting
    ratios = [theirs(*setting) / epsilon(*setting) for setting in SETTINGS]
    assert min(ratios) > 1 - 1e-4 and max(ratios) < 1.06
    assert sum(ratio <= 1.01 for ratio in ratios) == 195


def test_is_never_below_the_truth() -> None:
    for releases, multiplier, delta in SETTINGS:
        truth = exact(releases, multiplier, delta)
        assert truth <= epsilon(releases, multiplier, delta) <= 1.25 * truth + 0.05, (releases, multiplier, delta)


@pytest.mark.parametrize(("releases", "multiplier"), [(10, 5.0), (10, 2.5), (10, 1.0), (61, 5.0), (530, 15.0)])
def test_is_never_below_the_privacy_loss_distribution(releases: int, multiplier: float) -> None:
    accountant = pld.PLDAccountant()
    accountant.compose(dp_accounting.GaussianDpEvent(multiplier), releases)
    truth = accountant.get_epsilon(1e-5)
    assert truth - 1e-3 <= epsilon(releases, multiplier, 1e-5) <= 1.12 * truth
    assert truth == pytest.approx(exact(releases, multiplier, 1e-5), abs=1e-3)


def test_the_numbers_in_the_notes() -> None:
    """Noise of 10, 5 and 2 clips in 10 epochs: 2.6, 5.8 and 17.9 exactly; VIM's 530 rounds at 30 clips: 7.25."""
    for sigma, releases, tight, ours in [(10, 10, 2.59, 2.81), (5, 10, 5.76, 6.21), (2, 10, 17.86, 19.05)]:
        assert exact(releases, sigma / 2, 1e-5) == pytest.approx(tight, abs=0.01)
        assert epsilon(releases, sigma / 2, 1e-5) == pytest.approx(ours, abs=0.01)
    assert exact(530, 15.0, 1e-5) == pytest.approx(7.25, abs=0.01)
    assert epsilon(530, 15.0, 1e-5) == pytest.approx(7.80, abs=0.01)
    assert epsilon(530, 30.0, 1e-5) == pytest.approx(3.50, abs=0.01), "what VIM's own accounting says"


@given(
    releases=st.integers(1, 5000),
    multiplier=st.floats(0.3, 50.0),
    delta=st.floats(1e-9, 1e-2),
    more=st.floats(1.01, 3.0),
)
def test_is_monotone(releases: int, multiplier: float, delta: float, more: float) -> None:
    spent = epsilon(releases, multiplier, delta)
    assert epsilon(releases + 1, multiplier, delta) >= spent
    assert epsilon(releases, multiplier * more, delta) <= spent
    assert epsilon(releases, multiplier, min(0.5, delta * more)) <= spent


@given(granted=st.floats(0.05, 100.0), multiplier=st.floats(0.3, 50.0), delta=st.floats(1e-9, 1e-2))
def test_releases_within_is_the_largest_number(granted: float, multiplier: float, delta: float) -> None:
    count = releases_within(granted, multiplier, delta)
    assert count >= 0
    assert epsilon(count, multiplier, delta) <= granted < epsilon(count + 1, multiplier, delta)


def test_refuses_what_makes_no_sense() -> None:
    with pytest.raises(ConfigError, match="multiplier=0"):
        epsilon(1, 0.0, 1e-5)
    with pytest.raises(ConfigError, match="delta=1"):
        epsilon(1, 1.0, 1.0)
    with pytest.raises(ConfigError, match="releases=-1"):
        epsilon(-1, 1.0, 1e-5)
    with pytest.raises(ConfigError, match="epsilon=inf"):
        releases_within(math.inf, 1.0, 1e-5)
    with pytest.raises(ConfigError, match="did you mean 'row'"):
        Budget("bank", epsilon=8.0, delta=1e-5, multiplier=5.0, unit="rows")


# The budget


def budget(unit: str = "row", multiplier: float = 5.0) -> Budget:
    return Budget("bank", epsilon=8.0, delta=1e-5, multiplier=multiplier, unit=unit)


def people(*numbers: int) -> Tensor:
    return torch.tensor(numbers, dtype=torch.int64)


def test_a_row_is_refused_exactly_at_the_limit_and_nothing_changes() -> None:
    mine = budget()
    for _ in range(mine.allowed):
        mine.spend(people(0, 2), "train")
    mine.spend(people(1), "train")
    before, facts = mine.state(), mine.summary()
    with pytest.raises(
        PrivacyError, match=r"'bank' was granted epsilon 8 .* 61 releases per row, and one of its rows has"
    ):
        mine.spend(people(1, 2), "evaluate")
    assert mine.summary() == facts and mine.releases == {"train": 62}
    assert all(torch.equal(mine.state()[name], value) for name, value in before.items())
    mine.spend(people(1), "train")
    mine.spend(people(3), "predict")
    assert mine.epsilon == epsilon(61, 5.0, 1e-5) <= 8.0


def test_a_first_message_beyond_the_limit_is_refused() -> None:
    mine = budget()
    with pytest.raises(PrivacyError, match="has spent epsilon 0 in 0 releases"):
        mine.spend(people(*[4] * 62), "train")
    assert mine.most_releases == 0 and mine.epsilon == 0.0


def test_duplicates_count_each() -> None:
    mine = budget()
    mine.spend(people(1, 1, 1, 0), "train")
    assert mine.most_releases == 3


def test_the_same_person_in_two_tables_counts_twice() -> None:
    mine = budget()
    train, test = people(-5, 2**63 - 1, 7), people(7, -(2**63))
    mine.spend(train, "train")
    mine.spend(test, "predict")
    assert mine.most_releases == 2
    for _ in range(mine.allowed - 2):
        mine.spend(test, "predict")
    with pytest.raises(PrivacyError, match=r"one of its rows has spent epsilon 7\.9\d* in 61 releases"):
        mine.spend(train, "train")
    mine.spend(train[:2], "train")


def test_the_refusal_is_about_the_person_who_would_overrun() -> None:
    mine = budget()
    for _ in range(60):
        mine.spend(people(1), "train")
    with pytest.raises(PrivacyError, match="in 60 releases; the message to train was not sent"):
        mine.spend(people(1, 2, 1), "train")
    assert mine.most_releases == 60


def test_a_large_table_is_counted_person_by_person() -> None:
    mine, everyone = budget(), torch.arange(60_000) * 0x1E3779B97F4A7C15
    for _ in range(2):
        mine.spend(everyone, "train")
    mine.spend(everyone[-1:], "train")
    saved = mine.state()
    assert mine.most_releases == 3 and len(saved["people"]) == 60_000 and int(saved["count"].sum()) == 120_001
    assert torch.equal(saved["people"], everyone.sort().values)
    assert saved["people"][saved["count"] == 3].tolist() == everyone[-1:].tolist()


def test_a_party_counts_all_messages_of_all_tables() -> None:
    mine = budget("party")
    for turn in range(mine.allowed):
        mine.spend(people(turn), "train")
    assert mine.most_releases == mine.allowed == 61
    assert mine.state()["people"].tolist() == [0] and mine.state()["count"].tolist() == [61]
    with pytest.raises(PrivacyError, match="61 releases per party, and it has spent"):
        mine.spend(people(0), "predict")


def test_a_restart_cannot_overspend() -> None:
    first = budget()
    for _ in range(40):
        first.spend(people(0, 1), "train")
    saved = first.state()
    second = budget()
    second.load(saved)
    for _ in range(21):
        second.spend(people(0), "train")
    with pytest.raises(PrivacyError):
        second.spend(people(0), "train")
    second.load(saved)
    with pytest.raises(PrivacyError):
        second.spend(people(0), "train")
    assert second.releases == {"train": 61}


def test_a_load_keeps_the_larger_count_of_everyone() -> None:
    first, second = budget(), budget()
    first.spend(people(1, 1, 1, 2, 3), "train")
    second.spend(people(2, 2, 4), "predict")
    second.seen = 3
    second.load(first.state())
    saved = second.state()
    assert saved["people"].tolist() == [1, 2, 3, 4] and saved["count"].tolist() == [3, 2, 1, 1]
    assert second.most_releases == 3 and second.seen == 3 and second.releases == {"predict": 1, "train": 1}


def test_the_state_does_not_depend_on_the_order() -> None:
    first, second = budget(), budget()
    first.spend(people(3, -1, 2, 3), "train")
    second.spend(people(2, 3, 3, -1), "train")
    assert first.state().keys() == second.state().keys()
    assert all(torch.equal(second.state()[name], value) for name, value in first.state().items())
    assert first.state()["people"].tolist() == [-1, 2, 3] and first.state()["count"].tolist() == [1, 1, 2]


def test_the_state_of_a_fresh_budget_loads() -> None:
    mine = budget()
    mine.load(mine.state())
    assert mine.most_releases == 0 and mine.releases == {}


def test_the_state_is_a_copy_of_whole_numbers() -> None:
    mine = budget()
    mine.spend(people(0), "train")
    saved = mine.state()
    mine.spend(people(0), "train")
    other = budget()
    other.load(saved)
    assert other.most_releases == 1 and mine.most_releases == 2
    assert all(value.dtype == torch.int64 for value in saved.values())


def test_counts_under_other_noise_are_refused() -> None:
    mine = budget(multiplier=1.0)
    mine.spend(people(5), "train")
    for other in (budget(multiplier=5.0), budget("party", multiplier=1.0)):
        with pytest.raises(CheckpointError, match="other noise"):
            other.load(mine.state())


@pytest.mark.parametrize("name", ["noise", "totals", "purpose/train", "people", "count"])
def test_a_damaged_state_is_refused(name: str) -> None:
    mine = budget()
    mine.spend(people(0), "train")
    facts = mine.summary()
    with pytest.raises(CheckpointError, match="'bank' is damaged"):
        mine.load({**mine.state(), name: torch.zeros(7)})
    if name != "noise":
        with pytest.raises(CheckpointError, match="'bank' is damaged"):
            mine.load({**mine.state(), name: torch.zeros(7, dtype=torch.int64)})
    if name != "purpose/train":
        with pytest.raises(CheckpointError, match=f"'bank' is damaged in {name}"):
            mine.load({key: value for key, value in mine.state().items() if key != name})
    assert mine.summary() == facts


@pytest.mark.parametrize("name", ["totals", "purpose/train", "count"])
def test_negative_counts_are_refused(name: str) -> None:
    mine = budget()
    mine.spend(people(5), "train")
    with pytest.raises(CheckpointError, match=f"'bank' is damaged in {name}"):
        mine.load({**mine.state(), name: -1 - mine.state()[name]})


def test_a_state_that_splits_a_person_is_refused() -> None:
    """Its largest count would be less than what the person spent."""
    mine, party = budget(), budget("party")
    mine.spend(people(1, 2), "train")
    party.spend(people(), "train")
    with pytest.raises(CheckpointError, match="'bank' is damaged in people"):
        mine.load({**mine.state(), "people": people(1, 1)})
    with pytest.raises(CheckpointError, match="'bank' is damaged in people"):
        party.load({**party.state(), "people": people(1)})


def test_people_that_are_not_numbers_of_rows_are_refused() -> None:
    mine = budget()
    mine.spend(people(0), "train")
    for wrong in (torch.zeros(1), people(0).reshape(1, 1), people(0).int(), torch.tensor(0)):
        with pytest.raises(SealError, match="expected one number per row"):
            mine.spend(wrong, "train")
    mine.spend(people(), "train")
    assert mine.most_releases == 1


@settings(max_examples=30, deadline=None)
@given(st.lists(st.lists(st.integers(0, 4), max_size=6), max_size=60))
def test_no_order_of_messages_overruns(messages: list[list[int]]) -> None:
    mine = Budget("bank", epsilon=2.0, delta=1e-5, multiplier=5.0)
    for message in messages:
        with contextlib.suppress(PrivacyError):
            mine.spend(people(*message), "train")
        assert mine.epsilon <= 2.0


def test_the_summary_is_plain() -> None:
    mine = budget()
    mine.spend(people(0, 1), "train")
    mine.spend(people(2), "evaluate")
    facts = mine.summary()
    assert facts["messages"] == {"train": 1, "evaluate": 1} and facts["releases"] == 1 and facts["allowed"] == 61
    assert facts["spent"] == pytest.approx(epsilon(1, 5.0, 1e-5)) and "influence" in facts["covers"]
    assert "clipped" not in facts, "it is not noised, so it may not travel"
