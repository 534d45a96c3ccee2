"""Compression: packed codes, unbiased rounding, top entries, and what a receiver refuses."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import colonnade as cn
from colonnade.errors import ConfigError, MessageError, SealError
from colonnade.seal import make_seal, make_seals
from colonnade.seal.codec import Draw
from colonnade.seal.pack import pack, packed_length, smallest, unpack


def draw(seed: int = 0) -> Draw:
    generator = torch.Generator().manual_seed(seed)
    return lambda shape: torch.rand(shape, generator=generator)


def there_and_back(codec: cn.Bits | cn.TopK, name: str, values: Tensor, seed: int = 0) -> Tensor:
    return codec.decode(name, codec.encode(name, values, draw(seed)))


@settings(max_examples=200, deadline=None)
@given(st.integers(1, 64), st.lists(st.integers(0, 2**64 - 1), max_size=50))
def test_packing_loses_nothing_and_no_bit(bits: int, numbers: list[int]) -> None:
    codes = np.array([number % 2**bits for number in numbers], dtype=smallest(bits))
    raw = pack(codes, bits)
    assert raw.dtype == np.uint8 and len(raw) == math.ceil(len(codes) * bits / 8) == packed_length(len(codes), bits)
    assert np.array_equal(unpack(raw, bits, len(codes)), codes)


@pytest.mark.parametrize(("bits", "count", "length"), [(4, 3, 1), (4, 3, 3), (0, 3, 0), (65, 1, 9), (13, 2, 3)])
def test_bytes_that_are_not_the_codes_are_refused(bits: int, count: int, length: int) -> None:
    with pytest.raises(MessageError, match="bytes came where"):
        unpack(np.zeros(length, np.uint8), bits, count)


@pytest.mark.parametrize("bits", [1, 2, 3, 4, 8, 13, 16])
@pytest.mark.parametrize("scale", ["tensor", "row", 3.0])
def test_codes_are_near_and_right_in_the_mean(bits: int, scale: float | str) -> None:
    codec = cn.Bits(bits, scale)
    values = torch.randn(20, 6, generator=torch.Generator().manual_seed(1)).clamp(-3, 3)
    many = torch.stack([there_and_back(codec, "o", values, seed) for seed in range(400)])
    low, high = torch.tensor(-3.0), torch.tensor(3.0)
    if scale == "tensor":
        low, high = codec.encode("o", values, draw())["o.scale"]
        assert values.min() <= low < high <= values.max()
        assert float(((values < low) | (values > high)).float().mean()) <= {1: 0.4, 2: 0.15}.get(bits, 0.05)
        values = values.clamp(low, high)
    if scale == "row":
        high = values.abs().amax(1, keepdim=True) * (1 + 2**-9)
        low = -high
    step = (high - low) / (2**bits - 1)
    assert bool(((many - values).abs() <= step * 1.01 + 1e-5).all()), "further off than one level"
    deviation = (many.mean(0) - values).abs() / (step / 400**0.5 + 1e-6)
    assert float(deviation.max()) < 4, "stochastic rounding must be right in the mean"


def test_one_outlier_does_not_spoil_the_scale() -> None:
    values = torch.randn(1024, 10, generator=torch.Generator().manual_seed(1))
    values[0, 0] = 20.0
    low, high = cn.Bits(4).encode("o", values, draw())["o.scale"]
    assert low > -20 and 3 < high < 15
    low, high = cn.Bits(8).encode("o", values, draw())["o.scale"]
    assert float(high) == 20.0


def test_bits_on_the_wire_are_what_the_name_says() -> None:
    values = torch.randn(1024, 10)
    assert cn.Bits(4).encode("u", values, draw())["u"].numel() == 1024 * 10 // 2
    assert cn.Bits(2).encode("u", values, draw())["u"].numel() == 1024 * 10 // 4
    assert cn.Bits(3).encode("u", values, draw())["u"].numel() == 1024 * 10 * 3 // 8


def test_each_kind_of_message_has_its_scale() -> None:
    values = torch.randn(8, 4)
    scales = {name: cn.Bits(4).encode(name, values, draw())[f"{name}.scale"] for name in ("h", "o", "u", "slope", "x")}
    assert {name: tuple(scale.shape) for name, scale in scales.items()} == {
        **dict.fromkeys("houx", (2,)),
        "slope": (8, 1),
    }
    assert scales["slope"].dtype == torch.float16
    assert cn.Bits(4, scale=4.0).encode("o", values, draw())["o.scale"].tolist() == [4.0]


def test_a_receiver_on_another_scale_notices() -> None:
    wire = cn.Bits(4, scale=4.0).encode("o", torch.randn(8, 4), draw())
    with pytest.raises(MessageError, match=r"on the scale \[4.0\] where '2.0' was agreed"):
        cn.Bits(4, scale=2.0).decode("o", wire)


@pytest.mark.parametrize("values", [torch.zeros(3, 2), torch.full((3, 2), 7.5), torch.zeros(0, 2), torch.eye(2) * 1e30])
@pytest.mark.parametrize("codec", [cn.Bits(4), cn.Bits(4, "row"), cn.TopK(0.5)])
def test_extreme_tensors_survive(values: Tensor, codec: cn.Bits | cn.TopK) -> None:
    back = there_and_back(codec, "h", values)
    assert back.shape == values.shape and bool(torch.isfinite(back).all())
    if values.numel() and isinstance(codec, cn.TopK):
        torch.testing.assert_close(back.amax(1), values.amax(1))


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 7), st.integers(1, 40), st.floats(0.01, 1.0))
def test_topk_keeps_the_largest_and_nothing_else(rows: int, width: int, share: float) -> None:
    values = torch.randn(rows, width, generator=torch.Generator().manual_seed(rows * width))
    wire = cn.TopK(share).encode("h", values, draw())
    kept = math.ceil(share * width)
    assert wire["h"].shape == (rows, kept)
    back = cn.TopK(share).decode("h", wire)
    threshold = values.abs().topk(kept, dim=1).values[:, -1:]
    torch.testing.assert_close(back, torch.where(values.abs() >= threshold, values, torch.zeros(())))


def test_topk_weighs_values_and_a_few_bits_per_position() -> None:
    wire = cn.TopK(0.1).encode("h", torch.randn(1024, 60), draw())
    assert wire["h"].numel() * 4 + wire["h.at"].numel() == 1024 * 6 * 4 + 1024 * 6 * 6 // 8


def forged(**changes: Tensor | None) -> dict[str, Tensor]:
    wire = {**cn.Bits(4).encode("h", torch.randn(4, 3), draw()), **changes}
    return {name: tensor for name, tensor in wire.items() if tensor is not None}


FORGERIES = {
    "without a form": forged(**{"h.form": None}),
    "another width": forged(**{"h.form": torch.tensor([5, 4, 3], dtype=torch.int32)}),
    "more than the bytes hold": forged(**{"h.form": torch.tensor([4, 4, 9], dtype=torch.int32)}),
    "monstrous": forged(**{"h.form": torch.tensor([4, 2**30, 2**30], dtype=torch.int32)}),
    "monstrous and empty": forged(**{"h.form": torch.tensor([4, 2**30, 0, 2**30], dtype=torch.int32)}),
    "negative": forged(**{"h.form": torch.tensor([4, -4, -3], dtype=torch.int32)}),
    "no shape": forged(**{"h.form": torch.tensor([4], dtype=torch.int32)}),
    "floats for codes": forged(h=torch.randn(6)),
    "no scale": forged(**{"h.scale": None}),
    "scale of another kind": forged(**{"h.scale": torch.ones(4, 1)}),
}


@pytest.mark.parametrize("wire", FORGERIES.values(), ids=FORGERIES)
def test_forged_codes_are_refused(wire: dict[str, Tensor]) -> None:
    with pytest.raises(MessageError):
        cn.Bits(4).decode("h", wire)


def test_forged_positions_are_refused() -> None:
    wire = cn.TopK(0.5).encode("h", torch.randn(2, 6), draw())  # three bits a position, so 6 and 7 are out of range
    with pytest.raises(MessageError, match="position 7"):
        cn.TopK(0.5).decode("h", {**wire, "h.at": torch.tensor([255, 255, 3], dtype=torch.uint8)})
    with pytest.raises(MessageError, match="behind them"):
        cn.TopK(0.5).decode("h", {**wire, "h.at": wire["h.at"] | 128})
    with pytest.raises(MessageError, match="one position"):
        cn.TopK(0.5).decode("h", {**wire, "h.at": torch.zeros_like(wire["h.at"])})
    with pytest.raises(MessageError, match="codes of 1027 bits where 3 were agreed"):
        cn.TopK(0.5).decode(
            "h", {**wire, "h.at.form": wire["h.at.form"] | torch.tensor([1024, 0, 0], dtype=torch.int32)}
        )
    with pytest.raises(MessageError):
        cn.TopK(0.5).decode("h", {**wire, "h": wire["h"][:1]})


@pytest.mark.parametrize(
    "make",
    [
        lambda: cn.Bits(0),
        lambda: cn.Bits(17),
        lambda: cn.Bits(2.5),  # type: ignore[arg-type]
        lambda: cn.Bits(True),
        lambda: cn.Bits(4, "rows"),
        lambda: cn.Bits(4, -1.0),
        lambda: cn.Bits(4, math.nan),
        lambda: cn.Bits(4, ways="sideways"),
        lambda: cn.Bits(4, max_clipped=2.0),
        lambda: cn.TopK(0.0),
        lambda: cn.TopK(1.5),
        lambda: make_seal("bit"),
        lambda: make_seal("bits", width=3),
        lambda: make_seals("bits"),
        lambda: make_seals([cn.Bits(4), cn.TopK(0.1)]),
        lambda: make_seals([cn.Blind(), cn.Blind()]),
    ],
)
def test_seals_out_of_range_are_refused_in_one_sentence(make: object) -> None:
    with pytest.raises(ConfigError) as caught:
        make()  # type: ignore[operator]
    assert str(caught.value).count(".") >= 1 and "\n" not in str(caught.value)


def test_two_codecs_may_share_the_ways() -> None:
    seals = make_seals([cn.Bits(8, ways="up"), cn.TopK(0.2, ways="down")])
    assert (seals.up, seals.down) == (cn.Bits(8, ways="up"), cn.TopK(0.2, ways="down"))


@pytest.mark.parametrize("codec", [cn.TopK(0.1), cn.Bits(4, "tensor"), cn.Bits(4, "row")])
def test_blind_needs_codes_that_add(codec: cn.Bits | cn.TopK) -> None:
    with pytest.raises(SealError, match=r"Blind|blinded"):
        make_seals([cn.Blind(), codec])
    make_seals([cn.Blind(), type(codec)(ways="down")])


def test_recovery_and_feedback_do_not_go_together() -> None:
    with pytest.raises(SealError, match="relies on every message arriving"):
        make_seals([cn.Blind(recover=True), cn.Bits(4, feedback=True)])
    make_seals([cn.Blind(recover=True), cn.Bits(4, feedback=True, ways="down")])
