"""Values that are finite by themselves and make the other side's numbers infinite: who sent them is said."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from benchmarks import lies
from benchmarks.lies import LIAR, Court

import colonnade as cn
from colonnade.errors import TrainingError
from colonnade.runtime.remote.packet import Packet
from colonnade.wire.message import decode_fields, encode
from colonnade.wire.owner_half import OwnerHalf

# A method, what its party sends, and where that is. The owner's weights are its secret, so where its numbers break
# first is too: in the loss, in a gradient, in the mean of answers, in a network or an optimiser, at another party.
BREAKS = {
    "loss": ("splitnn", -3e38, "'h' of step 'embed'"),
    "sum": ("vfedmh", 3e38, "'h' of step 'embed'"),
    "z-step": ("vimadmm", 3e38, "'h' of step 'embed'"),
    "gradient": ("vimsgd", 1e19, "'h' of step 'embed'"),
    "mean": ("fdml", 3e38, "'o' of step 'logits'"),
    "network": ("apfed", 3e38, "'slope' of step 'assist'"),
    "optimiser": ("fedoptimus", 1e30, "'h' of step 'embed'"),
    "a party": ("vimadmm", 1e30, "'h' of step 'embed'"),
}
Spoil = Callable[[Packet, Packet], Packet]


def all_of(value: float, fields: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {name: torch.full_like(one, value) if one.is_floating_point() else one for name, one in fields.items()}


def sends(value: float, purpose: str = "train", rounds: int = 99) -> Spoil:
    """A party that answers with this value alone in the first rounds."""

    def spoil(request: Packet, reply: Packet) -> Packet:
        asked = request.kind == "step" and request.purpose == purpose and request.round < rounds
        if not asked or reply.kind != "answer" or not reply.frames:
            return reply
        fields, about = decode_fields(reply.frames[0])
        return replace(reply, frames=(encode(all_of(value, fields), about),))

    return spoil


@pytest.fixture(scope="module")
def court(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Court]:
    torch.set_num_threads(1)
    made: dict[str, Court] = {}

    def of(method: str, train: str = "") -> Court:
        case = f"{method} {train}"
        if case not in made:  # Adam's steps are bounded whatever comes, so numbers break less often with it
            lies.CASES[case] = {"method": method, "train": '[method]\noptimizer = "sgd"\n' + train}
            made[case] = Court(tmp_path_factory.mktemp("court") / "files", case)
            del lies.CASES[case]
        return made[case]

    return of


@pytest.mark.parametrize("where", BREAKS)
def test_who_made_the_owners_numbers_infinite_is_named(where: str, court: Callable[..., Court]) -> None:
    method, value, field = BREAKS[where]
    said = court(method).run(sends(value))
    assert "finite" in said or "inf" in said
    assert said.endswith(f"the largest value that came is {abs(value):g}, of '{LIAR}' in {field} in round 0.")
    assert said.isprintable() and len(said) < 600


def test_control_the_runs_end_well_without_it(court: Callable[..., Court]) -> None:
    for method in ("splitnn", "vimadmm", "fdml"):
        assert court(method).run(lambda request, reply: reply) == ""


def test_a_value_of_an_earlier_round_is_remembered(court: Callable[..., Court]) -> None:
    """The first round's answers are in the owner's network, and the second breaks though all is well in it."""
    said = court("splitnn").run(sends(1e30, rounds=1))
    assert f"is 1e+30, of '{LIAR}' in 'h' of step 'embed' in round 0." in said


def test_an_evaluation_that_is_not_finite_is_no_result(monkeypatch: pytest.MonkeyPatch) -> None:
    train, test = cn.load("digits", parties=2, rows=60)
    run = cn.train(train, cn.SplitNN(), rounds=1, batch=20, runtime="apart")
    real = cn.SplitNN.predict
    assert run.evaluate(test)["loss"] > 0, "control"
    monkeypatch.setattr(cn.SplitNN, "predict", lambda *about: 3e38 * real(*about).sign() * 3e38)
    for ask in (run.evaluate, run.predict):
        with pytest.raises(TrainingError, match=r"are not finite; the largest .* of 'party .' in 'h' of step 'embed'"):
            ask(test)


def test_scales_of_few_bits_are_named_too(court: Callable[..., Court]) -> None:
    said = court("splitnn", '[[seal]]\nkind = "bits"\nbits = 4\n').run(sends(3e38))
    assert f"'{LIAR}'" in said and "'h'" in said and "embed" in said


@pytest.mark.parametrize("value", [3e38, -1e30])
def test_an_owner_that_makes_a_partys_numbers_infinite_is_named(
    value: float, court: Callable[..., Court], monkeypatch: pytest.MonkeyPatch
) -> None:
    real = OwnerHalf.seal

    def sealed(half: OwnerHalf, *about: Any) -> dict[str, torch.Tensor]:
        wire = real(half, *about)
        return wire if half.checks is None else all_of(value, wire)  # a rehearsal is nobody's, so no lie is told in it

    monkeypatch.setattr(OwnerHalf, "seal", sealed)
    said = court("splitnn").run(lambda request, reply: reply)
    assert "refused: " in said and "sent values that are not finite in 'h' of step 'embed'" in said
    assert f"is {abs(value):g}, of 'owner' in 'slope' of step 'follow' in round 0" in said
