"""The front door: ``train`` and ``resume``."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from colonnade import checkpoint, models, optim
from colonnade.apart import far_for
from colonnade.data import reload
from colonnade.errors import CheckpointError, ConfigError, ModelError, SealError, TableError
from colonnade.folder import check_vacant, make_folder, same_run
from colonnade.method import Method, make_method, methods
from colonnade.missing import DropOuts, check_policy, check_when_away
from colonnade.options import number, whole
from colonnade.owners import all_labels, schedule_for, warn_of_lonely_classes
from colonnade.prepared import read_preparations
from colonnade.run import Run
from colonnade.runtime import plain_runtime
from colonnade.runtime.cluster import Cluster
from colonnade.schedule import Schedule, SharedSchedule
from colonnade.seal import Seal, Seals, describe, listed, make_seal, make_seals
from colonnade.settings import Settings
from colonnade.stand_in import stand_ins
from colonnade.table import Table, check_federation, owners_of, parties_of
from colonnade.task import Weights, plain_weights, task_of

Many = Any  # one builder, or a list with one per party


def train(
    tables: Sequence[Table],
    method: str | Method = "vimadmm",
    *,
    epochs: int | None = None,
    rounds: int | None = None,
    batch: int = 256,
    seed: int = 0,
    runtime: str | Cluster = "fused",
    model: Many = None,
    optimizer: Many = None,
    seal: Any = None,
    targets: Tensor | None = None,
    task: str | None = None,
    weights: Weights = None,
    valid: float = 0.0,
    test: Sequence[Table] | None = None,
    shuffle: str = "epoch",
    evaluate_every: int | None = None,
    stop_drop: float | None = None,
    folder: str | Path | None = None,
    threads: int = 1,
    missing: str = "refuse",
    when_away: str = "wait",
    away: DropOuts | None = None,
    on_round: Callable[[Run], None] | None = None,
) -> Run:
    """Train one model over a federation and give the finished run.

    ``model`` builds a party's network from (row shape, output width); ``optimizer`` builds an
    optimiser from parameters; each is one builder for all or a list with one per party.
    ``runtime`` says where parties compute: "fused", "loop" or "bytes" in this process, "ray" or a
    :class:`colonnade.Cluster` in processes of their own.
    ``seal`` is one seal or a list, such as ``[cn.Blind(), cn.Bits(4)]``: what happens to messages on their way.
    ``targets`` [rows, classes] are soft labels to train on instead of the table's, such as a teacher's.
    ``task`` is "classes", "values" (regression) or "several" (labels that are 0 or 1 each); without it, labels that are
    whole numbers are classes, other numbers values, and a matrix is several labels. ``weights`` are "balanced" or one
    positive number per class or label, by which a row's loss is multiplied in training.
    ``valid`` holds out a share of the rows, ``test`` is evaluated beside it, ``stop_drop`` stops when
    validation accuracy (r2 of values) falls more than so many points below its best and keeps the best.
    ``folder`` receives checkpoints, history and ledger; :func:`resume` goes on from there.
    ``missing`` says what predictions do about a party that is away ("refuse", "zero", "mean", "refit").
    ``when_away`` says what a training round does about it: "wait" stops the run if nobody comes, "skip" leaves
    the round out, "without" goes on with those who are here (means stand for the absent one's answers with
    ``missing="mean"``, else zeros) and takes the party back as it was. ``away`` simulates drop-outs: a function
    from a round's number, counted from 0, to the names of those who are away from it.

    >>> import colonnade as cn
    >>> train, test = cn.load("digits", parties=4)
    >>> run = cn.train(train, method="vimadmm", epochs=3, batch=256, seed=0)
    >>> run.evaluate(test)["accuracy"] > 0.9
    True
    """
    check_federation(tables, several=True)
    if folder is not None:
        check_vacant(Path(folder))
    learnt: dict[str, Any] = {"task": task_of(all_labels(tables), task), "weights": plain_weights(weights)}
    chosen = _method_for(method, tables, **learnt)
    batch, seed, valid = whole(batch, "batch"), whole(seed, "seed"), number(valid, "valid")
    seals, schedule = _seals_for(seal, chosen, **learnt), schedule_for(tables, chosen, batch, seed, valid, shuffle)
    settings = Settings(
        rounds=_rounds(epochs, rounds, schedule),
        batch=batch,
        seed=seed,
        **plain_runtime(runtime),
        valid=valid,
        shuffle=shuffle,
        evaluate_every=_at_least_one(evaluate_every, "evaluate_every", schedule.rounds_per_epoch),
        stop_drop=_stop_drop(stop_drop, schedule),
        threads=threads,
        missing=check_policy(missing, chosen, seals),
        when_away=check_when_away(when_away, missing, chosen, seals),
        **learnt,
    )
    chosen.check_batch(schedule.smallest_batch(settings.rounds))
    run = _start(tables, chosen, settings, model, optimizer, seals, listed(seal), folder)
    if targets is not None:
        run.teach(targets)
    return run.fit(test, on_round, away)


def _start(
    tables: Sequence[Table],
    method: Method,
    settings: Settings,
    model: Many,
    optimizer: Many,
    seals: Seals,
    given: list[Seal],
    folder: str | Path | None,
) -> Run:
    """The run before its first round, with a network and an optimiser for every party."""
    parties = parties_of(tables)
    builders = _one_each(_default_models(parties) if model is None else model, parties, "model")
    optimizers = _one_each(method.party_optimizer if optimizer is None else optimizer, parties, "optimizer")
    place = None if folder is None else make_folder(folder)
    return Run(
        tables,
        method,
        settings,
        builders,
        optimizers,
        seals=seals,
        folder=place,
        description=_describe(tables, method, builders, optimizers, given),
        far=far_for(tables, method, settings, builders, optimizers, place),
    )


def resume(
    path: str | Path,
    tables: Sequence[Table] | None = None,
    *,
    epochs: int | None = None,
    rounds: int | None = None,
    model: Many = None,
    optimizer: Many = None,
    test: Sequence[Table] | None = None,
    away: DropOuts | None = None,
    on_round: Callable[[Run], None] | None = None,
    train: bool = True,
    runtime: Cluster | None = None,
) -> Run:
    """Go on from the newest checkpoint of a run folder, exactly as if nothing had happened.

    Data sets of :func:`colonnade.load` and this package's models are found again by themselves; tables
    and builders of your own must be given again. More ``epochs`` or ``rounds`` than before prolong the run.
    ``train=False`` only opens it, to predict or to look, and needs no tables. Simulated drop-outs (``away``) must be
    given again too. ``runtime`` moves a run that was on a cluster to another one, which has the same run folder.
    """
    folder = Path(path)
    description = _read_description(folder)
    opened = tables is None and not _can_reload(description) and not train
    tables = stand_ins(description) if opened else _tables_again(description, tables, folder)
    builders = [_model_again(entry) for entry in description["model"]] if model is None else model
    optimizers = [_optimizer_again(entry) for entry in description["optimizer"]] if optimizer is None else optimizer
    settings = _moved(Settings(**description.pop("settings")), runtime)
    options = dict(description["method"])
    parties = parties_of(tables)
    seals = make_seals([make_seal(**entry) for entry in description.get("seal", [])])
    each = _one_each(builders, parties, "model"), _one_each(optimizers, parties, "optimizer")
    method = make_method(options.pop("name"), **options)
    settings = _prolonged(settings, tables, method, epochs, rounds)
    run = Run(
        tables,
        method,
        settings,
        *each,
        seals=seals,
        folder=make_folder(folder) if train else folder,
        description=description,
        far=far_for(tables, method, settings, *each, folder),
    )
    run.load(folder)
    run.opened = opened
    run.preparations = read_preparations(folder) or run.preparations
    return run.fit(test, on_round, away) if train else run.use_best()


def _moved(settings: Settings, runtime: Cluster | None) -> Settings:
    """The settings on another cluster, if one was given."""
    if runtime is None:
        return settings
    if settings.runtime != "ray" or not isinstance(runtime, Cluster):
        raise ConfigError(
            f"resume came with runtime={runtime!r} for a run with runtime='{settings.runtime}'; only a run on a "
            "cluster can move, to another cn.Cluster."
        )
    return replace(settings, cluster=runtime.plain())


def _prolonged(
    settings: Settings, tables: Sequence[Table], method: Method, epochs: int | None, rounds: int | None
) -> Settings:
    """The settings with a later last round, if one was asked for."""
    if epochs is None and rounds is None:
        return settings
    schedule = schedule_for(tables, method, settings.batch, settings.seed, settings.valid, settings.shuffle)
    longer = replace(settings, rounds=max(settings.rounds, _rounds(epochs, rounds, schedule)))
    method.check_batch(schedule.smallest_batch(longer.rounds))
    return longer


def _method_for(method: str | Method, tables: Sequence[Table], task: str, weights: Weights) -> Method:
    """The method, if the owner has the columns that it wants and it can learn the task."""
    chosen = make_method(method)
    if chosen.needs_owner_columns and tables[0].columns is None:
        raise TableError(f"{chosen.name} trains on the owner's own columns and it has none; split with owner='first'.")
    owners = len(owners_of(tables))
    if owners > 1 and not chosen.several_owners:
        able = ", ".join(name for name, cls in methods().items() if cls.several_owners)
        raise TableError(f"{chosen.name} has one owner, but {owners} tables have labels; these know several: {able}.")
    reason = chosen.why_not(task, weighted=weights is not None)
    if reason:
        able = ", ".join(name for name, cls in methods().items() if task in cls.tasks and name != chosen.name)
        what = f"task='{task}'" + (" with weights" if weights is not None else "")
        raise ConfigError(f"{chosen.name} as set here cannot learn {what}: {reason}; or use one of {able}.")
    if owners > 1 and weights == "balanced":
        raise ConfigError(
            f"weights='balanced' needs the counts of all classes, and {owners} owners do not tell each other theirs; "
            "give one number per class."
        )
    if task == "classes":
        warn_of_lonely_classes(tables)
    return chosen


def _seals_for(came: Any, method: Method, task: str, weights: Weights) -> Seals:
    """The seals in their places, if the method can take them and the labels can be protected."""
    seals = make_seals(came)
    if seals.labels is not None and task != "classes":
        raise SealError(
            f"{seals.labels.kind} protects class numbers, and task='{task}' has none; leave one of them out."
        )
    if seals.labels is not None and weights is not None:
        raise SealError(
            f"{seals.labels.kind} hides every row's class and weights by class would show it; leave one of them out."
        )
    if seals.blind is not None and not method.only_sums:
        able = {name: cls.sums for name, cls in methods().items() if cls.sums != "never"}
        words = ", ".join(name if when == "always" else f"{name} ({when})" for name, when in able.items())
        raise SealError(
            f"{method.name} as set here reads every party's own message, so it cannot be blinded; these can: {words}."
        )
    return seals


def _rounds(epochs: int | None, rounds: int | None, schedule: Schedule | SharedSchedule) -> int:
    if epochs is not None and rounds is not None:
        raise ConfigError(f"epochs={epochs} and rounds={rounds} were both given; give one of them.")
    if rounds is not None:
        total = whole(rounds, "rounds")
    else:
        total = (10 if epochs is None else whole(epochs, "epochs")) * schedule.rounds_per_epoch
    if total < 1:
        raise ConfigError(f"training for {total} rounds makes no sense; give epochs or rounds of at least 1.")
    return total


def _stop_drop(points: float | None, schedule: Schedule | SharedSchedule) -> float | None:
    if points is None:
        return None
    if not len(schedule.valid_rows):
        raise ConfigError("stop_drop needs validation rows; give valid=0.1, for instance.")
    if not number(points, "stop_drop") >= 0:
        raise ConfigError(f"stop_drop={points} is out of range; give points of accuracy or r2, at least 0.")
    return float(points)


def _at_least_one(value: int | None, what: str, default: int) -> int:
    if value is None:
        return default
    count = whole(value, what)
    if count < 1:
        raise ConfigError(f"{what}={value!r} is out of range; give a whole number from 1.")
    return count


def _default_models(parties: Sequence[Table]) -> list[models.ModelBuilder]:
    return [models.default_for(table.cardinalities) for table in parties]


def _one_each(builders: Many, parties: Sequence[Table], what: str) -> list[Any]:
    count = len(parties)
    each = list(builders) if isinstance(builders, Sequence) else [builders] * count
    if len(each) != count:
        raise ConfigError(f"{what}= has {len(each)} builders for {count} parties; give one, or one per party.")
    for builder, table in zip(each, parties, strict=True):
        if isinstance(builder, nn.Module):
            raise ModelError(f"{what}= holds a network for '{table.name}'; give a function that builds one instead.")
        if not callable(builder):
            raise ConfigError(f"{what}= holds {builder!r}, which is not a function that builds a party's {what}.")
    return each


def _describe(
    tables: Sequence[Table], method: Method, builders: Many, optimizers: Many, seals: list[Seal]
) -> dict[str, Any]:
    """What a run folder says of its run, so that it can be resumed."""
    return {
        "method": {"name": method.name, **asdict(method)},
        "model": [models.describe(builder) for builder in builders],
        "optimizer": [optim.describe(builder) for builder in optimizers],
        "seal": describe(seals),
        "data": tables[0].origin,
        **_outline(tables),
    }


def _outline(tables: Sequence[Table]) -> dict[str, Any]:
    """What must be the same when a run is resumed: names, row shapes, and the ids in their order."""
    owners = owners_of(tables)
    each = [table.ids for table in (owners if len(owners) == 1 else [*owners, tables[-1]])]
    raw = [ids.tobytes() if ids.dtype.kind in "iu" else "\n".join(map(str, ids)).encode() for ids in each]
    return {
        "tables": [[table.name, table.rows, list(table.shape)] for table in tables],
        "ids": hashlib.sha256(b"".join(raw)).hexdigest(),
    }


def _read_description(folder: Path) -> dict[str, Any]:
    """What the newest checkpoint says of its run, which config.json must not contradict."""
    try:
        written = json.loads((folder / "config.json").read_bytes())
    except OSError:
        raise CheckpointError(f"{folder} is not a run folder: it has no config.json that can be read.") from None
    except ValueError:
        raise CheckpointError(f"{folder / 'config.json'} is damaged or foreign; it does not describe a run.") from None
    found: dict[str, Any] = checkpoint.read_facts(checkpoint.newest(folder / "checkpoints"))["description"]
    if not same_run(written, found):
        raise CheckpointError(
            f"{folder / 'config.json'} is damaged or foreign; it describes another run than the newest checkpoint."
        )
    return found


def _can_reload(description: dict[str, Any]) -> bool:
    """Whether the tables are those of a named data set."""
    return "load" in (description["data"] or {})


def _tables_again(description: dict[str, Any], tables: Sequence[Table] | None, folder: Path) -> Sequence[Table]:
    if tables is None:
        if not _can_reload(description):
            raise CheckpointError(f"the run in {folder} was trained on tables of your own; pass them to resume again.")
        tables = reload(description["data"])
    check_federation(tables, several=True)
    outline = _outline(tables)
    if any(outline[part] != description[part] for part in outline):
        raise CheckpointError(f"the run in {folder} was trained on other tables than those given; it is foreign.")
    return tables


def _model_again(entry: dict[str, Any] | None) -> Any:
    if entry is None:
        raise CheckpointError("the run was trained with a model of your own; pass model= to resume again.")
    options = dict(entry)
    kind = options.pop("kind")
    return models.default_model if kind == "default" else models.make_model(kind, **options)


def _optimizer_again(entry: dict[str, Any] | None) -> Any:
    if entry is None:
        raise CheckpointError("the run was trained with an optimiser of your own; pass optimizer= to resume again.")
    options = dict(entry)
    return optim.make_optimizer(options.pop("kind"), **options)
