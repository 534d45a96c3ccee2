"""Multi-VFL and FedOptimus: golden rounds against a slow reference, selection, presets, and the score of a party."""

import itertools
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import colonnade as cn
from colonnade.data.sharing import places_of
from colonnade.errors import ConfigError
from colonnade.methods.fedoptimus import PRESETS
from colonnade.methods.party_scores import scores_of
from colonnade.wire.owner_half import OwnerHalf

ROWS, WIDTHS, CLASSES, E, LR, DECAY, BATCH = 18, (3, 2), 3, 4, 0.1, 0.01, 4
CLOSE = {"rtol": 1e-4, "atol": 1e-6}
Weights = dict[str, Tensor]


def federation() -> list[cn.Table]:
    rng = np.random.default_rng(1)
    x = rng.normal(size=(ROWS, sum(WIDTHS))).astype(np.float32)
    cuts = itertools.pairwise(np.cumsum((0, *WIDTHS)).tolist())
    return cn.split(x, np.arange(ROWS) % CLASSES, [list(range(a, b)) for a, b in cuts])


def weights_of(state: Weights, part: str) -> Weights:
    start = f"{part}/weights/"
    return {k.removeprefix(start): v.clone().requires_grad_() for k, v in state.items() if k.startswith(start)}


def two_layers(w: Weights, x: Tensor, first: int) -> Tensor:
    h = F.relu(x @ w[f"{first}.weight"].T + w[f"{first}.bias"])
    return h @ w[f"{first + 2}.weight"].T + w[f"{first + 2}.bias"]


def sgd(weights: Weights, slopes: Any) -> None:
    with torch.no_grad():
        for weight, slope in zip(weights.values(), slopes, strict=True):
            weight -= LR * (slope + DECAY * weight)


def averaged(models: list[Weights], shares: list[float], agreed: Weights, m: Weights, mu: float, alpha: float) -> None:
    """FedAvgM, then the damped step; everybody goes on from the outcome."""
    with torch.no_grad():
        for name, w in agreed.items():
            average = sum(share * model[name] for share, model in zip(shares, models, strict=True))
            m[name] = mu * m.get(name, torch.zeros_like(w)) + (1 - mu) * (average - w)
            w.copy_((1 - alpha) * w + alpha * (w + m[name]))
            for model in models:
                model[name].copy_(w)


@pytest.mark.parametrize("runtime", ["loop", "fused"])
@pytest.mark.parametrize(("server", "mu", "alpha"), [("fedavg", 0.0, 1.0), ("fedavgm+damped", 0.5, 0.8)])
def test_five_rounds_are_those_of_the_reference(runtime: str, server: str, mu: float, alpha: float) -> None:
    """Two owners with 12 and 6 rows, two parties; averages after rounds 2 and 4, one step beyond them."""
    tables = cn.share(federation(), 2, sizes=[2, 1])
    options = {"embedding": E, "hidden": 6, "lr": LR, "decay": DECAY, "momentum": 0.0, "optimizer": "sgd", "every": 2}
    method = cn.MultiVFL(server=server, mu=mu or 0.9, alpha=alpha, **options)
    run = cn.train(tables, method, rounds=5, batch=BATCH, model=cn.MLP((5,)), runtime=runtime)
    fresh = cn.train(tables, method, rounds=1, batch=BATCH, model=cn.MLP((5,)), runtime="loop")
    start = fresh.model.states()  # what was agreed has not moved after one round
    top = weights_of(start["owner-000"], "net")
    nets = [[weights_of(start[f"party-{k:03d}"], "net") for k in range(2)] for _ in range(2)]
    tops = [{name: w.detach().clone().requires_grad_() for name, w in top.items()} for _ in range(2)]
    agreed = [weights_of(start[f"party-{k:03d}"], "net") for k in range(2)]
    momenta: list[Weights] = [{}, {}, {}]
    shares, places = [2 / 3, 1 / 3], places_of(tables)
    x, y = [table.columns for table in federation()[1:]], federation()[0].labels
    for r in range(5):
        for one, (own, place) in enumerate(zip(run.schedule.batch_of(r), places, strict=True)):
            rows = place[own]
            h = torch.cat([F.relu(two_layers(nets[one][k], x[k][rows], 1)) for k in range(2)], dim=1)
            loss = F.cross_entropy(two_layers(tops[one], h, 0), y[rows])
            models = [*nets[one], tops[one]]
            slopes = iter(torch.autograd.grad(loss, [w for model in models for w in model.values()]))
            for model in models:
                sgd(model, list(itertools.islice(slopes, len(model))))
        if r in (1, 3):
            for k in range(2):
                averaged([nets[0][k], nets[1][k]], shares, agreed[k], momenta[k], mu, alpha)
            averaged(tops, shares, top, momenta[2], mu, alpha)
    found = run.model.states()
    for one, k in itertools.product(range(2), range(2)):
        for name, value in weights_of(found[f"party-{k:03d}"], f"owner {one + 1}").items():
            torch.testing.assert_close(value, nets[one][k][name], **CLOSE)
    for one in range(2):
        for name, value in weights_of(found[f"owner-{one:03d}"], "top").items():
            torch.testing.assert_close(value, tops[one][name], **CLOSE)


def test_one_owner_exchanges_what_splitnn_does() -> None:
    options = {"embedding": E, "hidden": 6}
    runs = [
        cn.train(federation(), method, rounds=4, batch=ROWS, model=cn.MLP((5,)))
        for method in (cn.SplitNN(**options), cn.MultiVFL(every=2, **options))
    ]
    assert runs[0].ledger.to_json() == runs[1].ledger.to_json()


def test_no_label_leaves_its_owner(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between owners only weights and scores travel: no tensor with rows, no integers."""
    seen: list[tuple[str, str, str, dict[str, Tensor]]] = []
    carry = OwnerHalf.count

    def spy(self: OwnerHalf, fields: dict[str, Tensor], sender: str, receiver: str, step: str, *rest: Any) -> Any:
        seen.append((step, sender, receiver, fields))
        return carry(self, fields, sender, receiver, step, *rest)

    monkeypatch.setattr(OwnerHalf, "count", spy)
    method = cn.FedOptimus(every=1, select_every=2, share=0.5, embedding=E, hidden=6)
    cn.train(cn.share(federation(), 2), method, rounds=4, batch=BATCH, runtime="loop")
    between = [entry for entry in seen if entry[1].startswith("owner") and entry[2].startswith("owner")]
    weights = 2 * E * 6 + 6 + 6 * CLASSES + CLASSES
    sizes = {step: {tuple(t.shape) for t in fields.values()} for step, _, _, fields in between}
    assert sizes == {"top": {(weights,)}, "adopt": {(weights,)}, "score": {(2,)}, "choose": {(2,)}}
    assert all(tensor.is_floating_point() for *_, fields in seen for tensor in fields.values())


# who takes part


def noisy(parties: int = 4) -> list[cn.Table]:
    """The first two parties know the label, the others know nothing."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, CLASSES, 240)
    means = 3 * rng.normal(size=(CLASSES, 3))
    x = rng.normal(size=(240, 3 * parties)).astype(np.float32)
    x[:, :3] += means[y]
    x[:, 3:6] -= means[y]
    return cn.split(x, y, parties)


@pytest.mark.parametrize("runtime", ["loop", "fused"])
def test_parties_that_know_something_are_selected(runtime: str) -> None:
    method = cn.FedOptimus(every=2, select_every=4, share=0.5, lr=0.01)
    run = cn.train(cn.share(noisy(), 3), method, rounds=9, batch=32, runtime=runtime)
    scores = run.importance()
    assert min(scores["party 1"], scores["party 2"]) > 5 * max(scores["party 3"], scores["party 4"])
    counts = {
        line.sender: line.messages for line in run.ledger.rows if line.step == "embed" and line.receiver == "owner 1"
    }
    # Rounds 1 to 4 and 8 ask all four; the other four ask the two that know.
    assert counts == {"party 1": 9, "party 2": 9, "party 3": 5, "party 4": 5}
    run.predict(noisy())
    assert {line.sender for line in run.ledger.rows if line.purpose == "predict"} == {"party 1", "party 2"}


def test_who_takes_no_part_does_not_move() -> None:
    method = cn.FedOptimus(every=2, select_every=4, share=0.5, lr=0.01)
    runs = [cn.train(cn.share(noisy(), 3), method, rounds=rounds, batch=32) for rounds in (4, 7)]
    for k in range(4):
        before, after = (run.model.states()[f"party-{k:03d}"] for run in runs)
        same = all(torch.equal(before[name], after[name]) for name in before)
        assert same == (k > 1)


def test_without_selection_there_are_no_scores() -> None:
    run = cn.train(cn.share(noisy(), 3), cn.FedOptimus.preset("fedavg"), rounds=26, batch=8)
    assert "score" not in run.ledger.by_step
    with pytest.raises(ConfigError, match="no scores of parties"):
        run.importance()


@pytest.mark.parametrize("name", PRESETS)
def test_presets_are_the_rows_of_the_papers_table(name: str) -> None:
    method = cn.FedOptimus.preset(name)
    assert (method.share < 1) == (name.startswith("cs") or name == "fedoptimus")
    assert method.every == (5 if name in ("cs+k-step", "k-step", "fedoptimus") else 1)
    assert method.server == {"slow": "damped", "opti": "fedavgm+damped"}.get(
        name.removeprefix("cs+").removeprefix("fed")[:4], "fedavg"
    )


# the score


def test_stacked_owners_score_as_single_ones() -> None:
    h, labels = torch.randn(2, 3, 40, 5), torch.randint(0, 4, (2, 40))
    found = scores_of(h, labels, 3)
    assert found.shape == (2, 3)
    torch.testing.assert_close(found, torch.stack([scores_of(own, y, 3) for own, y in zip(h, labels, strict=True)]))


def test_embeddings_that_say_nothing_score_nothing() -> None:
    labels = torch.arange(30) % 3
    nothing, everything = scores_of(torch.stack([torch.zeros(30, 3), F.one_hot(labels, 3).float()]), labels, 3).tolist()
    assert nothing < 0.05 and everything > 0.5  # around nought an estimate may be negative
    assert scores_of(torch.randn(1, 3, 4), torch.arange(3), 3).tolist() == [0.0], "every row alone in its class"
