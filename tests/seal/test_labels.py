"""Label seals: frequencies, corrections, what an attacker reads off, and what training still learns."""

import functools
import math

import pytest
import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, one_hot

from colonnade.core.prox import cross_entropy_prox
from colonnade.errors import ConfigError, SealError
from colonnade.seal import label_noise as module
from colonnade.seal.label_noise import LabelSeal, LaplaceLabels, RandomLabels

KEY = bytes(range(32))
MANY = torch.arange(40_000) % 4
SEALS = [RandomLabels, functools.partial(RandomLabels, correct="none"), LaplaceLabels]
SEALS += [functools.partial(RandomLabels, correct="unbiased")]
NAMES = ["posterior", "none", "laplace", "unbiased"]
each_seal = pytest.mark.parametrize("make", SEALS, ids=NAMES)


# Randomised response


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 4.0])
def test_response_frequencies(epsilon: float) -> None:
    """Kept with e^eps / (e^eps + C - 1), and every other class equally often."""
    seal = RandomLabels(epsilon=epsilon, correct="none")
    keep = math.exp(epsilon) / (math.exp(epsilon) + 3)
    noisy = seal.protect(MANY, 4, KEY).argmax(1)
    table = torch.stack([torch.bincount(noisy[label == MANY], minlength=4) for label in range(4)]) / 10_000
    expected = torch.full((4, 4), (1 - keep) / 3).fill_diagonal_(keep)
    assert torch.allclose(table.float(), expected, atol=0.02)
    assert seal.keep_probability(4) == pytest.approx(keep)
    assert float(torch.log(table.amax(0) / table.amin(0)).max()) < epsilon + 0.15, "the ratio that epsilon promises"


def test_unbiased_targets_have_the_true_mean() -> None:
    soft = RandomLabels(epsilon=1.0, correct="unbiased").protect(MANY, 4, KEY)
    for label in range(4):
        mean = soft[label == MANY].mean(0)
        assert torch.allclose(mean, one_hot(torch.tensor(label), 4).float(), atol=0.05)
    assert float(soft.min()) < 0
    assert torch.allclose(soft.sum(1), torch.ones(len(soft)), atol=1e-5)


@pytest.mark.parametrize("make", [RandomLabels, LaplaceLabels])
@pytest.mark.parametrize("epsilon", [0.01, 1.0, 4.0, 20.0])
def test_posteriors_are_probabilities(make: type[LabelSeal], epsilon: float) -> None:
    soft = make(epsilon=epsilon).protect(MANY[:500], 4, KEY)
    assert soft.dtype == torch.float32 and soft.shape == (500, 4)
    assert torch.allclose(soft.sum(1), torch.ones(500)) and float(soft.min()) >= 0


@pytest.mark.parametrize("make", [RandomLabels, LaplaceLabels])
def test_posteriors_are_calibrated_and_find_the_shares(make: type[LabelSeal]) -> None:
    """Among rows that get probability p for a class, a share p has it; so their mean is the share of the class."""
    shares = torch.tensor([0.6, 0.25, 0.1, 0.05])
    truth = torch.repeat_interleave(torch.arange(4), (shares * 40_000).long())
    soft = make(epsilon=1.5).protect(truth, 4, KEY)
    assert torch.allclose(soft.mean(0), shares, atol=0.03)
    for low in (0.0, 0.2, 0.4, 0.6, 0.8):
        chosen = (soft[:, 0] >= low) & (soft[:, 0] < low + 0.2)
        if int(chosen.sum()) > 500:
            assert float((truth[chosen] == 0).float().mean()) == pytest.approx(float(soft[chosen, 0].mean()), abs=0.06)


def test_a_small_epsilon_does_not_invent_shares() -> None:
    """With 1,000 labels and epsilon 0.5 the classes' shares are all noise; a prior from them would drown the labels."""
    for seed in range(5):
        soft = RandomLabels(epsilon=0.5).protect(torch.arange(1000) % 10, 10, bytes([seed] * 32))
        assert float((soft.mean(0) - 0.1).abs().max()) < 0.05


def test_laplace_noise_is_on_the_grid_with_the_right_scale(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Tensor] = []
    monkeypatch.setattr(module, "_posterior", lambda likelihood: seen.append(likelihood) or likelihood)
    seal = LaplaceLabels(epsilon=2.0)  # scale 1: the likelihood is |o| - |o - 1|, so 2 o - 1 between 0 and 1
    seal.protect(MANY, 4, KEY)
    entry = ((seen[0] + 1.0) / 2.0)[MANY != 0, 0]
    assert torch.equal(entry / 2.0**-20, (entry / 2.0**-20).round())
    assert float((entry == 0).double().mean()) == pytest.approx(0.5, abs=0.01)
    assert float((entry == 1).double().mean()) == pytest.approx(0.5 * math.exp(-1.0), abs=0.01)
    assert float((entry < 0.5).double().mean()) == pytest.approx(1.0 - 0.5 * math.exp(-0.5), abs=0.01)


# What an attacker reads


@pytest.mark.parametrize("epsilon", [0.5, 2.0, 4.0, 8.0])
@pytest.mark.parametrize("classes", [2, 10])
def test_the_laplace_bound_is_exact_and_below_that_of_epsilon(epsilon: float, classes: int) -> None:
    truth = torch.arange(40_000) % classes
    seal = LaplaceLabels(epsilon=epsilon)
    guessed = (seal.protect(truth, classes, KEY).argmax(1) == truth).float().mean()
    assert float(guessed) == pytest.approx(seal.keep_probability(classes), abs=0.01)
    assert seal.keep_probability(classes) <= RandomLabels(epsilon=epsilon).keep_probability(classes)


@functools.cache
def digits() -> tuple[Tensor, Tensor]:
    data = load_digits()
    order = torch.randperm(len(data.target), generator=torch.Generator().manual_seed(0))
    return torch.tensor(data.data / 16.0, dtype=torch.float32)[order], torch.tensor(data.target).long()[order]


def trained(targets: Tensor, epochs: int = 15) -> nn.Module:
    """A small network on the first rows of digits."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-3)
    inputs = digits()[0][: len(targets)]
    for _ in range(epochs):
        for batch in torch.randperm(len(targets)).split(64):
            optimizer.zero_grad()
            cross_entropy(net(inputs[batch]), targets[batch]).backward()
            optimizer.step()
    return net


@each_seal
@pytest.mark.parametrize("epsilon", [1.0, 4.0])
def test_direct_attacks_stay_at_the_bound(make: type[LabelSeal], epsilon: float) -> None:
    inputs, truth = digits()[0][:1200], digits()[1][:1200]
    seal = make(epsilon=epsilon)
    soft = seal.protect(truth, 10, KEY)
    bound = seal.keep_probability(10) + 0.02
    assert float((soft.argmax(1) == truth).float().mean()) <= bound
    gradient = trained(soft, epochs=3)(inputs).detach().softmax(1) - soft
    assert float((gradient.argmin(1) == truth).float().mean()) <= bound


@pytest.mark.long
@pytest.mark.parametrize(("make", "within"), [(RandomLabels, 0.04), (LaplaceLabels, 0.08)])
def test_training_at_epsilon_four_stays_close(make: type[LabelSeal], within: float) -> None:
    inputs, truth = digits()
    reached = []
    for targets in (one_hot(truth[:1200], 10).float(), make(epsilon=4.0).protect(truth[:1200], 10, KEY)):
        guess = trained(targets)(inputs[1200:]).argmax(1)
        reached.append(float((guess == truth[1200:]).float().mean()))
    assert reached[0] > 0.95 and reached[1] > reached[0] - within, reached


# Randomness and refusals


@each_seal
def test_a_key_makes_it_exact_and_no_key_makes_it_fresh(make: type[LabelSeal]) -> None:
    seal = make(epsilon=1.0)
    assert torch.equal(seal.protect(MANY, 4, KEY), seal.protect(MANY, 4, KEY))
    for other in (seal.protect(MANY, 4), seal.protect(MANY, 4, KEY[::-1]), make(epsilon=1.01).protect(MANY, 4, KEY)):
        assert not torch.allclose(seal.protect(MANY, 4, KEY), other, atol=0.05)


def test_other_labels_under_one_key_get_independent_noise() -> None:
    """Else comparing two releases would show which labels changed between them."""
    seal, changed = RandomLabels(epsilon=1.0, correct="none"), MANY.clone()
    changed[0] = 3
    once, again = (seal.protect(labels, 4, KEY).argmax(1) for labels in (MANY, changed))
    keep = seal.keep_probability(4)
    both = ((once == MANY) & (again == MANY)).float().mean()
    assert float(both) == pytest.approx(keep**2, abs=0.01)


@each_seal
def test_targets_work_in_cross_entropy_and_in_the_z_step(make: type[LabelSeal]) -> None:
    soft = make(epsilon=1.0).protect(MANY[:64], 4, KEY)
    logits = torch.zeros(64, 4, requires_grad=True)
    cross_entropy(logits, soft, reduction="sum").backward()
    assert logits.grad is not None and torch.allclose(logits.grad, 0.25 - soft, atol=1e-5)
    z = cross_entropy_prox(logits.detach(), torch.zeros(64, 4), soft, rho=2.0)
    assert torch.allclose(z.softmax(1) - soft + 2.0 * z, torch.zeros(64, 4), atol=1e-4)


@each_seal
@pytest.mark.parametrize("epsilon", [0.0, -1.0, 21.0, math.nan, "one"])
def test_epsilon_out_of_range(make: type[LabelSeal], epsilon: float) -> None:
    with pytest.raises(ConfigError, match="epsilon="):
        make(epsilon=epsilon)


def test_an_unknown_correction() -> None:
    with pytest.raises(ConfigError, match="did you mean 'unbiased'"):
        RandomLabels(correct="unbias")


@pytest.mark.parametrize(
    ("labels", "classes", "sentence"),
    [
        (torch.tensor([0, 4]), 4, "labels 0 to 4 came for 4 classes"),
        (torch.tensor([-1, 0]), 4, "labels -1 to 0"),
        (torch.tensor([0.0]), 4, "expected int64"),
        (torch.tensor([[0]]), 4, "expected int64"),
        (torch.tensor([0]), 1, "at least 2"),
    ],
)
@each_seal
def test_labels_that_are_none(make: type[LabelSeal], labels: Tensor, classes: int, sentence: str) -> None:
    with pytest.raises(SealError, match=sentence):
        make().protect(labels, classes)


@each_seal
def test_no_labels_and_one_label(make: type[LabelSeal]) -> None:
    assert make().protect(torch.zeros(0, dtype=torch.int64), 4).shape == (0, 4)
    assert bool(make().protect(torch.tensor([2]), 4, KEY).isfinite().all())


def test_a_short_key_is_refused() -> None:
    with pytest.raises(SealError, match="at least 32"):
        RandomLabels().protect(MANY, 4, b"secret")
