"""Real tables: the owner alone, every method, and all columns in one place; test AUC, bytes, CPU seconds.

    python -m benchmarks.tables                                    all data sets and methods, seeds 0 to 2
    python -m benchmarks.tables --data credit --methods splitnn vimadmm-j --seeds 0
    python -m benchmarks.tables --rows valid --seeds 0             to choose settings: no test row is looked at
    python -m benchmarks.tables --only-show

The files are those of ``examples/make_files.py``, who has what is in the examples' jobs. Only rows that all parties
have are used, by everybody, the owner alone included; a fifth of them, which follows from the seed, is for testing.
Every network is an MLP of one hidden layer per party, trained with Adam; the owner's part has the paper's SGD.
Results are kept in ``--folder``, one file a run.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache, partial, reduce
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

import colonnade as cn
from benchmarks.kept import Found, Kept
from benchmarks.table import show

EXAMPLES = Path(__file__).parents[1] / "examples"
Federations = tuple[list[cn.Table], list[cn.Table]]
WIDTH, BATCH = 64, 256
MODEL = cn.MLP((WIDTH,))
EPOCHS = {"credit": (8, 5), "bank": (5, 4), "adult": (5, 4)}  # with one step a round, with several


class How(NamedTuple):
    """A method and how far a step of it goes: those of several steps a round take smaller ones and fewer epochs."""

    method: cn.Method
    several: bool = False
    seal: tuple[cn.Seal, ...] = ()
    rounds: int | None = None  # instead of epochs

    @property
    def optimizer(self) -> cn.Adam:
        return cn.Adam(0.0003 if self.several else 0.001, decay=0.01)


ALONE, NETWORK = "owner alone, network", "all columns, network"
METHODS = {
    ALONE: How(cn.Local(embedding=WIDTH, optimizer="sgd")),
    "splitnn": How(cn.SplitNN(embedding=WIDTH, hidden=WIDTH, lr=0.1)),
    "vafl": How(cn.VAFL(embedding=WIDTH, lr=0.3)),
    "vimsgd": How(cn.VIMSGD(embedding=WIDTH, lr=0.3)),
    "fdml": How(cn.FDML(embedding=WIDTH, optimizer="sgd")),
    "aggvfl": How(cn.AggVFL(embedding=WIDTH, optimizer="sgd")),
    "vfedmh": How(cn.VFedMH(embedding=WIDTH, optimizer="sgd")),
    "fedbcd": How(cn.FedBCD(embedding=WIDTH, lr=0.05), several=True),
    "cvfl": How(cn.CVFL(embedding=WIDTH, lr=0.05), several=True),
    "vimadmm": How(cn.VIMADMM(embedding=WIDTH, lr=0.1, local_steps=5), several=True),
    "vimadmm-j": How(cn.VIMADMMJ(embedding=WIDTH, local_steps=5, optimizer="sgd"), several=True),
    "apfed": How(cn.APFed(embedding=WIDTH, optimizer="sgd")),
    "tvfl": How(cn.TVFL(embedding=WIDTH, hidden=WIDTH, fill="mean", optimizer="sgd")),
}
EPSILON, BITS = 2.0, cn.Bits(8, ways="up")
ONESHOT = {
    "oneshot, labels sent": How(cn.OneShot(), seal=(BITS,)),
    "oneshot, labels at epsilon 2": How(cn.OneShot(), seal=(BITS, cn.RandomLabels(EPSILON))),
    "oneshot, no label sent (pca, 4 bits)": How(cn.OneShot(learn="pca"), seal=(cn.Bits(4),)),
    "control: oneshot, networks": How(cn.OneShot(learner="network", top="network"), seal=(BITS,)),
}
SMALLER = (3, 4), (4, 3), (4, 4), (7, 2)  # numbers a row and party, and bits of each: less than the usual 8 x 4
ONESHOT |= {
    f"oneshot, no label sent (pca, {numbers} numbers of {bits} bits)": How(
        cn.OneShot(learn="pca", embedding=numbers), seal=(cn.Bits(bits),)
    )
    for numbers, bits in SMALLER
}
METHODS |= ONESHOT
METHODS["gal"] = How(cn.GAL(), rounds=10)  # the paper's number of rounds, and the method's own trees
OTHERS: dict[str, Callable[[int], Any]] = {
    "all columns, logistic regression": lambda seed: LogisticRegression(max_iter=1000),
    "all columns, boosted trees": lambda seed: HistGradientBoostingClassifier(
        learning_rate=0.05, max_iter=200, random_state=seed
    ),
    "all columns, trees of oneshot's size": lambda seed: HistGradientBoostingClassifier(
        learning_rate=0.05, max_iter=150, max_leaf_nodes=8, l2_regularization=1.0, random_state=seed
    ),
}


def aligned(sheets: Sequence[cn.Sheet]) -> dict[str, np.ndarray]:
    """Each sheet's rows of the ids that all have."""
    common = reduce(np.intersect1d, [sheet.ids for sheet in sheets])
    orders = {sheet.name: np.argsort(sheet.ids) for sheet in sheets}
    return {s.name: orders[s.name][np.searchsorted(s.ids, common, sorter=orders[s.name])] for s in sheets}


def sheets_of(data: str, folder: Path) -> list[cn.Sheet]:
    """The files of an example, made in the folder and read as its job says."""
    job = tomllib.loads((EXAMPLES / data / "job.toml").read_text())
    command = [sys.executable, str(EXAMPLES / "make_files.py"), data, str(folder / "files")]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    rule = job["align"]["normalise"]
    return [_read(folder, rule, **party) for party in job["party"]]


def _read(folder: Path, rule: Sequence[str], files: str | Sequence[str], **how: Any) -> cn.Sheet:
    each = [files] if isinstance(files, str) else files
    return cn.read([str(folder / one) for one in each], normalise=rule, **how)


@cache
def federations(data: str, seed: int, rows: str) -> Federations:
    """To train on and to score on: the test rows, or a fifth of the others."""
    with tempfile.TemporaryDirectory() as name:
        sheets = sheets_of(data, Path(name))
        train, test = cn.prepare(sheets, aligned(sheets), test=0.2, seed=seed)
    if rows == "test":
        return train, test
    order = np.random.default_rng(seed).permutation(train[0].rows)
    few = train[0].rows // 5
    return [table.take(np.sort(order[few:])) for table in train], [table.take(np.sort(order[:few])) for table in train]


def in_one_place(tables: Sequence[cn.Table]) -> list[cn.Table]:
    """The federation of one that has all columns."""
    columns = torch.cat([table.columns for table in tables], dim=1)
    return [replace(tables[0], columns=columns, column_names=(), preparation=None)]


def fitted(how: How, epochs: tuple[int, int], pair: Federations, seed: int) -> Found:
    """Train a method and score it."""
    train, held = pair
    began = time.process_time()
    options: dict[str, Any] = {"model": MODEL, "optimizer": how.optimizer, "evaluate_every": 10**9, "seal": how.seal}
    options |= {"epochs": epochs[how.several]} if how.rounds is None else {"rounds": how.rounds}
    run = cn.train(train, how.method, batch=BATCH, seed=seed, **options)
    seconds, sent = time.process_time() - began, run.ledger.total
    return {"auc": run.evaluate(held)["auc"], "bytes": sent, "seconds": seconds}


def scikit_learns(model: Any, pair: Federations) -> Found:
    train, held = pair[0][0], pair[1][0]
    began = time.process_time()
    model.fit(train.columns.numpy(), train.labels.numpy())
    seconds = time.process_time() - began
    scores = model.predict_proba(held.columns.numpy())[:, 1]
    return {"auc": float(roc_auc_score(held.labels, scores)), "bytes": 0, "seconds": seconds}


def find(name: str, data: str, seed: int, rows: str) -> Found:
    """What one line of the table has to say about one seed."""
    pair, epochs = federations(data, seed, rows), EPOCHS[data]
    whole = in_one_place(pair[0]), in_one_place(pair[1])
    if name in METHODS:
        return fitted(METHODS[name], epochs, pair, seed)
    if name == NETWORK:
        return fitted(METHODS[ALONE], epochs, whole, seed)
    return scikit_learns(OTHERS[name](seed), whole)


def mean_of(found: Sequence[Found], key: str) -> float:
    return statistics.mean(run[key] for run in found)


Cells = dict[str, list[Found]]


def cells_of(kept: Kept, data: str, names: Sequence[str], seeds: Sequence[int], rows: str) -> Cells:
    """All that was run for all seeds."""
    cells = {}
    for name in names:
        found = [kept(f"{data} {rows} {name} {seed}", partial(find, name, data, seed, rows)) for seed in seeds]
        if all(found):
            cells[name] = found
    return cells


def table(title: str, cells: Cells) -> None:
    """One data set, a line for each."""
    heads = ["", "AUC", "by seed", "over the network on all columns", "MB sent", "CPU s"]
    show(title, heads, [[name, *_line(found, cells.get(NETWORK))] for name, found in cells.items()])


def summary(title: str, names: Sequence[str], all_cells: dict[str, Cells]) -> None:
    """AUC and MB of all data sets side by side."""
    lines = [
        [name, *(_short(cells[name]) if name in cells else "not run" for cells in all_cells.values())] for name in names
    ]
    show(title, ["AUC (MB sent)", *all_cells], lines)


def _short(found: Sequence[Found]) -> str:
    megabytes = mean_of(found, "bytes") / 1e6
    return f"{mean_of(found, 'auc'):.4f}" + (f" ({megabytes:.1f})" if megabytes else "")


def _line(found: Sequence[Found], network: Sequence[Found] | None) -> list[str]:
    auc, each = mean_of(found, "auc"), ", ".join(f"{run['auc']:.4f}" for run in found)
    over = "" if network is None else f"{auc - mean_of(network, 'auc'):+.4f}"
    megabytes = mean_of(found, "bytes") / 1e6
    return [f"{auc:.4f}", each, over, f"{megabytes:.1f}" if megabytes else "-", f"{mean_of(found, 'seconds'):.1f}"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [*METHODS, NETWORK, *OTHERS]
    parser.add_argument("--data", nargs="+", default=list(EPOCHS), choices=list(EPOCHS))
    parser.add_argument("--methods", nargs="+", default=names, choices=names)
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--rows", default="test", choices=["test", "valid"], help="which rows are scored")
    parser.add_argument("--folder", type=Path, default=Path("runs/tables"))
    parser.add_argument("--only-show", action="store_true")
    options = parser.parse_args()
    kept = Kept(options.folder, train=not options.only_show)
    which, all_cells = f"{options.rows} rows, mean of seeds {options.seeds}", {}
    for data in options.data:
        all_cells[data] = cells_of(kept, data, options.methods, options.seeds, options.rows)
        table(f"{data}: AUC on {which}", all_cells[data])
    summary(f"All: {which}", options.methods, all_cells)


if __name__ == "__main__":
    main()
