"""The front door: ``train`` and ``resume``."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from colonnade import models, optim
from colonnade.data import load
from colonnade.errors import CheckpointError, ConfigError, TableError
from colonnade.method import Method, make_method
from colonnade.run import Run, Settings, make_folder
from colonnade.schedule import Schedule
from colonnade.table import Table, check_federation, parties_of

Many = Any  # one builder, or a list with one per party


def train(
    tables: Sequence[Table],
    method: str | Method = "vimadmm",
    *,
    epochs: int | None = None,
    rounds: int | None = None,
    batch: int = 256,
    seed: int = 0,
    runtime: str = "fused",
    model: Many = None,
    optimizer: Many = None,
    valid: float = 0.0,
    test: Sequence[Table] | None = None,
    shuffle: str = "epoch",
    evaluate_every: int | None = None,
    stop_drop: float | None = None,
    folder: str | Path | None = None,
    threads: int = 1,
    on_round: Callable[[Run], None] | None = None,
) -> Run:
    """Train one model over a federation and give the finished run.

    ``model`` builds a party's network from (row shape, output width); ``optimizer`` builds an
    optimiser from parameters; each is one builder for all or a list with one per party.
    ``valid`` holds out a share of the rows, ``test`` is evaluated beside it, ``stop_drop`` stops when
    validation accuracy falls more than so many points below its best and keeps the best.
    ``folder`` receives checkpoints, history and ledger; :func:`resume` goes on from there.

    >>> import colonnade as cn
    >>> train, test = cn.load("digits", parties=4)
    >>> run = cn.train(train, method="vimadmm", epochs=3, batch=256, seed=0)
    >>> run.evaluate(test)["accuracy"] > 0.9
    True
    """
    check_federation(tables)
    chosen = make_method(method)
    parties = parties_of(tables)
    if chosen.needs_owner_columns and tables[0].columns is None:
        raise TableError(f"{chosen.name} trains on the owner's own columns and it has none; split with owner='first'.")
    schedule = Schedule(tables[0].rows, batch, seed, valid, shuffle)
    if stop_drop is not None and not len(schedule.valid_rows):
        raise ConfigError("stop_drop needs validation rows; give valid=0.1, for instance.")
    settings = Settings(
        rounds=_rounds(epochs, rounds, schedule),
        batch=batch,
        seed=seed,
        runtime=runtime,
        valid=valid,
        shuffle=shuffle,
        evaluate_every=evaluate_every or schedule.rounds_per_epoch,
        stop_drop=stop_drop,
        threads=threads,
    )
    builders = _one_each(model or models.default_model, len(parties), "model")
    optimizers = _one_each(optimizer or chosen.party_optimizer, len(parties), "optimizer")
    run = Run(
        tables,
        chosen,
        settings,
        builders,
        optimizers,
        folder=None if folder is None else make_folder(folder),
        description={
            "method": {"name": chosen.name, **asdict(chosen)},
            "model": [models.describe(builder) for builder in builders],
            "optimizer": [optim.describe(builder) for builder in optimizers],
            "data": tables[0].origin,
            "tables": [[table.name, table.rows, list(table.shape)] for table in tables],
        },
    )
    return run.fit(test, on_round)


def resume(
    path: str | Path,
    tables: Sequence[Table] | None = None,
    *,
    epochs: int | None = None,
    model: Many = None,
    optimizer: Many = None,
    test: Sequence[Table] | None = None,
    on_round: Callable[[Run], None] | None = None,
) -> Run:
    """Go on from the newest checkpoint of a run folder, exactly as if nothing had happened.

    Data sets of :func:`colonnade.load` and this package's models are found again by themselves; tables
    and builders of your own must be given again. More ``epochs`` than before prolong the run.
    """
    folder = Path(path)
    description = _read_config(folder)
    tables = _tables_again(description, tables, folder)
    builders = model or [_model_again(entry) for entry in description["model"]]
    optimizers = optimizer or [_optimizer_again(entry) for entry in description["optimizer"]]
    settings = Settings(**description.pop("settings"))
    options = dict(description["method"])
    parties = parties_of(tables)
    run = Run(
        tables,
        make_method(options.pop("name"), **options),
        settings,
        _one_each(builders, len(parties), "model"),
        _one_each(optimizers, len(parties), "optimizer"),
        folder=make_folder(folder),
        description=description,
    )
    run.load(folder)
    if epochs is not None:
        run.prolong(epochs * run.schedule.rounds_per_epoch)
    return run.fit(test, on_round)


def _rounds(epochs: int | None, rounds: int | None, schedule: Schedule) -> int:
    if epochs is not None and rounds is not None:
        raise ConfigError(f"epochs={epochs} and rounds={rounds} were both given; give one of them.")
    total = rounds if rounds is not None else (10 if epochs is None else epochs) * schedule.rounds_per_epoch
    if not isinstance(total, int) or total < 1:
        raise ConfigError(f"training for {total} rounds makes no sense; give epochs or rounds of at least 1.")
    return total


def _one_each(builders: Many, count: int, what: str) -> list[Any]:
    each = list(builders) if isinstance(builders, Sequence) else [builders] * count
    if len(each) != count:
        raise ConfigError(f"{what}= has {len(each)} builders for {count} parties; give one, or one per party.")
    for builder in each:
        if not callable(builder):
            raise ConfigError(f"{what}= holds {builder!r}, which is not a function that builds a party's {what}.")
    return each


def _read_config(folder: Path) -> dict[str, Any]:
    try:
        description = json.loads((folder / "config.json").read_bytes())
        return {key: description[key] for key in ("method", "model", "optimizer", "data", "tables", "settings")}
    except OSError:
        raise CheckpointError(f"{folder} is not a run folder: it has no config.json that can be read.") from None
    except (ValueError, KeyError, TypeError):
        raise CheckpointError(f"{folder / 'config.json'} is damaged or foreign; it does not describe a run.") from None


def _tables_again(description: dict[str, Any], tables: Sequence[Table] | None, folder: Path) -> Sequence[Table]:
    if tables is None:
        origin = dict(description["data"] or {})
        if not origin:
            raise CheckpointError(f"the run in {folder} was trained on tables of your own; pass them to resume again.")
        part = origin.pop("part")
        name = origin.pop("load")
        tables = load(name, **origin)[0 if part == "train" else 1]
    check_federation(tables)
    came = [[table.name, table.rows, list(table.shape)] for table in tables]
    if came != description["tables"]:
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
