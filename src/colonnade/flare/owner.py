"""What the FLARE server runs in a job's process: the owner. Needs nvflare; FLARE imports it by name."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from nvflare.apis.impl.controller import Controller
from nvflare.apis.shareable import Shareable, make_reply

from colonnade.errors import ColonnadeError, ConfigError, ManifestError
from colonnade.federation.extended_job import job_terms
from colonnade.federation.owner_process import OwnerProcess
from colonnade.federation.side_files import read_owner_file
from colonnade.federation.side_sections import OwnerFile
from colonnade.federation.terms import digest
from colonnade.flare.flare_fields import OK, fields_in, shareable_of
from colonnade.flare.outcome import Outcome, copy_results, stopped_by
from colonnade.flare.owner_connections import FlareListener
from colonnade.flare.site_connection import TO_OWNER, Fields
from colonnade.report.summary import RunView


class Owner(Controller):  # type: ignore[misc]  # nvflare has no types
    """Leads the job that the server's operator put into ``local/colonnade``; its states outlive FLARE's job."""

    def __init__(self, job_name: str, job_terms: str) -> None:
        """``job_terms`` is the digest of the terms that were submitted, so that no other file is taken for them."""
        super().__init__()
        self.job_name, self.job_terms = job_name, job_terms

    def start_controller(self, fl_ctx: Any) -> None:
        """Nothing: all is done in the flow."""

    def stop_controller(self, fl_ctx: Any) -> None:
        """Nothing: the flow ends by itself."""

    def control_flow(self, abort_signal: Any, fl_ctx: Any) -> None:
        """The whole job; whatever ends it is written among FLARE's results."""
        engine = fl_ctx.get_engine()
        workspace = engine.get_workspace()
        run, root = Path(workspace.get_run_dir(fl_ctx.get_job_id())), Path(workspace.get_root_dir())
        since = 0
        try:
            job_file = job_file_of(Path(workspace.get_site_config_dir()), self.job_name, self.job_terms)
            folder = root / "colonnade" / f"{job_file.job.name}-{self.job_terms[:8]}"
            since = newest_round(folder)
            Outcome("running", since).write(run)
            listener = listen(engine, list(job_file.others), abort_signal)
            Outcome("finished", since, result=_lead(job_file, folder, listener)).write(run)
            copy_results(folder, run)
        except ColonnadeError as error:
            if abort_signal.triggered:
                return
            stopped_by(error, since).write(run)
            self.system_panic(str(error), fl_ctx)
        except Exception as error:
            Outcome("stopped", since, f"the owner failed: {type(error).__name__}: {error}; see the log.").write(run)
            raise


def listen(engine: Any, names: list[str], abort_signal: Any) -> FlareListener:
    """Connections to the sites over the one-way messages of FLARE's engine."""

    def fire(site: str, topic: str, fields: Fields) -> None:
        with engine.new_context() as context:
            engine.fire_and_forget_aux_request([site], topic, shareable_of(fields), context, optional=True)

    def heard(topic: str, request: Shareable, fl_ctx: Any) -> Shareable:
        listener.heard(topic, fields_in(request))
        return make_reply(OK)

    listener = FlareListener(names, fire, lambda: bool(abort_signal.triggered))
    for topic in TO_OWNER:
        engine.register_aux_message_handler(topic, heard)
    return listener


def job_file_of(local: Path, name: str, terms: str) -> OwnerFile:
    """The job that the server's operator allows under this name, if it is the one that was submitted."""
    if not re.fullmatch(r"[\w.-]+", name):
        raise ConfigError(f"a job is named {name!r:.60}; letters, digits, '.', '_' and '-' were expected.")
    place = local / "colonnade" / f"{name}.toml"
    if not place.is_file():
        raise ConfigError(f"the FLARE server has no {place}; put the job file there, or a link to it.")
    job_file = read_owner_file(place.resolve(), tls=False)
    if digest(job_terms(job_file)).hex() != terms:
        raise ManifestError(f"{place} is not the job that was submitted; submit it again from this very file.")
    return job_file


def newest_round(folder: Path) -> int:
    """From which round a job in this folder goes on."""
    return max(
        (int(checkpoint.name) for checkpoint in folder.glob("checkpoints/*") if checkpoint.name.isdigit()), default=0
    )


def _lead(job_file: OwnerFile, folder: Path, listener: FlareListener) -> dict[str, Any]:
    host = OwnerProcess(job_file, folder, listener=listener)
    try:
        summary = host.finished()
        if summary is None:
            host.gather()
            summary = host.train().summary()
        return RunView(summary).result
    finally:
        host.close()
