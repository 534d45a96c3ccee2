"""Options that were renamed: an old name works as the new one does, with one warning; folders keep the old names."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

import colonnade as cn
from colonnade.cli import app
from colonnade.core.option_names import NEW_NAMES
from colonnade.core.settings import Settings
from colonnade.errors import ConfigError
from colonnade.federation.side_sections import OwnerFile
from colonnade.federation.terms import terms_of
from colonnade.jobs.job_file import read_job
from near import Sides, make_sides

JOB = '[data]\nload = "digits"\nparties = 3\nrows = 120\n[train]\nmethod = "vafl"\nrounds = 2\nbatch = 50\n'


@contextmanager
def warned(old: str) -> Iterator[None]:
    """The old name is named with the new one, in one warning that points at the line that wrote it."""
    with pytest.warns(DeprecationWarning, match=f"'{old}' in .* is called '{NEW_NAMES[old]}' now") as caught:
        yield
    assert len(caught) == 1 and caught[0].filename == __file__


@pytest.fixture(scope="module")
def tables() -> tuple[list[cn.Table], list[cn.Table]]:
    return cn.load("digits", parties=3, rows=120)


def party_2(number: int) -> list[str]:
    return ["party 2"] if number == 1 else []


def test_training_takes_old_names(tables: Any, tmp_path: Path) -> None:
    new = cn.train(
        tables[0], "vafl", rounds=3, batch=50, when_absent="without", absent=party_2, folder=tmp_path / "run"
    )
    with warned("when_away"):
        old = cn.train(tables[0], "vafl", rounds=3, batch=50, when_away="without", absent=party_2)  # type: ignore[call-arg]
    with warned("away"):
        again = cn.train(tables[0], "vafl", rounds=3, batch=50, when_absent="without", away=party_2)  # type: ignore[call-arg]
    assert new.missed == old.missed == again.missed == {"party 1": 0, "party 2": 1, "party 3": 0}
    assert (
        new.settings == old.settings == Settings(**json.loads((tmp_path / "run/config.json").read_text())["settings"])
    )
    with warned("away"):
        assert cn.resume(tmp_path / "run", rounds=4, away=lambda _: ["party 1"]).missed["party 1"] == 1  # type: ignore[call-arg]


def test_predictions_take_old_names(tables: Any) -> None:
    run = cn.train(tables[0], "vafl", rounds=2, batch=50)
    for ask in (run.predict, run.outputs):
        with warned("away"):
            found = ask(tables[1], away=["party 2"], missing="zero")
        assert torch.equal(found, ask(tables[1], absent=["party 2"], missing="zero"))
    with warned("away"):
        assert run.evaluate(tables[1], away=["party 2"], missing="zero")["accuracy"] >= 0  # type: ignore[call-arg]
    with warned("away"):
        assert cn.importance(run, tables[1], by="away", repeats=2).by == "absent"


def test_both_names_at_once_are_refused(tables: Any, tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="when_away"):
        cn.train(tables[0], "vafl", rounds=1, batch=50, when_absent="skip", when_away="skip")  # type: ignore[call-arg]
    (tmp_path / "job.toml").write_text(JOB + 'when_away = "skip"\nwhen_absent = "skip"')
    with pytest.raises(ConfigError, match=r"unknown key of \[train\] 'when_away'; did you mean 'when_absent'"):
        read_job(tmp_path / "job.toml")


def test_a_job_file_takes_old_names_and_its_operator_reads_the_warning(tmp_path: Path) -> None:
    job, folder = tmp_path / "job.toml", tmp_path / "run"
    job.write_text(JOB + 'when_away = "skip"')
    with pytest.warns(DeprecationWarning, match=r"'when_away' in \[train\] is called 'when_absent' now"):
        done = CliRunner().invoke(app, ["train", str(job), "--folder", str(folder), "--quiet"])
    assert done.exit_code == 0, done.output
    job.write_text(JOB + 'when_absent = "wait"')
    changed = CliRunner().invoke(app, ["train", str(job), "--folder", str(folder), "--resume", "--quiet"])
    assert changed.exit_code == 2 and "when_absent" in changed.output


def test_a_sweep_takes_old_names_and_goes_on_in_an_old_folder(tmp_path: Path) -> None:
    digits = {"load": "digits", "parties": 3, "rows": 120}
    how: dict[str, Any] = {"rounds": 1, "batch": 50, "folder": tmp_path, "processes": 1}
    cn.sweep(digits, "vafl", {"when_absent": ["skip"]}, **how)
    (point,) = (path for path in tmp_path.glob("*.json") if path.name != "sweep.json")
    kept = json.loads(point.read_text())
    point.write_text(json.dumps({"point": {"when_away": "skip"}, "found": {**kept["found"], "round": 77}}))
    with warned("when_away"):
        rows = cn.sweep(digits, "vafl", {"when_away": ["skip"]}, **how).rows
    assert [(row["when_absent"], row["round"]) for row in rows] == [("skip", 77)], "the old point was not trained again"
    with warned("when_away"):
        cn.sweep(
            digits, "vafl", {"seed": [0]}, when_away="skip", rounds=1, batch=50, folder=tmp_path / "more", processes=1
        )
    assert json.loads((tmp_path / "more/sweep.json").read_text())["options"]["when_away"] == "skip"


def test_signed_terms_have_the_names_that_older_partners_know(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    sides = Sides(make_sides(tmp_path))

    def written(name: str) -> OwnerFile:
        return sides.owner_file("vafl", train=f'rounds = 2\n{name} = "skip"')

    new = terms_of(written("when_absent"))
    with pytest.warns(DeprecationWarning, match="when_absent"):
        assert terms_of(written("when_away")) == new
    assert new["train"]["when_away"] == "skip" and "when_absent" not in new["train"]
