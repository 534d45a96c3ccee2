"""Import pyarrow only when a file is read: the rest of the package does not need it."""

from __future__ import annotations

import importlib
from typing import Any

from colonnade.errors import ConfigError


def arrow(module: str = "pyarrow") -> Any:
    """Import a module of pyarrow, or raise the error that says how to install it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ConfigError(
            "reading files needs pyarrow, which is not installed; pip install 'colonnade[tables]'."
        ) from error
