"""Any t shares give the secret, and nothing else does."""

from __future__ import annotations

import os
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from colonnade.errors import SealError
from colonnade.seal.shamir import PRIME, VALUE_BYTES, Share, join, split, threshold


@settings(max_examples=100, deadline=None)
@given(st.binary(min_size=32, max_size=32), st.integers(1, 32), st.data())
def test_any_t_shares_in_any_order(secret: bytes, n: int, data: st.DataObject) -> None:
    t = data.draw(st.integers(1, n))
    shares = split(secret, n, t)
    assert [share.x for share in shares] == list(range(1, n + 1))
    some = data.draw(st.permutations(shares))[: data.draw(st.integers(t, n))]
    assert join(some) == secret
    if t > 1:
        with pytest.raises(SealError, match="do not join"):
            join(some[: t - 1])


@pytest.mark.parametrize("secret", [bytes(32), b"\xff" * 32])
def test_every_subset_of_six(secret: bytes) -> None:
    shares = split(secret, 6, 4)
    assert {join(some) for some in combinations(shares, 4)} == {secret}


def test_shares_are_fresh_and_do_not_show_the_secret() -> None:
    once, again = split(bytes(32), 5, 3), split(bytes(32), 5, 3)
    assert not {share.y for share in once} & {share.y for share in again}
    assert all(share.y.bit_length() > 256 for share in once)


def test_shares_that_do_not_belong_together() -> None:
    one, two = split(os.urandom(32), 5, 3), split(os.urandom(32), 5, 3)
    for bad in ([*one[:2], two[2]], [*one[:2], Share(4, one[2].y)], []):
        with pytest.raises(SealError, match="do not join"):
            join(bad)
    for bad in ([one[0], one[0], one[1]], [Share(0, 1)], [Share(1, PRIME)], [Share(1, -1)]):
        with pytest.raises(SealError, match="come once"):
            join(bad)


def test_what_cannot_be_split() -> None:
    for secret in (b"", bytes(31), bytes(33)):
        with pytest.raises(SealError, match="must be 32"):
            split(secret, 3, 2)
    for n, t in ((3, 0), (3, 4), (0, 0)):
        with pytest.raises(SealError, match="threshold"):
            split(bytes(32), n, t)


def test_bytes_and_back() -> None:
    share = split(os.urandom(32), 4, 3)[2]
    assert Share.read(3, share.raw()) == share and len(share.raw()) == VALUE_BYTES
    with pytest.raises(SealError, match="65 bytes"):
        Share.read(3, share.raw()[1:])


def test_the_threshold_is_more_than_two_thirds() -> None:
    for parties in range(4, 200):
        t = threshold(parties)
        assert 3 * t > 2 * parties >= 3 * (t - 1) and t <= parties
    for parties in (0, 1, 2, 3):
        with pytest.raises(SealError, match="4 or more"):
            threshold(parties)
