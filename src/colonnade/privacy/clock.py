"""The budget of an audit in CPU seconds, and what is left of it."""

from __future__ import annotations

import time

BUDGET = 60.0
"""CPU seconds for the attacks of an audit, if nobody says otherwise."""


class Clock:
    """What is left of the budget, and what each attack cost so far."""

    def __init__(self, budget: float) -> None:
        self.budget, self.began = budget, time.process_time()
        self.costs: dict[str, float] = {}

    @property
    def spent(self) -> float:
        """CPU seconds since the audit began."""
        return time.process_time() - self.began

    @property
    def left(self) -> float:
        """CPU seconds that are left."""
        return self.budget - self.spent

    def why_not(self, name: str) -> str:
        """Why an attack of this name does not fit into what is left; empty if it does, as far as is known."""
        if self.left <= 0 or self.costs.get(name, 0.0) > self.left:
            return f"it did not fit into the budget of {self.budget:g} CPU seconds"
        return ""
