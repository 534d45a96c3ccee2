"""What every method gives away under every seal: advantages with intervals, utility and CPU seconds.

    python -m benchmarks.audit_matrix                                   everything; takes hours, and can be interrupted
    python -m benchmarks.audit_matrix --data breast_cancer --methods splitnn --seals none bits4
    python -m benchmarks.audit_matrix --only-show --picture docs/pictures/audit_matrix.svg

A cell is a method on a data set under a seal: a run with usual options, audited with ``cn.audit``. Its labels entry is
the worst verdict over all parties, its columns entry the worst over all parties' columns; utility is accuracy, or AUC
with two classes, on the test rows. Methods that a seal does not fit have no cell. Results are kept in ``--folder``, one
file a cell, with all attacks of all secrets.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import colonnade as cn
from benchmarks.kept import Kept
from benchmarks.table import show
from colonnade.errors import ColonnadeError
from colonnade.report.audit_section import audit_picture
from colonnade.seal import SEALS as KINDS
from colonnade.seal import make_seal

ROWS = 5000
"""Of the data sets that are larger."""
DATA = ("digits", "breast_cancer", "credit_default", "bank_marketing")
SEALS: dict[str, list[dict[str, Any]]] = {
    "none": [],
    "bits4": [{"kind": "bits", "bits": 4}],
    "noise": [{"kind": "noise", "sigma": 0.1, "epsilon": 1e6}],
    "blind": [{"kind": "blind"}],
    "labels, epsilon 1": [{"kind": "random-labels", "epsilon": 1.0}],
    "marvell 4": [{"kind": "marvell", "power": 4.0}],
    "class noise 4": [{"kind": "class-noise", "power": 4.0}],
    "max norm": [{"kind": "max-norm"}],
}
SEALS = {name: seals for name, seals in SEALS.items() if all(one["kind"] in KINDS for one in seals)}
OPTIONS: dict[str, dict[str, Any]] = {"vafl, sums": {"learn_weights": False}, "fedbcd, sums": {"combine": "sum"}}
"""Methods with options that let them be blinded."""


def methods() -> list[str]:
    """All methods, and some with options of their own."""
    return [*sorted(cn.methods()), *OPTIONS]


def federations(data: str, method: type[cn.Method]) -> tuple[list[cn.Table], list[cn.Table]]:
    owner = "first" if method.needs_owner_columns else "labels"
    owners = 2 if method.several_owners else None
    rows = ROWS if data in ("credit_default", "bank_marketing") else None
    return cn.load(data, owner=owner, owners=owners, rows=rows)


def find(data: str, name: str, seal: str, seed: int, budget: float) -> dict[str, Any]:
    """One cell; or why there is none."""
    kind, options = name.partition(",")[0], OPTIONS.get(name, {})
    method = cn.methods()[kind]
    try:
        seals = [make_seal(**entry) for entry in SEALS[seal]]
        train, test = federations(data, method)
        began = time.process_time()
        run = cn.train(train, method(**options), seal=seals, seed=seed, record=True)
    except ColonnadeError as error:
        return {"refused": str(error)}
    trained, scores = time.process_time() - began, run.evaluate(test)
    found = cn.audit(run, train, budget=budget, seed=seed).to_json()
    utility = {"auc": scores["auc"]} if "auc" in scores else {"accuracy": scores["accuracy"]}
    return {"audit": short(found), "utility": utility, "train_seconds": trained, "audit_seconds": found["seconds"]}


FIGURES = ("metric", "attack", "attack_low", "attack_high", "control", "value", "low", "high")


def short(audit: dict[str, Any]) -> dict[str, Any]:
    """What is kept of an audit: the verdicts with the figures of all attacks that were tried, without sentences."""

    def tried(attempt: dict[str, Any]) -> dict[str, Any]:
        figures = {key: attempt["advantage"][key] for key in FIGURES}
        return {"attack": attempt["attack"], "word": attempt["word"], "advantage": figures}

    kept = ("adversary", "of", "secret", "word", "declared", "by")
    verdicts = [
        {key: one[key] for key in kept}
        | {"attempts": [tried(attempt) for attempt in one["attempts"] if attempt["advantage"] is not None]}
        for one in audit["verdicts"]
    ]
    return {"worst": audit["worst"], "undeclared": audit["undeclared"], "rows": audit["rows"], "verdicts": verdicts}


def worst(audit: dict[str, Any], secret: str) -> dict[str, Any] | None:
    """The verdict with the largest lower bound among those of a secret."""

    def low(verdict: dict[str, Any]) -> float:
        found = deciding(verdict)
        return -2.0 if found is None else float(found["low"])

    return max((one for one in audit["verdicts"] if one["secret"] == secret), key=low, default=None)


def deciding(verdict: dict[str, Any]) -> dict[str, Any] | None:
    """The advantage of the attack that decides."""
    found = [one["advantage"] for one in verdict["attempts"] if one["attack"] == verdict["by"]]
    return found[0] if found else None


def told(audit: dict[str, Any], secret: str) -> str:
    """A verdict's word, with the advantage and its interval, and the attack."""
    verdict = worst(audit, secret)
    found = None if verdict is None else deciding(verdict)
    if verdict is None or found is None:
        return "-" if verdict is None else verdict["word"]
    interval = f"{found['value']:.2f} [{found['low']:.2f}, {found['high']:.2f}]"
    return f"{verdict['word']} {interval}, {verdict['by']}"


def line(name: str, seal: str, cell: dict[str, Any]) -> list[object]:
    utility = ", ".join(f"{key} {value:.3f}" for key, value in cell["utility"].items())
    seconds = f"{cell['train_seconds']:.0f} + {cell['audit_seconds']:.0f}"
    return [name, seal, told(cell["audit"], "labels"), told(cell["audit"], "columns"), utility, seconds]


def picture(cells: dict[str, dict[str, Any]], path: Path) -> None:
    """One picture: the worst verdict about labels and about columns of every cell."""
    drawn = []
    for name, cell in cells.items():
        for secret in ("labels", "columns"):
            verdict = worst(cell["audit"], secret)
            if verdict is not None and deciding(verdict) is not None:
                drawn.append({**verdict, "secret": f"{name}: {secret}"})
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(audit_picture({"verdicts": drawn}).svg())
    print(f"picture: {path}")


def cells_of(keep: Callable[[str, Callable[[], dict[str, Any]]], dict[str, Any]], asked: Any, data: str) -> Any:
    for name in asked.methods:
        for seal in asked.seals:
            made = partial(find, data, name, seal, asked.seed, asked.budget)
            cell = keep(f"{data} {name} {seal} {asked.seed}", made)
            if cell and "refused" not in cell:
                yield name, seal, cell


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", nargs="+", default=[*DATA])
    parser.add_argument("--methods", nargs="+", default=methods(), choices=methods())
    parser.add_argument("--seals", nargs="+", default=[*SEALS], choices=[*SEALS])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--budget", type=float, default=60.0)
    parser.add_argument("--folder", type=Path, default=Path("benchmarks/results/audit_matrix"))
    parser.add_argument("--only-show", action="store_true")
    parser.add_argument("--picture", type=Path, help="write the picture of the first data set, unsealed runs only")
    asked = parser.parse_args(words)
    kept = Kept(asked.folder, train=not asked.only_show)
    heads = ["method", "seal", "labels", "columns", "utility", "CPU s, training + audit"]
    for number, data in enumerate(asked.data):
        found = list(cells_of(kept, asked, data))
        show(f"{data}, seed {asked.seed}", heads, [line(*cell) for cell in found])
        if asked.picture is not None and number == 0:
            picture({name: cell for name, seal, cell in found if seal == "none"}, asked.picture)


if __name__ == "__main__":
    main()
