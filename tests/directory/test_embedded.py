"""The embedded directory."""

import msgspec
import pytest

from posthouse.directory.base import (
    Directory,
    DirectoryOperationResult,
    Filter,
    Operator,
    SortOrder,
    equals,
)
from posthouse.directory.embedded import QUERIES_MAX, EmbeddedDirectory, record_key
from posthouse.directory.objects import (
    DirectoryObject,
    DistributionList,
    Enterprise,
    Queue,
    QueueManager,
    RoutingLink,
    Site,
    User,
)
from posthouse.model.errors import (
    IllegalPropertyId,
    IllegalPropertyValue,
    IllegalSecurityDescriptor,
    PropertyNotAllowed,
    RemoteProtocolError,
)
from posthouse.model.guids import NULL_GUID
from posthouse.model.properties import OperatingSystemType, QueueType
from posthouse.security import rights
from posthouse.security.access import Caller
from posthouse.security.acls import ALLOWED, Ace, Acl
from posthouse.security.descriptors import SecurityDescriptor
from posthouse.security.sids import make_sid
from tests.support.directory_listing import all_of, value_of

from .world import (
    ALICE,
    END_OF_DATA,
    EXISTS,
    GENERIC_ERROR,
    NO_ATTRIBUTE,
    NOT_CONNECTED,
    NOT_FOUND,
    NOW,
    ONE_OF_EACH,
    SUCCESS,
    World,
    guid,
    link,
    machine,
    queue,
    site,
)

BOB = make_sid(5, 21, 1, 2, 3, 1001)
bob = Caller.user(BOB, "bob")

pytestmark = pytest.mark.usefixtures("any_directory")


def security(mask: int) -> bytes:
    """Bob has these rights, nobody else any."""
    return SecurityDescriptor(ALICE).with_dacl(Acl((Ace.of(ALLOWED, BOB, mask),))).pack()


def test_it_is_a_directory() -> None:
    directory: Directory = World().directory
    assert directory.read(Queue).status is NOT_FOUND


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.18/1")
def test_creation_writes_all_attributes_and_returns_the_identifier() -> None:
    world = World()
    new = Queue(pathname=r"ALPHA\orders", label="Orders", quota=7)
    created = world.directory.create(new, NOW)
    assert created.status is SUCCESS
    assert created.identifier == guid(1001)
    found = world.directory.read(Queue, equals("identifier", created.identifier))
    assert found.value is not None
    assert (found.value.label, found.value.quota) == ("Orders", 7)
    assert found.filled == Queue.directory_attributes()


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.18/1")
def test_creation_writes_only_the_attributes_named() -> None:
    world = World()
    world.directory.create(queue(5, r"ALPHA\orders", label="Orders", quota=7), NOW, ["label"])
    found = world.directory.read(Queue)
    assert found.value is not None
    assert (found.value.label, found.value.quota) == ("Orders", 0xFFFFFFFF)
    assert ("quota" not in found.filled) is world.backing.keeps_silence
    silent = NO_ATTRIBUTE if world.backing.keeps_silence else SUCCESS
    assert world.directory.read(Queue, (), ["quota"]).status is silent
    assert world.directory.read(Queue, (), ["label", "pathname"]).status is SUCCESS


@pytest.mark.spec("MS-MQDMPR 3.1.1.1/4", "MS-MQDMPR 3.1.1.2/2")
@pytest.mark.parametrize("value", [machine(1, "ALPHA"), queue(2, r"ALPHA\q")])
def test_times_are_seconds_and_the_modify_time_moves_on_each_change(
    value: QueueManager | Queue,
) -> None:
    world = World()
    world.directory.create(value, NOW)
    assert times(world, value) == (NOW, NOW)
    world.directory.write(value, NOW + 60)
    assert times(world, value) == (NOW, NOW + 60)
    world.directory.write(value, NOW + 10)
    assert times(world, value) == (NOW, NOW + 60)


def times(world: World, value: QueueManager | Queue) -> tuple[int, int]:
    read = world.directory.read(type(value)).value
    assert read is not None
    return read.create_time, read.modify_time


@pytest.mark.spec("MS-MQDMPR 3.1.1.2/3")
def test_the_type_of_a_queue_is_returned_as_it_was_given() -> None:
    world = World()
    for number, kind in enumerate((NULL_GUID, b"\xff" * 16, bytes(range(16)))):
        world.add(queue(number + 1, rf"A\q{number}", type=kind))
        read = world.directory.read(Queue, equals("type", kind)).value
        assert read is not None
        assert read.type == kind


def test_the_directory_sets_paths() -> None:
    world = World()
    each = world.one_of_each()
    world.add(*each)
    paths = [getattr(world.directory.read(type(value)).value, "full_path", None) for value in each]
    assert paths[0] == "CN=msmq,CN=ALPHA,CN=Computers,DC=posthouse"
    assert paths[1] == "CN=orders,CN=msmq,CN=ALPHA,CN=Computers,DC=posthouse"
    assert paths[2] == "CN=Berlin,CN=Sites,CN=Configuration,DC=posthouse"
    assert all(path is None or path.endswith(",DC=posthouse") for path in paths)
    public = world.directory.read(Queue).value
    assert public is not None
    assert public.directory_path == f"LDAP://{public.full_path}"


@pytest.mark.spec("MS-MQDMPR 3.1.1.2/15")
@pytest.mark.parametrize("kind", [QueueType.PRIVATE, QueueType.SYSTEM, QueueType.CONNECTOR])
def test_only_public_queues_are_published(kind: QueueType) -> None:
    world = World()
    assert world.directory.create(queue(1, r"A\q", queue_type=kind), NOW).status is GENERIC_ERROR
    assert world.records == {}


@pytest.mark.spec("MS-MQDMPR 3.1.1.7/1")
def test_a_site_name_is_unique_in_the_enterprise() -> None:
    world = World()
    world.add(site(1, "Berlin"), site(2, "Paris"))
    assert world.directory.create(site(3, "BERLIN"), NOW).status is EXISTS
    assert world.directory.write(site(2, "berlin"), NOW) is EXISTS
    assert world.directory.write(site(1, "BERLIN"), NOW) is SUCCESS


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (machine(1, "ALPHA"), machine(2, "alpha")),
        (queue(1, r"A\q"), queue(2, r"a\Q")),
        (link(1, 7, 8), link(2, 8, 7)),
        (Enterprise(name="one"), Enterprise(name="two")),
        (User(security_identifier=ALICE), User(security_identifier=ALICE)),
        (DistributionList(name="x"), DistributionList(name="X")),
        (site(1, "a"), site(1, "b")),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_second_object_of_the_same_name_or_identifier_is_refused(
    first: DirectoryObject, second: DirectoryObject
) -> None:
    world = World()
    world.add(first)
    before = dict(world.records)
    assert world.directory.create(second, NOW).status is EXISTS
    assert world.records == before


def test_a_name_is_free_again_after_deletion_and_renaming() -> None:
    world = World()
    world.add(site(1, "a"), site(2, "b"))
    assert world.directory.write(site(1, "c"), NOW) is SUCCESS
    assert world.directory.delete(site(2, "b")) is SUCCESS
    world.add(site(3, "a"), site(4, "b"))
    renamed = world.directory.read(Site, equals("name", "c")).value
    assert renamed is not None
    assert renamed.full_path.startswith("CN=c,")


def test_objects_outside_their_limits_are_never_stored() -> None:
    world = World()
    with pytest.raises(IllegalPropertyValue):
        world.directory.create(link(1, 2, 3, cost=0), NOW)
    world.add(link(1, 2, 3))
    with pytest.raises(IllegalPropertyValue):
        world.directory.write(link(1, 2, 3, cost=1_000_000), NOW)
    with pytest.raises(IllegalSecurityDescriptor):
        world.directory.create(site(1, "s", security=security(0x40)), NOW)
    stored = world.directory.read(RoutingLink).value
    assert stored is not None
    assert stored.actual_cost == 1


@pytest.mark.spec("MS-MQDMPR 3.1.1/4")
def test_the_identifier_never_changes() -> None:
    world = World()
    [identifier] = world.add(Site(name="a"))
    changed = Site(identifier=identifier, name="b", foreign_site=True)
    assert world.directory.write(changed, NOW, ["identifier", "name", "foreign_site"]) is SUCCESS
    assert world.directory.write(Site(identifier=guid(77), name="b"), NOW) is NOT_FOUND
    assert all_of(world.directory, Site) == [identifier]
    assert all_of(world.restarted(), Site) == [identifier]


def test_what_is_fixed_at_creation_stays() -> None:
    world = World()
    world.add(queue(1, r"A\q"))
    for wrong in (queue(1, r"A\other"), queue(1, r"A\q", transactional=True)):
        with pytest.raises(PropertyNotAllowed):
            world.directory.write(wrong, NOW)
    assert world.directory.write(queue(1, r"A\other", label="x"), NOW, ["label"]) is SUCCESS
    stored = world.directory.read(Queue).value
    assert stored is not None
    assert (stored.pathname, stored.label) == (r"A\q", "x")


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.24/1")
def test_writing_updates_all_attributes_or_those_named() -> None:
    world = World()
    world.add(machine(1, "A", routing_server=True, clustered=True))
    assert world.directory.write(machine(1, "A"), NOW, ["clustered"]) is SUCCESS
    assert flags(world) == (True, False)
    assert world.directory.write(machine(1, "A"), NOW) is SUCCESS
    assert flags(world) == (False, False)


def flags(world: World) -> tuple[bool, bool]:
    read = world.directory.read(QueueManager).value
    assert read is not None
    return read.routing_server, read.clustered


def test_writing_an_attribute_publishes_it() -> None:
    world = World()
    world.directory.create(Enterprise(name="e"), NOW, ["name"])
    identifier = guid(world.guids.last)
    ask = ["old_directory"]
    silent = NO_ATTRIBUTE if world.backing.keeps_silence else SUCCESS
    assert world.directory.read(Enterprise, (), ask).status is silent
    changed = Enterprise(identifier=identifier, old_directory=False)
    assert world.directory.write(changed, NOW, ask) is SUCCESS
    read = world.directory.read(Enterprise, (), ask)
    assert read.value is not None
    assert (read.value.old_directory, read.value.name) == (False, "")
    assert read.filled == {"identifier", "old_directory"}


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.19/1")
def test_deletion_removes_the_object_and_returns_the_status() -> None:
    world = World()
    world.add(site(1, "a"))
    assert world.directory.delete(site(1, "whatever")) is SUCCESS
    assert world.directory.delete(site(1, "a")) is NOT_FOUND
    assert world.directory.read(Site).status is NOT_FOUND
    assert world.records == {}


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.20/1", clause="every filter")
def test_a_read_finds_the_first_object_that_fits_every_filter() -> None:
    world = World()
    world.add(link(1, 10, 11, cost=5), link(2, 10, 12, cost=3), link(3, 10, 13, cost=3))
    cheap = Filter("actual_cost", Operator.LESS_THAN, 5)
    other = Filter("site2_identifier", Operator.NOT_EQUALS, guid(12))
    for filters, number in [((), 1), ((cheap,), 2), ((cheap, other), 3)]:
        found = world.directory.read(RoutingLink, filters).value
        assert found is not None
        assert found.identifier == guid(number)
    nothing = Filter("actual_cost", Operator.GREATER_THAN, 5)
    assert world.directory.read(RoutingLink, [cheap, nothing]).status is NOT_FOUND


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.20/1", clause="beside a key")
def test_an_object_that_is_asked_for_by_its_key_has_to_fit_the_other_filters_too() -> None:
    world = World()
    world.add(queue(1, r"A\q", label="x"))
    for key in (Filter("identifier", Operator.EQUALS, guid(1)), *equals("pathname", r"A\q")):
        for label, status in (("x", SUCCESS), ("y", NOT_FOUND)):
            other = Filter("label", Operator.EQUALS, label)
            for filters in ((key, other), (other, key)):
                assert world.directory.read(Queue, filters).status is status


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.20/4")
def test_with_an_attribute_list_only_those_are_filled() -> None:
    world = World()
    world.add(queue(1, r"A\q", label="x", quota=9))
    found = world.directory.read(Queue, (), ["label"])
    assert found.value is not None
    assert found.filled == {"identifier", "pathname", "label"}
    assert (found.value.label, found.value.quota) == ("x", 0xFFFFFFFF)


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.20/3")
def test_unknown_attributes_are_refused_everywhere() -> None:
    world = World()
    for filters in (equals("queue_type", 1), equals("nonsense", 1)):
        with pytest.raises(IllegalPropertyId):
            world.directory.read(Queue, filters)
        with pytest.raises(IllegalPropertyId):
            world.directory.begin(Queue, filters)
    for call in (
        lambda: world.directory.read(Queue, (), ["scope"]),
        lambda: world.directory.begin(Queue, (), ["scope"]),
        lambda: world.directory.begin(Queue, (), None, [SortOrder("scope", 1)]),
        lambda: world.directory.create(queue(1, r"A\q"), NOW, ["scope"]),
        lambda: world.directory.write(queue(1, r"A\q"), NOW, ["scope"]),
    ):
        with pytest.raises(IllegalPropertyId):
            call()


def test_an_identifier_of_another_type_finds_nothing() -> None:
    world = World()
    world.add(site(1, "a"))
    assert world.directory.read(Site, equals("identifier", ["x"])).status is NOT_FOUND


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.21/1", "MS-MQDMPR 3.1.7.1.22/1", "MS-MQDMPR 3.1.7.1.22/2")
def test_a_query_hands_out_what_fits_one_by_one_and_then_ends() -> None:
    world = World()
    world.add(*(link(n, 100, 100 + n, cost=n) for n in range(1, 6)))
    filters = [Filter("actual_cost", Operator.GREATER_THAN, 2)]
    sort = [SortOrder("actual_cost", 1, ascending=False)]
    begun = world.directory.begin(RoutingLink, filters, ["actual_cost"], sort)
    results = [world.directory.next(begun.handle) for _ in range(5)]
    assert [result.status for result in results] == [SUCCESS] * 3 + [END_OF_DATA] * 2
    values = [value_of(result) for result in results[:3]]
    assert [value.actual_cost for value in values] == [5, 4, 3]
    assert [value.site_gate_identifier_list for value in values] == [()] * 3
    assert len(all_of(world.directory, RoutingLink)) == 5


def test_queries_do_not_see_later_changes_and_do_not_disturb_each_other() -> None:
    world = World()
    world.add(site(1, "a"), site(2, "b"))
    one, two = world.directory.begin(Site).handle, world.directory.begin(Site).handle
    assert value_of(world.directory.next(one)).name == "a"
    world.directory.delete(site(2, "b"))
    assert value_of(world.directory.next(one)).name == "b"
    assert value_of(world.directory.next(two)).name == "a"


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.23/1")
def test_an_ended_query_is_gone() -> None:
    world = World()
    world.add(site(1, "a"))
    handle = world.directory.begin(Site).handle
    assert world.directory.end(handle) is SUCCESS
    assert world.directory.next(handle).status is GENERIC_ERROR
    assert world.directory.end(handle) is GENERIC_ERROR


def test_forgotten_queries_have_a_limit() -> None:
    world = World()
    handles = [world.directory.begin(Site).handle for _ in range(QUERIES_MAX)]
    assert world.directory.begin(Site).status is GENERIC_ERROR
    world.directory.end(handles[0])
    assert world.directory.begin(Site).status is SUCCESS


@pytest.mark.spec("MS-MQDMPR 3.1.1.17/1")
def test_an_operation_ends_in_one_of_the_documents_ways() -> None:
    world = World()
    directory, one = world.directory, site(1, "a")
    ends = [
        directory.create(one, NOW).status,
        directory.create(one, NOW).status,
        directory.read(Site, equals("name", "b")).status,
        directory.next(directory.begin(Site, equals("name", "b")).handle).status,
        directory.end(4711),
    ]
    directory.connected = False
    ends.append(directory.read(Site).status)
    assert ends == [SUCCESS, EXISTS, NOT_FOUND, END_OF_DATA, GENERIC_ERROR, NOT_CONNECTED]
    assert {end.name for end in ends} | {NO_ATTRIBUTE.name} == {
        result.name for result in DirectoryOperationResult
    }


def test_without_connection_nothing_is_done() -> None:
    world = World()
    world.add(site(1, "a"))
    before = dict(world.records)
    world.directory.connected = False
    assert world.directory.create(site(2, "b"), NOW).status is NOT_CONNECTED
    assert world.directory.read(Site).status is NOT_CONNECTED
    assert world.directory.begin(Site).status is NOT_CONNECTED
    assert world.directory.write(site(1, "c"), NOW) is NOT_CONNECTED
    assert world.directory.delete(site(1, "a")) is NOT_CONNECTED
    assert world.records == before
    world.directory.connected = True
    assert world.directory.read(Site).status is SUCCESS


@pytest.mark.parametrize(("number", "value"), list(enumerate(ONE_OF_EACH, 1)))
def test_records_are_kept_under_numbers_that_never_change(
    value: DirectoryObject, number: int
) -> None:
    assert record_key(value) == bytes((number,)) + value.identifier


def test_names_stay_unique_over_a_restart() -> None:
    world = World()
    world.add(site(1, "a"))
    assert world.restarted().create(site(2, "A"), NOW).status is EXISTS


def test_a_record_under_a_wrong_key_is_damage() -> None:
    world = World()
    world.add(site(1, "a"))
    [(key, data)] = world.records.items()
    for wrong in (key[:-1] + b"\xff", b"\x09" + key[1:], b""):
        with pytest.raises(RemoteProtocolError):
            EmbeddedDirectory.load([(wrong, data)], world.records.define, world.guids)
    with pytest.raises(RemoteProtocolError):
        EmbeddedDirectory.load([(key, data[:-1])], world.records.define, world.guids)
    assert record_key(site(1, "a")) == key


def test_a_descriptor_decides_who_reads_changes_and_deletes() -> None:
    world = World()
    world.add(site(1, "open"), site(2, "shut", security=security(0x10)))
    world.add(site(3, "readable", security=security(rights.GET_SITE_PROPERTIES)))
    directory = world.directory
    shut = Site(identifier=guid(2), name="shut", foreign_site=True)
    assert directory.read(Site, equals("name", "shut"), None, bob).status is NOT_FOUND
    assert directory.write(shut, NOW, ["foreign_site"], bob) is SUCCESS
    assert directory.delete(shut, bob) is GENERIC_ERROR
    assert directory.read(Site, equals("name", "open"), None, bob).status is SUCCESS
    assert directory.write(site(1, "x"), NOW, None, bob) is GENERIC_ERROR
    assert directory.read(Site, equals("name", "readable"), None, bob).status is SUCCESS
    assert directory.read(Site, equals("name", "readable"), None, Caller.anonymous()).value is None
    begun = directory.begin(Site, (), None, (), bob)
    assert value_of(directory.next(begun.handle)).name == "open"
    assert directory.delete(shut, Caller.administrator()) is SUCCESS
    assert directory.delete(site(3, "readable")) is SUCCESS


def test_setting_properties_does_not_include_setting_rights() -> None:
    world = World()
    secured = site(1, "a", security=security(rights.SET_SITE_PROPERTIES))
    world.add(secured)
    opened = msgspec.structs.replace(secured, security=security(0xF0037))
    for attributes in (None, ["security"]):
        assert world.directory.write(opened, NOW, attributes, bob) is GENERIC_ERROR
    assert world.directory.write(secured, NOW, None, bob) is SUCCESS


@pytest.mark.parametrize(
    ("mask", "owner", "status"),
    [
        (rights.WRITE_DACL, ALICE, SUCCESS),
        (rights.WRITE_DACL, BOB, GENERIC_ERROR),
        (rights.WRITE_DACL | rights.WRITE_OWNER, BOB, SUCCESS),
        (rights.WRITE_OWNER, BOB, GENERIC_ERROR),
    ],
)
def test_rights_and_owner_need_rights_of_their_own(mask: int, owner: bytes, status: object) -> None:
    world = World()
    world.add(site(1, "a", security=security(mask)))
    entries = Acl((Ace.of(ALLOWED, BOB, 0xF0037),))
    changed = SecurityDescriptor(owner).with_dacl(entries).pack()
    directory = world.directory
    assert directory.write(site(1, "a", security=changed), NOW, ["security"], bob) is status
    audited = SecurityDescriptor(owner).with_dacl(entries).with_sacl(Acl()).pack()
    mine = site(1, "a", security=audited)
    assert directory.write(mine, NOW, ["security"], bob) is GENERIC_ERROR
    assert directory.write(mine, NOW, ["security"], Caller.administrator()) is SUCCESS


def test_a_descriptor_is_shown_to_those_who_may_read_it() -> None:
    world = World()
    readable = security(rights.GET_SITE_PROPERTIES)
    legible = security(rights.GET_SITE_PROPERTIES | rights.READ_CONTROL)
    world.add(site(1, "a", security=readable), site(2, "b", security=legible))
    directory = world.directory
    hidden = directory.read(Site, equals("name", "a"), None, bob)
    assert value_of(hidden).security == b""
    assert "security" not in hidden.filled
    assert directory.read(Site, equals("name", "a"), ["security"], bob).status is NO_ATTRIBUTE
    shown = directory.read(Site, equals("name", "b"), None, bob)
    assert value_of(shown).security == legible
    assert value_of(directory.read(Site, equals("name", "a"))).security == readable
    begun = directory.begin(Site, (), ["security"], (), bob)
    assert directory.next(begun.handle).status is NO_ATTRIBUTE
    assert value_of(directory.next(begun.handle)).security == legible


def test_creating_needs_the_right_on_the_machine_or_the_enterprise() -> None:
    world = World()
    world.add(machine(1, "A", security=security(rights.CREATE_QUEUE)))
    directory = world.directory
    assert directory.create(queue(2, r"A\q"), NOW, None, bob).status is SUCCESS
    assert directory.create(queue(3, r"B\q"), NOW, None, bob).status is GENERIC_ERROR
    assert directory.create(site(4, "s"), NOW, None, bob).status is GENERIC_ERROR
    assert directory.create(Enterprise(), NOW, None, bob).status is GENERIC_ERROR
    world.add(Enterprise(security=security(rights.CREATE_SITE)))
    assert directory.create(site(4, "s"), NOW, None, bob).status is SUCCESS
    assert directory.create(machine(5, "C"), NOW, None, bob).status is GENERIC_ERROR
    assert directory.create(machine(5, "C"), NOW, None, Caller.administrator()).status is SUCCESS


def test_structs_cannot_be_changed_behind_the_directory() -> None:
    with pytest.raises(AttributeError):
        site(1, "a").name = "b"  # type: ignore[misc]
    assert msgspec.structs.replace(site(1, "a"), name="b").name == "b"


def fitting(directory: Directory, kind: type[DirectoryObject], *filters: Filter) -> list[int]:
    handle = directory.begin(kind, filters).handle
    found = []
    while (result := directory.next(handle)).status is SUCCESS:
        found.append(int.from_bytes(value_of(result).identifier, "big"))
    assert directory.end(handle) is SUCCESS
    return sorted(found)


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.20/2", "MS-MQDMPR 3.1.7.1.21/1")
def test_each_operator_finds_what_it_says() -> None:
    world = World()
    world.add(*(link(cost, 10, 10 + cost, cost=cost) for cost in (1, 2, 3)))
    assert {
        one: fitting(world.directory, RoutingLink, Filter("actual_cost", one, 2))
        for one in Operator
    } == {
        Operator.EQUALS: [2],
        Operator.NOT_EQUALS: [1, 3],
        Operator.LESS_THAN: [1],
        Operator.GREATER_THAN: [3],
        Operator.LESS_THAN_OR_EQUAL: [1, 2],
        Operator.GREATER_THAN_OR_EQUAL: [2, 3],
    }
    with pytest.raises(IllegalPropertyValue, match="cannot be compared"):
        fitting(world.directory, RoutingLink, Filter("actual_cost", Operator.EQUALS, "2"))


def test_a_list_is_found_by_what_it_holds() -> None:
    world = World()
    world.add(machine(1, "ALPHA", site_identifier_list=(guid(8),)), machine(2, "BETA"))
    attribute, value = "site_identifier_list", guid(8)
    for operator, found in ((Operator.EQUALS, [1]), (Operator.NOT_EQUALS, [2])):
        expression = Filter(attribute, operator, value)
        assert fitting(world.directory, QueueManager, expression) == found
    kind = Filter("operating_system_type", Operator.NOT_EQUALS, OperatingSystemType.FOREIGN)
    assert fitting(world.directory, QueueManager, kind) == [1, 2]
    with pytest.raises(IllegalPropertyValue, match="no order"):
        fitting(world.directory, QueueManager, Filter(attribute, Operator.LESS_THAN, value))
