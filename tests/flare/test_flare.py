"""NVIDIA FLARE: both ends of a link over messages that get lost, forged and silent; then FLARE itself, where it is.

The first part needs no nvflare. The second provisions a server and four sites (proof-of-concept mode) and runs
``colonnade flare`` against them, in real processes over mutual TLS.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from threading import Event, Thread

import pytest
from typer.testing import CliRunner

from colonnade.cli import app
from colonnade.errors import AwayError, Broken, ColonnadeError, ConfigError, LinkError
from colonnade.federation.audit_log import AuditLog
from colonnade.federation.certificates import make_keys
from colonnade.federation.handshake import word_packet
from colonnade.federation.owner_transport import OwnerRecords, OwnerTransport
from colonnade.federation.party_process import PartyProcess
from colonnade.federation.prometheus import Metrics
from colonnade.federation.side_files import read_owner_file, read_party_file
from colonnade.federation.status_file import StatusFile
from colonnade.flare import owner_connections as listening
from colonnade.flare import submit as submitting
from colonnade.flare.outcome import Outcome, copy_results, read_outcome, stopped_by
from colonnade.flare.owner_connections import FlareListener
from colonnade.flare.site_connection import ANSWER, ASK, HERE, KNOCK, Fields, SiteConnection, told_of
from colonnade.flare.submit import Submission
from colonnade.runtime.remote.packet import read_packet, write_packet
from colonnade.runtime.remote.request_server import refused, refused_request

needs_flare = pytest.mark.skipif(find_spec("nvflare") is None, reason="nvflare is not installed: colonnade[flare]")


# Connections over FLARE's one-way messages


class Post:
    """Carries messages between a listener and connections in threads; ``loses`` says which never arrive."""

    def __init__(self, **connections: SiteConnection) -> None:
        self.connections, self.loses = connections, lambda site, topic: False
        self.seen: list[tuple[str, str, Fields]] = []
        self.stopped = Event()
        self.listener = FlareListener(list(connections), self.fire, self.stopped.is_set)

    def fire(self, site: str, topic: str, fields: Fields) -> None:
        self.seen.append((site, topic, fields))
        if not self.loses(site, topic):
            Thread(target=self.carry, args=(site, topic, fields), daemon=True).start()

    def carry(self, site: str, topic: str, fields: Fields) -> None:
        connection, back = self.connections[site], HERE if topic == KNOCK else ANSWER
        answer = connection.knocked(fields) if topic == KNOCK else connection.asked(fields)
        if answer is not None and not self.loses(site, back):
            self.listener.heard(back, answer)


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, seconds in {"LOOK": 0.02, "CALL": 0.01, "DOUBT": 0.05, "SILENT": 0.4}.items():
        monkeypatch.setattr(listening, name, seconds)
    monkeypatch.setattr(submitting, "LOOK", 0.0)


def once(topic: str) -> Callable[[str, str], bool]:
    """Loses the first message of a kind."""
    left = [topic]

    def loses(site: str, which: str) -> bool:
        return bool(left) and which == topic and left.pop() == topic

    return loses


def test_a_request_and_its_answer() -> None:
    post = Post(bank=SiteConnection(lambda raw: b"bank " + raw), shop=SiteConnection(lambda raw: b"shop " + raw))
    for name in ("bank", "shop"):
        number = post.listener.wait(name, 5.0)
        assert number == post.listener.connection(name) == 1
        post.listener.send(name, number, b"hears")
        assert post.listener.receive(name, number, 5.0) == f"{name} hears".encode()


@pytest.mark.parametrize("lost", [ASK, ANSWER])
def test_a_lost_request_breaks_the_connection_and_the_next_one_works(lost: str) -> None:
    served: list[bytes] = []
    post = Post(shop=SiteConnection(lambda raw: served.append(raw) or raw))
    number = post.listener.wait("shop", 5.0)
    post.loses = once(lost)
    post.listener.send("shop", number, b"one")
    with pytest.raises(Broken, match="the connection to 'shop' broke: a request was lost on its way"):
        post.listener.receive("shop", number, 30.0)
    assert len(served) == (lost == ANSWER)
    again = post.listener.wait("shop", 5.0, after=number)
    assert again == number + 1
    post.listener.send("shop", again, b"one")
    assert post.listener.receive("shop", again, 5.0) == b"one"


def test_knocks_that_are_lost_are_repeated() -> None:
    post = Post(shop=SiteConnection(bytes))
    post.loses = once(KNOCK)
    assert post.listener.wait("shop", 5.0) == 1


def test_a_slow_site_is_waited_for_as_long_as_it_says_that_it_is_there() -> None:
    go_on = Event()
    post = Post(shop=SiteConnection(lambda raw: raw if go_on.wait(10) else b""))
    number = post.listener.wait("shop", 5.0)
    post.listener.send("shop", number, b"slow")
    with pytest.raises(AwayError, match="'shop' sent nothing for 1 s"):  # longer than SILENT, so it was not given up
        post.listener.receive("shop", number, 1.0)
    go_on.set()
    assert post.listener.receive("shop", number, 5.0) == b"slow"


def test_a_silent_site_is_absent_long_before_the_deadline() -> None:
    post = Post(shop=SiteConnection(bytes))
    number = post.listener.wait("shop", 5.0)
    post.loses = lambda site, topic: True
    post.listener.send("shop", number, b"?")
    began = time.monotonic()
    with pytest.raises(AwayError, match="'shop' has not answered FLARE for") as caught:
        post.listener.receive("shop", number, 60.0)
    post.listener.hang_up("shop", "absent")
    with pytest.raises(AwayError, match="start its site again"):
        post.listener.wait("shop", 60.0, after=number)
    assert caught.value.party == "shop" and time.monotonic() - began < 20


def test_another_process_at_a_site_is_another_connection() -> None:
    post = Post(shop=SiteConnection(bytes))
    first = post.listener.wait("shop", 5.0)
    post.connections["shop"] = SiteConnection(bytes)
    post.listener.send("shop", first, b"?")  # the new process does not know the key
    with pytest.raises(Broken, match="another process of it took its place"):
        post.listener.receive("shop", first, 30.0)
    assert post.listener.wait("shop", 5.0, after=first) == first + 1
    with pytest.raises(Broken, match="took its place"):
        post.listener.send("shop", first, b"?")


def test_nobody_speaks_for_a_site_without_what_it_was_told() -> None:
    """FLARE lets any site send in another's name; the owner takes only what answers its own fresh numbers."""
    post = Post(shop=SiteConnection(bytes))
    number = post.listener.wait("shop", 5.0)
    post.loses = lambda site, topic: topic in (ASK, KNOCK)
    post.listener.send("shop", number, b"?")
    for forged in ({"nonce": b"", "letter": b"x"}, {"nonce": bytes(16), "letter": b"x"}, {"letter": b"x"}):
        post.listener.heard(ANSWER, forged)
    for forged in ({"nonce": bytes(16), "key": b"mine"}, {"key": b"mine"}, {}):
        post.listener.heard(HERE, forged)
    assert post.listener.connection("shop") == number
    with pytest.raises(AwayError):
        post.listener.receive("shop", number, 0.1)


def test_a_site_answers_only_who_knows_its_key() -> None:
    served: list[bytes] = []
    connection = SiteConnection(lambda raw: served.append(raw) or raw)
    key = connection.knocked({"nonce": b"n"})["key"]
    assert connection.asked({"nonce": b"n", "key": bytes(16), "letter": b"x"}) is None
    assert connection.asked({"nonce": b"n", "letter": b"x"}) is None
    assert served == []
    assert connection.asked({"nonce": b"n", "key": key, "letter": b"x"}) == {"nonce": b"n", "letter": b"x"}


def test_a_site_that_is_stopped_is_absent_and_refuses_nothing() -> None:
    """FLARE ends a job's process in peace when its service is stopped; the job must go on when it is back."""
    post = Post(shop=SiteConnection(bytes))
    number = post.listener.wait("shop", 5.0)
    post.connections["shop"].close()
    post.listener.send("shop", number, b"?")
    with pytest.raises(AwayError, match="'shop' has not answered FLARE"):
        post.listener.receive("shop", number, 60.0)


def test_a_job_that_flare_ends_is_left_at_once() -> None:
    post = Post(shop=SiteConnection(bytes))
    number = post.listener.wait("shop", 5.0)
    post.stopped.set()
    with pytest.raises(LinkError, match="FLARE ended the job"):
        post.listener.receive("shop", number, 60.0)
    with pytest.raises(LinkError, match="FLARE ended the job"):
        post.listener.wait("shop", 60.0, after=number)


def test_there_is_no_connection_to_strangers() -> None:
    post = Post(shop=SiteConnection(bytes))
    with pytest.raises(LinkError, match="no site 'mill' in this job; there are shop"):
        post.listener.connection("mill")


@pytest.mark.parametrize("error", [ConfigError("'shop' has no rows; add some."), ValueError("no number: 'Ms Smith'")])
def test_whatever_goes_wrong_at_a_site_is_told_in_a_reply(error: Exception) -> None:
    packet = read_packet(refused_request(write_packet(word_packet("hello", {})), "shop", told_of(error, "shop")))
    told = refused(packet.frames[0], "shop")
    assert packet.sender == "shop"
    if isinstance(error, ColonnadeError):
        assert (type(told), str(told)) == (type(error), str(error))
    else:  # its words may hold a value of a row
        assert type(told) is ColonnadeError and str(told).startswith("'shop' failed with ValueError; ")
        assert "Smith" not in str(told)


def test_an_empty_answer_is_no_reply() -> None:
    post = Post(shop=SiteConnection(bytes))
    number = post.listener.wait("shop", 5.0)
    post.loses = lambda site, topic: topic == ASK
    post.listener.send("shop", number, b"?")
    post.listener.heard(ANSWER, {"nonce": post.seen[-1][2]["nonce"]})
    assert post.listener.receive("shop", number, 5.0) == b""  # at once, and whoever reads it names the site


def test_a_site_that_is_given_up_early_is_not_said_to_have_had_the_whole_deadline(tmp_path: Path) -> None:
    post = Post(shop=SiteConnection(bytes))
    post.listener.wait("shop", 5.0)
    post.loses = lambda site, topic: True
    audit, status = (
        AuditLog(tmp_path / "audit.jsonl", "owner", "job"),
        StatusFile(tmp_path, "owner", "job", 0, ["shop"]),
    )
    lines = OwnerTransport(post.listener, {"shop": b""}, b"", 300.0, OwnerRecords(audit, Metrics(), status), print)
    with pytest.raises(AwayError, match=r"'shop' has not answered FLARE for 0 s; start its site again"):
        lines.meet("shop")
    audit.close()


@needs_flare
def test_what_a_site_refuses_is_in_its_audit_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    from colonnade.flare.site import Site

    def fail(request: bytes) -> bytes:
        raise ValueError("no number: 'Ms Smith'")

    job(tmp_path)
    side_file = read_party_file(tmp_path / "shop" / "party.toml", tls=False)
    site, request = Site(), write_packet(word_packet("hello", {}))
    site._name, site._party = "shop", PartyProcess(side_file, tmp_path / "states")
    site._party.answer = fail
    noted: list[tuple[bytes, bytes]] = []
    site._party.session.note = lambda _, *both: noted.append(both)
    reply = site._serve(request)
    assert noted == [(request, reply)]
    assert [record.levelname for record in caplog.records] == ["WARNING"]  # FLARE sends errors to the server
    site.handle_event("_end_run", None)
    key = site._connection._key
    assert site._connection.asked({"nonce": b"n", "key": key, "letter": request}) is None  # its log is closed


# Job and party files without certificates


def test_on_flare_nobody_needs_a_certificate_of_its_own(tmp_path: Path) -> None:
    make_keys(tmp_path, ["localhost"], ["shop"])
    for name in ("cert.pem", "key.pem", "ca.pem"):
        (tmp_path / "shop" / name).unlink()
        (tmp_path / "owner" / name).unlink()
    (tmp_path / "shop" / "p.toml").write_text(
        '[party]\nname = "shop"\nfiles = "a.csv"\nid = "id"\n[owner]\nkey = "../owner/identity.pub"\n'
    )
    side_file = read_party_file(tmp_path / "shop" / "p.toml", tls=False)
    assert side_file.party.name == "shop"
    with pytest.raises(ConfigError, match="without its certificates"):
        _ = side_file.keys.credentials
    with pytest.raises(ConfigError, match="no address"):
        read_party_file(tmp_path / "shop" / "p.toml")
    (tmp_path / "owner" / "job.toml").write_text(
        '[[party]]\nname = "bank"\nfiles = "a.csv"\nid = "id"\nlabel = "y"\n'
        '[[party]]\nname = "shop"\nkey = "../shop/identity.pub"\n[train]\nmethod = "splitnn"\nrounds = 2\n'
    )
    assert list(read_owner_file(tmp_path / "owner" / "job.toml", tls=False).others) == ["shop"]
    with pytest.raises(LinkError, match=r"cert\.pem"):
        read_owner_file(tmp_path / "owner" / "job.toml")


# Following a job


class FakeServer:
    """FLARE's admin interface, as far as :class:`Submission` uses it: each job ends as the script says."""

    def __init__(self, folder: Path, *script: Outcome | None, sites: tuple[str, ...] = ("shop",)) -> None:
        self.folder, self.script, self.sites = folder, list(script), sites
        self.cloned = self.asked = 0
        self.status = "FINISHED:EXECUTION_EXCEPTION"
        self.errors: dict[str, str] = {}  # by component: what a site logged

    def get_connected_client_list(self) -> list[object]:
        self.asked += 1
        return [type("Client", (), {"name": name, "last_connect_time": self.asked}) for name in self.sites]

    def submit_job(self, path: str) -> str:
        return "0"

    def clone_job(self, number: str) -> str:
        self.cloned += 1
        return str(self.cloned)

    def get_job_status(self, number: str) -> str:
        return self.status

    def get_job_meta(self, number: str) -> dict[str, object]:
        return {"job_deploy_detail": ["server: OK", "shop: class not allowed"]}

    def list_job_components(self, number: str) -> list[str]:
        return list(self.errors)

    def download_job_components(self, number: str) -> str:
        place = self.folder / "transfer" / number
        place.mkdir(parents=True)
        for name, text in self.errors.items():
            (place / name).write_text(text)
        return str(place)

    def download_job_result(self, number: str, to: str) -> str:
        place = self.folder / number / "workspace"
        place.mkdir(parents=True)
        (place / "history.csv").write_text(number)
        if (outcome := self.script[int(number)]) is not None:
            outcome.write(place)
        return str(place.parent)


def follow(
    server: FakeServer, folder: Path, deadline: float = 5.0, say: Callable[[str], object] = lambda sentence: None
) -> Outcome:
    return Submission(server, ["shop"], deadline, say).follow(folder / "job", folder / "results")


def test_a_job_that_a_fault_ended_is_cloned_until_it_is_finished(tmp_path: Path) -> None:
    absent = stopped_by(AwayError("'shop' is absent.", "shop"), 10)
    server = FakeServer(tmp_path, absent, Outcome("running", 20), None, Outcome("finished", 20, result={"rounds": 30}))
    assert follow(server, tmp_path).result == {"rounds": 30}
    assert server.cloned == 3
    assert (tmp_path / "results" / "history.csv").read_text() == "3"


def test_a_job_that_never_comes_further_is_given_up(tmp_path: Path) -> None:
    absent = stopped_by(AwayError("'shop' is absent.", "shop"), 10)
    server = FakeServer(tmp_path, *[absent] * 9)
    with pytest.raises(AwayError, match="'shop' is absent") as caught:
        follow(server, tmp_path)
    assert caught.value.party == "shop" and server.cloned == submitting.TRIES


def test_what_nobody_agreed_to_is_not_tried_again(tmp_path: Path) -> None:
    server = FakeServer(tmp_path, stopped_by(ConfigError("'shop' has no party.toml; put it there."), 0))
    with pytest.raises(ConfigError, match=r"has no party\.toml"):
        follow(server, tmp_path)
    assert server.cloned == 0


def test_a_job_that_somebody_aborted_is_not_started_again(tmp_path: Path) -> None:
    server = FakeServer(tmp_path, Outcome("running", 10))
    server.status = "FINISHED:ABORTED"
    with pytest.raises(LinkError, match="was aborted in FLARE"):
        follow(server, tmp_path)
    assert server.cloned == 0


def test_a_job_that_flare_cannot_start_is_told_with_flares_words(tmp_path: Path) -> None:
    with pytest.raises(LinkError, match=r"could not start job 0 .*shop: class not allowed"):
        follow(FakeServer(tmp_path, None), tmp_path)


FORBIDDEN = "ComponentNotAuthorized: Component 'colonnade.flare.{}' at config path 'x.#1' is not in allow_list\n"


@pytest.mark.parametrize("outcome", [Outcome("running", 0), None], ids=["at a site", "at the server"])
def test_a_side_that_does_not_allow_our_class_is_named_at_once(outcome: Outcome | None, tmp_path: Path) -> None:
    """FLARE itself says no more than that the job ended, so the job would be started again in vain."""
    server = FakeServer(tmp_path, outcome)
    server.errors = {"ERRORLOG_shop": "Traceback:\n" + FORBIDDEN.format("site.Site"), "ERRORLOG_mill": "all is well"}
    said = r"'shop' does not allow 'colonnade.flare.site.Site'; add it to class_allow_list in its local/resources.json"
    with pytest.raises(ConfigError, match=said) as caught:
        follow(server, tmp_path)
    assert server.cloned == 0 and "mill" not in str(caught.value)
    assert not list((tmp_path / "transfer").iterdir()), "what was fetched stays in the user's startup kit"


def test_what_sites_log_otherwise_does_not_end_a_job(tmp_path: Path) -> None:
    server = FakeServer(tmp_path, Outcome("running", 5), Outcome("finished", 5))
    server.errors = {"ERRORLOG_shop": "received unknown aux message topic colonnade.knock"}
    assert follow(server, tmp_path).state == "finished" and server.cloned == 1


def test_a_site_that_is_not_there_is_named(tmp_path: Path) -> None:
    said: list[str] = []
    with pytest.raises(AwayError, match=r"no site 'shop' was connected to FLARE within 0.05 s, but shoe;") as caught:
        follow(FakeServer(tmp_path, sites=("shoe",)), tmp_path, deadline=0.05, say=said.append)
    assert caught.value.party == "shop"
    assert said == ["waiting up to 0.05 s for site 'shop'; connected: shoe"]  # at once, and once


def test_a_dead_site_that_the_server_still_lists_is_waited_for(tmp_path: Path) -> None:
    absent = stopped_by(AwayError("'shop' is absent.", "shop"), 10)
    server = FakeServer(tmp_path, absent, Outcome("finished", 10))
    server.get_connected_client_list = lambda: [type("Client", (), {"name": "shop", "last_connect_time": 1.0})]
    with pytest.raises(AwayError, match="no site 'shop'"):
        follow(server, tmp_path, deadline=0.05)
    assert server.cloned == 0


def test_only_results_are_handed_on(tmp_path: Path) -> None:
    for name in ("history.csv", "report.html", "rows.bin", "secret.key"):
        (tmp_path / name).write_text("x")
    copy_results(tmp_path, tmp_path / "to")
    assert {one.name for one in (tmp_path / "to").iterdir()} == {"history.csv", "report.html"}
    assert read_outcome(tmp_path / "to") is None


# The verb


def colonnade(*words: object):
    return CliRunner().invoke(app, ["flare", *(str(word) for word in words)])


def job(folder: Path) -> Path:
    from benchmarks.flare import write_sides

    write_sides(folder, ("together",))
    return folder / "owner" / "together.toml"


def test_the_verb_wants_one_of_two_things(tmp_path: Path) -> None:
    result = colonnade(job(tmp_path))
    assert result.exit_code == 2 and "either --export DIR or --submit STARTUP_KIT" in result.stderr


@pytest.mark.skipif(find_spec("nvflare") is not None, reason="nvflare is installed")
def test_without_nvflare_the_extra_is_named(tmp_path: Path) -> None:
    for words in (("--export", tmp_path / "to"), ("--submit", tmp_path)):
        result = colonnade(job(tmp_path / words[0]), *words)
        assert result.exit_code == 2 and "pip install 'colonnade[flare]'" in result.stderr


@needs_flare
@pytest.mark.slow
@pytest.mark.parametrize("has", [(), ("client.crt",)], ids=["nothing", "a site's"])
def test_only_a_users_startup_kit_will_do(has: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "kit" / "startup").mkdir(parents=True)
    for name in has:
        (tmp_path / "kit" / "startup" / name).write_text("")
    result = colonnade(job(tmp_path), "--submit", tmp_path / "kit")
    assert result.exit_code == 2 and "is no startup kit of a FLARE user: it has no startup/" in result.stderr


@needs_flare
@pytest.mark.slow
def test_what_flare_prints_is_no_result(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """And a server that goes away is one sentence, which says how to go on."""
    from nvflare.fuel.flare_api import api_spec, flare_api

    (tmp_path / "startup").mkdir()
    make_keys(tmp_path / "keys", ["localhost"], ["shop"])
    (tmp_path / "keys" / "shop" / "cert.pem").rename(tmp_path / "startup" / "client.crt")
    (tmp_path / "startup" / "fed_admin.json").write_text("{}")

    def new_session(**how: str) -> object:
        print("Connecting to FLARE ...")
        return type("Session", (), {"close": staticmethod(lambda: None)})

    def lose_the_server() -> None:
        with submitting.session(tmp_path):
            logging.getLogger("nvflare.fuel.f3").error("cannot send to 'server'")
            raise api_spec.NoConnection("no connection")

    monkeypatch.setattr(flare_api, "new_secure_session", new_session)
    with pytest.raises(LinkError, match="went away: no connection; start it and submit the job again"):
        lose_the_server()
    said = capsys.readouterr()
    assert said.out == "" and "Connecting to FLARE" in said.err and "cannot send" not in said.err


@needs_flare
@pytest.mark.slow
def test_an_exported_job_holds_names_alone(tmp_path: Path) -> None:
    result = colonnade(job(tmp_path), "--export", tmp_path / "jobs")
    assert result.exit_code == 0, result.stderr
    files = {path.name: path.read_text() for path in (tmp_path / "jobs" / "together").rglob("*") if path.is_file()}
    assert {"meta.json", "config_fed_server.json", "config_fed_client.json"} <= files.keys()
    assert not [name for name in files if name.endswith((".py", ".csv", ".key", ".toml"))]
    assert "colonnade.flare.owner.Owner" in files["config_fed_server.json"]
    assert str(tmp_path) not in "".join(files.values())


# FLARE itself


@needs_flare
@pytest.mark.slow
def test_two_trials_at_a_time_keep_their_jobs_apart(tmp_path: Path) -> None:
    """By default all servers of a machine have one store, and each would take up the jobs of the others."""
    from benchmarks.poc import SERVER, Poc

    poc = Poc(tmp_path, ["shop"])
    poc.prepare()
    poc.allow(SERVER)
    found = (poc.kit(SERVER) / "local" / "resources.json").read_text()
    assert f'"{tmp_path}/jobs-storage"' in found and '"/tmp/nvflare' not in found


@needs_flare
@pytest.mark.long
@pytest.mark.filterwarnings("ignore")
def test_on_flare_as_in_one_process_even_if_a_site_dies(tmp_path: Path) -> None:
    from benchmarks import flare
    from benchmarks.poc import SERVER

    flare.write_sides(tmp_path, ("together", "unsigned"), deadline=240)
    poc = flare.set_up(tmp_path, ("together",))
    with poc.running():
        following = flare.submit(poc, tmp_path, "together")
        flare.wait_for_training(poc, "together")
        poc.kill("clinic")
        poc.start("clinic")
        assert following.wait(900) == 0, (tmp_path / "together.log").read_text()
        said = (tmp_path / "together.log").read_text()
        assert "FLARE has it again as job" in said, "the site was killed too late to matter"
        assert flare.report(poc, tmp_path, "together") == "history equal, ledger equal, parameters equal"
        assert not list(poc.kit(SERVER).glob("colonnade/*/states"))

        assert flare.submit(poc, tmp_path, "unsigned").wait(600) == 2  # the server's operator did not put it there
        assert "put the job file there" in (tmp_path / "unsigned.log").read_text()
