"""``select`` and ``keep``: choose parties before training, with any method or none."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from colonnade.core.options import seed_of, whole
from colonnade.core.randomness import Sources
from colonnade.core.table import Table, check_classes, check_federation, is_partial, kept, parties_of
from colonnade.errors import ConfigError, SealError, TableError, unknown
from colonnade.run.training import Run
from colonnade.runtime.loop import LoopGroup
from colonnade.runtime.parties import AllParties
from colonnade.runtime.setup import local_parties, threads
from colonnade.seal import Blind, Seals, listed
from colonnade.selection import redundancy as redundant
from colonnade.selection import strategies
from colonnade.selection.choice import Selection
from colonnade.selection.distances import Sample, Steps, draw_sample
from colonnade.selection.group_scores import Estimation, GroupScores, HelperScores, OpenScores
from colonnade.selection.helper import Helper
from colonnade.selection.information import check_neighbours
from colonnade.selection.participation import best, how_many
from colonnade.selection.row_order import Secret
from colonnade.wire.ends import Ends
from colonnade.wire.ledger import OWNER, Ledger
from colonnade.wire.owner_half import OwnerHalf

WAYS = {
    "greedy": "each party is the one that adds most to those before it",
    "groups": "the best by random groups (VF-PS)",
    "fagin": "as groups, adding up only what Fagin's algorithm touches",
    "single": "the best by themselves",
    "random": "any",
    "heads": "the largest head norms of a trained run (VIM)",
}


@dataclass(frozen=True)
class SelectionPlan:
    """The checked arguments of a selection."""

    by: str
    count: int
    sample: Sample
    neighbours: int
    tests: int
    seed: int


def select(
    tables: Sequence[Table],
    *,
    share: float | None = None,
    count: int | None = None,
    by: str = "greedy",
    queries: int = 300,
    rows: int = 1000,
    neighbours: int = 3,
    tests: int = 100,
    seed: int = 0,
    seal: Any = None,
    helper: str | None = None,
    run: Run | None = None,
) -> Selection:
    """Choose the parties that together tell most about the labels; ``selection.tables`` is the federation of those.

    ``share`` of the parties (0.5 by default) or ``count`` of them are chosen, always beside the owner's own columns.
    The information is Ross's nearest-neighbour estimate from distances between ``queries`` and ``rows`` rows.
    ``by`` is "greedy", "groups" (VF-PS, with ``tests`` random groups), "fagin" (the same with Fagin's algorithm),
    "single", "random", or "heads" of a trained ``run``. Greedy chooses fewer if only noise and copies are left.
    Without a seal the owner reads every party's distances. With ``seal=cn.Blind()`` a ``helper`` without columns or
    labels opens sums of distances about rows that it cannot name, and the owner reads only orders.

    >>> import colonnade as cn
    >>> train, test = cn.load("digits", parties=8)
    >>> selection = cn.select(train, share=0.5, seed=0)
    >>> len(selection.chosen), selection.reached > 0.97
    (4, True)
    >>> run = cn.train(selection.tables, "vimadmm", epochs=2)
    >>> sorted(run.evaluate(cn.keep(test, selection)))
    ['accuracy', 'loss']
    """
    check_federation(tables)
    if is_partial(tables):
        raise TableError("some parties do not know all rows; select on the common ones: cn.common_rows(tables).")
    check_classes(tables[0].labels, tables[0].name)
    if by not in WAYS:
        raise unknown("way to select", by, WAYS)
    number = _count(share, count, len(tables) - 1)
    blind, opener = _sealed(seal, helper, tables)
    if by == "heads":
        return _by_heads(tables, number, run)
    if run is not None:
        raise ConfigError(f"run= came with by='{by}', which asks no trained run; leave it out, or use by='heads'.")
    sample = draw_sample(tables[0].rows, whole(queries, "queries"), whole(rows, "rows"), seed_of(seed))
    check_neighbours(neighbours, len(sample.rows))
    groups = whole(tests, "tests")
    if groups < 1:
        raise ConfigError(f"tests={tests} is out of range; give a whole number of random groups from 1.")
    plan = SelectionPlan(by, number, sample, neighbours, groups, seed_of(seed))
    began, ledger = time.process_time(), Ledger()
    with threads(1):
        scores = _scores(tables, plan, blind, opener, ledger)
        chosen, copies = _choose(scores, plan)
        reached, all_of_them = scores(chosen).value, scores(range(len(scores.names))).value
    first = len(scores.always)
    return Selection(
        chosen=tuple(scores.names[k] for k in chosen),
        by=by,
        scores={name: own.value for name, own in zip(scores.names[first:], scores.own[first:], strict=True)},
        information=reached,
        of_all=all_of_them,
        notes=redundant.notes(scores, chosen, copies),
        opened=tuple(scores.opened),
        evaluations=scores.evaluations,
        touched=sum(scores.touched) / len(scores.touched) if scores.touched else None,
        seconds=time.process_time() - began,
        ledger=ledger,
        tables=kept(tables, [scores.names[k] for k in chosen]),
    )


def keep(tables: Sequence[Table], parties: Selection | Sequence[str]) -> list[Table]:
    """The tables of the owner and the chosen parties only; use it to get test tables for a selection.

    >>> import colonnade as cn
    >>> train, test = cn.load("digits", parties=4)
    >>> [table.name for table in cn.keep(test, ["party 3", "party 1"])]
    ['owner', 'party 1', 'party 3']
    """
    return kept(tables, parties.chosen if isinstance(parties, Selection) else list(parties))


def _choose(scores: GroupScores, plan: SelectionPlan) -> tuple[list[int], dict[int, set[int]]]:
    """The chosen parties, and which parties are copies of which."""
    candidates = [k for k in range(len(scores.names)) if k not in scores.always]
    copies = redundant.twins(scores)
    if plan.by == "greedy":
        # A copy of what the owner has anyway is never worth a party.
        fresh = [k for k in candidates if not copies[k].intersection(scores.always)] or candidates
        return strategies.greedy(scores, fresh, plan.count, copies, redundant.noise(scores)), copies
    if plan.by in ("groups", "fagin"):
        scores.sparing = plan.by == "fagin"
        return strategies.by_groups(scores, candidates, plan.count, plan.tests, plan.seed), copies
    if plan.by == "single":
        return strategies.by_single(scores, candidates, plan.count), copies
    return strategies.at_random(candidates, plan.count, plan.seed), copies


def _scores(
    tables: Sequence[Table], plan: SelectionPlan, blind: Blind | None, helper: str, ledger: Ledger
) -> GroupScores:
    """The object that asks parties through the channel and estimates their information from the replies."""
    parties = [replace(tables[0], name=OWNER), *tables[1:]] if tables[0].columns is not None else list(tables[1:])
    owner_is_first = parties[0].name == OWNER
    sources = Sources(plan.seed)
    groups = [LoopGroup(k, table, {}, sources.of(table.name)) for k, table in enumerate(parties)]
    steps = Steps(plan.sample.queries, tuple(table.scale is not None for table in parties))
    estimation = Estimation(tables[0].labels, plan.sample, plan.neighbours, (0,) if owner_is_first else ())
    names, home = [table.name for table in parties], {0} if owner_is_first else set()
    at_owner = local_parties(names, groups, OwnerHalf(Ends(sources=sources), ledger), home)
    if blind is None:
        return OpenScores(at_owner, steps, estimation)
    ends = Ends(Seals(blind=blind), sources)
    ends.know("train", parties[0])
    to_helper = OwnerHalf(ends, ledger, opener=helper)

    def among(members: Sequence[int]) -> AllParties:
        """All parties, of whom these blind sums together, with keys that no other group has."""
        return local_parties(names, groups, to_helper, set(), blinded=[names[k] for k in members])

    return HelperScores(at_owner, steps, Helper(among, to_helper), Secret.of_seed(plan.seed), estimation)


def _by_heads(tables: Sequence[Table], count: int, run: Run | None) -> Selection:
    """The parties with the largest heads: no distance is asked for."""
    if run is None:
        raise ConfigError("by='heads' reads the heads of a trained model; give run=, from cn.train with a vim method.")
    names = [table.name for table in parties_of(tables)]
    if run.parties.names != names:
        raise TableError(f"the run was trained with {run.parties.names}, but the tables are those of {names}.")
    began, before = time.process_time(), run.ledger.to_json()
    norms = {name: norm for name, norm in run.importance().items() if name != tables[0].name}
    ledger = run.ledger.since(before)
    chosen = tuple(list(norms)[k] for k in best(list(norms.values()), count))
    return Selection(
        chosen=chosen,
        by="heads",
        scores=norms,
        information=None,
        of_all=None,
        notes={},
        opened=("The owner read one number per party from the trained run: how large its head is.",),
        evaluations=0,
        touched=None,
        seconds=time.process_time() - began,
        ledger=ledger,
        tables=kept(tables, chosen),
    )


def _count(share: float | None, count: int | None, parties: int) -> int:
    if parties < 1:
        raise TableError("there is no party beside the owner, so nobody can be selected; give a federation of several.")
    if count is None:
        return how_many(0.5 if share is None else share, parties)
    if share is not None:
        raise ConfigError(f"share={share} and count={count} were both given; give one of them.")
    chosen = whole(count, "count")
    if not 1 <= chosen <= parties:
        raise ConfigError(
            f"count={count} of {parties} parties selects nobody, or more than there are; give 1 to {parties}."
        )
    return chosen


def _sealed(seal: Any, helper: str | None, tables: Sequence[Table]) -> tuple[Blind | None, str]:
    """The seal of the sums, and the name of the party that opens them."""
    blinds = [given for given in listed(seal) if isinstance(given, Blind)]
    for given in listed(seal):
        if not isinstance(given, Blind) or len(blinds) > 1:
            raise SealError(f"a selection takes one cn.Blind() and no other seal, but seal= holds {given!r}.")
    if not blinds:
        if helper is not None:
            raise ConfigError(
                f"helper={helper!r} opens blinded sums, and none are without a seal; add seal=cn.Blind()."
            )
        return None, OWNER
    if len(parties_of(tables)) < 2:
        raise SealError("one party has columns, and the sum of one party is its value; select without Blind.")
    opener = "helper" if helper is None else helper
    if not (isinstance(opener, str) and opener.isascii() and opener.isprintable() and 0 < len(opener) <= 64):
        raise ConfigError(f"helper={opener!r} cannot travel; use 1 to 64 printable ASCII characters.")
    if opener in [OWNER, *(table.name for table in tables)]:
        raise ConfigError(
            f"helper='{opener}' is a side of the federation and could tell which rows it opens; "
            "name one that has neither columns nor labels."
        )
    # Distances need the wide ring, and a sum over those who answered would be another group's.
    return replace(blinds[0], ring=64, recover=False, clip=0.0), opener
