"""A job that goes on from a finished one of one round: with a party more, one less, or one that learns anew.

The owner of such a job has every party's one reply already, so it asks those alone whose reply it does not have. The
terms name the finished job, its run, and the parties that *stay*. Who stays serves evaluations and predictions by the
model that it learnt then, and refuses every step of training. All else that was agreed must be as it was: method,
seals, settings, rows, labels.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from torch import Tensor

from colonnade.core.state import Packed, under
from colonnade.errors import ConfigError, ManifestError
from colonnade.federation.job_folder import JobFolder
from colonnade.federation.party_counts import OpenRows
from colonnade.federation.side_sections import OwnerFile
from colonnade.federation.terms import digest, first_difference, keys_in, method_in, terms_of
from colonnade.store import checkpoint
from colonnade.store.budget_file import SPENT, is_written
from colonnade.store.preparation_files import read_preparations
from colonnade.store.secret_file import hand_on_secret
from colonnade.store.state_folder import StateFolder
from colonnade.tables.prepare.preparation import Preparation
from colonnade.tables.sheets import Sheet
from colonnade.wire.ledger import OWNER

_MAY_DIFFER = ("job", "parties", "learns", "extends", "limits", "colonnade")


def job_terms(job_file: OwnerFile) -> dict[str, Any]:
    """The terms that a job file makes, with the finished job that it goes on from, if it names one."""
    extended = ExtendedJob.of(job_file)
    return terms_of(job_file) if extended is None else extended.terms_of(job_file)


def check_goes_on(earlier: Mapping[str, Any], terms: Mapping[str, Any]) -> None:
    """Refuse terms that differ from those of the job that they go on from in more than who takes part."""
    before, now = ({key: value for key, value in each.items() if key not in _MAY_DIFFER} for each in (earlier, terms))
    difference = first_difference(before, now, sides=("then", "now"))
    if difference:
        raise ManifestError(
            f"a job that extends another has its terms but for the parties, and these differ in {difference}; undo "
            "that, or train anew without [extend]."
        )


@dataclass(frozen=True)
class ExtendedJob:
    """The owner's folder of the finished job."""

    folder: JobFolder
    terms: dict[str, Any]
    replies: dict[str, Tensor]
    """What each party sent in the one round."""

    @classmethod
    def of(cls, job_file: OwnerFile) -> Self | None:
        """The finished job that a job file names; None if it names none."""
        if job_file.extend is None:
            return None
        place = job_file.beside / job_file.extend.folder
        terms = JobFolder(place).terms() if (place / "terms.json").is_file() else None
        if terms is None or "method" not in terms:
            raise ConfigError(
                f"{place} in [extend] holds no training of a federation; give its owner's run folder, which `colonnade "
                "owner` wrote."
            )
        if method_in(terms).most_rounds != 1:
            raise ConfigError(
                f"{place} in [extend] is a job of {terms['method']['name']} whose owner keeps no replies to go on "
                "from; extend one of oneshot that does not learn from gradients, or train anew without [extend]."
            )
        folder = JobFolder(place)
        if folder.ended is None:
            raise ConfigError(f"the job in {place} is not finished; start it again, and extend it after its end.")
        states, _ = checkpoint.read(checkpoint.newest(place / "checkpoints"))
        return cls(folder, terms, under(states[OWNER], "replies"))

    def terms_of(self, job_file: OwnerFile) -> dict[str, Any]:
        """The terms of a job that goes on from this one."""
        assert job_file.extend is not None
        stays = [name for name in job_file.others if name in self.replies and name not in job_file.extend.anew]
        for name in stays:
            if keys_in(self.terms)[name] != job_file.others[name]:
                raise ConfigError(
                    f"'{name}' has another key than in the job that is extended, so it may be another party; name it "
                    "in anew of [extend], and it learns once more."
                )
        extends = {"of": digest(self.terms).hex(), "run": self.folder.run.hex(), "stays": stays}
        terms = terms_of(job_file, extends)
        check_goes_on(self.terms, terms)
        return terms

    def rows(self, sheet: Sheet) -> np.ndarray:
        """The owner's rows of the finished job in their order, if its files and its label are those of that job."""
        kept = self.folder.rows(sheet.digest)
        if kept is None:
            raise ConfigError(f"{self.folder.folder} has no common rows; train again, and extend that.")
        rows, facts = kept
        if facts.get("labels") != list(sheet.labels):
            raise ConfigError(
                f"the job that is extended learnt the label {facts.get('labels')}, and this one has "
                f"{list(sheet.labels)}; parties that stay know nothing of it: train anew without [extend]."
            )
        return rows

    def hand_on(self, folder: Path) -> None:
        """Let the new job draw as this one did: the same noise on the same labels, the same order of rows."""
        hand_on_secret(JobFolder(folder).folder, self.folder.secret)

    def replies_of(self, terms: Mapping[str, Any]) -> dict[str, Tensor]:
        """The replies of the parties that stay under these terms."""
        return {name: self.replies[name] for name in terms["extends"]["stays"]}


@dataclass(frozen=True)
class EarlierRun:
    """A party's own folder of the finished job, and which of its runs: what a party that stays learnt in."""

    folder: JobFolder
    run: int
    name: str
    """The party's name."""

    @property
    def run_folder(self) -> JobFolder:
        """Where the plan, the preparation and the states of the run are."""
        return self.folder.of_run(self.run)

    def check_terms(self, terms: Mapping[str, Any]) -> None:
        """Refuse to stay if the job is not finished, has more rounds than one, or other terms."""
        earlier = self.folder.terms()
        assert earlier is not None  # it was found by them
        if method_in(earlier).most_rounds != 1:
            raise ManifestError(
                f"the terms extend a job of {earlier['method']['name']}; only one of a single round can be extended."
            )
        if self.folder.ended is None:
            raise ManifestError(f"the terms extend a job that is not finished at '{self.name}'; finish it first.")
        check_goes_on(earlier, terms)

    def check_rows(self, rows: np.ndarray, files: str) -> None:
        """Refuse other rows than the run was trained on, or the same rows of changed files."""
        self.folder.rows(files)
        OpenRows(self.folder.folder).check(rows, self.run, self.name)

    def check_plan(self, plan: Mapping[str, Any], preparation: Preparation) -> None:
        """Refuse a plan under which this party's model would be asked about other rows, or read columns otherwise."""
        earlier = self.run_folder.plan()
        facts = [
            {**each, "tables": [side for side in each["tables"] if side[0] == self.name]} for each in (earlier, plan)
        ]
        before, now = (
            {key: each.get(key) for key in ("settings", "outputs", "test", "split", "tables")} for each in facts
        )
        difference = first_difference(before, now, sides=("then", "now"))
        if difference:
            raise ManifestError(f"the plan is not that of the job which is extended, in {difference}; do not sign it.")
        if not _same(read_preparations(self.run_folder.folder).get(self.name), preparation):
            raise ManifestError(
                f"'{self.name}' prepares its columns in another way than in the job that is extended; bring back "
                "[party] of that job, or let the owner name it in anew of [extend]."
            )

    def state(self) -> Packed:
        """What this party had learnt at the end of the run."""
        states = StateFolder(self.run_folder.folder / "states")
        if not states.numbers:
            raise ManifestError(f"'{self.name}' has kept no state of the job that is extended; train anew.")
        return states.get(states.numbers[-1])

    def hand_on(self, folder: JobFolder) -> None:
        """Let the new job draw and count on from this one: what was spent of a budget stays spent."""
        hand_on_secret(folder.folder, self.folder.secret_of(self.run))
        if is_written(self.folder.folder) and not is_written(folder.folder):
            shutil.copy(self.folder.folder / SPENT, folder.folder / SPENT)


def _same(one: Preparation | None, other: Preparation) -> bool:
    if one is None:
        return False
    (facts, arrays), (others, other_arrays) = one.state(), other.state()
    same = arrays.keys() == other_arrays.keys() and all(
        np.array_equal(array, other_arrays[key]) for key, array in arrays.items()
    )
    return same and first_difference(facts, others) is None
