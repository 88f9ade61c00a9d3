"""Objects as LDAP entries, and back."""

from collections.abc import Iterable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from posthouse.directory.ldap.fields import FIELDS, directory_server_type, service_type
from posthouse.directory.ldap.names import Dn
from posthouse.directory.ldap.reading import (
    MARK,
    MEMBER_MARK,
    Atlas,
    members_of,
    object_of,
    read_all,
)
from posthouse.directory.ldap.values import LdapEntry, of_octets, of_time
from posthouse.directory.ldap.writing import (
    OBJECT_CLASSES,
    Attributes,
    computer_attributes,
    computer_place,
    entry_attributes,
    fixed_attributes,
    link_name,
    member_place,
    place_of,
    settings_attributes,
    settings_place,
)
from posthouse.directory.objects import (
    DirectoryObject,
    DistributionList,
    Enterprise,
    Queue,
    QueueAlias,
    QueueManager,
    RoutingLink,
    Site,
    User,
)
from posthouse.model.guids import format_guid
from posthouse.model.properties import DirectoryServerType

from .world import ALICE, NOW, any_objects, guid, link, machine, machines, queue, site

ROOT = Dn.parse("DC=posthouse")
CONFIGURATION = ROOT.child("Configuration")
SITES = [site(number, f"site {number}") for number in (12, 14)]
GATES = [machine(number, f"GATE{number}") for number in (21, 22)]
STANDALONE = DirectoryServerType.STANDALONE


def entry_of(value: DirectoryObject, atlas: Atlas, **more: bytes) -> LdapEntry:
    made: Attributes = {
        "objectClass": [OBJECT_CLASSES[type(value)].encode()],
        "objectGUID": of_octets(value.identifier),
        "whenCreated": of_time(getattr(value, "create_time", NOW)),
        "whenChanged": of_time(getattr(value, "modify_time", NOW)),
        **entry_attributes(value, atlas, value.directory_attributes()),
        **fixed_attributes(value, atlas),
        **{name: [text] for name, text in more.items()},
    }
    return written(place_of(value, ROOT, CONFIGURATION), made)


def written(dn: Dn, made: Attributes) -> LdapEntry:
    return LdapEntry(dn, {name.lower(): values for name, values in made.items() if values})


def computer(value: QueueManager) -> LdapEntry:
    made = computer_attributes(value, value.directory_attributes())
    place = computer_place(value.computer_name, ROOT)
    return written(place, {"objectClass": [b"computer"], **made})


def known(values: Iterable[DirectoryObject]) -> Atlas:
    atlas = Atlas(ROOT)
    for value in values:
        atlas.note(entry_of(value, atlas))
        if isinstance(value, QueueManager):
            atlas.note(computer(value))
    return atlas


def read_back(value: DirectoryObject, *others: DirectoryObject) -> DirectoryObject:
    atlas = known([*others, value])
    found = object_of(entry_of(value, atlas, adminDescription=MARK.encode()), atlas)
    assert found is not None
    return found


def comparable(value: DirectoryObject) -> DirectoryObject:
    """Without what the place of the entry says, and what no directory server holds."""
    unset: dict[str, Any] = {"full_path": "", "directory_path": "", "qualified_pathname": ""}
    if isinstance(value, QueueManager) and not value.directory_server:
        unset["directory_server_type"] = STANDALONE
    names = type(value).__struct_fields__
    return msgspec.structs.replace(value, **{k: v for k, v in unset.items() if k in names})


@given(any_objects)
def test_every_attribute_survives_the_directory(value: DirectoryObject) -> None:
    assert comparable(read_back(value)) == comparable(value)


FULL: list[DirectoryObject] = [
    machine(
        1,
        "ALPHA",
        queue_manager_version="6.3",
        operating_system_version="Linux",
        qualified_computer_name="alpha.example.com",
        journal_quota=0xFFFF_FFFE,
        foreign_system=True,
        site_identifier_list=(guid(12), guid(14)),
        out_routing_server_identifier_list=(guid(21),),
        in_routing_server_identifier_list=(guid(22), guid(99)),
        directory_server=True,
        remote_access_server=True,
        supporting_server=True,
        directory_server_type=DirectoryServerType.PRIMARY_SITE_CONTROLLER,
        clustered=True,
        addresses=("alpha:1801", "10.0.0.1"),
    ),
    queue(
        2,
        "ALPHA\\" + "long=#" * 18 + "name",
        authentication=True,
        transactional=True,
        multicast_address="239.1.2.3:8001",
        base_priority=-9,
    ),
    site(
        3,
        'Köln, "Süd"+<West>;#=\\',
        intra_site_replication_interval=7,
        inter_site_replication_interval=8,
        foreign_site=True,
        migrated_from_msmq10=True,
    ),
    link(4, 12, 14, 21, 22, cost=999_999),
    link(5, 12, 77),
    Enterprise(
        identifier=guid(6),
        name="corp",
        weakened_security=True,
        non_ldap_capable_queue_manager_notification=False,
        default_time_to_live=0xFFFF_FFFF,
        old_directory=False,
    ),
    User(identifier=guid(7), security_identifier=ALICE, name="Alice"),
    User(identifier=guid(7), security_identifier=ALICE),
    QueueAlias(identifier=guid(8), name="till", format_name=r"DIRECT=OS:a\q", description="d"),
]


@pytest.mark.parametrize("value", FULL, ids=lambda value: type(value).__name__)
def test_objects_with_everything_survive(value: DirectoryObject) -> None:
    assert comparable(read_back(value, *SITES, *GATES)) == comparable(value)


def test_a_queue_belongs_to_its_computer() -> None:
    host = machine(1, "ALPHA", qualified_computer_name="alpha.example.com")
    found = read_back(queue(2, r"ALPHA\orders"), host)
    assert isinstance(found, Queue)
    assert found.qualified_pathname == r"alpha.example.com\orders"
    assert found.queue_manager_identifier == host.identifier
    assert found.full_path == "CN=orders,CN=msmq,CN=ALPHA,CN=Computers,DC=posthouse"
    assert found.directory_path == f"LDAP://{found.full_path}"


FRESH: list[tuple[DirectoryObject, Dn]] = [
    (Queue(pathname=r"A\q"), ROOT.below("q", "msmq", "A", "Computers")),
    (QueueManager(computer_name="A"), ROOT.below("msmq", "A", "Computers")),
    (Site(name="s"), CONFIGURATION.below("s", "Sites")),
    (Enterprise(), CONFIGURATION.below("MsmqServices", "Services")),
]


@pytest.mark.parametrize(("fresh", "dn"), FRESH, ids=lambda value: type(value).__name__)
def test_attributes_that_are_absent_are_as_usual(fresh: DirectoryObject, dn: Dn) -> None:
    kind = type(fresh)
    made = {"objectclass": [OBJECT_CLASSES[kind].encode()], "objectguid": [guid(1)]}
    found = object_of(LdapEntry(dn, made), Atlas(ROOT))
    assert found is not None
    for name in FIELDS[kind]:
        assert getattr(found, name) == getattr(fresh, name), name


def test_references_that_lead_nowhere_are_left_out() -> None:
    atlas = known([*SITES, *GATES])
    entry = entry_of(link(4, 12, 14, 21, 22), atlas)
    atlas.forget(place_of(GATES[0], ROOT, CONFIGURATION))
    found = object_of(entry, atlas)
    assert isinstance(found, RoutingLink)
    assert found.site_gate_identifier_list == (guid(22),)
    named = ROOT.below(format_guid(guid(5)), "LostAndFound")
    assert atlas.identifier(QueueManager, named) == guid(5)
    assert atlas.identifier(QueueManager, ROOT.below("no guid", "LostAndFound")) is None
    assert atlas.identifier(Site, place_of(GATES[1], ROOT, CONFIGURATION)) is None


def test_a_link_whose_sites_are_gone_is_read_by_its_name_or_not_at_all() -> None:
    atlas = known(SITES)
    entry = entry_of(link(4, 12, 14), atlas)
    for gone in SITES:
        atlas.forget(place_of(gone, ROOT, CONFIGURATION))
    found = object_of(entry, atlas)
    assert isinstance(found, RoutingLink)
    assert (found.site1_identifier, found.site2_identifier) == (guid(12), guid(14))
    renamed = LdapEntry(entry.dn.parent.child("west"), entry.attributes)
    assert "leads nowhere" in read_all([renamed], Atlas(ROOT)).faults[0]


@pytest.mark.parametrize(
    ("attribute", "value"),
    [
        ("objectGUID", b"short"),
        ("mSMQQueueQuota", b"much"),
        ("mSMQJournal", b"perhaps"),
        ("mSMQPrivacyLevel", b"3"),
        ("mSMQLabelEx", b"\xff"),
        ("whenCreated", b"yesterday"),
        ("mSMQQueueType", b"x"),
    ],
)
def test_a_poisoned_entry_is_told_of_and_spoils_no_other(attribute: str, value: bytes) -> None:
    atlas = Atlas(ROOT)
    bad = entry_of(queue(2, r"A\bad"), atlas, **{attribute: value})
    bad = LdapEntry(bad.dn, {**bad.attributes, attribute.lower(): [value]})
    reading = read_all([bad, entry_of(queue(3, r"A\good"), atlas)], atlas)
    assert [one.identifier for one in reading.objects] == [guid(3)]
    assert len(reading.faults) == 1
    assert "CN=bad" in reading.faults[0]


def test_queues_and_machines_at_odd_places_are_told_of() -> None:
    made = {"objectclass": [b"mSMQQueue"], "objectguid": [guid(1)]}
    machine_made = {"objectclass": [b"mSMQConfiguration"], "objectguid": [guid(2)]}
    odd = [
        LdapEntry(Dn.parse("CN=q,DC=x"), made),
        LdapEntry(Dn.parse("CN=msmq"), machine_made),
    ]
    assert len(read_all(odd, Atlas(ROOT)).faults) == 2


def test_a_place_that_was_left_says_nothing_of_who_comes_next() -> None:
    value = machine(1, "A", qualified_computer_name="a.example")
    atlas = known([value])
    entry, host = entry_of(value, atlas), computer(value)
    damaged = LdapEntry(host.dn, {**host.attributes, "dnshostname": [b"\xff"]})
    assert len(read_all([damaged, entry], atlas).faults) == 2
    atlas.forget(host.dn)
    (found,) = read_all([entry], atlas).objects
    assert isinstance(found, QueueManager)
    assert found.qualified_computer_name == ""
    atlas.forget(entry.dn)
    assert atlas.known(entry.dn) is atlas.place(QueueManager, guid(1)) is None
    carrier = written(
        ROOT.child("carrier"),
        {
            "objectClass": [b"msMQ-Custom-Recipient"],
            "msMQ-Recipient-FormatName": [rb"DIRECT=OS:b\q"],
            "adminDescription": [MEMBER_MARK.encode()],
        },
    )
    atlas.note(carrier)
    all_of_them = group("all", 7, carrier.dn, mark=MARK)
    assert members_of(all_of_them, atlas) == (r"DIRECT=OS:b\q",)
    atlas.forget(carrier.dn)
    assert members_of(all_of_them, atlas) == ()


def test_an_object_that_moved_is_not_forgotten_with_its_old_place() -> None:
    old, new = ROOT.child("old"), ROOT.child("new")
    atlas = Atlas(ROOT)
    atlas.keep(old, Site, guid(1))
    atlas.keep(new, Site, guid(1))
    atlas.forget(old)
    assert atlas.place(Site, guid(1)) == new
    assert (atlas.known(old), atlas.known(new)) == (None, (Site, guid(1)))


def group(name: str, number: int, *members: Dn, mark: str = "") -> LdapEntry:
    made: Attributes = {
        "objectClass": [b"group"],
        "objectGUID": [guid(number)],
        "member": [str(one).encode() for one in members],
        "adminDescription": [mark.encode()] if mark else [],
    }
    return written(ROOT.below(name, "Users"), made)


def test_members_of_a_list_are_queues_lists_aliases_and_names() -> None:
    atlas = known([machine(1, "A"), queue(2, r"A\q")])
    alias = QueueAlias(identifier=guid(3), name="till", format_name=r"DIRECT=OS:b\q")
    hidden = written(
        ROOT.below("msmq-1", "Users"),
        {
            "objectClass": [b"msMQ-Custom-Recipient"],
            "msMQ-Recipient-FormatName": [b"DIRECT=OS:c\\q"],
            "adminDescription": [MEMBER_MARK.encode()],
        },
    )
    everything = group(
        "all",
        4,
        place_of(queue(2, r"A\q"), ROOT, CONFIGURATION),
        ROOT.below("inner", "Users"),
        place_of(alias, ROOT, CONFIGURATION),
        hidden.dn,
        ROOT.below("a person", "Users"),
    )
    inner = group("inner", 5, place_of(queue(2, r"A\q"), ROOT, CONFIGURATION))
    reading = read_all([everything, inner, hidden, entry_of(alias, atlas)], atlas)
    lists = {one.name: one.members for one in reading.objects if isinstance(one, DistributionList)}
    assert lists["all"] == (
        f"PUBLIC={format_guid(guid(2))}",
        f"DL={format_guid(guid(5))}",
        f"DL={format_guid(guid(3))}",
        r"DIRECT=OS:c\q",
    )
    assert [one.name for one in reading.objects if isinstance(one, QueueAlias)] == ["till"]
    for member in lists["all"][:3]:
        assert member_place(member, atlas) is not None
    assert member_place(r"DIRECT=OS:c\q", atlas) is None
    assert member_place(f"PUBLIC={format_guid(guid(9))}", atlas) is None


def test_groups_that_have_nothing_to_do_with_queues_are_no_lists() -> None:
    atlas = known([machine(1, "A"), queue(2, r"A\q")])
    inner = group("inner", 5, place_of(queue(2, r"A\q"), ROOT, CONFIGURATION))
    entries = [
        group("people", 10, ROOT.below("Alice", "Users")),
        group("idle", 11, ROOT.below("idle", "Users")),
        group("outer", 12, inner.dn),
        group("ours", 13, mark=MARK),
        inner,
    ]
    names = [getattr(one, "name", "") for one in read_all(entries, atlas).objects]
    assert names == ["outer", "ours", "inner"]


def test_accounts_that_have_nothing_to_do_with_queues_are_no_users() -> None:
    atlas = Atlas(ROOT)
    user = User(identifier=guid(7), security_identifier=ALICE, name="Alice")
    assert object_of(entry_of(user, atlas), atlas) is None
    assert object_of(entry_of(user, atlas, mSMQSignCertificates=b"x"), atlas) is not None
    host = {"objectclass": [b"user", b"computer"], "objectguid": [guid(8)]}
    assert object_of(LdapEntry(ROOT.child("HOST"), host), atlas) is None
    assert object_of(LdapEntry(ROOT, {"objectclass": [b"domain"]}), atlas) is None


def test_an_entry_without_identifier_stands_there_for_those_below_it() -> None:
    entry = LdapEntry(ROOT.below("msmq", "A"), {"objectclass": [b"mSMQConfiguration"]})
    assert object_of(entry, Atlas(ROOT)) is None


@pytest.mark.spec("MS-MQDMPR 3.1.1.1/11")
@given(machines)
def test_the_service_type_says_which_server_a_machine_is(value: QueueManager) -> None:
    """One that is not a directory server has no type of it, whatever is entered."""
    number = service_type(value)
    offered = value.directory_server_type if value.directory_server else STANDALONE
    assert directory_server_type(number) is offered
    assert bool(number & 1) is value.routing_server


def test_computers_keep_what_others_wrote() -> None:
    host = machine(1, "A", clustered=True, addresses=("a:1",))
    made = computer_attributes(
        host,
        host.directory_attributes(),
        ["HOST/a", "MSClusterVirtualServer/a"],
        ["other", "msmq:b"],
    )
    assert made["servicePrincipalName"] == [b"HOST/a", b"MSClusterVirtualServer/A"]
    assert made["networkAddress"] == [b"other", b"msmq:a:1"]


def test_sites_know_their_servers() -> None:
    server = machine(1, "A", routing_server=True)
    made = settings_attributes(server)
    assert (made["mSMQQMID"], made["mSMQServices"]) == ([guid(1)], [b"1"])
    assert made["mSMQRoutingService"] == [b"TRUE"]
    place = settings_place("A", CONFIGURATION.below("Berlin", "Sites"))
    assert str(place).startswith("CN=MSMQ Settings,CN=A,CN=Servers,CN=Berlin,CN=Sites,")


def test_links_are_named_by_their_sites() -> None:
    assert link_name(link(1, 2, 3)) == guid(2).hex() + guid(3).hex()
    assert link_name(link(1, 2, 3), turned=True) == guid(3).hex() + guid(2).hex()


@given(
    st.dictionaries(
        st.sampled_from(
            ["objectGUID", "mSMQQueueQuota", "mSMQSites", "mSMQCost", "member", "whenCreated"]
        ),
        st.lists(st.binary(max_size=20), max_size=3),
    ),
    st.sampled_from(sorted(OBJECT_CLASSES.values())),
)
def test_any_entry_is_an_object_or_told_of(made: Attributes, kind: str) -> None:
    entry = written(ROOT.below("q", "msmq", "A"), {**made, "objectClass": [kind.encode()]})
    reading = read_all([entry], Atlas(ROOT))
    assert len(reading.objects) + len(reading.faults) <= 1
