"""Tasks: losses, probabilities and weights against torch, standardised values, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from sklearn.datasets import load_diabetes
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import train_test_split
from torch import Tensor

import colonnade as cn
from colonnade.core.task import Classes, Several, Task, Values, make_task, plain_weights, task_of
from colonnade.errors import ConfigError, TableError
from colonnade.jobs.job_file import read_job
from colonnade.jobs.run_job import train_job
from colonnade.report.run_pages import write_report
from colonnade.report.summary import read_summary
from colonnade.run.training import Run, Settings
from colonnade.runtime.plan import Plan

GEN = torch.Generator().manual_seed(0)
O = torch.randn(20, 3, generator=GEN, dtype=torch.float64)  # noqa: E741 - as in the methods
CLASS = torch.randint(3, (20,), generator=GEN)
BITS = torch.randint(2, (20, 3), generator=GEN).double()
REAL = torch.randn(20, 3, generator=GEN, dtype=torch.float64)
W = torch.tensor([0.5, 2.0, 3.0], dtype=torch.float64)
TASKS: list[tuple[Task, Tensor]] = [
    (Classes(3), CLASS),
    (Classes(3), torch.softmax(REAL, 1)),
    (Classes(3, W), CLASS),
    (Classes(3, W), torch.softmax(REAL, 1)),
    (Values(3), REAL),
    (Several(3), BITS),
    (Several(3, W), BITS),
]
X, Y = load_diabetes(return_X_y=True)


def federation(y: Any, rows: slice = slice(None), owner: str = "labels") -> list[cn.Table]:
    return cn.split((X / X.std(0))[rows], np.asarray(y)[rows], 2, owner=owner)


def test_losses_are_those_of_torch() -> None:
    assert torch.equal(Classes(3).loss(O, CLASS), F.cross_entropy(O, CLASS))
    weighted = F.cross_entropy(O, CLASS, weight=W, reduction="none").mean()  # over rows, not over weights
    torch.testing.assert_close(Classes(3, W).loss(O, CLASS), weighted)
    torch.testing.assert_close(Values(3).loss(O, REAL), F.mse_loss(O, REAL, reduction="sum") / 2 / 20)
    binary = F.binary_cross_entropy_with_logits(O, BITS, reduction="none")
    torch.testing.assert_close(Several(3).loss(O, BITS), binary.sum(1).mean())
    heavy = F.binary_cross_entropy_with_logits(O, BITS, pos_weight=W, reduction="none")
    torch.testing.assert_close(Several(3, W).loss(O, BITS), heavy.sum(1).mean())


def test_predictions_are_what_a_user_expects() -> None:
    torch.testing.assert_close(Classes(3).predictions(O), torch.softmax(O, 1))
    torch.testing.assert_close(Several(3).predictions(O), torch.sigmoid(O))
    values = Values(1, scale=torch.tensor([[100.0], [5.0]], dtype=torch.float64))
    assert values.predictions(torch.tensor([[0.0], [2.0]])).tolist() == [100.0, 110.0]


@pytest.mark.parametrize(("task", "labels"), TASKS)
def test_the_error_is_the_gradient_of_a_rows_loss(task: Task, labels: Tensor) -> None:
    o = O.clone().requires_grad_()
    (slope,) = torch.autograd.grad(task.loss(o, labels), o)
    torch.testing.assert_close(task.error(O, labels) / len(O), slope)


@pytest.mark.parametrize(("task", "labels"), TASKS)
def test_the_z_step_is_stationary(task: Task, labels: Tensor) -> None:
    dual, rho = torch.randn(20, 3, generator=GEN, dtype=torch.float64), 0.3
    z = task.prox(O, dual, labels, rho)
    torch.testing.assert_close(task.error(z, labels) - dual + rho * (z - O), torch.zeros_like(z), rtol=0, atol=1e-12)


@pytest.mark.parametrize(("task", "labels"), TASKS)
def test_a_party_axis_in_front_changes_nothing(task: Task, labels: Tensor) -> None:
    targets = task.targets(labels)
    each = task.party_loss(torch.stack([O, 2 * O]), torch.stack([targets, targets]))
    torch.testing.assert_close(each, torch.stack([task.loss(O, labels), task.loss(2 * O, labels)]))


def test_parties_know_nothing_that_is_made_of_labels() -> None:
    values = make_task("values", torch.tensor([1.0, 3.0]), trained=torch.arange(2), table="owner")
    assert isinstance(values, Values) and values.scale is not None
    assert isinstance(values.public, Values) and values.public.scale is None
    assert Classes(3, W).public.weights is None
    run = cn.train(federation(Y), "cvfl", task="values", rounds=1)
    assert all(site.task.scale is None for site in run.parties.backend.grouping.groups)


def test_labels_say_which_task() -> None:
    def found(labels: Any) -> str:
        return task_of(cn.Table(range(3), labels=labels).labels)

    assert [found(y) for y in ([0, 2, 1], [0.0, 2.0, 1.0], [0.5, 2.0, 1.0])] == ["classes", "classes", "values"]
    assert found([[0, 1], [1, 1], [0, 0]]) == "several"
    with pytest.raises(ConfigError, match="unknown task 'value'; did you mean 'values'"):
        task_of(CLASS, "value")


def test_balance_is_that_of_the_training_rows() -> None:
    labels, rows = torch.tensor([0, 0, 0, 1, 1, 1, 1, 1]), torch.arange(4)
    task = make_task("classes", labels, "balanced", trained=rows, table="owner")
    assert task.weights is not None and task.weights.tolist() == pytest.approx([4 / (2 * 3), 4 / (2 * 1)])
    assert make_task("classes", labels, "balanced", trained=torch.arange(6), table="owner").weights is None
    matrix = torch.tensor([[0, 1], [0, 1], [0, 0], [1, 1]])
    several = make_task("several", matrix, "balanced", trained=rows, table="owner")
    assert several.weights is not None and several.weights.tolist() == pytest.approx([3.0, 1 / 3])


def test_held_out_rows_shape_neither_scale_nor_balance() -> None:
    run = cn.train(federation(Y), "splitnn", task="values", valid=0.2, rounds=1)
    kept = np.setdiff1d(np.arange(len(Y)), run.schedule.valid_rows.numpy())
    np.testing.assert_allclose(run.owner.label_scale[:, 0], [Y[kept].mean(), Y[kept].std()])


def test_units_do_not_matter_and_resuming_keeps_the_scale(tmp_path: Path) -> None:
    plain = cn.train(federation(Y), "splitnn", task="values", epochs=3, batch=64, folder=tmp_path / "run")
    other = cn.train(federation(1000 * Y - 7), "splitnn", task="values", epochs=3, batch=64)
    torch.testing.assert_close(
        1000 * plain.predict(federation(Y)) - 7, other.predict(federation(Y)), rtol=1e-3, atol=5.0
    )
    # The scale is the state's, not computed anew from whatever labels are at hand.
    opened = cn.resume(tmp_path / "run", federation(Y + 100), train=False)
    assert torch.equal(opened.predict(federation(Y)), plain.predict(federation(Y)))
    assert opened.evaluate(federation(Y)) == plain.evaluate(federation(Y))


@pytest.mark.parametrize("method", [cn.VIMADMMJ(lr=0.01, local_steps=10, decay=0.01), cn.SplitNN(lr=0.01, decay=0.01)])
def test_diabetes_comes_near_ridge_regression(method: cn.Method) -> None:
    x, held, y, expected = train_test_split(X / X.std(0), Y, test_size=0.25, random_state=0)
    best = RidgeCV(np.logspace(-3, 3, 13)).fit(x, y).score(held, expected)
    run = cn.train(cn.split(x, y, 2), method, task="values", epochs=20, batch=64)
    assert run.evaluate(cn.split(held, expected, 2))["r2"] > best - 0.05


def test_weights_help_the_rare_class() -> None:
    rare = (np.quantile(Y, 0.9) < Y).astype(int)
    plain, weighted = (cn.train(federation(rare), "splitnn", epochs=5, weights=w) for w in (None, "balanced"))
    found = [float((run.predict(federation(rare)).argmax(1) == 1).float().mean()) for run in (plain, weighted)]
    assert found[1] > found[0] + 0.05
    assert {"auc", "average_precision", "ks", "brier", "ece"} <= weighted.evaluate(federation(rare)).keys()


def test_a_solo_model_of_values_and_of_several() -> None:
    several = np.stack([Y > 100, Y > 200], axis=1).astype(int)
    for y, task in ((Y, "values"), (several, "several")):
        tables = federation(y, owner="first")
        teacher = cn.train(tables, "splitnn", task=task, epochs=5, batch=64)
        solo = cn.distil(teacher, tables, share=0.7, epochs=5, batch=64, method=cn.Local(lr=0.02))
        assert solo.task.name == task
        assert solo.predict(tables[:1]).shape == teacher.predict(tables).shape
        assert solo.evaluate(tables[:1])[solo.task.score] > 0.1
    with pytest.raises(ConfigError, match=r"temperature=2.0 flattens probabilities, and values have none"):
        cn.distil(cn.train(federation(Y, owner="first"), "splitnn", task="values", rounds=1), tables, temperature=2.0)


def test_heads_are_refitted_with_the_tasks_loss() -> None:
    run = cn.train(federation(Y), cn.VIMADMM(lr=0.02), task="values", epochs=5, batch=128)
    assert run.evaluate(federation(Y), absent=["party 2"], missing="refit")["r2"] > 0.1


def test_early_stopping_and_the_report_use_the_score(tmp_path: Path) -> None:
    run = cn.train(
        federation(Y), cn.SplitNN(lr=0.01), task="values", epochs=4, valid=0.2, stop_drop=50.0, folder=tmp_path
    )
    best = max(row["valid_r2"] for row in run.history)
    held_out = [table.take(run.schedule.valid_rows.numpy()) for table in federation(Y)]
    assert run.evaluate(held_out)["r2"] == pytest.approx(best)
    text = write_report([read_summary(tmp_path)], tmp_path / "page.html").read_text()
    assert "R2 by round" in text and "RMSE, rows held out" in text


def test_a_job_says_the_task(tmp_path: Path) -> None:
    path = tmp_path / "job.toml"
    job = '[data]\nload = "digits"\nparties = 2\nrows = 200\n[train]\nmethod = "splitnn"\nrounds = 2\nbatch = 64\n'
    path.write_text(job + 'task = "values"\n')
    run = train_job(read_job(path))
    assert run.settings.task == "values" and "test_r2" in run.history[-1]
    path.write_text(job + 'weights = "balanced"\n')
    assert train_job(read_job(path)).task.weights is not None
    path.write_text(job + "weights = 3\n")
    with pytest.raises(ConfigError, match=r"weights = 3 in .train. is not a list or a text"):
        read_job(path)


@pytest.mark.parametrize(
    ("y", "options", "why"),
    [
        (Y, {"task": "values", "weights": [1.0]}, "values have none; leave weights out"),
        (Y * 0 + 1.5, {}, "hold one value only"),
        (Y + 0.5, {"task": "classes"}, "are not class numbers"),
        (Y, {"task": "several"}, "one per row; task='several' needs a matrix"),
        (np.stack([Y, Y], 1), {}, "which are 0 or 1; give those, or task='values'"),
        (Y > 100, {"weights": [1.0, 2.0, 3.0]}, "weights= has 3 numbers for 2; give one positive number per class"),
        (Y > 100, {"weights": "balance"}, "unknown weights 'balance'; did you mean 'balanced'"),
        (Y > 100, {"weights": [1.0, 0.0]}, "neither 'balanced' nor a list of positive numbers"),
        (Y > 100, {"weights": 3}, "neither 'balanced' nor a list of positive numbers"),
        (-Y, {}, "class numbers start at 0, other numbers are learnt with task='values'"),
    ],
)
def test_what_makes_no_sense_is_refused(y: Any, options: dict[str, Any], why: str) -> None:
    with pytest.raises((ConfigError, TableError), match=why):
        cn.train(federation(y), "splitnn", rounds=1, **options)


def test_a_model_refuses_labels_of_another_task() -> None:
    few = slice(0, 60)
    bits = np.stack([Y > 100, Y > 200], axis=1).astype(int)
    values = cn.train(federation(Y + 0.5, few), "splitnn", rounds=1, batch=32)
    classes = cn.train(federation(Y > 100, few), "splitnn", rounds=1, batch=32)
    several = cn.train(federation(bits, few), "splitnn", rounds=1, batch=32)
    for run, y in ((values, bits), (classes, Y + 0.5), (several, Y > 100), (several, np.stack([Y, Y], 1))):
        with pytest.raises(TableError, match=r"the model was trained on|0 or 1"):
            run.evaluate(federation(y, few))
    for run in (values, several):
        with pytest.raises(TableError, match="targets of shape"):
            run.teach(torch.zeros(3, 3))
    with pytest.raises(TableError, match="no probabilities"):
        several.teach(torch.full((60, 2), 2.0))
    with pytest.raises(TableError, match="NaN"):
        values.teach(torch.full((60,), float("nan")))
    with pytest.raises(TableError, match="not class numbers"):
        cn.select(federation(Y + 0.5, few))


def test_several_owners_learn_values_as_they_are() -> None:
    shared = cn.share(federation((Y - Y.mean()) / Y.std()), 2)
    run = cn.train(shared, cn.MultiVFL(lr=0.01), epochs=5, batch=64)
    assert run.evaluate(federation((Y - Y.mean()) / Y.std()))["r2"] > 0.2
    with pytest.raises(ConfigError, match="2 owners do not tell each other theirs"):
        cn.train(cn.share(federation(Y > 100), 2), "multivfl", weights="balanced", rounds=1)
    with pytest.raises(TableError, match="not class numbers"):
        cn.share(federation(Y + 0.5), 2, alpha=1.0)


def test_weights_as_plain_data() -> None:
    assert plain_weights(np.array([1, 2])) == [1.0, 2.0] and plain_weights(None) is None


@pytest.mark.parametrize("runtime", ["loop", "fused"])
def test_a_round_of_vimadmm_on_values_in_closed_form(runtime: str) -> None:
    """Two parties with one linear layer each, one local step, no momentum or decay: every equation written out."""
    rho, lr, n = 0.7, 0.1, 12
    rng = np.random.default_rng(2)
    x, y = rng.normal(size=(n, 4)).astype(np.float32), 30 + 4 * rng.normal(size=n)
    method = cn.VIMADMM(embedding=2, lr=lr, rho=rho, local_steps=1, momentum=0.0, decay=0.0)

    def linear(shape: tuple[int, ...], width: int) -> torch.nn.Module:
        return torch.nn.Linear(shape[0], width, bias=False)

    tables, settings = cn.split(x, y, 2), Settings(1, n, 0, runtime, 0.0, "epoch", 1, None, 1, task="values")
    run = Run(tables, Plan(method, settings, (linear,) * 2, (method.party_optimizer,) * 2))
    before = run.model.states()
    run.fit()
    after, rows = run.model.states(), run.schedule.batch_of(0).numpy()
    target = ((y - y.mean()) / y.std())[rows, None]
    parts = [x[rows, :2], x[rows, 2:]]
    nets = [before[f"party-{k:03d}"]["net/weights/weight"].numpy() for k in range(2)]
    heads = before["owner"]["heads/value"].numpy().copy()
    h = [part @ net.T for part, net in zip(parts, nets, strict=True)]
    o = [h[k] @ heads[k] for k in range(2)]
    total = o[0] + o[1]
    z = (target + rho * total) / (1 + rho)  # eq. 6 with a dual of zero
    dual = rho * (total - z)  # eq. 7
    np.testing.assert_allclose(dual, z - target, atol=1e-6)  # the dual is the error at z
    np.testing.assert_allclose(after["owner"]["dual/value"].numpy()[rows], dual, atol=1e-5)
    for k in range(2):
        heads[k] -= lr * h[k].T @ (dual + rho * (total - z)) / n  # eq. 8
        gap = h[k] @ heads[k] - (z - (total - o[k]) - dual / rho)  # eq. 9 and 10
        stepped = nets[k] - lr * rho / n * (gap @ heads[k].T).T @ parts[k]
        np.testing.assert_allclose(after[f"party-{k:03d}"]["net/weights/weight"].numpy(), stepped, atol=1e-5)
    np.testing.assert_allclose(after["owner"]["heads/value"].numpy(), heads, atol=1e-5)


def test_classes_that_no_training_row_has_count_if_they_have_names() -> None:
    labels, rows = torch.tensor([0, 1, 1, 0]), torch.arange(4)
    assert make_task("classes", labels, trained=rows, table="owner").outputs == 2
    assert make_task("classes", labels, trained=rows, table="owner", classes=3).outputs == 3
