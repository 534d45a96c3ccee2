"""An owner that encrypts something else than labels, to read from sums which person is in which bin.

Every attack works on a party that asks for no proof, which is the control, and ends in a refusal at one that does.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import numpy as np
import pytest
import torch

import colonnade as cn
from colonnade.description.describe_messages import BinSums, GroupProofs, LabelChunk, LabelProofs, Targets
from colonnade.description.describe_party import DescribeParty
from colonnade.description.own_columns import PartyRules
from colonnade.errors import MessageError, SealError
from colonnade.seal.bit_proofs import prove_at_least, prove_bits
from colonnade.seal.elgamal import LabelKey, SmallSums, points_of, scalars

ROWS, MINIMUM = 14, 4
VALUES = np.array([0, 0, 1, 1, 0, 1, 0, 1, 0, 1, 1, 0, 1, 0])
LABELS = np.array([0, 1, 1, 0, 1, 0, 0, 1, 1, 1, 0, 1, 0, 0])


def shop(*, proof: bool, epsilon: float | None = None, key: bytes = bytes(32)) -> DescribeParty:
    table = cn.Table(range(ROWS), VALUES[:, None], name="shop", column_names=("x",))
    return DescribeParty("shop", table, None, PartyRules(minimum=MINIMUM, proof=proof, epsilon=epsilon), key)


class Liar:
    """An owner that encrypts any numbers, and proves as well as it can that they are labels."""

    def __init__(self, numbers: np.ndarray, claimed: np.ndarray | None = None) -> None:
        """``claimed`` is what it makes the proofs of."""
        self.numbers = numbers.reshape(ROWS, -1)
        self.claimed = self.numbers if claimed is None else claimed.reshape(ROWS, -1)
        self.key, self.randoms = LabelKey.new(self.numbers.shape[1]), list(islice(scalars(), ROWS))
        self.points = self.key.encrypted(self.numbers, self.randoms)

    def tell(self, party: DescribeParty) -> None:
        keys = torch.tensor([list(key) for key in self.key.public], dtype=torch.uint8)
        party.begin(Targets(keys, torch.tensor([ROWS, 1, 1])))
        party.hear(LabelChunk(torch.tensor(0), torch.from_numpy(self.points.copy())))

    def proofs(self) -> LabelProofs:
        made = prove_bits(self.key, self.points, self.claimed, self.randoms, one=self.claimed.shape[1] > 1)
        return LabelProofs(*map(torch.from_numpy, made))

    def groups(self, least: int = MINIMUM) -> GroupProofs:
        made = []
        for k, ones in enumerate(self.claimed.sum(axis=0).tolist()):
            for surplus, random in ((ones, sum(self.randoms)), (ROWS - ones, -sum(self.randoms))):
                made.append(prove_at_least(self.key.only(k), surplus - least, random, ROWS.bit_length()))
        parts = [np.stack(part) for part in zip(*((one.digits, *one.proof) for one in made), strict=True)]
        return GroupProofs(torch.tensor(least), *map(torch.from_numpy, parts))

    def read(self, answer: BinSums, largest: int = 1 << 20) -> np.ndarray:
        sums = [self.key.opened(points_of(line.numpy()), SmallSums(largest), 0, largest) for line in answer.sums]
        return np.array(sums)

    def ask(self, party: DescribeParty) -> np.ndarray:
        """The sums of all bins, [bins, T]."""
        self.tell(party)
        if party.rules.proof:
            party.believe(self.proofs())
            party.believe_groups(self.groups())
        return self.read(party.answer())


def rows_in(total: int) -> list[int]:
    """Whose powers of two a sum is made of."""
    return [k for k in range(ROWS) if total >> k & 1]


def test_an_honest_owner_is_believed() -> None:
    sums = Liar(LABELS).ask(shop(proof=True))
    assert sums[:, 0].tolist() == [int(LABELS[k == VALUES].sum()) for k in (0, 1)]
    three = np.eye(3, dtype=int)[np.arange(ROWS) % 3]
    sums = Liar(three).ask(shop(proof=True))
    assert sums.tolist() == [three[k == VALUES].sum(axis=0).tolist() for k in (0, 1)]


def test_powers_of_two_tell_everybodys_value() -> None:
    """One description reads the whole column: the bin's sum names its rows, however many a bin has."""
    powers = 2 ** np.arange(ROWS)
    sums = Liar(powers).ask(shop(proof=False))
    read = [rows_in(int(total)) for total in sums[:, 0]]
    assert read == [np.flatnonzero(k == VALUES).tolist() for k in (0, 1)], "control: without a proof"
    for claimed in (powers, LABELS):  # a proof of what it encrypts, or of labels that it does not encrypt
        with pytest.raises(MessageError, match="a proof that does not hold"):
            Liar(powers, claimed).ask(shop(proof=True))


def test_one_number_that_is_no_label_is_enough_to_be_refused() -> None:
    for wrong in (2, -1, 1 << 40):
        numbers = LABELS.copy()
        numbers[5] = wrong
        with pytest.raises(MessageError, match="a proof that does not hold"):
            Liar(numbers).ask(shop(proof=True))


def test_a_single_one_shows_that_rows_bin() -> None:
    """A 1 among noughts is a valid set of noughts and ones, so groups of enough rows must be proved as well."""
    target = 9
    alone = (np.arange(ROWS) == target).astype(int)
    sums = Liar(alone).ask(shop(proof=False))
    assert int(sums[:, 0].argmax()) == VALUES[target], "control: without a proof"
    with pytest.raises(MessageError, match="enough rows are of every class"):
        Liar(alone).ask(shop(proof=True))
    with pytest.raises(MessageError, match="enough rows are of every class"):
        Liar(1 - alone).ask(shop(proof=True))  # all but one: the same from the other side
    liar, party = Liar(alone), shop(proof=True)
    liar.tell(party)
    party.believe(liar.proofs())
    with pytest.raises(MessageError, match="at least 4 rows are expected"):
        party.believe_groups(liar.groups(least=1))


def test_two_classes_that_overlap_single_out_a_row() -> None:
    """The same labels twice but for one row: their difference is that row's bin, unless a row is of one class only."""
    target = 2
    other = LABELS.copy()
    other[target] = 0
    both = np.stack([LABELS, other], axis=1)
    sums = Liar(both).ask(shop(proof=False))
    assert int((sums[:, 0] - sums[:, 1]).argmax()) == VALUES[target], "control: without a proof"
    with pytest.raises(MessageError, match="a proof that does not hold"):
        Liar(both).ask(shop(proof=True))


def test_noise_for_labels_hides_nothing_among_larger_numbers() -> None:
    """So epsilon is a promise against a lying owner only with a proof, and without one the page says so."""
    target, large = 9, 1 << 16
    numbers = large * (np.arange(ROWS) == target).astype(int)
    for noise in range(5):
        party = shop(proof=False, epsilon=0.5, key=bytes([noise]) * 32)
        liar = Liar(numbers)
        liar.tell(party)
        sums = [
            liar.key.opened(points_of(line.numpy()), SmallSums(2 * large), -2 * large, 2 * large)[0]
            for line in party.answer().sums
        ]
        assert int(np.argmax(sums)) == VALUES[target], "control: without a proof, under noise"
    with pytest.raises(MessageError, match="a proof that does not hold"):
        Liar(numbers).ask(shop(proof=True, epsilon=0.5))


def test_known_company_gives_a_person_away_all_the_same() -> None:
    """What is not promised: the groups are the owner's choice, and it may know the bins of all others in one."""
    target, known = 9, [0, 1, 2, 3, 4]
    group = np.isin(np.arange(ROWS), [target, *known]).astype(int)
    sums = Liar(group).ask(shop(proof=True))[:, 0]
    left = sums - np.bincount(VALUES[known], minlength=2)
    assert int(left.argmax()) == VALUES[target] and left.sum() == 1


def test_proofs_cannot_be_left_out_or_shuffled() -> None:
    liar, party = Liar(LABELS), shop(proof=True)
    liar.tell(party)
    with pytest.raises(SealError, match="was given 14 labels and a proof of 0"):
        party.answer()
    with pytest.raises(SealError, match="was given 14 labels and a proof of 0"):
        party.believe_groups(liar.groups())
    party.believe(liar.proofs())
    with pytest.raises(SealError, match="without a proof that they are of enough people"):
        party.answer()
    with pytest.raises(MessageError, match="waits for none"):
        party.believe(liar.proofs())
    party.believe_groups(liar.groups())
    with pytest.raises(MessageError, match="waits for none"):
        party.believe_groups(liar.groups())
    party.answer()


def test_values_cannot_be_announced_to_a_party_that_asks_for_proofs() -> None:
    liar, party = Liar(LABELS), shop(proof=True)
    keys = torch.tensor([list(key) for key in liar.key.public], dtype=torch.uint8)
    with pytest.raises(MessageError, match="asks for a proof that every row is of one class"):
        party.begin(Targets(keys, torch.tensor([ROWS, 512, 1])))


def bent(message: LabelProofs | GroupProofs) -> Iterator[LabelProofs | GroupProofs]:
    """The message with one bit of each 32 bytes turned, or other kinds and shapes."""
    for name in message._fields:
        part = getattr(message, name)
        if part.dtype == torch.int64:
            yield message._replace(**{name: part + 1})
            yield message._replace(**{name: part.reshape(1)})
            continue
        lines = part.reshape(-1, 32)
        for k in range(len(lines)):
            changed = lines.clone()
            changed[k, k % 31] ^= 1 << k % 8
            yield message._replace(**{name: changed.reshape(part.shape)})
        yield message._replace(**{name: part[:-1]})
        yield message._replace(**{name: part.to(torch.int16)})


def test_no_bent_proof_is_believed() -> None:
    """The control is at the end: the true proofs are believed by the same party."""
    liar, party = Liar(LABELS), shop(proof=True)
    liar.tell(party)
    proofs, tried = liar.proofs(), 0
    for wrong in bent(proofs):
        tried += 1
        with pytest.raises(MessageError):
            party.believe(wrong)  # type: ignore[arg-type]
    party.believe(proofs)
    groups = liar.groups()
    for wrong in islice(bent(groups), 0, None, 4):  # each fourth, to be quick
        tried += 1
        with pytest.raises(MessageError):
            party.believe_groups(wrong)  # type: ignore[arg-type]
    party.believe_groups(groups)
    party.answer()
    assert tried > 40


def test_a_proof_tells_no_label() -> None:
    """What is told of a row is c y + s: without the masks s the labels are plain, with them they are no guess."""
    from colonnade.seal import bit_proofs

    liar = Liar(LABELS)
    told = [bit_proofs._number(row[1].numpy().tobytes()) for row in liar.proofs().scalars]
    challenge = bit_proofs._number(liar.proofs().whole[0].numpy().tobytes())
    assert not {0, challenge} & set(told) and len(set(told)) == ROWS
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bit_proofs, "_masks", lambda targets, one: [0] * targets)
        proofs = liar.proofs()
        challenge = bit_proofs._number(proofs.whole[0].numpy().tobytes())
        told = [bit_proofs._number(row[1].numpy().tobytes()) for row in proofs.scalars]
        assert told == [challenge * int(y) for y in LABELS], "control: without masks"


@pytest.mark.parametrize("part", ["minimum", "digits", "scalars", "whole"])
@pytest.mark.parametrize("shape", [(), (0,), (2,), (2, 3, 32), (2, 4, 2, 32)])
def test_proofs_of_another_form_are_refused_in_a_sentence(part: str, shape: tuple[int, ...]) -> None:
    liar, party = Liar(LABELS), shop(proof=True)
    liar.tell(party)
    party.believe(liar.proofs())
    with pytest.raises(MessageError):
        party.believe_groups(liar.groups()._replace(**{part: torch.zeros(shape, dtype=torch.uint8)}))
