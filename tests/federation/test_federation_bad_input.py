"""What sides of a federation refuse, each in one sentence that names the cause, before any optimiser steps on it."""

from __future__ import annotations

import hashlib
import itertools
import json
import shutil
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
from torch.optim.optimizer import register_optimizer_step_pre_hook

from colonnade.errors import (
    CheckpointError,
    ColonnadeError,
    ConfigError,
    LinkError,
    ManifestError,
    MessageError,
    PrivacyError,
    RefusedError,
    SealError,
    TableError,
    TrainingError,
    UnreachableError,
)
from colonnade.federation.alignment_server import AlignmentServer
from colonnade.federation.audit_log import AuditLog
from colonnade.federation.certificates import read_identity
from colonnade.federation.handshake import answer_in, word_packet
from colonnade.federation.listener import Listener
from colonnade.federation.owner_process import OwnerProcess
from colonnade.federation.party_process import PartyProcess
from colonnade.federation.side_files import read_owner_file, read_party_file
from colonnade.federation.status_file import Status
from colonnade.federation.terms import labels_of, sign, terms_of
from colonnade.runtime.remote.packet import Packet, write_packet
from colonnade.runtime.remote.party_server import PartyServer
from near import PARTIES, Near, Sides, lead, spoil_facts, spoil_values

pytest.importorskip("grpc")
pytest.importorskip("pyarrow")

DAY = 86_400


def sentence(kind: type[ColonnadeError], work: Callable[[], object]) -> str:
    with pytest.raises(kind) as caught:
        work()
    said = str(caught.value)
    assert said.endswith((".", "?")) and "\n" not in said
    return said


def lead_amid(host: OwnerProcess) -> None:
    """Lead a job to its first round, and leave it there."""

    def leave(_: Any) -> None:
        raise TrainingError("enough.")

    with pytest.raises(TrainingError, match="enough"):
        lead(host, leave)


def refused(sides: Sides, error: type[ColonnadeError], **how: Any) -> str:
    return sentence(error, lambda: lead(sides.host(**how)))


@contextmanager
def no_step_after(seen: list[Any]) -> Iterator[None]:
    """No optimiser may step once something was spoilt, but for what the round before told."""
    stepped: list[Any] = []
    here, run = threading.local(), PartyServer._run

    def note(self: PartyServer, step: Any, turn: Any, packet: Any) -> Any:
        here.round = turn.round
        return run(self, step, turn, packet)

    def step(*_: Any) -> None:
        if seen and getattr(here, "round", seen[0]) >= seen[0]:
            stepped.append(1)

    handle = register_optimizer_step_pre_hook(step)
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(PartyServer, "_run", note)
            yield
    finally:
        handle.remove()
    assert seen and not stepped


def test_the_sides_here_finish_a_job_if_nothing_is_wrong(sides: Sides) -> None:
    lead(sides.host())
    assert all(guest.ended for guest in sides.guests.values())


# Ports, names, certificates, clocks, versions


def test_a_port_that_is_taken(sides: Sides) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen(1)
        port = taken.getsockname()[1]
        side_file = sides.owner_file()
        busy = replace(side_file, federation=replace(side_file.federation, listen=f"127.0.0.1:{port}"))
        said = sentence(LinkError, lambda: OwnerProcess(busy, sides.folder / "run-bank"))
    assert f"port {port} of 127.0.0.1 cannot be listened at" in said
    assert not (sides.folder / "run-bank" / "status.json").exists(), "it would be of a process that waits"


def test_names_that_do_not_resolve(sides: Sides) -> None:
    sides.write_parties(address="no-such-host.invalid:8443")
    shop = PartyProcess(read_party_file(sides.folder / "shop" / "party.toml"), sides.folder / "run-shop")
    assert "'no-such-host.invalid' does not resolve" in sentence(UnreachableError, shop.run)
    side_file = sides.owner_file()
    away = replace(side_file, federation=replace(side_file.federation, listen="no-such-host.invalid:0"))
    assert "does not resolve" in sentence(LinkError, lambda: OwnerProcess(away, sides.folder / "run-bank"))


def test_a_certificate_of_another_party(sides: Sides) -> None:
    for name in ("cert.pem", "key.pem"):
        shutil.copy(sides.folder / "mill" / name, sides.folder / "shop" / name)
    path = sides.folder / "shop" / "party.toml"
    assert "is of 'mill' and [party] has the name 'shop'" in sentence(RefusedError, lambda: read_party_file(path))


def test_an_owner_with_the_certificate_of_a_party(sides: Sides) -> None:
    for name in ("cert.pem", "key.pem"):
        shutil.copy(sides.folder / "mill" / name, sides.folder / "bank" / name)
    assert "is of 'mill' and not one for a server" in sentence(RefusedError, sides.owner_file)


def test_a_party_that_the_owner_does_not_expect(sides: Sides) -> None:
    listener = Listener("127.0.0.1:0", sides.owner_file().keys.credentials, ["shop"])
    try:
        sides.write_parties(address=f"127.0.0.1:{listener.port}")
        mill = PartyProcess(read_party_file(sides.folder / "mill" / "party.toml"), sides.folder / "run-mill")
        assert "the owner expects no party 'mill'" in sentence(RefusedError, mill.run)
    finally:
        listener.close()


@pytest.mark.parametrize("off", [DAY, -DAY])
def test_a_clock_off_by_a_day(sides: Sides, off: int) -> None:
    spoil = spoil_facts("hello", lambda facts: facts.update(time=facts["time"] + off))
    said = refused(sides, RefusedError, spoil={"shop": spoil})
    assert "the clock of 'shop' is 24.0 hours off the owner's" in said


@pytest.mark.parametrize("told", [None, "noon", [1], float("nan")])
def test_a_clock_that_tells_no_time(sides: Sides, told: Any) -> None:
    spoil = spoil_facts("hello", lambda facts: facts.update(time=told))
    said = refused(sides, MessageError, spoil={"shop": spoil})
    assert "'shop' answered 'hello' with 'time'" in said and "seconds since 1970" in said


def test_another_version_at_a_party(sides: Sides) -> None:
    spoil = spoil_facts("hello", lambda facts: facts.update(colonnade="0.0.1"))
    assert "'shop' runs colonnade 0.0.1" in refused(sides, ManifestError, spoil={"shop": spoil})


def test_a_hello_under_another_identity(sides: Sides) -> None:
    for name in ("identity.key", "identity.pub"):
        shutil.copy(sides.folder / "mill" / name, sides.folder / "shop" / f"other.{name}")
    sides.owner_file()
    shutil.copy(sides.folder / "shop" / "other.identity.key", sides.folder / "shop" / "identity.key")
    assert "the hello of 'shop' is signed by another identity" in refused(sides, RefusedError)


JOBS = [
    ({"align": 'mode = "open"'}, "unknown mode of an alignment 'open'; known: plain, psi."),
    ({"align": "minimum = 9\nmaximum = 8"}, "maximum = 8 in [align] is below minimum = 9"),
    ({"more": "[prepare]\ntest = 1.5"}, "1.5"),
    ({"align": 'join = "left"'}, "keeps rows that not every party has, and splitnn needs every row"),
]


@pytest.mark.parametrize(("job", "words"), JOBS, ids=["mode", "maximum", "test", "join"])
def test_a_job_that_could_only_fail_later(sides: Sides, job: dict[str, str], words: str) -> None:
    assert words in sentence(ConfigError, lambda: sides.owner_file(**job))


def test_an_owner_that_brings_more_ids_than_anybody_may(sides: Sides) -> None:
    said = sentence(ConfigError, lambda: sides.host(align="maximum = 39"))
    assert "'bank' brings 40 ids and maximum = 39 in [align]" in said
    assert not (sides.folder / "run-bank").exists(), "nothing was begun"


@pytest.mark.parametrize("address", ["localhost", "localhost:99999", "localhost:http", ""])
def test_an_address_that_is_none(sides: Sides, address: str) -> None:
    sides.write_parties(address=address)
    path = sides.folder / "shop" / "party.toml"
    assert "address in [owner]: " in sentence(ConfigError, lambda: read_party_file(path))
    sides.owner_file()
    job = sides.folder / "bank" / "job.toml"
    job.write_text(job.read_text().replace("127.0.0.1:0", address))
    assert "listen in [federation]: " in sentence(ConfigError, lambda: read_owner_file(job))


LIMITS = ["epsilon = -1", "epsilon = 0.0", "epsilon = nan", "epsilon = inf", "delta = 2.0", "width_per_column = nan"]


@pytest.mark.parametrize("line", LIMITS)
def test_a_budget_that_is_none(sides: Sides, line: str) -> None:
    sides.write_parties(line)
    path = sides.folder / "shop" / "party.toml"
    assert "in [allow] is out of range" in sentence(ConfigError, lambda: read_party_file(path))


def test_a_peer_whose_key_is_no_text(sides: Sides) -> None:
    sides.write_parties(peers="mill = 3")
    path = sides.folder / "shop" / "party.toml"
    assert "mill = 3 in [peers] is no key" in sentence(ConfigError, lambda: read_party_file(path))


# Terms: a party is driven by itself


class Talk:
    """An owner that says what it likes to one party, rightly signed."""

    def __init__(self, sides: Sides, **job: str) -> None:
        self.sides, self.side_file = sides, sides.owner_file(**job)
        self.terms = terms_of(self.side_file)
        self.guest = sides.guests.setdefault("shop", sides.guest("shop"))
        self.say("hello", {"incarnation": bytes(16).hex()})

    def say(self, word: str, facts: dict[str, Any]) -> dict[str, Any]:
        return answer_in(self.guest.serve(write_packet(word_packet(word, facts))), "shop")

    def sign(self, terms: dict[str, Any]) -> dict[str, Any]:
        signature = sign(self.side_file.keys.identity, "terms", terms).hex()
        return self.say("terms", {"terms": terms, "signature": signature, "run": bytes(16).hex()})

    def tell_signed(self) -> None:
        keys = [self.sides.folder / name / "identity.key" for name in ("bank", *PARTIES)]
        signed = {key.parent.name: sign(read_identity(key), "terms", self.terms).hex() for key in keys}
        self.say("signed", {"signatures": signed})

    def refused(self, terms: dict[str, Any], kind: type[ColonnadeError] = ManifestError) -> str:
        said = sentence(kind, lambda: self.sign(terms))
        assert self.guest.terms is None and not (self.sides.folder / "run-shop" / "runs.json").exists()
        return said


ALLOWED = [
    ('methods = ["fdml"]', {}, "method.name 'splitnn'"),
    ("rounds = 1", {}, "train.rounds 2"),
    ("minimum = 10", {}, "align.minimum 1"),
    ("minimum = 10", {"align": "minimum = 9"}, "align.minimum 9"),
    ("maximum = 10", {}, "align.maximum None"),
    ("maximum = 10", {"align": "maximum = 11"}, "align.maximum 11"),
    ("", {"align": 'mode = "plain"'}, "align.mode 'plain'"),
    ('seals = ["noise"]', {"more": '[[seal]]\nkind = "bits"'}, "seals 'bits'"),
    ('needs = ["noise"]', {}, "no seal 'noise', which 'shop' needs"),
    ("epsilon = 1.0", {}, "seals.noise.epsilon 'no noise'"),
    ("epsilon = 1.0", {"more": '[[seal]]\nkind = "noise"\nepsilon = 2.0'}, "seals.noise.epsilon 2.0"),
    ("epsilon = 2.0", {"more": '[[seal]]\nkind = "noise"\nepsilon = 2.0\ndelta = 0.5'}, "seals.noise.delta 0.5"),
]


@pytest.mark.parametrize(("allow", "job", "field"), ALLOWED, ids=[one[2] for one in ALLOWED])
def test_what_a_party_does_not_allow_is_named(sides: Sides, allow: str, job: dict[str, str], field: str) -> None:
    sides.write_parties(allow)
    talk = Talk(sides, **job)
    assert field in talk.refused(talk.terms)


def test_more_rounds_or_rows_than_allowed_show_in_the_plan(sides: Sides) -> None:
    for allow, said in (
        ("rounds = 3", "the plan has 4 rounds, and 'shop' allows 3"),
        ("rows = 31", "the plan has 32 rows, and 'shop' allows 31;"),
    ):
        sides.write_parties(allow)
        assert said in refused(sides, ManifestError, train="epochs = 2")
        sides.restart()
        for side in ("bank", "shop", "mill"):
            shutil.rmtree(sides.folder / f"run-{side}")


def test_one_run_too_many(sides: Sides) -> None:
    talk = Talk(sides)
    talk.sign(talk.terms)
    sides.restart()
    again = Talk(sides)
    again.sign(again.terms)  # the same job is no second one
    sides.restart()
    other = Talk(sides, train="rounds = 2\nseed = 5")
    assert "'shop' has let 1 runs begin and allows 1;" in sentence(ManifestError, lambda: other.sign(other.terms))


@pytest.mark.parametrize("text", ["", "7", "{"])
def test_a_count_of_runs_that_is_damaged_is_not_taken_for_none(sides: Sides, text: str) -> None:
    talk = Talk(sides)
    talk.sign(talk.terms)
    (sides.folder / "run-shop" / "runs.json").write_text(text)
    sides.restart()
    again = Talk(sides, train="rounds = 2\nseed = 5")
    said = sentence(CheckpointError, lambda: again.sign(again.terms))
    assert "runs.json is damaged, and with it what was counted" in said


def changed(terms: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {**terms, **fields}


HOSTILE: list[tuple[str, Callable[[dict[str, Any]], dict[str, Any]], str]] = [
    ("protocol", lambda t: changed(t, protocol="colonnade/federation/0"), "protocol 'colonnade/federation/0'"),
    ("version", lambda t: changed(t, colonnade="9.9"), "colonnade '9.9'"),
    ("not in it", lambda t: changed(t, parties=[t["parties"][0], t["parties"][2]]), "'shop' is not among the parties"),
    ("I am the owner", lambda t: changed(t, owner="shop"), "the owner 'shop'"),
    ("no owner", lambda t: changed(t, parties=t["parties"][1:]), "the owner 'bank'"),
    ("owner last", lambda t: changed(t, parties=t["parties"][::-1]), "the owner 'bank'"),
    ("twice", lambda t: changed(t, parties=[*t["parties"], t["parties"][2]]), "twice"),
    (
        "one key for two",
        lambda t: changed(t, parties=[*t["parties"], {**t["parties"][2], "name": "ghost"}]),
        "a key twice",
    ),
    ("glossed over", lambda t: changed(t, learns=["Nobody learns anything."]), "learns"),
    ("labels", lambda t: changed(t, labels="unsent"), 'labels ("inferable" here, "unsent" at the owner)'),
]


@pytest.mark.parametrize(("change", "said"), [one[1:] for one in HOSTILE], ids=[one[0] for one in HOSTILE])
def test_terms_that_are_not_right(sides: Sides, change: Callable[..., dict[str, Any]], said: str) -> None:
    talk = Talk(sides)
    assert said in talk.refused(change(talk.terms))


@pytest.mark.parametrize("field", ["seals", "method", "train", "align", "parties", "owner"])
def test_terms_that_lack_something_are_refused_and_the_party_lives(sides: Sides, field: str) -> None:
    talk = Talk(sides)
    for value in (None, 7, "x", [7]):
        without = changed(talk.terms, **{field: value})
        with pytest.raises(ColonnadeError):
            talk.sign(without)
    with pytest.raises(ColonnadeError):
        talk.sign({name: value for name, value in talk.terms.items() if name != field})
    assert len(talk.sign(talk.terms)["signature"]) == 128


def test_terms_that_the_owner_did_not_sign(sides: Sides) -> None:
    talk = Talk(sides)
    forged = {"terms": talk.terms, "signature": sign(talk.guest.party_file.keys.identity, "terms", talk.terms).hex()}
    forged["run"] = bytes(16).hex()
    assert "the owner's terms" in sentence(SealError, lambda: talk.say("terms", forged))


def test_another_key_of_a_peer_than_the_party_knows(sides: Sides) -> None:
    sides.write_parties(peers='mill = "../bank/identity.pub"')
    talk = Talk(sides)
    assert "another key of 'mill' than 'shop' knows" in talk.refused(talk.terms)
    sides.restart()
    sides.write_parties(peers='farm = "../bank/identity.pub"')
    talk = Talk(sides)
    assert "the terms have no party 'farm', which [peers] of 'shop' names" in talk.refused(talk.terms)


def test_a_blinded_sum_needs_a_peer_that_is_known(sides: Sides) -> None:
    sides.write_parties('needs = ["blind"]', peers="")
    said = sentence(ConfigError, lambda: read_party_file(sides.folder / "shop" / "party.toml"))
    assert "[peers] names nobody" in said


@pytest.mark.parametrize(
    ("job", "why"),
    [
        ({"method": "fdml", "federation": 'labels = "shown"', "more": '[[seal]]\nkind = "blind"'}, "the seal 'blind'"),
        ({"align": "minimum = 10"}, "align.minimum 10"),
    ],
)
def test_what_rests_on_the_others_needs_their_keys(sides: Sides, job: dict[str, str], why: str) -> None:
    sides.write_parties("mix = 1", peers="")
    talk = Talk(sides, **job)
    said = talk.refused(talk.terms)
    assert why in said and "'shop' knows no key of 'mill'" in said and 'mill = "its.pub" in [peers]' in said
    sides.restart()
    sides.write_parties("mix = 1")
    talk = Talk(sides, **job)
    assert talk.sign(talk.terms)


@pytest.mark.parametrize("name", ["../../../outside/", "..", "a/b", "a\x1b[2J", "x" * 101, ""])
def test_the_owner_cannot_choose_a_party_s_folder(sides: Sides, name: str) -> None:
    talk = Talk(sides)
    assert "the terms came with job" in talk.refused(changed(talk.terms, job=name), MessageError)


def test_a_changed_field_stops_the_start_with_the_field_named(sides: Sides) -> None:
    talk = Talk(sides)
    talk.sign(talk.terms)
    other = changed(talk.terms, train={**talk.terms["train"], "rounds": 3})
    assert "train.rounds (2 here, 3 at the owner)" in sentence(ManifestError, lambda: talk.sign(other))
    sides.host().close()
    said = refused(sides, ManifestError, train="rounds = 3")
    assert "the terms changed since they were signed, in train.rounds (2 then, 3 now)" in said


def test_somebody_signed_other_terms(sides: Sides) -> None:
    other = "00" * 64
    said = refused(sides, SealError, spoil={"mill": spoil_facts("terms", lambda facts: facts.update(signature=other))})
    assert "the signature of the terms by 'mill' is not valid" in said
    sides.write_parties("runs = 2")
    sides.restart()
    talk = Talk(sides)
    signatures = {"signatures": {"bank": other, "shop": other}}
    talk.sign(talk.terms)
    assert "all of ['bank', 'mill', 'shop'] must sign" in sentence(
        ManifestError, lambda: talk.say("signed", signatures)
    )


def test_terms_that_the_operator_has_read_and_no_others(sides: Sides) -> None:
    (sides.folder / "shop" / "read.json").write_text(json.dumps(terms_of(sides.owner_file())))
    sides.write_parties('terms = "../shop/read.json"')
    talk = Talk(sides, train="rounds = 3")
    assert "in train.rounds (2 here, 3 at the owner)" in talk.refused(talk.terms)
    sides.restart()
    right = Talk(sides)
    assert len(right.sign(right.terms)["signature"]) == 128


@pytest.mark.parametrize("text", ["", "[]", None])
def test_a_file_of_terms_that_holds_none(sides: Sides, text: str | None) -> None:
    if text is not None:
        (sides.folder / "shop" / "read.json").write_text(text)
    sides.write_parties('terms = "read.json"')
    said = sentence(ConfigError, lambda: read_party_file(sides.folder / "shop" / "party.toml"))
    assert "read.json of [allow] holds no terms" in said


def test_what_becomes_of_labels_is_accepted_by_name(sides: Sides) -> None:
    for method, found, can in (
        ("vimadmm", "shown", "can read the labels of the rows (read)"),
        ("splitnn", "inferable", "can read the labels of the rows (read), given one known label of each class"),
    ):
        said = sentence(ManifestError, lambda method=method: terms_of(sides.owner_file(method, federation="")))  # type: ignore[misc]
        assert f"{method} sends values from which every party {can}" in said and said.count(". ") == 0
        assert "random-labels" in said and "another method" in said and f"labels = '{found}' in [federation]" in said
        assert "epsilon = 2 (test AUC 0.7717 on credit default; with true labels 0.7742)" in said and "(0.7634)" in said
        terms = terms_of(sides.owner_file(method, federation=f'labels = "{found}"'))
        assert terms["labels"] == found
        protected = sides.owner_file(method, federation="", more='[[seal]]\nkind = "random-labels"')
        assert labels_of(protected) == "protected"
    assert "labels = 'shown'" in sentence(ManifestError, lambda: terms_of(sides.owner_file("vimadmm")))
    assert labels_of(sides.owner_file("local", federation="")) == "unsent"
    assert "unknown choice of labels" in sentence(ConfigError, lambda: sides.owner_file(federation='labels = "hidden"'))


@pytest.mark.parametrize("side_file", ['address = "x:1"', 'key = "k"', ""])
def test_an_owner_section_that_lacks_a_key(sides: Sides, side_file: str) -> None:
    (sides.folder / "shop" / "party.toml").write_text(
        f'[party]\nname="shop"\nfiles="f"\nid="i"\n[owner]\n{side_file}\n'
    )
    assert "[owner]" in sentence(ConfigError, lambda: read_party_file(sides.folder / "shop" / "party.toml"))


# Plans


def lying(**fields: Callable[[Any], Any]) -> type[OwnerProcess]:
    """An owner whose plan is not what its terms come to."""

    class Lying(OwnerProcess):
        def _planned(self, *about: Any) -> dict[str, Any]:
            plan = super()._planned(*about)
            return {**plan, **{name: change(plan[name]) for name, change in fields.items()}}

    return Lying


PLANS: list[tuple[dict[str, Callable[[Any], Any]], str]] = [
    ({"settings": lambda s: {**s, "rounds": 10**6}}, "settings.rounds (2 here, 1000000 at the owner)"),
    ({"settings": lambda s: {**s, "batch": 1}}, "settings.batch"),
    ({"model": lambda m: [{"kind": "mlp", "hidden": []}] * len(m)}, "model"),
    ({"optimizer": lambda m: [{**m[0], "lr": 99.0}] * len(m)}, "optimizer"),
    ({"schema": lambda _: {}}, "schema"),
    ({"tables": lambda t: t[:2]}, "not of the parties bank, shop, mill"),
    ({"tables": lambda t: [[name, rows + 1, shape] for name, rows, shape in t]}, "which has [32, [3]]"),
    ({"tables": lambda t: [t[0], t[1], [t[2][0], t[2][1], [10**9]]]}, "the plan came with tables.2.2.0 1000000000"),
    ({"tables": lambda t: [t[0], t[1], [t[2][0], t[2][1], []]]}, "rows of [] of 'mill'"),  # as if it were an owner
    ({"outputs": lambda _: 10**9}, "the plan came with outputs 1000000000"),
    ({"outputs": lambda _: 1001}, "the plan has 1001 outputs, and 'shop' allows 1000"),
    ({"terms": lambda _: "00" * 32}, "a plan of other terms"),
    ({"learns": lambda _: ["Nobody learns anything."]}, "does not follow from the terms that were signed, in learns"),
    ({"settings": lambda _: None}, "the plan came with settings None"),
]


@pytest.mark.parametrize(("fields", "said"), PLANS, ids=[one[1] for one in PLANS])
def test_a_plan_that_does_not_follow_from_the_terms(sides: Sides, fields: Any, said: str) -> None:
    assert said in refused(sides, ColonnadeError, kind=lying(**fields))


# Rows and files


def test_a_file_that_changed_since_it_was_signed(sides: Sides, caplog: pytest.LogCaptureFixture) -> None:
    def change(request: Packet, reply: Packet) -> Packet:
        if request.step == "signed":
            with (sides.folder / "shop" / "table.csv").open("a") as file:
                file.write("c999,0,0,0\n")
        return reply

    assert "'shop' cannot do that with its files" in refused(sides, TableError, spoil={"shop": change})
    assert "the files of 'shop' have changed" in caplog.text


def test_the_words_of_an_unexpected_error_stay_at_the_party(
    sides: Sides, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def failing(*_: Any) -> None:
        raise ValueError("could not convert string to float: 'Mrs Smith'")

    monkeypatch.setattr("colonnade.federation.party_handshake.prepared", failing)
    said = refused(sides, ColonnadeError)
    assert "'prepare' lacks something" in said
    assert "ValueError" in said
    assert "Smith" not in said
    assert "Smith" in caplog.text


def test_the_last_words_of_a_party_that_cannot_go_on_are_in_its_log(
    sides: Sides, monkeypatch: pytest.MonkeyPatch
) -> None:
    attendance = PartyProcess(read_party_file(sides.folder / "shop" / "party.toml"), sides.folder / "run-shop")
    sides.guests["shop"] = attendance.session
    talk = Talk(sides)
    talk.sign(talk.terms)

    def damaged(*_: Any) -> bytes:
        raise CheckpointError("the state of 'shop' is damaged.")

    monkeypatch.setattr(attendance.session, "answer", damaged)
    line, sent = Mock(), []
    line.send = sent.append
    with pytest.raises(CheckpointError):
        attendance._serve_request(line, write_packet(word_packet("signed", {})))
    (path,) = (sides.folder / "run-shop").glob("*/audit.jsonl")
    assert hashlib.sha256(sent[0]).hexdigest() in path.read_text().splitlines()[-1]


@pytest.mark.parametrize("edit", [lambda lines: [lines[0], *lines[:0:-1]], lambda lines: lines[:-1]])
def test_a_file_that_changed_since_its_rows_were_aligned(sides: Sides, edit: Any) -> None:
    lead_amid(sides.host())
    sides.restart()
    path = sides.folder / "shop" / "table.csv"
    path.write_text("\n".join(edit(path.read_text().splitlines())) + "\n")
    assert "the files changed since their rows were aligned" in refused(sides, ManifestError)


def test_kept_rows_in_another_order(sides: Sides) -> None:
    lead_amid(sides.host())
    sides.restart()
    (path,) = (sides.folder / "run-shop").glob("*/rows.bin")
    rows = np.frombuffer(path.read_bytes(), "<i8")
    path.write_bytes(rows[::-1].tobytes())
    assert "its rows may be others, or in another order" in refused(sides, CheckpointError)


def test_rows_in_another_order_do_not_pass_the_proof(sides: Sides) -> None:
    def permute(request: Packet, reply: Packet) -> Packet:
        server = sides.guests["shop"].server
        if isinstance(server, AlignmentServer) and len(server.group.peer.rows) and request.step.startswith("keep"):
            server.group.peer.rows = server.group.peer.rows[::-1].copy()
        return reply

    said = refused(sides, SealError, spoil={"shop": permute})
    assert "other rows than" in said and "in another order" in said


@pytest.mark.parametrize("lie", [{"rows": 31}, {"test": 9}])
def test_a_party_that_lies_about_its_rows(sides: Sides, lie: dict[str, Any]) -> None:
    said = refused(sides, MessageError, spoil={"shop": spoil_facts("prepare", lambda facts: facts.update(lie))})
    assert "'shop' has" in said and "and the owner 32 and 8; align again" in said


@pytest.mark.parametrize(
    "lie",
    [
        {"shape": [0]},
        {"shape": "3"},
        {"shape": [10**5, 10**5]},
        {"cardinalities": [10**12]},
        {"shape": None},
        {"rows": None},
    ],
)
def test_a_party_with_impossible_rows(sides: Sides, lie: dict[str, Any]) -> None:
    said = refused(sides, MessageError, spoil={"shop": spoil_facts("prepare", lambda facts: facts.update(lie))})
    assert f"'shop' answered 'prepare' with '{min(lie)}'" in said and "was expected" in said


def test_ids_are_compared_so_often_and_no_more(sides: Sides) -> None:
    sides.write_parties("alignments = 2")
    talk = Talk(sides)
    talk.sign(talk.terms)
    visits = itertools.count(1)
    talk.tell_signed()
    for _ in range(2):
        talk.say("align", {"visit": next(visits)})
    assert "compared its ids 2 times" in sentence(PrivacyError, lambda: talk.say("align", {"visit": next(visits)}))
    sides.restart()
    again = Talk(sides)
    again.sign(again.terms)
    again.tell_signed()
    assert "compared its ids 2 times" in sentence(PrivacyError, lambda: again.say("align", {"visit": 1}))


# Answers in training


def nan_last(seen: list[Any]) -> Callable[[Packet, Packet], Packet]:
    def spoil(request: Packet, reply: Packet) -> Packet:
        if request.kind != "step" or request.purpose != "train" or not reply.frames:
            return reply
        seen.append(request.round)
        return replace(reply, frames=(bytes(reply.frames[0])[:-4] + np.float32("nan").tobytes(),))

    return spoil


def stale(seen: list[Any]) -> Callable[[Packet, Packet], Packet]:
    """In the second round, the reply of the first."""
    kept: list[Packet] = []

    def spoil(request: Packet, reply: Packet) -> Packet:
        if request.kind != "step" or request.purpose != "train" or not reply.frames:
            return reply
        kept.append(reply)
        if request.round == 0:
            return reply
        seen.append(request.round)
        return kept[0]

    return spoil


WRONG = {
    "shape": (lambda seen: spoil_values(lambda value: value[:-1], seen), "from 'shop' in step"),
    "width": (lambda seen: spoil_values(lambda value: value[:, :-1], seen), "was expected"),
    "kind": (lambda seen: spoil_values(lambda value: value.double(), seen), "float64"),
    "nan": (nan_last, "finite"),
    "stale": (stale, "it is stale or forged"),
}


@pytest.mark.parametrize(("spoil", "said"), WRONG.values(), ids=WRONG)
def test_answers_that_are_wrong_are_named_before_an_optimiser_steps(sides: Sides, spoil: Any, said: str) -> None:
    seen: list[Any] = []
    with no_step_after(seen):
        found = refused(sides, MessageError, spoil={"shop": spoil(seen)})
    assert said in found and "'shop'" in found


def test_an_owner_that_asks_openly_for_what_was_to_be_summed(sides: Sides) -> None:
    """Without the schema's word for it a party would answer each by itself; so the schema is worked out there too."""

    def without_sums(schema: dict[str, Any]) -> dict[str, Any]:
        return {key: form for key, form in schema.items() if "/sum/" not in key}

    blind = '[[seal]]\nkind = "blind"'
    job = {"method": "fdml", "federation": 'labels = "shown"', "more": blind}
    sides.write_parties("mix = 1")
    assert "schema" in refused(sides, ManifestError, kind=lying(schema=without_sums), **job)


def test_a_blinded_sum_with_one_other_needs_the_operators_word(sides: Sides) -> None:
    job = {"method": "fdml", "federation": 'labels = "shown"', "more": '[[seal]]\nkind = "blind"'}
    assert "allows at least 2 (mix)" in refused(sides, ManifestError, **job)


def test_a_budget_is_kept_whatever_the_owner_says(sides: Sides) -> None:
    """Begin again, or let the party die before it was told to keep its state: what was spent stays spent."""
    job = {"more": '[[seal]]\nkind = "noise"\nsigma = 20.0\nepsilon = 50.0'}
    lead_amid(sides.host(**job))
    (party,) = [guest.server for name, guest in sides.guests.items() if name == "shop"]
    assert isinstance(party, PartyServer)
    spent = party.ends["shop"].budget
    assert spent is not None and spent.most_releases > 0
    for states in (sides.folder / "run-shop").glob("*/states"):
        shutil.rmtree(states)  # as if the owner had never let it keep one
    sides.restart()
    shutil.rmtree(sides.folder / "run-bank" / "checkpoints")
    (sides.folder / "run-bank" / "config.json").unlink()
    begun: list[int] = []

    def look(request: Packet, reply: Packet) -> Packet:
        server = sides.guests["shop"].server
        if request.step == "begin" and isinstance(server, PartyServer):
            budget = server.ends["shop"].budget
            begun.append(0 if budget is None else budget.most_releases)
        return reply

    lead(sides.host(spoil={"shop": look}, **job))
    assert begun == [spent.most_releases]


def test_nothing_leaves_the_owner_that_is_not_in_its_log(sides: Sides, monkeypatch: pytest.MonkeyPatch) -> None:
    host, send, seen = sides.host(), Near.send, []
    log = sides.folder / "run-bank" / "audit.jsonl"

    def sent(self: Near, party: str, connection: int, data: bytes) -> None:
        seen.append(hashlib.sha256(data).hexdigest() in log.read_text())
        send(self, party, connection, data)

    monkeypatch.setattr(Near, "send", sent)
    lead(host)
    assert len(seen) > 10 and all(seen)


def test_the_status_of_a_run_says_who_is_connected(sides: Sides) -> None:
    host = sides.host()
    host.gather()
    seen: list[Status] = []
    host.train(lambda _: seen.append(host.session.status.status))
    host.close()
    assert seen and all(peer.connected for one in seen for peer in one.peers)
    assert (seen[0].state, seen[0].rounds, len(seen[0].peers)) == ("training", 2, 2)


def test_two_logs_of_one_job_agree(sides: Sides) -> None:
    from colonnade.federation.audit_check import compare, verify

    host = sides.host()
    lead(host)
    audit = sides.guests["shop"].audit
    assert isinstance(audit, AuditLog)
    audit.close()
    logs = sides.folder / "run-bank" / "audit.jsonl", next((sides.folder / "run-shop").glob("*/audit.jsonl"))
    assert verify(logs[0], host.job_file.keys.identity.public).signed and compare(*logs) == []
