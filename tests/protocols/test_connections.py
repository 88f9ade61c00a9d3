"""How many connections a listener takes."""

from __future__ import annotations

from posthouse.protocols.connections import Connections


def test_connections_are_limited_in_all_and_for_each_address() -> None:
    connections = Connections(3, 2)
    assert [connections.admit("a"), connections.admit("a")] == ["", ""]
    assert connections.admit("a") == "too many connections of one address"
    assert connections.admit("b") == ""
    assert connections.admit("c") == "too many connections"
    connections.leave("a")
    assert connections.admit("c") == ""
    assert connections.count == 3
    assert connections.refused == {
        "too many connections": 1,
        "too many connections of one address": 1,
    }


def test_an_address_that_left_costs_nothing() -> None:
    connections = Connections(1_000_000, 2)
    for number in range(1000):
        connections.admit(str(number))
        connections.leave(str(number))
    assert connections.count == 0
    assert not connections._of_address
