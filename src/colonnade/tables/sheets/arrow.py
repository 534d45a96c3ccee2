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


def as_texts(values: Any) -> Any:
    """An array cast to texts.

    A part of an array of long texts is copied first: once it is cast, Arrow 26 would lower-case other rows.
    """
    pa, pc = arrow(), arrow("pyarrow.compute")
    if values.offset and (pa.types.is_large_string(values.type) or pa.types.is_large_binary(values.type)):
        values = values.take(pa.array(range(len(values)), pa.int64()))
    return pc.cast(values, pa.string())
