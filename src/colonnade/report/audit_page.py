"""A page about an audit alone, as a party of a federation has it, which has no run folder with a report."""

from __future__ import annotations

from html import escape
from typing import Any

from colonnade.report.audit_section import audit_content, audit_picture
from colonnade.report.page import document

LEAD = "Attacks on what this side sent, each beside the same adversary without the messages."


def audit_page(audit: dict[str, Any], of: str) -> str:
    """One self-contained HTML page."""
    body = f"<section>{audit_content(audit, audit_picture(audit))}</section>"
    return document(f"Audit of {of}", f'<p class="lead">{escape(LEAD)}</p>', body)
