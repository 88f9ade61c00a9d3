"""`posthouse migrate` on bad days: refused logins, unreadable messages, machines that are away."""

from __future__ import annotations

import json
import re
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
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
