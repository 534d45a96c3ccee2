"""A party's own page: what left its house in one job, and what came in, as far as it knows by itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import NamedTuple

from colonnade.report.html_table import Cell, table, whole
from colonnade.report.page import document
from colonnade.report.words import size
from colonnade.wire.ledger import Ledger, Line

_FOOT = (
    "Bytes are those of the wire form of every message; 1 MB is a million bytes. This page is the party's own: it is "
    "made of its own ledger and its own audit log, and no other side has it."
)
_OF_THE_RUN = (
    "What the steps of the method sent and received, by the ledger of the process that wrote this page. After a "
    "restart it counts from there; the audit log below has every process."
)
_OF_THE_LOG = (
    "Every request and reply of this job with all that is around its values: words of the handshake, the alignment, "
    "steps of the method, states. Each has a line with its digest in audit.jsonl."
)


class MessageCount(NamedTuple):
    """How often messages of one kind passed, in one direction, by the audit log."""

    is_sent: bool
    kind: str
    messages: int
    total: int
    """Bytes."""


@dataclass(frozen=True)
class PartyView:
    """What a party knows of one job."""

    party: str
    owner: str
    job: str
    method: str
    state: str
    """How the job stands: that it is finished, or why this side stopped."""
    learns: Sequence[str]
    """Who learns what, as everybody signed it."""
    ledger: Ledger
    messages: Sequence[MessageCount]


def party_page(view: PartyView) -> str:
    """One self-contained HTML page."""
    lead = f'<p class="lead">{escape(_lead(view))}</p><p>{escape(view.state)}</p>'
    parts = [
        ("What was agreed", "".join(f"<p>{escape(sentence)}</p>" for sentence in view.learns)),
        ("What left the house", _exchanged(view, is_sent=True)),
        ("What came in", _exchanged(view, is_sent=False)),
    ]
    body = "".join(f"<section><h2>{title}</h2>{content}</section>\n" for title, content in parts)
    return document(f"{view.job} at {view.party}", lead, f"{body}<footer>{escape(_FOOT)}</footer>\n")


def _lead(view: PartyView) -> str:
    sent, received = (_total(view, is_sent=is_sent) for is_sent in (True, False))
    return (
        f"'{view.party}' took part in the job '{view.job}' ({view.method}) of '{view.owner}': it sent "
        f"{sent.messages:,} messages, {size(sent.total)}, and received {received.messages:,}, {size(received.total)}."
    )


def _total(view: PartyView, *, is_sent: bool) -> MessageCount:
    counts = [count for count in view.messages if count.is_sent == is_sent]
    return MessageCount(is_sent, "", sum(count.messages for count in counts), sum(count.total for count in counts))


def _exchanged(view: PartyView, *, is_sent: bool) -> str:
    """Both tables of one direction; what there is nothing of is left out."""
    lines = [line for line in view.ledger.rows if (line.sender == view.party) == is_sent]
    steps = f"<h3>Values, by step</h3><p>{_OF_THE_RUN}</p>{_by_step(lines)}" if lines else ""
    total = _total(view, is_sent=is_sent)
    if not total.messages:
        return steps or "<p>Nothing.</p>"
    rows: list[list[Cell]] = [
        [count.kind, whole(count.messages), _bytes(count.total)] for count in view.messages if count.is_sent == is_sent
    ]
    foot = ["Total", f"{total.messages:,}", size(total.total)]
    log = table(["Kind", "Messages", "On the wire"], rows, numbers=(1, 2), foot=foot, sortable=True)
    return f"{steps}<h3>All messages, by kind</h3><p>{_OF_THE_LOG}</p>{log}"


def _by_step(lines: Sequence[Line]) -> str:
    rows: list[list[Cell]] = [
        [line.step, line.purpose, whole(line.messages), _bytes(line.payload), _bytes(line.total)] for line in lines
    ]
    messages, payload, total = (sum(getattr(line, name) for line in lines) for name in ("messages", "payload", "total"))
    foot = ["Total", "", f"{messages:,}", size(payload), size(total)]
    head = ["Step", "For", "Messages", "Values", "On the wire"]
    return table(head, rows, numbers=(2, 3, 4), foot=foot, sortable=True)


def _bytes(count: int) -> tuple[str, float]:
    return size(count), count
