"""Another party, or one less, in a run of one round, without asking the others again."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from colonnade.core.optim import OptimizerBuilder
from colonnade.core.state import Packed
from colonnade.core.table import Table, check_federation, parties_of
from colonnade.errors import ConfigError, TableError, unknown
from colonnade.models import ModelBuilder, default_for
from colonnade.run.make_plan import start
from colonnade.run.training import Run
from colonnade.runtime.plan import Plan
from colonnade.store.run_folder import check_vacant
from colonnade.wire.ledger import OWNER


def extend(
    run: Run,
    tables: Sequence[Table],
    *,
    anew: Collection[str] = (),
    test: Sequence[Table] | None = None,
    folder: str | Path | None = None,
) -> Run:
    """Another run of the same rows with other parties, in which only those are asked whose replies are not at hand.

    ``run`` is of ``oneshot`` (not with ``learn="gradients"``): its owner has every party's one reply. ``tables`` are
    the same rows of the owner with the parties that shall take part: who was in the run is not asked, who is new or
    named in ``anew`` is asked once, who is left out is forgotten. With a label seal the noisy labels are those of the
    run. A party that was absent from the run's round is asked now.

    >>> import colonnade as cn
    >>> train, test = cn.load("digits", parties=4)
    >>> method = cn.OneShot(learner="linear", top="linear")
    >>> few = cn.train(train[:-1], method)
    >>> more = cn.extend(few, train)
    >>> sorted({line.receiver for line in more.ledger.rows} - {"owner"})
    ['party 4']
    >>> bool((more.predict(test) == cn.train(train, method).predict(test)).all())
    True
    """
    if folder is not None:
        check_vacant(Path(folder))
    _check(run, tables, anew)
    extended = start(_plan_for(run, tables), tables, folder)
    kept = [name for name in extended.parties.names if name in run.parties.names and name not in anew]
    _check_kept(run, extended, kept)
    _take_over(run, extended, kept)
    return extended.fit(test)


def _check(run: Run, tables: Sequence[Table], anew: Collection[str]) -> None:
    """Refuse a run that is not of one round, and other rows than it was trained on."""
    if not isinstance(run, Run):
        raise ConfigError(f"a {type(run).__name__} came where the trained run was expected; give what cn.train gave.")
    if run.method.most_rounds != 1 or "replies" not in run.owner.kept():
        raise ConfigError(
            f"the owner of {run.method.name} as set here keeps no replies to go on from; train with oneshot, or train "
            "anew with the parties that shall take part."
        )
    if run.opened or not run.round:
        raise ConfigError("the run was not trained, or opened without its tables; give what cn.train or resume gave.")
    check_federation(tables)
    if not np.array_equal(tables[0].ids, run.ids) or not torch.equal(tables[0].labels, run.owner.tables["train"]):
        raise TableError(
            f"the rows of '{tables[0].name}' are not those that the run was trained on, in their order; a run is "
            "extended with the same rows."
        )
    names = [table.name for table in parties_of(tables)]
    for name in anew:
        if name not in names:
            raise unknown("party", name, names)


def _plan_for(run: Run, tables: Sequence[Table]) -> Plan:
    """The plan of the run with as many networks as there are parties now; a new party has the usual ones."""
    plan, names = run.model.plan, run.parties.names
    models: list[ModelBuilder] = []
    optimizers: list[OptimizerBuilder] = []
    for table in parties_of(tables):
        known = names.index(table.name) if table.name in names else None
        models.append(default_for(table.cardinalities) if known is None else plan.models[known])
        optimizers.append(plan.method.party_optimizer if known is None else plan.optimizers[known])
    return replace(plan, models=tuple(models), optimizers=tuple(optimizers))


def _check_kept(run: Run, extended: Run, kept: Sequence[str]) -> None:
    """Refuse a party that is not asked again and has other columns now, or other ones of the rows."""
    for name in kept:
        before, now = (_outline(one, name) for one in (run, extended))
        if before != now:
            raise TableError(
                f"table '{name}' has other columns, or knows others of the rows, than in the run that is extended; "
                f"give it as it was, or let it learn once more: anew=['{name}']."
            )


def _outline(run: Run, name: str) -> tuple[list[int], list[bool] | None]:
    """The shape of a party's rows, and which of them it has if somebody lacks some."""
    (shape,) = (shape for table, _, shape in run.description["tables"] if table == name)
    masks = run.owner.masks.get("train")
    known = None if masks is None else masks[run.parties.names.index(name)]
    return shape, None if known is None or bool(known.all()) else known.tolist()


def _take_over(run: Run, extended: Run, kept: Sequence[str]) -> None:
    """What parties have learnt, and what the owner has heard of them."""
    before, states = run.model.states(), extended.model.states()
    was, now = ({name: side for side, name in one.model.sides.names.items()} for one in (run, extended))
    states |= {now[name]: before[was[name]] for name in kept}
    replies: Packed = {f"replies/{name}": run.owner.replies[name] for name in kept if name in run.owner.replies}
    states[OWNER] |= replies
    extended.model.restore(states)
