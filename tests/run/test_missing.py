"""Parties that are absent at prediction: every method under every policy gives an answer or one clear refusal."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from test_drop_outs import CLASSES, ROWS, federation
from torch import Tensor

import colonnade as cn
from colonnade.core.method import Method
from colonnade.core.settings import Settings
from colonnade.core.table import parties_of
from colonnade.core.usual_options import settled
from colonnade.errors import AwayError, ConfigError, SealError, TableError
from colonnade.run import run_files
from colonnade.run.model import Model
from colonnade.runtime.plan import Plan
from colonnade.wire.answer_memory import RECENT
from colonnade.wire.owner_half import OwnerHalf
from quick_methods import quick

POLICIES = ["refuse", "zero", "mean", "refit"]
ALONE = {"local", "apfed", "tvfl"}
REFITS = {"vimsgd", "vimadmm"}
CASES: list[Method] = [quick(cls) for cls in cn.methods().values() if cls.__module__.startswith("colonnade.")]
CASES += [cn.VAFL(learn_weights=False), cn.FedBCD(combine="sum"), cn.TVFL(fill="none")]


def train(method: Method, **more: Any) -> cn.Run:
    options = {"rounds": 6, "batch": 16, "seed": 3, "model": cn.MLP((5,))} | more
    return cn.train(options.pop("tables", None) or federation(method), method, **options)


def scrambled(tables: list[cn.Table], name: str) -> list[cn.Table]:
    """The same federation with other values in one party's columns."""
    return [replace(t, columns=t.columns * 100 - 7) if t.name == name else t for t in tables]


def without(tables: list[cn.Table], *names: str) -> list[cn.Table]:
    return [table for table in tables if table.name not in names]


def case_id(method: Method) -> str:
    return "-".join(
        [method.name, *[str(getattr(method, n)) for n in ("combine", "fill", "learn_weights") if hasattr(method, n)]]
    )


@pytest.mark.parametrize("runtime", ["loop", "fused"])
@pytest.mark.parametrize("method", CASES, ids=case_id)
def test_every_method_answers_or_refuses_under_every_policy(method: Method, runtime: str) -> None:
    run, tables = train(method, runtime=runtime), federation(method, seed=1)
    gone, groups = run.parties.names[2], [site.members for site in run.parties.backend.grouping.groups]
    state, full = run.model.states(), run.predict(tables)
    alone = method.predicts_alone
    assert alone == (method.name in ALONE and getattr(method, "fill", "") != "none")
    assert run.took_part == (run.parties.names[:1] if alone else run.parties.names)
    for policy in POLICIES:
        if not alone and policy == "refuse":
            with pytest.raises(
                AwayError, match=rf"'{gone}' is absent and {method.name} .*missing='zero', missing='mean'"
            ):
                run.predict(tables, absent=[gone], missing=policy)
        elif not alone and policy == "refit" and method.name not in REFITS:
            with pytest.raises(ConfigError, match=rf"{method.name} .*cannot follow missing='refit': .*no head"):
                run.predict(tables, absent=[gone], missing=policy)
        else:
            before = dict(run.ledger.by_party)
            found = run.predict(tables, absent=[gone], missing=policy)
            assert run.ledger.by_party.get(gone) == before.get(gone), "a byte went to or from a party that is absent"
            assert found.shape == (ROWS, CLASSES) and bool(torch.isfinite(found).all())
            assert torch.equal(found, run.predict(scrambled(tables, gone), absent=[gone], missing=policy))
            assert torch.equal(found, run.predict(without(tables, gone), missing=policy))
            assert torch.equal(found, full) == alone
            assert run.took_part == [name for name in run.parties.names[: 1 if alone else None] if name != gone]
            accuracy = float((found.argmax(1) == tables[0].labels).float().mean())
            assert run.evaluate(tables, absent=gone, missing=policy)["accuracy"] == pytest.approx(accuracy)
    assert [site.members for site in run.parties.backend.grouping.groups] == groups, "fused groups stay whole"
    for side, own in run.model.states().items():
        assert all(torch.equal(value, state[side][name]) for name, value in own.items()), (
            "a prediction changed the model"
        )
    torch.testing.assert_close(run.predict(tables), full)


def outputs(run: cn.Run, tables: list[cn.Table], step: str) -> list[Tensor]:
    run.model.place("hand", tables, labelled=False)
    turn = cn.Turn(run.round, torch.arange(ROWS), "hand", "predict")
    return [reply[0] for reply in run.parties.ask(getattr(type(run.method), step), turn)]


@pytest.mark.parametrize("runtime", ["loop", "fused", "bytes"])
@pytest.mark.parametrize("policy", ["zero", "mean"])
@pytest.mark.parametrize("method", [cn.VAFL(), cn.FDML()], ids=lambda m: m.name)
def test_zero_and_mean_equal_a_hand_computation(method: Method, policy: str, runtime: str) -> None:
    step = "embed" if method.name == "vafl" else "logits"
    means: list[Tensor] = []
    table = federation(method)

    # What party 1 answers in round r are the outputs of its network after r rounds, on the rows of that round.
    def listen(run: cn.Run) -> None:
        means.append(outputs(run, table, step)[1][run.schedule.batch_of(run.round)].mean(0))

    listen(untrained(method, runtime))
    train(method, runtime=runtime, rounds=30, on_round=listen)
    mean = means[0]
    for number, now in enumerate(means[1:30], 2):
        mean = mean + (now - mean) * max(1 / number, RECENT)
    run, tables = train(method, runtime=runtime, rounds=30), federation(method, seed=1)
    o = outputs(run, tables, step)
    o[1] = torch.zeros_like(o[1]) if policy == "zero" else mean.expand_as(o[1])
    total = (
        sum(o) if method.name == "fdml" else run.owner.top(sum(a * h for a, h in zip(run.owner.alpha, o, strict=True)))
    )
    found = run.predict(tables, absent=[run.parties.names[1]], missing=policy)
    torch.testing.assert_close(found, torch.softmax(total.detach(), -1), rtol=1e-4, atol=1e-5)


def untrained(method: Method, runtime: str) -> cn.Run:
    tables, method = federation(method), settled(method, on_tables=True)
    parties = len(parties_of(tables))
    settings = Settings(1, 16, 3, runtime, 0.0, "epoch", 1, None, 1)
    return cn.Run(tables, Plan(method, settings, (cn.MLP((5,)),) * parties, (method.party_optimizer,) * parties))


def test_two_may_be_absent_at_once_and_the_owners_columns_never() -> None:
    method = cn.FDML()
    run, tables = train(method, tables=federation(method, owner="first")), federation(method, seed=1, owner="first")
    own, first, second, third = run.parties.names
    run.predict(without(tables, first), absent=[third], missing="zero")
    assert run.took_part == [own, second]
    with pytest.raises(TableError, match=f"'{own}' is the owner's own"):
        run.predict(tables, absent=[own], missing="zero")


@pytest.mark.parametrize("method", CASES, ids=case_id)
def test_all_absent_is_refused_unless_the_owner_predicts_alone(method: Method) -> None:
    run, tables = train(method, rounds=1), federation(method, seed=1)
    others = run.parties.names[1:] if run.parties.home else run.parties.names
    if method.predicts_alone:
        assert torch.equal(run.predict(tables, absent=others), run.predict(tables))
        assert torch.equal(run.predict(tables[:1]), run.predict(tables))
    else:
        with pytest.raises(AwayError, match="all parties are absent"):
            run.predict(tables, absent=others, missing="zero")


def test_odd_requests_are_refused_in_one_sentence(tmp_path: Path) -> None:
    method = cn.VAFL()
    run, tables = train(method), federation(method, seed=1)
    with pytest.raises(ConfigError, match="unknown policy for absent parties 'zeros'; did you mean 'zero'"):
        run.predict(tables, missing="zeros")
    with pytest.raises(ConfigError, match="unknown policy"):
        train(method, missing="guess")
    with pytest.raises(ConfigError, match="cannot follow missing='refit'"):
        train(method, missing="refit")
    with pytest.raises(ConfigError, match="unknown party 'party 9'"):
        run.predict(tables, absent=["party 9"], missing="zero")
    with pytest.raises(TableError, match=r"is absent, but the model was trained on .*missing='zero', missing='mean'"):
        run.predict(without(tables, run.parties.names[1]))
    with pytest.raises(TableError, match="the parties have names"):
        run.predict([tables[0], *tables[:0:-1]], missing="zero")
    assert run.parties.presence.absence.absent == frozenset()


def test_the_policy_of_a_run_is_kept_in_its_folder(tmp_path: Path) -> None:
    method = cn.VAFL()
    run, tables = train(method, missing="mean", folder=tmp_path / "run"), federation(method, seed=1)
    gone = run.parties.names[1]
    again = cn.resume(tmp_path / "run", federation(method), train=False)
    assert again.settings.missing == "mean"
    assert torch.equal(again.predict(tables, absent=[gone]), run.predict(tables, absent=[gone], missing="mean"))


def test_refitting_survives_a_resume(tmp_path: Path) -> None:
    method = cn.VIMADMM()
    run, tables = train(method, missing="refit", folder=tmp_path / "run"), federation(method, seed=1)
    gone = run.parties.names[1]
    again = cn.resume(tmp_path / "run", federation(method), train=False)
    found = run.predict(tables, absent=[gone])
    assert torch.equal(again.predict(tables, absent=[gone]), found)
    assert not torch.equal(run.predict(tables, absent=[gone], missing="zero"), found)


def test_a_folder_of_before_there_were_policies_is_resumed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    method, folder = cn.VAFL(), tmp_path / "run"
    facts, heard = run_files.facts_of, Model.states

    def old_facts(run: cn.Run) -> dict[str, Any]:
        found = facts(run)
        for later in ("missing", "when_away"):
            found["description"]["settings"].pop(later)
        found.pop("skipped")
        return found

    def old_states(model: Model) -> dict[str, dict[str, Tensor]]:
        sides = heard(model)
        return {side: {k: v for k, v in own.items() if not k.startswith("heard/")} for side, own in sides.items()}

    with monkeypatch.context() as old:
        old.setattr(run_files, "facts_of", old_facts)
        old.setattr(Model, "states", old_states)
        train(method, folder=folder)
    run = cn.resume(folder, federation(method), train=False)
    with pytest.raises(AwayError, match="knows no mean"):
        run.predict(federation(method, seed=1), absent=[run.parties.names[1]], missing="mean")
    cn.resume(folder, federation(method), rounds=8)
    assert cn.resume(folder, federation(method), train=False).round == 8


def test_a_blinded_sum_goes_on_without_a_party_only_if_it_can_be_recovered() -> None:
    method, tables = cn.FDML(), federation(cn.FDML(), parties=6, seed=1)
    run = train(method, tables=federation(method, parties=6), seal=cn.Blind(ring=64))
    gone = run.parties.names[1]
    with pytest.raises(ConfigError, match=r"cannot follow missing='zero': .*recover=True.*no other policy"):
        run.predict(tables, absent=[gone], missing="zero")
    with pytest.raises(AwayError, match="no other policy"):
        run.predict(tables, absent=[gone])
    blind = cn.Blind(ring=64, recover=True)
    sealed, plain = (train(method, tables=federation(method, parties=6), seal=seal) for seal in (blind, None))
    with pytest.raises(ConfigError, match="knows no party's mean; it can follow missing='zero'"):
        sealed.predict(tables, absent=[gone], missing="mean")
    found = sealed.predict(tables, absent=[gone], missing="zero")
    torch.testing.assert_close(found, plain.predict(tables, absent=[gone], missing="zero"), rtol=1e-3, atol=1e-4)
    assert sealed.took_part == [name for name in sealed.parties.names if name != gone]
    fresh = federation(method, parties=6, seed=2)
    with pytest.raises(SealError, match="5 are needed"):  # more than two thirds must answer
        sealed.predict(fresh, absent=sealed.parties.names[:3], missing="zero")


def test_noise_of_a_party_that_is_absent_costs_nothing() -> None:
    method = cn.VAFL()
    run = train(method, seal=cn.Noise(epsilon=50.0), rounds=2)
    tables, gone = federation(method, seed=1), run.parties.names[1]
    before = run.privacy[gone]
    run.predict(tables, absent=[gone], missing="zero")
    assert run.privacy[gone] == before


def test_nothing_is_kept_of_answers_where_a_prediction_asks_nobody() -> None:
    run = train(cn.APFed())
    assert not run.model.half.memory.state()


def lose(monkeypatch: pytest.MonkeyPatch, rounds: set[int], step: str) -> None:
    """Party 3 is absent for one step of these rounds."""
    carry = OwnerHalf.count

    def carried(self: OwnerHalf, fields: Any, sender: str, receiver: str, what: str, turn: cn.Turn, *rest: Any) -> Any:
        if turn.training and turn.round in rounds and what == step and "party 3" in (sender, receiver):
            raise AwayError("party 3 did not answer")
        return carry(self, fields, sender, receiver, what, turn, *rest)

    monkeypatch.setattr(OwnerHalf, "count", carried)


@pytest.mark.parametrize("runtime", ["loop", "fused"])
@pytest.mark.parametrize(("method", "step"), [(cn.VAFL(), "embed"), (cn.VAFL(), "follow"), (cn.VIMADMM(), "fit")])
def test_a_round_that_somebody_is_absent_in_can_be_skipped(
    method: Method, step: str, runtime: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    seen: dict[int, dict[str, dict[str, Tensor]]] = {}
    lose(monkeypatch, {2, 3}, step)
    with pytest.raises(AwayError, match="party 3 did not answer"):
        train(method, runtime=runtime)

    def look(run: cn.Run) -> None:
        seen[run.round] = run.model.states()

    more = {"runtime": runtime, "when_absent": "skip", "evaluate_every": 2}
    run = train(method, on_round=look, **more)
    assert run.skipped == 2 and run.round == 6
    assert [row["skipped"] for row in run.history] == [0, 2, 2]
    assert ["train_loss" in row for row in run.history] == [True, False, True]

    def same(one: int, other: int) -> bool:
        pairs = [(value, seen[other][side][name]) for side, own in seen[one].items() for name, value in own.items()]
        return all(torch.equal(*pair) for pair in pairs)

    assert same(2, 4) and not same(4, 5)

    def die(run: cn.Run) -> None:
        if run.round == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(method, folder=tmp_path / "run", on_round=die, **more)
    resumed = cn.resume(tmp_path / "run", federation(method), model=cn.MLP((5,)))
    assert resumed.skipped == 2
    resumed.report(tmp_path / "report.html")
    for side, own in resumed.model.states().items():
        assert all(torch.equal(value, seen[6][side][name]) for name, value in own.items())


def test_an_unknown_choice_of_when_absent_is_refused() -> None:
    with pytest.raises(ConfigError, match="unknown choice of when_absent 'skipp'; did you mean 'skip'"):
        train(cn.VAFL(), when_absent="skipp")


def test_a_sum_is_not_opened_twice_over_different_parties() -> None:
    method, tables = cn.FDML(), federation(cn.FDML(), parties=6, seed=1)
    run = train(method, tables=federation(method, parties=6), seal=cn.Blind(ring=64, recover=True))
    run.predict(tables)
    with pytest.raises(SealError):
        run.predict(tables, absent=[run.parties.names[1]], missing="zero")


def test_no_part_of_the_same_people_is_summed_over_other_parties() -> None:
    train, test = cn.load("digits", parties=5, owner="first")
    run = cn.train(train, "fdml", rounds=2, batch=128, seal=cn.Blind(recover=True))
    run.predict(test)
    some, others = np.arange(100)[::-1], np.arange(200, 300)
    with pytest.raises(
        SealError, match=r"of rows that were given to one over.*the difference would show single parties"
    ):
        run.predict([table.take(some) for table in test], absent=["party 2"], missing="zero")
    run.predict([table.take(some) for table in test])
    fresh = cn.train(train, "fdml", rounds=2, batch=128, seal=cn.Blind(recover=True))
    fresh.predict([table.take(others) for table in test])
    fresh.predict([table.take(some) for table in test], absent=["party 2"], missing="zero")
    assert "party 2" not in fresh.took_part


def test_local_does_not_notice_who_is_absent() -> None:
    train, test = cn.load("digits", parties=4, owner="first")
    run = cn.train(train, "local", rounds=3, when_absent="without", absent=lambda _: ["party 2"])
    assert (run.without, set(run.missed.values()), run.took_part) == (0, {0}, ["owner"])
    run.predict(test)
    assert run.took_part == ["owner"]


@pytest.mark.parametrize("absent", [None, 3])
def test_names_that_are_none(absent: object) -> None:
    train, test = cn.load("digits", parties=4)
    run = cn.train(train, "fdml", rounds=1)
    with pytest.raises(ConfigError, match="came for those who are absent; give the names"):
        run.predict(test, absent=absent)
    with pytest.raises(ConfigError, match="3 came for those who are absent"):
        cn.train(train, "fdml", rounds=1, absent=lambda _: 3)
