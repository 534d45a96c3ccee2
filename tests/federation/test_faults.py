"""A federation of real processes that is broken on purpose: it ends with the same bits, or says who and why in time."""

from __future__ import annotations

import csv
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from benchmarks.faults import SEALS, broken_run
from benchmarks.sides import OWNER, PARTIES, Knobs, Trial

from colonnade.federation.audit_check import verify
from colonnade.federation.exit_codes import Exit
from colonnade.federation.status_file import read_status

pytestmark = pytest.mark.slow
SOON = 15  # seconds beyond a deadline, on a machine that does other things too
SHORT = 6  # a deadline that tests let pass; sides must connect within it on a machine that does other things too
Make = Callable[..., Trial]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    made: list[Trial] = []

    def trial(**more: object) -> Trial:
        made.append(Trial(tmp_path / f"trial-{len(made)}", **more))
        return made[-1]

    yield trial
    for one in made:
        one.end()


@pytest.fixture(scope="module", autouse=True)
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Of every test, because it also warms the server that sides are forked from: short deadlines need that."""
    with Trial(tmp_path_factory.mktemp("undisturbed")) as trial:
        assert trial.run(), trial.words(OWNER)
        return trial.result()


def codes(trial: Trial) -> dict[str, int | None]:
    return {name: trial.code(name) for name in (OWNER, *PARTIES)}


def finished(trial: Trial) -> bool:
    return set(codes(trial).values()) == {0}


def amid(trial: Trial, requests: int = 30) -> None:
    """Wait until training is on its way."""
    assert trial.wait_until(lambda: len(trial.requests("shop")) >= requests), trial.words(OWNER)


def tracebacks(trial: Trial) -> list[str]:
    return [name for name in codes(trial) if "Traceback" in trial.words(name)]


@pytest.mark.long
def test_fifty_seeded_faults(tmp_path: Path, undisturbed: dict[str, str]) -> None:
    seen: list[tuple[str, str, float]] = []
    for seed in range(10):
        outcome = broken_run(tmp_path / str(seed), seed, undisturbed)
        assert outcome.how in ("recovered", "stopped"), (seed, outcome)
        seen += outcome.faults
        if len(seen) >= 50:
            break
    assert len(seen) >= 50
    assert len({kind for kind, _, _ in seen}) >= 10


@pytest.mark.long
def test_a_run_goes_on_five_seconds_after_a_death_at_most(make: Make, undisturbed: dict[str, str]) -> None:
    trial = make()
    assert trial.run({"shop": [Knobs(kill_before=40)]}), trial.words(OWNER)
    ((party, at),) = trial.deaths
    later = trial.seconds_to_go_on(party, at)
    assert later is not None
    assert later < 5
    assert trial.result() == undisturbed


@pytest.mark.long
def test_a_party_killed_at_every_step_of_a_round(make: Make, undisturbed: dict[str, str]) -> None:
    # Who is started again hears hello, terms, signed, prepare, plan, begin and back before the steps of a round.
    trial = make()
    everywhere = [Knobs(**{where: n}) for n in range(6, 15) for where in ("kill_before", "kill_after")]
    assert trial.run({"shop": everywhere}, 120), trial.words(OWNER)
    assert finished(trial), trial.words(OWNER)
    assert len(trial.deaths) == len(everywhere)
    assert trial.result() == undisturbed
    for name in codes(trial):
        log = trial.audit_log(name)
        assert log is not None
        assert verify(log).whole


def test_a_party_that_dies_while_keys_are_agreed_on_goes_back_before_it_is_asked(make: Make) -> None:
    """Its newest state is one that no checkpoint names, since another party died while all kept theirs."""
    whole, broken = (make(rounds=4, deadline=40, **SEALS["blind"]) for _ in range(2))
    assert whole.run(), whole.words(OWNER)
    kept = {name: [n for n, one in enumerate(whole.requests(name), 1) if one["kind"] == "keep"] for name in PARTIES}
    after_keep_and_back = Knobs(kill_before=kept["shop"][-2] + 2)
    assert broken.run({"clinic": [Knobs(kill_before=kept["clinic"][-2])], "shop": [after_keep_and_back]})
    assert [name for name, _ in broken.deaths] == ["clinic", "shop"]
    assert finished(broken), broken.words(OWNER)
    assert broken.result() == whole.result()


@pytest.mark.long
def test_the_owner_killed_from_the_first_hello_to_the_last_rounds(make: Make, undisturbed: dict[str, str]) -> None:
    trial = make()
    deaths = [Knobs(kill_after=1), Knobs(kill_before=20), Knobs(kill_after=44), Knobs(kill_before=70)]
    assert trial.run({OWNER: deaths}, 120), trial.words(OWNER)
    assert finished(trial), trial.words(OWNER)
    assert len(trial.deaths) == len(deaths)
    assert trial.result() == undisturbed


@pytest.mark.long
def test_who_dies_while_the_end_is_told_comes_back_and_ends_well(make: Make, undisturbed: dict[str, str]) -> None:
    first = make()
    assert first.run() and finished(first), first.words(OWNER)
    last = len(first.requests("shop"))  # the end; the owner has twice as many answers
    deaths = [("shop", Knobs(kill_before=last)), ("shop", Knobs(kill_after=last))]
    deaths += [(OWNER, Knobs(kill_before=2 * last)), (OWNER, Knobs(kill_after=2 * last - 1))]
    for who, knobs in deaths:
        trial = make()
        assert trial.run({who: [knobs]}) and finished(trial), (knobs, trial.words(OWNER))
        assert [name for name, _ in trial.deaths] == [who]
        assert trial.result() == undisturbed


@pytest.mark.long
def test_requests_that_come_twice_or_late_change_nothing(make: Make, undisturbed: dict[str, str]) -> None:
    trial = make()
    twice = Knobs(twice=tuple(range(2, 60, 3)), again=tuple(range(25, 60, 4)))
    assert trial.run({"shop": [twice], "clinic": [twice]}), trial.words(OWNER)
    assert finished(trial), trial.words(OWNER)
    assert trial.result() == undisturbed


@pytest.mark.long
def test_an_old_answer_is_refused_by_name(make: Make) -> None:
    trial = make()
    assert trial.run({OWNER: [Knobs(stale=70)]}), trial.words(OWNER)
    assert trial.code(OWNER) == Exit.PROTOCOL
    assert "it is stale or forged" in trial.said(OWNER)
    assert any(f"came from '{party}'" in trial.said(OWNER) for party in PARTIES)
    assert all("the owner stopped: a reply of" in trial.said(party) for party in PARTIES)


@pytest.mark.long
def test_a_party_that_stands_still_past_the_deadline_is_named(make: Make) -> None:
    trial = make(deadline=SHORT, rounds=400, patience=3 * SHORT)
    trial.begin()
    amid(trial)
    trial.kill("shop", signal.SIGSTOP)
    began = time.monotonic()
    assert trial.wait_until(lambda: trial.code(OWNER) is not None, SHORT + SOON), "the owner hangs"
    assert trial.code(OWNER) == Exit.AWAY
    assert time.monotonic() - began > SHORT - 1
    assert f"'shop' did not answer within {SHORT} s" in trial.said(OWNER) or "'shop' did not connect" in trial.said(
        OWNER
    )
    assert trial.wait_until(lambda: trial.code("clinic") is not None, SOON)
    assert "the owner stopped: 'shop' did not" in trial.said("clinic")
    trial.kill("shop", signal.SIGCONT)
    assert trial.wait_until(lambda: trial.code("shop") is not None, 3 * SHORT + SOON), "the party hangs"
    assert trial.code("shop") == Exit.AWAY
    assert not tracebacks(trial)


def test_ctrl_c_at_the_owner(make: Make) -> None:
    trial = make(rounds=400)
    trial.begin()
    amid(trial)
    trial.kill(OWNER, signal.SIGINT)
    assert trial.watch(SOON), codes(trial)
    assert codes(trial) == {OWNER: Exit.INTERRUPTED, "shop": Exit.AWAY, "clinic": Exit.AWAY}
    assert all("the owner was interrupted" in trial.said(party) for party in PARTIES)
    assert read_status(trial.run_folder(OWNER)).state == "stopped"
    assert not tracebacks(trial)


def test_ctrl_c_at_a_party(make: Make) -> None:
    trial = make(rounds=400, deadline=SHORT)
    trial.begin()
    amid(trial)
    trial.kill("shop", signal.SIGINT)
    assert trial.watch(SHORT + SOON), codes(trial)
    assert codes(trial) == {OWNER: Exit.AWAY, "shop": Exit.INTERRUPTED, "clinic": Exit.AWAY}
    assert f"'shop' did not connect within {SHORT} s" in trial.said(OWNER)
    assert "the owner stopped: 'shop' did not connect" in trial.said("clinic")
    assert not tracebacks(trial)


def test_a_second_process_of_a_side_changes_nothing(make: Make) -> None:
    trial = make(rounds=2000)
    trial.begin()
    amid(trial)
    first = dict(trial.sides)
    for side in (OWNER, "shop"):
        second = trial.start(side)
        second.process.join(SOON)
        assert second.process.exitcode == Exit.FOLDER
        assert "end that one first." in trial.words(side)
    trial.sides = first
    amid(trial, len(trial.requests("shop")) + 20)
    assert set(codes(trial).values()) == {None}


def test_a_status_says_who_is_absent(make: Make) -> None:
    trial = make(rounds=2000)

    def told(side: str, peer: str) -> bool:
        found = read_status(trial.run_folder(side))
        absent = {one.name for one in found.peers if not one.connected}
        return absent == {peer} and f"the connection to '{peer}' broke" in (found.error or "")

    trial.begin()
    amid(trial)
    trial.kill("shop")
    assert trial.wait_until(lambda: told(OWNER, "shop"), SOON), read_status(trial.run_folder(OWNER))
    trial.kill(OWNER)
    assert trial.wait_until(lambda: told("clinic", OWNER), SOON), read_status(trial.run_folder("clinic"))


@pytest.mark.long
def test_a_party_interrupted_and_started_again_goes_on(make: Make, undisturbed: dict[str, str]) -> None:
    trial = make()
    trial.begin()
    amid(trial)
    trial.kill("shop", signal.SIGINT)
    assert trial.wait_until(lambda: trial.code("shop") == Exit.INTERRUPTED, SOON)
    trial.start("shop")
    assert trial.watch(), codes(trial)
    assert finished(trial), trial.words(OWNER)
    assert trial.result() == undisturbed


class Predicts(Trial):
    """A trial whose owner scores its own rows, once there is a place for the scores."""

    to: Path | None = None

    def command(self, name: str) -> list[str]:
        if name != OWNER or self.to is None:
            return super().command(name)
        return [*super().command(name), "--predict", str(self.folder / OWNER / "rows.csv"), "--to", str(self.to)]

    def scores(self, to: str, deaths: dict[str, list[Knobs]]) -> bytes:
        self.to = self.folder / to
        assert self.run(deaths), codes(self)
        assert finished(self), self.words(OWNER)
        return self.to.read_bytes()


def test_a_prediction_goes_on_after_deaths_of_either_side(tmp_path: Path) -> None:
    with Predicts(tmp_path / "trial", method="splitnn", rounds=2) as trial:
        for party in PARTIES:
            side_file = trial.folder / party / "party.toml"
            more = '[predict]\nfiles = "rows.csv"\n[allow]\nruns = 3\n'
            side_file.write_text(side_file.read_text().replace("[allow]\n", more))
        assert trial.run() and finished(trial), trial.words(OWNER)
        undisturbed = trial.scores("scores.csv", {})
        deaths = {"shop": [Knobs(kill_before=18), Knobs(kill_before=8)], OWNER: [Knobs(kill_before=38)]}
        assert trial.scores("again.csv", deaths) == undisturbed
        assert sorted(name for name, _ in trial.deaths) == [OWNER, "shop", "shop"]


@pytest.mark.parametrize("choice", ["without", pytest.param("skip", marks=pytest.mark.long)])
def test_the_run_goes_on_without_a_party_that_died_and_says_so(make: Make, choice: str) -> None:
    trial = make(method="vafl", deadline=SHORT, train=f'missing = "zero"\nwhen_absent = "{choice}"')
    trial.begin({"shop": [Knobs(kill_before=40)]})
    assert trial.wait_until(lambda: trial.code("shop") is not None)
    assert trial.wait_until(lambda: trial.code(OWNER) is not None, SHORT + 3 * SOON), trial.words(OWNER)
    assert trial.code(OWNER) == 0, trial.words(OWNER)
    with (trial.run_folder(OWNER) / "history.csv").open() as file:
        last = list(csv.DictReader(file))[-1]
    column = "without" if choice == "without" else "skipped"
    assert last["round"] == "20"
    assert 0 < int(last[column]) < 20
    what = "the run goes on without it" if choice == "without" else "the round is left out"
    assert f"'shop' is absent from round {20 - int(last[column]) + 1}: {what}" in trial.words(OWNER)
    assert f"'shop' was absent from {last[column]} of them" in trial.words(OWNER)


@pytest.mark.long
def test_a_party_comes_back_to_a_run_that_went_on_without_it(make: Make) -> None:
    rounds = 300
    trial = make(
        method="vafl",
        deadline=SHORT,
        rounds=rounds,
        evaluate_every=20,
        train='missing = "zero"\nwhen_absent = "without"',
    )
    trial.begin({"shop": [Knobs(kill_before=40)]})
    assert trial.wait_until(lambda: "'shop' is absent from round" in trial.words(OWNER)), trial.words(OWNER)
    trial.start("shop")
    assert trial.watch(90), codes(trial)
    assert finished(trial), trial.words(OWNER)
    with (trial.run_folder(OWNER) / "history.csv").open() as file:
        missed = [int(row["without"]) for row in csv.DictReader(file)]
    assert 0 < missed[-1] < rounds
    assert missed[-1] == missed[-2], "it should be back by the end"
    assert "'shop' takes part again" in trial.words(OWNER)


@pytest.mark.long
@pytest.mark.parametrize("side", [OWNER, "shop"])
def test_a_full_disk_is_named(make: Make, side: str, request: pytest.FixtureRequest) -> None:
    trial = make(rounds=400, deadline=SHORT)
    place = trial.run_folder(side)
    place.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=400k", "tmpfs", place], capture_output=True)
    if mounted.returncode:
        pytest.skip(f"a small disk cannot be mounted here: {mounted.stderr.decode().strip()}")
    request.addfinalizer(lambda: subprocess.run(["umount", "-l", place], check=True))
    assert trial.run(seconds=60), codes(trial)
    assert trial.code(OWNER) == Exit.FOLDER, trial.words(OWNER)
    assert "No space left on device" in trial.said(OWNER)
    assert side == OWNER or "shop" in trial.said(OWNER)
    others = [party for party in PARTIES if party != side]
    assert all("No space left on device" in trial.said(party) for party in others), trial.words(others[0])
    assert not tracebacks(trial)
