"""Who waits until a client has read what it has."""

from functools import partial

from posthouse.rpc.backpressure import Drains
from posthouse.rpc.interface import BACKLOG_MAX

from .toy import WAIT, Desk, request


class Client:
    """One with so much to read."""

    def __init__(self, backlog: int = 0) -> None:
        self.backlog = backlog
        self.bugs: list[Exception] = []
        self.told: list[int] = []
        self.drains = Drains(lambda: self.backlog, self.bugs.append)

    def tell(self, number: int, more: int = 0) -> None:
        self.told.append(number)
        self.backlog += more
        self.drains.look()


def test_everybody_is_called_in_turn_while_little_is_left() -> None:
    client = Client(BACKLOG_MAX + 1)
    for number in range(6):
        client.drains.add(partial(client.tell, number, BACKLOG_MAX // 2))
    client.drains.look()
    assert client.told == []
    client.backlog = 0
    client.drains.look()
    assert client.told == [0, 1, 2]
    client.backlog = BACKLOG_MAX
    client.drains.look()
    assert client.told == [0, 1, 2, 3]


def test_many_do_not_go_as_deep_as_they_are() -> None:
    client = Client(BACKLOG_MAX + 1)
    for number in range(5000):
        client.drains.add(partial(client.tell, number))
    client.backlog = 0
    client.drains.look()
    assert client.told == list(range(5000))
    assert client.bugs == []


def test_one_that_fails_is_reported_and_the_next_one_called() -> None:
    client = Client(BACKLOG_MAX + 1)
    client.drains.add(lambda: [][0])
    client.drains.add(partial(client.tell, 1))
    client.backlog = 0
    client.drains.look()
    assert (len(client.bugs), client.told) == (1, [1])


def test_the_end_of_the_client_reaches_everybody_and_later_ones_at_once() -> None:
    client = Client(BACKLOG_MAX + 1)
    for number in range(3):
        client.drains.add(partial(client.tell, number))
    client.drains.end()
    client.drains.add(partial(client.tell, 3))
    assert client.told == [0, 1, 2, 3]


def test_a_connection_that_closes_calls_nobody_before_it_is_lost() -> None:
    """What is sent then is dropped, and taken for delivered."""
    desk = Desk()
    wire = desk.bound()
    backlog = BACKLOG_MAX + 1
    wire.connection._unsent = lambda: backlog
    wire.say(request(WAIT))
    gone: list[int] = []
    desk.toy.waiting[0].when_drained(lambda: gone.append(len(desk.toy.gone)))
    wire.connection.drop()
    backlog = 0
    wire.connection.look_at_drain()
    assert gone == []
    wire.connection.lost()
    assert gone == [1], "the call heard of it first"
