"""Notes in the log from which round on a party is absent from a run that goes on without it."""

from __future__ import annotations

import logging

from colonnade.run.training import Run

log = logging.getLogger(__name__)


class AbsenceNotice:
    """Logs, after every round of a run, which party has become absent and which one is back."""

    def __init__(self, run: Run) -> None:
        self._missed, self._absent = dict(run.missed), frozenset[str]()

    def look(self, run: Run) -> None:
        """Compare the absent parties with those of the round before."""
        absent = frozenset(name for name, rounds in run.missed.items() if rounds > self._missed[name])
        for name in sorted(absent - self._absent):
            what = "the run goes on without it" if run.took_part else "the round is left out"
            log.warning("'%s' is absent from round %d: %s", name, run.round, what)
        for name in sorted((self._absent - absent) & set(run.took_part)):
            log.info("'%s' takes part again from round %d", name, run.round)
        self._missed, self._absent = dict(run.missed), absent
