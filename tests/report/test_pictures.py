"""The VIM paper's pictures in small: every command trains, prints its table, draws, and trains nothing twice."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
import torch
from benchmarks.kept import Kept
from benchmarks.pictures.__main__ import COMMANDS, main
from benchmarks.pictures.figures import parties, rank
from benchmarks.pictures.study import Study, federations, means
from benchmarks.pictures.subjects import SUBJECTS

import colonnade as cn

DRAWN = {
    "figure2": ["figure2-digits"],
    "figure3": ["figure3-norms-digits-vimadmm", "figure3-lost-digits-vimadmm"],
    "figure7": ["figure7-rho-digits", "figure7-tau-digits"],
    "tsne": ["tsne-digits-largest", "tsne-digits-smallest"],
}
LINES = {"figure2": 5, "figure3": 4, "table3": 5, "table4": 3, "table5": 5, "figure7": 6, "tsne": 0}
SLOW = {"figure7", "tsne"}


def show(where: Path, what: str, *more: str) -> None:
    places = [f"--{name}={where / name}" for name in ("folder", "runs", "pictures")]
    main([what, "--data=digits", "--rounds=2", "--rows=300", *places, *more])


def table_lines(text: str) -> list[str]:
    """The lines of all tables, without their heads and rules."""
    tables = [part.splitlines() for part in text.split("\n\n") if part.startswith("|")]
    return [line for lines in tables for line in lines[2:] if line.startswith("|")]


def marked(name: str) -> object:
    return pytest.param(name, marks=pytest.mark.long) if name in SLOW else name


@pytest.mark.parametrize("what", [marked(name) for name in COMMANDS])
def test_a_command_fills_its_table_and_trains_nothing_twice(
    what: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    only = ["--methods", "vimadmm"] if what == "figure3" else []
    show(tmp_path, what, *only)
    first = capsys.readouterr().out
    lines = table_lines(first)
    assert len(lines) == LINES[what]
    for name in DRAWN.get(what, []):
        drawn = (tmp_path / "pictures" / f"{name}.svg").read_text()
        assert ElementTree.fromstring(drawn).tag.endswith("svg") and "NaN" not in drawn

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("trained again")

    for name in ("train", "resume", "summarise", "importance", "embedding_map", "load"):
        monkeypatch.setattr(cn, name, refuse)
    federations.cache_clear()
    for more in ([], ["--only-show"]):
        show(tmp_path, what, *only, *more)
        assert table_lines(capsys.readouterr().out) == lines


def test_only_show_trains_nothing_and_leaves_cells_empty(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    show(tmp_path, "all", "--only-show")
    lines = table_lines(capsys.readouterr().out)
    assert lines and all("-" in line for line in lines) and not list(tmp_path.iterdir())


def test_a_shorter_run_is_not_taken_for_a_longer_one(tmp_path: Path) -> None:
    study = Study("digits", Kept(tmp_path), tmp_path / "runs", rounds=2, rows=300)
    longer = Study("digits", Kept(tmp_path), tmp_path / "runs", rounds=3, rows=300)
    other = Study("digits", Kept(tmp_path), tmp_path / "runs", rounds=2, rows=400)
    for one in (study, longer, other):
        one.outcome("fdml", 0)
    assert len(list(tmp_path.glob("*.json"))) == 3


def test_a_broken_off_run_goes_on(tmp_path: Path) -> None:
    study = Study("digits", Kept(tmp_path / "kept"), tmp_path / "runs", rounds=2, rows=300)
    whole = study.outcome("vimsgd", 0)
    (found,) = (tmp_path / "kept").iterdir()
    found.unlink()  # the run is in its folder, what was found is lost
    assert study.outcome("vimsgd", 0) == whole


def test_noise_is_at_one_party_in_training_and_in_the_test() -> None:
    for clean, noisy in zip(*(federations("digits", kind, 300) for kind in ("clean", "noisy")), strict=True):
        rows = torch.arange(clean[0].rows)
        pairs = [(one.name, one.draw(rows), other.draw(rows)) for one, other in zip(clean[1:], noisy[1:], strict=True)]
        assert [name for name, one, other in pairs if not torch.equal(one, other)] == [SUBJECTS["digits"].noisy]


def test_means_and_ranks() -> None:
    other = {"accuracy": 0.9, "party 2": 3.0}  # another seed kept another party
    assert means([{"accuracy": 0.7, "party 1": 1.0}, other, {}]) == {"accuracy": pytest.approx(0.8)}
    one, other = {"party 1": 1.0, "party 2": 3.0}, {"party 1": 2.0, "party 2": 1.0}
    assert means([one, {}, other]) == {"party 1": 1.5, "party 2": 2.0} and means([{}]) == {}
    assert rank(one, other) == pytest.approx(-1)


def test_the_committed_results_of_seed_0_are_as_the_docs_say() -> None:
    """MNIST's Figure 3 and Table 3, from the files alone; other seeds are in docs/pictures.md."""
    folder = Path(__file__).parents[2] / "benchmarks" / "results" / "vim"
    study = Study("mnist", Kept(folder, train=False), folder)
    clean, noisy = study.outcome("vimadmm", 0), study.outcome("vimadmm", 0, "noisy")
    assert rank(parties(clean), study.lost("vimadmm", 0, "noise")) == pytest.approx(0.921, abs=0.001)
    assert noisy["party 7"] < clean["party 7"]
    assert clean["accuracy"] - study.part(0, 0.5, most=True)["accuracy"] <= 0.01
    assert clean["accuracy"] - study.part(0, 0.5, most=False)["accuracy"] >= 0.10
