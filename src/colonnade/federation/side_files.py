"""The two files of a federation: the owner's JOB.toml, and every party's PARTY.toml, which says what that one allows.

JOB.toml is a job as ``colonnade train`` reads it, but with one party's files: its own. ::

    [federation]  listen, deadline, labels, cert, key, ca, identity, crl
    [[party]]     name, files, id, label, ...                 the owner's own rows
    [[party]]     name, key                                   each of the others, by its public identity key
    [align] [prepare] [train] [method] [model] [optimizer] [[seal]] [describe]
    [audit]       record, rows, megabytes                     whether this side records its own view
    [extend]      folder, anew                                a finished job of one round to go on from

PARTY.toml::

    [party]   name, files, id, numbers, categories, leave_out, ...   as in colonnade.read
    [owner]   address, key
    [keys]    cert, key, ca, identity, crl
    [allow]   methods, seals, needs, networks, learners, layers, width, width_per_column, outputs, epsilon, delta,
              rounds, rows, align, joins, minimum, maximum, alignments, runs, patience, terms
    [peers]   name = key, for every other party that must be this very one
    [audit]   record, rows, megabytes: whether this side records its own view
    [compute] device, precision, move_tables: where this side computes, as in colonnade.train
    [predict] files, whose rows may be scored by a model that this party helped to train
    [describe] columns, minimum, names, epsilon, delta, proof, times: which columns may be described, and how
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from colonnade.core.device import HOST, Device
from colonnade.core.options import check_name
from colonnade.description.own_columns import PartyRules
from colonnade.disk.small_files import read_json
from colonnade.errors import ConfigError, LinkError, RefusedError, unknown
from colonnade.federation.certificates import check_serves, common_name, read_credentials, read_identity
from colonnade.federation.public_keys import read_public
from colonnade.federation.side_sections import (
    ALL,
    LABELS,
    AllowDescribeSection,
    AllowSection,
    AuditSection,
    ComputeSection,
    ExtendSection,
    FederationSection,
    Keys,
    KeysSection,
    OwnerFile,
    OwnerSection,
    PartyFile,
    PredictSection,
)
from colonnade.federation.tls import split_address
from colonnade.jobs.job_file import DataSection, Job, check_is_section, job_from, parse_toml, section
from colonnade.jobs.table_sections import AlignSection, PartySection, PrepareSection, check_choices
from colonnade.learners import learners
from colonnade.methods import methods
from colonnade.models import KINDS
from colonnade.run.absence import ALONE
from colonnade.seal import SEALS, Blind
from colonnade.tables.align.align_terms import JOINS, MODES
from colonnade.wire.witness import Recording

_JOB = (
    "federation",
    "party",
    "align",
    "prepare",
    "train",
    "method",
    "model",
    "optimizer",
    "seal",
    "describe",
    "audit",
    "extend",
)
_PARTY = ("party", "owner", "keys", "allow", "peers", "predict", "audit", "compute")


def read_owner_file(path: str | Path, *, tls: bool = True) -> OwnerFile:
    """The owner's job, every name and type in it checked; without ``tls`` it needs no certificates."""
    sections, beside = _sections(Path(path), _JOB, "a federation's job"), Path(path).parent
    for name in ("federation", "align", "prepare", "train", "method", "describe", "audit"):
        check_is_section(sections, name)
    how = section(FederationSection, "federation", sections["federation"])
    if how.labels not in LABELS:
        raise unknown("choice of labels in [federation]", how.labels, LABELS)
    if tls:
        _check_address("listen", how.listen, "federation")
    own, others = _parties(sections.get("party", []), beside)
    align = section(AlignSection, "align", sections["align"])
    prepare = section(PrepareSection, "prepare", sections["prepare"])
    check_choices(align, prepare)
    job = job_from(sections, DataSection(load=own.name), Path(path).stem)
    _check_device(job)
    _check_join(align, job)
    keys, extend = _keys(how, beside, tls=tls), _extended(sections, others)
    if tls:
        check_serves(keys.credentials.cert)
    return OwnerFile(
        job=job,
        own=own,
        others=others,
        align=align,
        prepare=prepare,
        federation=how,
        keys=keys,
        beside=beside,
        audit=_audited(sections),
        extend=extend,
        path=Path(path),
    )


def read_party_file(path: str | Path, *, tls: bool = True) -> PartyFile:
    """What a party brings and allows, every name and type in it checked; without ``tls`` it needs no certificates."""
    sections, beside = _sections(Path(path), (*_PARTY, "describe"), "a party file"), Path(path).parent
    for name in _PARTY:
        check_is_section(sections, name)
    party = section(PartySection, "party", sections["party"])
    if party.label is not None:
        raise ConfigError("[party] has a label, and only the owner of a federation brings one; remove it.")
    nowhere = {} if tls else {"address": ""}  # whoever is reached by others needs no address
    owner = section(OwnerSection, "owner", nowhere | sections["owner"])
    if tls:
        _check_address("address", owner.address, "owner")
    allow = section(AllowSection, "allow", sections["allow"])
    for name, value, most in (
        ("epsilon", allow.epsilon, math.inf),
        ("delta", allow.delta, 1.0),
        ("width_per_column", allow.width_per_column, math.inf),
    ):
        if value is not None and not 0 < value < most:
            raise ConfigError(f"{name} = {value} in [allow] is out of range; give a number above 0 and below {most:g}.")
    for what, given, known in (
        ("method in [allow]", allow.methods or (), methods()),
        ("seal in [allow]", [*(allow.seals or ()), *allow.needs], SEALS),
        ("mode of an alignment in [allow]", allow.align, MODES),
        ("join of an alignment in [allow]", allow.joins, JOINS),
        ("network in [allow]", allow.networks or (), KINDS),
        ("learner in [allow]", allow.learners or (), learners()),
    ):
        for name in given:
            if name not in known:
                raise unknown(what, name, known)
    new = section(PredictSection, "predict", sections["predict"]).files
    if "blind" in allow.needs and not sections["peers"]:
        raise ConfigError(
            "[allow] needs 'blind' and [peers] names nobody: an owner that invents the others learns our part of every "
            'sum; write the key of one other party at least, as name = "its.pub".'
        )
    keys = _keys(section(KeysSection, "keys", sections["keys"]), beside, tls=tls)
    if tls and common_name(keys.credentials.cert) != party.name:
        raise RefusedError(
            f"the certificate is of '{common_name(keys.credentials.cert)}' and [party] has the name '{party.name}'; "
            "bring the party's own."
        )
    return PartyFile(
        party=party,
        address=owner.address,
        owner=read_public(_path(owner.key, beside)),
        allow=allow,
        peers=_peers(sections["peers"], beside),
        terms=None if allow.terms is None else _read_terms(beside / allow.terms),
        predict=[new] if isinstance(new, str) else list(new),
        describe=_described(sections),
        keys=keys,
        beside=beside,
        audit=_audited(sections),
        device=section(ComputeSection, "compute", sections["compute"]).chosen,
        path=Path(path),
    )


def _audited(sections: dict[str, Any]) -> AuditSection:
    how: AuditSection = section(AuditSection, "audit", sections["audit"])
    try:
        Recording(rows=how.rows, megabytes=how.megabytes)
    except ConfigError as error:
        raise ConfigError(f"[audit]: {error}") from None
    return how


def _described(sections: dict[str, Any]) -> AllowDescribeSection | None:
    """What a party lets be described; nothing if its file does not say so."""
    if "describe" not in sections:
        return None
    check_is_section(sections, "describe")
    how: AllowDescribeSection = section(AllowDescribeSection, "describe", sections["describe"])
    if how.columns != ALL and (isinstance(how.columns, str) or not how.columns):
        raise ConfigError(
            f"columns = {how.columns!r} in [describe] names no columns; list those that may be described, or write "
            f"columns = '{ALL}'."
        )
    try:
        PartyRules(minimum=how.minimum, names=how.names, epsilon=how.epsilon, delta=how.delta)
    except ConfigError as error:
        raise ConfigError(f"[describe]: {error}") from None
    return how


def _check_device(job: Job) -> None:
    """Refuse devices of others before anybody connects: each party's own file says where it computes."""
    if isinstance(job.train.device, list):
        raise ConfigError(
            "device in [train] lists several, and a job between organisations says where its owner computes; give one "
            "text, and let each party write its own in [compute] of its PARTY.toml."
        )
    how = job.train
    Device(str(how.device or HOST.name), how.precision or HOST.precision, how.move_tables or False).here()


def _extended(sections: dict[str, Any], others: Mapping[str, bytes]) -> ExtendSection | None:
    """The finished job to go on from, if the file names one."""
    if "extend" not in sections:
        return None
    check_is_section(sections, "extend")
    how: ExtendSection = section(ExtendSection, "extend", sections["extend"])
    for name in how.anew:
        if name not in others:
            raise unknown("party in anew of [extend]", name, others)
    return how


def _check_join(align: AlignSection, job: Job) -> None:
    """Refuse rows that not everybody has, before anybody compares ids, if the job cannot train on them."""
    method = job.method
    if align.join == "left" and any(seal.kind == Blind.kind for seal in job.seals):
        raise ConfigError(f"join = 'left' in [align] and the seal 'blind' do not go together: {ALONE}; leave one out.")
    if align.join == "left" and not method.partial_rows:
        able = ", ".join(name for name, cls in methods().items() if cls.partial_rows)
        raise ConfigError(
            f"join = 'left' in [align] keeps rows that not every party has, and {method.name} needs every row of every "
            f"party; leave it out, or use one of {able}."
        )


def _read_terms(path: Path) -> dict[str, Any]:
    """Terms that an operator has read and kept."""
    try:
        terms = read_json(path)
    except (OSError, ValueError):
        terms = None
    if not isinstance(terms, dict):
        raise ConfigError(f"{path} of [allow] holds no terms; let the owner run `colonnade owner JOB.toml --terms`.")
    return terms


def _sections(path: Path, known: tuple[str, ...], what: str) -> dict[str, Any]:
    sections = parse_toml(path)
    for name in sections:
        if name not in known:
            raise unknown(f"section of {what}", name, known)
    return sections


def _parties(sections: Any, beside: Path) -> tuple[PartySection, dict[str, bytes]]:
    if not isinstance(sections, list) or not all(isinstance(party, dict) for party in sections):
        raise ConfigError(f"party = {sections!r:.60} is not a list of sections; write [[party]] once for every party.")
    owners = [party for party in sections if "label" in party]
    if len(owners) != 1 or len(sections) < 2:
        raise ConfigError(
            f"{len(sections)} [[party]] came and {len(owners)} of them with a label; a federation needs two or more, "
            "and one of them, the owner, has files and the label."
        )
    others = {}
    for party in sections:
        if party is owners[0]:
            continue
        if set(party) != {"name", "key"} or not all(isinstance(value, str) for value in party.values()):
            raise ConfigError(
                f"[[party]] {party.get('name', '?')!r} has {', '.join(party)}; another party is known by its name and "
                "its public key alone: its files are its own business."
            )
        others[check_name(party["name"], "a party")] = read_public(_path(party["key"], beside))
    own: PartySection = section(PartySection, "party", owners[0])
    if len(others) < len(sections) - 1 or own.name in others:
        raise ConfigError("two [[party]] have the same name; give each its own.")
    if "owner" in others:
        raise ConfigError("a party is named 'owner'; that name is the owner's in every ledger: choose another.")
    return own, others


def _peers(keys: dict[str, Any], beside: Path) -> dict[str, bytes]:
    for name, key in keys.items():
        if not isinstance(key, str):
            raise ConfigError(
                f"{name} = {key!r:.40} in [peers] is no key; write the path of its identity.pub as a text."
            )
    return {name: read_public(_path(key, beside)) for name, key in keys.items()}


def _check_address(key: str, address: str, name: str) -> None:
    """Refuse an address that is not one: that is a mistake in the file."""
    try:
        split_address(address)
    except LinkError as error:
        raise ConfigError(f"{key} in [{name}]: {error}") from None


def _path(text: str, beside: Path) -> str | Path:
    """A path beside the file, if there is such a file; else the text itself, which may be a key."""
    try:
        return beside / text if (beside / text).is_file() else text
    except OSError:  # too long for a path: it may be the text of a certificate
        return text


def _keys(how: KeysSection, beside: Path, *, tls: bool) -> Keys:
    return Keys(
        identity=read_identity(beside / how.identity),
        certificate=read_credentials(beside / how.cert, beside / how.key, beside / how.ca) if tls else None,
        crl=None if how.crl is None else beside / how.crl,
    )
