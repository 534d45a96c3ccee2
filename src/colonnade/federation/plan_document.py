"""The plan that all sides sign, as plain JSON: made by this one function at the owner and at every party."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from colonnade import models
from colonnade.core import optim
from colonnade.federation.terms import digest
from colonnade.runtime.disclosure_words import Situation, classes_of, sentences
from colonnade.runtime.plan import Plan


def plan_document(
    terms: Mapping[str, Any],
    what: Plan,
    tables: Sequence[Any],
    outputs: int,
    test: int,
    schema: Mapping[str, Any],
    split: str | None = None,
) -> dict[str, Any]:
    """The plan under these terms; ``tables`` has name, rows and row shape of each side, ``schema`` every message.

    ``split`` stands for the rows that a split by date told everybody.
    """
    document = {
        "terms": digest(terms).hex(),
        "tables": tables,
        "method": {"name": what.method.name, **asdict(what.method)},
        "settings": asdict(what.settings),
        "model": [models.describe(model) for model in what.models],
        "optimizer": [optim.describe(optimizer) for optimizer in what.optimizers],
        "outputs": outputs,
        "test": test,
        "schema": schema,
        "learns": _learns(terms, what, outputs),
        **({} if split is None else {"split": split}),
    }
    return json.loads(json.dumps(document))  # type: ignore[no-any-return]  # as the other sides read it


def _learns(terms: Mapping[str, Any], what: Plan, outputs: int) -> list[str]:
    """What every message shows with as many classes as there are; the terms are older than that number."""
    kinds = tuple(sorted({entry["kind"] for entry in terms["seals"]}))
    return sentences(what.method, Situation(classes_of(what.settings.task, outputs), kinds, f"'{terms['owner']}'"))
