"""Predictions over a federation: everybody brings new rows, and only the owner gets the scores.

A prediction is a job of its own, which every party signs and counts among its runs. Its terms are those of the training
and the number of the prediction. It is of a model that the same sides trained: each has its part of it, and how it
prepared its columns, in its own folder; what it spends is counted in the training's privacy budget.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from colonnade.disk.small_files import read_json
from colonnade.disk.whole_files import make_folder, write_text
from colonnade.errors import ConfigError
from colonnade.federation.extended_job import job_terms
from colonnade.federation.job_folder import JobFolder
from colonnade.federation.job_parts import new_sheet, preparation_in
from colonnade.federation.owner_handshake import CommonRows
from colonnade.federation.owner_session import OwnerJob, OwnerSession
from colonnade.federation.owner_transport import Connections
from colonnade.federation.prometheus import Metrics
from colonnade.federation.score_file import ScoreFile
from colonnade.federation.side_sections import OwnerFile
from colonnade.federation.terms import digest, learns
from colonnade.jobs.run_job import local_options
from colonnade.run.train import resume
from colonnade.run.training import Run
from colonnade.runtime.schema import Schema
from colonnade.study.scores import Scores
from colonnade.tables.align.alignment_owner import Progress
from colonnade.wire.ledger import OWNER, Ledger

_NUMBER = re.compile(r"[0-9a-f]{16}")


def prediction_terms(job_file: OwnerFile, number: str) -> dict[str, Any]:
    """The terms of a prediction by the model that the job of this file trained."""
    trained = job_terms(job_file)
    terms = {**trained, "predict": {"of": digest(trained).hex(), "number": number}}
    return {**terms, "learns": learns(terms)}


class Unfinished:
    """Which prediction is under way, so that an owner that died in it goes on with the same job."""

    def __init__(self, folder: Path) -> None:
        self.place = make_folder(folder) / "unfinished.json"

    def number(self, files: str) -> str:
        """Of the unfinished prediction of files of this digest, or a new one: two predictions are two jobs."""
        try:
            known = read_json(self.place)
        except (OSError, ValueError):
            known = None
        if (
            not isinstance(known, dict)
            or known.get("files") != files
            or not _NUMBER.fullmatch(str(known.get("number")))
        ):
            known = {"files": files, "number": os.urandom(8).hex()}
            write_text(self.place, json.dumps(known))
        return str(known["number"])

    def finish(self) -> None:
        """End this prediction, once its scores are written; the next prediction is another job."""
        self.place.unlink(missing_ok=True)


class Prediction:
    """One prediction, as the owner leads it; ``folder`` is that of the run."""

    def __init__(
        self,
        job_file: OwnerFile,
        folder: Path,
        files: Sequence[str],
        metrics: Metrics | None = None,
        listener: Connections | None = None,
    ) -> None:
        """``listener`` is what parties connect to; by default a port of this machine."""
        if not (folder / "checkpoints").is_dir():
            raise ConfigError(f"{folder} holds no trained run; train first, and give its folder.")
        self.run_folder = folder
        sheet = new_sheet(job_file.own, files, Path(), job_file.align.normalise)
        self.unfinished = Unfinished(folder / "predictions")
        number = self.unfinished.number(sheet.digest)
        self.terms = prediction_terms(job_file, number)
        self.folder = folder / "predictions" / number
        job = OwnerJob(self.terms, sheet, self.folder, run_folder=folder)
        self.session = OwnerSession(job_file, job, metrics, listener)

    def gather(self, on_progress: Progress | None = None) -> None:
        """From the first hello to everybody's common rows."""
        self.session.gather(on_progress)

    def earlier(self) -> Scores | None:
        """The scores of a prediction that ended before its owner wrote them out."""
        if not self.session.end.is_over:
            return None
        self.session.tell_end()
        return self._finished(ScoreFile.read(self._kept), Ledger())

    def score(self) -> Scores:
        """What the model says of the rows that all sides have."""
        session = self.session
        with session.stopping():
            run, values = session.with_all(self._scored)
            rows = session.aligned.rows
            order = np.argsort(rows)  # as in the owner's file
            names = run.names or tuple(map(str, range(run.task.outputs)))
            scores = ScoreFile(rows[order], values[torch.from_numpy(order)], names, run.task.name)
            scores.write(self._kept)
            session.tell_end(run.parties)
        return self._finished(scores, run.ledger)

    def close(self) -> None:
        """Hang up and close all files."""
        self.session.close()

    @property
    def _kept(self) -> Path:
        return self.folder / "scores.safetensors"

    def _finished(self, scores: ScoreFile, ledger: Ledger) -> Scores:
        self.session.finish(rows=len(scores.values))
        sheet, rows = self.session.sheet, scores.rows
        return Scores.of(sheet, rows, scores.values, names=scores.names, task=scores.task, ledger=ledger)

    def _scored(self) -> tuple[Run, torch.Tensor]:
        """The run, and what it says of the rows in their common order."""
        session, handshake = self.session, self.session.handshake
        session.check_agreed()
        own = preparation_in(self.run_folder, session.name).table(session.sheet, session.aligned.rows)
        handshake.prepare(CommonRows(session.aligned.proofs, own.rows, test=0))
        far = session.remote_setup(self._sign_plan(own.rows), JobFolder(self.run_folder).secret)
        far = replace(far, record=session.job_file.audit.of(OWNER))
        run = resume(self.run_folder, train=False, far=far, **local_options(session.job_file.job))
        if run.model.witness is not None:
            session.record.follow(run.model.witness)
        said = run.predict([own, *(session.stand_in(party, own) for party in session.parties)])
        session.record.write(run.round)
        return run, said

    def _sign_plan(self, rows: int) -> Schema:
        """Everybody signs the plan of the training again, with the number of new rows in it."""
        trained = JobFolder(self.run_folder).plan()
        plan = {**trained, "terms": digest(self.terms).hex(), "test": 0, "predict": rows}
        self.session.handshake.sign_plan(plan)
        return Schema.from_json(trained["schema"])
