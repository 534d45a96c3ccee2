"""Do APFed's contributions rank the parties as training without each of them does?

    python -m benchmarks.contributions                      seeds 0 to 2, both losses

MNIST in four bands; the owner holds the second. Passive parties: the other bands, a party whose columns are noise, and
one whose columns are another row's third band (real pixels about the wrong people). ``contribution_every`` measures
every tenth round on rows held out; the check trains anew without each party and compares the test losses. Both are
means over the seeds. Results are kept in ``--folder``, one file a run.
"""

from __future__ import annotations

import argparse
import statistics
from functools import partial
from pathlib import Path

import torch
from scipy.stats import spearmanr

import colonnade as cn
from benchmarks.kept import Kept
from benchmarks.table import show

ROWS, ROUNDS, BATCH, LR = 2000, 600, 128, 0.05
OPTIONS = {"reconstruction": {"weight": 3.0}, "contrastive": {"weight": 1.0}}


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
    named = {"band 1": above.columns, "band 3": below.columns, "band 4": lowest.columns}
    named |= {"noise": noise, "strangers": strangers}
    return [owner, *(cn.Table(owner.ids, pixels, name=name, scale=below.scale) for name, pixels in named.items())]


def trained(loss: str, seed: int, without: str | None = None) -> dict[str, float]:
    """The test loss of the owner's model, and with everybody there the contributions."""
    train, test = ([t for t in tables if t.name != without] for tables in federations(seed))
    method = cn.APFed(
        loss=loss,
        embedding=128,
        dropout=0.5,
        lr=LR,
        decay=1e-4,
        contribution_every=0 if without else 10,
        **OPTIONS[loss],  # type: ignore[arg-type]
    )
    run = cn.train(
        train, method, rounds=ROUNDS, batch=BATCH, seed=seed, model=cn.MLP((128,)), valid=0.1, test=test,
        evaluate_every=ROUNDS // 20,
    )  # fmt: skip
    found = {"loss": statistics.mean(row["test_loss"] for row in run.history[-4:])}
    return found | ({} if without else run.importance())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--losses", nargs="+", default=list(OPTIONS), choices=list(OPTIONS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--folder", type=Path, default=Path("runs/contributions"))
    options = parser.parse_args()
    kept = Kept(options.folder)
    names = [table.name for table in federations(0)[0][1:]]
    for loss in options.losses:
        whole = [kept(f"{loss} all {s}", partial(trained, loss, s)) for s in options.seeds]
        measured, retrained = {}, {}
        for name in names:
            apart = [kept(f"{loss} without {name} {s}", partial(trained, loss, s, name)) for s in options.seeds]
            measured[name] = statistics.mean(run[name] for run in whole)
            retrained[name] = statistics.mean(a["loss"] - w["loss"] for a, w in zip(apart, whole, strict=True))
        agreement = spearmanr(list(measured.values()), list(retrained.values())).statistic
        show(
            f"{loss}: rise of the loss without the party, seeds {options.seeds}; Spearman {agreement:.2f}",
            ["party", "measured in training, per step x 10^6", "retrained without, x 10^3"],
            [[name, f"{1e6 * measured[name]:.2f}", f"{1e3 * retrained[name]:.2f}"] for name in names],
        )


if __name__ == "__main__":
    main()
