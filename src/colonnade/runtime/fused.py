"""Like parties computed as one batch: parameters stacked along a leading party axis.

Parties fuse if their networks, optimisers and row shapes are alike; the rest are looped. A trial
forward pass proves that the stacked networks give what the single ones give before they are used.
Groups are kept small enough for a layer's activations to stay in the processor's cache, which is
worth more than one large batch.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Container, Hashable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap

from colonnade.core.column_scale import ColumnScale
from colonnade.core.method import Net, Turn
from colonnade.core.state import (
    ELEMENTWISE_OPTIMIZERS,
    Packed,
    copy,
    is_counter,
    pack_optimizer,
    position_of,
    under,
    unpack_optimizer,
)
from colonnade.core.table import Table
from colonnade.models.bottleneck import DrawnEmbedding
from colonnade.runtime.group import Group
from colonnade.runtime.loop import LoopGroup, LoopNet
from colonnade.runtime.stacked_layers import chain

log = logging.getLogger(__name__)
FLOAT_BYTES = 4
CACHE_BYTES = 2 << 20  # of one layer's activations; larger groups leave the cache, smaller ones cost more calls
LARGE_BYTES = 1 << 19  # of one layer's activations; handing such a group to another thread adds 2 to 5 % of CPU
NARROW = 32  # columns, for which matrix products are slow
RANDOM_LAYERS = (nn.modules.dropout._DropoutNd, nn.RReLU, DrawnEmbedding)


class FusedNet(Net):
    """Several parties' like networks with one optimiser over their stacked parameters."""

    party_axes = 1

    def __init__(self, nets: Sequence[LoopNet], builder: Callable[..., torch.optim.Optimizer]) -> None:
        self.module = nets[0].module
        self.device = nets[0].device
        count = len(nets)
        self.weights = {name: _room(value, count).requires_grad_() for name, value in self.module.named_parameters()}
        self.buffers = {name: _room(value, count) for name, value in self.module.named_buffers()}
        super().__init__(list(self.weights.values()), builder(list(self.weights.values())))
        for group in self.optimizer.param_groups:
            if group.get("fused") is None and "fused" in group and self.device.is_host:
                group["fused"] = True  # one kernel per parameter instead of several
        self.load([(dict(net.module.state_dict()), pack_optimizer(net.optimizer)) for net in nets])
        self.forward = chain(self.module, self.weights) or self._vmapped

    def __call__(self, inputs: Tensor) -> Tensor:
        """The outputs of all members, party axis first."""
        if self.device.precision == "float32":
            return self.forward(inputs)
        with self.device.casting():
            return self.forward(inputs).float()

    def _vmapped(self, inputs: Tensor) -> Tensor:
        def forward_one(weights: Packed, buffers: Packed, rows: Tensor) -> Tensor:
            return functional_call(self.module, (weights, buffers), (rows,))  # type: ignore[no-any-return]

        return vmap(forward_one)(self.weights, self.buffers, inputs)

    def states(self, count: int) -> list[Packed]:
        """Each member's weights and optimiser buffers, named as a single party names them."""
        named = {f"weights/{name}": value.detach() for name, value in (self.weights | self.buffers).items()}
        members = [{name: copy(value[k]) for name, value in named.items()} for k in range(count)]
        for key, value in pack_optimizer(self.optimizer).items():
            is_stacked = not is_counter(key) and value.shape == self.parameters[position_of(key)].shape
            for k, member in enumerate(members):
                member[f"optimizer/{key}"] = value[k].clone() if is_stacked else value.clone()
        return members

    def load(self, members: Sequence[tuple[Packed, Packed]]) -> None:
        """Stack each member's (weights, optimiser buffers) in place."""
        with torch.no_grad():
            for name, target in (self.weights | self.buffers).items():
                target.copy_(torch.stack([weights[name] for weights, _ in members]))
        first = members[0][1]
        stacked = {}
        for key, value in first.items():
            is_own = not is_counter(key) and value.shape == self.parameters[position_of(key)].shape[1:]
            stacked[key] = torch.stack([buffers[key] for _, buffers in members]) if is_own else value
        unpack_optimizer(self.optimizer, stacked)


class FusedGroup(Group):
    """Several like parties behind the interface of one."""

    def __init__(self, groups: Sequence[LoopGroup], builders: dict[str, Callable[..., torch.optim.Optimizer]]) -> None:
        super().__init__(groups[0].leaders, groups[0].device)
        self.members = [group.members[0] for group in groups]
        self.singles = list(groups)
        self.task = groups[0].task
        self.builders = builders
        self.fused_nets = {
            name: FusedNet([group.loop_nets[name] for group in groups], builders[name]) for name in groups[0].nets
        }
        self.nets = dict(self.fused_nets)
        self.widest = _widest_layer(groups[0])
        self._drawn: tuple[Turn, Tensor] | None = None

    def is_large(self, turn: Turn) -> bool:
        """Whether a step of this turn is enough work for a core of its own; other devices have cores of theirs."""
        return (
            self.device.is_host and FLOAT_BYTES * turn.rows.shape[-1] * self.widest * len(self.members) >= LARGE_BYTES
        )

    def inputs(self, turn: Turn) -> Tensor:
        """The members' rows of the turn, party axis first, drawn once per turn."""
        if self._drawn is None or self._drawn[0] is not turn:
            self._drawn = turn, self.device.bring(torch.stack([group.draw(turn) for group in self.singles]))
        return self._drawn[1]

    def labels(self, turn: Turn) -> Tensor:
        """The members' labels of their rows of the turn, owner axis first."""
        return torch.stack([group.labels(turn) for group in self.singles])

    def known(self, turn: Turn) -> Tensor:
        """Which of the turn's rows each member really has, party axis first."""
        return torch.stack([group.known(turn) for group in self.singles])

    def own(self, message: Tensor) -> Tensor:
        """The message once per member, party axis first."""
        return message.expand(len(self.members), *message.shape)

    def product(self, rows: Tensor, matrix: Tensor) -> Tensor:
        """``rows @ matrix``; a narrow matrix, such as a head, is three times as quick from the other side."""
        return (matrix.mT @ rows.mT).mT if matrix.shape[-1] < NARROW else rows @ matrix

    def run(self, step: Callable[..., Any], turn: Turn, received: Sequence[Any], shared: bool) -> list[Any]:
        """Run the step once for all members."""
        for net in self.fused_nets.values():
            net.module.train(turn.training)
        arguments = [self.device.bring_message(received[0] if shared else _stack(received))] if received else []
        with torch.set_grad_enabled(turn.training):
            reply = self.device.give(step(self, turn, *arguments))
        if reply is None:
            return [None] * len(self.members)
        return [type(reply)(*fields) for fields in zip(*(tensor.unbind(0) for tensor in reply), strict=True)]

    def place(self, name: str, tables: Sequence[Table]) -> None:
        """Put a table under a name at every member."""
        for group in self.singles:
            group.place(name, tables)

    def states(self) -> dict[int, Packed]:
        """Each member's own state."""
        states: dict[int, Packed] = {
            member: {f"memory/{name}": copy(value[k]) for name, value in self.memory.items()}
            | self.singles[k].scale_state
            for k, member in enumerate(self.members)
        }
        for name, net in self.fused_nets.items():
            for member, state in zip(self.members, net.states(len(self.members)), strict=True):
                states[member] |= {f"{name}/{key}": value for key, value in state.items()}
        return states

    def load(self, states: dict[int, Packed]) -> None:
        """Take each member's state back."""
        mine = [states[member] for member in self.members]
        for single, state in zip(self.singles, mine, strict=True):
            single.take_scale(state)
        self.memory = {
            name: self.device.bring(torch.stack([under(state, "memory")[name] for state in mine]))
            for name in under(mine[0], "memory")
        }
        for name, net in self.fused_nets.items():
            own = [under(state, name) for state in mine]
            net.load([(under(state, "weights"), under(state, "optimizer")) for state in own])

    def split(self, kind: Callable[[int], Hashable]) -> list[Group]:
        """One group per kind of member instead of one for all; the new groups have fresh state."""
        kinds: dict[Hashable, list[LoopGroup]] = defaultdict(list)
        for group in self.singles:
            kinds[kind(group.members[0])].append(group)
        if len(kinds) == 1:
            return [self]
        return [FusedGroup(s, self.builders) if len(s) > 1 else s[0] for s in kinds.values()]

    def stage(self, state: Packed) -> Hashable:
        """What members must have in common to be stacked: what they remember, an optimiser's buffers and counters."""
        parts: list[Hashable] = [tuple(sorted(under(state, "memory")))]
        for name, net in self.fused_nets.items():
            for key, value in sorted(under(under(state, name), "optimizer").items()):
                own = not is_counter(key) and value.shape == net.parameters[position_of(key)].shape[1:]
                parts.append((name, key, None if own else tuple(value.flatten().tolist())))
        return tuple(parts)


def fuse(
    groups: Sequence[LoopGroup],
    builders: Sequence[dict[str, Callable[..., torch.optim.Optimizer]]],
    batch: int,
    apart: Container[int] = (),
    kind_of: Callable[[int], Hashable] = lambda _: None,
) -> list[Group]:
    """Group like parties of one kind; parties that are like no other, or are to stay ``apart``, stay as they are."""
    alike: dict[Hashable, list[int]] = defaultdict(list)
    for k, group in enumerate(groups):
        likeness = None if k in apart else _likeness(group)
        alike[(likeness, kind_of(k)) if likeness else ("alone", k)].append(k)
    fused: list[Group] = []
    for members in alike.values():
        for numbers in _groups(members, groups[members[0]], batch):
            fused += _fuse_group([groups[k] for k in numbers], builders[numbers[0]])
    return sorted(fused, key=lambda group: group.members[0])


def _fuse_group(singles: list[LoopGroup], builders: dict[str, Callable[..., torch.optim.Optimizer]]) -> list[Group]:
    if len(singles) > 1:
        group = FusedGroup(singles, builders)
        if all(_agree(group, name) for name in _known_inputs(group.singles[0])):
            return [group]
        log.info("parties %s are computed one by one: their networks cannot be stacked", group.members)
    return list(singles)


def _likeness(group: LoopGroup) -> Hashable | None:
    """Equal for parties that may be fused; None for one that may not."""
    table = group.tables["train"]
    own = isinstance(table.scale, ColumnScale)  # each party's own statistics, which drawing applies
    traits: list[Hashable] = [table.shape, ColumnScale if own else table.scale, group.device]
    if not group.loop_nets or table.known is not None or table.unaligned is not None:
        return None  # parties with different rows have different shapes within a step
    for name, net in group.loop_nets.items():
        optimizer = net.optimizer
        if type(optimizer) not in ELEMENTWISE_OPTIMIZERS or len(optimizer.param_groups) != 1:
            return None
        if not _can_be_stacked(net.module):
            return None
        options = {key: value for key, value in optimizer.param_groups[0].items() if key != "params"}
        shapes = tuple((key, tuple(value.shape)) for key, value in net.module.state_dict().items())
        traits += [name, repr(net.module), shapes, str(type(optimizer)), repr(sorted(options.items()))]
    return tuple(traits)


def _can_be_stacked(module: nn.Module) -> bool:
    """Whether stacked tensors can say all that the module's state says; noise must be each party's own."""
    parameters = dict(module.named_parameters())
    own = set(parameters) | {name for name, _ in module.named_buffers()}
    return (
        own == set(module.state_dict())  # no tied weights, no buffers that are not saved
        and all(value.ndim and value.requires_grad for value in parameters.values())
        and not any(isinstance(layer, RANDOM_LAYERS) for layer in module.modules())
    )


def _groups(members: list[int], group: LoopGroup, batch: int) -> list[list[int]]:
    if not group.device.is_host:
        return [members]
    size = max(1, CACHE_BYTES // (FLOAT_BYTES * batch * _widest_layer(group)))
    count = -(-len(members) // size)
    return [members[i * len(members) // count : (i + 1) * len(members) // count] for i in range(count)]


def _widest_layer(group: LoopGroup) -> int:
    """The most numbers that any layer gives for one row."""
    widths = [1]
    modules = [m for net in group.loop_nets.values() for m in net.module.modules() if not list(m.children())]
    hooks = [m.register_forward_hook(lambda _m, _i, out: widths.append(out[0].numel())) for m in modules]
    try:
        for name in _known_inputs(group):
            _trial(group, name)
    finally:
        for hook in hooks:
            hook.remove()
    return max(widths)


def _known_inputs(group: LoopGroup) -> list[str]:
    """The networks of which one knows what they read, so that they can be tried."""
    return [name for name, net in group.loop_nets.items() if name == "net" or net.reads is not None]


def _sample(group: LoopGroup, name: str) -> Tensor:
    """Something that a network can read: rows, or vectors of its width."""
    table, width = group.tables["train"], group.loop_nets[name].reads
    if width is None:
        return group.device.bring(table.draw(torch.arange(min(2, table.rows))))
    return group.device.bring(torch.linspace(-1, 1, 2 * width).view(2, -1))


def _trial(group: LoopGroup, name: str) -> Tensor:
    net = group.loop_nets[name]
    net.module.eval()
    with torch.no_grad():
        return net.module(_sample(group, name))  # type: ignore[no-any-return]


def _agree(group: FusedGroup, name: str) -> bool:
    inputs = torch.stack([_sample(single, name) for single in group.singles])
    expected = torch.stack([_trial(single, name) for single in group.singles])
    net = group.fused_nets[name]
    buffers = {key: value.clone() for key, value in net.buffers.items()}
    try:
        with torch.no_grad():
            net.module.train()
            net.forward(inputs)  # noise that is drawn in training only is refused by vmap here
            for key, value in buffers.items():
                net.buffers[key].copy_(value)
            net.module.eval()
            return bool(torch.allclose(net.forward(inputs), expected, rtol=1e-4, atol=1e-5))
    except (RuntimeError, ValueError):
        return False  # vmap cannot express this network


def _room(value: Tensor, count: int) -> Tensor:
    return torch.empty((count, *value.shape), dtype=value.dtype, device=value.device)


def _stack(messages: Sequence[Any]) -> Any:
    return type(messages[0])(*(torch.stack(fields) for fields in zip(*messages, strict=True)))
