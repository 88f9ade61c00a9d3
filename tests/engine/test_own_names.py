"""Which names mean this machine: interfaces that change, names that are refused, any name."""

from __future__ import annotations

import pytest

from posthouse.engine.queues.own_names import ADDRESSES_MAX, REFUSED_MAX
from posthouse.model.names import parse_format_name
from tests.engine.arrivals import PEER, PeerRig
from tests.engine.web import WebRig

ORDERS = r"DIRECT=OS:{}\private$\orders"
OUTSIDE = "docker-host.example.com"


def to(rig: PeerRig, host: str, protocol: str = "OS") -> bytes:
    name = rf"DIRECT={protocol}:{host}\private$\orders"
    return rig.packet(b"x", destination_queue_format_name=name)


def refused_names(rig: PeerRig | WebRig) -> list[object]:
    return [event.details["host"] for event in rig.events if event.name == "name_not_ours"]


# -- interfaces


def test_a_new_address_of_an_interface_is_ours_and_one_that_has_gone_is_not() -> None:
    rig = PeerRig(interfaces=("192.0.2.1", "2001:DB8::1"))
    registry = rig.manager.queues
    assert {"192.0.2.1", "2001:db8::1"} <= registry.own_hosts()
    rig.take(to(rig, "192.0.2.1", "TCP"))
    assert registry.set_interfaces(("192.0.2.2", "2001:db8::1"))
    rig.take(to(rig, "192.0.2.2", "TCP"), to(rig, "192.0.2.1", "TCP"))
    assert len(rig.bodies("orders")) == 2
    assert "192.0.2.1" not in registry.own_hosts()
    assert not registry.set_interfaces(["2001:DB8:0::1", "192.0.2.2"])  # as they were


def test_an_address_that_was_reached_is_forgotten_with_its_interface_only() -> None:
    rig = PeerRig()
    registry = rig.manager.queues
    registry.add_own_address("192.0.2.9")
    registry.add_own_address("198.51.100.1")
    registry.set_interfaces(("192.0.2.9",))
    registry.set_interfaces(())
    assert "192.0.2.9" not in registry.own_hosts()
    assert "198.51.100.1" in registry.own_hosts()  # a redirect leads it here, not an interface
    for number in range(2 * ADDRESSES_MAX):
        registry.add_own_address(f"10.1.{number >> 8}.{number & 255}")
    assert len(registry.own_hosts()) < 2 * ADDRESSES_MAX


# -- names that are not ours


def test_a_refused_name_is_logged_once() -> None:
    rig = PeerRig()
    for _ in range(3):
        rig.take(to(rig, OUTSIDE), to(rig, OUTSIDE.upper()), to(rig, "203.0.113.5", "TCP"))
    assert refused_names(rig) == [f"'{OUTSIDE}'", "'203.0.113.5'"]
    (first, _) = [event for event in rig.events if event.name == "name_not_ours"]
    assert first.details["peer"] == PEER.address
    assert "accept_any_name" in str(first.details["remedy"])
    assert rig.manager.queues.refused_names() == [OUTSIDE, "203.0.113.5"]
    assert rig.bodies("orders") == []


def test_a_stranger_that_makes_up_names_fills_neither_the_log_nor_the_memory() -> None:
    rig = PeerRig()
    rig.take_each(*(to(rig, f"made-up-{number}") for number in range(REFUSED_MAX + 20)))
    assert len(refused_names(rig)) == len(rig.manager.queues.refused_names()) == REFUSED_MAX


def test_an_unknown_queue_of_ours_is_not_a_refused_name() -> None:
    rig = PeerRig()
    rig.take(rig.packet(destination_queue_format_name=r"DIRECT=OS:ALPHA\private$\nothing"))
    assert refused_names(rig) == []


# -- any name


@pytest.mark.parametrize(
    ("protocol", "host"),
    [("OS", OUTSIDE), ("TCP", "203.0.113.5"), ("TCP", "2001:db8::99"), ("OS", "other:9999")],
)
def test_any_name_is_taken_where_the_setting_says_so(protocol: str, host: str) -> None:
    for takes_any in (True, False):
        rig = PeerRig(accept_any_name=takes_any)
        rig.take(to(rig, host, protocol))
        assert rig.bodies("orders") == [b"x"] * takes_any
        assert len(refused_names(rig)) == (not takes_any)


def test_messages_from_here_to_other_names_leave_in_any_case() -> None:
    rig = PeerRig(accept_any_name=True)
    rig.send(ORDERS.format(OUTSIDE), b"far")
    assert rig.bodies("orders") == []
    assert [queue.state.count for queue in rig.manager.queues.outgoing_queues()] == [1]


@pytest.mark.parametrize("host", [OUTSIDE, "203.0.113.5", f"{OUTSIDE}:8080"])
def test_a_post_to_any_host_is_taken_where_the_setting_says_so(host: str) -> None:
    url = f"http://{host}/msmq/private$/orders"
    open_minded, strict = WebRig(accept_any_name=True), WebRig()
    assert open_minded.post(open_minded.message(url), body=b"x") == [200]
    assert open_minded.bodies("orders") == [b"x"]
    assert strict.post(strict.message(url), body=b"x") == [400]
    assert len(refused_names(strict)) == 1


def test_a_server_that_forwards_posts_still_does() -> None:
    rig = WebRig(accept_any_name=True, routing_server=True, srmp_forwarding=True)
    assert rig.post(rig.message(f"http://{OUTSIDE}/msmq/private$/orders"), body=b"x") == [200]
    assert rig.bodies("orders") == []
    assert [queue.state.count for queue in rig.manager.queues.outgoing_queues()] == [1]


@pytest.mark.parametrize(
    ("name", "means"),
    [
        (ORDERS.format(OUTSIDE), ORDERS.format("ALPHA")),
        (r"DIRECT=TCP:203.0.113.5\private$\orders", ORDERS.format("ALPHA")),
        (f"DIRECT=HTTP://{OUTSIDE}/msmq/private$/orders", ORDERS.format("ALPHA")),
        (ORDERS.format("alpha"), ORDERS.format("alpha")),
        (r"DIRECT=SPX:00000012:00a0234f7500\private$\orders",) * 2,
        ("PUBLIC=00112233-4455-6677-8899-AABBCCDDEEFF",) * 2,
    ],
)
def test_readers_elsewhere_may_use_any_name_too(name: str, means: str) -> None:
    rig = PeerRig(accept_any_name=True)
    found = rig.manager.queues.addressed(parse_format_name(name))
    assert str(found).casefold() == means.casefold()
    assert PeerRig().manager.queues.addressed(parse_format_name(name)) == parse_format_name(name)
