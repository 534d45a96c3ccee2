"""The meaning of the columns of each csv file, and which of them naturally belong to one organisation."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Layout:
    """The meaning of a table's columns; the natural parties in ``groups`` together name every column that is used."""

    target: str
    classes: tuple[str, str]
    groups: dict[str, tuple[str, ...]]
    categories: tuple[str, ...] = ()
    skewed: tuple[str, ...] = ()  # counts over many orders of magnitude, read as logarithms
    ids: str = ""
    part: str = ""  # the column with "train" or "test"; all rows that are not "test" are for training
    openml: tuple[str, ...] = ()  # OpenML's columns in its order, if that is not the order of the groups

    @property
    def columns(self) -> list[str]:
        """All columns used, in the order of their parties, so that each party's are neighbours."""
        return [column for group in self.groups.values() for column in group]


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


def _numbered(name: str, numbers: Iterable[int]) -> tuple[str, ...]:
    return tuple(f"{name}{number}" for number in numbers)


_BANK_WORDS = _words("job marital education default housing loan contact month poutcome")
_BANK = Layout(
    target="y",
    classes=("no", "yes"),
    groups={
        "client": _words("age job marital education default balance housing loan"),
        "contact": _words("contact day month duration campaign pdays previous poutcome"),
    },
    categories=_BANK_WORDS,
)

LAYOUTS = {
    "adult": Layout(
        target="income",
        classes=("<=50K", ">50K"),
        groups={
            "demography": _words("age sex race native_country marital_status relationship"),
            "work": _words(
                "workclass fnlwgt education education_num occupation capital_gain capital_loss hours_per_week"
            ),
        },
        categories=_words("sex race native_country marital_status relationship workclass education occupation"),
        part="split",
        openml=_words(
            "age workclass fnlwgt education education_num marital_status occupation relationship race sex "
            "capital_gain capital_loss hours_per_week native_country"
        ),
    ),
    "bank_marketing": _BANK,
    "bank_marketing_additional": replace(
        _BANK,
        groups={
            "client": _words("age job marital education default housing loan"),
            "contact": _words("contact month day_of_week duration campaign pdays previous poutcome"),
            "economy": _words("emp.var.rate cons.price.idx cons.conf.idx euribor3m nr.employed"),
        },
        categories=(*_BANK_WORDS, "day_of_week"),
    ),
    "credit_default": Layout(
        target="default",
        classes=("paid", "default"),
        groups={
            "client": _words("LIMIT_BAL SEX EDUCATION MARRIAGE AGE"),
            "delays": _numbered("PAY_", (0, 2, 3, 4, 5, 6)),
            "amounts": _numbered("BILL_AMT", range(1, 7)) + _numbered("PAY_AMT", range(1, 7)),
        },
        categories=_words("SEX EDUCATION MARRIAGE"),
        ids="ID",
    ),
    "criteo8k": Layout(
        target="label",
        classes=("no click", "click"),
        groups={"counts": _numbered("I", range(1, 14)), "categories": _numbered("C", range(1, 27))},
        categories=_numbered("C", range(1, 27)),
        skewed=_numbered("I", range(1, 14)),
        part="split",
    ),
}
