"""Golden rounds: one round of every method on tiny tensors against a slow reference written from the equations.

The reference works in plain autograd or in numpy on the parties' weights side by side, knows nothing of channels,
steps or runtimes, and solves the z-step with scipy, sample by sample.
"""

import itertools
from collections.abc import Callable

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from scipy.optimize import minimize
from torch import Tensor, nn

import colonnade as cn
from colonnade.core.method import Method
from colonnade.core.schedule import Schedule
from colonnade.run.training import Run, Settings
from colonnade.runtime.plan import Plan

ROWS, WIDTHS, CLASSES, E, LR, DECAY = 12, (3, 3, 2), 3, 4, 0.1, 0.01
CLOSE = {"rtol": 1e-4, "atol": 1e-6}


class World:
    """A fresh run, and copies of its weights for the reference to work on."""

    def __init__(
        self,
        method: Method,
        runtime: str,
        rounds: int = 1,
        widths: tuple[int, ...] = WIDTHS,
        model: Callable[..., nn.Module] = cn.MLP((5,)),  # noqa: B008 - a frozen value
    ) -> None:
        rng = np.random.default_rng(1)
        x = rng.normal(size=(ROWS, sum(WIDTHS))).astype(np.float32)
        y = np.arange(ROWS) % CLASSES
        cuts = list(itertools.pairwise(np.cumsum((0, *widths)).tolist()))
        owner = "first" if method.needs_owner_columns else "labels"
        tables = cn.split(x, y, [list(range(a, b)) for a, b in cuts], owner=owner)
        settings = Settings(rounds, ROWS, 0, runtime, 0.0, "epoch", rounds, None, 1)
        count = len(WIDTHS)
        self.run = Run(tables, Plan(method, settings, (model,) * count, (method.party_optimizer,) * count))
        rows = Schedule(ROWS, ROWS, 0).batch_of(0)
        self.x = [torch.from_numpy(x[:, a:b])[rows] for a, b in cuts]
        self.y = torch.from_numpy(y)[rows]
        self.rows = rows
        self.states = self.run.model.states()

    def weights(self, party: int, prefix: str = "net") -> dict[str, Tensor]:
        start = f"{prefix}/weights/"
        state = self.states[f"party-{party:03d}"]
        return {k.removeprefix(start): v.clone().requires_grad_() for k, v in state.items() if k.startswith(start)}

    def owner(self, name: str) -> Tensor:
        return self.states["owner"][name].clone().requires_grad_()

    def after(self) -> dict[str, Tensor]:
        self.run.fit()
        return {f"{side}/{k}": v for side, state in self.run.model.states().items() for k, v in state.items()}


def embed(w: dict[str, Tensor], x: Tensor, prefix: str = "") -> Tensor:
    """The two-layer network, written out."""
    h = F.relu(x @ w[f"{prefix}1.weight"].T + w[f"{prefix}1.bias"])
    return F.relu(h @ w[f"{prefix}3.weight"].T + w[f"{prefix}3.bias"])


def sgd(weights: dict[str, Tensor], slopes: tuple[Tensor, ...], buffers: dict[str, Tensor] | None = None) -> None:
    """Plain SGD, with heavy-ball momentum 0.9 if there are buffers: written out, not torch.optim."""
    with torch.no_grad():
        for (name, weight), slope in zip(weights.items(), slopes, strict=True):
            step = slope + DECAY * weight
            if buffers is not None:
                buffers[name] = step = 0.9 * buffers.get(name, torch.zeros_like(weight)) + step
            weight -= LR * step


def check(found: dict[str, Tensor], party: int, weights: dict[str, Tensor], prefix: str = "net") -> None:
    for name, value in weights.items():
        torch.testing.assert_close(found[f"party-{party:03d}/{prefix}/weights/{name}"], value.detach(), **CLOSE)


def joint_step(w: World, nets: list[dict[str, Tensor]], loss: Tensor, more: list[Tensor]) -> list[Tensor]:
    """Gradients of a joint loss: the parties step here, the owner's gradients are given back."""
    everything = [p for net in nets for p in net.values()] + more
    slopes = list(torch.autograd.grad(loss, everything))
    for net in nets:
        sgd(net, tuple(slopes[: len(net)]))
        slopes = slopes[len(net) :]
    return slopes


@pytest.fixture(params=["loop", "fused"])
def world(request: pytest.FixtureRequest) -> Callable[..., World]:
    return lambda method, **more: World(method, request.param, **more)


def test_splitnn_is_one_step_of_the_joint_network(world: Callable[..., World]) -> None:
    w = world(cn.SplitNN(embedding=E, hidden=6, lr=LR, decay=DECAY))
    nets = [w.weights(k) for k in range(3)]
    top = {n: w.owner(f"top/{n}") for n in ("0.weight", "0.bias", "2.weight", "2.bias")}
    h = torch.cat([embed(net, x) for net, x in zip(nets, w.x, strict=True)], dim=1)
    scores = F.relu(h @ top["0.weight"].T + top["0.bias"]) @ top["2.weight"].T + top["2.bias"]
    slopes = joint_step(w, nets, F.cross_entropy(scores, w.y), list(top.values()))
    sgd(top, tuple(slopes))
    found = w.after()
    for k, net in enumerate(nets):
        check(found, k, net)
    for name, value in top.items():
        torch.testing.assert_close(found[f"owner/top/{name}"], value.detach(), **CLOSE)


@pytest.mark.parametrize("learn_weights", [True, False])
def test_vafl_is_one_step_of_the_joint_network(world: Callable[..., World], learn_weights: bool) -> None:
    w = world(cn.VAFL(embedding=E, lr=LR, decay=DECAY, weights_lr=0.5, learn_weights=learn_weights))
    nets = [w.weights(k) for k in range(3)]
    top = {n: w.owner(f"top/{n}") for n in ("weight", "bias")}
    alpha = w.owner("alpha/value")
    torch.testing.assert_close(alpha.detach(), torch.full((3,), 1 / 3))
    h = sum(alpha[k] * embed(nets[k], w.x[k]) for k in range(3))
    loss = F.cross_entropy(h @ top["weight"].T + top["bias"], w.y)
    *slopes, alpha_slope = joint_step(w, nets, loss, [*top.values(), alpha])
    sgd(top, tuple(slopes))
    found = w.after()
    for k, net in enumerate(nets):
        check(found, k, net)
    torch.testing.assert_close(found["owner/top/weight"], top["weight"].detach(), **CLOSE)
    expected = alpha.detach() - 0.5 * alpha_slope if learn_weights else alpha.detach()
    torch.testing.assert_close(found["owner/alpha/value"], expected, **CLOSE)


def test_laser_is_one_step_on_the_mean_over_sets_of_parties(world: Callable[..., World]) -> None:
    w = world(cn.LASER(embedding=E, hidden=6, lr=LR, decay=DECAY))
    nets = [w.weights(k) for k in range(3)]
    top = {n: w.owner(f"top/{n}") for n in ("0.weight", "0.bias", "2.weight", "2.bias")}
    h = torch.stack([embed(net, x) for net, x in zip(nets, w.x, strict=True)])
    order = torch.rand(3, ROWS, generator=w.run.owner.randomness.generator("sets", 0)).argsort(0)
    total = torch.zeros(())
    for row, (size, sets) in itertools.product(range(ROWS), [(1, 3), (2, 3), (3, 1)]):  # seven sets of three parties
        mean = h[order[:size, row], row].mean(0)
        scores = F.relu(mean @ top["0.weight"].T + top["0.bias"]) @ top["2.weight"].T + top["2.bias"]
        total = total + sets / 7 * F.cross_entropy(scores, w.y[row]) / ROWS
    slopes = joint_step(w, nets, total, list(top.values()))
    sgd(top, tuple(slopes))
    found = w.after()
    for k, net in enumerate(nets):
        check(found, k, net)
    for name, value in top.items():
        torch.testing.assert_close(found[f"owner/top/{name}"], value.detach(), **CLOSE)


def test_fdml_is_one_step_on_the_sum_of_logits(world: Callable[..., World]) -> None:
    w = world(cn.FDML(embedding=E, lr=LR, decay=DECAY))
    nets = [w.weights(k) for k in range(3)]
    total = sum(embed(net, x, "0.") @ net["1.weight"].T for net, x in zip(nets, w.x, strict=True))
    assert joint_step(w, nets, F.cross_entropy(total, w.y), []) == []
    found = w.after()
    for k, net in enumerate(nets):
        check(found, k, net)


def test_local_moves_the_owner_only(world: Callable[..., World]) -> None:
    w = world(cn.Local(embedding=E, lr=LR, decay=DECAY))
    net = w.weights(0)
    loss = F.cross_entropy(embed(net, w.x[0], "0.") @ net["1.weight"].T, w.y)
    joint_step(w, [net], loss, [])
    found = w.after()
    check(found, 0, net)
    check(found, 1, w.weights(1))
    assert w.run.ledger.total == 0


def test_fedbcd_takes_q_steps_on_a_stale_gradient(world: Callable[..., World]) -> None:
    steps = 3
    w = world(cn.FedBCD(embedding=E, lr=LR, decay=DECAY, local_steps=steps))
    nets, top = [w.weights(k) for k in range(3)], {n: w.owner(f"top/{n}") for n in ("weight", "bias")}
    sent = [embed(net, x).detach().requires_grad_() for net, x in zip(nets, w.x, strict=True)]
    loss = F.cross_entropy(torch.cat(sent, dim=1) @ top["weight"].T + top["bias"], w.y)
    stale = torch.autograd.grad(loss, sent)
    for net, x, slope in zip(nets, w.x, stale, strict=True):
        buffers: dict[str, Tensor] = {}
        for _ in range(steps):
            sgd(net, torch.autograd.grad(embed(net, x), list(net.values()), slope), buffers)
    for _ in range(steps):
        scores = torch.cat(sent, dim=1).detach() @ top["weight"].T + top["bias"]
        sgd(top, torch.autograd.grad(F.cross_entropy(scores, w.y), list(top.values())))
    found = w.after()
    for k, net in enumerate(nets):
        check(found, k, net)
    torch.testing.assert_close(found["owner/top/bias"], top["bias"].detach(), **CLOSE)


@pytest.mark.parametrize(("weights", "expected"), [("columns", (3 / 8, 3 / 8, 2 / 8)), ("equal", (1 / 3,) * 3)])
def test_aggvfl_is_one_step_on_the_weighted_mean(
    world: Callable[..., World], weights: str, expected: tuple[float, ...]
) -> None:
    w = world(cn.AggVFL(embedding=E, lr=LR, decay=DECAY, weights=weights))
    nets = [w.weights(k) for k in range(3)]
    o = [embed(net, x, "0.") @ net["1.weight"].T + net["1.bias"] for net, x in zip(nets, w.x, strict=True)]
    mean = sum(share * part for share, part in zip(expected, o, strict=True))
    joint_step(w, nets, F.cross_entropy(mean, w.y), [])
    found = w.after()
    for k, net in enumerate(nets):
        check(found, k, net)


@pytest.mark.parametrize("messages", ["compact", "paper"])
@pytest.mark.parametrize("steps", [1, 3])
def test_cvfl_takes_true_steps_with_the_others_stale(world: Callable[..., World], steps: int, messages: str) -> None:
    w = world(cn.CVFL(embedding=E, hidden=6, lr=LR, decay=DECAY, local_steps=steps, messages=messages))
    nets = [w.weights(k) for k in range(3)]
    top = {n: w.owner(n) for n in ("first/weight", "first/bias", "last/weight", "last/bias")}
    stale = [embed(net, x).detach() for net, x in zip(nets, w.x, strict=True)]

    def loss(h: list[Tensor], top: dict[str, Tensor]) -> Tensor:
        hidden = F.relu(torch.cat(h, dim=1) @ top["first/weight"].T + top["first/bias"])
        return F.cross_entropy(hidden @ top["last/weight"].T + top["last/bias"], w.y)

    for k, net in enumerate(nets):
        buffers: dict[str, Tensor] = {}
        for _ in range(steps):
            h = [embed(net, w.x[k]) if i == k else stale[i] for i in range(3)]
            sgd(net, torch.autograd.grad(loss(h, top), list(net.values())), buffers)
    for _ in range(steps):  # the parties had the top net as it was before
        sgd(top, torch.autograd.grad(loss(stale, top), list(top.values())))
    found = w.after()
    for k, net in enumerate(nets):
        check(found, k, net)
    for name, value in top.items():
        torch.testing.assert_close(found[f"owner/{name}"], value.detach(), **CLOSE)


@pytest.mark.parametrize("steps", [1, 3])
def test_vfedmh_trains_a_model_per_party(world: Callable[..., World], steps: int) -> None:
    """Algorithm 1: every party's own loss, by its own two nets; further steps with the others' part stale."""
    w = world(cn.VFedMH(embedding=E, lr=LR, decay=DECAY, local_steps=steps), widths=(2, 3, 3))
    nets, decisions = ([w.weights(k, part) for k in range(3)] for part in ("net", "decision"))
    stale = [embed(net, x).detach() for net, x in zip(nets, w.x, strict=True)]
    for k in range(3):
        own, buffers = {f"net/{n}": v for n, v in nets[k].items()}, {}
        own |= {f"decision/{n}": v for n, v in decisions[k].items()}
        for _ in range(steps):
            fresh = [embed(nets[k], w.x[k]) if i == k else stale[i] for i in range(3)]
            mean = sum(fresh) / 3  # eq. 7
            loss = F.cross_entropy(mean @ decisions[k]["weight"].T + decisions[k]["bias"], w.y)  # eq. 8
            sgd(own, torch.autograd.grad(loss, list(own.values())), buffers)
    found = w.after()
    for k in range(3):
        check(found, k, nets[k])
        check(found, k, decisions[k], "decision")


def test_vfedmh_predicts_with_every_partys_model(world: Callable[..., World]) -> None:
    w = world(cn.VFedMH(embedding=E, lr=LR, decay=DECAY), widths=(2, 3, 3))
    turn = cn.Turn(0, w.rows, purpose="evaluate")
    mean = sum(embed(w.weights(k), w.x[k]) for k in range(3)) / 3
    decisions = [w.weights(k, "decision") for k in range(3)]
    expected = [(mean @ decision["weight"].T + decision["bias"]).detach() for decision in decisions]
    method, owner, parties = w.run.method, w.run.owner, w.run.parties
    assert isinstance(method, cn.VFedMH)
    torch.testing.assert_close(method.predict_each(owner, parties, turn), expected, **CLOSE)
    before = w.run.ledger.by_step
    torch.testing.assert_close(method.predict(owner, parties, turn), expected[0], **CLOSE)
    after = w.run.ledger.by_step
    assert after["embed"] > before["embed"] and after["decide"] == before["decide"]  # the owner decides at home


def contrast(a: Tensor, p: Tensor, temperature: float) -> Tensor:
    """Equations 14 to 16, row by row."""

    def s(u: Tensor, v: Tensor) -> Tensor:
        return torch.exp(u @ v / (u.norm() * v.norm()) / temperature)

    losses = []
    for i in range(ROWS):
        below = sum(s(a[i], p[j]) + (s(a[i], a[j]) if j != i else 0.0) for j in range(ROWS))
        losses.append(-torch.log(s(a[i], p[i]) / below))
    return torch.stack(losses).mean()


@pytest.mark.parametrize("projection", [0, 5])
@pytest.mark.parametrize("loss", ["reconstruction", "contrastive"])
def test_apfed_is_one_step_on_the_weighted_sum_of_losses(
    world: Callable[..., World], loss: str, projection: int
) -> None:
    """Equations 5 to 10: the owner on L_A + sum lambda_p L_p, a passive party on its own L_p alone."""
    weights = (0.5, 3.0)
    options = {"embedding": E, "lr": LR, "decay": DECAY, "loss": loss, "weights": weights, "temperature": 0.7}
    w = world(cn.APFed(**options, projection=projection), widths=(2, 3, 3), model=all_seen)
    net, task = w.weights(0), w.weights(0, "task")
    h = embed(net, w.x[0])
    total = F.cross_entropy(h @ task["weight"].T, w.y)
    own: list[dict[str, dict[str, Tensor]]] = []
    for k in (1, 2):
        if loss == "reconstruction":
            parts = {"decoder": w.weights(k, "decoder")}
            d = parts["decoder"]  # that of cn.MLP(), since the builder brings none
            rebuilt = F.relu(h @ d["0.weight"].T + d["0.bias"]) @ d["2.weight"].T + d["2.bias"]
            L = ((w.x[k] - rebuilt) ** 2).mean()
        else:
            names = ("net", "project_owner", "project_own") if projection else ("net",)
            parts = {name: w.weights(k, name) for name in names}
            a, p = h, embed(parts["net"], w.x[k])
            if projection:
                a, p = (v @ parts[n]["weight"].T + parts[n]["bias"] for v, n in ((a, names[1]), (p, names[2])))
            L = contrast(a, p, 0.7)
        total = total + weights[k - 1] * L
        nets = list(parts.values())
        slopes = torch.autograd.grad(L, [v for one in nets for v in one.values()], retain_graph=True)
        own.append({"slopes": dict(enumerate(slopes)), **parts})
    joint_step(w, [net, task], total, [])
    found = w.after()
    check(found, 0, net)
    check(found, 0, task, "task")
    for k, parts in enumerate(own, 1):
        slopes = list(parts.pop("slopes").values())
        for name, one in parts.items():
            sgd(one, tuple(slopes[: len(one)]))
            slopes = slopes[len(one) :]
            check(found, k, one, name)


def all_seen(shape: tuple[int, ...], width: int) -> nn.Module:
    """The two-layer network with biases that leave no row of its output at nought, where a cosine has no meaning."""
    net = cn.MLP((5,))(shape, width)
    nn.init.constant_(net[3].bias, 1.0)
    return net


@pytest.mark.parametrize("fill", ["zero", "mean", "random", "none"])
def test_tvfl_trains_as_splitnn_and_fills_in_the_others(world: Callable[..., World], fill: str) -> None:
    w = world(cn.TVFL(embedding=E, hidden=6, lr=LR, decay=DECAY, fill=fill), widths=(2, 3, 3))
    nets = [w.weights(k) for k in range(3)]
    top = {n: w.owner(f"top/{n}") for n in ("0.weight", "0.bias", "2.weight", "2.bias")}

    def scores(h: list[Tensor]) -> Tensor:
        return F.relu(torch.cat(h, dim=1) @ top["0.weight"].T + top["0.bias"]) @ top["2.weight"].T + top["2.bias"]

    loss = F.cross_entropy(scores([embed(net, x) for net, x in zip(nets, w.x, strict=True)]), w.y)
    sgd(top, tuple(joint_step(w, nets, loss, list(top.values()))))
    found = w.after()
    for k, net in enumerate(nets):
        check(found, k, net)
    for name, value in top.items():
        torch.testing.assert_close(found[f"owner/top/{name}"], value.detach(), **CLOSE)
    h = [embed(net, x).detach() for net, x in zip(nets, w.x, strict=True)]
    seen: list[Tensor] = []
    w.run.owner.top.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0].detach()))
    before = w.run.ledger.total
    answer = w.run.method.predict(w.run.owner, w.run.parties, cn.Turn(1, w.rows, purpose="evaluate"))
    assert (w.run.ledger.total > before) == (fill == "none")
    if fill == "random":
        others = seen[0][:, E:]
        assert h[0].min() - 1e-5 <= others.min() < others.max() <= h[0].max() + 1e-5
        assert len(others.unique()) == others.numel()
        expected = scores([h[0], others])
    else:
        stand_in = {"zero": torch.zeros(ROWS, E), "mean": h[0].mean().expand(ROWS, E)}.get(fill)
        expected = scores(h if stand_in is None else [h[0], stand_in, stand_in])
    torch.testing.assert_close(answer.detach(), expected.detach(), rtol=1e-4, atol=1e-5)


def test_vimsgd_uses_the_new_heads_for_the_gradients(world: Callable[..., World]) -> None:
    w = world(cn.VIMSGD(embedding=E, lr=LR, decay=DECAY))
    nets, heads = [w.weights(k) for k in range(3)], w.owner("heads/value")
    h = [embed(net, x) for net, x in zip(nets, w.x, strict=True)]

    def loss(outputs: list[Tensor]) -> Tensor:
        return F.cross_entropy(sum(outputs[k] @ heads[k] for k in range(3)), w.y)

    (slope,) = torch.autograd.grad(loss([e.detach() for e in h]), heads)  # eq. 12
    sgd({"heads": heads}, (slope,))  # eq. 11
    joint_step(w, nets, loss(h), [])  # eq. 13 to 15, with the heads as they are now
    found = w.after()
    for k, net in enumerate(nets):
        check(found, k, net)
    torch.testing.assert_close(found["owner/heads/value"], heads.detach(), **CLOSE)


def slow_z(total: Tensor, dual: Tensor, y: Tensor, rho: float) -> Tensor:
    """The z-step by scipy, one sample at a time, as the paper's authors do."""

    def solve(v: np.ndarray, lam: np.ndarray, label: int) -> np.ndarray:
        def objective(z: np.ndarray) -> float:
            lse = float(np.log(np.exp(z - z.max()).sum()) + z.max())
            return lse - z[label] - float(lam @ z) + rho / 2 * float(((v - z) ** 2).sum())

        return minimize(objective, v, method="L-BFGS-B", options={"ftol": 1e-15, "gtol": 1e-10}).x  # type: ignore[no-any-return]

    rows = zip(total.double().numpy(), dual.double().numpy(), y.tolist(), strict=True)
    return torch.from_numpy(np.stack([solve(*row) for row in rows])).float()


@pytest.mark.parametrize("messages", ["compact", "paper"])
def test_vimadmm_follows_the_algorithm_box(world: Callable[..., World], messages: str) -> None:
    """Two rounds, so that a dual that is not zero and momentum take part."""
    rho, steps, rounds = 1.7, 3, 2
    w = world(cn.VIMADMM(embedding=E, lr=LR, decay=DECAY, rho=rho, local_steps=steps, messages=messages), rounds=rounds)
    nets, heads = [w.weights(k) for k in range(3)], w.owner("heads/value").detach()
    dual, buffers = torch.zeros(ROWS, CLASSES), [{} for _ in range(3)]
    for number in range(rounds):
        rows = w.run.schedule.batch_of(number)
        place = {int(r): i for i, r in enumerate(w.rows)}
        order = [place[int(r)] for r in rows]
        x, y = [part[order] for part in w.x], w.y[order]
        h = [embed(net, part).detach() for net, part in zip(nets, x, strict=True)]
        o = [h[k] @ heads[k] for k in range(3)]
        total = torch.stack(o).sum(0)
        z = slow_z(total, dual[rows], y, rho)  # eq. 6
        dual[rows] += rho * (total - z)  # eq. 7
        for k in range(3):  # eq. 8, one SGD step
            slope = h[k].T @ (dual[rows] + rho * (total - z)) / ROWS
            heads[k] -= LR * (slope + DECAY * heads[k])
        for k in range(3):  # eq. 9 and 10
            residual = z - (total - o[k])
            for _ in range(steps):
                out = embed(nets[k], x[k]) @ heads[k]
                loss = ((dual[rows] * out).sum() + rho / 2 * ((residual - out) ** 2).sum()) / ROWS
                sgd(nets[k], torch.autograd.grad(loss, list(nets[k].values())), buffers[k])
    found = w.after()
    loose = {"rtol": 1e-3, "atol": 1e-4}  # scipy's own precision without an analytic gradient
    torch.testing.assert_close(found["owner/dual/value"], dual, **loose)
    torch.testing.assert_close(found["owner/heads/value"], heads, **loose)
    for k, net in enumerate(nets):
        for name, value in net.items():
            torch.testing.assert_close(found[f"party-{k:03d}/net/weights/{name}"], value.detach(), **loose)


@pytest.mark.parametrize("messages", ["compact", "paper"])
def test_vimadmm_j_follows_the_algorithm_box(world: Callable[..., World], messages: str) -> None:
    rho, steps = 0.8, 3
    w = world(cn.VIMADMMJ(embedding=E, lr=LR, decay=DECAY, rho=rho, local_steps=steps, messages=messages))
    nets, heads = [w.weights(k) for k in range(3)], [w.weights(k, "head")["weight"] for k in range(3)]
    o = [(embed(nets[k], w.x[k]) @ heads[k].T).detach() for k in range(3)]
    total = torch.stack(o).sum(0)
    z = slow_z(total, torch.zeros(ROWS, CLASSES), w.y, rho)  # eq. 16
    dual = rho * (total - z)  # eq. 17
    for k in range(3):
        residual, buffers = z - (total - o[k]), {}  # eq. 18
        for _ in range(steps):  # eq. 19 and 20, both gradients from one pass
            out = embed(nets[k], w.x[k]) @ heads[k].T
            loss = ((dual * out).sum() + rho / 2 * ((residual - out) ** 2).sum()) / ROWS
            *slopes, head_slope = torch.autograd.grad(loss, [*nets[k].values(), heads[k]])
            sgd(nets[k], tuple(slopes), buffers)
            sgd({"head": heads[k]}, (head_slope,))
    found = w.after()
    loose = {"rtol": 1e-3, "atol": 1e-4}
    torch.testing.assert_close(found["owner/dual/value"][w.rows], dual, **loose)
    for k in range(3):
        torch.testing.assert_close(found[f"party-{k:03d}/head/weights/weight"], heads[k].detach(), **loose)
        for name, value in nets[k].items():
            torch.testing.assert_close(found[f"party-{k:03d}/net/weights/{name}"], value.detach(), **loose)


@pytest.mark.parametrize("rounds", [1, 2])
def test_gal(rounds: int) -> None:
    """Algorithm 1 with ridge regression: scikit-learn fits, scipy finds weights and steps."""
    w = World(cn.GAL(learner="linear(ridge=2)"), "loop", rounds)
    y, total = np.eye(CLASSES)[w.y.numpy()], np.zeros((ROWS, CLASSES))
    shares = []
    for _ in range(rounds):
        e = np.exp(total)
        residual = y - e / e.sum(1, keepdims=True)
        fits = [_ridge(x.double().numpy(), residual) for x in w.x]
        weights = _simplex_least_squares(np.stack(fits), residual)
        mix = sum(weight * fit for weight, fit in zip(weights, fits, strict=True))
        step = minimize(
            _loss_along, [1.0], (total, mix, y), method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-14}
        )
        total = total + step.x[0] * mix
        shares.append(step.x[0] * weights)
    found = w.after()
    np.testing.assert_allclose(found["owner/total/value"][w.rows].numpy(), total, atol=1e-4)
    for k, number in itertools.product(range(3), range(rounds)):
        factor = found[f"party-{k:03d}/memory/{number:04d}/factor"]
        np.testing.assert_allclose(factor.numpy(), shares[number][k], atol=2e-3)


def _ridge(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The fit of standardised columns with a penalty of 2 on squared coefficients, none on the constant."""
    z = (x - x.mean(0)) / x.std(0)
    beta = np.linalg.solve(z.T @ z + 2 * np.eye(z.shape[1]), z.T @ (y - y.mean(0)))
    return z @ beta + y.mean(0)


def _simplex_least_squares(fits: np.ndarray, y: np.ndarray) -> np.ndarray:
    start, whole = np.full(len(fits), 1 / len(fits)), {"type": "eq", "fun": lambda w: w.sum() - 1}
    how = {"bounds": [(0, 1)] * len(fits), "constraints": whole, "options": {"ftol": 1e-15}}
    return np.asarray(minimize(lambda w: ((y - np.tensordot(w, fits, 1)) ** 2).sum(), start, **how).x)


def _loss_along(step: np.ndarray, total: np.ndarray, mix: np.ndarray, y: np.ndarray) -> float:
    o = total + step[0] * mix
    return float((np.log(np.exp(o).sum(1)) - (o * y).sum(1)).mean())


def test_a_round_worked_out_by_hand() -> None:
    """FDML with one party, one column, one unit: every number on paper.

    x = 1, network relu(1 * x) = 1, head (1, -1), so v = (1, -1) for both rows; labels 0 and 1.
    p = softmax(v) = (a, 1 - a) with a = 1 / (1 + exp(-2)). The mean gradient of the two rows by v is
    ((a - 1 + a) / 2, (1 - a - a) / 2) = (c, -c) with c = a - 1/2; by the head it is the same, since h = 1;
    by h it is c * 1 + (-c) * (-1) = 2c, and by the network's weight as well, since x = 1.
    """

    def one_unit(shape: tuple[int, ...], width: int) -> nn.Module:
        net = nn.Sequential(nn.Linear(1, 1, bias=False), nn.ReLU())
        nn.init.ones_(net[0].weight)
        return net

    tables = cn.split(np.ones((2, 1), np.float32), np.array([0, 1]), 1)
    method = cn.FDML(embedding=1, lr=1.0, momentum=0.0, decay=0.0)
    settings = Settings(1, 2, 0, "loop", 0.0, "epoch", 1, None, 1)
    run = Run(tables, Plan(method, settings, (one_unit,), (method.party_optimizer,)))
    with torch.no_grad():
        run.parties.backend.grouping.groups[0].net.module[1].weight.copy_(torch.tensor([[1.0], [-1.0]]))  # type: ignore[attr-defined]
    run.fit()
    c = 1 / (1 + np.exp(-2)) - 0.5
    state = run.model.states()["party-000"]
    assert state["net/weights/1.weight"].flatten().tolist() == pytest.approx([1 - c, -1 + c])
    assert state["net/weights/0.0.weight"].item() == pytest.approx(1 - 2 * c)


def test_the_papers_bytes() -> None:
    """Batch 1024, E = 60, 10 classes: MiB per party and round, tensors alone, as the paper's Table 2 counts."""
    x = np.zeros((1024, 4), np.float32)
    y = np.arange(1024) % 10

    def per_round(method: Method) -> tuple[float, float]:
        run = cn.train(cn.split(x, y, 2), method, rounds=1, batch=1024)
        lines = [line for line in run.ledger.rows if "party 1" in (line.sender, line.receiver)]
        up = sum(line.payload for line in lines if line.receiver == "owner")
        down = sum(line.payload for line in lines if line.sender == "owner")
        assert all(0 < line.overhead < 100 for line in lines)
        return round(up / 2**20, 2), round(down / 2**20, 2)

    assert per_round(cn.VIMADMM(local_steps=1, messages="paper")) == (0.23, 0.08)
    assert per_round(cn.VAFL()) == (0.23, 0.23)
    assert per_round(cn.VIMSGD()) == (0.23, 0.23)
    assert per_round(cn.VIMADMM(local_steps=1)) == (0.23, 0.04)
    assert per_round(cn.VIMADMMJ(local_steps=1)) == (0.04, 0.04)
