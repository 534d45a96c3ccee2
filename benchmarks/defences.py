"""Defences against curious parties and a curious owner: what each costs, and what attacks still read.

    python -m benchmarks.defences                                      everything, seeds 0 to 2
    python -m benchmarks.defences --parts labels --data credit --seeds 0
    python -m benchmarks.defences --only-show

*Labels*: ``splitnn`` on the rows, columns and networks of ``benchmarks/tables.py`` (digits: four parties, the same
networks), and the attacks of ``benchmarks/received_gradients.py`` on the gradients that each party receives; the worst
party counts. *Columns*: decoders of ``benchmarks/rebuilding.py`` with 200 known rows, a line and a
network, on the last embeddings and on their mean over all epochs; the best of the four counts.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

import colonnade as cn
from benchmarks.kept import Kept
from benchmarks.rebuilding import classes_of, columns_of, last_read, mean_read, r2, shuffled
from benchmarks.received_gradients import (
    auc,
    evened,
    few_known,
    few_labels,
    flat,
    learnt,
    receiving,
    shapes,
    unsupervised,
)
from benchmarks.table import show
from benchmarks.tables import BATCH, EPOCHS, MODEL, WIDTH, Federations, federations

Array = np.ndarray
Answers = dict[str, Any]
WATCHED = 6000
OWN = cn.Pretrained((WIDTH,), epochs=10, by="masked")


class Defence(NamedTuple):
    """A way to train: in how many epochs the parties learn (None: in all), for how many the top net, under what."""

    seal: Any = None
    taught: int | None = None
    epochs: float = 1.0
    model: Any = MODEL
    method: cn.Method | None = None


LABELS = {
    "nothing": Defence(),
    "max-norm": Defence(cn.MaxNorm()),
    "Marvell, power 1": Defence(cn.Marvell(1.0)),
    "Marvell, power 4": Defence(cn.Marvell(4.0)),
    "Marvell, power 16": Defence(cn.Marvell(16.0)),
    "each row once": Defence(taught=1),
    "Marvell, power 4, each row once": Defence(cn.Marvell(4.0), taught=1),
    "class noise, power 4, each row once": Defence(cn.ClassNoise(4.0), taught=1),
    "labels at epsilon 2": Defence(cn.RandomLabels(2.0)),
    "labels at epsilon 1": Defence(cn.RandomLabels(1.0)),
    "labels at epsilon 1, then the top net alone": Defence(cn.RandomLabels(1.0), taught=-1, epochs=2.0, model=OWN),
    "never taught": Defence(taught=0),
    "never taught, trained on own rows": Defence(taught=0, model=OWN),
    "oneshot, labels at epsilon 2": Defence((cn.Bits(8, ways="up"), cn.RandomLabels(2.0)), method=cn.OneShot()),
    "oneshot, labels at epsilon 0.6": Defence((cn.Bits(8, ways="up"), cn.RandomLabels(0.6)), method=cn.OneShot()),
    "oneshot, pca": Defence(cn.Bits(4), method=cn.OneShot(learn="pca")),
}
DIGITS = {
    "nothing": Defence(),
    "class noise, power 4": Defence(cn.ClassNoise(4.0)),
    "class noise, power 16": Defence(cn.ClassNoise(16.0)),
    "each row once": Defence(taught=1),
    "class noise, power 16, each row once": Defence(cn.ClassNoise(16.0), taught=1),
    "labels at epsilon 2": Defence(cn.RandomLabels(2.0)),
    "never taught": Defence(taught=0),
    "never taught, trained on own rows": Defence(taught=0, model=OWN),
}
VAFL_SUM = cn.VAFL(embedding=WIDTH, lr=0.3, learn_weights=False)
COLUMNS = {
    "nothing": Defence(),
    "Bits(4)": Defence(cn.Bits(4)),
    "TopK(0.1)": Defence(cn.TopK(0.1)),
    "Noise, sigma 0.1": Defence(cn.Noise(epsilon=1e6, sigma=0.1, clip=1.0)),
    "Blind (vafl, fixed weights)": Defence(cn.Blind(), method=VAFL_SUM),
    "bottleneck, strength 0.0001": Defence(model=cn.Bottleneck((WIDTH,), 0.0001)),
    "bottleneck, strength 0.001": Defence(model=cn.Bottleneck((WIDTH,), 0.001)),
    "bottleneck, strength 0.01": Defence(model=cn.Bottleneck((WIDTH,), 0.01)),
    "bottleneck, strength 0.1": Defence(model=cn.Bottleneck((WIDTH,), 0.1)),
    **{f"embedding {k}": Defence(method=cn.SplitNN(embedding=k, hidden=WIDTH, lr=0.1)) for k in (32, 16, 8, 4, 2, 1)},
    "never taught, trained on own rows": Defence(taught=0, model=OWN),
    "oneshot, pca": Defence(cn.Bits(4), method=cn.OneShot(learn="pca")),
}


def trained(
    way: Defence, tables: list[cn.Table], epochs: int, seed: int, record: cn.Recording | bool = False
) -> cn.Run:
    """A run under a defence. ``taught=-1`` is all but the epochs that the defence adds."""
    method = way.method
    if method is None:
        each = -(-tables[0].rows // BATCH)
        taught = None if way.taught is None else each * (epochs if way.taught == -1 else way.taught)
        own = {"optimizer": "adam", "lr": 0.001} if way.model is OWN else {"lr": 0.1}
        method = cn.SplitNN(embedding=WIDTH, hidden=WIDTH, party_rounds=taught, **own)
    options: dict[str, Any] = {"model": way.model, "optimizer": cn.Adam(0.001, decay=0.01), "evaluate_every": 10**9}
    options |= {} if isinstance(method, cn.OneShot) else {"epochs": int(epochs * way.epochs), "batch": BATCH}
    return cn.train(tables, method, seed=seed, seal=way.seal, record=record, **options)


def label_attacks(way: Defence, pair: Federations, epochs: int, seed: int) -> Answers:
    """Test AUC, and what the worst party reads; nothing is read where nothing is sent down."""
    train, test = pair
    order = np.random.default_rng([seed, 7]).permutation(train[0].rows)
    shadow_rows, scored = np.sort(order[: len(order) // 2]), order[len(order) // 2 :][:WATCHED]
    began = time.process_time()
    with receiving(scored, train[0].rows) as received:
        run = trained(way, train, epochs, seed)
    found: Answers = {"seconds": time.process_time() - began, **quality(run, test)}
    heard = received.by_party()
    if not heard:
        return found | labels_sent(run)
    with receiving(np.arange(len(shadow_rows)), len(shadow_rows)) as own:
        trained(way, [table.take(shadow_rows) for table in train], epochs, seed + 1000)
    y = np.asarray(train[0].labels)
    columns = {table.name: table.columns.numpy() for table in train[1:] if table.columns is not None}
    each = [
        read_by(heard[name], y[scored], (own.by_party()[name], y[shadow_rows]), columns[name][scored], seed)
        for name in heard
    ]
    return found | {attack: max(one[attack] for one in each) for attack in each[0]}


def labels_sent(run: cn.Run) -> Answers:
    """What is read of noisy labels that were sent as they are; nothing if none were."""
    soft = run.model.owner.soft
    if soft is None or run.method.sends[1].startswith("nothing"):
        return {}
    read = auc(np.asarray(run.model.owner.tables["train"]), soft[:, 1].numpy())
    return {"unsupervised": read, "shadow": read}


def quality(run: cn.Run, test: list[cn.Table]) -> Answers:
    scores = run.evaluate(test)
    return {"auc": scores["auc"] if "auc" in scores else scores["accuracy"], "accuracy": scores["accuracy"]}


def read_by(
    heard: tuple[Array, Array], labels: Array, shadow: tuple[tuple[Array, Array], Array], columns: Array, seed: int
) -> Answers:
    """What one party reads of two classes from its gradients, by every attack, and what its columns tell without."""
    gradients, rounds = heard
    half = len(labels) // 2
    mine, theirs = shapes(gradients, rounds), shapes(*shadow[0])
    epochs = min(mine.shape[1], theirs.shape[1])
    guess = learnt(flat(theirs[:, :epochs]), shadow[1], flat(mine[:, :epochs]), seed)
    whole = np.concatenate([flat(mine), evened(gradients, rounds).mean(0)], 1)
    known = {"half known": whole, "half known, columns": columns, "half known, both": np.hstack([whole, columns])}
    informed = {
        name: float(roc_auc_score(labels[half:], learnt(values[:half], labels[:half], values[half:], seed)))
        for name, values in known.items()
    }
    area = float(roc_auc_score(labels, guess))
    return {
        "unsupervised": unsupervised(mine, gradients, labels),
        "few labels": few_labels(evened(gradients, rounds), labels, seed),
        "few labels, columns": few_known(columns, labels, seed),
        "shadow": max(area, 1.0 - area),
        **informed,
    }


def digit_attacks(way: Defence, pair: Federations, epochs: int, seed: int) -> Answers:
    """Test accuracy, and what the worst party reads that knows ten labels a class, or those of half of the rows."""
    train, test = pair
    scored = np.random.default_rng([seed, 7]).permutation(train[0].rows)
    began = time.process_time()
    with receiving(scored, train[0].rows) as received:
        run = trained(way, train, epochs, seed)
    found: Answers = {"seconds": time.process_time() - began, **quality(run, test)}
    y, heard = np.asarray(train[0].labels)[scored], received.by_party()
    columns = {table.name: table.columns.flatten(1).numpy() for table in train if table.columns is not None}
    each = []
    for name, (gradients, rounds) in heard.items():
        mean, own = evened(gradients, rounds).mean(0), columns[name][scored].astype(np.float32)
        each.append(
            {
                f"{known}{what}": digits_read(values, y, count, seed)
                for known, count in (("few labels", 10), ("half known", len(y) // 20))
                for what, values in (("", mean), (", columns", own))
            }
        )
    return found | ({name: max(one[name] for one in each) for name in each[0]} if each else {})


def digits_read(values: Array, labels: Array, count: int, seed: int) -> float:
    """Accuracy on the other rows of a line that was fitted on so many labels of each class."""
    order = np.random.default_rng(seed).permutation(len(labels))
    known = np.concatenate([order[labels[order] == c][:count] for c in np.unique(labels)])
    rest = np.setdiff1d(order, known)
    scale = values[known].std(0) + 1e-9
    model = LogisticRegression(C=1.0, max_iter=500).fit(values[known] / scale, labels[known])
    return float(model.score(values[rest] / scale, labels[rest]))


def column_attacks(way: Defence, pair: Federations, epochs: int, seed: int) -> Answers:
    """Test AUC, and R2 of the other parties' columns with 200 known rows; nothing if there is nobody to blind."""
    train, test = pair
    if isinstance(way.seal, cn.Blind) and len(train) < 3:  # the first is the owner, whose columns never travel
        return {}
    began = time.process_time()
    run = trained(way, train, epochs, seed, record=cn.Recording(rows=6000, megabytes=512))
    found: Answers = {"seconds": time.process_time() - began, **quality(run, test)}
    best = []
    for rows, read in (last_read(run.view), mean_read(run.view)):
        columns = columns_of(train[1:], rows)
        best += [r2(read, columns, by=by, seed=seed) for by in ("ridge", "network")]
    control = max(r2(classes_of(train, rows), columns, by=by, seed=seed) for by in ("ridge",))
    mixed = max(r2(shuffled(read, seed), columns, by=by, seed=seed) for by in ("ridge", "network"))
    widths = {"numbers": read.shape[1], "columns": columns.shape[1]}
    return (
        found | {"r2": max(best), "r2 of the last": max(best[:2]), "labels only": control, "shuffled": mixed} | widths
    )


PARTS: dict[str, tuple[dict[str, Defence], Any, Sequence[str]]] = {
    "labels": (LABELS, label_attacks, ("credit", "bank")),
    "digits": (DIGITS, digit_attacks, ("digits",)),
    "columns": (COLUMNS, column_attacks, ("credit", "bank")),
}


def tables_of(data: str, seed: int) -> tuple[Federations, int]:
    """Rows to train on and to score on, and the epochs."""
    if data == "digits":
        train, test = cn.load("digits", parties=4)
        return (train, test), 20
    return federations(data, seed, "test"), EPOCHS[data][0]


def shown(part: str, data: str, each: dict[str, list[Answers]]) -> None:
    """One table: means over the seeds, and the greatest value of attacks."""
    header = [name for name in next(iter(each.values()))[0] if name != "accuracy" or part == "digits"]
    rows = []
    for name, answers in each.items():
        cells = [[one[column] for one in answers if column in one] for column in header]
        rows.append([name, *(f"{statistics.mean(cell):.3f} ({max(cell):.3f})" if cell else "-" for cell in cells)])
    show(f"{part}, {data}: mean (greatest) of {len(next(iter(each.values())))} seeds", ["defence", *header], rows)


def main() -> None:
    """Run what is missing, and show all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=Path(__file__).parent / "results" / "defences")
    parser.add_argument("--parts", nargs="+", default=list(PARTS), choices=list(PARTS))
    parser.add_argument("--data", nargs="+", default=["credit", "bank", "digits"])
    parser.add_argument("--defences", nargs="+", default=None)
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--only-show", action="store_true")
    options = parser.parse_args()
    kept = Kept(options.folder, train=not options.only_show)
    found: dict[tuple[str, str], dict[str, list[Answers]]] = {}
    for seed in options.seeds:
        for part in options.parts:
            defences, attack, all_data = PARTS[part]
            for data in [one for one in options.data if one in all_data]:
                for name in options.defences or defences:
                    way, place = defences[name], f"{part} {data} {name} {seed}"

                    def find(way: Defence = way, data: str = data, attack: Any = attack, seed: int = seed) -> Answers:
                        pair, epochs = tables_of(data, seed)
                        return attack(way, pair, epochs, seed)  # type: ignore[no-any-return]

                    answers = kept(place, find)
                    if answers:
                        found.setdefault((part, data), {}).setdefault(name, []).append(answers)
    for (part, data), each in found.items():
        shown(part, data, each)


if __name__ == "__main__":
    main()
