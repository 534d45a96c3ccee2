"""A run before its first round: everything that decides it, checked, and then started."""

from __future__ import annotations

import hashlib
import typing
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from itertools import accumulate
from pathlib import Path
from typing import Any

from torch import nn

from colonnade import models
from colonnade.core import optim
from colonnade.core.device import HOST, Device
from colonnade.core.method import Method
from colonnade.core.options import MOST, count_of, number, seed_of
from colonnade.core.schedule import Schedule, SharedSchedule
from colonnade.core.settings import BATCH, EPOCHS, TABLE_ROUNDS, Settings, TrainOptions
from colonnade.core.table import Table, check_federation, is_tabular, owners_of, parties_of
from colonnade.core.task import TASKS, Weights, plain_weights, task_of
from colonnade.core.usual_options import settled
from colonnade.data.sharing import all_labels, schedule_for, warn_of_lonely_classes
from colonnade.disk.whole_files import make_folder
from colonnade.errors import ConfigError, ModelError, SealError, TableError, unknown
from colonnade.methods import make_method, methods
from colonnade.run.absence import check_known_rows, check_known_sums, check_policy, check_when_absent
from colonnade.run.apart_setup import remote_setup_for
from colonnade.run.training import Run
from colonnade.runtime.plan import Plan
from colonnade.runtime.remote.remote_setup import RemoteSetup
from colonnade.runtime.setup import plain_runtime
from colonnade.seal import Seals, describe, listed, make_seals
from colonnade.seal.gradient_noise import GradientSeal
from colonnade.wire.witness import Recording

Many = Any  # one builder, or a list with one per party
MOST_THREADS = 1024
MOST_CHARACTERS = 10_000  # of one party's column names in a description, which is written with every checkpoint


def make_plan(
    tables: Sequence[Table],
    method: str | Method | type[Method] = "vimadmm",
    options: TrainOptions | None = None,
    *,
    model: Many = None,
    optimizer: Many = None,
    seal: Any = None,
) -> Plan:
    """Check what :func:`train` was asked for; of the tables only names, shapes, rows and the owner's labels count."""
    check_federation(tables, several=True)
    asked = options or TrainOptions().filled()
    learnt: dict[str, Any] = {"task": task_of(all_labels(tables), asked.task), "weights": plain_weights(asked.weights)}
    chosen = _method_for(method, tables, **learnt)
    check_known_rows(chosen, tables, training=True)
    seals = _seals_for(seal, chosen, **learnt)
    check_known_sums(seals, tables)
    _check_gradient_seal(seals.gradients, chosen, learnt["task"], tables)
    seed, valid = seed_of(asked.seed), number(asked.valid, "valid")
    _check_rows(chosen, tables, seed, valid)
    batch = _batch_for(chosen, asked, tables, valid)
    missing, when_absent = typing.cast(str, asked.missing), typing.cast(str, asked.when_absent)
    schedule, every = schedule_for(tables, chosen, batch, seed, valid, str(asked.shuffle)), asked.evaluate_every
    settings = Settings(
        rounds=_rounds_for(chosen, asked, schedule, TABLE_ROUNDS if is_tabular(tables) else 1),
        batch=batch,
        seed=seed,
        **plain_runtime(asked.runtime),
        valid=valid,
        shuffle=str(asked.shuffle),
        evaluate_every=schedule.rounds_per_epoch if every is None else count_of(every, "evaluate_every"),
        stop_drop=_stop_drop(asked.stop_drop, schedule),
        watch=_watched(asked.watch, learnt["task"]),
        threads=count_of(asked.threads, "threads", most=MOST_THREADS),
        missing=check_policy(missing, chosen, seals),
        when_away=check_when_absent(when_absent, missing, chosen, seals),
        **learnt,
    )
    chosen.check_batch(schedule.smallest_batch(settings.rounds))
    parties = parties_of(tables)
    usual = [models.default_for(table.cardinalities) for table in parties]
    builders = one_each(usual if model is None else model, parties, "model")
    optimizers = one_each(chosen.party_optimizer if optimizer is None else optimizer, parties, "optimizer")
    devices = devices_for(asked, parties, here=settings.runtime != "ray")
    return Plan(chosen, settings, tuple(builders), tuple(optimizers), tuple(listed(seal)), devices)


def start(
    plan: Plan,
    tables: Sequence[Table],
    folder: str | Path | None = None,
    remote: RemoteSetup | None = None,
    secrets: Mapping[str, bytes] | None = None,
    record: Recording | None = None,
) -> Run:
    """The run before its first round, with a network and an optimiser for every party.

    ``remote`` says how parties in other processes are reached, which have their own. ``secrets`` are those of sides
    that computed elsewhere, to do in this process what they did. ``record`` says what is recorded.
    """
    place = None if folder is None else make_folder(folder)
    remote = remote or remote_setup_for(tables, plan, place)
    description = describe_run(tables, plan) | ({"record": record.plain()} if record else {})
    return Run(tables, plan, folder=place, description=description, remote=remote, secrets=secrets)


def _method_for(method: str | Method | type[Method], tables: Sequence[Table], task: str, weights: Weights) -> Method:
    """The method, if the owner has the columns that it wants and it can learn the task."""
    chosen = settled(make_method(method), on_tables=is_tabular(tables))
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


def _check_rows(method: Method, tables: Sequence[Table], seed: int, valid: float) -> None:
    """Refuse a party that has none of the rows to train on, or too few to fit a learner to them."""
    for table in (table for table in tables if table.known is not None):
        train = Schedule(table.rows, 1, seed, valid).train_rows
        known = int(table.known[train].sum())
        if not known:
            raise TableError(
                f"table '{table.name}' knows none of the {len(train)} rows to train on; align it with the owner's, "
                "hold out fewer rows, or leave it out."
            )
        if method.whole_rounds:
            try:
                method.check_batch(known)
            except ConfigError as error:
                raise ConfigError(
                    f"table '{table.name}' knows {known} of {len(train)} rows to train on; {error}"
                ) from None


def _seals_for(given: Any, method: Method, task: str, weights: Weights) -> Seals:
    """The seals in their places, if the method can take them and the labels can be protected."""
    seals = make_seals(given)
    if seals.labels is not None and task != "classes":
        raise SealError(
            f"{seals.labels.kind} protects class numbers, and task='{task}' has none; no seal fits those, so leave it "
            "out, or use oneshot with learn='pca' or 'autoencoder', which sends no label."
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


def _check_gradient_seal(seal: GradientSeal | None, method: Method, task: str, tables: Sequence[Table]) -> None:
    """Refuse noise on gradients where there are none that it could help, or too many classes."""
    if seal is None:
        return
    if not method.only_embedding_gradients:
        raise SealError(
            f"{seal.kind} is for gradients of embeddings, and with {method.name} as set here the owner sends "
            f"{method.sends[1]}; only random-labels and laplace-labels protect labels there."
        )
    if task != "classes":
        raise SealError(f"{seal.kind} hides a row's class, and task='{task}' has none; leave one of them out.")
    classes = max(len(tables[0].classes), int(all_labels(tables).max()) + 1)
    if seal.most_classes is not None and classes > seal.most_classes:
        raise SealError(
            f"{seal.kind} is for {seal.most_classes} classes, and these labels have {classes}; use class-noise."
        )


def _batch_for(method: Method, asked: TrainOptions, tables: Sequence[Table], valid: float) -> int:
    """The rows of a batch: as many as were asked for, or the usual number, and all if there are fewer."""
    if method.whole_rounds:
        return all_rows(tables, valid)
    if asked.batch is not None:
        return count_of(asked.batch, "batch")
    return max(1, min(BATCH, *(all_rows([owner], valid) for owner in owners_of(tables))))


def all_rows(tables: Sequence[Table], valid: float) -> int:
    """How many rows there are to train on, for methods whose rounds use all of them."""
    return len(Schedule(tables[0].rows, 1, valid=valid).train_rows)


def _rounds_for(method: Method, asked: TrainOptions, schedule: Schedule | SharedSchedule, least: int) -> int:
    """As many rounds as were asked for, or as the method usually has, and no more than it has work for.

    ``least`` are the fewest whose number nobody asked for; they end with an epoch.
    """
    rounds, epochs = asked.rounds, asked.epochs
    if rounds is None and epochs is None:
        rounds, epochs = method.usual_rounds, None
        if rounds is None:
            epochs = max(EPOCHS, -(-least // schedule.rounds_per_epoch))
    return min(rounds_of(epochs, rounds, schedule), method.most_rounds or MOST)


def rounds_of(epochs: int | None, rounds: int | None, schedule: Schedule | SharedSchedule) -> int:
    """How many rounds so many epochs or rounds are; ten epochs if nothing is said."""
    if epochs is not None and rounds is not None:
        raise ConfigError(f"epochs={epochs} and rounds={rounds} were both given; give one of them.")
    if rounds is not None:
        return count_of(rounds, "rounds")
    total = (EPOCHS if epochs is None else count_of(epochs, "epochs")) * schedule.rounds_per_epoch
    return count_of(total, "rounds")


def _stop_drop(points: float | None, schedule: Schedule | SharedSchedule) -> float | None:
    if points is None:
        return None
    if not len(schedule.valid_rows):
        raise ConfigError("stop_drop needs validation rows; give valid=0.1, for instance.")
    if not number(points, "stop_drop") >= 0:
        raise ConfigError(f"stop_drop={points} is out of range; give points of AUC, accuracy or r2, at least 0.")
    return float(points)


def _watched(metric: str | None, task: str) -> str:
    """The metric that early stopping watches."""
    known = TASKS[task].watched
    if metric is not None and metric not in known:
        raise unknown(f"metric to watch with task='{task}'", metric, known)
    return known[0] if metric is None else metric


def one_each(builders: Many, parties: Sequence[Table], what: str) -> list[Any]:
    """A builder for every party."""
    count = len(parties)
    one = isinstance(builders, str) or not isinstance(builders, Sequence)
    each = [_named(builder, what) for builder in ([builders] * count if one else builders)]
    if len(each) != count:
        raise ConfigError(f"{what}= has {len(each)} builders for {count} parties; give one, or one per party.")
    for builder, table in zip(each, parties, strict=True):
        if isinstance(builder, nn.Module):
            raise ModelError(f"{what}= holds a network for '{table.name}'; give a function that builds one instead.")
        if not callable(builder):
            raise ConfigError(f"{what}= holds {builder!r}, which is not a function that builds a party's {what}.")
    return each


def devices_for(asked: TrainOptions, parties: Sequence[Table], *, here: bool) -> tuple[Device, ...]:
    """Where each party computes; nowhere is said if all do on the host. ``here`` if it is on this machine."""
    names = [HOST.name] if asked.device is None else asked.device
    names = list(names) if isinstance(names, list | tuple) else [names]
    if len(names) not in (1, len(parties)):
        raise ConfigError(f"device= has {len(names)} devices for {len(parties)} parties; give one, or one per party.")
    devices = [Device(name, asked.precision or HOST.precision, asked.move_tables or False) for name in names]
    each = (devices * len(parties))[: len(parties)]
    each = [device.here() for device in each] if here else each
    return () if all(device == HOST for device in each) else tuple(each)


def devices_in(devices: Sequence[Device]) -> dict[str, Any]:
    """Where the parties compute, as a run folder has it; nothing if all do on the host."""
    return {"devices": [device.plain() for device in devices]} if devices else {}


def _named(builder: Any, what: str) -> Any:
    """A builder by the name that job files write, such as "adam"; others as they are."""
    if not isinstance(builder, str):
        return builder
    return models.make_model(builder) if what == "model" else optim.make_optimizer(builder.lower())


def describe_run(tables: Sequence[Table], plan: Plan) -> dict[str, Any]:
    """What a run folder says of its run, so that it can be resumed."""
    return {
        "method": {"name": plan.method.name, **asdict(plan.method)},
        "model": [models.describe(builder) for builder in plan.models],
        "optimizer": [optim.describe(builder) for builder in plan.optimizers],
        "seal": describe(plan.seal),
        **devices_in(plan.devices),
        "data": tables[0].origin,
        "columns": {table.name: _columns(table.source_names) for table in tables if table.source_names},
        **outline_of(tables),
    }


def _columns(names: Sequence[str]) -> dict[str, Any]:
    """How many columns there are and the first names, for readers of a report; a resumed run does not look at them.

    >>> _columns(["age", "job"])
    {'count': 2, 'names': ['age', 'job']}
    """
    fit = sum(end <= MOST_CHARACTERS for end in accumulate(map(len, names)))
    return {"count": len(names), "names": list(names[:fit])}


def outline_of(tables: Sequence[Table]) -> dict[str, Any]:
    """What must be the same when a run is resumed: names, row shapes, the ids in their order, and who knows which."""
    owners = owners_of(tables)
    each = [table.ids for table in (owners if len(owners) == 1 else [*owners, tables[-1]])]
    raw = [ids.tobytes() if ids.dtype.kind in "iu" else "\n".join(map(str, ids)).encode() for ids in each]
    raw += [table.known.numpy().tobytes() for table in tables if table.known is not None]
    return {
        "tables": [[table.name, table.rows, list(table.shape)] for table in tables],
        "ids": hashlib.sha256(b"".join(raw)).hexdigest(),
    }
