"""Peers of each kind that are away, and what operators do then: look, explain, give up, save."""

from __future__ import annotations

import http.client
import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import pytest

from posthouse.cli.main import run
from tests.process.offices import free_port, outgoing, wait_until
from tests.process.srmp_offices import HttpOffice
from tests.wire.srmp import envelope, msmq, path, properties, services, stream

CLOSED = free_port()
KINDS = {
    "OS": r"DIRECT=OS:nowhere.invalid\private$\q",
    "TCP": rf"DIRECT=TCP:127.0.0.1:{CLOSED}\private$\q",
    "HTTP": f"DIRECT=HTTP://127.0.0.1:{CLOSED}/msmq/private$/q",
    "HTTPS": f"DIRECT=HTTPS://127.0.0.1:{CLOSED}/msmq/private$/q",
    "MULTICAST": "MULTICAST=234.1.1.1:8001",
}
LATER = "20380119T031407"
STRANGER = "receipts"  # the queue of receipts for a stranger's stream; its name is found below


class Told(NamedTuple):
    """What a command line did."""

    code: int
    out: str
    err: str

    @property
    def rows(self) -> list[Any]:
        return [json.loads(line) for line in self.out.splitlines()]


Command = Callable[..., Told]


def stranger_sends(office: HttpOffice) -> str:
    """Post a message of a stream whose sender is gone; return the queue of its receipts."""
    url = f"{office.base}/msmq/private$/orders"
    receipts = f"http://127.0.0.1:{CLOSED}/msmq/private$/order_queue$"
    start = f"<start><sendReceiptsTo>{receipts}</sendReceiptsTo></start>"
    sent = envelope(
        path(to=url),
        properties(LATER),
        services("<durable/>"),
        stream(more=start),
        msmq(TTrq=LATER),
    )
    line = http.client.HTTPConnection("127.0.0.1", office.http_port, timeout=20)
    line.request("POST", "/msmq/private$/orders", sent, {"Content-Type": "text/xml"})
    assert line.getresponse().status == 200
    line.close()
    wait_until(lambda: outgoing(office.qm) != [], lambda: "no receipt is due")
    return outgoing(office.qm)[0].format_name


@pytest.fixture(scope="module")
def away(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[HttpOffice, dict[str, str]]]:
    """A server whose peers are all away, and the names of its outgoing queues."""
    with ExitStack() as running:
        office = HttpOffice(tmp_path_factory.mktemp("away") / "alpha", "ALPHA", running)
        office.create("orders", "errors", transactional=True)
        office.create("plain")
        names = KINDS | {STRANGER: stranger_sends(office)}
        office.qm.call("POST", "/offline")  # else a datagram to a group is gone at once
        yield office, names


@pytest.fixture
def command(
    away: tuple[HttpOffice, dict[str, str]],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Command:
    """Run a command line about that server."""
    monkeypatch.setenv("POSTHOUSE_HOME", str(away[0].server.home))

    def told(*words: str) -> Told:
        capsys.readouterr()
        code = run(words)
        said = capsys.readouterr()
        return Told(code, said.out, said.err)

    return told


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.5/7", "MS-MQDMPR 3.1.7.1.5/9")
@pytest.mark.parametrize("kind", KINDS)
def test_what_waits_for_a_peer_that_is_away_is_found_explained_and_deleted(
    away: tuple[HttpOffice, dict[str, str]], kind: str, command: Command
) -> None:
    name = away[1][kind]
    sent = [command("send", name, "--body", "x", "--label", f"to {kind}") for _ in range(3)]
    assert [one.code for one in sent] == [0] * 3, sent
    identifier = sent[0].out.split()[0]
    found = command("message", "find", f"label = 'to {kind}'", "--json").rows
    assert (found[0]["id"], len(found)) == (identifier, 3)
    for peers in ((), ("--peers",)):
        life = command("message", "explain", identifier, "--json", *peers)
        assert (life.code, [one["queue"] for one in life.rows[0]["places"]]) == (0, [name])
    copied = command("message", "copy", name, "plain")
    assert copied.out == "Copied 3 messages.\n", copied.err
    lookup_id = str(found[0]["lookup_id"])
    (shown,) = command("queue", "show", name, "--json").rows
    assert shown["messages"] == 3
    assert command("message", "delete", name, "--lookup-id", lookup_id, "--yes").code == 0
    left = command("message", "find", f"label = 'to {kind}' and queue ~ '='", "--json").rows
    assert [one["id"] for one in left] == [one["id"] for one in found[1:]]
    assert command("queue", "purge", name, "--yes").code == 0


@pytest.mark.parametrize("kind", [*KINDS, STRANGER])
def test_the_queue_of_a_peer_that_is_away_is_shown_saved_and_given_up(
    away: tuple[HttpOffice, dict[str, str]], kind: str, command: Command, tmp_path: Path
) -> None:
    office, names = away
    name, saved = names[kind], tmp_path / "saved.jsonl"
    if kind != STRANGER:
        command("queue", "purge", name, "--yes")
        assert command("send", name, "--body", "x").code == 0
    assert command("message", "find", "label = 'elsewhere'").out.count("\n") <= 1
    for words in (("show",), ("pause",), ("resume",), ("retry",)):
        assert command("queue", *words, name).code == 0, words
    for words in (("status",), ("deadletters",), ("failures", name)):
        assert command(*words).code == 0, words
    page = office.qm.call("GET", f"/queues/{quote(name, safe='')}/messages?limit=1")
    assert len(page["messages"]) == 1
    assert command("message", "export", name, str(saved)).code == 0
    assert len(saved.read_text().splitlines()) == 1
    body = {"act": "delete", "queue": name, "where": "label = 'elsewhere'"}
    office.qm.call("POST", "/operations", body)
    assert command("queue", "purge", name, "--yes").code == 0
    (shown,) = command("queue", "show", name, "--json").rows
    assert shown["messages"] == 0
    books = command("books", "--json")
    assert (books.code, all(one["balanced"] for one in books.rows)) == (0, True)
