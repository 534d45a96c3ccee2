"""The comparer's work on the lists under all masks: check them, count the common ids, refuse too few, find places.

Equal ids are equal points, also if a dishonest party uses several keys. Such a party could therefore return the same id
of the comparer's list several times, under several keys, so that it counts several times. If ``minimum`` is more than
one, the comparer therefore sends its own list round twice, the second time in another order and under one more key.
Both lists must come back as the same points under that key. A party that knows neither the order nor the key can
achieve that only by treating all entries in the same way.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from colonnade.errors import ColonnadeError, MessageError, NoCommonIdError, PrivacyError, SealError
from colonnade.tables.align.align_terms import AlignTerms
from colonnade.tables.align.curve import POINT_BYTES, CurveMask
from colonnade.tables.align.id_mask import Mask
from colonnade.tables.align.mask_work import Later, MaskWork


def common(lists: Sequence[np.ndarray]) -> list[np.ndarray]:
    """For each list the places of the values that are in all lists, in the order of the values.

    >>> [places.tolist() for places in common([np.array([b"c", b"a", b"b"]), np.array([b"a", b"x", b"c"])])]
    [[1, 0], [0, 2]]
    """
    shared = lists[0]
    for values in lists[1:]:
        shared = np.intersect1d(shared, values, assume_unique=True)
    orders = [np.argsort(values, kind="stable") for values in lists]
    return [order[np.searchsorted(values, shared, sorter=order)] for values, order in zip(lists, orders, strict=True)]


def too_few(terms: AlignTerms, count: int | None = None) -> ColonnadeError:
    """The error for too few common ids. It has no number, because an owner with one id would learn too much from it.

    ``count`` is for a process that has all tables anyway.
    """
    names = ", ".join(terms.names)
    if count == 0 or terms.minimum == 1:
        return NoCommonIdError(
            f"no id is common to all of {names}; check that the ids are of the same kind and written alike."
        )
    how_many = f"fewer than minimum={terms.minimum} ids are common to all of {names}"
    if count is not None:
        how_many = f"{count} ids are common to all of {names} and minimum={terms.minimum}"
    secrecy = "nobody was told which" + (", nor how many" if count is None else "")
    return PrivacyError(f"{how_many}; {secrecy}, so bring more rows, or agree on a smaller minimum.")


class Comparison:
    """The lists that the comparer has received, part by part."""

    def __init__(self, terms: AlignTerms, sizes: Sequence[int], mask: Mask, work: MaskWork) -> None:
        self.terms, self.sizes, self.mask, self.work = terms, sizes, mask, work
        self.count: int | None = None  # None until it is known
        self._lists: dict[int, list[Later]] = {whose: [] for whose in terms.lists}
        self._taken = dict.fromkeys(terms.lists, 0)
        self._tried: list[Later] = []  # the comparer's own list, under the key of the trial
        self._trial: CurveMask | None = None
        if terms.trial is not None:
            self._trial = CurveMask(b"trial", masks=2 * terms.length(terms.trial, sizes))

    def take(self, whose: int, points: bytes) -> None:
        """Mask a part of a list with the comparer's mask, too, and keep it."""
        self._taken[whose] += len(points) // POINT_BYTES
        if self.terms.mode == "psi" and whose not in (self.terms.comparer, self.terms.trial):
            mask = partial(self.mask.again, whose=self.terms.named(whose))
            self._lists[whose].append(self.work.start(mask, points, POINT_BYTES))
            return
        if self._trial is not None and whose == self.terms.comparer:
            self._tried.append(self.work.start(self.tried, points, POINT_BYTES))
        self._lists[whose].append(lambda: points)

    def tried(self, points: bytes) -> bytes:
        """Points of the comparer's list under the key of the trial."""
        assert self._trial is not None
        return self._trial.again(points, self.terms.named(self.terms.comparer))

    def taken(self, whose: int) -> int:
        """How many points of a list were received."""
        return self._taken[whose]

    def places(self) -> list[np.ndarray]:
        """The places of the common ids in every list; fewer ids than the minimum are refused and told to nobody."""
        for whose in self.terms.lists:
            if self.taken(whose) < self.terms.length(whose, self.sizes):
                raise SealError(f"the lists were to be compared before that of {self.terms.named(whose)} came; stop.")
        lists = [self._values(whose) for whose in range(len(self.terms.names))]
        if self.terms.trial is not None:
            self._check_trial(self._values(self.terms.trial))
        places = common(lists)
        self.count = len(places[0])
        if self.count < self.terms.minimum:
            raise too_few(self.terms)
        return places

    def _values(self, whose: int) -> np.ndarray:
        values = _joined(self._lists[whose])
        self._lists[whose] = [values.tobytes]
        if len(np.unique(values)) < len(values):
            raise MessageError(
                f"the set of {self.terms.named(whose)} holds an id twice after all masks; leave that party out."
            )
        return values

    def _check_trial(self, again: np.ndarray) -> None:
        if not np.array_equal(np.sort(_joined(self._tried)), np.sort(again)):
            others = [name for place, name in enumerate(self.terms.names) if place != self.terms.comparer]
            raise SealError(
                f"the ids of {self.terms.named(self.terms.comparer)} came back otherwise the second time, so one of "
                f"{', '.join(others)} does not mask all of them by one key; nothing was opened: find out who."
            )


def _joined(parts: Sequence[Later]) -> np.ndarray:
    return np.frombuffer(b"".join([part() for part in parts]), f"S{POINT_BYTES}")
