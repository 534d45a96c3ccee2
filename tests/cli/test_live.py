"""The live view on terminals of every kind: what it shows, how often, and where there is no terminal at all."""

import io
from itertools import pairwise
from types import SimpleNamespace

import pytest
from rich.console import Console
from typer.testing import CliRunner

from colonnade.cli import app, progress
from colonnade.cli.live import BLOCKS, PERIOD, PLAIN, SLOWEST, live, picture, sparkline
from colonnade.wire.ledger import Ledger
from colonnade.wire.message import Size

COLOUR = "\x1b[36m"  # cyan, as the sparkline has it


def fake_run(parties=3, rounds=500, names=None):
    names = names or [f"party {number + 1}" for number in range(parties)]
    ledger = Ledger()
    for number, name in enumerate(names):
        ledger.record("train", "embed", name, "owner", Size(payload=1000 * (number + 1), overhead=0))
        ledger.record("train", "fit", "owner", name, Size(payload=2_000_000, overhead=0))
        ledger.record("evaluate", "embed", name, "owner", Size(payload=10**9, overhead=0))
    history = [{"round": 10 * n, "train_loss": 1 / n, "test_accuracy": 1 - 1 / n} for n in range(1, 13)]
    return SimpleNamespace(
        round=120,
        settings=SimpleNamespace(rounds=rounds),
        history=history,
        task=SimpleNamespace(score="accuracy"),
        ledger=ledger,
        parties=SimpleNamespace(names=names),
        stopped=False,
    )


def screen(width=80, height=25, encoding="utf-8", **how):
    file = io.TextIOWrapper(io.BytesIO(), encoding=encoding, write_through=True)
    settings = {"force_terminal": True, "color_system": "standard", "no_color": False, "_environ": {"TERM": "xterm"}}
    return Console(file=file, width=width, height=height, legacy_windows=False, **{**settings, **how})


def written(console):
    return console.file.buffer.getvalue().decode(console.encoding)


def shown(run, console):
    console.print(picture(run, "vimadmm", console, 4.25))
    return written(console)


@pytest.fixture(autouse=True)
def usual_terminal(monkeypatch):
    monkeypatch.setenv("TERM", "xterm-256color")


# what is shown


def test_sparkline_of_few_many_and_equal_values():
    assert sparkline([], 8) == ""
    assert sparkline([0.5], 8) == sparkline([0.5, 0.5], 1) == BLOCKS[0]
    assert sparkline(range(1000), 8) == BLOCKS
    assert sparkline([*range(100), 0], 5)[-1] == BLOCKS[0]  # the last value is always there
    assert len(sparkline(range(33), 32)) == 32


@pytest.mark.parametrize("width", [10, 40, 80, 200])
def test_picture_fits_every_width(width):
    lines = shown(fake_run(), screen(width, color_system=None)).splitlines()
    assert max(map(len, lines)) <= width
    text = "\n".join(lines)
    if width >= 40:
        for fact in (
            "vimadmm",
            "120/500 rounds",
            "4.25 rounds/s",
            "1 min 29 s left",
            "accuracy 91.7 %",
            "loss 0.08333",
            "6.0 MB",
        ):
            assert fact in text
        assert [line.split() for line in lines if line.startswith("party 2")] == [
            ["party", "2", "2.0", "kB", "2.0", "MB"]
        ]
    assert ("120/500 rounds" in lines or width == 10) is (width <= 40)  # a line of its own


@pytest.mark.parametrize(("parties", "height", "more"), [(14, 14, 8), (3, 1, 3), (100, 24, 84), (3, 24, 0)])
def test_parties_that_have_no_room_are_summed(parties, height, more):
    lines = shown(fake_run(parties), screen(height=height)).splitlines()
    assert len(lines) < max(height, 8)
    assert any(f"and {more} more" in line for line in lines) is (more > 0)


def test_no_colours_where_none_are_wanted():
    assert COLOUR in shown(fake_run(), screen())
    assert COLOUR not in shown(fake_run(), screen(no_color=None, _environ={"NO_COLOR": "1", "TERM": "xterm"}))
    assert "\x1b" not in shown(fake_run(), screen(color_system=None))


def test_signs_that_a_terminal_has(monkeypatch):
    assert BLOCKS[-1] in shown(fake_run(), screen())
    assert PLAIN[-1] in shown(fake_run(), screen(encoding="ascii"))  # which would not encode anything else
    monkeypatch.setenv("TERM", "linux")
    text = shown(fake_run(), screen())
    assert PLAIN[-1] in text and not set(BLOCKS) & set(text)


def test_before_the_first_evaluation_and_after_the_last_round():
    run = fake_run(rounds=120)
    assert "left" not in shown(run, screen())
    run.history = []
    text = shown(run, screen())
    assert "accuracy" not in text and "loss" not in text and "120/120 rounds" in text


def test_names_are_no_markup():
    text = shown(fake_run(names=["[red]shop[/red]", "\x1b[2Jbank", "x" * 200]), screen(40))
    assert "[red]shop[/red]" in text and "\x1b[2J" not in text
    assert text.count("2.0 MB") == 3  # long names leave room for the numbers


# when


class Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


def drawings(monkeypatch, *, takes, seconds=10.0, step=0.001):
    """When a view draws in so many seconds, if every drawing takes so long."""
    clock, times = Clock(), []

    def draw(*_):
        times.append(clock.now)
        clock.now += takes
        return "drawn"

    monkeypatch.setattr("colonnade.cli.live.picture", draw)
    with live("vafl", screen(), clock) as on_round:
        while clock.now < seconds:
            on_round(fake_run_once)
            clock.now += step
    return times[:-1]  # the last one is that of the end


fake_run_once = fake_run()


def test_at_most_four_drawings_a_second(monkeypatch):
    times = drawings(monkeypatch, takes=0.0)
    assert 38 <= len(times) <= 41
    assert min(after - before for before, after in pairwise(times)) >= PERIOD


def test_slow_drawings_come_more_rarely(monkeypatch):
    assert sum(0.01 for _ in drawings(monkeypatch, takes=0.01)) <= 0.011 * 10
    assert len(drawings(monkeypatch, takes=0.5)) <= 1 + 10 / SLOWEST


def test_the_end_is_drawn_and_stays():
    console, run = screen(), fake_run()
    with live("vafl", console, Clock()) as on_round:
        run.round = 1
        on_round(run)
        run.round = 2  # not due yet
        on_round(run)
        assert "2/500 rounds" not in written(console)
    assert "2/500 rounds" in written(console)
    assert written(console).endswith("\x1b[?25h")  # the cursor is back


def test_nothing_is_shown_of_a_run_that_never_began():
    console = screen()
    with live("vafl", console):
        pass
    assert written(console) == ""


# no terminal


@pytest.mark.parametrize("how", [{"force_terminal": False}, {"_environ": {"TERM": "dumb"}}])
def test_lines_where_there_is_no_screen(how):
    console, clock, run = screen(40, **how), Clock(), fake_run()
    rows, run.history = run.history, []
    with live("vafl", console, clock) as on_round:
        for run.round in range(1, 31):
            run.history = [row for row in rows if row["round"] <= run.round]
            on_round(run)
            clock.now += 0.1
    first, _, last = written(console).splitlines()
    assert first == "10/500 rounds  10 rounds/s  49.0 s left  accuracy 0.0 %  loss 1  6.0 MB"
    assert last.startswith("30/500 rounds  10 rounds/s") and "\x1b" not in first


def test_train_live_without_a_terminal(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    job = '[data]\nload = "digits"\nparties = 2\nrows = 200\n[train]\nmethod = "vafl"\nepochs = 3\nbatch = 100\n'
    (tmp_path / "job.toml").write_text(job)
    done = CliRunner().invoke(app, ["train", "job.toml", "--live"])
    assert done.exit_code == 0, done.output
    assert [line.split()[0] for line in done.stderr.splitlines()] == ["2/6", "4/6", "6/6"]
    assert all("accuracy" in line and "kB" in line for line in done.stderr.splitlines())
    quiet = CliRunner().invoke(app, ["train", "job.toml", "--live", "--quiet", "--folder", "other"])
    assert (quiet.exit_code, quiet.stderr) == (0, "")


@pytest.mark.parametrize(
    ("width", "facts"), [(40, ""), (80, "accuracy 91.7 %"), (100, "accuracy 91.7 %"), (120, "accuracy 91.7 %  2 cores")]
)
def test_the_usual_bar_says_how_far_on_every_width(monkeypatch, width, facts):
    console = screen(width)
    monkeypatch.setattr(progress, "err", console)
    run = fake_run()
    run.schedule = SimpleNamespace(rounds_per_epoch=10)
    run.parties = SimpleNamespace(backend=SimpleNamespace(cores=2))
    with progress.bars() as bars:
        progress.follow(bars, "vimadmm-j-sealed" if width > 40 else "vimadmm")(run)
    assert "120/500" in written(console) and "vimadmm" in written(console)
    assert facts in written(console) and bool(facts) == ("accuracy" in written(console))
    assert "…" not in written(console)
