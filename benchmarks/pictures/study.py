"""The runs behind the pictures, each trained once: what was found is kept, and so is the run's own folder."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from statistics import mean
from typing import Any

import colonnade as cn
from benchmarks.kept import Found, Kept, slug
from benchmarks.pictures.subjects import SUBJECTS, Subject
from benchmarks.settings import VALID

Federations = tuple[list[cn.Table], list[cn.Table]]
REPEATS = 2
MAPPED = 300  # rows of a t-SNE map


@cache
def federations(data: str, kind: str, rows: int | None) -> Federations:
    """Training and test tables: "clean", of "few" rows, with one party "noisy", or of a "crowd" of parties."""
    subject = SUBJECTS[data]
    train, test = cn.load(**{**subject.loads(kind), "rows": rows})
    if kind == "noisy":
        noise = subject.noisy, subject.train_noise
        return cn.with_noise(train, *noise, seed=0), cn.with_noise(test, *noise, seed=1)
    return train, test


@dataclass(frozen=True)
class Study:
    """A data set's runs; ``rounds`` and ``rows`` make them shorter, ``methods`` fewer than the pictures' own."""

    data: str
    kept: Kept
    runs: Path
    rounds: int | None = None
    rows: int | None = None
    methods: Sequence[str] = ()
    longer: bool = False  # as long as the pictures that show accuracy by epoch want it

    @property
    def subject(self) -> Subject:
        """The data set with its settings."""
        return SUBJECTS[self.data]

    def among(self, methods: Sequence[str]) -> Sequence[str]:
        """A picture's own methods, or those that were asked for."""
        return self.methods or methods

    def tables(self, kind: str) -> Federations:
        """What a kind of run trains and is tested on."""
        return federations(self.data, kind, self._rows(kind))

    def _rows(self, kind: str) -> int | None:
        given = [rows for rows in (self.rows, self.subject.loads(kind).get("rows")) if rows]
        return min(given, default=None)

    def length(self, method: str, kind: str) -> dict[str, int]:
        """How long a method is trained, as cn.train wants it."""
        if self.rounds:
            return {"rounds": self.rounds}
        longer = self.subject.longer.get(method) if self.longer else None
        return {"epochs": longer or self.subject.epochs_of(kind, method)}

    def size(self, method: str, kind: str = "clean") -> str:
        """The same in words, with the training rows where they are not all."""
        ((unit, number),) = self.length(method, kind).items()
        rows = self._rows(kind)
        return f"{number} {unit}" + (f" of {rows:,} rows" if rows else "")

    def outcome(self, method: str, seed: int, kind: str = "clean", **change: Any) -> Found:
        """Test accuracy after each epoch, and head norms if the method has them; some of its options changed."""
        name = self._name(method, seed, kind, **change)
        return self.kept(name, lambda: _outcome(self.trained(method, seed, kind, **change)))

    def lost(self, method: str, seed: int, by: str) -> Found:
        """The share of test rows that are lost when one party's columns say nothing."""

        def find() -> Found:
            run, (_, test) = self.trained(method, seed, "clean"), self.tables("clean")
            return cn.importance(run, test, by=by, scale=self.subject.test_noise, repeats=REPEATS).each

        return self.kept(self._name(method, seed, f"lost by {by}"), find)

    def part(self, seed: int, share: float, *, most: bool) -> Found:
        """The outcome of VIMADMM with a share of the parties, those with the largest or the smallest heads."""
        kind = f"{'top' if most else 'bottom'} {share:.0%}"

        def find() -> Found:
            run, (train, test) = self.trained("vimadmm", seed, "clean"), self.tables("clean")
            return _outcome(cn.summarise(run, train, share, most=most, test=test))

        return self.kept(self._name("vimadmm", seed, kind), find)

    def maps(self, seed: int) -> dict[str, list[list[float]]]:
        """t-SNE points of VIMADMM's largest and smallest head's party, and the rows' classes."""

        def find() -> dict[str, list[list[float]]]:
            run, (_, test) = self.trained("vimadmm", seed, "clean"), self.tables("clean")
            norms = run.importance()
            found = cn.embedding_map(run, test, by="tsne", rows=MAPPED, seed=seed)
            ends = [max(norms, key=norms.__getitem__), min(norms, key=norms.__getitem__)]
            points = {name: found.points[name].double().round(decimals=2).tolist() for name in ends}
            return points | {"classes": [[float(one)] for one in found.labels]}

        return self.kept(self._name("vimadmm", seed, "t-sne"), find)

    def trained(self, method: str, seed: int, kind: str, **change: Any) -> cn.Run:
        """A run from its folder, or trained there."""
        name, (train, test) = self._name(method, seed, kind, **change), self.tables(kind)
        place = self.runs / slug(name)
        if (place / "config.json").exists():
            return cn.resume(place, train, test=test)
        subject = self.subject
        how: dict[str, Any] = {"batch": subject.batch, "model": subject.model, "valid": VALID}
        how |= self.length(method, kind)
        began = time.process_time()
        run = cn.train(train, replace(subject.methods[method], **change), seed=seed, test=test, folder=place, **how)
        print(f"{name}: trained in {time.process_time() - began:.0f} CPU seconds", flush=True)
        return run

    def _name(self, method: str, seed: int, kind: str, **change: Any) -> str:
        changes = [f"{option} {value:g}" for option, value in change.items()]
        return ", ".join([self.data, method, *changes, kind, self.size(method, kind), f"seed {seed}"])


def _outcome(run: cn.Run) -> Found:
    accuracies = {f"epoch {row['epoch']:g}": row["test_accuracy"] for row in run.history}
    norms = run.importance() if run.method.name.startswith("vim") else {}
    return accuracies | {"accuracy": run.history[-1]["test_accuracy"]} | norms


def means(found: Sequence[Found]) -> Found:
    """The mean over seeds of what all of them found."""
    known = [one for one in found if one]
    if not known:
        return {}
    shared = set(known[0]).intersection(*known)  # runs of some of the parties have other parties with every seed
    return {name: mean(one[name] for one in known) for name in known[0] if name in shared}
