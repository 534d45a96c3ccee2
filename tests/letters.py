"""Requests as the owner would write them to a party behind requests, for tests that change something in them."""

from __future__ import annotations

from typing import Any

from colonnade.runtime.remote.packet import Packet


def stamp(backend: Any, party: Any) -> Packet:
    """A request about nothing yet, of the run's own job, plan and session."""
    return Packet("step", job=party.spec.job, session=party.spec.session, plan=backend.schema.digest)
