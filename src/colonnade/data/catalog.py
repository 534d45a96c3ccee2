"""The catalogue of data sets; none is read here.

Their files are in the folder that the environment variable COLONNADE_DATA names. The package contains no data: some
licences are for research only, and the other files are large.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from pathlib import Path

VARIABLE = "COLONNADE_DATA"


@dataclass(frozen=True)
class Dataset:
    """One data set: its size, its licence, its source and its default split."""

    name: str
    rows: tuple[int, int]  # train, test
    shape: tuple[int, ...]  # one row before it is cut; of a table, its source columns
    classes: int
    licence: str
    source: str
    split: str  # the default split, in words
    parties: int | None = None  # the default split, for load(); None where the data have natural parties
    by: str = "columns"
    file: str = ""
    layout: str = ""  # the contents that the file must have
    openml: tuple[str, int] | None = None
    task: str = "classification"

    @property
    def path(self) -> Path | None:
        """The data set's file, if COLONNADE_DATA names a folder that has it."""
        folder = os.environ.get(VARIABLE)
        path = Path(folder).expanduser() / self.file if folder and self.file else None
        return path if path and path.is_file() else None

    def most_bytes(self, each: int) -> int:
        """How large its file may be when it is unpacked, with ``each`` bytes a number and some for labels and ids."""
        return sum(self.rows) * (each * math.prod(self.shape) + 256) + (1 << 20)

    @property
    def available(self) -> bool:
        """Whether it can be loaded now, without a network."""
        return not self.file or self.path is not None

    @property
    def where(self) -> str:
        """Where load() would read it from now: scikit-learn, a file, OpenML, or nowhere."""
        if not self.file:
            return "scikit-learn"
        if self.path:
            return str(self.path)
        return "OpenML, by download" if self.openml else f"nowhere: {VARIABLE} names no folder with {self.file}"


def datasets() -> dict[str, Dataset]:
    """Every known data set by name.

    >>> digits = datasets()["digits"]
    >>> digits.rows, digits.shape, digits.classes, digits.available
    ((1437, 360), (8, 8), 10, True)
    """
    return dict(CATALOG)


_ARRAYS = "x_train, y_train, x_test, y_test"
_SPRITES = "train_webp_0.., test_webp (100 images across), y_train, y_test"
_RESEARCH = "research only"

_ENTRIES = (
    Dataset(
        "digits", (1437, 360), (8, 8), 10, "CC BY 4.0", "UCI Optical Recognition of Handwritten Digits",
        "4 parties of two image rows", 4, "rows",
    ),
    Dataset(
        "breast_cancer", (455, 114), (30,), 2, "CC BY 4.0", "UCI Breast Cancer Wisconsin (Diagnostic)",
        "mean / error / worst of ten measurements",
    ),
    Dataset(
        "mnist", (60_000, 10_000), (28, 28), 10, "CC BY-SA 3.0", "LeCun, Cortes, Burges",
        "14 parties of two image rows (VIM)", 14, "rows", "mnist.npz", _ARRAYS, ("mnist_784", 1),
    ),
    Dataset(
        "fashion_mnist", (60_000, 10_000), (28, 28), 10, "MIT", "Zalando Research",
        "14 parties of two image rows", 14, "rows", "fashion_mnist.npz", _ARRAYS, ("Fashion-MNIST", 1),
    ),
    Dataset(
        "cifar10", (50_000, 10_000), (3, 32, 32), 10, _RESEARCH, "Krizhevsky 2009",
        "9 patches (VIM)", 9, "patches", "cifar10.npz", _SPRITES, ("CIFAR_10", 1),
    ),
    Dataset(
        "tiny_imagenet100", (20_000, 5_000), (3, 32, 32), 100, _RESEARCH,
        "every second class of Tiny-ImageNet-200 (Stanford CS231n), halved in size; not CIFAR-100",
        "9 patches", 9, "patches", "tiny_imagenet100.npz", _SPRITES,
    ),
    Dataset(
        "modelnet40_views", (9_843, 2_468), (12, 32, 32), 40, _RESEARCH,
        "ModelNet40 (Wu et al. 2015), 12 views drawn from point clouds",
        "4 of 12 views", 4, "views", "modelnet40_views.npz", f"{_ARRAYS}, classes, ids_train, ids_test",
    ),
    Dataset(
        "nuswide_mini", (479, 120), (1634,), 2, _RESEARCH, "an extract of NUS-WIDE (Chua et al. 2009)",
        "image / tags", file="nuswide_mini.npz", layout="ids, image, tags, y",
    ),
    Dataset(
        "wikipedia", (2_173, 693), (138,), 10, _RESEARCH, "Wikipedia articles (Rasiwasia et al. 2010)",
        "image / text", file="wikipedia.npz", layout="image, text, y, is_test, classes",
    ),
    Dataset(
        "adult", (32_561, 16_281), (14,), 2, "CC BY 4.0", "UCI Adult",
        "demography / work", file="adult.csv.gz", layout="UCI's columns, income and split", openml=("adult", 2),
    ),
    Dataset(
        "bank_marketing", (36_168, 9_043), (16,), 2, "CC BY 4.0", "UCI Bank Marketing, bank-full",
        "client / contact", file="bank_marketing.csv.gz", layout="UCI's columns", openml=("bank-marketing", 1),
    ),
    Dataset(
        "bank_marketing_additional", (32_950, 8_238), (20,), 2, "CC BY 4.0",
        "UCI Bank Marketing, bank-additional-full",
        "client / contact / economy", file="bank_marketing_additional.csv.gz", layout="UCI's columns",
    ),
    Dataset(
        "credit_default", (24_000, 6_000), (23,), 2, "CC BY 4.0", "UCI Default of Credit Card Clients",
        "client / delays / amounts", file="credit_default.csv.gz", layout="UCI's columns, target default",
        openml=("default-of-credit-card-clients", 1),
    ),
    Dataset(
        "criteo8k", (7_609, 391), (39,), 2, _RESEARCH, "Criteo display advertising challenge, first 8,000 rows",
        "counts / categories", file="criteo8k.csv.gz", layout="label, I1..I13, C1..C26, split",
    ),
)  # fmt: skip

CATALOG: dict[str, Dataset] = {dataset.name: dataset for dataset in _ENTRIES}
