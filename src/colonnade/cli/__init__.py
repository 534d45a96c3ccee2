"""The command line, ``colonnade VERB``: one module per group of verbs, no logic of its own."""

from colonnade.cli import demo, listing, report, select, sweep, train
from colonnade.cli.app import app

__all__ = ["app", "demo", "listing", "main", "report", "select", "sweep", "train"]


def main() -> None:
    """What the command ``colonnade`` runs."""
    app()
