"""Predictions over a federation: everybody brings new rows, and only the owner gets the scores.

A prediction is a job of its own with terms of its own, which every party signs and counts among its runs. It is of a
model that the same sides trained: each has its part of it, and how it prepared its columns, in its own folder.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from colonnade.api import resume
from colonnade.errors import ConfigError
from colonnade.federation.agreed import new_sheet, preparation_in
from colonnade.federation.desk import Desk
from colonnade.federation.host import Host
from colonnade.federation.lines import Links
from colonnade.federation.metrics import Metrics
from colonnade.federation.papers import OwnerPaper
from colonnade.federation.terms import digest, learns, terms_of
from colonnade.folder import make_folder, write_text
from colonnade.ledger import OWNER
from colonnade.run import Run
from colonnade.runtime.far import Far
from colonnade.runtime.schema import Schema
from colonnade.scores import Scores
from colonnade.small_files import read_json


def prediction_terms(paper: OwnerPaper, number: str) -> dict[str, Any]:
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
        if not isinstance(known, dict) or known.get("files") != files or not isinstance(known.get("number"), str):
            known = {"files": files, "number": os.urandom(8).hex()}
            write_text(self.place, json.dumps(known))
        return str(known["number"])

    def finish(self) -> None:
        """The next one is another job."""
        self.place.unlink(missing_ok=True)


class Prediction(Host):
    """One prediction, as the owner leads it; ``folder`` is that of the run."""

    def __init__(
        self,
        paper: OwnerPaper,
        folder: Path,
        files: Sequence[str],
        metrics: Metrics | None = None,
        listener: Links | None = None,
    ) -> None:
        if any(one.kind == "noise" for one in paper.job.seals):
            raise ConfigError(
                "the run has noise, and what a prediction spends is not kept by parties yet; predict in one process."
            )
        if not (folder / "checkpoints").is_dir():
            raise ConfigError(f"{folder} holds no trained run; train first, and give its folder.")
        self.run_folder = folder
        sheet = new_sheet(paper.own, files, Path(), paper.align.normalise)
        self.unfinished = Unfinished(folder / "predictions")
        number = self.unfinished.number(sheet.digest)
        terms = prediction_terms(paper, number)
        super().__init__(paper, folder / "predictions" / number, metrics, listener, terms=terms, sheet=sheet)

    def score(self) -> Scores:
        """What the model says of the rows that all sides have."""
        with self._stopping():
            run, values = self._with_all(self._scored)
            self._tell_end(run)
        self.status.state("finished")
        self.audit.event("finished", rows=len(values))
        self.audit.seal(self.paper.keys.identity)
        self.unfinished.finish()
        names = run.names or tuple(map(str, range(run.task.outputs)))
        order = np.argsort(self._rows)  # as in the owner's file
        ids = self.sheet.ids_at(self._rows[order])
        return Scores(ids, values[torch.from_numpy(order)], names, run.task.name, ledger=run.ledger)

    def _scored(self) -> tuple[Run, torch.Tensor]:
        """The run, and what it says of the rows in their common order."""
        if self._agreed_with != self._incarnations:
            self._agree()
        own = preparation_in(self.run_folder, self.name).table(self.sheet, self._rows)
        for party in self.paper.others:
            self._shapes[party] = self._check_shape(party, own.rows, 0)
        far = Far(
            connect=lambda _: self.lines,
            schema=self._agree_again(own.rows),
            job=self.job,
            keys={name: key for name, key in self.keys.items() if name != self.name},
            secrets=dict.fromkeys((OWNER, self.name), Desk(self.run_folder).secret),
        )
        run = resume(self.run_folder, train=False, far=far)
        return run, run.predict([own, *(self._stand_in(party, own) for party in self.paper.others)])

    def _agree_again(self, rows: int) -> Schema:
        """Everybody signs the plan of the training again, with the number of new rows in it."""
        trained = Desk(self.run_folder).plan()
        self._plan = {**trained, "terms": digest(self.terms).hex(), "test": 0, "predict": rows}
        self._sign_plans()
        return Schema.from_json(trained["schema"])
