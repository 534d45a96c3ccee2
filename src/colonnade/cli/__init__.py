"""The command line, ``colonnade VERB``: one module per group of verbs, no logic of its own."""

from colonnade.cli import align_command as align
from colonnade.cli import audit_command as audit
from colonnade.cli import demo_command as demo
from colonnade.cli import describe_command as describe
from colonnade.cli import federation_command as federation
from colonnade.cli import flare_command as flare
from colonnade.cli import keys_command as keys
from colonnade.cli import listing
from colonnade.cli import plan_command as plan
from colonnade.cli import predict_command as predict
from colonnade.cli import privacy_command as privacy
from colonnade.cli import report_command as report
from colonnade.cli import select_command as select
from colonnade.cli import status_command as status
from colonnade.cli import sweep_command as sweep
from colonnade.cli import train_command as train
from colonnade.cli import watch_command as watch
from colonnade.cli.app import app

__all__ = [
    "align",
    "app",
    "audit",
    "demo",
    "describe",
    "federation",
    "flare",
    "keys",
    "listing",
    "main",
    "plan",
    "predict",
    "privacy",
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
