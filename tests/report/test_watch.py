"""The page that follows a run: who gets it, who does not, and that it is made once per checkpoint."""

import http.client
import json
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from contextlib import suppress

import pytest
from typer.testing import CliRunner

from browser import PATH, Browser
from colonnade.cli import app
from colonnade.errors import ConfigError
from colonnade.report.local_server import in_background
from colonnade.report.watch_page import WatchServer
from ctrl_c import hearing
from synthetic_runs import HOSTILE, synthetic, write_folder


def save(folder, number, **how):
    """Put a checkpoint of a run that nobody trained into a folder."""
    write_folder(synthetic("run", last=number, **how), folder, number)


@pytest.fixture
def folder(tmp_path):
    place = tmp_path / "run"
    place.mkdir()
    return place


@pytest.fixture
def server(folder):
    with in_background(WatchServer(folder)) as found:
        yield found


def ask(server, path="/", method="GET", **headers):
    """The status, the headers and the text of one answer."""
    port = server.server_address[1]
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    connection.putrequest(method, path, skip_host=True)
    for name, values in ({"Host": f"127.0.0.1:{port}"} | headers).items():
        for value in [values] if isinstance(values, str) else values:
            connection.putheader(name, value)
    connection.endheaders()
    answer = connection.getresponse()
    found = answer.status, answer.headers, answer.read().decode()
    connection.close()
    return found


def state(server):
    return json.loads(ask(server, "/state")[2])


# what is served


def test_page_and_state_follow_the_folder(server, folder):
    assert state(server) == {"round": None, "checkpoint": ""}
    assert "Waiting for the first evaluation." in ask(server)[2]
    save(folder, 12)
    assert state(server) == {"round": 12, "checkpoint": "00000012"}
    status, headers, text = ask(server)
    assert status == 200 and headers["Content-Type"] == "text/html; charset=utf-8"
    assert 'data-checkpoint="00000012"' in text and "Last saved in round 12 of 30" in text and "<svg" in text
    save(folder, 30)
    text = urllib.request.urlopen(server.address, timeout=10).read().decode()
    assert 'data-checkpoint="00000030"' in text and "The run is finished." in text


def test_a_run_before_its_first_evaluation(server, folder):
    save(folder, 0)
    assert "Nothing was evaluated yet." in ask(server)[2]


def test_the_page_is_made_once_per_checkpoint(server, folder, monkeypatch):
    from colonnade.report import watch_page as watch

    made, real = [], watch.read_summary
    monkeypatch.setattr(watch, "read_summary", lambda place: made.append(place) or real(place))
    save(folder, 1)
    readers = [threading.Thread(target=ask, args=(server,)) for _ in range(5)]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join()
    assert len(made) == 1
    save(folder, 2)
    ask(server)
    assert len(made) == 2


def test_the_page_may_ask_its_own_server_and_nobody_else(server, folder):
    save(folder, 3)
    _, headers, text = ask(server)
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]*)"', text)
    assert "default-src 'none'" in policy and "connect-src 'self';" in policy and "unsafe-inline'; script" in policy
    assert headers["Cache-Control"] == "no-store" and headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Content-Security-Policy"] == "frame-ancestors 'none'"


def test_damaged_and_hostile_folders_are_told(server, folder):
    save(folder, 1, data={"load": HOSTILE})
    assert "<script>window" not in ask(server)[2]
    (folder / "checkpoints" / "00000002").mkdir()
    assert "no manifest.json that can be read" in ask(server)[2]


# to whom


@pytest.mark.parametrize(
    "path", ["/checkpoints/", "/config.json", "/../../etc/passwd", "/?x=1", "/state?x", "/state/", "http://evil/", "*"]
)
def test_there_is_nothing_else(server, folder, path):
    save(folder, 1)
    status, _, text = ask(server, path)
    assert status == 404 and text == "There is only / here.\n"


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "TRACE", "CONNECT"])
def test_nothing_can_be_done_but_look(server, method):
    assert ask(server, "/", method)[0] == 501


def test_head_has_no_body(server):
    status, headers, text = ask(server, "/", "HEAD")
    assert status == 200 and int(headers["Content-Length"]) > 1000 and text == ""


@pytest.mark.parametrize("host", ["localhost", "LocalHost:99", "127.0.0.1", "[::1]:8000"])
def test_names_of_this_machine_are_answered(server, host):
    assert ask(server, "/state", Host=host)[0] == 200


@pytest.mark.parametrize(
    "host",
    ["evil.example", "127.0.0.1.evil.example", "localhost@evil.example", "localhost:x", "", [], ["localhost", "evil"]],
)
def test_other_names_are_refused(server, host):
    for path in ("/", "/state", "/none"):
        status, _, text = ask(server, path, Host=host)
        assert status == 403 and "svg" not in text


def test_nobody_else_can_connect(server):
    port = server.server_address[1]
    assert server.server_address[0] == "127.0.0.1"
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(("127.0.0.2", port), timeout=5)  # an address of this machine too


def test_another_host_is_one_name_more(folder):
    with in_background(WatchServer(folder, "127.0.0.2")) as server:
        found = urllib.request.urlopen(server.address + "state", timeout=10)
        assert server.address.startswith("http://127.0.0.2:") and found.status == 200
    for everywhere in ("0.0.0.0", ""):
        with pytest.raises(ConfigError, match="means every address of this machine"):
            WatchServer(folder, everywhere)


def test_readers_who_go_away_are_no_error(server, folder, capfd):
    save(folder, 1, parties=50)
    for _ in range(3):
        with socket.create_connection(server.server_address) as reader:
            reader.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")  # leave with a reset
            reader.sendall(b"GET / HTTP/1.0\r\nHost: localhost\r\n\r\n")
    assert state(server)["round"] == 1
    assert capfd.readouterr().err == ""


# the end


def test_whoever_watches_gets_a_last_look(server, folder):
    began = time.monotonic()
    server.followed.wait_for_last_look()  # nobody is there
    assert time.monotonic() - began < 0.5
    ask(server)
    save(folder, 30)
    reader = threading.Timer(0.2, ask, [server])
    reader.start()
    server.followed.wait_for_last_look()
    assert not reader.is_alive() or server.followed._seen == "00000030"
    assert 0.1 < time.monotonic() - began < 3
    reader.join()


# the command line


def command(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


def refused(result):
    assert result.exit_code == 2 and result.stdout == "", result.output
    (line,) = result.stderr.splitlines()
    assert line.startswith("error: ") and line.endswith(".")
    return line


def test_what_watch_refuses(folder, server):
    port = server.server_address[1]
    told = refused(command("watch", folder, "--port", port))
    assert f"port {port} of 127.0.0.1 cannot be used: Address already in use" in told
    assert "there is no folder" in refused(command("watch", folder / "none"))
    assert "means every address" in refused(command("watch", folder, "--host", "0.0.0.0"))
    assert "cannot be used" in refused(command("watch", folder, "--host", "192.0.2.1"))
    assert command("watch", folder, "--port", 70000).exit_code == 2


def test_watch_warns_of_others_and_opens_a_browser(folder, monkeypatch):
    def stop(server):
        raise KeyboardInterrupt

    opened = []
    monkeypatch.setattr(WatchServer, "serve_forever", stop)
    monkeypatch.setattr("webbrowser.open", lambda address: opened.append(address))
    monkeypatch.setattr("colonnade.cli.watch_command._is_loopback", lambda host: host != "127.0.0.3")
    found = command("watch", folder, "--host", "127.0.0.3", "--open")
    assert found.exit_code == 0 and "everybody who can reach 127.0.0.3" in found.stderr
    assert opened[0] in found.stdout and "no browser was found" in found.stderr
    assert command("watch", folder).stderr == "" and len(opened) == 1


@pytest.mark.slow  # a process of its own
def test_watch_ends_with_ctrl_c(folder):
    words = [sys.executable, "-c", "from colonnade.cli import main; main()", "watch", str(folder)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(hearing(words), **pipes) as process:
        try:
            address = re.search(r"at (\S+)", process.stdout.readline())[1]
            assert json.load(urllib.request.urlopen(address + "state", timeout=10))["checkpoint"] == ""
            process.send_signal(signal.SIGINT)
            rest = process.communicate(timeout=30)
        finally:
            process.kill()
    assert (process.returncode, rest) == (0, ("", ""))


def test_train_watch_serves_while_it_trains(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    job = '[data]\nload = "digits"\nparties = 2\nrows = 200\n[train]\nmethod = "vafl"\nepochs = 2\nbatch = 100\n'
    (tmp_path / "job.toml").write_text(job)
    before = threading.active_count()
    done = command("train", "job.toml", "--watch", "--quiet", "--json")
    assert done.exit_code == 0 and json.loads(done.stdout)["rounds"] == 4
    assert re.fullmatch(r"watch it at http://127\.0\.0\.1:\d+/\n", done.stderr)
    assert threading.active_count() == before


# in a real browser


@pytest.mark.slow
@pytest.mark.skipif(PATH is None, reason="no chromium is on PATH")
def test_an_open_page_follows_the_run(server, folder):
    browser = Browser()
    try:
        browser.ask("Page.navigate", url=server.address)
        for number in (3, 30):
            save(folder, number)
            _until(browser, f"document.body?.dataset.checkpoint == '{number:08d}' && !!document.querySelector('svg')")
        assert browser.complaints == []
        assert {url.removeprefix(server.address) for url in browser.requests} == {"", "state"}
        assert browser.run("document.getElementById('gone').hidden")
        server.shutdown()
        server.socket.close()
        _until(browser, "!document.getElementById('gone').hidden")
    finally:
        browser.close()
        shutil.rmtree(folder, ignore_errors=True)


def _until(browser, condition):
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        with suppress(AssertionError):  # the page may be loading
            if browser.run(condition):
                return
        time.sleep(0.2)
    raise AssertionError(condition)
