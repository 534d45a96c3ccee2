"""An owner with valid keys that asks a party for more descriptions, others, or other ones than were signed.

Real parties and owners in one process; each control takes away what stops the attack, and shows it at work.
"""

from __future__ import annotations

import csv
import json
import re
import shutil
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import near
from colonnade.description.describe_owner import PURPOSE, DescribeOwner
from colonnade.description.description_result import Description
from colonnade.errors import ColonnadeError, ConfigError, ManifestError, MessageError, PrivacyError
from colonnade.federation import allow_list
from colonnade.federation.handshake import answer_in, word_packet
from colonnade.federation.owner_description import OwnerDescription
from colonnade.federation.side_files import read_party_file
from colonnade.federation.terms import description_terms, learns, sign
from colonnade.runtime.remote.packet import Packet, read_packet, write_packet
from colonnade.runtime.remote.request_server import refused
from colonnade.wire.message import decode_fields, encode
from near import PARTIES, Near, Sides

pytest.importorskip("grpc")
pytest.importorskip("pyarrow")

JOB = {"more": "[describe]\nminimum = 5\nbins = 3\n[prepare]\ntest = 0.0"}
ALLOWED = '[describe]\ncolumns = "all"\nminimum = 5\n'


@pytest.fixture
def sides(sides: Sides) -> Sides:
    sides.write_parties("alignments = 99", ALLOWED)
    return sides


def describing(sides: Sides, spoil: Any = None, **job: str) -> OwnerDescription:
    host: Any = sides.host(OwnerDescription, spoil, **{**JOB, **job})  # type: ignore[arg-type]
    return host  # type: ignore[no-any-return]


def described(sides: Sides, spoil: Any = None, **job: str) -> Description:
    host = describing(sides, spoil, **job)
    try:
        host.gather()
        return host.describe()
    finally:
        host.close()


def shop_folder(sides: Sides) -> Path:
    (place,) = (sides.folder / "run-shop").glob("job-*")
    return place


def new_owner_folder(sides: Sides) -> None:
    sides.restart()
    shutil.move(sides.folder / "run-bank", sides.folder / f"run-bank-{len(list(sides.folder.iterdir()))}")


def turn_label(sides: Sides, person: str) -> None:
    """Give one person the other label in the owner's file."""
    path = sides.folder / "bank" / "table.csv"
    rows = list(csv.reader(path.read_text().splitlines()))
    path.write_text(
        "\n".join(",".join(row[:-1] + [str(1 - int(row[-1]))] if row[0] == person else row) for row in rows)
    )


def positives(found: Description) -> dict[str, list[int | None]]:
    return {column.column: [one.positives for one in column.bins] for column in found.columns if column.party == "shop"}


# What a party's operator allows


def test_a_party_describes_nothing_unless_its_file_says_so(sides: Sides) -> None:
    sides.write_parties()
    with pytest.raises(ManifestError, match="'shop' allows no description; write columns"):
        described(sides)
    assert not list((sides.folder / "run-shop").glob("job-*")) and not (sides.folder / "run-shop/runs.json").exists()


@pytest.mark.parametrize(
    ("allowed", "said"),
    [
        ("minimum = 6", "describe.parties.shop.minimum 5, and 'shop' allows at least 6"),
        ('names = "numbered"', "describe.parties.shop.names 'shown', and 'shop' allows numbered"),
        ("epsilon = 2.0", "describe.parties.shop.epsilon None, and 'shop' allows at most 2"),
    ],
)
def test_each_rule_is_held_against_the_terms(sides: Sides, allowed: str, said: str) -> None:
    sides.write_parties(
        "", f'[describe]\ncolumns = "all"\n{allowed}\n' + ("" if "minimum" in allowed else "minimum = 5")
    )
    with pytest.raises(ManifestError, match=said):
        described(sides)


@pytest.mark.parametrize(
    ("allowed", "said"),
    [
        ("rows = 39", "the plan has 40 rows, 'shop' allows 39"),
        ("minimum = 50", "align.minimum 1, and 'shop' allows at least 50"),
        ("maximum = 50", "align.maximum None, and 'shop' allows at most 50"),
        ('align = ["plain"]', "align.mode 'psi', and 'shop' allows"),
    ],
)
def test_what_is_allowed_of_rows_and_alignments_holds_here_too(sides: Sides, allowed: str, said: str) -> None:
    sides.write_parties(allowed, ALLOWED)
    with pytest.raises(ManifestError, match=said):
        described(sides)


def test_what_is_allowed_of_training_is_not_about_descriptions(sides: Sides) -> None:
    sides.write_parties('methods = ["fdml"]\nneeds = ["noise"]\nepsilon = 1.0\nrounds = 1', ALLOWED)
    assert described(sides).rows == 40
    assert not (sides.folder / "run-shop" / "runs.json").exists(), "and it is no run"


def test_an_owner_that_proves_nothing_is_refused_by_default(sides: Sides) -> None:
    unproved = JOB["more"].replace("bins", "proof = false\nbins")
    with pytest.raises(ManifestError, match=r"describe.proof False, and 'shop' allows an owner that proves"):
        described(sides, more=unproved)
    sides.restart()
    sides.write_parties("", ALLOWED + "proof = false\n")
    shutil.rmtree(sides.folder / "run-bank")
    assert described(sides, more=unproved).rows == 40, "control: a party that trusts the owner"
    assert "Nothing proves that 'bank' encrypts labels" in (shop_folder(sides) / "terms.json").read_text()


@pytest.mark.parametrize(
    ("section", "said"),
    [
        ("[describe]", "names no columns"),
        ('[describe]\ncolumns = "visits"', "names no columns"),
        ("[describe]\ncolumns = []", "names no columns"),
        ('[describe]\ncolumns = ["a"]\nnames = "hidden"', r"\[describe\]: unknown way to name bins 'hidden'"),
        ('[describe]\ncolumns = ["a"]\nepsilon = 0.0', r"\[describe\]: epsilon=0.0 is out of range"),
        ('[describe]\ncolumns = ["a"]\ntimes = 0', "times = 0 in .describe. is out of range"),
        ('[describe]\ncolumn = ["a"]', "unknown key of .describe. 'column'"),
    ],
)
def test_a_wrong_section_of_the_party_ends_in_a_sentence(sides: Sides, section: str, said: str) -> None:
    sides.write_parties("", section)
    with pytest.raises(ConfigError, match=said):
        read_party_file(sides.folder / "shop" / "party.toml")


def test_only_named_columns_are_described(sides: Sides) -> None:
    sides.write_parties("", ALLOWED.replace('"all"', '["b"]'))
    found = described(sides)
    assert [column.column for column in found.columns if column.party == "shop"] == ["b"]
    said = (shop_folder(sides) / "terms.json").read_text() + (sides.folder / "run-bank/description.json").read_text()
    assert '"shop", "column": "a"' not in said


def test_a_column_that_is_not_there_is_named_to_the_operator_alone(sides: Sides, caplog: Any) -> None:
    sides.write_parties("", ALLOWED.replace('"all"', '["wages"]'))
    with pytest.raises(ColonnadeError) as caught:
        described(sides)
    assert "'shop' cannot do that with its files as they are" in str(caught.value) and "wages" not in str(caught.value)
    assert "has no column 'wages' to describe; it has a, b, c" in caplog.text


# How often a party answers


def test_one_description_is_one_description(sides: Sides) -> None:
    """Other bins of the same people are another question: two answers can be subtracted."""
    described(sides)
    new_owner_folder(sides)
    other = JOB["more"].replace("bins = 3", "bins = 4")
    with pytest.raises(ManifestError, match=r"allows 1; raise times in \[describe\]"):
        described(sides, more=other)
    sides.restart()
    shutil.rmtree(sides.folder / "run-bank")
    sides.write_parties("", ALLOWED + "times = 2\n")
    assert len(positives(described(sides, more=other))["a"]) == 4, "control: an operator that allows two"


def test_other_labels_in_the_same_job_are_not_answered(sides: Sides, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two answers that differ by one person's label tell that person's bins. The party answers one set of labels."""
    sides.write_parties("alignments = 99", ALLOWED + "times = 3\n")
    monkeypatch.setattr(OwnerDescription, "_keep", _leave)
    before = _sums(sides)
    turn_label(sides, "c007")
    new_owner_folder(sides)
    with pytest.raises(PrivacyError, match="it answers one set of labels a job"):
        described(sides)
    new_owner_folder(sides)
    for name in PARTIES:  # the control
        next((sides.folder / f"run-{name}").glob("job-*/described.json")).unlink()
    after = _sums(sides)
    changed = {name: int(np.flatnonzero(np.array(sums) != np.array(after[name]))[0]) for name, sums in before.items()}
    values = {row["id"]: row for row in csv.DictReader((sides.folder / "shop" / "table.csv").read_text().splitlines())}
    for name, place in changed.items():
        own = sorted(float(row[name]) for row in values.values())
        rank = own.index(float(values["c007"][name]))
        assert place == min(rank * 3 // 40, 2), "the bin of the person whose label was turned"


class LeftError(ColonnadeError):
    """The owner dies before the end."""


_FOUND: list[Description] = []


def _leave(self: OwnerDescription, found: Description) -> None:
    _FOUND.append(found)
    raise LeftError("enough.")


def _sums(sides: Sides) -> dict[str, list[int | None]]:
    with pytest.raises(LeftError):
        described(sides)
    return positives(_FOUND.pop())


def test_an_owner_that_died_gets_the_same_answer_again(sides: Sides, monkeypatch: pytest.MonkeyPatch) -> None:
    noisy = JOB["more"].replace("bins", "epsilon = { shop = 5.0 }\nbins")
    with monkeypatch.context() as patch:
        patch.setattr(OwnerDescription, "_keep", _leave)
        with pytest.raises(LeftError):
            described(sides, more=noisy)
    first = _FOUND.pop()
    sides.restart()
    again = described(sides, more=noisy)
    assert again.columns == first.columns and again.sigma["shop"] > 0, "noise and all"
    assert len(json.loads((sides.folder / "run-shop" / "descriptions.json").read_text())) == 1
    host = describing(sides, more=noisy)
    kept = host.finished()
    host.close()
    assert kept is not None and kept.columns == first.columns and kept.bytes == again.bytes


# What was signed is what is served


class Liar:
    """An owner that says what it likes to the shop, rightly signed."""

    def __init__(self, sides: Sides) -> None:
        self.side_file = sides.owner_file(**JOB)
        self.terms = description_terms(self.side_file)
        self.guest = sides.guests.setdefault("shop", sides.guest("shop"))
        self.say("hello", {"incarnation": bytes(16).hex()})

    def say(self, word: str, facts: dict[str, Any]) -> dict[str, Any]:
        return answer_in(self.guest.serve(write_packet(word_packet(word, facts))), "shop")

    def tell_terms(self, terms: dict[str, Any]) -> dict[str, Any]:
        signature = sign(self.side_file.keys.identity, "terms", terms).hex()
        return self.say("terms", {"terms": terms, "signature": signature, "run": bytes(16).hex()})


def changed(terms: dict[str, Any], change: Callable[[dict[str, Any]], Any]) -> dict[str, Any]:
    copy: dict[str, Any] = json.loads(json.dumps(terms))
    change(copy["describe"])
    return copy


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda d: d.update(bins=1), "describe.bins 1; a whole number from 2 to 100"),
        (lambda d: d.update(bins=True), "describe.bins True"),
        (lambda d: d.update(delta=2), "describe.delta 2"),
        (lambda d: d.update(proof=1), "describe.proof 1; true or false"),
        (lambda d: d.update(extra=1), "describe.extra 1; no such field"),
        (lambda d: d.pop("parties"), "without describe parties"),
        (lambda d: d["parties"]["shop"].update(minimum=0), "describe.parties.shop.minimum 0"),
        (lambda d: d["parties"]["shop"].update(epsilon=-1.0), "describe.parties.shop.epsilon -1"),
        (lambda d: d["parties"]["shop"].update(names="all"), "describe.parties.shop.names 'all'"),
        (lambda d: d["parties"].pop("shop"), "rules of bank, mill in describe.parties"),
        (lambda d: d["parties"].update(other=d["parties"]["mill"]), "in describe.parties"),
    ],
)
def test_bent_terms_are_refused_by_the_field(sides: Sides, change: Callable[[Any], Any], said: str) -> None:
    liar = Liar(sides)
    terms = changed(liar.terms, change)
    with suppress(ColonnadeError, KeyError, TypeError):
        terms["learns"] = learns(terms)
    with pytest.raises(ColonnadeError, match=said):
        liar.tell_terms(terms)
    assert not (sides.folder / "run-shop" / "descriptions.json").exists()


def test_terms_cannot_gloss_over_what_they_do(sides: Sides, monkeypatch: pytest.MonkeyPatch) -> None:
    liar = Liar(sides)
    glossed = changed(liar.terms, lambda d: d["parties"]["shop"].update(minimum=9))
    with pytest.raises(ManifestError, match="gloss over what they do, in learns"):
        liar.tell_terms(glossed)
    monkeypatch.setattr(allow_list, "_check_words", lambda terms: None)  # the control
    assert "signature" in liar.tell_terms(glossed)


def bend_request(step: str, change: Callable[[dict[str, torch.Tensor]], Any]) -> Callable[[Packet], Packet]:
    def bend(request: Packet) -> Packet:
        if request.step != step or not request.frames:
            return request
        fields, about = decode_fields(request.frames[0])
        changed = {name: value.clone() for name, value in fields.items()}
        change(changed)
        return replace(request, frames=(encode(changed, about),))

    return bend


def sent_bent(sides: Sides, bend: Callable[[Packet], Packet]) -> list[str]:
    """What the shop refused in a description in which the owner's requests are bent on their way."""
    said: list[str] = []

    class Bending(Near):
        def send(self, party: str, connection: int, data: bytes) -> None:
            packet = read_packet(data)
            data = write_packet(bend(packet)) if packet.purpose == PURPOSE else data
            super().send(party, connection, data)
            reply = read_packet(self.replies[party][-1])
            if reply.kind == "refusal":
                said.append(str(refused(reply.frames[0], party)))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(near, "Near", Bending)
        with pytest.raises(ColonnadeError, match="'shop'"):
            described(sides)
    return said


@pytest.mark.parametrize(
    ("bend", "said"),
    [
        (bend_request("begin", lambda f: f.update(sizes=torch.tensor([40, 2, 1]))), "the plan has 1 and"),
        (bend_request("begin", lambda f: f.update(keys=f["keys"].expand(2, 32))), "2 keys and sizes"),
        (bend_request("begin", lambda f: f.update(more=f["keys"])), "were expected"),
        (
            bend_request("hear", lambda f: f["points"].__setitem__((3, 1, 0), 7)),
            "proof that does not hold|on the curve|group",
        ),
        (bend_request("believe", lambda f: f["scalars"].__setitem__((3, 1, 0), 7)), "proof that does not hold"),
        (bend_request("believe_groups", lambda f: f.update(minimum=torch.tensor(1))), "at least 5 rows are expected"),
        (lambda r: replace(r, step="embed") if r.step == "answer" else r, "step of a description at 'shop'"),
        (lambda r: replace(r, kind="keep", step="") if r.step == "answer" else r, "of the kind 'keep'"),
        (lambda r: replace(r, step="answer", frames=()) if r.step == "hear" else r, "before all labels came"),
        (lambda r: replace(r, frames=r.frames * 2) if r.step == "hear" else r, "with more than it has"),
    ],
)
def test_bent_requests_are_refused(sides: Sides, bend: Callable[[Packet], Packet], said: str) -> None:
    first, *_ = sent_bent(sides, bend)
    assert re.search(said, first), first
    assert not (shop_folder(sides) / "described.json").exists(), "nothing was answered"


def test_a_plan_of_other_labels_or_rows_is_not_signed(sides: Sides, monkeypatch: pytest.MonkeyPatch) -> None:
    true = OwnerDescription._plan
    for change, said in (
        ({"bound": 512}, "labels up to 512, 1 a row, of which the terms promise a proof"),
        ({"together": 1, "targets": 21}, "describe.targets 21"),
        ({"rows": 39}, "has 39 rows to describe"),
    ):

        def lying(self: OwnerDescription, *tables: Any, change: dict[str, int] = change) -> dict[str, Any]:
            plan = true(self, *tables)
            return {**plan, "describe": {**plan["describe"], **change}}

        monkeypatch.setattr(OwnerDescription, "_plan", lying)
        with pytest.raises(ColonnadeError, match=said):
            described(sides)
        sides.restart()


# A lying party


def test_a_party_that_bends_its_answer_is_named(sides: Sides) -> None:
    def spoil(request: Packet, reply: Packet) -> Packet:
        if request.step != "answer" or reply.kind != "answer":
            return reply
        fields, about = decode_fields(reply.frames[0])
        return replace(reply, frames=(encode({**fields, "sums": fields["sums"][1:]}, about),))

    with pytest.raises(MessageError, match=r"'shop'.*sums came as"):
        described(sides, {"shop": spoil})


def test_a_class_of_few_rows_ends_at_the_owner(sides: Sides, monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[str] = []
    monkeypatch.setattr(DescribeOwner, "run", lambda self: heard.append("run"))
    few = JOB["more"].replace("minimum = 5", "minimum = 21").replace("bins = 3", "bins = 2")
    with pytest.raises(ColonnadeError, match="rows are of the class '1'; 21 or more must be"):
        described(sides, more=few)
    assert not heard
