"""The secure sum: the owner learns the sum of all parties' values, and nothing else about them.

Every pair of parties shares a mask per ticket (``key_agreement.py``). The first of the two in name order adds it, the
other one subtracts it. A masked message alone is uniformly random; in the sum over all parties the masks cancel.

Masks do not hide what the sum itself reveals. Two sums of the same rows, over a set of parties and over the set without
one party, differ by that party's values. An owner could pretend that a party is absent to get both. Two rules prevent
this, and no runtime changes the set of parties after the key agreement:

* :class:`colonnade.seal.sum_book.SumBook`: one sum about the same subject, and one set of parties per person, in all
  sessions of a job. The runtimes rely on this rule.
* :class:`SumLog`: one opened sum per serial of a session. A failed sum is repeated as the next attempt with new masks,
  but only if it was not opened. A changed set of parties begins with a new round.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np

from colonnade.errors import SealError
from colonnade.seal.key_agreement import Membership, Ticket
from colonnade.seal.masks import shift
from colonnade.seal.pack import Codes
from colonnade.seal.ring import Ring


class SumLog:
    """The tickets of a session that one party has used for masking, and the sums that were opened.

    Maskers call ``begin``. Call ``opened`` as soon as the owner reports that it has a sum, or sends anything computed
    from it. The next serial may begin in any case. ``names`` and ``round`` keep an owner from summing an old round
    again over other parties.

    >>> log, ticket = SumLog(), Ticket(0, 0, 0, "h")
    >>> log.begin(ticket, b"roster", ("a", "b"))
    >>> log.begin(ticket._replace(attempt=1), b"roster", ("a", "b"))
    >>> log.opened(ticket._replace(attempt=1))
    >>> log.begin(ticket._replace(attempt=2), b"roster", ("a", "b"))
    Traceback (most recent call last):
    colonnade.errors.SealError: the sum of round 0, serial 0 was opened already; take the next serial.
    """

    def __init__(self, names: Sequence[str] = (), round: int = -1) -> None:
        self.names: tuple[str, ...] = tuple(names)
        self.round = round  # the newest round that was begun
        self._roster = b""
        self._newest = (-1, -1)  # serial and attempt, in the session of this roster
        self._at = -1  # the round of that serial
        self._opened = False

    def begin(self, ticket: Ticket, roster: bytes, names: Sequence[str]) -> None:
        """Allow a masked message for a ticket in a session of ``names``, or refuse it."""
        if roster != self._roster and self.names not in ((), tuple(names)) and ticket.round <= self.round:
            raise SealError(
                f"round {ticket.round} came for {list(names)}, but rounds up to {self.round} were summed over other "
                f"parties, and the difference would show single ones; go on with round {self.round + 1}."
            )
        fresh = roster != self._roster or ticket.serial > self._newest[0]
        if not fresh:
            self._check_again(ticket)
        self.names, self.round = tuple(names), max(self.round, ticket.round)
        self._roster, self._at, self._newest = roster, ticket.round, (ticket.serial, ticket.attempt)
        self._opened = self._opened and not fresh

    def _check_again(self, ticket: Ticket) -> None:
        """Check a ticket of a serial that was begun before: it may be another tensor, or another attempt."""
        if (ticket.serial, ticket.attempt) < self._newest or ticket.round != self._at:
            raise SealError(
                f"{ticket} came after serial, attempt {self._newest} of round {self._at}; take the next serial."
            )
        if self._opened:
            raise SealError(
                f"the sum of round {ticket.round}, serial {ticket.serial} was opened already; take the next serial."
            )

    def opened(self, ticket: Ticket) -> None:
        """Note that the owner has this sum; no further attempt is allowed."""
        if ticket.serial > self._newest[0]:
            raise SealError(f"{ticket} is said to be opened, but was never begun here; look at the owner's log.")
        self._opened = self._opened or ticket.serial == self._newest[0]


class Masker:
    """One party's end of the sum.

    >>> from colonnade.seal.key_agreement import Identity
    >>> people = {name: Identity.new() for name in "abc"}
    >>> manifest = {name: identity.public for name, identity in people.items()}
    >>> members = {name: Membership(b"job", name, people[name], manifest) for name in "abc"}
    >>> hellos = [member.hello() for member in members.values()]
    >>> signed = {name: member.confirm(hellos) for name, member in members.items()}
    >>> for member in members.values():
    ...     member.join(signed)
    >>> ring, ticket = Ring(32), Ticket(0, 0, 0, "h")
    >>> codes = np.array([1, 2], np.uint32)
    >>> total({name: Masker(member).mask(ticket, codes, ring) for name, member in members.items()}, ring, members)
    array([3, 6], dtype=uint32)
    """

    def __init__(self, membership: Membership, log: SumLog | None = None) -> None:
        if not membership.peers:
            raise SealError("one blinded party came, but the sum of one party is its value; have two or more.")
        self.roster = membership.roster
        self.membership = membership
        self.log = SumLog() if log is None else log

    def mask(self, ticket: Ticket, codes: Codes, ring: Ring) -> Codes:
        """The message for the owner: ``codes`` plus masks that cancel in the sum of all parties; a new array."""
        ring.check(codes, f"the tensor {ticket.tensor!r}")
        self.log.begin(ticket, self.roster, self.membership.names)
        message = np.array(codes, order="C").reshape(-1)
        for peer in self.membership.peers:
            shift(message, self.membership.pair_key(peer, ticket), ring, plus=self.membership.party < peer)
        return ring.reduce(message).reshape(codes.shape)


def check_messages(messages: Mapping[str, Codes], ring: Ring, names: Collection[str]) -> None:
    """Refuse messages unless each of ``names`` sent one, of the same shape and ring; the error names the party."""
    if messages.keys() != set(names):
        raise SealError(f"messages of {sorted(messages)} came; a sum needs exactly those of {sorted(names)}.")
    first = min(messages)
    for name in sorted(messages):
        ring.check(messages[name], f"the message of {name!r}")
        if messages[name].shape != messages[first].shape:
            raise SealError(
                f"the message of {name!r} has shape {messages[name].shape}, that of {first!r} "
                f"{messages[first].shape}; all parties must use the same rows and widths."
            )


def total(messages: Mapping[str, Codes], ring: Ring, names: Collection[str]) -> Codes:
    """The sum of all parties' codes, at the owner: the masks cancel."""
    check_messages(messages, ring, names)
    return ring.add([messages[name] for name in sorted(messages)])
