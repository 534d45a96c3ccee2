"""Client summarisation, as the VIM paper calls it: train once more with the parties that matter most, or least."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from colonnade.core.option_names import from_stored_names, new_names
from colonnade.core.table import Table, check_federation, kept, parties_of
from colonnade.errors import ConfigError, TableError
from colonnade.run.train import train
from colonnade.run.training import Run
from colonnade.runtime.cluster import Cluster
from colonnade.seal import make_seal
from colonnade.selection.participation import best, how_many
from colonnade.study.compared_score import check_run
from colonnade.study.importance_of_parties import Importance


def summarise(
    run: Run,
    tables: Sequence[Table],
    keep: float = 0.5,
    *,
    most: bool = True,
    by: Importance | Mapping[str, float] | None = None,
    test: Sequence[Table] | None = None,
    **options: Any,
) -> Run:
    """Train once more as before, with the share ``keep`` of the parties that matter most (or least) only.

    ``tables`` are the training tables again. Who matters is what ``run.importance()`` says, for methods that have it,
    or what :func:`colonnade.importance` measured (``by=``). Method, settings, networks, optimisers and seals are those
    of ``run``; ``options`` of :func:`colonnade.train` replace some. The owner's own columns always stay.

    >>> import colonnade as cn
    >>> train, test = cn.load("digits", parties=4)
    >>> half = cn.summarise(cn.train(train, "vimadmm", epochs=1), train)
    >>> len(half.parties)
    2
    """
    check_run(run)
    options = new_names(options, "summarise()")
    check_federation(tables, several=True)
    names = [table.name for table in parties_of(tables)]
    if names != run.parties.names:
        raise TableError(f"the run was trained with {run.parties.names}, but the tables are those of {names}.")
    chosen = _chosen(tables, _numbers(run, by), keep, most=most)
    rows = kept(tables, chosen)
    here = [names.index(table.name) for table in parties_of(rows)]
    settings = from_stored_names(asdict(run.settings))
    cluster = settings.pop("cluster")
    settings["runtime"] = settings["runtime"] if cluster is None else Cluster(**cluster)
    if "epochs" in options:
        del settings["rounds"]
    again: dict[str, Any] = {
        **settings,
        "model": [run.model.plan.models[k] for k in here],
        "optimizer": [run.model.plan.optimizers[k] for k in here],
        "seal": [make_seal(**entry) for entry in run.description["seal"]],
        "targets": None if run.seals.labels else run.owner.soft,
        "test": None if test is None else kept(test, chosen),
    }
    return train(rows, options.pop("method", run.method), **{**again, **options})


def _numbers(run: Run, by: Importance | Mapping[str, float] | None) -> Mapping[str, float]:
    if by is None:
        return run.importance()
    numbers = by.each if isinstance(by, Importance) else by
    if not isinstance(numbers, Mapping):
        raise ConfigError(f"by={by!r} came; give what cn.importance measured, or one number per party by its name.")
    return numbers


def _chosen(tables: Sequence[Table], numbers: Mapping[str, float], keep: float, *, most: bool) -> list[str]:
    others = [table.name for table in tables[1:]]
    lacking = [name for name in others if name not in numbers]
    if lacking:
        raise ConfigError(f"by= says nothing of {', '.join(lacking)}; give one number for every party.")
    scores = [numbers[name] if most else -numbers[name] for name in others]
    return [others[k] for k in best(scores, how_many(keep, len(others)))]
