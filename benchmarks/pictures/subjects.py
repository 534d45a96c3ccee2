"""The data sets of the pictures: how they are cut, trained and disturbed, and what the VIM paper has for them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import colonnade as cn
from benchmarks.settings import BATCH, METHODS, MODEL, PARTIES
from colonnade.core.method import Method

VIM = ("vafl", "vimsgd", "vimadmm", "fdml", "vimadmm-j")  # the paper's methods, with and without model splitting
DECAYED = "vimadmm, decay 0.005"
FEW_EPOCHS = 6
CROWD_EPOCHS = {"vafl": 10, "vimsgd": 10, "fdml": 10}  # the others: 3


@dataclass(frozen=True)
class Subject:
    """One data set; noises are standard deviations in units of the networks' inputs."""

    title: str
    clean: Mapping[str, Any]  # how it is loaded and cut
    crowd: Mapping[str, Any]  # the same for Table 5, if that is of this data set
    few: Mapping[str, Any]  # the same for Figure 7, whose runs are many
    methods: Mapping[str, Method]
    epochs: Mapping[str, int]
    noisy: str  # who is noisy in Table 4 and in Figure 3's last row
    train_noise: float
    test_noise: float
    model: Any = MODEL
    batch: int = BATCH
    longer: Mapping[str, int] = field(default_factory=dict)  # epochs where accuracy by epoch is shown, if others

    def loads(self, kind: str) -> Mapping[str, Any]:
        """What cn.load is given: for "clean" and "noisy" runs alike, for "few" rows, for a "crowd" of parties."""
        return {"few": self.few, "crowd": self.crowd}.get(kind, self.clean)

    def epochs_of(self, kind: str, method: str) -> int:
        """How long a method is trained."""
        return {"few": FEW_EPOCHS, "crowd": CROWD_EPOCHS.get(method, 3)}.get(kind) or self.epochs[method]


def _methods(**changes: Mapping[str, Any]) -> dict[str, Method]:
    """The paper's methods as they are set for MNIST, some changed."""
    chosen = {name: replace(METHODS[name], **changes.get(name.replace("-", "_"), {})) for name in VIM}
    return chosen | {DECAYED: replace(chosen["vimadmm"], decay=0.005)}


def _epochs(gradient: int, admm: int, joint: int) -> dict[str, int]:
    """Epochs by kind of method: ADMM takes some twenty steps a round, so it needs and gets fewer."""
    slow = dict.fromkeys(("vafl", "vimsgd", "fdml"), gradient)
    return slow | {"vimadmm": admm, DECAYED: admm, "vimadmm-j": joint}


_ADMM = {"lr": 0.05, "rho": 0.5, "local_steps": 5}  # ModelNet40 in the paper's Table 1
_SLOW = {"lr": 0.05}

_MNIST = {"name": "mnist", "parties": PARTIES}
_FASHION = {"name": "fashion_mnist", "parties": PARTIES, "rows": 10_000}
_VIEWS = {"name": "modelnet40_views", "parties": 12}
_DIGITS = {"name": "digits", "parties": 4}

SUBJECTS = {
    "mnist": Subject(
        "MNIST",
        _MNIST,
        {"name": "mnist", "parties": 100, "by": "overlap", "width": 14, "rows": 5_000},
        _MNIST | {"rows": 5_000},
        _methods(),
        _epochs(10, 5, 2) | {DECAYED: 3},
        noisy="party 7",
        train_noise=1.0,
        test_noise=10.0,
        longer={"vimadmm": 10, "vimadmm-j": 5},
    ),
    "fashion_mnist": Subject(
        "Fashion-MNIST",
        _FASHION,
        {},
        _FASHION | {"rows": 5_000},
        _methods(),
        _epochs(10, 10, 5),
        noisy="party 7",
        train_noise=1.0,
        test_noise=10.0,
    ),
    "modelnet40_views": Subject(
        "ModelNet40, 12 views",
        _VIEWS,
        {},
        _VIEWS | {"rows": 5_000},
        _methods(vafl=_SLOW, vimsgd=_SLOW, fdml=_SLOW, vimadmm=_ADMM, vimadmm_j=_ADMM),
        _epochs(10, 5, 5),
        noisy="party 3",
        train_noise=1.0,
        test_noise=3.0,
    ),
    "digits": Subject(  # comes with scikit-learn: to try every command within seconds
        "digits",
        _DIGITS,
        {"name": "digits", "parties": 10, "by": "overlap", "width": 8},
        _DIGITS | {"rows": 500},
        _methods(),
        _epochs(5, 3, 3),
        noisy="party 2",
        train_noise=1.0,
        test_noise=3.0,
        model=cn.MLP((16,)),
        batch=256,
    ),
}

RHO = (0.5, 1.0, 2.0)  # the range that the paper advises
TAU = (1, 5, 20)

# Accuracy in %. Of Figure 2 and Figure 7 the paper prints no numbers for these data sets.
PAPER_TABLE3 = {"all": 97.12, "top 50 %": 96.58, "bottom 50 %": 78.11, "top 20 %": 88.72, "bottom 20 %": 29.11}
PAPER_TABLE4 = {
    "mnist": {
        "vafl": {2: 91.07, 5: 94.36, 10: 95.59},
        "vimsgd": {2: 95.04, 5: 96.01, 10: 96.43},
        "vimadmm": {2: 96.22, 5: 96.60, 10: 96.82},
    },
    "modelnet40_views": {  # four views of 224 x 224 pixels and ResNet-18
        "vafl": {2: 43.23, 5: 80.13, 10: 89.56},
        "vimsgd": {2: 77.94, 5: 88.74, 10: 89.69},
        "vimadmm": {2: 90.05, 5: 90.71, 10: 90.59},
    },
}
PAPER_TABLE5 = {"vafl": 95.38, "vimsgd": 95.45, "vimadmm": 95.77, "fdml": 95.85, "vimadmm-j": 95.96}
