"""The bottleneck: its penalty's gradient, its noise, and what a decoder still reads behind it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.linear_model import RidgeCV
from torch import Tensor, nn

import colonnade as cn
from colonnade.core.randomness import Randomness
from colonnade.errors import ConfigError
from colonnade.models.bottleneck import FIRST, DrawnEmbedding
from colonnade.wire.owner_half import OwnerHalf

WIDE = {"rounds": 8, "batch": 16, "seed": 3}


def divergence(mean: Tensor, log_variance: Tensor) -> Tensor:
    """The divergence of each row's N(mu, sigma^2) from N(0, 1), in nats."""
    return 0.5 * (mean.square() + log_variance.exp() - 1.0 - log_variance).sum(-1)


def test_the_penalty_is_the_mean_divergence() -> None:
    torch.manual_seed(0)
    inputs, slope = torch.randn(7, 6), torch.randn(7, 3)
    ways = []
    for strength in (0.0, 0.3):
        leaf = inputs.clone().requires_grad_()
        torch.manual_seed(1)
        DrawnEmbedding(strength)(leaf).backward(slope)
        assert leaf.grad is not None
        ways.append(leaf.grad)
    leaf = inputs.clone().requires_grad_()
    mean, spread = leaf.chunk(2, dim=-1)
    (0.3 * divergence(mean, spread + FIRST).mean()).backward()
    torch.testing.assert_close(ways[1] - ways[0], leaf.grad)


def test_embeddings_are_drawn_anew_also_in_predictions() -> None:
    net = cn.Bottleneck((8,))((6,), 4).eval()
    assert not torch.equal(net(torch.ones(3, 6)), net(torch.ones(3, 6)))


@pytest.mark.parametrize("training", [False, True])
def test_other_rows_that_are_asked_about_have_other_noise(training: bool) -> None:
    """After one round a party's randomness is the same for all tables: a difference of messages must keep the noise.

    In training a round has one batch, so the noise need not follow from the rows; that is the control.
    """
    net, party = cn.Bottleneck((8,))((6,), 4).train(training), Randomness(0, bytes(32))
    rows = torch.randn(2, 5, 6)
    noise = []
    for batch in (rows[0], rows[0], rows[1]):
        mean, spread = nn.Sequential(*list(net.children())[:-1])(batch).chunk(2, dim=-1)
        with party.drawing("predict", 7, "embed"):
            noise.append((net(batch) - mean) / torch.exp((spread + FIRST) / 2))
    torch.testing.assert_close(noise[0], noise[1])
    same = (noise[0] - noise[2]).abs().max() < 1e-3
    assert bool(same) == training
    assert 0.2 < float(noise[2].detach().std()) < 3


def test_a_strong_penalty_leaves_noise_only() -> None:
    torch.manual_seed(0)
    net, rows = cn.Bottleneck((8,), strength=1.0)((6,), 4), torch.randn(64, 6)
    optimizer = torch.optim.Adam(net.parameters(), 0.05)
    for _ in range(200):
        optimizer.zero_grad()
        (0.0 * net(rows)).sum().backward()
        optimizer.step()
    last = nn.Sequential(*list(net.children())[:-1])(rows)
    mean, spread = last.chunk(2, dim=-1)
    assert mean.abs().max() < 0.1 and (spread + FIRST).abs().max() < 0.1


def tables(rows: int = 60) -> list[cn.Table]:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(rows, 9)).astype(np.float32)
    return cn.split(x, (x.sum(1) > 0).astype(int), [[0, 1, 2], [3, 4, 5], [6, 7, 8]])


@pytest.mark.parametrize("runtime", ["loop", "fused", "bytes"])
def test_runs_agree_resume_and_are_described(runtime: str, tmp_path: Path) -> None:
    how: dict[str, Any] = {"model": cn.Bottleneck((8,), 0.1), "test": tables(), "evaluate_every": 4, **WIDE}
    whole = cn.train(tables(), cn.SplitNN(), runtime="loop", **how)

    def die(run: cn.Run) -> None:
        if run.round == 6:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cn.train(tables(), cn.SplitNN(), runtime=runtime, folder=tmp_path / "run", on_round=die, **how)
    resumed = cn.resume(tmp_path / "run", tables(), test=tables())
    for side, state in whole.model.states().items():
        for name, value in state.items():
            assert torch.equal(resumed.model.states()[side][name], value), name


def rebuilt(model: Any) -> float:
    """R2 of a party's columns by a line from its last embeddings, with 200 known rows."""
    last: dict[str, Tensor] = {}
    opened = OwnerHalf.open

    def spy(half: OwnerHalf, answer: Any, party: str, step: str, turn: cn.Turn, **more: Any) -> Any:
        message = opened(half, answer, party, step, turn, **more)
        if turn.training and party == "party 1":
            last.setdefault("h", torch.zeros(1500, message.h.shape[1]))[turn.rows] = message.h.detach()
        return message

    rng = np.random.default_rng(0)
    x = rng.normal(size=(1500, 12)).astype(np.float32)
    federation = cn.split(x, (x.sum(1) > 0).astype(int), [range(6), range(6, 12)])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(OwnerHalf, "open", spy)
        cn.train(federation, cn.SplitNN(), model=model, epochs=10, seed=0, runtime="loop")
    read, columns = last["h"].numpy(), x[:, :6]
    line = RidgeCV(10.0 ** np.arange(0, 6)).fit(read[:200], columns[:200])
    return float(1 - np.square(columns[200:] - line.predict(read[200:])).sum() / np.square(columns[200:]).sum())


def test_a_decoder_reads_less_behind_a_bottleneck() -> None:
    plain, narrow = rebuilt(cn.MLP((32,))), rebuilt(cn.Bottleneck((32,), 0.2))
    assert plain > 0.85 and narrow < 0.5


@pytest.mark.parametrize("strength", [-0.1, float("nan"), float("inf"), "much", True])
def test_a_strength_out_of_range_is_refused(strength: Any) -> None:
    with pytest.raises(ConfigError, match="of a bottleneck is out of range; give a number from 0"):
        cn.Bottleneck(strength=strength)
