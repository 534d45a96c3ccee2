"""The live view of a run on stderr, ``--live``: its progress, speed, score, and the bytes of every party.

On a terminal it is redrawn a few times a second; elsewhere every evaluation prints a line.
"""

from __future__ import annotations

import math
import os
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from colonnade.cli.progress import score_in
from colonnade.errors import printable
from colonnade.report.words import duration, metric, size

if TYPE_CHECKING:
    from colonnade.run.training import Run

BLOCKS, PLAIN = "▁▂▃▄▅▆▇█", ".:-=+*#%"
WITHOUT_BLOCKS = {"dumb", "linux", "unknown", "vt100", "vt220"}  # terminals whose font lacks block characters
NARROW = 60  # columns; on a narrower terminal, one fact per line
SPARK = 24  # columns
SIZES = 24  # columns for two sizes
PERIOD, SLOWEST = 0.25, 2.0  # least and most seconds between two drawings
SHARE = 0.01  # the largest share of the time for drawing, unless that would need longer pauses than SLOWEST
COUNTED = ("train", "setup")  # the purposes that the history counts, too

Clock = Callable[[], float]


@contextmanager
def live(label: str, console: Console, clock: Clock = time.perf_counter) -> Iterator[Callable[[Run], None]]:
    """The view of one run; the yielded function is to be called as ``on_round``."""
    if not console.is_terminal or console.is_dumb_terminal:
        yield LineView(console, clock)
        return
    view = LiveView(label, console, clock)
    try:
        yield view
    finally:
        view.stop()


class Speed:
    """Rounds per second over the last few calls."""

    def __init__(self) -> None:
        self._looks: deque[tuple[float, int]] = deque(maxlen=20)

    def __call__(self, now: float, round: int) -> float | None:
        """The present speed; None at the first call."""
        self._looks.append((now, round))
        then, before = self._looks[0]
        return (round - before) / (now - then) if now > then else None


class LiveView:
    """A picture on a terminal, redrawn from time to time; between drawings a round only reads the clock."""

    def __init__(self, label: str, console: Console, clock: Clock) -> None:
        self._label, self._console, self._clock = label, console, clock
        self._speed = Speed()
        self._due = -math.inf
        self._run: Run | None = None
        self._live = Live(console=console, auto_refresh=False)

    def __call__(self, run: Run) -> None:
        """Draw, if it is time to."""
        now = self._clock()
        if now < self._due:
            return
        self._run = run
        self._draw(now)
        after = self._clock()
        self._due = now + min(max(PERIOD, (after - now) / SHARE), SLOWEST)

    def stop(self) -> None:
        """Draw the last state and leave it on the terminal; nothing if there was no round."""
        if self._run is not None:
            self._draw(self._clock())
            self._live.stop()

    def _draw(self, now: float) -> None:
        assert self._run is not None
        self._live.start()
        drawn = picture(self._run, self._label, self._console, self._speed(now, self._run.round))
        self._live.update(drawn, refresh=True)


class LineView:
    """A line per evaluation, for files, pipes and terminals that cannot move the cursor."""

    def __init__(self, console: Console, clock: Clock) -> None:
        self._console, self._clock = console, clock
        self._speed = Speed()
        self._told: int | None = None

    def __call__(self, run: Run) -> None:
        """Print a line, if there is a new evaluation."""
        if self._told is None:
            self._told = sum(row["round"] < run.round for row in run.history)  # those before a resumed run began
            self._speed(self._clock(), run.round)
        if len(run.history) == self._told:
            return
        self._told = len(run.history)
        facts = "  ".join(facts_of(run, self._speed(self._clock(), run.round)))
        self._console.print(facts, highlight=False, markup=False, soft_wrap=True)


def picture(run: Run, label: str, console: Console, speed: float | None) -> RenderableType:
    """The whole view of a run, in the size of the terminal."""
    has_blocks = not console.options.ascii_only and os.environ.get("TERM", "").lower() not in WITHOUT_BLOCKS
    spark = sparkline(_scores(run), min(SPARK, console.width), BLOCKS if has_blocks else PLAIN)
    top = Table.grid(padding=(0, 1))
    bar = ProgressBar(total=run.settings.rounds, completed=run.round, width=min(SPARK, console.width))
    top.add_row(Text(printable(label), style="bold", no_wrap=True, overflow="crop"), bar)
    lines: list[RenderableType] = [top]
    lines += [Text(line, no_wrap=True, overflow="crop") for line in _packed(facts_of(run, speed), console.width)]
    if spark:
        lines.append(Text.assemble((spark, "cyan"), " ", run.task.score, no_wrap=True, overflow="crop"))
    return Group(*lines, _parties(run, max(1, console.height - len(lines) - 3), max(1, console.width - SIZES)))


def facts_of(run: Run, speed: float | None) -> list[str]:
    """Progress, speed, score and bytes; facts that are not known yet are left out."""
    facts = [f"{run.round:,}/{run.settings.rounds:,} rounds"]
    over = run.stopped or run.round >= run.settings.rounds
    if speed:
        facts += [f"{speed:.3g} rounds/s"]
        facts += [f"{duration((run.settings.rounds - run.round) / speed)} left"] if not over else []
    row, name = run.history[-1] if run.history else {}, run.task.score
    score = score_in(row, name)
    if score is not None:
        facts.append(f"{name} {metric(name, score)}")
    if "train_loss" in row:
        facts.append(f"loss {row['train_loss']:.4g}")
    return [*facts, size(sum(run.ledger.bytes_for(purpose) for purpose in COUNTED))]


def sparkline(values: Sequence[float], width: int, levels: str = BLOCKS) -> str:
    """Values as one line of characters; the last value is always shown.

    >>> sparkline([0, 1, 2, 3, 4, 5, 6, 7], 8)
    '▁▂▃▄▅▆▇█'
    >>> sparkline([0.2, 0.9, 0.7, 0.8], 2, ".:-=+*#%")
    '%.'
    """
    count = min(len(values), width)
    shown = [values[(number + 1) * len(values) // count - 1] for number in range(count)]
    if not shown:
        return ""
    low, span = min(shown), (max(shown) - min(shown)) or 1.0
    return "".join(levels[round((value - low) / span * (len(levels) - 1))] for value in shown)


def _packed(facts: Sequence[str], width: int) -> list[str]:
    """Lines with as many facts as fit; one per line on a narrow terminal."""
    lines = [facts[0]]
    for fact in facts[1:]:
        longer = f"{lines[-1]}   {fact}"
        if NARROW <= width >= len(longer):
            lines[-1] = longer
        else:
            lines.append(fact)
    return lines


def _scores(run: Run) -> list[float]:
    scores = (score_in(row, run.task.score) for row in run.history)
    return [score for score in scores if score is not None and math.isfinite(score)]


def _traffic(run: Run) -> list[tuple[str, int, int]]:
    """Each party's name, and the bytes that it sent and received in training."""
    sent, received = dict.fromkeys(run.parties.names, 0), dict.fromkeys(run.parties.names, 0)
    for line in run.ledger.rows:
        if line.purpose in COUNTED:
            for who, ways in ((line.sender, sent), (line.receiver, received)):
                if who in ways:
                    ways[who] += line.total
    return [(name, sent[name], received[name]) for name in run.parties.names]


def _parties(run: Run, room: int, widest: int) -> Table:
    """The bytes that each party sent and received; parties that do not fit share one line."""
    each = _traffic(run)
    if len(each) > room:
        rest = each[room - 1 :]
        each = [*each[: room - 1], (f"and {len(rest)} more", sum(r[1] for r in rest), sum(r[2] for r in rest))]
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("party", no_wrap=True, overflow="crop", max_width=widest)
    for way in ("sent", "received"):
        table.add_column(way, justify="right", no_wrap=True, overflow="crop")
    for name, out, into in each:
        table.add_row(Text(printable(name)), size(out), size(into))
    return table
