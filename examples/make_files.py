"""Cuts a real data set into the raw files of several organisations, as they would have them.

    python examples/make_files.py credit examples/credit/files
    python examples/make_files.py adult /tmp/files --rows 5000 --overlap 0.8 --seed 1

Reads the file in the folder that COLONNADE_DATA names and writes one file (or two) per organisation: ids in its own
spelling, its own columns, the owner's label, its own order of rows, its own format. Each organisation knows a random
share ``--overlap`` of the people. The files ``new-*`` are about further people, for prediction: the owner knows all of
them, without labels, the others a share. Their labels are in ``new-labels.csv``, to check predictions with.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import numpy as np
import pandas as pd

NEW = 500  # people who are only predicted for; a sixth of everybody if few rows are asked for
ODD = 0.05  # of the ids are written in capitals, as many with a blank behind them


class Party(NamedTuple):
    """What one organisation has, under which names, and how it writes it."""

    id: str
    columns: tuple[str, ...]
    files: tuple[str, ...]
    format: dict[str, Any] = {}  # noqa: RUF012 - never changed


class Data(NamedTuple):
    """A real file and who has which of its columns; the owner comes first."""

    source: str
    label: str
    parties: dict[str, Party]
    id: str = ""  # the file's own id column; without one, people get e-mail addresses
    called: str = ""  # a column of months with their year, made of the order of the rows and the column `month`


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


def _numbered(name: str, numbers: Iterable[int]) -> tuple[str, ...]:
    return tuple(f"{name}{number}" for number in numbers)


SEMICOLONS = {"sep": ";"}
MONTHS = _words("jan feb mar apr may jun jul aug sep oct nov dec")
FIRST_YEAR = 2008  # of bank marketing, which goes from May 2008 to November 2010
DATA = {
    "credit": Data(
        "credit_default.csv.gz",
        "default",
        {
            "bank": Party("ID", _words("LIMIT_BAL SEX EDUCATION MARRIAGE AGE"), ("bank.csv",)),
            "card": Party(
                "customer",
                _numbered("PAY_", (0, 2, 3, 4, 5, 6))
                + _numbered("BILL_AMT", range(1, 7))
                + _numbered("PAY_AMT", range(1, 7)),
                ("card-1.parquet", "card-2.parquet"),
            ),
        },
        id="ID",
    ),
    "bank": Data(  # without `duration`, which is known only after the call
        "bank_marketing_additional.csv.gz",
        "y",
        {
            "bank": Party("mail", _words("age job marital education default housing loan called"), ("bank.csv",)),
            "campaign": Party(
                "e-mail",
                _words("contact month day_of_week campaign pdays previous poutcome"),
                ("campaign.csv.gz",),
                SEMICOLONS,
            ),
            "economy": Party(
                "client",
                _words("emp.var.rate cons.price.idx cons.conf.idx euribor3m nr.employed"),
                ("economy.csv",),
                {"sep": ";", "decimal": ","},
            ),
        },
        called="called",
    ),
    "adult": Data(
        "adult.csv.gz",
        "income",
        {
            "census": Party("mail", _words("age sex race native_country marital_status relationship"), ("census.csv",)),
            "employer": Party(
                "e-mail",
                _words("workclass education education_num occupation hours_per_week"),
                ("employer.csv.gz",),
                SEMICOLONS,
            ),
            "tax": Party("payer", _words("fnlwgt capital_gain capital_loss"), ("tax.parquet",)),
        },
    ),
}


def make(name: str, folder: Path, rows: int | None, overlap: float, seed: int) -> list[Path]:
    """Write all files of a data set and say which."""
    data, random = DATA[name], np.random.default_rng(seed)
    everybody = people(data, source(data))
    if rows is not None and not 60 <= rows <= len(everybody):
        refuse(f"--rows {rows} is out of range; give 60 to {len(everybody)}, or leave it out for all.")
    chosen = everybody.iloc[random.permutation(len(everybody))[:rows]]
    new = min(NEW, len(chosen) // 6)
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for place, party in enumerate(data.parties.values()):
        own = () if place else (data.label,)
        known, unlabelled = chosen[new:], chosen[:new]
        written += write(folder, party, sheet(party, some_of(known, overlap, random), own, random), party.files)
        who = unlabelled if place == 0 else some_of(unlabelled, overlap, random)
        written += write(folder, party, sheet(party, who, (), random), (new_file(party),))
    labels = folder / "new-labels.csv"
    chosen[:new][["id", data.label]].to_csv(labels, index=False)
    return [*written, labels]


def source(data: Data) -> Path:
    """The real file, if it is there."""
    place = os.environ.get("COLONNADE_DATA", "")
    path = Path(place) / data.source
    if not place or not path.is_file():
        refuse(f"{data.source} is not here; set COLONNADE_DATA to a folder that has it (it is '{place}').")
    return path


def people(data: Data, path: Path) -> Any:
    """The whole table with a text ``id`` for every row."""
    table = pd.read_csv(path, keep_default_na=False)
    ids = table[data.id].astype(str) if data.id else [f"person{k:05d}@example.org" for k in range(len(table))]
    if data.called:
        table = table.assign(**{data.called: months(table["month"])})
    return table.assign(id=ids)


def months(names: Iterable[str]) -> list[str]:
    """The month of every call, from the names of months in order of date, which come without a year.

    >>> months(["nov", "dec", "dec", "mar"])
    ['2008-11', '2008-12', '2008-12', '2009-03']
    """
    year, last, dated = FIRST_YEAR, 0, []
    for name in names:
        month = MONTHS.index(name) + 1
        year, last = year + (month < last), month
        dated.append(f"{year}-{month:02d}")
    return dated


def some_of(table: Any, share: float, random: np.random.Generator) -> Any:
    """So large a share of the rows, in an order that says nothing."""
    return table.iloc[random.permutation(len(table))[: round(share * len(table))]]


def sheet(party: Party, table: Any, more: tuple[str, ...], random: np.random.Generator) -> Any:
    """What the party has about these people, ids in its own spelling."""
    return table[[*party.columns, *more]].assign(**{party.id: spelt(table["id"], random)})[
        [party.id, *party.columns, *more]
    ]


def spelt(ids: Any, random: np.random.Generator) -> list[str]:
    """The ids as somebody typed them: here and there in capitals, here and there with a blank."""
    luck = random.random(len(ids))
    return [
        text.upper() if odd < ODD else f"{text} " if odd > 1 - ODD else text
        for text, odd in zip(ids, luck, strict=True)
    ]


def write(folder: Path, party: Party, table: Any, names: tuple[str, ...]) -> list[Path]:
    """The table in its party's format, in as many files as it has names."""
    for part, name in enumerate(names):
        rows = table.iloc[part * len(table) // len(names) : (part + 1) * len(table) // len(names)]
        if name.endswith(".parquet"):
            rows.to_parquet(folder / name, index=False)
        else:
            rows.to_csv(folder / name, index=False, **party.format)
    return [folder / name for name in names]


def new_file(party: Party) -> str:
    """The file of people to predict for, in the same format.

    >>> new_file(DATA["credit"].parties["card"]), new_file(DATA["adult"].parties["employer"])
    ('new-card.parquet', 'new-employer.csv.gz')
    """
    stem, ending = party.files[0].split(".", 1)
    return f"new-{stem.removesuffix('-1')}.{ending}"


def refuse(sentence: str) -> NoReturn:
    """Say what is wrong and leave."""
    print(sentence, file=sys.stderr)
    raise SystemExit(2)


class Parser(argparse.ArgumentParser):
    """One sentence instead of a page."""

    def error(self, message: str) -> NoReturn:
        """Leave with it."""
        refuse(f"{message}; try --help.")


def main() -> None:
    parser = Parser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", choices=list(DATA))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", type=int, help="how many people, those of new-* included; by default all")
    parser.add_argument("--overlap", type=float, default=0.9, help="which share of them each organisation knows")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    if not 0 < options.overlap <= 1:
        refuse(f"--overlap {options.overlap} is out of range; give a share above 0, at most 1.")
    if options.seed < 0:
        refuse(f"--seed {options.seed} is out of range; give a whole number from 0.")
    for path in make(options.data, options.folder, options.rows, options.overlap, options.seed):
        print(path)


if __name__ == "__main__":
    main()
