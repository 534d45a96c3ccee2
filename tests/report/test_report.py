import json
import math
import re
from html.parser import HTMLParser

import pytest

import colonnade as cn
from colonnade.errors import CheckpointError, ConfigError, FolderError
from colonnade.report.chart import Series, line_chart
from colonnade.report.run_pages import write_report
from colonnade.report.shapes import Bar, bar_chart
from colonnade.report.summary import RunView, common_accuracy, read_summary

VOID = {"meta", "br", "link", "img"}
HOSTILE = "<script>alert('x')</script>&\"[red]"


class Checker(HTMLParser):
    """Fails on tags that are not closed in order, and gathers the text."""

    def __init__(self):
        super().__init__()
        self.open, self.text, self.tags = [], [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def read(page):
    raw = page.read_text(encoding="utf-8")
    checker = Checker()
    checker.feed(raw)
    assert checker.open == []
    assert "http:" not in raw and "https:" not in raw and "url(" not in raw and "src=" not in raw
    assert raw.count("<script") == 1 and "default-src 'none'" in raw
    return checker, " ".join(" ".join(checker.text).split())


@pytest.fixture(scope="module")
def digits():
    return cn.load("digits", parties=2, rows=300)


@pytest.fixture(scope="module")
def run(digits, tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "vim"
    return cn.train(digits[0], "vimadmm", epochs=2, batch=100, test=digits[1], folder=folder)


@pytest.fixture(scope="module")
def vafl(digits):
    return cn.train(digits[0], "vafl", epochs=2, batch=100, valid=0.2)


def test_page_about_one_run(run, tmp_path):
    checker, text = read(run.report(tmp_path / "deep" / "page.html"))
    accuracy = run.history[-1]["test_accuracy"]
    assert "vimadmm on digits" in text and "2 parties trained one model over 300 shared rows" in text
    assert f"{100 * accuracy:.1f} %" in text
    assert "local steps 20" in text and "party 1 (4 x 8)" in text
    assert "A curious party can read the labels of the rows (read)." in text
    assert "The parties sent embeddings" in text and "owner to parties" in text
    assert checker.tags.count("figure") == 9  # three of score, three of loss, traffic, confusion, importance
    assert "viewport" in (tmp_path / "deep" / "page.html").read_text()


def test_page_names_every_line_of_the_ledger(run, tmp_path):
    _, text = read(run.report(tmp_path / "page.html"))
    assert f"Each sender and receiver ({len(run.ledger.rows)} lines)" in text
    total = sum(line.messages for line in run.ledger.rows)
    assert f"Total {total}" in text


def test_page_about_several_runs(run, vafl, tmp_path):
    summaries = [run.summary(), vafl.summary(), vafl.summary()]
    checker, text = read(write_report(summaries, tmp_path / "page.html"))
    assert "Runs side by side" in text and "vimadmm and vafl on digits" in text
    assert "vafl on digits (1)" in text and "vafl on digits (2)" in text
    assert "test rows and rows held out for validation" in text
    assert checker.tags.count("path") > 3


def test_run_without_evaluation_rows(digits, tmp_path):
    run = cn.train(digits[0], "fdml", rounds=2, batch=100)
    checker, text = read(run.report(tmp_path / "page.html"))
    assert checker.tags.count("figure") == 4  # three of loss, and traffic
    assert "Accuracy" not in text


def test_run_that_did_not_start(digits, tmp_path):
    summary = cn.train(digits[0], "fdml", rounds=1, batch=100).summary() | {"history": [], "ledger": [], "round": 0}
    _, text = read(write_report([summary], tmp_path / "page.html"))
    assert "Nothing was evaluated yet" in text and "Nothing left any house" in text


def test_local_run_sends_nothing(tmp_path):
    train, test = cn.load("digits", parties=2, rows=200, owner="first")
    run = cn.train(train, "local", rounds=2, batch=100, test=test)
    _, text = read(run.report(tmp_path / "page.html"))
    assert "Nothing left any house" in text


def test_hostile_names_are_escaped(run, tmp_path):
    raw = json.dumps(run.summary())
    summary = json.loads(raw.replace("party 1", json.dumps(HOSTILE)[1:-1]).replace("vimadmm", "<b>m"))
    summary |= {"name": HOSTILE}
    summary["description"]["method"]["<i>option"] = HOSTILE
    summary["description"]["settings"]["<i>setting"] = HOSTILE
    summary["description"]["model"] = [{"kind": HOSTILE}, None]
    summary["description"]["data"] = {"load": HOSTILE}
    checker, text = read(write_report([summary, summary], tmp_path / "page.html"))
    assert HOSTILE.split("'")[0] in text
    assert not {"b", "i"} & set(checker.tags)


def test_read_summary_gives_what_the_run_says(run):
    summary = read_summary(run.folder)
    assert summary.pop("name") == "vim"
    assert summary == json.loads(json.dumps(run.summary()))


def test_read_summary_refuses_foreign_folders(tmp_path):
    with pytest.raises(CheckpointError, match="is not a run folder"):
        read_summary(tmp_path)
    with pytest.raises(CheckpointError, match="is not a run folder: it does not exist"):
        read_summary(tmp_path / "none")
    (tmp_path / "checkpoints" / "00000001").mkdir(parents=True)
    with pytest.raises(CheckpointError, match=r"no config\.json that can be read"):
        read_summary(tmp_path)
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(CheckpointError, match="not a checkpoint"):
        read_summary(tmp_path)


@pytest.mark.parametrize(
    "change",
    [{"history": [{"round": "<b>"}]}, {"ledger": [{"step": 1}]}, {"description": {}}, {"round": None}, {"history": 3}],
)
def test_read_summary_refuses_facts_that_are_none(run, tmp_path, change):
    from colonnade.store import checkpoint

    facts = {key: value for key, value in run.summary().items() if key != "parties"}
    checkpoint.write(tmp_path / "checkpoints", 1, {}, facts | change)
    (tmp_path / "config.json").write_text(json.dumps(run.summary()["description"]))
    with pytest.raises(CheckpointError, match=r"does not describe a run: .* where .* is expected; it is damaged or"):
        read_summary(tmp_path)


def test_write_report_refuses(run, tmp_path):
    with pytest.raises(ConfigError, match="at least one run"):
        write_report([], tmp_path / "page.html")
    (tmp_path / "file").write_text("")
    with pytest.raises(FolderError, match="cannot be written"):
        write_report([run.summary()], tmp_path / "file" / "page.html")


def view(accuracies, **settings):
    history = [
        {"round": n, "valid_accuracy": a, "test_accuracy": a, "bytes": 100 * n} for n, a in enumerate(accuracies, 1)
    ]
    description = {
        "method": {"name": "vafl"},
        "settings": {"stop_drop": None, **settings},
        "tables": [],
        "model": [],
        "optimizer": [],
        "data": None,
    }
    facts = {"parties": [], "round": len(history), "seconds": 0.0, "stopped": False, "ledger": []}
    return RunView({"description": description, "history": history, **facts})


def test_common_accuracy_is_what_all_had_at_the_end():
    runs = [view([0.5, 0.97, 0.959]), view([0.8, 0.95, 0.99])]
    assert common_accuracy(runs) == 0.95
    assert [run.reach(0.95)["round"] for run in runs] == [2, 2]
    assert [run.bytes_until(0.95) for run in runs] == [200, 200]
    assert common_accuracy([view([0.9]), view([])]) is None


def test_runs_on_other_data_have_no_common_accuracy():
    runs = [view([0.9]), view([0.9])]
    runs[1].data = "digits"
    assert common_accuracy(runs) is None


def test_early_stopping_keeps_the_best():
    assert view([0.5, 0.9, 0.9, 0.7], stop_drop=1.0).final["round"] == 3
    assert view([0.5, 0.9, 0.9, 0.7]).final["round"] == 4


def test_chart_puts_points_where_they_belong():
    svg = line_chart("t", [Series("a", [(0, 0), (50, 0.5), (100, 1)])], ("x", "y")).figure()
    path = re.search(r'class="line c0" d="M([^"]+)"', svg).group(1)
    places = [tuple(map(float, point.split())) for point in path.split("L")]
    (x0, y0), (x1, y1), (x2, y2) = places
    assert math.isclose(x1 - x0, x2 - x1, abs_tol=0.2) and math.isclose(y0 - y1, y1 - y2, abs_tol=0.2)
    assert x0 < x2 and y0 > y2


@pytest.mark.parametrize("points", [[(0, 0)], [(5, 0.3)], [(0, 1), (0, 2)], [(1, -2), (2, 3)], [(1, 1e9), (2, 1e-9)]])
def test_chart_takes_any_numbers(points):
    svg = line_chart("t", [Series("a", points)], ("x", "y")).figure()
    assert "nan" not in svg and "inf" not in svg


def test_chart_thins_long_lines():
    svg = line_chart("t", [Series("a", [(n, n) for n in range(10_001)])], ("x", "y")).figure()
    assert len(svg) < 20_000 and "10,000" in svg


def test_chart_without_points_is_nothing():
    assert line_chart("t", [Series("a", [])], ("x", "y")) is None
    assert "0 B" in bar_chart("t", [Bar("a", 0, "0 B")]).figure()
