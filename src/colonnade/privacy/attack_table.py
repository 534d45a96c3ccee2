"""All attacks as a table in Markdown, for the page about audits: from the registry, so that it cannot be behind."""

from __future__ import annotations

from colonnade.privacy import attacks as _registered  # noqa: F401 - importing them puts them into the registry
from colonnade.privacy.attack import Attack, attacks

HEAD = ("Attack", "Secret", "The adversary", "Its control", "Told", "Citation")


def attack_table() -> str:
    """One row for every registered attack.

    >>> attack_table().splitlines()[0]
    '| Attack | Secret | The adversary | Its control | Told | Citation |'
    """
    rows = [HEAD, tuple("---" for _ in HEAD), *(_row(cls) for cls in attacks().values())]
    return "\n".join(f"| {' | '.join(cell.replace('|', '/') for cell in row)} |" for row in rows)


def _row(cls: type[Attack]) -> tuple[str, ...]:
    return cls.name, cls.secret, cls.adversary, cls.without, _told(cls), cls.citation


def _told(cls: type[Attack]) -> str:
    """How many rows' secrets the attack is given."""
    if not cls.rows_known:
        return "nothing"
    return f"{cls.rows_known} rows" + (" a class" if cls.secret == "labels" else "")
