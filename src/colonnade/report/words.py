"""Numbers and facts in plain words, for the page and for the command line."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from rich.cells import cell_len, set_cell_size

from colonnade.core.disclosure import LABEL_SEALS
from colonnade.report.summary import RunView
from colonnade.runtime.disclosure_words import in_short
from colonnade.wire.ledger import Line


def size(count: float) -> str:
    """A number of bytes as text, in powers of a thousand.

    >>> size(812), size(49_398_516)
    ('812 B', '49.4 MB')
    """
    if count < 1000:
        return f"{count:.0f} B"
    for unit in ("kB", "MB"):
        count /= 1000
        if count < 999.95:
            return f"{count:.1f} {unit}"
    return f"{count / 1000:,.1f} GB"


def percent(share: float, digits: int = 1) -> str:
    """A share in per cent.

    >>> percent(0.96944), percent(0.95, 0)
    ('96.9 %', '95 %')
    """
    return f"{100 * share:.{digits}f} %"


def duration(seconds: float) -> str:
    """A number of seconds as text.

    >>> duration(7.26), duration(200), duration(7500)
    ('7.3 s', '3 min 20 s', '2 h 5 min')
    """
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def cut(text: str, most: int) -> str:
    """A text cut to a width of ``most`` characters; wide characters, such as Chinese ones, count twice.

    >>> cut("demography", 10), cut("demography", 6), cut("人口统计", 6)
    ('demography', 'demog…', '人口…')
    """
    return text if cell_len(text) <= most else set_cell_size(text, most - 1).rstrip() + "…"


def metric(name: str, value: float) -> str:
    """A metric as it is usually written.

    >>> metric("accuracy", 0.9694), metric("auc", 0.91234), metric("rmse", 1234.5678)
    ('96.9 %', '0.9123', '1,234.6')
    """
    if name == "accuracy":
        return percent(value)
    return f"{value:.4f}" if abs(value) < 100 else f"{value:,.1f}"


def metric_name(name: str) -> str:
    """A metric's name as a heading.

    >>> metric_name("accuracy"), metric_name("auc"), metric_name("micro_f1")
    ('Accuracy', 'AUC', 'Micro F1')
    """
    words = [word.upper() if len(word) <= 3 or word == "rmse" else word for word in name.split("_")]
    return " ".join([words[0][0].upper() + words[0][1:], *words[1:]])


def plain(value: Any) -> str:
    """An option's value without quotes and brackets.

    >>> plain([120, 60]), plain(True), plain(None)
    ('120, 60', 'yes', '-')
    """
    if value is None or isinstance(value, bool):
        return {None: "-", True: "yes", False: "no"}[value]
    if isinstance(value, list | tuple):
        return ", ".join(map(plain, value)) or "none"
    return str(value)


def join(names: Sequence[str]) -> str:
    """Names as one phrase.

    >>> join(["vafl", "fdml", "vimadmm"])
    'vafl, fdml and vimadmm'
    """
    return " and ".join([*filter(None, [", ".join(names[:-1])]), *names[-1:]])


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
