"""One side's folder of a job: the terms it signed, its secret, the rows it found, what it was trained on."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from colonnade.disk.small_files import opened, read_kept
from colonnade.disk.whole_files import make_folder, write_bytes, write_text
from colonnade.errors import CheckpointError, ManifestError
from colonnade.federation.audit_log import lock_file
from colonnade.federation.terms import first_difference
from colonnade.store.secret_file import secret_in

ENDED = "ended.json"
AUDITED = "audited-table.json"


class JobFolder:
    """One side's files of a job; each is written whole or not at all."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = make_folder(folder)

    def take_terms(self, terms: dict[str, Any]) -> None:
        """Keep the terms of this folder's job; others than those kept are refused, with the field named."""
        known = self._read_json("terms.json")
        if known is None:
            write_text(self.folder / "terms.json", json.dumps(terms, indent=2), durable=True)
            return
        difference = first_difference(known, terms, sides=("then", "now"))
        if difference:
            raise ManifestError(f"the terms changed since they were signed, in {difference}; undo that, or start over.")

    def keep_plan(self, plan: dict[str, Any]) -> None:
        """Keep the plan that everybody signed."""
        write_text(self.folder / "plan.json", json.dumps(plan))

    @property
    def signed_plan(self) -> dict[str, Any] | None:
        """The plan that everybody signed, if it came to that."""
        return self._read_json("plan.json")

    def plan(self) -> dict[str, Any]:
        """The plan that everybody signed."""
        plan = self.signed_plan
        if plan is None:
            raise CheckpointError(f"{self.folder} has no plan that everybody signed; train there first.")
        return plan

    def terms(self) -> dict[str, Any] | None:
        """The terms of this folder's job, if there are some."""
        return self._read_json("terms.json")

    def note_for_audit(self, side_file: Path | None, told: Mapping[str, Any]) -> None:
        """Note what an audit of this side needs to find its table: its file, and what it was told of rows by date."""
        where = None if side_file is None else str(side_file.resolve())
        write_text(self.folder / AUDITED, json.dumps({"file": where, "told": dict(told)}), private=True)

    @property
    def noted_for_audit(self) -> dict[str, Any]:
        """What was noted for an audit."""
        return self._read_json(AUDITED) or {}

    @property
    def secret(self) -> bytes:
        """Thirty-two bytes that only this side knows, drawn once."""
        return secret_in(self.folder)

    def secret_of(self, run: int) -> bytes:
        """The secret of one run of this job; another run has another secret, and so other weights."""
        if run == 1:
            return self.secret
        return hmac.digest(self.secret, f"colonnade/run/{run}".encode(), "sha256")

    def of_run(self, run: int) -> JobFolder:
        """Where the plan, the preparation and the states of one run are; the first run's are in the folder itself."""
        return self if run == 1 else JobFolder(self.folder / f"run-{run:03d}")

    @property
    def run(self) -> bytes:
        """At the owner: the random name of the run in this folder; another folder holds another run."""
        known = self._read_json("run.json")
        if known is None:
            known = {"run": os.urandom(16).hex()}
            write_text(self.folder / "run.json", json.dumps(known), durable=True)
        try:
            return bytes.fromhex(known["run"])
        except (KeyError, TypeError, ValueError):
            raise CheckpointError(f"{self.folder / 'run.json'} is damaged; start over in another folder.") from None

    def end(self, **facts: Any) -> None:
        """Note that the job has ended and is not served again."""
        write_text(self.folder / ENDED, json.dumps(facts), durable=True)

    @property
    def ended(self) -> dict[str, Any] | None:
        """What was noted at the end of the job; None before it."""
        return self._read_json(ENDED)

    def keep_rows(self, rows: np.ndarray, facts: dict[str, Any]) -> None:
        """Keep which rows are common, in the common order: this side's own row numbers."""
        raw = rows.astype("<i8").tobytes()
        write_bytes(self.folder / "rows.bin", raw, durable=True)
        kept = {**facts, "rows": hashlib.sha256(raw).hexdigest()}
        write_text(self.folder / "alignment.json", json.dumps(kept), durable=True)  # last: it says that both are there

    def rows(self, files: str) -> tuple[np.ndarray, dict[str, Any]] | None:
        """The rows that were kept for files of this digest, and the facts beside them."""
        facts = self._read_json("alignment.json")
        if facts is None:
            return None
        if facts.get("files") != files:
            raise ManifestError("the files changed since their rows were aligned; bring those back, or start over.")
        try:
            with opened(self.folder / "rows.bin") as file:
                raw = file.read()
        except OSError:
            raw = b""  # no rows at all have another hash than those that were kept
        if hashlib.sha256(raw).hexdigest() != facts.get("rows"):
            raise CheckpointError(
                f"{self.folder / 'rows.bin'} is not as it was kept: its rows may be others, or in another order; start "
                "over in another folder."
            )
        return np.frombuffer(raw, "<i8").astype(np.int64), facts

    def _read_json(self, name: str) -> dict[str, Any] | None:
        kept: dict[str, Any] | None = read_kept(self.folder / name, dict, "; start over in another folder")
        return kept


@contextmanager
def only_process_in(folder: Path) -> Iterator[None]:
    """Refuse a second process in a party's folder: it would replace the first one's connection, and so end the job."""
    with (make_folder(folder) / ".lock").open("ab") as file:
        lock_file(file.fileno(), f"another process is at work in {folder}")
        yield
