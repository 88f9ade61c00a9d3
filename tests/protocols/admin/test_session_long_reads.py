"""A read for more messages than one turn may take goes on in the next turns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from posthouse.model.enumerations import QueueAccessType
from posthouse.model.errors import ServiceNotAvailable
from posthouse.protocols.engine_calls import Call, Release
from posthouse.protocols.sessions import reads
from posthouse.protocols.sessions.handles import SessionLimits
from posthouse.wire.frames import frames, payloads
from posthouse.wire.packet.message import deserialize
from tests.protocols.admin.session_rig import Client, SessionRig, packets

BODIES = [b"%02d" % n for n in range(11)]
OF_A_TURN = 3
LEDGER, RECEIVE = r".\private$\ledger", QueueAccessType.RECEIVE


@pytest.fixture
def rig(monkeypatch: pytest.MonkeyPatch) -> SessionRig:
    for name in ("READ_COUNT_MAX", "RECEIVED_AT_ONCE"):
        monkeypatch.setattr(reads, name, OF_A_TURN)
    return SessionRig()


def counted(rig: SessionRig) -> list[int]:
    """How many messages each turn takes."""
    found, dequeue = list[int](), rig.manager.messages.dequeue_messages

    def noted(*args: Any, **options: Any) -> Any:
        taken = dequeue(*args, **options)
        found.append(len(taken))
        return taken

    rig.manager.messages.dequeue_messages = noted  # type: ignore[method-assign]
    return found


def bodies(messages: Any) -> list[bytes]:
    return [deserialize(message.packet).body for message in messages]


def test_all_that_was_asked_for_comes_in_one_answer(rig: SessionRig) -> None:
    client, turns = rig.client(), counted(rig)
    client.send(client.open(), packets(*BODIES))
    source = client.open(access=RECEIVE)
    first = client.read(source, count=8)
    assert (bodies(first), turns) == (BODIES[:8], [3, 3, 2])
    rest = client.read(source, count=100)
    assert bodies(rest) == BODIES[8:]
    assert (client.session.requests, client.session.answer_bytes) == (0, 0)
    assert client.end(source, [m.lookup_id for m in [*first, *rest]]) == len(BODIES)
    assert rig.bodies("orders") == []


def test_nothing_is_waited_for_once_something_has_come(rig: SessionRig) -> None:
    client, turns = rig.client(), counted(rig)
    client.send(client.open(), packets(*BODIES[:6]))
    found = client.read(client.open(access=RECEIVE), count=100, timeout_ms=-1)
    assert (bodies(found), turns) == (BODIES[:6], [3, 3, 0])


def test_the_messages_of_all_turns_are_of_one_transaction(rig: SessionRig) -> None:
    client = rig.client()
    tx, batch = client.begin(), packets(*BODIES, to="ledger", transactional=True)
    client.send(client.open(LEDGER), batch, tx=tx)
    client.done(payloads.Commit(tx))
    tx = client.begin()
    assert len(client.read(client.open(LEDGER, RECEIVE), count=100, tx=tx)) == len(BODIES)
    client.done(payloads.Abort(tx))
    assert rig.bodies("ledger") == BODIES


LIMITS: dict[str, Callable[[Client], None]] = {
    "memory": lambda client: setattr(client.session, "_room", lambda: 1000),
    "batch": lambda client: setattr(client.session, "limits", SessionLimits(batch_max=OF_A_TURN)),
}


@pytest.mark.parametrize("name", LIMITS)
def test_an_answer_ends_where_a_limit_is(rig: SessionRig, name: str) -> None:
    client, turns = rig.client(), counted(rig)
    client.send(client.open(), packets(*BODIES))
    source = client.open(access=RECEIVE)
    LIMITS[name](client)
    assert 0 < len(client.read(source, count=100)) <= OF_A_TURN
    assert len(turns) == 1


def test_what_several_turns_have_locked_goes_back_with_the_session(rig: SessionRig) -> None:
    client = rig.client()
    client.send(client.open(), packets(*BODIES))
    assert len(client.read(client.open(access=RECEIVE), count=8)) == 8
    client.session.lost()
    other = rig.client()
    assert bodies(other.read(other.open(access=RECEIVE), count=100)) == BODIES


def test_peeks_of_one_answer_are_limited(rig: SessionRig) -> None:
    client = rig.client()
    client.send(client.open(), packets(*BODIES))
    source = client.open(access=RECEIVE)
    cursor = client.ask(payloads.OpenCursor(source), payloads.CursorOpened).cursor
    found = client.read(source, kind=frames.PEEK, cursor=cursor, count=100)
    assert bodies(found) == BODIES[:OF_A_TURN]


def test_a_stop_between_two_turns_answers_what_was_taken(
    rig: SessionRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Messages that are received at once are gone: their reader has to get them."""

    def refuse(call: Call, release: Release) -> None:
        raise ServiceNotAvailable("the queue manager has stopped")

    client = rig.client()
    client.send(client.open(), packets(*BODIES))
    source = client.open(access=RECEIVE)
    request = client.put_read(source, count=100, flags=frames.READ_AT_ONCE)
    rig.desk.append()
    monkeypatch.setattr(rig.desk, "decide", refuse)
    assert bodies(client.answer(request)) == BODIES[:OF_A_TURN]
    assert (client.session.requests, client.session.answer_bytes) == (0, 0)
    assert rig.bodies("orders") == BODIES[OF_A_TURN:]
