"""Tables as CSV text."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from typing import Any


def csv_text(head: Sequence[str], rows: Iterable[Iterable[Any]]) -> str:
    """The rows below a line of names.

    >>> print(csv_text(["party", "bytes"], [("shop, mill", 12)]), end="")
    party,bytes
    "shop, mill",12
    """
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(head)
    writer.writerows(rows)
    return out.getvalue()
