"""Summaries of runs that nobody trained, for tests of the report."""

from __future__ import annotations

import json
import math

from colonnade.store import checkpoint

HOSTILE = "<script>window.stolen=1</script>&\"'[red]"


def synthetic(name, *, parties=3, rounds=30, last=None, scale=100, binary=False, **description):
    """What :func:`colonnade.report.read_summary` would say of such a run; ``last`` is where it stopped."""
    names, last = [f"party {k + 1}" for k in range(parties)], rounds if last is None else last
    classes = 2 if binary else 10
    history = [_look(number, scale, binary) for number in range(1, last + 1)]
    description = {
        "method": {"name": "vimadmm", "lr": 0.1, "rho": 1.0},
        "tables": [["owner", 1000, []], *([one, 1000, [2, 28]] for one in names)],
        "model": [None] * parties,
        "optimizer": [None] * parties,
        "data": {"load": "mnist"},
        "settings": _settings(rounds),
        "outputs": classes,
        "names": [],
        **description,
    }
    return {
        "name": name,
        "description": description,
        "history": history,
        "losses": [],
        "round": last,
        "seconds": 0.1 * last,
        "stopped": False,
        "parties": names,
        "privacy": {},
        "clipped": {},
        "missed": {},
        "findings": _findings(names, classes, last),
        "ledger": [line for one in names for line in _lines(one, last, scale)],
    }


def write_folder(summary, folder, number=None):
    """Put a checkpoint of such a run into a folder, and what a run writes beside it."""
    facts = {key: value for key, value in summary.items() if key not in ("parties", "name")}
    checkpoint.write(folder / "checkpoints", summary["round"] if number is None else number, {}, facts)
    (folder / "config.json").write_text(json.dumps(summary["description"]))
    return folder


def _settings(rounds):
    plain = {"batch": 256, "seed": 0, "runtime": "fused", "valid": 0.0, "shuffle": "epoch", "evaluate_every": 1}
    return {"rounds": rounds, **plain, "stop_drop": None, "threads": 1, "task": "classes"}


def _look(number, scale, binary):
    good = 0.98 - 0.8 * math.exp(-number / 20)
    row = {"round": number, "epoch": number / 10, "train_loss": 2 * (1 - good), "test_loss": 2.1 * (1 - good)}
    row |= {"test_accuracy": good, "bytes": 1000 * scale * number, "seconds": 0.1 * number}
    return row | ({"test_auc": good, "test_average_precision": good} if binary else {})


def _lines(party, rounds, scale):
    up = {"step": "embed", "sender": party, "receiver": "owner", "messages": rounds, "overhead": 50 * rounds}
    down = {"step": "fit", "sender": "owner", "receiver": party, "messages": rounds, "overhead": 50 * rounds}
    return [
        {"purpose": "train", **up, "payload": 900 * scale * rounds},
        {"purpose": "train", **down, "payload": 100 * scale * rounds},
        {"purpose": "evaluate", **up, "payload": 900 * scale * rounds},
    ]


def _findings(names, classes, last):
    points = [[math.cos(n), math.sin(2 * n)] for n in range(300)]
    found = {"part": "test", "round": last, "rows": 1000}
    found["confusion"] = [[90 if k == j else k + j for j in range(classes)] for k in range(classes)]
    found["importance"] = {name: 1 + k / 10 for k, name in enumerate(names)}
    found |= {"maps": dict.fromkeys(names, points), "classes": [n % classes for n in range(300)]}
    if classes == 2:
        curve = [[k / 10, (k / 10) ** 0.5] for k in range(11)]
        found |= {
            "roc": curve,
            "pr": [[x, 1 - x / 2] for x, _ in curve],
            "calibration": [[0.2, 0.1, 40], [0.8, 0.9, 60]],
        }
    return found
