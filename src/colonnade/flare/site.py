"""What a FLARE site runs in a job's process: one party. Needs nvflare; FLARE imports it by name."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

from nvflare.apis.event_type import EventType
from nvflare.apis.executor import Executor
from nvflare.apis.fl_constant import ReturnCode
from nvflare.apis.shareable import Shareable, make_reply

from colonnade.errors import ColonnadeError, ConfigError
from colonnade.federation.party_process import PartyProcess
from colonnade.federation.side_files import read_party_file
from colonnade.federation.side_sections import PartyFile
from colonnade.flare.flare_fields import OK, fields_in, shareable_of
from colonnade.flare.site_connection import ANSWER, ASK, HERE, KNOCK, SiteConnection, told_of
from colonnade.runtime.remote.request_server import refused_request
from colonnade.runtime.setup import threads

log = logging.getLogger(__name__)


class Site(Executor):  # type: ignore[misc]  # nvflare has no types
    """Serves what the site's operator allows in ``local/colonnade/party.toml``; a job can name no other file."""

    def __init__(self) -> None:
        super().__init__()
        self._name, self._local, self._folder = "", Path(), Path()
        self._party: PartyProcess | None = None
        self._connection = SiteConnection(self._serve)

    def handle_event(self, event_type: str, fl_ctx: Any) -> None:
        """Take requests when the run starts, and note it if it ends before the job does."""
        if event_type == EventType.START_RUN:
            engine = fl_ctx.get_engine()
            workspace = engine.get_workspace()
            self._name = fl_ctx.get_identity_name()
            self._local, root = Path(workspace.get_site_config_dir()), Path(workspace.get_root_dir())
            self._folder = root / "colonnade"
            engine.register_aux_message_handler(KNOCK, self._knocked)
            engine.register_aux_message_handler(ASK, self._asked)
        elif event_type == EventType.END_RUN:
            self._connection.close()
            if self._party is not None and not self._party.session.ended:
                self._party.stop("FLARE ended the job.")

    def execute(self, task_name: str, shareable: Shareable, fl_ctx: Any, abort_signal: Any) -> Shareable:
        """No task is ever given; FLARE wants an executor that could take one."""
        return make_reply(ReturnCode.TASK_UNKNOWN)

    def _knocked(self, topic: str, request: Shareable, fl_ctx: Any) -> Shareable:
        here = self._connection.knocked(fields_in(request))
        if here is not None:
            fl_ctx.get_engine().fire_and_forget_aux_request(HERE, shareable_of(here), fl_ctx, optional=True)
        return make_reply(OK)

    def _asked(self, topic: str, request: Shareable, fl_ctx: Any) -> Shareable:
        answer = self._connection.asked(fields_in(request))
        if answer is not None:
            fl_ctx.get_engine().fire_and_forget_aux_request(ANSWER, shareable_of(answer), fl_ctx)
        return make_reply(OK)

    def _serve(self, request: bytes) -> bytes:
        """The reply to a request. An error becomes a reply too, because FLARE would tell nobody of it."""
        try:
            with threads(1):
                if self._party is None:
                    self._party = PartyProcess(party_file_of(self._local, self._name), self._folder)
                reply = self._party.answer(request)
                if self._party.session.ended:
                    self._party.finish()
            return reply
        except Exception as error:
            # as a warning, since FLARE brings what is logged as an error to the server, with all that stands in it
            log.warning("a request was refused: %s", error, exc_info=not isinstance(error, ColonnadeError))
            reason = told_of(error, self._name)
            if self._party is None:
                return refused_request(request, self._name, reason)
            return self._party.refuse(request, reason)


def party_file_of(local: Path, site: str) -> PartyFile:
    """What the site's operator allows."""
    place = local / "colonnade" / "party.toml"
    if not place.is_file():
        raise ConfigError(f"'{site}' has no {place}; its operator puts its PARTY.toml there, or a link to it.")
    party_file = read_party_file(place.resolve(), tls=False)
    if party_file.party.name != site:
        raise ConfigError(
            f"'{site}' is the site of a party that is named '{party_file.party.name}' in its PARTY.toml; "
            f"name it '{site}'."
        )
    return party_file
