"""Alignment from end to end: against plain sets, with all that users bring, and byte by byte."""

from __future__ import annotations

import random
import re
from itertools import combinations
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import colonnade as cn
from colonnade.errors import ConfigError, PrivacyError, TableError
from colonnade.runtime import local_backend
from colonnade.tables.align import align_messages, box, curve
from colonnade.tables.align import align_terms as agreed
from colonnade.tables.align import alignment_party as peer
from colonnade.tables.align.align_sheets import who_learns
from colonnade.tables.align.id_texts import texts
from colonnade.tables.align.plain_ids import hashes
from colonnade.wire.owner_half import OwnerHalf


def sheets(*ids: Any) -> list[Any]:
    return [SimpleNamespace(name=f"party {k}" if k else "bank", ids=own) for k, own in enumerate(ids)]


def people(parties: int, common: int, own: int, seed: int = 0) -> list[Any]:
    """Parties with common ids, own ids, and ids of some but not all."""
    rng = random.Random(seed)
    found = []
    for party in range(parties):
        ids = [f"common {k}" for k in range(common)] + [f"{party} only {k}" for k in range(own)]
        ids += [f"not of {other}" for other in range(parties) if other != party]
        rng.shuffle(ids)
        found.append(ids)
    return sheets(*found)


def assert_aligned(brought: list[Any], alignment: cn.Alignment) -> None:
    expected = set.intersection(*({str(one) for one in sheet.ids} for sheet in brought))
    orders = [[str(sheet.ids[row]) for row in alignment.rows[sheet.name]] for sheet in brought]
    assert len(orders[0]) == len(expected) == alignment.count
    assert set(orders[0]) == expected
    assert all(order == orders[0] for order in orders)
    assert orders[0] == sorted(expected, key=lambda one: hashes([one.encode()], 0)[0])


@pytest.mark.parametrize("mode", ["psi", "plain"])
@pytest.mark.parametrize("parties", [2, 3, 4, 14])
def test_every_number_of_parties_finds_the_intersection(parties: int, mode: str) -> None:
    brought = people(parties, common=9, own=3)
    alignment = cn.align(brought, mode=mode)
    assert_aligned(brought, alignment)
    assert alignment.sizes == {sheet.name: len(sheet.ids) for sheet in brought}
    assert alignment.names == tuple(sheet.name for sheet in brought)
    assert re.fullmatch("[0-9a-f]{64}", alignment.proof)


sets = st.sets(st.integers(0, 9), min_size=1, max_size=8).flatmap(lambda one: st.permutations(sorted(one)))


@settings(max_examples=40, deadline=None)
@given(st.lists(sets, min_size=2, max_size=4))
def test_any_sets(ids: list[list[int]]) -> None:
    brought = sheets(*ids)
    if not set.intersection(*map(set, ids)):
        with pytest.raises(TableError, match="no id is common"):
            cn.align(brought)
    else:
        assert_aligned(brought, cn.align(brought))


def test_both_modes_and_every_run_give_one_order() -> None:
    brought = people(3, common=20, own=5)
    first, again, plain = cn.align(brought), cn.align(brought), cn.align(brought, mode="plain")
    other = cn.align(brought, seed=1)
    for name in first.names:
        assert np.array_equal(first.rows[name], again.rows[name])
        assert np.array_equal(first.rows[name], plain.rows[name])
        assert not np.array_equal(first.rows[name], other.rows[name])
    assert first.proof != again.proof, "every run has keys of its own"


def test_without_gmpy2_the_result_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    brought = people(3, common=5, own=2)
    quick = cn.align(brought)
    monkeypatch.setattr(curve, "has_gmpy2", False)
    slow = cn.align(brought)
    assert all(np.array_equal(quick.rows[name], slow.rows[name]) for name in quick.names)


def test_large_sets_go_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = cn.align(brought := people(3, common=8, own=3))
    for module in (align_messages, peer):
        monkeypatch.setattr(module, "CHUNK", 4)
    heard: list[tuple[int, int]] = []
    alignment = cn.align(brought, on_progress=lambda done, in_all: heard.append((done, in_all)))
    assert_aligned(brought, alignment)
    assert all(np.array_equal(whole.rows[name], alignment.rows[name]) for name in whole.names)
    assert heard[-1] == (3 * 39, 3 * 39) and [done for done, _ in heard] == sorted({done for done, _ in heard})
    assert len(heard) == 3 * 3 * 4, "sets of 13 in parts of 4"


# What users bring


def test_ids_are_compared_as_texts() -> None:
    alignment = cn.align(sheets([7, 8, 9], np.array(["9", "x", "7"]), [b"7", b"9"]))
    assert alignment.count == 2
    assert sorted(alignment.rows["bank"]) == [0, 2]


@pytest.mark.parametrize(
    ("ids", "expected"),
    [
        (np.array([3, -1]), [b"3", b"-1"]),
        (np.array(["a", "ü"]), [b"a", "ü".encode()]),
        (np.array([b"a", b"b"]), [b"a", b"b"]),
        (np.array(["a", 7], dtype=object), [b"a", b"7"]),
        ([np.int64(4), "5"], [b"4", b"5"]),
        (("a", ""), [b"a", b""]),
    ],
)
def test_kinds_of_ids(ids: Any, expected: list[bytes]) -> None:
    assert texts(ids, "shop") == expected


@pytest.mark.parametrize(
    ("ids", "words"),
    [
        ([1.5, 2.0], "the id 1.5 of 'party 1' is a float; give texts or whole numbers"),
        ([None, "a"], "the id None of 'party 1' is a NoneType"),
        ([True, False], "is a bool"),
        ([b"\xff"], "is no valid text"),
        (["\ud800"], "is no valid text"),
        ([], "has no ids"),
        (5, "are a int; give a list"),
        ("abc", "are one text"),
        (np.array([[1], [2]]), "is a list"),
    ],
)
def test_ids_that_are_none(ids: Any, words: str) -> None:
    with pytest.raises(TableError, match=words):
        cn.align(sheets(["a"], ids))


def test_repeated_ids_are_counted_and_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(OwnerHalf, "count", lambda *_: pytest.fail("nothing may be sent"))
    ids = [*"abcde", *"abcd", "a", 7, "7"]
    with pytest.raises(TableError) as error:
        cn.align(sheets(["a"], ids))
    assert str(error.value) == (
        "5 of the 6 ids of 'party 1' occur more than once, such as 'a' (3 times), 'b' (2 times), 'c' (2 times); "
        "drop or merge them."
    )


def test_nothing_in_common() -> None:
    with pytest.raises(TableError, match=r"no id is common to all of owner, party 1; check that the ids"):
        cn.align(sheets(["a"], ["b"]))


@pytest.mark.parametrize("mode", ["psi", "plain"])
def test_too_few_in_common_are_told_to_nobody(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[str] = []
    monkeypatch.setattr(OwnerHalf, "count", recorder(steps, OwnerHalf.count))
    brought = people(3, common=4, own=2)
    with pytest.raises(PrivacyError, match=r"4 ids are common .* minimum=5; nobody was told which"):
        cn.align(brought, minimum=5, mode=mode)
    assert "give" in steps and not {"trace", "keep", "prove"} & set(steps)
    assert cn.align(brought, minimum=4, mode=mode).count == 4


def recorder(steps: list[str], carry: Any) -> Any:
    def record(self: Any, fields: Any, sender: str, receiver: str, step: str, *rest: Any) -> Any:
        steps.append(step)
        return carry(self, fields, sender, receiver, step, *rest)

    return record


@pytest.mark.parametrize("large", [0, 1])
def test_too_large_sets_are_refused(large: int, monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[str] = []
    monkeypatch.setattr(OwnerHalf, "count", recorder(steps, OwnerHalf.count))
    ids = [["a", "b"], ["a", "b"]]
    ids[large] = ["a", "b", "c", "d"]
    with pytest.raises(PrivacyError, match=r"brings 4 ids and maximum=3 was agreed on"):
        cn.align(sheets(*ids), maximum=3)
    assert set(steps) <= {"greet", "confirm"}, "nothing was masked"
    assert cn.align(sheets(*ids), maximum=4).count == 2


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"mode": "pis"}, "did you mean 'psi'"),
        ({"minimum": 0}, "minimum=0 is out of range"),
        ({"minimum": 1.5}, "minimum=1.5 is not a whole number"),
        ({"minimum": 3, "maximum": 2}, "maximum=2 is below minimum=3"),
        ({"seed": "x"}, "seed='x' is not a whole number"),
        ({"names": ["a"]}, "1 names came for 2 parties"),
        ({"runtime": "fused"}, "unknown runtime"),
    ],
)
def test_options_that_make_no_sense(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        cn.align(sheets(["a"], ["a"]), **options)


@pytest.mark.parametrize(
    ("brought", "words"),
    [
        (sheets(["a"]), "two parties or more"),
        ([SimpleNamespace(name="x", ids=["a"])] * 2, "two parties have the same name"),
        ([*sheets(["a"]), SimpleNamespace(name="owner", ids=["a"])], "a party is named 'owner'"),
        ([*sheets(["a"]), SimpleNamespace(name="bär", ids=["a"])], "cannot travel"),
        ([*sheets(["a"]), ["a"]], "a list has no name and ids"),
    ],
)
def test_sheets_that_make_no_sense(brought: list[Any], words: str) -> None:
    with pytest.raises(TableError, match=words):
        cn.align(brought)


def test_names_can_be_given() -> None:
    alignment = cn.align([SimpleNamespace(name="x", ids=["a"])] * 2, names=["bank", "shop"])
    assert list(alignment.rows) == ["bank", "shop"]


# The federation


def test_the_federation_of_the_common_rows_trains() -> None:
    rng = np.random.default_rng(0)
    ids = rng.permutation(60)
    bank = cn.Table(ids=ids, labels=ids % 2, name="bank")
    mixed = rng.permutation(np.arange(20, 80))
    columns = np.stack([mixed % 2, mixed], 1).astype(np.float32)
    shop = cn.Table(ids=[str(one) for one in mixed], columns=columns, name="shop")
    tables = cn.align([bank, shop]).take([bank, shop])
    assert tables[0].rows == 40 and tables[0].ids.tolist() == tables[1].ids.tolist()
    assert tables[0].labels.tolist() == tables[1].columns[:, 0].tolist()
    cn.train(tables, "splitnn", epochs=1, batch=20)


def test_other_tables_than_the_aligned_ones_are_refused() -> None:
    bank, shop = (cn.Table(ids=["a", "b", "c"], columns=[[1.0], [2.0], [3.0]], name=name) for name in ("bank", "shop"))
    alignment = cn.align([bank, shop])
    with pytest.raises(TableError, match="1 tables came; give those of bank, shop"):
        alignment.take([bank])
    with pytest.raises(TableError, match="has 2 rows and 'shop' had 3"):
        alignment.take([bank, shop.take([0, 1])])
    with pytest.raises(TableError, match="table 'shop' are not those that were aligned"):
        alignment.take([bank, shop.take([1, 0, 2])])


def test_the_result_in_words_and_as_data() -> None:
    alignment = cn.align(people(3, common=4, own=2))
    assert "4 ids are common to 3 parties" in str(alignment) and alignment.proof[:16] in str(alignment)
    data = alignment.to_json()
    assert data["count"] == 4 and data["sizes"]["bank"] == 8 and "rows" not in data
    assert set(alignment.seconds_by_party) == set(alignment.names)
    assert sum(alignment.seconds_by_party.values()) == pytest.approx(alignment.seconds)


def test_who_learns_what_depends_on_mode_and_number() -> None:
    two, three = who_learns("psi", ["bank", "shop"]), who_learns("psi", ["bank", "shop", "post"])
    assert "every group" in " ".join(three) and "every group" not in " ".join(two)
    assert "can find out any id that it can guess" in " ".join(who_learns("plain", ["bank", "shop"]))
    assert cn.align(sheets(["a"], ["a"])).opened == who_learns("psi", ["bank", "party 1"])


# Bytes


def frames_of(monkeypatch: pytest.MonkeyPatch, brought: list[Any], mode: str) -> tuple[list[bytes], cn.Alignment]:
    frames: list[bytes] = []
    encode = local_backend.encode
    monkeypatch.setattr(local_backend, "encode", lambda *parts: frames.append(encode(*parts)) or frames[-1])
    alignment = cn.align(brought, mode=mode, runtime="bytes")
    monkeypatch.undo()
    return frames, alignment


@pytest.mark.parametrize("parties", [2, 3, 5])
def test_the_ledger_counts_what_the_protocol_says(parties: int, monkeypatch: pytest.MonkeyPatch) -> None:
    brought = people(parties, common=6, own=2)
    frames, alignment = frames_of(monkeypatch, brought, "psi")
    assert alignment.ledger.total == sum(map(len, frames))
    plainly = cn.align(brought)
    assert plainly.ledger.to_json() == alignment.ledger.to_json()
    assert alignment.ledger.by_purpose.keys() == {"align"}
    assert found_in(alignment) == expected_of(parties, len(brought[0].ids), alignment.count)


def expected_of(parties: int, n: int, c: int, minimum: int = 1) -> dict[str, int]:
    """What travels in each step, where the owner's own end is at home: it relays."""
    terms = peer.AlignTerms("psi", tuple(map(str, range(parties))), 0, minimum, None)
    length = {whose: terms.length(whose, [n] * parties) for whose in terms.lists}
    others, places = parties - 1, 8 + 8 * c + 28
    found = dict.fromkeys(["give", "take", "trace"], 0)
    for whose in terms.lists:
        box = 8 + 32 * length[whose] + 28
        path = terms.path(whose)
        found["give"] += sum(16 + box for party in path[:-1] if party)
        found["take"] += sum(box for party in path[1:] if party)
        if whose != terms.trial:
            found["trace"] += sum(2 * places for party in path[1:-1] if party)
    return found | {
        "greet": others * 120,
        "confirm": others * (120 * parties + 64),
        "join": others * 64 * parties,
        "compare": 36 * parties,
        "hear": (parties - 2) * 36 * parties,
        "show": parties * (16 + places),
        "keep": others * places,
        "lock": others * 32,
        "prove": others * 64 * parties,
        "verify": others * 32 * parties**2,
    }


def found_in(alignment: cn.Alignment) -> dict[str, int]:
    found: dict[str, int] = {"hear": 0, "trace": 0}
    for line in alignment.ledger.rows:
        found[line.step] = found.get(line.step, 0) + line.payload
    return found


def test_a_minimum_costs_one_list_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agreed, "TRIED", 20)
    alignment = cn.align(people(3, common=6, own=2), minimum=2)
    assert found_in(alignment) == expected_of(3, alignment.sizes["bank"], 6, minimum=2)


def test_no_id_and_no_unmasked_point_travels(monkeypatch: pytest.MonkeyPatch) -> None:
    bare: list[bytes] = []
    multiply = curve.multiply

    def spy(key: bytes, points: bytes, whose: str, by: curve.Multiply) -> bytes:
        if whose == "this party":
            bare.extend(points[at : at + 32] for at in range(0, len(points), 32))
        return multiply(key, points, whose, by)

    monkeypatch.setattr(curve, "multiply", spy)
    brought = people(4, common=5, own=3)
    frames, _ = frames_of(monkeypatch, brought, "psi")
    everything = b"".join(frames)
    assert len(bare) == sum(len(sheet.ids) for sheet in brought)
    assert not any(point in everything for point in bare)
    assert not any(str(one).encode() in everything for sheet in brought for one in sheet.ids)
    digests = {digest for sheet in brought for digest in hashes([one.encode() for one in sheet.ids], 0)}
    assert not any(digest in everything for digest in digests), "the hashes that rows are ordered by stay at home"


def test_only_the_comparer_has_lists_that_share_points(monkeypatch: pytest.MonkeyPatch) -> None:
    """So nobody can match a list to the one before it, or compare two sets before the comparer does."""
    seen: dict[str, list[set[bytes]]] = {}
    open_box = box.Boxes.open

    def spy(self: Any, sender: str, sealed: bytes, what: str, *about: int) -> bytes:
        raw = open_box(self, sender, sealed, what, *about)
        if what == peer.POINTS:
            seen.setdefault(self._me, []).append({raw[at : at + 32] for at in range(0, len(raw), 32)})
        return raw

    monkeypatch.setattr(box.Boxes, "open", spy)
    frames, _ = frames_of(monkeypatch, people(4, common=5, own=3), "psi")
    everything = b"".join(frames)
    assert not any(point in everything for lists in seen.values() for one in lists for point in one)
    *first, _ = seen.pop("party 3")
    assert [len(one & other) for one, other in combinations(first, 2)] == [5 + 2] * 3, "the comparer sees groups' sizes"
    for lists in seen.values():
        assert len(lists) == 3 and not any(one & other for one, other in combinations(lists, 2))


def test_files_read_by_different_rules_are_not_aligned() -> None:
    bank, shop = sheets(["ann"], ["ann"])
    bank.rule, shop.rule = ("trim",), ()
    with pytest.raises(TableError, match=r"different rules \('bank' trim, 'party 1' nothing\)"):
        cn.align([bank, shop], mode="plain")
    shop.rule = ("trim",)
    assert cn.align([bank, shop], mode="plain").count == 1
