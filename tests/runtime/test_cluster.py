"""What a cluster is asked for: checked without one, so that every machine can say what is wrong."""

import json
import socket
import ssl
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from test_contract import Case, federation, train
from typer.testing import CliRunner

import colonnade as cn
from colonnade.cli import app
from colonnade.errors import AwayError, ConfigError, LinkError
from colonnade.federation.certificates import make_keys
from colonnade.jobs.job_file import read_job
from colonnade.jobs.run_job import train_job
from colonnade.runtime.cluster import check_reachable
from colonnade.runtime.setup import plain_runtime

JOB = """
[data]
load = "digits"
parties = 2
[train]
runtime = "ray"
[cluster]
group = 2
deadline = 5
nodes = ["one", "two"]
"""


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"group": 0}, "group=0 is out of range"),
        ({"group": 1.5}, "group=1.5 is not a whole number"),
        ({"deadline": 0}, "deadline=0 is out of range"),
        ({"cpus": -1}, "cpus=-1 is out of range"),
        ({"resources": {"gpu": "many"}}, "gpu='many' is not a number"),
        ({"restarts": -1}, "restarts=-1 is out of range"),
        ({"tls": {"cert": "a"}}, "cert, key, ca"),
    ],
)
def test_what_is_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        cn.Cluster(**options)


def test_tls_files_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such file"):
        cn.Cluster(tls={name: str(tmp_path / name) for name in ("cert", "key", "ca")}).join()


def test_without_ray_one_sentence_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.setitem(sys.modules, "ray.util.scheduling_strategies", None)
    with pytest.raises(ConfigError, match=r"pip install 'colonnade\[ray\]'"):
        train(Case(cn.FDML()), "ray", rounds=1)


class TwoNodes:
    """As much of Ray as knows what nodes have."""

    def nodes(self) -> list[dict[str, Any]]:
        known = {"NodeManagerAddress": "10.0.0.5", "NodeManagerHostname": "host", "Alive": True}
        return [
            {**known, "NodeID": "a", "NodeName": "one", "Resources": {"CPU": 2.0, "box": 1.0}},
            {**known, "NodeID": "b", "NodeName": "two", "Resources": {"CPU": 3.0}},
            {**known, "NodeID": "c", "NodeName": "gone", "Resources": {"CPU": 99.0}, "Alive": False},
        ]

    def cluster_resources(self) -> dict[str, float]:
        return {"CPU": 5.0, "box": 1.0}


@pytest.mark.parametrize(
    ("asked", "processes", "said"),
    [
        ({"cpus": 1.5}, 4, "4 processes ask for 1.5 of CPU each, and the cluster has 5"),
        ({"cpus": 4}, 1, "a process asks for 4 of CPU, and no node of the cluster has that"),
        ({"cpus": 3, "resources": {"box": 1}}, 1, "asks for 3 of CPU and 1 of box, and no node of the cluster has"),
        ({"nodes": ["one"]}, 3, "3 processes ask for 1 of CPU each, and 'one' has 2"),
        ({"nodes": ["one", "two"], "cpus": 1.5}, 3, "2 processes ask for 1.5 of CPU each, and 'one' has 2"),
        ({"nodes": ["mars"]}, 1, "unknown node of the cluster 'mars'; known: one, two"),
        ({"nodes": ["gone"]}, 1, "unknown node of the cluster 'gone'"),
    ],
)
def test_what_would_wait_for_ever_is_refused(asked: dict[str, Any], processes: int, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        cn.Cluster(address="auto", **asked).check_room(TwoNodes(), processes)


def test_what_fits_is_let_in() -> None:
    cn.Cluster(address="auto", nodes=["one", "two"]).check_room(TwoNodes(), 4)
    cn.Cluster(address="auto").check_room(TwoNodes(), 5)


def test_a_cluster_that_wants_a_token_is_one_thing_to_look_at(monkeypatch: pytest.MonkeyPatch) -> None:
    class Closed:
        def is_initialized(self) -> bool:
            return False

        def init(self, **how: Any) -> None:
            raise ConnectionError("no.\nFailed to connect " + "x" * 999)

    monkeypatch.setattr("colonnade.runtime.cluster.load_ray", Closed)
    monkeypatch.delenv("RAY_AUTH_MODE", raising=False)
    with pytest.raises(LinkError, match="RAY_AUTH_MODE=token") as caught:
        cn.Cluster(address="auto").join()
    assert len(str(caught.value)) < 400


def test_what_is_printed_in_training_is_no_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ray prints there what its nodes report."""

    def chatty(*args: Any) -> cn.Run:
        print("(raylet) A worker died")
        return train_job(*args)

    monkeypatch.setattr("colonnade.jobs.run_job.train_job", chatty)
    (tmp_path / "job.toml").write_text(
        '[data]\nload = "digits"\nparties = 2\nrows = 60\n[train]\nrounds = 1\nbatch = 30\n'
    )
    words = ["train", str(tmp_path / "job.toml"), "--folder", str(tmp_path / "run"), "--json"]
    result = CliRunner().invoke(app, words)
    assert json.loads(result.stdout)["rounds"] == 1 and "(raylet)" in result.stderr


def test_nobody_at_the_address() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(LinkError, match=f"no Ray cluster answers at 127.0.0.1:{port}"):
        check_reachable(f"127.0.0.1:{port}")
    with pytest.raises(ConfigError, match="Ray Client"):
        check_reachable("ray://head:10001")


@contextmanager
def listening(tls: ssl.SSLContext | None) -> Iterator[str]:
    """Somebody at an address, who hangs up on everybody; after the handshake, if there is one."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            with suppress(OSError):
                while True:
                    line, _ = server.accept()
                    with line, suppress(OSError):
                        tls.wrap_socket(line, server_side=True).close() if tls else line.recv(1)

        Thread(target=serve, daemon=True).start()
        yield f"127.0.0.1:{server.getsockname()[1]}"
        server.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize("has", [True, False], ids=["with TLS", "without"])
def test_a_cluster_and_we_must_both_have_tls_or_neither(
    has: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_keys(tmp_path / "keys", ["localhost"], ["shop"])
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "keys" / "owner" / "cert.pem", tmp_path / "keys" / "owner" / "key.pem")
    with listening(context if has else None) as address:
        monkeypatch.setenv("RAY_USE_TLS", "1" if has else "0")
        check_reachable(address)
        monkeypatch.setenv("RAY_USE_TLS", "0" if has else "1")
        with pytest.raises(ConfigError, match="wants TLS; give its files as tls=" if has else "has no TLS; leave out"):
            check_reachable(address)


def test_settings_keep_the_cluster_as_plain_data() -> None:
    asked = cn.Cluster(group=3, nodes=["one"])
    kept = plain_runtime(asked)
    assert kept["runtime"] == "ray" and cn.Cluster(**kept["cluster"]) == asked


def test_only_a_run_on_a_cluster_moves_to_another(tmp_path: Path) -> None:
    run = train(Case(cn.FDML()), "loop", rounds=2, folder=tmp_path / "run")
    assert run.settings.cluster is None
    with pytest.raises(ConfigError, match="only a run on a cluster can move"):
        cn.resume(tmp_path / "run", federation("labels"), runtime=cn.Cluster())


def test_a_job_has_a_section_for_it(tmp_path: Path) -> None:
    (tmp_path / "job.toml").write_text(JOB)
    job = read_job(tmp_path / "job.toml")
    assert job.options.given["runtime"] == cn.Cluster(group=2, deadline=5, nodes=["one", "two"])
    (tmp_path / "job.toml").write_text(JOB.replace('runtime = "ray"', 'runtime = "loop"'))
    with pytest.raises(ConfigError, match="has \\[cluster\\] and runtime = 'loop'"):
        read_job(tmp_path / "job.toml")
    (tmp_path / "job.toml").write_text(JOB.replace("group", "grup"))
    with pytest.raises(ConfigError, match="did you mean 'group'"):
        read_job(tmp_path / "job.toml")


def test_a_simulated_drop_out_is_not_waited_for(tmp_path: Path) -> None:
    """It would be absent again after every return to the checkpoint, for ever."""
    with pytest.raises(AwayError, match="party 2"):
        train(
            Case(cn.FDML()), "apart", folder=tmp_path / "run", absent=lambda number: ["party 2"] if number == 5 else []
        )
