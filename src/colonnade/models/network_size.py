"""Count the numbers of a network without allocating them, so that too large a width cannot fill the memory."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn

from colonnade.errors import ColonnadeError, ModelError

MOST_NUMBERS = 10**9  # of one network; with an optimiser's buffers that is 4 to 12 GB


def check_size(make: Callable[[], nn.Module], whose: str) -> None:
    """Refuse a network that is too large, before it is allocated; the state of torch's generator does not change."""
    before = torch.get_rng_state()
    try:
        with torch.device("meta"):
            net = make()
        count = sum(tensor.numel() for tensor in (*net.parameters(), *net.buffers()))
    except ColonnadeError:
        raise
    except Exception:  # the caller builds the network next, and then reports why it cannot be built
        count = 0
    finally:
        torch.set_rng_state(before)
    if count > MOST_NUMBERS:
        raise ModelError(
            f"the network of '{whose}' would hold {count:,} numbers, and {MOST_NUMBERS:,} is the most here; "
            "give smaller widths."
        )
