"""`posthouse doctor --peer`: what messages to and from another machine need, tried."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any

import pytest

import posthouse as ph
from posthouse.client.remote import peer_check
from tests.cli.conftest import Posthouse, Result
from tests.client.read_serving import PASSWORD, USER, SecretServing, read_serving


@pytest.fixture(scope="module")
def server() -> Iterator[SecretServing]:
    with read_serving(SecretServing) as made:
        with ph.connect(made.home) as qm:
            body = {"name": "boss", "doors": ["rpc"], "password": PASSWORD}
            qm.call("POST", "/users", body | {"administrator": True})
        assert isinstance(made, SecretServing)
        yield made


def closed_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])


def binary_port(server: SecretServing) -> str:
    return str(server.binary_port)


def findings(done: Result) -> dict[str, Any]:
    return {line["check"]: line for line in done.lines}


def test_a_machine_that_answers_everything(posthouse: Posthouse, server: SecretServing) -> None:
    done = posthouse(
        *("doctor", "--peer", f"127.0.0.1:{server.rpc_port}", "--user", "boss", "--json"),
        *("--binary-port", binary_port(server)),
        stdin=PASSWORD.encode(),
    )
    found = findings(done)
    assert found["messages"]["state"] == "ok"
    assert found["remote read"]["state"] == "ok"
    assert found["management"]["state"] == "ok"
    assert found["way back"]["state"] == "unknown"  # nobody can see it from here
    assert "127.0.0.1" in found["way back"]["found"]
    assert "ANONYMOUS LOGON" in found["right to send"]["remedy"]
    assert "IgnoreOSNameValidation" in found["names there"]["remedy"]
    assert found["mapper, remote read"]["state"] == "warning"  # port 135 is closed here
    assert done.code == 0, done.out


def test_logins_and_rights_are_told_apart(posthouse: Posthouse, server: SecretServing) -> None:
    how = ("--binary-port", binary_port(server), "--json")
    peer = f"127.0.0.1:{server.rpc_port}"
    wrong = posthouse("doctor", "--peer", peer, "--user", USER, *how, stdin=b"wrong")
    assert wrong.code == 1
    assert findings(wrong)["management"]["found"].startswith("login:")
    plain = posthouse("doctor", "--peer", peer, "--user", USER, *how, stdin=PASSWORD.encode())
    assert findings(plain)["remote read"]["state"] == "ok"
    assert findings(plain)["management"]["found"].startswith("rights:")
    assert plain.code == 1


def test_a_machine_that_is_not_there(posthouse: Posthouse) -> None:
    port = str(closed_port())
    done = posthouse("doctor", "--peer", f"127.0.0.1:{port}", "--binary-port", port, "--json")
    found = findings(done)
    assert done.code == 1
    assert found["messages"]["state"] == "failed"
    assert "1801" in found["messages"]["remedy"]
    assert found["management"]["found"].startswith("port:")
    assert "way back" not in found
    told = posthouse("doctor", "--peer", f"127.0.0.1:{port}", "--binary-port", port)
    assert "FAILED   messages: no session" in told.out


def test_a_name_without_an_address_ends_it(posthouse: Posthouse) -> None:
    done = posthouse("doctor", "--peer", "no-such-host.invalid", "--json")
    assert done.code == 1
    assert [line["check"] for line in done.lines] == ["name"]


def test_long_names_containers_and_closed_doors_here_are_warned_of(
    posthouse: Posthouse,
    server: SecretServing,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Any,
) -> None:
    mark = tmp_path / "containerenv"
    mark.touch()
    monkeypatch.setattr(peer_check, "CONTAINER_MARKS", (str(mark),))
    monkeypatch.setattr(socket, "gethostname", lambda: "a-name-of-17-char.example.com")
    done = posthouse(
        *("doctor", "--peer", f"127.0.0.1:{server.rpc_port}", "--json"),
        *("--binary-port", binary_port(server)),
    )
    found = findings(done)
    assert found["name here"]["state"] == "warning"
    assert "name there" not in found
    assert found["address"]["state"] == "warning"
    assert "[queue_manager] addresses" in found["address"]["remedy"]


@pytest.mark.parametrize(
    "words",
    [
        ["--peer", "x", "--home", "."],
        ["--peer", "x", "--store", "."],
        ["--peer", "x:y"],
        ["--user", "me"],
        ["--peer", "x", "--password-file", "f"],
    ],
)
def test_wrong_usage_is_told(posthouse: Posthouse, words: list[str]) -> None:
    assert posthouse("doctor", *words).code == 2
