"""Run folders with damaged or missing safetensors files: one sentence and exit code 2 from whatever needs them.

A report and the page that follows a run are made of the newest checkpoint, so they refuse one of which any byte is
another. They need neither preparations nor the file of budgets, and show the same without them.
"""

import json
import math
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from test_files import JOB, colonnade, people, refused, write_csv, write_parquet

import colonnade as cn
from colonnade.errors import CheckpointError
from colonnade.federation.job_folder import JobFolder
from colonnade.report.watch_page import Followed
from colonnade.store import checkpoint
from colonnade.store.preparation_files import read_preparations

NOISE = '\n[[seal]]\nkind = "noise"\nclip = 1.0\nepsilon = 500.0\n'
NEWEST = "checkpoints/00000020"
FILES = {
    f"{NEWEST}/owner.safetensors": "00000020 is damaged: owner.safetensors",
    f"{NEWEST}/party-001.safetensors": "00000020 is damaged: party-001.safetensors",
    f"{NEWEST}/best-party-000.safetensors": "00000020 is damaged: best-party-000.safetensors",
    "preparation/000.safetensors": "preparation/000, a .json and a .safetensors file, is damaged",
    "preparation/001.safetensors": "preparation/001, a .json and a .safetensors file, is damaged",
    "privacy.safetensors": "privacy.safetensors, without which nobody knows what was spent of the privacy budgets, is",
}


def flipped(raw: bytes, bit: int) -> bytes:
    new = bytearray(raw)
    new[bit // 8] ^= 1 << bit % 8
    return bytes(new)


def header(raw: bytes) -> int:
    """How many bytes stand before the numbers."""
    return 8 + int.from_bytes(raw[:8], "little")


DAMAGES: dict[str, Callable[[bytes], bytes | None]] = {
    "truncated": lambda raw: raw[: len(raw) // 2],
    "empty": lambda _: b"",
    "a bit of the length": lambda raw: flipped(raw, 3),
    "a bit of the header": lambda raw: flipped(raw, 8 * (header(raw) // 2)),
    "a bit of a number": lambda raw: flipped(raw, 8 * len(raw) - 9),
    "missing": lambda _: None,
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files of two parties, and a run on them that has noise, a best model, and has predicted since it was saved."""
    place = tmp_path_factory.mktemp("made")
    old, new = people(0, 240), people(240, 300)
    clinic = {"mail": old["id"], "x": old["x"], "job": old["job"], "ill": old["ill"]}
    write_csv(place / "clinic.csv", clinic, slice(None))
    write_parquet(place / "lab-1.parquet", {"who": old["id"], "y": old["y"]}, slice(None))
    write_csv(place / "new-clinic.csv", {"mail": new["id"], "x": new["x"], "job": new["job"]}, slice(None))
    write_parquet(place / "new-lab.parquet", {"who": new["id"], "y": new["y"]}, slice(None))
    job = JOB.format(method="fdml").replace("batch = 32", "batch = 40\nvalid = 0.1\nstop_drop = 100.0")
    (place / "job.toml").write_text(job + NOISE)
    done = colonnade("train", place / "job.toml", "--folder", place / "run", "--quiet")
    assert done.exit_code == 0, done.output
    assert predict(place, place / "run").exit_code == 0
    return place


@pytest.fixture
def run(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made / "run", tmp_path / "run"))


def predict(made: Path, run: Path) -> Any:
    new = f"clinic={made / 'new-clinic.csv'}", f"lab={made / 'new-lab.parquet'}"
    return colonnade("predict", run, *new, "--to", run.parent / "scores.csv", "--quiet")


def report(run: Path) -> Any:
    return colonnade("report", run, "--out", run.parent / "page.html", "--no-pictures")


def page(run: Path) -> bytes:
    told = report(run)
    assert told.exit_code == 0, told.output
    return (run.parent / "page.html").read_bytes()


def everything(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_the_files_are_all_that_a_run_has(made: Path) -> None:
    found = {name for name in everything(made / "run") if name.endswith(".safetensors") and "00000015" not in name}
    rest = {f"{NEWEST}/{name}.safetensors" for name in ("party-000", "best-owner", "best-party-001")}
    assert found == FILES.keys() | rest


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("name", FILES)
def test_what_needs_a_damaged_file_refuses_and_what_does_not_shows_the_same(
    name: str, damage: str, made: Path, run: Path
) -> None:
    whole, followed = page(run), Followed(run).page()
    raw = DAMAGES[damage]((run / name).read_bytes())
    (run / name).unlink()
    if raw is not None:
        (run / name).write_bytes(raw)
    before = everything(run)
    said = refused(predict(made, run))
    if name.startswith(NEWEST):
        assert refused(report(run)) == said
        assert said.removeprefix("error: ").replace("'", "&#x27;") in Followed(run).page()
    else:
        assert page(run) == whole and Followed(run).page() == followed
    assert FILES[name] in said and said.endswith(".") and not (run.parent / "scores.csv").exists()
    assert refused(colonnade("train", made / "job.toml", "--folder", run, "--resume", "--quiet")) == said
    with pytest.raises(CheckpointError) as caught:
        cn.resume(run, train=False)
    assert f"error: {caught.value}" == said and "\n" not in str(caught.value)
    assert everything(run) == before, "something was lost or written"


@pytest.mark.parametrize("damage", DAMAGES)
def test_the_checkpoint_before_serves_and_its_damage_hurts_nobody(damage: str, made: Path, run: Path) -> None:
    (older,) = (path for path in (run / "checkpoints").iterdir() if path.name != "00000020")
    raw = DAMAGES[damage]((older / "owner.safetensors").read_bytes())
    (older / "owner.safetensors").unlink()
    if raw is not None:
        (older / "owner.safetensors").write_bytes(raw)
    assert predict(made, run).exit_code == 0
    assert colonnade("train", made / "job.toml", "--folder", run, "--resume", "--quiet").exit_code == 0


def test_no_bit_of_a_preparation_can_be_another(run: Path) -> None:
    """All of them: a scale that is another one would give other predictions, and nobody would know."""
    place = run / "preparation" / "000.safetensors"
    raw = place.read_bytes()
    for bit in range(8 * len(raw)):
        place.write_bytes(flipped(raw, bit))
        with pytest.raises(CheckpointError, match="is damaged"):
            read_preparations(run)


def test_a_preparation_without_its_arrays_facts_or_digest(run: Path) -> None:
    place = run / "preparation" / "001.json"
    text = place.read_text()
    for changed in ("{}", "[]", "5", "", text.replace('"lab"', '"lob"'), text.replace('"y"', '"x"')):
        place.write_text(changed)
        with pytest.raises(CheckpointError, match=r"preparation/001, .* is damaged or foreign"):
            read_preparations(run)


def test_no_bit_of_a_budget_can_be_another(run: Path) -> None:
    """Whatever bit is another one, the budget that comes back is the one that was written, or none does."""
    spent, place = cn.resume(run, train=False).privacy, run / "privacy.safetensors"
    raw = place.read_bytes()
    taken = 0
    for bit in range(0, 8 * len(raw), 397):
        place.write_bytes(flipped(raw, bit))
        try:
            opened = cn.resume(run, train=False)  # a process that has spent something keeps to that
        except CheckpointError:
            continue
        taken += 1
        assert opened.privacy == spent
    assert taken < 5, "of a name or a blank in the header at the most"


def test_a_run_that_was_saved_elsewhere_has_its_budgets_with_it(run: Path, tmp_path: Path) -> None:
    opened = cn.resume(run, train=False)
    opened.save(tmp_path / "elsewhere")
    again = cn.resume(tmp_path / "elsewhere", train=False)
    assert again.privacy == opened.privacy and any(one["spent"] > 0 for one in again.privacy.values())
    (tmp_path / "elsewhere" / "privacy.safetensors").unlink()
    with pytest.raises(CheckpointError, match="is missing; bring it back"):
        cn.resume(tmp_path / "elsewhere", train=False)


def test_rows_that_a_side_kept_and_lost(tmp_path: Path) -> None:
    job_folder = JobFolder(tmp_path / "side")
    job_folder.keep_rows(torch.arange(5).numpy(), {"files": "f"})
    (tmp_path / "side" / "rows.bin").unlink()
    with pytest.raises(CheckpointError, match=r"rows\.bin is not as it was kept"):
        job_folder.rows("f")


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_history_with_what_is_no_number_is_shown_without_it(run: Path, value: float) -> None:
    place = run / NEWEST / "manifest.json"
    manifest = json.loads(place.read_text())
    del manifest["digest"]
    for row in manifest["facts"]["history"][:1]:
        row |= {name: value for name in row if name.endswith("loss")}
    place.write_text(json.dumps(manifest | {"digest": checkpoint._digest(manifest)}))
    assert report(run).exit_code == 0
