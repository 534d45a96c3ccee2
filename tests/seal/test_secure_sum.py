"""The secure sum: exact for the owner, flat noise otherwise, and no second sum over other parties."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare
from test_keys import Session

from colonnade.errors import SealError
from colonnade.seal.key_agreement import Membership, Ticket
from colonnade.seal.masks import keystream
from colonnade.seal.ring import Codes, FixedPoint, Ring
from colonnade.seal.secure_sum import Masker, SumLog, check_messages, total

T = Ticket(0, 0, 0, "h")
RARE = 1e-8  # of a chi-square by chance; some twenty of them per run stay below one in a million
SHAPES = [(), (0,), (1,), (7,), (3, 5), (2, 0, 4), (2, 3, 4), (33,)]


def names(count: int) -> list[str]:
    return [f"party {number}" for number in range(count)]


def maskers(members: Mapping[str, Membership]) -> dict[str, Masker]:
    return {name: Masker(member) for name, member in members.items()}


def draw(rng: np.random.Generator, shape: tuple[int, ...], ring: Ring) -> Codes:
    """Codes of one party: chance, all zero, all at the top, or a mixture of the extremes."""
    kind = rng.integers(4)
    chance = np.frombuffer(rng.bytes(8 * int(np.prod(shape))), np.uint64).reshape(shape) & np.uint64(ring.modulus - 1)
    extremes = np.array([0, 1 % ring.modulus, ring.modulus - 1, ring.modulus // 2], np.uint64)
    filled = [
        chance,
        np.zeros(shape, np.uint64),
        np.full(shape, ring.modulus - 1, np.uint64),
        rng.choice(extremes, shape),
    ]
    return np.asarray(filled[kind]).astype(ring.dtype)


def plain_sum(codes: Mapping[str, Codes], ring: Ring) -> list[int]:
    """The reference, in Python's own integers."""
    columns = zip(*(array.reshape(-1).tolist() for array in codes.values()), strict=True)
    return [sum(column) % ring.modulus for column in columns]


def rounds(parties: int, count: int, rng: np.random.Generator) -> None:
    """Blinded rounds of one session, each compared with the plain sum bit for bit."""
    ends = maskers(Session.of(names(parties)).join().members)
    for number in range(count):
        ring, shape = Ring(int(rng.integers(1, 65))), SHAPES[rng.integers(len(SHAPES))]
        codes = {name: draw(rng, shape, ring) for name in ends}
        before = {name: array.copy() for name, array in codes.items()}
        ticket = Ticket(number // 2, number // 2, number % 2, "h")
        messages = {name: end.mask(ticket, codes[name], ring) for name, end in ends.items()}
        opened = total(messages, ring, ends)
        assert opened.shape == shape and opened.dtype == ring.dtype
        assert opened.reshape(-1).tolist() == plain_sum(codes, ring)
        assert all(np.array_equal(codes[name], before[name]) for name in ends)


@pytest.mark.parametrize("parties", [2, 3, 4, 5, 14, 32])
def test_the_sum_is_exact(parties: int) -> None:
    rounds(parties, 600 // parties**2 + 8, np.random.default_rng(parties))


@pytest.mark.long
@pytest.mark.parametrize("parties", range(2, 33))
def test_ten_thousand_rounds_are_exact(parties: int) -> None:
    """With the drops of ``test_recover`` 10,000 rounds in all; fewer where each costs more."""
    rounds(parties, ROUNDS[parties], np.random.default_rng(1000 + parties))


ROUNDS = {parties: 900 if parties <= 10 else 60 for parties in range(2, 33)}


def test_the_number_of_rounds() -> None:
    assert sum(ROUNDS.values()) + 600 >= 10_000  # 600: test_recover


@settings(max_examples=40, deadline=None)
@given(st.integers(2, 6), st.integers(1, 64), st.lists(st.integers(0, 2**64 - 1), max_size=5))
def test_any_values_in_any_ring(parties: int, bits: int, row: list[int]) -> None:
    ring, ends = Ring(bits), maskers(Session.of(names(parties)).join().members)
    codes = {name: np.array([value % ring.modulus for value in row], ring.dtype) for name in ends}
    opened = total({name: end.mask(T, codes[name], ring) for name, end in ends.items()}, ring, ends)
    assert opened.tolist() == plain_sum(codes, ring)


def test_real_numbers_go_through() -> None:
    parties, rng = 14, np.random.default_rng(3)
    ends, point = maskers(Session.of(names(parties)).join().members), FixedPoint(parties=parties)
    values = {name: rng.normal(0, 100, (64, 10)).astype(np.float32) for name in ends}
    messages = {name: end.mask(T, point.encode(values[name])[0], point.ring) for name, end in ends.items()}
    exact = sum(value.astype(np.float64) for value in values.values())
    assert np.abs(point.decode(total(messages, point.ring, ends)) - exact).max() <= parties / 2**17


def test_the_sign_follows_the_order_of_names() -> None:
    session = Session.of("ab").join()
    ring, codes = Ring(16), np.arange(4, dtype=np.uint16)
    sent = {name: Masker(member).mask(T, codes, ring) for name, member in session.members.items()}
    assert np.array_equal(sent["a"] - codes, codes - sent["b"])
    twin = Session.of("ab").join().members["a"]
    assert len(set(map(bytes, (keystream(twin.pair_key("b", T), 4, ring), sent["a"] - codes)))) == 2


# What the owner sees of one party


def assert_flat(array: Codes) -> None:
    assert chisquare(np.bincount(np.ascontiguousarray(array).reshape(-1).view(np.uint8), minlength=256)).pvalue > RARE


@pytest.mark.parametrize("bits", [8, 32, 64])
def test_one_message_is_flat_and_so_are_differences(bits: int) -> None:
    """Constant values, the same in every round and after a restart: nothing of them is to be seen anywhere."""
    ring, session = Ring(bits), Session.of("abc")
    codes = np.full((400, 64), 5, ring.dtype)
    starts = [maskers(session.restart().join().members) for _ in range(2)]
    first = {name: end.mask(T, codes, ring) for name, end in starts[0].items()}
    second = {name: end.mask(Ticket(1, 1, 0, "h"), codes, ring) for name, end in starts[0].items()}
    redone = {name: end.mask(Ticket(1, 1, 1, "h"), codes, ring) for name, end in starts[0].items()}
    replayed = {name: end.mask(T, codes + ring.dtype.type(1), ring) for name, end in starts[1].items()}
    for seen in (
        first["a"],
        first["b"],
        second["a"] - first["a"],
        redone["b"] - second["b"],
        replayed["c"] - first["c"],
    ):
        assert_flat(seen)
    assert_flat(first["a"] + first["b"])  # two of three together: the third mask still covers them
    assert_flat(np.diff(first["a"].astype(ring.dtype), axis=0))  # rows of one message have no mask in common


# Refusals


def test_one_party_is_no_sum() -> None:
    with pytest.raises(SealError, match="the sum of one party is its value"):
        Masker(Session.of("a").join().members["a"])
    with pytest.raises(SealError, match="not joined"):
        Masker(Session.of("ab").members["a"])


def test_a_ticket_masks_once() -> None:
    end, codes = Masker(Session.of("ab").join().members["a"]), np.zeros(3, np.uint8)
    end.mask(T, codes, Ring(8))
    with pytest.raises(SealError, match="already"):
        end.mask(T, codes, Ring(8))
    with pytest.raises(SealError, match="already"):
        end.mask(T, np.zeros(3, np.uint16), Ring(16))


def test_codes_of_another_ring() -> None:
    end = Masker(Session.of("ab").join().members["a"])
    for codes, words in (
        (np.zeros(3), "float64"),
        (np.zeros(3, np.uint8), "uint8"),
        (np.full(3, 4096, np.uint16), "4096"),
    ):
        with pytest.raises(SealError, match=f"'h' .*{words}"):
            end.mask(T, codes, Ring(12))


def test_messages_that_do_not_match() -> None:
    ring, good = Ring(12), np.zeros((2, 3), np.uint16)
    bad = {"shape": np.zeros((3, 2), np.uint16), "uint32": np.zeros((2, 3), np.uint32), "4095": good + np.uint16(4096)}
    for words, array in bad.items():
        with pytest.raises(SealError, match=f"message of 'b' .*{words}"):
            check_messages({"a": good, "b": array, "c": good}, ring, "abc")
    for messages in ({"a": good}, {"a": good, "b": good, "c": good}):
        with pytest.raises(SealError, match=r"exactly those of \['a', 'b'\]"):
            total(messages, ring, ["a", "b"])


# One opened sum per round and serial

AB = ("a", "b")


def test_attempts_only_while_nothing_was_opened() -> None:
    log = SumLog()
    for ticket in (T, T._replace(tensor="g"), T._replace(attempt=1), T._replace(attempt=1, tensor="g")):
        log.begin(ticket, b"r", AB)
    with pytest.raises(SealError, match="next serial"):
        log.begin(T, b"r", AB)
    log.opened(T._replace(attempt=1))
    for ticket in (T._replace(attempt=2), T._replace(attempt=1, tensor="x")):
        with pytest.raises(SealError, match="opened already"):
            log.begin(ticket, b"r", AB)
    log.begin(Ticket(0, 1, 0, "h"), b"r", AB)
    log.opened(T)  # late news of the one before
    log.begin(Ticket(0, 1, 1, "h"), b"r", AB)
    for ticket in (T._replace(attempt=3), Ticket(1, 1, 2, "h")):
        with pytest.raises(SealError, match="next serial"):
            log.begin(ticket, b"r", AB)
    with pytest.raises(SealError, match="never begun"):
        log.opened(Ticket(0, 2, 0, "h"))


def test_a_refused_step_back_does_not_make_the_log_forget() -> None:
    session = Session.of("ab").join()
    end, codes = Masker(session.members["a"]), np.zeros(1, np.uint8)
    end.mask(Ticket(5, 5, 0, "h"), codes, Ring(8))
    end.log.opened(Ticket(5, 5, 0, "h"))
    for bad in (Ticket(4, 4, 0, "h"), Ticket(5, 5, 1, "h")):
        with pytest.raises(SealError):
            end.mask(bad, codes, Ring(8))


def test_another_set_begins_with_another_round() -> None:
    log = SumLog()
    log.begin(Ticket(3, 7, 0, "h"), b"r", ("a", "b", "c"))
    for log_ in (log, SumLog(log.names, log.round)):  # also after a restart of this party
        for round_ in (0, 3):
            with pytest.raises(SealError, match="go on with round 4"):
                log_.begin(Ticket(round_, 0, 0, "h"), b"new", AB)
    log.begin(Ticket(3, 0, 0, "h"), b"restart", ("a", "b", "c"))  # a replay by the same parties is fine
    log.begin(Ticket(4, 0, 0, "h"), b"new", AB)
