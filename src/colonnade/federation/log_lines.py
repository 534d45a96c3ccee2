"""What a side tells its operator while it runs: lines for people or JSON for machines, in UTC, and never a value.

Built on :mod:`logging`, below the logger ``colonnade``. Facts go into ``extra=``::

    log.info("round done", extra={"round": 3, "seconds": 0.2})

Only plain values are written out. A tensor, an array, bytes or a list becomes its type in angle brackets, because
whoever reads logs need not be allowed to read rows.
"""

from __future__ import annotations

import json
import logging
import re
import sys
import traceback
from datetime import UTC, datetime
from enum import Enum
from pathlib import PurePath
from typing import Any, TextIO

from colonnade.errors import unknown

FORMATS = ("lines", "json")
LONGEST = 2000  # characters of a message
_PLAIN = (str, int, float, bool, type(None))
_USUAL = {"message", "asctime", "taskName"}  # fields that a record has at times
_FORMATTED = re.compile(r"""(tensor|array|Parameter containing:)\s*\(.*|\bb(['"]).*?\2""", re.S)


def one_line(text: str) -> str:
    r"""The text without what would start a new line or steer a terminal.

    >>> one_line("Müller\nINFO all is well")
    'Müller\\nINFO all is well'
    """
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def plain(value: object) -> Any:
    """The value itself if a log may show it, else its type.

    >>> plain(3), plain([1.5, 2.5]), plain(b"secret")
    (3, '<list>', '<bytes>')
    """
    if type(value) in _PLAIN:
        return value
    if isinstance(value, PurePath):
        return str(value)
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, BaseException):
        return _told(value)
    return f"<{type(value).__name__}>"


class _Named(dict[str, Any]):
    """Arguments by name; :mod:`logging` takes a lone dictionary for them, also where the message wants it whole."""

    def __repr__(self) -> str:
        return "<dict>"


class NoValues(logging.Filter):
    """Lets every record pass, with everything taken out of it that is no plain value."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Remove from a record what no log may show."""
        args = record.args
        if isinstance(args, tuple):
            record.args = tuple(plain(value) for value in args)
        elif args is not None:
            record.args = _Named({name: plain(value) for name, value in args.items()})
        record.msg = record.msg if isinstance(record.msg, str) else plain(record.msg)
        try:
            text = record.getMessage()
        except (TypeError, ValueError):  # as %d for what is now <Tensor>; a log line must not end a run
            text = f"{record.msg} {record.args}"
        record.msg, record.args = _without_values(text)[:LONGEST], None
        for name, shown in _facts(record).items():
            setattr(record, name, _without_values(shown)[:LONGEST] if isinstance(shown, str) else shown)
        if record.exc_info and record.exc_info[1] is not None:
            record.exc_text = _trace(record.exc_info[1])
            record.exc_info = None
        return True


class LineFormatter(logging.Formatter):
    """``2026-11-16T15:40:12.123Z INFO round done round=3``; a traceback follows on lines of its own."""

    def format(self, record: logging.LogRecord) -> str:
        """One record as text."""
        facts = "".join(f" {name}={value}" for name, value in _facts(record).items())
        line = one_line(f"{_time(record)} {record.levelname} {record.getMessage()}{facts}")
        return f"{line}\n{record.exc_text}" if record.exc_text else line


class Json(logging.Formatter):
    """One JSON object per record: time, level, logger, message, the facts, and the traceback if there is one."""

    def format(self, record: logging.LogRecord) -> str:
        """One record as text."""
        entry = {"time": _time(record), "level": record.levelname, "logger": record.name}
        entry |= {"message": record.getMessage(), **_facts(record)}
        return json.dumps(entry | ({"traceback": record.exc_text} if record.exc_text else {}))


def log_to(how: str = "lines", level: int | str = logging.INFO, stream: TextIO | None = None) -> logging.Logger:
    """Send Colonnade's log to a stream (by default stderr); a later call replaces the earlier one."""
    if how not in FORMATS:
        raise unknown("log format", how, FORMATS)
    log = logging.getLogger("colonnade")
    for old in [handler for handler in log.handlers if getattr(handler, "of_colonnade", False)]:
        log.removeHandler(old)
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.of_colonnade = True  # type: ignore[attr-defined]
    handler.setFormatter(Json() if how == "json" else LineFormatter())
    handler.addFilter(NoValues())
    log.addHandler(handler)
    log.setLevel(level)
    log.propagate = False  # the root's handlers have no such filter
    return log


def _facts(record: logging.LogRecord) -> dict[str, Any]:
    """What ``extra=`` added to a record; others in this process may add fields to every record, as Ray does."""
    foreign = vars(logging.makeLogRecord({})).keys() | _USUAL
    return {name: plain(value) for name, value in vars(record).items() if name not in foreign and name[0] != "_"}


def _time(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _told(error: BaseException) -> str:
    """An error's own text, if it is a text."""
    said = str(error) if all(type(arg) in _PLAIN for arg in error.args) else "<left out>"
    return f"{type(error).__name__}: {_without_values(said)}"


def _trace(error: BaseException) -> str:
    """Where an error came from, without what Python would add of values."""
    lines = traceback.format_tb(error.__traceback__)
    return "".join(["Traceback (most recent call last):\n", *lines, one_line(_told(error))])


def _without_values(text: str) -> str:
    """The text without tensors, arrays or bytes that somebody formatted before they came here."""
    return _FORMATTED.sub("<left out>", text)
