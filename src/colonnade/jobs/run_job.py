"""Execute a job: gather its tables, describe them, select parties, train, sweep, resume."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from colonnade import models, seal
from colonnade.core import optim
from colonnade.core.device import LOCAL_OPTIONS
from colonnade.core.option_names import from_stored_names
from colonnade.core.options import seed_of
from colonnade.core.randomness import Sources
from colonnade.core.settings import complete
from colonnade.core.table import Table, check_federation, parties_of
from colonnade.data import load
from colonnade.description.describe_tables import describe_by, rules_of
from colonnade.description.description_result import Description
from colonnade.description.own_columns import PartyRules
from colonnade.errors import CheckpointError, ConfigError
from colonnade.jobs.job_file import Builders, DescribeSection, Job, SelectSection
from colonnade.jobs.table_sections import Files, Progress
from colonnade.methods import make_method
from colonnade.report.summary import read_summary
from colonnade.run.make_plan import make_plan, start
from colonnade.run.train import resume
from colonnade.run.training import Run
from colonnade.runtime.plan import Plan
from colonnade.selection.choice import Selection
from colonnade.store.run_folder import check_vacant
from colonnade.study.select_parties import keep, select
from colonnade.study.sweep import Sweep, sweep
from colonnade.tables.align.align_sheets import Alignment
from colonnade.tables.align.id_texts import texts
from colonnade.tables.align.left_join import in_order, order_of
from colonnade.tables.sheets import Sheet
from colonnade.wire.ledger import OWNER

OnRound = Callable[[Run], None]


@dataclass(frozen=True)
class Gathered:
    """A job's tables, to train on and to test on; with files also their sheets and their alignment."""

    train: list[Table]
    test: list[Table]
    sheets: Sequence[Sheet] = ()
    alignment: Alignment | None = None

    @property
    def tested(self) -> list[Table] | None:
        """The tables to test on, if there are any."""
        return self.test or None

    @property
    def notes(self) -> list[str]:
        """The columns that each party's preparation left out, to be shown only to the parties themselves."""
        each = ((table.name, table.preparation) for table in self.train)
        return [f"{name}: {note}" for name, preparation in each if preparation for note in preparation.notes]


def gather(
    job: Job,
    on_progress: Progress | None = None,
    description: dict[str, Any] | None = None,
    secrets: Mapping[str, bytes] | None = None,
) -> Gathered:
    """Load the data set, or read, align and prepare all parties' files; ``description`` is that of a run to resume.

    With the ``secrets`` of sides in processes of their own, a left join has the order that the owner's secret gives.
    """
    if not isinstance(job.data, Files):
        how = asdict(job.data)
        return Gathered(*load(how.pop("load"), how.pop("parties"), **how))
    sheets = job.data.read()
    if description is not None:
        job.data.check_unchanged(description, sheets)
    alignment = job.data.aligned(sheets, job.train.seed, on_progress)
    if secrets is not None and alignment.join == "left":
        alignment = in_order(alignment, order_of(texts(sheets[0].ids, sheets[0].name), job.train.seed, secrets[OWNER]))
    origin = job.data.origin(sheets, alignment)
    both = job.data.prepared(sheets, alignment, job.train.seed, job.train.task)
    train, test = ([replace(table, origin=origin) for table in tables] for tables in both)
    return Gathered(train, test, sheets, alignment)


def select_job(job: Job, gathered: Gathered | None = None) -> Selection:
    """Select parties as the job's [select] says; if the job has a Blind seal, it blinds the selection, too."""
    how = {key: value for key, value in asdict(job.select or SelectSection()).items() if value is not None}
    if how.get("by") == "heads":
        raise ConfigError("by = 'heads' in [select] reads the heads of a trained run, and a job has none before it.")
    blind = [own for own in job.seals if isinstance(own, seal.Blind)]
    return select((gathered or gather(job)).train, **{"seed": job.train.seed, **how}, seal=blind)


def describe_job(job: Job, gathered: Gathered | None = None, secrets: Mapping[str, bytes] | None = None) -> Description:
    """Describe the columns of a job's training rows, as [describe] says, and compare them with the test rows.

    ``secrets`` are those of sides that did the job in processes of their own, to repeat it in this process.
    """
    tables = gathered or gather(job)
    check_federation(tables.train)
    rules = describe_rules(job.describe, [table.name for table in tables.train])
    sources = Sources(seed_of(job.train.seed), secrets)
    return describe_by(tables.train, rules, later=tables.tested, task=job.train.task, sources=sources)


def describe_rules(section: DescribeSection, parties: Sequence[str]) -> dict[str, PartyRules]:
    """Each party's rules, as [describe] has them."""
    how = section.given
    chosen: dict[str, Any] = {key: how.pop(key) for key in ("minimum", "names", "epsilon") if key in how}
    return rules_of(parties, chosen, **how)


def train_job(
    job: Job,
    folder: str | Path | None = None,
    on_round: OnRound | None = None,
    selection: Selection | None = None,
    gathered: Gathered | None = None,
    secrets: Mapping[str, bytes] | None = None,
) -> Run:
    """Train as a job says, and evaluate the test rows meanwhile; with the selected parties only, if it has [select].

    ``secrets`` are those of sides that did the job in processes of their own, to repeat it in this process.
    """
    tables = gathered or gather(job, secrets=secrets)
    rows, test = tables.train, tables.tested
    if job.select is not None:
        chosen = selection or select_job(job, tables)
        rows, test = chosen.tables, test and keep(test, chosen)
    place = folder or job.train.folder
    if place is not None:
        check_vacant(Path(place))
    run = start(plan_of(job, rows), rows, place, secrets=secrets)
    if tables.alignment is not None:
        run.ledger.add(tables.alignment.ledger)
    return run.fit(test, on_round)


def plan_of(job: Job, rows: list[Table], *, model: Any = None, runtime: str | None = None) -> Plan:
    """The plan of a job's run on these tables; other networks or another runtime override the job's."""
    options = job.options.filled() if runtime is None else replace(job.options.filled(), runtime=runtime)
    return make_plan(rows, job.method, options, model=model or job.model, optimizer=job.optimizer, seal=job.seals)


def sweep_job(job: Job, over: dict[str, list[Any]], **how: Any) -> Sweep:
    """Train a job once for every combination of some values, or search them, as :func:`colonnade.sweep` does.

    What is not given here is what the job's [sweep] says.
    """
    if job.select is not None:
        raise ConfigError("the job has a [select] section, and a sweep trains with all parties; remove it.")
    data = (
        gather(job).train
        if isinstance(job.data, Files)
        else {key: value for key, value in asdict(job.data).items() if value is not None}
    )
    options = {"model": job.model, "optimizer": job.optimizer, **job.options.given}
    chosen = {key: value for key, value in options.items() if value is not None}
    said = {key: value for key, value in asdict(job.sweep).items() if value is not None}
    asked = {key: value for key, value in how.items() if value is not None}
    return sweep(data, job.method, **said | ({"over": over} if over else {}) | asked, seal=list(job.seals), **chosen)


def resume_job(job: Job, folder: str | Path, on_round: OnRound | None = None, gathered: Gathered | None = None) -> Run:
    """Resume a job from its run folder; more epochs than before prolong the run."""
    description = read_summary(folder)["description"]
    loaded = gathered or gather(job, description=description)
    rows, test = (selected_as(description, tables) for tables in (loaded.train, loaded.test))
    for what, was, said in _differences(job, rows, description):
        raise CheckpointError(
            f"the run in {folder} has {what} {was!r}, but the job says {said!r}; undo that or choose another folder."
        )
    how: dict[str, Any] = {
        "epochs": job.train.epochs,
        "test": test or None,
        "on_round": on_round,
        "runtime": job.cluster,
    }
    return resume(folder, rows, **how, **local_options(job))


def local_options(job: Job) -> dict[str, Any]:
    """Where this process computes, as far as the job says so: the options of training that no other side is told."""
    return {key: value for key, value in job.train.given.items() if key in LOCAL_OPTIONS}


def selected_as(description: dict[str, Any], tables: list[Table]) -> list[Table]:
    """The tables of the parties that the described run selected; all tables if it selected none."""
    names = (description["data"] or {}).get("keep")
    return tables if names is None or not tables else keep(tables, names)


def _differences(job: Job, rows: list[Table], was: dict[str, Any]) -> list[tuple[str, Any, Any]]:
    holders = parties_of(rows)
    parties, usual = len(holders), [models.default_for(table.cardinalities) for table in holders]
    method = make_method(**{"method" if key == "name" else key: value for key, value in was["method"].items()})
    chosen = {name: value for name, value in asdict(job.method).items() if value is not None}
    pairs = [
        *_pairs({"name": method.name, **asdict(method)}, {"name": job.method.name, **chosen}, "method's "),
        *_pairs(_flat(was["data"] or {}), _flat(rows[0].origin or {}), "data's "),
        *_pairs(
            from_stored_names(complete(was["settings"])),
            {key: said for key, said in job.train.given.items() if key not in ("epochs", *LOCAL_OPTIONS)},
            "",
        ),
        ("model", was["model"], _described(models, job.model or usual, parties)),
        *_pairs(_by_kind(was.get("seal", [])), _by_kind(seal.describe(job.seals)), "seal "),
        ("seals", sorted(_by_kind(was.get("seal", []))), sorted(_by_kind(seal.describe(job.seals)))),
        ("optimizer", was["optimizer"], _described(optim, job.optimizer or method.party_optimizer, parties)),
    ]
    return [(what, before, now) for what, before, now in pairs if before != now]


def _pairs(was: dict[str, Any], now: dict[str, Any], whose: str) -> list[tuple[str, Any, Any]]:
    return [(f"{whose}{key}", _as_json(was.get(key)), _as_json(value)) for key, value in now.items()]


def _flat(facts: dict[str, Any]) -> dict[str, Any]:
    """Nested facts as a flat table, so that only different ones are shown; sections with a name are called by it."""
    flat: dict[str, Any] = {}
    for key, value in facts.items():
        named = (
            isinstance(value, list) and value and all(isinstance(entry, dict) and "name" in entry for entry in value)
        )
        inner = {entry["name"]: entry for entry in value} if named else value
        flat |= (
            {f"{key} {part}": fact for part, fact in _flat(inner).items()} if isinstance(inner, dict) else {key: value}
        )
    return flat


def _as_json(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _by_kind(seals: list[dict[str, Any]]) -> dict[str, Any]:
    return {f"{entry['kind']} {entry.get('ways', '')}".strip(): entry for entry in seals}


def _described(module: Any, builders: Builders, parties: int) -> list[dict[str, Any]]:
    each = builders if isinstance(builders, list) else [builders] * parties
    plain = [module.describe(builder) for builder in each]
    return [{key: _as_json(value) for key, value in entry.items()} for entry in plain]  # in the types of JSON
