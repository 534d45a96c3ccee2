r"""The privacy cost of Gaussian releases (Rényi differential privacy, in closed form), and a party's privacy budget.

One release with noise of standard deviation ``multiplier * sensitivity`` has the Rényi divergence
``alpha / (2 multiplier^2)`` at every order ``alpha > 1`` (Mironov, "Rényi differential privacy", CSF 2017), and
divergences of releases add up, also when each release depends on those before it. At the end, for every order,

    ``epsilon = divergence + log((alpha - 1) / alpha) - (log delta + log alpha) / (alpha - 1)``

holds (Canonne, Kamath and Steinke, "The discrete Gaussian for differential privacy", NeurIPS 2020, proposition 12),
and the smallest over the orders counts. This is what the RDP accountant of ``dp-accounting`` computes.

There is no amplification by sampling. It requires that nobody knows the rows of a batch. In vertical learning every
party knows them, so each release of a person's row has its full cost.
"""

import math
from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from colonnade.errors import CheckpointError, ConfigError, PrivacyError, SealError, unknown

UNITS = {
    "row": "what one row's own vectors say, for given networks; not its influence on the weights",
    "party": "all rows of the party together",
}

_PARTY = 0  # the person number that counts a whole party
_PURPOSE = "purpose/"

# alpha - 1 from 1e-4 to 1e7, 1.3 % apart: the bound is flat at its minimum, so this costs less than 1e-4 of epsilon.
_EXCESS = np.geomspace(1e-4, 1e7, 2000)
_ORDERS = 1.0 + _EXCESS


def epsilon(releases: int, multiplier: float, delta: float) -> float:
    """The epsilon that ``releases`` Gaussian releases spend together; multiplier = standard deviation / sensitivity.

    >>> round(epsilon(10, 5.0, 1e-5), 2)
    2.81
    >>> epsilon(0, 5.0, 1e-5)
    0.0
    """
    _check(multiplier, delta)
    if releases < 0:
        raise ConfigError(f"releases={releases} is out of range; it must be at least 0.")
    return _least(releases, multiplier, delta)


def releases_within(epsilon: float, multiplier: float, delta: float) -> int:
    """The largest number of releases that together spend at most ``epsilon``.

    >>> releases_within(8.0, 5.0, 1e-5)
    61
    """
    _check(multiplier, delta)
    if not 0.0 < epsilon < math.inf:
        raise ConfigError(f"epsilon={epsilon} is out of range; it must be positive and finite.")
    # The bound is linear in the number of releases at every order, so it can be solved for that number.
    count = max(0, int(((epsilon - _conversion(delta)) / _divergence(multiplier)).max()))
    # Division may round up; never allow one release too many.
    return count if _least(count, multiplier, delta) <= epsilon else count - 1


def _least(releases: int, multiplier: float, delta: float) -> float:
    """The smallest epsilon over all orders."""
    if releases == 0:
        return 0.0
    return max(0.0, float((releases * _divergence(multiplier) + _conversion(delta)).min()))


def _divergence(multiplier: float) -> NDArray[np.float64]:
    """The Rényi divergence of one release, for every order."""
    return _ORDERS / (2.0 * multiplier**2)


def _conversion(delta: float) -> NDArray[np.float64]:
    """The term that converts a Rényi divergence to an epsilon at ``delta``, for every order."""
    return np.log(_EXCESS / _ORDERS) - (math.log(delta) + np.log(_ORDERS)) / _EXCESS


def _check(multiplier: float, delta: float) -> None:
    if not 0.0 < multiplier < math.inf:
        raise ConfigError(f"multiplier={multiplier} is out of range; it must be positive and finite.")
    if not 0.0 < delta < 1.0:
        raise ConfigError(f"delta={delta} is out of range; it must lie between 0 and 1.")


class Budget:
    """The count of one party's releases, which decides whether one more is allowed.

    Counts only grow. ``unit="row"`` counts per person: every released row counts for the person with its id, in any
    table. ``unit="party"`` counts messages. There is no amplification by sampling, so every release has its full cost.
    Save :meth:`state` before the messages that it counts can be forgotten: a round that is repeated after a crash costs
    nothing only if its values are the same again.

    Ids are people, so give the same id to the same person in every table. Tables with made-up ids 0..n-1 count rows
    with equal numbers as one person. For different people this can only overstate the cost. A person with different ids
    in two tables is counted as two people, which understates the cost.
    """

    def __init__(self, party: str, *, epsilon: float, delta: float, multiplier: float, unit: str = "row") -> None:
        if unit not in UNITS:
            raise unknown("unit", unit, UNITS)
        self.party = party
        self.granted = epsilon
        self.delta = delta
        self.multiplier = multiplier
        self.unit = unit
        self.allowed = releases_within(epsilon, multiplier, delta)
        self._counts: dict[int, int] = {}  # releases by person; with unit="party" the only person is _PARTY
        self._most = 0  # the largest count
        self._purposes: dict[str, int] = {}
        self.seen = 0
        self.clipped = 0
        """How many units were scaled down. It is not noised, so it must stay at the party."""

    @property
    def most_releases(self) -> int:
        """Releases of the unit that was released most often."""
        return self._most

    @property
    def epsilon(self) -> float:
        """The epsilon spent so far, by the unit that was released most often."""
        return epsilon(self.most_releases, self.multiplier, self.delta)

    @property
    def releases(self) -> dict[str, int]:
        """Messages released so far, by purpose."""
        return dict(self._purposes)

    def spend(self, people: Tensor, purpose: str) -> None:
        """Count one message, or refuse it and change nothing.

        ``people`` has one number per row of the message, which stands for the person's id and is the same in every
        table; a person with two rows is counted twice. With ``unit="party"`` it is ignored.
        """
        times = {_PARTY: 1} if self.unit == "party" else _times(people)
        after = {person: self._counts.get(person, 0) + more for person, more in times.items()}
        most = max(after.values(), default=0)
        if most > self.allowed:
            raise self._refusal(self._counts.get(max(after, key=after.__getitem__), 0), purpose)
        self._counts.update(after)
        self._most = max(self._most, most)
        self._purposes[purpose] = self._purposes.get(purpose, 0) + 1

    def _refusal(self, count: int, purpose: str) -> PrivacyError:
        spent = _least(count, self.multiplier, self.delta)
        who = "it" if self.unit == "party" else "one of its rows"
        return PrivacyError(
            f"party '{self.party}' was granted epsilon {self.granted:g} at delta {self.delta:g}, which is "
            f"{self.allowed} releases per {self.unit}, and {who} has spent epsilon {spent:.4g} in {count} releases; "
            f"the message to {purpose} was not sent: stop here, or start again with fewer rounds, more noise or a "
            "larger epsilon."
        )

    def state(self) -> dict[str, Tensor]:
        """All counts as whole numbers, for a checkpoint. It has people's numbers, so it must stay at the party."""
        totals = torch.tensor([self.seen, self.clipped])
        purposes = {f"{_PURPOSE}{name}": torch.tensor([count]) for name, count in self._purposes.items()}
        people, order = torch.tensor(list(self._counts), dtype=torch.int64).sort()
        count = torch.tensor(list(self._counts.values()), dtype=torch.int64)[order]
        return {"noise": self._fingerprint(), "totals": totals, "people": people, "count": count, **purposes}

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Take over saved counts, without lowering any count of this process."""
        self._check_state(state)
        for person, count in zip(state["people"].tolist(), state["count"].tolist(), strict=True):
            self._counts[person] = max(count, self._counts.get(person, 0))
        self._most = max(self._counts.values(), default=0)
        for name in (name for name in state if name.startswith(_PURPOSE)):
            purpose = name.removeprefix(_PURPOSE)
            self._purposes[purpose] = max(int(state[name]), self._purposes.get(purpose, 0))
        seen, clipped = state["totals"].tolist()
        self.seen, self.clipped = max(seen, self.seen), max(clipped, self.clipped)

    def _check_state(self, state: Mapping[str, Tensor]) -> None:
        wrong = _damaged(state)
        if not wrong and not torch.equal(state["noise"], self._fingerprint()):
            raise CheckpointError(
                f"the privacy budget of '{self.party}' was counted under other noise or another unit; "
                "resume with the noise that the job began with."
            )
        if not wrong and self.unit == "party" and bool((state["people"] != _PARTY).any()):
            wrong = ["people"]
        if wrong:
            raise CheckpointError(f"the privacy budget of '{self.party}' is damaged in {', '.join(wrong)}.")

    def _fingerprint(self) -> Tensor:
        """The bits of the multiplier, and the unit: counts with another fingerprint cannot be taken over."""
        multiplier = torch.tensor([self.multiplier], dtype=torch.float64).view(torch.int64)
        return torch.cat([multiplier, torch.tensor([list(UNITS).index(self.unit)])])

    def summary(self) -> dict[str, Any]:
        """The facts for a report; none of them depends on the party's values."""
        return {
            "party": self.party,
            "unit": self.unit,
            "covers": UNITS[self.unit],
            "granted": self.granted,
            "delta": self.delta,
            "spent": self.epsilon,
            "releases": self.most_releases,
            "allowed": self.allowed,
            "messages": self.releases,
        }


def _times(people: Tensor) -> dict[int, int]:
    """How often each person occurs."""
    if people.dtype != torch.int64 or people.dim() != 1:
        raise SealError(f"people came as {people.dtype} {list(people.shape)}, expected one number per row: int64 [n].")
    return Counter(people.tolist())


def _damaged(state: Mapping[str, Tensor]) -> list[str]:
    """The names of entries that cannot be the state of a budget."""
    missing = [name for name in ("noise", "totals", "people", "count") if name not in state]
    wrong = missing + [name for name, saved in state.items() if saved.dtype != torch.int64 or saved.dim() != 1]
    if wrong:
        return wrong
    people = state["people"]
    sizes = {"totals": 2, "count": len(people)} | {name: 1 for name in state if name.startswith(_PURPOSE)}
    wrong = [name for name, size in sizes.items() if len(state[name]) != size or bool((state[name] < 0).any())]
    # If a person occurs twice, the true count is larger than either.
    return wrong if len(people.unique()) == len(people) else ["people", *wrong]
