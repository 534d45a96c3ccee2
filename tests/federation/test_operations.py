"""What an operator sees of a side: logs, metrics, status, exit codes, and the files that start it as a service."""

import errno
import http.client
import io
import json
import logging
import os
import re
import shutil
import socket
import subprocess
import threading
import time
from dataclasses import replace

import numpy as np
import pytest
import torch
from rich.console import Console
from typer.testing import CliRunner

from colonnade import errors
from colonnade.cli import app
from colonnade.cli.status_command import show
from colonnade.errors import ConfigError, FolderError
from colonnade.federation import status_file as status_module
from colonnade.federation.exit_codes import Exit, exit_of
from colonnade.federation.log_lines import log_to
from colonnade.federation.prometheus import FAMILIES, Metrics, MetricsServer
from colonnade.federation.status_file import STATES, StatusFile, read_status
from colonnade.report.local_server import in_background
from pages import DOCS, ROOT

DEPLOY = ROOT / "examples" / "deploy"
PAGE = DOCS / "operations.md"


# logs


@pytest.fixture
def logged():
    """What is logged, as lines and as JSON; pytest's own handler, which shows values, is off meanwhile."""
    log = logging.getLogger("colonnade")
    before = log.level, log.propagate, log.handlers

    def start(how):
        log.handlers = []  # pytest adds its own before each test where nothing propagates
        stream = io.StringIO()
        return log_to(how, "DEBUG", stream), stream

    yield start
    log.setLevel(before[0])
    log.propagate, log.handlers = before[1:]


def test_lines_for_people(logged):
    log, stream = logged("lines")
    log.info("round %d done", 3, extra={"party": "shop", "seconds": 0.25})
    (line,) = stream.getvalue().splitlines()
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z INFO round 3 done party=shop seconds=0\.25", line)


def test_json_for_machines(logged):
    log, stream = logged("json")
    log.getChild("link").warning("absent", extra={"party": 'a"b\n', "round": 4})
    entry = json.loads(stream.getvalue())
    assert entry.pop("time").endswith("Z")
    assert entry == {"level": "WARNING", "logger": "colonnade.link", "message": "absent", "party": 'a"b\n', "round": 4}


@pytest.mark.parametrize("how", ["lines", "json"])
def test_fields_that_others_add_to_every_record_are_left_out(logged, how, monkeypatch):
    """By a record factory, or by a logger's own method, as Ray does once it is loaded."""
    before, make = logging.getLogRecordFactory(), logging.Logger.makeRecord

    def factory(*args, **named):
        record = before(*args, **named)
        record.job_id, record.values = "01000000", [1.5, 2.5]
        return record

    def stamped(self, *args, **named):
        record = make(self, *args, **named)
        record._ray_timestamp_ns = 17
        return record

    monkeypatch.setattr(logging.Logger, "makeRecord", stamped)
    logging.setLogRecordFactory(factory)
    try:
        log, stream = logged(how)
        log.info("round done", extra={"round": 3})
    finally:
        logging.setLogRecordFactory(before)
    (line,) = stream.getvalue().splitlines()
    assert line.endswith("INFO round done round=3") or set(json.loads(line)) == {
        "time",
        "level",
        "logger",
        "message",
        "round",
    }


def test_times_are_utc(logged, monkeypatch):
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        log, stream = logged("json")
        log.info("now")
    finally:
        monkeypatch.undo()
        time.tzset()
    told = time.strptime(json.loads(stream.getvalue())["time"][:19], "%Y-%m-%dT%H:%M:%S")
    assert abs(time.mktime(told) - time.mktime(time.gmtime())) < 60


SECRET = 12345.678
VALUES = [
    torch.full((3,), SECRET),
    np.full(3, SECRET),
    np.float64(SECRET),
    torch.nn.Parameter(torch.full((2,), SECRET)),
    [SECRET],
    {"row": SECRET},
    b"12345.678",
    bytearray(b"12345.678"),
    memoryview(b"12345.678"),
    ValueError(torch.full((3,), SECRET)),
]


@pytest.mark.parametrize("how", ["lines", "json"])
@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_values_are_never_written(logged, how, value):
    log, stream = logged(how)
    log.info("got %s", value)
    log.info("got %r and %d", value, 3)
    log.info("got %d", value)  # does not fit, and must not end a run
    log.info(value)
    log.info("got", extra={"data": value})
    log.info("got %(a)s", {"a": value})
    if not isinstance(value, list | dict | np.float64 | memoryview):  # their text looks like any other
        log.info(f"got {value!r}")
    try:
        raise RuntimeError(value)
    except RuntimeError:
        log.exception("failed")
    text = stream.getvalue()
    assert "12345" not in text and "failed" in text and "test_operations.py" in text, text


def test_errors_of_ours_are_told(logged):
    log, stream = logged("lines")
    log.error("stopped: %s", FolderError("the disk is full."), extra={"cause": Exit.FOLDER})
    assert "stopped: FolderError: the disk is full. cause=FOLDER\n" in stream.getvalue()


def test_a_peer_cannot_write_lines_of_its_own(logged):
    log, stream = logged("lines")
    log.info("hello from %s", "shop\n2026-01-01T00:00:00.000Z INFO all is well\x1b[2J", extra={"kind": "a\nb"})
    assert len(stream.getvalue().splitlines()) == 1 and "\x1b" not in stream.getvalue()


def test_log_to_changes_its_mind(logged):
    _, first = logged("lines")
    log, second = logged("json")
    log.info("once")
    assert first.getvalue() == "" and second.getvalue().count("once") == 1
    with pytest.raises(ConfigError, match="unknown log format 'xml'"):
        log_to("xml")


# metrics


def ask(server, path, **headers):
    connection = http.client.HTTPConnection("127.0.0.1", server.server_address[1], timeout=10)
    connection.request("GET", path, headers=headers)
    answer = connection.getresponse()
    found = answer.status, answer.headers, answer.read().decode()
    connection.close()
    return found


def samples(text):
    """The samples of a text in the format of Prometheus; fails if a line is none."""
    found, typed = {}, set()
    for line in text.splitlines():
        if line.startswith("# "):
            typed.add(re.fullmatch(r"# (?:HELP (\S+) .+|TYPE (\S+) (?:counter|gauge))", line)[0].split()[2])
            continue
        name, labels, value = re.fullmatch(r'(\w+)(\{(?:\w+="(?:[^"\\\n]|\\[\\"n])*",?)*\})? (\S+)', line).groups()
        assert name in typed and (name, labels) not in found
        found[name, labels or ""] = float(value)
    return found


def test_metrics_over_http():
    metrics = Metrics()
    with in_background(MetricsServer(metrics)) as server:
        status, headers, text = ask(server, "/metrics")
        assert status == 200 and headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
        assert samples(text) == {("colonnade_rounds_total", ""): 0, ("colonnade_round", ""): 0}
        metrics.up("shop")
        metrics.absent("hospital")
        metrics.reconnected("hospital")
        metrics.sent("shop", 230_000)
        metrics.sent("shop", 1)
        metrics.received("shop", 80_000)
        metrics.waited("shop", 0.5)
        metrics.waited("shop", 0.25)
        metrics.fault(Exit.AWAY.cause)
        metrics.turned_away("crowd")
        metrics.round_done(7)
        found = samples(ask(server, "/metrics")[2])
    assert found == {
        ("colonnade_rounds_total", ""): 1,
        ("colonnade_round", ""): 7,
        ("colonnade_messages_total", '{peer="shop",direction="sent"}'): 2,
        ("colonnade_messages_total", '{peer="shop",direction="received"}'): 1,
        ("colonnade_bytes_total", '{peer="shop",direction="sent"}'): 230_001,
        ("colonnade_bytes_total", '{peer="shop",direction="received"}'): 80_000,
        ("colonnade_waited_seconds_total", '{peer="shop"}'): 0.75,
        ("colonnade_reconnects_total", '{peer="hospital"}'): 1,
        ("colonnade_faults_total", '{cause="away"}'): 1,
        ("colonnade_peer_up", '{peer="shop"}'): 1,
        ("colonnade_peer_up", '{peer="hospital"}'): 1,
        ("colonnade_turned_away_total", '{cause="crowd"}'): 1,
    }
    assert {name for name, _ in found} == {family.name for family in FAMILIES}


def test_names_are_escaped():
    metrics = Metrics()
    metrics.up('a"b\\c\nd')
    assert '{peer="a\\"b\\\\c\\nd"} 1\n' in metrics.text()
    samples(metrics.text())


def test_counters_only_grow():
    for amount in (-1, float("nan")):
        with pytest.raises(ConfigError, match="which only grows"):
            Metrics().waited("shop", amount)


def test_threads_lose_nothing():
    metrics = Metrics()
    threads = [threading.Thread(target=lambda: [metrics.sent("shop", 2) for _ in range(2000)]) for _ in range(8)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        samples(metrics.text())
    assert samples(metrics.text())["colonnade_bytes_total", '{peer="shop",direction="sent"}'] == 32_000


def test_health():
    trouble = []
    with in_background(MetricsServer(Metrics(), ails=lambda: trouble[0] if trouble else None)) as server:
        assert ask(server, "/healthz")[::2] == (200, "ok\n")
        trouble.append("'shop' is absent.")
        assert ask(server, "/healthz")[::2] == (503, "'shop' is absent.\n")
        assert ask(server, "/")[0] == ask(server, "/metrics/")[0] == 404


def test_nobody_else_reads_metrics():
    for host in ("0.0.0.0", "", "::1", "127.0.0.2", "localhost", "192.0.2.1"):
        with pytest.raises(ConfigError, match=r"served at 127\.0\.0\.1 only") as told:
            MetricsServer(Metrics(), host=host)
        assert str(told.value).endswith(".")
    with in_background(MetricsServer(Metrics())) as server:
        assert server.server_address[0] == "127.0.0.1"
        assert ask(server, "/metrics", Host="evil.example")[0] == 403
        with pytest.raises(OSError, match="refused"):
            socket.create_connection(("127.0.0.2", server.server_address[1]), timeout=5)
        with pytest.raises(ConfigError, match="cannot be used: Address already in use"):
            MetricsServer(Metrics(), server.server_address[1])
    for port in (-1, 65536):
        with pytest.raises(ConfigError, match=f"port {port} of .* cannot be used: there are ports 0 to 65535 only"):
            MetricsServer(Metrics(), port)


# status


@pytest.fixture
def side(tmp_path):
    return StatusFile(tmp_path, "bank", "credit", 30, peers=["shop", "hospital"])


def test_a_status_follows_its_side(side, tmp_path):
    found = read_status(tmp_path)
    assert (found.side, found.job, found.state, found.round, found.rounds) == ("bank", "credit", "waiting", 0, 30)
    assert [peer.connected for peer in found.peers] == [False, False] and found.pid == os.getpid()
    side.connected("shop")
    since = read_status(tmp_path).peers[0].since
    side.connected("shop")
    side.state("training")
    side.failed("'hospital' did not answer.")
    found = read_status(tmp_path)
    assert found.state == "training" and found.error == "'hospital' did not answer." and found.ails() is None
    assert found.peers[0].connected and found.peers[0].since == since
    side.absent("shop")
    side.state("stopped", "the disk is full.")
    found = read_status(tmp_path)
    assert not found.peers[0].connected and found.peers[0].since >= since
    assert (found.state, found.error) == ("stopped", "the disk is full.")
    assert [path.name for path in tmp_path.iterdir()] == ["status.json"]
    with pytest.raises(ConfigError, match="unknown state 'lost'"):
        side.state("lost")


def test_rounds_are_written_once_a_second(side, tmp_path, monkeypatch):
    now = time.time()
    monkeypatch.setattr(status_module.time, "time", lambda: now)
    side.round(0)
    written = (tmp_path / "status.json").stat().st_mtime_ns
    for number in range(100):
        side.round(number)
    assert (tmp_path / "status.json").stat().st_mtime_ns == written and side.status.round == 99
    now += 1.1
    side.round(100)
    assert read_status(tmp_path).round == 100 and read_status(tmp_path).updated == now
    now -= 3600  # a clock that was put back does not keep it silent
    side.round(101)
    assert read_status(tmp_path).round == 101


def test_who_waits_gives_signs_of_life(side, tmp_path, monkeypatch):
    monkeypatch.setattr(status_module, "BEAT", 0.01)
    monkeypatch.setattr(status_module, "EVERY", 0.0)
    before = read_status(tmp_path).updated
    with side.beating():
        deadline = time.monotonic() + 10
        while read_status(tmp_path).updated == before and time.monotonic() < deadline:
            time.sleep(0.01)
        assert read_status(tmp_path).updated > before
    ended = read_status(tmp_path).updated
    time.sleep(0.05)
    assert read_status(tmp_path).updated == ended


def test_a_reader_never_sees_half_a_status(side, tmp_path):
    stop = threading.Event()

    def change():
        while not stop.is_set():
            side.failed("x" * 5000)
            side.failed("y")

    writers = [threading.Thread(target=change) for _ in range(2)]
    for writer in writers:
        writer.start()
    try:
        for _ in range(300):
            assert set(read_status(tmp_path).error or "x") <= {"x", "y", "."}
    finally:
        stop.set()
        for writer in writers:
            writer.join()


def test_a_process_that_is_gone_is_told(side, tmp_path):
    side.state("training")
    found = read_status(tmp_path)
    with subprocess.Popen(["true"]) as process:
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert replace(found, pid=process.pid, began=None).is_alive() is False, "ended, and nobody asked how"
    gone = replace(found, pid=process.pid)
    assert gone.is_alive() is False and f"the process {process.pid} is gone" in gone.ails()
    assert found.is_alive() and replace(found, began="1").is_alive() is False, "another process with its number"
    assert replace(gone, state="finished").ails() is None
    elsewhere = replace(gone, host="another")
    assert elsewhere.is_alive() is None and elsewhere.ails() is None
    assert "no sign of life for 120 seconds" in elsewhere.ails(now=found.updated + 120)
    assert replace(found, pid=-1).is_alive() is replace(found, pid=2**80).is_alive() is False


def command(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


def test_the_verb(side, tmp_path):
    side.state("training")
    side.connected("shop")
    side.round(12)
    side.failed("'hospital' did not answer.\x1b[2J")
    found = command("status", tmp_path)
    assert found.exit_code == 0 and "\x1b" not in found.stdout
    for words in ("bank, job credit", "training, round 12 of 30", "shop: connected", "hospital: absent", "last error:"):
        assert words in found.stdout
    facts = json.loads(command("status", tmp_path, "--json").stdout)
    assert facts["alive"] is True and facts["ails"] is None and facts["peers"][0]["name"] == "shop"


def test_the_verb_names_no_job_before_there_is_one_and_nobody_after(tmp_path):
    side = StatusFile(tmp_path, "shop", "", 0, peers=["owner"])
    side.connected("owner")
    assert command("status", tmp_path).stdout.splitlines()[:2] == ["shop, no job yet", "waiting"]
    side.state("stopped", "the owner hung up.")
    assert "connected" not in command("status", tmp_path).stdout


def test_the_verb_says_that_a_side_is_dead(side, tmp_path):
    raw = json.loads((tmp_path / "status.json").read_text())
    (tmp_path / "status.json").write_text(json.dumps(raw | {"began": "1"}))
    found = command("status", tmp_path)
    assert found.exit_code == 1 and "is gone and did not say why" in " ".join(found.stdout.split())
    assert json.loads(command("status", tmp_path, "--json").stdout)["alive"] is False


def test_a_narrow_terminal_without_colour(side):
    side.failed("a long sentence about what went wrong, which does not fit into a line.")
    screen = io.StringIO()
    console = Console(file=screen, width=40, force_terminal=True, no_color=True)
    show(replace(side.status, began="1"), "it is gone.", console)
    text = re.sub(r"\x1b\[\d*m", "", screen.getvalue())
    assert all(len(line) <= 40 for line in text.splitlines()) and "\x1b[3" not in screen.getvalue()
    assert "hospital: absent for" in text and "warning: it is gone." in text


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", "null", '{"peers": 3}', '{"peers": [{}]}', '{"peers": [], "side": "a", "what": 1}', "[" * 99999],
)
def test_what_is_no_status(tmp_path, text):
    (tmp_path / "status.json").write_text(text)
    found = command("status", tmp_path)
    assert found.exit_code == 2 and found.stdout == "" and "is no status of a side" in found.stderr


def test_statuses_with_wrong_values(side, tmp_path):
    raw = json.loads((tmp_path / "status.json").read_text())
    for wrong in ({"state": "lost"}, {"pid": "1"}, {"round": None}, {"host": 3}, {"error": 3}, {"side": []}):
        (tmp_path / "status.json").write_text(json.dumps(raw | wrong))
        with pytest.raises(FolderError, match="is no status of a side"):
            read_status(tmp_path)


def test_there_is_no_status(tmp_path):
    found = command("status", tmp_path / "none")
    assert found.exit_code == 2 and "cannot be read: No such file or directory" in found.stderr


def test_a_status_that_cannot_be_written(tmp_path):
    with pytest.raises(FolderError, match="cannot be written"):
        StatusFile(tmp_path / "none", "bank", "credit", 30)


# exit codes


class LinkError(errors.ColonnadeError):
    """As the transport has one."""


class LostError(LinkError):
    """A kind of it that the table does not name."""


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (None, 0),
        (ZeroDivisionError(), 1),
        (OSError(errno.ECONNRESET, "reset"), 1),
        (errors.ConfigError("x"), 2),
        (errors.NoCommonIdError("x"), 2),
        (errors.AwayError("x", "shop"), 3),
        (LinkError("x"), 3),
        (LostError("x"), 3),
        (errors.LinkError("x"), 3),
        (errors.UnreachableError("x"), 3),
        (errors.RefusedError("x"), 4),
        (errors.ManifestError("x"), 4),
        (errors.MessageError("x"), 5),
        (errors.SealError("x"), 5),
        (errors.FolderError("x"), 6),
        (errors.CheckpointError("x"), 6),
        (OSError(errno.ENOSPC, "full"), 6),
        (errors.TrainingError("x"), 7),
        (errors.PrivacyError("x"), 7),
        (KeyboardInterrupt(), 130),
    ],
    ids=str,
)
def test_causes_have_codes(error, code):
    assert exit_of(error) == code


def test_the_page_lists_every_code():
    listed = re.findall(r"^\| (\d+) \| ([^|]+?) \|", PAGE.read_text(), re.M)
    assert listed == [(str(int(code)), code.meaning) for code in Exit]


def test_the_page_lists_every_metric_and_state():
    text = PAGE.read_text()
    assert all(f"`{family.name}`" in text for family in FAMILIES) and all(f"`{state}`" in text for state in STATES)


# files to start a side with

UNITS = sorted(DEPLOY.glob("*.service"))


def settings_of(unit):
    """The settings of a unit; a name may come several times."""
    found = {}
    for line in unit.read_text().splitlines():
        if line and not line.startswith(("#", "[")):
            name, _, value = line.partition("=")
            found.setdefault(name, []).append(value)
    return found


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_units_are_hardened(unit):
    found = settings_of(unit)
    for name, value in {
        "ProtectSystem": "strict",
        "NoNewPrivileges": "yes",
        "DynamicUser": "yes",
        "Restart": "on-failure",
        "RestartPreventExitStatus": "2 4 7",
        "SuccessExitStatus": "130",
    }.items():
        assert found[name] == [value], name
    assert found["LoadCredential"] and found["StateDirectory"]
    codes = {int(code) for code in found["RestartPreventExitStatus"][0].split()}
    assert codes == {Exit.BAD_INPUT, Exit.REFUSED, Exit.TRAINING}


def what_systemd_says(unit, text, folder):
    """What it has to say about a unit's text, were the program installed."""
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    program = folder / "colonnade"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    copy = folder / unit.name
    copy.write_text(text.replace("/opt/colonnade/bin/colonnade", str(program)))
    done = subprocess.run(["systemd-analyze", "verify", str(copy)], capture_output=True, text=True)
    return [line for line in done.stderr.splitlines() if "colonnade-" in line]  # others are of this machine's units


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_systemd_understands_the_units(unit, tmp_path):
    text = unit.read_text()
    assert what_systemd_says(unit, text, tmp_path) == []
    for before, after in (("KillSignal=SIGINT", "KillSignal=SIGNOT"), ("ProtectProc=", "ProtectPrc=")):
        assert what_systemd_says(unit, text.replace(before, after), tmp_path), "it looks at the settings"


def test_there_is_a_unit_for_each_role():
    assert [unit.name for unit in UNITS] == ["colonnade-owner@.service", "colonnade-party@.service"]


def test_the_container_is_pinned_and_not_root():
    text = (DEPLOY / "Containerfile").read_text()
    assert "--constraint constraints.txt" in text and re.search(r"^USER \d+", text, re.M)
    assert re.search(r"^FROM \S+:\d+\.\d+", text, re.M) and ":latest" not in text


def test_the_compose_file_hardens_both_sides():
    yaml = pytest.importorskip("yaml")  # comes with mkdocs
    services = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
    assert set(services) == {"owner", "party"}
    for side in services.values():
        assert side["read_only"] and side["cap_drop"] == ["ALL"] and "no-new-privileges:true" in side["security_opt"]
        assert "ports" not in side and side["stop_signal"] == "SIGINT"
