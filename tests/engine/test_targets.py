"""Which names from the wire may cause connections (decision 9; [MS-MQQB] 3.1.7.15)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posthouse.directory import objects
from posthouse.engine.transfer.protocol_interface import Peer
from posthouse.model.errors import InvalidParameter, RemoteProtocolError
from posthouse.model.names import FormatName, PublicName, parse_format_name
from tests.engine.letters import FAR_GUID
from tests.engine.rig import Rig

OTHER_GUID = bytes(range(32, 48))
PEER = Peer(FAR_GUID, "192.0.2.7")
LOCAL_PEER = Peer(FAR_GUID, "127.0.0.1")
GUID_TEXT = "13121110-1514-1716-1819-1a1b1c1d1e1f"
OTHER_TEXT = "23222120-2524-2726-2829-2a2b2c2d2e2f"


def direct(address: str, protocol: str = "TCP") -> FormatName:
    return parse_format_name(f"DIRECT={protocol}:{address}\\private$\\answers")


def allows(rig: Rig, name: FormatName, peer: Peer = PEER) -> bool:
    return rig.manager.transfer.receiving.targets.allows(peer, name)


def with_machine(**settings: Any) -> Rig:
    """A rig whose directory knows the machine BRAVO and a public queue there."""
    rig = Rig(**settings)
    machine = objects.QueueManager(
        identifier=OTHER_GUID,
        computer_name="BRAVO",
        qualified_computer_name="bravo.example.com",
    )
    rig.run(
        lambda m: m.directory.service.create_directory_object(
            machine, rig.clock.now_ms, rig.clock.utc_seconds
        )
    )
    return rig


@pytest.mark.spec("MS-MQQB 3.1.7.15/12")
@pytest.mark.parametrize(
    ("name", "allowed"),
    [
        (direct("192.0.2.7"), True),  # the peer
        (direct("192.0.2.8"), False),
        (direct("BRAVO", "OS"), True),  # in the directory
        (direct("bravo.Example.com", "OS"), True),
        (direct("CHARLIE", "OS"), False),
        (direct("ALPHA", "OS"), True),  # here
        (direct("alpha.example.com", "OS"), True),
        (parse_format_name(f"PRIVATE={GUID_TEXT}\\00000012"), True),  # the peer
        (parse_format_name(f"PRIVATE={OTHER_TEXT}\\00000012"), True),  # in the directory
        (parse_format_name(f"PRIVATE={'f' * 8}{OTHER_TEXT[8:]}\\00000012"), False),
        (parse_format_name("PRIVATE=00000000-0000-0000-0000-000000000000\\00000012"), False),
        (parse_format_name(f"PUBLIC={OTHER_TEXT}"), False),  # no such queue
    ],
)
def test_a_name_leads_to_the_peer_or_to_machines_of_the_directory(
    name: FormatName, allowed: bool
) -> None:
    assert allows(with_machine(), name) is allowed


@pytest.mark.parametrize(
    ("address", "name", "loopback"),
    [
        ("::ffff:192.0.2.7", "192.0.2.7", False),
        ("fe80::1%eth0", "fe80::1", False),
        ("2001:DB8::7", "2001:db8:0::7", False),
        ("::ffff:127.0.0.1", "127.0.0.1", True),
        ("::1", "::1", True),
    ],
)
def test_an_address_has_many_spellings(address: str, name: str, loopback: bool) -> None:
    peer = Peer(FAR_GUID, address)
    assert peer.is_loopback is loopback
    assert allows(Rig(), direct(name), peer)


def test_nothing_is_no_target() -> None:
    rig = Rig()
    assert not rig.manager.transfer.receiving.targets.allows(PEER, None)
    assert not allows(rig, parse_format_name("MULTICAST=239.1.2.3:1234"))


def test_a_queue_of_the_directory_is_a_target() -> None:
    rig = with_machine()
    own = rig.create(".\\published")
    there = objects.Queue(
        identifier=FAR_GUID, pathname="BRAVO\\there", queue_manager_identifier=OTHER_GUID
    )
    rig.run(
        lambda m: m.directory.service.create_directory_object(
            there, rig.clock.now_ms, rig.clock.utc_seconds
        )
    )
    assert allows(rig, PublicName(own.definition.identifier))
    assert allows(rig, PublicName(FAR_GUID))


def test_without_a_directory_only_the_peer_and_this_machine_are_targets() -> None:
    rig = Rig(directory_integrated=False)
    assert allows(rig, direct("192.0.2.7"))
    assert allows(rig, direct("ALPHA", "OS"))
    assert not allows(rig, direct("BRAVO", "OS"))
    assert not allows(rig, parse_format_name(f"PRIVATE={OTHER_TEXT}\\00000012"))


@pytest.mark.spec("MS-MQQB 3.1.7.15/13")
@pytest.mark.parametrize("address", ["127.0.0.2", "127.0.0.1:2801", "localhost:2801", "ALPHA:2801"])
def test_loopback_and_ports_of_this_computer_are_for_peers_on_it(address: str) -> None:
    protocol = "TCP" if address[0].isdigit() else "OS"
    rig = Rig()
    assert allows(rig, direct(address, protocol), LOCAL_PEER)
    assert not allows(rig, direct(address, protocol), PEER)


@pytest.mark.spec("MS-MQQB 3.1.7.15/13")
@pytest.mark.parametrize("peer", [PEER, LOCAL_PEER])
@pytest.mark.parametrize("address", ["192.0.2.7:2801", "BRAVO:2801", "192.0.2.9:1801"])
def test_a_port_elsewhere_is_for_nobody(peer: Peer, address: str) -> None:
    protocol = "TCP" if address[0].isdigit() else "OS"
    assert not allows(with_machine(), direct(address, protocol), peer)


@pytest.mark.parametrize(
    ("allowed", "address", "expected"),
    [
        ("CHARLIE", "charlie", True),
        ("charlie", "CHARLIE:1801", False),
        ("charlie:1802", "CHARLIE:1802", True),
        ("charlie:1802", "CHARLIE", False),
        ("198.51.100.0/24", "198.51.100.9", True),
        ("198.51.100.0/24", "198.51.101.9", False),
        ("198.51.100.0/24", "198.51.100.9:1801", False),
        ("198.51.100.0/24", "delta", False),
        ("2001:db8::/32", "2001:db8::1", True),
        ("2001:db8::1", "2001:DB8:0::1", True),
        ("[2001:db8::1]:1802", "[2001:db8::1]:1802", True),
        ("*", "anywhere", True),
        ("*", "anywhere:99", True),
    ],
)
def test_the_operator_may_allow_more(allowed: str, address: str, expected: bool) -> None:
    protocol = "TCP" if address[0] in "12[" else "OS"
    rig = Rig(allowed_targets=(allowed,))
    assert allows(rig, direct(address, protocol)) is expected


@pytest.mark.spec("MS-MQQB 3.1.7.15/12")
def test_a_peer_may_name_so_many_machines_in_an_hour() -> None:
    rig = Rig(allowed_targets=("*",), targets_per_peer=2)
    one, two, three = (direct(name, "OS") for name in ("one", "two", "three"))
    assert [allows(rig, name) for name in (one, two, three, one)] == [True, True, False, True]
    assert allows(rig, direct("192.0.2.7"))
    assert allows(rig, three, Peer(OTHER_GUID, "192.0.2.9"))
    rig.advance(3599)
    assert not allows(rig, three)
    rig.advance(1)
    assert allows(rig, three)


@pytest.mark.parametrize(
    "name", [r"DIRECT=TCP:192.0.2.7\private$\{}", f"PRIVATE={GUID_TEXT}\\{{:08x}}"]
)
def test_a_peer_may_name_so_many_queues_of_its_own_in_an_hour(name: str) -> None:
    rig = Rig(targets_per_peer=2)
    names = [parse_format_name(name.format(number)) for number in range(1, 31)]
    assert [allows(rig, each) for each in names] == [True] * 20 + [False] * 10
    assert all(allows(rig, each) for each in names[:20])
    rig.advance(3600)
    assert allows(rig, names[-1])


def test_of_a_machine_of_the_directory_a_peer_may_name_as_many_queues() -> None:
    """Each is an outgoing queue here."""
    for names in (r"DIRECT=OS:BRAVO\private$\{}", f"PRIVATE={OTHER_TEXT}\\{{:08x}}"):
        rig = with_machine(targets_per_peer=2)
        found = [allows(rig, parse_format_name(names.format(n))) for n in range(1, 31)]
        assert found == [True] * 20 + [False] * 10
    rig = Rig(allowed_targets=("*",), targets_per_peer=2)
    found = [allows(rig, parse_format_name(rf"DIRECT=OS:far\private$\{n}")) for n in range(1, 31)]
    assert found == [True] * 20 + [False] * 10


def test_the_hosts_of_an_ipv6_network_are_one_peer() -> None:
    rig = Rig(targets_per_peer=1)
    found = []
    for n in range(1, 13):
        peer = Peer(bytes([n]) * 16, f"2001:db8:0:7::{n:x}")
        name = rf"DIRECT=TCP:2001:db8:0:7::{n:x}\private$\answers"
        found.append(allows(rig, parse_format_name(name), peer))
    assert found == [True] * 10 + [False] * 2
    other = Peer(OTHER_GUID, "2001:db8:0:8::1")
    assert allows(rig, parse_format_name(r"DIRECT=TCP:2001:db8:0:8::1\private$\answers"), other)


def test_peers_beyond_measure_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("posthouse.engine.transfer.connect_targets.PEERS_MAX", 2)
    rig = Rig(allowed_targets=("*",), targets_per_peer=1)
    for last in range(1, 5):
        assert allows(rig, direct("one", "OS"), Peer(FAR_GUID, f"192.0.2.{last}"))
    assert len(rig.manager.transfer.receiving.targets._named) == 2
    assert allows(rig, direct("two", "OS"), Peer(FAR_GUID, "192.0.2.1"))


@given(st.text("*:[]/.0a", max_size=9))
def test_a_setting_allows_what_it_says_or_is_refused(setting: str) -> None:
    try:
        rig = Rig(allowed_targets=(setting,))
    except InvalidParameter:
        assert "/" in setting
        return
    assert not allows(rig, direct("192.0.2.8")) or setting.strip("[]") == "*"


@pytest.mark.parametrize("trusted", [True, False])
def test_what_a_router_brings_counts_for_who_wrote_it(trusted: bool) -> None:
    rig = with_machine(allowed_targets=("*",), targets_per_peer=1)
    targets = rig.manager.transfer.receiving.targets
    router = Peer(FAR_GUID, "192.0.2.7", may_pass_on=lambda source: trusted)
    assert targets.allows(router, direct("192.0.2.20"))
    assert not targets.allows(router, direct("192.0.2.21"))
    assert targets.allows(router, direct("192.0.2.21"), OTHER_GUID) is trusted
    assert not targets.allows(router, direct("192.0.2.22"), OTHER_GUID)  # it has had its one
    assert not targets.allows(router, direct("192.0.2.22"), bytes(16))  # nobody knows that one


def test_a_router_whose_place_nobody_can_tell_counts_as_anybody() -> None:
    def unsure(source: bytes) -> bool:
        raise RemoteProtocolError("its name cannot be resolved now")

    rig = with_machine(allowed_targets=("*",), targets_per_peer=1)
    router = Peer(FAR_GUID, "192.0.2.7", may_pass_on=unsure)
    targets = rig.manager.transfer.receiving.targets
    assert targets.allows(router, direct("192.0.2.20"), OTHER_GUID)
    assert not targets.allows(router, direct("192.0.2.21"), OTHER_GUID)
