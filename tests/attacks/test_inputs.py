"""Nasty local input: jobs, tables, options, names and folders, each refused with one sentence and the documented code.

Every group has a control: what was not damaged works.
"""

from __future__ import annotations

import hashlib
import json
import os
import resource
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import colonnade as cn
from colonnade.cli import app
from colonnade.data.catalog import CATALOG
from colonnade.disk.small_files import read_json
from colonnade.errors import CheckpointError, ColonnadeError, ConfigError, FolderError, ModelError
from colonnade.federation.prediction import Unfinished
from colonnade.federation.public_keys import read_public
from colonnade.federation.side_files import _read_terms
from colonnade.report.watch_page import Followed
from colonnade.store.checkpoint import _digest

pytest.importorskip("pyarrow")

DEEP = 5000
SHOWN = 'data-checkpoint="00000006"'
JOB = """
[[party]]
name = "clinic"
files = "clinic.csv"
id = "id"
label = "ill"

[[party]]
name = "lab"
files = "lab.csv"
id = "id"

[align]
mode = "plain"

[train]
method = "fdml"
epochs = 2
batch = 20
"""


def colonnade(*words: object) -> Any:
    return CliRunner().invoke(app, [str(word) for word in words])


def refused(result: Any, code: int = 2) -> str:
    """The one sentence of a refusal."""
    assert result.exit_code == code, result.output or repr(result.exception)
    (line,) = [line for line in result.stderr.splitlines() if line.startswith("error:")]
    assert line.endswith(".") and line.isprintable() and len(line) < 1200
    return str(line)


def peak() -> int:
    """The most memory that this process ever had, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10


def write_tables(folder: Path, yes: str = "yes", column: str = "x") -> None:
    rng = np.random.default_rng(3)
    x, y = rng.normal(size=(2, 60))
    ill = [yes if one else "no" for one in x + y > 0]
    rows = [f"p{k},{a:.4f},{c}" for k, (a, c) in enumerate(zip(x, ill, strict=True))]
    (folder / "clinic.csv").write_text("\n".join([f"id,{column},ill", *rows]) + "\n")
    (folder / "lab.csv").write_text("\n".join(["id,y", *(f"p{k},{b:.4f}" for k, b in enumerate(y))]) + "\n")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("made")
    write_tables(place)
    (place / "job.toml").write_text(JOB)
    done = colonnade("train", place / "job.toml", "--folder", place / "run", "--quiet")
    assert done.exit_code == 0, done.output
    return place


@pytest.fixture
def here(made: Path, tmp_path: Path) -> Path:
    for name in ("clinic.csv", "lab.csv", "job.toml"):
        shutil.copy(made / name, tmp_path / name)
    return tmp_path


@pytest.fixture
def run(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made / "run", tmp_path / "run"))


# What is no small text file


def sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(10 << 30)


NO_JOBS: dict[str, tuple[Callable[[Path], object], str]] = {
    "lists": (lambda p: p.write_text(f"x = {'[' * DEEP}{']' * DEEP}"), "nested too deep"),
    "tables": (lambda p: p.write_text(f"{'.'.join(['a'] * DEEP)} = 1"), "nested too deep"),
    "inline tables": (lambda p: p.write_text(f"x = {'{a = ' * DEEP}1{'}' * DEEP}"), "nested too deep"),
    "quoted tables": (lambda p: p.write_text(" . ".join(['"a"'] * DEEP) + " = 1"), "nested too deep"),
    "sections": (lambda p: p.write_text(f"[{'.'.join(['a'] * DEEP)}]"), "nested too deep"),
    "a long number": (lambda p: p.write_text(f"x = {'9' * 5000}"), "not valid TOML"),
    "a device": (lambda p: p.symlink_to("/dev/zero"), "a device, a pipe or a socket"),
    "a pipe": (os.mkfifo, "a device, a pipe or a socket"),
    "a folder": (lambda p: p.mkdir(), "Is a directory"),
    "10 GB": (sparse, "larger than 16 MB"),
    "no text": (lambda p: p.write_bytes(b"\xff\xfe\x00a"), "not a text in UTF-8"),
    "zeros": (lambda p: p.write_bytes(bytes(1000)), "not valid TOML"),
    "itself": (lambda p: p.symlink_to(p), "Too many levels of symbolic links"),
    "nothing": (lambda p: None, "No such file"),
}


@pytest.mark.parametrize("verb", ["train", "align", "owner", "party"])
@pytest.mark.parametrize("what", NO_JOBS)
def test_what_is_no_job_is_refused_by_every_verb(what: str, verb: str, tmp_path: Path) -> None:
    make, sentence = NO_JOBS[what]
    make(tmp_path / "job.toml")
    before, began = peak(), time.monotonic()
    assert sentence in refused(colonnade(verb, tmp_path / "job.toml"))
    assert peak() - before < 100 and time.monotonic() - began < 10


@pytest.mark.parametrize("what", NO_JOBS)
def test_no_other_small_file_holds_up_its_reader(what: str, tmp_path: Path) -> None:
    make, _ = NO_JOBS[what]
    make(tmp_path / "file")
    for read in (read_json, _read_terms, read_public):
        with pytest.raises((OSError, ValueError, ColonnadeError)):
            read(tmp_path / "file")
    make(tmp_path / "status.json")
    refused(colonnade("status", tmp_path))


def test_json_may_be_as_deep_as_ours_and_no_deeper(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("[" * 50 + "]" * 50)
    assert read_json(tmp_path / "file")
    for depth in (100, DEEP, 100 * DEEP):
        (tmp_path / "file").write_text("[" * depth + "]" * depth)
        with pytest.raises(ValueError, match="nested too deep"):
            read_json(tmp_path / "file")


# Values in a job

VALUES: dict[str, tuple[str, str, str]] = {
    "seed of 2^80": ("epochs = 2", f"epochs = 2\nseed = {2**80}", "seed = 1208925819614629174706176 in [train]"),
    "seed below 0": ("epochs = 2", "epochs = 2\nseed = -1", "seed = -1 in [train] is out of range"),
    "seed not whole": ("epochs = 2", "epochs = 2\nseed = 1.5", "seed = 1.5 in [train] is not a whole number"),
    "seed true": ("epochs = 2", "epochs = 2\nseed = true", "seed = True in [train] is not a whole number"),
    "seed endless": ("epochs = 2", f"epochs = 2\nseed = {'9' * 4000}", "in [train] is out of range"),
    "rounds": ("epochs = 2", f"rounds = {10**12}", "rounds = 1000000000000 in [train] is out of range"),
    "epochs": ("epochs = 2", f"epochs = {10**9}", "rounds=3000000000 is out of range"),
    "batch": ("batch = 20", f"batch = {10**30}", "in [train] is out of range"),
    "threads": ("batch = 20", "batch = 20\nthreads = 1000000", "threads=1000000 is out of range"),
    "a wide network": (
        "[train]",
        "[model]\nkind = 'mlp'\nhidden = [100000000, 1000]\n[train]",
        "would hold 100,200,061,060 numbers",
    ),
    "a wide embedding": ("[train]", f"[method]\nembedding = {10**9}\n[train]", "more than 100,000,000 weights"),
    "an endless option": ("[train]", f"[method]\nembedding = {10**40}\n[train]", "a number of 133 bits"),
    "a name that goes up": ('name = "lab"', 'name = ".."', "the name '..' of a party cannot be used"),
    "a name with NUL": ('name = "lab"', r'name = "a\u0000b"', "the name 'a?b' of a party cannot be used"),
    "a name that steers": ('name = "lab"', r'name = "\u001B[2Jlab"', "the name '?[2Jlab' of a party cannot be used"),
    "a long name": ('name = "lab"', f'name = "{"x" * 500}"', "give 1 to 100 printable characters"),
    "no name": ('name = "lab"', 'name = ""', "the name '' of a party cannot be used"),
    "a folder with NUL": ("[train]", '[train]\nfolder = "a\\u0000b"', "cannot be written"),
    "files with NUL": ('files = "lab.csv"', 'files = "a\\u0000b"', "there is no file"),
    "a device as a table": ('files = "lab.csv"', 'files = "/dev/zero"', "there is no file /dev/zero"),
}


def test_control_the_job_trains(here: Path) -> None:
    assert colonnade("train", here / "job.toml", "--folder", here / "run", "--quiet").exit_code == 0


@pytest.mark.parametrize("what", VALUES)
def test_values_beyond_all_use_are_refused(what: str, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old, new, sentence = VALUES[what]
    assert old in JOB
    (here / "job.toml").write_text(JOB.replace(old, new))
    monkeypatch.chdir(here)
    before = peak()
    assert sentence in refused(colonnade("train", here / "job.toml", "--quiet"))
    assert peak() - before < 300


@pytest.mark.parametrize("name", ["..toml", "...toml", f"{'x' * 150}.toml", "a\x1bb.toml"])
def test_a_jobs_file_gives_no_name_that_leads_out_of_a_folder(name: str, here: Path) -> None:
    shutil.copy(here / "job.toml", here / name)
    assert "of the job, which is its file's, cannot be used" in refused(colonnade("train", here / name))


def test_a_data_set_of_a_jobs_choice_leads_nowhere(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(here)
    (here / "job.toml").write_text('[data]\nload = "../../../up"\n')
    before = set(here.parent.rglob("*"))
    assert "unknown data set" in refused(colonnade("train", here / "job.toml"))
    assert {path for path in set(here.parent.rglob("*")) - before if "up" in path.name} == set()


def test_a_damaged_note_of_a_prediction_chooses_no_folder(tmp_path: Path) -> None:
    unfinished = Unfinished(tmp_path)
    number = unfinished.number("f")
    assert unfinished.number("f") == number, "control: the same prediction goes on"
    unfinished.place.write_text(json.dumps({"files": "f", "number": "../../../up"}))
    assert "/" not in unfinished.number("f")


@pytest.mark.parametrize("seed", [2**80, -1, 1.5, True, "7", None])
def test_a_seed_is_a_seed_everywhere(seed: Any) -> None:
    train, _ = cn.load("digits", parties=2, rows=60, seed=3)
    for call in (
        lambda: cn.load("digits", parties=2, rows=60, seed=seed),
        lambda: cn.train(train, "fdml", rounds=1, batch=20, seed=seed),
        lambda: cn.share(train, 2, seed=seed),
        lambda: cn.select(train, seed=seed),
        lambda: cn.align(train, mode="plain", seed=seed),
        lambda: cn.with_noise(train, "party 1", seed=seed),
    ):
        with pytest.raises(ConfigError, match="seed="):
            call()


def test_a_network_beyond_all_memory_is_refused_before_it_is_made() -> None:
    train, _ = cn.load("digits", parties=2, rows=60)
    before = peak()
    with pytest.raises(ModelError, match=r"the network of 'party 1' would hold .* numbers, and 1,000,000,000 is the"):
        cn.train(train, "fdml", rounds=1, batch=20, model=cn.MLP(hidden=(10**8,)))
    with pytest.raises(ConfigError, match=r"rounds=a number of 400 bits is out of range"):
        cn.train(train, "fdml", rounds=2**399, batch=20)
    assert peak() - before < 200


# Tables


def wide(path: Path) -> None:
    names = ",".join(f"c{k}" for k in range(100_000))
    path.write_text(f"id,{names}\n" + "p1" + ",1" * 100_000 + "\n")


def endless(path: Path) -> None:
    path.write_bytes(b"id,y\np1," + b"7" * (40 << 20) + b"\np2,3\n")


TABLES: dict[str, tuple[Callable[[Path], object], str]] = {
    "100,000 columns": (wide, "lab.csv has 100,001 columns, and 20,000 is the most here"),
    "a field of 40 MB": (endless, "has a row of more than 8 MB"),
    "a line without end": (lambda p: p.write_bytes(b"id,y\n" + b"p" * (40 << 20)), "has a row of more than 8 MB"),
    "a header without end": (lambda p: p.write_bytes(b"id," * (10 << 20)), "a line of it has more than 8 MB"),
    "10 GB of nothing": (sparse, "a line of it has more than 8 MB"),
    "zeros": (lambda p: p.write_bytes(bytes(1 << 20)), "cannot be read"),
    "NUL in a name": (lambda p: p.write_bytes(b"id,y\0z\np1,1\n"), "NUL byte in the column name 'y?z'"),
    "NUL in an id": (lambda p: p.write_bytes(b"id,y\np1\0,1\np1,2\n"), "hold a NUL byte"),
    "a column twice": (lambda p: p.write_bytes(b"id,\x1b[2J,\x1b[2J\np1,1,2\n"), "has the column '?[2J' twice"),
    "no id": (lambda p: p.write_text(",".join(f"c{k}" for k in range(9000)) + "\n"), "and 8,970 more"),
}


@pytest.mark.parametrize("what", TABLES)
def test_tables_that_would_take_all_time_or_memory_are_refused(what: str, here: Path) -> None:
    make, sentence = TABLES[what]
    (here / "lab.csv").unlink()
    make(here / "lab.csv")
    before, began = peak(), time.monotonic()
    assert sentence in refused(colonnade("align", here / "job.toml", "--quiet"))
    assert peak() - before < 400 and time.monotonic() - began < 15


def test_control_a_wide_table_within_the_bound_is_read(tmp_path: Path) -> None:
    (tmp_path / "wide.csv").write_text("id," + ",".join(f"c{k}" for k in range(2000)) + "\np1" + ",1" * 2000 + "\n")
    assert len(cn.read(tmp_path / "wide.csv", id="id").kinds) == 2000


# Folders


def newest(run: Path) -> Path:
    return max((run / "checkpoints").iterdir())


def state(run: Path) -> Path:
    return newest(run) / "party-000.safetensors"


def forged(run: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Facts that somebody changed, with a digest that is right again."""
    manifest = json.loads((newest(run) / "manifest.json").read_bytes())
    change(manifest["facts"])
    manifest.pop("digest")
    (newest(run) / "manifest.json").write_text(json.dumps({**manifest, "digest": _digest(manifest)}))
    (run / "config.json").write_text(json.dumps(manifest["facts"]["description"]))


def bombed(run: Path) -> None:
    """A header that speaks of a petabyte, under a hash that is right."""
    header = json.dumps({"x": {"dtype": "F32", "shape": [1 << 48], "data_offsets": [0, 1 << 50]}}).encode()
    state(run).write_bytes(len(header).to_bytes(8, "little") + header)
    manifest = json.loads((newest(run) / "manifest.json").read_bytes())
    manifest["files"]["party-000"] = hashlib.sha256(state(run).read_bytes()).hexdigest()
    manifest.pop("digest")
    (newest(run) / "manifest.json").write_text(json.dumps({**manifest, "digest": _digest(manifest)}))


def edited(path: Path) -> None:
    raw = bytearray(path.read_bytes())
    raw[-1] ^= 1
    path.write_bytes(raw)


def instead(path: Path, make: Callable[[Path], object]) -> None:
    path.unlink()
    make(path)


def settings(**new: Any) -> Callable[[dict[str, Any]], object]:
    return lambda facts: facts["description"]["settings"].update(new)


DAMAGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "a bit": (lambda r: edited(state(r)), "party-000.safetensors does not match its hash"),
    "a long header": (
        lambda r: state(r).write_bytes((2**63).to_bytes(8, "little") + b"{}"),
        "speaks of a header of 9,223,372,036,854,775,808",
    ),
    "a bomb": (bombed, "party-000.safetensors has"),
    "10 GB": (lambda r: instead(state(r), sparse), "party-000.safetensors has a header that is none"),
    "a pipe": (lambda r: instead(state(r), os.mkfifo), "a device, a pipe or a socket"),
    "a folder": (lambda r: instead(state(r), lambda p: p.mkdir()), "Is a directory"),
    "no state": (lambda r: state(r).unlink(), "party-000.safetensors is missing"),
    "no manifest": (lambda r: (newest(r) / "manifest.json").unlink(), "no manifest.json that can be read"),
    "a deep manifest": (lambda r: (newest(r) / "manifest.json").write_text("[" * DEEP), "manifest.json is not JSON"),
    "a deep fact": (
        lambda r: (newest(r) / "manifest.json").write_text('{"format": ' + "[" * DEEP + "]" * DEEP + "}"),
        "manifest.json is not JSON, or nested too deep",
    ),
    "no config": (lambda r: (r / "config.json").unlink(), "no config.json that can be read"),
    "a deep config": (lambda r: (r / "config.json").write_text("[" * DEEP + "]" * DEEP), "config.json is damaged"),
    "a config of 10 GB": (lambda r: sparse(r / "config.json"), "no config.json that can be read"),
    "a config that is a list": (lambda r: (r / "config.json").write_text("[]"), "config.json is damaged or foreign"),
    "a config of wrong types": (
        lambda r: (r / "config.json").write_text(
            (r / "config.json").read_text().replace('"rounds": 6', '"rounds": []')
        ),
        "config.json is damaged or foreign: settings.rounds is [] where a whole number",
    ),
    "history as text": (lambda r: forged(r, lambda f: f["history"][0].update(train_loss="NaN")), "history[0].train_"),
    "history that is none": (lambda r: forged(r, lambda f: f.update(history={})), "history is {} where a list"),
    "a round below 0": (lambda r: forged(r, lambda f: f.update(round=-1)), "round is -1 where a whole number"),
    "seconds of 10^400": (lambda r: forged(r, lambda f: f.update(seconds=10**400)), "seconds is 1000"),
    "a seed of 2^80": (lambda r: forged(r, settings(seed=2**80)), "description.settings.seed is 1208925819614629"),
    "a task": (lambda r: forged(r, settings(task="<b>")), "description.settings.task is '<b>' where one of"),
    "rows of 10^15": (
        lambda r: forged(r, lambda f: f["description"]["tables"][0].__setitem__(1, 10**15)),
        "description.tables[0] is",
    ),
    "a method": (lambda r: forged(r, lambda f: f["description"]["method"].update(name=3)), "method.name is 3"),
    "a model": (lambda r: forged(r, lambda f: f["description"]["model"].__setitem__(0, 3)), "model[0] is 3"),
    "a ledger": (lambda r: forged(r, lambda f: f["ledger"][0].update(messages=-1)), "ledger[0].messages is -1"),
    "no facts": (lambda r: forged(r, lambda f: f.pop("losses")), "losses is None where something is expected"),
}


def test_control_the_folder_is_reported_watched_and_opened(made: Path, run: Path) -> None:
    assert colonnade("report", run, "--out", run.parent / "page.html").exit_code == 0
    assert SHOWN in Followed(run).page() and cn.resume(run, train=False).round == 6
    assert colonnade("train", made / "job.toml", "--folder", run, "--resume", "--quiet").exit_code == 0


@pytest.mark.parametrize("what", DAMAGES)
def test_a_damaged_folder_is_refused_by_whatever_reads_it(what: str, made: Path, run: Path) -> None:
    damage, sentence = DAMAGES[what]
    damage(run)
    before, began = peak(), time.monotonic()
    assert sentence in refused(colonnade("report", run, "--out", run.parent / "page.html"))
    assert not (run.parent / "page.html").exists()
    assert sentence in refused(colonnade("train", made / "job.toml", "--folder", run, "--resume", "--quiet"))
    with pytest.raises(CheckpointError) as caught:
        cn.resume(run, train=False)
    assert sentence in str(caught.value)
    page = Followed(run).page()
    assert SHOWN not in page and "<b>" not in page
    assert peak() - before < 100 and time.monotonic() - began < 20


def test_a_page_that_found_a_damage_looks_again(run: Path) -> None:
    followed, config = Followed(run), (run / "config.json").read_bytes()
    (run / "config.json").unlink()
    assert SHOWN not in followed.page()
    (run / "config.json").write_bytes(config)
    assert SHOWN in followed.page()


POINTS: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "a better score": (lambda kept: {**kept, "found": {**kept["found"], "test_accuracy": 1.0}}, "digest is"),
    "a text as a score": (lambda kept: {**kept, "found": {"test_accuracy": "<b>"}}, "found.test_accuracy is '<b>'"),
    "another point": (lambda kept: {**kept, "point": {"seed": 9}}, "point is {'seed': 9} where {'seed': 0}"),
    "a list": (lambda kept: [kept], "where a table is expected"),
    "nothing": (lambda kept: {}, "point is None where something is expected"),
}


def test_points_of_a_sweep_that_were_changed_are_refused(tmp_path: Path) -> None:
    def sweep() -> Any:
        digits = {"load": "digits", "parties": 2, "rows": 60}
        return cn.sweep(digits, "fdml", {"seed": [0]}, rounds=1, batch=20, folder=tmp_path, processes=1)

    rows = sweep().rows
    assert sweep().rows == rows, "control: the point is read again"
    (place,) = (path for path in tmp_path.glob("*.json") if path.name != "sweep.json")
    whole = place.read_text()
    for change, sentence in POINTS.values():
        place.write_text(json.dumps(change(json.loads(whole))))
        with pytest.raises(FolderError) as caught:
            sweep()
        assert str(place) in str(caught.value) and sentence in str(caught.value)
    place.write_text(whole)
    (tmp_path / "sweep.json").write_text("[" * DEEP + "]" * DEEP)
    with pytest.raises(FolderError, match=r"sweep\.json does not describe a sweep"):
        sweep()


# Ids and terminals


@pytest.mark.parametrize("name", ["digits", "mnist", "wikipedia"])
def test_nobody_to_test_on_has_the_id_of_somebody_to_train_on(name: str) -> None:
    if name != "digits" and CATALOG[name].path is None:
        pytest.skip(f"{name} is not here")
    train, test = cn.load(name)
    assert not set(train[0].ids.tolist()) & set(test[0].ids.tolist())


def test_names_of_classes_columns_and_files_do_not_steer_the_terminal(tmp_path: Path) -> None:
    write_tables(tmp_path, yes="yes\x1b]0;owned\x07", column="x\x1b[2J")
    (tmp_path / "job.toml").write_text(JOB)
    shown = colonnade("align", tmp_path / "job.toml", "--columns")
    done = colonnade("train", tmp_path / "job.toml", "--folder", tmp_path / "run\x1b[2J", "--quiet")
    assert shown.exit_code == done.exit_code == 0, shown.output + done.output
    for text in (shown.output, done.output, shown.stderr, done.stderr):
        assert "\x1b" not in text and "\x07" not in text
    assert "x?[2J" in shown.output and "run?[2J" in done.output
