"""Do APFed's contributions rank the parties as training without each of them, or with it alone, does?

    python -m benchmarks.contributions                      seeds 0 to 3, both losses

MNIST in four bands; the owner holds the second. Passive parties: the other bands, a party whose columns are noise, and
one whose columns are another row's third band (real pixels about the wrong people). ``contribution_every`` measures
every tenth round on rows held out; the checks train anew without each party, and with each as the only one, and
compare test losses. All are means over the seeds, with their standard errors. Results are kept in ``--folder``, one
file a run.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from scipy.stats import spearmanr

import colonnade as cn
from benchmarks.kept import Found, Kept
from benchmarks.table import show

ROWS, ROUNDS, BATCH, LR = 2000, 600, 128, 0.05
WEIGHTS = {"reconstruction": 3.0, "contrastive": 1.0}
NAMES = ("band 1", "band 3", "band 4", "noise", "strangers")


def federations(seed: int) -> tuple[list[cn.Table], list[cn.Table]]:
    """Training and test tables with two parties that cannot help."""
    rows = [list(range(7 * k, 7 * k + 7)) for k in (1, 0, 2, 3)]
    train, test = cn.load("mnist", parties=rows, by="rows", owner="first", rows=ROWS, seed=seed)
    return _with_useless(train, seed), _with_useless(test, seed + 1)


def _with_useless(tables: list[cn.Table], seed: int) -> list[cn.Table]:
    owner, above, below, lowest = tables
    generator = torch.Generator().manual_seed(seed)
    noise = torch.randint(0, 256, below.columns.shape, generator=generator, dtype=torch.uint8)
    strangers = below.columns[torch.randperm(below.rows, generator=generator)]
    pixels = (above.columns, below.columns, lowest.columns, noise, strangers)
    named = zip(NAMES, pixels, strict=True)
    return [owner, *(cn.Table(owner.ids, columns, name=name, scale=below.scale) for name, columns in named)]


def trained(loss: str, seed: int, kept: Sequence[str]) -> Found:
    """The test loss of the owner's model with these parties beside it, and if they are all there the contributions."""
    train, test = ([tables[0], *(t for t in tables[1:] if t.name in kept)] for tables in federations(seed))
    common = {"embedding": 128, "dropout": 0.5, "lr": LR, "decay": 1e-4}
    every = 10 if len(kept) == len(NAMES) else 0
    apfed = cn.APFed(loss=loss, weight=WEIGHTS[loss], contribution_every=every, **common)  # type: ignore[arg-type]
    method = apfed if kept else cn.Local(**common)  # type: ignore[arg-type]
    how: dict[str, Any] = {"rounds": ROUNDS, "batch": BATCH, "valid": 0.1, "evaluate_every": ROUNDS // 20}
    run = cn.train(train, method, seed=seed, model=cn.MLP((128,)), test=test, **how)
    found = {"loss": statistics.mean(row["test_loss"] for row in run.history[-4:])}
    return found | (run.importance() if every else {})


def spread(values: Sequence[float], scale: float) -> str:
    """A mean with its standard error."""
    error = statistics.stdev(values) / len(values) ** 0.5 if len(values) > 1 else 0.0
    return f"{scale * statistics.mean(values):.2f} ± {scale * error:.2f}"


def compare(kept: Kept, loss: str, seeds: Sequence[int]) -> None:
    """One table: what was measured, and both checks."""

    def losses(who: str, parties: Sequence[str]) -> list[Found]:
        return [kept(f"{loss} {who} {seed}", partial(trained, loss, seed, parties)) for seed in seeds]

    whole, nobody = losses("all", NAMES), losses("nobody", ())
    columns: dict[str, dict[str, list[float]]] = {"measured": {}, "without": {}, "alone": {}}
    for name in NAMES:
        without = losses(f"without {name}", [one for one in NAMES if one != name])
        alone = losses(f"only {name}", [name])
        columns["measured"][name] = [run[name] for run in whole]
        columns["without"][name] = [a["loss"] - w["loss"] for a, w in zip(without, whole, strict=True)]
        columns["alone"][name] = [n["loss"] - a["loss"] for n, a in zip(nobody, alone, strict=True)]
    means = {key: [statistics.mean(column[name]) for name in NAMES] for key, column in columns.items()}
    agree = {key: spearmanr(means["measured"], means[key]).statistic for key in ("without", "alone")}
    show(
        f"{loss}, seeds {list(seeds)}; Spearman: without {agree['without']:.2f}, alone {agree['alone']:.2f}",
        ["party", "measured per step x 10^6", "loss rises without it x 10^3", "loss falls with it alone x 10^3"],
        [
            [name, *(spread(columns[key][name], scale) for key, scale in zip(columns, (1e6, 1e3, 1e3), strict=True))]
            for name in NAMES
        ],
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--losses", nargs="+", default=list(WEIGHTS), choices=list(WEIGHTS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2, 3])
    parser.add_argument("--folder", type=Path, default=Path("runs/contributions"))
    options = parser.parse_args()
    for loss in options.losses:
        compare(Kept(options.folder), loss, options.seeds)


if __name__ == "__main__":
    main()
