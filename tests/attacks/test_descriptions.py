"""Against descriptions: a party that reads labels, an owner that finds out whose rows are in a bin, bent messages."""

from __future__ import annotations

import json
from itertools import combinations

import numpy as np
import pytest
import torch
from nacl.bindings import crypto_core_ed25519_add as add
from nacl.bindings import crypto_core_ed25519_sub as sub

import colonnade as cn
from colonnade.description.describe_messages import BinSums, LabelChunk, Targets
from colonnade.description.describe_owner import DescribeOwner
from colonnade.description.describe_party import DescribeParty
from colonnade.description.label_targets import label_targets
from colonnade.description.own_columns import PartyRules
from colonnade.errors import MessageError, SealError
from colonnade.seal import elgamal
from colonnade.seal.elgamal import NEUTRAL, ORDER, EncryptedRows, LabelKey, SmallSums, points_of, refreshed, times_base

ROWS = 12
LABELS = np.array([0, 1, 1, 0, 1, 0, 0, 1, 1, 1, 0, 1])
BINS = np.array([0, 0, 1, 1, 0, 1, 0, 1, 0, 1, 1, 0])


def owner_and_party(minimum: int = 2) -> tuple[DescribeOwner, DescribeParty]:
    bank = cn.Table(range(ROWS), labels=LABELS, name="bank")
    shop = cn.Table(range(ROWS), BINS[:, None], name="shop", column_names=("x",))
    owner = DescribeOwner(None, label_targets(bank))  # type: ignore[arg-type]  # messages are carried by hand
    return owner, DescribeParty("shop", shop, None, PartyRules(minimum=minimum), bytes(32))


def told(owner: DescribeOwner, party: DescribeParty) -> BinSums:
    party.begin(owner.opening())
    for chunk in owner.chunks():
        party.hear(chunk)
    return party.answer()


# A curious party


def readable(points: np.ndarray) -> list[int] | None:
    """The labels as a party reads them if equal labels look alike: two kinds of rows, of which it knows one."""
    kinds = {row.tobytes() for row in points}
    first = points[0].tobytes()  # the party knows somebody with label 0
    return [int(row.tobytes() != first) for row in points] if len(kinds) == 2 else None


def test_equal_labels_do_not_look_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    key = LabelKey.new(1)
    once, again = (key.encrypted(LABELS[:, None]) for _ in range(2))
    seen = [points[:, k].tobytes() for points in (once, again) for k in (0, 1)]
    assert readable(once[:, 1]) is None and len(set(seen)) == 4
    every = [row.tobytes() for points in (once, again) for row in points.reshape(-1, 32)]
    assert len(set(every)) == len(every), "no point comes twice, within a description or in another"
    monkeypatch.setattr(elgamal.secrets, "randbelow", lambda below: 41)
    assert readable(key.encrypted(LABELS[:, None])[:, 1]) == LABELS.tolist(), "control: without fresh randomness"


def test_the_message_is_as_long_whatever_the_labels_are() -> None:
    owner, _ = owner_and_party()
    assert [tuple(chunk.points.shape) for chunk in owner.chunks()] == [(ROWS, 2, 32)]


# A curious owner, which knows what it encrypted


def members(shared: bytes, randoms: list[int]) -> list[tuple[int, ...]]:
    """Which sets of rows have this sum of r G, up to the factor 8: every set is tried."""
    every = (chosen for size in range(ROWS + 1) for chosen in combinations(range(ROWS), size))
    sums = ((chosen, sum(randoms[k] for k in chosen)) for chosen in every)
    return [chosen for chosen, r in sums if shared in (times_base(r), times_base(8 * r))]


def test_a_sum_does_not_tell_its_rows() -> None:
    """The owner knows every row's r: the sum of r G names the rows of a bin, unless the party refreshes it."""
    key, randoms = LabelKey.new(1), [pow(3, 40 + k, ORDER) for k in range(ROWS)]
    rows = [[times_base(r), times_base(r * key.scalars[0] + y)] for r, y in zip(randoms, LABELS.tolist(), strict=True)]
    points = np.frombuffer(b"".join(map(b"".join, rows)), np.uint8).reshape(ROWS, 2, 32)
    encrypted = EncryptedRows(points)
    plain = encrypted.by_code(BINS, encrypted.total)
    right = [tuple(np.flatnonzero(k == BINS).tolist()) for k in (0, 1)]
    assert [members(plain[k][0], randoms) for k in (0, 1)] == [[right[0]], [right[1]]], "control: as they are"
    sent = [refreshed(plain[k], key.public) for k in (0, 1)]
    assert [members(points[0], randoms) for points in sent] == [[], []]
    assert [key.opened(points, SmallSums(ROWS), 0, ROWS)[0] for points in sent] == [
        int(LABELS[k == BINS].sum()) for k in (0, 1)
    ], "and the sums are right"


def test_the_owner_reads_the_sums_and_nothing_else() -> None:
    owner, party = owner_and_party()
    answer = told(owner, party)
    facts, (column,) = owner.opened(answer)
    assert column.sums.tolist() == [[int(LABELS[k == BINS].sum())] for k in (0, 1)]
    assert set(json.loads(answer.facts.numpy().tobytes())["columns"][0]) == {
        "name", "titles", "counts", "missing", "stability", "levels",
    }  # fmt: skip
    assert answer.sums.shape == (2, 2, 32) and answer.products.shape == (1, 2, 32) and facts.sigma == 0


# A lying owner


def small_order() -> bytes:
    """A point of order 2: what (0, -1) is written as."""
    return (2**255 - 20).to_bytes(32, "little")


def test_a_row_marked_by_a_point_of_small_order_is_not_found() -> None:
    """Adding such a point to one row leaves a mark in the sum of its bin, unless the party takes all points times 8."""
    key, marked = LabelKey.new(1), 5
    points = key.encrypted(LABELS[:, None]).copy()
    points[marked, 0] = np.frombuffer(add(points[marked, 0].tobytes(), small_order()), np.uint8)
    encrypted = EncryptedRows(points)
    plain = encrypted.by_code(BINS, encrypted.total)

    def mark(point: bytes) -> bool:
        """Whether a point has a part of small order: then it is not neutral when multiplied by the large order."""
        total, power, rest = NEUTRAL, point, ORDER
        while rest:
            total, power, rest = (add(total, power) if rest & 1 else total), add(power, power), rest >> 1
        return total != NEUTRAL

    assert [mark(plain[k][0]) for k in (0, 1)] == [False, True] == [k == BINS[marked] for k in (0, 1)], "control"
    assert [mark(refreshed(plain[k], key.public)[0]) for k in (0, 1)] == [False, False]


def test_a_lying_owner_can_single_out_a_row_and_noise_hides_it() -> None:
    """What is not promised: an owner may encrypt a 1 for one row only. The noise of an epsilon hides the row."""
    rows, target = 80, 17
    x = np.arange(rows) % 2
    tables = [
        cn.Table(range(rows), labels=np.arange(rows) == target, name="bank"),
        cn.Table(range(rows), x[:, None], name="shop"),
    ]

    def guessed(**how: float) -> int:
        bins = cn.describe(tables, **how).columns[0].bins
        return int(np.argmax([one.positives or 0 for one in bins]))

    assert guessed() == x[target], "control: without noise the bin of the row is plain"
    right = sum(guessed(epsilon=0.5) == x[target] for _ in range(20))
    assert 0 < right < 20, "with noise it is a guess; that all of 20 are alike has a chance of about 2^-19"


def test_a_party_answers_once() -> None:
    owner, party = owner_and_party()
    told(owner, party)
    with pytest.raises(SealError, match="a second time"):
        party.begin(owner.opening())
    with pytest.raises(SealError, match="a second time"):
        party.answer()


@pytest.mark.parametrize(
    ("bend", "sentence"),
    [
        (lambda t: t._replace(keys=t.keys[:, :31]), "keys came as torch.uint8 of shape"),
        (lambda t: t._replace(keys=t.keys.expand(21, 32)), "expected 1 to 20 of 32 bytes"),
        (lambda t: t._replace(keys=torch.zeros_like(t.keys)), "no point of the curve's large group"),
        (lambda t: t._replace(sizes=t.sizes[:2]), "expected three numbers"),
        (lambda t: t._replace(sizes=torch.tensor([13, 1, 1])), "labels of 13 rows up to 1 are announced"),
        (lambda t: t._replace(sizes=torch.tensor([12, 10**6, 1])), "labels go up to 512"),
    ],
)
def test_bent_keys_are_refused(bend, sentence: str) -> None:
    owner, party = owner_and_party()
    with pytest.raises(MessageError, match=sentence):
        party.begin(bend(owner.opening()))


def no_point(chunk: LabelChunk) -> LabelChunk:
    points = chunk.points.clone()
    points[3, 1] = 0
    points[3, 1, 0] = 2  # no point has this y
    return chunk._replace(points=points)


@pytest.mark.parametrize(
    ("bend", "sentence"),
    [
        (lambda c: c._replace(points=c.points[:5]), "where rows from 0 on of shape"),
        (lambda c: c._replace(points=c.points.to(torch.int16)), "torch.int16"),
        (lambda c: c._replace(start=torch.tensor(1)), "keep the order"),
        (no_point, "a point that is not on the curve"),
    ],
)
def test_bent_labels_are_refused(bend, sentence: str) -> None:
    owner, party = owner_and_party()
    party.begin(owner.opening())
    bent = bend(next(owner.chunks()))

    def heard() -> None:
        party.hear(bent)
        party.answer()

    with pytest.raises(MessageError, match=sentence):
        heard()


def test_sums_are_not_given_before_all_labels_came() -> None:
    owner, party = owner_and_party()
    with pytest.raises(SealError, match="before all labels came"):
        party.answer()
    with pytest.raises(MessageError, match="keep the order"):
        party.hear(next(owner.chunks()))
    party.begin(Targets(*owner.opening()))
    with pytest.raises(SealError, match="before all labels came"):
        party.answer()


# A lying party


def said(answer: BinSums, **changed: object) -> BinSums:
    """The answer with other facts about its column."""
    facts = json.loads(answer.facts.numpy().tobytes())
    for name, value in changed.items():
        (facts if name in facts else facts["columns"][0])[name] = value
    return answer._replace(facts=torch.tensor(list(json.dumps(facts).encode()), dtype=torch.uint8))


@pytest.mark.parametrize(
    ("bend", "sentence"),
    [
        (lambda a: said(a, counts=[1, 11]), "in bins of at least 2 are expected"),
        (lambda a: said(a, counts=[6, 7]), "have 13 rows"),
        (lambda a: said(a, counts=[12], titles=["all"]), "came with 1 bins"),
        (lambda a: said(a, titles=["a"]), "came with 1 bins"),
        (lambda a: said(a, counts=["6", 6]), r"counts\[0\] is '6' where a whole number from 0"),
        (lambda a: said(a, stability=float("inf")), "a missing share or a stability out of range"),
        (lambda a: said(a, missing=7.0), "a missing share or a stability out of range"),
        (lambda a: said(a, levels=[0.0, 1e9]), "that no standardised column has"),
        (lambda a: said(a, sigma=1e30), "noise below 1e9"),
        (lambda a: said(a, sigma=1e8, levels=[]), "too much for a sum to be found"),
        (lambda a: said(a, columns=[]), "facts about 0 columns"),
        (lambda a: a._replace(facts=torch.zeros(5, dtype=torch.uint8)), "no JSON"),
        (lambda a: a._replace(facts=torch.tensor(list(b"[" * 100_000), dtype=torch.uint8)), "no JSON"),
        (lambda a: a._replace(sums=a.sums[:1]), "sums came as torch.uint8 of shape"),
        (lambda a: a._replace(products=a.products[:0]), "sums came as torch.uint8 of shape"),
        (lambda a: a._replace(sums=torch.zeros_like(a.sums)), "not on the curve"),
        (lambda a: a._replace(sums=a.sums.flip(0)[:, [1, 0]]), "is not between"),
    ],
)
def test_bent_answers_are_refused(bend, sentence: str) -> None:
    owner, party = owner_and_party()
    answer = told(owner, party)
    with pytest.raises(MessageError, match=sentence):
        owner.opened(bend(answer))


def test_what_a_party_names_reaches_no_terminal() -> None:
    owner, party = owner_and_party()
    facts, _ = owner.opened(said(told(owner, party), name="x\x1b[2J" + "y" * 500, notes=["\x07"]))
    assert facts.columns[0].name.startswith("x?[2Jyy") and len(facts.columns[0].name) <= 100 and facts.notes == ("?",)


def test_noise_and_factor_are_in_the_sum_alone() -> None:
    """The owner opens sum + noise; the points of two refreshed sums of one number have nothing in common."""
    key = LabelKey.new(1)
    row = points_of(key.encrypted(np.array([[1]]))[0])
    first, second = (refreshed(row, key.public, [40]) for _ in range(2))
    assert key.opened(first, SmallSums(100), -100, 100) == [41] and not set(first) & set(second)
    assert sub(first[0], second[0]) != NEUTRAL
