"""Directory events: offline mode, timers."""

from collections.abc import Callable

import pytest

from posthouse.directory.base import Filter, Operator, SortOrder, equals
from posthouse.directory.objects import (
    ConnectedNetwork,
    DirectoryObject,
    DistributionList,
    Enterprise,
    Queue,
    QueueManager,
    RoutingLink,
    Site,
    User,
)
from posthouse.directory.service import (
    DirectoryService,
    DirectoryTimers,
)
from posthouse.model.errors import DsError, IllegalPropertyId
from posthouse.security.access import Caller
from posthouse.security.acls import ALLOWED, Ace, Acl
from posthouse.security.descriptors import SecurityDescriptor
from posthouse.security.sids import EVERYONE
from tests.support.directory_operations import Set, notes, orders, own

from .world import (
    ALICE,
    END_OF_DATA,
    EXISTS,
    GENERIC_ERROR,
    NO_ATTRIBUTE,
    NOT_CONNECTED,
    NOT_FOUND,
    NOW,
    OWN,
    SUCCESS,
    Local,
    World,
    guid,
    link,
    machine,
    queue,
    service_of,
    site,
)

pytestmark = pytest.mark.usefixtures("any_directory")

HOUR = 3_600_000


def started() -> Set:
    ready = Set()
    ready.service.initialize(0)
    return ready


CALLS: list[Callable[[DirectoryService], object]] = [
    lambda service: service.create_directory_object(site(30, "x"), 5, NOW).status,
    lambda service: service.delete_directory_object(site(21, "Paris"), 5).status,
    lambda service: service.write_directory(site(21, "Paris"), 5, NOW).status,
    lambda service: service.read_directory(Site, (), 5).status,
    lambda service: service.read_directory_begin(Site, (), 5).status,
]


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.18/3", "MS-MQDMPR 3.1.7.1.19/3")
@pytest.mark.parametrize("call", CALLS)
def test_any_call_that_finds_no_connection_goes_offline_and_starts_the_timer(
    call: Callable[[DirectoryService], object],
) -> None:
    ready = Set()
    ready.cut()
    assert call(ready.service) is NOT_CONNECTED
    assert ready.service.offline
    assert ready.service.next_deadline(5) == 60_005
    assert call(ready.service) is NOT_CONNECTED


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.18/3")
def test_a_running_timer_is_not_started_again() -> None:
    ready = Set()
    ready.cut()
    ready.service.read_directory(Site, (), 1_000)
    ready.service.write_directory(site(21, "Paris"), 30_000, NOW)
    assert ready.service.next_deadline(30_000) == 61_000


@pytest.mark.spec("MS-MQDMPR 3.1.1.1/16")
@pytest.mark.parametrize("call", CALLS)
def test_without_integration_the_directory_is_never_offline(
    call: Callable[[DirectoryService], object],
) -> None:
    ready = Set()
    service = service_of(ready.world, ready.local, integrated=False)
    service.initialize(0)
    assert call(service) is NOT_CONNECTED
    service.check_directory_online(9)
    assert not service.offline
    assert service.next_deadline(0) is None


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.18/4")
def test_calls_go_through_the_directory_interface() -> None:
    ready = started()
    created = ready.service.create_directory_object(site(30, "Rome"), 0, NOW)
    assert created.status is SUCCESS
    assert ready.world.directory.read(Site, equals("name", "rome")).value is not None
    assert ready.service.create_directory_object(site(31, "rome"), 0, NOW).status is EXISTS
    assert ready.service.delete_directory_object(site(30, "Rome"), 0).status is SUCCESS
    assert ready.service.delete_directory_object(site(30, "Rome"), 0).status is NOT_FOUND


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.20/5")
def test_offline_queues_are_read_from_the_local_collection() -> None:
    ready = offline()
    found = ready.service.read_directory(Queue, equals("identifier", guid(3)), 0)
    assert found.value == notes
    found = ready.service.read_directory(Queue, (), 0, ["label"])
    assert found.value is not None
    assert found.value.label == "local"
    assert found.filled == {"label"}
    missing = ready.service.read_directory(Queue, equals("label", "elsewhere"), 0)
    assert missing.status is NOT_FOUND


def test_offline_nobody_sees_more_than_online() -> None:
    ready = offline()
    closed = SecurityDescriptor(ALICE).with_dacl(Acl()).pack()
    ready.local.queues = {guid(4): queue(4, r"ALPHA\closed", security=closed)}
    asked = (Queue, equals("identifier", guid(4)), 0, None)
    assert ready.service.read_directory(*asked, Caller.anonymous()).status is NOT_FOUND
    assert ready.service.read_directory(*asked, Caller.administrator()).status is SUCCESS
    assert ready.service.read_directory(*asked).status is SUCCESS


def test_offline_a_descriptor_is_for_those_who_may_read_it() -> None:
    ready = offline()
    readable = SecurityDescriptor(ALICE).with_dacl(Acl((Ace.of(ALLOWED, EVERYONE, 0x20),))).pack()
    ready.local.queues = {guid(4): queue(4, r"ALPHA\q", label="x", security=readable)}
    stranger, alice = Caller.anonymous(), Caller.user(ALICE, "alice")
    found = ready.service.read_directory(Queue, (), 0, None, stranger)
    assert found.value is not None
    assert (found.value.label, found.value.security) == ("x", b"")
    assert "security" not in found.filled
    hidden = ready.service.read_directory(Queue, (), 0, ["label", "security"], stranger)
    assert hidden.status is NO_ATTRIBUTE
    shown = ready.service.read_directory(Queue, (), 0, ["security"], alice)
    assert shown.value is not None
    assert shown.value.security == readable


def offline() -> Set:
    ready = started()
    ready.cut()
    ready.service.read_directory(Site, (), 0)
    ready.mend()
    assert ready.service.offline
    return ready


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.20/6")
def test_offline_the_own_object_answers_if_it_is_meant() -> None:
    ready = offline()
    assert ready.service.read_directory(QueueManager, (), 0).value == ready.local.own
    by_name = ready.service.read_directory(QueueManager, equals("computer_name", "alpha"), 0)
    assert by_name.value == ready.local.own
    other = ready.service.read_directory(QueueManager, equals("computer_name", "BETA"), 0)
    assert (other.status, other.value) == (NOT_CONNECTED, None)


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.20/7")
@pytest.mark.parametrize(
    "kind", [Site, RoutingLink, Enterprise, ConnectedNetwork, User, DistributionList]
)
def test_offline_no_other_kind_is_asked_for(kind: type[DirectoryObject]) -> None:
    ready = offline()
    assert ready.service.read_directory(kind, (), 0).status is NOT_CONNECTED


def test_offline_unknown_attributes_are_refused_as_well() -> None:
    ready = offline()
    with pytest.raises(IllegalPropertyId):
        ready.service.read_directory(Queue, equals("queue_type", 1), 0)
    with pytest.raises(IllegalPropertyId):
        ready.service.read_directory(Queue, (), 0, ["scope"])


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.20/8")
def test_a_forced_read_asks_the_directory_and_leaves_the_mode_alone() -> None:
    ready = offline()
    forced = ready.service.read_directory(Site, equals("name", "Paris"), 0, force=True)
    assert forced.status is SUCCESS
    assert ready.service.offline
    ready = started()
    ready.cut()
    deadline = ready.service.next_deadline(0)
    assert ready.service.read_directory(Site, (), 0, force=True).status is NOT_CONNECTED
    assert not ready.service.offline
    assert ready.service.next_deadline(0) == deadline


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.21/1", "MS-MQDMPR 3.1.7.1.22/1", "MS-MQDMPR 3.1.7.1.22/2")
def test_queries_go_through_the_service() -> None:
    ready = started()
    filters = [Filter("name", Operator.NOT_EQUALS, "x")]
    sort = [SortOrder("name", 1, ascending=False)]
    begun = ready.service.read_directory_begin(Site, filters, 0, ["name"], sort)
    names = []
    while (found := ready.service.read_directory_next(begun.handle, 0)).value is not None:
        names.append(found.value.name)
    assert names == ["Paris", "Berlin"]
    assert found.status is END_OF_DATA
    assert ready.service.read_directory_end(begun.handle) is SUCCESS
    assert ready.service.read_directory_next(begun.handle, 0).status is GENERIC_ERROR


def test_all_objects_of_a_kind_can_be_read_at_once() -> None:
    ready = started()
    names = [value.name for value in ready.service.read_all(Site, 0) or ()]
    assert names == ["Berlin", "Paris"]
    ready.cut()
    assert ready.service.read_all(Site, 0) is None


@pytest.mark.spec("MS-MQDMPR 3.1.2.5/1", "MS-MQDMPR 3.1.7.1.25/3")
def test_while_offline_a_check_runs_every_minute() -> None:
    ready = started()
    ready.cut()
    ready.service.read_directory(Site, (), 1_000)
    assert ready.service.next_deadline(1_000) == 61_000
    ready.service.advance(60_999)
    assert ready.service.next_deadline(60_999) == 61_000
    ready.service.advance(61_500)
    assert ready.service.offline
    assert ready.service.next_deadline(61_500) == 121_500


def test_a_late_driver_is_asked_to_come_at_once() -> None:
    ready = started()
    ready.cut()
    ready.service.read_directory(Site, (), 0)
    assert ready.service.next_deadline(500_000) == 500_000


@pytest.mark.spec("MS-MQDMPR 3.1.2.1/1", "MS-MQDMPR 3.1.2.2/1", "MS-MQDMPR 3.1.3/14")
def test_sites_are_refreshed_every_twelve_hours_and_gates_every_hour() -> None:
    ready = started()
    assert ready.service.next_deadline(0) == HOUR
    ready.world.directory.write(site(20, "Berlin", foreign_site=True), NOW)
    ready.world.add(link(40, 20, 21, 6), machine(6, "GATE", site_identifier_list=(guid(20),)))
    ready.service.advance(HOUR)
    assert list(ready.service.site_gates[guid(20)]) == [guid(6)]
    assert not ready.service.sites[guid(20)].foreign_site
    assert ready.service.next_deadline(HOUR) == 2 * HOUR
    ready.service.advance(12 * HOUR - 1)
    assert not ready.service.sites[guid(20)].foreign_site
    ready.service.advance(12 * HOUR)
    assert ready.service.sites[guid(20)].foreign_site
    assert ready.service.next_deadline(12 * HOUR) == 13 * HOUR - 1


@pytest.mark.spec("MS-MQDMPR 3.1.2.1/1", "MS-MQDMPR 3.1.2.2/1", "MS-MQDMPR 3.1.2.5/1")
def test_every_period_is_a_setting() -> None:
    ready = Set(DirectoryTimers(100, 200, 7))
    ready.service.initialize(0)
    assert ready.service.next_deadline(0) == 100
    ready.service.advance(100)
    assert ready.service.next_deadline(100) == 200
    ready.cut()
    ready.service.read_directory(Site, (), 150)
    assert ready.service.next_deadline(150) == 157


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.25/1", "MS-MQDMPR 3.1.7.1.25/2")
def test_a_successful_check_refreshes_and_ends_offline_mode() -> None:
    ready = offline()
    directory = ready.world.directory
    directory.write(machine(1, "ALPHA", routing_server=True, site_identifier_list=(guid(21),)), NOW)
    directory.write(queue(2, r"ALPHA\orders", label="central"), NOW)
    ready.service.advance(60_000)
    assert not ready.service.offline
    assert ready.local.own.routing_server
    assert ready.local.queues[guid(2)].label == "central"
    assert ready.local.queues[guid(3)] == notes
    assert list(ready.service.sites) == [guid(21)]
    assert ready.service.next_deadline(60_000) == HOUR


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.25/3")
def test_a_check_fails_while_the_directory_does_not_know_us() -> None:
    ready = offline()
    ready.world.directory.delete(own)
    ready.service.advance(60_000)
    assert ready.service.offline
    assert ready.service.next_deadline(60_000) == 120_000
    assert not ready.local.own.routing_server


def test_a_public_queue_that_the_directory_lost_keeps_its_attributes() -> None:
    ready = offline()
    ready.world.directory.delete(orders)
    ready.service.advance(60_000)
    assert ready.local.queues[guid(2)].label == "local"
    assert not ready.service.offline


@pytest.mark.spec("MS-MQDMPR 3.1.3/9")
def test_a_start_takes_over_the_own_attributes() -> None:
    ready = Set()
    ready.world.directory.write(
        machine(1, "ALPHA", queue_manager_quota=77), NOW, ["queue_manager_quota"]
    )
    ready.service.initialize(0)
    assert ready.local.own.queue_manager_quota == 77
    assert ready.local.own.identifier == OWN


def test_attributes_that_were_never_published_stay_local() -> None:
    world = World()
    world.directory.create(machine(1, "ALPHA"), NOW, ["computer_name"])
    local = Local(machine(1, "ALPHA", routing_server=True, queue_manager_quota=5))
    service_of(world, local).initialize(0)
    kept = (True, 5) if world.backing.keeps_silence else (False, 0x00100000)
    assert (local.own.routing_server, local.own.queue_manager_quota) == kept


@pytest.mark.spec("MS-MQDMPR 3.1.3/10")
def test_a_missing_own_object_is_fine_only_while_provisioning() -> None:
    local = Local(own)
    service_of(World(), local).initialize(0, provisioning=True)
    with pytest.raises(DsError):
        service_of(World(), local).initialize(0)


@pytest.mark.spec("MS-MQDMPR 3.1.3/11")
def test_a_start_without_directory_goes_offline_and_keeps_trying() -> None:
    ready = Set()
    ready.cut()
    ready.service.initialize(0)
    assert ready.service.offline
    assert ready.service.sites == {}
    ready.mend()
    ready.service.advance(60_000)
    assert not ready.service.offline
    assert list(ready.service.sites) == [guid(20)]


@pytest.mark.spec("MS-MQDMPR 3.1.3/12")
def test_the_site_collection_holds_the_own_sites_that_can_be_read() -> None:
    ready = Set()
    both = machine(1, "ALPHA", site_identifier_list=(guid(20), guid(99)))
    ready.world.directory.write(both, NOW)
    ready.service.initialize(0)
    assert [value.name for value in ready.service.sites.values()] == ["Berlin"]
    assert set(ready.service.sites) <= set(ready.local.own.site_identifier_list)


@pytest.mark.spec("MS-MQDMPR 3.1.3/13")
def test_a_missing_notification_attribute_counts_as_true() -> None:
    ready = Set(enterprise=False)
    silent = Enterprise(name="e", non_ldap_capable_queue_manager_notification=False)
    ready.world.directory.create(silent, NOW, ["name"])
    ready.service.initialize(0)
    assert ready.service.enterprise.name == "e"
    assert ready.service.enterprise.non_ldap_capable_queue_manager_notification


def test_the_default_time_to_reach_a_queue_is_the_enterprises() -> None:
    ready = Set(enterprise=False)
    assert ready.service.default_time_to_reach_queue_s == 345_600
    ready.world.add(Enterprise(default_time_to_live=90))
    ready.service.initialize(0)
    assert ready.service.default_time_to_reach_queue_s == 90


@pytest.mark.spec("MS-MQDMPR 3.1.1.6/3")
@pytest.mark.parametrize("weakened", [True, False])
def test_weakened_security_uses_the_own_identity(weakened: bool) -> None:
    ready = Set(enterprise=False)
    closed = SecurityDescriptor(ALICE).with_dacl(Acl()).pack()
    ready.world.add(Enterprise(weakened_security=weakened), site(50, "closed", security=closed))
    ready.service.initialize(0)
    bob = Caller.user(ALICE[:-4] + b"\x99\0\0\0", "bob")
    found = ready.service.read_directory(Site, equals("name", "closed"), 0, None, bob)
    assert (found.value is not None) == weakened
    written = ready.service.write_directory(site(50, "closed"), 0, NOW, ["name"], bob)
    assert (written.status is SUCCESS) == weakened
    deleted = ready.service.delete_directory_object(site(50, "closed"), 0, bob)
    assert (deleted.status is SUCCESS) == weakened
    created = ready.service.create_directory_object(site(51, "more"), 0, NOW, None, bob)
    assert (created.status is SUCCESS) == weakened
    begun = ready.service.read_directory_begin(Site, equals("name", "more"), 0, caller=bob)
    result = ready.service.read_directory_next(begun.handle, 0)
    assert (result.status is SUCCESS) == weakened


@pytest.mark.parametrize(
    ("value", "moved"),
    [
        (site(21, "Lyon"), (1, 0, 0)),
        (link(40, 20, 21), (1, 0, 0)),
        (machine(5, "BETA"), (1, 0, 1)),
        (queue(2, r"ALPHA\orders"), (0, 1, 0)),
        (User(security_identifier=ALICE), (0, 0, 1)),
        (Enterprise(), (0, 0, 0)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_changes_are_counted_by_what_they_may_change(
    value: DirectoryObject, moved: tuple[int, int, int]
) -> None:
    """The topology with its ways, public queues, and keys of users and machines."""
    ready = started()
    service, keys = ready.service, [0]

    def keys_changed() -> None:
        keys[0] += 1

    service.keys_changed = keys_changed
    before = service.topology(0)
    assert service.topology(0) is before
    service.noted([value])
    assert (service.version, service.queues_version, *keys) == moved
    assert (service.topology(0) is before) == (moved[0] == 0)
    service.refreshed([value], 0)
    assert (service.version, service.queues_version, *keys) == tuple(2 * one for one in moved)


def test_only_a_routing_server_of_the_directory_routes_for_us() -> None:
    ready = started()
    ready.world.add(machine(6, "GATE", routing_server=True))
    assert [ready.service.routes_for_us(guid(number), 0) for number in (5, 6, 7)] == [
        False,
        True,
        False,
    ]


@pytest.mark.spec("MS-MQDMPR 3.1.6.1/1")
def test_the_sites_refresh_rereads_and_keeps_what_cannot_be_read() -> None:
    ready = started()
    ready.world.directory.write(site(20, "Berlin-Mitte"), NOW)
    ready.service.directory_sites_update(0)
    assert ready.service.sites[guid(20)].name == "Berlin-Mitte"
    ready.world.directory.delete(site(20, ""))
    ready.service.directory_sites_update(0)
    assert ready.service.sites[guid(20)].name == "Berlin-Mitte"
    ready.cut()
    ready.service.directory_sites_update(0)
    assert ready.service.sites[guid(20)].name == "Berlin-Mitte"


@pytest.mark.spec("MS-MQDMPR 3.1.6.2/1")
def test_the_gates_refresh_rereads_and_keeps_what_cannot_be_read() -> None:
    ready = Set()
    gate = machine(6, "GATE", site_identifier_list=(guid(20),))
    ready.world.add(link(40, 20, 21, 6), gate)
    ready.service.initialize(0)
    changed = machine(6, "GATE", site_identifier_list=(guid(20),), routing_server=True)
    ready.world.directory.write(changed, NOW)
    assert not ready.service.site_gates[guid(20)][guid(6)].routing_server
    ready.service.directory_site_gates_update(0)
    assert ready.service.site_gates[guid(20)][guid(6)].routing_server
    ready.world.directory.delete(gate)
    ready.service.directory_site_gates_update(0)
    assert ready.service.site_gates[guid(20)][guid(6)].routing_server
    ready.cut()
    ready.service.directory_site_gates_update(0)
    assert ready.service.site_gates[guid(20)][guid(6)].routing_server


def test_a_site_that_was_left_is_forgotten_with_its_gates() -> None:
    ready = Set()
    ready.world.add(
        link(40, 20, 21, 6, 7),
        machine(6, "GATE", site_identifier_list=(guid(20),)),
        machine(7, "TOR", site_identifier_list=(guid(21),)),
    )
    ready.service.initialize(0)
    assert list(ready.service.site_gates) == list(ready.service.sites) == [guid(20)]
    moved = machine(1, "ALPHA", site_identifier_list=(guid(21),))
    ready.world.directory.write(moved, NOW, ["site_identifier_list"])
    ready.service.check_directory_online(0)
    assert list(ready.service.sites) == [guid(21)]
    assert {key: list(gates) for key, gates in ready.service.site_gates.items()} == {
        guid(21): [guid(7)]
    }
