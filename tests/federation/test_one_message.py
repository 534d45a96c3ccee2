"""`oneshot` between organisations: processes over mutual TLS that die, stay absent, predict; and what they allow."""

from __future__ import annotations

import csv
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from benchmarks.sides import OWNER, PARTIES, Knobs, Trial, free_port

from colonnade.errors import ConfigError, ManifestError
from colonnade.federation.certificates import make_keys
from colonnade.federation.side_files import read_party_file
from near import Sides, lead
from pages import ROOT

pytest.importorskip("grpc")
pytest.importorskip("pyarrow")

SMALL = '[method]\nlearner = "linear"\ntop = "linear"\nfolds = 2\n[[seal]]\nkind = "bits"\nbits = 8\nways = "up"\n'
LONG = 20_000  # ms after which a silent peer is asked for a sign of life: no connection breaks on a busy machine
Make = Callable[..., Trial]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    made: list[Trial] = []

    def trial(**more: object) -> Trial:
        how = {"method": "oneshot", "rounds": 1, "train": SMALL, "deadline": 40, **more}
        made.append(Trial(tmp_path / f"trial-{len(made)}", **how))
        return made[-1]

    yield trial
    for one in made:
        one.end()


def ended_well(trial: Trial) -> bool:
    return {trial.code(name) for name in (OWNER, *PARTIES)} == {0}


@pytest.mark.slow
def test_whoever_dies_in_the_only_round_goes_on_with_the_same_bits(make: Make) -> None:
    whole, broken = make(), make()
    assert whole.run() and ended_well(whole), whole.words(OWNER)
    asked = [n for n, one in enumerate(whole.requests("shop"), 1) if one["kind"] == "score"]
    assert len(asked) == 1, "a party answers one request of training"
    deaths = {"shop": [Knobs(kill_before=asked[0])], "clinic": [Knobs(kill_after=asked[0])]}
    owner = [Knobs(kill_before=2 * asked[0] + 1)]
    assert broken.run({**deaths, OWNER: owner}, 90), broken.words(OWNER)
    assert ended_well(broken), broken.words(OWNER)
    assert {name for name, _ in broken.deaths} == {OWNER, *PARTIES}
    assert broken.result() == whole.result()


@pytest.mark.slow
def test_an_absent_party_is_done_without(make: Make) -> None:
    trial, whole = make(deadline=8, train=f'when_absent = "without"\n{SMALL}'), make()
    assert whole.run() and ended_well(whole), whole.words(OWNER)
    (asked,) = [n for n, one in enumerate(whole.requests("clinic"), 1) if one["kind"] == "score"]
    slow = {OWNER: [Knobs(beat=LONG)], "shop": [Knobs(beat=LONG)]}
    trial.begin({**slow, "clinic": [Knobs(kill_before=asked, beat=LONG)]})
    assert trial.wait_until(lambda: trial.code(OWNER) is not None, 60), trial.words(OWNER)
    assert trial.code(OWNER) == 0, trial.words(OWNER)
    assert "'clinic' is absent" in trial.words(OWNER)
    page = (trial.run_folder(OWNER) / "report.html").read_text()
    assert "oneshot" in page and "clinic" in page


@pytest.mark.long
def test_a_prediction_gives_everybody_a_score(make: Make) -> None:
    trial = make()
    for name in PARTIES:
        path = trial.folder / name / "party.toml"
        path.write_text(path.read_text().replace("[allow]", "[allow]\nruns = 2") + '[predict]\nfiles = "rows.csv"\n')
    assert trial.run() and ended_well(trial), trial.words(OWNER)
    scores = trial.folder / "scores.csv"
    for name in PARTIES:
        trial.start(name)
    command = [Path(sys.executable).parent / "colonnade", *trial.command(OWNER)]
    more = ["--predict", trial.folder / OWNER / "rows.csv", "--to", scores]
    done = subprocess.run([*map(str, [*command, *more])], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    with scores.open() as file:
        rows = list(csv.DictReader(file))
    with (trial.folder / OWNER / "rows.csv").open() as file:
        truth = {row["id"]: row["churn"] for row in csv.DictReader(file)}
    right = sum((float(row["p(1)"]) > 0.5) == (truth[row["id"]] == "1") for row in rows)
    assert len(rows) > 200 and right > 0.9 * len(rows)


@pytest.mark.long
def test_the_example_runs(tmp_path: Path) -> None:
    """The two files of examples/federation, by the commands of its page but for the port."""
    place, port = Path(shutil.copytree(ROOT / "examples" / "federation", tmp_path / "example")), free_port()
    make_keys(tmp_path / "trial", ["localhost"], ["lab"])
    for side, kept, other in (("clinic", "owner", "lab"), ("lab", "lab", "clinic")):
        subprocess.run([sys.executable, "make_tables.py", side, side], cwd=place, check=True, capture_output=True)
        shutil.copytree(tmp_path / "trial" / kept, place / side, dirs_exist_ok=True)
        theirs = tmp_path / "trial" / ("owner" if other == "clinic" else other) / "identity.pub"
        shutil.copy(theirs, place / side / f"{other}.pub")
        file = place / side / "one_message.toml"
        file.write_text(file.read_text().replace("8443", str(port)))
    command = str(Path(sys.executable).parent / "colonnade")
    lab = subprocess.Popen([command, "party", "lab/one_message.toml", "--folder", "runs/lab"], cwd=place)
    clinic = [command, "owner", "clinic/one_message.toml", "--folder", "runs/clinic", "--quiet"]
    done = subprocess.run(clinic, cwd=place, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 == lab.wait(60), done.stderr
    assert "1 rounds, 533 B sent in training" in done.stdout
    pages = [(place / "runs" / "clinic" / "report.html"), *(place / "runs" / "lab").glob("*/report.html")]
    clinics, labs = (" ".join(page.read_text().split()) for page in pages)
    assert "It can read noisy labels of the rows only (leaks)" in clinics
    assert "Every party learns labels of the training rows, once." in labs


# What a party answers, and what it allows


def job(more: str = SMALL, **others: str) -> dict[str, str]:
    return {"method": "oneshot", "train": "rounds = 1", "federation": 'labels = "shown"', "more": more, **others}


REFUSED = [
    ('learners = ["linear"]', "", "method.learner 'trees', and 'shop' allows ['linear']"),
    ("width = 3", '[method]\nlearn = "pca"\nembedding = 2\n', "lets 'shop' send 4 numbers of a row in a round"),
    ("", '[method]\nlearn = "pca"\nembedding = 3\n', "3 numbers of each row that are linear in its 3 columns"),
    ("epsilon = 2.0", "", "seals.noise.epsilon 'no noise', and 'shop' allows at most 2"),
    ("rows = 10", "", "the plan has 32 rows, and 'shop' allows 10"),
]


@pytest.mark.parametrize(("allow", "more", "words"), REFUSED, ids=[one[0] or one[1] for one in REFUSED])
def test_what_a_party_does_not_allow(sides: Sides, allow: str, more: str, words: str) -> None:
    sides.write_parties(allow)
    with pytest.raises(ManifestError, match=re.escape(words)):
        lead(sides.host(**job(more)))


def test_what_a_careful_party_allows(sides: Sides) -> None:
    sides.write_parties('methods = ["oneshot"]\nlearners = ["linear"]\nwidth = 2\nrounds = 1\nseals = ["bits"]')
    lead(sides.host(**job()))


def test_an_unknown_learner_is_refused_when_the_party_file_is_read(sides: Sides) -> None:
    sides.write_parties('learners = ["woods"]')
    with pytest.raises(ConfigError, match=r"unknown learner in .allow. 'woods'; known: .*trees"):
        read_party_file(sides.folder / "shop" / "party.toml")
