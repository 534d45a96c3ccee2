"""The interface that every method is written against, and the registry of methods.

A method is a frozen value with *party steps* (functions that run at one party) and a ``round`` that runs at the owner
and asks the parties to run those steps. A method does not know which runtime carries its messages.

How to write a party step. It gets ``mine`` (the party's networks and rows) and works on tensors whose *last* axes are
the party's own: rows are axis -2, features axis -1. The fused runtime runs the same step for several similar parties at
once, with a party axis in front. A step therefore uses negative axes and reduces a loss over its last axes only;
``descend`` accepts a loss with one number per party.
"""

from __future__ import annotations

import typing
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable
from dataclasses import dataclass, fields
from typing import Any, ClassVar, TypeVar

from torch import Tensor

from colonnade.core.disclosure import WORDS, Disclosure, label_word
from colonnade.core.net import Net, descend, take_step
from colonnade.core.optim import SGD, Adam, OptimizerBuilder
from colonnade.core.options import check_types
from colonnade.core.owner_side import Owner
from colonnade.core.party_side import Builder, Mine, Owners, Part, Parties
from colonnade.core.schedule import Turn
from colonnade.core.step import owner_step, party_step, steps_of
from colonnade.core.task import TASKS
from colonnade.errors import ConfigError, unknown

__all__ = [
    "Builder",
    "Disclosure",
    "Method",
    "Mine",
    "Net",
    "Owner",
    "Owners",
    "Part",
    "Parties",
    "Turn",
    "descend",
    "make_method",
    "methods",
    "owner_step",
    "party_step",
    "register",
    "take_step",
]


@dataclass(frozen=True, kw_only=True)
class Method(ABC):
    """Base of all methods: the options they share, and what each must declare.

    ``optimizer`` is "sgd" or "adam" at every side, with ``lr`` and ``decay`` (and SGD's ``momentum`` at the parties);
    ``optimizer=`` of ``train`` replaces the parties'. An option that is None takes its usual value when the rows are
    known, see ``core/usual_options.py``.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    party_sends: ClassVar[str]
    owner_sends: ClassVar[str]
    embedding_gradients: ClassVar[bool] = False
    """Whether one owner sends nothing but gradients of embeddings in training, at least with some options."""
    sums: ClassVar[str] = "never"
    """When the owner needs only the sum of the parties' replies: "always", "never", or "with" an option."""
    summed_steps: ClassVar[tuple[str, ...]] = ()
    """The steps that it only asks for by ``parties.sum`` if ``only_sums`` is true; Blind protects their replies."""
    asked_steps: ClassVar[tuple[str, ...] | None] = None
    """The steps that it asks for by ``parties.ask`` even then; None means all other steps that have a reply."""
    needs_owner_columns: ClassVar[bool] = False
    several_owners: ClassVar[bool] = False
    """Whether several owners may have the labels, each of its own rows; see :class:`Owners`."""
    tasks: ClassVar[tuple[str, ...]] = tuple(TASKS)
    """The tasks that it can learn, at least with some options."""
    alone: ClassVar[str] = "never"
    """When the owner predicts without asking anybody: "always", "never", or "unless" an option."""
    partial_rows: ClassVar[bool] = False
    """Whether it trains on rows that not every party has; it then asks ``mine.known`` and ``owner.known``."""
    any_subset: ClassVar[bool] = False
    """Whether it predicts from whoever is there, by ``owner.known``: nothing stands for the answers of the absent."""
    refits: ClassVar[bool] = False
    """Whether :meth:`refit` can make up for absent parties."""
    positive: ClassVar[tuple[str, ...]] = ("embedding", "lr")
    choices: ClassVar[dict[str, tuple[str, ...]]] = {}
    """The options that are one of a few words, with these words."""

    with_sgd: ClassVar[dict[str, float]] = {"lr": 0.1}
    """What an option is that nobody chose, with SGD: the values of the method's paper, or ours for pictures."""
    with_adam: ClassVar[dict[str, float]] = {"lr": 0.001}
    """What it is with Adam, the usual optimiser on tables."""

    embedding: int = 60
    optimizer: str | None = None
    lr: float | None = None
    momentum: float = 0.9
    decay: float = 0.001

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        if vars(cls).get("labels") in WORDS:  # the way before disclosures
            warnings.warn(
                f"{cls.__name__}.labels is the old way to say what a method shows; declare its messages by a property "
                "'disclosures' (docs/write_a_method.md).",
                DeprecationWarning,
                stacklevel=2,
            )

    def __post_init__(self) -> None:
        check_types(self.name, self)
        if self.optimizer not in (None, "adam", "sgd"):
            raise unknown(f"optimizer of {self.name}", self.optimizer, ("adam", "sgd"))
        for name in self.positive:
            if getattr(self, name) is not None and not getattr(self, name) > 0:
                raise ConfigError(f"{self.name}: {name}={getattr(self, name)} is out of range; it must be positive.")
        for name, words in self.choices.items():
            if getattr(self, name) not in words:
                raise unknown(f"{name} of {self.name}", getattr(self, name), words)
        if not 0 <= self.momentum < 1 or self.decay < 0:
            raise ConfigError(
                f"{self.name}: momentum={self.momentum}, decay={self.decay} are out of range; "
                "momentum is from 0 to less than 1, decay at least 0."
            )

    @property
    def only_sums(self) -> bool:
        """Whether the owner asks only for the sum of the parties' outputs, so that they can be blinded."""
        return self.sums == "always"

    @property
    def disclosures(self) -> tuple[Disclosure, ...] | None:
        """What every message shows of labels and columns with the method's present options; None if not declared."""
        return None

    @property
    def tells_labels(self) -> str:
        """What parties can learn about labels with the present options: "unsent", "inferable" or "shown"."""
        before: str = getattr(self, "labels", "") if self.disclosures is None else ""
        return before if before in WORDS else label_word(self)

    @property
    def only_embedding_gradients(self) -> bool:
        """Whether gradients of embeddings are all that the owner sends in training, with the present options."""
        return self.embedding_gradients

    @property
    def sends(self) -> tuple[str, str]:
        """What a party sends and what the owner sends, with the method's present options."""
        return self.party_sends, self.owner_sends

    @property
    def predicts_alone(self) -> bool:
        """Whether the owner predicts without asking any party, so that absent parties do not matter."""
        return self.alone == "always"

    @property
    def whole_rounds(self) -> bool:
        """Whether every round uses all training rows, so that ``batch`` does not matter."""
        return False

    @property
    def usual_rounds(self) -> int | None:
        """How many rounds it has if nobody asks for a number; None for ten epochs."""
        return None

    @property
    def most_rounds(self) -> int | None:
        """After how many rounds nothing is left to do, however many are asked for; None if there is no such number."""
        return None

    @property
    def rehearsed(self) -> Method:
        """The method with the same messages and less work, for the rehearsal that finds out their form."""
        return self

    def linear_numbers(self, outputs: int) -> int | None:
        """How many numbers of a row a party sends that are linear in its columns, if it fits what it sends by itself.

        None for methods whose messages train the network that they pass: the network says what can be told from it.
        """
        return None

    @property
    def rare_rounds(self) -> tuple[int, ...]:
        """One round, counted from 0, for each step that the first two rounds do not have.

        These rounds are rehearsed before training, without the rounds between them. Between processes a message that
        does not occur in a rehearsed round is refused.
        """
        return ()

    @property
    def party_optimizer(self) -> OptimizerBuilder:
        """The parties' optimiser unless the user gives one."""
        return self._optimizer(self.momentum)

    @property
    def owner_optimizer(self) -> OptimizerBuilder:
        """The optimiser of the owner's own parameters: SGD without momentum, as in the papers, or Adam."""
        return self._optimizer(0.0)

    def _optimizer(self, momentum: float) -> OptimizerBuilder:
        lr = typing.cast(float, self.lr)  # a plan's method is settled
        return Adam(lr, self.decay) if self.optimizer == "adam" else SGD(lr, momentum, self.decay)

    def party_parts(self, build: Builder, optimizer: OptimizerBuilder, outputs: int) -> dict[str, Part]:
        """The networks of one party; ``build(width)`` makes the user's network with that output width."""
        return {"net": Part(build(self.embedding), optimizer)}

    def owner_parts(self, parties: int, outputs: int) -> dict[str, Part]:
        """The networks of each of several owners, all with the same initial weights."""
        return {}

    def kind_of(self, party: int) -> Hashable:
        """The kind of a party. Parties of different kinds run steps differently and are never computed together."""
        return None

    def why_not(self, task: str, *, weighted: bool) -> str:
        """Why the method cannot learn this task with its present options, with or without weights; empty if it can."""
        return "" if task in self.tasks else f"it learns {' and '.join(self.tasks)} only"

    def check_batch(self, rows: int) -> None:  # noqa: B027 - most methods accept any batch
        """Refuse, before training, a schedule whose smallest batch has too few rows for this method."""

    def start(self, owner: Owner) -> None:  # noqa: B027 - many methods keep nothing at the owner
        """Put the method's state at the owner, before the first round."""

    @abstractmethod
    def round(self, owner: Owner, parties: Parties, turn: Turn) -> Tensor:
        """One round; returns the mean training loss of its rows."""

    @abstractmethod
    def predict(self, owner: Owner, parties: Parties, turn: Turn) -> Tensor:
        """Outputs [rows, outputs] for the turn's rows: logits, or values as training sees them."""

    def refit(self, owner: Owner, outputs: Tensor, turn: Turn, here: list[int]) -> None:
        """Fit the owner's heads for the parties in ``here`` alone, on replies that the owner stored in training."""
        raise ConfigError(f"{self.name} has no head per party at the owner, so there is nothing to refit.")

    def predict_each(self, owner: Owner, parties: Parties, turn: Turn) -> list[Tensor]:
        """Logits of every party's own model, in the parties' order."""
        raise ConfigError(f"{self.name} trains one model for all, so there is none per party; use vfedmh for that.")

    def predict_subsets(self, owner: Owner, parties: Parties, turn: Turn) -> list[Tensor]:
        """Outputs of every set of the parties, the set of nobody first, the last party changing fastest."""
        raise ConfigError(f"{self.name} has no predictor for every set of parties; use laser for that.")

    def importance(self, owner: Owner, parties: Parties, turn: Turn) -> Tensor:
        """One number per party that says how much it matters."""
        raise ConfigError(f"{self.name} has no head per party, so no importance; use a vim method.")

    @classmethod
    def steps(cls) -> dict[str, Callable[..., Any]]:
        """The party steps by name: the only steps that a party serves."""
        return steps_of("party", cls)

    @classmethod
    def owner_steps(cls) -> dict[str, Callable[..., Any]]:
        """The owner steps by name: steps that no party serves."""
        return steps_of("owner", cls)


_registry: dict[str, type[Method]] = {}
MethodClass = TypeVar("MethodClass", bound=type[Method])


def register(cls: MethodClass) -> MethodClass:
    """Add a method to the registry, so that its name works everywhere."""
    _registry[cls.name] = cls
    return cls


def methods() -> dict[str, type[Method]]:
    """All registered methods by name.

    >>> from colonnade.methods import methods
    >>> "vimadmm" in methods()
    True
    """
    return dict(sorted(_registry.items()))


def make_method(method: str | Method | type[Method], **options: Any) -> Method:
    """A method from its name, or its class, and options; or the given one.

    >>> make_method("vimadmm", rho=2.0).rho
    2.0
    >>> make_method("SplitNN").name
    'splitnn'
    """
    if isinstance(method, Method):
        return method
    cls = _class_of(method)
    known = [field.name for field in fields(cls)]
    for option in options:
        if option not in known:
            raise unknown(f"option of {cls.name}", option, known)
    return cls(**options)


def _class_of(method: Any) -> type[Method]:
    """The class of a method by its name or its class's, whatever the capitals, or the class itself."""
    if isinstance(method, type) and issubclass(method, Method):
        return method
    if not isinstance(method, str):
        raise ConfigError(
            f"a {type(method).__name__} came as the method; give a name such as 'splitnn', or colonnade.SplitNN()."
        )
    classes = {cls.__name__.lower(): cls for cls in _registry.values()} | _registry
    found = classes.get(method) or classes.get(method.lower())
    if found is None:
        raise unknown("method", method, _registry)
    return found
