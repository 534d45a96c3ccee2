"""Importance of parties that needs no heads: what held-out rows lose when one party's columns say nothing.

A party changes its own columns and answers as it does in any prediction: nothing else travels, and the ledger counts
it under ``predict``. But the owner sees answers to several versions of the same rows, which tell more than one: so
runs under ``Noise`` (each answer would cost privacy) and ``Blind`` (two sums would show one party) are refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from colonnade.core.option_names import new_names
from colonnade.core.options import seed_of, whole
from colonnade.core.schedule import derive_seed
from colonnade.core.table import Table, check_federation, parties_of
from colonnade.errors import ConfigError, unknown
from colonnade.run.training import Run
from colonnade.study.compared_score import check_may_compare, check_run, score, score_name
from colonnade.study.noisy_tables import check_scale, exchanged, noisy, shuffled
from colonnade.study.shapley_values import measured

WAYS = {
    "permutation": "the party's columns are shuffled among the rows",
    "noise": "noise of N(0, scale^2) is added to the party's columns (VIM's noisy test party)",
    "absent": "the party is absent, and zeros or the run's own policy stand for its answers",
    "shapley": "its Shapley value: what it adds to the score, the mean over all sets of others (laser)",
}
BAR = 24


@dataclass(frozen=True)
class Importance:
    """How much each party matters, and the standard deviation of that number."""

    each: dict[str, float]
    """The drop of the score without the party's columns, its Shapley value, or the mean head norm of several runs."""
    spread: dict[str, float]
    """The standard deviation of one measurement."""
    by: str
    score: str
    base: float | None = None
    """The score with everybody's columns, where it was measured."""

    @property
    def ranking(self) -> list[str]:
        """The parties, the most important first."""
        return sorted(self.each, key=lambda name: -self.each[name])

    def __str__(self) -> str:
        wide, most = max(map(len, self.each)), max(max(self.each.values()), 1e-12)
        base = "" if self.base is None else f", {self.score} {self.base:.4f} with everybody"
        bars = {name: "#" * round(BAR * max(value, 0.0) / most) for name, value in self.each.items()}
        lines = [
            f"{name:{wide}}  {value:8.4f} +- {self.spread[name]:.4f}  {bars[name]}".rstrip()
            for name, value in self.each.items()
        ]
        return "\n".join([f"importance by {self.by}{base}", *lines])


def importance(
    run: Run, test: Sequence[Table], *, by: str = "permutation", repeats: int = 10, scale: float = 1.0, seed: int = 0
) -> Importance:
    """How much accuracy on held-out rows is lost when one party's columns say nothing; for any method.

    ``by="permutation"`` shuffles the party's columns among the rows, ``"noise"`` adds N(0, ``scale``^2) to them
    as the VIM paper does, and ``"absent"`` leaves the party out (under the run's ``missing=`` policy, or with zeros).
    The spread is over ``repeats``, each with another disturbance and another bootstrap of the rows. ``"shapley"`` gives
    exact Shapley values of up to eight parties from the predictors of ``laser``, for the bytes of one prediction.

    Every repeat is a prediction for all rows and costs its bytes. Methods whose owner predicts alone lose nothing
    without the others. Runs under ``Noise`` or ``Blind`` are refused, see the module's text.

    >>> import colonnade as cn
    >>> train, test = cn.load("digits", parties=4)
    >>> run = cn.train(train, "vimadmm", epochs=2)
    >>> measured = cn.importance(run, test, repeats=2)
    >>> measured.ranking[-1], min(measured.each.values()) > 0
    ('party 1', True)
    """
    check_run(run)
    by = next(iter(new_names({by: by}, "importance(by=)"))) if isinstance(by, str) else by
    if by not in WAYS:
        raise unknown("way to measure importance", by, WAYS)
    if whole(repeats, "repeats") < 2:
        raise ConfigError(f"repeats={repeats} is out of range; give at least 2, or there is no spread.")
    check_federation(test)
    seeds = [(seed_of(seed), repeat) for repeat in range(repeats)]
    if by == "shapley":
        return _shapley(run, test, seeds)
    check_may_compare(run)
    base, labels, scale = run.outputs(test), test[0].labels, check_scale(scale)
    drops = {
        table.name: _drops(run, base, _disturbed(run, test, table, by, scale, seeds), labels, seeds)
        for table in parties_of(test)
        if by != "absent" or table is not test[0]  # the owner's own columns cannot be absent
    }
    return Importance(
        each={name: float(on_all.mean()) for name, (on_all, _) in drops.items()},
        spread={name: float(on_some.std()) for name, (_, on_some) in drops.items()},
        by=by,
        score=score_name(run),
        base=score(run, base, labels),
    )


def _shapley(run: Run, test: Sequence[Table], seeds: Sequence[tuple[int, int]]) -> Importance:
    """Shapley values; nobody is asked twice about a row, so no seal is in the way."""
    values, base = measured(run, test, seeds)
    return Importance(
        each={name: float(found[0]) for name, found in values.items()},
        spread={name: float(found[1:].std()) for name, found in values.items()},
        by="shapley",
        score=score_name(run),
        base=base,
    )


def _disturbed(
    run: Run, test: Sequence[Table], table: Table, by: str, scale: float, seeds: Sequence[tuple[int, int]]
) -> Iterable[Tensor]:
    """The run's outputs with the table's columns disturbed, one tensor per seed."""
    if by == "absent":
        policy = "zero" if run.settings.missing == "refuse" else run.settings.missing
        return [run.outputs(test, absent=[table.name], missing=policy)] * len(seeds)
    changed_tables = (shuffled(table, *seed) if by == "permutation" else noisy(table, scale, *seed) for seed in seeds)
    return (run.outputs(exchanged(test, changed_table)) for changed_table in changed_tables)


def _drops(
    run: Run, base: Tensor, disturbed: Iterable[Tensor], labels: Tensor, seeds: Sequence[tuple[int, int]]
) -> tuple[Tensor, Tensor]:
    """The loss of score by each disturbance: on all rows, and on a bootstrap sample that differs each time."""
    pairs = []
    for outputs, seed in zip(disturbed, seeds, strict=True):
        random = torch.Generator().manual_seed(derive_seed(*seed, "bootstrap"))
        rows = torch.randint(len(labels), (len(labels),), generator=random)
        on_rows = score(run, base[rows], labels[rows]) - score(run, outputs[rows], labels[rows])
        pairs.append((score(run, base, labels) - score(run, outputs, labels), on_rows))
    on_all, on_some = torch.tensor(pairs, dtype=torch.float64).T
    return on_all, on_some
