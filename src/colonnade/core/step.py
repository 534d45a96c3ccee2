"""Which side may run a step: a party, when the owner asks for the step by name, or only an owner itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeVar

from colonnade.errors import ConfigError

Side = Literal["party", "owner"]
StepFunction = TypeVar("StepFunction", bound=Callable[..., Any])
_MANY = {"party": "parties", "owner": "owners"}


def party_step(function: StepFunction) -> StepFunction:
    """Mark a function as a step that a party runs when the owner asks for it by name."""
    return _marked(function, "party")


def owner_step(function: StepFunction) -> StepFunction:
    """Mark a function as a step of one of several owners, or of the owner's own columns; no party serves it."""
    return _marked(function, "owner")


def steps_of(side: Side, place: object) -> dict[str, Callable[..., Any]]:
    """The public steps of a class or a module that this side runs, by name."""
    public = {name: getattr(place, name) for name in dir(place) if not name.startswith("_")}
    return {name: step for name, step in public.items() if getattr(step, "runs_at", None) == side}


def check_step(step: Callable[..., Any], *sides: Side) -> None:
    """Refuse a function that none of these sides may run; the error message names the first of them.

    >>> check_step(print, "party")
    Traceback (most recent call last):
    colonnade.errors.ConfigError: parties were asked to run 'print', which is no step; mark it with @party_step.
    """
    side: Side | None = getattr(step, "runs_at", None)
    if side not in sides:
        kind = f"no step; mark it with @{sides[0]}_step" if side is None else f"a step of {_MANY[side]}; ask those"
        name = getattr(step, "__name__", repr(step))
        raise ConfigError(f"{_MANY[sides[0]]} were asked to run '{name}', which is {kind}.")


def _marked(function: StepFunction, side: Side) -> StepFunction:
    function.runs_at = side  # type: ignore[attr-defined]
    return function
