"""What a party counts in its own folder: each count is on the disk before the party sends what it counts."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from colonnade.disk.small_files import opened, read_kept
from colonnade.disk.whole_files import make_folder, write_bytes, write_text
from colonnade.errors import CheckpointError, ManifestError, PrivacyError
from colonnade.federation.terms import job_id

_LOST = ", and with it what was counted; bring it back, or use a new folder"  # if a count cannot be read


class Runs:
    """How often a party let a job begin: another job is one more run, and so is the same job begun afresh.

    The owner names a run by a number that it drew and keeps in its folder. Whoever leads a job with another number
    has not the folder that the run is in, so it begins again.
    """

    def __init__(self, folder: Path, file: str = "runs.json", limit: str = "runs in [allow]") -> None:
        """``limit`` names what the operator may raise."""
        self.place, self.limit = make_folder(folder) / file, limit

    def allow(self, terms: Mapping[str, Any], run: bytes, most: int, name: str) -> int:
        """The number of a run within its job, from 1; a new run is counted, and refused if it is one too many."""
        signed: list[str] = read_kept(self.place, list, _LOST) or []
        job = job_id(terms).hex()
        this = f"{job}:{run.hex()}"
        if this not in signed:
            if len(signed) >= most:
                raise ManifestError(
                    f"'{name}' has let {len(signed)} runs begin and allows {most}; raise {self.limit}, or go on in "
                    "the owner's folder of a run that was begun."
                )
            signed = [*signed, this]
            write_text(self.place, json.dumps(signed), durable=True)
        return _number(signed, job, this)

    def number(self, job: str, run: bytes) -> int | None:
        """Which run of a job it is, from 1; None if it was never begun."""
        signed: list[str] = read_kept(self.place, list, _LOST) or []
        this = f"{job}:{run.hex()}"
        return _number(signed, job, this) if this in signed else None


class Alignments:
    """How often a party began to compare its ids in one job: a crash needs one more, trying out ids many."""

    def __init__(self, folder: Path) -> None:
        self.place = folder / "alignments.json"

    def allow(self, most: int, name: str) -> None:
        """Count one more; refuse it if it is one too many."""
        begun: int = read_kept(self.place, int, _LOST) or 0
        if begun >= most:
            raise PrivacyError(
                f"'{name}' has compared its ids {begun} times in this job and allows {most}, since each time tells of "
                "more ids; raise alignments in [allow]."
            )
        write_text(self.place, json.dumps(begun + 1), durable=True)


class OnlyQuestion:
    """What a question was answered for: the same again after a crash; other labels, keys or rows are refused.

    Another question about the same columns would tell an owner that lies about single people.
    """

    def __init__(self, place: Path, refusal: str) -> None:
        self.place, self.refusal = place, refusal

    def __call__(self, step: str, digest: bytes) -> None:
        """Note what came with a step, before it is answered; refuse something else than came before."""
        told: dict[str, str] = read_kept(self.place, dict, _LOST) or {}
        if told.get(step, digest.hex()) != digest.hex():
            raise PrivacyError(self.refusal.replace("{step}", step))
        if step not in told:
            write_text(self.place, json.dumps({**told, step: digest.hex()}), durable=True)


def question_of_a_run(folder: Path, name: str) -> OnlyQuestion:
    """Of a run that has one round."""
    return OnlyQuestion(
        folder / "told.json",
        f"'{name}' has answered step '{{step}}' of this run, and was told something else then; a run of one round is "
        "one question: begin another run, which counts as one of runs in [allow].",
    )


def question_of_a_description(folder: Path, name: str) -> OnlyQuestion:
    """Of a job that describes columns."""
    return OnlyQuestion(
        folder / "described.json",
        f"'{name}' has described its columns in this job for other labels or rows than these; it answers one set of "
        "labels a job: bring back the files that were described, or begin another job.",
    )


def question_of_parts(folder: Path, name: str) -> OnlyQuestion:
    """Of a run whose training rows the owner's dates decide: how they are prepared tells of them."""
    return OnlyQuestion(
        folder / "parts.json",
        f"the owner told '{name}' other rows to train and to test on than when this run began; a run keeps them: bring "
        "the owner's files back, or begin another run, which counts as one of runs in [allow].",
    )


class OpenRows:
    """The rows that a job was opened for: another alignment may not bring the owner to more of them.

    A run keeps its rows in their order, since its rounds are about places in that order. Another run of the same job
    has the rows of the first or some of those. A row of -1, in a left join, is one that the party does not have.
    """

    def __init__(self, folder: Path) -> None:
        self.rows, self.runs = folder / "open_rows.bin", folder / "open_rows.json"

    def check(self, rows: np.ndarray, run: int, name: str) -> None:
        """Refuse rows that this run does not have, or that no run of this job had."""
        digests: dict[str, str] = read_kept(self.runs, dict, _LOST) or {}
        if digests.get(str(run), _digest(rows)) != _digest(rows):
            raise ManifestError(
                f"the alignment gave '{name}' other rows than this run has, or another order; a run keeps its rows: "
                "bring back the files that were aligned, or begin another job."
            )
        if digests and not np.isin(rows[rows >= 0], self._first(digests)).all():
            raise ManifestError(
                f"the alignment brought rows of '{name}' that this job was not opened for; a job keeps its rows: bring "
                "back the files that were aligned first, or begin another job."
            )

    def open(self, rows: np.ndarray, run: int, name: str) -> None:
        """Note that a run has these rows, before it is served from them."""
        self.check(rows, run, name)
        digests: dict[str, str] = read_kept(self.runs, dict, _LOST) or {}
        if str(run) in digests:
            return
        if not digests:
            write_bytes(self.rows, _raw(rows), durable=True)
        first = digests.get("first", _digest(rows))
        write_text(self.runs, json.dumps({**digests, "first": first, str(run): _digest(rows)}), durable=True)

    def _first(self, digests: Mapping[str, str]) -> np.ndarray:
        try:
            with opened(self.rows) as file:
                raw = file.read()
        except OSError:
            raw = b""
        if hashlib.sha256(raw).hexdigest() != digests.get("first"):
            raise CheckpointError(f"{self.rows} is not as it was written; bring it back, or use a new folder.")
        return np.frombuffer(raw, "<i8")


def _number(signed: list[str], job: str, this: str) -> int:
    return 1 + [run for run in signed if run.startswith(f"{job}:")].index(this)


def _raw(rows: np.ndarray) -> bytes:
    return rows.astype("<i8").tobytes()


def _digest(rows: np.ndarray) -> str:
    return hashlib.sha256(_raw(rows)).hexdigest()
