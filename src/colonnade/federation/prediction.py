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
from pathlib import Path
from typing import Any

import numpy as np
import torch

from colonnade.disk.small_files import read_json
from colonnade.disk.whole_files import make_folder, write_text
from colonnade.errors import ConfigError
from colonnade.federation.job_folder import JobFolder
from colonnade.federation.job_papers import OwnerFile
from colonnade.federation.job_parts import new_sheet, preparation_in
from colonnade.federation.owner_process import OwnerProcess
from colonnade.federation.owner_transport import Links
from colonnade.federation.prometheus import Metrics
from colonnade.federation.score_file import ScoreFile
from colonnade.federation.terms import digest, learns, terms_of
from colonnade.run.train import resume
from colonnade.run.training import Run
from colonnade.runtime.remote.remote_setup import RemoteSetup
from colonnade.runtime.schema import Schema
from colonnade.study.scores import Scores
from colonnade.wire.ledger import OWNER, Ledger

_NUMBER = re.compile(r"[0-9a-f]{16}")


def prediction_terms(paper: OwnerFile, number: str) -> dict[str, Any]:
    """The terms of a prediction by the model that this paper's job trained."""
    trained = terms_of(paper)
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
        """The next one is another job; say so when the scores are where they belong."""
        self.place.unlink(missing_ok=True)


class Prediction(OwnerProcess):
    """One prediction, as the owner leads it; ``folder`` is that of the run."""

    def __init__(
        self,
        paper: OwnerFile,
        folder: Path,
        files: Sequence[str],
        metrics: Metrics | None = None,
        listener: Links | None = None,
    ) -> None:
        if not (folder / "checkpoints").is_dir():
            raise ConfigError(f"{folder} holds no trained run; train first, and give its folder.")
        self.run_folder = folder
        sheet = new_sheet(paper.own, files, Path(), paper.align.normalise)
        self.unfinished = Unfinished(folder / "predictions")
        number = self.unfinished.number(sheet.digest)
        terms = prediction_terms(paper, number)
        super().__init__(paper, folder / "predictions" / number, metrics, listener, terms=terms, sheet=sheet)

    @property
    def run_number(self) -> bytes:
        """The number of the training's run: its model predicts, and no other run's of the same job."""
        return JobFolder(self.run_folder).run

    def earlier(self) -> Scores | None:
        """The scores of a prediction that came to its end before its owner had handed them on."""
        if not self.end.came:
            return None
        with self._stopping():
            self.end.tell(self.paper.others)
        return self._finished(ScoreFile.read(self._kept), Ledger())

    def score(self) -> Scores:
        """What the model says of the rows that all sides have."""
        with self._stopping():
            run, values = self._with_all(self._scored)
            order = np.argsort(self._rows)  # as in the owner's file
            names = run.names or tuple(map(str, range(run.task.outputs)))
            found = ScoreFile(self._rows[order], values[torch.from_numpy(order)], names, run.task.name)
            found.write(self._kept)
            self._tell_end(run)
        return self._finished(found, run.ledger)

    @property
    def _kept(self) -> Path:
        return self.folder / "scores.safetensors"

    def _finished(self, found: ScoreFile, ledger: Ledger) -> Scores:
        self.status.state("finished")
        self.audit.event("finished", rows=len(found.values))
        self.audit.seal(self.paper.keys.identity)
        return Scores(self.sheet.ids_at(found.rows), found.values, found.names, found.task, ledger=ledger)

    def _scored(self) -> tuple[Run, torch.Tensor]:
        """The run, and what it says of the rows in their common order."""
        if self._agreed_with != self._incarnations:
            self._agree()
        own = preparation_in(self.run_folder, self.name).table(self.sheet, self._rows)
        for party in self.paper.others:
            self._shapes[party] = self._check_shape(party, own.rows, 0)
        far = RemoteSetup(
            connect=lambda _: self.lines,
            schema=self._agree_again(own.rows),
            job=self.job,
            keys={name: key for name, key in self.keys.items() if name != self.name},
            secrets=dict.fromkeys((OWNER, self.name), JobFolder(self.run_folder).secret),
        )
        run = resume(self.run_folder, train=False, far=far)
        return run, run.predict([own, *(self._stand_in(party, own) for party in self.paper.others)])

    def _agree_again(self, rows: int) -> Schema:
        """Everybody signs the plan of the training again, with the number of new rows in it."""
        trained = JobFolder(self.run_folder).plan()
        self._plan = {**trained, "terms": digest(self.terms).hex(), "test": 0, "predict": rows}
        self._sign_plans()
        return Schema.from_json(trained["schema"])
