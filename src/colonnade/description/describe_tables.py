"""``describe``: what every party's columns say about the owner's labels, from sums per bin."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from colonnade.core.method import Turn
from colonnade.core.options import seed_of
from colonnade.core.randomness import Sources
from colonnade.core.table import Table, check_federation, is_partial
from colonnade.description.column_figures import ColumnFigures, figures
from colonnade.description.describe_messages import ToldFacts
from colonnade.description.describe_owner import DescribeOwner, OpenedColumn, own_result
from colonnade.description.describe_party import DescribeParty
from colonnade.description.description_result import Description
from colonnade.description.label_targets import LabelTargets, label_targets
from colonnade.description.own_columns import NAMES, PartyRules, own_columns
from colonnade.errors import ConfigError, TableError, unknown
from colonnade.runtime.group import ProtocolGroup
from colonnade.runtime.setup import local_parties
from colonnade.seal.elgamal import check_elgamal
from colonnade.wire.ends import Ends
from colonnade.wire.ledger import OWNER, Ledger
from colonnade.wire.owner_half import OwnerHalf

RUNTIMES = ("loop", "bytes")
Told = tuple[ToldFacts, list[OpenedColumn]]


class DescribeGroup(ProtocolGroup):
    """One party of a description in this process: its end of the protocol."""

    about: ClassVar[str] = "a description, which is about sums only"

    def __init__(self, member: int, end: DescribeParty) -> None:
        super().__init__(member, end.name)
        self.end = end

    def run(self, step: Callable[..., Any], turn: Turn, received: Sequence[Any], shared: bool) -> list[Any]:
        """Run the step at this party."""
        return [getattr(self.end, step.__name__)(*received)]


def describe(
    tables: Sequence[Table],
    *,
    later: Sequence[Table] | None = None,
    bins: int = 10,
    minimum: int | Mapping[str, int] = 20,
    names: str | Mapping[str, str] = "shown",
    epsilon: float | Mapping[str, float] | None = None,
    delta: float = 1e-5,
    proof: bool = False,
    task: str | None = None,
    seed: int = 0,
    runtime: str = "loop",
) -> Description:
    """What every column of every party says about the labels: information value, WoE, correlation, missing, stability.

    A party cuts its numbers into ``bins`` by quantiles, and its categories by text. It receives every label encrypted,
    adds up those of each bin without reading one, and the owner opens the sums: the owner learns how many positive and
    negative rows each bin has, and the party nothing about the labels. No bin has fewer than ``minimum`` rows.
    With ``names="numbered"`` bins are told by number, without limits or texts. With ``epsilon`` (at ``delta``) a party
    adds noise to all counts and sums. These three are a party's own choice: give one value, or a dictionary by party.

    With ``proof=True`` the owner proves to every party, without showing a label, that each row is of one class and that
    every class has and lacks ``minimum`` rows; between organisations that is what parties ask for.

    ``later`` has other rows of the same columns, such as test rows: each party compares its own and tells one number,
    the population stability index. ``task`` is "classes", "values" or "several"; by default what the labels look like.
    ``seed`` decides the noise, ``runtime="bytes"`` really encodes every message.

    >>> import colonnade as cn
    >>> owner = cn.Table(range(200), labels=[k % 2 for k in range(200)], name="bank")
    >>> shop = cn.Table(range(200), [[k % 2 + k % 5] for k in range(200)], name="shop", column_names=("visits",))
    >>> found = cn.describe([owner, shop])
    >>> visits = found.column("shop", "visits")
    >>> round(visits.iv, 2), round(visits.correlation, 2), [one.positives for one in visits.bins]
    (1.49, 0.33, [0, 20, 20, 20, 20, 20])
    """
    check_federation(tables)
    if runtime not in RUNTIMES:
        raise unknown("runtime of a description", runtime, RUNTIMES)
    chosen = {"minimum": minimum, "names": names, "epsilon": epsilon}
    rules = rules_of([table.name for table in tables], chosen, bins=bins, delta=delta, proof=proof)
    return describe_by(tables, rules, later=later, task=task, sources=Sources(seed_of(seed)), runtime=runtime)


def describe_by(
    tables: Sequence[Table],
    rules: dict[str, PartyRules],
    *,
    later: Sequence[Table] | None,
    task: str | None,
    sources: Sources,
    runtime: str = "loop",
) -> Description:
    """Describe the columns of tables under each party's rules; ``sources`` may have their secrets."""
    check_elgamal()
    after, began = _after(tables, later), time.process_time()
    if is_partial([*tables, *filter(None, after)]):
        raise TableError("some parties do not know all rows; describe the common ones: cn.common_rows(tables).")
    targets = targets_under(tables[0], task, rules)
    half, told = OwnerHalf(Ends()), list[Told]()
    if len(tables) > 1:
        ends = [
            DescribeParty(
                table.name, table, other, rules[table.name], sources.of(table.name).key("describe", table.name)
            )
            for table, other in zip(tables[1:], after[1:], strict=True)
        ]
        groups = [DescribeGroup(k, end) for k, end in enumerate(ends)]
        parties = local_parties([end.name for end in ends], groups, half, set(), encoded=runtime == "bytes")
        secret = None if sources.secrets is None else sources.of(OWNER).key("describe labels")
        told = DescribeOwner(parties, targets, least=least_of(tables[0].name, rules), secret=secret).run()
    return put_together(tables[0], after[0], targets, rules, told, half.ledger, time.process_time() - began)


def targets_under(table: Table, task: str | None, rules: Mapping[str, PartyRules]) -> LabelTargets:
    """The owner's labels as numbers; values are cut closer if the noise of a party must cover them."""
    return label_targets(table, task, noisy=any(own.epsilon is not None for own in rules.values()))


def least_of(owner: str, rules: Mapping[str, PartyRules]) -> int | None:
    """How many rows each class must have and lack by proof, so that all parties are content; None without proofs."""
    wanted = [own.minimum for name, own in rules.items() if name != owner and own.proof]
    return max(wanted, default=None)


def put_together(
    own: Table,
    later: Table | None,
    targets: LabelTargets,
    rules: Mapping[str, PartyRules],
    told: Sequence[Told],
    ledger: Ledger,
    seconds: float,
) -> Description:
    """The description of the owner's own columns and of what the others told, in the order of the rules."""
    results = [] if own.columns is None else [(own.name, _of_owner(own, later, targets, rules[own.name]))]
    results += zip([name for name in rules if name != own.name], told, strict=True)
    return Description(
        task=targets.task,
        rows=own.rows,
        columns=tuple(_figures(results, targets)),
        minimum={name: facts.minimum for name, (facts, _) in results},
        sigma={name: facts.sigma for name, (facts, _) in results},
        notes=tuple(note for _, (facts, _) in results for note in facts.notes),
        opened=tuple(_opened(own, results, rules, targets)),
        seconds=seconds,
        ledger=ledger,
    )


def _of_owner(own: Table, later: Table | None, targets: LabelTargets, rules: PartyRules) -> Told:
    exact = replace(rules, epsilon=None)  # nobody is told anything, so noise would only harm
    return own_result(own_columns(own, later, exact), targets, exact)


def _figures(results: Sequence[tuple[str, Told]], targets: LabelTargets) -> list[ColumnFigures]:
    return [one for name, (_, columns) in results for column in columns for one in figures(name, column, targets)]


def rules_of(called: Sequence[str], chosen: Mapping[str, Any], **common: Any) -> dict[str, PartyRules]:
    """Each party's rules: of what is ``chosen`` one value for all or a dictionary by party, and what is common."""
    for what, value in chosen.items():
        strange = [name for name in value if name not in called] if isinstance(value, Mapping) else []
        if strange:
            raise ConfigError(f"{what}= names '{strange[0]}', which is no party; there are {', '.join(called)}.")
    rules = {}
    for name in called:
        own = {what: value[name] if isinstance(value, Mapping) else value for what, value in chosen.items()
               if not isinstance(value, Mapping) or name in value}  # fmt: skip
        rules[name] = PartyRules(**common, **own)
    return rules


def _after(tables: Sequence[Table], later: Sequence[Table] | None) -> list[Table | None]:
    """Each party's later table."""
    if later is None:
        return [None] * len(tables)
    if isinstance(later, Table) or not all(isinstance(table, Table) for table in later):
        raise TableError("later= is no federation; give a list of tables, one for each party.")
    by_name = {table.name: table for table in later}
    absent = [table.name for table in tables if table.columns is not None and table.name not in by_name]
    if absent:
        raise TableError(f"later= has no table of '{absent[0]}'; give one for each party, by the same names.")
    return [by_name.get(table.name) for table in tables]


def _opened(
    own: Table, results: Sequence[tuple[str, Told]], rules: Mapping[str, PartyRules], targets: LabelTargets
) -> list[str]:
    """Who learnt what, in plain sentences."""
    others = [(name, told) for name, told in results if name != own.name]
    if not others:
        return ["Nothing left the owner: it described its own columns."]
    what = "the sum of the labels" if targets.task == "values" else "how many are of each class"
    names = ", ".join(f"'{name}'" for name, _ in others)
    said = [
        f"The owner sent {names} each of {own.rows:,} labels encrypted, and nobody else can open one.",
        *_proved(least_of(own.name, rules)),
        *(_told(name, told, rules[name], what) for name, told in others),
        f"This result is the owner's: who reads it and holds a bin's rows learns {what} among them.",
    ]
    return said


def _proved(least: int | None) -> list[str]:
    if least is None:
        return []
    return [f"It proved that every row is of one class, and that every class has and lacks at least {least} rows."]


def _told(name: str, told: Told, rules: PartyRules, what: str) -> str:
    facts, _ = told
    noise = "" if not facts.sigma else (
        f" Counts have noise of deviation {facts.sigma:.1f}: for given bins, all that '{name}' told costs epsilon "
        f"{rules.epsilon:g} at delta {rules.delta:g}."
    )  # fmt: skip
    stable = ", and its stability" if any(column.stability is not None for column in facts.columns) else ""
    return (
        f"The owner read of {len(facts.columns)} columns of '{name}': their names, {facts.bins} bins of at least "
        f"{facts.minimum} rows ({NAMES[rules.names]}), each with its rows and {what}; of each column the share of "
        f"missing values, its correlation with the label{stable}.{noise}"
    )
