"""The connections of simulated machines: a stream stays one, whoever stops reading for a while."""

from __future__ import annotations

from random import Random

from posthouse.protocols.binary.settings import BinarySettings
from posthouse.sim import Address, Connection, SimClock, SimNetwork
from posthouse.sim.binary_network import Wire
from posthouse.sim.machine import World
from posthouse.sim.managers import SimManager


class Listener:
    """Writes down what comes."""

    def __init__(self) -> None:
        self.heard: list[bytes] = []

    def receive(self, data: bytes) -> None:
        self.heard.append(data)

    def lost(self, words: str) -> None:
        self.heard.append(words.encode())

    def pump(self) -> None:
        raise AssertionError("nobody sends here")


def wire() -> tuple[Wire, Listener, SimClock]:
    clock = SimClock()
    network = SimNetwork(1, clock)
    machine = SimManager(World(clock, network, Random(1), BinarySettings()), "ALPHA", "10.0.0.1", 7)
    made: list[Wire] = []

    def accept(connection: Connection) -> Wire:
        made.append(Wire(machine, connection))
        return made[0]

    network.listen("10.0.0.1", 80, accept)
    network.connect(
        "10.0.0.2", Address("10.0.0.1", 80), lambda connection: Wire(machine, connection)
    )
    clock.advance(1_000)
    listener = Listener()
    made[0].party = listener
    return made[0], listener, clock


def test_what_comes_behind_what_was_kept_stays_behind_it() -> None:
    end, listener, clock = wire()
    end.pause()
    end.receive(b"one ", 0)
    end.resume()
    end.receive(b"two", 0)
    clock.advance(10)
    assert b"".join(listener.heard) == b"one two"


def test_a_pause_that_follows_at_once_keeps_everything() -> None:
    end, listener, clock = wire()
    end.pause()
    end.receive(b"one ", 0)
    end.resume()
    end.pause()
    end.receive(b"two", 0)
    clock.advance(10)
    assert listener.heard == []
    end.resume()
    end.resume()
    clock.advance(10)
    assert listener.heard == [b"one two"]
