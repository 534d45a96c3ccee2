"""Job files: a training run described in TOML.

::

    [data]       load, parties, by, owner, owners, alpha, ...      as in colonnade.load; or, with files:
    [[party]]    name, files, id, label, ...                       as in colonnade.read, one section per party
    [align]      mode, minimum, maximum, normalise                 as in colonnade.align
    [prepare]    test, numbers, categories, ...                    as in colonnade.prepare
    [train]      method, epochs, rounds, batch, seed, ...          as in colonnade.train
    [method]     any option of that method
    [model]      kind and its options; [[model]] gives one per party
    [optimizer]  kind and its options; [[optimizer]] gives one per party
    [[seal]]     kind and its options, one section per seal
    [cluster]    address, group, cpus, nodes, ...                  as in colonnade.Cluster, for runtime = "ray"
    [select]     share or count, by, queries, rows, ...            as in colonnade.select, before training
    [describe]   bins, minimum, names, epsilon, delta, proof       as in colonnade.describe
    [sweep]      over, budget, seconds, search                     as in colonnade.sweep, for that command alone
"""

from __future__ import annotations

import types
import typing
from collections.abc import Callable
from dataclasses import MISSING, asdict, dataclass, fields
from pathlib import Path
from typing import Any

from colonnade import models, seal
from colonnade.core import optim
from colonnade.core.method import Method
from colonnade.core.option_names import new_names
from colonnade.core.options import LARGEST_SEED, MOST, check_name, path_part
from colonnade.core.settings import TrainOptions
from colonnade.core.task import TASKS
from colonnade.disk.small_files import read_toml
from colonnade.errors import ConfigError, unknown
from colonnade.jobs.table_sections import AlignSection, Files, PartySection, PrepareSection
from colonnade.methods import make_method
from colonnade.runtime.cluster import Cluster

Builders = Any  # one builder, a list with one per party, or None for the default

_WORDS = {
    int: "a whole number",
    float: "a number",
    str: "a text",
    list: "a list",
    dict: "a table",
    bool: "true or false",
}
_EXAMPLES = {
    "address": "bank.example:8443",
    "key": "bank.pub",
    "load": "digits",
    "name": "bank",
    "files": "bank.csv",
    "id": "customer",
}


@dataclass(frozen=True)
class DataSection:
    """The data set to load, and how to cut it."""

    load: str
    parties: int | list[Any] | dict[str, Any] | None = None
    by: str | None = None
    owner: str = "labels"
    rows: int | None = None
    seed: int = 0
    width: int | None = None
    owners: int | None = None
    alpha: float | None = None


@dataclass(frozen=True)
class TrainSection(TrainOptions):
    """How to train; None leaves the choice to :func:`colonnade.train`."""

    runtime: str | None = None
    weights: list[float] | str | None = None
    device: str | list[str] | None = None
    method: str = "vimadmm"
    folder: str | None = None


@dataclass(frozen=True)
class SelectSection:
    """How to select parties; None leaves the choice to :func:`colonnade.select`."""

    share: float | None = None
    count: int | None = None
    by: str | None = None
    queries: int | None = None
    rows: int | None = None
    neighbours: int | None = None
    tests: int | None = None
    seed: int | None = None
    helper: str | None = None


@dataclass(frozen=True)
class DescribeSection:
    """How to describe columns; None leaves the choice to :func:`colonnade.describe`."""

    bins: int | None = None
    minimum: int | dict[str, Any] | None = None
    names: str | dict[str, Any] | None = None
    epsilon: float | dict[str, Any] | None = None
    delta: float | None = None
    proof: bool | None = None

    @property
    def given(self) -> dict[str, Any]:
        """What the section has."""
        return {key: value for key, value in asdict(self).items() if value is not None}


@dataclass(frozen=True)
class SweepSection:
    """What to sweep over, and with which budget; None leaves the choice to :func:`colonnade.sweep`."""

    over: dict[str, Any] | None = None
    budget: int | None = None
    seconds: float | None = None
    search: str | None = None


@dataclass(frozen=True)
class Job:
    """A run that can be started; every name and type in it was checked."""

    data: DataSection | Files
    train: TrainSection
    method: Method
    model: Builders = None
    optimizer: Builders = None
    seals: tuple[seal.Seal, ...] = ()
    select: SelectSection | None = None
    name: str = "job"
    cluster: Cluster | None = None
    describe: DescribeSection = DescribeSection()
    sweep: SweepSection = SweepSection()

    @property
    def options(self) -> TrainOptions:
        """How the job trains."""
        return TrainOptions(**self.train.given | ({"runtime": self.cluster} if self.cluster else {}))

    @property
    def default_folder(self) -> Path:
        """The run folder if the user gives none."""
        data = self.name if isinstance(self.data, Files) else self.data.load
        return Path(self.train.folder or f"runs/{self.method.name}-{path_part(data)}-{self.train.seed}")


def read_job(path: str | Path) -> Job:
    """The job that a TOML file describes; a mistake in it is refused with one sentence."""
    sections = parse_toml(Path(path))
    known = (
        "data", "party", "align", "prepare", "train", "method", "model", "optimizer", "seal", "select", "cluster",
        "describe", "sweep",
    )  # fmt: skip
    if "federation" in sections:
        raise ConfigError(
            f"{path} is a job between organisations, and was taken for one of this process; start it with colonnade "
            "owner, or write one with all parties' files and without [federation], to rehearse it."
        )
    for name in sections:
        if name not in known:
            raise unknown("section of a job", name, known)
    for name in (
        "data",
        "align",
        "prepare",
        "train",
        "method",
        "describe",
        "sweep",
        *({"select", "cluster"} & sections.keys()),
    ):
        check_is_section(sections, name)
    return job_from(sections, _data(sections, Path(path).parent), Path(path).stem)


def check_is_section(sections: dict[str, Any], name: str) -> None:
    """Refuse a value that is not a section; a missing section becomes an empty one."""
    if not isinstance(sections.setdefault(name, {}), dict):
        raise ConfigError(f"{name} = {sections[name]!r} is not a section; write [{name}] and its keys below.")


def job_from(sections: dict[str, Any], data: DataSection | Files, name: str) -> Job:
    """The job of these sections on this data."""
    how = section(TrainSection, "train", new_names(sections["train"], "[train]"))
    if how.task is not None and how.task not in TASKS:
        raise unknown("task", how.task, TASKS)
    if "cluster" in sections and how.runtime != "ray":
        raise ConfigError(f"the job has [cluster] and runtime = {how.runtime!r}; write runtime = 'ray' in [train].")
    return Job(
        data=data,
        train=how,
        method=make_method(how.method, **sections["method"]),
        model=_builders("model", models.make_model, sections.get("model")),
        optimizer=_builders("optimizer", optim.make_optimizer, sections.get("optimizer")),
        seals=_seals(sections.get("seal", [])),
        select=section(SelectSection, "select", sections["select"]) if "select" in sections else None,
        name=check_name(name, "the job, which is its file's,"),
        cluster=section(Cluster, "cluster", sections["cluster"]) if "cluster" in sections else None,
        describe=section(DescribeSection, "describe", sections.get("describe", {})),
        sweep=section(SweepSection, "sweep", sections.get("sweep", {})),
    )


def _data(sections: dict[str, Any], beside: Path) -> DataSection | Files:
    """A named data set, or all parties' files."""
    parties, others = sections.get("party", []), [name for name in ("align", "prepare") if sections[name]]
    if not parties:
        if others:
            raise ConfigError(
                f"[{others[0]}] is about files, and the job has none; write a [[party]] for each of them."
            )
        return typing.cast(DataSection, section(DataSection, "data", sections["data"]))
    if sections["data"]:
        raise ConfigError("the job has [data] and [[party]]; a named data set has no files: leave one of them out.")
    if not isinstance(parties, list) or not all(isinstance(party, dict) for party in parties):
        raise ConfigError(f"party = {parties!r:.60} is not a list of sections; write [[party]] once for every party.")
    return Files(
        tuple(section(PartySection, "party", party) for party in parties),
        section(AlignSection, "align", sections["align"]),
        section(PrepareSection, "prepare", sections["prepare"]),
        beside,
    )


def parse_toml(path: Path) -> dict[str, Any]:
    """The contents of a TOML file, or an error that says why it cannot be read."""
    try:
        return read_toml(path)
    except OSError as error:
        raise ConfigError(f"the job file {path} cannot be read: {error.strerror}; check its name.") from None
    except UnicodeDecodeError:
        raise ConfigError(f"the job file {path} is not a text in UTF-8; save it as one.") from None
    except ValueError as error:
        where = str(error)[:1].lower() + str(error)[1:300]  # ends with "(at line 3, column 7)"
        raise ConfigError(f"the job file {path} is not valid TOML: {where}.") from None


def section(kind: Any, name: str, entries: dict[str, Any]) -> Any:
    """A section as a dataclass, after every name and type in it was checked."""
    types = typing.get_type_hints(kind)
    for key, value in entries.items():
        if key not in types:
            raise unknown(f"key of [{name}]", key, types)
        _check_value(name, key, value, types[key])
    for field in fields(kind):
        if field.default is MISSING and field.default_factory is MISSING and field.name not in entries:
            example = _EXAMPLES[field.name]
            raise ConfigError(f"the job has no {field.name} in [{name}]; add one, such as {field.name} = '{example}'.")
    return kind(**entries)


def _check_value(section: str, key: str, value: Any, hint: Any) -> None:
    members = typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
    kinds = [typing.get_origin(kind) or kind for kind in members]
    accepted = (*kinds, int) if float in kinds else tuple(kinds)
    if isinstance(value, bool) != (bool in kinds) or not isinstance(value, accepted):
        words = " or ".join(_WORDS[kind] for kind in kinds if kind in _WORDS)
        raise ConfigError(f"{key} = {value!r} in [{section}] is not {words}.")
    if list[str] in members and isinstance(value, list) and not all(isinstance(v, str) for v in value):
        raise ConfigError(f"{key} = {value!r:.80} in [{section}] must hold texts only.")
    least, most = (0, LARGEST_SEED) if key == "seed" else (int(key != "layers"), MOST)
    if isinstance(value, int) and int in kinds and not least <= value <= most:
        bound = f"at least {least}" if value < least else f"at most {most}"
        raise ConfigError(f"{key} = {value!r:.60} in [{section}] is out of range; give {bound}.")
    if key == "parties" and not _is_share(value):
        raise ConfigError(f"parties = {value!r} in [data] must hold whole numbers, column names, or lists of them.")


def _is_share(value: Any) -> bool:
    if isinstance(value, list | dict):
        return all(map(_is_share, value.values() if isinstance(value, dict) else value))
    return isinstance(value, int | str) and not isinstance(value, bool)


def _builders(section: str, make: Callable[..., Any], entries: Any) -> Builders:
    if entries is None:
        return None
    if isinstance(entries, list):
        return [_builder(section, make, entry) for entry in entries]
    return _builder(section, make, entries)


def _seals(written: Any) -> tuple[seal.Seal, ...]:
    entries = written if isinstance(written, list) else [written]
    for entry in entries:
        _check_kind("seal", entry)
    seals = tuple(seal.make_seal(**entry) for entry in entries)
    seal.make_seals(seals)  # refuses two seals of the same role
    return seals


def _check_kind(section: str, entry: Any) -> None:
    if not isinstance(entry, dict) or not isinstance(entry.get("kind"), str):
        raise ConfigError(f"[{section}] holds {entry!r}; it needs a kind, a text, and may have options of that kind.")


def _builder(section: str, make: Callable[..., Any], entry: Any) -> Any:
    _check_kind(section, entry)
    options = dict(entry)
    kind = options.pop("kind")
    defaults = asdict(make(kind))
    for name, value in options.items():
        if name not in defaults:
            raise unknown(f"option of {section} {kind}", name, defaults)
        _check_option(f"{name} = {value!r} in [{section}]", value, defaults[name])
    return make(kind, **options)


def _check_option(what: str, value: Any, default: Any) -> None:
    """Check an option by the type of its default; torch would fail on another type later, and less clearly."""
    if isinstance(default, tuple):
        if not isinstance(value, list) or not all(type(entry) is int and entry > 0 for entry in value):
            raise ConfigError(f"{what} is not a list of positive whole numbers.")
    elif isinstance(default, str):
        if not isinstance(value, str):
            raise ConfigError(f"{what} is not a text.")
    elif type(value) not in (int, type(default)) or value < 0:
        raise ConfigError(f"{what} is not {_WORDS[type(default)]} of at least 0.")
