"""Every part of a server against its equation, worked out in numpy over several averages."""

from collections.abc import Callable

import numpy as np
import pytest
import torch

from colonnade.errors import ConfigError
from colonnade.methods.aggregate import (
    Chain,
    Damped,
    FedAdam,
    FedAvg,
    FedAvgM,
    FedYogi,
    ServerStep,
    SlowMo,
    make_server,
)

STEPS = 4
State = dict[str, np.ndarray | float]
Reference = Callable[[np.ndarray, np.ndarray, State], np.ndarray]


def fedavgm(w: np.ndarray, average: np.ndarray, s: State) -> np.ndarray:
    s["m"] = 0.7 * s.get("m", 0.0) + 0.3 * (average - w)
    return w + 1.5 * s["m"]


def slowmo(w: np.ndarray, average: np.ndarray, s: State) -> np.ndarray:
    """As printed by Wang et al., with an inner rate of 0.05 that must not matter."""
    s["u"] = 0.7 * s.get("u", 0.0) + (w - average) / 0.05
    return w - 1.5 * 0.05 * s["u"]


def fedadam(w: np.ndarray, average: np.ndarray, s: State) -> np.ndarray:
    delta = average - w
    s["m"] = 0.7 * s.get("m", 0.0) + 0.3 * delta
    s["v"] = 0.99 * s.get("v", 0.0) + 0.01 * delta**2
    return w + 0.1 * s["m"] / (np.sqrt(s["v"]) + 0.001)


def fedyogi(w: np.ndarray, average: np.ndarray, s: State) -> np.ndarray:
    delta = average - w
    v = s.get("v", np.zeros_like(w))
    s["m"] = 0.7 * s.get("m", 0.0) + 0.3 * delta
    s["v"] = v - 0.01 * delta**2 * np.sign(v - delta**2)
    return w + 0.1 * s["m"] / (np.sqrt(s["v"]) + 0.001)


def fedoptimus(w: np.ndarray, average: np.ndarray, s: State) -> np.ndarray:
    return 0.4 * w + 0.6 * fedavgm(w, average, s)


CASES: list[tuple[ServerStep, Reference]] = [
    (FedAvg(), lambda w, average, s: average),
    (FedAvgM(mu=0.7, eta=1.5), fedavgm),
    (SlowMo(mu=0.7, eta=1.5), slowmo),
    (Damped(alpha=0.6), lambda w, average, s: 0.4 * w + 0.6 * average),
    (FedAdam(mu=0.7, eta=0.1), fedadam),
    (FedYogi(mu=0.7, eta=0.1), fedyogi),
    (Chain((FedAvgM(mu=0.7, eta=1.5), Damped(alpha=0.6))), fedoptimus),
]


@pytest.mark.parametrize("shape", [(5,), (3, 5)], ids=["one", "stacked"])
@pytest.mark.parametrize(("server", "reference"), CASES, ids=[repr(server) for server, _ in CASES])
def test_parts_do_what_their_equations_say(server: ServerStep, reference: Reference, shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(0)
    w = expected = rng.normal(size=shape)
    memory, state = {}, {}
    for _ in range(STEPS):
        average = rng.normal(size=shape)
        found, memory = server.step(torch.from_numpy(w), torch.from_numpy(average), memory)
        expected = reference(expected, average, state)
        w = found.numpy()
        np.testing.assert_allclose(w, expected, rtol=1e-12)


def test_worked_out_by_hand() -> None:
    w, average = torch.tensor([1.0]), torch.tensor([2.0])
    first, memory = FedAvgM(mu=0.9).step(w, average, {})
    assert float(first) == pytest.approx(1.1)  # m = 0.1 * 1
    second, _ = FedAvgM(mu=0.9).step(first, torch.tensor([2.1]), memory)
    assert float(second) == pytest.approx(1.1 + 0.9 * 0.1 + 0.1 * 1.0)
    assert float(SlowMo(mu=0.9).step(w, average, {})[0]) == pytest.approx(2.0)  # without memory it is the average
    assert float(Damped(0.01).step(w, average, {})[0]) == pytest.approx(
        1.01
    )  # the paper's gamma as alpha: hardly moves


def test_every_part_of_a_chain_has_its_own_memory() -> None:
    chain = make_server("fedavgm+slowmo", mu=0.5)
    _, memory = chain.step(torch.zeros(2), torch.ones(2), {"scores": torch.ones(3)})
    assert sorted(memory) == ["server 0 m", "server 1 u"]


@pytest.mark.parametrize("names", ["fedavgn", "", "fedavg+"])
def test_unknown_servers_are_refused(names: str) -> None:
    with pytest.raises(ConfigError, match="server"):
        make_server(names)
