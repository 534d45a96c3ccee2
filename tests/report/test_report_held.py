"""What each party holds on the page: the names of its columns, or its part of the image."""

import json
import xml.etree.ElementTree as ET
from dataclasses import replace

import numpy as np
import pytest
from test_report import read

import colonnade as cn
from colonnade.errors import CheckpointError
from colonnade.report.holdings import Columns, parts_of
from colonnade.report.run_pages import write_report
from colonnade.report.shapes import HeldCells
from colonnade.report.summary import RunView, read_summary
from colonnade.run.make_plan import start
from colonnade.store import checkpoint
from plans import plan_for
from synthetic_runs import HOSTILE, synthetic, write_folder


def importance_of(page):
    """The picture of who matters, as its own file has it."""
    return ET.parse(page.with_name("page-files") / "importance-of-each-party.svg")


def texts_in(picture):
    return ["".join(one.itertext()) for one in picture.iter() if one.tag.endswith("text")]


def test_importance_bars_have_the_names_of_columns(tmp_path):
    many = [f"column {k}" for k in range(40)]
    columns = {"party 1": {"count": 2, "names": ["age", HOSTILE]}, "party 2": {"count": 1000, "names": many}}
    page = write_report([synthetic("run", columns=columns, data=None)], tmp_path / "page.html", pictures=True)
    _, text = read(page)
    assert "age, <script>" in text and "column 0, column 1, column 2, column 3, column 4 and 995 more" in text
    assert "Columns of each party" in text and "column 39 and 960 more" in text  # the whole list
    assert len([one for one in texts_in(importance_of(page)) if "age" in one]) == 1


def test_names_of_columns_may_be_anything(tmp_path):
    columns = {"party 1": {"count": 3, "names": ["\x00\ud800", "x" * 500, "列" * 40]}}
    page = write_report([synthetic("run\udcff", columns=columns)], tmp_path / "page.html", pictures=True)
    assert max(map(len, texts_in(importance_of(page)))) < 600  # a title has them whole, and the file is one
    assert Columns(["列" * 40, "b"], 2).first(20) == "列" * 9 + "… and 1 more"


def test_runs_with_the_same_columns_tell_them_once(tmp_path):
    columns = {"party 1": {"count": 1, "names": ["age"]}}
    runs = [synthetic("one", columns=columns), synthetic("two", columns=columns), synthetic("three")]
    _, text = read(write_report(runs, tmp_path / "page.html"))
    assert text.count("Columns of each party: one and two") == 1


@pytest.mark.parametrize("columns", [{"party 1": {"count": "2", "names": []}}, {"party 1": ["age"]}, [1]])
def test_foreign_columns_are_refused(tmp_path, columns):
    with pytest.raises(CheckpointError, match="does not describe a run"):
        read_summary(write_folder(synthetic("run", columns=columns), tmp_path))


def held(**data):
    """Which cells each party's small picture fills."""
    return {name: part.cells for name, part in parts_of(RunView(synthetic("run", data=data))).items()}


def test_the_picture_of_a_party_is_what_it_holds():
    rows = held(load="digits", parties=4, by=None, owner="labels", width=None)
    assert list(rows) == ["party 1", "party 2", "party 3", "party 4"]
    assert rows["party 2"][2:4].all() and rows["party 2"].sum() == 16
    patches = held(load="cifar10", parties=None, owner="first")
    assert next(iter(patches)) == "owner" and patches["owner"].shape == (32, 32) and patches["owner"][:10, :10].all()
    windows = held(load="digits", parties=3, by="overlap", width=30)
    assert windows["party 1"].ravel()[:30].all() and not windows["party 1"].ravel()[30:].any()
    views = held(load="modelnet40_views", parties=4)
    assert [one.nonzero()[1].tolist() for one in views.values()] == [[0], [3], [6], [9]]
    named = held(load="digits", parties={"top": [0, 1], "rest": [2, 7]}, by="rows")
    assert named["rest"].any(axis=1).nonzero()[0].tolist() == [2, 7]


@pytest.mark.parametrize(
    "data", [{"load": "adult"}, {"load": "nobody"}, {"load": "digits", "parties": "many"}, {"load": "mnist", "by": 3}]
)
def test_a_cut_that_is_not_known_has_no_picture(data):
    assert held(**data) == {}


def test_a_part_is_drawn_as_few_rectangles():
    cells = np.zeros((4, 4), bool)
    cells[1:3, :] = cells[3, 2] = True
    assert HeldCells(cells).svg(0, 0, 8).count("h-") == 2


# where the names come from


def test_a_run_keeps_the_names_of_its_columns(tmp_path):
    train, test = cn.load("breast_cancer")
    run = cn.train(train, cn.VIMADMM(local_steps=1), epochs=1, test=test, folder=tmp_path / "run")
    kept = json.loads((tmp_path / "run" / "config.json").read_text())["columns"]
    assert list(kept) == ["mean", "error", "worst"] and kept["mean"]["names"][0] == "mean radius"
    _, text = read(run.report(tmp_path / "page.html"))
    assert "mean radius, mean texture, mean perimeter" in text
    again = cn.resume(tmp_path / "run", train, test=test, epochs=2)
    assert again.description["columns"] == kept and again.round == 2 * run.round


def test_categories_are_named_once_and_long_lists_are_cut():
    names = ("age", "job=clerk", "job=other", "=odd")
    assert cn.Table([1], [[1.0, 1.0, 0.0, 0.0]], column_names=names).source_names == ("age", "job", "=odd")
    wide = [f"column {k:05d}" for k in range(5000)]
    first, second = (cn.Table([1, 2], np.ones((2, 5000)), name=name, column_names=tuple(wide)) for name in "ab")
    tables = [replace(first, labels=[0, 1]), second]
    described = start(plan_for(tables, "vafl", rounds=1, batch=2), tables).description
    assert described["columns"]["b"]["count"] == 5000
    assert sum(map(len, described["columns"]["b"]["names"])) <= 10_000


def test_folders_of_older_versions_open_without_names(tmp_path):
    train, test = cn.load("digits", parties=2, rows=100)
    cn.train(train, "vafl", epochs=1, batch=50, test=test, folder=tmp_path / "run")
    _without_columns(tmp_path / "run")
    _, text = read(write_report([read_summary(tmp_path / "run")], tmp_path / "page.html"))
    assert "How it went" in text and "Columns of each party" not in text
    assert cn.resume(tmp_path / "run", epochs=2).round == 4


def _without_columns(folder):
    """Make a run folder what it was before names of columns were kept."""
    newest = checkpoint.newest(folder / "checkpoints")
    states, facts = checkpoint.read(newest)
    del facts["description"]["columns"]
    checkpoint.write(folder / "checkpoints", facts["round"], states, facts)
    (folder / "config.json").write_text(json.dumps(facts["description"]))
