"""One party's end of an alignment: its ids, its secret, its shuffles. It does no input or output."""

from __future__ import annotations

import hashlib
import os
from functools import partial

import numpy as np
import torch
from torch import Tensor

from colonnade.core.step import party_step
from colonnade.errors import MessageError, PrivacyError, SealError
from colonnade.seal.key_agreement import Hello, Membership
from colonnade.signatures import Identity
from colonnade.tables.align.align_messages import (
    CHUNK,
    GREETED,
    PLACE_BYTES,
    AlignVerdict,
    Box,
    Greeting,
    LeftPlaces,
    Locks,
    Macs,
    Roster,
    Signed,
    WantedPlaces,
    as_tensor,
    boxed,
    checked,
    number_of,
    places_in,
)
from colonnade.tables.align.align_terms import AlignTerms
from colonnade.tables.align.box import OVER, Boxes
from colonnade.tables.align.comparison import Comparison
from colonnade.tables.align.curve import POINT_BYTES, CurveMask, check_installed
from colonnade.tables.align.id_mask import Mask
from colonnade.tables.align.left_join import spread_out
from colonnade.tables.align.mask_work import Later, MaskWork
from colonnade.tables.align.order_proof import MAC_BYTES, Proof, digest, pair_keys
from colonnade.tables.align.plain_ids import PlainMask, ordered

POINTS, PLACES, COUNT = "masked ids", "places", "words"  # the contents of a box
VERDICT_BYTES = PLACE_BYTES + OVER


def shuffle(count: int) -> np.ndarray:
    """A random order, from the operating system's generator."""
    return np.argsort(np.frombuffer(os.urandom(8 * count), np.uint64), kind="stable")


class AlignmentParty:
    """A party that greets, masks, shuffles, finds its rows and proves their order; each once, in that order.

    Its party steps are methods of its own, without the turn that steps of a method have: an alignment has one turn.
    """

    def __init__(
        self,
        terms: AlignTerms,
        place: int,
        ids: list[bytes],
        identity: Identity,
        keys: dict[str, bytes],
        work: MaskWork | None = None,
    ) -> None:
        if terms.mode == "psi":
            check_installed()
        self.terms, self.place, self.ids = terms, place, ids
        self.name = terms.names[place]
        self.member = Membership(terms.job, self.name, identity, keys)
        self.sizes: list[int] = []
        self.rows = np.empty(0, np.int64)
        self.count = 0  # the number of common ids, from the comparer
        self.proof = ""
        self.total = 0  # in a left join: how many rows the owner has
        self.places = np.empty(0, np.int64)  # and where the common ones stand among them
        self.comparison: Comparison | None = None  # at the comparer
        self.work = work or MaskWork()
        self._mask: Mask | None = None
        self._own = ids  # at the comparer with additional ids that no party has
        self._boxes = Boxes(self.name, {})
        self._keys: dict[str, bytes] = {}
        self._orders: dict[int, np.ndarray] = {}  # by list: the place of each sent point before this party's shuffle
        self._received: dict[int, list[Tensor]] = {}  # by list: received points that are still to be masked
        self._ahead: dict[tuple[int, int], Later] = {}  # by list and start: masks that were begun before they are due
        self._sent: dict[int, bytes] = {}  # by start: the sent parts of the comparer's own list, for the trial
        self._common: list[np.ndarray] = []  # at the comparer, by set: the places of the common ids
        self._opened: set[int] = set()  # the sets whose common ids were looked up
        self._proof: Proof | None = None
        self._locks: list[bytes] = []

    # The parties and their keys

    @party_step
    def greet(self) -> Greeting:
        """Send this party's key and the number of its ids."""
        _, key, incarnation, signature = self.member.hello()
        return Greeting(_line(key), _line(incarnation), _line(signature), torch.tensor([[len(self.ids)]]))

    @party_step
    def confirm(self, roster: Roster) -> Signed:
        """Check the parties and the numbers of their ids, and sign them."""
        parties = len(self.terms.names)
        for part, (kind, width) in zip(roster, GREETED, strict=True):
            checked(part, kind, (parties, width), "the greetings of all parties")
        said = roster[:3]
        lines = zip(self.terms.names, *said, strict=True)
        signature = self.member.confirm(
            [Hello(name, *(part.numpy().tobytes() for part in line)) for name, *line in lines]
        )
        self.sizes = roster.rows.flatten().tolist()
        if self.sizes[self.place] != len(self.ids):
            raise SealError(
                f"the owner says that '{self.name}' has {self.sizes[self.place]} ids; it has {len(self.ids)}."
            )
        self.terms.check_sizes(self.sizes)
        return Signed(_line(signature))

    @party_step
    def join(self, signed: Signed) -> None:
        """Check that all parties signed the same; then draw this alignment's secrets."""
        lines = checked(signed.signatures, torch.uint8, (len(self.terms.names), 64), "the signatures of all parties")
        self.member.join({name: line.numpy().tobytes() for name, line in zip(self.terms.names, lines, strict=True)})
        self._keys = pair_keys(self.member)
        self._boxes = Boxes(self.name, self._keys)
        plain = self.terms.mode == "plain"
        masks = sum(self._length(whose) for whose in self.terms.lists if self.place in self.terms.path(whose))
        self._mask = PlainMask(self.terms.seed) if plain else CurveMask(self.member.roster, masks=masks)
        if self.place == self.terms.comparer:
            self.comparison = Comparison(self.terms, self.sizes, self._mask, self.work)
        missing = self._length(self.place) - len(self.ids)
        self._own = [*self.ids, *(os.urandom(32) for _ in range(missing))]
        self._orders[self.place] = shuffle(len(self._own))
        self._begin(self.place)

    # Masks and shuffles

    @party_step
    def take(self, box: Box) -> None:
        """Open a part of another party's list, and keep it until the list is complete."""
        whose = self._list(box.whose)
        if self._taken(whose) == self._length(whose):
            raise SealError(f"the set of {self._named(whose)} came to '{self.name}' a second time; stop.")
        start = self._taken(whose)
        count = min(CHUNK, self._length(whose) - start)
        what, sender = f"the set of {self._named(whose)}", self.terms.names[self.terms.before(whose, self.place)]
        sealed = checked(box.sealed, torch.uint8, (count * POINT_BYTES + OVER,), f"{what} by '{sender}'")
        points = self._boxes.open(sender, sealed.numpy().tobytes(), POINTS, whose, start)
        if self.comparison is not None:
            self.comparison.take(whose, points)
            return
        self._received.setdefault(whose, []).append(as_tensor(points, POINT_BYTES))
        if start + count == self._length(whose):
            self._received[whose] = [torch.cat(self._received[whose])]
            self._orders[whose] = shuffle(self._length(whose))
            self._begin(whose)

    def _taken(self, whose: int) -> int:
        """How many points of a list this party has received; all, if the list is its own."""
        if self.comparison is not None:
            own = whose == self.place and self.terms.mode == "plain"
            return self._length(whose) if own else self.comparison.taken(whose)
        return self._length(whose) if whose in self._orders else sum(map(len, self._received.get(whose, [])))

    @party_step
    def give(self, wanted: WantedPlaces) -> Box:
        """A part of this or another party's list, masked by this party, in an order that only it knows."""
        whose = self._list(wanted.whose)
        self._check_may_give(whose)
        start = number_of(wanted.start, self._length(whose), "the start of a part")
        masked = (self._ahead.pop((whose, start), None) or self._masking(whose, start))()
        if self.comparison is not None and self.terms.trial is not None and whose == self.place:
            self._sent[start] = masked
        if start + CHUNK >= self._length(whose):
            self._received.pop(whose, None)  # the list was sent on, and only its order is still needed
        return self._boxed(self.terms.after(whose, self.place), masked, POINTS, whose, start)

    def _begin(self, whose: int) -> None:
        """Begin to mask a list of which all is here, before it is asked for."""
        if self.terms.mode == "plain":
            return
        for start in range(0, self._length(whose), CHUNK):
            self._ahead[whose, start] = self._masking(whose, start)

    def _masking(self, whose: int, start: int) -> Later:
        """The mask of a part of a list; parts may start anywhere, though honest owners ask for those of ``_begin``."""
        order = self._orders[whose][start : start + CHUNK]
        if whose == self.place:
            return self.work.start(self._secret().own, [self._own[row] for row in order.tolist()])
        if self.comparison is not None:
            points, mask = self._again(), self.comparison.tried
        else:
            points, mask = self._received[whose][0], partial(self._secret().again, whose=self._named(whose))
        return self.work.start(mask, points[torch.from_numpy(order)].numpy().tobytes(), POINT_BYTES)

    def _check_may_give(self, whose: int) -> None:
        """Refuse a list that this party does not have, or may send only after the others have sent theirs."""
        if self.comparison is not None and whose == self.terms.trial:
            self._again()
            if whose not in self._orders:
                self._orders[whose] = shuffle(self._length(whose))
                self._begin(whose)
            return
        present = whose in self._orders and (whose == self.place or whose in self._received)
        if not present or self.terms.path(whose) == (self.place,):
            raise SealError(
                f"the set of {self._named(whose)} is wanted of '{self.name}', which does not hold it; stop."
            )
        if whose == self.place != 0 and self.terms.mode == "psi" and self._taken(0) < self._length(0):
            raise SealError(
                f"the set of '{self.name}' is wanted before that of '{self.terms.names[0]}' came to it; stop."
            )

    def _again(self) -> Tensor:
        """The comparer's list as it was sent, for the trial; only after it came back, so that none can compare both."""
        whole = list(range(0, self._length(self.place), CHUNK))
        if list(self._sent) != whole or self._taken(self.place) < self._length(self.place):
            raise SealError(f"the second list of '{self.name}' is wanted before its first one came back; stop.")
        return as_tensor(b"".join(self._sent.values()), POINT_BYTES)

    # The comparison, and the places of the common ids

    @party_step
    def compare(self) -> AlignVerdict:
        """At the comparer: check all lists, count the common ids, and tell all parties if they are enough."""
        self._secret()
        if self.comparison is None or self._common:
            raise SealError(f"'{self.name}' was asked to compare, which the comparer does, and once; stop.")
        if self.terms.mode == "plain":
            order = self._orders[self.place].tolist()
            self.comparison.take(self.place, self._secret().own([self._own[row] for row in order]))
        self._common = self.comparison.places()
        self.count = len(self._common[self.place])
        lines = [
            self._boxes.seal(name, self.count.to_bytes(PLACE_BYTES), COUNT) if name != self.name else b""
            for name in self.terms.names
        ]
        if self.terms.mode == "plain":
            self._keep(self._orders[self.place][self._common[self.place]])
        return AlignVerdict(as_tensor(b"".join(line.ljust(VERDICT_BYTES, b"\0") for line in lines), VERDICT_BYTES))

    @party_step
    def hear(self, verdict: AlignVerdict) -> None:
        """Receive the number of common ids from the comparer; before that, no place is opened."""
        self._secret()
        checked(verdict.sealed, torch.uint8, (len(self.terms.names), VERDICT_BYTES), "the verdict of the comparer")
        if self.comparison is not None:
            return
        sender = self.terms.names[self.terms.comparer]
        count = int.from_bytes(self._boxes.open(sender, verdict.sealed[self.place].numpy().tobytes(), COUNT))
        if count < self.terms.minimum:
            raise PrivacyError(
                f"'{sender}' wants to open {count} common ids and minimum={self.terms.minimum} was agreed on; "
                f"'{self.name}' refuses."
            )
        if count > min(self.sizes):
            raise MessageError(f"'{sender}' counts {count} common ids where a set has {min(self.sizes)}; stop.")
        self.count = count

    @party_step
    def show(self, wanted: WantedPlaces) -> Box:
        """At the comparer: the places of the common ids in a list, for the party that the list came from."""
        whose = self._set(wanted.whose)
        if not self._common or (self.terms.mode == "plain" and whose == self.place):
            raise SealError(f"places were wanted of '{self.name}', which has none to show; stop.")
        raw = self._common[whose].astype("<i8").tobytes()
        return self._boxed(self.terms.before(whose, self.place), raw, PLACES, whose, 0)

    @party_step
    def trace(self, box: Box) -> Box:
        """The places of the common ids in another party's list before this party shuffled it."""
        whose = self._set(box.whose)
        if whose == self.place:
            raise SealError(f"'{self.name}' was asked to tell its own rows, which nobody needs to know; stop.")
        raw = self._opening(whose, box.sealed).astype("<i8").tobytes()
        return self._boxed(self.terms.before(whose, self.place), raw, PLACES, whose, 0)

    @party_step
    def keep(self, box: Box) -> None:
        """Find this party's own rows of the common ids."""
        if self._set(box.whose) != self.place:
            raise SealError(f"'{self.name}' was told the rows of {self._named(self._set(box.whose))}; stop.")
        self._keep(self._opening(self.place, box.sealed))

    @party_step
    def spread(self, told: LeftPlaces) -> None:
        """In a left join, after the proof: note how many rows the owner has, and which of them this party has."""
        if self.terms.join != "left" or not self.proof or self.total:
            raise SealError(f"'{self.name}' was told places among the owner's rows, and none are due; stop.")
        total = number_of(told.total, self.sizes[0] + 1, "the number of the owner's rows")
        count = (len(self.rows),)
        places = checked(told.places, torch.int64, count, "the places among the owner's rows").numpy()
        if total < self.sizes[0]:
            raise SealError(f"the owner announced {self.sizes[0]} ids and now says {total}; stop.")
        self.places, self.total = places_in(places.astype("<i8").tobytes(), total, len(self.rows), "the owner"), total

    @property
    def is_complete(self) -> bool:
        """Whether the order was proved, and in a left join the places were told."""
        return bool(self.proof) and (self.terms.join == "inner" or self.total > 0)

    @property
    def federation_rows(self) -> np.ndarray:
        """This party's rows in the order of the federation; in a left join -1 where it does not have the owner's."""
        return self.rows if self.terms.join == "inner" else spread_out(self.rows, self.places, self.total)

    def _keep(self, rows: np.ndarray) -> None:
        """Sort the rows into the order that is the same at all parties."""
        if int(rows.max()) >= len(self.ids):
            raise SealError(f"'{self.name}' was told that others have an id that it drew by chance; stop.")
        self.rows = rows[ordered([self.ids[row] for row in rows.tolist()], self.terms.seed)]

    def _opening(self, whose: int, sealed: Tensor) -> np.ndarray:
        if not self.count or whose not in self._orders or whose in self._opened:
            raise SealError(
                f"the common ids of {self._named(whose)} can be looked up once, after the comparer found enough; stop."
            )
        sender = self.terms.names[self.terms.after(whose, self.place)]
        shape = (self.count * PLACE_BYTES + OVER,)
        checked(sealed, torch.uint8, shape, f"the places in the set of {self._named(whose)} by '{sender}'")
        raw = self._boxes.open(sender, sealed.numpy().tobytes(), PLACES, whose, 0)
        places = places_in(raw, self._length(whose), self.count, f"'{sender}'")
        self._opened.add(whose)
        before: np.ndarray = self._orders[whose][places]
        return before

    # Do the orders agree?

    @party_step
    def lock(self) -> Locks:
        """A lock from which only a party with the same rows learns that they are the same."""
        if not len(self.rows):
            raise SealError(f"'{self.name}' was asked to prove its rows before it was told them; stop.")
        if self._proof is None:
            sizes = dict(zip(self.terms.names, self.sizes, strict=True))
            proved = self.member.roster + digest([self.ids[row] for row in self.rows.tolist()], sizes)
            self._proof = Proof(self.name, self._keys, proved)
        return Locks(_line(self._proof.lock))

    @party_step
    def prove(self, message: Locks) -> Macs:
        """Prove to each other party, under the key of the pair, that this party has the same rows."""
        locks = checked(message.locks, torch.uint8, (len(self.terms.names), POINT_BYTES), "the locks of all parties")
        if self._proof is None or self._locks:
            raise SealError(f"'{self.name}' proves its rows once, and after it showed its lock; stop.")
        self._locks = [lock.numpy().tobytes() for lock in locks]
        own = [
            self._proof.mac(name, lock) if name != self.name else b""
            for name, lock in zip(self.terms.names, self._locks, strict=True)
        ]
        return Macs(as_tensor(b"".join(mac.ljust(MAC_BYTES, b"\0") for mac in own), MAC_BYTES))

    @party_step
    def verify(self, message: Macs) -> None:
        """Check that all other parties have the same rows in the same order."""
        parties = len(self.terms.names)
        checked(message.macs, torch.uint8, (parties, parties, MAC_BYTES), "the proofs of all parties")
        if self._proof is None or not self._locks:
            raise SealError(f"'{self.name}' was asked to check proofs before it gave its own; stop.")
        for name, lock, line in zip(self.terms.names, self._locks, message.macs[:, self.place], strict=True):
            if name != self.name:
                self._proof.check(name, lock, line.numpy().tobytes())
        self.proof = hashlib.sha256(message.macs.numpy().tobytes()).hexdigest()

    # Checks and lookups

    def _set(self, whose: Tensor) -> int:
        self._secret()
        return self._on_path(number_of(whose, len(self.terms.names), "the number of a set"))

    def _list(self, whose: Tensor) -> int:
        self._secret()
        return self._on_path(number_of(whose, len(self.terms.lists), "the number of a list"))

    def _on_path(self, whose: int) -> int:
        if self.place not in self.terms.path(whose):
            raise SealError(f"the set of {self._named(whose)} does not come to '{self.name}'; stop.")
        return whose

    def _secret(self) -> Mask:
        if self._mask is None:
            raise SealError(f"'{self.name}' was asked for ids before everybody signed who takes part; stop.")
        return self._mask

    def _boxed(self, to: int, raw: bytes, what: str, whose: int, start: int) -> Box:
        return Box(torch.tensor(whose), boxed(self._boxes.seal(self.terms.names[to], raw, what, whose, start)))

    def _length(self, whose: int) -> int:
        return self.terms.length(whose, self.sizes)

    def _named(self, whose: int) -> str:
        return self.terms.named(whose)


def _line(raw: bytes) -> Tensor:
    return as_tensor(raw, len(raw))
