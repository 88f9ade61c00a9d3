"""Real queue managers whose directory is a real OpenLDAP server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import quote

import pytest

import posthouse
from posthouse.cli import main
from posthouse.directory.ldap.names import Dn
from posthouse.model.errors import NoDs
from tests.process.offices import Office, wait_until
from tests.process.openldap import ADMIN, OUR_SCHEMA, ROOT, OpenLdap, openldap
from tests.support.process.directory_desk import Desk

pytestmark = pytest.mark.peer("openldap")

SECTION = """
[directory]
refresh_s = 1
online_s = 1
notify_s = 0
patience_s = 3
[directory.ldap]
url = "{url}"
ca_file = "{ca_file}"
authentication = "simple"
user = "{user}"
password_file = "{password_file}"
connect_s = 2
time_limit_s = 5
"""


def section(server: OpenLdap) -> str:
    return SECTION.format(
        url=server.url, ca_file=server.certificate, user=ADMIN, password_file=server.password_file
    )


@pytest.fixture
def running() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def server(tmp_path: Path, running: ExitStack) -> OpenLdap:
    return running.enter_context(openldap(tmp_path / "slapd"))


@pytest.fixture
def desk(
    server: OpenLdap, tmp_path: Path, running: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> Desk:
    desk = Desk(tmp_path, running, monkeypatch, section(server))
    wait_until(lambda: has(server, "CN=msmq,CN=BETA,CN=Computers"), server.places)
    desk.do("refresh")
    desk.enter_beta()  # BETA listens on loopback, which only a test tells others
    return desk


def bodies(office: Office, name: str) -> list[bytes]:
    return [message.body for message in office.qm.queue(name).browse()]


def arrives(desk: Desk, name: str, *wanted: bytes) -> None:
    wait_until(lambda: bodies(desk.beta, name) == list(wanted), lambda: bodies(desk.beta, name))


def has(server: OpenLdap, place: str) -> bool:
    return Dn.parse(f"{place},{ROOT}").key in {dn.key for dn in server.places()}


ORDERS = "CN=orders,CN=msmq,CN=BETA,CN=Computers"


def test_public_queues_of_one_are_found_and_reached_by_the_other(
    desk: Desk, server: OpenLdap
) -> None:
    desk.beta.qm.create_queue(r"BETA\orders", label="Orders")
    assert has(server, ORDERS)
    desk.do("refresh")
    [found] = desk.alpha.qm.find_queues(label="Orders")
    assert found.path.lower() == r"beta\orders"
    desk.send(r"BETA\orders", b"one")
    arrives(desk, r"BETA\orders", b"one")
    desk.beta.qm.queue(r"BETA\orders").purge()
    desk.beta.qm.delete_queue(r"BETA\orders")
    assert not has(server, ORDERS)
    desk.do("refresh")
    assert desk.alpha.qm.find_queues(label="Orders") == []


def test_without_the_server_all_goes_on_with_what_was_known(desk: Desk, server: OpenLdap) -> None:
    desk.beta.qm.create_queue(r"BETA\orders")
    desk.do("refresh")
    server.stop()
    said = desk.say(desk.alpha, "directory", "refresh")
    assert said.code == 1
    assert "ldap://localhost" in said.text
    with pytest.raises(NoDs):
        desk.beta.qm.create_queue(r"BETA\more")
    desk.send(r"BETA\orders", b"while it is away")
    arrives(desk, r"BETA\orders", b"while it is away")
    desk.alpha.restart()
    desk.send(r"BETA\orders", b"after a restart")
    arrives(desk, r"BETA\orders", b"while it is away", b"after a restart")
    server.start()
    desk.do("refresh")
    wait_until(lambda: desk.beta.qm.status().directory.online, desk.beta.qm.status)
    desk.beta.qm.create_queue(r"BETA\more")
    assert has(server, "CN=more,CN=msmq,CN=BETA,CN=Computers")
    nobody_waits_for_a_server_that_is_silent(desk, server)


def nobody_waits_for_a_server_that_is_silent(desk: Desk, server: OpenLdap) -> None:
    """Neither programs nor operators; what it does yet is taken in when it speaks again."""
    server.pause()
    with ThreadPoolExecutor() as others:
        looked = others.submit(desk.alpha.qm.call, "POST", "/directory/refresh")
        with pytest.raises(NoDs, match="has not answered for 3 seconds"):
            desk.beta.qm.create_queue(r"BETA\late")
        assert "has not answered for 3 seconds" in looked.result()["reason"]
    server.go_on()

    def public() -> set[str]:
        return {queue.path for queue in desk.beta.qm.queues()}

    wait_until(lambda: r"BETA\late" in public(), public)
    assert has(server, "CN=late,CN=msmq,CN=BETA,CN=Computers")


def test_everything_that_commands_enter_is_on_the_server(desk: Desk, server: OpenLdap) -> None:
    desk.beta.qm.create_queue(r"BETA\orders")
    desk.do("site", "add", "North, (*)")
    desk.do("site", "add", "South")
    desk.do("link", "add", "North, (*)", "South", "--cost", "7", "--gate", "ALPHA")
    desk.do("alias", "add", "till", r"DIRECT=OS:far\private$\till")
    desk.do("list", "add", "all", "--member", r"DIRECT=OS:far\private$\q")
    assert has(server, r"CN=North\, (*),CN=Sites,CN=Configuration")
    assert has(server, "CN=till,CN=Users")
    for office in (desk.alpha, desk.beta):
        desk.do("refresh", office=office)
    assert desk.do("export", office=desk.beta) == desk.do("export")
    desk.do("list", "remove", "all", "--yes")
    desk.do("alias", "remove", "till", "--yes")
    assert not has(server, "CN=till,CN=Users")


def test_an_import_that_the_server_refuses_says_what_was_made(
    desk: Desk, server: OpenLdap, tmp_path: Path
) -> None:
    file = tmp_path / "some.toml"
    file.write_text('[[sites]]\nname = "West"\n[[networks]]\nname = "net"\n')
    said = desk.say(desk.alpha, "directory", "import", str(file), "--yes")
    assert said.code == 1
    assert "1 of 2 changes were made" in said.text
    assert has(server, "CN=West,CN=Sites,CN=Configuration")
    assert "West" in desk.do("export")
    file.write_text('[[sites]]\nname = "West"\n[[sites]]\nname = "East"\n')
    again = desk.do("import", str(file), "--yes")
    assert "East" in again
    assert "West" not in again


def test_what_others_change_on_the_server_shows(desk: Desk, server: OpenLdap) -> None:
    desk.beta.qm.create_queue(r"BETA\orders", label="Orders")
    place = Dn.parse(f"{ORDERS},{ROOT}")
    with server.connected() as connection:
        connection.modify(place, {"mSMQLabelEx": [b"Letters"], "mSMQQueueQuota": [b"-2"]})
        bad = {"objectGUID": [b"short"]}
        connection.add(place.parent.child("poisoned"), ["mSMQQueue"], bad)
    desk.do("refresh", office=desk.beta)
    shown = desk.beta.qm.queue(r"BETA\orders").properties()
    assert shown.label == "Letters"
    assert desk.say(desk.beta, "queue", "list").code == 0
    told = desk.say(desk.beta, "status").text
    assert "cannot be used" in told
    assert "poisoned" in told


def test_a_start_without_the_server_goes_on_when_it_comes(
    tmp_path: Path, running: ExitStack
) -> None:
    server = OpenLdap(tmp_path / "slapd")
    running.callback(server.stop)
    alpha = Office(tmp_path / "ALPHA", "ALPHA", running, section(server))
    status = alpha.qm.status().directory
    assert not status.online
    assert "localhost" in status.reason
    alpha.create("private")
    server.start()
    wait_until(lambda: alpha.qm.status().directory.online, alpha.qm.status)
    wait_until(lambda: has(server, "CN=msmq,CN=ALPHA,CN=Computers"), server.places)


def stopped(folder: Path, server: OpenLdap, name: str) -> Path:
    """A home that waits for its first start."""
    home = folder / f"home of {name}"
    home.mkdir(mode=0o700)
    settings = f'[queue_manager]\nname = "{name}"\n{section(server)}'
    (home / "posthouse.toml").write_text(settings)
    return home


def test_a_new_home_becomes_the_queue_manager_that_the_server_knows(
    server: OpenLdap, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    home = stopped(tmp_path, server, "GAMMA")
    assert main.run(["directory", "join", "--home", str(home), "--json"]) == 0
    first = json.loads(capsys.readouterr().out)
    assert (first["created"], first["adopted"]) == (True, False)
    assert has(server, "CN=msmq,CN=GAMMA,CN=Computers")
    again = stopped(tmp_path / "slapd", server, "GAMMA")
    assert main.run(["directory", "join", "--home", str(again)]) == 0
    assert "took over that identifier" in capsys.readouterr().out
    with posthouse.open(again, name="GAMMA") as qm:
        assert qm.guid == first["identifier"]


def test_a_home_that_is_in_use_keeps_its_identifier(
    server: OpenLdap, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.run(["directory", "join", "--home", str(stopped(tmp_path, server, "GAMMA"))]) == 0
    used = stopped(tmp_path / "slapd", server, "GAMMA")
    alone = '[queue_manager]\nname = "GAMMA"\n'
    (used / "posthouse.toml").write_text(alone)
    with posthouse.open(used, name="GAMMA") as qm:
        qm.create_queue(r".\private$\orders")
    assert main.run(["directory", "join", "--home", str(used)]) == 1
    assert "[directory.ldap] url" in capsys.readouterr().err
    shared = f'[queue_manager]\nname = "GAMMA"\n{section(server)}'

    def refused() -> str:
        (used / "posthouse.toml").write_text(shared)
        code = main.run(["directory", "join", "--home", str(used)])
        (used / "posthouse.toml").write_text(alone)
        assert code == 1
        return capsys.readouterr().err

    far = r"DIRECT=OS:far\private$\q"
    assert "has queues" in refused()
    with posthouse.open(used, name="GAMMA") as qm:
        qm.delete_queue(r".\private$\orders")
        qm.queue(far).send(b"x", recoverable=True)
    assert "holds messages" in refused()
    with posthouse.open(used, name="GAMMA") as qm:
        qm.call("POST", f"/queues/{quote(far, safe='')}/purge")
    assert "has sent messages" in refused()
    used = stopped(tmp_path / "slapd", server, "DELTA")
    shared = (used / "posthouse.toml").read_text()
    shared = shared.replace("[directory]", '[directory]\nsite = "Nowhere"')
    assert "the directory has no site 'Nowhere'" in refused()
    server.stop()
    assert "ldap://localhost" in refused()


def test_the_schema_can_be_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["directory", "schema"]) == 0
    assert capsys.readouterr().out == OUR_SCHEMA.read_text()
