"""Seals at their edges: what a fresh pair of eyes tried, and every fault that they found."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from test_seals import BLINDABLE, J, everything, federation, losses_of, train
from torch import Tensor
from typer.testing import CliRunner

import colonnade as cn
from colonnade.cli import app
from colonnade.core.method import Method, Owner, Part, Parties, party_step
from colonnade.errors import AwayError, ConfigError, MessageError, PrivacyError, SealError
from colonnade.methods.steps import Embedding, Gradient, Logits, follow, slope, with_head
from colonnade.run import model as trained
from colonnade.seal import key_agreement as keys
from colonnade.seal.blind import FewBitCode
from colonnade.seal.seal_end import SealEnd
from colonnade.seal.seal_end import _decoded as decoded
from colonnade.wire.owner_half import OwnerHalf
from joined import Joined

RECOVER = cn.Blind(recover=True)
QUIET: dict[str, Any] = {"test": None, "valid": 0.0}


def joined_by(seal: Any) -> Joined:
    return Joined(["a", "b"], federation()[1], seal)


def turn(number: int = 0, rows: int = 16, purpose: str = "train") -> cn.Turn:
    return cn.Turn(number, torch.arange(rows), purpose=purpose)


def assert_equal(run: cn.Run, other: cn.Run) -> None:
    theirs = everything(other)
    for name, value in everything(run).items():
        assert torch.equal(theirs[name], value), name


def lose(monkeypatch: pytest.MonkeyPatch, who: str, step: str, *, at: int = 3, times: int = 99) -> list[str]:
    """Lose messages to and from a party in one step of a round."""
    lost: list[str] = []
    carry = OwnerHalf.count

    def carry_or_not(
        self: OwnerHalf, fields: Any, sender: str, receiver: str, what: str, now: cn.Turn, *rest: Any
    ) -> Any:
        if who in (sender, receiver) and what == step and now.round == at and len(lost) < times:
            lost.append(what)
            raise AwayError(f"{who} did not answer")
        return carry(self, fields, sender, receiver, what, now, *rest)

    monkeypatch.setattr(OwnerHalf, "count", carry_or_not)
    return lost


# Compression


def test_what_one_party_is_owed_never_reaches_another() -> None:
    joined = joined_by(cn.TopK(0.5, feedback=True))
    joined.to_party(Gradient(torch.tensor([[5.0, 4.0]])), party="a", step="follow", turn=turn(rows=1))
    came = joined.to_party(Gradient(torch.tensor([[0.0, 1.0]])), party="b", step="follow", turn=turn(rows=1))
    assert came.slope.tolist() == [[0.0, 1.0]]


@pytest.mark.parametrize("batch", [8])
def test_weights_are_not_compressed_when_the_batch_is_as_long(batch: int) -> None:
    run = cn.train(
        federation(), cn.VIMADMM(embedding=8, local_steps=1), seal=cn.Bits(4), rounds=1, batch=batch, runtime="loop"
    )
    told = next(line for line in run.ledger.rows if line.step == "fit")
    assert told.payload == batch * 3 // 2 + 12 + 8 + 8 * 3 * 4, "codes, form, scale; and a head in full"


def test_weights_are_not_compressed_otherwise() -> None:
    run = cn.train(
        federation(), cn.VIMADMM(embedding=8, local_steps=1), seal=cn.Bits(4), rounds=1, batch=10, runtime="loop"
    )
    told = next(line for line in run.ledger.rows if line.step == "fit")
    assert told.payload == 10 * 3 // 2 + 12 + 8 + 8 * 3 * 4


@pytest.mark.parametrize("size", [0.2, 0.01, 1e-4])
def test_a_blinded_scale_follows_small_values(size: float) -> None:
    joined, rows = joined_by([cn.Blind(), cn.Bits(4)]), torch.full((16, 3), size)
    for number in range(20):
        total = joined.sum({p: Logits(rows) for p in "ab"}, step="logits", turn=turn(number)).o
    assert float((total - 2 * size).abs().max()) < size


@pytest.mark.parametrize("size", [1.0, 30.0, 1e4])
def test_a_blinded_scale_follows_large_values(size: float) -> None:
    joined, rows = joined_by([cn.Blind(), cn.Bits(4)]), torch.full((16, 3), size)
    for number in range(20):
        total = joined.sum({p: Logits(rows) for p in "ab"}, step="logits", turn=turn(number)).o
    assert float((total - 2 * size).abs().max()) < size


@pytest.mark.parametrize("codec", [cn.TopK(0.2, feedback=True), cn.Bits(2, feedback=True)], ids=repr)
def test_feedback_does_not_spoil_what_stays_the_same(codec: Any) -> None:
    joined, h = joined_by(codec), torch.randn(16, 20, generator=torch.Generator().manual_seed(0))
    errors = [
        float((joined.to_owner(Embedding(h), party="a", step="embed", turn=turn(number)).h - h).norm())
        for number in range(20)
    ]
    assert errors[-1] <= errors[0]


def test_feedback_is_for_training_messages_only() -> None:
    joined, values = joined_by(cn.TopK(0.5, feedback=True)), torch.randn(16, 4)
    came = joined.to_owner(Logits(values), party="a", step="logits", turn=turn(purpose="evaluate"))
    assert torch.equal(came.o, values) and not joined.ends["a"].memory


@pytest.mark.parametrize("scale", [3e38, 1e39, 10**400], ids=["sum", "value", "python"])
def test_a_scale_that_float32_cannot_hold_is_refused(scale: float) -> None:
    with pytest.raises(ConfigError, match="scale"):
        cn.train(federation(), J, seal=cn.Bits(4, scale=scale, max_clipped=1.0), rounds=1, batch=8, runtime="loop")


@pytest.mark.parametrize(("values", "scale"), [(3e38, "tensor"), (1e5, "row")])
def test_finite_values_arrive_or_are_refused(values: float, scale: str) -> None:
    joined, sent = joined_by(cn.Bits(8, scale)), torch.tensor([[values, -values]])
    try:
        came = joined.to_owner(Logits(sent), party="a", step="logits", turn=turn(rows=1)).o
    except SealError:
        return
    assert joined.ends["a"].clipped or torch.allclose(came, sent, rtol=0.02)


def test_topk_keeps_its_share_and_no_more() -> None:
    assert cn.TopK(0.07).encode("h", torch.randn(2, 100), torch.rand)["h"].shape == (2, 7)


@pytest.mark.parametrize("shape", [(5, 1), (1, 1), (1, 7), (4, 2, 3)])
@pytest.mark.parametrize("codec", [cn.TopK(0.01), cn.TopK(1.0), cn.Bits(1), cn.Bits(16, "row"), cn.Bits(5, 9.0)])
def test_odd_shapes_survive(shape: tuple[int, ...], codec: Any) -> None:
    values = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    came = codec.decode("x", codec.encode("x", values, torch.rand))
    assert came.shape == values.shape and bool(torch.isfinite(came).all())


@pytest.mark.parametrize(
    "seal",
    [
        pytest.param(cn.TopK(0.5)),
        pytest.param(cn.Bits(8)),
        pytest.param(cn.Blind()),
        None,
        cn.Noise(epsilon=100.0),
    ],
    ids=lambda seal: str(seal)[:5],
)
def test_a_sealed_message_keeps_its_kind_of_number(seal: Any) -> None:
    rows = Logits(torch.randn(16, 3, dtype=torch.float64))
    assert joined_by(seal).sum(dict.fromkeys("ab", rows), step="logits", turn=turn()).o.dtype == torch.float64


TOPK = cn.TopK(0.5).encode("h", torch.randn(2, 6), torch.rand)
BITS = cn.Bits(4).encode("h", torch.randn(2, 6), torch.rand)
HOSTILE: dict[str, tuple[Any, dict[str, Tensor]]] = {
    "no values": (cn.TopK(0.5), {name: tensor for name, tensor in TOPK.items() if name != "h"}),
    "no shape": (cn.TopK(0.5), {**TOPK, "h.at.form": torch.tensor([3], dtype=torch.int32)}),
    "whole values": (cn.TopK(0.5), {**TOPK, "h": TOPK["h"].long()}),
    "real positions": (cn.TopK(0.5), {**TOPK, "h.at": TOPK["h.at"].float()}),
    "one code": (
        cn.Bits(4, "row"),
        {"h": torch.zeros(1, dtype=torch.uint8), "h.form": torch.tensor([4], dtype=torch.int32)},
    ),
}


@pytest.mark.parametrize(("codec", "wire"), HOSTILE.values(), ids=HOSTILE)
def test_more_forged_codes_are_refused(codec: Any, wire: dict[str, Tensor]) -> None:
    with pytest.raises(MessageError):
        decoded(codec, "h", wire)


def test_the_widest_scale_gives_numbers() -> None:
    assert bool(torch.isfinite(decoded(cn.Bits(4), "h", {**BITS, "h.scale": torch.tensor([-3e38, 3e38])})).all())


def test_what_was_simulated_can_be_deployed() -> None:
    many = NamedTuple("many", [(f"h_{k}", Tensor) for k in range(11)])  # type: ignore[misc]
    message = many(*[torch.randn(4, 2)] * 11)
    with pytest.raises(MessageError):  # as with wire=True: 33 tensors
        joined_by(cn.Bits(4)).to_owner(message, party="a", step="say", turn=turn(rows=4))


@pytest.mark.parametrize(("batch", "runtime"), [(1, "bytes"), (19, "fused")])
@pytest.mark.parametrize("method", BLINDABLE[-2:], ids=lambda method: method.name)
def test_small_batches(method: Method, batch: int, runtime: str) -> None:
    for seal in (cn.TopK(0.1), [cn.Blind(), cn.Bits(8, feedback=True)]):
        run = train(method, seal, runtime, batch=batch, rounds=4 if batch > 1 else 2, **QUIET)
        assert np.isfinite(losses_of(run)).all()


# A user's own method


class Odd(NamedTuple):
    o: Tensor
    per_row: Tensor
    number: Tensor
    count: Tensor


@dataclass(frozen=True, kw_only=True)
class Own(Method):
    name: ClassVar[str] = "own"
    summary: ClassVar[str] = "a sum of odd things"
    party_sends: ClassVar[str] = "odd things"
    owner_sends: ClassVar[str] = "gradients"
    sums: ClassVar[str] = "always"

    whole: bool = False
    follow = staticmethod(follow)

    def party_parts(self, build: Any, optimizer: Any, classes: int) -> dict[str, Part]:
        return {"net": Part(with_head(build(self.embedding), self.embedding, classes), optimizer)}

    @party_step
    def say(self, mine: Any, turn: cn.Turn) -> Odd:
        mine.scratch["output"] = o = mine.net(mine.inputs(turn))
        count = o.new_full(o.shape[:-2], len(turn.rows))
        return Odd(o, o.sum(-1), o.sum((-1, -2)), count.long() if self.whole else count)

    def round(self, owner: Owner, parties: Parties, turn: cn.Turn) -> Tensor:
        total = parties.sum(self.say, turn)
        assert total.per_row.shape == (len(turn.rows),) and total.number.shape == ()
        assert float(total.count) == len(turn.rows) * len(parties)
        torch.testing.assert_close(total.per_row.sum(), total.number, rtol=1e-3, atol=1e-2)
        o = total.o.requires_grad_()
        loss = F.cross_entropy(o, owner.labels(turn))
        parties.tell(self.follow, turn, all=slope(loss, o))
        return loss.detach()

    def predict(self, owner: Owner, parties: Parties, turn: cn.Turn) -> Tensor:
        return parties.sum(self.say, turn).o


@pytest.mark.parametrize("seal", [cn.Bits(6), cn.TopK(0.5), RECOVER, [cn.Blind(), cn.Bits(6)]], ids=repr)
def test_messages_of_a_users_own_kind(seal: Any) -> None:
    loop, wired = train(Own(), seal, "loop", rounds=2), train(Own(), seal, "bytes", rounds=2)
    assert_equal(loop, wired)


def test_whole_numbers_cannot_be_blinded_or_noised() -> None:
    for seal in (cn.Blind(), cn.Noise(epsilon=100.0, unit="party")):
        with pytest.raises(SealError, match="int64"):
            train(Own(whole=True), seal, rounds=1)


# Blinding


def test_a_party_lost_in_any_phase(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before its message came, the sum is without it; after that, with it."""
    settings = {**QUIET, "evaluate_every": 1, "rounds": 1}
    whole = losses_of(train(cn.FDML(), RECOVER, **settings))
    early, late = ["advertise", "adverts", "share", "shares", "mask"], ["survivors", "sign", "signatures", "reveal"]
    for phase in early + late:
        with monkeypatch.context() as patched:
            lost = lose(patched, "party 2", f"logits: {phase}", at=0)
            assert (losses_of(train(cn.FDML(), RECOVER, **settings)) == whole) == (phase in late), phase
            assert len(lost) == 1, phase


def test_no_key_serves_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Over rounds, evaluations in pieces, and the same rows predicted again: both ends derive a key, and no more."""
    derived: list[bytes] = []
    expand = keys.expand
    monkeypatch.setattr(keys, "expand", lambda *info: derived.append(expand(*info)) or derived[-1])
    monkeypatch.setattr(trained, "PREDICT_ROWS", 25)
    run = train(J, [cn.Blind(), cn.Bits(4)], rounds=3, evaluate_every=1)
    for _ in range(2):
        run.predict(federation())
    assert len(derived) == 2 * len(set(derived)) > 200


def test_an_owner_cannot_subtract_two_sums(monkeypatch: pytest.MonkeyPatch) -> None:
    method = cn.FDML()
    run = train(method, RECOVER, rounds=2, **QUIET)
    now = cn.Turn(run.round, torch.arange(5), "train", "predict")
    with torch.no_grad():
        run.parties.sum(method.logits, now)
        lose(monkeypatch, "party 2", "logits: mask", at=run.round)  # or the owner says so
        with pytest.raises(SealError):
            run.parties.sum(method.logits, now)


def test_a_party_with_another_scale_is_named_by_recovery_too(monkeypatch: pytest.MonkeyPatch) -> None:
    inner = SealEnd.encode

    def other(self: SealEnd, codes: Any, *rest: Any) -> Any:
        mine = {name: FewBitCode(cn.Bits(4, scale=6.0), name, 4) for name in codes} if self.name == "party 3" else codes
        return inner(self, mine, *rest)

    monkeypatch.setattr(SealEnd, "encode", other)
    with pytest.raises(SealError, match="party 3"):
        train(J, [RECOVER, cn.Bits(4, scale=8.0)], rounds=1, **QUIET)


@pytest.mark.parametrize(
    ("method", "seal", "step"),
    [(cn.AggVFL(), RECOVER, "weigh: mask"), (cn.FDML(), [RECOVER, cn.Bits(8)], "logits: mask")],
    ids=["two fields", "codes and their spread"],
)
def test_recovery_survives_one_lost_message(
    method: Method, seal: Any, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lose(monkeypatch, "party 2", step, times=1)
    assert train(method, seal, rounds=4, **QUIET).round == 4


def test_recovery_survives_a_party_that_hears_no_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    lose(monkeypatch, "party 2", "logits", times=1)
    assert train(cn.FDML(), [RECOVER, cn.Bits(8)], rounds=4, **QUIET).round == 4


@pytest.mark.parametrize("step", ["hello", "confirm"])
def test_a_lost_greeting_is_asked_for_again(step: str, monkeypatch: pytest.MonkeyPatch) -> None:
    lose(monkeypatch, "party 2", step, at=0, times=1)
    assert train(cn.FDML(), cn.Blind(), rounds=4, **QUIET).round == 4


# Noise

NOISE = cn.Noise(epsilon=60.0, sigma=4.0)


def released(run: cn.Run) -> int:
    return int(run.privacy["party 1"]["releases"])


def test_predictions_stay_spent_after_a_restart(tmp_path: Path) -> None:
    run = train(J, NOISE, rounds=4, folder=tmp_path / "run", **QUIET)
    run.predict(federation())
    assert released(cn.resume(tmp_path / "run", federation())) == released(run)


def test_predictions_stay_spent_after_saving_the_best(tmp_path: Path) -> None:
    run = train(J, NOISE, rounds=4, test=None, valid=0.2, stop_drop=90.0, evaluate_every=1)
    run.predict(federation())
    run.save(tmp_path / "run")
    assert released(cn.resume(tmp_path / "run", federation())) == released(run)


def test_a_row_is_the_same_row_in_every_table() -> None:
    run = train(J, NOISE, rounds=1, **QUIET)
    before = released(run)
    for other in range(1, 6):
        run.predict([table.take([0, other]) for table in federation()])
    assert released(run) >= before + 4


def test_a_run_that_spent_all_can_still_be_had(tmp_path: Path) -> None:
    with pytest.raises(PrivacyError):
        train(J, cn.Noise(epsilon=8.0, sigma=4.0), rounds=60, folder=tmp_path / "run", **QUIET)
    newcomers = [replace(table, ids=[f"new {row}" for row in range(table.rows)]) for table in federation()]
    assert cn.resume(tmp_path / "run", federation(), train=False).predict(newcomers).shape == (60, 3)


def test_a_refused_release_says_what_was_spent() -> None:
    with pytest.raises(PrivacyError, match=r"one of its rows has spent epsilon 2\.\d+ in 1 releases"):
        train(J, cn.Noise(epsilon=3.0, sigma=4.0), rounds=20, **QUIET)


def test_different_rows_do_not_pay_for_each_other() -> None:
    run = train(J, NOISE, rounds=1, **QUIET)
    for row in range(10):
        run.predict([table.take([row]) for table in federation()])
    assert released(run) <= 2


@pytest.mark.parametrize("seal", [[cn.Blind(), cn.Bits(4, feedback=True)], NOISE], ids=lambda seal: str(seal)[:6])
def test_resuming_a_run_that_keeps_its_best_is_exact(seal: Any, tmp_path: Path) -> None:
    settings = {"evaluate_every": 2, "rounds": 6, "stop_drop": 90.0, "valid": 0.2, "test": None}

    def die(run: cn.Run) -> None:
        if run.round == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(J, seal, folder=tmp_path / "run", on_round=die, **settings)
    whole, resumed = train(J, seal, **settings), cn.resume(tmp_path / "run", federation())
    for again in (False, True):
        if again:  # from the last round, not from the best
            for run in (whole, resumed):
                run.prolong(8)
                run.fit()
        assert_equal(whole, resumed)


# Job files

JOB = """
[data]
load = "digits"
parties = 4
rows = 60
[train]
method = "vimadmm-j"
rounds = 1
batch = 20
"""


def colonnade(tmp_path: Path, seal: str, *more: str) -> tuple[int, str]:
    (tmp_path / "job.toml").write_text(JOB + seal)
    done = CliRunner().invoke(
        app, ["train", str(tmp_path / "job.toml"), "--quiet", "--folder", str(tmp_path / "run"), *more]
    )
    return done.exit_code, done.stderr.strip()


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        ("kind = 'bits'\nbits = 4.5", "bits=4.5 is not a whole number"),
        ("kind = 'bits'\nscale = []", "scale=[] is out of range"),
        ("kind = 'topk'\nshare = 0", "share=0 is not a share"),
        ("kind = 'blind'\nring = 16", "ring=16 is unknown"),
        ("kind = 'noise'\nunit = 'cell'", "unknown unit 'cell'"),
        ("kind = 'random-labels'\nepsilon = 0", "epsilon=0 is out of range"),
        ("kind = 'laplace-labels'\ncorrect = 'none'", "unknown option of seal laplace-labels"),
        ("bits = 4", "needs a kind"),
        pytest.param(f"kind = 'bits'\nscale = 1{'0' * 400}", "scale"),
        pytest.param("kind = 'bits'\nscale = 1e39", "scale"),
    ],
)
def test_a_seal_that_makes_no_sense_is_one_sentence(lines: str, why: str, tmp_path: Path) -> None:
    code, said = colonnade(tmp_path, f"[[seal]]\n{lines}")
    assert code == 2 and "\n" not in said and why in said


def test_a_seal_that_changed_is_named_at_resuming(tmp_path: Path) -> None:
    both = "[[seal]]\nkind = 'bits'\nscale = 30\n[[seal]]\nkind = 'blind'"
    assert colonnade(tmp_path, both)[0] == 0
    code, said = colonnade(tmp_path, both.replace("30", "31"), "--resume")
    assert code == 2 and "has seal" in said
    assert colonnade(tmp_path, both, "--resume")[0] == 0


def test_seals_in_another_order_are_the_same(tmp_path: Path) -> None:
    first, second = "[[seal]]\nkind = 'bits'\nscale = 30\n", "[[seal]]\nkind = 'blind'\n"
    assert colonnade(tmp_path, first + second)[0] == 0
    assert colonnade(tmp_path, second + first, "--resume")[0] == 0
