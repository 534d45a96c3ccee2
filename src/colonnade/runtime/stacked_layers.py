"""The layers of like parties' networks, stacked along a leading party axis, where that is quicker than ``vmap``.

A chain of linear layers and ReLUs, which most networks here are, has its backward pass written out on the CPU. Autograd
takes fresh memory for every activation and its gradient, which costs more than the passes over it; and it takes a layer
of all parties before the next, which a processor's cache cannot hold. The numbers are those that autograd gives.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from colonnade.core.state import Packed

ELEMENTWISE_LAYERS = (nn.Identity, nn.Tanh, nn.Sigmoid, nn.GELU, nn.SiLU, nn.LeakyReLU, nn.ELU, nn.Softplus)
CACHED_BYTES = 1 << 19
"""Of one layer's activations of the parties that are taken through all layers together."""
MOST_SPARE = 16
_relu_slope = torch.ops.aten.threshold_backward.grad_input  # autograd's own kernel, which can write in place

Forward = Callable[[Tensor], Tensor]


def chain(module: nn.Module, weights: Packed) -> Forward | None:
    """A forward pass for plain chains of layers that is quicker than vmap's, or None for other networks."""
    layers = _layers(module)
    if layers is None:
        return None
    affine = _affine(layers, weights)
    return _plain(layers, weights) if affine is None else WrittenChain(_plain(layers, weights), affine)


def _layers(module: nn.Module, prefix: str = "") -> list[tuple[str, nn.Module]] | None:
    if isinstance(module, nn.Sequential):
        layers: list[tuple[str, nn.Module]] = []
        for name, child in module.named_children():
            inner = _layers(child, f"{prefix}{name}.")
            if inner is None:
                return None
            layers += inner
        return layers
    is_flatten = isinstance(module, nn.Flatten) and (module.start_dim, module.end_dim) == (1, -1)
    plain = type(module) in (nn.Linear, nn.ReLU, *ELEMENTWISE_LAYERS)
    return [(prefix, module)] if plain or is_flatten else None


def _plain(layers: Sequence[tuple[str, nn.Module]], weights: Packed) -> Forward:
    """The layers one after the other, with autograd's graph."""

    def forward(inputs: Tensor) -> Tensor:
        values, fresh = inputs, False
        for name, layer in layers:
            if isinstance(layer, nn.Linear):
                values, fresh = _linear(values, weights[f"{name}weight"], weights.get(f"{name}bias")), True
            elif isinstance(layer, nn.Flatten):
                values, fresh = values.flatten(2), False
            elif isinstance(layer, nn.ReLU):
                values, fresh = values.relu_() if fresh else values.relu(), False
            else:
                values, fresh = layer(values), False
        return values

    return forward


def _linear(values: Tensor, weight: Tensor, bias: Tensor | None, out: Tensor | None = None) -> Tensor:
    if bias is None:
        return torch.bmm(values, weight.mT, out=out)
    return torch.baddbmm(bias.unsqueeze(-2), values, weight.mT, out=out)


class Affine(NamedTuple):
    """One stacked linear layer, and whether a ReLU follows."""

    weight: Tensor
    bias: Tensor | None
    rectified: bool


def _affine(layers: Sequence[tuple[str, nn.Module]], weights: Packed) -> list[Affine] | None:
    """The layers, if there are but linear ones, each with at most a ReLU after it, and flat rows."""
    found: list[Affine] = []
    for name, layer in layers:
        if isinstance(layer, nn.Linear):
            found.append(Affine(weights[f"{name}weight"], weights.get(f"{name}bias"), False))
        elif isinstance(layer, nn.ReLU) and found and not found[-1].rectified:
            found[-1] = found[-1]._replace(rectified=True)
        elif not (isinstance(layer, nn.Flatten) and not found):
            return None
    return found or None


class Spares:
    """Large tensors to be used again, because fresh memory is slower than a pass over it."""

    def __init__(self) -> None:
        self.tensors: list[Tensor] = []

    def take(self, shape: Sequence[int], like: Tensor) -> Tensor:
        """A tensor with any content."""
        for k, tensor in enumerate(self.tensors):
            if tensor.shape == shape and tensor.dtype == like.dtype:
                return self.tensors.pop(k)
        return like.new_empty(shape)

    def give(self, *tensors: Tensor) -> None:
        """Take tensors back that nobody reads any more."""
        self.tensors = [*self.tensors, *tensors][-MOST_SPARE:]


class WrittenChain:
    """A chain of linear layers and ReLUs, forwards and backwards, a few parties at a time in memory that is reused."""

    def __init__(self, plain: Forward, layers: Sequence[Affine]) -> None:
        self.plain, self.layers, self.spares = plain, layers, Spares()
        self.weights = [tensor for layer in layers for tensor in (layer.weight, layer.bias) if tensor is not None]
        self.widest = max(layer.weight.shape[-2] for layer in layers)
        self._own = [_split(layer, len(layer.weight))[0] for layer in layers]
        self._layers_of: dict[int, list[list[Affine]]] = {}  # by how many parties are taken together

    def __call__(self, inputs: Tensor) -> Tensor:
        """The output; where torch reuses memory by itself, or chooses the precision, by autograd's own graph."""
        if inputs.device.type != "cpu" or torch.is_autocast_enabled("cpu"):
            return self.plain(inputs)
        if torch.is_grad_enabled():
            return _WrittenPass.apply(self, inputs, *self.weights)  # type: ignore[no-untyped-call,no-any-return]
        values = self.forward(inputs)
        self.spares.give(*values[1:-1])
        return values[-1]

    def forward(self, inputs: Tensor) -> list[Tensor]:
        """The flat inputs and what every layer gives; the output is fresh memory, the others are spares."""
        values = [inputs.flatten(2)]
        for layer in self.layers:
            shape = torch.Size((*values[0].shape[:-1], layer.weight.shape[-2]))
            values.append(inputs.new_empty(shape) if layer is self.layers[-1] else self.spares.take(shape, inputs))
        for layers, *part in self._parts(values):
            for layer, below, above in zip(layers, part, part[1:], strict=False):
                _linear(below, layer.weight, layer.bias, above)
                if layer.rectified:
                    above.relu_()
        return values

    def backward(self, values: Sequence[Tensor], slope: Tensor, *, to_inputs: bool) -> list[Tensor]:
        """The gradients of the flat inputs, if they are wanted, and of the weights; ``values`` are given back."""
        slopes = [torch.empty_like(weight) for weight in self.weights]
        of_inputs = [torch.empty_like(values[0])] if to_inputs else []
        for layers, *part in self._parts([*values, slope, *slopes, *of_inputs]):
            self._backward_of(layers, part[: len(values)], part[len(values)], part[len(values) + 1 :])
        self.spares.give(*values[1:-1])
        return of_inputs + slopes

    def _backward_of(self, layers: list[Affine], values: list[Tensor], slope: Tensor, into: list[Tensor]) -> None:
        """Write the gradients of a few parties, the weights' in order and then the inputs'."""
        of_inputs = into.pop() if len(into) > len(self.weights) else None
        owned: list[Tensor] = []  # the slope, once it is in memory of ours
        for k, layer in reversed(list(enumerate(layers))):
            if layer.rectified:
                room = owned[0] if owned else self.spares.take(slope.shape, slope)
                slope = _relu_slope(slope, values[k + 1], 0, grad_input=room)
                owned = [slope]
            if layer.bias is not None:
                torch.sum(slope, -2, out=into.pop())
            torch.bmm(slope.mT, values[k], out=into.pop())
            if k:
                below = torch.bmm(slope, layer.weight, out=self.spares.take(values[k].shape, slope))
                self.spares.give(*owned)
                slope, owned = below, [below]
            elif of_inputs is not None:
                torch.bmm(slope, layer.weight, out=of_inputs)
        self.spares.give(*owned)

    def _parts(self, values: Sequence[Tensor]) -> Iterable[tuple[Any, ...]]:
        """The layers and these tensors of so many parties at a time that their activations stay in the cache."""
        parties, rows, _ = values[0].shape
        of_one = max(1, rows * self.widest * values[0].element_size())
        size = max(1, min(parties, CACHED_BYTES // of_one))
        if size == parties:
            return [(self._own, *values)]
        if size not in self._layers_of:
            each = [_split(layer, size) for layer in self.layers]
            self._layers_of[size] = [list(layers) for layers in zip(*each, strict=True)]
        return zip(self._layers_of[size], *(value.split(size) for value in values), strict=True)


def _split(layer: Affine, size: int) -> list[Affine]:
    weights = layer.weight.detach().split(size)
    biases = [None] * len(weights) if layer.bias is None else layer.bias.detach().split(size)
    return [Affine(weight, bias, layer.rectified) for weight, bias in zip(weights, biases, strict=True)]


class _WrittenPass(torch.autograd.Function):
    """A chain as one node of autograd's graph."""

    @staticmethod
    def forward(ctx: Any, chain: WrittenChain, inputs: Tensor, *weights: Tensor) -> Tensor:
        _, *ctx.hidden, output = chain.forward(inputs)
        ctx.chain = chain
        ctx.save_for_backward(inputs, output, *weights)
        return output

    @staticmethod
    def backward(ctx: Any, slope: Tensor) -> Any:
        inputs, output, *weights = ctx.saved_tensors
        chain, hidden, to_inputs, with_graph = ctx.chain, ctx.hidden, ctx.needs_input_grad[1], torch.is_grad_enabled()
        if hidden is None or with_graph:  # a second time, or gradients that have a graph of their own
            with torch.enable_grad():
                wanted = [inputs, *weights] if to_inputs else weights
                slopes = torch.autograd.grad(chain.plain(inputs), wanted, slope, create_graph=with_graph)
            return None, *([] if to_inputs else [None]), *slopes
        ctx.hidden = None
        slopes = chain.backward([inputs.flatten(2), *hidden, output], slope, to_inputs=to_inputs)
        if not to_inputs:
            return None, None, *slopes
        return None, slopes[0].view(inputs.shape), *slopes[1:]
