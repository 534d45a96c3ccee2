"""The handshake without sockets: the protocol's table for both roles, the owner's view of a party, and the words."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from colonnade.errors import AwayError, ColonnadeError, ManifestError, MessageError, RefusedError
from colonnade.federation import owner_session
from colonnade.federation.audit_log import AuditLog
from colonnade.federation.exit_codes import Exit, exit_of
from colonnade.federation.handshake import answer_in, facts_in, hex_of, signatures_in, word_packet
from colonnade.federation.hello import hello_of
from colonnade.federation.owner_transport import OwnerRecords, OwnerTransport
from colonnade.federation.party_link import Outgoing, PartyLink, WordOrderError
from colonnade.federation.party_session import PartySession
from colonnade.federation.prometheus import Metrics
from colonnade.federation.protocol import NEW, REQUEST, STAGES, TABLE, WORDS, Conversation
from colonnade.federation.status_file import StatusFile
from colonnade.runtime.remote.packet import Packet, read_packet, write_packet
from colonnade.runtime.remote.request_server import refusal
from colonnade.signatures import Identity
from near import Sides, make_sides
from pages import DOCS

PAIRS = [(stage, word) for stage in STAGES for word in (*WORDS, REQUEST)]
OWNER, SHOP = bytes(range(16)), bytes(range(16, 32))  # incarnations
SIGNATURE = {"signature": "00" * 64}
ANSWERS: dict[str, dict[str, Any]] = {
    "terms": SIGNATURE,
    "signed": {"aligned": ""},
    "align": {},
    "prepare": {"rows": 3, "test": 1, "shape": [2], "cardinalities": []},
    "plan": SIGNATURE,
    "begin": {},
    "end": {},
}


class Answering:
    """In place of connections: the party answers every word rightly, and every request with nothing."""

    def __init__(self) -> None:
        self.identity, self.incarnation = Identity.new(), SHOP
        self.sent: list[Packet] = []
        self.replies: deque[bytes] = deque()
        self.number = 1

    def connection(self, party: str) -> int:
        return self.number

    def wait(self, party: str, seconds: float, after: int = 0) -> int:
        self.number = after + 1
        return self.number

    def send(self, party: str, connection: int, data: bytes) -> None:
        packet = read_packet(data)
        self.sent.append(packet)
        if packet.step == "hello":
            answer = hello_of(party, self.identity, self.incarnation, OWNER)
        else:
            answer = ANSWERS.get(packet.step, {})
        said = [word_packet("", answer).frames[0]] if packet.kind == "talk" else []
        self.replies.append(write_packet(packet.reply("answer", party, *map(bytes, said))))

    def receive(self, party: str, connection: int, seconds: float) -> bytes:
        return self.replies.popleft()

    def first(self, connections: Mapping[str, int], seconds: float) -> str | None:
        return next(iter(connections))

    def hang_up(self, party: str, reason: str) -> None: ...

    def close(self) -> None: ...


@pytest.fixture
def shop() -> Answering:
    return Answering()


@pytest.fixture
def transport(shop: Answering, tmp_path: Path) -> Any:
    audit = AuditLog(tmp_path / "audit.jsonl", "owner", "job")
    records = OwnerRecords(audit, Metrics(), StatusFile(tmp_path, "owner", "job", 1, ["shop"]))
    yield OwnerTransport(shop, {"shop": shop.identity.public}, OWNER, 5.0, records, enter=lambda _: None)
    audit.close()


# The table, walked by both sides


def test_the_table_has_every_stage_and_every_word() -> None:
    assert {stage for stage, _ in TABLE} == set(STAGES) and {word for _, word in TABLE} == {*WORDS, REQUEST}
    assert {NEW, *TABLE.values()} == set(STAGES)
    assert [stage for stage, word in TABLE if word == "align"] == ["signed", "aligning"]


@pytest.mark.parametrize(("stage", "word"), PAIRS)
def test_an_owner_sends_only_what_the_table_allows(
    stage: str, word: str, transport: OwnerTransport, shop: Answering
) -> None:
    link = transport.links["shop"]
    if stage != NEW:
        link.met(SHOP)
    link.conversation.stage = stage

    def send() -> None:
        if word == REQUEST:
            transport.post("shop", write_packet(Packet("step", step="embed")))
            transport.reply("shop")
        elif word == "hello":
            transport._connect(link, link.deadline(5.0))
        else:
            transport.exchange("shop", word, {})

    if (stage, word) in TABLE:
        send()
        assert len(shop.sent) == 1 and link.conversation.stage == TABLE[stage, word]
    else:
        with pytest.raises(WordOrderError, match=f"send '{word}' to 'shop' out of order: '{word}' came at the stage"):
            send()
        assert not shop.sent and link.conversation.stage == stage and link.request is None


@pytest.mark.parametrize(("stage", "word"), PAIRS)
def test_a_party_answers_only_what_the_table_allows(stage: str, word: str, session: PartySession) -> None:
    session.handshake._owner = OWNER
    session.handshake.answer = lambda word, facts: ANSWERS.get(word, {})  # type: ignore[method-assign]
    stub: Any = SimpleNamespace(answer=lambda packet, _: write_packet(packet.reply("answer", "shop")), ended=False)
    session.handshake.server, session.handshake.job = stub, SimpleNamespace(audit=None, terms=None)  # type: ignore[assignment]
    session.conversation.stage = stage
    facts = {"incarnation": OWNER.hex()} if word == "hello" else {}
    request = Packet("step", step="embed") if word == REQUEST else word_packet(word, facts)
    reply = read_packet(session.serve(write_packet(request)))
    assert (reply.kind == "answer") == ((stage, word) in TABLE)
    assert session.stage == TABLE.get((stage, word), stage)


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> PartySession:
    pytest.importorskip("grpc")
    pytest.importorskip("pyarrow")
    return Sides(make_sides(tmp_path_factory.mktemp("sides"), rows=8)).guest("shop")


def test_the_page_has_the_table() -> None:
    page = (DOCS / "federation.md").read_text()
    head, _, *rows = re.findall(r"^\|.*\|$", page[page.index("| stage |") :].split("\n\n")[0], re.M)
    words = [cell.strip(" `") for cell in head.split("|")[2:-1]]
    assert words == [*WORDS, "request"]
    told = {}
    for row in rows:
        stage, *cells = (cell.strip(" `") for cell in row.split("|")[1:-1])
        told |= {(stage, word): cell for word, cell in zip((*WORDS, REQUEST), cells, strict=True) if cell}
    assert told == TABLE


def test_our_own_mistake_is_one_that_is_reported_to_us() -> None:
    link = PartyLink("shop", b"")
    with pytest.raises(WordOrderError, match=r"'align' came at the stage 'new'; hello may come there.*please report"):
        link.may_say("align")
    assert exit_of(WordOrderError()) is Exit.UNEXPECTED and not issubclass(WordOrderError, ColonnadeError)


def test_nobody_is_asked_to_align_before_it_has_answered_signed(transport: OwnerTransport, shop: Answering) -> None:
    transport.meet("shop")
    transport.exchange("shop", "terms", {})
    with pytest.raises(WordOrderError, match="'align' came at the stage 'agreed'"):
        transport.exchange("shop", "align", {"visit": 1})
    transport.exchange("shop", "signed", {})
    assert transport.exchange("shop", "align", {"visit": 1}) == {}
    assert [packet.step for packet in shop.sent] == ["hello", "terms", "signed", "align"]


def test_a_word_that_was_refused_leads_nowhere(transport: OwnerTransport, shop: Answering) -> None:
    transport.meet("shop")
    error = refusal(ManifestError("not with us."), "shop")
    shop.receive = lambda *_: write_packet(shop.sent[-1].reply("refusal", "shop", error))  # type: ignore[method-assign]
    with pytest.raises(ManifestError, match="not with us"):
        transport.exchange("shop", "terms", {})
    assert transport.links["shop"].conversation.stage == "met"


# One party as the owner sees it


def test_another_process_of_a_party_begins_anew_and_the_same_goes_on() -> None:
    link = PartyLink("shop", b"")
    assert link.is_new and not link.is_absent
    link.met(SHOP)
    for word in ("terms", "signed", "align"):
        link.conversation.say(word)
    link.agreed_as = SHOP
    link.met(SHOP)
    assert link.conversation.stage == "aligning" and link.has_agreed
    link.met(OWNER)
    assert link.conversation.stage == "met" and not link.has_agreed and not link.is_new


def test_a_party_that_is_lost_owes_nothing_until_it_returns() -> None:
    link = PartyLink("shop", b"")
    link.asked(Outgoing(b"request", "embed", 1))
    assert link.request is not None
    error = AwayError("'shop' is gone.", "shop")
    link.lost(error, since=7.0)
    assert link.is_absent and link.request is None and link.absence is not None and link.absence.error is error
    assert link.deadline(5.0) == 12.0
    link.returned()
    assert not link.is_absent


def test_a_party_that_comes_back_as_another_process_is_absent_until_it_was_led_in(
    transport: OwnerTransport, shop: Answering
) -> None:
    transport.meet("shop")
    link, led = transport.links["shop"], []
    link.conversation.stage = "begun"
    link.lost(AwayError("'shop' did not answer.", "shop"), since=link.greeted)
    shop.incarnation, shop.number = OWNER, 9
    transport.enter = led.append
    link.opened(b"a session")
    assert transport.is_absent("shop") and not transport.is_absent(None) and not transport.is_absent("mill")
    assert transport.session("shop") == b"a session"
    assert led == ["shop"] and link.incarnation == OWNER and link.conversation.stage == "met"
    assert not transport.is_absent("shop")


def test_an_agreement_that_was_broken_off_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A party goes while rows are aligned, and the same process comes back: nobody may be asked to prepare yet."""
    sides = Sides(make_sides(tmp_path, rows=24))
    host = sides.host()
    align, tries = owner_session.align_rows, []

    def lost_once(*about: Any) -> Any:
        tries.append(host.session.handshake.all_agreed)
        if len(tries) == 1:
            error = AwayError("'mill' did not answer.", "mill")
            host.session.transport.links["mill"].lost(error, since=0.0)
            host.session.transport.links["mill"].connection = 0
            raise error
        return align(*about)

    monkeypatch.setattr(owner_session, "align_rows", lost_once)
    host.session.with_all(host.session.check_agreed)
    assert tries == [False, False] and host.session.handshake.all_agreed
    host.close()
    sides.restart()


# Words as they travel


def test_a_word_and_its_answer_travel() -> None:
    request = word_packet("terms", {"run": "00"})
    packet = read_packet(write_packet(request))
    assert (packet.kind, packet.step, facts_in(packet)) == ("talk", "terms", {"run": "00"})
    reply = write_packet(packet.reply("answer", "shop", b'{"signature": "11"}'))
    assert answer_in(reply, "shop", request) == {"signature": "11"}


@pytest.mark.parametrize(
    ("spoilt", "sentence"),
    [
        (lambda request: request.reply("answer", "mill", b"{}"), "an answer of 'mill' came from 'shop'; it is forged"),
        (lambda request: word_packet("plan", {}).reply("answer", "shop", b"{}"), "about something else came"),
        (lambda request: request.reply("step", "shop", b"{}"), "a reply 'step' about something else came"),
        (lambda request: request.reply("answer", "shop"), "came without facts, or with too many"),
        (lambda request: request.reply("answer", "shop", b"{}", b"{}"), "came without facts, or with too many"),
        (lambda request: request.reply("answer", "shop", b"[" * 10**5), "whose facts are not JSON"),
        (lambda request: request.reply("answer", "shop", b"[]"), "whose facts have no names"),
    ],
)
def test_an_answer_to_something_else_is_refused(spoilt: Any, sentence: str) -> None:
    request = word_packet("terms", {})
    with pytest.raises(MessageError, match=sentence):
        answer_in(write_packet(spoilt(request)), "shop", request)


def test_a_refusal_is_raised_as_the_other_side_had_it() -> None:
    request = word_packet("terms", {})
    reply = write_packet(request.reply("refusal", "shop", refusal(RefusedError("the clock is off."), "shop")))
    with pytest.raises(RefusedError, match=r"the clock is off\."):
        answer_in(reply, "shop", request)


def test_bytes_and_signatures_have_their_length() -> None:
    assert hex_of({"run": "ab" * 16}, "run", 16) == b"\xab" * 16
    for wrong in ({}, {"run": "ab"}, {"run": "zz" * 16}, {"run": 7}):
        with pytest.raises(MessageError, match="16 bytes in hexadecimal were expected"):
            hex_of(wrong, "run", 16)
    assert signatures_in({"signatures": {"shop": "00" * 64}}) == {"shop": bytes(64)}
    with pytest.raises(MessageError, match="signatures by name were expected"):
        signatures_in({"signatures": ["00" * 64]})


def test_a_conversation_that_is_refused_a_word_stays_where_it_is() -> None:
    conversation = Conversation()
    with pytest.raises(MessageError, match="'terms' came at the stage 'new'"):
        conversation.say("terms")
    assert conversation.stage == NEW
