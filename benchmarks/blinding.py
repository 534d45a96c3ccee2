"""What blinding costs: milliseconds per batch of 1024 x 60 with 1, 3 and 13 peers, and its share of a round.

    python -m benchmarks.blinding

CPU milliseconds, medians. The masks of one party (key derivation, stream, addition) and the whole sealing (clip, fixed
point, masks, packing) are timed alone; the share is that of *one party's* sealing in its own part of a VAFL round with
fixed weights, which sends exactly such a batch, and in a round of VIMADMM-J, which sends 1024 x 10.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median

import numpy as np
import torch

import colonnade as cn
from benchmarks.settings import BATCH, MODEL, PARTIES
from benchmarks.table import show
from colonnade.core.method import Method
from colonnade.core.randomness import Sources
from colonnade.core.schedule import Turn
from colonnade.seal import Seals
from colonnade.seal.key_agreement import Membership, Ticket
from colonnade.seal.ring import Ring
from colonnade.seal.seal_end import SealEnd
from colonnade.seal.secure_sum import Masker
from colonnade.signatures import Identity

REPEATS = 51


def milliseconds(work: Callable[[int], object]) -> float:
    """The median CPU time of a call, which is given a number that grows."""
    times = []
    for number in range(REPEATS):
        began = time.process_time()
        work(number)
        times.append(1000 * (time.process_time() - began))
    return median(times)


def maskers(count: int) -> list[Masker]:
    """So many parties that have agreed on keys."""
    people = {f"party {k:02d}": Identity.new() for k in range(count)}
    manifest = {name: identity.public for name, identity in people.items()}
    members = {name: Membership(b"benchmark", name, people[name], manifest) for name in people}
    hellos = [member.hello() for member in members.values()]
    signed = {name: member.confirm(hellos) for name, member in members.items()}
    for member in members.values():
        member.join(signed)
    return [Masker(member) for member in members.values()]


def sealing(peers: int, shape: tuple[int, int]) -> tuple[float, float]:
    """Masks alone, and the whole sealing of one party's batch."""
    masker, ring = maskers(peers + 1)[0], Ring(32)
    values, turn = torch.randn(shape), Turn(0, torch.arange(shape[0]))
    end = SealEnd("party 00", Seals(blind=cn.Blind()), Sources(0), {"train": turn.rows})
    codes = end.sum_codes({"h": values}, peers + 1, "embed", turn)
    coded = end.encode(codes, {"h": values}, "embed", turn)["h"].codes
    masks = milliseconds(lambda n: masker.mask(Ticket(0, n, 0, "h"), coded, ring))

    def whole(number: int) -> None:
        fresh = end.encode(codes, {"h": values}, "embed", turn)["h"].codes
        masker.mask(Ticket(0, REPEATS + number, 0, "h"), fresh, ring)

    return masks, milliseconds(whole)


def round_of(method: Method) -> float:
    """One party's part of a round, without seals: the whole round divided by the parties."""
    rng = np.random.default_rng(0)
    tables = cn.split(
        rng.normal(size=(4 * BATCH, 56 * PARTIES)).astype(np.float32), rng.integers(0, 10, 4 * BATCH), PARTIES
    )
    run = cn.train(tables, method, rounds=1, batch=BATCH, model=MODEL)
    turns = [Turn(number, torch.arange(BATCH)) for number in range(REPEATS)]
    return milliseconds(lambda n: method.round(run.owner, run.parties, turns[n])) / PARTIES


def main() -> None:
    torch.set_num_threads(1)
    found = {peers: sealing(peers, (BATCH, 60)) for peers in (1, 3, 13)}
    rows = [[peers, f"{masks:.2f}", f"{whole:.2f}"] for peers, (masks, whole) in found.items()]
    show("One party's batch of 1024 x 60, CPU ms", ["peers", "masks", "clip, fixed point and masks"], rows)
    shares = []
    for name, method, shape in (
        ("vafl, fixed weights", cn.VAFL(learn_weights=False), (BATCH, 60)),
        ("fdml", cn.FDML(), (BATCH, 10)),
        ("vimadmm-j, tau 20", cn.VIMADMMJ(local_steps=20), (BATCH, 10)),
    ):
        part, (_, cost) = round_of(method), sealing(PARTIES - 1, shape)
        shares.append(
            [name, f"{shape[0]} x {shape[1]}", f"{part:.2f}", f"{cost:.2f}", f"{100 * cost / (part + cost):.1f} %"]
        )
    head = ["method, 14 parties", "message", "a party's part of a round, ms", "sealing, ms", "share"]
    show("The share of blinding in a round", head, shares)


if __name__ == "__main__":
    main()
