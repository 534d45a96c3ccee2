"""Labels as a message: classes in as few bits as they need, values as they are."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from colonnade.core.owner_side import Owner
from colonnade.core.schedule import Turn
from colonnade.core.task import Task
from colonnade.errors import MessageError


class Labels(NamedTuple):
    """Packed class numbers, packed yes and no, or values [rows, outputs]."""

    y: Tensor


def labels_to_send(owner: Owner, turn: Turn) -> Labels:
    """The labels that may be sent: the noisy ones, if a seal protects them."""
    y, task = owner.labels(turn), owner.task
    if task.name == "values":
        return Labels(y)
    whole = hard(y, protected=owner.protected) if task.name == "classes" else y.round().long().reshape(-1)
    bits = bits_of(task)
    return Labels(torch.from_numpy(_packed(whole.numpy(), bits)))


def labels_received(sent: Labels, rows: int, task: Task) -> Tensor:
    """The labels in the form of :meth:`Task.inside`; codes of no class are refused."""
    if task.name == "values":
        return sent.y
    count = rows if task.name == "classes" else rows * task.outputs
    codes = torch.from_numpy(_unpacked(sent.y.numpy(), bits_of(task), count))
    if task.name == "several":
        return codes.view(rows, task.outputs).float()
    if len(codes) and int(codes.max()) >= task.outputs:
        raise MessageError(f"the class number {int(codes.max())} came where {task.outputs} classes were agreed.")
    return codes


def bits_of(task: Task) -> int:
    """How many bits one label takes.

    >>> from colonnade.core.task import Classes
    >>> [bits_of(Classes(count)) for count in (2, 3, 10)]
    [1, 2, 4]
    """
    return max(1, (task.outputs - 1).bit_length()) if task.name == "classes" else 1


def hard(y: Tensor, *, protected: bool) -> Tensor:
    """Class numbers of soft targets.

    Protected targets are probabilities given the noisy label, so the commonest class may be the likeliest one whatever
    the noisy label was. That label is the class whose probability is furthest above its mean over the rows.

    >>> hard(torch.tensor([[0.99, 0.01], [0.6, 0.4]]), protected=True).tolist()
    [0, 1]
    """
    if not y.is_floating_point():
        return y
    return (y - y.mean(0) if protected else y).argmax(1)


def _packed(codes: NDArray[np.int64], bits: int) -> NDArray[np.uint8]:
    """Whole numbers of a few bits each, lowest bit first, without gaps."""
    return np.packbits(((codes[:, None] >> np.arange(bits)) & 1).astype(np.uint8), bitorder="little")


def _unpacked(raw: NDArray[np.uint8], bits: int, count: int) -> NDArray[np.int64]:
    if raw.ndim != 1 or len(raw) != -(-count * bits // 8):
        raise MessageError(f"labels came in {raw.size} bytes, where {count} labels of {bits} bits were expected.")
    each = np.unpackbits(raw, count=count * bits, bitorder="little").reshape(count, bits)
    return np.asarray(each.astype(np.int64) @ (1 << np.arange(bits)))
