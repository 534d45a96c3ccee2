"""Privacy budgets on disk between checkpoints: evaluating and predicting are releases that no checkpoint follows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load, save

from colonnade.channel import Channel
from colonnade.errors import CheckpointError
from colonnade.folder import write_bytes
from colonnade.state import under

SPENT = "privacy.safetensors"


def write_spent(folder: Path, channel: Channel, names: Sequence[str]) -> None:
    """Write down what every party's releases have cost so far."""
    spent = {name: channel.end(name).spent() for name in names}
    flat = {f"{name}/{key}": value for name, state in spent.items() for key, value in state.items()}
    write_bytes(folder / SPENT, save(flat))


def read_spent(folder: Path, channel: Channel, names: Sequence[str]) -> None:
    """Take back what was written, if something was."""
    if not (folder / SPENT).exists():
        return
    try:
        flat = load((folder / SPENT).read_bytes())
    except (OSError, SafetensorError) as error:
        raise CheckpointError(f"{folder / SPENT}, the privacy budgets, cannot be read: {error}.") from None
    for name in names:
        budget = channel.end(name).budget
        if budget is not None and under(under(flat, name), "budget"):
            budget.load(under(under(flat, name), "budget"))
