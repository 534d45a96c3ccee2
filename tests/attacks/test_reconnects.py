"""A party with a valid certificate that opens one line after the other must not keep the owner past its deadline."""

from __future__ import annotations

import time
from pathlib import Path
from unittest.mock import MagicMock

import pytest

from colonnade.errors import AwayError, Broken
from colonnade.federation import owner_transport as lines
from colonnade.federation.owner_process import OwnerProcess
from near import Sides, make_sides

DEADLINE = 1


class Storm:
    """In place of a listener: there is always another line, and each breaks when an answer is waited for."""

    def __init__(self) -> None:
        self.opened, self.until = 0, time.monotonic() + 4 * DEADLINE

    def wait(self, party: str, seconds: float, after: int = 0) -> int:
        if time.monotonic() > self.until:
            pytest.fail("the owner waits on past its deadline")
        self.opened = after + 1
        return self.opened

    def receive(self, party: str, connection: int, seconds: float) -> bytes:
        raise Broken(f"the connection to '{party}' broke: another connection of it took its place.", party)

    def send(self, party: str, connection: int, data: bytes) -> None: ...

    def hang_up(self, party: str, reason: str) -> None: ...

    def close(self) -> None: ...


def test_connections_without_end_are_no_answer(tmp_path: Path) -> None:
    storm = Storm()
    host = OwnerProcess(Sides(make_sides(tmp_path)).owner_file(), tmp_path / "run", MagicMock(), storm)  # type: ignore[arg-type]
    host.session.transport.deadline = DEADLINE
    with pytest.raises(AwayError, match="'shop' answered on none of its connections within 1 s"):
        host.gather()
    assert storm.opened <= 2 + DEADLINE / lines.PAUSE
    host.close()


def test_nor_are_connections_on_which_only_a_hello_is_answered(tmp_path: Path) -> None:
    storm = Storm()
    host = OwnerProcess(Sides(make_sides(tmp_path)).owner_file(), tmp_path / "run", MagicMock(), storm)  # type: ignore[arg-type]
    host.session.transport.deadline = DEADLINE
    host.session.transport.links["shop"].met(b"the same")
    host.session.transport._hello = lambda link: b"the same"  # type: ignore[method-assign]
    with pytest.raises(AwayError, match="'shop' answered on none of its connections within 1 s"):
        host.session.transport.exchange("shop", "terms", {})
    host.close()
