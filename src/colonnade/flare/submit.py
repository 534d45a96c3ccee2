"""Submit a job to FLARE and follow it; one that a fault ended is started again, and goes on from its checkpoints.

FLARE never starts a job's process at a site a second time. So the owner ends the job when a site is gone, and here we
wait for the site to be back and let FLARE clone the job: all sides find their checkpoints where they left them.
"""

from __future__ import annotations

import logging
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from colonnade.errors import AwayError, ColonnadeError, ConfigError, LinkError
from colonnade.federation.certificates import common_name
from colonnade.flare.job import check_installed
from colonnade.flare.outcome import Outcome, copy_results, read_outcome
from colonnade.flare.unable import text_of, unable

log = logging.getLogger(__name__)
LOOK = 1.0  # seconds between two questions to the server
TRIES = 3  # how often a job may be started again without having come any further
_KIT = ("startup/client.crt", "startup/fed_admin.json")  # the second one neither a site nor a server has
_WAITING, _ENDED, _ABORTED = ("SUBMITTED", "APPROVED"), "FINISHED:", "FINISHED:ABORTED"
_ERRORS = "ERRORLOG_"  # and the name of a site: its error log, which FLARE brings to the server


@contextmanager
def session(kit: Path) -> Iterator[Any]:
    """A session of FLARE's admin interface, as the user whose startup kit it is."""
    check_installed()
    from nvflare.fuel.flare_api.api_spec import NoConnection

    for name in _KIT:
        if not (kit / name).is_file():
            raise ConfigError(f"{kit} is no startup kit of a FLARE user: it has no {name}; give the user's own folder.")
    with _quiet():
        session = _new_session(kit)
        try:
            yield session
        except ColonnadeError:
            raise
        except NoConnection as error:
            raise LinkError(
                f"the FLARE server went away: {_words(error)}; start it and submit the job again, to go on from its "
                "newest checkpoint."
            ) from None
        except Exception as error:
            raise LinkError(f"the FLARE server refused: {_words(error)}.") from None
        finally:
            session.close()  # its threads would keep the process alive


def _new_session(kit: Path) -> Any:
    from nvflare.fuel.flare_api.flare_api import new_secure_session

    try:
        user = common_name((kit / _KIT[0]).read_bytes())
        return new_secure_session(username=user, startup_kit_location=str(kit))
    except Exception as error:
        raise LinkError(
            f"the FLARE server does not let us in: {_words(error)}; is it running, and is {kit} a kit of its own?"
        ) from None


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep FLARE's prints and logs out of our output; its errors come as exceptions."""
    logger = logging.getLogger("nvflare")
    before = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        logger.setLevel(before)


class Submission:
    """One job at a FLARE server, over as many clones as it takes."""

    def __init__(self, flare: Any, sites: Sequence[str], deadline: float, say: Callable[[str], None]) -> None:
        self.flare, self.sites, self.deadline, self.say = flare, list(sites), deadline, say

    def follow(self, job: Path, results: Path) -> Outcome:
        """Submit the job folder ``job``, wait for its end, and put its results into the folder ``results``."""
        self.wait_for_sites()
        number = self.flare.submit_job(str(job))
        self.say(f"FLARE has it as job {number}")
        reached, tries = -1, 0
        while True:
            outcome = self._end_of(number, results, cloned=reached >= 0)
            if outcome.state == "finished":
                return outcome
            tries = 0 if outcome.round > reached else tries + 1
            if not outcome.can_go_on or tries >= TRIES:
                raise outcome.failure()
            reached = max(reached, outcome.round)
            self.say(f"{outcome.error} Waiting for all sites, to go on from the newest checkpoint.")
            self.wait_for_sites(anew=True)
            number = self.flare.clone_job(number)
            self.say(f"FLARE has it again as job {number}")

    def wait_for_sites(self, *, anew: bool = False) -> None:
        """Wait until all sites are connected; with ``anew`` since now, because FLARE lists a dead site for a while."""
        until, before = time.monotonic() + self.deadline, self._heard_of() if anew else {}
        reported: list[str] = []
        while True:
            now = self._heard_of()
            missing = [site for site in self.sites if site not in now or now[site] == before.get(site)]
            if not missing:
                return
            who, others = "', '".join(missing), ", ".join(sorted(now.keys() - missing)) or "nobody"
            if time.monotonic() > until:
                raise AwayError(
                    f"no site '{who}' was connected to FLARE within {self.deadline:g} s, but {others}; start it, or "
                    "give the party the name of its site.",
                    missing[0],
                )
            if missing != reported:
                there = "back" if anew else "connected"
                self.say(f"waiting up to {self.deadline:g} s for site '{who}'; {there}: {others}")
                reported = missing
            time.sleep(LOOK)

    def _heard_of(self) -> dict[str, Any]:
        """When the server heard of each site last."""
        return {site.name: site.last_connect_time for site in self.flare.get_connected_client_list()}

    def _end_of(self, number: str, results: Path, *, cloned: bool) -> Outcome:
        """Wait for the end of one of FLARE's jobs, and for what the owner says of it."""
        try:
            status = self._last_status(number)
        except BaseException:
            with suppress(Exception):  # it may have ended by itself
                self.flare.abort_job(number)  # nobody would follow it any more
            raise
        outcome, why = self._fetch(number, results)
        if why:
            return Outcome("stopped", -1, why, "ConfigError")
        if outcome is None:
            why = (
                f"FLARE could not start job {number} ({status}{self._details(number)}); see docs/flare.md, Setting up."
            )
            return Outcome("away" if cloned else "stopped", -1, why, "LinkError")
        if outcome.state == "running" and status == _ABORTED:
            why = f"job {number} was aborted in FLARE; submit it again to go on."
            return Outcome("stopped", outcome.round, why, "LinkError")
        if outcome.state == "running":
            return Outcome(
                "running", outcome.round, f"FLARE ended job {number} ({status}); its sides' logs say why.", "LinkError"
            )
        return outcome

    def _last_status(self, number: str) -> str:
        began = time.monotonic()
        while not (status := str(self.flare.get_job_status(number))).startswith(_ENDED):
            if status in _WAITING and time.monotonic() - began > self.deadline:
                raise AwayError(f"FLARE did not start job {number} within {self.deadline:g} s; are all sites there?")
            time.sleep(LOOK)
        return status

    def _fetch(self, number: str, results: Path) -> tuple[Outcome | None, str]:
        """What the owner says of a job, and why a side could not even begin with it, if that is known."""
        with TemporaryDirectory() as draft:
            workspace = Path(self.flare.download_job_result(number, draft)) / "workspace"
            copy_results(workspace, results)
            outcome = read_outcome(workspace)
            if outcome is not None and outcome.state != "running":
                return outcome, ""
            return outcome, unable({"server": text_of(workspace / "error_log.txt"), **self._error_logs(number)})

    def _error_logs(self, number: str) -> dict[str, str]:
        """What sites logged as errors; nothing of a site that keeps its log to itself."""
        if not self.flare.list_job_components(number):
            return {}
        place = Path(self.flare.download_job_components(number))  # into the user's own kit
        try:
            return {file.name.removeprefix(_ERRORS): text_of(file) for file in sorted(place.glob(f"{_ERRORS}*"))}
        finally:
            shutil.rmtree(place, ignore_errors=True)

    def _details(self, number: str) -> str:
        details = self.flare.get_job_meta(number).get("job_deploy_detail") or []
        return "".join(f"; {detail}" for detail in details if not str(detail).endswith("OK"))


def _words(error: Exception) -> str:
    return " ".join(str(error).split())[:300] or type(error).__name__
