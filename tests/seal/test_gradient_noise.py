"""Noise on gradients: the optimum against brute force, what it does to classes, where its randomness comes from."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import colonnade as cn
from colonnade.core.randomness import Sources
from colonnade.errors import ConfigError, SealError
from colonnade.methods.steps import Gradient
from colonnade.seal import make_seal, make_seals
from colonnade.seal.gradient_noise import GradientSeal
from colonnade.seal.marvell import Variances, least_divergence
from colonnade.wire.ends import Ends
from colonnade.wire.owner_half import OwnerHalf

SEALS = [cn.Marvell(4.0), cn.ClassNoise(4.0), cn.MaxNorm()]
ROWS, WIDTH = 4000, 5


def objective(spread: tuple[float, float], width: int, noise: Variances) -> Any:
    """Twice the symmetric divergence plus 2 d, as Theorem 2 of the paper has it; the squared distance is 1."""
    (along0, along1), (across0, across1) = noise
    b, a, e, c = along0 + spread[0], along1 + spread[1], across0 + spread[0], across1 + spread[1]
    return (b + 1) / a + (a + 1) / b + (width - 1) * (e / c + c / e)


def power_of(share: float, width: int, noise: Variances) -> float:
    each = [along + (width - 1) * across for along, across in zip(*noise, strict=True)]
    return (1 - share) * each[0] + share * each[1]


BATCHES = [
    ((0.05, 0.4), 0.2, 8, 4.0),
    ((0.4, 0.05), 0.2, 8, 4.0),
    ((0.01, 2.0), 0.1, 64, 1.0),
    ((1.0, 1.0), 0.5, 3, 0.3),
    ((0.3, 0.2), 0.7, 1, 2.0),
    ((0.5, 0.01), 0.9, 16, 16.0),
]


@pytest.mark.parametrize(("spread", "share", "width", "power"), BATCHES)
def test_no_noise_of_the_same_power_leaves_less(
    spread: tuple[float, float], share: float, width: int, power: float
) -> None:
    best = least_divergence(spread, share, width, power)
    assert power_of(share, width, best) == pytest.approx(power, rel=1e-3)
    assert min(*best.along, *best.across) >= 0
    grid = np.linspace(0, 1, 61)  # every way to share the power among the four variances, in steps of a sixtieth
    parts = np.array([p for p in itertools.product(grid, repeat=3) if sum(p) <= 1 + 1e-9])
    free = max(width - 1, 1)
    along = power * parts[:, 0] / (1 - share), power * parts[:, 1] / share
    rest = np.maximum(1 - parts.sum(1), 0)
    across = power * parts[:, 2] / (1 - share) / free, power * rest / share / free
    brute = objective(spread, width, Variances(along, across)).min()  # type: ignore[arg-type]
    found = objective(spread, width, best)
    assert found <= brute * (1 + 1e-4)
    assert found >= brute * 0.9, "the grid is not far from it"
    assert all(wide >= narrow - 1e-6 for wide, narrow in zip(best.along, best.across, strict=True)), "as in the paper"


def two_classes(share: float = 0.2) -> tuple[Tensor, Tensor]:
    torch.manual_seed(0)
    classes = (torch.arange(ROWS) < share * ROWS).long()
    spread = torch.tensor([0.1, 0.5])[classes].unsqueeze(1)
    return torch.randn(ROWS, WIDTH) * spread + classes.unsqueeze(1) * torch.tensor([2.0, 0, 0, 0, 0]), classes


def normal(seed: int = 0) -> Callable[[tuple[int, ...]], Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return lambda shape: torch.randn(shape, generator=generator, dtype=torch.float64)


def divergence(gradients: Tensor, classes: Tensor) -> float:
    """The symmetric divergence of two Gaussians with the classes' means and covariances."""
    means = [gradients[classes == c].double().mean(0) for c in (0, 1)]
    spread = [torch.cov(gradients[classes == c].double().T) for c in (0, 1)]
    inverse = [one.inverse() for one in spread]
    gap = means[1] - means[0]
    whole = (inverse[0] @ spread[1]).trace() + (inverse[1] @ spread[0]).trace() + gap @ (inverse[0] + inverse[1]) @ gap
    return float(whole / 2 - len(gap))


def test_marvell_leaves_the_divergence_that_it_says() -> None:
    gradients, classes = two_classes()
    before = divergence(gradients, classes)
    after = {power: divergence(cn.Marvell(power).disguise(gradients, classes, normal()), classes) for power in (1.0, 4)}
    assert before > 100 and after[1.0] < 2.0 and after[4] < 0.4
    noise = cn.Marvell(4.0).disguise(gradients, classes, normal()) - gradients
    gap = (gradients[classes == 1].mean(0) - gradients[classes == 0].mean(0)).square().sum()
    assert float(noise.square().sum(1).mean() / gap) == pytest.approx(4.0, rel=0.1)
    assert noise.mean(0).abs().max() < 0.2, "gradients stay right on average"


def test_class_noise_leaves_classes_that_spread_alike() -> None:
    torch.manual_seed(1)
    classes = torch.arange(ROWS) % 3
    means = torch.tensor([[3.0, 0, 0, 0, 0], [0, 1.0, 0, 0, 0], [0, 0, 0, 0, 0]])
    gradients = means[classes] + torch.randn(ROWS, WIDTH) * torch.tensor([0.1, 0.5, 0.2])[classes].unsqueeze(1)
    noisy = cn.ClassNoise(4.0).disguise(gradients, classes, normal())
    spread = [torch.cov(noisy[classes == c].T) for c in range(3)]
    for other in spread[1:]:
        torch.testing.assert_close(other, spread[0], rtol=0.25, atol=0.25)
    centred = means - means.mean(0)
    scatter = centred.T @ centred  # of two of the three means: 2 / (3 - 1) times this
    torch.testing.assert_close(spread[0], 4.0 * scatter + 0.25 * torch.eye(WIDTH), rtol=0.25, atol=0.25)


def test_of_two_classes_class_noise_has_the_power_along_the_difference() -> None:
    gradients, classes = two_classes()
    noise = cn.ClassNoise(9.0).disguise(gradients, classes, normal()) - gradients
    assert float(noise[classes == 1][:, 0].var()) == pytest.approx(9.0 * 4.0, rel=0.2)


def test_max_norm_makes_every_norm_the_longest_on_average() -> None:
    gradients, classes = two_classes()
    gradients[5] = 0.0
    draw = normal()
    squares = torch.stack([cn.MaxNorm().disguise(gradients[:50], classes[:50], draw) for _ in range(800)])
    means = squares.square().sum(2).mean(0)
    torch.testing.assert_close(means[:5], gradients[:50].square().sum(1).max().expand(5), rtol=0.3, atol=0.0)
    assert float(means[5]) == 0.0


@pytest.mark.parametrize("seal", [cn.Marvell(4.0), cn.ClassNoise(4.0)], ids=lambda seal: seal.kind)
def test_a_batch_of_one_class_is_not_sent_as_it_is(seal: GradientSeal) -> None:
    gradients, _ = two_classes()
    few = gradients[:30]
    for classes in (torch.zeros(30, dtype=torch.int64), torch.ones(30, dtype=torch.int64)):
        noise = seal.disguise(few, classes, normal()) - few
        assert float(noise.square().sum(1).mean()) > 4 * float(few.mean(0).square().sum())


@pytest.mark.parametrize("seal", SEALS, ids=lambda seal: seal.kind)
def test_odd_batches(seal: GradientSeal) -> None:
    zeros = torch.zeros(4, 3)
    assert torch.equal(seal.disguise(zeros, torch.tensor([0, 1, 1, 0]), normal()), zeros)
    assert seal.disguise(zeros[:0], torch.zeros(0, dtype=torch.int64), normal()).shape == (0, 3)
    tiny = torch.tensor([[1e-30, 0.0], [3e-30, 0.0], [2e-30, 0.0]])
    for gradients in (tiny, tiny * 1e35, torch.tensor([[1.0], [2.0], [4.0]])):
        noisy = seal.disguise(gradients, torch.tensor([0, 1, 1]), normal())
        assert noisy.shape == gradients.shape and noisy.dtype == gradients.dtype and noisy.isfinite().all()
    with pytest.raises(SealError, match="2 labels came for gradients of 4 rows"):
        seal.disguise(zeros, torch.tensor([0, 1]), normal())


def test_a_row_of_zeros_beside_a_long_one_stays_one() -> None:
    gradients = torch.zeros(3, 2)
    for length in (1.0, 2e4, 1e19):
        gradients[0, 0] = length
        noisy = cn.MaxNorm().disguise(gradients, torch.tensor([0, 1, 1]), normal())
        assert torch.equal(noisy, gradients), "zeros have no direction, and the longest needs no noise"


def test_noise_that_no_message_can_hold_is_refused() -> None:
    """A party that drives gradients to the end of float32 gets no values of a broken message to read."""
    gradients = torch.zeros(40, 2)
    gradients[:20, 0] = 1e38
    classes = (torch.arange(40) < 20).long()
    assert cn.ClassNoise().disguise(gradients * 1e-3, classes, normal()).isfinite().all()
    with pytest.raises(SealError, match=r"class-noise: the noise for gradients up to 1e\+38 is not finite; lower"):
        cn.ClassNoise(1e6).disguise(gradients, classes, normal())


# at the channel


def sent(sources: Sources, gradients: Tensor, classes: Tensor, *, number: int = 0, to: str = "lab") -> Tensor:
    half = OwnerHalf(Ends(make_seals(cn.Marvell()), sources), classes=lambda turn: classes[turn.rows])
    turn = cn.Turn(number, torch.arange(len(gradients)))
    return half.seal(Gradient(gradients), [to], "follow", turn)["slope"]


def test_noise_follows_from_the_owners_secret_and_the_message() -> None:
    gradients, classes = two_classes()
    one, other = (Sources(0, {"owner": bytes([k]) * 32}) for k in (1, 2))
    first = sent(one, gradients, classes)
    assert torch.equal(sent(one, gradients, classes), first), "a repeated round tells nothing new"
    moved = gradients.clone()
    moved[0] += 1e-3
    others = [
        sent(other, gradients, classes),
        sent(one, gradients, classes, number=1),
        sent(one, gradients, classes, to="shop"),
        sent(one, moved, classes) - (moved - gradients),
        sent(one, gradients, 1 - classes),
    ]
    for noisy in others:
        assert float((noisy - first).square().sum(1).mean()) > 1.0
    with pytest.raises(ConfigError, match="does not have its secret"):
        sent(Sources(0, {"lab": bytes(32)}), gradients, classes)


def test_only_gradients_of_training_are_touched_and_never_without_classes() -> None:
    gradients, classes = two_classes()
    half = OwnerHalf(Ends(make_seals(cn.Marvell())), classes=lambda turn: classes[turn.rows])
    turn = cn.Turn(0, torch.arange(ROWS), purpose="evaluate")
    assert torch.equal(half.seal(Gradient(gradients), ["lab"], "follow", turn)["slope"], gradients)
    without = OwnerHalf(Ends(make_seals(cn.Marvell())))
    with pytest.raises(SealError, match="needs the rows' classes"):
        without.seal(Gradient(gradients), ["lab"], "follow", cn.Turn(0, torch.arange(ROWS)))


def binary(rows: int = 60) -> list[cn.Table]:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(rows, 9)).astype(np.float32)
    return cn.split(x, (x.sum(1) > 0).astype(int), [[0, 1, 2], [3, 4, 5], [6, 7, 8]])


def trained(seal: Any, method: cn.Method | None = None, runtime: str = "loop", **more: Any) -> cn.Run:
    settings: dict[str, Any] = {"rounds": 8, "batch": 16, "seed": 3, "valid": 0.1, "test": binary()}
    return cn.train(binary(), method or cn.SplitNN(), seal=seal, runtime=runtime, **{**settings, **more})


def everything(run: cn.Run) -> dict[str, Tensor]:
    return {f"{side}/{name}": value for side, state in run.model.states().items() for name, value in state.items()}


@pytest.mark.parametrize("seal", [*SEALS, [cn.Marvell(), cn.Bits(6, feedback=True)]], ids=str)
def test_runtimes_agree_and_resuming_is_exact(seal: Any, tmp_path: Path) -> None:
    loop, wired = trained(seal), trained(seal, runtime="bytes", folder=tmp_path / "run", evaluate_every=4)
    assert loop.ledger.total == wired.ledger.total
    for name, value in everything(loop).items():
        assert torch.equal(everything(wired)[name], value), name

    def die(run: cn.Run) -> None:
        if run.round == 6:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        trained(seal, evaluate_every=4, folder=tmp_path / "dead", on_round=die)
    resumed = cn.resume(tmp_path / "dead", binary(), test=binary())
    for name, value in everything(loop).items():
        assert torch.equal(everything(resumed)[name], value), name


@pytest.mark.parametrize("method", [cn.VAFL(), cn.VAFL(learn_weights=False), cn.VIMSGD(), cn.FedBCD(), cn.LASER()])
def test_every_method_with_gradients_of_embeddings_takes_it(method: cn.Method) -> None:
    plain, noisy = trained(None, method), trained(cn.Marvell(16.0), method)
    assert noisy.ledger.total == plain.ledger.total, "it costs no byte"
    assert any(not torch.equal(value, everything(noisy)[name]) for name, value in everything(plain).items())


def test_parties_that_compute_together_get_the_same_noise() -> None:
    loop, fused = trained(cn.ClassNoise()), trained(cn.ClassNoise(), runtime="fused")
    assert fused.ledger.to_json() == loop.ledger.to_json()
    gaps = [float((everything(fused)[name] - value).abs().max()) for name, value in everything(loop).items()]
    assert np.isfinite(gaps).all()


REFUSED: dict[str, tuple[Any, cn.Method, str]] = {
    "duals": (cn.Marvell(), cn.VIMADMM(), "marvell is for gradients of embeddings, and with vimadmm.*random-labels"),
    "logits": (cn.MaxNorm(), cn.FDML(), "max-norm is for gradients of embeddings"),
    "logits of fedbcd": (cn.ClassNoise(), cn.FedBCD(combine="sum"), "class-noise is for gradients of embeddings"),
    "both": ([cn.Marvell(), cn.RandomLabels()], cn.SplitNN(), "marvell looks at the true labels"),
    "two": ([cn.Marvell(), cn.MaxNorm()], cn.SplitNN(), "which do the same"),
}


@pytest.mark.parametrize("which", REFUSED)
def test_what_cannot_work_is_refused(which: str) -> None:
    seal, method, words = REFUSED[which]
    with pytest.raises((SealError, ConfigError), match=words):
        trained(seal, method)


def test_labels_that_it_cannot_hide_are_refused() -> None:
    x = np.random.default_rng(0).normal(size=(60, 6)).astype(np.float32)
    cut = [[0, 1, 2], [3, 4, 5]]
    with pytest.raises(SealError, match="for 2 classes, and these labels have 3; use class-noise"):
        cn.train(cn.split(x, np.arange(60) % 3, cut), cn.SplitNN(), seal=cn.Marvell(), rounds=2, batch=16)
    for task, labels in (("values", x[:, 0]), ("several", (x[:, :2] > 0).astype(int))):
        with pytest.raises(SealError, match=f"task='{task}' has none"):
            cn.train(cn.split(x, labels, cut), cn.SplitNN(), seal=cn.Marvell(), rounds=2, batch=16, task=task)


@pytest.mark.parametrize("power", [0, -1.0, 2e6, float("inf"), "much"])
@pytest.mark.parametrize("kind", ["marvell", "class-noise"])
def test_a_power_out_of_range_is_refused(kind: str, power: Any) -> None:
    with pytest.raises(ConfigError, match=f"{kind}: power="):
        make_seal(kind, power=power)
