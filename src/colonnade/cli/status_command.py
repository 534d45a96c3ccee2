"""``colonnade status FOLDER``."""

from __future__ import annotations

import time
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from colonnade.cli.app import Json, app, out, print_json
from colonnade.federation.log_lines import one_line
from colonnade.federation.status_file import ENDED, Status, read_status
from colonnade.report.words import duration

UNWELL = 1


@app.command(epilog="Example: colonnade status bank --json")
def status(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="The folder of an owner or a party.")],
    json: Json = False,
) -> None:
    """Say how far a side of a federation is and who is absent; exit code 1 if its process died or hangs."""
    read = read_status(folder)
    trouble = read.ails()
    if json:
        print_json({**asdict(read), "alive": read.is_alive(), "ails": trouble})
    else:
        show(read, trouble, out)
    if trouble is not None:
        raise typer.Exit(UNWELL)


def show(status: Status, trouble: str | None, console: Console) -> None:
    """Print the status for people, for any width of the terminal, understandable without colour."""
    now = time.time()
    lines = [
        Text(one_line(f"{status.side}, job {status.job}" if status.job else f"{status.side}, no job yet"), "bold"),
        Text(f"{status.state}, round {status.round} of {status.rounds}" if status.rounds else status.state),
        Text(f"process {status.pid} on {one_line(status.host)}, updated {duration(max(0, now - status.updated))} ago"),
    ]
    for peer in () if status.state in ENDED else status.peers:  # a side that has ended has no peers
        how, style = ("connected", "green") if peer.connected else ("absent", "yellow")
        since = duration(max(0, now - peer.since))
        lines.append(Text.assemble(f"  {one_line(peer.name)}: ", (how, style), f" for {since}"))
    if status.error:
        lines.append(Text.assemble(("last error:", "bold red"), f" {one_line(status.error)}"))
    if trouble is not None:
        lines.append(Text.assemble(("warning:", "bold yellow"), f" {trouble}"))
    for line in lines:
        console.print(line)
