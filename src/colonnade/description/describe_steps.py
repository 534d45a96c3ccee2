"""The party steps of a description. Each calls the method of its name on ``mine.end``, the party's end."""

from __future__ import annotations

from typing import Protocol

from colonnade.core.method import Turn, party_step
from colonnade.description.describe_messages import BinSums, GroupProofs, LabelChunk, LabelProofs, Targets
from colonnade.description.describe_party import DescribeParty


class DescribeMine(Protocol):
    """The party's own side as a step sees it."""

    end: DescribeParty


@party_step
def begin(mine: DescribeMine, turn: Turn, message: Targets) -> None:
    """Take the owner's public keys."""
    mine.end.begin(message)


@party_step
def hear(mine: DescribeMine, turn: Turn, message: LabelChunk) -> None:
    """Take the encrypted labels of some rows."""
    mine.end.hear(message)


@party_step
def believe(mine: DescribeMine, turn: Turn, message: LabelProofs) -> None:
    """Check the proof that the last rows' numbers are 0 or 1."""
    mine.end.believe(message)


@party_step
def believe_groups(mine: DescribeMine, turn: Turn, message: GroupProofs) -> None:
    """Check the proofs that enough rows have each target, and enough have it not."""
    mine.end.believe_groups(message)


@party_step
def answer(mine: DescribeMine, turn: Turn) -> BinSums:
    """Send the encrypted sums of every bin, and what the bins are."""
    return mine.end.answer()
