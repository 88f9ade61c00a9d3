"""`posthouse migrate` on bad days: refused logins, unreadable messages, machines that are away."""

from __future__ import annotations

import json
import re
import socket
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

import posthouse as ph_module
from posthouse.client.remote.pull.verify import count_unreadable
from tests.cli.conftest import Posthouse
from tests.cli.moving import ADMIN, Moving, far_machine
from tests.client.read_serving import USER, ReadServing
from tests.client.serving import Serving

DENIED = re.compile("refuses (?:the|this) login")


@pytest.fixture(scope="module")
def far() -> Iterator[ReadServing]:
    with far_machine() as server:
        yield server


@pytest.fixture
def moving(
    far: ReadServing, server: Serving, posthouse: Posthouse, tmp_path: Path
) -> Iterator[Moving]:
    made = Moving(far, server, posthouse, tmp_path)
    yield made
    made.close()


def closed_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        return int(closed.getsockname()[1])


# -- a wrong password is tried once


class Refused:
    """Commands with a wrong password."""

    def __init__(self, moving: Moving) -> None:
        self.moving = moving
        self._logins = moving.far.reads.remote.logins
        self._before = self._logins.refusals

    @property
    def count(self) -> int:
        """The logins that the machine has refused."""
        return self._logins.refusals - self._before

    def words(self, *, ports: bool = True) -> list[str]:
        found = ["--user", USER]
        if ports:
            far = self.moving.far
            found += ["--rpc-port", str(far.rpc_port), "--binary-port", str(far.binary_port)]
        return found


@pytest.mark.parametrize(
    "words",
    [
        ("pull", "--inventory"),
        ("pull", "--inventory", "--journals", "--dead-letters"),
        ("pull", "--inventory", "--keep"),
        ("pull", "--inventory", "--follow"),
        ("verify", "--inventory", "--journals"),
        ("pull",),
        ("pull", "--mechanism", "ntlm"),
        ("pull", "--inventory", "--mechanism", "ntlm"),
        ("verify", "--inventory", "--mechanism", "ntlm"),
        ("pull", "--journals"),
        ("verify",),
    ],
    ids=" ".join,
)
def test_a_wrong_password_is_tried_once(moving: Moving, words: tuple[str, ...]) -> None:
    moving.create(b"one")
    for name in (moving.path + "-2", moving.path + "-3"):
        moving.theirs.create_queue(name)
    moving.scan()
    moving("plan", moving.inventory, "--apply")
    given: list[str] = [str(moving.inventory) if word == "" else word for word in words]
    if "--inventory" in given:
        given.insert(given.index("--inventory") + 1, str(moving.inventory))
    else:
        given.append(moving.source)
    refused = Refused(moving)
    done = moving(*given, *refused.words(), "--patience", "1s", stdin=b"wrong\n")
    assert (done.code, done.err.count("\n"), refused.count) == (1, 1, 1), done.err
    assert DENIED.search(done.err)
    assert moving.there() == [b"one"]


@pytest.mark.parametrize("follow", [False, True])
@pytest.mark.parametrize("binary", [True, False])
def test_a_change_over_tries_a_wrong_password_once(
    moving: Moving, follow: bool, binary: bool
) -> None:
    """Also where the GUID cannot be asked for, so that the scan is the first to log in."""
    moving.create(b"one")
    moving.scan()
    refused = Refused(moving)
    words = ["switch", "127.0.0.1", "--inventory", str(moving.inventory), *refused.words()]
    if not binary:
        words[words.index("--binary-port") + 1] = str(closed_port())
    done = moving(*words, *["--follow"] * follow, "--patience", "1s", stdin=b"wrong\n")
    assert (done.code, refused.count, done.err) == (1, 1, "")
    assert len(DENIED.findall(done.out)) == 1
    assert "switched off for good" not in done.out


@pytest.mark.parametrize(
    "words",
    [
        ("scan", "127.0.0.1:{port}"),
        ("queue", "list", "--machine", "127.0.0.1:{port}"),
        ("queue", "show", "{name}", "--machine", "127.0.0.1:{port}"),
        ("doctor", "--peer", "127.0.0.1:{port}", "--timeout", "5"),
        ("peek", "127.0.0.1/private$/{name}", "--rpc-port", "{port}"),
        ("receive", "127.0.0.1/private$/{name}", "--rpc-port", "{port}", "--follow"),
        ("message", "copy", "{far}", "{path}", "--rpc-port", "{port}"),
        ("message", "move", "{far}", "{path}", "--rpc-port", "{port}"),
        ("message", "move", "{far}", "{path}", "--rpc-port", "{port}", "--lookup-id", "3"),
    ],
    ids=lambda words: " ".join(words[:2]),
)
def test_other_commands_try_a_wrong_password_once(moving: Moving, words: tuple[str, ...]) -> None:
    moving.create(b"one")
    moving.ours.create_queue(moving.path)
    refused = Refused(moving)
    values = {
        "port": moving.far.rpc_port,
        "name": moving.name,
        "path": moving.path,
        "far": rf"DIRECT=TCP:127.0.0.1:{moving.far.binary_port}\private$\{moving.name}",
    }
    given = [word.format(**values) for word in words]
    if given[0] == "message":
        given += ["--home", str(moving.here.home)]
    done = moving.run(*given, *refused.words(ports=False), stdin=b"wrong\n")
    assert done.code in (1, 3), done.out + done.err
    assert DENIED.search(done.out + done.err)
    assert (refused.count, moving.there()) == (1, [b"one"])


def test_a_machine_that_refuses_the_login_keeps_no_other_one_from_its_turn(moving: Moving) -> None:
    with far_machine() as other:
        with ph_module.connect(other.home) as qm:
            qm.create_queue(moving.path + "-other")
            qm.call("DELETE", f"/users/{ADMIN}")
        moving.create(b"one")
        moving.scan()
        inventory = json.loads(moving.inventory.read_text())
        (machine,) = inventory["machines"]
        named = {"path": rf"ALPHA\private$\{moving.name}-other", "format_name": "", "active": True}
        named["format_name"] = f"DIRECT=OS:{named['path']}"
        first = {"port": other.rpc_port, "queues": [named], "guid": ""}
        first["binary_port"] = other.binary_port
        machine["binary_port"] = moving.far.binary_port
        inventory["machines"] = [machine | first, machine]
        moving.inventory.write_text(json.dumps(inventory))
        for path in (moving.path, moving.path + "-other"):
            moving.ours.create_queue(path)
        words = ("--user", ADMIN, "--password-file", moving.password)
        done = moving("pull", "--inventory", moving.inventory, *words)
        assert done.code == 1
        assert len(DENIED.findall(done.err)) == done.err.count("\n") == 1
        assert (moving.bodies(), moving.there()) == ([b"one"], [])


# -- messages that remote read does not give


@contextmanager
def locked(moving: Moving, messages: int) -> Iterator[None]:
    """Messages of the source that a transaction there has received, and not committed."""
    with ph_module.connect(moving.far.home) as program, program.transaction() as tx:
        queue = program.queue(moving.path)
        for _ in range(messages):
            queue.receive(0, tx=tx)
        yield
        tx.abort()


UNREADABLE = (
    "2 messages are there that remote read does not give: damaged, encrypted, locked by a program, "
    "or by another transaction"
)


@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.parametrize("whole", [False, True])
def test_what_cannot_be_read_is_no_success(moving: Moving, keep: bool, whole: bool) -> None:
    moving.create(b"1", b"2", b"3", b"4", b"5", transactional=True)
    moving.scan()
    moving("plan", moving.inventory, "--apply")
    which = ["--inventory", str(moving.inventory)] if whole else [moving.source]
    words = ["pull", *which, "--shared", *moving.login(), *["--keep"] * keep]
    with locked(moving, 2):
        for taken in (3, 0):
            done = moving(*words)
            assert (done.code, UNREADABLE in done.err) == (1, True), done.err
            assert f"{'copied' if keep else 'moved'} {taken} messages" in done.out
        seen = moving("verify", *which, *moving.login())
        assert (seen.code, UNREADABLE in seen.out) == (1, True), seen.out
        assert moving("verify", *which, *moving.login(), "--json").value["unreadable"] == 2
    assert moving(*words).code == 0
    seen = moving("verify", *which, *moving.login(), "--json")
    assert (seen.code, seen.value["unreadable"]) == (0, 0)
    assert sorted(moving.bodies()) == [b"1", b"2", b"3", b"4", b"5"]


def test_a_change_over_does_not_ask_to_pull_what_cannot_be_read(moving: Moving) -> None:
    moving.create(b"1", b"2", b"3", transactional=True)
    moving.scan()
    moving("plan", moving.inventory, "--apply")
    words = ("switch", "127.0.0.1", "--inventory", moving.inventory, *moving.login())
    with locked(moving, 2):
        both = moving(*words)
        assert both.code == 1
        assert "messages there: to do. 1 message in 1 queue:" in both.out
        assert f"unreadable there: to do. {UNREADABLE}, in " in both.out
        assert moving("pull", moving.source, "--shared", *moving.login()).code == 1
        done = moving(*words)
        assert done.code == 1
        assert UNREADABLE in done.out
        assert "Pull them" not in done.out


def test_a_pull_that_was_to_end_early_is_not_about_the_rest(moving: Moving) -> None:
    moving.create(b"1", b"2")
    moving.ours.create_queue(moving.path)
    assert moving("pull", moving.source, "--max", "1", *moving.login()).code == 0


def test_messages_that_come_and_go_meanwhile_are_not_taken_for_unreadable() -> None:
    for counts, given, unreadable in (
        ([0], [], 0),
        ([None], [], None),
        ([5, 5], [5], 0),
        ([5, 7], [6], 0),  # some came
        ([9, 2], [3], 0),  # some were received
        ([5, 8, 4, 4], [4, 4], 0),  # both, once
        ([5, 5, 6, 6, 7, 7], [3, 5, 4], 1),
        ([5, None], [3], None),
    ):
        found = count_unreadable(iter(counts).__next__, iter(given).__next__)
        assert found == unreadable, (counts, given)
    assert count_unreadable(iter([3]).__next__, iter([]).__next__, expected=3) == 0


# -- both doors are of one machine


def test_two_doors_of_different_machines_are_refused(moving: Moving) -> None:
    moving.create(b"one")
    moving.ours.create_queue(moving.path)
    place = ("--rpc-port", moving.far.rpc_port)
    login = ("--user", ADMIN, "--password-file", moving.password)
    with far_machine() as other:
        for verb in ("pull", "verify"):
            done = moving(verb, moving.source, *login, *place, "--binary-port", other.binary_port)
            assert (done.code, moving.there()) == (1, [b"one"])
            assert "127.0.0.1 leads to two machines: the queue manager at port" in done.err
            assert "--binary-port" in done.err
        host = f"127.0.0.1:{moving.far.rpc_port}"
        scanned = ("scan", host, *login, "--output", moving.inventory, "--binary-port")
        seen = moving.run(*scanned, other.binary_port)
        assert seen.code == 1
        assert f"Not asked (port): port {other.binary_port}: 127.0.0.1 leads to two" in seen.out
    assert moving.name not in moving("list").out
    assert moving.run(*scanned, moving.far.binary_port).code == 0
    (machine,) = json.loads(moving.inventory.read_text())["machines"]
    assert (machine["name"], machine["guid"]) == ("ALPHA", moving.theirs.guid)
    assert (machine["port"], machine["binary_port"]) == (
        moving.far.rpc_port, moving.far.binary_port,
    )  # fmt: skip
    assert moving("pull", "--inventory", moving.inventory, *login).code == 0  # by these ports
    assert (moving.bodies(), moving.there()) == ([b"one"], [])


def test_a_machine_with_another_guid_than_the_inventory_has_is_refused(moving: Moving) -> None:
    moving.create(b"one")
    moving.ours.create_queue(moving.path)
    moving.scan()
    inventory = json.loads(moving.inventory.read_text())
    inventory["machines"][0]["guid"] = str(uuid.uuid4())
    moving.inventory.write_text(json.dumps(inventory))
    done = moving("pull", "--inventory", moving.inventory, *moving.login())
    assert (done.code, moving.there()) == (1, [b"one"])
    assert f"is {moving.theirs.guid}, and not {inventory['machines'][0]['guid']}" in done.err


def test_what_was_pulled_under_another_guid_is_said_so(moving: Moving) -> None:
    moving.create(b"one")
    moving.ours.create_queue(moving.path)
    other = str(uuid.uuid4())
    words = [*moving.login(), "--guid", other]
    words[words.index("--binary-port") + 1] = str(closed_port())
    assert moving("pull", moving.source, *words).code == 0
    seen = moving("verify", moving.source, *moving.login())
    assert (seen.code, f"under another GUID, {other}" in seen.out) == (1, True), seen.out


# -- a machine that is away when it is first asked


class Late:
    """A port that leads to another one, once it is open."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._server = socket.socket()
        self._server.bind(("127.0.0.1", 0))
        self.port = int(self._server.getsockname()[1])

    def open(self) -> None:
        self._server.listen()
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._server.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                ours = self._server.accept()[0]
                theirs = socket.create_connection(("127.0.0.1", self._target))
                for one, other in ((ours, theirs), (theirs, ours)):
                    threading.Thread(target=self._pass_on, args=(one, other), daemon=True).start()

    def _pass_on(self, one: socket.socket, other: socket.socket) -> None:
        with suppress(OSError):
            while data := one.recv(65536):
                other.sendall(data)
            other.shutdown(socket.SHUT_WR)


@pytest.mark.parametrize("verb", ["pull", "verify"])
@pytest.mark.parametrize("door", ["--binary-port", "--rpc-port"])
def test_patience_holds_from_the_first_question(
    moving: Moving, verb: str, door: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    moving.create(b"one")
    moving.ours.create_queue(moving.path)
    words = moving.login()
    at = words.index(door) + 1
    late, waits = Late(int(words[at])), []
    words[at] = str(late.port)

    def sleep(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 3:
            late.open()

    monkeypatch.setattr("posthouse.client.remote.pull.patience.time.sleep", sleep)
    monkeypatch.setattr("posthouse.client.remote.pull.patience.TELL_S", 0.0)
    done = moving(verb, moving.source, *words)
    late.close()
    assert done.code == (0 if verb == "pull" else 1), done.err
    assert len(waits) >= 3
    assert "Waiting for it, up to 5 s (--patience)." in done.err
    assert moving.there() == ([] if verb == "pull" else [b"one"])


@pytest.mark.parametrize("verb", ["pull", "verify"])
def test_a_machine_that_stays_away_is_one_line(moving: Moving, verb: str) -> None:
    moving.create(b"one")
    for name in (moving.path + "-2", moving.path + "-3"):
        moving.theirs.create_queue(name)
    moving.scan()
    moving("plan", moving.inventory, "--apply")
    words = moving.login()
    for option in ("--binary-port", "--rpc-port"):
        words[words.index(option) + 1] = str(closed_port())
    words[words.index("--patience") + 1] = "0.3s"
    done = moving(verb, "--inventory", moving.inventory, *words)
    assert (done.code, done.err.count("\n"), done.err[:11]) == (3, 1, "127.0.0.1: "), done.err


@pytest.mark.parametrize("verb", ["pull", "verify"])
def test_a_name_that_nobody_knows_is_not_waited_for(moving: Moving, verb: str) -> None:
    words = moving.login()
    words[words.index("--patience") + 1] = "60s"
    done = moving(verb, f"host.invalid/private$/{moving.name}", *words)
    assert done.code == 3
    assert "Waiting" not in done.err
