"""The facts that a checkpoint keeps about its run, and the form that they are checked against before use."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from colonnade.core.options import LARGEST_SEED, MOST
from colonnade.core.task import TASKS
from colonnade.disk.json_form import ANYTHING, COUNT, FLAG, NUMBER, TEXT, Form, Kind, first_wrong
from colonnade.disk.small_files import read_json
from colonnade.errors import CheckpointError
from colonnade.store import checkpoint
from colonnade.store.run_folder import same_run

_SOME = Kind(f"a whole number from 1 to {MOST}", lambda value: type(value) is int and 1 <= value <= MOST)
_SEED = Kind("a whole number from 0 to 2^63 - 1", lambda value: type(value) is int and 0 <= value <= LARGEST_SEED)
_TASK = Kind(f"one of {', '.join(TASKS)}", lambda value: isinstance(value, str) and value in TASKS)


def _is_table(value: Any) -> bool:
    shaped = isinstance(value, list) and len(value) == 3 and isinstance(value[2], list)
    return shaped and isinstance(value[0], str) and all(_SOME.fits(size) for size in (value[1], *value[2]))


_TABLE = Kind("a table's name, rows and shape", _is_table)
_BUILT: Form = [({"kind": TEXT}, None)]
_FILES: Form = {
    "parties": [{"name": TEXT, "id": TEXT}],
    "align": {"*": ANYTHING},
    "prepare": {"*": ANYTHING},
    "digests": {"*": TEXT},
}
_SETTINGS: Form = {
    "rounds": _SOME,
    "batch": _SOME,
    "seed": _SEED,
    "runtime": TEXT,
    "valid": NUMBER,
    "shuffle": TEXT,
    "evaluate_every": _SOME,
    "stop_drop": (NUMBER, None),
    "watch?": (TEXT, None),
    "threads": _SOME,
    "missing?": TEXT,
    "when_away?": TEXT,
    "task?": _TASK,
    "cluster?": ({"*": ANYTHING}, None),
}
DESCRIPTION: Form = {
    "method": {"name": TEXT},
    "model": _BUILT,
    "optimizer": _BUILT,
    "seal?": [{"kind": TEXT}],
    "devices?": [{"name": TEXT, "precision": TEXT, "move_tables": FLAG}],
    "data": ({"load?": TEXT, "files?": _FILES}, None),
    "columns?": {"*": {"count": COUNT, "names": [TEXT]}},
    "tables": [_TABLE],
    "settings": _SETTINGS,
    "outputs?": _SOME,
    "names?": [TEXT],
    "record?": {"side": TEXT, "rows": _SOME, "megabytes": _SOME},
}
_LINE: Form = {
    **dict.fromkeys(("purpose", "step", "sender", "receiver"), TEXT),
    **dict.fromkeys(("messages", "payload", "overhead"), COUNT),
}
FACTS: Form = {
    "description": DESCRIPTION,
    "round": COUNT,
    "seconds": NUMBER,
    "stopped": FLAG,
    "losses": [NUMBER],
    "history": [{"*": NUMBER}],
    "ledger": [_LINE],
    "privacy": {"*": {"*": ANYTHING}},
    "clipped": {"*": NUMBER},
    "cores?": _SOME,
    "skipped?": COUNT,
    "without?": COUNT,
    "missed?": {"*": COUNT},
    "findings?": {"*": ANYTHING},
}


def read_facts(folder: Path) -> dict[str, Any]:
    """The facts in the newest checkpoint of a run folder, after a check that ``config.json`` describes the same run."""
    written = _read_config(folder)
    newest = checkpoint.newest(folder / "checkpoints")
    facts = checkpoint.read_facts(newest)
    wrong = first_wrong(facts, FACTS)
    if wrong is not None:
        raise CheckpointError(
            f"{newest / 'manifest.json'} does not describe a run: {wrong}; it is damaged or foreign, so bring it back "
            "from a copy."
        )
    differs = not same_run(written, facts["description"])
    why = first_wrong(written, DESCRIPTION) or (
        "it describes another run than the newest checkpoint" if differs else ""
    )
    if why:
        raise CheckpointError(f"{folder / 'config.json'} is damaged or foreign: {why}.")
    return facts


def _read_config(folder: Path) -> Any:
    try:
        return read_json(folder / "config.json")
    except OSError:
        raise CheckpointError(f"{folder} is not a run folder: it has no config.json that can be read.") from None
    except ValueError:
        raise CheckpointError(f"{folder / 'config.json'} is damaged or foreign; it does not describe a run.") from None
