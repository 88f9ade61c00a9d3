"""Names that real servers find in the directory: public queues, lists, aliases, users who sign."""

from __future__ import annotations

import io
import json
import sys
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, redirect_stderr, redirect_stdout
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import posthouse
from posthouse.cli import main
from tests.process.offices import Office, outgoing, wait_for_delivery, wait_until
from tests.process.rpc_house import PASSWORD, USER, add_user, port_of

SERVICE = str(uuid.uuid4())


class Desk:
    """ALPHA sends, BETA has the queues; an operator takes directories from one to the other."""

    def __init__(self, folder: Path, running: ExitStack) -> None:
        self.folder = folder
        self.alpha, self.beta = (Office(folder / name, name, running) for name in ("ALPHA", "BETA"))
        self.beta.qm.create_queue(r"BETA\orders", label="Orders", type_id=SERVICE)
        self.beta.qm.create_queue(r"BETA\till")
        add_user(self.beta.qm)
        for queue in ("orders", "till"):
            self.say(self.beta, "queue", "grant", rf"BETA\{queue}", USER, "full")
        self.take_over(self.beta, self.alpha)
        at = f"127.0.0.1:{self.beta.port}"
        self.say(
            self.alpha, "directory", "machine", "add", "BETA", self.beta.qm.guid, "--address", at
        )

    def say(self, office: Office, *words: str, typed: str = "", code: int = 0) -> str:
        """A command line of an operator, and what it says."""
        said = io.StringIO()
        with pytest.MonkeyPatch.context() as environment:
            environment.setenv("POSTHOUSE_HOME", str(office.server.home))
            environment.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(typed.encode())))
            with redirect_stdout(said), redirect_stderr(said):
                ended = main.run(list(words))
        assert ended == code, (words, said.getvalue())
        return said.getvalue()

    def take_over(self, source: Office, target: Office) -> None:
        file = str(self.folder / "directory.toml")
        self.say(source, "directory", "export", file)
        self.say(target, "directory", "import", file)

    def sent_to(self, name: str) -> str:
        """What a list or an alias of ALPHA's directory is sent to by."""
        for kind in ("list", "alias"):
            for line in self.say(self.alpha, "directory", kind, "list", "--json").splitlines():
                if (part := json.loads(line))["name"] == name:
                    return f"DL={part['guid']}"
        raise AssertionError(name)

    @property
    def rpc_port(self) -> int:
        ready = json.loads((self.folder / "BETA" / "ready.json").read_text())
        return port_of(ready["endpoints"]["rpc"])


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    with ExitStack() as running:
        yield Desk(tmp_path_factory.mktemp("desk"), running)


def test_a_public_queue_is_sent_to_by_its_path(desk: Desk) -> None:
    desk.alpha.qm.queue(r"beta\ORDERS").send(b"by path", recoverable=True)
    message = desk.beta.qm.queue(r"BETA\orders").receive(timeout=60)
    assert message.body == b"by path"
    assert message.destination.startswith("PUBLIC=")
    assert [queue.format_name for queue in outgoing(desk.alpha.qm)] == [message.destination]


def test_a_list_of_lists_and_aliases_reaches_each_queue_once(desk: Desk) -> None:
    desk.say(desk.alpha, "directory", "alias", "add", "Till", r"BETA\till")
    desk.say(desk.alpha, "directory", "list", "add", "Inner", "--member", "Till")
    members = "--member", "Inner", "--member", r"BETA\orders", "--member", r"BETA\till"
    desk.say(desk.alpha, "directory", "list", "add", "Outer", *members)
    desk.alpha.qm.queue(desk.sent_to("Outer")).send(b"to all", recoverable=True)
    desk.alpha.qm.queue(desk.sent_to("Till")).send(b"to one", recoverable=True)
    orders, till = (desk.beta.qm.queue(rf"BETA\{name}") for name in ("orders", "till"))
    assert orders.receive(timeout=60).body == b"to all"
    found = sorted(till.receive(timeout=60).body for _ in range(2))
    assert found == [b"to all", b"to one"]
    wait_for_delivery([desk.alpha])
    assert (orders.count(), till.count()) == (0, 0)


def test_programs_find_public_queues(desk: Desk) -> None:
    qm, now = desk.alpha.qm, datetime.now(UTC)
    (found,) = qm.find_queues(label="orders")
    assert (found.path, found.machine_guid) == (r"BETA\orders", desk.beta.qm.guid)
    assert [one.path for one in qm.find_queues(type_id=SERVICE)] == [r"BETA\orders"]
    later = now + timedelta(days=1)
    both = qm.find_queues(
        machine="beta", created_before=later, modified_after=now.replace(year=2001)
    )
    assert [one.path for one in both] == [r"BETA\orders", r"BETA\till"]
    assert qm.find_queues(created_after=later) == []
    assert len(qm.find_queues(limit=1)) == 1
    with pytest.raises(posthouse.QueueError):
        qm.find_queues(type_id="orders")


def test_a_public_queue_elsewhere_is_read_over_remote_read(desk: Desk) -> None:
    (found,) = desk.alpha.qm.find_queues(label="orders")
    place = desk.alpha.qm.call("GET", f"/directory/place?queue={found.format_name}")
    assert place == {
        "format_name": found.format_name,
        "path": r"BETA\orders",
        "machine": "BETA",
        "hosts": ["127.0.0.1"],
    }
    orders = desk.beta.qm.queue(r"BETA\orders")
    for body in (b"one", b"two", b"three"):
        orders.send(body)
    refused = desk.say(desk.alpha, "receive", found.format_name, code=1)
    assert "remote read" in refused
    login = "--user", USER, "--rpc-port", str(desk.rpc_port)
    told = desk.say(desk.alpha, "receive", found.format_name, *login, typed=f"{PASSWORD}\n")
    assert told.endswith("one\n")
    far = {"user": USER, "password": PASSWORD, "rpc_port": desk.rpc_port}
    with posthouse.msmq("127.0.0.1", **far) as beta:  # type: ignore[arg-type]
        assert beta.queue(found.format_name).receive(0).body == b"two"
        assert beta.queue(r"BETA\orders").receive(0).body == b"three"
    nobody = desk.say(desk.alpha, "receive", f"PUBLIC={uuid.uuid4()}", *login, code=1)
    assert "directory queue list" in nobody


@pytest.mark.spec("MS-MQDMPR 3.1.1.15/1")
def test_a_user_of_the_directory_is_known_by_his_signature(desk: Desk) -> None:
    """Who signed is looked up in the directory of the receiver, and forgotten with their entry."""
    alpha, beta = desk.alpha, desk.beta
    signed = beta.qm.create_queue(r"BETA\signed", authenticated=True)
    desk.say(alpha, "user", "add", "ada", "--no-password")
    desk.say(alpha, "cert", "make", "--user", "ada", "--bits", "1024")
    file = str(desk.folder / "ada.json")
    desk.say(alpha, "cert", "export", file, "--user", "ada")
    sid = alpha.qm.call("GET", "/users/ada")["sid"]
    desk.say(beta, "directory", "user", "add", sid, "--name", "Ada", "--certificate", file)
    desk.say(beta, "queue", "grant", signed.name, sid, "send")
    identifier = signed.properties().guid_name
    desk.say(alpha, "directory", "queue", "add", signed.name, identifier.partition("=")[2])
    token = alpha.qm.call("POST", "/tokens", {"user": "ada", "role": "operate"})["token"]
    admin = json.loads((desk.folder / "ALPHA" / "ready.json").read_text())["endpoints"]["admin"]
    with posthouse.connect(url=f"http://{admin}", token=token) as client:
        client.queue(signed.name).send(b"from Ada", sign=True)
        message = signed.receive(timeout=60)
        assert (message.body, message.authenticated, message.sender) == (b"from Ada", True, sid)
        desk.say(beta, "directory", "user", "remove", "ada", "--yes")
        client.queue(signed.name).send(b"not any more", sign=True)

    def refused() -> list[str]:
        return [str(one["name"]) for one in beta.qm.call("GET", "/status")["refusals"]]

    wait_until(lambda: "nack-bad-signature" in refused(), refused)
    assert signed.count() == 0


@pytest.mark.spec("MS-MQQB 3.1.7.1.5/3")
def test_a_body_is_encrypted_for_the_keys_that_the_directory_has(desk: Desk) -> None:
    alpha, beta = desk.alpha, desk.beta
    orders = beta.qm.queue(r"BETA\orders")
    name = orders.properties().guid_name
    alpha.qm.queue(name).send(b"secret", encrypt=True, dead_letter=True)  # BETA has no key yet
    dead = alpha.qm.queue(r".\system$;deadletter").receive(timeout=60)
    assert dead.body == b"secret"
    desk.say(beta, "cert", "make", "--bits", "1024")
    for keys in ("of the directory", "of the operator"):
        if keys == "of the directory":
            desk.take_over(beta, alpha)
        else:
            file = str(desk.folder / "beta.json")
            desk.say(beta, "cert", "export", file)
            desk.say(alpha, "cert", "trust", file)
        alpha.qm.queue(name).send(keys.encode(), encrypt=True)
        message = orders.receive(timeout=60)
        assert (message.body, message.encrypted) == (keys.encode(), True)
    desk.say(beta, "cert", "remove", beta.qm.guid, "--yes")
    alpha.qm.queue(name).send(b"nobody can read it", encrypt=True)

    def refused() -> list[str]:
        return [str(one["name"]) for one in beta.qm.call("GET", "/status")["refusals"]]

    wait_until(lambda: "nack-bad-encryption" in refused(), refused)


def test_a_computer_with_dots_may_be_known_by_its_name_in_dns(desk: Desk) -> None:
    place = desk.alpha.qm.call("GET", r"/directory/place?queue=far.example.com\orders")
    assert place["format_name"] == r"DIRECT=OS:far.example.com\orders"


def test_what_leads_nowhere_waits_with_its_reason(desk: Desk) -> None:
    """A machine without an address whose name nobody knows, and one in a site that is not there."""
    lost, gone = str(uuid.uuid4()), str(uuid.uuid4())
    name = f"PRIVATE={lost}\\00000007"
    desk.say(desk.alpha, "directory", "machine", "add", "no-such-host-here", lost)
    desk.alpha.qm.queue(name).send(b"patience")

    def shows(reason: str) -> None:
        def shown() -> str:
            return desk.say(desk.alpha, "queue", "show", name)

        wait_until(lambda: reason in shown(), shown)

    shows("no-such-host-here")
    desk.say(desk.alpha, "directory", "site", "add", "North")
    desk.say(desk.alpha, "directory", "machine", "add", "no-such-host-here", lost, "--site", gone)
    own = desk.alpha.qm.guid
    desk.say(desk.alpha, "directory", "machine", "add", "ALPHA", own, "--site", "North")
    shows("no site of ALPHA has a routing server")
    (waiting,) = [queue for queue in outgoing(desk.alpha.qm) if queue.format_name == name]
    assert waiting.messages == 1
