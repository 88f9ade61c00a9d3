"""The objects of the directory with their directory attributes ([MS-MQDMPR] 3.1.1).

Values, never changed in place; attributes bear the document's names in snake_case. Defaults are
those of the document, and of the directory where an attribute was never written.
"""

from collections.abc import Callable, Iterable
from functools import cache
from typing import ClassVar, Final

import msgspec

from posthouse.directory.addresses import Address
from posthouse.model.errors import (
    IllegalFormatName,
    IllegalPropertyValue,
    IllegalQueuePathname,
    InsufficientProperties,
    MalformedPacket,
    RemoteProtocolError,
)
from posthouse.model.guids import NULL_GUID
from posthouse.model.names import (
    READ_ONLY_SUFFIXES,
    RESOLVED_MAX,
    MultipleName,
    PathKind,
    PathName,
    parse_format_name,
)
from posthouse.model.properties import (
    MACHINE_JOURNAL_QUOTA_DEFAULT_KIB,
    MACHINE_QUOTA_DEFAULT_KIB,
    UNLIMITED,
    DirectoryServerType,
    OperatingSystemType,
    QueuePrivacyLevel,
    QueueProperties,
    QueueScope,
    QueueType,
)
from posthouse.model.text import excerpt
from posthouse.security import rights
from posthouse.security.descriptors import unpack_descriptor
from posthouse.security.keys import (
    certificate_digest,
    unpack_provider_keys,
    unpack_user_certificates,
)
from posthouse.security.rights import AccessMasks
from posthouse.security.sids import is_sid

ACTUAL_COST_MIN: Final = 1
ACTUAL_COST_MAX: Final = 999_999
NAME_LENGTH_MAX: Final = 64  # the limit of a common name in a directory
IDENTIFIERS_MAX: Final = 4096
DEFAULT_TIME_TO_LIVE_S: Final = 345_600
U16_MAX: Final = 0xFFFF
U32_MAX: Final = 0xFFFF_FFFF


class DirectoryObject(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind"):
    """Anything that can be published; its Identifier never changes, [MS-MQDMPR] 3.1.1."""

    access_masks: ClassVar[AccessMasks | None] = None
    local_attributes: ClassVar[frozenset[str]] = frozenset()
    """Fields that are kept beside the object but never published."""
    fixed_attributes: ClassVar[frozenset[str]] = frozenset()
    """Attributes that are given at creation for good."""
    name_attribute: ClassVar[str] = ""
    """The attribute that no two objects of the kind share, whatever its letter case, if it is one.
    Those of lists and aliases are one kind of name: both are recipients."""

    identifier: bytes = NULL_GUID

    @classmethod
    def directory_attributes(cls) -> frozenset[str]:
        """The names of all attributes that the directory holds."""
        return _attributes_of(cls)

    @property
    def unique_name(self) -> str:
        """What no other object of the kind may share, in the form it is compared in."""
        return self.unique_name_of(getattr(self, self.name_attribute))

    @classmethod
    def unique_name_of(cls, name: str | bytes) -> str:
        """The form in which a value of `name_attribute` is compared."""
        return name.hex() if isinstance(name, bytes) else name.casefold()

    def validate(self) -> None:
        """Refuses the first attribute that is outside its limits."""
        if self.access_masks is not None and (security := getattr(self, "security", b"")):
            unpack_descriptor(security).check_masks(self.access_masks)


@cache
def _attributes_of(kind: type[DirectoryObject]) -> frozenset[str]:
    return frozenset(kind.__struct_fields__) - kind.local_attributes


class QueueManager(DirectoryObject, frozen=True, kw_only=True, tag="QueueManager"):
    """A computer with a queue manager, [MS-MQDMPR] 3.1.1.1."""

    access_masks = rights.MACHINE
    name_attribute = "computer_name"

    computer_name: str
    queue_manager_version: str = ""
    operating_system_version: str = ""
    operating_system_type: OperatingSystemType = OperatingSystemType.OTHER
    qualified_computer_name: str = ""
    create_time: int = 0
    modify_time: int = 0
    queue_manager_quota: int = MACHINE_QUOTA_DEFAULT_KIB
    journal_quota: int = MACHINE_JOURNAL_QUOTA_DEFAULT_KIB
    foreign_system: bool = False
    full_path: str = ""
    site_identifier_list: tuple[bytes, ...] = ()
    connected_network_identifier_list: tuple[bytes, ...] = ()
    out_routing_server_identifier_list: tuple[bytes, ...] = ()
    in_routing_server_identifier_list: tuple[bytes, ...] = ()
    directory_server: bool = False
    remote_access_server: bool = False
    routing_server: bool = False
    supporting_server: bool = False
    directory_server_type: DirectoryServerType = DirectoryServerType.STANDALONE
    public_encryption_key_list: bytes = b""
    public_signing_key_list: bytes = b""
    security: bytes = b""
    clustered: bool = False
    addresses: tuple[str, ...] = ()
    """Where it listens, host or host:port; without any, its name is looked up. Ours: the document's
    directories leave this to the name service."""

    @property
    def offered_directory(self) -> DirectoryServerType | None:
        """DirectoryServerType, which counts only while DirectoryServer is True."""
        return self.directory_server_type if self.directory_server else None

    def validate(self) -> None:
        """Names, quotas, identifier lists, key lists and access masks."""
        super().validate()
        _check_computer(self.computer_name)
        _check_number("the quota", self.queue_manager_quota, 0, U32_MAX)
        _check_number("the journal quota", self.journal_quota, 0, U32_MAX)
        _check_guids("the sites", self.site_identifier_list)
        _check_guids("the networks", self.connected_network_identifier_list)
        _check_guids("the out-routing servers", self.out_routing_server_identifier_list)
        _check_guids("the in-routing servers", self.in_routing_server_identifier_list)
        _check_blob("the encryption keys", unpack_provider_keys, self.public_encryption_key_list)
        _check_blob("the signing keys", unpack_provider_keys, self.public_signing_key_list)
        _check_number("the number of addresses", len(self.addresses), 0, IDENTIFIERS_MAX)
        for address in self.addresses:
            Address.parse(address)


class Queue(DirectoryObject, frozen=True, kw_only=True, tag="Queue"):
    """A queue as the directory shows it, [MS-MQDMPR] 3.1.1.2; only public ones are stored there.

    `queue_type` and `private_queue_number` are the kind of local queue it is, for reads that
    are answered without the directory.
    """

    access_masks = rights.QUEUE
    local_attributes = frozenset({"queue_type", "private_queue_number"})
    fixed_attributes = frozenset({"pathname", "transactional"})
    name_attribute = "pathname"
    scope: ClassVar = QueueScope.ENTERPRISE  # always, and no attribute of the directory

    pathname: str
    label: str = ""
    create_time: int = 0
    modify_time: int = 0
    type: bytes = NULL_GUID
    qualified_pathname: str = ""
    journaling: bool = False
    quota: int = UNLIMITED
    journal_quota: int = UNLIMITED
    authentication: bool = False
    privacy_level: QueuePrivacyLevel = QueuePrivacyLevel.OPTIONAL
    transactional: bool = False
    multicast_address: str = ""
    security: bytes = b""
    base_priority: int = 0
    full_path: str = ""
    directory_path: str = ""
    queue_manager_identifier: bytes = NULL_GUID
    """The hosting queue manager, PROPID_Q_QMID."""
    queue_type: QueueType = QueueType.PUBLIC
    private_queue_number: int = 0

    @classmethod
    def unique_name_of(cls, name: str | bytes) -> str:
        """Both slashes are one."""
        return super().unique_name_of(name).replace("/", "\\")

    @property
    def computer_name(self) -> str:
        """The computer in the path name."""
        return PathName.parse(self.pathname).computer

    @property
    def is_public(self) -> bool:
        """Whether the directory shows the queue."""
        return self.queue_type is QueueType.PUBLIC

    def validate(self) -> None:
        """Path name, and everything that `QueueProperties` limits."""
        super().validate()
        QueueProperties(
            label=self.label,
            type_guid=self.type,
            pathname=self.pathname,
            quota_kib=self.quota,
            journal_quota_kib=self.journal_quota,
            privacy_level=self.privacy_level,
            transactional=self.transactional,
            multicast_address=self.multicast_address or None,
            base_priority=self.base_priority,
        ).validate()
        path = PathName.parse(self.pathname)
        if path != path.parent or path.computer == ".":
            raise IllegalQueuePathname(f"{excerpt(self.pathname)} cannot name a queue object")
        if self.is_public and path.kind is not PathKind.PUBLIC:
            raise IllegalQueuePathname(f"{excerpt(self.pathname)} does not name a public queue")


class Site(DirectoryObject, frozen=True, kw_only=True, tag="Site"):
    """A group of well-connected computers, [MS-MQDMPR] 3.1.1.7."""

    access_masks = rights.SITE
    name_attribute = "name"

    name: str
    primary_site_controller: str = ""
    intra_site_replication_interval: int = 2
    inter_site_replication_interval: int = 10
    full_path: str = ""
    foreign_site: bool = False
    public_signing_key_list: bytes = b""
    migrated_from_msmq10: bool = False
    security: bytes = b""

    def validate(self) -> None:
        """Name, intervals, keys and access masks."""
        super().validate()
        _check_name("a site", self.name)
        _check_number("the interval", self.intra_site_replication_interval, 0, U16_MAX)
        _check_number("the interval", self.inter_site_replication_interval, 0, U16_MAX)
        _check_blob("the signing keys", unpack_provider_keys, self.public_signing_key_list)


class RoutingLink(DirectoryObject, frozen=True, kw_only=True, tag="RoutingLink"):
    """A way between two sites with a cost, [MS-MQDMPR] 3.1.1.8."""

    fixed_attributes = frozenset({"site1_identifier", "site2_identifier"})

    site1_identifier: bytes
    site2_identifier: bytes
    actual_cost: int = ACTUAL_COST_MIN
    description: str = ""
    full_path: str = ""
    site_gate_identifier_list: tuple[bytes, ...] = ()

    @property
    def unique_name(self) -> str:
        """There is one link between two sites, whichever of them is named first."""
        return ",".join(sorted((self.site1_identifier.hex(), self.site2_identifier.hex())))

    def touches(self, site_identifier: bytes) -> bool:
        """Whether the site is one of the two."""
        return site_identifier in (self.site1_identifier, self.site2_identifier)

    def validate(self) -> None:
        """Two different sites, and a cost in its range."""
        super().validate()
        for site in (self.site1_identifier, self.site2_identifier):
            if site == NULL_GUID:
                raise InsufficientProperties("a routing link names two sites")
        if self.site1_identifier == self.site2_identifier:
            raise IllegalPropertyValue("a routing link joins two different sites")
        _check_number("the cost", self.actual_cost, ACTUAL_COST_MIN, ACTUAL_COST_MAX)
        _check_guids("the site gates", self.site_gate_identifier_list)


class Enterprise(DirectoryObject, frozen=True, kw_only=True, tag="Enterprise"):
    """The whole of all sites; there is exactly one, [MS-MQDMPR] 3.1.1.6."""

    access_masks = rights.ENTERPRISE

    name: str = ""
    weakened_security: bool = False
    non_ldap_capable_queue_manager_notification: bool = True
    default_time_to_live: int = DEFAULT_TIME_TO_LIVE_S
    old_directory: bool = True
    security: bytes = b""

    @property
    def unique_name(self) -> str:
        """Every enterprise collides with every other: there is one."""
        return ""

    def validate(self) -> None:
        """The default time in its range, and access masks."""
        super().validate()
        _check_number("the default time to live", self.default_time_to_live, 0, U32_MAX)


class ConnectedNetwork(DirectoryObject, frozen=True, kw_only=True, tag="ConnectedNetwork"):
    """A network of MSMQ 1.0, [MS-MQDMPR] 3.1.1.9; kept, never used for routing."""

    access_masks = rights.CONNECTED_NETWORK
    name_attribute = "name"

    name: str
    security: bytes = b""

    def validate(self) -> None:
        """Name and access masks."""
        super().validate()
        _check_name("a connected network", self.name)


class User(DirectoryObject, frozen=True, kw_only=True, tag="User"):
    """A SID and the certificates that belong to it, [MS-MQDMPR] 3.1.1.15."""

    fixed_attributes = frozenset({"security_identifier"})
    name_attribute = "security_identifier"

    security_identifier: bytes
    certificate_digest_list: tuple[bytes, ...] = ()
    certificates: bytes = b""
    full_path: str = ""
    name: str = ""
    """What people call the user; ours, for lists; the common name in LDAP."""

    def validate(self) -> None:
        """A real SID, and digests that are those of the certificates."""
        super().validate()
        if not is_sid(self.security_identifier):
            raise IllegalPropertyValue("the security identifier of the user is not one")
        if self.name:
            _check_name("a user", self.name)
        _check_blob("the certificates", unpack_user_certificates, self.certificates)
        entries = unpack_user_certificates(self.certificates)
        digests = [certificate_digest(entry.certificate) for entry in entries]
        named = [entry.digest for entry in entries]
        if digests != named or sorted(digests) != sorted(self.certificate_digest_list):
            raise IllegalPropertyValue("digests and certificates of the user do not agree")


class DistributionList(DirectoryObject, frozen=True, kw_only=True, tag="DistributionList"):
    """A list of destinations under one name, [MS-MQMQ] 2.1.5.

    Members are format names of one element each, those of other lists included.
    """

    name_attribute = "name"

    name: str
    members: tuple[str, ...] = ()
    full_path: str = ""

    def validate(self) -> None:
        """Name, and members that can be sent to."""
        super().validate()
        _check_name("a distribution list", self.name)
        _check_number("the number of members", len(self.members), 0, RESOLVED_MAX)
        for member in self.members:
            _check_destination(member, "a member of a list")


class QueueAlias(DirectoryObject, frozen=True, kw_only=True, tag="QueueAlias"):
    """A name of the directory that stands for one queue, of whatever system ([MS-MQDSSM] 2.2).

    It is sent to by `DL=` and its identifier, as a list is, and may be a member of lists.
    """

    name_attribute = "name"

    name: str
    format_name: str
    description: str = ""
    full_path: str = ""

    def validate(self) -> None:
        """Name, and a format name that can be sent to."""
        super().validate()
        _check_name("a queue alias", self.name)
        _check_destination(self.format_name, "what an alias stands for")


AnyObject = (
    QueueManager
    | Queue
    | Site
    | RoutingLink
    | Enterprise
    | ConnectedNetwork
    | User
    | DistributionList
    | QueueAlias
)

KINDS: Final[dict[str, type[DirectoryObject]]] = {
    kind.__name__: kind
    for kind in (
        QueueManager,
        Queue,
        Site,
        RoutingLink,
        Enterprise,
        ConnectedNetwork,
        User,
        DistributionList,
        QueueAlias,
    )
}
"""The subtypes by the names that events carry as iDirectoryObjectType."""


class Entry(msgspec.Struct, frozen=True):
    """An object as it is stored, with the names of the attributes that were written."""

    value: AnyObject
    published: frozenset[str]


_ENCODER = msgspec.msgpack.Encoder(order="sorted")
_DECODER = msgspec.msgpack.Decoder(Entry)


def encode_entry(entry: Entry) -> bytes:
    """The bytes that the store keeps; equal entries have equal bytes."""
    return _ENCODER.encode(entry)


def decode_entry(data: bytes) -> Entry:
    """An entry read back; anything else is damage."""
    try:
        return _DECODER.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise MalformedPacket(f"damaged directory record: {error}") from None


def _check_guids(what: str, guids: Iterable[bytes]) -> None:
    known = list(guids)
    _check_number(f"the number of {what}", len(known), 0, IDENTIFIERS_MAX)
    if len(set(known)) != len(known):
        raise IllegalPropertyValue(f"{what}: an identifier is named twice")


def _check_number(what: str, value: int, lowest: int, highest: int) -> None:
    if not lowest <= value <= highest:
        raise IllegalPropertyValue(f"{what} is {value}; allowed is {lowest} to {highest}")


def _check_name(what: str, name: str) -> None:
    if not 0 < len(name) <= NAME_LENGTH_MAX or not name.isprintable() or name != name.strip():
        raise IllegalPropertyValue(
            f"{excerpt(name)} cannot be the name of {what}",
            f"Use 1 to {NAME_LENGTH_MAX} printable characters.",
        )


def _check_destination(text: str, what: str) -> None:
    name = parse_format_name(text)
    if isinstance(name, MultipleName) or name.suffix in READ_ONLY_SUFFIXES:
        raise IllegalFormatName(f"{excerpt(text)} cannot be {what}")


def _check_computer(name: str) -> None:
    try:
        PathName(name, "q", PathKind.PUBLIC)
    except IllegalQueuePathname as error:
        raise IllegalPropertyValue(error.cause) from None


def _check_blob(what: str, unpack: Callable[[bytes], object], blob: bytes) -> None:
    try:
        unpack(blob)
    except RemoteProtocolError as error:
        raise IllegalPropertyValue(f"{what}: {error}") from None
