"""Our optimisers are torch's, without the modules that torch loads to compile them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from colonnade.core.optim import SGD, Adagrad, Adam

PAIRS: dict[str, tuple[Callable[..., Any], Callable[..., torch.optim.Optimizer]]] = {
    "sgd": (SGD(0.1, 0.9, 0.01), lambda weights: torch.optim.SGD(weights, 0.1, momentum=0.9, weight_decay=0.01)),
    "adam": (Adam(0.01, 0.1), lambda weights: torch.optim.AdamW(weights, 0.01, weight_decay=0.1)),
    "adagrad": (Adagrad(0.01, 0.1), lambda weights: torch.optim.Adagrad(weights, 0.01, weight_decay=0.1)),
}


def learnt(builder: Callable[..., torch.optim.Optimizer], data: Tensor) -> tuple[Tensor, dict[str, Any]]:
    """Weights after some steps, in the middle of which another optimiser goes on from the first one's state."""
    weights = torch.linspace(-1, 1, data.shape[1]).requires_grad_()
    optimizer = builder([weights])
    for step in range(6):
        optimizer.zero_grad()
        (data @ weights).square().mean().backward()
        optimizer.step()
        if step == 2:
            state, optimizer = optimizer.state_dict(), builder([weights])
            optimizer.load_state_dict(state)
    return weights.detach(), optimizer.state_dict()


@pytest.mark.parametrize("kind", PAIRS)
def test_they_learn_as_torchs_do_bit_for_bit(kind: str) -> None:
    data = torch.randn(20, 7, generator=torch.Generator().manual_seed(0))
    (ours, state), (theirs, known) = (learnt(builder, data) for builder in PAIRS[kind])
    assert torch.equal(ours, theirs)
    assert state["param_groups"] == known["param_groups"] and state["state"].keys() == known["state"].keys()
    assert all(torch.equal(value, known["state"][0][name]) for name, value in state["state"][0].items())


def test_the_compiler_is_not_loaded() -> None:
    """The control is torch's own optimiser, which loads it: should that end one day, ours need no care any more."""
    script = (
        "import sys, torch\n"
        "from colonnade.core.optim import KINDS\n"
        "def step(build):\n"
        "    weights = torch.ones(2, requires_grad=True)\n"
        "    optimizer = build([weights])\n"
        "    optimizer.zero_grad()\n"
        "    weights.sum().backward()\n"
        "    optimizer.step()\n"
        "    return 'torch._dynamo' in sys.modules\n"
        "print([step(kind()) for kind in KINDS.values()], step(torch.optim.SGD))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[False, False, False] True"
