"""Bad input for the directory of real servers: a clear error, or a wait with its reason.

Whatever is wrong, no message is lost by it: it arrives once the directory is corrected.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from posthouse.model.errors import IllegalFormatName, UnsupportedFormatNameOperation
from tests.process.offices import free_port, outgoing, wait_until
from tests.support.process.directory_desk import Desk

DEAD_LETTERS = r".\system$;deadletter"


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    with ExitStack() as running, pytest.MonkeyPatch.context() as monkeypatch:
        yield Desk(tmp_path_factory.mktemp("desk"), running, monkeypatch)


@pytest.fixture(autouse=True)
def nothing_entered(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[None]:
    """Each test begins with directories that know nobody else."""
    if "desk" not in request.fixturenames:
        yield
        return
    desk: Desk = request.getfixturevalue("desk")
    before = {office: tmp_path / office.name for office in (desk.alpha, desk.beta)}
    for office, file in before.items():
        desk.do("export", str(file), office=office)
    yield
    for office, file in before.items():
        desk.do("import", str(file), "--prune", "--yes", office=office)


@pytest.mark.parametrize(
    ("name", "refused"),
    [("PUBLIC={}", UnsupportedFormatNameOperation), ("DL={}", IllegalFormatName)],
)
def test_queues_and_lists_that_nobody_knows_are_refused(
    desk: Desk, name: str, refused: type[Exception]
) -> None:
    with pytest.raises(refused):
        desk.send(name.format(uuid.uuid4()), b"to nowhere")


def test_what_goes_round_in_circles_ends_as_a_dead_letter(desk: Desk) -> None:
    """Each of two directories says that the other machine is the way to a third one."""
    lost = str(uuid.uuid4())
    for here, there in ((desk.alpha, desk.beta), (desk.beta, desk.alpha)):
        at = f"127.0.0.1:{there.port}"
        add = "machine", "add"
        desk.do(*add, there.name, there.qm.guid, "--address", at, "--routing-server", office=here)
        desk.do(*add, "LOST", lost, "--in-routing", there.name, office=here)
    desk.send(f"PRIVATE={lost}\\5", b"round and round", dead_letter=True)

    def dead() -> list[tuple[bytes, str]]:
        return [
            (letter.body, letter.class_name)
            for office in (desk.alpha, desk.beta)
            for letter in office.qm.queue(DEAD_LETTERS).browse()
        ]

    wait_until(lambda: bool(dead()), dead)
    assert dead() == [(b"round and round", "nack-hop-count-exceeded")]


def test_a_message_waits_through_every_mistake_and_arrives(tmp_path: Path) -> None:
    """Each mistake of the directory has its reason in `queue show`, and a remedy."""
    with ExitStack() as running, pytest.MonkeyPatch.context() as monkeypatch:
        desk = Desk(tmp_path, running, monkeypatch)
        orders, beta = desk.orders, desk.beta.qm.guid
        desk.send(orders, b"patience")
        desk.shows(orders, f"the directory has no queue manager {beta}")
        for site in ("North", "South"):
            desk.do("site", "add", site)
        desk.machine("BETA", beta)
        desk.shows(orders, "ALPHA is in no site")
        desk.machine("ALPHA", desk.alpha.qm.guid, "--site", "North", "--routing-server")
        desk.shows(orders, "BETA is in no site")
        no_way = desk.say(desk.alpha, "directory", "route", "ALPHA", "BETA")
        assert (no_way.code, "BETA is in no site" in no_way.text) == (1, True)
        desk.alpha.restart()
        stale = "--address", f"127.0.0.1:{free_port()}"
        desk.machine("BETA", beta, "--site", "South", "--routing-server", *stale)
        desk.shows(orders, "no site of ALPHA has a gate to other sites")
        link = "link", "add", "North", "South"
        desk.do(*link)
        desk.shows(orders, "no site of ALPHA has a gate to other sites")
        desk.do(*link, "--gate", "ALPHA")
        desk.shows(orders, "the way leads through South, which has no gate")
        desk.do(*link, "--gate", "ALPHA", "--gate", "BETA")
        desk.shows(orders, "refused")
        desk.enter_beta("--site", "South", "--routing-server")
        desk.arrives(b"patience")
        assert desk.beta.bodies("orders") == [b"patience"]


def test_whoever_listens_at_the_address_of_another_gets_nothing(desk: Desk) -> None:
    gone = str(uuid.uuid4())
    desk.machine("GONE", gone, "--address", f"127.0.0.1:{desk.beta.port}")
    name = f"PRIVATE={gone}\\5"
    desk.send(name, b"not for BETA")
    desk.shows(name, "refused by the peer")
    (waiting,) = [queue for queue in outgoing(desk.alpha.qm) if gone in queue.format_name]
    assert waiting.messages == 1


def test_a_way_over_a_router_that_is_gone_is_none(desk: Desk) -> None:
    via, lost = str(uuid.uuid4()), str(uuid.uuid4())
    desk.machine("VIA", via, "--routing-server")
    desk.machine("LOST", lost, "--in-routing", "VIA")
    desk.do("machine", "remove", "VIA", "--yes")
    desk.send(f"PRIVATE={lost}\\5", b"to nobody")
    desk.shows(f"PRIVATE={lost}\\5", "no next hop towards")


def test_a_queue_whose_machine_is_gone_is_waited_for(desk: Desk, tmp_path: Path) -> None:
    public, gone = str(uuid.uuid4()), str(uuid.uuid4())
    file = tmp_path / "poisoned.toml"
    file.write_text(f"[[queues]]\npath = 'GONE\\orders'\nguid = '{public}'\n")
    said = desk.say(desk.alpha, "directory", "import", str(file))
    assert (said.code, "GONE" in said.text) == (1, True)
    desk.machine("GONE", gone)
    desk.do("import", str(file))
    desk.do("machine", "remove", "GONE", "--yes")
    desk.send(f"PUBLIC={public}", b"to a queue of nobody")
    desk.shows(f"PUBLIC={public}", f"the directory has no queue manager {gone}")


@pytest.mark.parametrize("name", ["*", "*)(cn=*", r"a\2a", "CN=x,DC=y", "x)(|(cn=*", "#1", ";"])
def test_names_are_taken_literally(desk: Desk, name: str) -> None:
    desk.do("site", "add", "North")
    desk.do("site", "add", name)
    desk.do("site", "remove", name, "--yes")
    assert "North" in desk.do("site", "list")
    assert desk.say(desk.alpha, "directory", "site", "remove", name, "--yes").code == 1
    assert desk.say(desk.alpha, "directory", "machine", "remove", name, "--yes").code == 1


# -- a directory that is shared, and away


@pytest.fixture
def shared(tmp_path: Path) -> Iterator[Desk]:
    """Both share a file that can go away."""
    file = tmp_path / "shared" / "directory.toml"
    file.parent.mkdir()
    file.touch()
    more = f"[directory]\nfile = '{file}'\nrefresh_s = 1\nonline_s = 1\n"
    with ExitStack() as running, pytest.MonkeyPatch.context() as monkeypatch:
        desk = Desk(tmp_path, running, monkeypatch, more)
        wait_until(lambda: "BETA" in desk.machines(), desk.machines)
        desk.enter_beta()  # on loopback nobody says of themselves where they listen
        yield desk


def test_a_directory_that_is_away_stops_changes_and_no_messages(
    shared: Desk, tmp_path: Path
) -> None:
    folder, hidden = tmp_path / "shared", tmp_path / "hidden"
    shared.send(shared.orders, b"before")
    shared.arrives(b"before")
    folder.rename(hidden)
    status: list[str] = []
    wait_until(lambda: shared.is_offline(status), lambda: status)
    assert str(folder) in status[-1]
    refused = shared.say(shared.alpha, "queue", "create", r".\public")
    assert (refused.code, "MQ_ERROR_NO_DS" in refused.text) == (1, True), refused.text
    shared.alpha.restart()
    shared.send(shared.orders, b"meanwhile")
    shared.arrives(b"meanwhile")
    hidden.rename(folder)
    wait_until(lambda: not shared.is_offline(status), lambda: status)
    assert shared.say(shared.alpha, "queue", "create", r".\public").code == 0
    wait_until(lambda: "public" in shared.queues(), shared.queues)


def test_a_broken_file_changes_nothing_until_it_is_mended(shared: Desk, tmp_path: Path) -> None:
    file = tmp_path / "shared" / "directory.toml"
    good = file.read_text()
    file.write_text(good + "\n[[machines]\n")
    status: list[str] = []
    wait_until(lambda: shared.is_offline(status), lambda: status)
    assert "line" in status[-1]
    shared.send(shared.orders, b"with a broken file")
    shared.arrives(b"with a broken file")
    file.write_text(good)
    wait_until(lambda: not shared.is_offline(status), lambda: status)
    assert "BETA" in shared.machines()
