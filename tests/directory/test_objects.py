"""Directory objects: defaults, limits, records."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from posthouse.directory.objects import (
    KINDS,
    ConnectedNetwork,
    DirectoryObject,
    DistributionList,
    Enterprise,
    Entry,
    Queue,
    QueueManager,
    RoutingLink,
    Site,
    User,
    decode_entry,
    encode_entry,
)
from posthouse.model.errors import (
    IllegalFormatName,
    IllegalPropertyValue,
    IllegalQueuePathname,
    IllegalSecurityDescriptor,
    InsufficientProperties,
    LabelTooLong,
    QueueError,
    RemoteProtocolError,
)
from posthouse.model.guids import NULL_GUID
from posthouse.model.message_values import BASE_PROVIDER
from posthouse.model.properties import (
    OperatingSystemType,
    QueuePrivacyLevel,
    QueueScope,
    QueueType,
)
from posthouse.security.acls import ALLOWED, Ace, Acl
from posthouse.security.descriptors import SecurityDescriptor
from posthouse.security.keys import (
    ProviderKey,
    UserCertificate,
    certificate_digest,
    pack_provider_keys,
    pack_user_certificates,
)
from posthouse.security.sids import EVERYONE

from .world import ALICE, ONE_OF_EACH, any_objects, guid, link, machine, queue, site

TWICE = (guid(2), guid(2))
MANY_GUIDS = tuple(map(guid, range(1, 4098)))


def security(mask: int) -> bytes:
    return SecurityDescriptor(ALICE).with_dacl(Acl((Ace.of(ALLOWED, EVERYONE, mask),))).pack()


def test_a_new_queue_manager_has_the_documented_defaults() -> None:
    new = QueueManager(computer_name="ALPHA")
    new.validate()
    assert new.queue_manager_version == ""
    assert (new.queue_manager_quota, new.journal_quota) == (0x00100000, 0xFFFFFFFF)
    assert (new.foreign_system, new.remote_access_server) == (False, False)
    assert (new.supporting_server, new.routing_server) == (False, False)
    assert new.site_identifier_list == ()
    assert new.out_routing_server_identifier_list == new.in_routing_server_identifier_list == ()
    assert new.connected_network_identifier_list == ()
    assert new.public_encryption_key_list == new.public_signing_key_list == b""


def test_short_and_qualified_name_are_two_attributes() -> None:
    attributes = QueueManager.directory_attributes()
    assert {"computer_name", "qualified_computer_name"} <= attributes
    both = machine(1, "ALPHA", qualified_computer_name="alpha.example.com")
    assert (both.computer_name, both.qualified_computer_name) == ("ALPHA", "alpha.example.com")


@pytest.mark.spec("MS-MQDMPR 3.1.1.1/3")
def test_no_operating_system_type_beyond_the_six_is_stored() -> None:
    assert len(OperatingSystemType) == 6
    record = msgspec.msgpack.decode(encode_entry(Entry(machine(1, "A"), frozenset())))
    record["value"]["operating_system_type"] = 0x600
    with pytest.raises(RemoteProtocolError):
        decode_entry(msgspec.msgpack.encode(record))


def test_a_new_queue_object_has_the_documented_defaults() -> None:
    new = Queue(pathname=r"ALPHA\orders")
    new.validate()
    assert (new.quota, new.journal_quota) == (0xFFFFFFFF, 0xFFFFFFFF)
    assert new.privacy_level is QueuePrivacyLevel.OPTIONAL
    assert (new.type, new.label, new.multicast_address) == (NULL_GUID, "", "")
    assert (new.journaling, new.authentication, new.transactional) == (False, False, False)
    assert new.base_priority == 0


@pytest.mark.spec("MS-MQDMPR 3.1.1.2/11")
def test_the_scope_is_always_the_enterprise_and_never_published() -> None:
    assert queue(1, r"A\q").scope is QueueScope.ENTERPRISE
    assert "scope" not in Queue.directory_attributes()


def test_what_is_local_about_a_queue_is_no_directory_attribute() -> None:
    assert not {"queue_type", "private_queue_number"} & Queue.directory_attributes()
    assert queue(1, r"A\q").is_public
    assert queue(1, r"ALPHA\q").computer_name == "ALPHA"


@pytest.mark.parametrize(
    ("value", "error"),
    [
        (queue(1, r"A\q", label="x" * 125), LabelTooLong),
        (queue(1, r"A\q", quota=-1), IllegalPropertyValue),
        (queue(1, r"A\q", type=b"short"), IllegalPropertyValue),
        (queue(1, r"A\q", multicast_address="10.0.0.1:5"), IllegalPropertyValue),
        (queue(1, r"A\private$\q"), IllegalQueuePathname),
        (queue(1, r"A\q;sub"), IllegalQueuePathname),
        (queue(1, r".\q"), IllegalQueuePathname),
        (queue(1, "q"), IllegalQueuePathname),
        (machine(1, ""), IllegalPropertyValue),
        (machine(1, "a b"), IllegalPropertyValue),
        (machine(1, "A", queue_manager_quota=1 << 32), IllegalPropertyValue),
        (machine(1, "A", site_identifier_list=TWICE), IllegalPropertyValue),
        (machine(1, "A", journal_quota=-1), IllegalPropertyValue),
        (machine(1, "A", connected_network_identifier_list=TWICE), IllegalPropertyValue),
        (machine(1, "A", out_routing_server_identifier_list=TWICE), IllegalPropertyValue),
        (machine(1, "A", in_routing_server_identifier_list=TWICE), IllegalPropertyValue),
        (machine(1, "A", public_encryption_key_list=b"junk"), IllegalPropertyValue),
        (machine(1, "A", public_signing_key_list=b"junk"), IllegalPropertyValue),
        (link(1, 2, 3, 4, 4), IllegalPropertyValue),
        (machine(1, "A", site_identifier_list=MANY_GUIDS), IllegalPropertyValue),
        (site(1, ""), IllegalPropertyValue),
        (site(1, "x" * 65), IllegalPropertyValue),
        (site(1, "a\nb"), IllegalPropertyValue),
        (site(1, "a", intra_site_replication_interval=70_000), IllegalPropertyValue),
        (ConnectedNetwork(name=" x"), IllegalPropertyValue),
        (Enterprise(default_time_to_live=-1), IllegalPropertyValue),
        (User(security_identifier=b"nobody"), IllegalPropertyValue),
        (User(security_identifier=ALICE, certificates=b"\1"), IllegalPropertyValue),
        (DistributionList(name="x", members=("nonsense",)), IllegalFormatName),
        (DistributionList(name="x", members=(r"DIRECT=OS:a\q;journal",)), IllegalFormatName),
        (DistributionList(name="x", members=(r"DIRECT=OS:a\q",) * 4097), IllegalPropertyValue),
    ],
)
def test_attributes_outside_their_limits_are_refused(
    value: DirectoryObject, error: type[QueueError]
) -> None:
    with pytest.raises(error):
        value.validate()


def test_limits_can_be_reached() -> None:
    machine(1, "A", queue_manager_quota=0, site_identifier_list=MANY_GUIDS[:4096]).validate()
    for count in (0, 4096):
        DistributionList(name="x", members=(r"DIRECT=OS:a\q",) * count).validate()


@pytest.mark.parametrize("value", ONE_OF_EACH, ids=lambda value: type(value).__name__)
def test_ordinary_objects_are_accepted(value: DirectoryObject) -> None:
    value.validate()
    assert KINDS[type(value).__name__] is type(value)
    assert "identifier" in value.directory_attributes()


def test_a_private_queue_is_a_valid_local_object() -> None:
    queue(1, r"A\private$\q", queue_type=QueueType.PRIVATE).validate()


@pytest.mark.spec("MS-MQDMPR 3.1.1.8/1")
@pytest.mark.parametrize(("cost", "valid"), [(0, 0), (1, 1), (999_999, 1), (1_000_000, 0)])
def test_a_cost_is_a_number_from_1_to_999999(cost: int, valid: int) -> None:
    if valid:
        link(1, 2, 3, cost=cost).validate()
        return
    with pytest.raises(IllegalPropertyValue):
        link(1, 2, 3, cost=cost).validate()


@pytest.mark.spec("MS-MQDMPR 3.1.1.8/2")
def test_a_link_names_exactly_two_sites() -> None:
    link(1, 2, 3).validate()
    with pytest.raises(IllegalPropertyValue):
        link(1, 2, 2).validate()
    with pytest.raises(InsufficientProperties):
        link(1, 2, 0).validate()
    assert link(1, 2, 3).unique_name == link(4, 3, 2).unique_name


@pytest.mark.spec(
    "MS-MQDMPR 3.1.1.1/13",
    "MS-MQDMPR 3.1.1.2/10",
    "MS-MQDMPR 3.1.1.6/4",
    "MS-MQDMPR 3.1.1.7/3",
    "MS-MQDMPR 3.1.1.9/1",
)
@pytest.mark.parametrize(
    ("kind", "fields", "fine", "foreign"),
    [
        (QueueManager, {"computer_name": "A"}, 0xF00F7, 0x8),
        (Queue, {"pathname": r"A\q"}, 0xF003F, 0x40),
        (Enterprise, {}, 0xF0037, 0x40),
        (Site, {"name": "s"}, 0xF0037, 0x80),
        (ConnectedNetwork, {"name": "n"}, 0xF0031, 0x4),
    ],
)
def test_descriptors_use_only_bits_of_their_kind(
    kind: type[DirectoryObject], fields: dict[str, str], fine: int, foreign: int
) -> None:
    kind(security=security(fine), **fields).validate()  # type: ignore[arg-type, call-arg]
    with pytest.raises(IllegalSecurityDescriptor):
        kind(security=security(foreign), **fields).validate()  # type: ignore[arg-type, call-arg]


@pytest.mark.spec("MS-MQDMPR 3.1.1.15/1")
def test_a_user_ties_one_sid_to_certificates_with_their_md5_digests() -> None:
    entries = [UserCertificate.of(b"one"), UserCertificate.of(b"two")]
    digests = tuple(entry.digest for entry in entries)
    packed = pack_user_certificates(entries)
    user = User(security_identifier=ALICE, certificates=packed, certificate_digest_list=digests)
    user.validate()
    for wrong in (digests[:1], (*digests, certificate_digest(b"three")), (digests[0][:8],)):
        with pytest.raises(IllegalPropertyValue):
            msgspec.structs.replace(user, certificate_digest_list=wrong).validate()
    lying = entries[0]._replace(digest=bytes(16))
    for listed in (lying.digest, entries[0].digest):
        with pytest.raises(IllegalPropertyValue):
            User(
                security_identifier=ALICE,
                certificates=pack_user_certificates([lying]),
                certificate_digest_list=(listed,),
            ).validate()


def test_key_lists_are_real_key_lists() -> None:
    keys = pack_provider_keys([ProviderKey(BASE_PROVIDER, 1, b"blob")])
    machine(1, "A", public_encryption_key_list=keys).validate()


@given(any_objects, st.booleans())
def test_objects_survive_the_store(value: DirectoryObject, partly: bool) -> None:
    published = frozenset({"identifier"}) if partly else value.directory_attributes()
    entry = Entry(value, published)  # type: ignore[arg-type]
    assert decode_entry(encode_entry(entry)) == entry
    assert encode_entry(decode_entry(encode_entry(entry))) == encode_entry(entry)


@given(st.binary(max_size=60))
def test_any_bytes_give_an_object_or_the_one_error(data: bytes) -> None:
    try:
        entry = decode_entry(data)
    except RemoteProtocolError:
        return
    assert isinstance(entry, Entry)


@given(any_objects, st.integers(0, 2000), st.integers(0, 255))
def test_damaged_records_give_an_object_or_the_one_error(
    value: DirectoryObject, at: int, byte: int
) -> None:
    data = bytearray(encode_entry(Entry(value, frozenset())))  # type: ignore[arg-type]
    data[at % len(data)] = byte
    try:
        entry = decode_entry(bytes(data))
    except RemoteProtocolError:
        return
    assert isinstance(entry, Entry)


def test_two_links_between_the_same_sites_are_the_same_link() -> None:
    assert RoutingLink(site1_identifier=guid(1), site2_identifier=guid(2)).touches(guid(2))
    assert not link(1, 2, 3).touches(guid(1))
