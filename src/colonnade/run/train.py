"""``train`` and ``resume``, the two ways to begin a run."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import Tensor

from colonnade import models
from colonnade.core import optim
from colonnade.core.device import HOST, Device, exists
from colonnade.core.method import Method
from colonnade.core.option_names import accepts_old_names
from colonnade.core.options import MOST
from colonnade.core.settings import Settings, TrainOptions
from colonnade.core.table import Table, check_federation, parties_of
from colonnade.core.task import Weights
from colonnade.data import reload
from colonnade.data.sharing import schedule_for
from colonnade.data.stand_ins import stand_ins
from colonnade.disk.whole_files import make_folder
from colonnade.errors import CheckpointError, ColonnadeError, ColonnadeWarning, ConfigError
from colonnade.methods import make_method
from colonnade.run.absence import DropOuts
from colonnade.run.apart_setup import remote_setup_for
from colonnade.run.make_plan import (
    Many,
    devices_for,
    devices_in,
    make_plan,
    one_each,
    outline_of,
    rounds_of,
    start,
)
from colonnade.run.training import Run
from colonnade.runtime.cluster import Cluster
from colonnade.runtime.plan import Plan
from colonnade.runtime.remote.remote_setup import RemoteSetup
from colonnade.seal import make_seal
from colonnade.store.checkpoint_facts import read_facts
from colonnade.store.preparation_files import read_preparations
from colonnade.store.run_folder import check_vacant
from colonnade.wire.witness import Recording


@accepts_old_names
def train(
    tables: Sequence[Table],
    method: str | Method | type[Method] = "vimadmm",
    *,
    epochs: int | None = None,
    rounds: int | None = None,
    batch: int | None = None,
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
    watch: str | None = None,
    folder: str | Path | None = None,
    threads: int = 1,
    missing: str = "refuse",
    when_absent: str = "wait",
    absent: DropOuts | None = None,
    on_round: Callable[[Run], None] | None = None,
    record: bool | Recording = False,
    device: str | Sequence[str] = "cpu",
    precision: str = "float32",
    move_tables: bool = False,
) -> Run:
    """Train one model over a federation and give the finished run.

    What is not given follows from what the rows are. A batch has 256 rows, or all if there are fewer. On tables (rows
    of plain columns) all sides train with Adam for ten epochs, but at least 200 rounds; for pictures with SGD at the
    rates of the papers, as on tables if the method has an ``lr``. Raw columns, such as those of large numbers that
    nobody prepared, are standardised at their party.

    ``model`` builds a party's network from (row shape, output width); ``optimizer`` builds an
    optimiser from parameters; each is one builder for all or a list with one per party.
    ``runtime`` says where parties compute: "fused", "loop" or "bytes" in this process, "ray" or a
    :class:`colonnade.Cluster` in processes of their own.
    ``seal`` is one seal or a list, such as ``[cn.Blind(), cn.Bits(4)]``: what happens to messages on their way.
    ``targets`` [rows, classes] are soft labels to train on instead of the table's, such as a teacher's.
    ``task`` is "classes", "values" (regression) or "several" (labels that are 0 or 1 each); without it, labels that are
    whole numbers are classes, other numbers values, and a matrix is several labels. ``weights`` are "balanced" or one
    positive number per class or label, by which a row's loss is multiplied in training.
    ``valid`` holds out a share of the rows, ``test`` is evaluated beside it, ``stop_drop`` stops when the metric
    ``watch`` on those rows falls more than so many points below its best and keeps the best: by default AUC of two
    classes, accuracy of more, r2 of values.
    ``folder`` receives checkpoints, history and ledger; :func:`resume` goes on from there.
    ``threads`` are torch's within every operation; more than 1 change the last digits, and pay on an idle machine only.
    Large groups of fused parties are computed at once on all cores of the process anyway, which changes no number.
    ``missing`` says what predictions do about a party that is absent ("refuse", "zero", "mean", "refit").
    ``when_absent`` says what a training round does about it: "wait" stops the run if nobody comes, "skip" leaves
    the round out, "without" goes on with those who are here (means stand for the absent one's answers with
    ``missing="mean"``, else zeros) and takes the party back as it was. ``absent`` simulates drop-outs: a function
    from a round's number, counted from 0, to the names of those who are absent from it.
    ``record`` keeps what travels about a sample of rows (``run.view``, and in the folder), so that it can be audited;
    it changes no message and no number. ``cn.Recording(rows=5000, megabytes=256)`` keeps more than usual.
    ``device`` is where networks compute: "cpu", "cuda", "cuda:1", "mps", or "auto" for the first that is there; a list
    has one per party, and the owner computes with the first. ``precision="bf16"`` lets the parties' networks compute
    with 16 bits. Batches travel to a device unless ``move_tables=True`` moves whole tables there.

    >>> import colonnade as cn
    >>> train, test = cn.load("digits", parties=4)
    >>> run = cn.train(train, method="vimadmm", epochs=3, batch=256, seed=0)
    >>> run.evaluate(test)["accuracy"] > 0.9
    True
    """
    if folder is not None:
        check_vacant(Path(folder))
    options = TrainOptions(
        epochs=epochs,
        rounds=rounds,
        batch=batch,
        seed=seed,
        runtime=runtime,
        task=task,
        weights=weights,
        valid=valid,
        shuffle=shuffle,
        evaluate_every=evaluate_every,
        stop_drop=stop_drop,
        watch=watch,
        threads=threads,
        missing=missing,
        when_absent=when_absent,
        device=device,
        precision=precision,
        move_tables=move_tables,
    )
    plan = make_plan(tables, method, options, model=model, optimizer=optimizer, seal=seal)
    run = start(plan, tables, folder, record=_recording(record))
    if targets is not None:
        run.teach(targets)
    return run.fit(test, on_round, absent)


@accepts_old_names
def resume(
    path: str | Path,
    tables: Sequence[Table] | None = None,
    *,
    epochs: int | None = None,
    rounds: int | None = None,
    model: Many = None,
    optimizer: Many = None,
    test: Sequence[Table] | None = None,
    absent: DropOuts | None = None,
    on_round: Callable[[Run], None] | None = None,
    train: bool = True,
    runtime: Cluster | None = None,
    far: RemoteSetup | None = None,
    device: str | Sequence[str] | None = None,
    precision: str | None = None,
    move_tables: bool | None = None,
) -> Run:
    """Go on from the newest checkpoint of a run folder, exactly as if nothing had happened.

    Data sets of :func:`colonnade.load` and this package's models are found again by themselves; tables
    and builders of your own must be given again. More ``epochs`` or ``rounds`` than before prolong the run.
    ``train=False`` only opens it, to predict or to look, and needs no tables. Simulated drop-outs (``absent``) must be
    given again too. ``runtime`` moves a run that was on a cluster to another one, which has the same run folder.
    ``device``, ``precision`` and ``move_tables`` as in :func:`train` are those of the run if they are not given; if a
    device of the run is not on this machine, it goes on on the host, with a warning. On another device it goes on as
    well as before, but not bit for bit.
    """
    folder = Path(path)
    description: dict[str, Any] = read_facts(folder)["description"]
    opened = tables is None and not _can_reload(description) and not train
    tables = stand_ins(description) if opened else _tables_again(description, tables, folder)
    with _described(folder):
        if model is None:
            model = [models.described(entry) for entry in _known(description["model"], "a model", "model")]
        if optimizer is None:
            entries = _known(description["optimizer"], "an optimiser", "optimizer")
            optimizer = [optim.described(entry) for entry in entries]
        settings = _moved(Settings(**description.pop("settings")), runtime)
        options = dict(description["method"])
        seals = tuple(make_seal(**entry) for entry in description.get("seal", []))
        method = make_method(options.pop("name"), **options)
    parties = parties_of(tables)
    devices = _devices_again(description, parties, (device, precision, move_tables), settings)
    plan = Plan(
        method,
        _prolonged(settings, tables, method, epochs, rounds),
        tuple(one_each(model, parties, "model")),
        tuple(one_each(optimizer, parties, "optimizer")),
        seals,
        devices,
    )
    description = {key: value for key, value in description.items() if key != "devices"} | devices_in(devices)
    if not train:
        description.pop("record", None)  # who only looks records nothing; ``run.view`` reads what the folder has
    run = Run(
        tables,
        plan,
        folder=make_folder(folder) if train else folder,
        description=description,
        remote=far or remote_setup_for(tables, plan, folder),
        opened=opened,
    )
    run.load(folder)
    run.preparations = read_preparations(folder) or run.preparations
    return run.fit(test, on_round, absent) if train else run.use_best()


def _devices_again(
    description: Mapping[str, Any], parties: Sequence[Table], given: tuple[Any, Any, Any], settings: Settings
) -> tuple[Device, ...]:
    """Where the parties of a saved run compute now: where is said, or else where they did, if that is here."""
    device, precision, move_tables = given
    before = [Device(**entry) for entry in description.get("devices", [])] or [HOST]
    names = [own.name for own in before] if device is None else device
    asked = TrainOptions(
        device=names,
        precision=before[0].precision if precision is None else precision,
        move_tables=before[0].move_tables if move_tables is None else move_tables,
    )
    here = settings.runtime != "ray"
    missing = [own.name for own in before if here and device is None and own.name != "auto" and not exists(own.name)]
    if missing:
        warnings.warn(
            f"the run computed on device='{missing[0]}', which is not on this machine; it goes on on the host, not bit "
            "for bit as it would have there; give device= to choose another.",
            ColonnadeWarning,
            stacklevel=3,
        )
        asked = replace(asked, device=HOST.name)
    return devices_for(asked, parties, here=here)


def _recording(record: bool | Recording) -> Recording | None:
    if not isinstance(record, bool | Recording):
        raise ConfigError(f"record={record!r} is out of range; give True, False or a cn.Recording.")
    return (record if isinstance(record, Recording) else Recording()) if record else None


@contextmanager
def _described(folder: Path) -> Iterator[None]:
    """What a run is made of, from its description; options that nothing can be made of are the folder's fault."""
    try:
        yield
    except ColonnadeError:
        raise
    except (TypeError, ValueError, KeyError, AttributeError, OverflowError) as error:
        raise CheckpointError(
            f"the newest checkpoint of {folder} does not describe a run ({error!s:.100}); it is damaged or foreign."
        ) from None


def _moved(settings: Settings, runtime: Cluster | None) -> Settings:
    """The settings on another cluster, if one was given."""
    if runtime is None:
        return settings
    if settings.runtime != "ray" or not isinstance(runtime, Cluster):
        raise ConfigError(
            f"resume came with runtime={runtime!r} for a run with runtime='{settings.runtime}'; only a run on a "
            "cluster can move, to another cn.Cluster."
        )
    secrets = bool((settings.cluster or {}).get("secrets"))
    if runtime.secrets and not secrets:
        raise ConfigError("resume came with secrets=True for a run whose sides drew from the seed; leave it out.")
    return replace(settings, cluster={**runtime.plain(), "secrets": secrets})


def _prolonged(
    settings: Settings, tables: Sequence[Table], method: Method, epochs: int | None, rounds: int | None
) -> Settings:
    """The settings with a later last round, if one was asked for."""
    if epochs is None and rounds is None:
        return settings
    schedule = schedule_for(tables, method, settings.batch, settings.seed, settings.valid, settings.shuffle)
    asked = min(rounds_of(epochs, rounds, schedule), method.most_rounds or MOST)
    longer = replace(settings, rounds=max(settings.rounds, asked))
    method.check_batch(schedule.smallest_batch(longer.rounds))
    return longer


def _can_reload(description: dict[str, Any]) -> bool:
    """Whether the tables are those of a named data set."""
    return "load" in (description["data"] or {})


def _tables_again(description: dict[str, Any], tables: Sequence[Table] | None, folder: Path) -> Sequence[Table]:
    if tables is None:
        if not _can_reload(description):
            raise CheckpointError(f"the run in {folder} was trained on tables of your own; pass them to resume again.")
        tables = reload(description["data"])
    check_federation(tables, several=True)
    outline = outline_of(tables)
    if any(outline[part] != description[part] for part in outline):
        raise CheckpointError(f"the run in {folder} was trained on other tables than those given; it is foreign.")
    return tables


def _known(entries: Sequence[dict[str, Any] | None], what: str, option: str) -> list[dict[str, Any]]:
    """The descriptions of all parties' builders, if none of them was the user's own function."""
    known = [entry for entry in entries if entry is not None]
    if len(known) < len(entries):
        raise CheckpointError(f"the run was trained with {what} of your own; pass {option}= to resume again.")
    return known
