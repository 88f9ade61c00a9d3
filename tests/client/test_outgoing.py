"""Outgoing queues as people see them: states, books, sequences, errors, another attempt."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import posthouse
from posthouse.api.types import QueueJson
from posthouse.cli.main import run
from posthouse.protocols.binary.settings import BinarySettings
from tests.client.serving import Serving, serving
from tests.process.offices import free_port

QUICK = BinarySettings(
    ack_wait_min_ms=100,
    ack_wait_ms=200,
    recoverable_ack_min_ms=20,
    recoverable_ack_max_ms=20,
    order_ack_ms=20,
    retry_connect_ms=600_000,
)


@pytest.fixture(scope="module")
def pair() -> Iterator[tuple[Serving, Serving]]:
    """Two servers that reach each other."""
    homes = [Path(tempfile.mkdtemp(prefix="ph-")) for _ in range(2)]
    with serving(homes[0], binary=QUICK) as here, serving(homes[1], binary=QUICK) as there:
        yield here, there
    for home in homes:
        shutil.rmtree(home)


def outgoing(client: posthouse.QueueManagerClient, name: str) -> QueueJson:
    return next(q for q in client.queues(outgoing=True) if q.format_name == name)


def test_a_message_that_arrived_is_delivered_in_the_books_and_the_sequences_agree(
    pair: tuple[Serving, Serving], path: str
) -> None:
    here, there = pair
    with posthouse.connect(here.home) as near, posthouse.connect(there.home) as far:
        target = far.create_queue(path, transactional=True)
        name = rf"DIRECT=TCP:127.0.0.1:{there.binary_port}\{path[2:]}"
        near.queue(name).send_many([b"1", b"2", b"3"], transactional=True, journal=True)
        while (waiting := outgoing(near, name).outgoing) is None or waiting.unread < 3:
            pass  # an order acknowledgment brings them there
        assert [target.receive(timeout=20).body for _ in range(3)] == [b"1", b"2", b"3"]
        journal = near.queue(r".\system$;journal")
        for _ in range(3):  # a final acknowledgment brings each there
            journal.receive(timeout=20)
        queue = near.queue(name).properties()
        assert queue.state == "connected"
        books = queue.outgoing
        assert books is not None
        assert (books.sent, books.delivered) == (3, 3)
        assert (books.unsent, books.unacknowledged, books.unread, books.failed) == (0, 0, 0, 0)
        assert books.sequence is not None
        assert books.sequence.last_acknowledged is not None
        assert books.sequence.last_acknowledged.number == 3
        assert books.sequence.unacknowledged == 0
        (incoming,) = target.properties().incoming
        assert (incoming.number, incoming.source) == (3, near.guid)
        assert incoming.sequence == books.sequence.last_acknowledged.sequence
        assert [attempt.status for attempt in queue.connections][-1] == "established"


def test_a_queue_nobody_answers_for_says_why_and_when_it_tries_again(
    pair: tuple[Serving, Serving], path: str, capsys: pytest.CaptureFixture[str]
) -> None:
    here, _ = pair
    port = free_port()
    name = rf"DIRECT=TCP:127.0.0.1:{port}\{path[2:]}"
    with posthouse.connect(here.home) as near:
        near.queue(name).send(b"x", recoverable=True)
        while not (shown := outgoing(near, name).outgoing) or not shown.last_error:
            pass
        assert f"there is no listener on 127.0.0.1 port {port}" in shown.last_error
        assert shown.next_retry_time is not None
        assert (shown.unsent, shown.unacknowledged) == (1, 0)
        assert run(["queue", "list", "--outgoing", "--home", str(here.home)]) == 0
        assert "there is no listener" in capsys.readouterr().out
        assert run(["queue", "show", name, "--home", str(here.home)]) == 0
        assert "connection refused" in capsys.readouterr().out
        assert run(["queue", "purge", name, "--yes", "--home", str(here.home)]) == 0


def test_retry_connects_now(pair: tuple[Serving, Serving], path: str, home: Path) -> None:
    here, _ = pair
    port = free_port()
    name = rf"DIRECT=TCP:127.0.0.1:{port}\{path[2:]}"
    with posthouse.connect(here.home) as near:
        near.queue(name).send(b"at last", recoverable=True)
        while not (shown := outgoing(near, name).outgoing) or not shown.last_error:
            pass
        with serving(home, binary=QUICK, binary_port=port) as late, posthouse.connect(home) as far:
            assert late.binary_port == port
            target = far.create_queue(path)
            assert run(["queue", "retry", name, "--home", str(here.home)]) == 0
            assert target.receive(timeout=20).body == b"at last"


def test_a_paused_queue_keeps_its_messages(pair: tuple[Serving, Serving], path: str) -> None:
    here, there = pair
    with posthouse.connect(here.home) as near, posthouse.connect(there.home) as far:
        target = far.create_queue(path)
        name = rf"DIRECT=TCP:127.0.0.1:{there.binary_port}\{path[2:]}"
        near.queue(name).send(b"first", recoverable=True)
        assert target.receive(timeout=20).body == b"first"
        while outgoing(near, name).messages:
            pass  # until it is acknowledged
        near.call("POST", f"/queues/{name}/pause".replace("\\", "%5C"))
        near.queue(name).send(b"second", recoverable=True)
        paused = outgoing(near, name)
        assert (paused.state, paused.messages) == ("on_hold", 1)
        near.call("POST", f"/queues/{name}/resume".replace("\\", "%5C"))
        assert target.receive(timeout=20).body == b"second"


@pytest.mark.spec("MS-MQDMPR 3.1.4.3/3")
def test_first_and_last_of_a_transaction_are_marked_where_they_were_sent(
    pair: tuple[Serving, Serving], path: str
) -> None:
    here, there = pair
    with posthouse.connect(here.home) as near, posthouse.connect(there.home) as far:
        target = far.create_queue(path, transactional=True)
        name = rf"DIRECT=TCP:127.0.0.1:{there.binary_port}\{path[2:]}"
        with near.transaction() as tx:
            near.queue(name).send_many([b"1", b"2", b"3"], tx=tx)
        received: list[Any] = []
        while len(received) < 3:
            target.peek(timeout=20)
            answer = far.call("GET", f"/queues/{path}/messages".replace("\\", "%5C"))
            received = answer["messages"]
        marks = [(one["transaction"]["first"], one["transaction"]["last"]) for one in received]
        assert marks == [(True, False), (False, False), (False, True)]
