"""Mutated words, terms and plans, rightly signed, against a real party in the middle of a real job.

    python -m benchmarks.hostile_words --words 20000 --seed 0
    python -m benchmarks.hostile_words --words 20000 --describe      the same of a description of columns

Before every true word of the owner its mutations come to the party: fields gone, doubled, exchanged or of other kinds,
numbers and texts that hurt, lists without end. The owner's key signs every one. The party must refuse each with one of
our errors, or answer as to the true word where nothing that it reads was changed; and then the job goes on to its end.
Left out are words that an owner may say as well: another process of it, other widths of others' rows or outputs.
Its operator has read the terms (``[allow] terms``), so terms that are others but whole are refused too.
"""

from __future__ import annotations

import argparse
import copy
import gc
import importlib
import json
import random
import resource
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.table import show
from colonnade.errors import ColonnadeError
from colonnade.federation.handshake import answer_in, facts_in, word_packet
from colonnade.federation.owner_description import OwnerDescription
from colonnade.federation.terms import description_terms, first_difference, sign, terms_of
from colonnade.runtime.remote.packet import read_packet, write_packet

MOST_MS, MOST_MB = 100.0, 50.0
SHARES = {"hello": 1, "terms": 8, "signed": 1, "align": 1, "prepare": 1, "plan": 8, "begin": 1}
"""How many of the mutations each word has, in parts."""


def deep(levels: int) -> Any:
    """Lists in lists."""
    value: Any = 0
    for _ in range(levels):
        value = [value]
    return value


NASTY: tuple[Any, ...] = (
    *(None, True, False, -1, 0, 1, 2**31, 2**63, 2**80, -(2**80), 10**300, 1e308, float("nan"), float("inf"), 0.5),
    *("", "x", "x" * 5000, "\x1b[2J\n", "../../x", "\ud800", "nan", "0" * 64, "AAAA"),
    *([], {}, [None], [[]], {"": 0}, {"kind": "mlp"}, {"kind": "mlp", "hidden": [10**6, 10**6]}, [0] * 20_000),
    *(deep(200), {"x": deep(50)}),
)


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The way to every value inside."""
    if path:
        yield path
    for key, one in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from places(one, (*path, key))


def mutated(draw: random.Random, facts: dict[str, Any]) -> dict[str, Any]:
    """The same with one to three changes."""
    new = copy.deepcopy(facts)
    for _ in range(draw.choice((1, 1, 1, 2, 3))):
        ways = list(places(new))
        if not ways:
            return {"x": draw.choice(NASTY)}
        *above, last = draw.choice(ways)
        inside = new
        for key in above:
            inside = inside[key]
        _change(draw, inside, last, new)
    return new


def _change(draw: random.Random, inside: Any, key: Any, whole: Any) -> None:
    what = draw.choice(("value", "value", "value", "gone", "more", "swap", "number"))
    old = inside[key]
    if what == "gone":
        del inside[key]
    elif what == "more" and isinstance(inside, dict):
        inside[draw.choice(("x", "kind", "predict", "../x", "\x1b"))] = copy.deepcopy(draw.choice(NASTY))
    elif what == "more":
        inside.append(copy.deepcopy(old))
    elif what == "swap":
        *above, last = draw.choice(list(places(whole)))
        other = whole
        for one in above:
            other = other[one]
        inside[key] = copy.deepcopy(other[last])
    elif what == "number" and type(old) in (int, float):
        inside[key] = draw.choice((old * 1000, old + 1, -old, old * 10**12))
    else:
        inside[key] = copy.deepcopy(draw.choice(NASTY))


@dataclass
class Tally:
    """What came of the words."""

    tried: Counter[str] = field(default_factory=Counter)
    accepted: list[str] = field(default_factory=list)
    crashed: list[str] = field(default_factory=list)
    unnamed: list[str] = field(default_factory=list)
    """Refusals that do not say which party it was."""
    most_ms: float = 0.0
    most_mb: float = 0.0

    @property
    def good(self) -> bool:
        """Whether nothing was accepted that changes anything, and nothing crashed or cost too much."""
        return not self.accepted and not self.crashed and not self.unnamed


class Hostile:
    """Stands between the owner and one of its parties, in place of a line."""

    def __init__(self, words: int, seed: int, near: Any, identity: Any) -> None:
        self.near, self.identity, self.draw, self.tally = near, identity, random.Random(seed), Tally()
        self.counts = {word: max(1, words * part // sum(SHARES.values())) for word, part in SHARES.items()}
        self.send = near.send
        near.send = self.sent

    def sent(self, party: str, connection: int, data: bytes) -> None:
        """A request of the owner: before a word its mutations come."""
        packet = read_packet(data)
        if party == "shop" and packet.kind == "talk":
            facts = facts_in(packet)
            if packet.step == "hello":
                self.send(party, connection, data)  # else nobody is there yet, and every word is refused for that
                self.near.replies[party].pop()
            for _ in range(self.counts.pop(packet.step, 0)):
                self.one(packet.step, facts)
        self.send(party, connection, data)

    def one(self, word: str, facts: dict[str, Any]) -> None:
        """One mutation of a word, and what it came to."""
        guest = self.near.guests["shop"]
        side_file = word if word in ("terms", "plan") else ""
        new = {**facts, side_file: mutated(self.draw, facts[side_file])} if side_file else mutated(self.draw, facts)
        try:
            if side_file:
                new["signature"] = sign(self.identity, side_file, new[side_file]).hex()
            request = write_packet(word_packet(word, new))
        except (ValueError, RecursionError):  # no owner could sign or say that either
            return
        if new == facts or _is_true(word, facts, new) or (word == "plan" and _claims_only(facts["plan"], new["plan"])):
            return
        before = guest.terms, guest.handshake.plan
        self.tally.tried[word] += 1
        gc.disable()  # as in benchmarks.hostile: a full collection is of all words before this one
        high, began = _memory(), time.process_time()
        try:
            answer_in(guest.serve(request), "shop")
            if (guest.terms, guest.handshake.plan) != before or side_file:
                changed = first_difference(facts, new) or "a signature"
                self.tally.accepted.append(f"{word}: {changed}, {json.dumps(new)[:200]}")
        except ColonnadeError as error:
            if "lacks something" in str(error):
                self.tally.crashed.append(f"{word}: {error}")
            if "'shop'" not in str(error):
                self.tally.unnamed.append(f"{word}: {error}")
        except Exception as error:
            self.tally.crashed.append(f"{word}: {type(error).__name__}: {error}"[:300])
        self.tally.most_ms = max(self.tally.most_ms, 1000 * (time.process_time() - began))
        self.tally.most_mb = max(self.tally.most_mb, _memory() - high)
        gc.enable()


def _is_true(word: str, facts: dict[str, Any], new: dict[str, Any]) -> bool:
    """Whether an owner may say this too: it is another process, or opens another session."""
    if word == "hello":
        return isinstance(new.get("incarnation"), str) and len(new["incarnation"]) == 2 * 16
    visit = new.get("visit")
    return word in ("align", "begin") and type(visit) is int and visit >= facts["visit"]


def _claims_only(plan: dict[str, Any], new: Any) -> bool:
    """Whether only that differs for which the owner's word counts: the others' widths, outputs, its own part."""

    def rest(one: dict[str, Any]) -> Any:
        if "describe" in one:
            return {**one, "describe": {**one["describe"], "targets": min(one["describe"]["targets"], 1)}}
        tables = [[name, rows, name != "shop" or shape] for name, rows, shape in one["tables"]]
        schema = {key: form for key, form in one["schema"].items() if not key.startswith("bank/")}
        return {**one, "tables": tables, "schema": schema, "outputs": 2, "test": 0}

    try:
        return bool(rest(plan) == rest(new))
    except (AttributeError, KeyError, TypeError, ValueError):
        return False


def _memory() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def attack(words: int, seed: int, folder: Path, near: Any, *, describe: bool = False) -> Tally:
    """A whole job under mutations; ``near`` is the module of the tests that joins sides without sockets."""
    sides = near.Sides(near.make_sides(folder / "sides"))
    job = {"more": "[describe]\nminimum = 5\nbins = 2"} if describe else {}
    read = json.dumps((description_terms if describe else terms_of)(sides.owner_file(**job)))
    for name in near.PARTIES:
        (sides.folder / name / "read.json").write_text(read)
    sides.write_parties('terms = "read.json"', '[describe]\ncolumns = "all"\nminimum = 5' if describe else "")
    host = sides.host(OwnerDescription, **job) if describe else sides.host()
    hostile = Hostile(words, seed, host.session.connections, host.job_file.keys.identity)
    try:
        host.gather()
        done = len(host.describe().columns) == 9 if describe else host.train().round == 2
    finally:
        host.close()
    assert done, "the job went on to its end"
    return hostile.tally


def main() -> int:
    """Attack, and say what came of it; 1 if anything was accepted, crashed or cost too much."""
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--words", type=int, default=2000)
    asked.add_argument("--seed", type=int, default=0)
    asked.add_argument("--describe", action="store_true")
    given = asked.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        tally = attack(
            given.words, given.seed, Path(folder), importlib.import_module("tests.near"), describe=given.describe
        )
    show("Mutated words", ["word", "mutations"], [[word, str(count)] for word, count in tally.tried.items()])
    for line in (tally.accepted + tally.crashed + tally.unnamed)[:20]:
        print(line)
    print(
        f"{tally.tried.total()} words: {len(tally.accepted)} accepted, {len(tally.crashed)} crashed, "
        f"{len(tally.unnamed)} refused without a name; at most "
        f"{tally.most_ms:.0f} CPU ms and {tally.most_mb:.1f} MB each"
    )
    return 0 if tally.good and tally.most_ms <= MOST_MS and tally.most_mb <= MOST_MB else 1


if __name__ == "__main__":
    sys.exit(main())
