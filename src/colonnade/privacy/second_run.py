"""A second run of the same method with the same seals, on rows whose secrets an adversary knows: it learns from it."""

from __future__ import annotations

import math
import warnings
from dataclasses import replace
from functools import cache, lru_cache

import numpy as np

from colonnade.core.schedule import derive_seed
from colonnade.privacy.agreement import agreement_of
from colonnade.privacy.cases import Case, Evidence, material_of
from colonnade.privacy.clock import Clock
from colonnade.privacy.material import Array, Material, SecondRun
from colonnade.privacy.packed_labels import with_labels_unpacked
from colonnade.privacy.row_sets import KNOWN_ROWS, in_order
from colonnade.run.make_plan import start
from colonnade.runtime.plan import Plan
from colonnade.wire.witness import Recording

SHARE_OF_BUDGET = 0.4
"""Of what is left of the budget, for training the second run."""


class SecondTraining:
    """The second run of an audit; it is trained once, for all cases."""

    def __init__(self, evidence: Evidence, clock: Clock) -> None:
        self.evidence, self.clock = evidence, clock
        self.rows = half_of(evidence)
        self.trained = cache(self._trained)
        self.material = lru_cache(maxsize=1)(self._material)  # of the case at hand; they are large

    def of(self, case: Case) -> SecondRun:
        """The second run for one case."""
        half = np.isin(self.evidence.view.sample, self.rows)
        return SecondRun(half, self.why_not, lambda: self.material(case), self.twins)

    def why_not(self) -> str:
        """Why no second run can be trained in what is left of the budget; empty if one can, or was."""
        if self.trained.cache_info().currsize:
            return ""
        if self._affordable() < min(self._per_epoch, self._rounds):
            return "training a second run does not fit into what is left of the budget"
        return ""

    def twins(self) -> Array:
        """The rows of both samples: their places in the one and in the other [k, 2]."""
        again = self.rows[self.trained().view.sample]
        _, first, second = np.intersect1d(self.evidence.view.sample, again, return_indices=True)
        return np.stack([first, second], axis=1)

    def _material(self, case: Case) -> Material:
        return material_of(case, self.trained())

    def _trained(self) -> Evidence:
        """The second run's evidence: the same method, seals and networks, from other initial weights."""
        first = self.evidence.run
        assert first is not None
        tables = [table.take(self.rows) for table in self.evidence.tables]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what is odd about the tables was said when the first run was trained
            run = start(self._plan(first.model.plan), tables, record=Recording()).fit()
        return Evidence(
            with_labels_unpacked(run.view, agreement_of(run)), tables, run, self.evidence.seed, self.evidence.owners
        )

    def _plan(self, plan: Plan) -> Plan:
        rounds = max(1, min(self._rounds, self._affordable()))
        settings = replace(
            plan.settings,
            rounds=rounds,
            batch=self._batch,
            seed=derive_seed(plan.settings.seed, "second run") % 2**31,
            evaluate_every=rounds,
            stop_drop=None,
        )
        return replace(plan, settings=settings)

    @property
    def _batch(self) -> int:
        run = self.evidence.run
        assert run is not None
        mine = len(self.rows) - round(run.settings.valid * len(self.rows))
        return mine if run.method.whole_rounds else min(run.settings.batch, mine)

    @property
    def _per_epoch(self) -> int:
        return math.ceil(len(self.rows) / self._batch)

    @property
    def _rounds(self) -> int:
        """As many epochs as the first run had, in rounds."""
        run = self.evidence.run
        assert run is not None
        return max(1, math.ceil(run.round / (self.evidence.per_epoch or 1) * self._per_epoch))

    def _affordable(self) -> int:
        """How many rounds fit into the share of the budget, if they cost what those of the first run did."""
        run = self.evidence.run
        assert run is not None
        return int(SHARE_OF_BUDGET * max(self.clock.left, 0.0) * max(run.round, 1) / max(run.seconds, 1e-6))


def half_of(evidence: Evidence) -> Array:
    """Half of the training rows: those that a decoder is told, those outside the sample, and others of the sample."""
    rows, sample = evidence.tables[0].rows, evidence.view.sample
    order = sample[in_order(len(sample), evidence.seed)]
    rng = np.random.default_rng(derive_seed(evidence.seed, "audit", "second run"))
    outside = rng.permutation(np.setdiff1d(np.arange(rows), sample))
    told = min(KNOWN_ROWS, len(order) // 3)
    return np.sort(np.concatenate([order[:told], outside, order[told:]])[: rows // 2])
