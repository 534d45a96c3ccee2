"""The command line, ``colonnade VERB``: one module per group of verbs, no logic of its own."""

from colonnade.cli import align, demo, keys, listing, predict, report, select, sweep, train, watch
from colonnade.cli.app import app

__all__ = ["align", "app", "demo", "keys", "listing", "main", "predict", "report", "select", "sweep", "train", "watch"]


def main() -> None:
    """What the command ``colonnade`` runs."""
    app()
