"""Messages from one queue manager to another, as people send them: names, lists, hold-ups."""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal
from urllib.request import Request, urlopen

import pytest

import posthouse
from posthouse.cli.main import run
from posthouse.engine.settings import EngineSettings
from tests.client.neighbours import QUICK, Neighbours, neighbours, until
from tests.client.serving import serving
from tests.engine.settings import engine_settings
from tests.process.offices import free_port
from tests.support.stranger_socket import has_ipv6

DELIVERIES = ("express", "recoverable", "transactional")


@pytest.fixture(scope="module")
def pair() -> Iterator[Neighbours]:
    with neighbours() as both:
        yield both


def command(pair: Neighbours, *words: str) -> int:
    """A command at ALPHA."""
    return run([*words, "--home", str(pair.here.home)])


# -- names


def direct(pair: Neighbours, queue: posthouse.Queue) -> str:
    return pair.name_of(queue)


def by_host_name(pair: Neighbours, queue: posthouse.Queue) -> str:
    return rf"DIRECT=OS:localhost:{pair.there.binary_port}\{queue.name[2:]}"


def by_guid(pair: Neighbours, queue: posthouse.Queue) -> str:
    return queue.properties().guid_name


@pytest.mark.spec("MS-MQQB 3.1.7.4/1", "MS-MQQB 3.1.7.4/2", "MS-MQQB 3.1.7.4/5")
@pytest.mark.parametrize("delivery", DELIVERIES)
@pytest.mark.parametrize("naming", [direct, by_host_name, by_guid])
def test_a_queue_elsewhere_is_sent_to_by_any_of_its_names(
    pair: Neighbours, naming: Callable[[Neighbours, posthouse.Queue], str], delivery: str
) -> None:
    queue = pair.target(transactional=delivery == "transactional")
    meet(pair)
    name = naming(pair, queue)
    identifier = pair.near.queue(name).send(
        {"customer": 7},
        label="order 1",
        recoverable=delivery == "recoverable",
        transactional=delivery == "transactional",
    )
    message = queue.receive(timeout=60)
    assert (message.id, message.delivery) == (identifier, delivery)
    assert (message.label, message.json()) == ("order 1", {"customer": 7})
    pair.until_delivered(name)


def meet(pair: Neighbours) -> None:
    """A first message, from which ALPHA knows the address behind BETA's GUID."""
    queue = pair.target()
    pair.near.queue(pair.name_of(queue)).send(b"hello")
    queue.receive(timeout=60)


@pytest.mark.skipif(not has_ipv6(), reason="this machine has no IPv6 loopback")
@pytest.mark.parametrize("delivery", DELIVERIES)
def test_an_address_may_be_of_ipv6(pair: Neighbours, home: Path, path: str, delivery: str) -> None:
    engine = EngineSettings("GAMMA")
    with (
        serving(home, binary=QUICK, engine=engine, address="::1") as third,
        posthouse.connect(third.home) as client,
    ):
        queue = client.create_queue(path, transactional=delivery == "transactional")
        name = rf"DIRECT=TCP:[::1]:{third.binary_port}\{path[2:]}"
        options = [] if delivery == "express" else [f"--{delivery}"]
        assert command(pair, "send", name, "--body", "hello", *options) == 0
        message = queue.receive(timeout=60)
        assert (message.body, message.delivery) == (b"hello", delivery)
        pair.until_delivered(name)


@pytest.mark.parametrize("delivery", DELIVERIES)
def test_the_command_sends_elsewhere(
    pair: Neighbours, delivery: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    queue = pair.target(transactional=delivery == "transactional")
    (tmp_path / "lines").write_text("one\ntwo\nthree\n")
    options = [] if delivery == "express" else [f"--{delivery}"]
    lines = ["--lines", str(tmp_path / "lines"), "--label", "line", "--json"]
    capsys.readouterr()
    assert command(pair, "send", pair.name_of(queue), *lines, *options) == 0
    sent = [json.loads(line)["id"] for line in capsys.readouterr().out.splitlines()]
    messages = [queue.receive(timeout=60) for _ in range(3)]
    assert [message.id for message in messages] == sent
    assert [message.body for message in messages] == [b"one", b"two", b"three"]
    assert {message.label for message in messages} == {"line"}


def test_a_transaction_spans_queues_here_and_there(pair: Neighbours) -> None:
    here = pair.near.create_queue(pair.path("here"), transactional=True)
    there = [pair.target(transactional=True) for _ in range(2)]
    with pair.near.transaction() as tx:
        here.send(b"0", tx=tx)
        for number, queue in enumerate(there, 1):
            pair.near.queue(pair.name_of(queue)).send(b"%d" % number, tx=tx)
    assert [queue.receive(timeout=60).body for queue in (here, *there)] == [b"0", b"1", b"2"]
    aborted = pair.near.transaction().begin()
    pair.near.queue(pair.name_of(there[0])).send(b"never", tx=aborted)
    aborted.abort()
    pair.near.queue(pair.name_of(there[0])).send(b"after", transactional=True)
    assert there[0].receive(timeout=60).body == b"after"


@pytest.mark.parametrize("naming", [direct, by_guid])
def test_reading_elsewhere_says_where_it_can_be_done(
    pair: Neighbours, naming: Callable[[Neighbours, posthouse.Queue], str]
) -> None:
    name = naming(pair, pair.target())
    with pytest.raises(posthouse.QueueNotFound, match="a queue of another computer"):
        pair.near.queue(name).receive(timeout=0)
    with pytest.raises(posthouse.QueueNotFound, match="there is no queue"):
        pair.near.queue(pair.path()).receive(timeout=0)


# -- many destinations


@pytest.mark.parametrize("delivery", DELIVERIES)
def test_one_send_goes_to_every_name_of_a_list(pair: Neighbours, delivery: str) -> None:
    transactional = delivery == "transactional"
    here = pair.near.create_queue(pair.path("here"), transactional=transactional)
    there = [pair.target(transactional=transactional) for _ in range(2)]
    names = [
        pair.name_of(there[0]),
        rf"DIRECT=OS:ALPHA\{here.name[2:]}",
        by_host_name(pair, there[1]),
    ]
    answers = pair.near.create_queue(pair.path("answers"))
    options = [] if delivery == "express" else [f"--{delivery}"]
    options += ["--admin-queue", answers.name, "--ack", "pos-arrival"]
    assert command(pair, "send", ",".join(names), "--body", "to all", *options) == 0
    messages = [queue.receive(timeout=60) for queue in (here, *there)]
    assert {message.body for message in messages} == {b"to all"}
    assert [answers.receive(timeout=60).class_name for _ in messages] == ["ack-reach-queue"] * 3
    assert [queue.count() for queue in (here, *there)] == [0, 0, 0]


def test_a_list_is_not_sent_at_all_where_a_queue_here_is_missing(pair: Neighbours) -> None:
    queue = pair.target()
    names = rf"{pair.name_of(queue)},DIRECT=OS:ALPHA\private$\nowhere"
    with pytest.raises(posthouse.QueueError):
        pair.near.queue(names).send(b"x", recoverable=True)
    pair.near.queue(pair.name_of(queue)).send(b"alone", recoverable=True)
    assert queue.receive(timeout=60).body == b"alone"


# -- reports


@pytest.mark.spec("MS-MQQB 3.1.7.1.7/1", "MS-MQQB 3.1.7.1.7/3", "MS-MQQB 3.1.5.8.9/5")
def test_the_sender_reports_a_traced_message_to_a_public_queue(pair: Neighbours) -> None:
    reports = pair.near.create_queue(r".\reports")
    queue = pair.target()
    name = reports.properties().guid_name
    sent = pair.near.queue(pair.name_of(queue)).send(b"x", recoverable=True, trace=name)
    report = reports.receive(timeout=60)
    assert report.class_name == "report"
    told = report.body.decode("utf-16-le")
    assert f"<MESSAGE ID>{int(sent.rpartition(chr(92))[2]):08X}</MESSAGE ID>" in told
    assert f"<TARGET QUEUE>{pair.name_of(queue)}</TARGET QUEUE>" in told
    assert "<NEXT HOP>127.0.0.1</NEXT HOP>" in told
    assert queue.receive(timeout=60).body == b"x"  # whose own report leads nowhere there


@pytest.mark.spec("MS-MQQB 3.1.5.8.9/1", "MS-MQQB 3.1.5.8.9/4")
def test_the_receiver_reports_a_traced_message_to_a_public_queue(pair: Neighbours) -> None:
    reports = pair.far.create_queue(r".\reports")
    name = reports.properties().guid_name
    queue = pair.target(transactional=True)
    options = ["--transactional", "--trace", name]
    assert command(pair, "send", pair.name_of(queue), "--body", "x", *options) == 0
    told = reports.receive(timeout=60).body.decode("utf-16-le")
    assert f"<TARGET QUEUE>{pair.name_of(queue)}</TARGET QUEUE>" in told
    assert "NEXT HOP" not in told


# -- hold-ups


@pytest.mark.spec("MS-MQQB 3.1.7.13/3", "MS-MQQB 3.1.7.14/1", "MS-MQQB 3.1.7.12/2")
def test_a_paused_queue_sends_when_it_is_resumed(pair: Neighbours) -> None:
    queue, other = pair.target(transactional=True), pair.target()
    name = pair.name_of(queue)
    pair.near.queue(name).send(b"1", transactional=True)
    assert queue.receive(timeout=60).body == b"1"
    pair.until_delivered(name)
    assert command(pair, "queue", "pause", name) == 0
    pair.near.queue(name).send_many([b"2", b"3"], transactional=True)
    pair.near.queue(pair.name_of(other)).send(b"past it", recoverable=True)
    assert other.receive(timeout=60).body == b"past it"
    shown, outgoing = pair.outgoing(name)
    assert (shown.state, outgoing.unsent, queue.count()) == ("on_hold", 2, 0)
    assert command(pair, "queue", "resume", name) == 0
    assert [queue.receive(timeout=60).body for _ in range(2)] == [b"2", b"3"]


def test_offline_nothing_leaves_and_online_everything_does(pair: Neighbours) -> None:
    queue, here = pair.target(), pair.near.create_queue(pair.path("here"))
    name = pair.name_of(queue)
    pair.near.queue(name).send(b"1", recoverable=True)
    assert queue.receive(timeout=60).body == b"1"
    pair.until_delivered(name)
    assert command(pair, "offline") == 0
    pair.near.queue(name).send(b"2", recoverable=True)
    here.send(b"local queues stay usable")
    assert here.receive(timeout=0).body == b"local queues stay usable"
    assert pair.outgoing(name)[1].unsent == 1
    assert command(pair, "online") == 0
    assert queue.receive(timeout=60).body == b"2"


def test_a_purge_withdraws_what_was_not_sent(pair: Neighbours) -> None:
    queue = pair.target(transactional=True)
    name = pair.name_of(queue)
    assert command(pair, "offline") == 0
    pair.near.queue(name).send_many([b"1", b"2", b"3"], transactional=True, dead_letter=True)
    assert command(pair, "queue", "purge", name, "--yes") == 0
    letters = pair.near.queue(r".\system$;deadxact")
    found = [one for one in letters.browse() if one.destination == name]
    assert {one.class_name for one in found} == {"nack-purged"}
    assert [one.body for one in found] == [b"1", b"2", b"3"]
    pair.near.queue(name).send(b"4", transactional=True)
    assert command(pair, "online") == 0
    assert queue.receive(timeout=60).body == b"4"
    pair.until_delivered(name)
    assert pair.outgoing(name)[1].failed == 3


@pytest.mark.spec("MS-MQQB 3.1.4.1/1", "MS-MQQB 3.1.1.1.1.5/1")
def test_what_waits_outlives_the_sender(home: Path, path: str) -> None:
    port, folder = free_port(), Path(tempfile.mkdtemp(prefix="ph-"))
    far, near = EngineSettings("DELTA"), EngineSettings("GAMMA")
    name = rf"DIRECT=TCP:127.0.0.1:{port}\{path[2:]}"
    with serving(home, binary=QUICK, engine=near), posthouse.connect(home) as client:
        client.queue(name).send(b"recoverable", recoverable=True)
        client.queue(name + "-tx").send_many([b"1", b"2"], transactional=True)
    with (
        serving(folder, binary=QUICK, engine=far, binary_port=port),
        posthouse.connect(folder) as there,
    ):
        plain, ordered = (
            there.create_queue(path),
            there.create_queue(path + "-tx", transactional=True),
        )
        with serving(home, binary=QUICK, engine=near), posthouse.connect(home) as client:
            assert plain.receive(timeout=60).body == b"recoverable"
            assert [ordered.receive(timeout=60).body for _ in range(2)] == [b"1", b"2"]
            assert {one.format_name for one in client.queues(outgoing=True)} == {name, name + "-tx"}
    shutil.rmtree(folder)


def test_a_hardened_machine_sends_nothing_this_way(home: Path) -> None:
    name = r"DIRECT=TCP:127.0.0.1:1\private$\orders"
    engine = engine_settings("ALPHA", hardened=True)
    with serving(home, engine=engine), posthouse.connect(home) as client:
        client.queue(name).send(b"x", recoverable=True)
        shown = client.queue(name).properties()
        assert (shown.state, shown.messages, shown.connections) == ("locked", 1, [])


# -- signed and encrypted


@pytest.fixture(scope="module")
def alice(pair: Neighbours, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The token of a user of ALPHA whose signature BETA knows; BETA's keys are known to ALPHA."""
    folder = tmp_path_factory.mktemp("keys")
    keys, user = str(folder / "beta.json"), str(folder / "alice.json")
    beta, quick = ("--home", str(pair.there.home)), ("--bits", "1024")
    assert command(pair, "user", "add", "alice", "--no-password") == 0
    assert command(pair, "cert", "make", "--user", "alice", *quick) == 0
    assert command(pair, "cert", "export", user, "--user", "alice") == 0
    assert run(["cert", "trust", user, *beta]) == 0
    assert run(["cert", "make", *quick, *beta]) == 0
    assert run(["cert", "export", keys, *beta]) == 0
    assert command(pair, "cert", "trust", keys) == 0
    return token(pair, user="alice", role="operate")


def token(pair: Neighbours, **whose: str) -> str:
    return str(pair.near.call("POST", "/tokens", whose)["token"])


def sid_of_alice(pair: Neighbours) -> str:
    return str(pair.near.call("GET", "/users/alice")["sid"])


@pytest.mark.spec("MS-MQQB 3.1.7.1.4/1", "MS-MQQB 3.1.7.1.5/1", "MS-MQQB 3.1.5.8.3/19")
@pytest.mark.parametrize("transactional", [False, True])
def test_a_signed_and_encrypted_message_arrives_proven_and_clear(
    pair: Neighbours, alice: str, transactional: bool
) -> None:
    queue = pair.far.create_queue(
        pair.path("safe"), authenticated=True, privacy="body", transactional=transactional
    )
    words = ["queue", "grant", queue.name, sid_of_alice(pair), "send"]
    assert run([*words, "--home", str(pair.there.home)]) == 0
    meet(pair)
    with posthouse.connect(url=pair.here.url, token=alice) as client:
        remote = client.queue(by_guid(pair, queue))
        remote.send(b"secret", sign=True, encrypt=True, transactional=transactional)
    message = queue.receive(timeout=60)
    assert (message.body, message.authenticated, message.encrypted) == (b"secret", True, True)
    assert message.sender == sid_of_alice(pair)


def test_a_signature_counts_whatever_name_the_queue_has(pair: Neighbours, alice: str) -> None:
    queue = pair.far.create_queue(pair.path("safe"), authenticated=True)
    words = ["queue", "grant", queue.name, sid_of_alice(pair), "send"]
    assert run([*words, "--home", str(pair.there.home)]) == 0
    with posthouse.connect(url=pair.here.url, token=alice) as client:
        client.queue(pair.name_of(queue)).send(b"signed", sign=True, recoverable=True)
        with pytest.raises(posthouse.QueueError, match="PRIVATE"):
            client.queue(pair.name_of(queue)).send(b"secret", encrypt=True)
    message = queue.receive(timeout=60)
    assert (message.body, message.authenticated) == (b"signed", True)


def dead_letter(client: posthouse.QueueManagerClient, identifier: str, queue: str) -> str:
    """The class under which a message has become a dead letter."""
    letters = client.queue(rf".\system$;{queue}")
    found = until(lambda: [one for one in letters.browse() if one.id == identifier])
    return found[0].class_name


@pytest.mark.parametrize(
    ("authenticated", "privacy", "reason"),
    [(True, "optional", "nack-access-denied"), (False, "body", "nack-bad-encryption")],
)
def test_a_queue_for_protected_messages_takes_no_others(
    pair: Neighbours, authenticated: bool, privacy: Literal["optional", "body"], reason: str
) -> None:
    queue = pair.far.create_queue(pair.path("safe"), transactional=True, privacy=privacy)
    remote = pair.near.queue(pair.name_of(queue))
    if authenticated:  # who was never let in is not told of the right that is missing
        remote.send(b"first", transactional=True)
        queue.receive(timeout=60)
        command = ["queue", "set", queue.name, "--authenticated", "--home", str(pair.there.home)]
        assert run(command) == 0
    sent = remote.send(b"plain", transactional=True, dead_letter=True)
    assert dead_letter(pair.near, sent, "deadxact") == reason
    assert queue.count() == 0


@pytest.mark.parametrize("transactional", [False, True])
def test_what_cannot_be_encrypted_is_not_sent(pair: Neighbours, transactional: bool) -> None:
    """BETA has no keys of ALPHA."""
    queue = pair.near.create_queue(pair.path("here"), transactional=transactional)
    meet(pair)
    sent = pair.far.queue(queue.properties().guid_name).send(
        b"x", recoverable=True, transactional=transactional, encrypt=True, dead_letter=True
    )
    letters = "deadxact" if transactional else "deadletter"
    assert dead_letter(pair.far, sent, letters) == "nack-could-not-encrypt"
    assert queue.count() == 0


# -- figures


@pytest.mark.spec("MS-MQDMPR 3.1.1.3/2")
def test_metrics_show_sessions_and_outgoing_queues(pair: Neighbours) -> None:
    meet(pair)
    request = Request(pair.here.url + "/metrics")
    request.add_header("Authorization", f"Bearer {token(pair, role='read')}")
    with urlopen(request) as answer:
        shown = answer.read().decode()
    assert 'posthouse_binary_sessions{role="initiator",state="open"}' in shown
    assert 'posthouse_binary_messages_total{direction="out"}' in shown
    queues = dict(re.findall(r'^posthouse_outgoing_queues{state="(\w+)"} (\S+)$', shown, re.M))
    assert set(queues) == {
        *("connected", "disconnected", "disconnecting", "inactive", "locked", "need_validation"),
        *("waiting", "on_hold"),
    }
    assert float(queues["connected"]) >= 1
    assert 'progress="unacknowledged"' in shown


def test_a_message_that_has_arrived_is_explained_as_such(
    pair: Neighbours, capsys: pytest.CaptureFixture[str]
) -> None:
    """It waits to be received there; the sender was told that the other machine refuses it."""
    queue = pair.target(transactional=True)
    name = pair.name_of(queue)
    options = ["--transactional", "--dead-letter", "--journal"]
    capsys.readouterr()
    assert command(pair, "send", name, "--body", "x", *options) == 0
    identifier = capsys.readouterr().out.strip()
    assert queue.peek(timeout=60).body == b"x"
    until(lambda: pair.near.queue(name).properties().outgoing.unread == 1)
    assert command(pair, "message", "explain", identifier) == 0
    told = capsys.readouterr().out
    assert "the other machine has it in its queue" in told
    assert "has not confirmed it" not in told
    assert queue.receive(timeout=60).body == b"x"
