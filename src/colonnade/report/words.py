"""Numbers and options in plain words, for pages and for the command line, which loads them without PyTorch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.cells import cell_len, set_cell_size


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
