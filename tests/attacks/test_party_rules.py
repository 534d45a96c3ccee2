"""An owner with valid keys that breaks the order, the scope or the count of what a party serves.

Real parties and owners in one process; each control takes away what stops the attack, and shows it at work.
"""

from __future__ import annotations

import json
import logging
import re
import shutil
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import torch

from colonnade.errors import (
    CheckpointError,
    ColonnadeError,
    ConfigError,
    FolderError,
    ManifestError,
    MessageError,
    PrivacyError,
    SealError,
    TableError,
    TrainingError,
)
from colonnade.federation import job_folders, party_handshake, party_job, protocol
from colonnade.federation.certificates import read_identity
from colonnade.federation.handshake import answer_in, word_packet
from colonnade.federation.owner_process import OwnerProcess
from colonnade.federation.party_counts import OpenRows, Runs
from colonnade.federation.party_session import PartySession
from colonnade.federation.prediction import Prediction, prediction_terms
from colonnade.federation.protocol import REQUEST, STAGES, TABLE, WORDS
from colonnade.federation.terms import job_id, learns, sign, terms_of
from colonnade.runtime.remote import state_store as keeping
from colonnade.runtime.remote.packet import Packet, read_packet, write_packet
from colonnade.runtime.remote.party_server import PartyServer
from colonnade.runtime.remote.remote_backend import RemoteBackend
from colonnade.runtime.remote.remote_party import RemoteParty
from colonnade.runtime.remote.request_server import refused
from colonnade.runtime.remote.run_position import RunPosition
from colonnade.runtime.remote.scope import ANYTHING
from near import PARTIES, Near, Sides, lead

pytest.importorskip("grpc")
pytest.importorskip("pyarrow")

NOISE = '[[seal]]\nkind = "noise"\nsigma = 10.0\nepsilon = 8.0'  # grants 61 releases of a person
GRANTED = 61


@pytest.fixture
def sides(sides: Sides) -> Sides:
    sides.write_parties("runs = 9", '[predict]\nfiles = "table.csv"')
    return sides


def leave(_: Any) -> None:
    raise TrainingError("enough.")


def begin_and_leave(sides: Sides, **job: str) -> None:
    """A job that was begun and is not at its end."""
    with pytest.raises(TrainingError, match="enough"):
        lead(sides.host(**job), leave)
    sides.restart()


def new_owner_folder(sides: Sides) -> None:
    sides.restart()
    shutil.move(sides.folder / "run-bank", sides.folder / "run-bank-before")


def shop_folder(sides: Sides) -> Path:
    (place,) = (sides.folder / "run-shop").glob("job-*")
    return place


def shop_states(sides: Sides, below: str = "states") -> dict[str, bytes]:
    return {str(one): one.read_bytes() for one in sorted((shop_folder(sides) / below).rglob("*")) if one.is_file()}


class Liar:
    """An owner that says what it likes to the shop, rightly signed."""

    def __init__(self, sides: Sides, **job: str) -> None:
        self.sides, self.side_file = sides, sides.owner_file(**job)
        self.terms = terms_of(self.side_file)
        self.guest = sides.guests.setdefault("shop", sides.guest("shop"))
        self.say("hello", {"incarnation": bytes(16).hex()})

    def say(self, word: str, facts: dict[str, Any]) -> dict[str, Any]:
        return answer_in(self.guest.serve(write_packet(word_packet(word, facts))), "shop")

    def tell_terms(self, terms: dict[str, Any], run: bytes = bytes(16)) -> dict[str, Any]:
        signature = sign(self.side_file.keys.identity, "terms", terms).hex()
        return self.say("terms", {"terms": terms, "signature": signature, "run": run.hex()})

    def tell_signed(self, **others: dict[str, Any]) -> dict[str, Any]:
        """Everybody's signatures of the terms, or of those that somebody else was told."""
        names = ("bank", *PARTIES)
        keys = {name: read_identity(self.sides.folder / name / "identity.key") for name in names}
        signed = {name: sign(keys[name], "terms", others.get(name, self.terms)).hex() for name in names}
        return self.say("signed", {"signatures": signed})


# The order of words


def said_at(guest: PartySession, word: str) -> str:
    """The refusal of a word or a request in which nothing is right."""
    request = write_packet(Packet("step", sequence=10**6)) if word == REQUEST else write_packet(word_packet(word, {}))
    reply = read_packet(guest.serve(request))
    assert reply.kind == "refusal"
    return str(refused(reply.frames[0], guest.name))


def test_every_word_at_every_stage_is_as_the_table_has_it(sides: Sides) -> None:
    seen: set[tuple[str, str]] = set()

    def try_all(guest: PartySession) -> None:
        before = guest.stage
        for word in (*WORDS, REQUEST):
            said = said_at(guest, word)
            unsigned = "before anything was signed" in said
            assert ((before, word) in TABLE) != ("came at the stage" in said or unsigned), (before, word, said)
            assert guest.stage == before
            seen.add((before, word))

    walked: list[tuple[str, str, str]] = []

    def look(request: Packet, reply: Packet) -> Packet:
        guest = sides.guests["shop"]
        walked.append((stage[0], request.step if request.kind == "talk" else REQUEST, guest.stage))
        if (guest.stage, "hello") not in seen:
            try_all(guest)
        stage[0] = guest.stage
        return reply

    stage = ["new"]
    try_all(sides.guest("shop"))
    lead(sides.host(spoil={"shop": look}))
    assert seen == {(one, word) for one in STAGES for word in (*WORDS, REQUEST)}
    assert {one for _, _, one in walked} == set(STAGES) - {"new"}
    assert all(TABLE[before, word] == after or after == "ended" for before, word, after in walked)


def test_the_page_has_the_words_in_their_order() -> None:
    page = (Path(__file__).parents[2] / "docs" / "federation.md").read_text()
    assert tuple(re.findall(r"^\| `(\w+)` \|", page.split("| word |")[1].split("\n\n")[0], re.M)) == WORDS


def test_nothing_is_aligned_before_everybody_signed_the_same(sides: Sides, monkeypatch: pytest.MonkeyPatch) -> None:
    liar = Liar(sides)
    liar.tell_terms(liar.terms)
    with pytest.raises(MessageError, match="'align' came at the stage 'agreed'"):
        liar.say("align", {"visit": 1})
    other = {**liar.terms, "train": {**liar.terms["train"], "rounds": 7}}
    with pytest.raises(SealError, match="by 'mill' is not valid"):
        liar.tell_signed(mill=other)
    with pytest.raises(MessageError, match="'align' came at the stage 'agreed'"):
        liar.say("align", {"visit": 1})
    assert not (shop_folder(sides) / "alignments.json").exists()
    monkeypatch.setitem(protocol.TABLE, ("agreed", "align"), "aligning")  # the control
    assert liar.say("align", {"visit": 1}) == {}


# A prediction trains nothing


def shop_of(run: Any) -> RemoteParty:
    """The shop as the owner of a run reaches it."""
    assert isinstance(run.parties.backend, RemoteBackend)
    return run.parties.backend.parties["shop"]


def predicting(sides: Sides, **job: str) -> tuple[Prediction, RemoteParty]:
    """A prediction that was begun, and the shop, to which its owner may send what it likes."""
    side_file = sides.owner_file(**job)
    for name in PARTIES:
        sides.guests.setdefault(name, sides.guest(name))
    listener: Any = Near(sides.guests, {})
    files = [str(sides.folder / "bank" / "table.csv")]
    host = Prediction(side_file, sides.folder / "run-bank", files, listener=listener)
    host.gather()
    run, _ = host.session.with_all(host._scored)
    return host, shop_of(run)


def turn(purpose: str, table: str, step: str = "embed", number: int = 1) -> dict[str, Any]:
    return {"step": step, "purpose": purpose, "table": table, "round": 1, "turn": 1000 + number}


def test_a_prediction_keeps_nothing_and_trains_nothing(sides: Sides) -> None:
    lead(sides.host())
    sides.restart()
    before = shop_states(sides)
    host, shop = predicting(sides)
    with pytest.raises(MessageError, match="'shop' serves a prediction, which trains nothing"):
        shop.call("keep", {"needed": torch.tensor([1])})
    for about, said in (
        (turn("train", "train"), "asked to train; predict only"),
        (turn("evaluate", "test"), "asked to evaluate; predict only"),
        (turn("predict", "train"), "on 'train'; on predict only"),
        (turn("predict", "predict", step="follow"), "belongs to training alone"),
    ):
        with pytest.raises(MessageError, match=said):
            shop.call("step", **about)
    assert shop_states(sides) == before
    host.close()


def test_the_control_a_prediction_without_a_scope_rewrites_the_model(
    sides: Sides, monkeypatch: pytest.MonkeyPatch
) -> None:
    lead(sides.host())
    sides.restart()
    before = shop_states(sides)
    monkeypatch.setattr(party_job, "PREDICTION", ANYTHING)
    host, shop = predicting(sides)
    needed = PartyServer.states(sides.guests["shop"].server)  # type: ignore[arg-type]
    assert needed
    shop.call("keep", {"needed": torch.tensor([max(sides.guests["shop"].server.keeping.numbers)])})  # type: ignore[union-attr]
    assert shop_states(sides) != before
    host.close()


# A job that is over


def test_a_job_that_ended_is_not_served_again(sides: Sides) -> None:
    lead(sides.host())
    run = bytes.fromhex(json.loads((sides.folder / "run-bank" / "run.json").read_text())["run"])
    for _ in range(2):  # the same process, and another one
        liar = Liar(sides)
        with pytest.raises(ManifestError, match="the job is at its end, and 'shop' serves it no more"):
            liar.tell_terms(liar.terms, run)
        sides.restart()
    (shop_folder(sides) / "ended.json").unlink()  # the control
    liar = Liar(sides)
    assert "signature" in liar.tell_terms(liar.terms, run)


def test_sides_that_come_back_only_for_the_end_end_well(sides: Sides) -> None:
    lead(sides.host())
    sides.restart()
    (sides.folder / "run-bank" / "ended.json").write_text(json.dumps({"heard": ["mill"]}))  # it died on the way
    (shop_folder(sides) / "ended.json").unlink()
    for _ in range(2):  # one that has not heard of it, and an owner that was told so
        host = sides.host()
        summary = host.finished()
        host.close()
        assert summary is not None and summary["round"] == 2
        assert sides.guests["shop"].ended and not sides.guests["mill"].ended
    assert (shop_folder(sides) / "ended.json").exists()
    sides.restart()
    (sides.folder / "run-bank" / "ended.json").write_text(json.dumps({"heard": []}))
    host = sides.host()  # and parties that have heard of it, whose answer the owner lost
    assert host.finished() is not None
    host.close()
    assert all(guest.ended for guest in sides.guests.values())


def test_only_the_owner_of_a_job_ends_it(sides: Sides) -> None:
    liar = Liar(sides)
    liar.tell_terms(liar.terms)
    job, other = job_id(liar.terms).hex(), read_identity(sides.folder / "mill" / "identity.key")
    with pytest.raises(SealError, match="the owner's end of the job"):
        liar.say("end", {"job": job, "signature": sign(other, "end", {"job": job}).hex()})
    assert not liar.guest.ended


# Runs


def first_weights(sides: Sides, below: str) -> bytes:
    path = min((shop_folder(sides) / below).rglob("*.safetensors"))
    return path.read_bytes()


def test_the_same_job_in_another_folder_is_a_counted_run_with_fresh_weights(sides: Sides) -> None:
    begin_and_leave(sides)
    assert len(list(shop_folder(sides).glob("run-*"))) == 0
    first = first_weights(sides, "states")
    new_owner_folder(sides)
    begin_and_leave(sides)
    assert [one.name for one in shop_folder(sides).glob("run-*")] == ["run-002"]
    assert first_weights(sides, "run-002/states") != first
    assert len(json.loads((sides.folder / "run-shop" / "runs.json").read_text())) == 2


def forget_checkpoints(sides: Sides) -> None:
    """The owner's folder keeps the name of its run, and nothing of what it has learnt."""
    shutil.rmtree(sides.folder / "run-bank" / "checkpoints")
    (sides.folder / "run-bank" / "config.json").unlink()


STARTS_OVER = "the owner asks for round 0 of a run that stands at round 1 at 'shop'"


def test_a_run_does_not_start_over_unnoticed(sides: Sides) -> None:
    sides.write_parties("runs = 1")
    begin_and_leave(sides, train="rounds = 2\nevaluate_every = 1")
    forget_checkpoints(sides)
    for _ in range(2):  # what was kept for the refused owner stands at that round too
        with pytest.raises(CheckpointError, match=STARTS_OVER):
            lead(sides.host(train="rounds = 2\nevaluate_every = 1"))
        sides.restart()


def test_the_control_without_its_round_a_party_goes_on_where_the_owner_starts_over(
    sides: Sides, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin_and_leave(sides, train="rounds = 2\nevaluate_every = 1")
    forget_checkpoints(sides)
    monkeypatch.setattr(RunPosition, "begin", lambda self, number: None)
    lead(sides.host(train="rounds = 2\nevaluate_every = 1"))


def test_one_run_is_one_run(sides: Sides, monkeypatch: pytest.MonkeyPatch) -> None:
    sides.write_parties("runs = 1")
    begin_and_leave(sides)
    begin_and_leave(sides)  # in the same folder it goes on
    new_owner_folder(sides)
    with pytest.raises(ManifestError, match="'shop' has let 1 runs begin and allows 1"):
        lead(sides.host())
    sides.restart()
    shutil.rmtree(sides.folder / "run-bank")
    before, rounds = shop_states(sides), []

    def by_job(self: Runs, terms: dict[str, Any], run: bytes, most: int, name: str) -> int:
        return 1

    monkeypatch.setattr(Runs, "allow", by_job)  # the control: jobs are counted, not runs
    lead(sides.host(), lambda run: rounds.append(run.round))
    assert rounds == [1, 2] and before.keys() != shop_states(sides).keys(), "it was served from the trained states"


# Rows


def owner_has(sides: Sides, ids: Collection[int]) -> None:
    path = sides.folder / "bank" / "table.csv"
    kept = path.with_name("all.csv")
    if not kept.exists():
        shutil.copy(path, kept)
    head, *lines = kept.read_text().splitlines()
    wanted = [line for line in lines if int(line[1:4]) in ids]
    path.write_text("\n".join([head, *wanted]) + "\n")


@pytest.mark.parametrize("same_run", [True, False])
def test_more_alignments_bring_no_more_rows(sides: Sides, monkeypatch: pytest.MonkeyPatch, same_run: bool) -> None:
    owner_has(sides, range(30))
    begin_and_leave(sides)
    shutil.copytree(sides.folder / "run-bank", sides.folder / "first")

    def again(ids: range) -> None:
        owner_has(sides, ids)
        shutil.rmtree(sides.folder / "run-bank")
        if same_run:
            (sides.folder / "run-bank").mkdir()
            shutil.copy(sides.folder / "first" / "run.json", sides.folder / "run-bank")
        begin_and_leave(sides)

    if same_run:
        with pytest.raises(ManifestError, match="a run keeps its rows"):
            again(range(25))
    else:
        again(range(25))  # some of the rows that it had
    sides.restart()
    with pytest.raises(ManifestError, match="keeps its rows"):
        again(range(10, 40))
    sides.restart()
    monkeypatch.setattr(OpenRows, "check", lambda *_: None)  # the control
    again(range(10, 40))


class Unbegun(OwnerProcess):
    """An owner that has a plan signed and does not begin."""

    def __init__(self, *about: Any, **more: Any) -> None:
        super().__init__(*about, **more)
        self.session.handshake._say_begin = leave  # type: ignore[method-assign]


def test_a_plan_that_was_checked_is_checked_again_with_other_rows(
    sides: Sides, monkeypatch: pytest.MonkeyPatch
) -> None:
    sides.write_parties("runs = 9\nrows = 20")
    monkeypatch.setattr(OpenRows, "check", lambda *_: None)  # which would refuse the other rows before
    owner_has(sides, range(25))
    with pytest.raises(TrainingError, match="enough"):
        lead(small := sides.host(Unbegun))

    class Again(OwnerProcess):
        def _planned(self, *about: Any) -> dict[str, Any]:
            return small.session.handshake.plan

    def align_more() -> int:
        owner_has(sides, range(40))
        (sides.folder / "run-bank" / "alignment.json").unlink(missing_ok=True)
        host = sides.host(Again)
        try:
            host.gather()
            host.session.with_all(host._ready)
        finally:
            host.close()
        server = sides.guests["shop"].server
        assert isinstance(server, PartyServer)
        return server.spec.table.rows

    with pytest.raises(ManifestError, match=r"the plan says \[20, \[3\]\] of the rows of 'shop', which has \[32"):
        align_more()
    monkeypatch.setattr(party_handshake, "check_plan", lambda *_: None)  # the control
    assert align_more() == 32


def test_alignments_with_few_ids_do_not_tell_who_has_the_same_category(
    sides: Sides, monkeypatch: pytest.MonkeyPatch
) -> None:
    """How many inputs a party's columns become follows from the categories among the rows in common."""
    table = sides.folder / "shop" / "table.csv"
    head, *lines = table.read_text().splitlines()
    jobs = ("nurse" if int(line[1:4]) % 3 == 0 else "clerk" for line in lines)
    table.write_text("\n".join([f"{head},job", *(f"{line},{job}" for line, job in zip(lines, jobs, strict=True))]))

    def inputs(*ids: int) -> int:
        owner_has(sides, ids)
        (sides.folder / "run-bank" / "alignment.json").unlink(missing_ok=True)
        host = sides.host(Unbegun, more="[prepare]\ntest = 0.0")
        with suppress(ConfigError):  # batches are larger than that
            lead(host)
        return int(host.session.shape_of("shop")["shape"][0])

    assert inputs(0, 3, 6) == 3  # one category among them, which is none
    with pytest.raises(ManifestError, match="keeps its rows"):
        inputs(0, 3, 7)
    monkeypatch.setattr(OpenRows, "check", lambda *_: None)  # the control
    assert inputs(0, 3, 7) == 5 and inputs(0, 3, 9) == 3


def test_terms_of_equal_value_and_another_text_are_others(sides: Sides) -> None:
    liar = Liar(sides, more="[method]\nlr = 1.0")
    liar.tell_terms(liar.terms)
    other = {**liar.terms, "method": {**liar.terms["method"], "lr": 1}}
    assert other == liar.terms and job_id(other) != job_id(liar.terms)
    with pytest.raises(ManifestError, match=r"in method.lr \(1.0 here, 1 at the owner\)"):
        liar.tell_terms(other)
    assert len(json.loads((sides.folder / "run-shop" / "runs.json").read_text())) == 1


# The privacy budget


def spent_by_shop(sides: Sides) -> int:
    server = sides.guests["shop"].server
    assert isinstance(server, PartyServer)
    budget = server.ends["shop"].budget
    assert budget is not None
    return budget.most_releases


def ask_on(shop: RemoteParty, times: int) -> int:
    """How many predictions of the same people the shop answers."""
    for number in range(times):
        try:
            shop.call("step", **turn("predict", "predict", number=number))
        except PrivacyError:
            return number
    return times


def test_training_and_predictions_spend_one_budget(sides: Sides) -> None:
    sides.write_parties("runs = 9", '[predict]\nfiles = "table.csv"')
    lead(sides.host(more=NOISE))
    trained = spent_by_shop(sides)
    sides.restart()
    host, shop = predicting(sides, more=NOISE)
    assert spent_by_shop(sides) == trained + 1, "an honest prediction works, and is counted with the training"
    assert ask_on(shop, 400) == GRANTED - trained - 1
    assert spent_by_shop(sides) == GRANTED
    host.session.end.tell(PARTIES)
    host.unfinished.finish()
    host.close()
    sides.restart()
    with pytest.raises(PrivacyError, match="'shop'"):  # another prediction, by another process of the party
        predicting(sides, more=NOISE)


def test_the_control_a_budget_that_is_not_read_again_goes_on(sides: Sides, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(party_job, "load_budgets", lambda *_: None)
    monkeypatch.setattr(PartyServer, "take_up", lambda _: None)
    monkeypatch.setattr(PartyServer, "_back", lambda *_: None)
    lead(sides.host(more=NOISE))
    answered_in_all = 0
    for _ in range(2):
        sides.restart()
        host, shop = predicting(sides, more=NOISE)
        answered_in_all += ask_on(shop, 400)
        host.session.end.tell(PARTIES)
        host.unfinished.finish()
        host.close()
    assert answered_in_all > GRANTED


def test_a_fresh_run_has_the_budget_that_is_left(sides: Sides) -> None:
    begin_and_leave(sides, more=NOISE)
    new_owner_folder(sides)
    begun: list[int] = []

    def look(request: Packet, reply: Packet) -> Packet:
        if request.step == "begin":
            begun.append(spent_by_shop(sides))
        return reply

    with pytest.raises(TrainingError, match="enough"):
        lead(sides.host(spoil={"shop": look}, more=NOISE), leave)
    assert begun[0] > 0
    assert (shop_folder(sides) / "run-002").exists()


def test_a_prediction_under_weaker_terms(sides: Sides, monkeypatch: pytest.MonkeyPatch) -> None:
    lead(sides.host(more=NOISE))
    run = bytes.fromhex(json.loads((sides.folder / "run-bank" / "run.json").read_text())["run"])
    sides.restart()
    liar = Liar(sides, more=NOISE)
    weaker = {**prediction_terms(liar.side_file, "00"), "seals": []}
    weaker["learns"] = learns(weaker)
    with pytest.raises(ManifestError, match="a prediction has the terms of its training, and these differ in seals"):
        liar.tell_terms(weaker, run)
    with pytest.raises(ManifestError, match="did not train the model"):
        liar.tell_terms(prediction_terms(liar.side_file, "00"), bytes(16))
    monkeypatch.setattr(job_folders, "first_difference", lambda *_, **__: None)  # the control
    assert "signature" in liar.tell_terms(weaker, run)


# The disk


@pytest.mark.parametrize("bounded", [True, False])
def test_states_without_end(sides: Sides, monkeypatch: pytest.MonkeyPatch, bounded: bool) -> None:
    if not bounded:
        monkeypatch.setattr(keeping, "MOST_STATES", 10**6)

    def fill(run: Any) -> None:
        for _ in range(30):
            shop_of(run).call("keep")
        leave(run)

    with pytest.raises(FolderError if bounded else TrainingError, match="one more was asked" if bounded else "enough"):
        lead(sides.host(), fill)
    count = len(list((shop_folder(sides) / "states").iterdir()))
    assert count <= 12 if bounded else count > 30


@pytest.mark.parametrize("of", ["/../../../x", "..", "0" * 63 + "/", 7, None, {}])
def test_a_prediction_does_not_choose_a_folder(sides: Sides, of: Any) -> None:
    liar = Liar(sides)
    before = sorted(sides.folder.rglob("*"))
    terms = {**prediction_terms(liar.side_file, "00"), "predict": {"of": of, "number": "00"}}
    with pytest.raises(ColonnadeError):
        liar.tell_terms(terms)
    assert {one for one in sides.folder.rglob("*") if one not in before} <= {sides.folder / "run-shop"}


# Words of errors, and of the owner


def test_an_unexpected_error_is_a_refusal_without_its_words(
    sides: Sides, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: Any) -> None:
        raise ZeroDivisionError("the value 4711\nINFO all is well\x1b[2J")

    monkeypatch.setattr(PartyServer, "_spent", broken)
    with (
        pytest.raises(MessageError, match="'shop' refused: 'spent' lacks something") as caught,
        caplog.at_level("INFO"),
    ):
        lead(sides.host(), lambda run: shop_of(run).call("spent"))
    assert "4711" not in str(caught.value) and "4711" in caplog.text
    assert not any("\x1b" in one.getMessage() or "\n" in one.getMessage() for one in caplog.records)
    sides.restart()
    new_owner_folder(sides)
    monkeypatch.setattr(party_handshake, "check_plan", broken)
    with pytest.raises(MessageError, match="'shop' refused: 'plan' lacks something") as caught:
        lead(sides.host())
    assert "4711" not in str(caught.value)


SPOILT = [
    ("c007,1,2,3\nann-miller,1,2,3\nann-miller,1,1,1\n", "occur more than once", "ann-miller"),
    ("c998,hiv-positive,2,3\nc999,0,0\n", "has 3 fields", "sides"),
]


@pytest.mark.parametrize(("rows", "logged", "secret"), SPOILT, ids=["ids", "paths"])
def test_a_refusal_tells_no_id_and_no_place(
    sides: Sides, caplog: pytest.LogCaptureFixture, rows: str, logged: str, secret: str
) -> None:
    lead(sides.host())
    sides.restart()
    table = sides.folder / "shop" / "table.csv"
    new = table.with_name("new.csv")
    new.write_text(table.read_text() + rows)
    sides.write_parties("runs = 9", '[predict]\nfiles = "new.csv"')
    shutil.copy(sides.folder / "mill" / "table.csv", sides.folder / "mill" / "new.csv")
    with pytest.raises(TableError, match="'shop' cannot do that with its files as they are; its log says") as caught:
        predicting(sides)
    assert secret not in str(caught.value)
    assert logged in caplog.text and secret in caplog.text, "the control: its own operator reads all of it"


def test_a_refusal_tells_no_value(sides: Sides, caplog: pytest.LogCaptureFixture) -> None:
    lead(sides.host())
    sides.restart()
    table = sides.folder / "shop" / "table.csv"
    table.with_name("new.csv").write_text(table.read_text().replace("c007,", "c007,positive-", 1))
    shutil.copy(sides.folder / "mill" / "table.csv", sides.folder / "mill" / "new.csv")
    sides.write_parties("runs = 9", '[predict]\nfiles = "new.csv"')
    with pytest.raises(TableError, match="its log says why") as caught:
        predicting(sides)
    assert "positive" not in str(caught.value) and "holds 'positive-" in caplog.text


def test_a_refusal_names_a_file_and_not_its_folder(sides: Sides) -> None:
    liar = Liar(sides)
    (sides.folder / "run-shop").mkdir(exist_ok=True)
    (sides.folder / "run-shop" / "runs.json").write_text("{")
    with pytest.raises(CheckpointError, match=r"'shop' refused: runs\.json is damaged") as caught:
        liar.tell_terms(liar.terms)
    assert "/" not in str(caught.value)


def test_the_owner_writes_no_lines_into_a_party_s_log(sides: Sides, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        liar = Liar(sides)
        terms = {**liar.terms, "job": "job\n2026-01-01 INFO all is well\x1b]0;owned\x07"}
        with suppress(ColonnadeError):  # whether it is signed or refused
            liar.tell_terms(terms)
    assert caplog.records
    for one in caplog.records:
        assert "\x1b" not in one.getMessage() and "\n" not in one.getMessage()


def test_what_blinded_terms_say_of_values_that_are_not_summed(sides: Sides) -> None:
    """The owner of vfedmh reads every party's logits, whatever the seal."""
    blind = {"method": "vfedmh", "federation": 'labels = "shown"', "more": '[[seal]]\nkind = "blind"'}
    told = " ".join(terms_of(sides.owner_file(**blind))["learns"])
    assert "learns only the sum of all parties' embeddings of each round's rows." in told
    assert "reads every party's logits, one by one, in step 'decide'." in told


def test_what_terms_say_of_sums_does_not_hang_on_the_wording(sides: Sides, monkeypatch: pytest.MonkeyPatch) -> None:
    side_file = sides.owner_file(method="vfedmh", federation='labels = "shown"', more='[[seal]]\nkind = "blind"')
    due = terms_of(side_file)["learns"]
    monkeypatch.setattr(type(side_file.job.method), "party_sends", "embeddings and logits (only their sum is used)")
    assert terms_of(side_file)["learns"] == due
