"""Where a VIMADMM round's time goes: fused, loop, a plain reference, and pure matrix multiplication.

MNIST, 14 parties of two rows, batch 1024, MLP 56-120-60, tau 20. CPU seconds, medians, all in one run, one
after the other within each repetition, so that the machine's noise meets all alike.

The plain reference is written the way a researcher would: a module and an optimiser per party, a DataLoader,
one scipy L-BFGS-B call per sample for the z-step. The looped one is the same with the batched z-step.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import numpy as np
import torch
from scipy.optimize import minimize
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import colonnade as cn
from benchmarks.table import show
from colonnade.core.method import Turn
from colonnade.core.prox import cross_entropy_prox
from colonnade.run.training import Run
from colonnade.runtime.cores import keep_to
from colonnade.runtime.local_backend import LocalBackend

PARTIES, BATCH, WIDTH, HIDDEN, EMBEDDING, CLASSES = 14, 1024, 56, 120, 60, 10
RHO, TAU, LR, DECAY = 2.0, 20, 0.05, 0.001
EPOCH = 53  # rounds with a tenth of the rows held out


def cpu(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


class Plain:
    """VIMADMM as a script: nothing fused, nothing shared, nothing counted."""

    def __init__(self, x: Tensor, y: Tensor, *, solver: str) -> None:
        self.nets = [
            nn.Sequential(nn.Linear(WIDTH, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, EMBEDDING), nn.ReLU())
            for _ in range(PARTIES)
        ]
        self.heads = [nn.Linear(EMBEDDING, CLASSES, bias=False) for _ in range(PARTIES)]
        self.opts = [torch.optim.SGD(n.parameters(), lr=LR, momentum=0.9, weight_decay=DECAY) for n in self.nets]
        self.head_opts = [torch.optim.SGD(h.parameters(), lr=LR, weight_decay=DECAY) for h in self.heads]
        self.dual = torch.zeros(len(y), CLASSES)
        solvers: dict[str, Callable[..., Tensor]] = {"scipy": solve_with_scipy, "batched": cross_entropy_prox}
        self.solve = solvers[solver]
        rows = torch.arange(len(y))
        self.batches = iter(DataLoader(TensorDataset(x, y, rows), batch_size=BATCH, shuffle=True))

    def round(self) -> None:
        x, y, rows = next(self.batches)
        parts = [x[:, 2 * k : 2 * k + 2].flatten(1) for k in range(PARTIES)]
        with torch.no_grad():
            h = [net(part) for net, part in zip(self.nets, parts, strict=True)]
            o = [head(e) for head, e in zip(self.heads, h, strict=True)]
            total = torch.stack(o).sum(0)
            z = self.solve(total, self.dual[rows], y, RHO)
            self.dual[rows] += RHO * (total - z)
            dual = self.dual[rows]
        for k in range(PARTIES):
            rest = total - o[k] - z
            self.head_opts[k].zero_grad()
            self.loss(self.heads[k](h[k]), rest, dual).backward()
            self.head_opts[k].step()
            for _ in range(TAU):
                self.opts[k].zero_grad()
                self.loss(self.heads[k](self.nets[k](parts[k])), rest, dual).backward()
                self.opts[k].step()

    @staticmethod
    def loss(out: Tensor, rest: Tensor, dual: Tensor) -> Tensor:
        return ((dual * out).sum() + RHO / 2 * ((rest + out) ** 2).sum()) / len(out)


def solve_with_scipy(total: Tensor, dual: Tensor, y: Tensor, rho: float) -> Tensor:
    solved = []
    for v, lam, label in zip(total.double().numpy(), dual.double().numpy(), y.tolist(), strict=True):

        def objective(z: np.ndarray, v: np.ndarray = v, lam: np.ndarray = lam, label: int = label) -> tuple:  # type: ignore[type-arg]
            top = z.max()
            p = np.exp(z - top)
            lse = top + np.log(p.sum())
            p /= p.sum()
            p[label] -= 1
            return lse - z[label] - lam @ z + rho / 2 * ((v - z) ** 2).sum(), p - lam + rho * (z - v)

        solved.append(minimize(objective, np.zeros(CLASSES), jac=True, method="L-BFGS-B", tol=1e-8).x)
    return torch.from_numpy(np.stack(solved)).float()


def matrix_products() -> Callable[[], None]:
    """Exactly the products of one round's networks: TAU forward and backward passes and one forward, per party."""
    x, h1, h2, o = (torch.randn(BATCH, n) for n in (WIDTH, HIDDEN, EMBEDDING, CLASSES))
    w1, w2, head = torch.randn(WIDTH, HIDDEN), torch.randn(HIDDEN, EMBEDDING), torch.randn(EMBEDDING, CLASSES)

    def work() -> None:
        for _ in range(PARTIES):
            for _ in range(TAU):
                _ = x @ w1, h1 @ w2, h2 @ head
                _ = o @ head.T, h1.T @ h2, h2 @ w2.T, x.T @ h1
            _ = x @ w1, h1 @ w2

    return work


def prepared(runtime: str, tables: list[cn.Table]) -> Run:
    method = cn.VIMADMM(lr=LR, rho=RHO, local_steps=TAU)
    return cn.train(tables, method, rounds=2, batch=BATCH, runtime=runtime, model=cn.MLP((HIDDEN,)), valid=0.1)


def step(run: Run) -> Callable[[], object]:
    def work() -> object:
        turn = Turn(run.round, run.schedule.batch_of(run.round))
        run.model.round += 1
        return run.method.round(run.owner, run.parties, turn)

    return work


def inside_networks(run: Run) -> Callable[[], None]:
    """The parties' part of a round alone: one embed and one fit with a target that is already there."""
    method, backend = run.method, run.parties.backend
    assert isinstance(method, cn.VIMADMM) and isinstance(backend, LocalBackend)

    def work() -> None:
        turn = Turn(run.round, run.schedule.batch_of(run.round))
        run.model.round += 1
        targets = _targets(run, len(turn.rows))
        for group in backend.grouping.groups:
            group.run(method.embed, turn, [], True)
            group.run(method.fit, turn, [targets[k] for k in group.members], False)

    return work


def _targets(run: Run, rows: int) -> list:  # type: ignore[type-arg]
    from colonnade.methods.vimadmm import Target

    heads = run.owner.heads.detach()
    goal = torch.zeros(rows, CLASSES)
    return [Target(goal, head) for head in heads]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--scipy-rounds", type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(1)
    keep_to(1)  # benchmarks/cores.py has the other cores
    tables, _ = cn.load("mnist", parties=PARTIES)
    x = torch.cat([table.draw(torch.arange(table.rows)) for table in tables[1:]], dim=1)
    y = tables[0].labels
    fused, loop = prepared("fused", tables), prepared("loop", tables)
    contestants: dict[str, Callable[[], object]] = {
        "pure matrix products": matrix_products(),
        "fused, inside networks": inside_networks(prepared("fused", tables)),
        "fused": step(fused),
        "loop": step(loop),
        "plain, batched z-step": Plain(x, y, solver="batched").round,
    }
    times: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(options.repeats):
        for name, work in contestants.items():
            times[name].append(cpu(work))
    slow = Plain(x, y, solver="scipy")
    times["plain, scipy per sample"] = [cpu(slow.round) for _ in range(options.scipy_rounds)]
    median = {name: statistics.median(values) for name, values in times.items()}
    least = {name: min(values) for name, values in times.items()}
    pure = "pure matrix products"
    rows = [
        [name, f"{seconds:.3f}", f"{least[name]:.3f}", f"{seconds * EPOCH:.1f}", f"{seconds / median['fused']:.2f}"]
        + [f"{seconds / median[pure]:.2f}", f"{least[name] / least[pure]:.2f}"]
        for name, seconds in median.items()
    ]
    header = ["what", "a round, median", "least", "an epoch", "to fused", "to the products, medians", "the least"]
    show("VIMADMM on MNIST, CPU seconds and ratios", header, rows)
    outside = 1 - min(1.0, median["fused, inside networks"] / median["fused"])
    show(
        "targets",
        ["what", "measured", "target"],
        [
            ["plain with scipy / fused", f"{median['plain, scipy per sample'] / median['fused']:.1f}", ">= 25"],
            ["plain with batched z / fused", f"{median['plain, batched z-step'] / median['fused']:.2f}", ">= 1.3"],
            ["loop / fused", f"{median['loop'] / median['fused']:.2f}", ">= 1.3"],
            ["fused / pure matrix products", f"{median['fused'] / median['pure matrix products']:.2f}", "<= 1.25"],
            ["share of a round outside networks", f"{100 * outside:.1f} %", "<= 5 %"],
        ],
    )


if __name__ == "__main__":
    main()
