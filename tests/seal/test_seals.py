"""Seals in training: alike on every runtime, exact to resume, true bytes in the ledger, and what they hide."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import colonnade as cn
from colonnade.core.method import Method
from colonnade.errors import AwayError, ConfigError, PrivacyError, SealError
from colonnade.runtime.parties import AllParties
from colonnade.seal.blind import FewBitCode
from colonnade.seal.seal_end import SealEnd
from colonnade.wire.owner_half import OwnerHalf
from quick_methods import quick

ROWS, CLASSES, ROUNDS = 60, 3, 8
J = cn.VIMADMMJ(lr=0.02, local_steps=4)
BLINDABLE: list[Method] = [
    J,
    cn.FDML(),
    cn.FedBCD(combine="sum", local_steps=2),
    cn.AggVFL(),
    cn.VAFL(learn_weights=False),
    cn.VFedMH(),
    cn.APFed(),
]
SEALS: dict[str, Any] = {
    "bits": cn.Bits(8),
    "bits, feedback": cn.Bits(6, feedback=True),
    "topk": cn.TopK(0.7),
    "topk, feedback": cn.TopK(0.4, feedback=True),
    "blind": cn.Blind(),
    "blind, 64": cn.Blind(ring=64),
    "blind and bits": [cn.Blind(), cn.Bits(10, scale=6.0)],
    "blind and bits, feedback": [cn.Bits(9, scale=6.0, feedback=True), cn.Blind()],
    "random labels": cn.RandomLabels(2.0),
    "laplace labels": cn.LaplaceLabels(2.0),
    "all": [cn.Blind(), cn.Bits(10, scale=60.0), cn.Noise(epsilon=200.0, sigma=2.0), cn.RandomLabels(4.0)],
}


def federation(method: Method = J, widths: tuple[int, ...] = (3, 3, 3, 2)) -> list[cn.Table]:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(ROWS, sum(widths))).astype(np.float32)
    y = (x @ rng.normal(size=(sum(widths), CLASSES))).argmax(1)
    cuts = np.cumsum((0, *widths))
    owner = "first" if method.needs_owner_columns else "labels"
    return cn.split(x, y, [list(range(a, b)) for a, b in itertools.pairwise(cuts)], owner=owner)


def train(method: Method, seal: Any, runtime: str = "loop", **more: Any) -> cn.Run:
    tables = federation(method)
    settings = {"rounds": ROUNDS, "batch": 16, "seed": 3, "valid": 0.1, "test": tables}
    return cn.train(tables, method, seal=seal, runtime=runtime, **{**settings, **more})


def everything(run: cn.Run) -> dict[str, Tensor]:
    return {f"{side}/{name}": value for side, state in run.model.states().items() for name, value in state.items()}


def lines(run: cn.Run) -> list[dict[str, Any]]:
    """The ledger without key agreements: every start of a process makes its own."""
    return [line for line in run.ledger.to_json() if line["purpose"] != "setup"]


@pytest.mark.parametrize("seal", SEALS.values(), ids=SEALS)
def test_real_bytes_change_nothing(seal: Any) -> None:
    loop, wired = train(J, seal, "loop"), train(J, seal, "bytes")
    assert loop.ledger.to_json() == wired.ledger.to_json()
    for name, value in everything(loop).items():
        assert torch.equal(everything(wired)[name], value), name


@pytest.mark.parametrize(
    "seal", [seal for name, seal in SEALS.items() if name != "all"], ids=lambda seal: str(seal)[:20]
)
def test_fused_parties_are_sealed_alike(seal: Any) -> None:
    loop, fused = train(J, seal, "loop"), train(J, seal, "fused")
    assert fused.ledger.to_json() == loop.ledger.to_json()
    for name, value in everything(loop).items():
        torch.testing.assert_close(
            everything(fused)[name], value, rtol=5e-3, atol=5e-3, msg=lambda m, n=name: f"{n}: {m}"
        )


@pytest.mark.parametrize("seal", SEALS.values(), ids=SEALS)
def test_resuming_is_exact(seal: Any, tmp_path: Path) -> None:
    whole = train(J, seal, evaluate_every=4)

    def die(run: cn.Run) -> None:
        if run.round == 6:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(J, seal, evaluate_every=4, folder=tmp_path / "run", on_round=die)
    resumed = cn.resume(tmp_path / "run", federation(), test=federation())
    assert lines(resumed) == lines(whole)
    assert resumed.privacy == whole.privacy
    for name, value in everything(whole).items():
        assert torch.equal(everything(resumed)[name], value), name


@pytest.mark.parametrize("method", BLINDABLE, ids=lambda method: method.name)
@pytest.mark.parametrize("runtime", ["loop", "fused", "bytes"])
def test_blinding_changes_a_run_by_rounding_only(method: Method, runtime: str) -> None:
    plain, blind = train(method, None, runtime), train(method, cn.Blind(ring=64), runtime)
    for name, value in everything(plain).items():
        if "/seal/" not in name and "/heard/" not in name:  # the owner hears nobody by itself then
            torch.testing.assert_close(everything(blind)[name], value, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("method", BLINDABLE, ids=lambda method: method.name)
def test_what_is_said_of_sums_is_true(method: Method, monkeypatch: pytest.MonkeyPatch) -> None:
    """A method that says it only sums must reach the owner by ``sum``; others must not ask for one."""
    assert method.only_sums
    used: list[str] = []
    inner = AllParties.sum

    def spy(self: AllParties, step: Any, turn: cn.Turn, **how: Any) -> Any:
        if set(how.get("to") or range(len(self.names))) - self.home:
            used.append(step.__name__)
        return inner(self, step, turn, **how)

    monkeypatch.setattr(AllParties, "sum", spy)
    train(method, None, rounds=1)
    assert used


@pytest.mark.parametrize("name", sorted(cn.methods()))
def test_methods_that_cannot_be_blinded_say_who_can(name: str) -> None:
    method = quick(cn.methods()[name])
    if method.only_sums:
        return
    with pytest.raises(SealError, match=rf"{name} .*cannot be blinded; these can: .*fdml.*vimadmm-j"):
        train(method, cn.Blind())


def test_one_party_cannot_be_blinded() -> None:
    tables = cn.split(np.random.default_rng(0).normal(size=(20, 3)), [0, 1] * 10, parties=1)
    with pytest.raises(SealError, match="two or more"):
        cn.train(tables, "fdml", seal=cn.Blind(), rounds=1, batch=4)
    with pytest.raises(SealError, match="two or more"):  # the owner's own part never travels, so one is left
        cn.train(federation_of_two(), "fdml", seal=cn.Blind(), rounds=1, batch=4)


def federation_of_two() -> list[cn.Table]:
    return cn.split(np.random.default_rng(0).normal(size=(20, 4)), [0, 1] * 10, parties=2, owner="first")


def sent(
    monkeypatch: pytest.MonkeyPatch, method: Method, seal: Any, **more: Any
) -> list[tuple[str, str, dict[str, Tensor]]]:
    seen: list[tuple[str, str, dict[str, Tensor]]] = []
    carry = OwnerHalf.count

    def spy(self: OwnerHalf, fields: dict[str, Tensor], sender: str, receiver: str, step: str, *rest: Any) -> Any:
        seen.append((sender, step, fields))
        return carry(self, fields, sender, receiver, step, *rest)

    monkeypatch.setattr(OwnerHalf, "count", spy)
    train(method, seal, **more)
    monkeypatch.setattr(OwnerHalf, "count", carry)
    return seen


def test_the_owner_sees_no_party_under_blinding(monkeypatch: pytest.MonkeyPatch) -> None:
    """A party's messages are whole numbers without any relation to its logits, and never twice the same."""
    clear = [f["o"] for who, step, f in sent(monkeypatch, J, None) if step == "logits" and who == "party 2"]
    blind = [f["o"] for who, step, f in sent(monkeypatch, J, cn.Blind()) if step == "logits" and who == "party 2"]
    again = [f["o"] for who, step, f in sent(monkeypatch, J, cn.Blind()) if step == "logits" and who == "party 2"]
    assert len(clear) == len(blind) == len(again)
    for mine, masked, other in zip(clear, blind, again, strict=True):
        assert masked.dtype == torch.uint8 and not torch.equal(masked, other), "a restart must not repeat a mask"
        numbers = torch.from_numpy(masked.numpy().view(np.int32).astype(np.float64))
        correlation = torch.corrcoef(torch.stack([mine.double().flatten(), numbers]))[0, 1]
        assert abs(float(correlation)) < 5 / mine.numel() ** 0.5


def test_few_bits_under_blinding_travel_in_the_smallest_ring(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = sent(monkeypatch, J, [cn.Blind(), cn.Bits(4, scale=8.0)])
    forms = {tuple(fields["o.form"].tolist()) for _, step, fields in seen if step == "logits"}
    assert (6, 16, CLASSES) in forms  # four parties, codes up to 15: the sum is at most 60
    assert any(form[0] == 32 for form in forms), "evaluations are blinded in full precision"


def test_bytes_of_sealed_messages() -> None:
    plain, few = train(J, None).ledger, train(J, cn.Bits(4)).ledger
    up = next(line for line in few.rows if line.step == "logits" and line.purpose == "train")
    assert few.bytes_for("evaluate") == plain.bytes_for("evaluate"), "only training messages are compressed"
    assert up.payload == sum(-(-len_ * CLASSES // 2) + 12 + 8 for len_ in batch_lengths())


def batch_lengths() -> list[int]:
    run = train(J, None, rounds=1)
    return [len(run.schedule.batch_of(number)) for number in range(ROUNDS)]


def test_ways() -> None:
    both, up, down = (train(J, cn.Bits(4, ways=ways)).ledger for ways in ("both", "up", "down"))
    plain = train(J, None).ledger
    assert both.by_step["logits"] == up.by_step["logits"] < down.by_step["logits"] == plain.by_step["logits"]
    assert both.by_step["fit"] == down.by_step["fit"] < up.by_step["fit"] == plain.by_step["fit"]


def test_clipped_values_are_counted_and_too_many_are_refused() -> None:
    run = train(J, cn.Bits(8, scale=0.3, max_clipped=1.0))
    end = run.model.half.ends["party 1"]
    assert 0 < end.clipped < end.values
    with pytest.raises(SealError, match=r"of party 1's values in 'o' lie beyond 0.01 .* larger scale"):
        train(J, cn.Bits(8, scale=0.01))
    with pytest.raises(SealError, match=r"^too many of party 1's values in 'o' lie beyond 0.001") as error:
        train(J, cn.Blind(clip=0.001))
    assert str(error.value).count("%") == 1, "only the share that was agreed on"
    with pytest.raises(SealError, match="overflow"):
        train(J, cn.Blind(clip=1e9))


@pytest.mark.parametrize(
    ("theirs", "why"),
    [
        (cn.Bits(4, scale=6.0), r"masked 'o' for another sum .* the same seals"),
        (cn.Bits(7, scale=8.0), r"sent 'o' and 'o.form' as .*codes of 9 bits where 6"),
    ],
    ids=["scale", "ring"],
)
def test_a_party_with_other_seals_is_named(theirs: cn.Bits, why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    inner = SealEnd.encode

    def other(self: SealEnd, codes: Any, *rest: Any) -> Any:
        if self.name == "party 3":
            codes = {name: FewBitCode(theirs, name, 4) if name == "o" else code for name, code in codes.items()}
        return inner(self, codes, *rest)

    monkeypatch.setattr(SealEnd, "encode", other)
    with pytest.raises(SealError, match=rf"'party 3' {why}"):
        train(J, [cn.Blind(), cn.Bits(4, scale=8.0)])


# A party that is absent


def away_for(monkeypatch: pytest.MonkeyPatch, times: int, step: str = "logits") -> list[str]:
    """Lose so many messages of party 2 in round 3."""
    lost: list[str] = []
    carry = OwnerHalf.count

    def lose(self: OwnerHalf, fields: Any, sender: str, receiver: str, what: str, turn: cn.Turn, *rest: Any) -> Any:
        if sender == "party 2" and what == step and turn.round == 3 and turn.training and len(lost) < times:
            lost.append(sender)
            raise AwayError(f"{sender} did not answer")
        return carry(self, fields, sender, receiver, what, turn, *rest)

    monkeypatch.setattr(OwnerHalf, "count", lose)
    return lost


def test_a_failed_sum_is_asked_for_again_with_new_masks(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = train(J, cn.Blind())
    lost = away_for(monkeypatch, 2)
    redone = train(J, cn.Blind())
    assert len(lost) == 2
    for name, value in everything(whole).items():
        if "clipped" not in name:
            assert torch.equal(everything(redone)[name], value), name
    assert redone.ledger.total > whole.ledger.total, "what was sent again is in the ledger again"


def test_a_party_that_stays_away_stops_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    away_for(monkeypatch, 99)
    with pytest.raises(AwayError, match=r"failed 3 times and was never opened: party 2 did not answer"):
        train(J, cn.Blind())


@pytest.mark.parametrize("seal", [cn.Blind(recover=True), [cn.Blind(recover=True), cn.Bits(8)]], ids=["whole", "bits"])
def test_recovery_sums_those_who_answer(seal: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same as a plain run in which party 2's logits are missing from the sum of round 3."""
    method = cn.FDML()
    whole = train(method, seal, runtime="bytes", test=None, valid=0.0, evaluate_every=1)
    lost = away_for(monkeypatch, 99, step="logits: mask")
    without = train(method, seal, runtime="bytes", test=None, valid=0.0, evaluate_every=1)
    assert len(lost) == 1  # how far codes reach is then asked of the others only
    plain = train(method, seal, test=None, valid=0.0, rounds=3)
    turn = cn.Turn(3, whole.schedule.batch_of(3))
    plain.parties.blinding = None
    o = [reply.o for reply in plain.parties.ask(method.logits, turn)]
    exact = not isinstance(seal, list)
    for run, members in ((whole, (0, 1, 2, 3)), (without, (0, 2, 3))):
        expected = F.cross_entropy(sum(o[k] for k in members), run.owner.labels(turn))
        assert abs(losses_of(run)[3] - float(expected)) < (1e-3 if exact else 0.1)
    assert losses_of(whole)[3] != losses_of(without)[3]


def test_recovery_needs_four_parties() -> None:
    tables = cn.split(np.random.default_rng(0).normal(size=(20, 6)), [0, 1] * 10, parties=3)
    with pytest.raises(SealError, match="4 or more"):
        cn.train(tables, "fdml", seal=cn.Blind(recover=True), rounds=1, batch=4)


def losses_of(run: cn.Run) -> list[float]:
    return [row["train_loss"] for row in run.history]


# Noise


def test_noise_spends_and_cannot_overspend(tmp_path: Path) -> None:
    seal = cn.Noise(epsilon=12.0, sigma=4.0, clip=1.0)
    with pytest.raises(PrivacyError, match="granted epsilon 12"):
        train(J, seal, epochs=20, rounds=None, valid=0.0, test=None, folder=tmp_path / "run")
    for _ in range(2):  # neither once nor again does a restart buy anything
        with pytest.raises(PrivacyError, match="the message to train was not sent"):
            cn.resume(tmp_path / "run", federation(), epochs=20)


def test_noise_is_told_party_by_party() -> None:
    run = train(J, cn.Noise(epsilon=12.0, sigma=4.0), rounds=4, valid=0.0, test=None)
    assert set(run.privacy) == set(run.parties.names)
    assert all(0 < spent["spent"] <= 12.0 and spent["messages"] == {"train": 4} for spent in run.privacy.values())


def test_evaluating_is_a_release_too() -> None:
    run = train(J, cn.Noise(epsilon=30.0, sigma=4.0), rounds=2, valid=0.0, test=None)
    before = run.privacy["party 1"]["spent"]
    run.predict(federation())
    run.evaluate(federation())
    assert run.privacy["party 1"]["spent"] > before
    for _ in range(run.privacy["party 1"]["allowed"] - run.privacy["party 1"]["releases"]):
        run.predict(federation())
    with pytest.raises(PrivacyError):
        run.predict(federation())


def test_the_party_unit_counts_messages() -> None:
    run = train(J, cn.Noise(epsilon=500.0, sigma=4.0, unit="party"), valid=0.0, test=None)
    assert run.privacy["party 1"]["releases"] == ROUNDS


# Labels


@pytest.mark.parametrize("seal", [cn.RandomLabels(1.0), cn.LaplaceLabels(1.0)], ids=repr)
@pytest.mark.parametrize("method", [J, cn.FDML()], ids=lambda method: method.name)
def test_protected_labels_are_not_shown(seal: Any, method: Method, monkeypatch: pytest.MonkeyPatch) -> None:
    """The direct attack reads the noisy label at best."""

    def hits(protection: Any) -> float:
        found: list[float] = []
        inner = OwnerHalf.seal

        def spy(self: OwnerHalf, message: Any, parties: Any, step: str, turn: cn.Turn) -> Any:
            guess = message[0].argmin(-1) if method.name == "fdml" else message[0].argmax(-1)
            found.append(float((guess == federation()[0].labels[turn.rows]).float().mean()))
            return inner(self, message, parties, step, turn)

        monkeypatch.setattr(OwnerHalf, "seal", spy)
        train(method, protection)
        monkeypatch.setattr(OwnerHalf, "seal", inner)
        return float(np.mean(found))

    assert hits(None) > 0.9
    assert hits(seal) < 0.75  # e / (e + 2) = 0.58 for three classes, and sixty rows


@pytest.mark.parametrize("seal", [cn.RandomLabels(3.0), cn.LaplaceLabels(3.0)], ids=repr)
@pytest.mark.parametrize("name", sorted(cn.methods()))
def test_every_method_learns_from_soft_targets(name: str, seal: Any) -> None:
    run = train(quick(cn.methods()[name]), seal)
    assert np.isfinite(run.history[-1]["train_loss"])
    assert run.evaluate(federation(run.method))["accuracy"] > 0.3


# By cn.train and job files


def test_seals_are_written_down(tmp_path: Path) -> None:
    run = train(J, [cn.Blind(), cn.Bits(4, scale=6.0)], folder=tmp_path / "run")
    assert [entry["kind"] for entry in run.description["seal"]] == ["blind", "bits"]
    page = run.report(tmp_path / "page.html").read_text()
    assert "blinded so that the owner reads only their sum" in page and "keys and signatures" in page


def test_what_is_not_a_seal_is_refused() -> None:
    for wrong in ("bits", 4, cn.Bits, [cn.Bits(4), None]):
        with pytest.raises(ConfigError, match="give seals such as"):
            train(J, wrong)
