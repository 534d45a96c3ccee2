"""Where the VIM paper and its authors' code differ, measured: which heads make the residual, which step goes first.

VIMADMM: eq. 9 writes the heads *after* their step; the code uses those before it.
VIMADMM-J: the paper steps the head first, then the network with the new head; the code steps both from one pass.
"""

from __future__ import annotations

import argparse
import typing

import torch
import torch.nn.functional as F
from torch import Tensor

import colonnade as cn
from benchmarks.settings import BATCH, METHODS, MODEL, PARTIES, VALID
from benchmarks.table import show
from colonnade.core.method import Method, Mine, Owner, Parties, Turn
from colonnade.core.prox import cross_entropy_prox
from colonnade.errors import TrainingError


class HeadsAfter(cn.VIMADMM):
    """Eq. 9 to the letter."""

    def round(self, owner: Owner, parties: Parties, turn: Turn) -> Tensor:
        """Algorithm 2 with the new heads in the residual."""
        h = torch.stack([reply.h for reply in parties.ask(self.embed, turn)])
        with torch.no_grad():
            y, dual = owner.labels(turn), owner.dual.index_select(0, turn.rows)
            total = (h @ owner.heads).sum(0)
            z = cross_entropy_prox(total, dual, y, self.rho)
            dual += self.rho * (total - z)
            owner.dual.index_copy_(0, turn.rows, dual)
            owner.heads.grad = h.mT @ (dual + self.rho * (total - z)) / len(y)
            owner.optimizer.step()
            o = h @ owner.heads
            residual = z - (o.sum(0) - o)
        self._send(owner, parties, turn, dual, residual)
        return F.cross_entropy(total, y)


class HeadFirst(cn.VIMADMMJ):
    """Eq. 19, then eq. 20 with the new head, in every local step."""

    def _fit(self, mine: Mine, turn: Turn, goal: Tensor) -> None:
        x, weight = mine.inputs(turn), self.rho / (2 * len(turn.rows))
        for _ in range(typing.cast(int, self.local_steps)):  # a plan's method has a value for every option
            h = mine.net(x)
            mine.head.descend(weight * (mine.head(h.detach()) - goal).square().sum((-1, -2)))
            mine.net.descend(weight * (mine.head(h) - goal).square().sum((-1, -2)))


def outcome(method: Method, seed: int, epochs: int) -> str:
    train, test = cn.load("mnist", parties=PARTIES)
    try:
        run = cn.train(train, method, epochs=epochs, batch=BATCH, seed=seed, valid=VALID, test=test, model=MODEL)
    except TrainingError as error:
        return f"diverged: {error}".split(";")[0]
    return ", ".join(f"{100 * row['test_accuracy']:.2f}" for row in run.history)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    options = parser.parse_args()
    vimadmm, vimadmm_j = METHODS["vimadmm"], METHODS["vimadmm-j"]
    assert isinstance(vimadmm, cn.VIMADMM)
    assert isinstance(vimadmm_j, cn.VIMADMMJ)
    forms: dict[str, Method] = {
        "vimadmm, residual with the heads before (ours, the code)": vimadmm,
        "vimadmm, residual with the heads after (eq. 9)": HeadsAfter(lr=vimadmm.lr, rho=vimadmm.rho),
        "vimadmm-j, both from one pass (ours, the code)": vimadmm_j,
        "vimadmm-j, head first (Alg. 3)": HeadFirst(lr=vimadmm_j.lr, rho=vimadmm_j.rho),
    }
    rows = [
        [name, seed, outcome(method, seed, options.epochs)] for name, method in forms.items() for seed in options.seeds
    ]
    show("MNIST test accuracy in % after each epoch", ["form", "seed", "accuracy"], rows)


if __name__ == "__main__":
    main()
