"""Builders of party networks: a builder is called with the shape of one row and the output width, and returns a module.

A builder may also have ``decision(embedding, classes)``, which returns the layers above the embedding. Methods that put
a whole model at every party (``vfedmh``, ``aggvfl``) use it, so that a LeNet is a whole LeNet. It may also have
``decoder(shape, embedding)``, the network from an embedding back to all numbers of a row, which ``apfed`` uses. And it
may have ``pretrain(net, table, width)``, which a party calls on its own rows once the network is built.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from torch import nn

from colonnade.core.options import describe_builder, make_builder
from colonnade.models.apfed_cnn import APFedCNN
from colonnade.models.bottleneck import Bottleneck
from colonnade.models.convolution import CNN, LeNet, SmallCNN, TinyCNN
from colonnade.models.mlp import MLP
from colonnade.models.pretrained import Pretrained
from colonnade.models.resnet import ResNet
from colonnade.models.table_net import TableNet

ModelBuilder = Callable[[tuple[int, ...], int], nn.Module]
KINDS: dict[str, Any] = {
    "mlp": MLP,
    "cnn": CNN,
    "small-cnn": SmallCNN,
    "tiny-cnn": TinyCNN,
    "lenet": LeNet,
    "resnet": ResNet,
    "apfed-cnn": APFedCNN,
    "table-net": TableNet,
    "pretrained": Pretrained,
    "bottleneck": Bottleneck,
}

__all__ = [
    "CNN",
    "MLP",
    "APFedCNN",
    "Bottleneck",
    "LeNet",
    "ModelBuilder",
    "Pretrained",
    "ResNet",
    "SmallCNN",
    "TableNet",
    "TinyCNN",
    "default_for",
    "default_model",
    "describe",
    "described",
    "make_model",
    "usual_for",
]


def default_model(shape: tuple[int, ...], width: int) -> nn.Module:
    """A CNN for pictures of at least eight pixels each way, else an MLP.

    >>> type(default_model((3, 10, 10), 60)).__name__, len(default_model((2, 28), 60))
    ('Sequential', 5)
    """
    return usual_for(shape)(shape, width)


def usual_for(shape: tuple[int, ...]) -> ModelBuilder:
    """The builder of the default model for rows of this shape."""
    return CNN() if len(shape) >= 2 and min(shape[-2:]) >= 8 else MLP()


def default_for(cardinalities: tuple[int, ...]) -> ModelBuilder:
    """The default builder for a table: one that learns embeddings if the last columns are codes of categories."""
    return TableNet(cardinalities=cardinalities) if cardinalities else default_model


def make_model(kind: str, **options: Any) -> ModelBuilder:
    """A model builder from its name, as a job file writes it.

    >>> make_model("mlp", hidden=[120])
    MLP(hidden=(120,))
    """
    return make_builder("model", KINDS, kind, options)  # type: ignore[no-any-return]


def describe(builder: Any) -> dict[str, Any] | None:
    """The builder as plain data for a run's config, or None if it is the user's own function."""
    return {"kind": "default"} if builder is default_model else describe_builder(KINDS, builder)


def described(entry: Mapping[str, Any]) -> ModelBuilder:
    """The builder that :func:`describe` gave this entry of."""
    return default_model if entry["kind"] == "default" else make_model(**entry)
