"""How often an audit finds something where nothing is: messages are replaced by independent noise, seed by seed.

    python -m benchmarks.false_alarms                          100 seeds on breast cancer, splitnn and fdml
    python -m benchmarks.false_alarms --seeds 5 --data digits
    python -m benchmarks.false_alarms --only-show

A run is trained once for each data set and method; its recorded messages are replaced by Gaussian noise of the same
shapes, with the mean and deviation of each message, which is drawn anew for each seed; so is what the audit draws. An
audit raises a false alarm if its worst word is hints, leaks or read. The shadow run learns from a second run with real
messages, which is what a defence that replaces all messages by noise would leave it. Model completion is left out: it
reads the party's own network, which real messages trained, so what it finds is there. Results are kept in ``--folder``.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

import colonnade as cn
from benchmarks.kept import Kept
from benchmarks.table import show
from colonnade.privacy.audit import chosen_attacks
from colonnade.privacy.material import Array
from colonnade.wire.view import Seen, View

NO_ALARM = ("nothing found", "not decided", "not tested")
OF_NO_MESSAGE = ("model completion",)
ROUNDS = 30


@cache
def trained(data: str, method: str) -> tuple[cn.Run, list[cn.Table]]:
    tables, _ = cn.load(data, rows=None if data == "breast_cancer" else 1400)
    return cn.train(tables, method, rounds=ROUNDS, record=True), tables


def noisy(view: View, seed: int) -> View:
    """The view with independent noise for every value of every message."""
    rng = np.random.default_rng(seed)
    return replace(view, seen=[_noisy(one, rng) for one in view.seen])


def _noisy(one: Seen, rng: np.random.Generator) -> Seen:
    parts = ({name: _like(value, rng) for name, value in part.items()} for part in (one.fields, one.others))
    fields, others = parts
    return one._replace(fields=fields, others=others)


def _like(value: Array, rng: np.random.Generator) -> Array:
    if not value.size or value.dtype.kind != "f":
        return value
    return np.asarray(value.mean() + value.std() * rng.standard_normal(value.shape), dtype=value.dtype)


def find(data: str, method: str, seed: int, budget: float) -> dict[str, Any]:
    """The worst word of one audit, and the words of all its secrets."""
    run, tables = trained(data, method)
    began = time.process_time()
    names = [one.name for one in chosen_attacks(None) if one.name not in OF_NO_MESSAGE]
    found = cn.audit(run, tables, budget=budget, attacks=names, seed=seed, view=noisy(run.view, seed))
    words = Counter(one.word for one in found.verdicts)
    by = [f"{one.secret} to {one.adversary}: {one.sentence}" for one in found.verdicts if one.word not in NO_ALARM]
    return {"worst": found.worst, "words": dict(words), "alarms": by, "seconds": time.process_time() - began}


def line(data: str, method: str, results: Sequence[dict[str, Any]]) -> list[object]:
    quiet = sum(one["worst"] in NO_ALARM for one in results)
    words: Counter[str] = sum((Counter(one["words"]) for one in results), Counter())
    told = ", ".join(f"{word} {count}" for word, count in words.most_common())
    return [data, method, len(results), f"{quiet} of {len(results)}", told]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", nargs="+", default=["breast_cancer"])
    parser.add_argument("--methods", nargs="+", default=["splitnn", "fdml"])
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--budget", type=float, default=60.0)
    parser.add_argument("--folder", type=Path, default=Path("benchmarks/results/false_alarms"))
    parser.add_argument("--only-show", action="store_true")
    asked = parser.parse_args()
    kept = Kept(asked.folder, train=not asked.only_show)
    rows = []
    for data in asked.data:
        for method in asked.methods:
            seeds = range(asked.seeds)
            each = [kept(f"{data} {method} {k}", partial(find, data, method, k, asked.budget)) for k in seeds]
            results = [one for one in each if one]
            rows += [line(data, method, results)] if results else []
    show("Audits of noise", ["data", "method", "seeds", "no alarm", "words of all secrets"], rows)


if __name__ == "__main__":
    main()
