"""Where a name leads: hosts, queue managers by GUID, and what the directory says of them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posthouse.directory import objects
from posthouse.engine.manager import QueueManager
from posthouse.model.enumerations import ConnectionStatus
from posthouse.model.guids import NULL_GUID, format_guid
from posthouse.model.names import parse_format_name
from posthouse.protocols.binary.next_hop_lookup import (
    STANDARD_PORT,
    Candidate,
    Destination,
    NextHop,
    Unresolved,
    as_address,
    candidates,
    destination_of,
    get_next_hops,
    is_handled,
    next_hops,
    resolvable,
)
from tests.engine.rig import Rig

BETA = bytes(range(16))
QUEUE = bytes(range(16, 32))


def manager_with(**own: object) -> QueueManager:
    return Rig(**own).manager


def enter(manager: QueueManager, value: objects.DirectoryObject) -> bytes:
    """Puts an object into the directory; its GUID."""
    service = manager.directory.service
    outcome = service.create_directory_object(value, manager.machine.now_ms, manager.machine.utc)
    return outcome.identifier


def beta_in(manager: QueueManager, **attributes: object) -> bytes:
    values = {"computer_name": "BETA", "qualified_computer_name": "beta.example.com"} | attributes
    return enter(manager, objects.QueueManager(identifier=BETA, **values))  # type: ignore[arg-type]


# -- Get Destination Info


@pytest.mark.spec("MS-MQQB 3.1.7.4/1", "MS-MQQB 3.1.7.4/2")
@pytest.mark.parametrize(
    ("name", "host", "port"),
    [
        (r"DIRECT=TCP:10.0.0.2\private$\orders", "10.0.0.2", None),
        (r"DIRECT=OS:beta.example.com\orders", "beta.example.com", None),
        (r"DIRECT=OS:beta:2801\private$\orders", "beta", 2801),
        (r"DIRECT=TCP:[fe80::1]:2801\private$\orders", "fe80::1", 2801),
    ],
)
def test_a_direct_name_leads_to_its_host(name: str, host: str, port: int | None) -> None:
    found = destination_of(manager_with(), name)
    assert found == Destination(host, port, NULL_GUID)
    assert found.is_direct


@pytest.mark.spec("MS-MQQB 3.1.7.4/5")
def test_a_private_name_leads_to_the_queue_manager_in_it() -> None:
    found = destination_of(manager_with(), f"PRIVATE={format_guid(BETA)}\\0000000a")
    assert found == Destination("", None, BETA)
    assert not found.is_direct


@pytest.mark.spec("MS-MQQB 3.1.7.4/3")
@pytest.mark.parametrize("named", [True, False])
def test_a_public_name_leads_to_the_owner_of_the_queue(named: bool) -> None:
    """The queue's object names its owner, or the computer in its path name does."""
    manager = manager_with()
    beta = beta_in(manager)
    owner = beta if named else NULL_GUID
    queue = enter(
        manager,
        objects.Queue(identifier=QUEUE, pathname=r"BETA\orders", queue_manager_identifier=owner),
    )
    assert destination_of(manager, f"PUBLIC={format_guid(queue)}").guid == beta


@pytest.mark.spec("MS-MQQB 3.1.7.4/4")
def test_a_queue_that_the_directory_does_not_have_is_unresolved() -> None:
    with pytest.raises(Unresolved, match="has no queue"):
        destination_of(manager_with(), f"PUBLIC={format_guid(QUEUE)}")


@pytest.mark.spec("MS-MQQB 3.1.7.4/4")
def test_a_directory_that_is_away_leaves_a_name_unresolved() -> None:
    found = resolvable(manager_with(directory_integrated=False), f"PUBLIC={format_guid(QUEUE)}")
    assert isinstance(found, Unresolved)
    assert found.status is ConnectionStatus.ROUTING_DATA_NOT_AVAILABLE
    assert found.words == "the directory cannot be reached"


def test_a_queue_without_an_owner_in_the_directory_is_unresolved() -> None:
    manager = manager_with()
    queue = enter(manager, objects.Queue(identifier=QUEUE, pathname=r"GAMMA\orders"))
    with pytest.raises(Unresolved, match="no queue manager GAMMA"):
        destination_of(manager, f"PUBLIC={format_guid(queue)}")


@pytest.mark.spec("MS-MQQB 3.1.7.4/2")
def test_names_share_a_link_if_host_and_port_are_the_same() -> None:
    keys = [
        destination_of(manager_with(), name).key
        for name in (
            r"DIRECT=OS:beta\private$\a",
            r"DIRECT=OS:BETA\b",
            r"DIRECT=OS:beta:1801\private$\a",
            r"DIRECT=OS:beta:2801\private$\a",
        )
    ]
    assert keys[0] == keys[1] == keys[2] != keys[3]
    six = [
        destination_of(manager_with(), rf"DIRECT=TCP:{a}\q").key for a in ("fe80::1", "FE80:0::1")
    ]
    assert six[0] == six[1]


def test_a_destination_is_shown_in_words() -> None:
    assert str(Destination("beta", None, NULL_GUID)) == "beta"
    assert str(Destination("beta", 2801, NULL_GUID)) == "beta port 2801"
    assert str(Destination("", None, BETA)) == f"queue manager {format_guid(BETA)}"


@pytest.mark.spec("MS-MQQB 3.1.7.12/1", "MS-MQQB 2.1.1/4")
@pytest.mark.parametrize(
    ("name", "handled"),
    [
        (r"DIRECT=TCP:10.0.0.2\q", True),
        (r"DIRECT=OS:beta\q", True),
        (f"PRIVATE={format_guid(BETA)}\\00000010", True),
        (f"PUBLIC={format_guid(BETA)}", True),
        (f"CONNECTOR={format_guid(BETA)}", False),  # only read, and only where it is
        ("DIRECT=HTTP://beta/msmq/q", False),
        ("DIRECT=HTTPS://beta/msmq/q", False),
        ("MULTICAST=224.1.2.3:1801", False),
        (r"DIRECT=SPX:00000012:00a0234f7500\q", False),
        (f"DL={format_guid(BETA)}", False),
    ],
)
def test_which_names_this_protocol_handles(name: str, handled: bool) -> None:
    assert is_handled(parse_format_name(name)) is handled


# -- Get Next Hops


@pytest.mark.spec("MS-MQQB 3.1.7.5/2")
def test_the_next_hop_is_the_machine_that_the_directory_has() -> None:
    manager = manager_with()
    beta = beta_in(manager)
    assert get_next_hops(manager, beta) == [Candidate("beta.example.com", 1801, beta)]


def test_a_machine_without_a_domain_goes_by_its_computer_name() -> None:
    manager = manager_with()
    beta = beta_in(manager, qualified_computer_name="")
    assert get_next_hops(manager, beta) == [Candidate("BETA", 1801, beta)]


@pytest.mark.spec("MS-MQQB 3.1.7.5/2")
def test_routing_fails_where_the_directory_has_no_entry() -> None:
    with pytest.raises(Unresolved, match="the directory has no queue manager"):
        get_next_hops(manager_with(), BETA)


@pytest.mark.spec("MS-MQQB 3.1.7.5/1", "MS-MQQB 3.1.7.5/2")
def test_only_next_hops_with_an_entry_are_kept() -> None:
    """BETA is reached through three servers of its own, one of which the directory has."""
    manager = manager_with()
    gone, server, left = b"\x71" * 16, b"\x72" * 16, b"\x73" * 16
    entry = objects.QueueManager(identifier=server, computer_name="SERVER", routing_server=True)
    enter(manager, entry)
    beta = beta_in(manager, in_routing_server_identifier_list=(gone, server, left))
    assert get_next_hops(manager, beta) == [Candidate("SERVER", 1801, server)]
    manager.directory.service.delete_directory_object(entry, manager.machine.now_ms)
    with pytest.raises(Unresolved, match="the directory has no"):
        get_next_hops(manager, beta)


# -- whom to try


@pytest.mark.spec("MS-MQQB 3.1.5.2.1/3")
def test_a_direct_name_is_its_host_and_anything_else_a_next_hop() -> None:
    manager = manager_with()
    beta = beta_in(manager)
    assert candidates(manager, Destination("x", None, NULL_GUID)) == [Candidate("x", 1801)]
    assert candidates(manager, Destination("x", 99, NULL_GUID)) == [Candidate("x", 99)]
    assert candidates(manager, Destination("", None, beta)) == get_next_hops(manager, beta)


def test_a_machine_is_tried_first_where_it_was_last_reached() -> None:
    """Decision 40."""
    manager = manager_with()
    beta = beta_in(manager)
    manager.transfer.reached(beta, "10.0.0.2", 2801)
    hosts = candidates(manager, Destination("", None, beta), "10.0.0.9")
    assert [(one.host, one.port) for one in hosts] == [
        ("10.0.0.2", 2801),
        ("beta.example.com", STANDARD_PORT),
    ]


@pytest.mark.parametrize(
    ("addresses", "first"),
    [
        (("10.0.0.2:2801", "10.0.0.3:7"), "10.0.0.2"),  # it is there still
        (("10.0.0.3:7",), "10.0.0.3"),
        (("10.0.0.3:7", "beta"), "10.0.0.2"),  # names may lead anywhere
    ],
)
def test_a_machine_is_not_tried_where_the_directory_says_that_it_is_not(
    addresses: tuple[str, ...], first: str
) -> None:
    manager = manager_with()
    beta = beta_in(manager, addresses=addresses)
    manager.transfer.reached(beta, "10.0.0.2", 2801)
    hosts = [one.host for one in candidates(manager, Destination("", None, beta))]
    assert hosts[0] == first
    assert ("10.0.0.2" in hosts) is (first == "10.0.0.2")


def test_a_machine_that_listens_on_another_port_by_now_is_tried_there() -> None:
    manager = manager_with()
    beta = beta_in(manager, addresses=("10.0.0.2:7",))
    manager.transfer.reached(beta, "10.0.0.2", 2801)
    assert get_next_hops(manager, beta) == [Candidate("10.0.0.2", 7, beta)]


def test_a_machine_without_an_entry_is_tried_where_it_called_from() -> None:
    manager = manager_with()
    unknown = Destination("", None, BETA)
    assert candidates(manager, unknown, "10.0.0.9") == [Candidate("10.0.0.9", 1801, BETA)]
    with pytest.raises(Unresolved):
        candidates(manager, unknown)


# -- addresses


@pytest.mark.spec("MS-MQQB 3.1.1.3.1.3/1", "MS-MQQB 3.1.5.2.1/5")
def test_each_address_is_a_next_hop_once_and_in_order() -> None:
    candidate = Candidate("beta.example.com", 1801, BETA)
    hops = next_hops(candidate, ["10.0.0.2", "fe80::1", "10.0.0.2", "FE80::1"])
    assert hops == [
        NextHop(BETA, "beta.example.com", "10.0.0.2", 1801),
        NextHop(BETA, "beta.example.com", "fe80::1", 1801),
    ]
    assert [str(hop) for hop in hops] == ["IP=10.0.0.2", "IPv6=fe80::1"]


@pytest.mark.spec("MS-MQQB 3.1.5.2.1/7", "MS-MQQB 3.1.1.3.1/19")
def test_what_is_neither_ipv4_nor_ipv6_is_left_out() -> None:
    assert next_hops(Candidate("beta", 1801), ["00:a0:23", "", "beta", "10.0.0.2"]) == [
        NextHop(NULL_GUID, "beta", "10.0.0.2", 1801)
    ]


@given(st.text(max_size=40))
def test_any_text_is_an_address_or_none(text: str) -> None:
    found = as_address(text)
    assert found is None or as_address(found) == found
