"""What a directory server lists or refuses, and what a real queue manager makes of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from posthouse.model.errors import NoDs
from posthouse.model.guids import format_guid, parse_guid
from tests.process.hostile_ldap import ADD, MODIFY, ROOT, SEARCH, Answer, Request, done, entry
from tests.process.offices import outgoing, wait_until
from tests.support.process.ldap_desk import MSMQ, Desk, Shelf, below

BUSY, NOT_ALLOWED = 51, 50
ELSEWHERE = b",OU=Elsewhere," + ROOT
KEPT = r"ALPHA\kept"


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    with ExitStack() as running:
        yield Desk(tmp_path_factory.mktemp("entries"), running)


@pytest.fixture
def shelf(desk: Desk) -> Shelf:
    """Our own entry and a queue of ours, which are taken in."""
    shelf = Shelf(parse_guid(desk.qm.guid))
    shelf.put(below("kept"), b"mSMQQueue", 7)
    look(desk, shelf.answer)
    assert reason(desk) == ""
    return shelf


def look(desk: Desk, answer: Answer) -> None:
    desk.server.answer = answer
    status = desk.qm.call("POST", "/directory/refresh")
    assert status["online"], status["reason"]


def reason(desk: Desk) -> str:
    return str(desk.qm.queue(KEPT).properties().reason)


def refusing(code: int, shelf: Shelf) -> Answer:
    """A server that lets nobody write."""

    def answer(request: Request) -> bytes:
        return done(request, code) if request.operation in (ADD, MODIFY) else shelf.answer(request)

    return answer


def test_what_a_server_does_not_take_in_stays_ours(desk: Desk, shelf: Shelf) -> None:
    without_us = Shelf(parse_guid(desk.qm.guid))
    del without_us.entries[MSMQ]
    assert "busy" in desk.reason(refusing(BUSY, without_us))
    look(desk, refusing(NOT_ALLOWED, Shelf(parse_guid(desk.qm.guid))))
    assert "the directory does not have this queue" in reason(desk)
    look(desk, shelf.answer)
    assert reason(desk) == ""


def test_a_queue_that_is_there_twice_is_one(desk: Desk, shelf: Shelf) -> None:
    other = b"CN=msmq,CN=ALPHA" + ELSEWHERE
    shelf.put(b"CN=ALPHA" + ELSEWHERE, b"computer", 20)
    shelf.put(other, b"mSMQConfiguration", 21)
    shelf.put(b"CN=kept," + other, b"mSMQQueue", 22)
    look(desk, shelf.answer)
    file = desk.office.server.home / "logs" / "posthouse.log"
    wait_until(lambda: "directory_queue_doubled" in file.read_text(), lambda: "not told")


@pytest.mark.spec("MS-MQQB 3.1.7.4/3")
def test_a_queue_whose_machine_has_no_entry_goes_by_its_computer(desk: Desk, shelf: Shelf) -> None:
    shelf.put(b"CN=orders,CN=msmq,CN=GAMMA,CN=Computers," + ROOT, b"mSMQQueue", 30)
    look(desk, shelf.answer)
    desk.qm.queue(f"PUBLIC={format_guid(bytes(15) + bytes((30,)))}").send(b"x", recoverable=True)
    missing = "the directory has no queue manager GAMMA"
    wait_until(lambda: error(desk) == missing, lambda: error(desk))
    shelf.put(b"CN=msmq,CN=GAMMA" + ELSEWHERE, b"mSMQConfiguration", 31)
    look(desk, shelf.answer)
    wait_until(lambda: error(desk) not in ("", missing), lambda: error(desk))


def error(desk: Desk) -> str:
    (queue,) = outgoing(desk.qm)
    assert queue.outgoing is not None
    return str(queue.outgoing.last_error or "")


def test_a_server_that_is_gone_in_the_middle_says_how_far_it_came(desk: Desk, shelf: Shelf) -> None:
    added: list[Request] = []
    place = b"CN=West,CN=Sites,CN=Configuration," + ROOT

    def answer(request: Request) -> bytes:
        if request.operation == ADD:
            added.append(request)
            return done(request, BUSY if b"East" in request.content else 0)
        if added and request.operation == SEARCH and request.base.encode() == place:
            listed = {b"objectClass": [b"site"], b"objectGUID": [bytes(15) + b"\x28"]}
            return entry(request, place, listed) + done(request)
        return shelf.answer(request)

    desk.server.answer = answer
    document = {"sites": [{"name": "West"}, {"name": "East"}]}
    with pytest.raises(NoDs, match="of 2 changes were made"):
        desk.qm.call("POST", "/directory", {"document": document})
