"""The options of a method that nobody chose: they follow from what the rows are, before a plan is made.

Methods declare their usual values in ``with_sgd`` and ``with_adam``. What was resolved is in the plan, so folders and
signed documents have it, and a resumed run never resolves anything again.
"""

from __future__ import annotations

from dataclasses import replace

from colonnade.core.method import Method


def settled(method: Method, *, on_tables: bool) -> Method:
    """The method with a value for every option.

    On tables the optimiser is Adam, for pictures the paper's SGD; a rate without an optimiser is one of SGD.

    >>> from colonnade.methods import make_method
    >>> both = [settled(make_method("vimsgd"), on_tables=on_tables) for on_tables in (True, False)]
    >>> [(known.optimizer, known.lr) for known in both]
    [('adam', 0.001), ('sgd', 0.3)]
    """
    optimizer = method.optimizer or ("adam" if on_tables and method.lr is None else "sgd")
    usual = method.with_adam if optimizer == "adam" else method.with_sgd
    left = {name: value for name, value in usual.items() if getattr(method, name) is None}
    return replace(method, optimizer=optimizer, **left)  # type: ignore[arg-type]
