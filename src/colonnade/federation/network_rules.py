"""Which networks a party accepts: what they send of a row must not reveal the party's columns.

A network without a hidden layer is one matrix and a bend. Whoever gets as many numbers of a row as the party has
columns has a linear system for the columns; a few known rows give the matrix. A narrow network gives no fewer: rounds
can be repeated, and every evaluation is about the same rows under other weights. Under Blind the system is that of the
sum, for all parties at once. So such a network is refused unless the operator says ``layers = 0``. The same holds for
methods in which the columns pass no network at all: ``apfed`` with its reconstruction loss sends what is linear in
them. A method whose parties fit by themselves what they send has no such network; then only as many
linear numbers of a row as there are columns are refused.

Hidden layers are counted in the network itself, as it would be built, not by its name: linear layers, and convolutions
that look at more than one pixel; the last one makes the embedding. Tables of embedded codes are none, since a code can
be looked up.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import nn

from colonnade.core.method import Method
from colonnade.core.optim import OptimizerBuilder
from colonnade.core.table import Table
from colonnade.errors import ColonnadeError, ManifestError
from colonnade.federation.side_sections import AllowSection
from colonnade.models import ModelBuilder
from colonnade.runtime.schema import ROWS
from colonnade.wire.ledger import OWNER

log = logging.getLogger(__name__)
WIDE = 0.5  # numbers of a row for each column; see the figures in docs/seals.md
MOST_NUMBERS = 10**8  # of one party's networks together; with an optimiser's moments 1.2 GB


class Sketch:
    """Builds a party's networks without their numbers, and remembers those that read its rows."""

    leaders: Sequence[str] = (OWNER,)

    def __init__(self, model: ModelBuilder, own: Table, party: int, linear: int | None = None) -> None:
        self.model, self.shape, self.party, self.linear = model, own.shape, party, linear
        self.lacks_rows = own.known is not None
        self.reading: list[nn.Module] = []

    def __call__(self, width: int) -> nn.Module:
        """The network from the party's rows to this width."""
        self.reading.append(self.model(self.shape, width))
        return self.reading[-1]

    def decision(self, embedding: int, classes: int) -> nn.Module | None:
        """The layers above the embedding that the builder brings."""
        make = getattr(self.model, "decision", None)
        return None if make is None else make(embedding, classes)

    def decoder(self, embedding: int) -> nn.Module | None:
        """The network back to the rows that the builder brings."""
        make = getattr(self.model, "decoder", None)
        return None if make is None else make(self.shape, embedding)

    @property
    def hidden_layers(self) -> int:
        """Between the columns and what is sent; none if the columns pass no network."""
        return min((max(0, _layers(net) - 1) for net in self.reading), default=0)


def sketch(
    method: Method, model: ModelBuilder, optimizer: OptimizerBuilder, own: Table, member: int, outputs: int
) -> Sketch:
    """A party's networks as they would be, if they are not too large for it."""
    made = Sketch(model, own, member, method.linear_numbers(outputs))
    before = torch.get_rng_state()
    try:
        with torch.device("meta"):
            parts = method.party_parts(made, optimizer, outputs)
    except ColonnadeError:
        raise
    except Exception as error:
        raise ManifestError(
            f"the plan has a network for '{own.name}' that cannot be built ({type(error).__name__}); change [model]."
        ) from None
    finally:
        torch.set_rng_state(before)
    numbers = sum(tensor.numel() for part in parts.values() for tensor in (*part.net.parameters(), *part.net.buffers()))
    if numbers > MOST_NUMBERS:
        raise ManifestError(
            f"the plan has networks of {numbers:,} numbers for '{own.name}', and {MOST_NUMBERS:,} is the most; give "
            "smaller widths."
        )
    return made


def check_kind(entry: Mapping[str, Any], kind: str, name: str, allow: AllowSection) -> None:
    """Refuse a kind of network that is not allowed."""
    if allow.networks is not None and kind not in allow.networks:
        raise ManifestError(
            f"the plan has the network '{kind}' for '{name}', which allows {', '.join(allow.networks)}; change [model] "
            "of the job, or networks in [allow]."
        )


def check_network(made: Sketch, plan: Mapping[str, Any], own: Table, allow: AllowSection) -> None:
    """Refuse a network from whose messages the columns follow, or one beyond what the operator allows."""
    name, layers, width = own.name, made.hidden_layers, sent_of_a_row(plan["schema"], own.name)
    if allow.width is not None and width > allow.width:
        raise ManifestError(
            f"the plan lets '{name}' send {width} numbers of a row in a round, and it allows {allow.width}; make the "
            "embedding narrower, or raise width in [allow]."
        )
    _check_share(width, own, allow)
    if made.linear is not None:
        _check_linear(made.linear, own, allow)
        return
    if layers < (allow.layers or 0):
        raise ManifestError(
            f"the plan has a network with {layers} hidden layers for '{name}', and it allows {allow.layers} at least; "
            "change [model] of the job, or layers in [allow]."
        )
    if allow.layers is None and width and not layers:
        raise ManifestError(
            f"'{name}' would send {width} numbers of each row in a round that pass no hidden layer, and has "
            f"{columns_of(own)} columns: they follow from as many by a linear system, and an owner may ask as often as "
            "it likes; ask for a network with hidden layers (and of apfed for another loss), or write layers = 0 in "
            "[allow]."
        )


def _check_share(width: int, own: Table, allow: AllowSection) -> None:
    """Refuse more numbers of a row for each column than the operator allows; warn where it says nothing of many."""
    columns = columns_of(own)
    if allow.width_per_column is not None and width > allow.width_per_column * columns:
        raise ManifestError(
            f"the plan lets '{own.name}' send {width} numbers of a row in a round, and for {columns} columns it allows "
            f"{allow.width_per_column * columns:g}; make the embedding narrower, or raise width_per_column in [allow]."
        )
    if allow.width_per_column is None and allow.width is None and width > WIDE * columns:
        log.warning(
            "'%s' is to send %d numbers of each row and has %d columns; whoever knows some rows can read most columns "
            "of all others from so many. Write width_per_column = %g in [allow] to refuse that.",
            own.name,
            width,
            columns,
            WIDE,
        )


def _check_linear(numbers: int, own: Table, allow: AllowSection) -> None:
    """Refuse as many linear numbers of a row as there are columns; fewer leave the columns open."""
    if allow.layers is None and numbers >= columns_of(own):
        raise ManifestError(
            f"'{own.name}' would send {numbers} numbers of each row that are linear in its {columns_of(own)} columns: "
            "a few known rows give all others by a linear system; ask for a smaller embedding, or for another learner, "
            "or write layers = 0 in [allow]."
        )


def sent_of_a_row(schema: Mapping[str, Any], name: str) -> int:
    """How many numbers of one row a party sends in a round, all steps together."""
    numbers = 0
    for key, form in schema.items():
        if key.startswith(f"{name}/up/"):
            shapes = [shape for _, shape in form.values() if ROWS in shape]
            numbers += sum(math.prod(width for width in shape if width > 0) for shape in shapes)
    return numbers


def columns_of(own: Table) -> int:
    """How many columns there are to tell: those of the file, where one may have become several inputs."""
    return min(math.prod(own.shape), len(own.source_names) or math.prod(own.shape))


def _layers(net: nn.Module) -> int:
    wide = [module for module in net.modules() if isinstance(module, nn.Conv2d) and max(module.kernel_size) > 1]
    return len(wide) + sum(isinstance(module, nn.Linear) for module in net.modules())
