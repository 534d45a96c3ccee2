"""The file in a run folder with what was used of every party's privacy budget.

It is also written between checkpoints: evaluations and predictions release values too, and no checkpoint follows them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from colonnade.core.state import under
from colonnade.disk.tensor_files import read_tensors
from colonnade.disk.whole_files import write_bytes
from colonnade.errors import CheckpointError
from colonnade.wire.ends import Ends

SPENT = "privacy.safetensors"
DIGEST = "digest"


def save_budgets(folder: Path, ends: Ends, names: Sequence[str]) -> None:
    """Write what all of each party's releases have used of its privacy budget."""
    budgets = {name: ends[name].budget_state() for name in names}
    flat = {f"{name}/{key}": value for name, state in budgets.items() for key, value in state.items()}
    write_bytes(folder / SPENT, save({**flat, DIGEST: _digest(flat)}), durable=True)


def load_budgets(folder: Path, ends: Ends, names: Sequence[str]) -> None:
    """Read the used budgets back into the channel.

    A file that is missing or altered is an error: it must not look as if nothing was used.
    """
    budgets = {name: budget for name in names if (budget := ends[name].budget) is not None}
    if not (folder / SPENT).exists():
        if any(budget.releases for budget in budgets.values()):
            raise _not_known(folder, "missing")
        return
    flat = _read(folder)
    for name, budget in budgets.items():
        used = under(under(flat, name), "budget")
        if not used:
            raise _not_known(folder, "damaged")
        budget.load(used)


def is_written(folder: Path) -> bool:
    """Whether a folder has the file of used budgets."""
    return (folder / SPENT).exists()


def _read(folder: Path) -> dict[str, Tensor]:
    try:
        flat = load(read_tensors(folder / SPENT))
    except (OSError, ValueError, SafetensorError):
        raise _not_known(folder, "damaged") from None
    written = flat.pop(DIGEST, None)  # folders of older versions have no digest
    if written is not None and not torch.equal(written, _digest(flat)):
        raise _not_known(folder, "damaged")
    return flat


def _digest(flat: Mapping[str, Tensor]) -> Tensor:
    return torch.tensor(list(hashlib.sha256(save(dict(flat))).digest()), dtype=torch.uint8)


def _not_known(folder: Path, why: str) -> CheckpointError:
    return CheckpointError(
        f"{folder / SPENT}, without which nobody knows what was spent of the privacy budgets, is {why}; "
        "bring it back from a copy, or start over."
    )
