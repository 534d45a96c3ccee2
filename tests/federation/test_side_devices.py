"""Each side of a federation says in its own file where it computes, and nobody else hears of it."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from colonnade.cli import app
from colonnade.errors import ConfigError
from colonnade.federation.side_files import read_party_file
from near import Sides, make_sides

pytest.importorskip("grpc")
pytest.importorskip("pyarrow")


@pytest.fixture
def sides(tmp_path: Path) -> Sides:
    return Sides(make_sides(tmp_path, rows=24))


def test_a_side_computes_where_its_own_file_says(sides: Sides) -> None:
    plain, everything = 'rounds = 2\nthreads = 1\ndevice = "cpu"', 'precision = "bf16"\nmove_tables = true'
    sides.write_parties(more=f"[compute]\n{everything}")
    host = sides.host(train=f"{plain}\n{everything}")
    host.gather()
    run = host.train()
    host.close()
    assert run.owner.device.precision == "bf16"
    assert sides.guests["shop"].server.group.device.precision == "bf16"
    signed = json.dumps([host.terms, host.session.handshake.plan])
    assert '"threads"' in signed
    assert not any(word in signed for word in ("device", "precision", "bf16", "move_tables"))
    sides.restart()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[compute]\ndevice = "cuda:97"', "device='cuda:97' is not on this machine, which has"),
        ('[compute]\nprecision = "bf15"', "unknown precision 'bf15'"),
        ("[compute]\ndevice = 1", r"device = 1 in \[compute\] is not a text"),
        ('[compute]\ndevise = "cpu"', r"key of \[compute\]"),
    ],
)
def test_a_party_file_with_a_wrong_device(sides: Sides, text: str, said: str) -> None:
    sides.write_parties(more=text)
    with pytest.raises(ConfigError, match=said):
        read_party_file(sides.folder / "shop" / "party.toml")


def test_an_owner_file_with_a_wrong_device(sides: Sides) -> None:
    with pytest.raises(ConfigError, match="device='cuda:97' is not on this machine"):
        sides.owner_file(train='rounds = 2\ndevice = "cuda:97"')
    with pytest.raises(ConfigError, match=r"let each party write its own in \[compute\]"):
        sides.owner_file(train='rounds = 2\ndevice = ["cpu", "cpu", "cpu"]')


def test_a_job_with_a_wrong_device_ends_with_exit_code_2(tmp_path: Path) -> None:
    job = tmp_path / "job.toml"
    job.write_text('[data]\nload = "digits"\nparties = 2\n[train]\nrounds = 1\ndevice = "cuda:97"\n')
    done = CliRunner().invoke(app, ["train", str(job), "--folder", str(tmp_path / "run"), "--quiet"])
    assert done.exit_code == 2
    assert done.stderr.startswith("error: device='cuda:97' is not on this machine, which has")
