"""Parties behind requests: with every seal, resumed, and faced with requests that are not the owner's."""

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from test_contract import Case, check_same_apart, everything_apart, federation, train, without_time

import colonnade as cn
from colonnade.errors import AwayError, CheckpointError, MessageError, SealError
from colonnade.runtime.remote.packet import Packet, read_packet, title, write_packet
from colonnade.wire.message import Envelope, decode_fields, encode
from letters import stamp

SEALS = {
    "bits": (cn.SplitNN(), cn.Bits(4)),
    "bits and feedback": (cn.VIMADMM(lr=0.02, local_steps=2), cn.Bits(4, feedback=True)),
    "bits at the owner too": (cn.VFedMH(), cn.Bits(4, feedback=True)),
    "topk": (cn.VIMSGD(), cn.TopK(0.3)),
    "noise": (cn.FDML(), cn.Noise(clip=1.0, epsilon=50.0)),
    "blind": (cn.VIMADMMJ(lr=0.02, local_steps=2), cn.Blind()),
    "blind and bits": (cn.FDML(), [cn.Blind(), cn.Bits(4)]),
    "blind and bits and feedback": (cn.FDML(), [cn.Blind(), cn.Bits(4, feedback=True)]),
    "blind with the owner's columns": (cn.VFedMH(), cn.Blind()),
    "blind and recover": (cn.FDML(), cn.Blind(recover=True)),
    "labels": (cn.FDML(), cn.RandomLabels(epsilon=3.0)),
    "class noise": (cn.VIMSGD(), cn.ClassNoise(4.0)),
    "class noise and bits": (cn.SplitNN(), [cn.MaxNorm(), cn.Bits(4, feedback=True)]),
}


def both(method: cn.Method, seal: Any, **more: Any) -> list[cn.Run]:
    case = Case(method, owner="first" if method.needs_owner_columns else "labels")
    return [train(case, runtime, seal=seal, **more) for runtime in ("loop", "apart")]


@pytest.mark.parametrize("which", SEALS)
def test_every_seal_behind_requests(which: str) -> None:
    loop, apart = both(*SEALS[which])
    check_same_apart(apart, loop)
    assert apart.privacy == loop.privacy


def test_a_run_apart_resumes_exactly(tmp_path: Path) -> None:
    case = Case(cn.VIMADMM(lr=0.02, local_steps=2), owner="first")
    whole = train(case, "apart", evaluate_every=4)

    def die(run: cn.Run) -> None:
        if run.round == 6:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(case, "apart", evaluate_every=4, folder=tmp_path / "run", on_round=die)
    resumed = cn.resume(tmp_path / "run", federation("first"), test=federation("first"))
    assert without_time(resumed.history) == without_time(whole.history)
    expected, found = everything_apart(whole), everything_apart(resumed)
    for name, value in expected.items():
        assert name.endswith("/kept") or torch.equal(found[name], value), name


def test_the_best_model_comes_back_by_its_number(tmp_path: Path) -> None:
    loop, apart = both(cn.FDML(lr=2.0), None, stop_drop=1.0, valid=0.3, evaluate_every=1, rounds=40)
    assert apart.round == loop.round
    test = federation("labels")
    assert apart.evaluate(test) == loop.evaluate(test)
    assert torch.equal(apart.predict(test), loop.predict(test))


def test_a_run_that_was_opened_predicts_from_its_folder(tmp_path: Path) -> None:
    run = train(Case(cn.SplitNN()), "apart", folder=tmp_path / "run")
    again = cn.resume(tmp_path / "run", federation("labels"), train=False)
    assert torch.equal(again.predict(federation("labels")), run.predict(federation("labels")))


def test_a_run_that_kept_its_best_model_is_opened_and_goes_on(tmp_path: Path) -> None:
    """Parties forget states that nobody needs; whoever opens the folder still needs the best and the last."""
    how: dict[str, Any] = {"stop_drop": 100.0, "valid": 0.3, "evaluate_every": 2}
    case, test = Case(cn.FDML(lr=0.5)), federation("labels")
    run = train(case, "apart", folder=tmp_path / "run", **how)
    best = max(reversed(run.history), key=lambda row: row["valid_accuracy"])
    assert best["round"] < run.round, "the best is the last: the test tests nothing"
    for _ in range(2):
        opened = cn.resume(tmp_path / "run", federation("labels"), train=False)
        assert torch.equal(opened.predict(test), run.predict(test))
    shutil.copytree(tmp_path / "run", tmp_path / "torn")
    shutil.rmtree(max((tmp_path / "torn" / "checkpoints").iterdir()))
    whole = train(case, "apart", rounds=20, **how)
    for folder in ("run", "torn"):  # in the second from the checkpoint before
        longer = cn.resume(tmp_path / folder, federation("labels"), test=test, rounds=20)
        assert without_time(longer.history) == without_time(whole.history)
        assert torch.equal(longer.predict(test), whole.predict(test))


def test_what_to_do_about_a_damaged_state_of_a_party_is_told_step_by_step(tmp_path: Path) -> None:
    case, place = Case(cn.SplitNN()), tmp_path / "run"
    whole = train(case, "apart", evaluate_every=4, folder=place)
    torn = max((place / "parties" / "001").iterdir())
    (state,) = torn.glob("*/party.safetensors")
    state.write_bytes(state.read_bytes()[:100])
    with pytest.raises(CheckpointError, match=r"'party 2' refused: the checkpoint .* is damaged: .* delete it"):
        cn.resume(place, federation("labels"))
    shutil.rmtree(torn)
    with pytest.raises(CheckpointError, match=r"'party 2' refused: no state number \d+ .* delete the owner's newest"):
        cn.resume(place, federation("labels"))
    shutil.rmtree(max((place / "checkpoints").iterdir()))
    resumed = cn.resume(place, federation("labels"), test=federation("labels"))
    assert without_time(resumed.history) == without_time(whole.history)


# Requests that a party must refuse


@pytest.fixture
def party() -> Any:
    run = train(Case(cn.FDML()), "apart", rounds=3)
    return run.parties.backend.transport.parties["party 2"], run.parties.backend


def ask(party: Any, backend: Any, **changed: Any) -> str:
    """What a party answers to a step that differs from the next one in some way: a sentence, or nothing."""
    packet = replace(stamp(backend, party), sequence=party._last[0] + 1)
    packet = replace(packet, step="logits", purpose="evaluate", table="test")
    reply = read_packet(party.serve(write_packet(replace(packet, **changed))))
    if reply.kind != "refusal":
        return ""
    return bytes(decode_fields(reply.frames[0])[0]["part1"].numpy()).decode()


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({}, ""),
        ({"job": bytes(15) + b"x"}, "another job"),
        ({"session": bytes(15) + b"x"}, "another session"),
        ({"plan": bytes(15) + b"x"}, "another plan"),
        ({"sender": "party 1"}, "a request of 'party 1'"),
        ({"sequence": 1}, "comes again"),
        ({"sequence": 1000}, "leaves some out"),
        ({"step": "__init__"}, "unknown step"),
        ({"step": "round"}, "unknown step"),
        ({"step": "start"}, "unknown step"),
        ({"table": "passwords"}, "unknown table"),
        ({"part": 7}, "part 7"),
        ({"purpose": "train", "table": "train", "round": 3}, "agreed to 3 rounds"),
        ({"kind": "sum"}, "agreed to none"),
        ({"kind": "answer"}, "serves no such"),
        ({"kind": "back"}, "more than it has"),
        ({"kind": "back", "step": "", "purpose": "", "table": ""}, "without a number"),
        ({"purpose": "steal"}, "unknown purpose"),
        ({"serial": 1}, "more than it has"),
        ({"frames": (b"", b"CLND")}, "more than it has"),
        ({"step": "follow"}, "belongs to training alone"),
        ({"step": "follow", "purpose": "train", "table": "train", "round": 2}, "without its message"),
        ({"step": "follow", "purpose": "train", "table": "train", "round": 2, "frames": (b"CLND",)}, "at least"),
    ],
)
def test_a_party_refuses(party: Any, changed: dict[str, Any], said: str) -> None:
    found = ask(*party, **changed)
    assert found == "" if not said else said in found


def test_a_message_of_another_shape_is_refused_by_the_party(party: Any) -> None:
    wrong = encode({"slope": torch.zeros(5, 99)}, Envelope("follow", "owner", 0))
    assert "was expected" in ask(*party, step="follow", purpose="train", table="train", round=0, frames=(wrong,))


def test_a_request_that_comes_twice_is_answered_from_the_last_reply(party: Any) -> None:
    end, backend = party
    packet = replace(stamp(backend, end), kind="keep", sequence=end._last[0] + 1)
    first = end.serve(write_packet(packet))
    assert end.serve(write_packet(packet)) == first
    assert len(end.keeping.numbers) == int(decode_fields(read_packet(first).frames[0])[0]["kept"])


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda fields: {name: value[:3] for name, value in fields.items()}, "was expected"),
        (lambda fields: {name: value.double() for name, value in fields.items()}, "was expected"),
        (lambda fields: {"other": next(iter(fields.values()))}, "were expected"),
        (lambda fields: {name: value * torch.nan for name, value in fields.items()}, "not finite"),
    ],
)
def test_the_owner_refuses_what_does_not_fit_before_it_learns_from_it(change: Any, said: str) -> None:
    run = train(Case(cn.SplitNN()), "apart", rounds=2)
    serve = run.parties.backend.transport.parties["party 2"].serve

    def lying(request: bytes) -> bytes:
        reply = read_packet(serve(request))
        if not reply.frames:
            return write_packet(reply)
        fields, about = decode_fields(reply.frames[0])
        return write_packet(replace(reply, frames=(encode(change(fields), about),)))

    run.parties.backend.transport.parties["party 2"].serve = lying
    top = {name: value.clone() for name, value in run.owner.top.state_dict().items()}
    with pytest.raises(MessageError, match=said):
        run.method.round(run.owner, run.parties, cn.Turn(1, run.schedule.batch_of(1)))
    assert all(torch.equal(value, top[name]) for name, value in run.owner.top.state_dict().items())


def test_a_request_is_read_as_it_was_written() -> None:
    packet = Packet("sum", "owner", "fit", "train", "train", "owner", 3, 4, 5, 6, 7, 8, frames=(b"abc", b""))
    raw = write_packet(packet)
    again = read_packet(raw)
    assert replace(again, frames=tuple(map(bytes, again.frames))) == packet
    assert len(raw) == packet.overhead + 3
    for cut in range(len(raw)):
        with pytest.raises(MessageError):
            read_packet(raw[:cut])


def test_what_a_log_says_of_a_request_is_read_without_opening_it() -> None:
    assert title(write_packet(Packet("sum", step="fit", round=3, frames=(b"abc",)))) == ("fit", 3)
    assert title(write_packet(Packet("keep", round=4))) == ("keep", 4)
    raw = write_packet(Packet("step", step="fit"))
    for cut in range(raw.index(b"fit") + len(b"fit")):
        with pytest.raises(MessageError):
            title(raw[:cut])


def test_a_reply_is_about_its_request() -> None:
    asked = Packet(
        "step", "owner", "fit", "train", "rows", "owner", *range(1, 7), b"j" * 16, b"s" * 16, b"p" * 16, b"b"
    )
    reply = asked.reply("answer", "party 1", b"abc")
    assert reply.is_about(asked)
    assert reply == replace(asked, kind="answer", sender="party 1", before=b"", frames=(b"abc",))
    for name in ("step", "purpose", "table", "leader"):
        assert not replace(reply, **{name: "else"}).is_about(asked)
    for name in ("round", "turn", "part", "serial", "attempt", "sequence"):
        assert not replace(reply, **{name: 99}).is_about(asked)
    for name in ("job", "session", "plan"):
        assert not replace(reply, **{name: bytes(16)}).is_about(asked)


def test_a_blinded_step_never_answers_in_the_clear() -> None:
    run = train(Case(cn.FDML()), "apart", rounds=2, seal=cn.Blind())
    end = run.parties.backend.transport.parties["party 2"]
    assert "only as a blinded sum" in ask(end, run.parties.backend)


def test_a_sum_that_was_not_begun_is_refused() -> None:
    run = train(Case(cn.FDML()), "apart", rounds=2, seal=cn.Blind())
    with pytest.raises(SealError, match="phase"):
        run.parties.backend.parties["party 2"].call("blind", purpose="steal")


def test_a_party_that_comes_back_as_another_process_takes_all_back_with_it() -> None:
    """It has lost what it noted in this round; whoever asks on must go back to a state that all have."""
    run = train(Case(cn.FDML()), "apart", rounds=2)
    backend: Any = run.parties.backend
    backend.states()
    backend.transport.session = lambda party: b"another process." if party == "party 2" else bytes(16)
    with pytest.raises(AwayError, match="'party 2' came back as another process") as caught:
        backend.parties["party 2"].call("spent")
    assert caught.value.party == "party 2"
