"""A run's summary, and the questions that pages and tables ask of it."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from colonnade.core.method import Method
from colonnade.core.metrics import watched_in
from colonnade.core.task import TASKS
from colonnade.disk.json_form import first_wrong
from colonnade.errors import CheckpointError, ColonnadeError
from colonnade.methods import make_method, methods
from colonnade.privacy.audit_file import read_audit
from colonnade.run.findings import numbers_in
from colonnade.run.period_findings import PERIODS
from colonnade.runtime.disclosure_words import Situation, classes_of
from colonnade.store import checkpoint
from colonnade.store.checkpoint_facts import read_facts
from colonnade.wire.ledger import OWNER, Ledger

Row = dict[str, float]
_FACTS = ("description", "round", "seconds", "stopped", "losses", "history", "ledger", "privacy", "clipped")
_LATER: dict[str, Any] = {
    "skipped": 0,
    "without": 0,
    "missed": {},
    "findings": {},
    "cores": 1,
}  # older folders lack them


def read_summary(run_folder: str | Path) -> dict[str, Any]:
    """What :meth:`colonnade.Run.summary` gives, from the newest checkpoint of a run folder."""
    folder = Path(run_folder)
    if not folder.exists():
        raise CheckpointError(f"{folder} is not a run folder: it does not exist; give one that a training wrote.")
    if not (folder / "checkpoints").is_dir():
        raise CheckpointError(f"{folder} is not a run folder: it has no checkpoints; give one that a training wrote.")
    facts = read_facts(folder)
    checkpoint.check(checkpoint.newest(folder / "checkpoints"))
    try:
        summary = {key: facts[key] for key in _FACTS} | {key: facts.get(key, plain) for key, plain in _LATER.items()}
        parties = [name for name, _, shape in facts["description"]["tables"] if shape]
        summary |= {"parties": parties, "name": folder.resolve().name}
        audit = read_audit(folder)
        summary |= {"audit": audit} if audit else {}
        RunView(summary).check()
    except (KeyError, TypeError, ValueError, AttributeError):
        raise CheckpointError(
            f"the newest checkpoint of {folder} does not describe a run: its findings are none; it is foreign."
        ) from None
    return summary


class RunView:
    """A run's summary, with the questions that a page or a table asks of it."""

    def __init__(self, summary: dict[str, Any]) -> None:
        description = summary["description"]
        options = dict(description["method"])
        self.method: str = options.pop("name")
        self.options: dict[str, Any] = options
        self.settings: dict[str, Any] = description["settings"]
        self.task: str = self.settings.get("task", "classes")
        self.score: str = TASKS[self.task].score
        self.outputs: int | None = description.get("outputs")
        self.labels: list[str] = [printable(str(name)) for name in description.get("names", [])]
        self.tables: list[tuple[str, int, list[int]]] = [tuple(table) for table in description["tables"]]
        self.models: list[dict[str, Any] | None] = description["model"]
        self.optimizers: list[dict[str, Any] | None] = description["optimizer"]
        self.seals: list[dict[str, Any]] = description.get("seal", [])
        self.origin: dict[str, Any] = description["data"] or {}
        self.data: str = _named(self.origin)
        self.split: dict[str, str] = _split(self.origin)
        self.columns: dict[str, dict[str, Any]] = description.get("columns", {})  # none in older folders
        self.name: str = printable(summary.get("name") or f"{self.method} on {self.data}")
        self.parties: list[str] = summary["parties"]
        self.owners: list[str] = [name for name, _, shape in self.tables if not shape]
        self.history: list[Row] = summary["history"]
        self.round: int = summary["round"]
        self.seconds: float = summary["seconds"]
        self.stopped: bool = summary["stopped"]
        self.privacy: dict[str, dict[str, Any]] = summary.get("privacy", {})
        self.clipped: dict[str, float] = summary.get("clipped", {})
        self.missed: dict[str, int] = summary.get("missed", {})
        self.findings: dict[str, Any] = summary.get("findings", {})
        self.cores: int = summary.get("cores", 1)
        self.periods: dict[str, Any] = self.findings.get("periods", {})
        self.audit: dict[str, Any] = summary.get("audit", {})
        self.ledger = Ledger()
        self.ledger.replace(summary["ledger"])

    def check(self) -> None:
        """Raise an error if a field that must be a number is not one."""
        float(sum(value for row in self.history for value in row.values()))
        float(sum(line.messages + line.total for line in self.ledger.rows) + self.round + self.seconds)
        for key in ("rounds", "batch", "seed", "stop_drop"):
            float(self.settings[key] or 0)
        for columns in self.columns.values():
            _ = columns["count"] + 0, "".join(columns["names"])
        self._check_findings()

    def _check_findings(self) -> None:
        self._check_periods()
        numbers = numbers_in({key: value for key, value in self.findings.items() if key not in ("part", "periods")})
        if not all(math.isfinite(number) for number in numbers):
            raise ValueError("findings are finite")
        classes = self.findings.get("classes", [])
        for places in self.findings.get("maps", {}).values():
            if len(places) != len(classes) or any(len(place) != 2 for place in places):
                raise ValueError("a map has one class per point")
        if any(len(line) != len(self.findings["confusion"]) for line in self.findings.get("confusion", [])):
            raise ValueError("a confusion matrix is square")

    def _check_periods(self) -> None:
        wrong = first_wrong(self.periods, PERIODS) if "periods" in self.findings else None
        numbers = [value for value in numbers_in(self.periods) if isinstance(value, float)]
        empty = bool(self.periods) and not self.periods.get("lines")
        if wrong is not None or empty or not all(map(math.isfinite, numbers)):
            raise ValueError("periods have rows, scores and stability")

    @property
    def known_method(self) -> type[Method] | None:
        """The method's class, if it is registered here."""
        return methods().get(self.method)

    @property
    def chosen_method(self) -> Method | None:
        """The method with the run's options, or with usual ones if the run's are of another version."""
        cls = self.known_method
        if cls is None:
            return None
        try:
            return make_method(self.method, **self.options)
        except (ColonnadeError, TypeError):
            return cls()

    @property
    def tells_labels(self) -> str:
        """What parties can tell of the labels; the worst case if the method is not known here."""
        return "shown" if self.chosen_method is None else self.chosen_method.tells_labels

    @property
    def situation(self) -> Situation:
        """What sentences about messages depend on beside the method."""
        kinds = tuple(sorted({str(entry.get("kind", "")) for entry in self.seals}))
        return Situation(classes_of(self.task, self.outputs), kinds)

    @property
    def unfinished(self) -> bool:
        """Whether planned rounds are missing and the run did not stop early."""
        return self.round < self.settings.get("rounds", 0) and not self.stopped

    def class_names(self, count: int) -> list[str]:
        """The names of the first ``count`` classes or labels, or their numbers if they have no names."""
        return self.labels if len(self.labels) >= count else [str(number) for number in range(count)]

    @property
    def measured(self) -> str:
        """On which rows the run was evaluated: ``"test"``, else ``"valid"``, else an empty text."""
        parts = (part for part in ("test", "valid") if any(f"{part}_{self.score}" in row for row in self.history))
        return next(parts, "")

    @property
    def final(self) -> Row:
        """The evaluation of the model that was kept: the last, or with early stopping the best."""
        score = watched_in(self.history, self.settings.get("watch"), self.score)
        scored = [row for row in reversed(self.history) if score in row]  # no score if a party was absent
        if self.settings["stop_drop"] is not None and scored:
            return max(scored, key=lambda row: row[score])
        return self.history[-1] if self.history else {}

    @property
    def metrics(self) -> Row:
        """What the kept model scored on the measured rows."""
        prefix = f"{self.measured}_"
        return {key.removeprefix(prefix): value for key, value in self.final.items() if key.startswith(prefix)}

    @property
    def train_bytes(self) -> int:
        """Bytes that training sent, key agreements and frames included, without evaluations."""
        return self.ledger.bytes_for("train") + self.ledger.bytes_for("setup")

    @property
    def result(self) -> dict[str, Any]:
        """The run in a few plain facts, as JSON has them."""
        return {
            "method": self.method,
            "data": self.data,
            "seed": self.settings["seed"],
            "seals": self.seals,
            "rounds": self.round,
            "unfinished": self.unfinished,
            "stopped_early": self.stopped,
            "missed": {name: rounds for name, rounds in self.missed.items() if rounds},
            "measured_on": self.measured,
            "metrics": self.metrics,
            "train_bytes": self.train_bytes,
            "all_bytes": self.ledger.total,
            "seconds": self.seconds,
            "cores": self.cores,
        }

    def curve(self, x: str, y: str) -> list[tuple[float, float]]:
        """The (x, y) points of two columns of the history, where both have finite values."""
        points = [(row[x], row[y]) for row in self.history if x in row and y in row]
        return [point for point in points if all(map(math.isfinite, point))]

    def reach(self, accuracy: float) -> Row | None:
        """The first evaluation with at least this accuracy."""
        key = f"{self.measured}_accuracy"
        return next((row for row in self.history if row.get(key, 0.0) >= accuracy - 1e-6), None)

    def bytes_until(self, accuracy: float | None) -> float:
        """Training bytes until the run reached this accuracy; all training bytes if it never did, or for None."""
        row = None if accuracy is None else self.reach(accuracy)
        return row["bytes"] if row else self.train_bytes

    def sealed(self, kind: str) -> bool:
        """Whether the run had a seal of this kind."""
        return any(entry.get("kind") == kind for entry in self.seals)

    def sent(self, by_owner: bool) -> int:
        """Training bytes that the owner sent, or that the parties sent."""
        lines = [line for line in self.ledger.rows if line.purpose in ("train", "setup")]
        return sum(line.total for line in lines if self.is_owner(line.sender) is by_owner)

    def is_owner(self, name: str) -> bool:
        """Whether the ledger means an owner by this name."""
        return name == OWNER or name in self.owners


def printable(text: str) -> str:
    r"""A text with spaces for characters that HTML and SVG may not hold, such as control characters.

    >>> printable("a\x00b\udcffc")
    'a b c'
    """
    return "".join(" " if unicodedata.category(character) in ("Cc", "Cs", "Cn") else character for character in text)


def common_accuracy(runs: Sequence[RunView]) -> float | None:
    """The highest whole per cent that every run's final model reached; a fair goal, where runs can be compared."""
    finals = [run.metrics["accuracy"] for run in runs if "accuracy" in run.metrics]
    if len(finals) < len(runs) or len({(run.data, run.measured) for run in runs}) > 1:
        return None
    return math.floor(100 * min(finals) + 1e-4) / 100


def _split(data: dict[str, Any]) -> dict[str, str]:
    """The split by date of the rows, as texts; empty if there is none."""
    prepare = data.get("files", {}).get("prepare", {})
    split = prepare.get("split") or data.get("federation", {}).get("split") or {}
    known = {name: printable(str(split[name])) for name in ("column", "after", "missing") if name in split}
    return known if {"column", "after"} <= known.keys() else {}


def _named(data: dict[str, Any]) -> str:
    """The name of the data set, or whose files they are."""
    if "files" in data:
        return "files of " + ", ".join(party["name"] for party in data["files"]["parties"])
    return str(data.get("load", "tables of one's own"))
