"""``audit.json`` in a run folder: what an audit found, for the report; it is the auditing side's own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from colonnade.disk.json_form import NUMBER, TEXT, Form, first_wrong
from colonnade.disk.small_files import read_json
from colonnade.disk.whole_files import write_text
from colonnade.errors import CheckpointError
from colonnade.privacy.audit_result import Audit

AUDIT_FILE = "audit.json"
_ADVANTAGE: Form = {
    "metric": TEXT,
    **dict.fromkeys(("attack", "attack_low", "attack_high", "control", "value", "low", "high", "rows"), NUMBER),
}
_ATTEMPT: Form = {"attack": TEXT, "word": TEXT, "why": TEXT, "advantage": (_ADVANTAGE, None)}
_VERDICT: Form = {
    **dict.fromkeys(("adversary", "of", "secret", "word", "declared", "sentence", "by"), TEXT),
    "attempts": [_ATTEMPT],
}
_AUDIT: Form = {
    **dict.fromkeys(("worst", "assumed", "not_tried"), TEXT),
    "verdicts": [_VERDICT],
    "epsilon": [{"sentence": TEXT}],
    "undeclared": [TEXT],
}


def write_audit(found: Audit, folder: Path) -> Path:
    """Write what an audit found into the run folder."""
    write_text(folder / AUDIT_FILE, json.dumps(found.to_json(), indent=2), private=True)
    return folder / AUDIT_FILE


def read_audit(folder: Path) -> dict[str, Any]:
    """What an audit of this run found, as plain data; empty if there was none."""
    place = folder / AUDIT_FILE
    if not place.exists():
        return {}
    try:
        audit = read_json(place)
    except (OSError, ValueError):
        audit = None
    wrong = first_wrong(audit, _AUDIT)
    if wrong is not None or not isinstance(audit, dict):
        raise CheckpointError(f"{place} holds no audit: {wrong or 'it cannot be read'}; delete it, or audit again.")
    return audit
