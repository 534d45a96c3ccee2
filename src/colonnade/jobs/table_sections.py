"""The files of a job: ``[[party]]`` has each party's files, ``[align]`` and ``[prepare]`` say how to process them.

::

    [[party]]    name, files, id, label, numbers, categories, ...  as in colonnade.read; the owner's has the label
    [align]      mode, join, minimum, maximum, normalise           as in colonnade.align
    [prepare]    test or split, numbers, categories, ...           as in colonnade.prepare
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from colonnade.core.options import check_name
from colonnade.core.table import Table
from colonnade.errors import ConfigError, TableError, unknown
from colonnade.tables.align.align_sheets import Alignment, align
from colonnade.tables.align.align_terms import JOINS, MODES
from colonnade.tables.prepare.categories import WAYS
from colonnade.tables.prepare.numbers import SCALES
from colonnade.tables.prepare.prepare_tables import prepare, refuse_both
from colonnade.tables.prepare.row_parts import check_share
from colonnade.tables.prepare.time_split import TimeSplit
from colonnade.tables.sheets import Sheet
from colonnade.tables.sheets.duckdb_source import placed
from colonnade.tables.sheets.id_rules import make_rule
from colonnade.tables.sheets.reading import read

Progress = Callable[[int, int], None]
_ABOUT_COLUMNS = ("label", "numbers", "categories", "leave_out")


@dataclass(frozen=True)
class PartySection:
    """One party's files, and the meaning of their columns."""

    name: str
    files: str | list[str]
    id: str
    label: str | list[str] | None = None
    numbers: list[str] | None = None
    categories: list[str] | None = None
    leave_out: list[str] | None = None
    delimiter: str | None = None
    encoding: str | None = None
    decimal: str | None = None
    duplicates: str | None = None
    no_id: str | None = None

    def __post_init__(self) -> None:
        check_name(self.name, "a party")


@dataclass(frozen=True)
class AlignSection:
    """How to align rows; None leaves the choice to :func:`colonnade.align`."""

    mode: str | None = None
    minimum: int | None = None
    maximum: int | None = None
    normalise: list[str] | None = None
    join: str | None = None


@dataclass(frozen=True)
class PrepareSection:
    """How to prepare columns; None leaves the choice to :func:`colonnade.prepare`."""

    test: float | None = None
    split: dict[str, Any] | None = None
    numbers: str | None = None
    categories: str | None = None
    most: int | None = None
    rarest: int | None = None
    unaligned: bool | None = None

    def __post_init__(self) -> None:
        if self.split is not None:
            refuse_both(self.test)
            object.__setattr__(self, "split", TimeSplit.of(self.split).plain)

    @property
    def by_date(self) -> TimeSplit | None:
        """The split by date, if there is one."""
        return None if self.split is None else TimeSplit.of(self.split)


def check_choices(align: AlignSection, prepare: PrepareSection) -> None:
    """Refuse wrong values before ids are compared, because that takes time and reveals the common ids."""
    for what, value, known in (
        ("mode of an alignment", align.mode, MODES),
        ("join of an alignment", align.join, JOINS),
        ("scale of numbers", prepare.numbers, SCALES),
        ("way with categories", prepare.categories, WAYS),
    ):
        if value is not None and value not in known:
            raise unknown(what, value, known)
    if align.maximum is not None and align.maximum < (align.minimum or 1):
        raise ConfigError(
            f"maximum = {align.maximum} in [align] is below minimum = {align.minimum}; give a larger one, or none."
        )
    make_rule(align.normalise or ())
    check_share(prepare.test or 0.0)


@dataclass(frozen=True)
class Files:
    """All parties' files, the owner's first."""

    parties: tuple[PartySection, ...]
    align: AlignSection = field(default_factory=AlignSection)
    prepare: PrepareSection = field(default_factory=PrepareSection)
    beside: Path = Path()
    """The folder of the job file, from which relative paths start."""

    def __post_init__(self) -> None:
        owners = [party.name for party in self.parties if party.label]
        if len(self.parties) < 2 or len(owners) != 1:
            raise ConfigError(
                f"{len(self.parties)} [[party]] came and {len(owners)} of them with a label; a job needs two or more, "
                "and one of them, the owner, has the label."
            )
        check_choices(self.align, self.prepare)
        first = sorted(self.parties, key=lambda party: party.name != owners[0])
        object.__setattr__(self, "parties", tuple(first))

    def read(self, files: Mapping[str, Sequence[str]] | None = None) -> list[Sheet]:
        """Every party's sheet; with ``files`` the sheets of those new files, of their parties only."""
        if files is None:
            sheets = [self._sheet(party, self._paths(party.files)) for party in self.parties]
            if self.prepare.by_date is not None:
                self.prepare.by_date.check(sheets[0], sheets[1:])
            return sheets
        for name in files:
            if name not in [party.name for party in self.parties]:
                raise ConfigError(f"there is no party '{name}'; there are {', '.join(p.name for p in self.parties)}.")
        return [self._sheet(party, [*files[party.name]], new=True) for party in self.parties if party.name in files]

    def _sheet(self, party: PartySection, paths: Sequence[str], *, new: bool = False) -> Sheet:
        options = {key: value for key, value in asdict(party).items() if value is not None and key != "files"}
        if self.align.normalise is not None:
            options["normalise"] = self.align.normalise
        if new:  # the preparation knows the kinds; columns that it does not use, and the label, may be missing
            options = {key: value for key, value in options.items() if key not in _ABOUT_COLUMNS}
        return read(paths, **options)

    def _paths(self, files: str | list[str]) -> list[str]:
        each = [files] if isinstance(files, str) else files
        return [placed(path, self.beside) for path in each]

    def aligned(self, sheets: Sequence[Sheet], seed: int, on_progress: Progress | None = None) -> Alignment:
        """The sheets' common rows."""
        how = {key: value for key, value in asdict(self.align).items() if value is not None and key != "normalise"}
        return align(sheets, seed=seed, on_progress=on_progress, **how)

    def prepared(
        self, sheets: Sequence[Sheet], alignment: Alignment, seed: int, task: str | None
    ) -> tuple[list[Table], list[Table]]:
        """The federations to train on and to test on."""
        how = {key: value for key, value in asdict(self.prepare).items() if value is not None}
        kind = task or ("several" if len(sheets[0].labels) > 1 else "classes")
        return prepare(sheets, alignment, seed=seed, labels=kind, **how)

    def origin(self, sheets: Sequence[Sheet], alignment: Alignment) -> dict[str, Any]:
        """The origin of tables made of these files, which a run keeps."""
        facts = {
            "parties": [asdict(party) for party in self.parties],
            "align": asdict(self.align),
            "prepare": asdict(self.prepare),
            "digests": {sheet.name: sheet.digest for sheet in sheets},
            "common": alignment.count,
            "sizes": alignment.sizes,
        }
        return {"files": facts}

    def check_unchanged(self, description: Mapping[str, Any], sheets: Sequence[Sheet]) -> None:
        """Refuse to resume with other files than those that a run was trained on."""
        was = _facts(description)["digests"]
        for sheet in sheets:
            if sheet.digest != was.get(sheet.name):
                raise TableError(
                    f"the files of '{sheet.name}' are not those that the run was trained on (another SHA-256); "
                    "bring those back, or start another run."
                )


def files_of(description: Mapping[str, Any]) -> Files:
    """The files that a run was trained on, as it describes them."""
    facts = _facts(description)
    parties = tuple(PartySection(**party) for party in facts["parties"])
    return Files(parties, AlignSection(**facts["align"]), PrepareSection(**facts["prepare"]))


def _facts(description: Mapping[str, Any]) -> dict[str, Any]:
    facts: dict[str, Any] | None = (description["data"] or {}).get("files")
    if facts is None:
        raise ConfigError("the run was not trained by a job on files; use run.predict(tables) in Python.")
    return facts
