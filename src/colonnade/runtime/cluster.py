"""A Ray cluster of one organisation: what it is asked for, as plain data, and how this process joins it.

Everyone on a Ray cluster can run code on it, so it is no place for parties that do not trust each other.
"""

from __future__ import annotations

import importlib
import os
import socket
import ssl
from dataclasses import asdict, dataclass
from pathlib import Path
from textwrap import shorten
from typing import Any

from colonnade.core.options import number, whole
from colonnade.errors import ConfigError, LinkError, unknown

_TLS = {"cert": "RAY_TLS_SERVER_CERT", "key": "RAY_TLS_SERVER_KEY", "ca": "RAY_TLS_CA_CERT"}
INLINE = (
    "RAY_max_direct_call_object_size"  # larger messages go through the object store, which costs more than it saves
)
INLINE_BYTES = str(4 << 20)
STARTING = 5  # times the deadline: a process that starts has more to do than one that answers
LOADING = 120.0  # seconds that a start may take at least: PyTorch is loaded on a busy machine, whatever the deadline
_started: list[str] = []  # what this process started or joined, for its life


@dataclass(frozen=True)
class Cluster:
    """Where parties live with ``runtime="ray"``: without an address, in processes of this machine.

    ``address`` is that of an existing cluster ("auto" for one that ``ray start`` began here). ``cpus``, ``gpus`` and
    ``resources`` are what each process asks of a cluster's nodes (without ``gpus`` Ray hides all of them from it, and
    half a one is shared by two processes), ``group`` how many parties share one process, and
    ``nodes`` the ids, names or addresses of nodes that take processes in turn; without them they are spread.
    ``tls`` has the files "cert", "key" and "ca" of a cluster that asks for them. ``deadline`` is how many seconds an
    answer may take, and ``restarts`` how often in a run each process may be started again after it died.
    With ``secrets`` every side draws its weights and all that is random from a secret of its own, as in a federation,
    and not from the seed: such a run cannot be repeated, but resumed.

    >>> Cluster(group=25, resources={"big_memory": 1}).group
    25
    """

    address: str | None = None
    cpus: float = 1.0
    resources: dict[str, float] | None = None
    group: int = 1
    nodes: list[str] | None = None
    tls: dict[str, str] | None = None
    deadline: float = 60.0
    restarts: int = 10
    secrets: bool = False
    gpus: float = 0.0

    def __post_init__(self) -> None:
        for name, least in (("group", 1), ("restarts", 0)):
            if whole(getattr(self, name), f"Cluster: {name}") < least:
                raise ConfigError(f"Cluster: {name}={getattr(self, name)} is out of range; give {least} or more.")
        if not number(self.deadline, "Cluster: deadline") > 0:
            raise ConfigError(f"Cluster: deadline={self.deadline} is out of range; give seconds above 0.")
        for name, amount in {"cpus": self.cpus, "gpus": self.gpus, **(self.resources or {})}.items():
            if not number(amount, f"Cluster: {name}") >= 0:
                raise ConfigError(f"Cluster: {name}={amount} is out of range; give 0 or more.")
        if not isinstance(self.secrets, bool):
            raise ConfigError(f"Cluster: secrets={self.secrets!r} is out of range; give true or false.")
        if self.tls is not None and self.tls.keys() != _TLS.keys():
            raise ConfigError(f"Cluster: tls has {sorted(self.tls)}; it must name the files of {', '.join(_TLS)}.")

    def plain(self) -> dict[str, Any]:
        """What a run folder keeps, to be on the same cluster when the run is resumed."""
        return asdict(self)

    @property
    def start_deadline(self) -> float:
        """How many seconds a process may take until it is there."""
        return max(STARTING * self.deadline, LOADING)

    @property
    def is_here(self) -> bool:
        """Whether all processes are this machine's own, where none waits for a core."""
        return self.address is None and _started == [""]

    def join(self) -> Any:
        """The ``ray`` module, connected: to what this process is connected to already, or as the settings say."""
        os.environ.setdefault(INLINE, INLINE_BYTES)
        self._pass_tls()
        ray = load_ray()
        if ray.is_initialized():
            return ray
        check_reachable(self.address)
        quiet = {"log_to_driver": False, "logging_level": "error"}
        try:
            if self.address is None:
                ray.init(address="local", include_dashboard=False, **quiet)
            else:
                ray.init(address=self.address, **quiet)
        except Exception as error:  # Ray has a class of its own for almost every cause
            token = "" if "RAY_AUTH_MODE" in os.environ else " And is RAY_AUTH_MODE=token set here, if it wants one?"
            raise LinkError(
                f"the Ray cluster at {self.address or 'this machine'} cannot be had: {brief(error)}; is it up, with "
                f"the same versions of Ray and Python, and is the address its own?{token}"
            ) from None
        _started[:] = [self.address or ""]
        return ray

    def _pass_tls(self) -> None:
        for name, path in (self.tls or {}).items():
            if not Path(path).is_file():
                raise ConfigError(f"Cluster: tls names {path} as its {name}, and no such file is here.")
            os.environ[_TLS[name]] = str(Path(path).resolve())
        if self.tls:
            os.environ["RAY_USE_TLS"] = "1"

    def options(self, ray: Any, number: int) -> dict[str, Any]:
        """What Ray is told about the process of this number."""
        options: dict[str, Any] = {"num_cpus": 0 if self.is_here else self.cpus, "resources": self.resources}
        options |= {"scheduling_strategy": "SPREAD"} | ({"num_gpus": self.gpus} if self.gpus else {})
        node = self.node_of(number)
        if node is not None:
            affinity = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy
            options["scheduling_strategy"] = affinity(find_node(ray, node)["NodeID"], soft=False)
        if not self.is_here:  # others' nodes do not have this process's environment
            options["runtime_env"] = {"env_vars": {INLINE: INLINE_BYTES}}
        return options

    def node_of(self, number: int) -> str | None:
        """The node that the process of this number is for, as it was named; None for any."""
        return self.nodes[number % len(self.nodes)] if self.nodes else None

    def check_room(self, ray: Any, processes: int, cpus: float | None = None) -> None:
        """Refuse what the cluster, or a node that is named, does not have; Ray would wait for it for ever.

        ``cpus`` is what each process asks for, if it is not what parties ask for.
        """
        own = 0 if self.is_here else self.cpus
        asked = {"CPU": own if cpus is None else cpus, **({"GPU": self.gpus} if self.gpus else {})}
        asked |= self.resources or {}
        for where, many, there in self._places(ray, processes):
            for name, each in asked.items():
                if many * each > there.get(name, 0):
                    who = "a process asks" if many == 1 else f"{many} processes ask"
                    raise ConfigError(
                        f"{who} for {each:g} of {name} each, and {where} has {there.get(name, 0):g}; "
                        "put more parties into one process with group=, or ask for less."
                    )
        if not any(all(node["Resources"].get(name, 0) >= asked[name] for name in asked) for node in living(ray)):
            words = " and ".join(f"{each:g} of {name}" for name, each in asked.items())
            raise ConfigError(f"a process asks for {words}, and no node of the cluster has that; ask for less.")

    def _places(self, ray: Any, processes: int) -> list[tuple[str, int, dict[str, float]]]:
        """Where how many processes must fit, and what is there: each node that is named, or the cluster as a whole."""
        if not self.nodes:
            return [("the cluster", processes, ray.cluster_resources())]
        return [
            (f"'{name}'", len(range(k, processes, len(self.nodes))), find_node(ray, name)["Resources"])
            for k, name in enumerate(self.nodes)
        ]


def load_ray() -> Any:
    """The ``ray`` module."""
    try:
        importlib.import_module("ray.util.scheduling_strategies")
        return importlib.import_module("ray")
    except ImportError:
        raise ConfigError("runtime='ray' needs Ray installed; pip install 'colonnade[ray]'.") from None


def check_reachable(address: str | None) -> None:
    """Refuse an address at which nobody listens, or not in the way that we speak; Ray would try for minutes."""
    host, _, port = (address or "").rpartition(":")
    if address is not None and "://" in address:
        raise ConfigError(
            f"Cluster: address='{address}' is one of Ray Client, over which requests are slow; run on a node of the "
            "cluster and give its host:port, or 'auto'."
        )
    if not host or not port.isdigit():  # "auto"
        return
    try:
        socket.create_connection((host, int(port)), timeout=10).close()
    except (OSError, OverflowError) as error:
        raise LinkError(
            f"no Ray cluster answers at {address}: {error}; is it up, and is the address its own?"
        ) from None
    wanted = os.environ.get("RAY_USE_TLS", "").lower() in ("1", "true")
    if speaks_tls(host, int(port)) != wanted:
        said = "has no TLS; leave out tls=" if wanted else "wants TLS; give its files as tls="
        raise ConfigError(f"the Ray cluster at {address} {said}, or start it otherwise.")


def speaks_tls(host: str, port: int) -> bool:
    """Whether a server shakes hands for TLS; whose it is does not matter yet, and it is sent nothing."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        with socket.create_connection((host, port), timeout=10) as plain, context.wrap_socket(plain):
            return True
    except OSError:
        return False


def living(ray: Any) -> list[dict[str, Any]]:
    """The nodes of the cluster that are up."""
    return [node for node in ray.nodes() if node["Alive"]]


def find_node(ray: Any, wanted: str) -> dict[str, Any]:
    """The living node that goes by this id, name or address."""
    alive = living(ray)
    for node in alive:
        if wanted in (node["NodeID"], node.get("NodeName"), node["NodeManagerAddress"], node["NodeManagerHostname"]):
            return node
    raise unknown("node of the cluster", wanted, [node.get("NodeName") or node["NodeID"] for node in alive])


def brief(error: BaseException) -> str:
    """What one of Ray's long errors says in the end."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return shorten(lines[-1] if lines else type(error).__name__, 200, placeholder=" ...").rstrip(".")
