"""A round of the methods with one step, against a loop written by hand with the same networks: CPU ms, and ratios.

MNIST, 14 parties of two rows, batch 1024, and a table of 24 columns, 4 parties, batch 256. The loop is what a
researcher without privacy would write: modules, one optimiser for all, one graph from the columns to the loss.
Medians and the least of each, all in one run, by turns.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor, nn

import colonnade as cn
from benchmarks.speed import cpu, step
from benchmarks.table import show

METHODS = {"splitnn": cn.SplitNN, "vafl": cn.VAFL, "fdml": cn.FDML}


class Plain:
    """The same networks as one ordinary model, with plain SGD."""

    def __init__(self, name: str, parts: Sequence[Tensor], y: Tensor, batch: int, embedding: int) -> None:
        self.name, self.parts, self.y, self.batch = name, parts, y, batch
        classes, self.rows = int(y.max()) + 1, torch.randperm(len(y))
        heads = name == "fdml"
        self.nets = nn.ModuleList(_network(part.shape[1], embedding, classes if heads else 0) for part in parts)
        width = embedding * len(parts)
        self.top: nn.Module = nn.Identity()
        if name == "splitnn":
            self.top = nn.Sequential(nn.Linear(width, 60), nn.ReLU(), nn.Linear(60, classes))
        if name == "vafl":
            self.top = nn.Linear(embedding, classes)
        self.alpha = nn.Parameter(torch.full((len(parts),), 1 / len(parts)))
        own = [self.alpha] if name == "vafl" else []
        all_weights = [*self.nets.parameters(), *self.top.parameters(), *own]
        self.optimizer = torch.optim.SGD(all_weights, lr=0.05, momentum=0.9, weight_decay=0.001)
        self.at = 0

    def round(self) -> None:
        self.at = self.at + self.batch if self.at + 2 * self.batch <= len(self.rows) else 0
        rows = self.rows[self.at : self.at + self.batch]
        h = [net(part.index_select(0, rows)) for net, part in zip(self.nets, self.parts, strict=True)]
        loss = nn.functional.cross_entropy(self._outputs(h), self.y[rows])
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()

    def _outputs(self, h: list[Tensor]) -> Tensor:
        if self.name == "fdml":
            return torch.stack(h).sum(0)
        if self.name == "vafl":
            return self.top(torch.einsum("k,kbe->be", self.alpha, torch.stack(h)))  # type: ignore[no-any-return]
        return self.top(torch.cat(h, dim=-1))  # type: ignore[no-any-return]


def _network(width: int, embedding: int, classes: int) -> nn.Module:
    body = [nn.Linear(width, 120), nn.ReLU(), nn.Linear(120, embedding), nn.ReLU()]
    return nn.Sequential(*body, *([nn.Linear(embedding, classes, bias=False)] if classes else []))


def table(rows: int = 20_000, columns: int = 24) -> list[cn.Table]:
    """Made-up columns: what a round costs does not depend on what they say."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(rows, columns)).astype(np.float32)
    return cn.split(x, (x[:, ::6].sum(1) > 0).astype(int), [list(range(k, k + 6)) for k in range(0, columns, 6)])


def contestants(name: str, tables: list[cn.Table], batch: int) -> dict[str, Callable[[], object]]:
    parts = [one.draw(torch.arange(one.rows)).flatten(1) for one in tables[1:]]
    method = METHODS[name](lr=0.05)
    plain = Plain(name, parts, tables[0].labels, batch, method.embedding)
    found: dict[str, Callable[[], object]] = {"plain loop": plain.round}
    for runtime in ("fused", "loop"):
        sgd = cn.SGD(lr=0.05, decay=0.001)
        model = cn.MLP((120,))
        run = cn.train(tables, method, rounds=2, batch=batch, runtime=runtime, model=model, optimizer=sgd, valid=0.1)
        found[runtime] = step(run)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--rounds", type=int, default=5, help="in each repeat")
    options = parser.parse_args()
    torch.set_num_threads(1)
    mnist, _ = cn.load("mnist", parties=14)
    rows = []
    for what, tables, batch in (("MNIST, 14 parties", mnist, 1024), ("a table, 4 parties", table(), 256)):
        for name in METHODS:
            work = contestants(name, tables, batch)
            times: dict[str, list[float]] = {key: [] for key in work}
            for _ in range(options.repeats):
                for key, one in work.items():
                    times[key].append(cpu(lambda one=one: [one() for _ in range(options.rounds)]) / options.rounds)  # type: ignore[misc]
            median = {key: statistics.median(values) for key, values in times.items()}
            least = {key: min(values) for key, values in times.items()}
            cells = [f"{1000 * median[key]:.2f}" for key in work]
            ratios = [
                f"{median[k] / median['plain loop']:.2f}, {least[k] / least['plain loop']:.2f}"
                for k in ("fused", "loop")
            ]
            rows.append([what, name, *cells, *ratios])
    header = ["rows", "method", "plain loop, ms", "fused, ms", "loop, ms", "fused / plain", "loop / plain"]
    show("CPU of a round; ratios of medians, then of the least", header, rows)


if __name__ == "__main__":
    main()
