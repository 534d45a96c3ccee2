"""Parties in processes of a Ray cluster: the same numbers as in one process, also when a process dies on the way."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from test_contract import CASES, Case, everything, federation, tables_of, train, without_time
from test_randomness import secrets_on_disk, train_with
from torch import Tensor

import colonnade as cn
from colonnade.errors import AwayError, ConfigError
from colonnade.runtime.remote import ray_transport as ray_lines
from colonnade.runtime.remote.ray_transport import RayTransport
from colonnade.store.state_folder import StateFolder

pytest.importorskip("ray", reason="Ray is not installed: pip install 'colonnade[ray]'")
pytestmark = pytest.mark.long
METHOD = cn.VIMADMM(lr=0.02, local_steps=2)


@pytest.fixture(scope="module", autouse=True)
def ray() -> Iterator[Any]:
    """One Ray for all tests; its token is in the environment, so that none is written to the home folder."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_AUTH_TOKEN", secrets.token_hex(32))
        tests = [place for place in Path(__file__).parents[1].iterdir() if place.is_dir()]
        patch.setenv("PYTHONPATH", os.pathsep.join(map(str, [Path(cn.__file__).parents[1], *tests])))
        patch.delenv("RAY_ADDRESS", raising=False)
        ray = cn.Cluster().join()
        yield ray
        ray.shutdown()


def everything_on_disk(run: cn.Run) -> dict[str, Tensor]:
    """All states, those of the parties from the folders in which they keep them."""
    sides = run.model.states()
    for k, name in enumerate(run.parties.names):
        if name in run.parties.backend.parties:
            kept = StateFolder(run.folder / "parties" / f"{k:03d}")
            sides[f"party-{k:03d}"] = kept.get(int(sides[f"party-{k:03d}"]["kept"]))
    return {f"{side}/{name}": value for side, state in sides.items() for name, value in state.items()}


def check_same(run: cn.Run, loop: cn.Run) -> None:
    assert run.ledger.to_json() == loop.ledger.to_json()
    assert without_time(run.history) == without_time(loop.history)
    expected, found = everything(loop), everything_on_disk(run)
    assert {name for name in found if not name.endswith(("seal/told", "run/round"))} == expected.keys()
    for name, value in expected.items():
        assert torch.equal(found[name], value), f"processes changed {name}"


def pids(run: cn.Run) -> set[int]:
    """The processes in which the parties live."""
    lines = run.parties.backend.transport
    return set(lines.ray.get([host.__ray_call__.remote(lambda _: os.getpid()) for host in lines.hosts]))


# the same numbers


@pytest.mark.parametrize("case", CASES, ids=str)
def test_processes_agree_with_the_loop(case: Case, tmp_path: Path) -> None:
    run = train(case, cn.Cluster(group=2), folder=tmp_path / "run")
    check_same(run, train(case, "loop"))
    test = federation(case.owner)
    assert torch.equal(run.predict(test), train(case, "loop").predict(test))
    run.parties.close()


@pytest.mark.parametrize(
    "seal", [cn.Bits(4, feedback=True), cn.Noise(clip=1.0, epsilon=50.0), cn.Blind()], ids=lambda seal: seal.kind
)
def test_seals_agree_too(seal: cn.Seal, tmp_path: Path) -> None:
    case = Case(cn.FDML())
    run, loop = (
        train(case, runtime, seal=seal, **more)
        for runtime, more in ((cn.Cluster(group=2), {"folder": tmp_path / "run"}), ("loop", {}))
    )
    check_same(run, loop)
    assert run.privacy == loop.privacy
    run.parties.close()


@pytest.mark.parametrize("case", [case for case in CASES if case.method.name in ("apfed", "multivfl")], ids=str)
def test_sides_with_secrets_agree_and_resume(case: Case, tmp_path: Path) -> None:
    """Every side drew its own; one process that is told them comes to the same."""
    run = train(case, cn.Cluster(group=2, secrets=True), folder=tmp_path / "run", rounds=8, evaluate_every=4)
    own = secrets_on_disk(run)
    assert len(set(own.values())) == 1 + len(run.parties.backend.parties)
    check_same(run, train_with(case, own, rounds=8, evaluate_every=4))
    run.parties.close()
    resumed = cn.resume(tmp_path / "run", tables_of(case), test=federation(case.owner), rounds=12)
    assert secrets_on_disk(resumed) == own
    check_same(resumed, train_with(case, own, rounds=12, evaluate_every=4))
    resumed.parties.close()


def test_without_a_folder_secrets_live_as_long_as_the_run() -> None:
    one, other = (train(Case(METHOD), cn.Cluster(group=4, secrets=True), rounds=2) for _ in range(2))
    assert without_time(one.history) != without_time(other.history)
    one.parties.close()
    other.parties.close()


def test_every_party_has_a_process_and_closed_ones_are_used_again() -> None:
    first = train(Case(METHOD), "ray", rounds=2)
    used = pids(first)
    assert len(used) == 4 and os.getpid() not in used
    first.parties.close()
    second = train(Case(METHOD), "ray", rounds=2)
    assert pids(second) == used
    assert without_time(second.history) == without_time(first.history)
    second.parties.close()


def test_a_spare_process_that_died_is_not_used(ray: Any) -> None:
    first = train(Case(METHOD), cn.Cluster(group=2), rounds=2)
    lost = first.parties.backend.transport.hosts[0]
    first.parties.close()
    ray.kill(lost)
    second = train(Case(METHOD), cn.Cluster(group=2), rounds=2)
    assert without_time(second.history) == without_time(first.history)
    second.parties.close()


def test_closed_processes_hold_nothing_of_a_cluster(ray: Any) -> None:
    """A sweep in the same program would wait for their cores for ever."""
    before = ray.available_resources()["CPU"]
    run = train(Case(METHOD), cn.Cluster(address="auto", group=4), rounds=1)  # of the Ray that is there
    run.parties.close()
    until = time.monotonic() + 30
    while ray.available_resources().get("CPU", 0) < before:
        assert time.monotonic() < until, "they are held"
        time.sleep(0.2)


def test_a_process_gets_no_other_partys_columns(ray: Any) -> None:
    """Tables of one matrix are views, and a view pickles with everything that it is a part of."""
    run = train(Case(METHOD), cn.Cluster(group=4), rounds=1)

    def sizes(host: Any) -> list[int]:
        return [party.spec.table.columns.untyped_storage().nbytes() for party in host.parties.values()]

    found = ray.get(run.parties.backend.transport.hosts[0].__ray_call__.remote(sizes))
    assert found == [table.columns.numel() * 4 for table in federation("labels") if table.columns is not None]
    run.parties.close()


def test_models_of_a_script_go_along() -> None:
    width = 7

    def model(shape: tuple[int, ...], outputs: int) -> torch.nn.Module:
        return torch.nn.Sequential(torch.nn.Linear(shape[0], width), torch.nn.Tanh(), torch.nn.Linear(width, outputs))

    run, loop = (train(Case(METHOD), runtime, model=model, rounds=3) for runtime in (cn.Cluster(group=4), "loop"))
    assert without_time(run.history) == without_time(loop.history)
    run.parties.close()


# processes that die


def killing(when: int, kill: Any, times: int = 1) -> Any:
    """What is called after every round, and kills a process after some of them."""
    left = [times]

    def on_round(run: cn.Run) -> None:
        if run.round == when and left[0]:
            left[0] -= 1
            kill(run.parties.backend.transport)

    return on_round


def by_ray(lines: Any) -> None:
    lines.ray.kill(lines.hosts[1])


def by_itself(lines: Any) -> None:
    lines.hosts[0].__ray_call__.remote(lambda _: os._exit(9))


@pytest.mark.parametrize("seal", [None, cn.Bits(4, feedback=True)], ids=["plain", "bits"])
@pytest.mark.parametrize("kill", [by_ray, by_itself])
def test_a_killed_process_changes_nothing(kill: Any, seal: Any, tmp_path: Path) -> None:
    case, how = Case(METHOD), {"evaluate_every": 4, "seal": seal}
    run = train(case, cn.Cluster(group=2), folder=tmp_path / "run", on_round=killing(6, kill, times=2), **how)
    assert sum(run.parties.backend.transport._starts) == 2, "nothing died: the test tests nothing"
    check_same(run, train(case, "loop", **how))
    run.parties.close()


def test_a_killed_process_of_several_owners_changes_nothing(tmp_path: Path) -> None:
    case, how = Case(cn.MultiVFL(every=5), owners=3), {"evaluate_every": 4, "seal": cn.Bits(4, feedback=True)}
    run = train(case, cn.Cluster(group=2), folder=tmp_path / "run", on_round=killing(6, by_ray), **how)
    assert sum(run.parties.backend.transport._starts) == 1, "nothing died: the test tests nothing"
    loop = train(case, "loop", **how)
    check_same(run, loop)
    test = federation("labels")
    assert torch.equal(run.predict(test, owner="owner 2"), loop.predict(test, owner="owner 2"))
    run.parties.close()


def test_a_killed_process_under_masks_changes_no_number(tmp_path: Path) -> None:
    """Keys are agreed on anew, which the ledger counts as setup; all else is as it was."""
    case, how = Case(cn.FDML()), {"evaluate_every": 4, "seal": cn.Blind()}
    run = train(case, cn.Cluster(group=2), folder=tmp_path / "run", on_round=killing(6, by_ray), **how)
    loop = train(case, "loop", **how)
    assert sum(run.parties.backend.transport._starts) == 1
    for name, value in everything(loop).items():
        assert torch.equal(everything_on_disk(run)[name], value), name
    assert run.ledger.bytes_for("train") == loop.ledger.bytes_for("train")
    assert run.ledger.bytes_for("setup") > loop.ledger.bytes_for("setup")
    run.parties.close()


def test_a_process_that_hangs_is_started_again(tmp_path: Path) -> None:
    def hang(lines: Any) -> None:
        lines.hosts[1].__ray_call__.remote(lambda _: __import__("time").sleep(600))

    cluster = cn.Cluster(group=2, deadline=8)
    run = train(Case(METHOD), cluster, folder=tmp_path / "run", on_round=killing(6, hang), evaluate_every=4)
    assert run.parties.backend.transport._starts[1] >= 1, "nothing hung: the test tests nothing"
    check_same(run, train(Case(METHOD), "loop", evaluate_every=4))
    run.parties.close()


def test_a_process_that_dies_while_it_starts_is_started_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cluster knows only after a while that a node is gone, and till then puts processes there."""
    new = RayTransport._host

    def doomed(lines: RayTransport, k: int) -> Any:
        host = new(lines, k)
        if lines._starts[k] == 1:
            lines.ray.kill(host)
        return host

    monkeypatch.setattr(RayTransport, "_host", doomed)
    monkeypatch.setattr(ray_lines, "NOTICED", 0.1)
    run = train(
        Case(METHOD), cn.Cluster(group=2), folder=tmp_path / "run", on_round=killing(6, by_ray), evaluate_every=4
    )
    assert run.parties.backend.transport._starts == [0, 2]
    check_same(run, train(Case(METHOD), "loop", evaluate_every=4))
    run.parties.close()


def test_a_process_that_dies_too_often_ends_the_run(tmp_path: Path) -> None:
    cluster = cn.Cluster(group=2, restarts=1)
    with pytest.raises(AwayError, match=r"'party [34]' was lost 2 times") as error:
        train(Case(METHOD), cluster, folder=tmp_path / "run", on_round=killing(6, by_ray, times=9), evaluate_every=4)
    assert error.value.party in ("party 3", "party 4")


def test_without_a_folder_a_death_ends_the_run() -> None:
    with pytest.raises(AwayError, match=r"the process of 'party 3' is gone: .*; with folder= a run starts it again"):
        train(Case(METHOD), cn.Cluster(group=2), on_round=killing(6, by_ray))


def test_a_run_resumes_on_another_cluster(tmp_path: Path) -> None:
    case, how = Case(METHOD, owner="first"), {"evaluate_every": 4}

    def die(run: cn.Run) -> None:
        if run.round == 6:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(case, cn.Cluster(group=3, deadline=50), folder=tmp_path / "run", on_round=die, **how)
    tables = federation("first")
    opened = cn.resume(tmp_path / "run", tables, train=False)
    assert (
        opened.parties.backend.transport.cluster == cn.Cluster(group=3, deadline=50)
        and len(opened.parties.backend.transport.groups) == 1
    )
    opened.parties.close()
    moved = cn.resume(tmp_path / "run", tables, test=tables, runtime=cn.Cluster(group=2))
    assert len(moved.parties.backend.transport.groups) == 2
    check_same(moved, train(case, "loop", **how))
    moved.parties.close()


# where


def test_a_node_is_found_by_id_name_or_address(ray: Any) -> None:
    (node,) = ray.nodes()
    run = train(Case(METHOD), cn.Cluster(group=4, nodes=[node["NodeID"]]), rounds=2)
    assert (
        cn.Cluster(nodes=[node["NodeManagerAddress"]]).options(ray, 0)["scheduling_strategy"].node_id == node["NodeID"]
    )
    run.parties.close()
    with pytest.raises(ConfigError, match="unknown node of the cluster 'mars'"):
        train(Case(METHOD), cn.Cluster(nodes=["mars"]), rounds=2)


def test_a_sweep_over_a_cluster_finds_the_same(tmp_path: Path) -> None:
    how: dict[str, Any] = {"data": {"load": "digits", "parties": 2, "rows": 100}, "epochs": 1, "batch": 50}
    over = {"rho": [0.5, -1.0], "seed": [0, 1]}
    here = cn.sweep(over=over, folder=tmp_path / "here", processes=1, **how)
    there = cn.sweep(over=over, folder=tmp_path / "there", cluster=cn.Cluster(), **how)
    assert without_time(there.rows) == without_time(here.rows)
    assert there.heads == here.heads
    names = [sorted(path.name for path in (tmp_path / folder).iterdir()) for folder in ("here", "there")]
    assert names[0] == names[1], "results are files, as ever"
    with pytest.raises(ConfigError, match="whole runs in its processes"):
        cn.sweep(over=over, folder=tmp_path / "no", cluster=cn.Cluster(), runtime="ray", **how)
    with pytest.raises(ConfigError, match="asks for 999 of CPU each, and the cluster has"):
        cn.sweep(over=over, folder=tmp_path / "large", cluster=cn.Cluster(cpus=999), **how)


# what is refused


def test_a_model_that_nodes_do_not_have_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "only_here.py").write_text(
        "import torch\ndef model(shape, width):\n    return torch.nn.Linear(shape[0], width)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    import only_here

    with pytest.raises(ConfigError, match="No module named 'only_here'"):
        train(Case(cn.FDML()), cn.Cluster(group=4), model=only_here.model)


def test_more_than_the_cluster_has_is_refused(ray: Any) -> None:
    with pytest.raises(ConfigError, match="2 processes ask for 1 of moon each, and the cluster has 0"):
        cn.Cluster(address="auto", cpus=0, resources={"moon": 1}).check_room(ray, 2)
