"""``colonnade watch RUN``, and the same page during ``colonnade train --watch``."""

from __future__ import annotations

import ipaddress
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated

import typer

from colonnade.cli.app import app, echo, remark, say
from colonnade.errors import FolderError
from colonnade.report.local_server import LOOPBACK, in_background


@app.command(epilog="Example: colonnade watch runs/vafl-digits-0 --open")
def watch(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The run folder; training may go on in it.")],
    port: Annotated[int, typer.Option(min=0, max=65535, help="Where to listen; 0 takes any port that is free.")] = 0,
    host: Annotated[str, typer.Option(help="An address of this machine; the default lets nobody else in.")] = LOOPBACK,
    browse: Annotated[bool, typer.Option("--open/--no-open", help="Open the page in a browser.")] = False,
) -> None:
    """Serve a page that follows a run folder while it trains, until Ctrl-C."""
    from colonnade.report.watch_page import WatchServer

    if not run.is_dir():
        raise FolderError(f"there is no folder {run}; give a run folder.")
    with WatchServer(run, host, port) as server, suppress(KeyboardInterrupt):
        if not _is_loopback(host):
            say("warning:", f"everybody who can reach {host} sees what the owner's labels tell.", style="bold yellow")
        echo(f"watching {run} at {server.address} (Ctrl-C ends it)")
        if browse and not webbrowser.open(server.address):
            say("note:", "no browser was found; open the address yourself.", style="bold yellow")
        server.serve_forever()


@contextmanager
def watching(folder: Path) -> Iterator[None]:
    """Serve the page during training; afterwards browsers that have it open get the last state."""
    from colonnade.report.watch_page import WatchServer

    with in_background(WatchServer(folder)) as server:
        remark(f"watch it at {server.address}")
        yield
        server.followed.wait_for_last_look()


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
