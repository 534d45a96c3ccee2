"""NVIDIA FLARE in its proof-of-concept mode: provisioned, started and killed here, for tests and benchmarks.

Every service is started by the script of its own startup kit (``sub_start.sh --once``), so its processes are ours to
end, and its port is a free one.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

SERVER, ADMIN = "server", "admin@nvidia.com"
ALLOWED = {SERVER: ["colonnade.flare.owner.Owner"], "site": ["colonnade.flare.site.Site"]}
_GONE = suppress(FileNotFoundError, ProcessLookupError)  # a process that ended meanwhile


class Poc:
    """A FLARE system of one server and some sites in a folder of its own."""

    def __init__(self, folder: Path, sites: Sequence[str], path: Sequence[Path] = ()) -> None:
        """``path`` is where the processes find what they import, before all else."""
        self.folder, self.sites = folder, list(sites)
        self.env = {
            **os.environ,
            "HOME": str(folder / "home"),
            "NVFLARE_POC_WORKSPACE": str(folder / "poc"),
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
            "PYTHONPATH": os.pathsep.join([*map(str, path), *filter(None, [os.environ.get("PYTHONPATH")])]),
            "OMP_NUM_THREADS": "1",
        }
        self._started: dict[str, subprocess.Popen[bytes]] = {}
        self._ports = _free_ports(2)

    def kit(self, name: str) -> Path:
        """The startup kit of a side, which is its workspace too."""
        return self.folder / "poc" / "example_project" / "prod_00" / name

    def prepare(self) -> None:
        """Provision everybody."""
        (self.folder / "home").mkdir(parents=True, exist_ok=True)
        project = self.folder / "project.yml"
        project.write_text(json.dumps(_project(self.sites, *self._ports)))  # JSON is YAML
        command = [sys.executable, "-m", "nvflare.cli", "poc", "prepare", "-i", str(project), "--force"]
        subprocess.run(command, env=self.env, check=True, stdout=subprocess.DEVNULL, timeout=120)

    def allow(self, name: str, *classes: str) -> None:
        """What an operator does once: name our class in ``local/resources.json``."""
        local = self.kit(name) / "local"
        # every server of a machine would keep its jobs in one folder, and take up what another one was asked for
        default = (local / "resources.json.default").read_text()
        found = json.loads(default.replace('"/tmp/nvflare/', f'"{self.folder}/'))
        found["class_allow_list"] += [*ALLOWED.get(name, ALLOWED["site"]), *classes]
        (local / "resources.json").write_text(json.dumps(found, indent=2))

    def place(self, name: str, side_file: Path) -> None:
        """What an operator does for a job: link its JOB.toml or PARTY.toml into ``local/colonnade``."""
        place = self.kit(name) / "local" / "colonnade"
        place.mkdir(exist_ok=True)
        (place / side_file.name).symlink_to(side_file.resolve())

    def start(self, name: str) -> None:
        """Start a side's service."""
        with (self.folder / f"{name}.log").open("ab") as log:
            self._started[name] = subprocess.Popen(
                ["bash", str(self.kit(name) / "startup" / "sub_start.sh"), "--once"],
                env=self.env,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def kill(self, name: str) -> None:
        """End a side's service and its jobs' processes at once, as a power cut would."""
        for pid in self.processes(name):
            with _GONE:
                os.kill(pid, signal.SIGKILL)
        self._started.pop(name).wait(30)

    def kill_jobs(self, name: str) -> None:
        """End the processes of a side's jobs alone."""
        for pid in self.processes(name, "nvflare.private.fed.app.client.worker_process"):
            with _GONE:
                os.kill(pid, signal.SIGKILL)

    def processes(self, name: str, module: str = "") -> list[int]:
        """The numbers of a side's processes; of those that run ``module``, if it is given."""
        mine = {word.encode() for word in (str(self.kit(name)), module) if word}
        found = []
        for place in Path("/proc").glob("[0-9]*/cmdline"):
            with _GONE:
                if mine <= set(place.read_bytes().split(b"\0")):
                    found.append(int(place.parent.name))
        return sorted(found)

    @contextmanager
    def running(self) -> Iterator[Poc]:
        """All services, from when the server listens to their end."""
        try:
            for name in (SERVER, *self.sites):
                self.start(name)
            self._wait_for_server(180.0)
            yield self
        finally:
            for name in [*self._started]:
                self.kill(name)

    def _wait_for_server(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            with suppress(OSError), socket.create_connection(("localhost", self._ports[0]), timeout=1.0):
                return
            time.sleep(0.1)
        raise TimeoutError(f"the FLARE server did not listen within {seconds:g} s; see {self.folder / SERVER}.log")

    def wait_for(self, place: str, seconds: float) -> Path:
        """Wait until a file with this pattern is in the folder of the kits."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            found = sorted(self.kit(SERVER).parent.glob(place))
            if found:
                return found[-1]
            time.sleep(0.05)
        raise TimeoutError(f"no {place} within {seconds:g} s")


def _free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()


def _project(sites: Sequence[str], port: int, admin: int) -> dict[str, object]:
    impl = "nvflare.lighter.impl"
    return {
        "api_version": 3,
        "name": "example_project",
        "description": "a trial of Colonnade",
        "participants": [
            {
                "name": SERVER,
                "type": "server",
                "org": "nvidia",
                "fed_learn_port": port,
                "admin_port": admin,
                "default_host": "localhost",
            },
            {"name": ADMIN, "type": "admin", "org": "nvidia", "role": "project_admin"},
            *({"name": site, "type": "client", "org": "nvidia"} for site in sites),
        ],
        "builders": [
            {"path": f"{impl}.workspace.WorkspaceBuilder", "args": {"template_file": ["master_template.yml"]}},
            {"path": f"{impl}.static_file.StaticFileBuilder", "args": {"config_folder": "config"}},
            {"path": f"{impl}.cert.CertBuilder"},
            {"path": f"{impl}.signature.SignatureBuilder"},
        ],
    }
