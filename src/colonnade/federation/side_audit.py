"""``colonnade audit FOLDER`` of one side of a federation: its own view and table, and the terms that it signed.

Everything is found from the job folder: the view, which the audit log must bear out; the terms, which the log says were
signed; the side's own file, whose place was noted when the view was recorded; the common rows. Verdicts are compared
with what the method of the terms declares under their seals.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from colonnade import seal
from colonnade.core.options import seed_of
from colonnade.core.schedule import schedule_of
from colonnade.core.settings import Settings
from colonnade.core.table import Table
from colonnade.core.task import TASKS
from colonnade.disk.whole_files import write_text
from colonnade.errors import CheckpointError, ColonnadeError, ConfigError
from colonnade.federation.audit_check import log_entries
from colonnade.federation.job_folder import JobFolder
from colonnade.federation.job_parts import labels_in, parts_at_owner, parts_at_party, prepared, sheet_of
from colonnade.federation.side_files import read_owner_file, read_party_file
from colonnade.federation.terms import digest, learns, method_in
from colonnade.federation.view_check import LOG, check_view
from colonnade.jobs.table_sections import PartySection
from colonnade.privacy.agreement import Agreement
from colonnade.privacy.audit import Progress, audit_of, checked_budget, chosen_attacks
from colonnade.privacy.audit_file import write_audit
from colonnade.privacy.audit_result import Audit
from colonnade.privacy.audited_run import GUESSES_AT_IDS, evidence_of_side
from colonnade.privacy.clock import BUDGET, Clock
from colonnade.privacy.ids_verdict import ids_verdict
from colonnade.privacy.packed_labels import with_labels_unpacked
from colonnade.report.audit_page import audit_page
from colonnade.tables.align.id_texts import texts
from colonnade.tables.sheets import Sheet
from colonnade.wire.ledger import OWNER

TERMS = "terms.json"


def is_of_a_side(folder: Path) -> bool:
    """Whether it is a folder of one side of a federation: of a job, of one of its runs, or of all jobs of a party."""
    return any((place / TERMS).exists() for place in (folder, folder.parent)) or bool(_jobs_in(folder))


def audit_side(folder: Path, side_file: Path | None, on_progress: Progress | None, **how: Any) -> Audit:
    """The audit of one side's folder, which keeps it; ``side_file`` is the side's own file, if it was moved."""
    chosen, clock = chosen_attacks(how.get("attacks")), Clock(checked_budget(how.get("budget", BUDGET)))
    side = SideFolder.at(folder)
    view, agreed = check_view(side.run.folder), side.agreed()
    evidence = evidence_of_side(None, [side.table(view.side, side_file)], seed_of(how.get("seed", 0)), view)
    evidence = replace(evidence, view=with_labels_unpacked(view, agreed), signed=agreed)
    found = audit_of(evidence, chosen, clock, on_progress)
    if side.lists_ids_plainly(view.side):
        untried = [one for one in found.facts["untried"] if one != GUESSES_AT_IDS]
        verdict = ids_verdict(view.side, side.ids(view.side, side_file), int(side.terms["train"].get("seed", 0)))
        found = replace(found, verdicts=(*found.verdicts, verdict), facts=found.facts | {"untried": untried})
    place = write_audit(found, side.run.folder)
    if view.side != OWNER:  # the owner's run folder has a report that shows it
        place = place.with_suffix(".html")
        write_text(place, audit_page(json.loads(json.dumps(found.to_json())), view.side), private=True)
    return replace(found, written=str(place))


@dataclass(frozen=True)
class SideFolder:
    """One side's folder of a job, and of one run of it."""

    job: JobFolder
    run: JobFolder
    """The same as the job's for its first run."""
    terms: Mapping[str, Any]
    plan: Mapping[str, Any]

    @classmethod
    def at(cls, folder: Path) -> SideFolder:
        """What a folder holds: it is of a job, of a run of one, or of a party that took part in one job."""
        place = folder if (folder / TERMS).exists() else _only_job(folder)
        job = JobFolder(place if (place / TERMS).exists() else place.parent)
        terms = job.terms() or {}
        for other in ("predict", "describe"):
            if other in terms:
                raise ConfigError(
                    f"{folder} is of a job with [{other}], in which nothing is trained; audit a training."
                )
        made = cls(job, JobFolder(place), terms, JobFolder(place).plan())
        made.check_signed()
        return made

    def check_signed(self) -> None:
        """Refuse terms that the audit log does not name, a plan of others, and declarations of another version."""
        known, log = digest(self.terms).hex(), self.job.folder / LOG
        signed = {
            entry.get("facts", {}).get("digest")
            for entry in log_entries(log)
            if str(entry.get("event")).startswith("terms signed")
        }
        if known not in signed or self.plan.get("terms") != known:
            raise CheckpointError(
                f"{self.job.folder / TERMS} are not the terms that {log} says were signed; bring those back."
            )
        if learns(self.terms) != self.terms["learns"]:
            raise ConfigError(
                f"the terms were signed under the declarations of Colonnade {self.terms['colonnade']}, and those of "
                "this version are others; audit with that version."
            )

    def agreed(self) -> Agreement:
        """What all sides signed that an audit compares with."""
        try:
            how, method = Settings(**self.plan["settings"]), method_in(self.plan)
            return Agreement(
                method=method,
                seals=[seal.make_seal(**entry) for entry in self.terms["seals"]],
                task=TASKS[how.task or "classes"](self.plan["outputs"]),
                schedule=schedule_of(how, int(self.plan["tables"][0][1]), several_owners=method.several_owners),
                data=f"the files of job '{self.terms['job']}'",
            )
        except (KeyError, TypeError, ValueError, IndexError, ColonnadeError):
            raise CheckpointError(f"{self.run.folder} has no plan that an audit can read; bring it back.") from None

    def table(self, side: str, given: Path | None) -> Table:
        """The side's own table, of the rows that were trained on and in their order."""
        name, sheet = self._sheet(side, self._side_file(given))
        kept = self.job.rows(sheet.digest)
        if kept is None:
            raise CheckpointError(f"{self.job.folder} does not say which rows were common; bring rows.bin back.")
        is_owner, rows = side == OWNER, kept[0]
        told = self.run.noted_for_audit.get("told") or {}
        parts = parts_at_owner(sheet, rows, self.terms) if is_owner else parts_at_party(told, rows, self.terms)
        table, _ = prepared(sheet, rows, parts, self.terms, labels_in(sheet, self.terms) if is_owner else None)
        due = next((each[1] for each in self.plan["tables"] if each[0] == name), None)
        if table.rows != due:
            raise CheckpointError(
                f"the files of '{name}' give {table.rows} rows to train on, and the plan has {due}; bring back the "
                "files and the folder of that training."
            )
        return table

    def lists_ids_plainly(self, side: str) -> bool:
        """Whether this side sent the list of its ids in a form that can be guessed."""
        return side != OWNER and self.terms["align"].get("mode") == "plain"

    def ids(self, side: str, given: Path | None) -> list[bytes]:
        """All ids of the side's files, as they are compared."""
        name, sheet = self._sheet(side, self._side_file(given))
        return texts(sheet.ids, name)

    def _side_file(self, given: Path | None) -> Path:
        noted = self.run.noted_for_audit.get("file")
        path = given or (None if noted is None else Path(noted))
        if path is None or not path.is_file():
            where = "which nothing was noted of" if path is None else f"and {path} is not there"
            raise ConfigError(
                f"guesses are judged by the side's own files, which its JOB.toml or PARTY.toml names, {where}; pass "
                "that file as --job."
            )
        return path

    def _sheet(self, side: str, path: Path) -> tuple[str, Sheet]:
        """The name of this side and its files."""
        party: PartySection
        if side == OWNER:
            job = read_owner_file(path, tls=False)
            party, beside = job.own, job.beside
        else:
            own = read_party_file(path, tls=False)
            party, beside = own.party, own.beside
        due = self.terms["owner"] if side == OWNER else side
        if party.name != due:
            raise ConfigError(f"{path} is the file of '{party.name}', and the folder is that of '{due}'; pass its own.")
        return str(due), sheet_of(party, beside, self.terms["align"].get("normalise"))


def _jobs_in(folder: Path) -> list[Path]:
    return sorted(path.parent for path in folder.glob(f"*/{TERMS}"))


def _only_job(folder: Path) -> Path:
    """The folder of the one job of a party, or of a run below its job's folder."""
    if (folder.parent / TERMS).exists():
        return folder
    jobs = _jobs_in(folder)
    if len(jobs) != 1:
        raise ConfigError(
            f"{folder} holds {len(jobs)} jobs: {', '.join(job.name for job in jobs)}; name one of these folders."
        )
    return jobs[0]
