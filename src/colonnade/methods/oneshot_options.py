"""The options of ``oneshot`` and what follows from them; its steps and its round are in ``oneshot.py``."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Self

from colonnade.core.method import Disclosure, Method
from colonnade.errors import ConfigError
from colonnade.learners import make_learner
from colonnade.methods.declarations import of_gradients, of_labels, of_logits, of_numbers


@dataclass(frozen=True, kw_only=True)
class OneShotOptions(Method):
    """What to learn from, what to fit at a party and at the owner."""

    partial_rows: ClassVar[bool] = True
    any_subset: ClassVar[bool] = True
    choices: ClassVar[dict[str, tuple[str, ...]]] = {"learn": ("labels", "pca", "autoencoder", "gradients")}
    positive: ClassVar[tuple[str, ...]] = ("embedding", "lr", "folds", "epochs")

    learn: str = "labels"
    learner: str = "trees"
    top: str = "trees"
    folds: int = 5
    embedding: int = 8
    epochs: int = 30
    optimizer: str = "adam"  # of an autoencoder
    lr: float = 0.001
    momentum: float = 0.0
    decay: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 2 <= self.folds <= 100 or self.epochs > 1000:
            given = f"folds={self.folds}, epochs={self.epochs} are out of range"
            raise ConfigError(f"{self.name}: {given}; folds are 2 to 100, epochs at most 1000.")
        for text in (self.learner, self.top):
            make_learner(text)

    @property
    def disclosures(self) -> tuple[Disclosure, ...]:
        """Labels are sent, can be inferred from gradients, or stay where they are; numbers show columns."""
        if self.learn == "labels":
            return of_labels("score", "they are sent"), of_logits("score"), of_logits("show")
        numbers = of_numbers("project"), of_numbers("show")
        if self.learn != "gradients":
            return numbers
        return *numbers, *(of(step) for of in (of_gradients, of_logits) for step in ("cluster", "refine"))

    @property
    def whole_rounds(self) -> bool:
        """All rows: a learner is fitted in one go."""
        return True

    @property
    def usual_rounds(self) -> int | None:
        """One."""
        return 1

    @property
    def sends(self) -> tuple[str, str]:
        """What the way of learning sends."""
        numbers = f"{self.embedding} numbers of its columns"
        return {
            "labels": ("scores for the labels", "labels"),
            "gradients": (f"{numbers}, and scores for classes", "gradients of those numbers"),
        }.get(self.learn, (numbers, "nothing"))

    @property
    def most_rounds(self) -> int | None:
        """One, unless scores are refined by gradients of the scores before."""
        return None if self.learn == "gradients" else 1

    @property
    def rehearsed(self) -> Self:
        """With learners that are quick: what is sent does not depend on them."""
        return replace(self, learner="linear", top="linear", epochs=1)

    def linear_numbers(self, outputs: int) -> int | None:
        """Main directions are linear in the columns, and so are the scores of a linear learner."""
        scores = outputs if self.learner.startswith("linear") else 0
        return {"labels": scores, "autoencoder": None}.get(self.learn, self.embedding)

    def why_not(self, task: str, *, weighted: bool) -> str:
        """Gradients of values form no clusters."""
        found = self.learn != "gradients" or task == "classes"
        return "" if found else "classes are found as clusters of gradients; set learn='labels'"

    def check_batch(self, rows: int) -> None:
        """Two rows in every fold."""
        if self.learn in ("labels", "gradients") and rows < 2 * self.folds:
            few = f"{rows} rows are too few for folds={self.folds}"
            raise ConfigError(f"{self.name}: {few}; cross-fitting needs two rows in each.")

    def kind_of(self, party: int) -> int:
        """Every party is computed by itself: learners do not stack."""
        return party
