"""Sums modulo a power of two are exact, and fixed point is as near as it promises."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from colonnade.errors import SealError
from colonnade.seal.ring import FixedPoint, Ring


@pytest.mark.parametrize("bits", range(1, 65))
def test_a_ring_adds_and_reads_signs_like_python(bits: int) -> None:
    ring, top = Ring(bits), (1 << bits) - 1
    numbers = sorted({0, 1 & top, top, top >> 1, (top >> 1) + 1, 0x5A5A5A5A5A5A5A5A & top})
    array = np.array(numbers, ring.dtype)
    assert ring.modulus == 1 << bits and 8 * ring.dtype.itemsize >= bits
    assert ring.dtype.itemsize == 1 or 4 * ring.dtype.itemsize < bits
    total = ring.add([array, array[::-1].copy(), array])
    assert total.tolist() == [(2 * a + b) % ring.modulus for a, b in zip(numbers, numbers[::-1], strict=True)]
    signed = ring.signed(array)
    assert signed.dtype == np.int64
    assert signed.tolist() == [n - ring.modulus if n > top >> 1 else n for n in numbers]
    assert array.tolist() == numbers


def test_shapes_stay() -> None:
    ring = Ring(7)
    for shape in [(), (0,), (3, 0, 2), (2, 3)]:
        ones = np.ones(shape, np.uint8)
        assert ring.add([ones, ones]).shape == ring.signed(ones).shape == shape
        codes, _ = FixedPoint(parties=2).encode(np.full(shape, -1.5))
        for array in (ring.add([ones]), ring.signed(ones), codes, FixedPoint(parties=2).decode(codes)):
            assert isinstance(array, np.ndarray) and array.shape == shape


@pytest.mark.parametrize("bits", [0, 65, -1, True, 8.0, None])
def test_rings_that_do_not_exist(bits: object) -> None:
    with pytest.raises(SealError, match="1 to 64"):
        Ring(bits)  # type: ignore[arg-type]


def test_a_ring_refuses_what_is_not_its_own() -> None:
    ring = Ring(5)
    good = np.array([1], np.uint8)
    cases = [([], "no arrays"), ([np.array([1])], "int64"), ([good, np.array([32], np.uint8)], "ends at 31")]
    for arrays, words in [*cases, ([good, np.array([1, 2], np.uint8)], "array 1 .* shape")]:
        with pytest.raises(SealError, match=words):
            ring.add(arrays)
    with pytest.raises(SealError, match="list"):
        ring.signed([1])  # type: ignore[arg-type]


values = st.floats(allow_nan=False, allow_infinity=False, width=32)


@settings(max_examples=100, deadline=None)
@given(st.data(), st.sampled_from([32, 64]), st.integers(1, 32))
def test_the_sum_is_within_its_bound(data: st.DataObject, bits: int, parties: int) -> None:
    point = FixedPoint(parties=parties, bits=bits)
    small = st.one_of(values.filter(lambda x: abs(x) <= point.clip), st.sampled_from([0.0, point.clip, -point.clip]))
    rows = data.draw(st.lists(small, min_size=parties, max_size=parties))
    coded = [point.encode(np.array([row], np.float64)) for row in rows]
    assert [clipped for _, clipped in coded] == [0] * parties
    total = point.ring.add([codes for codes, _ in coded])
    exact = sum(map(Fraction, rows), Fraction(0))
    came = Fraction(int(point.ring.signed(total)[0]), 2**point.fraction_bits)
    assert abs(came - exact) <= Fraction(parties, 2 ** (point.fraction_bits + 1))
    decoded = point.decode(total)
    assert decoded.dtype == np.float64 and decoded[0] == float(came)  # the one float64 that is nearest


@pytest.mark.parametrize("bits", [32, 64])
@pytest.mark.parametrize("parties", [1, 2, 3, 4, 7, 14, 32, 1000])
@pytest.mark.parametrize("sign", [1, -1])
def test_the_extremes_do_not_overflow(bits: int, parties: int, sign: int) -> None:
    point = FixedPoint(parties=parties, bits=bits)
    limit = Fraction(point.clip) * parties * 2**point.fraction_bits
    assert limit < 2 ** (bits - 1) <= limit + parties * max(1, 2 ** (bits - 53))
    codes, _ = point.encode(np.full(3, sign * 1e30))
    assert np.all(np.sign(point.decode(point.ring.add([codes] * parties))) == sign)


def test_clipping_is_counted_and_arrays_stay_untouched() -> None:
    for kind in (np.float32, np.float64):
        point = FixedPoint(parties=4, limit=2.5)
        given_ = np.array([[1.0, 2.5, 2.6], [-3.0, 1e30, -2.5]], kind)
        before = given_.copy()
        codes, clipped = point.encode(given_)
        assert clipped == 3 and codes.dtype == np.uint32 and np.array_equal(given_, before)
        assert np.array_equal(point.decode(codes), [[1.0, 2.5, 2.5], [-2.5, 2.5, -2.5]])
    assert FixedPoint(parties=4).encode(np.array([8192.0], np.float32))[1] == 1
    assert FixedPoint(parties=2).encode(np.zeros((0, 3)))[1] == 0


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_what_is_not_finite_is_refused(bad: float, kind: type) -> None:
    with pytest.raises(SealError, match="NaN or infinity"):
        FixedPoint(parties=2).encode(np.array([0.0, bad], kind))


def test_fixed_point_that_cannot_be() -> None:
    largest = FixedPoint(parties=4).clip
    assert FixedPoint(parties=4, limit=largest).clip == largest
    for limit in (np.nextafter(largest, np.inf), 0.0, -1.0, float("nan"), float("inf")):
        with pytest.raises(SealError, match="overflow"):
            FixedPoint(parties=4, limit=limit)
    for parties in (0, -1, True, 2.0, 2**21):
        with pytest.raises(SealError, match="parties"):
            FixedPoint(parties=parties)  # type: ignore[arg-type]
    with pytest.raises(SealError, match="32 or 64"):
        FixedPoint(parties=2, bits=16)
    for values in (np.array([1]), np.array([1], np.float16), [1.0]):
        with pytest.raises(SealError, match="float32 or float64"):
            FixedPoint(parties=2).encode(values)  # type: ignore[arg-type]
