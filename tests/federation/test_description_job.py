"""A description over mutual TLS between real processes is that of one process, and every side writes it down."""

from __future__ import annotations

import json
import re
import runpy
import shutil
import time
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

import colonnade as cn
from colonnade.cli import app
from colonnade.description.describe_messages import GroupProofs
from colonnade.description.describe_owner import DescribeOwner
from colonnade.federation.audit_check import compare, verify
from colonnade.federation.certificates import make_keys
from colonnade.federation.owner_description import OwnerDescription
from colonnade.federation.side_sections import OwnerFile
from colonnade.federation.status_file import read_status
from colonnade.jobs.job_file import DescribeSection
from colonnade.jobs.run_job import describe_job
from companies import OTHERS, Companies, free_port, run_party
from forks import context
from pages import ROOT

pytest.importorskip("grpc")
pytestmark = pytest.mark.slow
HOW = DescribeSection(bins=3, minimum=5, names={"clinic": "numbered"}, epsilon={"shop": 4.0}, proof=True)
ALLOW = '[describe]\ncolumns = "all"\nminimum = 5\ntimes = 99\n'


@pytest.fixture(scope="module")
def companies(tmp_path_factory: pytest.TempPathFactory) -> Companies:
    made = Companies(tmp_path_factory.mktemp("companies"))
    for name in OTHERS:
        with (made.folder / name / "party.toml").open("a") as file:
            file.write(ALLOW)
    return made


def side_file(companies: Companies, how: DescribeSection = HOW) -> OwnerFile:
    made = companies.side_file(cn.SplitNN())
    return replace(made, job=replace(made.job, describe=how))


def led(owner: OwnerFile, place: Path) -> cn.Description:
    host = OwnerDescription(owner, place / "bank")
    try:
        host.gather()
        return host.describe()
    finally:
        host.close()


@pytest.fixture(scope="module")
def done(companies: Companies, tmp_path_factory: pytest.TempPathFactory) -> tuple[cn.Description, Path]:
    place = tmp_path_factory.mktemp("described")
    with companies.parties(place) as processes:
        found = led(side_file(companies), place)
        for name, process in processes.items():
            process.join(20)
            assert process.exitcode == 0, f"'{name}' ended with {process.exitcode}"
    return found, place


def test_it_is_the_description_of_one_process(companies: Companies, done: tuple[cn.Description, Path]) -> None:
    far, place = done
    near = describe_job(companies.alone(side_file(companies)), secrets=companies.secrets(place))
    assert far.columns == near.columns and far.sigma == near.sigma and far.sigma["shop"] > 0
    assert far.ledger.to_json() == near.ledger.to_json()
    assert (far.notes, far.opened, far.minimum) == (near.notes, near.opened, near.minimum)
    assert far.to_csv("bins") == near.to_csv("bins")
    assert {one.title for one in far.column("clinic", "c5").bins} == {"bin 1", "bin 2", "bin 3"}


def test_every_side_keeps_what_happened(done: tuple[cn.Description, Path]) -> None:
    found, place = done
    own = place / "bank"
    assert json.loads((own / "description.json").read_text())["opened"] == list(found.opened)
    assert (own / "columns.csv").read_text() == found.to_csv() and "c5 of clinic" in (own / "report.html").read_text()
    assert read_status(own).state == "finished"
    for name in OTHERS:
        (job,) = (place / name).glob("job-*")
        page = (job / "report.html").read_text()
        assert "(description)" in page and "believe_groups" in page and "proves that every row is of one class" in page
        assert read_status(place / name).state == "finished"
        assert (verdict := verify(job / "audit.jsonl")).broken is None and verdict.sealed
        assert compare(own / "audit.jsonl", job / "audit.jsonl") == []


def test_a_party_that_dies_amid_the_labels_answers_when_it_is_back(
    companies: Companies, done: tuple[cn.Description, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same numbers come of it, but for the noise, which follows from another secret."""
    exact = replace(HOW, epsilon=None)
    with companies.parties(tmp_path) as processes:
        groups = DescribeOwner.groups

        def killed(self: DescribeOwner) -> GroupProofs:
            if processes["shop"].is_alive() and "again" not in processes:
                processes["shop"].kill()
                processes["shop"].join()
                processes["again"] = companies.start("shop", tmp_path)
            return groups(self)

        monkeypatch.setattr(DescribeOwner, "groups", killed)
        found = led(side_file(companies, exact), tmp_path)
        assert "again" in processes
    alone = describe_job(companies.alone(side_file(companies, exact)))
    assert found.columns == alone.columns


def test_the_example_of_the_page(tmp_path: Path) -> None:
    """The two sections of the page, added to the files of two companies, and both commands."""
    page = (ROOT / "docs" / "describe.md").read_text().partition("## Between organisations")[2]
    sections = dict(re.findall(r"```toml\n# (\S+)\n(.*?)```", page, re.S))
    assert set(sections) == {"clinic/job.toml", "lab/party.toml"}
    shutil.copytree(ROOT / "examples" / "federation", tmp_path / "files")
    make_keys(tmp_path / "keys", ["localhost"], ["lab"])
    port = free_port()
    for side, keys, other in (("clinic", "owner", "lab"), ("lab", "lab", "owner")):
        folder = tmp_path / "files" / side
        shutil.copytree(tmp_path / "keys" / keys, folder, dirs_exist_ok=True)
        shutil.copy(
            tmp_path / "keys" / other / "identity.pub", folder / ("lab.pub" if side == "clinic" else "clinic.pub")
        )
        make = runpy.run_path(str(tmp_path / "files" / "make_tables.py"))
        make["write_table"](side, folder)
    for name, added in sections.items():
        path = tmp_path / "files" / name
        path.write_text(path.read_text().replace("8443", str(port)) + added)
    party = context.Process(target=run_party, args=(tmp_path / "files/lab/party.toml", tmp_path / "lab"))
    party.start()
    try:
        job, place = str(tmp_path / "files/clinic/job.toml"), str(tmp_path / "described")
        made = CliRunner().invoke(app, ["describe", job, "--quiet", "--json", "--folder", place])
        assert made.exit_code == 0, made.output
    finally:
        party.join(20)
    found = json.loads(made.stdout)
    theirs = [column for column in found["columns"] if column["party"] == "lab"]
    assert {column["column"] for column in theirs} == {"worst_radius", "worst_texture", "area_error"}
    assert min(one["rows"] for column in theirs for one in column["bins"]) >= 30
    assert all(one["title"].startswith("bin ") for column in theirs for one in column["bins"])


def test_the_command_leads_it_and_says_why_not(companies: Companies, tmp_path: Path) -> None:
    job = companies.folder / "bank" / "job.toml"
    text = job.read_text()
    job.write_text(f"{text}[describe]\nbins = 3\nminimum = 5\n[train]\nseed = 3\n")
    try:
        command, folder = ["describe", str(job), "--quiet"], ["--folder", str(tmp_path / "bank")]
        shown = CliRunner().invoke(app, [*command, "--terms"])
        assert json.loads(shown.stdout)["describe"]["parties"]["shop"]["minimum"] == 5
        with companies.parties(tmp_path):
            made = CliRunner().invoke(app, [*command, *folder, "--json", "--page", str(tmp_path / "page.html")])
            assert made.exit_code == 0, made.output
            time.sleep(0.2)
        again = CliRunner().invoke(app, [*command, *folder, "--json"])  # it ended: the result is in the folder
        assert json.loads(again.stdout) == json.loads(made.stdout) and (tmp_path / "page.html").is_file()
        job.write_text(f"{text}[describe]\nbins = 3\nminimum = 4\n")
        with companies.parties(tmp_path / "other"):
            refused = CliRunner().invoke(app, [*command, "--folder", str(tmp_path / "other" / "bank")])
        assert refused.exit_code == 4, "a field of the terms was refused"
        assert "describe.parties.shop.minimum 4, and 'shop' allows at least 5" in refused.output.replace("\n", " ")
        job.write_text(f"{text}[describe]\nbins = 1\n")
        assert CliRunner().invoke(app, command).exit_code == 2
    finally:
        job.write_text(text)
