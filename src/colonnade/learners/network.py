"""A small network as a learner: fitted at once by Adam, and stopped when held-out rows get worse."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from colonnade.core.task import Task
from colonnade.learners.learner import Learner, State, applying, register_learner
from colonnade.learners.standard import standard_of, standardised

HELD_OUT, PATIENCE, BATCH = 0.1, 5, 256


@register_learner
@dataclass(frozen=True)
class Network(Learner):
    """Two hidden layers of ``width`` on standardised columns; at most ``epochs`` passes."""

    kind: ClassVar[str] = "network"
    limits: ClassVar[dict[str, tuple[float, float]]] = {
        "width": (1, 4096),
        "epochs": (1, 1000),
        "rate": (1e-6, 1),
        "dropout": (0, 0.9),
    }

    width: int = 128
    epochs: int = 40
    rate: float = 0.001
    dropout: float = 0.1

    def fit(self, x: Tensor, y: Tensor, task: Task, seed: int) -> State:
        """The weights of the epoch that was best on a tenth of the rows, which are not trained on."""
        with torch.random.fork_rng(devices=[]), torch.enable_grad():
            torch.manual_seed(seed)
            standard, order = standard_of(x), torch.randperm(len(x))
            inputs, targets = standardised(x, standard), task.targets(y).float()
            net = self._net(x.shape[1], task.outputs)
            held = max(1, round(HELD_OUT * len(x)))
            self._train(net, inputs, targets, task, (order[held:] if len(x) > 1 else order, order[:held]))
        return {"standard": standard} | {name: value.clone() for name, value in net.state_dict().items()}

    def outputs(self, state: State, x: Tensor) -> Tensor:
        """The network's outputs."""
        with applying(self.kind), torch.no_grad():
            weights = {name: value for name, value in state.items() if name != "standard"}
            last = [value for name, value in weights.items() if name.endswith("bias")][-1]
            net = self._net(x.shape[1], len(last)).eval()
            net.load_state_dict(weights)
            return net(standardised(x, state["standard"]))  # type: ignore[no-any-return]

    def _net(self, columns: int, outputs: int) -> nn.Module:
        inner = [nn.Linear(self.width, self.width), nn.ReLU(), nn.Dropout(self.dropout)]
        return nn.Sequential(nn.Linear(columns, self.width), nn.ReLU(), *inner, nn.Linear(self.width, outputs))

    def _train(self, net: nn.Module, x: Tensor, y: Tensor, task: Task, rows: tuple[Tensor, Tensor]) -> None:
        train, held = rows
        optimizer = torch.optim.Adam(net.parameters(), self.rate, weight_decay=1e-5)
        best, kept, since = float("inf"), copy.deepcopy(net.state_dict()), 0
        for _ in range(self.epochs):
            net.train()
            for batch in train[torch.randperm(len(train))].split(BATCH):
                optimizer.zero_grad()
                task.party_loss(net(x[batch]), y[batch]).backward()
                optimizer.step()
            loss = self._loss(net, x[held], y[held], task)
            better = loss < best
            best, since = min(loss, best), 0 if better else since + 1
            kept = copy.deepcopy(net.state_dict()) if better else kept
            if since >= PATIENCE:
                break
        net.load_state_dict(kept)

    def _loss(self, net: nn.Module, x: Tensor, y: Tensor, task: Task) -> float:
        net.eval()
        with torch.no_grad():
            return float(task.party_loss(net(x), y))
