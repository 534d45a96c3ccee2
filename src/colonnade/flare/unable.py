"""Why a side could not begin a job, from that side's error log: FLARE says so nowhere else."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

_FORBIDDEN = re.compile(r"Component '(colonnade\.[\w.]+)'[^\n]* is not in allow_list")
_NOT_INSTALLED = re.compile(r"No module named '(colonnade[\w.]*)'")


def unable(logs: Mapping[str, str]) -> str:
    """The sides whose operators must allow or install something, by their error logs; empty if there is none.

    >>> unable({"server": "", "shop": "ModuleNotFoundError: No module named 'colonnade'"})
    "'shop' has no 'colonnade'; install colonnade[flare,tables] there."
    """
    return " ".join(filter(None, (_sentence(side, text) for side, text in logs.items())))


def _sentence(side: str, text: str) -> str:
    if match := _FORBIDDEN.search(text):
        where = "class_allow_list in its local/resources.json"
        return f"'{side}' does not allow '{match[1]}'; add it to {where} and restart it."
    if match := _NOT_INSTALLED.search(text):
        return f"'{side}' has no '{match[1]}'; install colonnade[flare,tables] there."
    return ""


def text_of(log: Path) -> str:
    """A log file as text; nothing if it is not there."""
    return log.read_text(errors="replace") if log.is_file() else ""
