"""The verdict on a party's ids in a plain alignment: how many of them are found by counting up.

In plain mode every list of ids travels as hashes that whoever knows the terms can make. Where ids are numbers, possibly
behind a common beginning, the adversary counts from the least to the greatest of those that it has seen.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence

from colonnade.privacy.advantage import Advantage
from colonnade.privacy.attacks.counting_ids import count_up
from colonnade.privacy.verdict import Attempt, Verdict
from colonnade.tables.align.plain_ids import hashes
from colonnade.wire.ledger import OWNER

IDS = "ids"
NAME = "ids by counting up"
MOST_TRIED = 300_000
_NUMBERED = re.compile(r"(.*?)(\d{1,18})", re.DOTALL)


def ids_verdict(party: str, ids: Sequence[bytes], seed: int) -> Verdict:
    """What who receives this party's list in plain mode finds of it; the terms of such an alignment say so."""
    guesses = counted_ids([one.decode() for one in ids])
    if not guesses:
        why = "no id ends in a number, so none is found by counting; other guesses were not tried"
        return Verdict(OWNER, party, IDS, (Attempt(NAME, why=why),), declared="read")
    found = count_up(party, b"".join(hashes(list(ids), seed)), guesses, seed)
    share = found.share
    exact = Advantage("share", share, share, share, 0.0, share, share, share, found.listed)
    return Verdict(OWNER, party, IDS, (Attempt(NAME, exact, True, story=found.sentence()),), declared="read")


def counted_ids(ids: Sequence[str]) -> list[str]:
    """The ids that an adversary comes to by counting, which has seen the least of them and the greatest.

    >>> counted_ids(["c008", "c011", "ann"])
    ['c008', 'c009', 'c010', 'c011']
    """
    by_start: dict[str, list[str]] = defaultdict(list)
    for one in ids:
        if (found := _NUMBERED.fullmatch(one)) is not None:
            by_start[found[1]].append(found[2])
    if not by_start:
        return []
    start, digits = max(by_start.items(), key=lambda each: len(each[1]))
    width = len(digits[0]) if any(one.startswith("0") for one in digits) else 0
    least, most = min(map(int, digits)), max(map(int, digits))
    return [f"{start}{number:0{width}d}" for number in range(least, min(most, least + MOST_TRIED) + 1)]
