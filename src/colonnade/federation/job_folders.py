"""Where a party keeps its jobs: each in a folder of its own below the party's, predictions below their training's."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from colonnade.errors import ManifestError, MessageError
from colonnade.federation.extended_job import EarlierRun
from colonnade.federation.job_folder import ENDED, JobFolder
from colonnade.federation.party_counts import Runs
from colonnade.federation.terms import digest, first_difference, job_id

_OWN = ("predict", "learns")  # what the terms of a prediction have beside its training's, or in other words


@dataclass(frozen=True)
class JobFolders:
    """The folders of a party with this name; ``folder`` holds all of them."""

    folder: Path
    name: str

    def of(self, terms: Mapping[str, Any]) -> Path:
        """The folder of a job, which need not exist yet; a job that has ended is refused."""
        job = job_id(terms).hex()
        if "predict" in terms:
            place = self._training(terms["job"], _digest_in(terms)) / "predictions" / job[:8]
        else:
            place = self._training(terms["job"], job)
        if (place / ENDED).exists():
            what = "prediction" if "predict" in terms else "job"
            raise ManifestError(f"the {what} is at its end, and '{self.name}' serves it no more; begin another one.")
        return place

    def trained(self, terms: Mapping[str, Any], run: bytes) -> tuple[JobFolder, int]:
        """The folder of the training whose model is to predict, and which of its runs; under the same terms only."""
        of = _digest_in(terms)
        place = self._training(terms["job"], of)
        number = Runs(self.folder).number(of[:32], run)
        known = JobFolder(place).terms() if place.is_dir() else None
        if number is None or known is None or digest(known).hex() != of:
            raise ManifestError(f"'{self.name}' did not train the model that is to predict, or in another folder.")
        difference = first_difference(_without(known), _without(terms), sides=("in the training", "in the prediction"))
        if difference:
            raise ManifestError(
                f"a prediction has the terms of its training, and these differ in {difference}; undo that."
            )
        return JobFolder(place), number

    def extended(self, terms: Mapping[str, Any]) -> EarlierRun | None:
        """The finished run that these terms go on from, if this party stays as that run left it."""
        section = terms.get("extends")
        if section is None or self.name not in section["stays"]:
            return None
        for place in self.folder.glob(f"*-{section['of'][:8]}"):
            known, number = JobFolder(place).terms(), Runs(self.folder).number(section["of"][:32], _run_in(section))
            if known is not None and number is not None and digest(known).hex() == section["of"]:
                earlier = EarlierRun(JobFolder(place), number, self.name)
                earlier.check_terms(terms)
                return earlier
        raise ManifestError(
            f"'{self.name}' took no part in the job that the terms extend, or in another folder; the owner can name it "
            "in anew of [extend], and it learns once more."
        )

    def known(self, job: bytes) -> JobFolder:
        """The folder of a job that this party has signed."""
        short = job.hex()[:8]
        for place in (*self.folder.glob(f"*-{short}"), *self.folder.glob(f"*-*/predictions/{short}")):
            terms = JobFolder(place).terms()
            if terms is not None and job_id(terms) == job:
                return JobFolder(place)
        raise MessageError(f"'{self.name}' was told the end of a job that it has not signed.")

    def _training(self, name: str, job: str) -> Path:
        """The folder of a training. The owner chose the job's name, so the name must not lead to another folder."""
        return self.folder / f"{re.sub(r'[^A-Za-z0-9_-]', '_', name)[:60]}-{job[:8]}"


def _run_in(section: Mapping[str, Any]) -> bytes:
    return bytes.fromhex(section["run"])


def _digest_in(terms: Mapping[str, Any]) -> str:
    """The digest of the training's terms that a prediction names."""
    section = terms["predict"]
    of = section.get("of") if isinstance(section, Mapping) else None
    if not isinstance(of, str) or not re.fullmatch(r"[0-9a-f]{64}", of):
        raise MessageError(f"the terms have predict.of {str(of)[:20]!r}; the digest of the training's was expected.")
    return of


def _without(terms: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in terms.items() if key not in _OWN}
