"""A party's own ``report.html`` in the job's folder: what left its house in this job, and what came in."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from colonnade.disk.small_files import opened
from colonnade.disk.whole_files import write_text
from colonnade.errors import printable
from colonnade.federation.audit_log import LONGEST_LINE, files_of
from colonnade.federation.party_job import PartyJob
from colonnade.report.party_page import MessageCount, PartyView, party_page
from colonnade.wire.ledger import Ledger

REPORT = "report.html"


def write_party_report(job: PartyJob, ledger: Ledger, state: str) -> Path:
    """Write the page of a job; ``state`` is a sentence that says how the job stands."""
    view = PartyView(
        party=job.name,
        owner=str(job.terms["owner"]),
        job=printable(job.terms["job"], 60),
        method="description" if "describe" in job.terms else str(job.terms["method"]["name"]),
        state=printable(state),
        learns=[printable(sentence, 2000) for sentence in job.terms["learns"]],
        ledger=ledger,
        messages=message_counts(job.audit.path),
    )
    path = job.folder.folder / REPORT
    write_text(path, party_page(view))
    return path


def message_counts(audit: Path) -> list[MessageCount]:
    """How many messages of each kind an audit log has, with their bytes, in the order in which they first occur.

    The lines are counted as they stand; ``colonnade audit-log verify`` checks them.
    """
    messages: Counter[tuple[bool, str]] = Counter()
    sizes: Counter[tuple[bool, str]] = Counter()
    for entry in _messages(audit):
        key = entry.is_sent, entry.kind
        messages[key] += 1
        sizes[key] += entry.total
    return [MessageCount(*key, count, sizes[key]) for key, count in messages.items()]


def _messages(audit: Path) -> Iterator[MessageCount]:
    """The messages of a log, one by one."""
    for path in files_of(audit):
        with opened(path) as file:
            while line := file.readline(LONGEST_LINE):
                entry = _message_in(line)
                if entry is not None:
                    yield entry


def _message_in(line: bytes) -> MessageCount | None:
    """The message that a line of an audit log is about; None if it is about something else."""
    try:
        entry = json.loads(line)
        if entry["what"] not in ("sent", "received"):
            return None
        return MessageCount(entry["what"] == "sent", str(entry["kind"]), 1, int(entry["size"]))
    except (ValueError, KeyError, TypeError):
        return None
