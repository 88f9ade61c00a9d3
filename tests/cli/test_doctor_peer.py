"""`posthouse doctor --peer`: what messages to and from another machine need, tried."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any

import pytest

import posthouse as ph
from posthouse.client.remote import peer_check
from posthouse.client.remote.findings import PeerFinding
from posthouse.client.remote.local_checks import OwnSide, UnansweredQueue
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


def test_a_machine_with_the_guid_of_this_one_is_told_of(
    posthouse: Posthouse, server: SecretServing
) -> None:
    """A copy of the home, or a name that leads here."""
    how = ("--binary-port", binary_port(server), "--json", "--home", str(server.home))
    done = posthouse("doctor", "--peer", f"127.0.0.1:{server.rpc_port}", *how)
    identity = findings(done)["identity"]
    assert (done.code, identity["state"]) == (1, "failed")
    assert identity["found"].startswith("127.0.0.1 has the GUID of the queue manager here")


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


def side(**attributes: Any) -> OwnSide:
    hosts = frozenset({"alpha", "127.0.0.1", "10.0.0.5"})
    return OwnSide(**{"name": "ALPHA", "hosts": hosts} | attributes)


def about(
    own: OwnSide, address: str = "10.0.0.5", *peer: str, in_container: bool = False
) -> dict[str, PeerFinding]:
    found = own.findings(address, {"winhost", *peer}, in_container=in_container)
    return {one.check: one for one in found}


def test_the_queue_manager_here_is_asked_for_its_names(
    posthouse: Posthouse, server: SecretServing, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peer_check, "CONTAINER_MARKS", ())
    done = posthouse(
        *("doctor", "--peer", f"127.0.0.1:{server.rpc_port}", "--json"),
        *("--binary-port", binary_port(server), "--home", str(server.home)),
    )
    found = findings(done)
    assert found["own names"]["state"] == "ok"
    assert "ALPHA" in found["own names"]["found"].upper()
    assert "queue manager here" not in found
    without = posthouse(
        *("doctor", "--peer", f"127.0.0.1:{server.rpc_port}", "--json"),
        *("--binary-port", binary_port(server), "--home", "/nonexistent"),
    )
    assert findings(without)["queue manager here"]["state"] == "unknown"


def test_an_address_that_is_not_of_the_queue_manager_here_fails() -> None:
    found = about(side(), "172.17.0.2")["own names"]
    assert found.state == "failed"
    assert "172.17.0.2 into [queue_manager] addresses" in found.remedy
    assert about(side(takes_any_name=True), "172.17.0.2")["own names"].state == "ok"


def test_a_container_without_an_outside_address_is_warned() -> None:
    inside = about(side(), in_container=True)["own names"]
    assert inside.state == "warning"
    assert "accept_any_name" in inside.remedy
    hosts = frozenset({"10.0.0.5", "192.0.2.1"})
    assert about(side(hosts=hosts), in_container=True)["own names"].state == "ok"
    assert about(side())["own names"].state == "ok"


def test_a_private_address_here_and_a_public_one_there_is_a_nat() -> None:
    found = about(side(), "10.0.0.5", "8.8.8.8")["address translation"]
    assert found.state == "warning"
    assert "10.0.0.5 and 8.8.8.8" in found.found
    assert "address translation" not in about(side(), "10.0.0.5", "10.0.0.9")


def test_winbind_that_cannot_be_asked_fails_with_what_to_do() -> None:
    found = about(side(domain_trouble="winbind does not run"))["domain users"]
    assert found.state == "failed"
    assert "winbind does not run" in found.found
    assert "winbindd_priv" in found.remedy
    assert "domain users" not in about(side())


def test_a_long_name_refused_names_and_a_copied_home_are_told() -> None:
    names = tuple(f"name{at}" for at in range(7))
    own = side(name="A-NAME-OF-17-CHAR", refused_names=names, host_change="it was copied")
    found = about(own)
    assert found["name here"].state == "warning"
    assert found["refused names"].found.endswith("name0, name1, name2, name3, name4 and 2 more")
    assert found["identity"].found == "it was copied"
    assert {"name here", "refused names", "identity"}.isdisjoint(about(side()))


@pytest.mark.parametrize(
    ("name", "hops"),
    [
        (r"DIRECT=OS:WINHOST\private$\q", ()),
        (r"DIRECT=TCP:10.9.9.9\private$\q", ()),
        (r"PRIVATE=00112233-4455-6677-8899-AABBCCDDEEFF\4", ("10.9.9.9:1801",)),
        ("PUBLIC=00112233-4455-6677-8899-AABBCCDDEEFF", ("[2001:db8::9]:1801",)),
    ],
)
def test_messages_without_an_acknowledgment_are_told(name: str, hops: tuple[str, ...]) -> None:
    waits = UnansweredQueue(name, 3, 60, hops)
    found = about(side(unanswered=(waits,)), "10.0.0.5", "10.9.9.9", "2001:db8::9")
    told = found[f"acknowledgments, {name}"]
    assert told.state == "failed"
    assert "ANONYMOUS LOGON" in told.remedy
    young = UnansweredQueue(name, 3, 59, hops)
    other = UnansweredQueue(r"DIRECT=OS:elsewhere\private$\q", 3, 60, ("10.7.7.7:1801",))
    quiet = about(side(unanswered=(young, other)), "10.0.0.5", "10.9.9.9", "2001:db8::9")
    assert not [check for check in quiet if check.startswith("acknowledgments")]


@pytest.mark.parametrize(
    "words",
    [
        ["--peer", "x", "--store", "."],
        ["--peer", "x:y"],
        ["--user", "me"],
        ["--peer", "x", "--password-file", "f"],
    ],
)
def test_wrong_usage_is_told(posthouse: Posthouse, words: list[str]) -> None:
    assert posthouse("doctor", *words).code == 2
