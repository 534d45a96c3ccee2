"""Where a side computes, and the moves between there and the host.

In a step all tensors are on the side's device: networks, heads, duals, the rows of the turn, messages received. What is
sent, remembered or saved is on the host, and so are tables, unless a side moves its whole tables. So a tensor crosses
in two places: a group of parties (``runtime/loop.py``, ``fused.py``) and the owner's end (``runtime/parties.py``).

A device changes no message and no random number: a side draws on the host (``core/host_draws.py`` for networks that
draw by themselves). So it is no part of what several sides agree on, and a run goes on on another device.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from colonnade.core.options import check_name
from colonnade.errors import ConfigError, ModelError, unknown

PRECISIONS = ("float32", "bf16")
LOCAL_OPTIONS = ("device", "precision", "move_tables")
"""The options of training that each side chooses for itself; they are part of no terms and no plan."""
_HALF = {"cpu", "cuda", "mps", "xpu"}  # where torch casts by itself, as far as the device has bfloat16
_SMALLER = "take a smaller batch=, precision='bf16', move_tables=False, or another device="


@dataclass(frozen=True)
class Device:
    """Where a side computes, with which precision its networks do, and whether its whole tables are there.

    >>> Device().is_host, Device("auto").here().precision
    (True, 'float32')
    >>> Device("cuda", precision="double")
    Traceback (most recent call last):
    colonnade.errors.ConfigError: unknown precision 'double'; known: bf16, float32.
    """

    name: str = "cpu"
    precision: str = "float32"
    move_tables: bool = False

    def __post_init__(self) -> None:
        check_name(self.name, "a device")
        if self.precision not in PRECISIONS:
            raise unknown("precision", self.precision, PRECISIONS)
        if not isinstance(self.move_tables, bool):
            raise ConfigError(f"move_tables={self.move_tables!r} is out of range; give true or false.")

    @cached_property
    def at(self) -> torch.device:
        """The device as torch has it."""
        return torch.device(self.name)

    @cached_property
    def is_host(self) -> bool:
        """Whether nothing has to be moved."""
        return self.at.type == "cpu"

    @property
    def is_cuda(self) -> bool:
        """Whether CUDA computes."""
        return self.name.startswith("cuda")

    def plain(self) -> dict[str, Any]:
        """As a run folder keeps it."""
        return asdict(self)

    def here(self) -> Device:
        """This device, "auto" resolved, if this machine has it and it can do what is asked of it."""
        name = found()[0] if self.name == "auto" else self.name
        if not exists(name):
            words = ", ".join(found())
            raise ConfigError(
                f"device='{name}' is not on this machine, which has {words}; give one of those, or 'auto'."
            )
        device = Device(name, self.precision, self.move_tables)
        if self.precision == "bf16" and not _has_bf16(device.at):
            raise ConfigError(
                f"precision='bf16' is not supported on device='{name}' here; leave it out, or choose another device."
            )
        if device.is_cuda:  # read once, before the first product
            os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        return device

    # moves

    def bring(self, tensor: Tensor) -> Tensor:
        """A tensor of the host or of elsewhere, here."""
        if self.is_host and tensor.device.type == "cpu":
            return tensor
        if self.is_cuda and tensor.device.type == "cpu":
            return tensor.pin_memory().to(self.at, non_blocking=True)
        return tensor.to(self.at)

    def bring_message(self, message: Any) -> Any:
        """A message that was received, here; None stays None."""
        return message if self.is_host or message is None else type(message)(*map(self.bring, message))

    def give(self, message: Any) -> Any:
        """A message or a reply of this device as it leaves it: on the host; None stays None."""
        if self.is_host or message is None:
            return message
        return type(message)(*(tensor.detach().cpu() for tensor in message))

    def move(self, module: nn.Module, whose: str) -> nn.Module:
        """A network of the host, here; one that cannot leave the host is refused."""
        check_on_host(module, whose)
        if self.is_host:
            return module
        try:
            return module.to(self.at)
        except Exception as error:
            raise ModelError(
                f"the network of '{whose}' cannot move to device='{self.name}': {reason(error)}."
            ) from error

    # computing

    def casting(self) -> AbstractContextManager[Any]:
        """What a network computes within in the precision that was asked for."""
        if self.precision == "float32":
            return nullcontext()
        return torch.autocast(self.at.type, dtype=torch.bfloat16)


HOST = Device()


def check_on_host(module: nn.Module, whose: str) -> None:
    """Refuse a network that is not wholly on the host when it is built."""
    where = sorted({str(tensor.device) for tensor in (*module.parameters(), *module.buffers())})
    if where not in ([], ["cpu"]):
        raise ModelError(
            f"the network of '{whose}' is built on {' and '.join(where)}; build all of it on the host (cpu), and "
            "choose where it computes by device=."
        )


def found() -> list[str]:
    """The devices of this machine, the one that "auto" takes first.

    >>> "cpu" in found()
    True
    """
    cuda = [f"cuda:{number}" for number in range(torch.cuda.device_count())] if torch.cuda.is_available() else []
    return [*cuda, *(["mps"] if torch.backends.mps.is_available() else []), "cpu"]


def exists(name: str) -> bool:
    """Whether a tensor can be made on this device.

    >>> exists("cpu"), exists("cpu:0:0"), exists("meta")
    (True, False, False)
    """
    try:
        torch.zeros(1, device=name).cpu()
    except (RuntimeError, AssertionError, NotImplementedError):  # torch has one for each way not to have a device
        return False
    return True


def _has_bf16(at: torch.device) -> bool:
    return at.type in _HALF and (at.type != "cuda" or torch.cuda.is_bf16_supported(including_emulation=False))


@contextmanager
def repeatable(devices: Iterable[Device]) -> Iterator[None]:
    """Have CUDA give the same bits again for the duration; torch warns of what it cannot compute so."""
    before = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    if before[0] or not any(device.is_cuda for device in devices):
        yield
        return
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before[0], warn_only=before[1])


def moved(things: Mapping[str, Any], device: Device) -> dict[str, Any]:
    """Modules, optimisers, tensors and dictionaries of tensors on this device, the optimisers' parameters replaced."""
    new: dict[int, Tensor] = {}
    there = {name: _moved(thing, device, new) for name, thing in things.items()}
    for thing in there.values():
        if isinstance(thing, torch.optim.Optimizer):
            _follow(thing, new)
    return there


def _moved(thing: Any, device: Device, new: dict[int, Tensor]) -> Any:
    if isinstance(thing, nn.Module):
        before = dict(thing.named_parameters())
        after = dict(thing.to(device.at).named_parameters())
        new.update({id(before[name]): after[name] for name in before})
    elif isinstance(thing, Tensor):
        there = thing.detach().to(device.at)
        made = nn.Parameter(there, thing.requires_grad) if isinstance(thing, nn.Parameter) else there
        new[id(thing)] = made
        return made
    elif isinstance(thing, dict):
        for key, value in thing.items():
            thing[key] = device.bring(value)
    return thing


def _follow(optimizer: torch.optim.Optimizer, new: Mapping[int, Tensor]) -> None:
    """Let an optimiser step the parameters that stand for those that it was made with."""
    for group in optimizer.param_groups:
        for place, parameter in enumerate(group["params"]):
            there = new.get(id(parameter), parameter)
            group["params"][place] = there
            if there is not parameter and parameter in optimizer.state:
                optimizer.state[there] = optimizer.state.pop(parameter)


def reason(error: BaseException) -> str:
    """An error's own words for the middle of a sentence; of a device that is full, with what to do."""
    if isinstance(error, torch.OutOfMemoryError):
        return f"its device is full ({str(error).split('. ')[0]}); {_SMALLER}"
    return str(error)
