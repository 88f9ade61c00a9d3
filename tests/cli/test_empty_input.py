"""Every command with nothing on standard input, as cron and `ssh` without a terminal give it."""

from __future__ import annotations

import inspect
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

import posthouse as library
from posthouse.cli.main import program
from posthouse.cli.verbs import commands
from posthouse.client.remote.inventory import Inventory, MachineInventory, QueueInventory
from posthouse.model.errors import UnsupportedOperation
from tests.cli.conftest import Posthouse, Result
from tests.client.read_peer import Peer

COMMANDS: dict[str, Any] = dict(commands(program(), "posthouse"))
FAR = r"DIRECT=OS:127.0.0.1\private$\orders"
NOWHERE = "127.0.0.1:1"
VALUES = {  # of what has to be given, by the word in the help; all others are "orders"
    "ADDRESS": "http://127.0.0.1:1",
    "BATCH": "1",
    "FILE": "-",
    "GUID": "5b7a4a3e-7d0c-4f5e-9a51-0f5a4e6c2b11",
    "INVENTORY": "-",
    "NAME": "somebody",
    "N": "1",
    "NUMBER": "1",
    "POSITION": "1",
    "PULL...": "1",
    "LOOKUPID": "1",
    "RIGHTS": "peek",
    "SHELL": "bash",
    "earliest|latest|ID": "latest",
    "move|copy|delete|resend|return": "delete",
}
BRIEF = {
    "posthouse receive": ["--timeout", "0"],
    "posthouse top": ["--rounds", "1"],
}
# They work for minutes, or until they are stopped. None of them reads standard input.
LONG = {"posthouse bench", "posthouse demo", "posthouse pipeline watch", "posthouse selftest"}
MACHINES = {  # the words with which a command asks another machine
    "posthouse doctor": ["--peer", NOWHERE],
    "posthouse exporter": [NOWHERE],
    "posthouse migrate pull": [FAR],
    "posthouse migrate switch": ["127.0.0.1", "--inventory", "scan.json"],
    "posthouse migrate verify": [FAR],
    "posthouse queue list": ["--machine", NOWHERE],
    "posthouse queue show": ["orders", "--machine", NOWHERE],
    "posthouse scan": [NOWHERE],
}
NO_PASSWORD = "holds no password"


def options(name: str) -> set[str]:
    return {option for parameter in COMMANDS[name].params for option in parameter.opts}


SPARK = {name for name in COMMANDS if "--master" in options(name)}
LOGINS = sorted(
    name
    for name in COMMANDS
    if "--user" in options(name) and options(name) & {"--mechanism", "--password-file"}
)


def line_of(name: str) -> list[str]:
    """A command line with all that has to be given."""
    words = name.split()[1:]
    for parameter in COMMANDS[name].params:
        if parameter.required:
            if parameter.param_type_name == "option":
                words.append(parameter.opts[0])
            words.append(VALUES.get(parameter.metavar, "orders"))
    return words + BRIEF.get(name, [])


def login_line(name: str) -> list[str]:
    """A command line that asks another machine as a user."""
    needed = [p for p in COMMANDS[name].params if p.required]
    names = [FAR if p.metavar in ("SRC", "PATH") else "orders" for p in needed]
    return [*name.split()[1:], *MACHINES.get(name, names), "--user", "me"]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What commands write goes into a folder of the test."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    queue = QueueInventory(r"far\private$\orders", FAR)
    far = MachineInventory("127.0.0.1", "2026-01-01T00:00:00Z", reached=True, queues=[queue])
    inventory = Inventory("posthouse inventory", 1, "2026-01-01T00:00:00Z", [far])
    (tmp_path / "scan.json").write_bytes(msgspec.json.encode(inventory))
    return tmp_path


@pytest.mark.parametrize("name", sorted(COMMANDS.keys() - LONG - SPARK))
def test_no_command_fails_in_words_of_python(ph: Posthouse, name: str) -> None:
    said: Result = ph(*line_of(name))  # an exception would come out of it
    assert said.code in (0, 1, 2, 3)
    assert "Traceback" not in said.err
    assert said.err or said.code == 0


@pytest.mark.parametrize("name", sorted(LONG | SPARK))
def test_those_that_are_not_tried_read_no_standard_input(name: str) -> None:
    module = sys.modules[inspect.unwrap(COMMANDS[name].callback).__module__]
    source = inspect.getsource(module)
    assert not [
        word for word in ("stdin", "getpass", "read_secret", "read_password") if word in source
    ]


@pytest.mark.parametrize("given", [b"", b"\n", b"\r\n"])
@pytest.mark.parametrize("name", LOGINS)
def test_a_login_without_a_password_is_wrong_usage(ph: Posthouse, name: str, given: bytes) -> None:
    said = ph(*login_line(name), stdin=given)
    assert (said.code, said.out) == (2, "")
    assert f"standard input {NO_PASSWORD}" in said.err


@pytest.mark.parametrize("name", [name for name in LOGINS if "--password-file" in options(name)])
def test_an_empty_file_is_no_password(ph: Posthouse, name: str, folder: Path) -> None:
    (folder / "empty").write_text("\n")
    said = ph(*login_line(name), "--password-file", "empty", stdin=b"secret\n")
    assert (said.code, said.out) == (2, "")
    assert f"empty {NO_PASSWORD}" in said.err


@pytest.mark.parametrize("mechanism", ["ntlm", "negotiate"])
def test_only_kerberos_does_without_a_password(ph: Posthouse, mechanism: str) -> None:
    assert NO_PASSWORD in ph("peek", FAR, "--user", "me", "--mechanism", mechanism).err
    with Peer() as peer:
        asked = ("peek", FAR, "--user", "me", "--rpc-port", str(peer.port))
        said = ph(*asked, "--mechanism", "kerberos")
    assert said.code == 1
    assert "Kerberos" in said.err


@pytest.mark.parametrize("mechanism", ["negotiate", "kerberos"])
def test_a_library_that_is_missing_is_a_refusal(
    mechanism: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "gssapi", None)
    with (
        Peer() as peer,
        library.msmq(
            "127.0.0.1", user="me", password="", rpc_port=peer.port, mechanism=mechanism
        ) as manager,
        pytest.raises(UnsupportedOperation, match="kerberos"),
    ):
        manager.queue(FAR).peek()
