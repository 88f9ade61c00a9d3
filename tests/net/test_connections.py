"""How many connections a listener takes, and who has to make room."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posthouse.net.connections import (
    MADE_ROOM,
    TOO_MANY,
    TOO_MANY_OF_ADDRESS,
    Admission,
    Connections,
    Refused,
    Room,
    source_of,
)


def admitted(connections: Connections, address: str) -> Admission | str:
    try:
        return connections.admit(address)
    except Refused as error:
        return str(error)


def proven(connections: Connections, address: str) -> Admission:
    made = connections.admit(address)
    made.prove()
    return made


def test_connections_are_limited_in_all_and_for_each_address() -> None:
    connections = Connections(3, 2)
    first = proven(connections, "a")
    proven(connections, "a")
    assert admitted(connections, "a") == TOO_MANY_OF_ADDRESS
    proven(connections, "b")
    assert admitted(connections, "c") == TOO_MANY
    first.leave()
    first.leave()
    proven(connections, "c")
    assert connections.count == 3
    assert connections.refused == {TOO_MANY: 1, TOO_MANY_OF_ADDRESS: 1}


def test_an_address_that_left_costs_nothing() -> None:
    connections = Connections(1_000_000, 2)
    for number in range(1000):
        connections.admit(str(number)).leave()
    assert connections.count == connections.room.taken == 0
    assert not connections._of_source
    assert not connections.room.of_source
    assert not connections._unproven._of
    assert not connections._unproven._with


def test_the_oldest_silent_connection_of_the_greediest_address_makes_room() -> None:
    connections = Connections(4, 4)
    dropped = list[str]()
    for name in ("a1", "a2", "a3"):
        connections.admit("a").drop = lambda name=name: dropped.append(name)  # type: ignore[misc]
    proven(connections, "b").drop = lambda: dropped.append("b")
    connections.admit("c")
    assert dropped == ["a1"]
    assert connections.count == 4
    assert connections.refused == {MADE_ROOM: 1}
    assert admitted(connections, "a") == TOO_MANY, "it takes no place from those that have less"
    assert dropped == ["a1"]


def test_nobody_makes_room_who_has_shown_what_it_wants() -> None:
    connections = Connections(3, 3)
    for _ in range(3):
        proven(connections, "a")
    assert admitted(connections, "b") == TOO_MANY


def test_descriptors_are_shared_by_all_listeners_and_one_address_has_a_quarter() -> None:
    room = Room(8)
    binary, http = Connections(100, 100, room), Connections(100, 100, room)
    proven(binary, "a")
    proven(http, "a")
    assert admitted(http, "a") == TOO_MANY_OF_ADDRESS
    for address in ("b", "c", "d"):
        binary.admit(address)
        binary.admit(address)
    assert room.is_full
    assert not room.take()
    assert isinstance(admitted(http, "e"), Admission), "another door's silent ones make room"
    assert (binary.count, http.count, room.taken) == (6, 2, 8)


def test_a_host_with_many_addresses_of_one_network_counts_once() -> None:
    assert source_of("2001:db8:1:2::7") == source_of("2001:db8:1:2:ffff::") == "2001:db8:1:2::/64"
    assert source_of("2001:db8:1:3::7") != source_of("2001:db8:1:2::7")
    assert source_of("fe80::1%eth0") == "fe80::/64"
    assert source_of("127.0.0.1") == source_of("::ffff:127.0.0.1") == "127.0.0.1"
    assert source_of("no:address") == "no:address"


@given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from("abcd")), max_size=120))
def test_counts_follow_whatever_happens(steps: list[tuple[int, str]]) -> None:
    """Against the obvious form: a list of connections, counted each time."""
    connections = Connections(12, 6)
    there = list[tuple[str, Admission]]()
    for act, address in steps:
        if act < 2:
            made = admitted(connections, address)
            if isinstance(made, Admission):
                entry = (address, made)
                there.append(entry)
                made.drop = lambda entry=entry: there.remove(entry)  # type: ignore[misc]
        elif there and act == 2:
            there[0][1].prove()
        elif there:
            there.pop()[1].leave()
        of = [address for address, _ in there]
        silent = [address for address, made in there if made.unproven]
        assert connections.count == connections.room.taken == len(there) <= 12
        assert connections._unproven.most == max([silent.count(a) for a in "abcd"], default=0)
        assert max([of.count(a) for a in "abcd"]) <= 6


def test_a_refusal_is_an_exception_with_its_reason() -> None:
    with pytest.raises(Refused, match=TOO_MANY_OF_ADDRESS):
        Connections(1, 0).admit("a")
