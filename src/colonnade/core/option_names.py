"""Options that were renamed: the one table of old and new names.

Users may still write an old name, and are warned once. Checkpoints, signed terms and plans keep the old names, so that
folders and partners of an older version can be read.
"""

from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import Callable, Mapping
from typing import Any, ParamSpec, TypeVar

from colonnade.errors import ConfigError

P = ParamSpec("P")
R = TypeVar("R")

NEW_NAMES = {"away": "absent", "when_away": "when_absent"}
STORED_NAMES = {new: old for old, new in NEW_NAMES.items()}


OTHERS_NAMES = {
    "lr": "optimizer=colonnade.Adam(lr={value!r})",
    "learning_rate": "optimizer=colonnade.Adam(lr={value!r})",
    "batch_size": "batch={value!r}",
    "n_epochs": "epochs={value!r}",
    "num_epochs": "epochs={value!r}",
    "random_state": "seed={value!r}",
    "validation_split": "valid={value!r}",
}
"""What other libraries call an option, and what is written here."""


def _refuse_others_names(function: Callable[..., Any], kwargs: Mapping[str, Any]) -> None:
    own = inspect.signature(function).parameters
    for name in kwargs:
        if name in OTHERS_NAMES and name not in own:
            instead = OTHERS_NAMES[name].format(value=kwargs[name])
            raise ConfigError(f"{function.__name__} has no option '{name}'; write {instead:.80}.")


def new_names(options: Mapping[str, Any], where: str, stacklevel: int = 2) -> dict[str, Any]:
    """What a user wrote, under the new names; an old name is accepted with a warning.

    >>> new_names({"rounds": 3, "when_absent": "skip"}, "[train]")
    {'rounds': 3, 'when_absent': 'skip'}
    """
    old_names = [name for name in options if name in NEW_NAMES and NEW_NAMES[name] not in options]
    for old in old_names:
        warnings.warn(
            f"{old!r} in {where} is called {NEW_NAMES[old]!r} now; write that, for the old name will be removed.",
            DeprecationWarning,
            stacklevel=stacklevel + 1,
        )
    return {NEW_NAMES[name] if name in old_names else name: value for name, value in options.items()}


def from_stored_names(options: Mapping[str, Any]) -> dict[str, Any]:
    """What a folder or a signed document has, under the new names.

    >>> from_stored_names({"when_away": "skip"})
    {'when_absent': 'skip'}
    """
    return {NEW_NAMES.get(name, name): value for name, value in options.items()}


def stored_names(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options under the names that folders and signed documents have for them.

    >>> stored_names({"when_absent": "skip"})
    {'when_away': 'skip'}
    """
    return {STORED_NAMES.get(name, name): value for name, value in options.items()}


def accepts_old_names(function: Callable[P, R]) -> Callable[P, R]:
    """Let a function of the public surface take its options by their old names too, and explain those of others."""

    @functools.wraps(function)
    def renaming(*args: P.args, **kwargs: P.kwargs) -> R:
        _refuse_others_names(function, kwargs)
        if NEW_NAMES.keys() & kwargs.keys():
            return function(*args, **new_names(kwargs, f"{function.__name__}()"))
        return function(*args, **kwargs)

    return renaming
