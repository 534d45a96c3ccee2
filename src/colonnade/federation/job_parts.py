"""Values that every side works out alike from the terms and the plan of a job."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from colonnade import models, seal
from colonnade.core import optim
from colonnade.core.schedule import Schedule
from colonnade.core.settings import Settings
from colonnade.core.table import Table
from colonnade.core.task import TASKS
from colonnade.errors import ManifestError, MessageError
from colonnade.federation.handshake import Facts
from colonnade.federation.terms import digest, job_id, keys_in, method_in, split_in
from colonnade.federation.told_rows import TEST, parts_in
from colonnade.jobs.table_sections import PartySection
from colonnade.runtime.remote.party_server import PartySpec
from colonnade.runtime.schema import Schema
from colonnade.signatures import Identity
from colonnade.store.preparation_files import read_preparations
from colonnade.tables.align.align_terms import AlignTerms
from colonnade.tables.align.left_join import pair_terms
from colonnade.tables.prepare.preparation import Preparation
from colonnade.tables.prepare.prepare_tables import prepare_alone
from colonnade.tables.prepare.row_parts import SHARE, RowParts, random_parts
from colonnade.tables.sheets import Sheet
from colonnade.tables.sheets.duckdb_source import placed
from colonnade.tables.sheets.reading import read
from colonnade.wire.ledger import OWNER

_PREPARED = {"numbers": "standard", "categories": "one-hot", "most": None, "rarest": 1}


def session_of(job: bytes, owner: bytes, party: bytes, visit: int) -> bytes:
    """The name of a session of this job between two processes; ``visit`` counts the sessions that the owner opened."""
    return digest({"job": job.hex(), "owner": owner.hex(), "party": party.hex(), "visit": visit})[:16]


def sheet_of(party: PartySection, beside: Path, normalise: Any) -> Sheet:
    """A side's own files."""
    own = asdict(party)
    files = own.pop("files")
    given = {key: value for key, value in own.items() if value is not None}
    paths = [placed(file, beside) for file in ([files] if isinstance(files, str) else files)]
    return read(paths, **given, **({} if normalise is None else {"normalise": normalise}))


def new_sheet(party: PartySection, files: Sequence[str], beside: Path, normalise: Any) -> Sheet:
    """New files of a side; what their columns are is known from training."""
    plain = replace(party, files=list(files), label=None, numbers=None, categories=None, leave_out=None)
    return sheet_of(plain, beside, normalise)


def preparation_in(folder: Path, name: str) -> Preparation:
    """How a side prepared its columns for training."""
    preparations = read_preparations(folder)
    if name not in preparations:
        raise ManifestError(f"'{name}' has kept no preparation in {folder}; it did not train this model here.")
    return preparations[name]


def stand_in(plan: Mapping[str, Any], name: str) -> Table:
    """A party's training table with the shape that the plan gives, and without real values."""
    _, rows, shape = next(table for table in plan["tables"] if table[0] == name)
    return Table(np.arange(rows), torch.zeros(1, *shape).expand(rows, *shape), name=name)


def align_names(terms: Mapping[str, Any]) -> list[str]:
    """The sides of an alignment, the owner first."""
    return [party["name"] for party in terms["parties"]]


def align_terms(terms: Mapping[str, Any]) -> AlignTerms:
    """The terms of the alignment."""
    how, (_, *others) = terms["align"], align_names(terms)
    seed = int(terms["train"].get("seed", 0))
    return AlignTerms(how.get("mode") or "psi", (OWNER, *others), seed, how.get("minimum") or 1, how.get("maximum"))


def is_left_join(terms: Mapping[str, Any]) -> bool:
    """Whether all of the owner's rows are trained on, with whoever has them."""
    return bool(terms["align"].get("join") == "left")


def align_terms_of(terms: Mapping[str, Any], party: str) -> AlignTerms:
    """The terms of the alignment that a party takes part in: of all sides, or in a left join of it and the owner."""
    agreed = align_terms(terms)
    return pair_terms(agreed, align_names(terms).index(party)) if is_left_join(terms) else agreed


def parts_at_owner(sheet: Sheet, rows: np.ndarray, terms: Mapping[str, Any]) -> RowParts:
    """Which of the common rows are for training and testing, at the owner: by its dates, or at random."""
    split = split_in(terms)
    return _random_parts(len(rows), terms) if split is None else split.parts(sheet, rows)


def parts_at_party(facts: Facts, rows: np.ndarray, terms: Mapping[str, Any]) -> RowParts:
    """The same at a party: as the owner told it, if the terms have a split by date, else at random."""
    if split_in(terms) is not None:
        return parts_in(facts, len(rows))
    if TEST in facts:
        raise MessageError(f"'{TEST}' came with the word 'prepare', and the terms have no split by date.")
    return _random_parts(len(rows), terms)


def labels_in(sheet: Sheet, terms: Mapping[str, Any]) -> str:
    """What kind of labels the owner's files have: what the terms say, or by their number."""
    return str(terms["train"].get("task") or ("several" if len(sheet.labels) > 1 else "classes"))


def check_enough(parts: RowParts, rows: np.ndarray, terms: Mapping[str, Any], name: str, least: int | None) -> None:
    """Refuse to train on fewer than half as many of a party's rows as must be common, if the owner chose which.

    It chooses by its dates, and in a left join by the order of its rows. ``least`` is what the party's operator wants.
    Rows that are held out to validate are not trained on.
    """
    due, how = max(terms["align"].get("minimum") or 1, least or 1), terms.get("train", {})
    schedule = Schedule(len(parts.train), 1, how.get("seed") or 0, how.get("valid") or 0.0)
    many = int((rows[parts.train[schedule.train_rows.numpy()]] >= 0).sum())
    if 2 * many < due and (split_in(terms) is not None or is_left_join(terms)):
        raise ManifestError(
            f"the owner chose {many} rows of '{name}' to train on, where at least {due} must be common; half as many "
            "is the least, so hold out fewer, or agree on a smaller minimum."
        )


def prepared(
    sheet: Sheet, rows: np.ndarray, parts: RowParts, terms: Mapping[str, Any], labels: str | None = None
) -> tuple[Table, Table]:
    """A side's tables, to train on and to test on; the latter has one row if there are none."""
    others = ("test", "split")
    how = {key: value for key, value in terms["prepare"].items() if value is not None and key not in others}
    split = split_in(terms)
    inputs = sheet if split is None or labels is None else split.inputs_of(sheet)
    return prepare_alone(inputs, rows, parts, None, labels, **{**_PREPARED, **how})


def party_spec(
    terms: Mapping[str, Any], plan: Mapping[str, Any], name: str, identity: Identity, train: Table, test: Table
) -> PartySpec:
    """What makes a party's server, as terms and plan describe it."""
    names = [table[0] for table in plan["tables"] if table[2]]
    member = names.index(name)
    return PartySpec(
        member=member,
        names=tuple(names),
        blinded=tuple(party for party in names if party != terms["owner"]),
        table=train,
        method=method_in(plan if "method" in plan else terms),
        model=models.described(plan["model"][member]),
        optimizer=optim.described(plan["optimizer"][member]),
        task=TASKS[plan["settings"]["task"]](plan["outputs"]),
        settings=Settings(**plan["settings"]),
        seals=seal.make_seals([seal.make_seal(**entry) for entry in terms["seals"]]),
        schema=Schema.from_json(plan["schema"]),
        identity=identity,
        keys={party: key for party, key in keys_in(terms).items() if party != terms["owner"]},
        job=job_id(terms),
        tables={"test": test} if plan["test"] else {},
    )


def _random_parts(count: int, terms: Mapping[str, Any]) -> RowParts:
    test = terms["prepare"].get("test")
    return random_parts(count, SHARE if test is None else test, int(terms["train"].get("seed", 0)))
