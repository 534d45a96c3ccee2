"""The command line, ``colonnade VERB``: one module per group of verbs, no logic of its own."""

from colonnade.cli import (
    align,
    audit,
    demo,
    federation,
    flare,
    keys,
    listing,
    predict,
    report,
    select,
    status,
    sweep,
    train,
    watch,
)
from colonnade.cli.app import app

__all__ = [
    "align",
    "app",
    "audit",
    "demo",
    "federation",
    "flare",
    "keys",
    "listing",
    "main",
    "predict",
    "report",
    "select",
    "status",
    "sweep",
    "train",
    "watch",
]


def main() -> None:
    """What the command ``colonnade`` runs."""
    app()
