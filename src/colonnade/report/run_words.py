"""What a run's messages held and show, in sentences, for the page and for the command line."""

from __future__ import annotations

from collections.abc import Iterable

from colonnade.core.disclosure import LABEL_SEALS
from colonnade.report.summary import RunView
from colonnade.report.words import join, percent, size
from colonnade.runtime.disclosure_words import in_short
from colonnade.wire.ledger import Line


def what_left(run: RunView) -> str:
    """Who sent what in training, and how much of it."""
    method = run.known_method
    if not run.ledger.rows:
        return "Nothing left any house."
    theirs, mine = (method.party_sends, method.owner_sends) if method else ("replies", "messages")
    theirs += _blinding(run)
    return f"The parties sent {theirs}: {size(run.sent(False))}; the owner sent {mine}: {size(run.sent(True))}."


def _blinding(run: RunView) -> str:
    """Which of the parties' messages of training the owner read only as a sum; empty if that is not known."""
    lines = [line for line in run.ledger.rows if line.purpose == "train" and not run.is_owner(line.sender)]
    if not run.sealed("blind") or any(line.summed is None for line in lines):
        return ""
    summed = _steps(line for line in lines if line.summed)
    singly = _steps(line for line in lines if not line.summed)
    if not summed or not singly:
        return ", blinded so that the owner reads only their sum" if summed else ""
    return f"; the owner reads only the blinded sum of step {summed}, and every party's own reply to step {singly}"


def _steps(lines: Iterable[Line]) -> str:
    """The steps of these lines; "embed: mask" is a part of the protocol that sums the replies to "embed"."""
    return join(list(dict.fromkeys(line.step.partition(": ")[0] for line in lines)))


def what_dates_told(run: RunView) -> list[str]:
    """What a split by date told the parties, in one sentence; none of a run without such a split."""
    if not run.split:
        return []
    column, after = run.split["column"], run.split["after"]
    also = " or is missing" if run.split.get("missing") == "leave out" else ""
    told = f"whether its date (column {column}) is {after} or later{also}"
    return [f"The owner told every party of each common row {told}, so that all test on the same rows."]


def what_shows(run: RunView) -> str:
    """What a curious side could make of the run's messages, at worst."""
    method = run.chosen_method
    if method is None:
        return f"The method {run.method} is not known here, so nobody can say what its messages show."
    if not run.ledger.rows:
        return "No message, so nothing to read."
    return in_short(method, run.situation) + "".join(_label_noise(run))


def _label_noise(run: RunView) -> list[str]:
    """The privacy parameter of each label seal."""
    seals = [entry for entry in run.seals if entry.get("kind") in LABEL_SEALS]
    return [f" The labels' noise was drawn once, with epsilon {entry.get('epsilon')}." for entry in seals]


def what_seals_did(run: RunView) -> list[str]:
    """Sentences about the share of values that were clipped, and about each party's privacy budget."""
    cut = {who: share for who, share in run.clipped.items() if share > 0}
    clipped = (
        [f"Scales clipped {', '.join(f'{percent(s, 2)} of what {w} sent' for w, s in cut.items())}."] if cut else []
    )
    return clipped + [
        f"{name} released {budget['releases']} times per {budget['unit']} with noise and spent epsilon "
        f"{budget['spent']:.2f} of {budget['granted']:g} at delta {budget['delta']:g}; this covers {budget['covers']}."
        for name, budget in run.privacy.items()
    ]
