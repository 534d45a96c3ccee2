"""ADMM as in the VIM paper: the options that VIMADMM and VIMADMM-J share, and which of two messages they send."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from colonnade.core.method import Method


@dataclass(frozen=True, kw_only=True)
class ADMM(Method):
    """Many local steps a round on a target that the owner works out."""

    positive: ClassVar[tuple[str, ...]] = ("embedding", "lr", "rho", "local_steps")
    choices: ClassVar[dict[str, tuple[str, ...]]] = {"messages": ("compact", "paper")}
    with_sgd: ClassVar[dict[str, float]] = {"lr": 0.1, "local_steps": 20}
    with_adam: ClassVar[dict[str, float]] = {"lr": 0.0003, "local_steps": 5}

    rho: float = 1.0
    local_steps: int | None = None
    messages: str = "compact"

    @property
    def fit_step(self) -> str:
        """The step that takes the owner's target."""
        return "fit" if self.messages == "compact" else "fit_paper"
