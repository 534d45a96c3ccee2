"""A party that lies in the phases of a blinded sum: keys, marks, shares, signatures, counts, or those of a sum before.

Whatever can be known to be false is refused with its name. Its masked values cannot: they are its own numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from benchmarks import lies
from benchmarks.lies import Court
from torch import Tensor

from colonnade.runtime.remote.packet import Packet
from colonnade.wire.message import decode_fields, encode

Fields = dict[str, Tensor]
Lie = Callable[[Fields], Fields]
FIRST, LAST = "clinic", "shop"  # in the order of names, by which protocols go


def other(field: str, change: Callable[[Tensor], Tensor]) -> Lie:
    return lambda true: {**true, field: change(true[field])}


def shorter(true: Fields) -> Fields:
    form = true["codes.form"] - torch.tensor([0, 1], dtype=torch.int32)
    return {"codes": true["codes"][:-4], "codes.form": form}


def replayed() -> Lie:
    """What it said in this phase of the sum before."""
    said: list[Fields] = []

    def lie(true: Fields) -> Fields:
        said.append(true)
        return said[-2] if len(said) > 1 else true

    return lie


def bit(one: Tensor) -> Tensor:
    return one ^ torch.tensor([1] + [0] * (one.numel() - 1), dtype=one.dtype).reshape(one.shape)


LIES: dict[str, tuple[str, str, Callable[[], Lie]]] = {
    "a key": ("blind", "hello", lambda: other("part0", bit)),
    "an incarnation": ("blind", "hello", lambda: other("part1", bit)),
    "a signature of the keys": ("blind", "confirm", lambda: other("part0", bit)),
    "a mark": ("blind", "logits", lambda: other("o.about", bit)),
    "a mark of what it was told": ("blind", "logits", lambda: other("o.about", lambda one: one ^ (1 << 20))),
    "a sum again": ("blind", "logits", replayed),
    "a field more": ("blind", "logits", lambda: lambda true: {**true, "more": torch.zeros(1)}),
    "another key for a sum": ("recover", "advertise", lambda: other("part0", bit)),
    "another seed's hash": ("recover", "advertise", lambda: other("part1", bit)),
    "shares for others": ("recover", "share", lambda: other("who", lambda one: one.flip(0))),
    "shares that do not open": ("recover", "share", lambda: other("part0", bit)),
    "a code less": ("recover", "mask", lambda: shorter),
    "a signature of who is left": ("recover", "sign", lambda: other("part0", bit)),
    "a share": ("recover", "reveal", lambda: other("seed_part0", bit)),
    "a share beyond the field": ("recover", "reveal", lambda: other("seed_part0", lambda one: one * 0 + 255)),
    "shares of others": ("recover", "reveal", lambda: other("seed_who", lambda one: one.flip(0))),
    "something beside shares": ("recover", "reveal", lambda: lambda true: {**true, "more": torch.zeros(1)}),
    **{f"{phase} again": ("recover", phase, replayed) for phase in ("advertise", "share", "mask", "sign", "reveal")},
}


@pytest.fixture(scope="module")
def courts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Court]:
    torch.set_num_threads(1)
    return {case: Court(tmp_path_factory.mktemp("court") / "files", case) for case in ("blind", "recover")}


def told(phase: str, lie: Lie) -> Callable[[Packet, Packet], Packet]:
    """Lies in every answer of this phase."""

    def spoil(request: Packet, reply: Packet) -> Packet:
        asked = {"blind": request.purpose, "sum": request.step}.get(request.kind, "")
        if asked != phase or reply.kind != "answer" or not reply.frames:
            return reply
        fields, about = decode_fields(reply.frames[0])
        return replace(reply, frames=(encode(lie(fields), about),))

    return spoil


@pytest.mark.parametrize("case", ["blind", "recover"])
def test_control_the_truth_is_believed(case: str, courts: dict[str, Court]) -> None:
    assert courts[case].run(lambda request, reply: reply) == ""


@pytest.mark.parametrize("liar", [FIRST, LAST])
@pytest.mark.parametrize("what", LIES)
def test_a_lie_in_a_blinded_sum_is_refused_by_name(
    what: str, liar: str, courts: dict[str, Court], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lies, "LIAR", liar)
    case, phase, make = LIES[what]
    said = courts[case].run(told(phase, make()))
    assert f"'{liar}'" in said and "unexpected" not in said, said
    assert said.isprintable() and len(said) < 600


@pytest.mark.parametrize("liar", [FIRST, LAST])
def test_a_share_that_does_not_fit_is_laid_at_the_door_of_who_gave_it(
    liar: str, courts: dict[str, Court], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of four shares three would do: the fourth was believed, and one before it blamed on whose seed it is."""
    monkeypatch.setattr(lies, "LIAR", liar)
    last = other("seed_part0", lambda one: torch.cat([one[:2], bit(one[2:3]), one[3:]]))
    said = courts["recover"].run(told("reveal", last))
    assert said.startswith(f"'{liar}' gave a share of the seed of 'mill' that does not fit the others")
