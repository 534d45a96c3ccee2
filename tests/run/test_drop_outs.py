"""Parties that are absent from training rounds: every method goes on without them and takes them back as they were."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from typer.testing import CliRunner

import colonnade as cn
from colonnade.cli import app
from colonnade.core.method import Method
from colonnade.errors import AwayError, ConfigError, TableError
from colonnade.wire.owner_half import OwnerHalf

ROWS, CLASSES = 60, 3
TOLERANCE = {"rtol": 1e-3, "atol": 1e-4}  # as in test_contract.py
CASES: list[Method] = [
    cls() for cls in cn.methods().values() if cls.__module__.startswith("colonnade.") and not cls().whole_rounds
]
CASES += [
    cn.VAFL(learn_weights=False),
    cn.FedBCD(combine="sum"),
    cn.CVFL(local_steps=3, messages="paper"),
    cn.VIMADMM(messages="paper"),
    cn.VIMADMMJ(messages="paper"),
    cn.VFedMH(local_steps=3),
    cn.APFed(loss="contrastive", contribution_every=2),
    cn.TVFL(fill="none"),
]
State = dict[str, Tensor]


def federation(method: Method, parties: int = 4, seed: int = 0, owner: str = "") -> list[cn.Table]:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(ROWS, 3 * parties)).astype(np.float32)
    y = (x @ np.random.default_rng(9).normal(size=(3 * parties, CLASSES))).argmax(1)
    return cn.split(x, y, parties, owner=owner or ("first" if method.needs_owner_columns else "labels"))


def train(method: Method, **more: Any) -> cn.Run:
    options = {"rounds": 6, "batch": 16, "seed": 3, "model": cn.MLP((5,)), "optimizer": cn.SGD(0.02)} | more
    return cn.train(options.pop("tables", None) or federation(method), method, **options)


def case_id(method: Method) -> str:
    names = ("combine", "fill", "learn_weights", "messages", "local_steps", "loss")
    return "-".join([method.name, *[str(getattr(method, name)) for name in names if hasattr(method, name)]])


class Attendance:
    """``absent=`` and ``on_round=`` of a run that one party, or some, are absent from in rounds 2 and 3."""

    def __init__(self, *gone: str, rounds: tuple[int, ...] = (2, 3)) -> None:
        self.gone, self.rounds = list(gone) or ["party 3"], rounds
        self.states: dict[int, State] = {}
        self.bytes: dict[int, Any] = {}
        self.took_part: dict[int, list[str]] = {}

    def absent(self, number: int) -> list[str]:
        return self.gone if number in self.rounds else []

    def on_round(self, run: cn.Run) -> None:
        name = self.gone[0]
        side = f"party-{run.parties.names.index(name):03d}"
        self.states[run.round], self.took_part[run.round] = run.model.states()[side], run.took_part
        lines = [line for line in run.ledger.rows if name in (line.sender, line.receiver)]
        self.bytes[run.round] = sum(line.total for line in lines)

    @property
    def hooks(self) -> dict[str, Any]:
        return {"absent": self.absent, "on_round": self.on_round}

    def same(self, one: int, other: int) -> bool:
        return self.states[one].keys() == self.states[other].keys() and all(
            torch.equal(value, self.states[other][name]) for name, value in self.states[one].items()
        )


def everything(run: cn.Run) -> State:
    return {f"{side}/{name}": value for side, state in run.model.states().items() for name, value in state.items()}


def without_time(history: list[dict[str, float]]) -> list[dict[str, float]]:
    return [{name: value for name, value in row.items() if name != "seconds"} for row in history]


@pytest.mark.parametrize("optimizer", [cn.SGD(0.02), cn.Adam(0.01)], ids=["sgd", "adam"])
@pytest.mark.parametrize("missing", ["refuse", "mean"])
@pytest.mark.parametrize("method", CASES, ids=case_id)
def test_every_method_goes_on_without_a_party_and_takes_it_back(method: Method, missing: str, optimizer: Any) -> None:
    runs, method = {}, replace(method, optimizer="sgd" if isinstance(optimizer, cn.SGD) else "adam")
    for runtime in ("loop", "fused", "bytes"):
        seen = Attendance()
        runs[runtime] = run = train(
            method, runtime=runtime, when_absent="without", missing=missing, optimizer=optimizer, **seen.hooks
        )
        # A method that asks nobody does not notice.
        asked = run.parties.names[:1] if method.name == "local" else run.parties.names
        missed = 2 if method.name != "local" else 0
        assert run.round == 6 and run.without == missed and run.skipped == 0
        assert run.missed == {name: missed * (name in seen.gone) for name in run.parties.names}
        here = [name for name in asked if name not in seen.gone]
        assert [seen.took_part[number] for number in (2, 3, 4, 5)] == [asked, here, here, asked]
        assert seen.same(2, 4), "a party moved while it was absent"
        assert seen.bytes[2] == seen.bytes[4], "a byte went to or from a party that was absent"
        if method.name != "local":
            assert not seen.same(1, 2) and not seen.same(4, 5)
            assert seen.bytes[4] < seen.bytes[5]
    loop = runs["loop"]
    for other in (runs["fused"], runs["bytes"]):
        assert other.ledger.to_json() == loop.ledger.to_json()
        for name, value in everything(loop).items():
            torch.testing.assert_close(everything(other)[name], value, **TOLERANCE, msg=lambda m, n=name: f"{n}: {m}")
    # Adam counts its steps, so those who took fewer cannot share one with the others any more.
    stays = isinstance(optimizer, cn.SGD) or method.name == "local"
    assert stays == any(
        2 in site.members and len(site.members) > 1 for site in runs["fused"].parties.backend.grouping.groups
    )


# Found absent midway, all absent, and exact resume


def lose(monkeypatch: pytest.MonkeyPatch, rounds: set[int], step: str, purpose: str = "train") -> None:
    """Party 3 falls silent at one step of these rounds, and the owner hears of it only then."""
    carry = OwnerHalf.count

    def carried(self: OwnerHalf, fields: Any, sender: str, receiver: str, what: str, turn: cn.Turn, *rest: Any) -> Any:
        found = turn.purpose == purpose and turn.round in rounds and what == step and "party 3" in (sender, receiver)
        if found and "party 3" not in self.presence.absence.absent:
            raise AwayError("'party 3' did not answer.", "party 3")
        return carry(self, fields, sender, receiver, what, turn, *rest)

    monkeypatch.setattr(OwnerHalf, "count", carried)


@pytest.mark.parametrize("runtime", ["loop", "fused"])
@pytest.mark.parametrize(("method", "step"), [(cn.VAFL(), "embed"), (cn.VAFL(), "follow"), (cn.VFedMH(), "decide")])
def test_a_party_found_absent_midway_is_as_if_it_had_not_come(
    method: Method, step: str, runtime: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    more = {"runtime": runtime, "when_absent": "without", "missing": "zero", "evaluate_every": 2}
    known = train(method, absent=Attendance().absent, **more)
    with monkeypatch.context() as midway:
        lose(midway, {2, 3}, step)
        run = train(method, **more)
    for name, value in everything(known).items():
        assert torch.equal(everything(run)[name], value), name
    assert run.missed == known.missed and run.without == 2
    assert run.ledger.bytes_for("train") > known.ledger.bytes_for("train"), "what was sent in vain was sent"


@pytest.mark.parametrize("choice", ["skip", "without"])
@pytest.mark.parametrize("owner", ["labels", "first"])
def test_a_round_that_all_are_absent_from_is_skipped(owner: str, choice: str) -> None:
    method = cn.FDML()
    tables = federation(method, owner=owner)
    others = [table.name for table in tables[1:]]
    run = train(method, tables=tables, when_absent=choice, absent=lambda number: others if number == 1 else None)
    assert run.skipped == 1 and run.without == 0 and run.round == 6
    alone = train(cn.Local(), when_absent="without", absent=lambda _: ["party 2", "party 3", "party 4"])
    assert alone.skipped == 0 and alone.without == 0
    undisturbed = everything(train(cn.Local()))
    assert all(torch.equal(value, undisturbed[name]) for name, value in everything(alone).items())


@pytest.mark.parametrize("method", [cn.VIMADMM(), cn.VFedMH(), cn.APFed()], ids=lambda method: method.name)
@pytest.mark.parametrize("choice", ["skip", "without"])
def test_resuming_with_drop_outs_is_exact(method: Method, choice: str, tmp_path: Path) -> None:
    def absent(number: int) -> str | None:
        return "party 3" if number in (1, 3, 4) else None

    def die(run: cn.Run) -> None:
        if run.round == 4:
            raise KeyboardInterrupt

    more = {
        "when_absent": choice,
        "missing": "zero",
        "absent": absent,
        "evaluate_every": 3,
        "test": federation(method, seed=1),
    }
    whole = train(method, **more)
    with pytest.raises(KeyboardInterrupt):
        train(method, folder=tmp_path / "run", on_round=die, **more)
    resumed = cn.resume(tmp_path / "run", federation(method), test=more["test"], absent=absent)
    assert (resumed.missed, resumed.skipped, resumed.without) == (whole.missed, whole.skipped, whole.without)
    assert whole.missed["party 3"] == 3 == whole.skipped + whole.without
    assert without_time(resumed.history) == without_time(whole.history)
    assert [row[{"skip": "skipped", "without": "without"}[choice]] for row in whole.history] == [1, 3]
    assert cn.resume(tmp_path / "run", federation(method), train=False).missed == whole.missed
    for name, value in everything(whole).items():
        assert torch.equal(everything(resumed)[name], value), name
    assert "without" in resumed.summary() and resumed.report(tmp_path / "page.html").exists()


@pytest.mark.parametrize("choice", ["skip", "without"])
def test_two_may_be_absent_from_a_round(choice: str) -> None:
    method, seen = cn.VAFL(), Attendance("party 2", "party 3", rounds=(3,))
    more = {"missing": "zero", "evaluate_every": 2, "test": federation(method, seed=1)}
    run = train(method, when_absent=choice, **more, **seen.hooks)
    assert run.missed == {"party 1": 0, "party 2": 1, "party 3": 1, "party 4": 0}
    assert seen.took_part[4] == (["party 1", "party 4"] if choice == "without" else [])
    assert all("test_accuracy" in row for row in run.history) and seen.same(3, 4)


def test_waiting_stops_a_run_that_somebody_is_absent_from() -> None:
    with pytest.raises(AwayError, match="'party 3' is absent in round 2"):
        train(cn.VAFL(), absent=Attendance().absent)
    assert train(cn.Local(), absent=Attendance().absent).round == 6, "who is never asked cannot be missed"


def test_a_mean_stands_for_a_party_only_once_it_has_answered() -> None:
    method = cn.FDML()

    def run(missing: str, *rounds: int) -> cn.Run:
        return train(method, when_absent="without", missing=missing, absent=Attendance(rounds=rounds).absent, rounds=3)

    def same(one: cn.Run, other: cn.Run) -> bool:
        return all(torch.equal(value, everything(other)[name]) for name, value in everything(one).items())

    assert same(run("mean", 0), run("zero", 0))
    assert not same(run("mean", 2), run("zero", 2))
    assert same(run("refuse", 2), run("zero", 2)), "a run that refuses predictions trains with zeros"


def test_heads_are_refitted_on_a_round_that_all_took_part_in() -> None:
    method = cn.VIMSGD()
    seen = Attendance(rounds=(4, 5))
    run = train(method, when_absent="without", missing="refit", **seen.hooks)
    assert len(run.schedule.batch_of(3)) < 16
    assert torch.equal(run.model.half.memory.rows, run.schedule.batch_of(2)), "the last whole batch, of all parties"
    assert bool(torch.isfinite(run.predict(federation(method, seed=1), absent=["party 2"])).all())


# Looking on the way


@pytest.mark.parametrize("choice", ["skip", "without"])
@pytest.mark.parametrize("missing", ["refuse", "zero", "mean", "refit"])
def test_an_evaluation_that_somebody_is_absent_from_does_not_stop_the_run(choice: str, missing: str) -> None:
    method, seen = cn.VIMSGD(), Attendance(rounds=(3,))
    run = train(
        method,
        when_absent=choice,
        missing=missing,
        evaluate_every=2,
        valid=0.2,
        test=federation(method, seed=1),
        **seen.hooks,
    )
    looked = [{part for part in ("valid", "test") if f"{part}_accuracy" in row} for row in run.history]
    both = {"valid", "test"}
    assert looked == [both, set() if missing == "refuse" else both, both]
    evaluated = [line for line in run.ledger.rows if line.purpose == "evaluate" and line.sender == "party 3"]
    assert sum(line.messages for line in evaluated) == 4, "two of three evaluations, of two tables each"


def test_stopping_early_waits_for_the_next_look(tmp_path: Path) -> None:
    method = cn.VAFL()
    seen = Attendance(rounds=(1, 7))
    run = train(method, rounds=8, evaluate_every=2, valid=0.3, stop_drop=100.0, when_absent="without", **seen.hooks)
    assert ["valid_accuracy" in row for row in run.history] == [False, True, True, False]
    best = max(row["valid_accuracy"] for row in run.history[1:3])
    assert run.task.metrics(*run.model.judged_held_out())["accuracy"] == pytest.approx(best), (
        "the best that was seen is in place"
    )
    assert run.report(tmp_path / "page.html").exists()


def test_a_run_that_waits_is_stopped_by_an_evaluation(monkeypatch: pytest.MonkeyPatch) -> None:
    lose(monkeypatch, {3}, "embed", "evaluate")
    more = {"test": federation(cn.VAFL(), seed=1), "evaluate_every": 3}
    with pytest.raises(AwayError, match="'party 3' did not answer"):
        train(cn.VAFL(), **more)
    run = train(cn.VAFL(), when_absent="without", missing="zero", **more)
    assert ["test_accuracy" in row for row in run.history] == [False, True]


# A model per party


@pytest.mark.parametrize("runtime", ["loop", "fused"])
@pytest.mark.parametrize("missing", ["zero", "mean"])
def test_each_partys_own_model_does_without_the_absent(missing: str, runtime: str) -> None:
    method = cn.VFedMH()
    run, tables = train(method, runtime=runtime), federation(method, seed=1)
    here = ["owner", "party 2", "party 4"]
    before = dict(run.ledger.by_party)
    each = run.predict_each(tables, absent=["party 3"], missing=missing)
    assert list(each) == here == run.took_part
    assert run.ledger.by_party["party 3"] == before["party 3"]
    torch.testing.assert_close(each["owner"], run.predict(tables, absent=["party 3"], missing=missing))
    assert not torch.equal(each["party 2"], run.predict_each(tables)["party 2"])
    scores = run.evaluate_each([table for table in tables if table.name != "party 3"], missing=missing)
    assert list(scores) == here
    for name, found in each.items():
        accuracy = float((found.argmax(1) == tables[0].labels).float().mean())
        assert scores[name]["accuracy"] == pytest.approx(accuracy)
    with pytest.raises(AwayError, match="'party 3' is absent and vfedmh needs every answer"):
        run.evaluate_each(tables, absent=["party 3"])
    with pytest.raises(AwayError, match="all parties are absent"):
        run.predict_each(tables, absent=["party 2", "party 3", "party 4"], missing="zero")


# Seals


@pytest.mark.parametrize("method", [cn.FDML(), cn.VIMADMMJ(), cn.APFed()], ids=lambda method: method.name)
def test_a_blinded_run_goes_on_while_enough_are_here(method: Method) -> None:
    tables = federation(method, parties=6)
    blind, seen = cn.Blind(ring=64, recover=True), Attendance()
    more = {"tables": tables, "when_absent": "without", "missing": "zero"}
    sealed, plain = (train(method, seal=seal, **seen.hooks, **more) for seal in (blind, None))
    assert sealed.without == 2 and seen.same(2, 4) and seen.bytes[2] == seen.bytes[4]
    for name, value in everything(plain).items():
        if "heard/" not in name:
            torch.testing.assert_close(everything(sealed)[name], value, rtol=1e-3, atol=1e-4)
    few = Attendance("party 3", "party 4", "party 5")
    run = train(method, seal=blind, **few.hooks, **more)
    assert run.skipped == 2 and run.round == 6


def test_what_cannot_be_followed_is_refused_before_training() -> None:
    method, tables = cn.FDML(), federation(cn.FDML(), parties=6)
    for more, told in (
        ({"seal": cn.Blind(ring=64)}, r"fdml as set here cannot follow when_absent='without': .*recover=True"),
        (
            {"seal": cn.Blind(ring=64, recover=True), "missing": "mean"},
            "cannot follow missing='mean': the owner sees only blinded sums",
        ),
        (
            {"seal": cn.Bits(8, feedback=True)},
            r"bits\(feedback=True\) on the way down, .*; use feedback with ways='up'",
        ),
        ({"when_absent": "withouth"}, "unknown choice of when_absent 'withouth'; did you mean 'without'"),
        ({"when_absent": None}, "unknown choice of when_absent 'None'"),
        ({"missing": "means"}, "unknown policy for absent parties 'means'; did you mean 'mean'"),
        ({"absent": ["party 3"]}, "is not a function from a round's number"),
        ({"absent": lambda _: ["party 9"]}, "unknown party 'party 9'"),
    ):
        with pytest.raises(ConfigError, match=told):
            train(method, tables=tables, **{"when_absent": "without", **more})
    sealed = {"seal": cn.Blind(ring=64, recover=True), "missing": "mean", "when_absent": "without"}
    with pytest.raises(
        ConfigError, match=r"cannot follow when_absent='without' with missing='mean'.*use missing='zero'"
    ):
        train(cn.APFed(), tables=federation(cn.APFed(), parties=6), **sealed)
    with pytest.raises(TableError, match="'owner' is the owner's own table and cannot be absent"):
        train(cn.APFed(), when_absent="without", absent=lambda _: "owner")


@pytest.mark.parametrize("seal", [cn.Bits(8), cn.Bits(8, feedback=True, ways="up"), cn.TopK(0.5, ways="up")], ids=repr)
def test_compression_remembers_nothing_of_rounds_that_were_missed(seal: Any) -> None:
    seen = Attendance()
    run = train(cn.VAFL(), rounds=12, seal=seal, when_absent="without", **seen.hooks)
    assert run.without == 2 and seen.same(2, 4)


def test_noise_of_a_round_that_was_missed_costs_nothing() -> None:
    seen = Attendance()
    run = train(cn.VAFL(), seal=cn.Noise(epsilon=50.0), when_absent="without", **seen.hooks)
    sent = {name: facts["messages"]["train"] for name, facts in run.privacy.items()}
    assert sent["party 3"] == sent["party 2"] - 2


# Job files

JOB = """
[data]
load = "digits"
parties = 3
rows = 120

[train]
method = "vafl"
rounds = 2
batch = 60
"""


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path / "job.toml"


@pytest.mark.parametrize("choice", ["wait", "skip", "without"])
def test_a_job_says_what_to_do_about_absence(job: Path, choice: str) -> None:
    job.write_text(JOB + f'missing = "mean"\nwhen_absent = "{choice}"\n')
    result = CliRunner().invoke(app, ["train", str(job), "--folder", "run", "--quiet"])
    assert result.exit_code == 0, result.output
    run = cn.resume("run", train=False)
    assert (run.settings.missing, run.settings.when_away) == ("mean", choice)
    assert ("without" in run.history[-1]) == (choice == "without")
    assert run.predict(cn.load("digits", parties=3, rows=120)[1], absent=["party 2"]).shape[1] == 10
    job.write_text(JOB + 'missing = "zero"\n')
    result = CliRunner().invoke(app, ["train", str(job), "--folder", "run", "--resume", "--quiet"])
    assert result.exit_code == 2 and "has missing 'mean', but the job says 'zero'" in result.stderr


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ('missing = "zeros"', "unknown policy for absent parties 'zeros'; did you mean 'zero'?"),
        ("missing = 0", "missing = 0 in [train] is not a text."),
        (
            'missing = "refit"',
            "vafl as set here cannot follow missing='refit': vafl has no head per party at the owner",
        ),
        ('when_absent = "go"', "unknown choice of when_absent 'go'; known: skip, wait, without."),
        ("when_absent = true", "when_absent = True in [train] is not a text."),
        (
            'when_absent = "without"\n[method]\nlearn_weights = false\n[[seal]]\nkind = "blind"',
            "cannot follow when_absent",
        ),
        ('whenabsent = "skip"', "unknown key of [train] 'whenabsent'; did you mean 'when_absent'?"),
    ],
)
def test_a_job_with_an_odd_policy_is_refused_in_one_sentence(job: Path, line: str, told: str) -> None:
    job.write_text(JOB + line + "\n")
    result = CliRunner().invoke(app, ["train", str(job), "--quiet"])
    assert result.exit_code == 2 and result.stdout == ""
    (said,) = result.stderr.splitlines()
    assert said.startswith("error: ") and told in said
