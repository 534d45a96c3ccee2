"""The handshake as the owner leads it: the words to each party, in the order of the table in ``protocol``.

The words are said to all parties in the same order whenever one of them, or the owner, comes back as another process:
terms, signed, (align), prepare, plan, begin. What a party answers is kept in its :class:`PartyLink`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from colonnade.errors import ManifestError, MessageError
from colonnade.federation.handshake import Facts, hex_of, hexed
from colonnade.federation.job_folder import JobFolder
from colonnade.federation.job_parts import session_of
from colonnade.federation.owner_transport import OwnerTransport
from colonnade.federation.party_link import PartyLink
from colonnade.federation.terms import check_signatures, digest, job_id, keys_in, sign
from colonnade.signatures import Identity


@dataclass(frozen=True)
class CommonRows:
    """What ``prepare`` asks for: the rows of this alignment, so many to train and to test on.

    ``told`` says which those are, if they follow from the owner's dates.
    """

    proofs: Mapping[str, str]
    """By party; in a left join each pair has its own."""
    rows: int
    test: int
    told: Facts = field(default_factory=dict)


class OwnerHandshake:
    """The words that the owner says, and the documents that everybody signs: terms, and after ``prepare`` a plan."""

    def __init__(
        self, terms: dict[str, Any], identity: Identity, run_folder: JobFolder, transport: OwnerTransport
    ) -> None:
        """``run_folder`` has the number of the run, by which parties know whether a run goes on or begins again."""
        self.terms, self.identity, self.run_folder, self.transport = terms, identity, run_folder, transport
        self.name, self.job, self.keys = str(terms["owner"]), job_id(terms), keys_in(terms)
        self.plan: dict[str, Any] = {}
        self._own: dict[str, bytes] = {}  # the owner's signatures of the terms and of the plan
        self._common: CommonRows | None = None
        self._visits = 0  # how many sessions were opened, with all parties together

    @property
    def links(self) -> list[PartyLink]:
        """The parties, in the order of the job file."""
        return list(self.transport.links.values())

    @property
    def told(self) -> Facts:
        """What ``prepare`` told everybody about the common rows."""
        return {} if self._common is None else self._common.told

    # with everybody

    @property
    def all_agreed(self) -> bool:
        """Whether the processes that are here now are those that signed the terms and aligned their rows."""
        return all(link.has_agreed for link in self.links)

    def sign_terms(self) -> None:
        """Have everybody sign the terms, and check all signatures."""
        self._own["terms"] = sign(self.identity, "terms", self.terms)
        for link in self.links:
            self._say_terms(link)
        check_signatures(self.keys, "terms", self.terms, self._signatures("terms"))
        self.transport.audit.event("terms signed by all", digest=digest(self.terms).hex())

    def tell_signed(self) -> dict[str, str]:
        """Show everybody all signatures of the terms; by party, the proof of the alignment that it kept rows of."""
        return {link.name: self._say_signed(link) for link in self.links}

    def open_alignment(self) -> None:
        """Let everybody begin with requests of an alignment."""
        for link in self.links:
            self._open(link, "align", {})

    def prepare(self, common: CommonRows) -> None:
        """Have everybody prepare the common rows; each party's row shape is in its link afterwards."""
        self._common = common
        for link in self.links:
            self._say_prepare(link, common)

    def sign_plan(self, plan: dict[str, Any]) -> None:
        """Have everybody sign the plan, check all signatures, and let everybody begin with requests of the run."""
        self.plan, self._own["plan"] = plan, sign(self.identity, "plan", plan)
        for link in self.links:
            self._say_plan(link)
        check_signatures(self.keys, "plan", self.plan, self._signatures("plan"))
        for link in self.links:
            self._say_begin(link)

    def enter(self, party: str) -> None:
        """Lead one party that came back through the whole handshake again."""
        link = self.transport.links[party]
        self._say_terms(link)
        proof = self._say_signed(link)
        if self._common is None or proof != self._common.proofs[party]:
            raise ManifestError(f"'{party}' came back without the rows that it had aligned; start the job again.")
        self._say_prepare(link, self._common)
        self._say_plan(link)
        self._say_begin(link)

    # with one party

    def _say_terms(self, link: PartyLink) -> None:
        own, run = self._own["terms"].hex(), self.run_folder.run.hex()
        facts = {"terms": self.terms, "signature": own, "run": run}
        link.signatures["terms"] = hex_of(self.transport.exchange(link.name, "terms", facts), "signature", 64)

    def _say_signed(self, link: PartyLink) -> str:
        facts = {"signatures": hexed(self._signatures("terms"))}
        return str(self.transport.exchange(link.name, "signed", facts)["aligned"])

    def _say_prepare(self, link: PartyLink, common: CommonRows) -> None:
        shape = self.transport.exchange(link.name, "prepare", {"proof": common.proofs[link.name], **common.told})
        if (shape["rows"], shape["test"]) != (common.rows, common.test):
            raise MessageError(
                f"'{link.name}' has {shape['rows']} 'rows' to train on and {shape['test']} to 'test' on, and the owner "
                f"{common.rows} and {common.test}; align again."
            )
        if link.shape is not None and link.shape != shape:
            raise ManifestError(f"'{link.name}' came back with rows of another shape; bring its files back.")
        link.shape = shape

    def _say_plan(self, link: PartyLink) -> None:
        facts = {"plan": self.plan, "signature": self._own["plan"].hex()}
        link.signatures["plan"] = hex_of(self.transport.exchange(link.name, "plan", facts), "signature", 64)

    def _say_begin(self, link: PartyLink) -> None:
        self._open(link, "begin", {"signatures": hexed(self._signatures("plan"))})

    def _open(self, link: PartyLink, word: str, facts: Facts) -> None:
        """Let a party begin with requests; they are counted from one again, so each session has its own name."""
        self._visits += 1
        self.transport.exchange(link.name, word, {**facts, "visit": self._visits})
        link.opened(session_of(self.job, self.transport.incarnation, link.incarnation, self._visits))

    def _signatures(self, document: str) -> dict[str, bytes]:
        """Everybody's signature of the terms or the plan, the owner's first."""
        return {self.name: self._own[document]} | {link.name: link.signatures[document] for link in self.links}
