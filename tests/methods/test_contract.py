"""The contract: every method on every runtime. A new method adds one row to CASES.

For each case: loop = fused = bytes (same states within TOLERANCE, *same ledger*); a run resumed in the
middle equals one that was not; no raw column and no label is in any message. Tests share the usual run of a
case (``kept``), because training is what takes their time.
"""

import functools
import itertools
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import colonnade as cn
import views
from colonnade.core.method import Method
from colonnade.core.schedule import Schedule
from colonnade.core.task import Classes
from colonnade.errors import ConfigError
from colonnade.methods.label_codes import Labels, labels_received
from colonnade.methods.steps import Gradient
from colonnade.runtime.step_words import read_singly
from colonnade.wire.owner_half import OwnerHalf
from colonnade.wire.view import View

TOLERANCE = {"rtol": 1e-3, "atol": 1e-4}  # float32 after twelve rounds; both runtimes do the same sums in another order
ROWS, CLASSES, ROUNDS = 60, 3, 12
MARKER = 0.7734375  # planted in every raw column


@dataclass(frozen=True, eq=False)  # compared by identity, so that a case is a key of ``kept``
class Case:
    method: Method
    owner: str = "labels"
    options: dict[str, Any] = field(default_factory=dict)
    owners: int = 1

    def __str__(self) -> str:
        messages = getattr(self.method, "messages", getattr(self.method, "combine", ""))
        words = ("loss", "fill", "learn", "party_rounds")
        more = getattr(self.method, "losses", ()) or [str(vars(self.method).get(name) or "") for name in words]
        more = [self.method.learner.partition("(")[0]] if isinstance(self.method, cn.Local) else more
        several = [getattr(self.method, "server", ""), f"{self.owners}-owners"] if self.method.several_owners else []
        return "-".join(
            filter(None, [self.method.name, messages, *more, self.owner, *several, *map(str, self.options)])
        )


CASES = [
    Case(cn.Local(), owner="first"),
    Case(cn.Local(learner="trees(iterations=4)"), owner="first"),
    Case(cn.SplitNN()),
    Case(cn.SplitNN(), owner="first"),
    Case(cn.SplitNN(party_rounds=5)),
    Case(cn.VAFL()),
    Case(cn.VAFL(learn_weights=False)),
    Case(cn.FDML()),
    Case(cn.AggVFL()),
    Case(cn.AggVFL(weights="equal"), owner="first"),
    Case(cn.CVFL(local_steps=3)),
    Case(cn.CVFL(local_steps=3), owner="first"),
    Case(cn.CVFL(local_steps=3, messages="paper")),
    Case(cn.VFedMH(), owner="first"),
    Case(cn.VFedMH(local_steps=3), owner="first"),
    Case(cn.FedBCD(local_steps=3)),
    Case(cn.FedBCD(local_steps=3, combine="sum")),
    Case(cn.VIMSGD()),
    Case(cn.VIMADMM(lr=0.02, local_steps=4)),
    Case(cn.VIMADMM(lr=0.02, local_steps=4), owner="first"),
    Case(cn.VIMADMM(lr=0.02, local_steps=4, messages="paper")),
    Case(cn.VIMADMMJ(lr=0.02, local_steps=4)),
    Case(cn.VIMADMMJ(lr=0.02, local_steps=4), owner="first"),
    Case(cn.VIMADMMJ(lr=0.02, local_steps=4, messages="paper")),
    Case(cn.APFed(), owner="first"),
    Case(cn.APFed(loss="contrastive", projection=8, dropout=0.5, contribution_every=2), owner="first"),
    Case(cn.APFed(losses=("contrastive", "contrastive", "reconstruction"), weights=(0.5, 2.0, 0.1)), owner="first"),
    Case(cn.LASER()),
    Case(cn.LASER(), owner="first"),
    Case(cn.TVFL(), owner="first"),
    Case(cn.TVFL(fill="random"), owner="first"),
    Case(cn.TVFL(fill="none"), owner="first"),
    Case(cn.MultiVFL(every=1)),
    Case(cn.MultiVFL(every=3), owner="first"),
    Case(cn.MultiVFL(every=5), owners=3),
    Case(cn.MultiVFL(every=2, server="slowmo", mu=0.5), owners=3),
    Case(cn.MultiVFL(every=2, server="fedyogi"), owners=2),
    Case(cn.OneShot(learner="trees(iterations=4)", top="trees(iterations=4)", folds=2)),
    Case(cn.OneShot(learner="linear", top="network(epochs=2)"), owner="first"),
    Case(cn.OneShot(learn="pca", embedding=2, top="linear"), owner="first"),
    Case(cn.OneShot(learn="autoencoder", embedding=2, epochs=3, top="linear")),
    Case(cn.OneShot(learn="gradients", embedding=2, learner="linear", top="linear", folds=2)),
    Case(cn.GAL(learner="linear")),
    Case(cn.GAL(learner="linear"), owner="first"),
    Case(cn.FedOptimus(every=2, select_every=4, lr=0.02)),
    Case(cn.FedOptimus(every=2, select_every=4, lr=0.02), owners=3),
    Case(cn.FedOptimus(every=1, select_every=1, share=0.5), owners=2, options={"optimizer": cn.Adam(0.01)}),
]
RUNTIMES = ["loop", "fused", "bytes"]


def federation(owner: str, widths: tuple[int, ...] = (3, 3, 3, 2)) -> list[cn.Table]:
    """Three like parties and one of another width; the label is a function of all columns."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(ROWS, sum(widths))).astype(np.float32)
    y = (x @ rng.normal(size=(sum(widths), CLASSES))).argmax(1)
    x[0] = MARKER
    cuts = np.cumsum((0, *widths))
    return cn.split(x, y, [list(range(a, b)) for a, b in itertools.pairwise(cuts)], owner=owner)


def tables_of(case: Case) -> list[cn.Table]:
    tables = federation(case.owner)
    return tables if case.owners == 1 else cn.share(tables, case.owners, sizes=range(1, case.owners + 1))


def train(case: Case, runtime: str, **more: Any) -> cn.Run:
    tables = tables_of(case)
    settings = {"rounds": ROUNDS, "batch": 16, "seed": 3, "valid": 0.1, "test": federation(case.owner)}
    return cn.train(tables, case.method, runtime=runtime, **{**settings, **case.options, **more})


def everything(run: cn.Run) -> dict[str, Tensor]:
    return {f"{side}/{name}": value for side, state in run.model.states().items() for name, value in state.items()}


def without_time(history: list[dict[str, float]]) -> list[dict[str, float]]:
    return [{name: value for name, value in row.items() if name != "seconds"} for row in history]


@dataclass(frozen=True)
class Kept:
    """What a run came to and what was said in it; who asks the run more afterwards changes none of it but ``run``."""

    run: cn.Run
    ledger: list[dict[str, Any]]
    history: list[dict[str, float]]
    states: dict[str, Tensor]
    sent: list[tuple[str, str, dict[str, Tensor]]] = field(default_factory=list)
    told: list[tuple[dict[str, Tensor], cn.Turn]] = field(default_factory=list)
    view: View | None = None


def keep(run: cn.Run, *said: Any) -> Kept:
    states = {name: value.clone() for name, value in everything(run).items()}
    view = None if run.model.witness is None else run.view
    return Kept(run, run.ledger.to_json(), without_time(run.history), states, *said, view=view)


@functools.cache
def kept(case: Case, runtime: str) -> Kept:
    """The usual run of a case, trained once."""
    sent: list[Any] = []
    told: list[Any] = []
    count, seal = OwnerHalf.count, OwnerHalf.seal

    def counted(self: OwnerHalf, fields: dict[str, Tensor], sender: str, receiver: str, *rest: Any) -> Any:
        sent.append((sender, receiver, fields))
        return count(self, fields, sender, receiver, *rest)

    def sealed(self: OwnerHalf, message: Any, parties: Any, step: str, turn: cn.Turn) -> Any:
        told.append(({name: value.clone() for name, value in message._asdict().items()}, turn))
        return seal(self, message, parties, step, turn)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(OwnerHalf, "count", counted)
        patch.setattr(OwnerHalf, "seal", sealed)
        # Of two runtimes that agree bit for bit one is recorded, so that recording is seen to change nothing.
        return keep(train(case, runtime, evaluate_every=4, record=runtime == "loop"), sent, told)


def asked_and_summed(run: cn.Run, purposes: Collection[str]) -> tuple[set[str], set[str]]:
    """The steps whose replies the ledger has as asked one by one, and those that it has as summed."""
    lines = [line for line in run.ledger.rows if line.sender not in run.ledger.owners and line.purpose in purposes]
    assert all(line.summed is not None for line in run.ledger.rows)
    return {line.step for line in lines if not line.summed}, {line.step for line in lines if line.summed}


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_method_declares_which_steps_it_sums(case: Case) -> None:
    """The terms that all sides sign, before anything is sent, rest on the declaration."""
    run = kept(case, "loop").run
    for more in (lambda: run.predict_each(federation(case.owner)), run.importance):
        with suppress(ConfigError):  # most methods have one model for all, or no heads
            more()
    method = run.method
    assert bool(method.summed_steps) == (method.sums != "never")
    if method.only_sums:
        asked, summed = asked_and_summed(run, ("train", "evaluate", "predict", "explain"))
        assert summed == set(method.summed_steps) and asked == read_singly(method).keys()
    else:
        assert asked_and_summed(run, ["train"])[1] == set(), "it asks one by one, so nothing of it may be blinded"


def messages_of(run: cn.Run, case: Case) -> set[tuple[str, str]]:
    """Step and way of everything that carried something, in training and in every question that may be asked."""
    for more in (lambda: run.predict_each(federation(case.owner)), run.importance):
        with suppress(ConfigError):
            more()
    lead, owners = run.ledger.owners[0], run.ledger.owners

    def way(line: Any) -> str:
        from_above = line.sender == lead if line.receiver in owners else line.sender in owners
        return "down" if from_above else "up"

    return {(line.step, way(line)) for line in run.ledger.rows if line.payload}


@pytest.mark.parametrize("case", CASES, ids=str)
def test_every_message_is_declared_and_every_declaration_has_a_message(case: Case) -> None:
    sent, method = messages_of(kept(case, "loop").run, case), case.method
    told = {(one.step, one.way) for one in method.disclosures}
    if case.owners == 1:
        told -= {entry for entry in told if entry[0] in method.owner_steps()}  # to itself an owner sends nothing
    assert told == sent


@pytest.mark.parametrize("case", CASES, ids=str)
def test_all_runtimes_agree(case: Case) -> None:
    loop, fused, wired = (kept(case, runtime) for runtime in RUNTIMES)
    fuses = any(len(site.members) > 1 for site in fused.run.parties.backend.grouping.groups)
    assert fuses != case.method.whole_rounds, "nothing was fused: the test tests nothing; learners never are"
    assert wired.run.parties.backend.encoded
    for other in (fused, wired):
        assert other.ledger == loop.ledger
        assert other.states.keys() == loop.states.keys()
        for name, value in loop.states.items():
            torch.testing.assert_close(other.states[name], value, **TOLERANCE, msg=lambda m, n=name: f"{n}: {m}")
    for name, value in loop.states.items():
        assert torch.equal(wired.states[name], value), f"real bytes changed {name}"


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_witness_sees_all_that_the_ledger_counts(case: Case) -> None:
    """Every message of every line, and as many bytes: all rows are in the sample."""
    run = kept(case, "loop").run  # other tests may have asked it for predictions, of which the last rows are kept
    assert run.view.counts == views.counted(run.ledger)
    seen, counted = views.recorded(run.view), run.view.counts
    assert seen.keys() == counted.keys()
    assert {line: seen[line] for line in seen if line[0] != "predict"} == {
        line: counted[line] for line in counted if line[0] != "predict"
    }


ONE_OWNER = [case for case in CASES if case.owners == 1]


def everything_apart(run: cn.Run) -> dict[str, Tensor]:
    """The same of a run whose parties keep their states themselves."""
    sides = run.model.states()
    for k, name in enumerate(run.parties.names):
        if name in run.parties.backend.parties:
            sides[f"party-{k:03d}"] = run.parties.backend.transport.parties[name].states()
    return {f"{side}/{name}": value for side, state in sides.items() for name, value in state.items()}


def check_same_apart(apart: cn.Run, loop: cn.Run | Kept) -> None:
    """Parties behind requests come to the same, bit for bit."""
    expected, found = loop if isinstance(loop, Kept) else keep(loop), everything_apart(apart)
    assert apart.ledger.to_json() == expected.ledger
    assert without_time(apart.history) == expected.history
    assert found.keys() == expected.states.keys()
    for name, value in expected.states.items():
        assert torch.equal(found[name], value), f"requests changed {name}"


@pytest.mark.parametrize("case", CASES, ids=str)
def test_parties_behind_letters_agree(case: Case) -> None:
    check_same_apart(train(case, "apart", evaluate_every=4), kept(case, "loop"))


@pytest.mark.parametrize("runtime", ["loop", "fused", pytest.param("bytes", marks=pytest.mark.long)])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_resuming_is_exact(case: Case, runtime: str, tmp_path: Path) -> None:
    whole = kept(case, runtime)
    folder = tmp_path / "run"

    def die(run: cn.Run) -> None:
        if run.round == min(6, run.settings.rounds):  # between two checkpoints, or at the end of the only round
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(case, runtime, evaluate_every=4, folder=folder, on_round=die, record=runtime == "loop")
    resumed = cn.resume(folder, tables_of(case), test=federation(case.owner))
    assert without_time(resumed.history) == whole.history
    assert resumed.ledger.to_json() == whole.ledger
    if whole.view is not None:
        views.check_same(resumed.view, whole.view)
    found = everything(resumed)
    for name, value in whole.states.items():
        assert torch.equal(found[name], value), name


@pytest.mark.parametrize("case", CASES, ids=str)
def test_nothing_raw_travels(case: Case) -> None:
    """Columns of row 0 are all MARKER; labels are planted as a pattern; neither is in any message."""
    run, sent = kept(case, "loop").run, kept(case, "loop").sent
    labels = labels_by_count(run)
    assert bool(sent) != (case.method.name == "local")
    for sender, receiver, fields in sent:
        if sender in run.ledger.owners and "y" in fields and case.method.tells_labels == "shown":
            continue  # labels themselves, which the method says that it sends
        assert {sender, receiver} & set(run.ledger.owners), "parties never talk to each other"
        for tensor in fields.values():
            assert not (tensor == MARKER).any(), f"a raw column value left {sender}"
            assert tensor.is_floating_point(), "labels and row numbers are integers; none may travel"
            if tensor.ndim and len(tensor) in labels:
                columns = tensor.reshape(len(tensor), -1).T[:, None]
                assert not (columns == labels[len(tensor)]).all(-1).any(), "labels went out in the clear"


def labels_by_count(run: cn.Run) -> dict[int, Tensor]:
    """The labels of the rounds at every owner as floats [rounds, rows], by how many rows they are of."""
    batches = sorted(labels_of_rounds(run), key=len)
    return {count: torch.stack(list(same)).float() for count, same in itertools.groupby(batches, len)}


def labels_of_rounds(run: cn.Run) -> list[Tensor]:
    """The labels of every round, at every owner."""
    rounds = [run.schedule.batch_of(r) for r in range(ROUNDS)]
    if run.owner.owners is None:
        return [run.owner.tables["train"][rows] for rows in rounds]
    return [
        run.owner.tables["train"][turn.rows] for rows in rounds for turn in run.owner.owners.turns(cn.Turn(0, rows))
    ]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_methods_that_show_labels_say_so(case: Case) -> None:
    """Whoever guesses the smallest or largest of a row's C numbers has the label: exactly where the method says so."""
    leaks: dict[str, list[float]] = {}
    labels, schedule = federation(case.owner)[0].labels, Schedule(ROWS, 16, 3, 0.1)
    for fields, turn in kept(case, "loop").told:
        for name, tensor in fields.items():
            if name == "y":
                told = labels_received(Labels(tensor), len(turn.rows), Classes(CLASSES))
                leaks[name] = [hits(told, labels[turn.rows])]
            if case.method.whole_rounds and tuple(tensor.shape) == (len(turn.rows), CLASSES):
                leaks[name] = [hits(tensor.argmax(-1), labels[turn.rows])]
            elif tuple(tensor.shape) == (16, CLASSES):
                truth = labels[schedule.batch_of(turn.round)]
                best = max(hits(guess, truth) for guess in (tensor.argmin(-1), tensor.argmax(-1)))
                leaks.setdefault(name, []).append(best)
    assert (max(map(np.mean, leaks.values()), default=0.0) > 0.9) == (case.method.tells_labels == "shown")


def hits(guess: Tensor, truth: Tensor) -> float:
    return float((guess == truth).float().mean())


@pytest.mark.parametrize("case", CASES, ids=str)
def test_predictions_are_probabilities_and_need_no_labels(case: Case) -> None:
    run = kept(case, "fused").run
    tables = federation(case.owner)
    owner = tables[0]
    blind = [cn.Table(ids=owner.ids, columns=owner.columns, name=owner.name), *tables[1:]]
    predicted = run.predict(blind)
    assert predicted.shape == (ROWS, CLASSES)
    torch.testing.assert_close(predicted.sum(1), torch.ones(ROWS))
    accuracy = float((predicted.argmax(1) == owner.labels).float().mean())
    assert accuracy == pytest.approx(run.evaluate(tables)["accuracy"])


@pytest.mark.parametrize("case", CASES, ids=str)
def test_steps_are_declared(case: Case) -> None:
    """What travels to or from a party belongs to a step that it serves; between owners it belongs to one of theirs."""
    run = kept(case, "loop").run
    parties = {table.name for table in tables_of(case) if table.columns is not None and table.labels is None}
    for line in run.ledger.rows:
        steps = case.method.steps() if parties & {line.sender, line.receiver} else case.method.owner_steps()
        assert line.step in steps


def test_every_registered_method_is_here() -> None:
    """With one owner too: so federation and FLARE, which take their cases from here, miss none."""
    for cases in (CASES, ONE_OWNER):
        assert {case.method.name for case in cases} == set(cn.methods())


def with_batch_norm(shape: tuple[int, ...], width: int) -> nn.Module:
    # No bias before the norm: its true gradient is zero, and Adam would blow rounding noise up to a full step.
    return nn.Sequential(
        nn.Flatten(), nn.Linear(shape[0], 8, bias=False), nn.BatchNorm1d(8), nn.Tanh(), nn.Linear(8, width)
    )


def with_dropout(shape: tuple[int, ...], width: int) -> nn.Module:
    return nn.Sequential(nn.Linear(shape[0], 8), nn.Dropout(0.5), nn.ReLU(), nn.Linear(8, width))


@pytest.mark.parametrize("optimizer", [cn.SGD(0.02), cn.Adam(0.01), cn.Adagrad(0.02)], ids=repr)
@pytest.mark.parametrize("model", [with_batch_norm, with_dropout, cn.MLP((5, 4))], ids=["norm", "dropout", "mlp"])
def test_other_networks_and_optimisers_agree_too(model: Any, optimizer: Any) -> None:
    case = Case(cn.VIMADMMJ(lr=0.02, local_steps=3))
    loop, fused = (train(case, runtime, model=model, optimizer=optimizer) for runtime in ("loop", "fused"))
    assert any(len(site.members) > 1 for site in fused.parties.backend.grouping.groups) == (model is not with_dropout)
    for name, value in everything(loop).items():
        torch.testing.assert_close(everything(fused)[name], value, rtol=1e-2, atol=1e-3)


def test_mixed_parties_fuse_in_their_groups() -> None:
    """Different networks and optimisers side by side: like ones fuse, the rest are looped."""
    models = [cn.MLP((5,)), cn.MLP((5,)), cn.MLP((6,)), cn.MLP((5,))]
    optimizers = [cn.SGD(0.02), cn.SGD(0.02), cn.SGD(0.02), cn.Adam(0.01)]
    case = Case(cn.VIMADMM(lr=0.02, local_steps=3))
    loop, fused = (train(case, runtime, model=models, optimizer=optimizers) for runtime in ("loop", "fused"))
    assert [site.members for site in fused.parties.backend.grouping.groups] == [[0, 1], [2], [3]]
    for name, value in everything(loop).items():
        torch.testing.assert_close(everything(fused)[name], value, **TOLERANCE)


def test_asking_some_parties_splits_a_group_and_changes_nothing() -> None:
    case = Case(cn.VAFL())
    loop, fused = (train(case, runtime, rounds=2) for runtime in ("loop", "fused"))
    turn = cn.Turn(2, torch.arange(10))
    for run in (loop, fused):
        replies = run.parties.ask(cn.VAFL.embed, turn, to=[2, 0])
        run.parties.tell(cn.VAFL.follow, turn, to=[0, 2], each=[Gradient(r.h) for r in replies])
    for name, value in everything(loop).items():
        torch.testing.assert_close(everything(fused)[name], value, **TOLERANCE)
