"""Bad input through the real commands, every side in its own process: an exit code, and one sentence that names it."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from benchmarks.sides import KILLED, OWNER, PARTIES, Knobs, Trial

from colonnade.federation.exit_codes import Exit
from colonnade.store import checkpoint

pytest.importorskip("grpc")
pytest.importorskip("pyarrow")
pytestmark = pytest.mark.slow
Make = Callable[..., Trial]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    made: list[Trial] = []

    def trial(**more: object) -> Trial:
        made.append(Trial(tmp_path / f"trial-{len(made)}", **{"method": "splitnn", "rounds": 4, **more}))
        return made[-1]

    yield trial
    for one in made:
        one.end()


def ends(trial: Trial, side: str, code: Exit, *words: str) -> str:
    """A side ends with this code, and its last line is one sentence with these words."""
    assert trial.wait_until(lambda: trial.code(side) is not None, 60), trial.words(side)
    said = trial.said(side)
    assert trial.code(side) == code, trial.words(side)
    assert said.startswith("error: ") and said.endswith((".", "?"))
    assert all(one in said for one in words), said
    assert "Traceback" not in trial.words(side)
    return said


def never_stepped(trial: Trial) -> bool:
    """Whether the owner's newest checkpoint, if there is one, is of before the first round."""
    place = trial.run_folder(OWNER) / "checkpoints"
    return not checkpoint.is_there(place) or checkpoint.newest(place).name == f"{0:08d}"


def edit(trial: Trial, side: str, before: str, after: str) -> None:
    path = trial.folder / side / ("job.toml" if side == OWNER else "party.toml")
    text = path.read_text()
    assert before in text
    path.write_text(text.replace(before, after))


def test_a_port_that_is_taken(make: Make) -> None:
    trial = make()
    with socket.create_server(("127.0.0.1", trial.port)):
        trial.start(OWNER)
        ends(trial, OWNER, Exit.AWAY, f"port {trial.port} of 127.0.0.1 cannot be listened at")


def test_a_name_that_does_not_resolve(make: Make) -> None:
    trial = make()
    trial.dial("shop", "no-such-host.invalid:8443", patience=1)
    trial.start("shop")
    ends(trial, "shop", Exit.AWAY, "the name 'no-such-host.invalid' does not resolve")


def test_a_certificate_of_another_party(make: Make) -> None:
    trial = make()
    for name in ("cert.pem", "key.pem"):
        shutil.copy(trial.folder / "clinic" / name, trial.folder / "shop" / name)
    trial.start("shop")
    ends(trial, "shop", Exit.REFUSED, "the certificate is of 'clinic' and [party] has the name 'shop'")


def test_a_certificate_of_another_ca(make: Make, tmp_path: Path) -> None:
    trial, other = make(), make()
    for name in ("cert.pem", "key.pem", "ca.pem"):
        shutil.copy(other.folder / "shop" / name, trial.folder / "shop" / name)
    trial.start(OWNER)
    trial.start("shop")
    ends(trial, "shop", Exit.REFUSED, "was issued by another CA than ours")


def test_a_party_that_is_not_in_the_job(make: Make) -> None:
    trial = make()
    edit(trial, OWNER, '[[party]]\nname = "clinic"\nkey = "../clinic/identity.pub"\n', "")
    trial.start(OWNER)
    trial.start("clinic")
    ends(trial, "clinic", Exit.REFUSED, "the owner expects no party 'clinic'")
    assert "refused a connection from 127.0.0.1: the owner expects no party 'clinic'" in trial.words(OWNER)


LIES = [
    ("identity", Exit.REFUSED, "the hello of 'shop' is signed by another identity"),
    ("clock", Exit.REFUSED, "the clock of 'shop' is 24.0 hours off"),
    ("version", Exit.REFUSED, "'shop' runs colonnade 0.0.1"),
    ("rows", Exit.PROTOCOL, "'shop' has 196 'rows' to train on"),
    ("permuted", Exit.PROTOCOL, "in another order"),
    ("shape", Exit.PROTOCOL, "from 'shop' in step"),
    (
        "nan",
        Exit.PROTOCOL,
        "'shop' answered 'embed' of round 0 with what cannot be: field 'h' holds values that are not",
    ),
]


@pytest.mark.parametrize(("lie", "code", "words"), LIES, ids=[one[0] for one in LIES])
def test_a_party_that_lies_is_named_before_anything_is_learnt(make: Make, lie: str, code: Exit, words: str) -> None:
    trial = make()
    trial.begin({"shop": [Knobs(lie=lie)]})
    said = ends(trial, OWNER, code, words)
    its_own = code is Exit.REFUSED  # then its service must not start it again
    heard = ends(trial, "shop", code if its_own or lie == "permuted" else Exit.AWAY)  # that one it sees itself
    why = "the owner refused this side" if its_own else "the owner stopped"
    assert heard == f"error: the owner hung up: {why}: {said.removeprefix('error: ')}"
    assert never_stepped(trial)


def test_an_answer_of_the_round_before(make: Make) -> None:
    trial = make()
    trial.begin({"shop": [Knobs(lie="stale")]})
    ends(trial, OWNER, Exit.PROTOCOL, "came from 'shop'", "it is stale or forged")


def test_a_file_that_changed_since_it_was_signed(make: Make) -> None:
    trial = make()
    trial.begin({OWNER: [Knobs(kill_before=45)]})  # amid the rounds: an ended job is not gone through again
    assert trial.wait_until(lambda: trial.code(OWNER) == KILLED, 60.0), trial.words(OWNER)
    trial.end()
    with (trial.folder / "shop" / "rows.csv").open("a") as file:
        file.write("c99999,0,0,0\n")
    trial.begin()
    ends(trial, OWNER, Exit.REFUSED, "'shop'", "the files changed since their rows were aligned")
    ends(trial, "shop", Exit.REFUSED, "the files changed since their rows were aligned")


def test_a_field_that_a_party_did_not_agree_to(make: Make) -> None:
    """The shop's operator has read terms and kept them; then somebody changes the owner's job."""
    trial = make()
    command = [sys.executable, "-m", "colonnade", "owner", str(trial.folder / OWNER / "job.toml"), "--terms"]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    (trial.folder / "shop" / "agreed.json").write_text(shown)
    edit(trial, "shop", "[allow]", '[allow]\nterms = "agreed.json"')
    edit(trial, OWNER, "seed = 3", "seed = 4")
    trial.begin()
    words = "the terms are not those that [allow] of 'shop' names, in train.seed (3 here, 4 at the owner)"
    for side in (OWNER, "shop"):
        ends(trial, side, Exit.REFUSED, words)
    assert not trial.run_folder("shop").joinpath("runs.json").exists()
    edit(trial, OWNER, "seed = 4", "seed = 3")
    shutil.rmtree(trial.run_folder(OWNER))
    assert trial.run() and {trial.code(side) for side in (OWNER, *PARTIES)} == {0}, trial.words(OWNER)
    assert json.loads(shown)["train"]["seed"] == 3


@pytest.mark.parametrize(
    ("allow", "words"),
    [
        ("epsilon = 1.0", "seals.noise.epsilon 'no noise', and 'shop' allows at most 1"),
        ("rounds = 3", "train.rounds 4, and 'shop' allows at most 3"),
    ],
)
def test_what_a_party_does_not_allow(make: Make, allow: str, words: str) -> None:
    trial = make()
    edit(trial, "shop", "[allow]", f"[allow]\n{allow}")
    trial.begin()
    for side in (OWNER, "shop"):
        ends(trial, side, Exit.REFUSED, words)


def test_one_run_too_many(make: Make) -> None:
    trial = make()
    assert trial.run(), trial.words(OWNER)
    edit(trial, OWNER, "seed = 3", "seed = 4")
    shutil.rmtree(trial.run_folder(OWNER))
    trial.begin()
    for side in (OWNER, "shop"):
        ends(trial, side, Exit.REFUSED, "'shop' has let 1 runs begin and allows 1; raise runs in [allow]")


@pytest.mark.long
def test_a_log_as_json_holds_nothing_else(make: Make) -> None:
    trial = make()
    verbs = {OWNER: "owner", "shop": "party", "clinic": "party"}
    side_files = {side: trial.folder / side / ("job.toml" if side == OWNER else "party.toml") for side in verbs}
    commands = {
        side: [sys.executable, "-m", "colonnade", verb, side_files[side], "--folder", trial.run_folder(side)]
        for side, verb in verbs.items()
    }

    def lines(told: bytes) -> list[dict[str, object]]:
        return [json.loads(line) for line in told.splitlines()]

    started = {
        side: subprocess.Popen([*command, "--log-format", "json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for side, command in commands.items()
    }
    told = {side: lines(process.communicate(timeout=120)[1]) for side, process in started.items()}
    assert {process.returncode for process in started.values()} == {0}
    assert any("learns" in str(line["message"]) for line in told[OWNER])
    edit(trial, OWNER, "seed = 3", "seed = 4")
    done = subprocess.run([*commands[OWNER], "--log-format", "json"], capture_output=True, check=False)
    (last,) = lines(done.stderr)
    assert done.returncode == last["exit"] == 4 and last["cause"] == "refused" and "train.seed" in str(last["message"])
