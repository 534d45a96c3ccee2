"""Ids on the curve: known answers, both ways of hashing, no bit through the mask."""

from __future__ import annotations

import hashlib
import os
import random
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nacl.bindings import crypto_scalarmult

import colonnade as cn
from colonnade.errors import ConfigError, SealError
from colonnade.tables.align import curve
from colonnade.tables.align.curve import POINT_BYTES, A, CurveMask, P, elligator, inverses, multiply

IDS = [f"person {k}".encode() for k in range(300)]

# RFC 9380, appendix J.4.2: u[0] and Q.x, written as numbers.
RFC_9380 = [
    (
        "608d892b641f0328523802a6603427c26e55e6f27e71a91a478148d45b5093cd",
        "51125222da5e763d97f3c10fcc92ea6860b9ccbbd2eb1285728f566721c1e65b",
    ),
    (
        "46f5b22494bfeaa7f232cc8d054be68561af50230234d7d1d63d1d9abeca8da5",
        "7d56d1e08cb0ccb92baf069c18c49bb5a0dcd927eff8dcf75ca921ef7f3e6eeb",
    ),
    (
        "235fe40c443766ce7e18111c33862d66c3b33267efa50d50f9e8e5d252a40aaa",
        "3fbe66b9c9883d79e8407150e7c2a1c8680bee496c62fabe4619a72b3cabe90f",
    ),
    (
        "001e92a544463bda9bd04ddbe3d6eed248f82de32f522669efc5ddce95f46f5b",
        "227e0bb89de700385d19ec40e857db6e6a3e634b1c32962f370d26f84ff19683",
    ),
    (
        "1a68a1af9f663592291af987203393f707305c7bac9c8d63d6a729bdc553dc19",
        "3bcd651ee54d5f7b6013898aab251ee8ecc0688166fce6e9548d38472f6bd196",
    ),
]
# RFC 7748, section 5.2: a key, a point, and their product.
RFC_7748 = [
    (
        "a546e36bf0527c9d3b16154b82465edd62144c0ac1fc5a18506a2244ba449ac4",
        "e6db6867583030db3594c1a424b15f7c726624ec26b3353b10a903a6d0ab1c4c",
        "c3da55379de9c6908e94ea4df28d084f32eccf03491c71f754b4075577a28552",
    ),
    (
        "4b66e9d4d1b4673c5ad22691957d6af5c11b6421e0ea01d42ca4169e7918ba0d",
        "e5210f12786811d3f4b7959d0538ae2c31dbe7106fc03c3efc4cd549c715a493",
        "95cbde9476e8907d7aade45cb4b873f88b595a68799fa152e6f8f7647aac7957",
    ),
]
LOW_ORDER = [
    0,
    1,
    325606250916557431795983626356110631294008115727848805560023387167927233504,
    39382357235489614581723060781553021112529911719440698176882885853963445705823,
    P - 1,
    P,
    P + 1,
]


def little(number: int) -> bytes:
    return number.to_bytes(POINT_BYTES, "little")


def numbers(points: bytes) -> list[int]:
    return [int.from_bytes(points[at : at + 32], "little") for at in range(0, len(points), 32)]


def is_on_curve(x: int) -> bool:
    return pow(x * (x * (x + A) + 1), (P - 1) // 2, P) == 1


def slow_elligator(digest: bytes) -> int:
    """As RFC 9380 writes it, one by one."""
    r = (int.from_bytes(digest, "little") % 2**255) % P
    x = -A * pow(1 + 2 * r * r, -1, P) % P
    return x if is_on_curve(x) else (-x - A) % P


@pytest.fixture(params=["gmpy2", "libsodium"])
def either(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A test with gmpy2, and without."""
    monkeypatch.setattr(curve, "has_gmpy2", request.param == "gmpy2")


@pytest.mark.usefixtures("either")
@pytest.mark.parametrize(("u", "x"), RFC_9380)
def test_the_map_gives_the_answers_of_rfc_9380(u: str, x: str) -> None:
    assert elligator([little(int(u, 16))]) == little(int(x, 16))


@pytest.mark.usefixtures("either")
def test_the_map_is_the_slow_one_where_numbers_wrap() -> None:
    digests = [little(one) for one in (0, 1, 2, P - 1, P, P + 1, 2**255 - 1, 2**255, 2**256 - 1)]
    assert numbers(elligator(digests)) == [slow_elligator(one) for one in digests]
    assert elligator([]) == b""


@settings(deadline=None)
@given(st.lists(st.binary(min_size=32, max_size=32), min_size=1, max_size=5))
def test_both_maps_are_the_slow_one(digests: list[bytes]) -> None:
    slow = [slow_elligator(one) for one in digests]
    assert numbers(elligator(digests)) == slow
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(curve, "has_gmpy2", False)
        assert numbers(elligator(digests)) == slow


def test_parties_with_and_without_gmpy2_understand_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    key = os.urandom(32)
    with_it = CurveMask(b"salt", key).own(IDS)
    bank, shop = CurveMask(b"salt"), CurveMask(b"salt")
    of_bank = bank.own(IDS)
    monkeypatch.setattr(curve, "has_gmpy2", False)
    assert CurveMask(b"salt", key).own(IDS) == with_it
    assert bank.again(shop.own(IDS), "shop") == shop.again(of_bank, "bank")


@pytest.mark.usefixtures("either")
def test_no_bit_of_an_id_shows_through_the_mask() -> None:
    assert all(map(is_on_curve, numbers(CurveMask(b"salt").own(IDS))))
    # What it is good for: digests as they are keep a bit, on the curve or not, through every mask.
    bare = b"".join(hashlib.sha256(one).digest() for one in IDS)
    sides = [is_on_curve(x % 2**255 % P) for x in numbers(bare)]
    assert 50 < sum(sides) < 250
    assert [is_on_curve(x) for x in numbers(multiply(os.urandom(32), bare, "them"))] == sides


@pytest.fixture(params=["libsodium", "numba"])
def way(request: pytest.FixtureRequest) -> curve.Multiply:
    """Either way to multiply."""
    if request.param == "libsodium":
        return curve.by_libsodium
    multiply: curve.Multiply = pytest.importorskip("colonnade.tables.align.ladder", reason="numba is missing").multiply
    return multiply


@pytest.mark.parametrize(("key", "point", "product"), RFC_7748)
def test_multiplication_gives_the_answers_of_rfc_7748(way: curve.Multiply, key: str, point: str, product: str) -> None:
    assert way(bytes.fromhex(key), bytes.fromhex(point)) == bytes.fromhex(product)


def test_a_thousand_turns_of_rfc_7748(way: curve.Multiply) -> None:
    key = point = little(9)
    for _ in range(1000):
        key, point = way(key, point), key
    assert key.hex() == "684cf59ba83309552800ef566f2f4d3c1c3887c49360e3875f2eb94d99532c51"


@pytest.mark.parametrize("count", [0, 1, 7, 8, 9, 100])
def test_numba_gives_the_bytes_of_libsodium(count: int) -> None:
    ladder = pytest.importorskip("colonnade.tables.align.ladder", reason="numba is missing")
    key, points = os.urandom(32), os.urandom(32 * count)
    assert ladder.multiply(key, points) == curve.by_libsodium(key, points)


# Where limbs are full, where numbers wrap at p, 2^255 and 2^256, and the points of low order.
EDGES = [2**k for k in range(256)] + [2**k - 1 for k in range(257)] + [P + k for k in range(-40, 19)]


@pytest.mark.parametrize("key", [bytes(32), b"\xff" * 32, b"\x55" * 32], ids=["zeros", "ones", "turns"])
def test_numba_gives_the_bytes_of_libsodium_at_the_edges(key: bytes) -> None:
    ladder = pytest.importorskip("colonnade.tables.align.ladder", reason="numba is missing")
    points = b"".join(map(little, EDGES + LOW_ORDER))
    assert ladder.multiply(key, points) == curve.by_libsodium(key, points)


def test_numba_gives_the_bytes_of_libsodium_for_any_key() -> None:
    ladder = pytest.importorskip("colonnade.tables.align.ladder", reason="numba is missing")
    drawn = random.Random(0)
    for _ in range(100):
        key, points = drawn.randbytes(32), drawn.randbytes(32 * 8)
        assert ladder.multiply(key, points) == curve.by_libsodium(key, points), key.hex()


def test_parties_with_and_without_numba_understand_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    ladder = pytest.importorskip("colonnade.tables.align.ladder", reason="numba is missing")
    monkeypatch.setattr(curve, "quick", lambda: ladder.multiply)
    key = os.urandom(32)
    with_it, without = (CurveMask(b"salt", key, masks=masks) for masks in (curve.MANY, curve.MANY - 1))
    assert with_it._by is ladder.multiply and without._by is curve.by_libsodium
    assert with_it.own(IDS) == without.own(IDS)
    assert with_it.again(without.own(IDS), "them") == without.again(with_it.own(IDS), "them")


def test_without_numba_libsodium_masks_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "colonnade.tables.align.ladder", None)
    monkeypatch.delattr("colonnade.tables.align.ladder", raising=False)
    curve.quick.cache_clear()
    try:
        assert curve.quick() is curve.by_libsodium
    finally:
        curve.quick.cache_clear()


def test_the_quicker_way_is_taken() -> None:
    pytest.importorskip("colonnade.tables.align.ladder", reason="numba is missing")
    slow = max(curve.by_libsodium, curve.quick(), key=curve._seconds)
    assert curve.quick() is curve.by_libsodium or slow is curve.by_libsodium


def test_masks_follow_from_salt_secret_and_id() -> None:
    key = os.urandom(32)
    masked = CurveMask(b"salt", key).own([b"ann"])
    assert CurveMask(b"salt", key).own([b"ann"]) == masked
    assert masked not in (CurveMask(b"pepper", key).own([b"ann"]), CurveMask(b"salt", key).own([b"anna"]))
    assert CurveMask(b"salt").own([b"ann"]) != CurveMask(b"salt").own([b"ann"]), "every alignment has a fresh secret"


@settings(deadline=None)
@given(st.lists(st.integers(min_value=1, max_value=P - 1), max_size=6))
def test_inverses(values: list[int]) -> None:
    assert [one * inverse % P for one, inverse in zip(values, inverses(values, P), strict=True)] == [1] * len(values)


@pytest.mark.parametrize("x", LOW_ORDER)
def test_points_of_low_order_are_refused(way: curve.Multiply, x: int) -> None:
    good = crypto_scalarmult(os.urandom(32), little(9))
    with pytest.raises(SealError, match="the set of 'shop' holds a point of low order"):
        multiply(os.urandom(32), good + little(x), "'shop'", way)


def test_without_pynacl_only_plain_works(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(curve, "crypto_scalarmult", None)
    tables = [cn.Table(ids=["ann", "bob"], name=name) for name in ("bank", "shop")]
    with pytest.raises(ConfigError, match=r"pip install 'colonnade\[tables\]'"):
        cn.align(tables)
    assert cn.align(tables, mode="plain").count == 2
