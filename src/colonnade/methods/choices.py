"""Losses and weights of passive parties, given one for all or one for each, and the checks of both."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from colonnade.errors import ConfigError
from colonnade.methods.passive import find_loss, wanted

T = TypeVar("T")
MOST = 1e6  # a larger weight drowns the owner's own loss, and overflows before it could help


def as_tuple(given: Any) -> Any:
    """A list, as a job file has it, as the tuple that an option is in code."""
    return tuple(given) if isinstance(given, list) else given


def of_party(party: int, each: Sequence[T], shared: T) -> T:
    """A passive party's own entry of ``each``, which has one per passive party, or else the shared value."""
    return each[party - 1] if 0 < party <= len(each) else shared


def check_choices(method: str, options: dict[str, Any]) -> None:
    """Refuse unknown losses, losses that want an option the method does not have, and weights out of range."""
    if not isinstance(options["losses"], tuple) or not isinstance(options["weights"], tuple):
        raise ConfigError(f"{method}: losses and weights are lists with one entry per passive party.")
    weights = options["weights"] or (options["weight"],)
    for name in options["losses"] or (options["loss"],):
        for key in wanted(find_loss(name)):
            if key not in options:
                raise ConfigError(f"the passive loss '{name}' wants an option '{key}', which {method} does not have.")
    for weight in weights:
        number = isinstance(weight, int | float) and not isinstance(weight, bool)
        if not number or not 0 <= weight <= MOST:
            raise ConfigError(f"{method}: the weight {weight!r} is out of range; give numbers from 0 to {MOST:g}.")
    for key in ("projection", "contribution_every"):
        if options[key] < 0:
            raise ConfigError(f"{method}: {key}={options[key]} is out of range; give 0 or more.")


def check_count(method: str, parties: int, **given: Sequence[Any]) -> None:
    """Refuse lists that do not have one entry per passive party."""
    if not parties:
        raise ConfigError(f"{method} needs a party beside the owner, and there is none; use local instead.")
    for name, each in given.items():
        if len(each) not in (0, parties):
            raise ConfigError(
                f"{method}: {name} has {len(each)} entries for {parties} parties beside the owner; "
                "give one per party, in their order, or none."
            )


def check_rows(losses: Sequence[str], rows: int) -> None:
    """Refuse a schedule whose smallest batch has too few rows for a loss."""
    for name in losses:
        find_loss(name).check_batch(rows, "the smallest batch", ConfigError)
