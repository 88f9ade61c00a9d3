"""Many messages by their lookup identifiers, from a peer that takes notes and breaks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from posthouse.model.errors import AccessDenied
from posthouse.protocols.remote_read.stubs import Ack, Opnum
from tests.client.read_peer import Break, Peer, reading

START, END = Opnum.START_RECEIVE, Opnum.END_RECEIVE
COUNT = 150  # more than are asked for together
FIRST = 100  # the peer's first lookup identifier


@pytest.fixture
def peer() -> Iterator[Peer]:
    with Peer(*(b"%d" % number for number in range(COUNT))) as peer:
        yield peer


def once(peer: Peer, opnum: Opnum, after: int) -> None:
    """The connection breaks over one call of a method, after this many of them."""

    def breaks(request: Any, call: Any) -> None:
        if len(peer.asked(opnum)) == after:
            raise Break

    peer.before[opnum] = breaks


def test_messages_are_looked_at_in_the_order_asked_for(peer: Peer) -> None:
    ids = [FIRST + number for number in reversed(range(COUNT))]
    with reading(peer) as (_, queue):
        assert [message.lookup_id for message in queue.lookup_many(ids)] == ids
    assert len(peer.messages) == COUNT


def test_what_is_not_there_is_left_out(peer: Peer) -> None:
    with reading(peer) as (_, queue):
        assert [message.body for message in queue.lookup_many([7, FIRST, 9])] == [b"0"]
        assert [message.body for message in queue.receive_lookups([7, FIRST, 9])] == [b"0"]
        assert queue.receive_lookups([FIRST]) == []


def test_messages_are_taken_and_ended(peer: Peer) -> None:
    ids = list(range(FIRST, FIRST + COUNT, 2))
    with reading(peer) as (_, queue):
        assert [message.lookup_id for message in queue.receive_lookups(ids)] == ids
    assert sorted(peer.messages) == list(range(FIRST + 1, FIRST + COUNT, 2))
    assert not peer.locked


@pytest.mark.parametrize("after", [1, 70, COUNT])
def test_looking_goes_on_when_the_connection_breaks(peer: Peer, after: int) -> None:
    ids = list(range(FIRST, FIRST + COUNT))
    once(peer, START, after)
    with reading(peer) as (_, queue):
        assert [message.lookup_id for message in queue.lookup_many(ids)] == ids


@pytest.mark.parametrize("after", [1, 70, COUNT])
def test_taking_goes_on_when_the_connection_breaks(peer: Peer, after: int) -> None:
    """What was locked for the connection that broke may be found only when asked once more."""
    ids = list(range(FIRST, FIRST + COUNT))
    once(peer, START, after)
    taken: list[int] = []
    with reading(peer) as (_, queue):
        while peer.messages:
            taken += [message.lookup_id for message in queue.receive_lookups(ids)]
    assert sorted(taken) == ids


def test_what_was_locked_goes_back_when_one_is_refused(peer: Peer) -> None:
    def refuses(request: Any, call: Any) -> Any:
        if request.lookup_id == FIRST + 2:
            return AccessDenied.code
        return peer._start_receive(request, call)

    peer.instead[START] = refuses
    with reading(peer) as (_, queue), pytest.raises(AccessDenied):
        queue.receive_lookups([FIRST, FIRST + 1, FIRST + 2, FIRST + 3])
    assert len(peer.messages) == COUNT
    assert not peer.locked
    assert {request.ack for request in peer.asked(END)} == {Ack.NACK}
