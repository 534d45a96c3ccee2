"""What FLARE runs for ``benchmarks.flare``: rounds over our link and over its bare call. Needs nvflare."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from queue import SimpleQueue
from statistics import median
from typing import Any

from nvflare.apis.event_type import EventType
from nvflare.apis.executor import Executor
from nvflare.apis.fl_constant import ReturnCode
from nvflare.apis.impl.controller import Controller
from nvflare.apis.shareable import Shareable, make_reply
from nvflare.job_config.api import FedJob

from benchmarks.poc import ADMIN, Poc
from colonnade.flare.flare_fields import fields_in, shareable_of
from colonnade.flare.owner import listen
from colonnade.flare.site_connection import ANSWER, ASK, HERE, KNOCK, SiteConnection
from colonnade.flare.submit import session
from colonnade.runtime.remote.packet import Packet, read_packet, write_packet

DOWN, UP = bytes(80_000), bytes(230_000)
BARE, BACK = "bare.down", "bare.up"
TURN = 10
WAIT = 120.0


class Echo(Executor):  # type: ignore[misc]  # nvflare has no types
    """A site that answers 0.23 MB to whatever is asked, over either way."""

    def handle_event(self, event_type: str, fl_ctx: Any) -> None:
        if event_type == EventType.START_RUN:
            self.engine, self.connection = fl_ctx.get_engine(), SiteConnection(self.serve)
            for topic, handler in ((KNOCK, self.knocked), (ASK, self.asked), (BARE, self.bare)):
                self.engine.register_aux_message_handler(topic, handler)

    def execute(self, task_name: str, shareable: Shareable, fl_ctx: Any, abort_signal: Any) -> Shareable:
        return make_reply(ReturnCode.TASK_UNKNOWN)

    def serve(self, request: bytes) -> bytes:
        return write_packet(read_packet(request).reply("answer", "site", UP))

    def knocked(self, topic: str, request: Shareable, fl_ctx: Any) -> Shareable:
        return self.back(HERE, shareable_of(self.connection.knocked(fields_in(request)) or {}), fl_ctx)

    def asked(self, topic: str, request: Shareable, fl_ctx: Any) -> Shareable:
        return self.back(ANSWER, shareable_of(self.connection.asked(fields_in(request)) or {}), fl_ctx)

    def bare(self, topic: str, request: Shareable, fl_ctx: Any) -> Shareable:
        return self.back(BACK, Shareable({"up": UP}), fl_ctx)

    def back(self, topic: str, answer: Shareable, fl_ctx: Any) -> Shareable:
        self.engine.fire_and_forget_aux_request(topic, answer, fl_ctx)
        return make_reply(ReturnCode.OK)


class Timer(Controller):  # type: ignore[misc]  # nvflare has no types
    """The owner's side of all rounds."""

    def __init__(self, sites: list[str], rounds: int) -> None:
        super().__init__()
        self.sites, self.rounds = sites, rounds

    def start_controller(self, fl_ctx: Any) -> None:
        pass

    def stop_controller(self, fl_ctx: Any) -> None:
        pass

    def control_flow(self, abort_signal: Any, fl_ctx: Any) -> None:
        engine = fl_ctx.get_engine()
        came: SimpleQueue[bytes] = SimpleQueue()
        listener = listen(engine, self.sites, abort_signal)
        numbers = {site: listener.wait(site, WAIT) for site in self.sites}

        def taken(topic: str, request: Shareable, fl_ctx: Any) -> Shareable:
            came.put(request["up"])
            return make_reply(ReturnCode.OK)

        engine.register_aux_message_handler(BACK, taken)

        def bare() -> None:
            for site in self.sites:
                engine.fire_and_forget_aux_request([site], BARE, Shareable({"down": DOWN}), fl_ctx)
            assert all(len(came.get(timeout=WAIT)) == len(UP) for _ in self.sites)

        def ours() -> None:
            for site in self.sites:
                listener.send(site, numbers[site], write_packet(Packet("step", step="embed", frames=(DOWN,))))
            for site in self.sites:
                packet = read_packet(listener.receive(site, numbers[site], WAIT))
                assert len(packet.frames[0]) == len(UP)

        found = timed_in_turns({"ours": ours, "bare": bare}, self.rounds)
        run = Path(engine.get_workspace().get_run_dir(fl_ctx.get_job_id()))
        (run / "speed.json").write_text(json.dumps(found))


def timed_in_turns(ways: dict[str, Callable[[], None]], rounds: int) -> dict[str, float]:
    """The median of each way's milliseconds; the first turn of each is for warming up."""
    took: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds // TURN + 1):
        for name, way in ways.items():
            for _ in range(TURN):
                began = time.perf_counter()
                way()
                took[name].append((time.perf_counter() - began) * 1e3)
    return {name: median(times[TURN:]) for name, times in took.items()}


def timed(poc: Poc, folder: Path, rounds: int) -> tuple[float, float]:
    """Milliseconds of a round over our link, and over the bare call."""
    job = FedJob(name="speed", min_clients=len(poc.sites), mandatory_clients=poc.sites)
    job.set_app_packages(["benchmarks", "colonnade"])
    job.to_server(Timer(sites=poc.sites, rounds=rounds), id="timer")
    for site in poc.sites:
        job.to(Echo(), site, tasks=["*"])
    job.export_job(str(folder / "jobs"))
    with session(poc.kit(ADMIN)) as server:
        number = server.submit_job(str(folder / "jobs" / "speed"))
        server.wait_for_job(number, timeout=900.0, poll_interval=1.0)
        found = Path(server.download_job_result(number, str(folder / "speed"))) / "workspace" / "speed.json"
        took = json.loads(found.read_text())
    return took["ours"], took["bare"]
