"""Stacked layers against autograd's own pass over them."""

import pytest
import torch
from torch import Tensor, nn

from colonnade.runtime.stacked_layers import WrittenChain, chain

PARTIES = 3
CHAINS = {
    "as the VIM paper's": [nn.Flatten(), nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 4), nn.ReLU()],
    "with a head": [nn.Flatten(), nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 4), nn.ReLU(), nn.Linear(4, 3, bias=False)],
    "one layer": [nn.Linear(6, 4)],
    "no ReLU between": [nn.Linear(6, 5), nn.Linear(5, 4)],
    "wide": [nn.Linear(6, 300), nn.ReLU(), nn.Linear(300, 4)],
}


def stacked(layers: list[nn.Module]) -> tuple[WrittenChain, list[Tensor]]:
    module = nn.Sequential(*layers)
    weights = {name: torch.randn(PARTIES, *p.shape).requires_grad_() for name, p in module.named_parameters()}
    written = chain(module, weights)
    assert isinstance(written, WrittenChain)
    return written, list(weights.values())


@pytest.mark.parametrize("name", CHAINS)
@pytest.mark.parametrize("rows", [0, 7, 900])
def test_the_written_pass_gives_autograds_gradients(name: str, rows: int) -> None:
    torch.manual_seed(0)
    written, weights = stacked(CHAINS[name])
    for _ in range(3):  # from the second time on in memory that was used before
        inputs = torch.randn(PARTIES, rows, 6, requires_grad=True)
        outputs = written(inputs), written.plain(inputs)
        slope = torch.randn_like(outputs[0])
        found, expected = (torch.autograd.grad(o, [inputs, *weights], slope) for o in outputs)
        assert torch.allclose(outputs[0], outputs[1], rtol=1e-5, atol=1e-5)
        for mine, theirs in zip(found, expected, strict=True):
            assert torch.allclose(mine, theirs, rtol=1e-4, atol=1e-3)


def test_without_gradients_the_output_is_the_same() -> None:
    written, _ = stacked(CHAINS["with a head"])
    inputs = torch.randn(PARTIES, 7, 2, 3)  # pictures, which the chain flattens
    with torch.no_grad():
        assert torch.equal(written(inputs), written(inputs.flatten(2)))
        first = written(inputs)
        before = first.clone()
        written(inputs + 1)
        assert torch.equal(first, before), "an output is nobody's spare memory"


def test_passes_may_overlap() -> None:
    """Two passes that are both open have memory of their own."""
    written, weights = stacked(CHAINS["as the VIM paper's"])
    one, other = torch.randn(2, PARTIES, 7, 6)
    first, second = written(one), written(other)
    for output, inputs in ((first, one), (second, other)):
        found = torch.autograd.grad(output.sum(), weights)
        expected = torch.autograd.grad(written.plain(inputs).sum(), weights)
        for mine, theirs in zip(found, expected, strict=True):
            assert torch.allclose(mine, theirs, rtol=1e-4, atol=1e-4)


def test_gradients_may_be_taken_twice_and_have_a_graph() -> None:
    written, weights = stacked(CHAINS["with a head"])
    inputs = torch.randn(PARTIES, 7, 6)

    def second_order(output: Tensor) -> list[Tensor]:
        slopes = torch.autograd.grad(output.square().sum(), weights, create_graph=True)
        return list(torch.autograd.grad(sum(slope.square().sum() for slope in slopes), weights))

    for mine, theirs in zip(second_order(written(inputs)), second_order(written.plain(inputs)), strict=True):
        assert torch.allclose(mine, theirs, rtol=1e-3, atol=1e-2)
    loss = written(inputs).sum()
    once, again = torch.autograd.grad(loss, weights, retain_graph=True), torch.autograd.grad(loss, weights)
    for mine, theirs in zip(once, again, strict=True):
        assert torch.allclose(mine, theirs, rtol=1e-4, atol=1e-4)


def test_weights_that_changed_since_the_forward_pass_are_refused() -> None:
    """As autograd does: their gradient would be that of another network."""
    written, weights = stacked(CHAINS["one layer"])
    output = written(torch.randn(PARTIES, 7, 6))
    with torch.no_grad():
        weights[0].add_(1.0)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        torch.autograd.grad(output.sum(), weights)


def test_memory_does_not_grow() -> None:
    written, weights = stacked(CHAINS["with a head"])
    for rows in [7, 9] * 20:
        torch.autograd.grad(written(torch.randn(PARTIES, rows, 6)).sum(), weights)
    assert len(written.spares.tensors) <= 16
