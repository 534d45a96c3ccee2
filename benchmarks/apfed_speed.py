"""CPU per batch of APFed beside a plain script with the authors' layout: MNIST, two views, batch 128, one thread.

    python -m benchmarks.apfed_speed               CPU-seconds per batch, ratios, medians of --batches
    python -m benchmarks.apfed_speed --accuracy    also trains both of our networks on setting 2-1 (ten minutes)

The plain script has the layout of the authors' code: the feature map of 15,360 numbers goes to the passive party,
which decodes it (APFed-R) or compares linear projections to 64 numbers (APFed-C); one optimiser for encoder, task net
and each other network. Ours are measured whole, with channel and ledger, once with the paper's networks and once with
the same layers at stride 2. All take turns in one process, so that a slow minute of the machine hits all of them.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import colonnade as cn
from benchmarks.apfed import SIZES, STRIDED, Size, apfed, bands, fit, last, single
from benchmarks.kept import Kept
from benchmarks.table import show

BATCH = 128
LOSSES = {"APFed-R": "reconstruction", "APFed-C": "contrastive"}


class Plain:
    """One batch of the authors' layout at a time."""

    def __init__(self, loss: str, tables: list[cn.Table]) -> None:
        self.loss, self.tables = loss, tables
        self.encoder, self.passive = _encoder(), _encoder() if loss == "contrastive" else _decoder()
        self.task = nn.Sequential(
            nn.Flatten(), nn.Linear(15360, 256), nn.ReLU(), nn.Dropout(0.5), nn.Linear(256, 10), nn.LogSoftmax(1)
        )
        self.projections = [nn.Linear(15360, 64) for _ in range(2 if loss == "contrastive" else 0)]
        nets = [self.encoder, self.passive, self.task, *self.projections]
        self.optimizers = [torch.optim.SGD(net.parameters(), 1e-3, 0.9, weight_decay=1e-4) for net in nets]

    def batch(self, rows: Tensor) -> None:
        """The owner's map, the party's gradient, and everybody's step."""
        own, other = (table.draw(rows).unsqueeze(1) for table in self.tables)
        features = self.encoder(own)
        sent = features.detach().requires_grad_()
        passive = self._contrast(sent, other) if self.loss == "contrastive" else F.mse_loss(self.passive(sent), other)
        for optimizer in self.optimizers:
            optimizer.zero_grad()
        passive.backward()
        F.nll_loss(self.task(features), self.tables[0].labels[rows]).backward(retain_graph=True)
        features.backward(sent.grad)
        for optimizer in self.optimizers:
            optimizer.step()

    def _contrast(self, sent: Tensor, other: Tensor) -> Tensor:
        a, b = (net(x.flatten(1)) for net, x in zip(self.projections, (sent, self.passive(other)), strict=True))
        a, b = F.normalize(a, dim=1), F.normalize(b, dim=1)
        within = (a @ a.T).masked_fill(torch.eye(len(a), dtype=torch.bool), -torch.inf)
        return F.cross_entropy(torch.cat([a @ b.T, within], dim=1), torch.arange(len(a)))


def _encoder() -> nn.Module:
    return nn.Sequential(nn.Conv2d(1, 32, 5, padding=1), nn.ReLU(), nn.Conv2d(32, 64, 5, padding=1), nn.ReLU())


def _decoder() -> nn.Module:
    return nn.Sequential(nn.ConvTranspose2d(64, 32, 5, padding=1), nn.ReLU(), nn.ConvTranspose2d(32, 1, 5, padding=1))


def plain_batches(loss: str, tables: list[cn.Table]) -> Callable[[], None]:
    script, batches = Plain(loss, tables), iter(torch.arange(tables[0].rows).split(BATCH))
    return lambda: script.batch(next(batches))


def our_batches(loss: str, tables: list[cn.Table], model: cn.APFedCNN, count: int) -> Callable[[], None]:
    """Each call goes on for one round: a thread-free way to take turns with the others."""
    size = SIZES["mnist"]
    run = cn.train(tables, apfed(size, loss), rounds=1, batch=BATCH, model=model, evaluate_every=count + 2)

    def one() -> None:
        run.prolong(run.round + 1)
        run.fit()

    return one


def seconds(runners: dict[str, Callable[[], None]], count: int) -> dict[str, list[float]]:
    """CPU-seconds of every runner's batches, taken in turns; the first of each is thrown away."""
    found: dict[str, list[float]] = {name: [] for name in runners}
    for _ in range(count + 1):
        for name, run in runners.items():
            began = time.process_time()
            run()
            found[name].append(time.process_time() - began)
    return {name: times[1:] for name, times in found.items()}


def speed_rows(count: int) -> Iterator[list[str]]:
    tables, _ = cn.load("mnist", parties=2, by="bands", owner="first", rows=BATCH * (count + 2))
    for name, loss in LOSSES.items():
        runners = {
            "plain": plain_batches(loss, tables),
            "paper's nets": our_batches(loss, tables, cn.APFedCNN(), count),
            "stride 2": our_batches(loss, tables, STRIDED, count),
        }
        middle = {key: statistics.median(times) for key, times in seconds(runners, count).items()}
        ratios = [f"{middle['plain'] / middle[key]:.1f}x" for key in ("paper's nets", "stride 2")]
        yield [name, *(f"{1000 * value:.0f}" for value in middle.values()), *ratios]


def accuracies(size: Size) -> dict[str, float]:
    methods: dict[str, cn.Method] = {"SingleVL": single(size)}
    methods |= {name: apfed(size, loss) for name, loss in LOSSES.items()}
    tables, began = bands("mnist", "2-1", 0), time.process_time()
    found = {name: last(fit(tables, method, size, 0)) for name, method in methods.items()}
    return found | {"seconds": time.process_time() - began}


def accuracy_rows(folder: Path) -> Iterator[list[str]]:
    """What the stride costs in accuracy, at the size of the table."""
    kept = Kept(folder)
    for name, model in (("paper's nets", cn.APFedCNN()), ("stride 2", STRIDED)):
        found = kept(f"speed {name}", partial(accuracies, SIZES["mnist"]._replace(model=model)))
        yield [name, *(f"{found[key]:.2f}" for key in ("SingleVL", *LOSSES)), f"{found['seconds']:.0f}"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batches", type=int, default=9)
    parser.add_argument("--accuracy", action="store_true")
    parser.add_argument("--folder", type=Path, default=Path("runs/apfed"))
    options = parser.parse_args()
    torch.set_num_threads(1)
    show(
        f"CPU-milliseconds per batch of {BATCH}, medians of {options.batches} taken in turns",
        ["method", "plain, authors' layout", "ours, paper's nets", "ours, stride 2", "paper's nets", "stride 2"],
        list(speed_rows(options.batches)),
    )
    if options.accuracy:
        show(
            "mnist 2-1, seed 0: test accuracy in %",
            ["networks", "SingleVL", *LOSSES, "CPU s"],
            list(accuracy_rows(options.folder)),
        )


if __name__ == "__main__":
    main()
