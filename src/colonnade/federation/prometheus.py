"""Counters and gauges of one side as Prometheus reads them, at ``/metrics`` of this machine's loopback address.

Nobody else can ask: who waits for whom, and how often, is between the parties. ``/healthz`` says whether all is well.
"""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus
from threading import Lock
from typing import NamedTuple

from colonnade.errors import ConfigError
from colonnade.report.local_server import LOOPBACK, HttpAnswer, LocalServer

PROMETHEUS = "text/plain; version=0.0.4"


class Family(NamedTuple):
    """A metric: what it counts, and by what."""

    name: str
    kind: str
    help: str
    labels: tuple[str, ...] = ()


ROUNDS = Family("colonnade_rounds_total", "counter", "Rounds done since this process started.")
ROUND = Family("colonnade_round", "gauge", "The present round.")
MESSAGES = Family("colonnade_messages_total", "counter", "Messages by peer and direction.", ("peer", "direction"))
BYTES = Family("colonnade_bytes_total", "counter", "Bytes of messages by peer and direction.", ("peer", "direction"))
WAITED = Family("colonnade_waited_seconds_total", "counter", "Seconds spent waiting for a peer.", ("peer",))
RECONNECTS = Family("colonnade_reconnects_total", "counter", "How often a peer came back.", ("peer",))
FAULTS = Family("colonnade_faults_total", "counter", "Faults by cause.", ("cause",))
UP = Family("colonnade_peer_up", "gauge", "1 if a peer is connected, 0 if it is absent.", ("peer",))
TURNED = Family(
    "colonnade_turned_away_total", "counter", "Connections that were cut before a party came over them.", ("cause",)
)
FAMILIES = (ROUNDS, ROUND, MESSAGES, BYTES, WAITED, RECONNECTS, FAULTS, UP, TURNED)


class Metrics:
    """The counters of one side; any thread may use them."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._values: dict[Family, dict[tuple[str, ...], float]] = {family: {} for family in FAMILIES}
        self._values[ROUNDS][()] = self._values[ROUND][()] = 0

    def round_done(self, round: int) -> None:
        """A round is done."""
        self._add(ROUNDS, 1)
        self._set(ROUND, round)

    def sent(self, to: str, size: int) -> None:
        """A message of so many bytes left."""
        self._passed(to, "sent", size)

    def received(self, by: str, size: int) -> None:
        """A message of so many bytes came; ``by`` is who sent it."""
        self._passed(by, "received", size)

    def waited(self, peer: str, seconds: float) -> None:
        """Add seconds that this side waited for a peer."""
        self._add(WAITED, seconds, peer)

    def reconnected(self, peer: str) -> None:
        """A peer that was absent is back."""
        self._add(RECONNECTS, 1, peer)
        self.up(peer)

    def fault(self, cause: str) -> None:
        """Something went wrong; causes are few, as those of :class:`colonnade.federation.exit_codes.Exit`."""
        self._add(FAULTS, 1, cause)

    def turned_away(self, cause: str) -> None:
        """A connection was cut over which no party came; causes are those of the owner's gate."""
        self._add(TURNED, 1, cause)

    def up(self, peer: str) -> None:
        """A peer is connected."""
        self._set(UP, 1, peer)

    def absent(self, peer: str) -> None:
        """A peer is not connected."""
        self._set(UP, 0, peer)

    def ails(self) -> str | None:
        """Who is absent, in a sentence; None if nobody is.

        >>> metrics = Metrics()
        >>> metrics.absent("shop")
        >>> metrics.ails()
        "'shop' is absent."
        """
        with self._lock:
            absent = [f"'{peer}'" for (peer,), up in self._values[UP].items() if not up]
        return f"{', '.join(absent)} {'is' if len(absent) == 1 else 'are'} absent." if absent else None

    def text(self) -> str:
        """All of it in the text format of Prometheus."""
        with self._lock:
            values = {family: dict(samples) for family, samples in self._values.items()}
        return "".join(_family_text(family, samples) for family, samples in values.items())

    def _passed(self, peer: str, direction: str, size: int) -> None:
        if not size >= 0:
            raise ConfigError(f"{size} came for {BYTES.name}, which only grows; give a number from 0.")
        labels, (messages, sizes) = (peer, direction), (self._values[MESSAGES], self._values[BYTES])
        with self._lock:
            messages[labels] = messages.get(labels, 0) + 1
            sizes[labels] = sizes.get(labels, 0) + size

    def _add(self, family: Family, amount: float, *labels: str) -> None:
        if not amount >= 0:
            raise ConfigError(f"{amount} came for {family.name}, which only grows; give a number from 0.")
        with self._lock:
            samples = self._values[family]
            samples[labels] = samples.get(labels, 0) + amount

    def _set(self, family: Family, value: float, *labels: str) -> None:
        with self._lock:
            self._values[family][labels] = value


class MetricsServer(LocalServer):
    """Serves ``/metrics`` and ``/healthz`` to this machine; ``ails`` gives a sentence if something is wrong."""

    def __init__(
        self, metrics: Metrics, port: int = 0, host: str = LOOPBACK, ails: Callable[[], str | None] = lambda: None
    ) -> None:
        if host != LOOPBACK:
            raise ConfigError(f"metrics at {host} came; they are served at {LOOPBACK} only, so use that or a tunnel.")
        self.metrics, self.ails = metrics, ails
        super().__init__(host, port)

    def answer(self, path: str) -> HttpAnswer:
        """The metrics, whether all is well, and nothing else."""
        if path == "/metrics":
            return HttpAnswer(PROMETHEUS, self.metrics.text())
        if path == "/healthz":
            trouble = self.ails()
            status = HTTPStatus.OK if trouble is None else HTTPStatus.SERVICE_UNAVAILABLE
            return HttpAnswer("text/plain", f"{trouble or 'ok'}\n", status)
        return HttpAnswer("text/plain", "There are only /metrics and /healthz here.\n", HTTPStatus.NOT_FOUND)


def _family_text(family: Family, samples: dict[tuple[str, ...], float]) -> str:
    lines = [f"# HELP {family.name} {_escaped(family.help)}", f"# TYPE {family.name} {family.kind}"]
    for values, number in samples.items():
        pairs = [f'{label}="{_escaped(value, quote=True)}"' for label, value in zip(family.labels, values, strict=True)]
        lines.append(f"{family.name}{'{' + ','.join(pairs) + '}' if pairs else ''} {number!r}")
    return "\n".join(lines) + "\n"


def _escaped(text: str, *, quote: bool = False) -> str:
    r"""As the format wants it: backslashes and line ends always, quotes in values of labels.

    >>> _escaped('a"b\\c\nd', quote=True)
    'a\\"b\\\\c\\nd'
    """
    text = text.replace("\\", "\\\\").replace("\n", "\\n")
    return text.replace('"', '\\"') if quote else text
