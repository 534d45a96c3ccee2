"""A blinded party's end as the owner reaches it: through the backend, wherever the party is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import final

from colonnade.runtime.backend import Backend, Fields
from colonnade.seal.blind_owner import Blinded
from colonnade.seal.key_agreement import Ticket
from colonnade.wire.answer_memory import Presence


@final
class BlindProxy:
    """One blinded party; it says nothing while it is absent."""

    def __init__(self, party: str, backend: Backend, presence: Presence) -> None:
        self.party, self.backend, self.presence = party, backend, presence

    def answer(self, phase: str, message: Fields, ticket: Ticket | None = None) -> Fields:
        """What the party says in a phase."""
        self.presence.check(self.party, 0 if ticket is None else ticket.round)
        return self.backend.phase(self.party, phase, message, ticket)


def blinded_through(backend: Backend, presence: Presence, job: bytes, manifest: Mapping[str, bytes]) -> Blinded:
    """The parties of blinded sums, each behind a proxy; ``manifest`` has their public identities, in their order."""
    return Blinded(job, manifest, {party: BlindProxy(party, backend, presence) for party in manifest})
