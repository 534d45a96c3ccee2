"""The sections of the two files of a federation, and the two files as they are after reading.

``side_files`` reads them: the owner's JOB.toml and every party's PARTY.toml.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from colonnade.core.device import HOST, Device
from colonnade.errors import ConfigError
from colonnade.federation.certificates import Credentials
from colonnade.jobs.job_file import Job
from colonnade.jobs.table_sections import AlignSection, PartySection, PrepareSection
from colonnade.signatures import Identity
from colonnade.wire.witness import MEGABYTES, MOST_ROWS, Recording

ALL = "all"
LABELS = ("unsent", "protected", "inferable", "shown")
"""What parties can tell of the labels: nothing, noisy ones, what can be inferred, all; from best to worst."""


@dataclass(frozen=True)
class KeysSection:
    """A side's own keys."""

    cert: str = "cert.pem"
    key: str = "key.pem"
    ca: str = "ca.pem"
    identity: str = "identity.key"
    crl: str | None = None


@dataclass(frozen=True)
class FederationSection(KeysSection):
    """Where the owner listens, with which keys, and how long it waits."""

    listen: str = "0.0.0.0:8443"
    deadline: int = 300
    labels: str = "protected"
    """The worst that may become of the labels, see :data:`LABELS`."""


@dataclass(frozen=True)
class AuditSection:
    """What a side keeps to audit what its messages give away: its own business, which no other side is told."""

    record: bool = False
    """Whether its view is recorded in its job folder; it holds secrets of all whose messages the side reads."""
    rows: int = MOST_ROWS
    """Of how many sampled rows."""
    megabytes: int = MEGABYTES
    """How large the values may become; what does not fit is left out evenly."""

    def of(self, side: str) -> Recording | None:
        """What is recorded of a side with this name in the ledger."""
        return Recording(side, self.rows, self.megabytes) if self.record else None


@dataclass(frozen=True)
class ComputeSection:
    """Where a party computes: its own business, which changes no message and which no other side is told."""

    device: str = HOST.name
    precision: str = HOST.precision
    move_tables: bool = HOST.move_tables

    @property
    def chosen(self) -> Device:
        """The device, which this machine has."""
        return Device(self.device, self.precision, self.move_tables).here()


@dataclass(frozen=True)
class ExtendSection:
    """A finished job of one round that this one goes on from."""

    folder: str
    """The owner's run folder of that job."""
    anew: list[str] = field(default_factory=list)
    """Parties of that job that are to learn once more."""


@dataclass(frozen=True)
class OwnerSection:
    """Whom the party dials."""

    address: str
    key: str


@dataclass(frozen=True)
class PredictSection:
    """New rows that may be scored."""

    files: str | list[str] = field(default_factory=list)


@dataclass(frozen=True)
class AllowDescribeSection:
    """Which columns the party lets be described, and on which terms; without this section it describes none."""

    columns: list[str] | str | None = None
    """Their names, or "all"."""
    minimum: int = 20
    """The least rows that a bin must have by the terms; also of every class, if the owner must prove its labels."""
    names: str = "shown"
    """"numbered": only terms are signed that do not show the limits and texts of our bins."""
    epsilon: float | None = None
    """The most that a description may cost; one without noise is refused then."""
    delta: float = 1e-5
    proof: bool = True
    """Whether the owner must prove what it encrypts; False is for an owner that is trusted to follow the protocol."""
    times: int = 1
    """How many descriptions may begin in this folder."""

    @property
    def chosen(self) -> tuple[str, ...] | None:
        """The names of the columns; None is all."""
        return None if self.columns == ALL else tuple(self.columns or ())


@dataclass(frozen=True)
class AllowSection:
    """What the party's operator lets happen; None is no limit."""

    methods: list[str] | None = None
    seals: list[str] | None = None
    needs: list[str] = field(default_factory=list)
    networks: list[str] | None = None
    learners: list[str] | None = None
    """What this party may be told to fit by itself, such as boosted trees."""
    layers: int | None = None
    """The least number of hidden layers of our network; without it, as many as hide our columns, see networks.py."""
    width: int | None = None
    """How many numbers of one of our rows may leave in a round."""
    width_per_column: float | None = None
    """The same, for each column that we have: an embedding as wide as our columns can be read back, see seals.md."""
    outputs: int = 1000
    """How many outputs, such as classes, the owner may claim."""
    epsilon: float | None = None
    delta: float = 1e-5
    """The most that a job with ``epsilon`` may have; an epsilon says nothing beside a large one."""
    rounds: int | None = None
    rows: int | None = None
    align: list[str] = field(default_factory=lambda: ["psi"])
    """Ways to compare ids; "plain" tells the owner every id that it can guess."""
    joins: list[str] = field(default_factory=lambda: ["inner"])
    """Whose rows are trained on; "left" tells the owner of each of its ids whether we have it, whoever else has it."""
    minimum: int | None = None
    maximum: int | None = None
    alignments: int = 10
    """How often ids may be compared in one job, which a crash may need; every time tells of as many ids again."""
    runs: int = 1
    changes: int = 0
    """How often in a job a person may be summed over another set of parties under Blind(recover=True); every time
    may show single parties' values of that person."""
    mix: int = 2
    """How many parties a blinded sum must have beside this one."""
    patience: int = 3600
    terms: str | None = None
    """A file with the only terms that may be signed, as ``colonnade owner --terms`` printed them."""


@dataclass(frozen=True)
class Keys:
    """One side's keys, read and checked."""

    identity: Identity
    certificate: Credentials | None
    """None where somebody else's TLS carries the requests, as in NVIDIA FLARE."""
    crl: Path | None

    @property
    def credentials(self) -> Credentials:
        """The certificate of a side that connects by itself."""
        if self.certificate is None:
            raise ConfigError("this file was read without its certificates; read it with tls=True to connect.")
        return self.certificate


@dataclass(frozen=True)
class OwnerFile:
    """A JOB.toml."""

    job: Job
    own: PartySection
    others: dict[str, bytes]
    """Every other party's public identity key, in their order."""
    align: AlignSection
    prepare: PrepareSection
    federation: FederationSection
    keys: Keys
    beside: Path
    audit: AuditSection = field(default_factory=AuditSection)
    extend: ExtendSection | None = None
    """Which finished job it goes on from; None if everybody begins."""
    path: Path | None = None
    """Where it was read."""


@dataclass(frozen=True)
class PartyFile:
    """A PARTY.toml."""

    party: PartySection
    address: str
    owner: bytes
    allow: AllowSection
    peers: dict[str, bytes]
    terms: dict[str, Any] | None
    """The only terms that may be signed, if the operator has read some."""
    predict: list[str]
    describe: AllowDescribeSection | None
    """What may be described; None is nothing."""
    keys: Keys
    beside: Path
    audit: AuditSection = field(default_factory=AuditSection)
    device: Device = HOST
    """Where the party's networks compute."""
    path: Path | None = None
    """Where it was read."""
