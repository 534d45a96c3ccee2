"""Every side of a federation records its own view, in its own folder, and its audit log bears it out."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import colonnade as cn
import views
from colonnade.errors import CheckpointError, ConfigError
from colonnade.federation.audit_log import AuditLog
from colonnade.federation.packet_sample import read_packets, write_packets
from colonnade.federation.side_files import read_owner_file, read_party_file
from colonnade.federation.view_check import check_view
from colonnade.federation.view_record import RECORDED, index_digest
from colonnade.runtime.remote.packet import read_packet, write_packet
from colonnade.store.checkpoint_facts import read_facts
from colonnade.store.view_files import ViewFolder, read_view
from colonnade.wire.ledger import Ledger
from colonnade.wire.view import View
from near import PARTIES, RECORD, Sides, job_folders, lead, make_sides

PURPOSES = ("train", "evaluate")
ROUNDS = "rounds = 6\nevaluate_every = 2\nseed = 3"


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_sides(tmp_path_factory.mktemp("keys"))


@pytest.fixture
def sides(keys: Path, tmp_path: Path) -> Sides:
    for path in keys.rglob("*"):
        if path.is_file():
            (tmp_path / path.relative_to(keys)).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / path.relative_to(keys)).write_bytes(path.read_bytes())
    return Sides(tmp_path)


def recorded(sides: Sides, seal: str = "", allow: str = "", **job: str) -> dict[str, Path]:
    """A federation in which every side records its view; the sides' job folders."""
    sides.write_parties(more=RECORD, allow=allow)
    lead(sides.host(**{"train": ROUNDS, "federation": 'labels = "shown"', "more": RECORD + seal, **job}))
    return job_folders(sides)


def check_agree(places: dict[str, Path]) -> dict[str, View]:
    """What a party has in its view is what the owner has of that party."""
    found = {name: check_view(place) for name, place in places.items()}
    for name in PARTIES:
        mine, owners = (trained(found[side], name) for side in (name, "owner"))
        assert len(mine) == len(owners) > 0
        for one, other in zip(mine, owners, strict=True):
            views.check_same_message(one, other)
    return found


def trained(view: View, party: str) -> list[Any]:
    return [one for one in view.seen if party in (one.sender, one.receiver)]


SEALS = {
    "splitnn": "",
    "vafl": '\n[[seal]]\nkind = "bits"\nbits = 4',
    "vimadmm": '\n[[seal]]\nkind = "bits"\nbits = 4\nfeedback = true',
}


@pytest.mark.parametrize("method", SEALS)
def test_every_side_records_its_own_view(sides: Sides, method: str) -> None:
    places = recorded(sides, method=method, seal=SEALS[method])
    found = check_agree(places)
    ledger = Ledger()
    ledger.replace(read_facts(places["owner"])["ledger"])
    assert found["owner"].counts == {line: n for line, n in views.counted(ledger).items() if line[0] in PURPOSES}
    for name in PARTIES:
        assert found[name].counts.items() <= found["owner"].counts.items(), "both sides count alike"
    for place in places.values():
        assert len(read_packets(place / "view")) >= 4
        assert {path.stat().st_mode & 0o777 for path in (place / "view").iterdir()} == {0o600}


def test_of_blinded_sums_a_party_records_what_it_heard_alone(sides: Sides) -> None:
    places = recorded(sides, method="vimadmm-j", seal='\n[[seal]]\nkind = "blind"', allow="mix = 1")
    found = {name: check_view(place) for name, place in places.items()}
    assert {one.sender for one in found["shop"].seen} == {"owner"}
    assert {one.sender for one in found["owner"].seen} == {"owner", "sum"}
    assert any(line[2] == "shop" for line in found["shop"].counts), "masked replies are counted"


def test_recording_changes_no_message(keys: Path, tmp_path: Path) -> None:
    """The same terms, and in the log the same messages in the same order, of as many bytes; secrets differ."""
    kept = {}
    for name, more in (("with", RECORD), ("without", "")):
        for path in keys.rglob("*"):
            if path.is_file():
                (tmp_path / name / path.relative_to(keys)).parent.mkdir(parents=True, exist_ok=True)
                (tmp_path / name / path.relative_to(keys)).write_bytes(path.read_bytes())
        sides = Sides(tmp_path / name)
        sides.write_parties(more=more)
        lead(sides.host(train=ROUNDS, more=more))
        entries = [json.loads(line) for line in (sides.folder / "run-bank" / "audit.jsonl").read_text().splitlines()]
        terms = json.loads((sides.folder / "run-bank" / "terms.json").read_text())
        messages = [e for e in entries if e["what"] != "event" and e["kind"] != "hello"]  # a hello has the time
        kept[name] = terms, [(e["what"], e["peer"], e["kind"], e["size"]) for e in messages]
    assert kept["with"] == kept["without"]
    assert not list((tmp_path / "without").rglob("view"))


def test_one_side_alone_may_record(sides: Sides) -> None:
    sides.write_parties()
    party = sides.folder / "shop" / "party.toml"
    party.write_text(party.read_text() + RECORD)
    lead(sides.host(train=ROUNDS))
    assert [path.parent.parent.name for path in sides.folder.rglob("view")] == ["run-shop"]
    assert check_view(job_folders(sides)["shop"]).side == "shop"
    with pytest.raises(CheckpointError, match=r"no recorded view; .* with record = true in \[audit\]"):
        check_view(job_folders(sides)["owner"])


def test_sides_that_are_started_again_go_on(sides: Sides, keys: Path, tmp_path: Path) -> None:
    sides.write_parties(more=RECORD)

    def die(run: cn.Run) -> None:
        if run.round == 3:  # between two checkpoints
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        lead(sides.host(train=ROUNDS, more=RECORD), die)
    sides.restart()
    lead(sides.host(train=ROUNDS, more=RECORD))
    found = check_agree(job_folders(sides))
    for view in found.values():
        assert {one.round for one in view.seen if one.purpose == "train"} == set(range(6)) and view.left_out == []
        times = [(one.step, one.sender, one.receiver, one.round) for one in view.seen if one.purpose == "train"]
        assert len(times) == len(set(times)), "a round that was repeated is there once"


def test_a_side_that_begins_late_says_so(sides: Sides) -> None:
    sides.write_parties()

    def die(run: cn.Run) -> None:
        if run.round == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        lead(sides.host(train=ROUNDS), die)
    sides.restart()
    sides.write_parties(more=RECORD)
    lead(sides.host(train=ROUNDS, more=RECORD))
    for view in check_agree(job_folders(sides)).values():
        assert view.left_out == ["nothing was recorded in rounds 0 to 3"]


# what does not match


@pytest.fixture(params=["owner", "shop"])
def place(ended: dict[str, Path], tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    for path in ended[request.param].rglob("*"):
        if path.is_file():
            (tmp_path / path.relative_to(ended[request.param])).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / path.relative_to(ended[request.param])).write_bytes(path.read_bytes())
    return tmp_path


def rewritten(place: Path, view: View, *, noted: bool) -> None:
    """Another view in the place of the recorded one, which the log knows, or not."""
    _, index = read_view(place)
    writer = ViewFolder(place)
    epochs: dict[int, list[Any]] = {}
    for one in view.seen:
        epochs.setdefault(one.round // index.facts["per_epoch"], []).append(one)
    writer.write(view, epochs, index)
    if noted:
        entries = [json.loads(line) for line in (place / "audit.jsonl").read_text().splitlines()]
        facts = entries[0]["facts"]
        with AuditLog(place / "audit.jsonl", facts["side"], facts["job"]) as log:
            log.event(RECORDED, digest=index_digest(place))


def with_other_values(view: View) -> View:
    """The view with one number of every message changed."""
    seen = []
    for one in view.seen:
        fields = {name: value.copy() for name, value in one.fields.items()}
        for value in fields.values():
            value.flat[0] += 1
        seen.append(one._replace(fields=fields))
    return replace(view, seen=seen)


def test_a_view_that_was_written_anew_is_refused(place: Path) -> None:
    rewritten(place, with_other_values(read_view(place)[0]), noted=False)
    with pytest.raises(CheckpointError, match=r"is not the one that line \d+ of .*audit.jsonl is about; bring"):
        check_view(place)


def test_other_values_than_those_that_travelled_are_refused(place: Path) -> None:
    """Even if whoever wrote them also wrote the log's line."""
    rewritten(place, read_view(place)[0], noted=True)
    check_view(place)
    rewritten(place, with_other_values(read_view(place)[0]), noted=True)
    with pytest.raises(CheckpointError, match=r"other values of step '\w+' of round \d+ from '\w+' than .* line \d+"):
        check_view(place)


def test_rows_in_another_order_are_refused(place: Path) -> None:
    view = read_view(place)[0]
    swapped = [one._replace(fields={name: value[::-1] for name, value in one.fields.items()}) for one in view.seen]
    rewritten(place, replace(view, seen=swapped), noted=True)
    with pytest.raises(CheckpointError, match="the view has other values of step"):
        check_view(place)


def test_packets_that_are_not_in_the_log_are_refused(place: Path) -> None:
    packets = read_packets(place / "view")
    other = replace(read_packet(packets[0].data), turn=77)
    write_packets(place / "view", [packets[0]._replace(data=write_packet(other)), *packets[1:]])
    with pytest.raises(CheckpointError, match=r"is not in the audit log: line \d+ of .*audit.jsonl has another one"):
        check_view(place)


@pytest.mark.parametrize("raw", [b"", b"[]x", b"{}", b'[{"file": "../x"}]', b'[{"epoch": -1}]'])
def test_a_damaged_list_of_packets_is_refused(place: Path, raw: bytes) -> None:
    (place / "view" / "packets.json").write_bytes(raw)
    with pytest.raises(CheckpointError, match=r"packets.json, which a recorded view was made of, is missing"):
        check_view(place)


def test_a_damaged_packet_is_refused(place: Path) -> None:
    path = next((place / "view").glob("packet-*"))
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(CheckpointError, match=f"{path.name}, which a recorded view was made of, is missing or altered"):
        check_view(place)


@pytest.mark.parametrize("rows", [1 << 60, -5, "many", None])
def test_a_plan_of_rows_that_there_cannot_be_is_refused(place: Path, rows: Any) -> None:
    check_view(place)
    plan = json.loads((place / "plan.json").read_text())
    plan["tables"][0][1] = rows
    (place / "plan.json").write_text(json.dumps(plan))
    with pytest.raises(CheckpointError, match="no plan"):
        check_view(place)


def test_a_log_that_was_altered_is_refused(place: Path) -> None:
    log = place / "audit.jsonl"
    log.write_text(log.read_text().replace('"kind":"embed"', '"kind":"follow"', 1))
    with pytest.raises(CheckpointError, match=r"cannot be compared with its audit log: line \d+ of"):
        check_view(place)


@pytest.mark.parametrize("text", ["[audit]\nrecord = 1", "[audit]\nrecrod = true", "[audit]\nrows = 0", "audit = 3"])
def test_a_section_that_makes_no_sense_is_refused(sides: Sides, text: str) -> None:
    for name, read in (("bank/job.toml", read_owner_file), ("shop/party.toml", read_party_file)):
        sides.owner_file()
        path = sides.folder / name
        path.write_text(text + "\n" + path.read_text())
        with pytest.raises(ConfigError, match=r"audit|rec|rows"):
            read(path)
